"""Values that travel as SQL text, with numbers for BIT, ENUM and SET (Simple, Canal-JSON) → plain values."""

import re
from collections.abc import Callable

from ticdc_bridge.schemas.codec.json_exact import is_utf8
from ticdc_bridge.schemas.model import values
from ticdc_bridge.schemas.model.table import Column, Value
from ticdc_bridge.schemas.model.types import Kind

_LONGEST_REAL = 1100  # a double in full, without exponent
_DATETIME = re.compile(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d(?:\.\d{1,6})?\Z", re.ASCII)
TEMPORAL_FORMS = {
    Kind.DATE: re.compile(r"\d{4}-\d\d-\d\d\Z", re.ASCII),
    Kind.DATETIME: _DATETIME,
    Kind.TIMESTAMP: _DATETIME,
    Kind.TIME: re.compile(r"-?\d{2,3}:\d\d:\d\d(?:\.\d{1,6})?\Z", re.ASCII),
}
"""The form of dates and times as TiDB writes them; whether there is such a day is not looked at."""


def read(column: Column, text: str) -> tuple[Value, str]:
    """(plain value, flag or ""). Binary columns have their own notation in each format: not here.

    ValueError when the text is not of the column's type. Text read with surrogateescape that is not UTF-8 is bytes.
    """
    reader = _READERS.get(column.type.kind)
    return reader(column, text) if reader else (text_or_bytes(text), "")


def text_or_bytes(text: str) -> str | bytes:
    """Text of a message read with surrogateescape; the bytes where they are not UTF-8."""
    return text if text.isascii() or is_utf8(text) else text.encode("utf-8", "surrogateescape")


def pad_fraction(text: str, fsp: int | None) -> str:
    """Temporal text with as many fraction digits as the column has, where zeros were left out at its end. ValueError if
    it has more.

    fsp: None keeps the digits that are there, six at most.
    """
    integer, _, fraction = text.partition(".")
    fsp = min(len(fraction), 6) if fsp is None else fsp
    if fraction[fsp:].strip("0"):
        raise ValueError(f"{text} has more than {fsp} fraction digits")
    fraction = fraction[:fsp].ljust(fsp, "0")
    return f"{integer}.{fraction}" if fraction else integer


def _real(text: str) -> float:
    if len(text) > _LONGEST_REAL:
        raise ValueError(f"{text[:40]}… is no number")
    return values.real(text)


def _decimal(column: Column, text: str) -> tuple[Value, str]:
    scale = column.scale
    if "e" in text.lower() or (scale is not None and len(text.partition(".")[2]) < scale):
        text = values.plain_decimal(text, scale)  # TiCDC writes all fraction digits, others don't
    values.check_decimal(text)
    if column.length is not None and column.scale is not None:
        values.unscaled_decimal(text, column.length, column.scale)
    return text, ""


def _enum(column: Column, text: str) -> tuple[Value, str]:
    number = values.integer(text, 64, unsigned=True)
    if not column.elements:
        return text, "enum_number"
    if number > len(column.elements):
        raise ValueError(f"{number} is no element, there are {len(column.elements)}")
    return column.elements[number - 1] if number else "", ""


def _set(column: Column, text: str) -> tuple[Value, str]:
    mask = values.integer(text, 64, unsigned=True)
    if not column.elements:
        return text, "enum_number"
    if mask >> len(column.elements):
        raise ValueError(f"{mask} is no set of {len(column.elements)} elements")
    return values.set_names(mask, column.elements), ""


def _binary(_column: Column, _text: str) -> tuple[Value, str]:
    raise ValueError("text, where binary is needed")


_READERS: dict[Kind, Callable[[Column, str], tuple[Value, str]]] = {
    Kind.INTEGER: lambda column, text: (str(values.integer(text, column.type.bits, column.unsigned)), ""),
    Kind.YEAR: lambda _column, text: (str(values.year(text)), ""),
    Kind.FLOAT: lambda _column, text: (values.float_text(values.as_float32(_real(text))), ""),
    Kind.DOUBLE: lambda _column, text: (values.double_text(_real(text)), ""),
    Kind.DECIMAL: _decimal,
    Kind.BIT: lambda column, text: (values.bit_bytes(text, column.length), ""),
    Kind.ENUM: _enum,
    Kind.SET: _set,
    Kind.BINARY: _binary,
}
