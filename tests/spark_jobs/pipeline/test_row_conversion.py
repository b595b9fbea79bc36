"""Rows in one table's typed columns: older ones become what TiDB made of them, and what has no type is refused."""

from dataclasses import replace
from typing import Any

import pyarrow as pa
import pytest

from tests.support.each import each
from tests.support.rows import Pair, change
from ticdc_bridge.schemas.ddl.executor.versions import DdlText, versions
from ticdc_bridge.schemas.ddl.parser.lexer import SHOW, TYPED
from ticdc_bridge.schemas.formats.avro.schema import value_schema
from ticdc_bridge.schemas.formats.avro.values import compile_record
from ticdc_bridge.schemas.inputs.schema_files import FileSchemas, RegisteredSchema
from ticdc_bridge.schemas.inputs.table_definitions import TableDefinitions
from ticdc_bridge.schemas.model.errors import WireError
from ticdc_bridge.schemas.model.event import Message
from ticdc_bridge.schemas.model.options import Options
from ticdc_bridge.schemas.model.spark_types import SparkTypes, struct
from ticdc_bridge.schemas.model.table import Column, DefinitionMismatch, Table, TableId, Value
from ticdc_bridge.schemas.model.types import BY_NAME
from ticdc_bridge.spark_jobs.arrow.arrow_types import arrow_type_of
from ticdc_bridge.spark_jobs.arrow.change_schema import change_schema
from ticdc_bridge.spark_jobs.arrow.worker_functions import DecodeBatches
from ticdc_bridge.spark_jobs.pipeline.codec_config import CodecConfig
from ticdc_bridge.spark_jobs.pipeline.newest_columns import newest_table
from ticdc_bridge.spark_jobs.pipeline.row_conversion import RowConversion
from ticdc_bridge.spark_jobs.pipeline.table_view import TableView

ID = TableId("shop", "t")
OLD, NEW = 100, 200


def _definitions(old: str, new: str, name: str = "v") -> TableDefinitions:
    statements = [
        DdlText(1, "shop", f"CREATE TABLE t (id INT PRIMARY KEY, v {old})", TYPED),
        DdlText(150, "shop", f"ALTER TABLE t CHANGE v {name} {new}", TYPED),
    ]
    return TableDefinitions(versions(statements))


def _table(tables: TableDefinitions, commit_ts: int | None) -> Table:
    version = tables.at(ID, commit_ts)
    assert version is not None
    return version.table


# the type before, after, a value before; after; None: an error that names the column
OLDER: list[tuple[str, str, Value, Value]] = [
    ("date", "datetime", "2024-01-02", "2024-01-02 00:00:00"),
    ("date", "datetime(3)", "2024-01-02", "2024-01-02 00:00:00.000"),
    ("datetime", "date", "2024-01-02 03:04:05", "2024-01-02"),
    ("datetime", "datetime(3)", "2024-01-02 03:04:05", "2024-01-02 03:04:05.000"),
    ("datetime(3)", "datetime", "2024-01-02 03:04:05.678", "2024-01-02 03:04:06"),
    ("timestamp", "datetime", "2024-01-02 03:04:05", None), ("time(3)", "time", "-01:02:03.500", "-01:02:04"),
    ("int", "bigint", "7", "7"), ("int", "varchar(9)", "7", "7"), ("int", "year", "2024", "2024"),
    ("int", "year", "19724", None), ("varchar(9)", "int", "007", "7"), ("varchar(9)", "int", "x", None),
    ("varchar(20)", "date", "2024-01-02", "2024-01-02"), ("varchar(20)", "date", "19724", None),
    ("varchar(9)", "varbinary(9)", "é", "é".encode()), ("varbinary(9)", "varchar(9)", b"abc", "abc"),
    ("decimal(10,2)", "decimal(10,1)", "1.25", "1.3"), ("decimal(10,2)", "int", "1.50", "2"),
    ("decimal(10,2)", "decimal(12,4)", "1.50", "1.5000"), ("float", "double", "0.1", "0.10000000149011612"),
    ("double", "float", "1e+300", None), ("enum('a','b')", "enum('b','a')", "a", "a"),
    ("enum('a','b')", "enum('b')", "a", None), ("enum('a','b')", "varchar(9)", "a", "a"),
    ("set('a','b')", "set('b','a')", "a,b", "b,a"), ("json", "varchar(99)", "{}", None),
    ("bit(4)", "bit(12)", b"\x05", b"\x00\x05"),
]  # fmt: skip


@each(("old", "new", "value", "expected"), OLDER)
def test_an_older_row_becomes_what_tidb_made_of_it(old: str, new: str, value: Value, expected: Value) -> None:
    tables = _definitions(old, new)
    view = TableView(_table(tables, None))
    event = change(_table(tables, OLD), {"v": value}, {"v": value}, commit_ts=OLD, table_version=1)
    if expected is None:
        with pytest.raises(WireError, match=r"^column v: "):
            view.apply(event, tables)
        flagged = replace(event, flags=[])
        replace(view, on_lossy="flag").apply(flagged, tables)
        if flagged.flags:
            assert (flagged.flags, (flagged.after or {})["v"]) == (["not_typed:v"], None)
        return
    view.apply(event, tables)
    assert (event.before, event.after) == ({"id": "1", "v": expected},) * 2
    assert event.flags == []
    newer = change(_table(tables, NEW), {"v": expected}, commit_ts=NEW, table_version=150)
    view.apply(newer, tables)
    assert newer.after == {"id": "1", "v": expected}


# Statements after CREATE TABLE t (id, a, b), and what an older row (1, x, y) is in the newest columns.
RENAMED: list[tuple[tuple[str, ...], dict[str, Value]]] = [
    (("ALTER TABLE t RENAME COLUMN a TO c",), {"id": "1", "c": "x", "b": "y"}),
    (("ALTER TABLE t CHANGE a c varchar(20) FIRST", "ALTER TABLE t DROP b"), {"id": "1", "c": "x"}),
    (("ALTER TABLE t RENAME COLUMN a TO b, RENAME COLUMN b TO a",), {"id": "1", "b": "x", "a": "y"}),
    (("ALTER TABLE t DROP COLUMN b", "ALTER TABLE t ADD COLUMN b varchar(9)"), {"id": "1", "a": "x"}),
    (("ALTER TABLE t DROP COLUMN b", "ALTER TABLE t RENAME COLUMN a TO b"), {"id": "1", "b": "x"}),
    (("ALTER TABLE t RENAME COLUMN a TO c", "ALTER TABLE t ADD COLUMN a int"), {"id": "1", "c": "x", "b": "y"}),
    (("ALTER TABLE t RENAME COLUMN id TO no", "ALTER TABLE t RENAME COLUMN a TO A2"), {"no": "1", "A2": "x", "b": "y"}),
    (("RENAME TABLE t TO u", "ALTER TABLE u RENAME COLUMN a TO c", "RENAME TABLE u TO t"),
     {"id": "1", "c": "x", "b": "y"}),
    (("DROP TABLE t", "CREATE TABLE t (id INT PRIMARY KEY, b varchar(9))"), {"id": "1", "b": "y"}),
]  # fmt: skip


@each(("later", "expected"), RENAMED)
def test_a_columns_value_follows_its_name(later: tuple[str, ...], expected: dict[str, Value]) -> None:
    created = "CREATE TABLE t (id INT PRIMARY KEY, a varchar(9), b varchar(9))"
    statements = [DdlText(1, "shop", created, TYPED)]
    statements += [DdlText(150 + n, "shop", text, TYPED) for n, text in enumerate(later)]
    tables = TableDefinitions(versions(statements))
    view = TableView(_table(tables, None))
    event = change(_table(tables, OLD), {"a": "x", "b": "y"}, {"a": "x", "b": "y"}, commit_ts=OLD, table_version=1)
    view.apply(event, tables)
    named = view.table.by_name
    assert [{k: v for k, v in row.items() if k in named} for row in (event.before, event.after) if row] == [
        expected
    ] * 2
    assert event.key == ("no",) if "no" in expected else ("id",)


# The columns that SHOW CREATE TABLE has one version after the other, from (id, a, b) on, and what the first version's
# row (1, x, y) is in the newest; a text: the column of the error. `-`: the statement instead.
SHOWN: list[tuple[tuple[str, ...], dict[str, Value] | str]] = [
    (("id a",), {"id": "1", "a": "x"}), (("id a b c",), {"id": "1", "a": "x", "b": "y"}),
    (("id B a",), {"id": "1", "a": "x", "B": "y"}), (("id a c",), "b"), (("id c d",), "a"), (("no a b",), "id"),
    (("id a c", "id a d"), "b"), (("id a c", "id a d", "id a d e"), "b"), (("id a c", "id a c", "id a c"), "b"),
    (("id a c", "id a"), {"id": "1", "a": "x"}), (("id a", "id a c"), {"id": "1", "a": "x"}),
    (("id a", "id a b"), {"id": "1", "a": "x"}), (("id a", "id a b", "id a c"), {"id": "1", "a": "x"}),
    (("id a b c", "id a b d"), {"id": "1", "a": "x", "b": "y"}),
    (("id a b g", "id a b c"), {"id": "1", "a": "x", "b": "y"}),
    (("-ALTER TABLE t RENAME COLUMN b TO c",), {"id": "1", "a": "x", "c": "y"}),
    (("-ALTER TABLE t RENAME COLUMN b TO c", "id a c d"), {"id": "1", "a": "x", "c": "y"}),
    (("id a", "-ALTER TABLE t RENAME COLUMN a TO b"), {"id": "1", "b": "x"}),
    (("id a c", "-ALTER TABLE t RENAME COLUMN c TO d"), "b"), (("-DROP TABLE t", "id b c"), {"id": "1", "b": "y"}),
]  # fmt: skip


def _shown(names: str, of: str = "t") -> str:
    key, *more = names.split()
    kinds = [f"`{n}` varchar(9)" + (" AS (concat(`a`)) VIRTUAL" if n == "g" else "") for n in more]
    return f"CREATE TABLE `{of}` ({', '.join([f'`{key}` int NOT NULL', *kinds])}, PRIMARY KEY (`{key}`))"


@each(("later", "expected"), SHOWN)
def test_by_show_create_table_alone_no_value_changes_its_column(
    later: tuple[str, ...], expected: dict[str, Value] | str
) -> None:
    statements = [DdlText(1, "shop", _shown("id a b"), SHOW)]
    for n, text in enumerate(later):
        typed = text.startswith("-")
        statements.append(DdlText(150 + n, "shop", text[1:] if typed else _shown(text), TYPED if typed else SHOW))
    tables = TableDefinitions(versions(statements))
    view = TableView(_table(tables, None))
    event = change(_table(tables, OLD), {"a": "x", "b": "y"}, {"a": "x", "b": "y"}, commit_ts=OLD, table_version=1)
    conversion = view.conversion_of(event.table, older=True, tables=tables)
    if isinstance(expected, str):
        assert conversion.renames  # the kernels leave it
        with pytest.raises(WireError, match=rf"^column {expected}: it was renamed to .*--history") as caught:
            view.apply(event, tables)
        assert caught.value.code == "TYPE_UNKNOWN"
        return
    view.apply(event, tables)
    assert event.after is not None
    assert event.before == event.after
    assert {k: v for k, v in event.after.items() if k in view.table.by_name} == expected


# Likewise the columns of a subject's versions, no two of which are the same.
REGISTERED: list[tuple[tuple[str, ...], dict[str, Value] | str]] = [
    *(row for row in SHOWN if not {"-", "g"} & {*"".join(row[0])} and len({"id a b", *row[0]}) > len(row[0])),
    (("id a", "id a b:int"), "b"),  # which the first version's row may have as well
    (("id a c", "id a b:int"), "b"),
]


@each(("later", "expected"), REGISTERED)
def test_by_registered_schemas_alone_no_value_changes_its_column(
    later: tuple[str, ...], expected: dict[str, Value] | str
) -> None:
    subject, schemas, tables = "shop.t-value", list[RegisteredSchema](), list[Table]()
    for n, names in enumerate(("id a b", *later), 1):
        kinds = [f"{name} {kind or 'varchar(9)'}" for name, _, kind in (c.partition(":") for c in names.split()[1:])]
        key = names.split()[0]
        statement = f"CREATE TABLE t ({', '.join([f'{key} INT PRIMARY KEY', *kinds])})"
        [version] = versions([DdlText(n, "shop", statement, TYPED)])
        tables.append(version.table)
        schemas.append(RegisteredSchema(subject, n, n, value_schema(version.table, Options.of({}))))
    view = TableView(newest_table(CodecConfig("avro", FileSchemas(schemas), Options.of({})), ID))
    record = compile_record(schemas[0].schema, "").columns
    event = change(Table(ID, tuple(replace(c, handle_key=c.name == "id") for c in record)), {"a": "x", "b": "y"})
    if isinstance(expected, str):
        assert view.conversion_of(event.table, older=True).renames
        with pytest.raises(WireError, match=rf"^column {expected}: it was (renamed to|dropped and added) .*--history"):
            view.apply(event)
        return
    view.apply(event)
    assert event.after is not None
    assert {k: v for k, v in event.after.items() if k in view.table.by_name} == expected
    deleted = change(Table(ID, event.table.columns[:1]), None, {}, key_only=True)
    view.apply(deleted)
    assert deleted.before == {"id": "1"}


# The types of two registered schemas, a value of the first; what it is in the second's; None: an error.
BY_SCHEMAS_ALONE: list[tuple[str, str, Value, Value]] = [
    ("decimal(12,3)", "decimal(10,2)", "1.125", None), ("decimal(12,3)", "decimal(10,2)", "2.500", "2.50"),
    ("decimal(10,2)", "int", "1.50", None), ("date", "datetime(3)", "2024-01-02", "2024-01-02 00:00:00.000"),
    ("datetime", "date", "2024-01-02 03:04:05", None), ("time(3)", "time", "-01:02:03.500", None),
    ("float", "double", "0.1", "0.10000000149011612"), ("varchar(9)", "int", "007", None),
    ("varchar(9)", "int", "7", "7"), ("enum('a','b')", "varchar(9)", "a", "a"),
]  # fmt: skip


@each(("old", "new", "value", "expected"), BY_SCHEMAS_ALONE)
def test_by_schemas_alone_no_digit_changes(old: str, new: str, value: Value, expected: Value) -> None:
    """A table that has its former type again uses the former schema: its rows are new, not old."""
    tables = _definitions(old, new)
    event = change(_table(tables, OLD), {"v": value})
    view = TableView(_table(tables, None))
    if expected is None:
        with pytest.raises(WireError, match=r"^column v: .*give definitions"):
            view.apply(event)
        return
    view.apply(event)
    assert event.after == {"id": "1", "v": expected}


def _vague(kind: str, name: str = "v") -> Column:
    return Column(name, BY_NAME[kind], vague="anything else")


# What a message has of a column that its definition calls otherwise, or that it does not type; the definition's type.
NOT_OF_THE_TYPE: list[tuple[Column, str, Value, bool]] = [
    (_vague("int"), "date", "19724", False), (_vague("bigint"), "datetime(3)", "1704164645678", False),
    (_vague("bigint"), "time", "11045000000", False), (_vague("bigint"), "timestamp", "1704164645", False),
    (_vague("int"), "year", "19724", False), (_vague("int"), "year", "2024", True),
    (_vague("text"), "decimal(10,2)", "AfQ=", False), (_vague("text"), "decimal(10,2)", "5.00", True),
    (_vague("text"), "varbinary(9)", "AQI=", False), (_vague("text"), "date", "2024-01-02", True),
    (_vague("text"), "datetime", "2024-01-02T03:04:05Z", False), (_vague("enum"), "enum('new','paid')", "2", False),
    (_vague("set"), "set('new','paid')", "3", False), (_vague("bigint"), "bit(1)", "1", False),
    (_vague("bigint"), "bigint", "7", True), (_vague("bigint"), "int unsigned", "-1", False),
    (_vague("int"), "varchar(20)", "7", True),
    (Column("v", BY_NAME["datetime"], scale=0), "date", "2024-01-02 03:04:05", False),
    (Column("v", BY_NAME["timestamp"], scale=0), "datetime", "2024-01-02 03:04:05", False),
    (Column("v", BY_NAME["int"]), "bigint", "7", True), (Column("v", BY_NAME["blob"]), "varchar(20)", b"x", False),
]  # fmt: skip


@each(("sent", "own", "value", "fits"), NOT_OF_THE_TYPE)
def test_what_is_not_of_the_type_is_refused(sent: Column, own: str, value: Value, fits: bool) -> None:
    """The row may be newer than the definition: nothing is converted."""
    tables = _definitions(own, own)
    view = TableView(_table(tables, None))
    described = Table(ID, (_table(tables, None).columns[0], sent))
    mismatch = DefinitionMismatch(ID, 1, ())
    event = change(described, {"v": value}, commit_ts=NEW, mismatch=mismatch)
    if fits:
        view.apply(event, tables)
        assert event.after == {"id": "1", "v": value}
        return
    with pytest.raises(WireError, match=r"^column v: ") as caught:
        view.apply(event, tables)
    assert caught.value.code == "INVALID_VALUE"
    event = change(described, {"v": value}, commit_ts=NEW, mismatch=mismatch)
    replace(view, on_lossy="flag").apply(event, tables)
    assert (event.after, event.flags) == ({"id": "1", "v": None}, ["not_typed:v"])


def test_names_are_those_of_the_newest_definition() -> None:
    tables = _definitions("int", "int", "V")
    view = TableView(replace(_table(tables, None), id=TableId("shop", "T")))
    event = change(_table(tables, OLD), {"v": "7"}, commit_ts=OLD, table_version=1)
    assert view.has(event.table.id)
    view.apply(event, tables)
    assert (event.after, event.key, event.table.id) == ({"id": "1", "V": "7"}, ("id",), TableId("shop", "T"))


def test_merge_gets_the_letters_and_types_of_the_definition_in_force() -> None:
    """It follows names and types over time by itself: its view has no columns."""
    tables, view = _definitions("date", "datetime", "V"), TableView(Table(ID, ()))
    described = Table(
        TableId("SHOP", "T"), (Column("ID", BY_NAME["int"], handle_key=True), Column("v", BY_NAME["date"]))
    )
    event = change(described, {"v": "2024-01-02"}, commit_ts=NEW, table_version=150)
    event.after = {"ID": "1", "v": "2024-01-02"}
    event.key = ("ID",)
    view.apply(event, tables)
    assert (event.after, event.key) == ({"id": "1", "V": "2024-01-02"}, ("id",))
    vague = Table(ID, (described.columns[0], _vague("int")))
    event = change(vague, {"v": "19724"}, commit_ts=OLD, mismatch=DefinitionMismatch(ID, 1, ()))
    with pytest.raises(WireError, match=r"^column v: '19724' is no date"):
        view.apply(event, tables)


@each(("old", "new", "widens"), [
    ("decimal(40,2)", "decimal(45,4)", [False]),  # text in Spark: its digits change
    ("decimal(10,2)", "decimal(12,4)", [True]),
    ("decimal(12,4)", "decimal(10,2)", [False]),
    ("float", "double", [True]),
    ("float", "double(9,2)", [False]),
    ("int", "bigint", []),
    ("int unsigned", "bigint", []),
    ("varchar(5)", "varchar(9)", []),
    ("enum('a')", "enum('a','b')", []),
    ("date", "datetime", [False]),
])  # fmt: skip
def test_what_the_kernels_can_widen_by_themselves(old: str, new: str, widens: list[bool]) -> None:
    tables = _definitions(old, new)
    conversion = RowConversion.of(_table(tables, OLD), _table(tables, None), older=True)
    assert [step.widens for step in conversion.steps] == widens


# ---- the compiled readers
def _typed_rows(format_: str, tables: TableDefinitions, types: SparkTypes) -> list[Any]:
    """What Spark's workers make of 20 rows before the change of the column's type and 20 after."""
    pair, messages = Pair(format_, enable_tidb_extension=True), list[Message]()
    for number in range(40):
        commit_ts = OLD if number < 20 else NEW
        value = "2024-01-02" if number < 20 else "2024-01-02 03:04:05"
        row = change(_table(tables, commit_ts), {"v": value}, commit_ts=commit_ts)
        messages.append(pair.write(row))
    table = _table(tables, None)
    schemas: Any = pair.registry if format_ == "avro" else FileSchemas([])
    config = CodecConfig(format_, schemas, Options.of({}), tables, view=TableView(table, types))
    rows = [{"key": m.key, "value": m.value, "topic": "t", "offset": n} for n, m in enumerate(messages)]
    stamp = pa.timestamp("us", "UTC")
    kinds: Any = [("key", pa.binary()), ("value", pa.binary()), ("topic", pa.string()), ("partition", pa.int32()),
                  ("offset", pa.int64()), ("timestamp", stamp)]  # fmt: skip
    batch = pa.RecordBatch.from_pylist(rows, schema=pa.schema(kinds))
    schema = change_schema(arrow_type_of(struct(table, types)))
    made = DecodeBatches(config, schema, ("id",))([batch])
    return [row for out in made for row in out.to_pylist()]


@pytest.mark.parametrize("format_", ["avro", "craft", "debezium", "open"])
def test_the_compiled_readers_leave_older_rows_to_the_codec(format_: str) -> None:
    tables = _definitions("date", "datetime")
    rows = _typed_rows(format_, tables, SparkTypes())
    assert [row["after"]["v"] for row in rows] == ["2024-01-02 00:00:00"] * 20 + ["2024-01-02 03:04:05"] * 20
    assert not any(row["error"] for row in rows)
