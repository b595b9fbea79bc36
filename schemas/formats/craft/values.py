"""Columns in Craft: type code and flags ↔ Column, content of a value ↔ plain value.

Sources: upstream tiflow `craft/message_encoder.go` (EncodeTiDBType), `cdc/model/sink.go` (column flags). FLOATs that
TiCDC damaged, and ENUM, SET and BIT, of which only the number travels, are dealt with here.
"""

import math
import re
import struct
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import NoReturn

from ticdc_bridge.schemas.codec.sql_text import TEMPORAL_FORMS
from ticdc_bridge.schemas.formats import definitions
from ticdc_bridge.schemas.formats.craft.layout import unzigzag, uvarint, varint
from ticdc_bridge.schemas.formats.definitions import ALWAYS_UNSIGNED, ANY_TYPE
from ticdc_bridge.schemas.model import values
from ticdc_bridge.schemas.model.table import Column, Value, require_bytes, require_text
from ticdc_bridge.schemas.model.types import ALWAYS_NULL, BY_CODE, BY_NAME, CHARACTER, Kind

_SMALL = tuple(str(unzigzag(n)) for n in range(128))
_SMALL_UNSIGNED = tuple(map(str, range(128)))
ENUM_NUMBER, FLOAT_DAMAGED = "enum_number", "float_damaged"
_DOUBLE = struct.Struct("<d")
_BEYOND_FLOAT = 2.0**128 - 2.0**103  # from here on a double is not rounded to the greatest float32
# Type codes that are no column type of TiDB's today, and what they stand for.
_OTHER_CODES = {(253, False): "varchar", (253, True): "varbinary", (14, False): "date", (14, True): "date"}
_TEXTUAL = (Kind.DATE, Kind.DATETIME, Kind.TIMESTAMP, Kind.TIME, Kind.JSON, Kind.VECTOR)
_VAGUE = {
    Kind.ENUM: "this ENUM or another: its elements are not sent",
    Kind.SET: "this SET or another: its elements are not sent",
    Kind.BIT: "BIT(1), BIT(64) or another: its length is not sent",
}


# ---------------------------------------------------------------------------------------------- types
def column_of(name: str, code: int, flags: int) -> Column:
    """What the message says of a column. ValueError for a type code that TiDB does not have."""
    binary = bool(flags & definitions.BINARY)
    vague = ""
    if code in ALWAYS_NULL:
        type_, vague = BY_NAME["text"], f"{ANY_TYPE}: type code {code} ({ALWAYS_NULL[code]}) is always NULL"
    elif (code, binary) in _OTHER_CODES:
        type_ = BY_NAME[_OTHER_CODES[code, binary]]
    elif (code, binary) in BY_CODE:
        type_ = BY_CODE[code, binary]
        vague = _VAGUE.get(type_.kind, "")
    else:
        raise ValueError(f"column {name!r}: type code {code} is none of TiDB's")
    return Column(
        name, type_, bool(flags & definitions.UNSIGNED) and type_.kind not in ALWAYS_UNSIGNED,
        nullable=bool(flags & definitions.NULLABLE), handle_key=bool(flags & definitions.HANDLE_KEY),
        primary_key=bool(flags & definitions.PRIMARY_KEY), unique_key=bool(flags & definitions.UNIQUE_KEY),
        multiple_key=bool(flags & definitions.MULTIPLE_KEY), generated="" if flags & definitions.GENERATED else None,
        charset="binary" if type_.kind not in CHARACTER or binary else "", vague=vague,
    )  # fmt: skip


def type_of(column: Column) -> tuple[int, int]:
    """A column's (type code, flags) as TiCDC sends them."""
    return column.type.code, definitions.flags_of(column)


def fits(column: Column, sent: Column) -> bool:
    """True if a definition's column can be the one that the message describes."""
    kinds = {sent.type.kind, column.type.kind}
    return sent.type.code == column.type.code and len(kinds) == 1 and sent.unsigned == column.unsigned


# ---------------------------------------------------------------------------------------------- content → value
Read = Callable[[bytes], Value]
"""Content → plain value. ValueError when it is not of the column's type; Odd when it says more than the value does."""


class RawValue(Exception):
    """A value whose content can't be made from it again (it has to be kept), with a flag or ""."""

    def __init__(self, value: Value, flag: str = "") -> None:
        self.value, self.flag = value, flag


def reader(column: Column, code: int, flags: int) -> Read:
    """Compiled reader of a column's contents."""
    if code in ALWAYS_NULL:
        return partial(_refuse, f"type {code} ({ALWAYS_NULL[code]}) with a value")
    if column.type.kind is Kind.INTEGER:
        return partial(_integer, column.type.bits, bool(flags & definitions.UNSIGNED))
    return partial(_READERS[column.type.kind], column)


def number(content: bytes) -> int:
    """A uvarint that is all of the content."""
    result = 0
    for shift, byte in enumerate(content):
        result |= (byte & 0x7F) << 7 * shift
    last = len(content) - 1
    if last < 0 or last > 9 or result >> 64 or content[last] > 0x7F or not all(b > 0x7F for b in content[:last]):
        raise ValueError(f"{content[:12].hex(' ') or 'nothing'} is no number of up to 64 bits")
    return result


def _check_short(content: bytes, value: Value) -> Value:
    """The value of a number; Odd when a shorter spelling would say the same."""
    if len(content) > 1 and not content[-1]:
        raise RawValue(value)
    return value


def _refuse(reason: str, _value: object) -> NoReturn:
    raise ValueError(reason)


def _integer(bits: int, unsigned: bool, content: bytes) -> Value:
    if len(content) == 1 and content[0] < 0x80:
        return (_SMALL_UNSIGNED if unsigned else _SMALL)[content[0]]
    integer = number(content)
    if not unsigned:
        integer = unzigzag(integer)
    if bits < 64:
        values.check_range(integer, bits, unsigned)
    return _check_short(content, str(integer))


def double(content: bytes) -> float:
    """A float64 that is all of the content."""
    if len(content) != 8:
        raise ValueError(f"{len(content)} bytes are no float64")
    return float(_DOUBLE.unpack(content)[0])


def _float(_column: Column, content: bytes) -> Value:
    real = double(content)
    if abs(real) < _BEYOND_FLOAT and values.as_float32(real) == real:
        return values.float_text(real)
    # TiCDC wrote the next number over four of the eight bytes; what it was can't be known.
    if math.isfinite(real):
        raise RawValue(values.double_text(real), FLOAT_DAMAGED)
    raise RawValue("NaN" if math.isnan(real) else "+Inf" if real > 0 else "-Inf", FLOAT_DAMAGED)


def _bit(column: Column, content: bytes) -> Value:
    bits = number(content)
    size = values.bit_size(column.length) if column.length else max(1, (bits.bit_length() + 7) // 8)
    if column.length and bits >> column.length:
        raise ValueError(f"{bits} does not fit BIT({column.length})")
    return _check_short(content, bits.to_bytes(size, "big"))


def _enum(column: Column, content: bytes) -> Value:
    index = number(content)
    if not column.elements:
        return _check_short(content, str(index))
    if index > len(column.elements):
        raise ValueError(f"element {index} of an ENUM of {len(column.elements)}")
    if not index:
        if "" in column.elements:
            raise RawValue("")  # 0 is the invalid value, not the element ''
        return _check_short(content, "")
    return _check_short(content, column.elements[index - 1])


def _set(column: Column, content: bytes) -> Value:
    mask = number(content)
    if not column.elements:
        return _check_short(content, str(mask))
    if mask >> len(column.elements):
        raise ValueError(f"mask {mask} of a SET of {len(column.elements)}")
    text = values.set_names(mask, column.elements)
    if "" in column.elements and values.set_mask(text, column.elements) != mask:
        raise RawValue(text)
    return _check_short(content, text)


_READERS: dict[Kind, Callable[[Column, bytes], Value]] = {
    Kind.YEAR: lambda _column, content: _check_short(content, str(values.check_year(unzigzag(number(content))))),
    Kind.FLOAT: _float,
    Kind.DOUBLE: lambda _column, content: values.double_text(double(content)),
    Kind.DECIMAL: lambda column, content: values.decimal_check(column.length, column.scale)(content.decode()),
    Kind.BIT: _bit,
    Kind.ENUM: _enum,
    Kind.SET: _set,
    Kind.TEXT: lambda _column, content: values.utf8_or_bytes(content),
    Kind.BINARY: lambda _column, content: content,
    **dict.fromkeys(_TEXTUAL, lambda _column, content: content.decode()),
}


# ---------------------------------------------------------------------------------------------- value → content
Write = Callable[[Value], bytes]
"""Plain value, not NULL → content. ValueError or TypeError when it is not of the column's type."""


def writer(column: Column, code: int, flags: int, same_format: bool) -> Write:
    """Compiled writer of a column's values.

    same_format: they were read from Craft, so that their form needs no check.
    """
    if code in ALWAYS_NULL:
        return partial(_refuse, f"type {code} ({ALWAYS_NULL[code]}) can only be NULL")
    if column.type.kind is Kind.INTEGER:
        return partial(_w_integer, replace(column, unsigned=bool(flags & definitions.UNSIGNED)))
    if column.type.kind in TEMPORAL_FORMS and not same_format:
        return partial(_w_formed, column.type.name, TEMPORAL_FORMS[column.type.kind])
    return partial(_WRITERS[column.type.kind], column)


def _w_integer(column: Column, value: Value) -> bytes:
    integer = values.integer(require_text(value), column.type.bits, column.unsigned)
    return uvarint(integer) if column.unsigned else varint(integer)


def damaged_float(text: str) -> bytes:
    """The double whose text a damaged FLOAT was given, for a reader of plain lines that lost the bytes."""
    if text in ("NaN", "+Inf", "-Inf"):
        return _DOUBLE.pack(float(text))
    real = values.real(text)
    is_single = abs(real) < _BEYOND_FLOAT and values.float_text(values.as_float32(real)) == text
    return _DOUBLE.pack(values.as_float32(real) if is_single else real)


def _w_bit(column: Column, value: Value) -> bytes:
    bits = values.bit_number(value)
    if bits >> (column.length or 64):
        raise ValueError(f"{bits} does not fit BIT({column.length or 64})")
    return uvarint(bits)


def _w_formed(name: str, form: re.Pattern[str], value: Value) -> bytes:
    text = require_text(value)
    if not form.match(text):
        raise ValueError(f"{text[:40]!r} is no {name.upper()}")
    return text.encode()


_WRITERS: dict[Kind, Callable[[Column, Value], bytes]] = {
    Kind.YEAR: lambda _column, value: varint(values.year(require_text(value))),
    Kind.FLOAT: lambda _column, value: _DOUBLE.pack(values.parse_float32(require_text(value))),
    Kind.DOUBLE: lambda _column, value: _DOUBLE.pack(values.real(require_text(value))),
    Kind.DECIMAL: lambda column, value: values.decimal_check(column.length, column.scale)(require_text(value)).encode(),
    Kind.BIT: _w_bit,
    Kind.ENUM: lambda column, value: uvarint(values.enum_index(require_text(value), column.elements)),
    Kind.SET: lambda column, value: uvarint(values.set_mask(require_text(value), column.elements)),
    Kind.TEXT: lambda _column, value: value if isinstance(value, bytes) else require_text(value).encode(),
    Kind.BINARY: lambda _column, value: require_bytes(value),
    **dict.fromkeys(_TEXTUAL, lambda _column, value: require_text(value).encode()),
}
