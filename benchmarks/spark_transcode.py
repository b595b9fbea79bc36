"""Avro → Debezium JSON and Debezium JSON → Avro in Spark: our transcode() beside what one would write with Spark alone.

Results are compared before anything is timed: those of the rivals, and ours, hold the same rows.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator, Mapping
from datetime import UTC, date, datetime
from typing import TYPE_CHECKING, Any

from benchmarks import rows as made
from benchmarks import spark_formats
from benchmarks.figures import Figure, Run
from benchmarks.rows import PARTITIONS, Source
from benchmarks.spark_avro import bare_from_avro
from benchmarks.spark_cases import Case, figures, measure, ratio
from benchmarks.spark_input import DISTINCT, frame_of
from ticdc_bridge.schemas.formats.avro import schema as publish
from ticdc_bridge.schemas.formats.base import SingleTable
from ticdc_bridge.schemas.inputs.schema_files import FileSchemas, RegisteredSchema
from ticdc_bridge.schemas.model.names import quote_name
from ticdc_bridge.schemas.model.table import Table, TableVersion
from ticdc_bridge.schemas.model.types import Kind

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

ROWS, QUICK_ROWS = 500_000, 50_000
_FEWER = 8  # fastavro takes so many times fewer rows
_SAMPLE = 200
OPTIONS = {"on_lossy": "flag", "debezium_disable_schema": True}
_TARGET_BARE, _TARGET_FASTAVRO, _TARGET_JSON = 0.8, 3.0, 1.2


def avro_debezium(run: Run) -> Iterator[Figure]:
    """Avro → Debezium JSON with the full envelope."""
    spark, rows, source = _spark(), _rows(run), made.wide()
    run.say(f"input: {rows:,} messages of {source.name}")
    whole = frame_of(spark, [source], rows)
    entry, few = frame_of(spark, [source.only_newest()], rows), frame_of(spark, [source], rows // _FEWER)
    cases = [
        Case("read", rows, whole),
        Case("ours", rows, to_debezium(whole, source.schemas)),
        Case("from_avro-to_json", rows, _row_as_json(entry, source)),
        Case("fastavro-orjson", rows // _FEWER, fastavro_debezium(few, source)),
    ]
    run.say("comparing the results")
    _check_debezium(cases, source)
    measure(cases, run)
    yield from figures("spark-avro-debezium", cases)
    yield ratio("spark-avro-debezium", cases[1], cases[2], _TARGET_BARE)
    yield ratio("spark-avro-debezium", cases[1], cases[3], _TARGET_FASTAVRO)


def debezium_avro(run: Run) -> Iterator[Figure]:
    """Debezium JSON → Avro."""
    spark, rows = _spark(), _rows(run)
    table, frame = spark_formats.frame_of(spark, "debezium", rows, run)
    schemas = registered(table)
    cases = [
        Case("read", rows, frame),
        Case("ours", rows, to_avro(frame, table, schemas)),
        Case("from_json-to_avro", rows, _json_as_avro(frame, table)),
    ]
    run.say("comparing the results")
    _check_avro(spark, cases, table, schemas)
    measure(cases, run)
    yield from figures("spark-debezium-avro", cases)
    yield ratio("spark-debezium-avro", cases[1], cases[2], _TARGET_JSON)


def _spark() -> SparkSession:
    from ticdc_bridge.spark_jobs.spark.session import spark_session

    return spark_session("benchmarks", master="local[2]", config={"spark.driver.memory": "2g"})


def _rows(run: Run) -> int:
    rows = run.rows or (QUICK_ROWS if run.quick else ROWS)
    return -(-rows // DISTINCT) * DISTINCT if rows > DISTINCT else rows


# ---------------------------------------------------------------------------------------------- ours
def to_debezium(frame: DataFrame, schemas: FileSchemas) -> DataFrame:
    from ticdc_bridge import transcode

    return transcode(frame, from_format="avro", to_format="debezium", schemas=schemas, options=OPTIONS)


def to_avro(frame: DataFrame, table: Table, schemas: FileSchemas) -> DataFrame:
    from ticdc_bridge import transcode

    return transcode(
        frame, from_format="debezium", to_format="avro", to_schemas=schemas, ddl=SingleTable(TableVersion(0, table)),
        options={"enable_tidb_extension": True, "on_lossy": "flag"},
    )  # fmt: skip


def registered(table: Table, **options: Any) -> FileSchemas:
    """The table's schemas as TiCDC registers them."""
    from ticdc_bridge.schemas.model.options import Options

    chosen = Options.of({"enable_tidb_extension": True, **options})
    key, value = publish.key_schema(table, chosen), publish.value_schema(table, chosen)
    assert key is not None
    return FileSchemas([RegisteredSchema("topic-key", 1, 1, key), RegisteredSchema("topic-value", 1, 2, value)])


# ---------------------------------------------------------------------------------------------- rivals
def _row_as_json(frame: DataFrame, source: Source) -> DataFrame:
    """The row alone, as Spark writes it: no envelope, no key, one schema id, dates and bytes as they come."""
    from pyspark.sql import functions as F

    return frame.select("key", "topic", "partition", F.to_json(bare_from_avro(source)).cast("binary").alias("value"))


def _json_as_avro(frame: DataFrame, table: Table) -> DataFrame:
    """payload.after, op and commit_ts by from_json, then to_avro and five bytes of header; no key, wire types kept."""
    from pyspark.sql import functions as F
    from pyspark.sql.avro import functions as avro

    fields = ",".join(f"{quote_name(c.name)}:{spark_formats._json_type(c)}" for c in table.columns)
    text = F.col("value").cast("string")
    payload = F.from_json(text, f"payload struct<after:struct<{fields}>,op:string,source:struct<commit_ts:bigint>>")
    found = frame.select("key", "topic", "partition", payload["payload"].alias("p"))
    extension = (F.col("p.op").alias("_tidb_op"), F.col("p.source.commit_ts").alias("_tidb_commit_ts"))
    row = F.when(F.col("p").isNotNull(), F.struct("p.after.*", *extension))
    return found.select(
        "key", "topic", "partition", F.concat(F.lit(bytes((0, 0, 0, 0, 2))), avro.to_avro(row)).alias("value")
    )


def fastavro_debezium(frame: DataFrame, source: Source) -> DataFrame:
    """The whole envelope by fastavro and orjson in mapInArrow: key, value, topic, partition."""
    texts = {e.id: e.schema for e in source.schemas.all() if isinstance(e.id, int)}
    convert = {c.name: _DEBEZIUM[c.type.kind] for v in source.versions for c in v.columns if c.type.kind in _DEBEZIUM}
    names = [c.name for c in source.versions[-1].columns]
    made_ = EnvelopeMaker(texts, convert, names, (source.id.db, source.id.table))

    def batches(found: Any) -> Iterator[Any]:
        import pyarrow as pa

        for batch in found:
            keys, values = batch.column(0).to_pylist(), batch.column(1).to_pylist()
            out = [made_(key, value) for key, value in zip(keys, values, strict=True)]
            columns = [pa.array([entry[n] for entry in out], pa.binary()) for n in (0, 1)]
            yield pa.RecordBatch.from_arrays(
                [*columns, batch.column(2), batch.column(3)], names=["key", "value", "topic", "partition"]
            )

    ddl = "key binary, value binary, topic string, partition int"
    return frame.select("key", "value", "topic", "partition").mapInArrow(batches, ddl)


class EnvelopeMaker:
    """(key, value) in Avro → (key, value) in Debezium JSON without schema. Schemas are parsed once in a worker."""

    def __init__(
        self, texts: Mapping[int, str], convert: Mapping[str, Any], names: list[str], table: tuple[str, str]
    ) -> None:
        self._texts, self._convert, self._names, self._table = dict(texts), dict(convert), names, table
        self._parsed: dict[int, Any] = {}

    def __call__(self, key: bytes, value: bytes | None) -> tuple[bytes, bytes]:
        import orjson

        id_, time = self._read(key), 0
        row = {} if value is None else self._read(value)
        op, commit_ts = row.pop("_tidb_op", "d"), row.pop("_tidb_commit_ts", 0)
        time = row.pop("_tidb_commit_physical_time", 0)
        for name, change in self._convert.items():
            if row.get(name) is not None:
                row[name] = change(row[name])
        source = {
            "version": "2.4.0.Final", "connector": "TiCDC", "name": "default", "ts_ms": time, "snapshot": "false",
            "db": self._table[0], "table": self._table[1], "server_id": 0, "gtid": None, "file": "", "pos": 0, "row": 0,
            "thread": 0, "query": None, "commit_ts": commit_ts, "cluster_id": "default",
        }  # fmt: skip
        before = dict.fromkeys(self._names) | id_ if value is None else None
        envelope = {"source": source, "ts_ms": time, "transaction": None, "op": op}
        envelope |= {"before": before, "after": None if value is None else row}
        return orjson.dumps({"payload": id_}), orjson.dumps({"payload": envelope})

    def _read(self, data: bytes) -> dict[str, Any]:
        from io import BytesIO

        from fastavro import schemaless_reader

        id_ = int.from_bytes(data[1:5], "big")
        schema = self._parsed.get(id_) or self._parse(id_)
        body = BytesIO(data)
        body.seek(5)
        return schemaless_reader(body, schema, None)  # type: ignore[return-value]

    def _parse(self, id_: int) -> Any:
        from fastavro import parse_schema

        parsed = self._parsed[id_] = parse_schema(json.loads(self._texts[id_]))
        return parsed


_EPOCH, _DAY_ONE = datetime(1970, 1, 1, tzinfo=UTC), date(1970, 1, 1)


def _days(text: str) -> int:
    return (date.fromisoformat(text) - _DAY_ONE).days


def _millis(text: str) -> int:
    return round((datetime.fromisoformat(text).replace(tzinfo=UTC) - _EPOCH).total_seconds() * 1000)


def _zoned(text: str) -> str:
    return text.replace(" ", "T") + "Z"


def _base64(data: bytes) -> str:
    return base64.b64encode(data).decode()


def _bits(data: bytes) -> str:
    return base64.b64encode(data[::-1]).decode()  # Debezium's order of bytes


# The wire's values as TiCDC's Debezium has them; BIGINT UNSIGNED stays the signed long that it is.
_DEBEZIUM = {
    Kind.DATE: _days, Kind.DATETIME: _millis, Kind.TIMESTAMP: _zoned, Kind.BINARY: _base64, Kind.BIT: _bits,
    Kind.DECIMAL: float,
}  # fmt: skip


# ---------------------------------------------------------------------------------------------- checks
def _sample(frame: DataFrame) -> list[Any]:
    return frame.limit(_SAMPLE).collect()


def _check_debezium(cases: list[Case], source: Source) -> None:
    """As many messages as went in, none with an error, and the same envelopes as the rival's, value by value."""
    from pyspark.sql import functions as F

    ours, bare, rival = cases[1:]
    _counted(ours)
    wanted = list(made.changes(source, range(0, _SAMPLE * PARTITIONS, PARTITIONS)))
    mine, theirs = (
        [json.loads(r["value"])["payload"] for r in _sample(c.frame.where(F.col("partition") == 0))]
        for c in (ours, rival)
    )
    for number, (event, entry, other) in enumerate(zip(wanted, mine, theirs, strict=False)):
        for name in ("op", "before", "after"):
            if not _alike(entry.get(name), other.get(name)):
                raise RuntimeError(f"row {number}: ours has {name}={entry.get(name)}, fastavro {other.get(name)}")
        if entry["op"] != event.op or (event.op != "d" and entry["source"]["commit_ts"] != event.commit_ts):
            raise RuntimeError(f"row {number} of ours is {entry}, the generator made {event}")
    rows = [r["value"] for r in _sample(bare.frame)]
    if not any(rows) or any("id" not in json.loads(r) for r in rows if r is not None):
        raise RuntimeError(f"from_avro and to_json gave {rows[:2]}")


def _alike(left: Any, other: Any) -> bool:
    if isinstance(left, dict) and isinstance(other, dict):
        return all(_alike(left.get(n), other.get(n)) for n in left.keys() | other.keys())
    if isinstance(left, float) or isinstance(other, float):  # FLOAT and DECIMAL as doubles: other digits, one number
        return left is not None and other is not None and abs(left - other) <= 1e-6 * max(abs(left), 1)
    return bool(left == other)


def _check_avro(spark: SparkSession, cases: list[Case], table: Table, schemas: FileSchemas) -> None:
    """What ours wrote reads as the rows that went in; the rival wrote as many records, with the same first column."""
    from pyspark.sql import functions as F

    from ticdc_bridge import decode

    ours, rival = cases[1:]
    _counted(ours)
    head = spark.createDataFrame(_sample(ours.frame.select("key", "value")), "key binary, value binary")
    back = decode(head, format="avro", schemas=schemas, table=str(table.id))
    existing = spark_formats.ours(cases[0].frame.limit(_SAMPLE), "debezium", table)
    mine, wanted = ({r["after"]["id"]: r["after"] for r in f.select("after").collect()} for f in (back, existing))
    if mine != wanted:
        different = next(n for n in wanted if mine.get(n) != wanted[n])
        raise RuntimeError(f"ours reads as {mine.get(different)}, {wanted[different]} went in")
    if rival.frame.where(F.length("value") > 5).count() != rival.rows:
        raise RuntimeError("the rival lost rows")


def _counted(case: Case) -> None:
    from pyspark.sql import functions as F

    found = case.frame.agg(F.count(F.lit(1)), F.count("error"), F.first("error", ignorenulls=True)).collect()[0]
    if tuple(found)[:2] != (case.rows, 0):
        raise RuntimeError(f"{case.rows} messages went in, this came out (messages, errors, the first): {tuple(found)}")
