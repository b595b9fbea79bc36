"""Values that formats trip over, through every pair of formats: exact, or the loss that `schemas/inspect/losses.py`
names.

Each is made as an event, written in a format A, read, written in B and read again, with table definitions and without.
"""

import os
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from functools import cache
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.matrix.round_trip import FORMS, MORE_FORMS, Passage, Tally
from tests.support.each import each
from tests.support.golden import FORMATS, Golden, both, case_check, case_module, cases
from tests.support.rows import ORIGIN, Tables, change, column, table
from ticdc_bridge.schemas.model import values
from ticdc_bridge.schemas.model.errors import LossyError, WireError
from ticdc_bridge.schemas.model.event import RowChange
from ticdc_bridge.schemas.model.table import Column, Value

WHOLE = os.environ.get("BRIDGE_MATRIX") == "all"
EVERY = [*FORMS, *MORE_FORMS]
NEW_YORK = "America/New_York"


@dataclass(frozen=True)
class Case:
    """A column and values of it, in a zone where they are TIMESTAMPs."""

    column: Column
    values: tuple[Value, ...]
    zone: str = "UTC"
    also: dict[str, Any] = field(default_factory=dict)


def _bits(length: int) -> tuple[bytes, ...]:
    numbers = {0, 1, 1 << length - 1, (1 << length) - 1, 0x8001 & (1 << length) - 1}
    return tuple(n.to_bytes(values.bit_size(length), "big") for n in sorted(numbers))


def _fsp(text: str, fsp: int) -> str:
    return text + ("." + "0" * fsp if fsp else "")


ODD = ("a,b", "a", "b", "'", '"', "d'e", "''", "\\", "x\\", "a\\,b", " ", "中文", "%", "é")
MEMBERS = ("x", "w v", "d'e", '"', "\\", "中文", "''")
TEXTS = ("", " ", "\0", "a\u2028b\u2029\x85", "</script>&", "\"'\\", "😀", "AP8=", "00ff", "line\nbreak\ttab", "\ufffd")
ZERO_DATES = ("0000-00-00", "2000-00-00", "2000-01-00", "0001-01-01", "0069-12-31", "0099-12-31", "9999-12-31")
JSONS = (
    '{"a": 1, "b": 2}', '{"b":2,"a":1}', "1e300", "-0.0", "1.10", "123456789012345678901234567890", '"\\u0000\\ud83d"',
    "null", "[]", '{"a": {"b": [1, 2.50, "x\\ny"]}}', '"中文 \u2028"', "{}",
)  # fmt: skip
CASES: dict[str, Case] = {
    "bigint": Case(column("v", "bigint"), ("0", "-1", "9223372036854775807", "-9223372036854775808")),
    "bigint unsigned": Case(
        column("v", "bigint", unsigned=True),
        ("0", "9223372036854775807", "9223372036854775808", "9223372036854775809", "18446744073709551615"),
    ),
    "int unsigned": Case(column("v", "int", unsigned=True), ("0", "2147483648", "4294967295")),
    "mediumint": Case(column("v", "mediumint"), ("-8388608", "8388607")),
    "tinyint": Case(column("v", "tinyint"), ("-128", "127")),
    "year": Case(column("v", "year"), ("0", "1901", "2000", "2155")),
    "float": Case(column("v", "float"), ("0", "-0", "1.1", "1e-45", "3.4028235e+38", "1.6777216e+07", "153.123")),
    "float(M,D)": Case(column("v", "float", length=10, scale=3), ("1234.568", "0", "-0.001")),
    "double": Case(
        column("v", "double"),
        ("0", "-0", "0.1", "5e-324", "1.7976931348623157e+308", "1e+21", "123456.789", "9.007199254740992e+15"),
    ),
    "decimal(15,4)": Case(
        column("v", "decimal", length=15, scale=4), ("0.0000", "-0.0001", "12.3000", "-12345678901.2345")
    ),
    "decimal(65,30)": Case(
        column("v", "decimal", length=65, scale=30),
        ("-" + "9" * 35 + "." + "9" * 30, "0." + "0" * 29 + "1", "1.5" + "0" * 29, "0." + "0" * 30),
    ),
    "decimal(20,0)": Case(column("v", "decimal", length=20, scale=0), ("9007199254740993", "99999999999999999999")),
    "enum": Case(column("v", "enum", elements=ODD), (*ODD, "")),
    "enum with ''": Case(column("v", "enum", elements=("a", "", "b")), ("a", "", "b")),
    "set": Case(column("v", "set", elements=MEMBERS), ("", "x", ",".join(MEMBERS), "d'e,\\", "''", "w v,中文")),
    "date": Case(column("v", "date"), ("2024-02-29", "1970-01-01", "1969-12-31", *ZERO_DATES)),
    "date not null": Case(column("v", "date", nullable=False), ("2024-02-29", *ZERO_DATES)),
    **{
        f"datetime({fsp})": Case(
            column("v", "datetime", scale=fsp),
            (
                "2024-02-29 23:59:59" + ("." + "123456"[:fsp] if fsp else ""),
                *(_fsp(f"{day} 01:02:03", fsp) for day in ("1969-12-31", *ZERO_DATES)),
                _fsp(values.ZERO_TIMESTAMP, fsp),
            ),
        )
        for fsp in (0, 3, 4, 6)
    },
    **{
        f"time({fsp})": Case(
            column("v", "time", scale=fsp),
            tuple(
                sign + clock + ("." + digits[:fsp] if fsp else "")
                for sign in ("", "-")
                for clock, digits in (("838:59:59", "999999"), ("24:00:00", "000001"), ("00:00:01", "000100"))
            ),
        )
        for fsp in (0, 2, 6)
    },
    "timestamp": Case(
        column("v", "timestamp", scale=3),
        ("2024-01-01 00:00:00.120", "1970-01-01 00:00:01.000", "2038-01-19 03:14:07.999", "0000-00-00 00:00:00.000"),
    ),
    # Shown in New York: the clock went through 01:30 twice on 2024-11-03, and not through 02:30 on 2024-03-10.
    "timestamp local": Case(
        column("v", "timestamp", scale=0),
        ("2024-07-01 12:00:00", "2024-11-03 01:30:00", "2024-03-10 02:30:00", values.ZERO_TIMESTAMP),
        NEW_YORK,
    ),
    "json": Case(column("v", "json"), JSONS),
    "vector": Case(column("v", "vector"), ("[1,2.5,-3]", "[]", "[1e-10,3.4028235e+38]", "[0]")),
    "varchar": Case(column("v", "varchar"), (*TEXTS, b"\xe9", b"\xd6\xd0", b"\xff\xfe")),
    "text gbk": Case(column("v", "text", charset="gbk"), ("中文", b"\xd6\xd0\xce\xc4", "")),
    "char latin1": Case(column("v", "char", charset="latin1"), ("é", b"\xe9", b"a\x80")),
    "varbinary": Case(column("v", "varbinary"), (b"", b"\0", b"\x00\xff\x10", bytes(range(256)), b"AP8=")),
    "binary": Case(column("v", "binary", length=4), (b"ab\0\0", b"\0\0\0\0")),
    "blob": Case(column("v", "longblob"), (b"", b"\0", b"[1]", bytes(range(256)))),
}  # fmt: skip
_EDGES = (1, 2, 7, 8, 9, 15, 16, 17, 32, 33, 56, 57, 63, 64)
BITS = {f"bit({n})": Case(column("v", "bit", length=n), _bits(n)) for n in range(1, 65)}


@cache
def _passage(name: str, form: str, zone: str, defined: bool) -> Passage:
    made = table({**CASES, **BITS}[name].column)
    return Passage(form, zone, Tables(made) if defined else None)


def _events(name: str) -> list[RowChange]:
    """Inserts of each value and of NULL, and an update and a delete of the first."""
    case = {**CASES, **BITS}[name]
    made = table(case.column)
    rows: list[Value] = [*case.values, *([None] if case.column.nullable else [])]
    events = [change(made, {"v": value}, zone=case.zone, table_version=1) for value in rows]
    first = {"v": case.values[0]}
    events.append(change(made, {"v": case.values[-1]}, first, zone=case.zone, table_version=1))
    return [*events, change(made, None, first, zone=case.zone, table_version=1)]


def _check(events: list[RowChange], passage: Passage, tally: Tally) -> None:
    for event in events:
        passage.check(event, ORIGIN, tally)


@pytest.mark.parametrize("every", [False, pytest.param(True, marks=pytest.mark.slow)], ids=["some", "every"])
@pytest.mark.parametrize("defined", [True, False], ids=["ddl", "messages"])
@each("name", [*CASES])
def test_values_through_every_pair(name: str, defined: bool, every: bool) -> None:
    """By default each form goes on to one other, which differs by case; in the slow test to all."""
    number = [*CASES].index(name)
    tally, wrong = Tally(), list[str]()
    zone = {**CASES, **BITS}[name].zone
    events = _events(name)
    for index, first in enumerate(EVERY):
        way, arrived = _passage(name, first, zone, defined), list[RowChange]()
        _check(events, way, tally)
        wrong += [f"→ {first}: {text}" for text in tally.unexplained]
        tally.unexplained.clear()
        for event in events:
            try:
                seen = way.send(event, ORIGIN)[1]
            except WireError:
                continue  # `check` saw to it that the table says so
            if isinstance(seen, RowChange):
                arrived.append(seen)
        for second in EVERY if WHOLE else FORMS if every else [[*FORMS][(index + number) % len(FORMS)]]:
            if first in FORMS or WHOLE:
                _check(arrived, _passage(name, second, zone, defined), tally)
                wrong += [f"→ {first} → {second}: {text}" for text in tally.unexplained]
                tally.unexplained.clear()
    assert not wrong, f"{len(wrong)}:\n" + "\n".join(wrong[:20])
    assert tally.same > len(events)


@pytest.mark.parametrize("defined", [True, False], ids=["ddl", "messages"])
@each("name", [f"bit({n})" for n in _EDGES], slow=[f"bit({n})" for n in range(1, 65) if n not in _EDGES])
def test_bits_of_every_length(name: str, defined: bool) -> None:
    tally = Tally()
    for form in FORMS:
        way = _passage(name, form, "UTC", defined)
        _check(_events(name), way, tally)
    assert not tally.unexplained
    # Craft and the Open Protocol have the number alone: without a definition its fewest bytes come back.
    assert ((13, "BIT as a number: without leading zero bytes") in tally.used) == (not defined and int(name[4:-1]) > 8)


_NUMBERS = settings(max_examples=150, deadline=None)


@cache
def _decimal(precision: int, scale: int, form: str) -> tuple[Column, Passage]:
    made = column("v", "decimal", length=precision, scale=scale)
    return made, Passage(form, "UTC", Tables(table(made)))


@_NUMBERS
@given(st.data(), st.sampled_from([(15, 0), (15, 4), (15, 15), (30, 10), (65, 30)]))
def test_fifteen_digits_go_through_a_double_exactly(data: st.DataObject, of: tuple[int, int]) -> None:
    """Below 10^15 (at the column's scale) one double names one DECIMAL."""
    unscaled = data.draw(st.integers(-(10**15) + 1, 10**15 - 1))
    for form in ("debezium", "debezium/ext", "debezium/noschema", "debezium-mysql/double"):
        made, way = _decimal(*of, form)
        event = change(table(made), {"v": values.decimal_text(unscaled, of[1])}, table_version=1)
        sent, seen = way.send(event, ORIGIN)
        assert isinstance(seen, RowChange)
        assert (seen.after, seen.flags, sent.flags) == (event.after, [], [])


@_NUMBERS
@given(st.data(), st.sampled_from([(16, 0), (20, 4), (38, 18), (65, 30)]))
def test_more_digits_are_refused_flagged_or_the_same(data: st.DataObject, of: tuple[int, int]) -> None:
    """Beyond 15 digits a DECIMAL is refused, or (asked for) rounded and flagged, where the double is another number."""
    unscaled = data.draw(st.integers(10**15, 10 ** of[0] - 1)) * data.draw(st.sampled_from([1, -1]))
    text = values.decimal_text(unscaled, of[1])
    for form in ("debezium", "debezium-mysql/double"):
        made, way = _decimal(*of, form)
        event, strict = change(table(made), {"v": text}, table_version=1), True
        try:
            sent, seen = way.send(event, ORIGIN)
        except LossyError:
            strict = False
            sent, seen = way.send(event, ORIGIN, lossy=True)
            assert sent.flags == ["lossy_decimal:v"]
        assert isinstance(seen, RowChange)
        assert seen.flags == ["lossy_decimal:v"]  # a reader can't know that it is exact
        assert seen.after is not None
        assert values.real(str(seen.after["v"])) == values.real(text)
        assert strict == values.survives_double(text)


@settings(max_examples=30, deadline=None)
@given(st.integers(0, (1 << 64) - 1))
def test_unsigned_bigints_in_every_mode(number: int) -> None:
    """With definitions, and without where the mode keeps the sign: the same number, or an error where it says so."""
    for form in EVERY:
        for defined in (True, False):
            tally = Tally()
            event = change(table(CASES["bigint unsigned"].column), {"v": str(number)}, table_version=1)
            _passage("bigint unsigned", form, "UTC", defined).check(event, ORIGIN, tally)
            assert not tally.unexplained
            # Elsewhere the message, or the definition, says that it is unsigned.
            reported = form not in ("debezium", "debezium/noschema", "debezium-avro/long", "debezium-mysql/long")
            assert tally.same or not (defined and reported) or form.endswith("noschema")
            assert number >> 63 or tally.same or not defined


# ---------------------------------------------------------------------------------- TIMESTAMP
@each("form", ["avro", "craft", "open", "open-tiflow"])
def test_the_second_of_two_hours_is_flagged(form: str) -> None:
    """From a format in UTC: 06:30 is New York's second 01:30, which no text there tells from the first (05:30)."""
    made = table(CASES["timestamp local"].column)
    way = Passage(form, NEW_YORK, Tables(made))
    for text, back in (("2024-11-03 05:30:00", "2024-11-03 05:30:00"), ("2024-11-03 06:30:00", "2024-11-03 05:30:00")):
        sent, seen = way.send(change(made, {"v": text}, table_version=1), ORIGIN)
        assert sent.flags == ["timestamp_fold:v"]
        assert isinstance(seen, RowChange)
        assert seen.after is not None
        assert seen.after["v"] == "2024-11-03 01:30:00"
        assert values.shift_zone(str(seen.after["v"]), NEW_YORK, "UTC") == (back, True)


@each("form", FORMS)
def test_an_hour_that_never_was(form: str) -> None:
    """Formats in UTC refuse it, the others carry the text they got."""
    made = table(CASES["timestamp local"].column)
    way = Passage(form, NEW_YORK, Tables(made))
    event = change(made, {"v": "2024-03-10 02:30:00"}, zone=NEW_YORK, table_version=1)
    if form.startswith("debezium"):
        with pytest.raises(WireError, match="never was in America/New_York"):
            way.send(event, ORIGIN)
    else:
        seen = way.send(event, ORIGIN)[1]
        assert isinstance(seen, RowChange)
        assert seen.after == event.after


# ---------------------------------------------------------------------------------- what a source had lost already
@each("flag", ["lossy_decimal", "float_damaged"])
@each("form", EVERY)
def test_a_value_that_came_changed_does_not_look_exact(form: str, flag: str) -> None:
    made = table(column("v", "float") if flag == "float_damaged" else column("v", "decimal", length=30, scale=2))
    way = Passage(form, "UTC", Tables(made))
    event = replace(change(made, {"v": "12.50"}, table_version=1), flags=[f"{flag}:v"])
    if flag == "lossy_decimal" and form.partition("/")[0] == "debezium":
        assert way.send(event, ORIGIN)  # a double there too
        return
    with pytest.raises(WireError) as caught:
        way.send(event, ORIGIN)
    assert (caught.value.code, caught.value.fields["column"]) == ("LOSSY_VALUE", "v")
    assert way.send(event, ORIGIN, lossy=True)


@each("form", EVERY)
@each(("text", "fits"), [("999.99", True), ("1", True), ("1000", False), ("1.005", False)])
def test_a_decimal_rounded_beyond_its_precision_is_refused(form: str, text: str, fits: bool) -> None:
    """With --on-lossy flag too: no DECIMAL(5,2) has that text. A double holds it as the message did."""
    made = table(column("v", "decimal", length=5, scale=2))
    event = replace(change(made, {"v": text}, table_version=1), flags=["lossy_decimal:v"])
    way = Passage(form, "UTC", Tables(made))
    if fits or form.partition("/")[0] == "debezium" or form == "debezium-mysql/double":
        assert way.send(event, ORIGIN, lossy=True)
        return
    with pytest.raises(WireError) as caught:
        way.send(event, ORIGIN, lossy=True)
    assert (caught.value.code, caught.value.fields["column"]) == ("INVALID_VALUE", "v")


@each("form", EVERY)
@each("text", ["1.856746317e-314", "1e+39", "0.1234567890123"])
def test_what_is_no_float32_is_refused(form: str, text: str) -> None:
    made = table(column("v", "float"))
    with pytest.raises(WireError) as caught:
        Passage(form, "UTC", Tables(made)).send(change(made, {"v": text}, table_version=1), ORIGIN, lossy=True)
    assert (caught.value.code, caught.value.fields["column"]) == ("INVALID_VALUE", "v")


# ---- Every message of TiCDC's encoders decodes to the rows it was made from.

ALL = [golden for name in FORMATS for golden in cases(name)]
DATE, DATETIME, TIMESTAMP, TIME, DECIMAL, BIGINT = 10, 12, 7, 11, 246, 8  # type codes of the meta


def test_the_cases_are_there() -> None:
    assert len(cases("avro")) >= 60
    assert len(cases("debezium")) >= 60
    assert len(cases("debezium-avro")) >= 48
    assert sum(len(g.messages()) for g in ALL) > 1500


@pytest.mark.parametrize("ddl", [False, True], ids=["", "ddl"])
@each("golden", ALL, ids=str)
def test_rows_are_those_of_the_meta(golden: Golden, ddl: bool) -> None:
    check = case_check(golden)
    score = check.check(golden.plain(ddl))
    assert score.differences == []
    assert score.rows == len(check.events)


def _cells(golden: Golden, ddl: bool) -> Iterator[tuple[str, Any, Any, Any, list[str]]]:
    """(where, column of the meta, value wanted, value decoded, the row's flags) of each cell of the rows."""
    shift = case_module().shift
    check = case_check(golden)
    lines = golden.plain(ddl)
    for event, line in zip(check.events, lines, strict=True):
        if event.kind != "row" or line["kind"] != "row":
            continue
        for image, want in (("before", event.before), ("after", event.after)):
            for name, got in (line[image] or {}).items():
                value = (want or {}).get(name)
                column = event.columns.get(name)
                if column is not None:
                    if column.type == TIMESTAMP and isinstance(value, str):
                        value = shift(value, golden.zone)
                    yield f"{line['offset']} {image}.{name}", column, value, got, line["flags"]


def _flagged(column: Any, want: Any, got: Any, flags: list[str], typed: bool, extension: bool) -> bool:
    """True if the reader of a value that differs from the row's can know it."""
    name = column.name
    if want is None:
        return f"null_or_default:{name}" in flags
    if column.type == DECIMAL:
        return not extension or f"lossy_decimal:{name}" in flags  # without either, the message says "double"
    if column.type == BIGINT:
        return not extension and f"sign_unknown:{name}" in flags
    if column.type in (DATE, DATETIME) and (want[:4] == "0000" or "-00" in want):
        return got is None or f"temporal_zero_ambiguous:{name}" in flags
    if column.type in (DATE, DATETIME) and want[:4] < "0100":
        return True  # years below 100 are moved by TiCDC, and nothing tells
    if column.type in (DATETIME, TIME):  # only a definition tells the fraction digits
        return not typed and _unpadded(want) == _unpadded(got)
    # Empty text is the base64 of nothing, and the empty text: both are empty.
    return not extension and isinstance(want, dict) and (f"binary_or_text:{name}" in flags or not got)


def _unpadded(text: str) -> str:
    return text.rstrip("0").rstrip(".") if "." in text else text


@each(
    ("golden", "ddl"),
    **both(
        g for g in [*cases("debezium"), *cases("debezium-avro")] if not g.meta["options"].get("debezium_disable_schema")
    ),
)
def test_debezium_value_that_is_not_the_rows_has_its_flag(golden: Golden, ddl: bool) -> None:
    """golden_check excuses what TiCDC's Debezium loses; the reader of our output learns it by a flag only."""
    equal = case_module().equal
    extension = bool(golden.meta["options"].get("enable_tidb_extension"))
    unflagged = [
        f"{where}: {want!r} → {got!r} {flags}"
        for where, column, want, got, flags in _cells(golden, ddl)
        if not equal(column, want, got)
        and not _flagged(column, want, got, flags, typed=ddl, extension=ddl or extension)
    ]
    assert unflagged == []


@each("golden", [g for g in cases("debezium") if g.meta["options"].get("debezium_disable_schema")], ids=str)
def test_debezium_without_schema_flags_every_value(golden: Golden) -> None:
    for where, cell_column, _, got, flags in _cells(golden, ddl=False):
        if got is not None:
            assert f"untyped:{cell_column.name}" in flags, where


@each("golden", cases("avro"), ids=str)
def test_avro_has_no_flag_but_an_unknown_op(golden: Golden) -> None:
    """Avro holds every value exactly; only insert and update may look the same."""
    blind = not (
        golden.meta["options"].get("enable_tidb_extension") or golden.meta["options"].get("avro_include_before_value")
    )
    for line in golden.plain():
        if line["kind"] == "row":
            assert line["flags"] == (["op_unknown"] if blind and line["op"] != "d" else [])
