"""Temporal columns as Spark's own types: whatever plan reads them, the values are those of the in-process decoder."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import UTC, date, datetime, timedelta
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

from tests.support.golden import Golden
from tests.support.rows import Pair, change, column, table
from tests.support.table import check_rows
from ticdc_bridge import decode
from ticdc_bridge.schemas.ddl.executor.versions import DdlText, versions
from ticdc_bridge.schemas.ddl.parser.lexer import TYPED as AS_TYPED
from ticdc_bridge.schemas.inputs.schema_files import FileSchemas, RegisteredSchema
from ticdc_bridge.schemas.inputs.table_definitions import TableDefinitions
from ticdc_bridge.schemas.model.errors import SetupError, WireError
from ticdc_bridge.schemas.model.event import Message, RowChange
from ticdc_bridge.schemas.model.options import Options
from ticdc_bridge.schemas.model.spark_types import SparkTypes
from ticdc_bridge.schemas.model.table import Column, TableId
from ticdc_bridge.schemas.model.types import Kind
from ticdc_bridge.spark_jobs.pipeline.arguments import hints_in_python
from ticdc_bridge.spark_jobs.pipeline.codec_config import CodecConfig
from ticdc_bridge.spark_jobs.pipeline.message_codec import decode_message
from ticdc_bridge.spark_jobs.pipeline.newest_columns import newest_table
from ticdc_bridge.spark_jobs.pipeline.table_view import TableView

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

TYPED = SparkTypes("typed", "interval")


def _frame(spark: SparkSession, messages: list[Message]) -> DataFrame:
    rows = [(m.key, m.value, m.topic, n) for n, m in enumerate(messages)]
    return spark.createDataFrame(rows, "key binary, value binary, topic string, offset bigint")


def _local(value: Any, column: Column | None = None) -> Any:
    """As pyspark collects it: a timestamp in this process's zone, without saying so; a float as the float32 it is."""
    if column is not None and column.type.kind is Kind.FLOAT and value is not None:
        return pa.array([value], pa.float32())[0].as_py()
    return value.astimezone().replace(tzinfo=None) if isinstance(value, datetime) and value.tzinfo else value


def _expected(config: CodecConfig, view: TableView, messages: list[Message]) -> list[dict[str, Any]]:
    """What the in-process decoder and the view make of the messages, a row each as `_got` shows them."""
    decoder, out = replace(config, view=view).decoder(), []
    columns = [c for c in view.table.columns if not c.virtual]
    for number, message in enumerate(messages):
        with hints_in_python("decode"):
            result = decode_message(decoder, message)
        if result.error is not None:
            error_text = (result.error.code, result.error.detail, message.key, message.value)
            out.append({"offset": number, "row": 0, "error": error_text})
        for row, event in enumerate(result.events):
            if isinstance(event, RowChange) and event.table.id == view.table.id:
                made: dict[str, Any] = {"offset": number, "row": row, "op": event.op, "flags": event.flags}
                for piece, values in (("before", event.before), ("after", event.after)):
                    found = view.row(values, event.zone)
                    made[piece] = None if found is None else {c.name: _local(found.get(c.name), c) for c in columns}
                out.append(made)
    return out


def _got(frame: DataFrame) -> list[dict[str, Any]]:
    out = []
    for row in (r.asDict(recursive=True) for r in frame.where("kind in ('row', 'error')").collect()):
        head = {"offset": row["source"]["offset"], "row": row["row"]}
        if row["error"] is not None:
            rest = [v for k, v in row.items() if k not in ("kind", "row", "source", "error")]
            assert rest == [None] * len(rest), "an error row has nothing else"
            error = row["error"]
            key, value = (None if error[k] is None else bytes(error[k]) for k in ("key", "value"))
            out.append({**head, "error": (error["code"], error["detail"], key, value)})
        else:
            out.append({**head, **{k: row[k] for k in ("op", "flags", "before", "after")}})
    return sorted(out, key=lambda r: (r["offset"], r["row"]))


_DEFAULT = (("avro", "error"), ("open", "flag"))
"""The others are slow."""
_CASES: dict[str, tuple[Golden, bool]] = {
    "avro": (Golden("avro", "wide.before.ext1"), False),
    "avro with definitions": (Golden("avro", "wide.ext1"), True),
    "open": (Golden("open", "wide.build_at_end"), True),
    "open, rows by themselves": (Golden("open", "wide.default"), True),
    "craft": (Golden("craft", "wide.default"), True),
    "debezium": (Golden("debezium", "wide.ext.schema"), True),
    "debezium-avro": (Golden("debezium-avro", "wide.str.ext"), True),
}


@pytest.mark.parametrize(
    ("name", "on_lossy"),
    [
        *(pytest.param(*entry) for entry in _DEFAULT),
        *(
            pytest.param(name, on_lossy, marks=pytest.mark.slow)
            for on_lossy, names in (("error", [*_CASES]), ("flag", ["avro", "open", "debezium-avro"]))
            for name in names
            if (name, on_lossy) not in _DEFAULT
        ),
    ],
)
def test_every_plan_gives_the_same_typed_rows(spark: SparkSession, name: str, on_lossy: Any) -> None:
    golden, ddl = _CASES[name]
    image, messages = golden.side(ddl), golden.messages()
    decoder = image.decoder()
    rows = [e for m in messages for e in decode_message(decoder, m).events if isinstance(e, RowChange)]
    id_ = next(e.table.id for e in rows if any(c.type.name == "datetime" for c in e.table.columns))
    frame = decode(
        _frame(spark, messages), format=golden.format, schemas=golden.schemas, ddl=image.tables, table=str(id_),
        time_zone=golden.zone, types="typed", time="interval", on_lossy=on_lossy,
    )  # fmt: skip
    image = replace(image, options=Options.of({"time_zone": golden.zone, "on_lossy": on_lossy}))
    view = TableView(newest_table(image, id_), TYPED, "null", on_lossy)
    want = _expected(image, view, messages)
    got = _got(frame)
    assert repr(got) == repr(want)  # NaN is not NaN
    values = [v for r in got for p in ("before", "after") for v in (r.get(p) or {}).values()]
    if golden.name != "wide.build_at_end" or on_lossy == "flag":  # there one bad row fails the batch with the others
        assert {date, datetime, timedelta} <= {type(v) for v in values}
    fields = {f.name: f for f in frame.schema["after"].dataType.fields}  # type: ignore[attr-defined]
    kinds = {f.dataType.simpleString() for f in fields.values()}
    assert {"date", "timestamp", "timestamp_ntz", "interval day to second"} <= kinds
    assert all(f.metadata["tidb_type"] for f in fields.values())


# ---- what the definitions do not have
_MADE = table(column("a", "int"), column("b", "int"))
_KNOWN = TableDefinitions(
    versions([DdlText(t, "shop", q, AS_TYPED) for t, q in (
        (10, "CREATE TABLE t (id INT PRIMARY KEY, gone INT, b INT)"),
        (20, "ALTER TABLE t DROP COLUMN gone"), (30, "ALTER TABLE t DROP COLUMN b, ADD COLUMN a INT"),
    )], None)
)  # fmt: skip


def strange(format_: str) -> tuple[CodecConfig, list[Message]]:
    """Messages of shop.t: with a column of no definition, as defined, before a column was dropped, before all."""
    pair = Pair(format_, enable_tidb_extension=True)
    events = [change(_MADE, {"a": "1", "b": "2"}), change(table(column("a", "int")), {"a": "3"})]
    events.append(change(table(column("b", "int")), {"b": "5"}, commit_ts=25))
    events.append(change(_MADE, {"a": "7", "b": "8"}, commit_ts=9))  # what it was then nobody knows
    messages = [pair.write(event) for event in events]
    made = [(subject, text) for subject, texts in pair.registry.subjects.items() for text in texts]
    entries = [RegisteredSchema(subject, 1, pair.registry.id_of(subject, text), text) for subject, text in made]
    return CodecConfig(format_, FileSchemas(entries), Options.of({}), _KNOWN), messages


@pytest.mark.parametrize(
    "format_", ["avro", "open", *(pytest.param(f, marks=pytest.mark.slow) for f in ("craft", "debezium"))]
)  # test_cell_changes has all four, without Spark
def test_a_column_of_no_definition_is_refused(spark: SparkSession, format_: str) -> None:
    """A definition is given, and the row says otherwise: b is not one of the columns that were dropped then."""
    image, messages = strange(format_)
    view = TableView(newest_table(image, TableId("shop", "t")))
    want = _expected(image, view, messages)
    frame = decode(_frame(spark, messages), format=format_, schemas=image.schemas, ddl=_KNOWN, table="shop.t")
    assert _got(frame) == want
    codes = [row["error"][0] if "error" in row else None for row in want]
    assert codes == ["MALFORMED", None, None, None if format_ in ("avro", "craft") else codes[3]]
    assert "'b'" in want[0]["error"][1]
    for row, expected in zip(want[1:3], ({"id": 1, "a": 3}, {"id": 1, "a": None}), strict=True):
        assert row["after"] == expected


def test_a_debezium_events_key_is_its_messages(spark: SparkSession) -> None:
    pair = Pair("debezium")
    message = pair.write(change(table(column("a", "int")), {"a": "3"}))
    frame = _frame(spark, [message, replace(message, key=None)])
    found = decode(frame, format="debezium", ddl=_KNOWN, table="shop.t").orderBy("source.offset").select("key")
    assert [row["key"] for row in found.collect()] == [["id"], []]


# ---- values made for it: TIMESTAMP where clocks are set, zero and partial dates
_COLUMNS = {"d": "DATE", "dt": "DATETIME", "ts": "TIMESTAMP", "t": "TIME"}
_SCHEMA = {
    "type": "record", "name": "t", "namespace": "default.d",
    "fields": [
        {"name": name, "type": ["null", {"type": "string", "connect.parameters": {"tidb_type": kind}}], "default": None}
        for name, kind in _COLUMNS.items()
    ],
}  # fmt: skip
_SCHEMAS = FileSchemas([RegisteredSchema("t-value", 1, 1, json.dumps(_SCHEMA))])
_VALUES = [
    ("2024-02-29", "9999-12-31 23:59:59.999999", "2024-01-02 03:04:05.6", "-838:59:59.000001"),
    ("0001-01-01", "1000-01-01 00:00:00", "2024-11-03 01:30:00", "00:00:00"),  # the hour that New York had twice
    ("2024-12-31", "2024-12-31 00:00:00", "2024-03-10 02:30:00", "100:00:00"),  # the hour that it never had
    ("0000-00-00", None, None, None),
    ("2023-02-30", None, None, None),
    ("2024-1-2", None, None, None),
    (None, "2024-00-15 00:00:00", None, None),
    (None, "0000-01-01 00:00:00", None, None),
    (None, "2024-01-01 24:00:00", None, None),
    (None, None, "0000-00-00 00:00:00", None),
    (None, None, "0001-01-01 00:00:00", None),
    (None, None, None, "1:00:00"),
    (None, None, None, "00:60:00"),
    ("2024-01-01\n", None, None, None),
    (None, None, None, None),
]


def _record(row: tuple[str | None, ...]) -> bytes:
    out = b"\0\0\0\0\1"
    for text in row:
        data = (text or "").encode()
        out += b"\0" if text is None else b"\2" + bytes([len(data) * 2]) + data
    return out


@pytest.mark.parametrize("on_lossy", ["error", "flag"])
def test_what_a_type_can_not_hold_is_reported(spark: SparkSession, on_lossy: Any) -> None:
    messages = [Message(None, _record(row), "t") for row in _VALUES]
    frame = decode(
        _frame(spark, messages), format="avro", schemas=_SCHEMAS, table="d.t", time_zone="America/New_York",
        types="typed", time="interval", on_lossy=on_lossy,
    )  # fmt: skip
    config = CodecConfig("avro", _SCHEMAS, Golden("avro", "wide.ext1").options(time_zone="America/New_York"))
    view = TableView(newest_table(config, TableId("d", "t")), TYPED, "null", on_lossy)
    got = _got(frame)
    assert repr(got) == repr(_expected(config, view, messages))
    if on_lossy == "error":
        assert ["error" in r for r in got] == [n >= 2 for n in range(14)] + [False]
        assert got[3]["error"][:2] == (
            "INVALID_VALUE", "column d: 0000-00-00 is no value of Spark's date",
        )  # fmt: skip
    else:
        assert [r["flags"] for r in got[1:4]] == [
            ["op_unknown", "timestamp_fold:ts"], ["op_unknown", "not_typed:ts"], ["op_unknown", "not_typed:d"],
        ]  # fmt: skip
        assert got[1]["after"]["ts"] == _local(datetime(2024, 11, 3, 5, 30, tzinfo=UTC))
        assert got[0]["after"]["t"] == -timedelta(hours=838, minutes=59, seconds=59, microseconds=1)


def test_types_go_with_a_table(spark: SparkSession) -> None:
    frame = _frame(spark, [])
    with pytest.raises(SetupError, match="go with table="):
        decode(frame, format="avro", schemas=_SCHEMAS, types="typed")
    with pytest.raises(SetupError, match="choose exact or typed"):
        decode(frame, format="avro", schemas=_SCHEMAS, table="d.t", types="other")  # type: ignore[arg-type]


_NUMBERS: list[tuple[str, str, str, str | None]] = [
    ("decimal(38,10)", "decimal(38,10)", "9" * 28 + ".0123456789", "9" * 28 + ".0123456789"),
    ("decimal(38,0)", "decimal(38,0)", "-" + "9" * 38, "-" + "9" * 38),
    ("decimal(30,5)", "decimal(30,4)", "1.00001", None), ("float", "double", "0.1", "0.10000000149011612"),
    ("double", "float", "0.1", "0.1"), ("double", "float", "1e+300", None), ("double", "float", "0.123456789", None),
    ("bigint", "double", "9007199254740993", None), ("varchar(9)", "int", "1_0", None),
    ("varchar(9)", "int", "007", None), ("varchar(9)", "decimal(5,1)", "1_0", None),
]  # fmt: skip


def test_numbers_of_older_versions() -> None:
    """What the newest column holds, and as what; None: the row is an error, not another number."""
    check_rows(_NUMBERS, lambda row: _check_number(*row))


def _check_number(old: str, new: str, text: str, expected: str | None) -> None:
    tables = [
        TableDefinitions(
            versions([DdlText(1, "d", f"CREATE TABLE t (id int primary key, v {kind})", AS_TYPED)], None)
        ).at(TableId("d", "t"), None)
        for kind in (old, new)
    ]
    before, after = (found.table for found in tables if found is not None)
    event = RowChange("open", before, "c", 2, None, {"id": "1", "v": text}, ("id",), "UTC")
    if expected is None:
        with pytest.raises(WireError, match="column v"):
            TableView(after).apply(event)
        return
    TableView(after).apply(event)
    assert (event.after or {})["v"] == expected
