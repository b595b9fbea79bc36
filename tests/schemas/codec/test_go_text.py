"""Texts as Go writes them: floats, JSON strings, strconv.Quote."""

from __future__ import annotations

import json

from hypothesis import given, settings
from hypothesis import strategies as st

from tests.support.each import each
from ticdc_bridge.schemas.codec import go_text


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
        (b"\0\x01\x04\xff\xfe", "\\x00\\x01\\x04\\xff\\xfe"),
        (b"\a\b\t\n\v\f\r\x1b", "\\a\\b\\t\\n\\v\\f\\r\\x1b"),
        (b"\x7f\\\"'", "\\x7f\\\\\\\"'"),
        ("é中😀".encode(), "é中😀"),
        ("\x80\xad\u2028\ufeff\U000e0001".encode(), "\\u0080\\u00ad\\u2028\\ufeff\\U000e0001"),
        ("\ufffd\u00a0\u3000".encode(), "\ufffd\\u00a0\\u3000"),
        (b"\xed\xa0\x80", "\\xed\\xa0\\x80"),
    ],
)
def test_quote_as_go_does(data: bytes, quoted: str) -> None:
    assert go_text.quote(data) == quoted
    assert go_text.unquote(quoted) == data


@each(
    ("text", "bits", "written", "classic"),
    [
        ("1e-07", 64, "1e-07", "1e-7"),
        ("1e-10", 64, "1e-10", "1e-10"),
        ("0.000001", 64, "0.000001", "0.000001"),
        ("0.00000123", 64, "0.00000123", "0.00000123"),
        ("9.99e-7", 64, "9.99e-07", "9.99e-7"),
        ("1e20", 64, "100000000000000000000", "100000000000000000000"),
        ("1e+21", 64, "1e+21", "1e+21"),
        ("-1.7976931348623157e+308", 64, "-1.7976931348623157e+308", "-1.7976931348623157e+308"),
        ("-1e+07", 32, "-10000000", "-10000000"),
        ("3.4028235e+38", 32, "3.4028235e+38", "3.4028235e+38"),
        ("1e-45", 32, "1e-45", "1e-45"),
        ("153.123", 32, "153.123", "153.123"),
        ("-0", 64, "-0", "-0"),
        ("0", 32, "0", "0"),
    ],
)
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
