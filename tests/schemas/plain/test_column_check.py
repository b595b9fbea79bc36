"""What a column holds: values that people give are held to it, and everything that TiDB sends is held."""

from dataclasses import replace

import pytest

from tests.support.each import each
from tests.support.golden import READ, Golden, Registry, cases
from tests.support.rows import ORIGIN, Tables, change, column, table
from ticdc_bridge.schemas.formats.base import Context
from ticdc_bridge.schemas.model.errors import WireError
from ticdc_bridge.schemas.model.event import Message, RowChange
from ticdc_bridge.schemas.model.table import Column, Value
from ticdc_bridge.schemas.model.values import join_allowed, split_allowed
from ticdc_bridge.schemas.plain.column_check import ColumnCheck
from ticdc_bridge.schemas.plain.reader import PlainDecoder, plain_message
from ticdc_bridge.schemas.plain.writer import json_line, plain_event

ELEMENTS = ("a", "b,c", "it''s", "x\\'y")
SAMPLES: tuple[tuple[Column, tuple[Value, ...], tuple[Value, ...]], ...] = (
    (column("v", "decimal", length=5, scale=2),
     ("999.99", "-999.99", "0.00", "-0.01", "1", "1.5", "1.5000", "007.10"),
     ("1000.00", "1.234", "1e2", "", ".5", "1.", "+1.00", " 1.00", "1.00\n", "١.00", "NaN", b"1.00")),
    (column("v", "decimal", length=3, scale=3), ("0.999", "-0.001", "0"), ("1.000", "0.0001", ".1")),
    (column("v", "decimal", length=3, scale=0), ("999", "-1", "5.0"), ("1000", "0.5", "5.")),
    (column("v", "decimal", length=65, scale=30), ("9" * 35 + "." + "9" * 30,), ("1" + "0" * 35,)),
    (column("v", "decimal", length=5, scale=2, unsigned=True), ("1.00", "0.00"), ("-1.00",)),
    (column("v", "decimal"), ("1000.001", "1"), ("1e2", "x")),
    (column("v", "bit", length=3), (b"\x07", b"\0"), (b"\x08", b"\0\x01", b"", "7")),
    (column("v", "bit", length=10), (b"\x03\xff",), (b"\x04\0", b"\x01", b"\0\0\x01")),
    (column("v", "bit", length=64), (b"\xff" * 8,), (b"\xff" * 9,)),
    (column("v", "date"),
     ("2024-02-29", "0000-00-00", "2024-00-00", "2024-02-31", "0000-01-01", "9999-12-31"),
     ("2024-1-1", "10000-01-01", "2024-13-01", "2024-01-32", "2024-01-01 00:00:00", "19718", "", b"2024-01-01")),
    (column("v", "datetime", scale=0),
     ("2024-02-29 23:59:59", "0000-00-00 00:00:00", "2024-01-01 00:00:00.000"),
     ("2024-02-29", "2024-02-29 24:00:00", "2024-02-29 23:60:00", "2024-02-29T23:59:59", "2024-01-01 00:00:00.5")),
    (column("v", "datetime", scale=3),
     ("2024-02-29 23:59:59.123", "2024-02-29 23:59:59", "2024-02-29 23:59:59.123000"),
     ("2024-02-29 23:59:59.1234", "2024-02-29 23:59:59.", "2024-02-29 23:59:59.1230000")),
    (column("v", "datetime"), ("2024-02-29 23:59:59.123456",), ("2024-02-29 23:59:59.1234567",)),
    (column("v", "timestamp", scale=0),
     ("0000-00-00 00:00:00", "0000-00-00 00:00:00.000", "1970-01-01 00:00:01", "1970-01-01 08:00:01",
      "2038-01-19 03:14:07"),
     ("2024-02-30 00:00:00", "2024-00-00 00:00:00", "1969-01-01 00:00:00", "2039-01-01 00:00:00",
      "2024-01-01 00:00:00Z")),
    (column("v", "time", scale=0),
     ("838:59:59", "-838:59:59", "00:00:00", "100:00:00", "00:00:00.000000"),
     ("839:00:00", "-839:00:00", "1:00:00", "00:60:00", "00:00:60", "00:00:00.5", "1000:00:00", "12:00")),
    (column("v", "time", scale=6), ("-00:00:00.000001", "838:59:59.000000"), ("00:00:00.0000001",)),
    (column("v", "enum", elements=ELEMENTS), (*ELEMENTS, ""), ("c", "A", "1", "it's", b"\xff", b"a")),
    (column("v", "set", elements=("a", "b", "")), ("a", "a,b", "", "b,a"), ("c", "a,c", "a b", b"a")),
    (column("v", "enum"), ("anything",), ()),
    (column("v", "char", length=3), ("日本語", "", b"\xff" * 9, "\ufffd" * 6), ("abcd",)),
    (column("v", "varchar"), ("any length",), ()),
    (column("v", "varbinary", length=2), (b"", b"\0\xff"), (b"\0\0\0", "00")),
    (column("v", "blob"), (b"\0" * 9,), ("x",)),
    # Left to the writers, or text as received.
    *((column("v", name), ("1", "x"), ()) for name in ("int", "year", "float", "double", "json", "vector")),
)  # fmt: skip


@each(("of", "value"), [(of, value) for of, held, _ in SAMPLES for value in held], ids=lambda v: getattr(v, "type", v))
def test_what_a_column_holds(of: Column, value: Value) -> None:
    ColumnCheck().check(table(of), (None, {"v": value}), [])


@each(("of", "value"), [(of, value) for of, _, others in SAMPLES for value in others], ids=repr)
def test_what_a_column_does_not_hold(of: Column, value: Value) -> None:
    with pytest.raises(WireError) as caught:
        ColumnCheck().check(table(of), ({"id": "1", "v": value}, None), ["lossy_decimal:id"])
    assert (caught.value.code, caught.value.fields["column"]) == ("INVALID_VALUE", "v")


@each("kind", ["enum", "set"])
def test_elements_that_avro_lists_otherwise(kind: str) -> None:
    """TiCDC's list rewrites quotes (EscapeEnumAndSetOptions), and values keep them: by a schema alone both count."""
    elements = ("it''s", "x\\'y", "a\\,b") if kind == "enum" else ("it''s", "x\\'y")
    listed = column("v", kind, elements=split_allowed(join_allowed(elements)))
    for element in elements:
        ColumnCheck().check(table(listed), ({"v": element},), [], listed=True)
    with pytest.raises(WireError):
        ColumnCheck().check(table(listed), ({"v": elements[0]},), [])
    with pytest.raises(WireError):
        ColumnCheck().check(table(listed), ({"v": "other"},), [], listed=True)


def test_what_a_message_had_changed_is_left_to_the_writers() -> None:
    """A DECIMAL that a double rounded beyond its precision goes back into a double as it came."""
    made = table(column("v", "decimal", length=16, scale=0))
    ColumnCheck().check(made, ({"v": "10000000000000000"},), ["lossy_decimal:v"])
    with pytest.raises(WireError):
        ColumnCheck().check(made, ({"v": "10000000000000000"},), ["null_or_default:v"])


def test_a_deletes_value_of_unknown_type_is_left_to_the_writers() -> None:
    """Avro's deletes are the key: what the old row has of a line decoded without definitions is not written."""
    made = table(column("v", "date"))
    row: dict[str, Value] = {"v": "19718"}
    ColumnCheck().check(made, (row, None), ["untyped:v"])
    for rows, flags in (((row, row), ["untyped:v"]), ((None, row), ["untyped:v"]), ((row, None), ["untyped:w"])):
        with pytest.raises(WireError):
            ColumnCheck().check(made, rows, flags)


def test_a_bits_fewest_bytes_are_filled_up() -> None:
    made = table(column("v", "bit", length=16))
    for data, whole in ((b"\x01", b"\0\x01"), (b"\0", b"\0\0"), (b"\x01\x02", b"\x01\x02"), (None, None)):
        row: dict[str, Value] = {"v": data}
        ColumnCheck().check(made, (row,), [], fewest=True)
        assert row == {"v": whole}
    for data in (b"", b"\0\0\x01", b"\x01\0\0"):
        with pytest.raises(WireError):
            ColumnCheck().check(made, ({"v": data},), [], fewest=True)
    with pytest.raises(WireError):
        ColumnCheck().check(made, ({"v": b"\x01"},), [])


@pytest.mark.parametrize("format_", ["open", "open-tiflow", "craft", "canal-json", "avro", "debezium"])
def test_lines_of_formats_without_bits_length_have_fewer_bytes(format_: str) -> None:
    made = table(column("v", "bit", length=16))
    event = replace(change(made, {"v": b"\x01"}), format=format_)
    decoder = PlainDecoder(Context(Registry(), Tables(made)))
    line = plain_message(json_line(plain_event(event, ORIGIN)).encode())
    if format_ in ("avro", "debezium"):
        with pytest.raises(WireError, match=r"column v: 0x01 is no BIT\(16\)"):
            decoder.decode(line)
        return
    [again] = decoder.decode(line)
    assert isinstance(again, RowChange)
    assert again.after == {"id": "1", "v": b"\0\x01"}


@pytest.mark.parametrize("format_", READ)
def test_every_golden_value_is_held(format_: str) -> None:
    """Real messages win: what any of them holds is no INVALID_VALUE of its column's, with definitions and without."""
    held, seen = ColumnCheck(), 0
    for golden in cases(format_):
        for ddl in (True, False):
            for event in golden.events(ddl):
                if isinstance(event, RowChange):
                    rows = tuple(None if row is None else dict(row) for row in (event.before, event.after))
                    held.check(event.table, rows, event.flags, listed=event.table_version is None)
                    assert rows == (event.before, event.after)
                    seen += 1
    assert seen > 50, f"tests/golden/{format_} has {seen // 2} rows: too few to say"


@pytest.mark.parametrize("golden", [Golden(f, "wide.default") for f in ("open", "canal-json")], ids=str)
def test_lines_read_without_definitions_are_written_with_them(golden: Golden) -> None:
    """BIT has its fewest bytes then."""
    decoder = PlainDecoder(Context(golden.schemas, golden.definitions, golden.options()))
    existing, seen = golden.side().decoder(), 0
    for message in golden.messages():
        for event in existing.decode(message):
            line = json_line(plain_event(event, Message(None, None))).encode()
            for again in decoder.decode(plain_message(line)):
                if isinstance(again, RowChange) and again.after is not None:
                    assert len(again.after["c_bit10"] or b"\0\0") == 2
                    seen += 1
    assert seen > 5
