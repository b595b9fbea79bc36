"""Open Protocol: the logs in TiDB's documentation, values, frames, and shapes that change."""

import json
import re
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.schemas.formats.open_protocol.messages import KEY, decode, json_bytes, message_of, refusal, row_of
from tests.support.each import each
from tests.support.golden import Golden, Registry
from tests.support.rows import ORIGIN, Pair, Tables, change, column, table
from ticdc_bridge.schemas.codec import go_text
from ticdc_bridge.schemas.ddl.executor.apply import apply
from ticdc_bridge.schemas.ddl.executor.catalog import new_catalog
from ticdc_bridge.schemas.ddl.parser.lexer import WIRE
from ticdc_bridge.schemas.ddl.parser.statement_parser import parse
from ticdc_bridge.schemas.formats.base import Context
from ticdc_bridge.schemas.formats.framing import MAX_MESSAGE
from ticdc_bridge.schemas.formats.open_protocol import values as cell_values
from ticdc_bridge.schemas.formats.open_protocol.frame import join_key, join_value
from ticdc_bridge.schemas.formats.open_protocol.schema import cell_of, derived_keys
from ticdc_bridge.schemas.inspect.format_lookup import format_named
from ticdc_bridge.schemas.model import values
from ticdc_bridge.schemas.model.errors import LossyError, WireError
from ticdc_bridge.schemas.model.event import DdlEvent, Message, RowChange, Watermark
from ticdc_bridge.schemas.model.table import Column, Table, TableId
from ticdc_bridge.schemas.model.types import BY_NAME

# ---- the example logs of TiDB's documentation: releases of 2020, without flags, VARCHAR as base64
_LOGS = r"""
1. [key="{\"ts\":415508856908021766,\"scm\":\"test\",\"tbl\":\"t1\",\"t\":2}"] [value="{\"q\":\"CREATE TABLE test.t1(id int primary key, val varchar(16))\",\"t\":3}"]
2. [key="{\"ts\":415508856908021766,\"t\":3}"] [value=]
5. [key="{\"ts\":415508878783938562,\"scm\":\"test\",\"tbl\":\"t1\",\"t\":1}"] [value="{\"u\":{\"id\":{\"t\":3,\"h\":true,\"v\":1},\"val\":{\"t\":15,\"v\":\"YWE=\"}}}"]
9. [key="{\"ts\":415508881418485761,\"scm\":\"test\",\"tbl\":\"t1\",\"t\":1}"] [value="{\"d\":{\"id\":{\"t\":3,\"h\":true,\"v\":1}}}"]
"""  # noqa: E501


def _log_messages() -> list[Message]:
    found = []
    for line in _LOGS.strip().splitlines():
        matched = re.search(r'\[key="(.*?)"\] \[value="?(.*?)"?\]$', line)
        assert matched is not None
        key, value = (text.replace('\\"', '"').encode() for text in matched.groups())
        found.append(replace(ORIGIN, key=join_key([key]), value=join_value([value]) if value else None))
    return found


def test_the_documents_logs() -> None:
    ddl, resolved, insert, delete = (decode(m, open_varchar_base64=True)[0] for m in _log_messages())
    assert ddl == DdlEvent(
        "open", "test", "t1", 415508856908021766, 3, "CREATE TABLE test.t1(id int primary key, val varchar(16))"
    )
    assert resolved == Watermark("open", 415508856908021766)
    assert isinstance(insert, RowChange)
    assert isinstance(delete, RowChange)
    assert (insert.op, insert.after, insert.before) == ("c", {"id": "1", "val": "aa"}, None)
    assert (insert.key, insert.commit_ts) == (("id",), 415508878783938562)
    assert insert.flags == ["binary_or_text:val"]  # no flags: VARBINARY looks the same
    assert (delete.op, delete.before, delete.after, delete.key_only) == ("d", {"id": "1"}, None, True)


def test_the_documents_logs_without_the_option_or_with_a_definition() -> None:
    insert = _log_messages()[2]
    assert row_of(insert).after == {"id": "1", "val": "YWE="}
    known = Table(TableId("test", "t1"), (Column("id", BY_NAME["int"], False), Column("val", BY_NAME["varchar"])))
    event = row_of(insert, tables=Tables(known), open_varchar_base64=True)
    assert (event.after, event.flags) == ({"id": "1", "val": "aa"}, [])
    binary = Table(TableId("test", "t1"), (Column("id", BY_NAME["int"]), Column("val", BY_NAME["varbinary"])))
    assert row_of(insert, tables=Tables(binary), open_varchar_base64=True).after == {"id": "1", "val": b"aa"}


@each("number", [0, 1, 2, 3])
def test_the_documents_logs_are_written_again(number: int) -> None:
    """Cells without flags stay without; only the frame of a resolved event is today's."""
    message = _log_messages()[number]
    [event] = decode(message)
    [written] = format_named("open").encoder(Context(Registry())).encode(event, message)
    assert (written.key, written.value) == (message.key, message.value or bytes(8))


# ---- values
@each(
    ("cell", "value"),
    [
        ('{"t":14,"f":65,"v":"2000-00-00"}', "2000-00-00"), ('{"t":253,"f":64,"v":"测试"}', "测试"),
        ('{"t":15,"f":65,"v":"\\\\x89PNG\\\\r\\\\n\\\\x1a\\\\n"}', b"\x89PNG\r\n\x1a\n"),
        ('{"t":254,"f":65,"v":"\\\\u0085\\\\U000e0001\\\\101"}', "\x85\U000e0001A".encode()),
        ('{"t":246,"f":65,"v":"129012.1230000"}', "129012.1230000"),
        ('{"t":16,"f":193,"v":18446744073709551615}', b"\xff" * 8), ('{"t":16,"f":193,"v":0}', b"\0"),
        ('{"t":247,"f":64,"v":3}', "3"), ('{"t":4,"f":65,"v":-3.4028235e+38}', "-3.4028235e+38"),
        ('{"t":4,"f":65,"v":1e-7}', "1e-07"), ('{"t":4,"f":65,"v":0.1}', "0.1"),
        ('{"t":5,"f":65,"v":123456789012345680000}', "1.2345678901234568e+20"), ('{"t":5,"f":65,"v":-0}', "-0"),
        ('{"t":5,"f":65,"v":1.50}', "1.5"), ('{"t":8,"f":65,"v":-9223372036854775808}', "-9223372036854775808"),
        ('{"t":13,"f":193,"v":0}', "0"), ('{"t":252,"f":64,"v":"//4="}', b"\xff\xfe"), ('{"t":252,"f":65,"v":""}', b""),
        ('{"t":3,"f":65,"v":null}', None),
    ],
)  # fmt: skip
def test_values(cell: str, value: Any) -> None:
    event = row_of(message_of(f'{{"u":{{"c":{cell}}}}}'.encode()))
    assert event.after == {"c": value}
    assert event.flags == (["enum_number:c"] if '"t":247' in cell else [])


@each(
    "cell",
    [
        '{"t":1,"f":65,"v":128}', '{"t":1,"f":193,"v":-1}', '{"t":3,"f":65,"v":1.5}', '{"t":3,"f":65,"v":1e3}',
        '{"t":3,"f":65,"v":"1"}', '{"t":3,"f":65,"v":true}', '{"t":3,"f":65,"v":[1]}', '{"t":3,"f":65,"v":{}}',
        '{"t":3,"f":65,"v":NaN}', '{"t":8,"f":193,"v":18446744073709551616}', '{"t":4,"f":65,"v":1e39}',
        '{"t":5,"f":65,"v":1e400}', '{"t":5,"f":65,"v":Infinity}', '{"t":13,"f":193,"v":1900}',
        '{"t":16,"f":193,"v":-1}', '{"t":247,"f":64,"v":-1}', '{"t":246,"f":65,"v":"1e5"}', '{"t":246,"f":65,"v":1}',
        '{"t":10,"f":65,"v":"2000-1-1"}', '{"t":12,"f":65,"v":"2000-01-01"}', '{"t":11,"f":65,"v":"1:00"}',
        '{"t":252,"f":64,"v":"YWE"}', '{"t":252,"f":64,"v":"YWF="}', '{"t":15,"f":65,"v":"\\\\x8"}',
        '{"t":15,"f":65,"v":"\\\\ud800"}', '{"t":15,"f":65,"v":"\\\\400"}', '{"t":15,"f":65,"v":"\\""}',
        '{"t":15,"f":64,"v":"\\ud800"}', '{"t":255,"f":65,"v":""}', '{"t":99999,"f":65,"v":""}',
        '{"t":"3","f":65,"v":1}', '{"t":3,"f":-1,"v":1}', '{"t":3,"h":1,"f":1,"v":1}', '{"f":65,"v":1}',
        '{"t":3,"f":65}', '{"t":3,"t":3,"f":65,"v":1}', '{"t":3,"f":65,"v":1,"x":1}', "3", "null", "[]",
    ],
)  # fmt: skip
def test_cells_that_are_none(cell: str) -> None:
    error = refusal(message_of(f'{{"u":{{"c":{cell}}}}}'.encode()))
    assert error.code == "MALFORMED"
    # As one of many rows, when the shape is read the fast way, too.
    good = b'{"u":{"c":{"t":3,"f":65,"v":1}}}'
    many = replace(
        ORIGIN,
        key=join_key([json_bytes(KEY)] * 20),
        value=join_value([good] * 19 + [f'{{"u":{{"c":{cell}}}}}'.encode()]),
    )
    assert refusal(many).code == "MALFORMED"


@each(
    "value",
    [
        b"", b"null", b"1", b"[]", b"{}", b'{"u":{}}', b'{"u":{},"p":{}}', b'{"d":{}}', b'{"u":1}', b'{"x":{}}',
        b'{"p":{"c":{"t":3,"f":65,"v":1}}}', b'{"u":{"c":{"t":3,"f":65,"v":1}},"d":{"c":{"t":3,"f":65,"v":1}}}',
        b'{"u":{"c":{"t":3,"f":65,"v":1},"c":{"t":3,"f":65,"v":1}}}', b'{"u":{"t":3}}', b'{"d":{"v":3}}',
        b'{"u":{"c":{"t":3,"f":65,"v":1}}} ', b'{"u":{"c":{"t":3,"f":65,"v":1}}', b"[" * 100_000,
        b'{"u":' * 100_000, b'{"u":{"\xff":{"t":3,"f":65,"v":1}}}', b'\xef\xbb\xbf{"u":{}}',
        b'{"u":{"c":{"t":3,"f":65,"v":1}},"p":{"c":{"t":8,"f":65,"v":1}}}',
    ],
)  # fmt: skip
def test_rows_that_are_none(value: bytes) -> None:
    assert refusal(message_of(value)).code == "MALFORMED"


@each(
    "key",
    [
        b"", b"1", b"[]", b"{}", {"t": 1}, {**KEY, "t": 4}, {**KEY, "t": "1"}, {**KEY, "ts": -1}, {**KEY, "ts": 1.5},
        {**KEY, "ts": 1 << 63}, {**KEY, "scm": 1}, {**KEY, "scm": ""}, {"ts": 1, "t": 1}, {**KEY, "ohk": 1},
        {**KEY, "ptn": "x"}, {**KEY, "ccl": 1}, b'{"ts":1,"ts":1,"t":3}', b'{"ts":1,"t":3}x',
        b'{"ts":1,"t":2,"scm":"\xff","tbl":"t"}',
    ],
)  # fmt: skip
def test_keys_that_are_none(key: Any) -> None:
    assert refusal(message_of({"u": {"c": {"t": 3, "f": 65, "v": 1}}}, key)).code == "MALFORMED"


# ---- frames
def test_frames_that_are_none() -> None:
    good = message_of({"u": {"c": {"t": 3, "f": 65, "v": 1}}})
    assert good.key is not None
    assert good.value is not None
    for key, code in [
        (None, "EMPTY_RECORD"),
        (b"", "TRUNCATED"),
        (bytes(8), "NOT_FRAMED"),
        (b"\0" * 7 + b"\2" + good.key[8:], "NOT_FRAMED"),
        (good.key[:8], "MALFORMED"),
        (good.key + b"\0" * 7, "TRUNCATED"),
        (b"\0" * 7 + b"\1" + b"\x7f" + b"\xff" * 7, "TRUNCATED"),
        (b"\0" * 7 + b"\1" + b"\xff" * 8, "TRUNCATED"),
        (b"\0" * 7 + b"\1" + (1 << 62).to_bytes(8, "big") + b"x", "TRUNCATED"),
        (good.key + good.key[8:], "TRUNCATED"),  # two keys, one value
        (bytes(MAX_MESSAGE + 1), "TOO_LARGE"),
        (b'{"ts":1,"t":3}', "NOT_FRAMED"),
    ]:
        assert refusal(replace(good, key=key)).code == code, key
    assert "read it with" not in refusal(replace(good, key=None)).detail  # it is read as what it is
    for value, code in [
        (None, "TRUNCATED"), (b"", "TRUNCATED"), (good.value + good.value, "TRAILING_BYTES"),
        (b"\xff" * 8 + good.value[8:], "TRUNCATED"), (bytes(MAX_MESSAGE + 1), "TOO_LARGE"), (bytes(8), "MALFORMED"),
    ]:  # fmt: skip
        assert refusal(replace(good, value=value)).code == code, value
    assert refusal(message_of(b"{}", {"ts": 1, "t": 3})).code == "MALFORMED"  # a resolved event with a value


def test_many_events_in_one_message_are_bounded() -> None:
    """A frame of a million empty events is refused at once, and one of resolved events is what it is."""
    message = replace(ORIGIN, key=join_key([b""] * 100_000), value=bytes(8 * 100_000))
    assert refusal(message).code == "MALFORMED"
    resolved = replace(ORIGIN, key=join_key([b'{"ts":1,"t":3}'] * 1000), value=bytes(8000))
    assert decode(resolved) == [Watermark("open", 1)] * 1000


@settings(deadline=None)
@given(
    st.lists(st.tuples(st.text(), st.binary(max_size=20), st.floats(allow_nan=False, allow_infinity=False)), max_size=6)
)
def test_values_of_a_shape_survive(rows: list[tuple[str, bytes, float]]) -> None:
    columns = table(column("v", "varchar"), column("b", "varbinary"), column("d", "double"), column("x", "blob"))
    encoder = format_named("open").encoder(Context(Registry()))
    events = [
        change(columns, {"v": v, "b": b, "d": go_text.json_float(repr(d), 64, False), "x": b}, commit_ts=n)
        for n, (v, b, d) in enumerate(rows * 9)
    ]
    events = [e for e in events if all(not "\ud800" <= c <= "\udfff" for c in str((e.after or {})["v"]))]
    decoder = format_named("open").decoder(Context(Registry()))
    for event in events:
        [again] = decoder.decode(encoder.encode(event, ORIGIN)[0])
        after = dict(again.after)  # type: ignore[union-attr, arg-type]
        assert float(after.pop("d")) == float(str((event.after or {})["d"]))
        assert after == {k: v for k, v in (event.after or {}).items() if k != "d"}


def test_a_shape_that_changes_is_read_on() -> None:
    """A column more (a DDL without a definition) or a swapped order: no stale reader."""
    decoder = format_named("open").decoder(Context(Registry()))
    for number in range(30):
        cells = {f"c{i}": {"t": 3, "f": 65, "v": number + i} for i in range(1 + number // 10)}
        if number % 2:
            cells = dict(reversed(cells.items()))
        [event] = decoder.decode(message_of({"u": cells}))
        assert event.after == {name: str(cell["v"]) for name, cell in cells.items()}  # type: ignore[union-attr]


# ---- Open Protocol: flags and columns, ENUM and SET as numbers, rows of other formats.


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
    reported = apply(new_catalog(), parse(sql, WIRE, "test"), "test").table(rows[0].table.id)
    assert reported is not None
    for bare in (reported, replace(reported, indexes=())):
        derived = derived_keys(bare)
        for event in rows:
            for wanted in event.table.columns:
                found = bare.by_name[wanted.name]
                assert cell_of(found, derived.get(found.name, 0)).flags == cell_of(wanted, 0).flags, wanted.name
                assert found.handle_key == wanted.handle_key, wanted.name


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
    dropped, named_by_nothing = (
        DdlEvent("debezium", "a", "b", 1, None, text) for text in ("DROP TABLE b", "ALTER TABLE b REMOVE TTL")
    )
    [written] = Pair("open").encoder.encode(dropped, ORIGIN)
    assert (written.value or b"").endswith(b'{"q":"DROP TABLE b","t":4}')
    assert Pair("open").encoder.encode(named_by_nothing, ORIGIN) == []


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
    [reported] = decode(Pair("open").write(bare), no_old_value=True)
    assert reported.flags == ["op_unknown"]  # type: ignore[union-attr]


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
