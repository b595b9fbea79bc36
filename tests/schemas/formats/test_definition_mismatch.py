"""A definition that does not describe a message: the row is read without it and says which column, in every format."""

import json
from dataclasses import replace
from typing import Any

import pytest

from tests.support.each import each
from tests.support.golden import Registry
from tests.support.rows import COMMIT_TS, Pair, Tables, change, column, table
from tests.support.table import check_rows
from ticdc_bridge.schemas.ddl.executor.versions import DdlText, versions
from ticdc_bridge.schemas.ddl.parser.lexer import WIRE
from ticdc_bridge.schemas.formats.base import Context
from ticdc_bridge.schemas.formats.craft.decoder import CraftDecoder
from ticdc_bridge.schemas.formats.craft.encoder import CraftEncoder
from ticdc_bridge.schemas.formats.definitions import name_definition
from ticdc_bridge.schemas.formats.open_protocol.decoder import OpenDecoder
from ticdc_bridge.schemas.formats.open_protocol.encoder import OpenEncoder
from ticdc_bridge.schemas.formats.open_protocol.frame import join_key, join_value
from ticdc_bridge.schemas.inputs.schema_files import FileSchemas
from ticdc_bridge.schemas.inputs.table_definitions import TableDefinitions
from ticdc_bridge.schemas.inspect.explain import ExplainRequest, explain
from ticdc_bridge.schemas.inspect.format_lookup import format_named
from ticdc_bridge.schemas.model.errors import WireError
from ticdc_bridge.schemas.model.event import Event, Message, RowChange
from ticdc_bridge.schemas.model.options import Options
from ticdc_bridge.schemas.model.table import Column, Table, TableId
from ticdc_bridge.schemas.model.types import BY_NAME
from ticdc_bridge.spark_jobs.pipeline.table_view import TableView

SENT = table(column("v", "bigint"), column("state", "varchar", length=20))
ROW = {"v": "7", "state": "paid"}
WRITTEN = ("avro", "craft", "debezium", "debezium-avro", "debezium-mysql", "open", "open-tiflow")
FORMATS = (*WRITTEN, "canal-json", "simple")

# name → (definition, what is said of it; "" where it fits)
DEFINITIONS: dict[str, tuple[Table, str]] = {
    "as it is": (SENT, ""),
    "in other letters": (table(column("V", "bigint"), column("STATE", "varchar", length=20), db="SHOP", name="T"), ""),
    "a column fewer": (table(column("v", "bigint")), "state"),
    "a column more": (table(*SENT.columns[1:], column("w", "int")), ""),
    "another type": (table(column("v", "date"), column("state", "varchar", length=20)), "v"),
    "a text that is a number": (table(column("v", "bigint"), column("state", "int")), "state"),
    "a renamed column": (table(column("v", "bigint"), column("status", "varchar", length=20)), "state"),
}


def _simple() -> Message:
    body: dict[str, Any] = {
        "version": 1, "database": "shop", "table": "t", "tableID": 1, "type": "INSERT", "commitTs": COMMIT_TS,
        "buildTs": 1, "schemaVersion": 9, "data": {"id": "1", **ROW}, "old": None,
    }  # fmt: skip
    return Message(None, json.dumps(body).encode())


def _bootstrap() -> Message:
    kinds = {"id": "int", "v": "bigint", "state": "varchar"}
    columns = [
        {"name": name, "dataType": {"mysqlType": kind, "charset": "utf8mb4", "collate": "utf8mb4_bin", "length": 20},
         "nullable": name != "id", "default": None}
        for name, kind in kinds.items()
    ]  # fmt: skip
    indexes = [{"name": "PRIMARY", "unique": True, "primary": True, "nullable": False, "columns": ["id"]}]
    schema = {
        "schema": "shop", "table": "t", "tableID": 1, "version": 9, "columns": columns, "indexes": indexes,
    }  # fmt: skip
    body = {"version": 1, "type": "BOOTSTRAP", "tableSchema": schema}
    return Message(None, json.dumps(body).encode())


def canal_message() -> Message:
    body: dict[str, Any] = {
        "id": 0, "database": "shop", "table": "t", "pkNames": ["id"], "isDdl": False, "type": "INSERT",
        "es": 1_764_000_000_000, "ts": 1, "sql": "", "sqlType": {"id": 4, "v": -5, "state": 12},
        "mysqlType": {"id": "int", "v": "bigint", "state": "varchar"}, "data": [{"id": "1", **ROW}], "old": None,
        "_tidb": {"commitTs": COMMIT_TS},
    }  # fmt: skip
    return Message(None, json.dumps(body).encode())


def _messages(format_: str) -> tuple[list[Message], Registry]:
    if format_ == "canal-json":
        return [canal_message()], Registry()
    if format_ == "simple":
        return [_bootstrap(), _simple()], Registry()
    pair = Pair(format_, enable_tidb_extension=True, avro_include_before_value=format_ == "avro")
    return [pair.write(change(SENT, ROW))], pair.registry


def _read(format_: str, definition: Table, **options: Any) -> RowChange:
    messages, registry = _messages(format_)
    decoder = format_named(format_).decoder(Context(registry, Tables(definition), Options.of(options)))
    events: list[Event] = [event for message in messages for event in decoder.decode(message)]
    assert isinstance(events[-1], RowChange)
    return events[-1]


@each(("format_", "name"), [(f, n) for f in FORMATS for n in DEFINITIONS])
def test_a_definition_is_used_where_it_describes_the_message(format_: str, name: str) -> None:
    definition, wrong = DEFINITIONS[name]
    row = _read(format_, definition)
    assert (row.after or {})["state"] == "paid"
    assert (row.after or {})["v"] == "7"
    if not wrong:
        assert (row.mismatch, row.table_version) == (None, 1)
        assert (row.db, row.table_name) == ("shop", "t")
        return
    assert row.mismatch is not None
    assert wrong in [entry.name for entry in row.mismatch.columns]
    assert f"definition_mismatch:{wrong}" in row.flags
    assert f"table shop.t: column {wrong} " in str(row.mismatch)


@each("format_", FORMATS)
def test_a_strict_definition_refuses_the_message(format_: str) -> None:
    with pytest.raises(WireError) as caught:
        _read(format_, DEFINITIONS["a column fewer"][0], definition_mismatch="error")
    assert (caught.value.code, "column state (" in caught.value.detail) == ("DEFINITION_MISMATCH", True)


@each("format_", FORMATS)
def test_a_definition_with_another_key_is_not_the_rows(format_: str) -> None:
    """Its types may fit: merge by its key would make one row of several. A connector's key is whatever it was told."""
    definition = table(replace(SENT.columns[1], nullable=False, handle_key=True, primary_key=True), SENT.columns[2])
    row = _read(format_, definition)
    assert (row.key, (row.after or {})["state"]) == (("id",), "paid")
    view = TableView(Table(row.table.id, ()))  # merge's
    if format_ == "debezium-mysql":
        assert row.mismatch is None
        return view.apply(row, Tables(definition))
    assert "column v is no key column in the message, a key column in the definition" in str(row.mismatch)
    assert (row.flags, row.table_version) == (["definition_mismatch:v"], None)
    with pytest.raises(WireError, match="merge knows rows by their key") as refused:
        view.apply(row, Tables(definition))
    assert refused.value.code == "DEFINITION_MISMATCH"
    keyless = _read(format_, replace(SENT, columns=tuple(replace(c, handle_key=False) for c in SENT.columns)))
    assert (keyless.key, keyless.table.handle_key, keyless.flags) == (("id",), ("id",), [])


def _mismatch(sent: Column, own: Column, format_: str) -> str:
    pair = Pair(format_, Tables(table(own)), enable_tidb_extension=True)
    event = pair.through(change(table(sent), {sent.name: _VALUES[sent.type.name]}))
    return str(event.mismatch or "")


_VALUES: dict[str, str | bytes] = {
    "int": "1", "bigint": "1", "datetime": "2024-01-02 03:04:05", "decimal": "1.50", "enum": "a", "bit": b"\x01",
    "varchar": "x", "blob": b"x", "date": "2024-01-02",
}  # fmt: skip


def _enum(*elements: str) -> Column:
    return column("v", "enum", elements=elements)


# What each format can see, and therefore says.
@each(("format_", "sent", "own", "text"), [
    ("avro", column("v", "bigint"), column("v", "bigint", unsigned=True), "bigint in the message, bigint unsigned"),
    ("avro", column("v", "decimal", length=10, scale=2), column("v", "decimal", length=10, scale=4), "decimal(10,2)"),
    ("avro", column("v", "datetime", scale=0), column("v", "date"), "datetime in the message, date in"),
    ("avro", _enum("a", "b"), _enum("a", "c"), "enum('a','b') in the message, enum('a','c')"),
    ("avro", column("v", "bit", length=1), column("v", "bit", length=9), "bit(1) in the message, bit(9)"),
    ("avro", column("v", "varchar", length=9), column("v", "blob"), "text in the message, blob"),
    ("debezium", column("v", "datetime", scale=0), column("v", "datetime", scale=6), "Timestamp in the message"),
    ("debezium", column("v", "bigint"), column("v", "datetime", scale=6), "int64 in the message, date"),
    ("debezium-avro", column("v", "decimal", length=10, scale=2), column("v", "decimal", length=10, scale=4), "Decima"),
    ("debezium-mysql", column("v", "date"), column("v", "int"), "io.debezium.time.Date in the message, int in"),
    ("open", column("v", "int"), column("v", "int", unsigned=True), "int in the message, int unsigned"),
    ("open", column("v", "varchar", length=9), column("v", "varbinary", length=9), "varchar in the message, varbinary"),
    ("craft", column("v", "int"), column("v", "bigint"), "int in the message, bigint in"),
    ("craft", column("v", "int"), column("v", "int", unsigned=True), "int in the message, int unsigned"),
])  # fmt: skip
def test_both_types_are_named(format_: str, sent: Column, own: Column, text: str) -> None:
    assert text in _mismatch(sent, own, format_)


def test_explain_and_refusals_say_why_the_definition_was_not_used() -> None:
    context = Context(Registry(), Tables(DEFINITIONS["a column fewer"][0]), Options.of({}))
    report = explain(ExplainRequest(canal_message(), "canal-json", context, Options.of({})))
    [event] = report["events"]
    assert event["types_from"].startswith(
        "the message; the definition is not used: table shop.t: column state (varchar"
    )
    refused = WireError("TYPE_UNKNOWN", column="state", details="give a table definition (--ddl)")
    row = _read("canal-json", DEFINITIONS["a column fewer"][0])
    assert "column state (varchar in the message) is not in the definition" in name_definition(refused, row).detail
    assert name_definition(refused, None) is refused


_SHORTER = table(column("e", "enum", elements=("x",)))


@each("format_", WRITTEN)
def test_a_column_that_the_row_lacks_names_its_table(format_: str) -> None:
    event = change(table(column("v", "int"), column("w", "int", nullable=False)), {"v": "1"}, table_version=1)
    refused = name_definition(Pair(format_).refusal(event), event)
    assert refused.detail == "column w: the event does not carry it, by the definition of table shop.t"


@each("format_", ["canal-json", "craft", "open", "open-tiflow"])
def test_an_element_that_a_definition_lacks_names_its_table(format_: str) -> None:
    if format_ == "canal-json":
        body = json.loads(canal_message().value or b"")
        more = {"sqlType": {"id": 4, "e": 4}, "mysqlType": {"id": "int", "e": "enum"}, "data": [{"id": "1", "e": "2"}]}
        message = Message(None, json.dumps({**body, **more}).encode())
    else:
        message = Pair(format_).write(change(table(column("e", "enum", elements=("x", "y"))), {"e": "y"}))
    decoder = format_named(format_).decoder(Context(Registry(), Tables(_SHORTER), Options.of({})))
    with pytest.raises(WireError, match=r"shop\.t") as failed:
        decoder.decode(message)
    assert failed.value.code == "MALFORMED"


# ---- Type code 6, NULL: the documents of TiCDC list it, and old producers send it. Such a column is NULL, nothing
# else.

_KEY = b'{"ts":462413824000000001,"scm":"shop","tbl":"orders","t":1}'
_TABLES = TableDefinitions(
    versions([DdlText(1, "shop", "CREATE TABLE orders (id INT PRIMARY KEY, note DECIMAL(5,2))", WIRE)])
)
_CONTEXTS = (Context(FileSchemas([])), Context(FileSchemas([]), _TABLES))


def _open(note: dict[str, Any], image: str = "u") -> Message:
    row = {image: {"id": {"t": 3, "h": True, "f": 11, "v": 1}, "note": note}}
    return Message(join_key([_KEY]), join_value([json.dumps(row, separators=(",", ":")).encode()]))


def test_open_protocol() -> None:
    def check(row: tuple[Context, int, bool, str]) -> None:
        context, code, flagged, image = row
        message = _open({"t": code, **({"f": 64} if flagged else {}), "v": None}, image)
        [event] = OpenDecoder(context).decode(message)
        assert isinstance(event, RowChange)
        assert (event.after or event.before) == {"id": "1", "note": None}
        assert event.flags == []
        assert (event.table_version is None) is (context.tables is None)
        with pytest.raises(WireError, match="the type code says NULL"):
            OpenDecoder(context).decode(_open({"t": code, "f": 64, "v": "a"}, image))
        with pytest.raises(WireError, match="the type code says NULL"):
            OpenDecoder(context).decode(_open({"t": code, "f": 64, "v": 0}, image))

    rows = [(c, code, f, image) for c in _CONTEXTS for code in (0, 6, 255) for f in (True, False) for image in "ud"]
    check_rows(rows, check)


def test_open_protocol_written_again_with_a_definition() -> None:
    message = _open({"t": 6, "f": 64, "v": None})
    [event] = OpenDecoder(_CONTEXTS[1]).decode(message)
    [again] = OpenEncoder(_CONTEXTS[1]).encode(event, Message(None, None))
    assert (again.key, again.value) == (message.key, message.value)


def test_craft() -> None:
    """Craft's codec reads it with a definition as without."""
    table = Table(
        TableId("shop", "orders"),
        (Column("id", BY_NAME["int"], handle_key=True, primary_key=True), Column("note", BY_NAME["text"])),
    )  # fmt: skip
    row = RowChange("craft", table, "c", 462413824000000001, None, {"id": "1", "note": None}, ("id",), "UTC")
    for code in (0, 6, 255):
        coded = replace(row, extra={"types": {"note": [code, 64]}})
        [message] = CraftEncoder(replace(_CONTEXTS[0], options=Options())).encode(coded, Message(None, None))
        for context in _CONTEXTS:
            [event] = CraftDecoder(context).decode(message)
            assert isinstance(event, RowChange)
            assert event.after == {"id": "1", "note": None}
            assert (event.table_version is None) is (context.tables is None)
