"""JSON texts as Confluent keeps them: keys in the order sent, numbers digit by digit in Java's BigDecimal notation.

Source of the rules: registry-api.md §12. A whole number stays a Python int, any other becomes a Decimal, whose text
follows the same rules as BigDecimal's (`1e3` is `1E+3`, `1.50` stays).
"""

from __future__ import annotations

import json
from decimal import Decimal, InvalidOperation
from typing import Any, Final

from service.registry.avro.json_text import MAX_DEPTH, depth_exceeds, quote

Json = None | bool | int | Decimal | str | list[Any] | dict[str, Any]

MAX_NUMBER_LENGTH: Final = 1000
"""Characters of a number; the limit of the JSON library that Confluent uses."""
_MAX_EXPONENT: Final = 2**31 - 1

_LITERALS: Final = {None: "null", True: "true", False: "false"}


def load(text: str) -> Json:
    """Parse a schema text; of a key that comes twice the last value counts.

    Raises ValueError with a reason: not JSON, something after it, nested too deeply, or a number too long.
    """
    try:
        value: Json = json.loads(text, parse_int=_whole, parse_float=_fraction, parse_constant=_refuse_constant)
    except RecursionError:
        raise ValueError(_too_deep()) from None
    if depth_exceeds(value, MAX_DEPTH):
        raise ValueError(_too_deep())
    return value


def dump(value: Json, *, ordered: bool = False) -> str:
    """Compact JSON; with `ordered` the keys of every object are sorted (by UTF-16 units, as Java sorts)."""
    if isinstance(value, str):
        return quote(value)
    if isinstance(value, bool) or value is None:
        return _LITERALS[value]
    if isinstance(value, dict):
        keys = sorted(value, key=utf16) if ordered else value
        return "{" + ",".join([f"{quote(key)}:{dump(value[key], ordered=ordered)}" for key in keys]) + "}"
    if isinstance(value, list):
        return "[" + ",".join([dump(item, ordered=ordered) for item in value]) + "]"
    return str(value)


def utf16(text: str) -> bytes:
    return text.encode("utf-16-be", "surrogatepass")


def kind_of(value: Json) -> str:
    """What a value is, in the words of Confluent's messages."""
    if isinstance(value, bool):
        return "BOOLEAN"
    names = {dict: "OBJECT", list: "ARRAY", str: "STRING", type(None): "NULL"}
    return names.get(type(value), "NUMBER")


def _whole(digits: str) -> int:
    return int(_bounded(digits))


def _fraction(digits: str) -> Decimal:
    try:
        number = Decimal(_bounded(digits))
    except InvalidOperation:
        raise ValueError(f"number out of range: {digits}") from None
    exponent = number.as_tuple().exponent
    if not isinstance(exponent, int) or abs(exponent) > _MAX_EXPONENT:
        raise ValueError(f"number out of range: {digits}")
    return number if number else number.copy_abs()  # BigDecimal has no negative zero


def _bounded(digits: str) -> str:
    if len(digits) > MAX_NUMBER_LENGTH:
        raise ValueError(f"a number has {len(digits)} characters, more than {MAX_NUMBER_LENGTH}")
    return digits


def _refuse_constant(name: str) -> Any:
    raise ValueError(f"Unrecognized token '{name}'")


def _too_deep() -> str:
    return f"Document nesting depth exceeds the maximum allowed ({MAX_DEPTH})"
