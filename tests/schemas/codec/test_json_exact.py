"""JSON without losing a digit, and safe against hostile documents."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.each import each
from ticdc_bridge.schemas.codec import json_exact
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
        "",
        " ",
        "{",
        "[1,]",
        "{'a':1}",
        "01",
        "1.",
        ".5",
        "+1",
        "NaN",
        "-Infinity",
        "[Infinity]",
        '{"a":1,"a":2}',
        '{"x":{"b":1,"b":1}}',
        "1 2",
        "{} x",
        '"\x01"',
        '"\\x"',
        "tru",
        "\ufeff1",
        "1\u00a0",
        "/**/1",
        "[" * 100_000,
        '{"a":' * 100_000,
        "[" * 100_000 + "]" * 100_000,
    ],
)
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
