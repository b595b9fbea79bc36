"""JSON without losing a digit, and safe against hostile documents."""

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.support.each import each
from ticdc_bridge.schemas.codec import go_text, json_exact
from ticdc_bridge.schemas.codec.bounded_cache import BoundedCache, LruCache
from ticdc_bridge.schemas.codec.json_exact import Number

documents = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=20,
)


def _numbers(value: Any) -> Any:
    """The document as the standard library reads it, numbers as their text."""
    if isinstance(value, dict):
        return {k: _numbers(v) for k, v in value.items()}
    if isinstance(value, list):
        return [_numbers(v) for v in value]
    return json.dumps(value) if isinstance(value, int | float) and not isinstance(value, bool) else value


@given(documents, st.sampled_from([(",", ":"), (", ", ": "), (" ,\n", "\t:\r")]), st.booleans())
def test_reads_what_json_reads(document: Any, separators: tuple[str, str], ascii_: bool) -> None:
    text = json.dumps(document, separators=separators, ensure_ascii=ascii_)
    got = json_exact.decode(" \n" + text + "\t")
    assert got == _numbers(document)
    assert json.loads(json_exact.dump(got)) == json.loads(text)


@each("text", ["1.10", "1e400", "-0", "-0.0", "123456789012345678901234567890.123456789", "1E+05"])
def test_numbers_stay_the_text_they_were(text: str) -> None:
    got = json_exact.decode(f"[{text}]")
    assert got == [text]
    assert isinstance(got[0], Number)
    assert json_exact.dump(got) == f"[{text}]"


@each(
    "text",
    [
        "", " ", "{", "[1,]", "{'a':1}", "01", "1.", ".5", "+1", "NaN", "-Infinity", "[Infinity]", '{"a":1,"a":2}',
        '{"x":{"b":1,"b":1}}', "1 2", "{} x", '"\x01"', '"\\x"', "tru", "\ufeff1", "1\u00a0", "/**/1", "[" * 100_000,
        '{"a":' * 100_000, "[" * 100_000 + "]" * 100_000,
    ],
)  # fmt: skip
def test_what_is_refused(text: str) -> None:
    with pytest.raises(ValueError):  # noqa: PT011  # json's own texts
        json_exact.decode(text)


@each(
    ("text", "number"),
    [("0", 0), ("-1", -1), ("18446744073709551615", (1 << 64) - 1), ("-9223372036854775808", -(1 << 63))],
)
def test_integer(text: str, number: int) -> None:
    assert json_exact.integer(Number(text), "x") == number


@each("value", [Number("1.0"), Number("1e3"), Number("1" * 21), "1", 1, None, True, [], Number("-")])
def test_what_is_no_integer(value: Any) -> None:
    with pytest.raises(ValueError, match="x is no integer"):
        json_exact.integer(value, "x")


def test_string_is_no_number() -> None:
    assert json_exact.string("1", "x") == "1"
    value: Any
    for value in (Number("1"), None, 1, {}):
        with pytest.raises(ValueError, match="x is no string"):
            json_exact.string(value, "x")


# ---- Texts as Go writes them: floats, JSON strings, strconv.Quote.


# ---- Go's texts
@settings(deadline=None)
@given(st.binary())
def test_quote_and_back(data: bytes) -> None:
    quoted = go_text.quote(data)
    assert go_text.unquote(quoted) == data
    assert quoted.isprintable()


@each(
    ("data", "quoted"),
    [
        (b"\0\x01\x04\xff\xfe", "\\x00\\x01\\x04\\xff\\xfe"), (b"\a\b\t\n\v\f\r\x1b", "\\a\\b\\t\\n\\v\\f\\r\\x1b"),
        (b"\x7f\\\"'", "\\x7f\\\\\\\"'"), ("é中😀".encode(), "é中😀"),
        ("\x80\xad\u2028\ufeff\U000e0001".encode(), "\\u0080\\u00ad\\u2028\\ufeff\\U000e0001"),
        ("\ufffd\u00a0\u3000".encode(), "\ufffd\\u00a0\\u3000"), (b"\xed\xa0\x80", "\\xed\\xa0\\x80"),
    ],
)  # fmt: skip
def test_quote_as_go_does(data: bytes, quoted: str) -> None:
    assert go_text.quote(data) == quoted
    assert go_text.unquote(quoted) == data


@each(
    ("text", "bits", "written", "classic"),
    [
        ("1e-07", 64, "1e-07", "1e-7"), ("1e-10", 64, "1e-10", "1e-10"), ("0.000001", 64, "0.000001", "0.000001"),
        ("0.00000123", 64, "0.00000123", "0.00000123"), ("9.99e-7", 64, "9.99e-07", "9.99e-7"),
        ("1e20", 64, "100000000000000000000", "100000000000000000000"), ("1e+21", 64, "1e+21", "1e+21"),
        ("-1.7976931348623157e+308", 64, "-1.7976931348623157e+308", "-1.7976931348623157e+308"),
        ("-1e+07", 32, "-10000000", "-10000000"), ("3.4028235e+38", 32, "3.4028235e+38", "3.4028235e+38"),
        ("1e-45", 32, "1e-45", "1e-45"), ("153.123", 32, "153.123", "153.123"), ("-0", 64, "-0", "-0"),
        ("0", 32, "0", "0"), ("1.5474251e+26", 32, "1.5474251e+26", "1.5474251e+26"),
    ],
)  # fmt: skip
def test_floats_as_go_writes_them(text: str, bits: int, written: str, classic: str) -> None:
    assert go_text.json_float(text, bits, False) == written
    assert go_text.json_float(text, bits, True) == classic


@settings(deadline=None)
@given(st.text(st.characters(exclude_categories=["Cs"])))
def test_json_strings_come_back(text: str) -> None:
    for string in (go_text.jsoniter_string(text), go_text.std_string(text)):
        assert json.loads(string) == text


def test_json_strings_as_go_writes_them() -> None:
    text = '<&>\u2028\b\f\n\r\t\x01\x7f"\\/é'
    assert go_text.jsoniter_string(text) == '"<&>\u2028\\u0008\\u000c\\n\\r\\t\\u0001\x7f\\"\\\\/é"'
    assert go_text.std_string(text) == '"\\u003c\\u0026\\u003e\\u2028\\b\\f\\n\\r\\t\\u0001\x7f\\"\\\\/é"'


# ---- Caches stay within their bounds.


def test_the_least_recently_used_go_first() -> None:
    cache: LruCache[str, str] = LruCache(100, lambda key, _value: len(key))
    for number in range(50):
        cache.put(f"{number:030}", "x")
        assert cache.get(f"{0:030}") == "x"
    assert len(cache) == 3
    assert cache.get(f"{48:030}") == cache.get(f"{49:030}") == "x"
    cache.put("x" * 101, "y")
    assert cache.get("x" * 101) is None
    assert len(cache) == 3


def test_one_that_is_full_starts_anew() -> None:
    cache: BoundedCache[int, str] = BoundedCache(3, 10, lambda _, text: len(text))
    for number in range(4):
        cache[number] = "ab"
    assert cache == {3: "ab"}
    cache[4] = "a" * 9
    assert cache == {4: "a" * 9}
