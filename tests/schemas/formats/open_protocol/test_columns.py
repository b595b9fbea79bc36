"""Open Protocol: flags and columns, ENUM and SET as numbers, rows of other formats."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.schemas.formats.open_protocol.messages import decode, message_of, refusal, row_of
from tests.support.each import each
from tests.support.golden import Golden, Registry
from tests.support.rows import ORIGIN, Pair, Tables, change, column, table
from ticdc_bridge.schemas.ddl.executor.apply import apply
from ticdc_bridge.schemas.ddl.executor.catalog import new_catalog
from ticdc_bridge.schemas.ddl.parser.lexer import WIRE
from ticdc_bridge.schemas.ddl.parser.statement_parser import parse
from ticdc_bridge.schemas.formats.base import Context
from ticdc_bridge.schemas.formats.open_protocol import values as cell_values
from ticdc_bridge.schemas.formats.open_protocol.columns import cell_of, derived_keys
from ticdc_bridge.schemas.inspect.format_lookup import format_named
from ticdc_bridge.schemas.model import values
from ticdc_bridge.schemas.model.errors import LossyError, WireError
from ticdc_bridge.schemas.model.event import DdlEvent, RowChange
from ticdc_bridge.schemas.model.table import Table, TableId


# ---- columns and flags
def test_flags_of_the_documents() -> None:
    """85: nullable, unique, generated, binary; 46: multiple, primary, generated, handle."""
    a = row_of(message_of({"u": {"c": {"t": 252, "f": 85, "v": ""}}})).table.columns[0]
    assert (a.nullable, a.unique_key, a.generated, a.charset, a.type.name) == (True, True, "", "binary", "blob")
    b = row_of(message_of({"u": {"c": {"t": 15, "h": True, "f": 46, "v": ""}}})).table.columns[0]
    assert (b.multiple_key, b.primary_key, b.generated, b.handle_key, b.nullable) == (True, True, "", True, False)


@settings(deadline=None)
@given(st.sampled_from([1, 3, 5, 13, 15, 16, 247, 252, 253, 254]), st.integers(0, 255), st.booleans())
def test_any_type_and_flags_are_written_again(code: int, flags: int, handle: bool) -> None:
    cell = {"t": code, **({"h": True} if handle else {}), "f": flags, "v": None}
    message = message_of({"u": {"c": cell}})
    [written] = format_named("open").encoder(Context(Registry())).encode_rows([row_of(message)], message)  # type: ignore[attr-defined]
    assert (written.key, written.value) == (message.key, message.value)


@pytest.mark.parametrize("golden", [Golden("open", n) for n in ("uk_notnull.default", "pk_composite.default")], ids=str)
def test_flags_follow_from_a_tables_statement(golden: Golden) -> None:
    """What CREATE TABLE says gives the flags that TiCDC sent, with its indexes and without."""
    rows = [e for e in golden.events() if isinstance(e, RowChange)]
    [sql] = [e.query for e in golden.events() if isinstance(e, DdlEvent)]
    assert rows
    told = apply(new_catalog(), parse(sql, WIRE, "test"), "test").table(rows[0].table.id)
    assert told is not None
    for bare in (told, replace(told, indexes=())):
        derived = derived_keys(bare)
        for event in rows:
            for wanted in event.table.columns:
                found = bare.by_name[wanted.name]
                assert cell_of(found, derived.get(found.name, 0)).flags == cell_of(wanted, 0).flags, wanted.name
                assert found.handle_key == wanted.handle_key, wanted.name


def test_a_definition_that_contradicts_the_message_is_not_used() -> None:
    message = message_of({"u": {"id": {"t": 3, "h": True, "f": 11, "v": 1}, "v": {"t": 15, "f": 64, "v": "a"}}})
    id_ = column("id", "int", nullable=False)
    for wrong in (
        (column("id", "bigint"), column("v", "varchar")),
        (column("id", "int", unsigned=True), column("v", "varchar")),
        (id_, column("v", "varbinary")),
        (id_, column("v", "text")),
        (id_,),
    ):
        tables = Tables(Table(TableId("test", "t1"), wrong))
        [row] = decode(message, tables=tables)
        assert isinstance(row, RowChange)
        assert row.mismatch is not None
        assert (row.table_version, row.after) == (None, {"id": "1", "v": "a"})
        error = refusal(message, tables=tables, definition_mismatch="error")
        assert error.code == "DEFINITION_MISMATCH"


# ---- ENUM and SET as numbers
ENUM = table(column("e", "enum", elements=("a", "", "b,c")), column("s", "set", elements=("x", "y", "z")))


@each(("e", "s", "wire"), [("a", "", (1, 0)), ("", "x,z", (2, 5)), ("b,c", "x,y,z", (3, 7)), (None, "y", (None, 2))])
def test_enum_and_set_by_number(e: str | None, s: str, wire: tuple[int | None, int]) -> None:
    pair = Pair("open", Tables(ENUM))
    event = change(ENUM, {"e": e, "s": s})
    found = json.loads((pair.write(event).value or b"")[8:])["u"]
    assert (found["e"]["v"], found["s"]["v"]) == wire
    assert pair.through(event).after == event.after
    bare = Pair("open").through(event)
    assert bare.after == {"id": "1", "e": None if wire[0] is None else str(wire[0]), "s": str(wire[1])}
    assert bare.flags == [f"enum_number:{n}" for n, v in (("e", e), ("s", s)) if v is not None]
    assert Pair("open").write(bare).value == pair.write(event).value
    for name in ("avro", "debezium"):  # the number is never taken for the name
        assert Pair(name).refusal(bare).code == "TYPE_UNKNOWN"


def test_enum_index_zero_beside_an_empty_element_comes_back_as_zero() -> None:
    known = Table(TableId("test", "t1"), (column("e", "enum", elements=("a", "")),))
    message = message_of({"u": {"e": {"t": 247, "f": 64, "v": 0}}, "p": {"e": {"t": 247, "f": 64, "v": 2}}})
    for _ in range(2):
        event = row_of(message, tables=Tables(known))
        assert (event.after, event.before, event.extra) == ({"e": ""}, {"e": ""}, {"enum_zero": ["after.e"]})
        assert format_named("open").encoder(Context(Registry())).encode(event, message) == [message]


@each(("name", "value"), [("e", "z"), ("s", "x,q"), ("s", "x,,y")])
def test_elements_that_are_none_are_refused_by_column(name: str, value: str) -> None:
    error = Pair("open").refusal(change(ENUM, {"e": "a", "s": "x", name: value}))
    assert (error.code, error.fields["column"]) == ("INVALID_VALUE", name)


def test_numbers_beyond_the_definition_are_refused() -> None:
    for cell, kind in (({"t": 247, "f": 64, "v": 3}, "enum"), ({"t": 248, "f": 64, "v": 4}, "set")):
        known = Table(TableId("test", "t1"), (column("c", kind, elements=("a", "b")),))
        assert "element" in refusal(message_of({"u": {"c": cell}}), tables=Tables(known)).detail


# ---- writing other formats' events
def test_what_can_not_be_written_is_refused_by_name() -> None:
    vague = table(replace(column("n", "int"), vague="INT or BIGINT"))
    assert Pair("open").refusal(change(vague, {"n": "1"})).fields["column"] == "n"
    folded = change(table(column("n", "int")), {"n": "1"}, format_="avro")  # Avro's INT could be a TINYINT
    assert Pair("open").refusal(folded).code == "TYPE_UNKNOWN"
    assert Pair("open").through(replace(folded, table_version=1)).after == {"id": "1", "n": "1"}
    plain = table(column("n", "int"))
    assert Pair("open").refusal(change(plain, {})).detail == "column n: the event does not carry it"
    assert Pair("open").refusal(change(plain, {"n": "1", "x": "2"})).fields["column"] == "x"
    no_ts = change(plain, {"n": "1"}, commit_ts=None)
    with pytest.raises(WireError, match="commit_ts"):
        Pair("open").encoder.encode(no_ts, replace(ORIGIN, timestamp=None))
    assert Pair("open").through(no_ts).commit_ts == (ORIGIN.timestamp or 0) << 18
    assert no_ts.flags == ["synthetic_commit_ts"]
    dropped, told_by_nothing = (
        DdlEvent("debezium", "a", "b", 1, None, text) for text in ("DROP TABLE b", "ALTER TABLE b REMOVE TTL")
    )
    [written] = Pair("open").encoder.encode(dropped, ORIGIN)
    assert (written.value or b"").endswith(b'{"q":"DROP TABLE b","t":4}')
    assert Pair("open").encoder.encode(told_by_nothing, ORIGIN) == []


def test_deletes_with_only_their_handle_key() -> None:
    columns = table(column("n", "int"))
    event = change(columns, None, {"n": "2"})
    pair = Pair("open", delete_only_output_handle_key_columns=True)
    assert pair.through(event).before == {"id": "1"}
    keyless = replace(columns, columns=(replace(columns.columns[0], handle_key=False), columns.columns[1]))
    assert pair.refusal(change(keyless, None, {"n": "2"})).code == "KEY_ONLY_ROW"


def test_updates_without_old_row() -> None:
    columns = table(column("n", "int"))
    event = change(columns, {"n": "2"}, {"n": "1"})
    assert Pair("open", no_old_value=True).through(event).before is None
    assert event.flags == []
    bare = change(columns, {"n": "2"}, op="u")
    Pair("open").write(bare)
    assert bare.flags == ["no_before"]
    written = Pair("open", only_output_updated_columns=True).through(change(columns, {"n": "2"}, {"n": "1"}))
    assert written.before == {"n": "1"}
    [told] = decode(Pair("open").write(bare), no_old_value=True)
    assert told.flags == ["op_unknown"]  # type: ignore[union-attr]


def test_timestamps_change_their_zone() -> None:
    columns = table(column("t", "timestamp", scale=0))
    event = change(columns, {"t": "2024-07-01 12:00:00"}, zone="UTC")
    assert Pair("open", time_zone="Asia/Shanghai").through(event).after == {"id": "1", "t": "2024-07-01 20:00:00"}
    twice = change(columns, {"t": "2024-11-03 01:30:00"}, zone="America/New_York")
    Pair("open").write(twice)
    assert twice.flags == ["timestamp_fold:t"]


def test_text_that_is_not_utf8() -> None:
    columns = table(column("v", "varchar"), column("x", "text"))
    event = change(columns, {"v": b"\xe9", "x": b"\xff"})
    own = replace(event, format="open")
    assert Pair("open").through(own).after == {"id": "1", "v": b"\xe9", "x": b"\xff"}, "as TiCDC wrote it"
    for name in ("open", "open-tiflow"):
        with pytest.raises(LossyError):
            Pair(name).write(event)
    pair = Pair("open-tiflow", on_lossy="flag")
    seen = pair.through(event)
    assert event.flags == ["invalid_utf8:v"]
    assert (seen.after, seen.flags) == ({"id": "1", "v": "\ufffd", "x": b"\xff"}, ["replaced_utf8:v"])
    honest = change(columns, {"v": "\ufffd\\ufffd", "x": ""})
    assert (pair.through(honest).after, pair.through(honest).flags) == (honest.after, [])


@settings(deadline=None)
@given(st.floats(width=32, allow_nan=False, allow_infinity=False), st.floats(allow_nan=False, allow_infinity=False))
def test_floats_read_as_the_shared_conversions_say(single: float, double: float) -> None:
    for text in (repr(single), f"{single:.4f}", f"{single:.3g}", repr(double), f"{double:.7f}"):
        read = cell_values.reader(column("c", "double"), False)
        assert read(text) == values.double_text(float(text))
        if abs(float(text)) < 3.4e38:
            read = cell_values.reader(column("c", "float"), False)
            assert read(text) == values.float_text(values.as_float32(float(text)))
