"""What a plain line may say beside its row (`extra`): encoders write it into messages as it is."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from ticdc_bridge.schemas.formats.other_fields import EXTRA as OTHER_FIELDS
from ticdc_bridge.schemas.model.errors import WireError
from ticdc_bridge.schemas.model.reasons import shown


class _Rule(NamedTuple):
    holds: Callable[[Any], bool]
    needed: str


def _int64(value: Any) -> bool:
    return type(value) is int and -(1 << 63) <= value < 1 << 63


def _is_natural(value: Any) -> bool:
    return type(value) is int and 0 <= value < 1 << 63


def _all_values(value: Any, holds: Callable[[Any], bool]) -> bool:
    return isinstance(value, dict) and all(map(holds, value.values()))


def _cell(value: Any) -> bool:
    if not isinstance(value, list) or len(value) != 3:
        return False
    code, handle, flags = value
    return _is_natural(code) and type(handle) is bool and (flags is None or _is_natural(flags))


def _type(value: Any) -> bool:
    return isinstance(value, list) and len(value) == 2 and all(map(_is_natural, value))


def _text(value: Any) -> bool:
    return isinstance(value, str)


_INT64 = _Rule(_int64, "a number of 64 bits")
_TEXT = _Rule(_text, "a text")
_OTHERS = {
    OTHER_FIELDS: _Rule(
        lambda v: _all_values(v, lambda part: isinstance(part, dict)), "an object of objects by part of the message"
    )
}
_OPEN = {
    **_OTHERS,
    "rid": _INT64,
    "ptn": _INT64,
    "ohk": _Rule(lambda v: type(v) is bool, "true or false"),
    "columns": _Rule(lambda v: _all_values(v, _cell), "an object of [type code, handle key or not, flags or null]"),
    "enum_zero": _Rule(lambda v: isinstance(v, list) and all(map(_text, v)), "a list of texts"),
}
_TICDC = {**_OTHERS, "ts_ms": _INT64, "start_ts": _INT64, "cluster_id": _TEXT}
_BY_FORMAT: Mapping[str, Mapping[str, _Rule]] = {
    "avro": {"keyspace": _TEXT},
    "open": _OPEN,
    "open-tiflow": _OPEN,
    "craft": {
        "types": _Rule(lambda v: _all_values(v, _type), "an object of [type code, flags]"),
        "raw": _Rule(
            lambda v: _all_values(v, lambda side: _all_values(side, _text)), "an object of contents in hex by side"
        ),
    },
    "debezium": _TICDC,
    "debezium-avro": _TICDC,
    "debezium-tidb": {**_OTHERS, "source": _Rule(lambda v: isinstance(v, dict), "an object")},
    "debezium-mysql": {**_OTHERS, "source": _Rule(lambda v: isinstance(v, dict), "an object")},
}


def check_extra(format_: str, extra: Mapping[str, Any]) -> None:
    """WireError BAD_LINE for what the encoder of `format_` could not write, or no decoder could read again."""
    for name, rule in _BY_FORMAT.get(format_, {}).items():
        if name in extra and not rule.holds(extra[name]):
            details = f"extra.{name} is {shown(extra[name], 60)}; {rule.needed} is needed"
            raise WireError("BAD_LINE", where="plain form", details=details)
    if not _is_encodable(extra):
        raise WireError("BAD_LINE", where="plain form", details="a text in extra holds half of a surrogate pair")


def _is_encodable(value: Any) -> bool:
    """Whether all texts in it are Unicode: JSON can spell others."""
    if isinstance(value, str):
        return value.isascii() or not any("\ud800" <= c <= "\udfff" for c in value)
    if isinstance(value, Mapping):
        return all(_is_encodable(k) and _is_encodable(v) for k, v in value.items())
    return not isinstance(value, list) or all(map(_is_encodable, value))
