"""Is a JSON value a valid default of a type? In Avro 1.12 a union's may match any branch (measured)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from ticdc_bridge.service.schema_types.avro.model import MISSING, Array, Map, Node, Record, Union

_INT, _LONG = 1 << 31, 1 << 63


def _is_integer(value: Any, bound: int) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and -bound <= value < bound


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _is_text(value: Any) -> bool:
    return isinstance(value, str)


# Size of a fixed and symbols of an enum are not looked at; neither does Java.
_CHECKS: Final[dict[str, Callable[[Any], bool]]] = {
    "null": lambda value: value is None,
    "boolean": lambda value: isinstance(value, bool),
    "int": lambda value: _is_integer(value, _INT),
    "long": lambda value: _is_integer(value, _LONG),
    "float": _is_number,
    "double": _is_number,
    "bytes": _is_text,
    "string": _is_text,
    "enum": _is_text,
    "fixed": _is_text,
}


def is_valid_default(node: Node, value: Any) -> bool:
    """True if `value` (parsed JSON) may stand as the default of a field of this type."""
    return _valid(node, value, {})


def _valid(node: Node, value: Any, answers: dict[tuple[int, int], bool]) -> bool:
    """`answers` remembers what was answered: nested unions would ask the same again and again, twice as often a level.

    A default that needs itself (a record whose field defaults to that record) is not valid.
    """
    if not isinstance(node, Union | Array | Map | Record):
        return _CHECKS[node.kind](value)
    key = (id(node), id(value))
    if key not in answers:
        answers[key] = False
        answers[key] = _valid_parts(node, value, answers)
    return answers[key]


def _valid_parts(node: Node, value: Any, answers: dict[tuple[int, int], bool]) -> bool:
    match node:
        case Union():
            return any(_valid(branch, value, answers) for branch in node.branches)
        case Array():
            return isinstance(value, list) and all(_valid(node.items, item, answers) for item in value)
        case Map():
            return isinstance(value, dict) and all(_valid(node.values, item, answers) for item in value.values())
        case Record() if isinstance(value, dict):
            pairs = [(field.type, value.get(field.name, field.default)) for field in node.fields]
            return all(field_value is not MISSING and _valid(kind, field_value, answers) for kind, field_value in pairs)
    return False
