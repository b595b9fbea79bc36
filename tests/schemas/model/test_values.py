"""Conversions of values: every exact value goes there and back, everything else is refused."""

import base64
import json
import math
import struct
import uuid
import zlib
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from decimal import ROUND_DOWN, ROUND_UP, Context, Decimal
from fractions import Fraction
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.each import each
from tests.support.python_words import assert_no_python_words
from tests.support.table import check_rows
from ticdc_bridge.schemas.model import values
from ticdc_bridge.schemas.model.errors import WireError
from ticdc_bridge.schemas.model.reasons import reason_of

floats = st.floats(allow_nan=False, allow_infinity=False)
floats32 = st.floats(allow_nan=False, allow_infinity=False, width=32)
micros = st.integers(min_value=-62_135_596_800_000_000, max_value=253_402_300_799_999_999)  # years 1 to 9999


# ---- numbers
@given(st.integers(-(1 << 63), (1 << 64) - 1))
def test_integers_keep_every_digit(number: int) -> None:
    assert values.integer(str(number)) == number


@each("text", ["", "-", "+1", " 1", "1 ", "1_0", "01", "1.0", "1e3", "٣", "1\n", "100000000000000000000000", "0x1"])
def test_what_is_no_integer(text: str) -> None:
    with pytest.raises(ValueError, match="integer"):
        values.integer(text)


@given(floats)
def test_double_text_is_the_same_double_and_the_shortest(number: float) -> None:
    text = values.double_text(number)
    assert struct.pack("<d", float(text)) == struct.pack("<d", number)
    assert _digits(text) == _digits(repr(number))


@given(floats32)
def test_float_text_is_the_same_float32_and_no_shorter_one_is(number: float) -> None:
    text = values.float_text(number)
    packed = struct.pack("<f", number)
    assert struct.pack("<f", float(text)) == packed
    assert not any(_is(shorter, packed) for shorter in _shorter(number, len(_digits(text)) - 1))


def test_float_text_of_every_power_of_two_is_the_shortest() -> None:
    """Their neighbours below are nearer than those above: the text that is theirs may be the farther one."""
    for power in range(-149, 128):
        number = 2.0**power
        text, packed = values.float_text(number), struct.pack("<f", number)
        assert struct.pack("<f", float(text)) == packed
        assert values.float_text(-number) == f"-{text}"
        assert not any(_is(shorter, packed) for shorter in _shorter(number, len(_digits(text)) - 1))


def _shorter(number: float, digits: int) -> list[float]:
    """The two numbers of so many digits that it lies between."""
    if digits < 1:
        return []
    ways = (Context(prec=digits, rounding=rounding) for rounding in (ROUND_DOWN, ROUND_UP))
    return [float(way.create_decimal(Decimal(number))) for way in ways]


def _is(shorter: float, packed: bytes) -> bool:
    return abs(shorter) <= 3.4028235e38 and struct.pack("<f", shorter) == packed


def _digits(text: str) -> str:
    return "".join(map(str, Decimal(text).normalize().as_tuple().digits)) if Decimal(text) else ""


@each(
    ("number", "text"),
    [
        (0.0, "0"), (-0.0, "-0"), (1.0, "1"), (-12.5, "-12.5"), (100000.0, "100000"), (1e6, "1e+06"), (1e21, "1e+21"),
        (0.0001, "0.0001"), (0.00001, "1e-05"), (1e-7, "1e-07"), (1.5e300, "1.5e+300"), (123456.0, "123456"),
        (1234567.0, "1.234567e+06"), (5e-324, "5e-324"),
    ],
)  # fmt: skip
def test_doubles_print_as_go_does(number: float, text: str) -> None:
    assert values.double_text(number) == text


@each(
    ("bits", "text"),
    [
        (0x00000001, "1e-45"),
        (0x7F7FFFFF, "3.4028235e+38"),
        (0x4B7FFFFF, "1.6777215e+07"),
        (0x42F6E979, "123.456"),
        (0x80000000, "-0"),
        (0x00800000, "1.1754944e-38"),
        (0x0F800000, "1.2621775e-29"),  # what Go 1.23 writes
        (0x39800000, "0.00024414062"),
        (0x6B000000, "1.5474251e+26"),
        (0x6C800000, "1.2379401e+27"),
    ],
)
def test_float32_of_every_kind(bits: int, text: str) -> None:
    assert values.float_text(struct.unpack("<f", struct.pack("<I", bits))[0]) == text


@each("number", [math.nan, math.inf, -math.inf])
def test_what_sql_has_no_number_for(number: float) -> None:
    with pytest.raises(ValueError, match="no SQL value"):
        values.double_text(number)
    with pytest.raises((ValueError, OverflowError)):
        values.float_text(number)


# ---- decimals
@st.composite
def decimals(draw: st.DrawFn) -> tuple[int, int, int]:
    """(unscaled, precision, scale) of any DECIMAL that TiDB can hold."""
    precision = draw(st.integers(1, 65))
    scale = draw(st.integers(0, min(precision, 30)))
    return draw(st.integers(-(10**precision) + 1, 10**precision - 1)), precision, scale


@given(decimals())
def test_decimal_text_and_back(made: tuple[int, int, int]) -> None:
    unscaled, precision, scale = made
    text = values.decimal_text(unscaled, scale)
    assert Decimal(text) == Decimal((int(unscaled < 0), tuple(map(int, str(abs(unscaled)))), -scale))
    assert "e" not in text.lower()
    assert len(text.partition(".")[2]) == scale
    assert values.unscaled_decimal(text, precision, scale) == unscaled


@given(decimals())
def test_decimal_that_does_not_fit_is_refused(made: tuple[int, int, int]) -> None:
    unscaled, precision, scale = made
    with pytest.raises(ValueError, match=r"does not fit|not a decimal"):
        values.unscaled_decimal(values.decimal_text(abs(unscaled) + 10**precision, scale), precision, scale)
    with pytest.raises(ValueError, match="more than"):
        values.unscaled_decimal(values.decimal_text(unscaled * 10 + 1, scale + 1), precision, scale)


@each("text", ["", "-", ".5", "5.", "1e5", "+1", "1,5", "NaN", "١", "1" * 66, "--1", "1.2.3", " 1"])
def test_what_is_no_decimal(text: str) -> None:
    with pytest.raises(ValueError, match="not a decimal"):
        values.unscaled_decimal(text, 65, 30)


@given(decimals())
def test_plain_decimal_keeps_the_value(made: tuple[int, int, int]) -> None:
    unscaled, _, scale = made
    for spelled in (values.decimal_text(unscaled, scale), f"{unscaled}e-{scale}", f"{unscaled}E-{scale:02d}"):
        assert Decimal(values.plain_decimal(spelled, scale)) == Decimal(spelled)
        assert len(values.plain_decimal(spelled, scale).partition(".")[2]) == scale
        assert Decimal(values.plain_decimal(spelled, None)) == Decimal(spelled)


@given(decimals().filter(lambda d: abs(d[0]) < 10**15))
def test_fifteen_digits_survive_a_double(made: tuple[int, int, int]) -> None:
    """Below 10^15 a float64 names one DECIMAL of a scale."""
    unscaled, _, scale = made
    text = values.decimal_text(unscaled, scale)
    assert values.survives_double(text)
    assert values.plain_decimal(repr(float(text)), scale).lstrip("-") == text.lstrip("-")


@given(decimals())
def test_survives_double_says_what_happens(made: tuple[int, int, int]) -> None:
    text = values.decimal_text(made[0], made[2])
    assert values.survives_double(text) == (Decimal(repr(float(text))) == Decimal(text))


# ---- bytes
@given(st.binary(max_size=100))
def test_base64_there_and_back(data: bytes) -> None:
    assert values.base64_bytes(values.base64_text(data)) == data


@each("text", ["A", "AB=", "AQ", "AR==", "A Q==", "AQ==\n", "-_8=", "é"])
def test_base64_that_is_not_canonical(text: str) -> None:
    with pytest.raises(ValueError):  # noqa: PT011  # binascii's texts differ by version
        values.base64_bytes(text)


@each(("bits", "size"), [(1, 1), (8, 1), (9, 2), (63, 8), (64, 8)])
def test_bit_size(bits: int, size: int) -> None:
    assert values.bit_size(bits) == size


# ---- lists of elements
elements = st.lists(st.text(st.characters(exclude_characters="\\'"), max_size=8), min_size=1, max_size=6).map(tuple)


@given(elements)
def test_allowed_lists_come_apart_as_they_were_joined(names: tuple[str, ...]) -> None:
    assert values.split_allowed(values.join_allowed(names)) == names


@given(st.text(max_size=30))
def test_any_allowed_list_is_read(text: str) -> None:
    found = values.split_allowed(text)
    assert len(found) == 1 + sum(1 for i, c in enumerate(text) if c == "," and not _escaped(text, i))


def _escaped(text: str, index: int) -> bool:
    escaped = False
    for char in text[:index]:
        escaped = char == "\\" and not escaped
    return escaped


# ---- dates and times
@given(st.dates())
def test_dates(day: object) -> None:
    text = str(day)
    assert values.date_of_days(values.days_of_date(text)) == text


@each(
    "text",
    [
        "0000-00-00", "2024-00-01", "2024-01-00", "2023-02-29", "0000-01-01", "24-01-01", "2024-1-1", "2024-01-01 ",
        "٢٠٢٤-01-01", "10000-01-01", "2024/01/01",
    ],
)  # fmt: skip
def test_what_has_no_day_number(text: str) -> None:
    with pytest.raises(ValueError):  # noqa: PT011  # datetime's own texts are among them
        values.days_of_date(text)


@each("days", [-719_163, 2_932_897, 10**9, -(10**9)])
def test_day_numbers_outside_the_calendar(days: int) -> None:
    with pytest.raises(ValueError, match="outside years"):
        values.date_of_days(days)


@given(micros, st.integers(0, 6))
def test_datetimes(moment: int, fsp: int) -> None:
    step = 10 ** (6 - fsp)
    text = values.datetime_of_micros(moment // step * step, fsp)
    assert values.fraction_digits(text) == fsp
    assert values.micros_of_datetime(text) == moment // step * step
    if moment % step:
        with pytest.raises(ValueError, match="fraction digits"):
            values.datetime_of_micros(moment, fsp)


@each(
    "text",
    [
        "2024-01-01", "2024-01-01T00:00:00", "2024-01-01 24:00:00", "2024-01-01 23:60:00", "2024-01-01 23:59:60",
        "2024-01-01 00:00:00.", "2024-01-01 00:00:00.1234567", "2024-01-01 00:00:00Z", "0000-00-00 00:00:00",
    ],
)  # fmt: skip
def test_what_is_no_datetime(text: str) -> None:
    with pytest.raises(ValueError):  # noqa: PT011
        values.micros_of_datetime(text)


LONGEST = (838 * 3600 + 59 * 60 + 59) * 1_000_000 + 999_999


@given(st.integers(-LONGEST, LONGEST), st.integers(0, 6))
def test_times(duration: int, fsp: int) -> None:
    step = 10 ** (6 - fsp)
    exact = int(duration / step) * step
    text = values.time_of_micros(exact, fsp)
    assert values.micros_of_time(text) == exact
    assert text.startswith("-") == (exact < 0)


@each(
    ("text", "duration"),
    [("-00:00:00.000001", -1), ("838:59:59", 3_020_399_000_000), ("-838:59:59", -3_020_399_000_000)],
)
def test_time_signs(text: str, duration: int) -> None:
    assert values.micros_of_time(text) == duration
    assert values.time_of_micros(duration, values.fraction_digits(text)) == text


@each("duration", [LONGEST + 1, -LONGEST - 1, 10**18])
def test_times_beyond_the_range(duration: int) -> None:
    with pytest.raises(ValueError, match="beyond"):
        values.time_of_micros(duration, 6)


@each("text", ["1:00:00", "00:60:00", "00:00:60", "00:00", "+00:00:00", "1000:00:00", "00:00:00.1234567"])
def test_what_is_no_time(text: str) -> None:
    with pytest.raises(ValueError):  # noqa: PT011
        values.micros_of_time(text)


# ---- zones
ZONES = [
    "UTC", "Asia/Shanghai", "America/New_York", "Europe/London", "Australia/Lord_Howe", "+08:00", "-05:30",
    "Asia/Kathmandu",
]  # fmt: skip


@given(st.integers(1, 4_102_444_800), st.sampled_from(ZONES))
def test_utc_goes_to_a_zone_and_back_unless_it_happened_twice(second: int, zone: str) -> None:
    text = (datetime(1970, 1, 1) + timedelta(seconds=second)).strftime("%Y-%m-%d %H:%M:%S") + ".120"
    local, twice = values.shift_zone(text, "UTC", zone)
    assert local.endswith(".120")
    back, again = values.shift_zone(local, zone, "UTC")
    assert again == twice
    if twice:
        first = datetime.fromisoformat(local[:19]).replace(tzinfo=ZoneInfo(zone), fold=0).astimezone(UTC)
        assert back[:19] == first.strftime("%Y-%m-%d %H:%M:%S")
    else:
        assert back == text


@each("name", ["", "Nowhere/At_All", "+25:00", "+08:60", "+8:00", "../UTC", "Asia", "/etc/passwd", "UTC+1", "\0"])
def test_no_such_zone(name: str) -> None:
    with pytest.raises(ValueError, match="no time zone"):
        values.zone(name)


def test_fixed_offsets() -> None:
    assert values.zone("-05:30").utcoffset(None) == -timedelta(hours=5, minutes=30)
    assert values.zone("utc").utcoffset(None) == values.zone("Z").utcoffset(None) == timedelta(0)


@each("zone", ZONES)
def test_zero_timestamps_have_no_zone(zone: str) -> None:
    for text in ("0000-00-00 00:00:00", "0000-00-00 00:00:00.000"):
        assert values.shift_zone(text, zone, "UTC") == (text, False)


# ---- Reasons of errors: what Python says of what went wrong never reaches a user.

_NULL: Any = None
_EMPTY: Any = {}
_LIST: Any = [1]
_TEXT: Any = "a"
_RAISED: tuple[tuple[Callable[[], Any], str], ...] = (
    (lambda: json.loads(""), "a value is missing at character 0"),
    (lambda: json.loads('{"a" 1}'), "a colon is missing at character 5"),
    (lambda: json.loads("[1 2]"), "a comma or a closing bracket is missing"),
    (lambda: json.loads("{1:2}"), "a name in double quotes is missing"),
    (lambda: json.loads('"a'), "a string begins that does not end"), (lambda: json.loads('"\\x"'), "a backslash"),
    (lambda: json.loads('"\\u12"'), "four hexadecimal digits"), (lambda: json.loads('"\n"'), "a control character"),
    (lambda: json.loads("{} 1"), "more text follows"), (lambda: json.loads("[" * 100_000), "nested too deep"),
    (lambda: b"\xff".decode(), "byte 0 is not UTF-8"), (lambda: "\ud800".encode(), "not UTF-8"),
    (lambda: _EMPTY["op"], "no 'op'"), (lambda: _EMPTY[1], "another form"),
    (lambda: _NULL["a"], "null stands where something else is needed"), (lambda: _LIST["a"], "a list stands"),
    (lambda: _TEXT["b"], "a text stands"), (lambda: "a" in _NULL, "null stands"), (lambda: list(_NULL), "null stands"),
    (lambda: _NULL.get("a"), "null stands"), (lambda: int("x"), "no number"), (lambda: float("x"), "no number"),
    (lambda: Fraction("x"), "no number"), (lambda: Decimal("x"), "no number that can be read"),
    (lambda: int("9" * 5000), "a number of more digits"), (lambda: _unpack([1]), "a list of another length"),
    (lambda: datetime.fromisoformat("x"), "no date or time"), (lambda: bytes.fromhex("x"), "no hexadecimal text"),
    (lambda: uuid.UUID("x"), "no UUID"), (lambda: base64.b64decode("abc"), "no base64 text"),
    (lambda: base64.b64decode("é"), "no base64 text"), (lambda: struct.unpack("<d", b""), "it ends too early"),
    (lambda: zlib.decompress(b"x"), "the compressed data is damaged"),
    (lambda: Path("/no/such/file").read_bytes(), "No such file or directory"),
    (lambda: Path("/a\0b").read_bytes(), "a zero byte"), (lambda: 1 // 0, "no number that can be read"),
    (lambda: _raise(WireError("MALFORMED", where="value", details="ours")), "value: ours"),
    (lambda: _raise(ValueError("ours")), "ours"),
    (lambda: _raise(TimeoutError("timed out")), "no answer came in time"),
)  # fmt: skip


def _unpack(pair: list[int]) -> int:
    left, other = pair
    return left + other


def _raise(error: Exception) -> None:
    raise error


def test_reasons() -> None:
    def check(row: tuple[Callable[[], Any], str]) -> None:
        with pytest.raises(Exception) as caught:  # noqa: PT011
            row[0]()
        reason = reason_of(caught.value)
        assert row[1] in reason
        assert_no_python_words(reason)

    check_rows(_RAISED, check, lambda row: row[1])
