"""Craft, Open and Debezium JSON in Spark: our decode() beside a rival that is written properly, in one session.

Craft's rival is plain Python with every trick that helped, in mapInArrow; the JSON formats' rival is Spark's from_json
with the typed schema. The rows are updates with old and new values of the table `wide`.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from tempfile import mkdtemp
from typing import TYPE_CHECKING, Any
from unittest.mock import patch
from zlib import crc32

from benchmarks import rows as made
from benchmarks.craft import changes
from benchmarks.craft_python import PythonDecoder
from benchmarks.figures import Figure, Run
from benchmarks.json_formats import encoded, short
from benchmarks.spark_cases import Case, figures, measure, ratio
from ticdc_bridge.schemas.formats.base import Context, SingleTable
from ticdc_bridge.schemas.formats.craft.encoder import CraftEncoder
from ticdc_bridge.schemas.model.event import Message
from ticdc_bridge.schemas.model.names import quote_name
from ticdc_bridge.schemas.model.options import Options
from ticdc_bridge.schemas.model.spark_types import spark_type
from ticdc_bridge.schemas.model.table import Table, TableVersion
from ticdc_bridge.schemas.model.types import Kind
from ticdc_bridge.spark_jobs.arrow.change_schema import arrow_schema
from ticdc_bridge.spark_jobs.arrow.worker_functions import DecodeBatches
from ticdc_bridge.spark_jobs.runtime.cache import cache_dir

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

ROWS, QUICK_ROWS = 500_000, 40_000
_DISTINCT = 20_000
_FORMATS: Mapping[str, tuple[str, dict[str, Any]]] = {
    "craft": ("craft", {}),
    "open": ("open", {"max_batch_size": 1}),
    "debezium": ("debezium", {"on_lossy": "flag", "debezium_disable_schema": True}),
}
_TARGETS = {"craft": 3.0, "open": 1.5, "debezium": 1.25}
_GOALS = ("debezium",)
"""Formats whose figures also say how near Spark's transport of messages and rows is."""


def run(name: str, run: Run) -> Iterator[Figure]:
    """Decoding one format to columns."""
    from ticdc_bridge.spark_jobs.spark.session import spark_session

    rows = run.rows or (QUICK_ROWS if run.quick else ROWS)
    rows = max(rows // _DISTINCT, 1) * min(rows, _DISTINCT)
    spark = spark_session("benchmarks", master="local[2]", config={"spark.driver.memory": "2g"})
    table, frame = frame_of(spark, name, rows, run)
    rival = "python" if name == "craft" else "from_json"
    cases = [
        Case("read", rows, frame),
        Case("ours", rows, ours(frame, name, table)),
        Case(rival, rows, _RIVALS[name](frame, table)),
    ]
    check(cases[1].frame, cases[2].frame, _PLACES[name], rows)
    if name in _GOALS:
        cases.append(Case("transport", rows, transport(frame, name, table)))
    measure(cases, run)
    yield from figures(f"spark-{name}", cases)
    yield ratio(f"spark-{name}", cases[1], cases[2], _TARGETS[name])
    if name in _GOALS:  # what would be reached if decoding cost nothing
        yield ratio(f"spark-{name}", cases[3], cases[2], None)


def ours(frame: DataFrame, name: str, table: Table) -> DataFrame:
    from ticdc_bridge import decode

    return decode(frame, format=name, ddl=SingleTable(TableVersion(0, table)), table=str(table.id))


def transport(frame: DataFrame, name: str, table: Table) -> DataFrame:
    """What `ours` does without decoding: messages go to the workers, rows that were read before come back."""
    from ticdc_bridge.spark_jobs.spark import decode_plan

    class SameRows(DecodeBatches):
        """The rows of the first batch of each size, for every batch."""

        def __call__(self, batches: Any) -> Iterator[Any]:
            rows: dict[int, Any] = {}
            for batch in batches:
                if batch.num_rows not in rows:
                    rows[batch.num_rows] = next(super().__call__(iter([batch])))
                yield rows[batch.num_rows]

    with patch.object(decode_plan, "DecodeBatches", SameRows):
        return ours(frame, name, table)


def frame_of(spark: SparkSession, name: str, rows: int, run: Run) -> tuple[Table, DataFrame]:
    """Messages with Kafka's columns, in Parquet; 16 rows in a message of Craft, one in others."""
    table, found = changes(min(rows, _DISTINCT))
    target = cache_dir() / "benchmarks" / f"{name}-{rows}-{crc32(Path(__file__).read_bytes()):08x}"
    if not target.exists():
        run.say(f"input: {rows:,} rows of {name}")
        format_, options = _FORMATS[name]
        if name == "craft":
            encoder = CraftEncoder(Context(made.wide().schemas, None, Options()))
            messages = encoder.encode_rows(found, Message(None, None))
        else:
            events = [
                replace(e, format="made", before=short(e.before, table), after=short(e.after, table)) for e in found
            ]
            messages = encoded(format_, options, events, table)
        _write(target, messages, -(-rows // len(found)))
    return table, spark.read.parquet(str(target))


def _write(target: Path, messages: list[Message], times: int) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    target.parent.mkdir(parents=True, exist_ok=True)
    part = Path(mkdtemp(prefix=".part.", dir=target.parent))
    count = len(messages)
    keys, values = (pa.array([getattr(m, n) for m in messages], pa.binary()) for n in ("key", "value"))
    for partition in range(2):
        with pq.ParquetWriter(part / f"partition-{partition}.parquet", made.kafka_schema()) as writer:
            for turn in range(partition, times, 2):
                offsets = pa.array(range(turn * count, (turn + 1) * count), pa.int64())
                time = pa.scalar(1_767_225_600_000_000, pa.timestamp("us", "UTC"))
                same: list[Any] = [pa.scalar("topic"), pa.scalar(partition, pa.int32()), time]
                topic, numbers, times_ = (pa.repeat(value, count) for value in same)
                columns: list[Any] = [keys, values, topic, numbers, offsets, times_]
                writer.write_table(pa.Table.from_arrays(columns, schema=made.kafka_schema()), row_group_size=10_000)
    try:
        part.rename(target)
    except OSError:
        shutil.rmtree(part)


# ---------------------------------------------------------------------------------------------- rivals
def python_craft(frame: DataFrame, table: Table) -> DataFrame:
    """Plain Python, tuned, in Arrow batches → op, commit_ts, before, after."""
    fields = (f"{quote_name(c.name)}:{spark_type(c)}" for c in table.columns if not c.virtual)
    kind = f"struct<{','.join(fields)}>"
    ddl = f"op string, commit_ts bigint, before {kind}, after {kind}"
    schema = arrow_schema(ddl)

    def decode(batches: Any) -> Iterator[Any]:
        import pyarrow as pa

        decoder = PythonDecoder(table)
        for batch in batches:
            found = decoder.decode(batch.column(0).to_pylist())
            arrays = [pa.array(found[n], schema.field(n).type) for n in ("op", "commit_ts")]
            for image in ("before", "after"):
                fields = list(schema.field(image).type)
                arrays.append(
                    pa.StructArray.from_arrays([pa.array(found[image][f.name], f.type) for f in fields], fields=fields)
                )
            yield pa.RecordBatch.from_arrays(arrays, schema=schema)

    return frame.select("value").mapInArrow(decode, ddl)


_JSON = {
    Kind.DATE: "int", Kind.DATETIME: "bigint", Kind.TIMESTAMP: "string", Kind.TIME: "bigint", Kind.BIT: "binary",
    Kind.BINARY: "binary", Kind.YEAR: "int",
}  # fmt: skip


def debezium_json(frame: DataFrame, table: Table) -> DataFrame:
    """from_json of the payload, before and after typed; BIGINT UNSIGNED as the wire's long."""
    from pyspark.sql import functions as F

    fields = ",".join(f"{quote_name(c.name)}:{_json_type(c)}" for c in table.columns)
    row = f"struct<{fields}>"
    source = "struct<commit_ts:bigint,db:string,table:string,ts_ms:bigint>"
    payload = f"payload struct<before:{row},after:{row},op:string,source:{source}>"
    return frame.select("*", F.from_json(F.col("value").cast("string"), payload).alias("found")).drop("key", "value")


def _json_type(column: Any) -> str:
    return _JSON.get(column.type.kind) or ("bigint" if column.type.kind is Kind.INTEGER else spark_type(column))


def open_json(frame: DataFrame, table: Table) -> DataFrame:
    """from_json of key and value, each column as {t, h, f, v}; one row in a message."""
    from pyspark.sql import functions as F

    def kind(column: Any) -> str:
        numbers = (Kind.INTEGER, Kind.FLOAT, Kind.DOUBLE, Kind.YEAR)
        if column.type.kind in numbers:
            return "decimal(20,0)" if column.unsigned and column.type.bits == 64 else spark(column)
        return "bigint" if column.type.kind in (Kind.BIT, Kind.ENUM, Kind.SET) else "string"

    from ticdc_bridge.schemas.model.spark_types import spark_type as spark

    fields = ",".join(f"{quote_name(c.name)}:struct<t:int,h:boolean,f:bigint,v:{kind(c)}>" for c in table.columns)
    key = F.from_json(F.substring("key", 17, 1 << 30).cast("string"), "ts bigint, scm string, tbl string, t int")
    value = F.from_json(F.substring("value", 9, 1 << 30).cast("string"), f"u struct<{fields}>, p struct<{fields}>")
    return frame.select("topic", "partition", "offset", "timestamp", key.alias("head"), value.alias("found"))


_RIVALS: Mapping[str, Any] = {"craft": python_craft, "open": open_json, "debezium": debezium_json}


_PLACES = {"craft": "after", "open": "found.u", "debezium": "found.payload.after"}


def check(mine: DataFrame, theirs: DataFrame, location: str, rows: int) -> None:
    """As many rows out of both as went in; none of ours an error, none of theirs empty. RuntimeError."""
    from pyspark.sql import functions as F

    found = mine.agg(F.count(F.lit(1)), F.count("error"), F.count("after"), F.count("before")).collect()[0]
    if tuple(found) != (rows, 0, rows, rows):
        raise RuntimeError(f"{rows} updates went in, this came out (rows, errors, after, before): {tuple(found)}")
    whole: Column = F.col(location)
    if theirs.agg(F.count(whole)).collect()[0][0] != rows:
        raise RuntimeError("the rival lost rows")
