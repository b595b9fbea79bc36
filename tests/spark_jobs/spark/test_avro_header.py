"""`check="header"`: rows as Spark reads them, rows built anew, and defaults for what a version lacks."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from io import BytesIO
from typing import TYPE_CHECKING, Any, Literal

import fastavro
import pytest

from ticdc_bridge import decode
from ticdc_bridge.schemas.formats.avro import schema as publish
from ticdc_bridge.schemas.formats.base import Context
from ticdc_bridge.schemas.formats.framing import frame
from ticdc_bridge.schemas.inputs.schema_files import FileSchemas, RegisteredSchema
from ticdc_bridge.schemas.inspect import format_lookup
from ticdc_bridge.schemas.model.event import Message, Row, RowChange
from ticdc_bridge.schemas.model.options import Options
from ticdc_bridge.schemas.model.table import Column, Table, TableId
from ticdc_bridge.schemas.model.types import BY_NAME
from ticdc_bridge.spark_jobs.spark.frames import kafka_columns

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

OPTIONS = Options.of({"enable_tidb_extension": True})
ID = Column("id", BY_NAME["bigint"], nullable=False, primary_key=True, handle_key=True)
NAME = Column("name", BY_NAME["varchar"])
NEW = Column("state", BY_NAME["varchar"], has_default=True, default="new")
WIDE = Column("big", BY_NAME["bigint"], unsigned=True)


@pytest.mark.parametrize(
    ("last", "missing"),
    [
        pytest.param((NEW,), "null", id="as-read-null"), pytest.param((NEW, WIDE), "default", id="built-anew-default"),
        pytest.param((NEW,), "default", id="as-read-default", marks=pytest.mark.slow),
        pytest.param((NEW, WIDE), "null", id="built-anew-null", marks=pytest.mark.slow),
    ],
)  # fmt: skip
def test_header_gives_the_rows(
    spark: SparkSession, last: tuple[Column, ...], missing: Literal["null", "default"]
) -> None:
    old, new = (Table(TableId("d", "t"), columns) for columns in ((ID, NAME), (ID, NAME, *last)))
    key = publish.key_schema(old, OPTIONS)
    assert key is not None
    texts = [("t-key", 1, key)] + [
        ("t-value", n + 1, publish.value_schema(t, OPTIONS)) for n, t in enumerate((old, new))
    ]
    entries = [RegisteredSchema(s, version, 11 + n, text) for n, (s, version, text) in enumerate(texts)]
    entries.append(
        RegisteredSchema("t-value", 3, 20, texts[1][2].replace('"VARCHAR"', '"STRANGE"').replace("TEXT", "STRANGE"))
    )
    schemas = FileSchemas(entries)
    encoder = format_lookup.format_named("avro").encoder(Context(schemas, options=OPTIONS))
    whole: Row = {"id": "2", "name": None, "state": None, "big": str(2**64 - 1)}
    changes: list[tuple[Table, Row | None, Row | None]] = [
        (old, None, {"id": "1", "name": "a"}),
        (new, None, {c.name: whole[c.name] for c in new.columns}),
        (new, {"id": "3"}, None),
    ]
    rows: list[tuple[bytes | None, bytes | None]] = []
    for table, before, after in changes:
        event = RowChange("avro", table, "c" if after else "d", 5 << 18, before, after, ("id",), "UTC")
        (message,) = encoder.encode(event, Message(None, None, "t"))
        rows.append((message.key, message.value))
    rows.append((rows[0][0], (rows[0][1] or b"")[:8]))  # cut short
    rows.append((rows[0][0], frame(20, b"\0")))
    rows.append((rows[0][0], frame(21, b"\0")))
    given = spark.createDataFrame(rows, "key binary, value binary")
    found = decode(given, format="avro", schemas=schemas, table="d.t", check="header", missing=missing).collect()
    assert [r.kind for r in found] == ["row", "row", "row", "error", "error", "error"]
    assert [r.error.code for r in found[3:]] == ["TRUNCATED", "UNSUPPORTED_SCHEMA", "UNKNOWN_SCHEMA_ID"]
    assert found[4].error.detail.startswith("t-value version 3: schema id 20: ")
    assert [(r.op, r.commit_ts, r.schema_id, r.key, r.flags) for r in found[:3]] == [
        ("c", 5 << 18, 12, ["id"], []), ("c", 5 << 18, 13, ["id"], []), ("d", None, 11, ["id"], []),
    ]  # fmt: skip
    added = [c.name for c in last]
    default = {"state": "new"} if missing == "default" else {}
    assert found[0].after.asDict() == {"id": 1, "name": "a", **dict.fromkeys(added), **default}
    assert found[1].after.asDict() == {
        "id": 2,
        "name": None,
        "state": None,
        **({"big": 2**64 - 1} if WIDE in last else {}),
    }
    assert found[2].before.asDict() == {"id": 3, "name": None, **dict.fromkeys(added)}
    assert [(r.before, r.after) for r in found[:2]] == [(None, r.after) for r in found[:2]]
    assert (found[2].after, found[3].before, found[3].after) == (None, None, None)


def test_a_timestamp_that_is_none_is_null(spark: SparkSession) -> None:
    """Kafka's -1, the last millisecond of 1969 to Spark."""
    values = "values (-1L), (0L), (5L) t(ms)"
    given = spark.sql(f"select timestamp_millis(ms) timestamp, binary('k') key, binary('v') value from {values}")
    found = kafka_columns(given).selectExpr("unix_millis(timestamp) ms").collect()
    assert [row.ms for row in found] == [None, 0, 5]


@pytest.fixture
def compiled(spark: SparkSession) -> Iterator[None]:
    """Stages are compiled, also where the session interprets expressions."""
    names = ("spark.sql.codegen.wholeStage", "spark.sql.codegen.factoryMode")
    before = [spark.conf.get(name) or "" for name in names]
    for name, value in zip(names, ("true", "FALLBACK"), strict=True):
        spark.conf.set(name, value)
    yield
    for name, value in zip(names, before, strict=True):
        spark.conf.set(name, value)


@pytest.mark.usefixtures("compiled")
def test_of_a_wide_table_hotspot_can_compile_every_method(
    spark: SparkSession, capsys: pytest.CaptureFixture[str]
) -> None:
    columns = (ID, WIDE, *(Column(f"c{n}", BY_NAME["varchar"]) for n in range(36)))
    tables = [Table(TableId("d", "t"), columns[:n]) for n in range(19, 39)]
    texts = [("t-value", n + 1, publish.value_schema(t, OPTIONS)) for n, t in enumerate(tables)]
    schemas = FileSchemas([RegisteredSchema(s, version, 10 + version, text) for s, version, text in texts])
    messages = spark.range(1).selectExpr("CAST(NULL AS BINARY) AS key", "CAST(id AS STRING)::BINARY AS value")
    decode(messages, format="avro", schemas=schemas, table="d.t", check="header").explain("codegen")
    sizes = [int(n) for n in re.findall(r"maxMethodCodeSize:(\d+)", capsys.readouterr().out)]
    assert sizes
    assert max(sizes) <= 8_000


def test_a_message_with_the_header_of_glue_is_an_error(spark: SparkSession) -> None:
    id_ = "11111111-2222-3333-4444-555555555555"
    text = publish.value_schema(Table(TableId("d", "t"), (ID,)), OPTIONS)
    given = spark.createDataFrame([(None, frame(id_, b"\2"))], "key binary, value binary")
    schemas = FileSchemas([RegisteredSchema("t-value", 1, id_, text)])
    (found,) = decode(given, format="avro", schemas=schemas, table="d.t", check="header").collect()
    assert (found.kind, found.error.code) == ("error", "NOT_FRAMED")


@pytest.mark.parametrize("kind", ["string", ["null", "string"]], ids=["as-ticdc", "nullable"])
def test_ops(spark: SparkSession, kind: str | list[str]) -> None:
    """The three that TiCDC writes, none, and one that it does not write."""
    document = json.loads(publish.value_schema(Table(TableId("d", "t"), (ID,)), OPTIONS))
    (op,) = (f for f in document["fields"] if f["name"] == "_tidb_op")
    op["type"] = kind
    schemas = FileSchemas([RegisteredSchema("t-value", 1, 7, json.dumps(document))])
    ops = ["c", "u", "d", "x", "cc", *([None] if isinstance(kind, list) else [""])]
    rows = []
    for number, name in enumerate(ops):
        out = BytesIO()
        record = {"id": number, "_tidb_op": name, "_tidb_commit_ts": 5 << 18, "_tidb_commit_physical_time": 5}
        fastavro.schemaless_writer(out, fastavro.parse_schema(document), record)
        rows.append((None, frame(7, out.getvalue())))
    given = spark.createDataFrame(rows, "key binary, value binary")
    found = decode(given, format="avro", schemas=schemas, table="d.t", check="header").collect()
    assert [r.op for r in found[:3]] == ["c", "u", "d"]
    assert [r.error.code for r in found[3:5]] == ["MALFORMED"] * 2
    if isinstance(kind, list):
        assert (found[5].kind, found[5].op, found[5].flags) == ("row", "c", ["op_unknown"])
    else:
        assert found[5].error.code == "MALFORMED"
    assert [(r.before, r.after) for r in found[:3]] == [(None, (0,)), (None, (1,)), ((2,), None)]


@pytest.mark.parametrize("how", ["header", "exact", "without a table"])
def test_the_record_of_a_value_is_no_key(spark: SparkSession, how: str) -> None:
    """A producer that swapped key and value: what is beside the row would be taken for columns of the key."""
    table = Table(TableId("d", "t"), (ID, NAME))
    key = publish.key_schema(table, OPTIONS)
    assert key is not None
    schemas = FileSchemas(
        [
            RegisteredSchema("t-key", 1, 11, key),
            RegisteredSchema("t-value", 1, 12, publish.value_schema(table, OPTIONS)),
        ]
    )
    encoder = format_lookup.format_named("avro").encoder(Context(schemas, options=OPTIONS))
    event = RowChange("avro", table, "c", 5 << 18, None, {"id": "1", "name": "a"}, ("id",), "UTC")
    (made,) = encoder.encode(event, Message(None, None, "t"))
    rows = [(made.key, made.value), (made.key, None), (made.value, None), (made.value, made.value)]
    given = spark.createDataFrame(rows, "key binary, value binary")
    if how == "without a table":
        found = decode(given, format="avro", schemas=schemas).collect()
    else:
        check: Any = how
        found = decode(given, format="avro", schemas=schemas, table="d.t", check=check).collect()
    assert [r.op for r in found] == ["c", "d", None, None]
    assert [r.error.code for r in found[2:]] == ["MALFORMED"] * 2
    if how != "header":
        beside = "_tidb_op, _tidb_commit_ts, _tidb_commit_physical_time"
        assert {r.error.detail for r in found[2:]} == {f"key: schema id 12 is that of a value: it has {beside}"}
