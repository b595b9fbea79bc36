"""Reasons of errors: what Python says of what went wrong never reaches a user."""

from __future__ import annotations

import base64
import json
import struct
import uuid
import zlib
from collections.abc import Callable
from datetime import datetime
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest

from tests.support.python_words import assert_no_python_words
from tests.support.table import check_rows
from ticdc_bridge.schemas.model.errors import WireError
from ticdc_bridge.schemas.model.reasons import reason_of

_NULL: Any = None
_EMPTY: Any = {}
_LIST: Any = [1]
_TEXT: Any = "a"
_RAISED: tuple[tuple[Callable[[], Any], str], ...] = (
    (lambda: json.loads(""), "a value is missing at character 0"),
    (lambda: json.loads('{"a" 1}'), "a colon is missing at character 5"),
    (lambda: json.loads("[1 2]"), "a comma or a closing bracket is missing"),
    (lambda: json.loads("{1:2}"), "a name in double quotes is missing"),
    (lambda: json.loads('"a'), "a string begins that does not end"),
    (lambda: json.loads('"\\x"'), "a backslash"),
    (lambda: json.loads('"\\u12"'), "four hexadecimal digits"),
    (lambda: json.loads('"\n"'), "a control character"),
    (lambda: json.loads("{} 1"), "more text follows"),
    (lambda: json.loads("[" * 100_000), "nested too deep"),
    (lambda: b"\xff".decode(), "byte 0 is not UTF-8"),
    (lambda: "\ud800".encode(), "not UTF-8"),
    (lambda: _EMPTY["op"], "no 'op'"),
    (lambda: _EMPTY[1], "another form"),
    (lambda: _NULL["a"], "null stands where something else is needed"),
    (lambda: _LIST["a"], "a list stands"),
    (lambda: _TEXT["b"], "a text stands"),
    (lambda: "a" in _NULL, "null stands"),
    (lambda: list(_NULL), "null stands"),
    (lambda: _NULL.get("a"), "null stands"),
    (lambda: int("x"), "no number"),
    (lambda: float("x"), "no number"),
    (lambda: Fraction("x"), "no number"),
    (lambda: Decimal("x"), "no number that can be read"),
    (lambda: int("9" * 5000), "a number of more digits"),
    (lambda: _unpack([1]), "a list of another length"),
    (lambda: datetime.fromisoformat("x"), "no date or time"),
    (lambda: bytes.fromhex("x"), "no hexadecimal text"),
    (lambda: uuid.UUID("x"), "no UUID"),
    (lambda: base64.b64decode("abc"), "no base64 text"),
    (lambda: base64.b64decode("é"), "no base64 text"),
    (lambda: struct.unpack("<d", b""), "it ends too early"),
    (lambda: zlib.decompress(b"x"), "the compressed data is damaged"),
    (lambda: Path("/no/such/file").read_bytes(), "No such file or directory"),
    (lambda: Path("/a\0b").read_bytes(), "a zero byte"),
    (lambda: 1 // 0, "no number that can be read"),
    (lambda: _raise(WireError("MALFORMED", where="value", details="ours")), "value: ours"),
    (lambda: _raise(ValueError("ours")), "ours"),
)  # fmt: skip


def _unpack(pair: list[int]) -> int:
    one, other = pair
    return one + other


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
