"""Default values: as written → the text that TiDB keeps for the column's type.

Rules: upstream `pkg/ddl/add_column.go`, getDefaultValue. Integers and floats are converted to their type, ENUM and SET
to their elements, temporal values to their own text; DECIMAL, YEAR and texts stay as written.
"""

import re
from collections.abc import Callable
from dataclasses import replace
from decimal import ROUND_HALF_UP, Decimal, InvalidOperation
from typing import Any

from ticdc_bridge.schemas.ddl.executor import temporal_literals
from ticdc_bridge.schemas.ddl.executor.charsets import collation_weight, decode
from ticdc_bridge.schemas.ddl.parser.statements import DefaultValue
from ticdc_bridge.schemas.model import values
from ticdc_bridge.schemas.model.errors import DdlError
from ticdc_bridge.schemas.model.table import Column, Value
from ticdc_bridge.schemas.model.types import Kind

_NUMBER = re.compile(r"\d{1,20}\Z", re.ASCII)
_NO_UTF8 = re.compile("[\udc80-\udcff]")
_DATES = (Kind.DATE, Kind.DATETIME, Kind.TIMESTAMP)
_LEADING_NUMBER = re.compile(r"\s*[-+]?(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?", re.ASCII)


def with_default(column: Column, default: DefaultValue) -> Column:
    """The column with its default. DDL_NOT_APPLICABLE where the value does not fit its type."""
    column = replace(column, default_unzoned=False, default_dropped=False)
    if default.kind == "null":
        return replace(column, has_default=False, default=None, default_is_expr=False)
    if default.kind == "expr":
        return replace(column, has_default=True, default=default.text, default_is_expr=True)
    if default.kind == "computed" or (default.kind == "date" and column.type.kind not in _DATES):
        details = (
            f"TiDB computes DEFAULT ({default.text}) of {column.name} once and keeps the value, which the statement "
            "does not tell: give the table's SHOW CREATE TABLE"
        )
        raise DdlError("DDL_NOT_APPLICABLE", details=details)
    if default.kind in ("now", "date"):
        clock = "CURRENT_TIMESTAMP" if default.kind == "now" else default.text
        return replace(column, has_default=True, default=clock, default_is_expr=False)
    try:
        value = _CONVERSIONS[column.type.kind](column, default)
    except (ValueError, InvalidOperation, OverflowError) as error:
        written = f"x'{default.bits.hex()}'" if default.bits else repr(default.text)
        why = error if isinstance(error, ValueError) else "it is no number that this type holds"
        details = f"{written} is no default of {column.name} {column.type.name}: {why}"
        raise DdlError("DDL_NOT_APPLICABLE", details=details) from error
    # Zero is zero in every zone.
    unzoned = column.type.kind is Kind.TIMESTAMP and not str(value).startswith(values.ZERO_TIMESTAMP)
    return replace(column, has_default=True, default=value, default_is_expr=False, default_unzoned=unzoned)


def _number_text(default: DefaultValue) -> str:
    """Digits of a number, or of the number a text or bits stand for."""
    if default.kind == "bits":
        return str(int.from_bytes(default.bits, "big"))
    if default.kind == "text":
        match = _LEADING_NUMBER.match(default.text)
        if not match or default.text[match.end() :].strip():
            raise ValueError("it is not a number")
        return match[0].strip()
    return default.text


def _integer(column: Column, default: DefaultValue) -> Value:
    number, is_double = _parse_bounded(_number_text(default)), default.kind == "float"
    return str(round(float(number)) if is_double else int(number.quantize(Decimal(1), ROUND_HALF_UP)))


def _parse_bounded(text: str) -> Decimal:
    number = Decimal(text)
    if number.is_finite() and number.adjusted() > 400:
        raise ValueError("it is too large")
    return number


def _float(column: Column, default: DefaultValue) -> Value:
    number = float(_parse_bounded(_number_text(default)))
    if column.scale is not None:
        shift = float(f"1e{column.scale}")
        number = round(number * shift, 0) / shift  # upstream `types.Round`: halves to even, and no more exact than that
    if column.type.kind is Kind.FLOAT:
        return _plain_text(values.float_text(values.as_float32(number)))
    return _plain_text(values.double_text(number))


def _plain_text(text: str) -> str:
    """Without an exponent: TiDB prints these as %f with the shortest digits."""
    return format(Decimal(text), "f") if "e" in text else text


def _written_text(column: Column, default: DefaultValue) -> Value:
    if default.kind == "bits":
        return str(int.from_bytes(default.bits, "big"))
    if default.kind == "float":
        return _plain_text(values.double_text(float(_parse_bounded(default.text))))
    return default.text


def _text(column: Column, default: DefaultValue) -> Value:
    if default.kind != "bits":
        return _written_text(column, default)
    try:
        return decode(default.bits, column.charset)
    except UnicodeDecodeError:
        raise ValueError(f"it is no text in {column.charset or 'UTF-8'}") from None


def _binary(column: Column, default: DefaultValue) -> Value:
    raw = default.bits if default.kind == "bits" else str(_written_text(column, default)).encode()
    raw = raw.ljust(column.length or 0, b"\0") if column.type.name == "binary" else raw
    # TiDB keeps table definitions as JSON, in which a byte that is no UTF-8 is U+FFFD; the row's value is that, too.
    return _NO_UTF8.sub("\N{REPLACEMENT CHARACTER}", raw.decode("utf-8", "surrogateescape")).encode()


def _bit(column: Column, default: DefaultValue) -> Value:
    if default.kind == "bits":
        raw = default.bits
    elif default.kind == "int":
        number = int(default.text)
        raw = number.to_bytes(max(1, (number.bit_length() + 7) // 8), "big")
    else:  # of 5.5, as of '5.5', the characters
        raw = str(_written_text(column, default)).encode()
    if int.from_bytes(raw, "big").bit_length() > (column.length or 1):
        raise ValueError(f"it has more than {column.length or 1} bits")
    # Leading zero bytes of a literal are lost on the way through TiCDC: they are no part of the value.
    return raw.lstrip(b"\0") or raw[:1]


def _enum(column: Column, default: DefaultValue) -> Value:
    if default.kind == "int":
        return _element_at(column, int(default.text))
    text = str(_text(column, default)).rstrip(" ")
    element = _element(column, text)
    if element is None and _NUMBER.match(text):  # upstream `types.ParseEnumName`: no element, but maybe its number
        return _element_at(column, int(text))
    return _require_element(column, element)


def _element_at(column: Column, number: int) -> str:
    if not 1 <= number <= len(column.elements):
        raise ValueError(f"there are {len(column.elements)} elements")
    return column.elements[number - 1]


def _element(column: Column, text: str) -> str | None:
    """The element of this name, as the column's collation compares: trailing blanks, letters' cases and accents."""
    if text in column.elements:
        return text
    weight = collation_weight(text, column.collate)
    return next((e for e in column.elements if collation_weight(e, column.collate) == weight), None)


def _require_element(column: Column, element: str | None) -> str:
    if element is None:
        raise ValueError(f"it is not one of {', '.join(column.elements[:20])}")
    return element


def _set(column: Column, default: DefaultValue) -> Value:
    if default.kind == "int":
        return _members(column, int(default.text))
    text = str(_text(column, default))
    elements = [_element(column, word) for word in text.split(",")] if text else []
    if None in elements and _NUMBER.match(text):
        return _members(column, int(text))
    chosen = {_require_element(column, element) for element in elements}
    return ",".join(e for e in column.elements if e in chosen)


def _members(column: Column, number: int) -> str:
    if not 1 <= number < 1 << len(column.elements):
        raise ValueError(f"there are {len(column.elements)} elements")
    return values.set_names(number, column.elements)


def _json(column: Column, default: DefaultValue) -> Value:
    # Only without strict mode; TiDB refuses other literals.
    return "null" if (default.kind, default.text) == ("text", "") else _text(column, default)


def _temporal(column: Column, default: DefaultValue) -> Value:
    text, fsp = str(_text(column, default)), column.scale or 0
    if column.type.kind is Kind.TIME:
        return temporal_literals.time_text(text, fsp)
    if default.kind == "int":
        text = temporal_literals.number_text(int(text), fsp)
    else:
        text = temporal_literals.datetime_text(text, fsp)
    return text[:10] if column.type.kind is Kind.DATE else text


_CONVERSIONS: dict[Kind, Callable[[Column, DefaultValue], Any]] = {
    Kind.INTEGER: _integer, Kind.FLOAT: _float, Kind.DOUBLE: _float, Kind.DECIMAL: _written_text, Kind.BIT: _bit,
    Kind.TEXT: _text, Kind.BINARY: _binary, Kind.ENUM: _enum, Kind.SET: _set, Kind.DATE: _temporal,
    Kind.DATETIME: _temporal, Kind.TIMESTAMP: _temporal, Kind.TIME: _temporal, Kind.YEAR: _written_text,
    Kind.JSON: _json, Kind.VECTOR: _text,
}  # fmt: skip
