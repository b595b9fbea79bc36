"""Options of decode, transcode and merge, in Python and by command line."""

from __future__ import annotations

import json
import warnings
from collections import Counter
from functools import reduce
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from pyspark.sql import functions as F

from tests.spark_jobs.lake.test_merge import ENGINES
from tests.spark_jobs.spark.test_temporal_sql import _expected, _frame, _got, _record
from tests.support import connector
from tests.support.golden import Golden
from ticdc_bridge import count_changes, decode, transcode
from ticdc_bridge.cli import main
from ticdc_bridge.schemas.inputs.schema_files import FileSchemas, RegisteredSchema
from ticdc_bridge.schemas.model.errors import SetupError
from ticdc_bridge.schemas.model.event import Message, RowChange
from ticdc_bridge.schemas.model.spark_types import SparkTypes
from ticdc_bridge.schemas.model.table import TableVersion
from ticdc_bridge.spark_jobs.io.message_files import message_line
from ticdc_bridge.spark_jobs.pipeline.message_codec import decode_message
from ticdc_bridge.spark_jobs.pipeline.newest_columns import newest_table
from ticdc_bridge.spark_jobs.pipeline.table_view import TableView

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

WIDE = Golden("avro", "wide.ext1")
ZONE = "Asia/Shanghai"


def _metric(frame: DataFrame, name: str) -> dict[str, int]:
    """An observed metric of a frame that was collected; name: its beginning."""
    found: Any = frame._jdf.queryExecution().observedMetrics()
    names = [n for n in found.keys().mkString("\n").split("\n") if n.startswith(name)]
    row = found.apply(names[0])
    return {row.schema().fieldNames()[n]: row.get(n) for n in range(row.length())}


# ---- defaults of columns that came later
def _versions() -> FileSchemas:
    def schema(*fields: dict[str, Any]) -> str:
        return json.dumps({"type": "record", "name": "t", "namespace": "default.d", "fields": list(fields)})

    def field(name: str, kind: str, default: str | None) -> dict[str, Any]:
        bare = {"type": "string", "connect.parameters": {"tidb_type": kind}}
        if default is None:
            return {"name": name, "type": ["null", bare], "default": None}
        return {"name": name, "type": [bare, "null"], "default": default}

    old = field("v", "TEXT", None)
    new = [old, field("s", "TEXT", "x"), field("ts", "TIMESTAMP", "2024-01-01 00:00:00"), field("d", "DATE", None)]
    return FileSchemas(
        [RegisteredSchema("t-value", 1, 1, schema(old)), RegisteredSchema("t-value", 2, 2, schema(*new))]
    )


@pytest.mark.parametrize("check", ["header", pytest.param("exact", marks=pytest.mark.slow)])
def test_a_row_without_the_column_has_its_default(spark: SparkSession, check: Any) -> None:
    messages = [Message(None, _record(("a",)), "t")]
    common: dict[str, Any] = {"format": "avro", "schemas": _versions(), "table": "d.t", "time_zone": ZONE}
    for missing, want in (("null", ("a", None, None, None)), ("default", ("a", "x", "2024-01-01 08:00:00", None))):
        frame = decode(_frame(spark, messages), **common, check=check, missing=missing)  # type: ignore[arg-type]
        (row,) = frame.collect()
        assert tuple(row["after"]) == want


@pytest.mark.parametrize(
    "golden",
    [
        Golden("avro", "evolution.ext1"),
        pytest.param(Golden("open", "evolution.default"), marks=pytest.mark.slow),
        pytest.param(Golden("debezium-avro", "evolution.str.ext"), marks=pytest.mark.slow),
    ],
    ids=str,
)
def test_defaults_are_the_same_in_every_plan(spark: SparkSession, golden: Golden) -> None:
    image, messages = golden.side(ddl=golden.format != "avro"), golden.messages()
    decoder = image.decoder()
    id_ = next(e.table.id for m in messages for e in decode_message(decoder, m).events if isinstance(e, RowChange))
    frame = decode(
        _frame(spark, messages), format=golden.format, schemas=golden.schemas, ddl=image.tables, table=str(id_),
        time_zone=golden.zone, missing="default",
    )  # fmt: skip
    got = _got(frame)
    assert repr(got) == repr(_expected(image, TableView(newest_table(image, id_), missing="default"), messages))
    assert any(r.get("after") for r in got)


# ---- claim-checks, tombstones, options of the side read
def test_claim_checks_are_fetched(spark: SparkSession) -> None:
    golden = Golden("open", "large.claimcheck")
    folder = str(golden.messages_file.with_suffix(".files"))
    frame = _frame(spark, golden.messages())
    common: dict[str, Any] = {"from_format": "open", "to_format": "open", "ddl": str(golden.meta_file)}
    count: dict[str, int] = {}
    made = {
        "with": decode(frame, format="open", claim_checks=folder), "without": decode(frame, format="open"),
        "written with": transcode(frame, **common, claim_checks=folder).withColumn("kind", F.lit("message")),
        "written without": transcode(frame, **common).withColumn("kind", F.lit("message")),
    }  # fmt: skip
    frames = [frame.select(F.lit(name).alias("of"), "kind", "error.code") for name, frame in made.items()]
    for row in reduce(lambda a, b: a.unionAll(b), frames).collect():
        name = f"{row['of']}: {row['code'] or row['kind']}"
        count[name] = count.get(name, 0) + 1
    assert count["with: row"] == sum(line["kind"] == "row" for line in golden.plain()) > 0
    assert {name for name in count if name.startswith("without: ")} - {"without: CLAIM_CHECK"} <= _KINDS
    assert count["without: CLAIM_CHECK"] == count["written without: CLAIM_CHECK"] > 0
    failed = {name for name in count if name.startswith("written ") and not name.endswith(": message")}
    assert failed == {"written without: CLAIM_CHECK"}


_KINDS = {f"without: {kind}" for kind in ("row", "ddl", "watermark", "bootstrap", "other")}
"""What is no error."""


@pytest.mark.slow
def test_tombstones_are_counted(spark: SparkSession) -> None:
    messages = connector.json_messages("default")
    frame, decoder = _frame(spark, messages).coalesce(1), connector.side().decoder()  # a delete, then its tombstone
    results = [decode_message(decoder, m) for m in messages]
    table = next(e.table for r in results for e in r.events if isinstance(e, RowChange))
    generic = decode(frame, format="debezium-mysql")
    source = connector.ByName({table.id: TableVersion(0, table)})
    typed = decode(frame, format="debezium-mysql", ddl=source, table=str(table.id))
    wanted = sum(r.skipped == ["tombstone"] for r in results)
    for made in (generic, typed):
        assert {r["kind"] for r in made.collect()} == {"row", "ddl"}
        assert _metric(made, "ticdc_bridge_tombstones") == {"rows": wanted, "empty": 0}
        counts = count_changes(made)
        assert counts["skipped.tombstone"] == wanted > 0
        assert counts["messages"] == len(messages)
        changes = [e for r in results for e in r.events if isinstance(e, RowChange)]
        ops = Counter(e.op for e in changes if made is generic or e.table.id == table.id)
        assert {op: counts[f"rows.{op}"] for op in ops} == ops
    absent = decode(frame, format="debezium-mysql", ddl=source, table=str(table.id)).where("op = 'nothing'")
    with warnings.catch_warnings(record=True) as caught:  # pytest.warns would raise what py4j's sockets warn of
        warnings.simplefilter("always", RuntimeWarning)
        count_changes(absent)
    (text,) = [str(entry.message) for entry in caught if entry.category is RuntimeWarning]
    assert text.startswith(f"table {table.id}: no rows in ")
    assert text.endswith(f"tombstone {wanted}")
    with pytest.raises(SetupError, match="have a column row"):
        count_changes(absent.drop("row"))
    assert generic.unionAll(decode(frame, format="debezium-mysql")).count() > 0, "metrics have names of their own"


def test_options_of_the_format_read(spark: SparkSession) -> None:
    """Open Protocol of 2020 wrote VARCHAR in base64."""
    golden = Golden("open", "evolution.default")
    frame = _frame(spark, golden.messages())
    plain = decode(frame, format="open").where("kind = 'row'").select(F.lit("plain").alias("of"), "after")
    base64 = decode(frame, format="open", options={"open_varchar_base64": True}).select(F.lit("base64"), "after")
    found = plain.unionAll(base64).collect()
    first = next(r["after"] for r in found if r["of"] == "plain" and r["after"])
    assert first not in [r["after"] for r in found if r["of"] == "base64"]


# ---- by command line
def _file(golden: Golden) -> str:
    Path("in.jsonl").write_text("".join(json.dumps(message_line(m)) + "\n" for m in golden.messages()))
    return "in.jsonl"


def _table_of(golden: Golden) -> str:
    rows = [e for e in golden.events() if isinstance(e, RowChange)]
    return str(rows[0].table.id)


@pytest.mark.parametrize("types", [pytest.param("exact", marks=pytest.mark.slow), "typed"])
def test_one_table_as_parquet(spark: SparkSession, types: Any) -> None:
    """In this process and in Spark the same file; Spark reads it as what `decode` gives, metadata and all."""
    table, source = _table_of(WIDE), _file(WIDE)
    argv = ["decode", "--format", "avro", "--schemas", str(WIDE.meta_file), "--time-zone", ZONE, "--table", table]
    argv += ["--in", source, "--types", types, "--time", "interval" if types == "typed" else "text"]
    assert main([*argv, "--out", "a.parquet", "--dead-letter", "dead.jsonl"]) == (types == "typed")
    assert main([*argv, "--out", "b.parquet", "--spark"]) == (types == "typed")
    assert Path("a.parquet").read_bytes() == Path("b.parquet").read_bytes()
    kinds = SparkTypes("typed", "interval") if types == "typed" else SparkTypes()
    view = TableView(
        newest_table(WIDE.side(), next(e.table.id for e in WIDE.events() if isinstance(e, RowChange))), kinds
    )
    frame = decode(
        _frame(spark, WIDE.messages()), format="avro", schemas=WIDE.schemas, table=table, time_zone=ZONE,
        types=kinds.types, time=kinds.time,
    )  # fmt: skip
    read = spark.read.parquet(str(Path("a.parquet").absolute()))
    for image in ("before", "after"):
        assert read.schema[image].json() == frame.schema[image].json()
    want = _expected(WIDE.side(), view, WIDE.messages())
    got = [r.asDict(recursive=True) for r in read.collect()]
    assert [(r["op"], r["before"], r["after"]) for r in got if r["kind"] == "row"] == [
        (r["op"], r["before"], r["after"]) for r in want if "error" not in r
    ]
    failed = [r["error"] for r in got if r["kind"] == "error"]
    assert [(e["code"], e["detail"], bytes(e["key"]), bytes(e["value"])) for e in failed] == [
        r["error"] for r in want if "error" in r
    ]
    if types == "typed":
        assert len(Path("dead.jsonl").read_text().splitlines()) == len(failed) > 0


@pytest.mark.slow
def test_one_table_as_delta(spark: SparkSession) -> None:
    """Fields keep their TiDB types; what the types can't hold is a dead letter with its message."""
    table, source = _table_of(WIDE), _file(WIDE)
    argv = ["decode", "--format", "avro", "--schemas", str(WIDE.meta_file), "--time-zone", ZONE, "--table", table]
    argv += ["--in", source, "--out", "delta:wide"]
    assert main([*argv, "--types", "typed"]) == 1
    assert main([*argv, "--types", "typed", "--on-lossy", "flag", "--missing", "default"]) == 0
    assert main([*argv, "--time", "interval"]) == 2
    found = spark.read.format("delta").load(str(Path("wide").absolute()))
    fields = {f.name: f for f in found.schema["after"].dataType.fields}  # type: ignore[attr-defined]
    assert {"date", "timestamp", "timestamp_ntz"} <= {f.dataType.simpleString() for f in fields.values()}
    assert {f.metadata["tidb_type"] for f in fields.values()} >= {"DATE", "DATETIME", "TIMESTAMP", "TIME", "INT"}
    rows = [e for e in WIDE.events() if isinstance(e, RowChange)]
    dead = [json.loads(line) for line in Path("wide.dead.jsonl").read_text().splitlines()]
    first = len(rows) - len(dead)
    assert found.count() == first + len(rows)
    sent = {message_line(m)["value_b64"] for m in WIDE.messages()}
    assert dead
    assert all(d["value_b64"] in sent for d in dead)
    flagged = found.where("exists(flags, f -> f like 'not_typed:%')").count()
    assert flagged == len(dead)


@pytest.mark.slow  # test_merge has the rest
@ENGINES
def test_a_merged_table_with_typed_columns(spark: SparkSession, engine: str) -> None:
    """A zero date stops it before anything is written, or is NULL; a table is not typed one way and then another."""
    argv = ["merge", "--format", "avro", "--schemas", str(WIDE.meta_file), "--time-zone", ZONE, "--table", "test.wide"]
    argv += ["--in", _file(WIDE), "--out", "delta:wide", "--engine", engine, "--types", "typed"]
    assert main(argv) == 2
    assert not Path("wide").exists()
    assert main([*argv, "--on-lossy", "flag"]) == 0
    assert main(argv[:-2]) == 2
    found = spark.read.format("delta").load(str(Path("wide").absolute()))
    kinds = {f.name: (f.dataType.simpleString(), f.metadata.get("comment")) for f in found.schema}
    assert (kinds["c_date"], kinds["c_timestamp"]) == (("date", "DATE"), ("timestamp", "TIMESTAMP"))
    newest = {r.after["id"]: r.after for r in WIDE.events() if isinstance(r, RowChange) and r.after is not None}
    gone = {r.before["id"] for r in WIDE.events() if isinstance(r, RowChange) and r.op == "d" and r.before is not None}
    dates = {str(r["id"]): r["c_date"] and str(r["c_date"]) for r in found.collect()}
    assert dates == {
        id_: None if row["c_date"] == "0000-00-00" else row["c_date"] for id_, row in newest.items() if id_ not in gone
    }
