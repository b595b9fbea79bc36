"""What TiDB makes of the rows that are there when ALTER TABLE gives a column another type.

TiCDC does not send them again, so a copy of the table has to make the same of them. One table: (family before, family
after) → how. A pair that is not there, and a value of which it is not certain what TiDB made, has no conversion: who
needs it gets an error, never another value.

Values are those of `schemas.model.table.Value`; what is converted already stays as it is. The rules are those of TiDB's
`CAST`, as `ALTER TABLE` applies it in strict mode (upstream tidb `pkg/types/convert.go`, `pkg/table/column.go`,
CastValue): DECIMAL and fractions of a second round half up.
"""

import re
from collections.abc import Callable
from datetime import date, datetime
from decimal import ROUND_HALF_UP, Context, Decimal
from functools import partial

from ticdc_bridge.schemas.model import values
from ticdc_bridge.schemas.model.table import Column, Value
from ticdc_bridge.schemas.model.types import BYTES, Kind

Convert = Callable[[Value, Column, Column], Value]
"""A value that is not NULL, its column before and after → the value after. ValueError where TiDB's is not known."""

_NUMBER = re.compile(r"[+-]?\d{1,65}(?:\.\d{1,65})?")
_DAY, _MOMENT = re.compile(r"\d{4}-\d\d-\d\d"), re.compile(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d(?:\.\d{1,6})?")
_ROOMY = Context(prec=200, rounding=ROUND_HALF_UP)
_UTF8 = ("", "utf8", "utf8mb3", "utf8mb4", "ascii", "binary")
_HEX = re.compile(r'\{"hex":"(?:[0-9a-f]{2})*"\}')


def converter(old: Column, new: Column) -> Callable[[Value], Value] | None:
    """How values become those of a column's new type (ValueError: TiDB's are unknown); None: each stays as it is."""
    convert = _CONVERT.get((old.type.kind, new.type.kind), _refuse_unknown)
    if convert is _keep_value or (old.type.kind is new.type.kind and convert in _BY_FORM and _is_wider(old, new)):
        return None
    return partial(_convert, convert, old, new)


def _convert(convert: Convert, old: Column, new: Column, value: Value) -> Value:
    try:
        return None if value is None else convert(value, old, new)
    except ArithmeticError as error:
        raise ValueError("out of range") from error
    except UnicodeError as error:
        raise ValueError("bytes that are not UTF-8") from error


def to_plain(value: object, column: Column) -> Value:
    """A value of a map in plain form, or of the column's exact Spark type. ValueError for any other."""
    if value is None or isinstance(value, bytes):
        return value
    if isinstance(value, str):
        is_hex = column.type.kind in BYTES and _HEX.fullmatch(value)
        return bytes.fromhex(value[8:-2]) if is_hex else value
    if isinstance(value, float):
        return (values.float_text if column.type.kind is Kind.FLOAT else values.double_text)(value)
    if isinstance(value, bytearray):
        return bytes(value)
    if isinstance(value, Decimal):
        return f"{value:f}"
    if isinstance(value, datetime) and column.type.kind is Kind.DATETIME:
        return values.datetime_of_micros(values.micros_of_datetime(f"{value:%Y-%m-%d %H:%M:%S.%f}"), column.scale or 0)
    if isinstance(value, int) or (isinstance(value, date) and column.type.kind is Kind.DATE):
        return str(value)
    raise ValueError(f"{type(value).__name__} of a {column.type.name}")


def text_converter(old: Column, new: Column) -> Callable[[object], str | None]:
    """What `to_plain` takes → the value after, as a map in plain form has it; NULL where TiDB's is not known."""
    convert = converter(old, new)

    def convert_text(value: object) -> str | None:
        try:
            plain = to_plain(value, old)
            plain = convert(plain) if convert else plain
            return f'{{"hex":"{plain.hex()}"}}' if isinstance(plain, bytes) else plain
        except ValueError:
            return None

    return convert_text


def _is_wider(old: Column, new: Column) -> bool:
    """True if a column of the same family holds each value as it was written."""
    if old.elements != new.elements:
        return new.elements[: len(old.elements)] == old.elements  # elements added
    if old.type.kind is Kind.DECIMAL:
        return old.scale == new.scale and (new.length or 0) >= (old.length or 0) and new.unsigned <= old.unsigned
    return _form(old) == _form(new)


def _form(column: Column) -> tuple[object, ...]:
    """What decides how values of a family are written."""
    name = column.type.name
    sized = column.type.kind is Kind.BIT or name == "binary"
    return column.scale, column.length if sized else None, name == "binary", name == "char"


# ---------------------------------------------------------------------------------- by pair
def _keep_value(value: Value, _old: Column, _new: Column) -> Value:
    return value


def _refuse_unknown(value: Value, old: Column, new: Column) -> Value:
    raise ValueError(f"{old.type.name} to {new.type.name}")


def _str(value: Value) -> str:
    if not isinstance(value, str):
        raise ValueError("bytes where text is needed")
    return value


def _number(value: Value) -> Decimal:
    text = _str(value)
    if not _NUMBER.fullmatch(text):
        raise ValueError(f"{text[:80]!r} is no plain number")
    return Decimal(text)


def _to_integer(value: Value, _old: Column, new: Column) -> Value:
    integer = int(_ROOMY.quantize(_number(value), Decimal(1)))
    values.check_range(integer, new.type.bits, new.unsigned)
    return str(integer)


def _text_to_integer(value: Value, old: Column, new: Column) -> Value:
    if not re.fullmatch(r"-?\d{1,20}", _str(value)):
        raise ValueError("a text that is no whole number")
    return _to_integer(value, old, new)


def _double_to_integer(value: Value, _old: Column, new: Column) -> Value:
    number = values.real(_str(value))
    if number * 2 == int(number * 2) != 2 * int(number):
        raise ValueError("halves are rounded in more than one way")
    integer = round(number)
    values.check_range(integer, new.type.bits, new.unsigned)
    return str(integer)


def _to_decimal(value: Value, _old: Column, new: Column) -> Value:
    scale = new.scale or 0
    rounded = _ROOMY.quantize(_number(value), Decimal(1).scaleb(-scale))
    text = f"{abs(rounded) if rounded == 0 else rounded:f}"
    values.decimal_check(new.length, scale)(text)
    if new.unsigned and rounded < 0:
        raise ValueError("negative, and the column UNSIGNED")
    return text


def _to_double(value: Value, _old: Column, new: Column) -> Value:
    _refuse_scale(new)
    return values.double_text(float(_number(value)))


def _through_float(value: Value, _old: Column, new: Column) -> Value:
    _refuse_scale(new)
    text = values.float_text if new.type.kind is Kind.FLOAT else values.double_text
    return text(values.as_float32(values.real(_str(value))))


def _double_to_double(value: Value, _old: Column, new: Column) -> Value:
    _refuse_scale(new)
    return value


def _refuse_scale(new: Column) -> None:
    if new.scale is not None:
        raise ValueError(f"{new.type.name}(M,D) rounds")


def _to_text(value: Value, old: Column, new: Column) -> Value:
    if old.zerofill:
        raise ValueError("ZEROFILL")
    text = _str(value)
    return text.rstrip(" ") if new.type.name == "char" else text


def _text_to_bytes(value: Value, old: Column, new: Column) -> Value:
    if isinstance(value, bytes):
        return _pad(value, old, new)
    text = _str(value)
    if old.charset not in _UTF8 or _HEX.fullmatch(text):  # in a map bytes stand so: it may be either
        raise ValueError(f"text in {old.charset or 'an unknown charset'}")
    return _pad(text.encode(), old, new)


def _pad(value: Value, _old: Column, new: Column) -> Value:
    if not isinstance(value, bytes):
        raise ValueError("text where bytes are needed")
    if new.length is not None and len(value) > new.length and new.type.name in ("binary", "varbinary"):
        raise ValueError("more bytes than the column takes")
    return value.ljust(new.length or 1, b"\0") if new.type.name == "binary" else value


def _bytes_to_text(value: Value, _old: Column, new: Column) -> Value:
    if isinstance(value, str):
        return value
    if value is None or value.endswith((b"\0", b" ")) or new.charset not in _UTF8:
        raise ValueError("padding, or another charset than UTF-8")
    return value.decode()


def _bits(value: Value, _old: Column, new: Column) -> Value:
    if not isinstance(value, bytes) or new.length is None:
        raise ValueError("a BIT of unknown length")
    return _of_bits(int.from_bytes(value, "big"), new.length)


def _integer_to_bits(value: Value, old: Column, new: Column) -> Value:
    if isinstance(value, bytes):
        return _bits(value, old, new)
    number = values.integer(_str(value))
    if number < 0 or new.length is None:
        raise ValueError("negative, or a BIT of unknown length")
    return _of_bits(number, new.length)


def _of_bits(number: int, length: int) -> bytes:
    if number >> length:
        raise ValueError(f"more than BIT({length}) holds")
    return number.to_bytes(values.bit_size(length), "big")


def _bits_to_integer(value: Value, _old: Column, new: Column) -> Value:
    if isinstance(value, str):
        return value
    number = int.from_bytes(value or b"", "big")
    values.check_range(number, new.type.bits, new.unsigned)
    return str(number)


def _element(value: Value, _old: Column, new: Column) -> Value:
    if value not in new.elements:
        raise ValueError("none of the elements that the column has now")
    return value


def _set(value: Value, _old: Column, new: Column) -> Value:
    chosen = [] if value == "" else _str(value).split(",")
    if not set(chosen) <= set(new.elements):
        raise ValueError("an element that the column has no more")
    return ",".join(element for element in new.elements if element in chosen)


def _date_to_datetime(value: Value, old: Column, new: Column) -> Value:
    text = _str(value)
    return _digits(f"{text} 00:00:00" if _DAY.fullmatch(text) else text, old, new)


def _datetime_to_date(value: Value, _old: Column, _new: Column) -> Value:
    day, _, clock = _str(value).partition(" ")
    if clock.partition(".")[2].strip("0"):
        raise ValueError("a fraction of a second")
    return day


def _text_to_time(value: Value, old: Column, new: Column) -> Value:
    text = _str(value)
    form = _DAY if new.type.kind is Kind.DATE else _MOMENT
    if not form.fullmatch(text) or "-00" in text or text.startswith("0000"):
        raise ValueError("a text that is no full date")
    values.days_of_date(text[:10])
    return text if new.type.kind is Kind.DATE else _digits(text, old, new)


def _digits(value: Value, _old: Column, new: Column) -> Value:
    """Fraction digits as the column has them now; rounded half up where they are fewer."""
    integer, _, fraction = _str(value).partition(".")
    scale = new.scale or 0
    if not fraction[scale:].strip("0"):
        digits = fraction[:scale].ljust(scale, "0")
        return f"{integer}.{digits}" if scale else integer
    if new.type.kind is Kind.TIMESTAMP:
        raise ValueError("rounding may cross a change of the zone's clocks")
    unit = 10 ** (6 - scale)
    if new.type.kind is Kind.TIME:
        micros = values.micros_of_time(f"{integer}.{fraction}")
        rounded = (abs(micros) + unit // 2) // unit * unit
        return values.time_of_micros(rounded if micros >= 0 else -rounded, scale)
    rounded = (values.micros_of_datetime(f"{integer}.{fraction}") + unit // 2) // unit * unit
    return values.datetime_of_micros(rounded, scale)


_SPELT = (Kind.INTEGER, Kind.YEAR, Kind.DECIMAL, Kind.TEXT, Kind.ENUM, Kind.SET, Kind.DATE, Kind.DATETIME, Kind.TIME)
"""Kinds of which TiDB makes the text that the plain form has."""
_CONVERT: dict[tuple[Kind, Kind], Convert] = {
    **{(kind, kind): _keep_value for kind in (Kind.INTEGER, Kind.YEAR, Kind.DATE, Kind.JSON, Kind.VECTOR)},
    **{(kind, kind): _digits for kind in (Kind.DATETIME, Kind.TIME, Kind.TIMESTAMP)},
    **{(kind, Kind.TEXT): _to_text for kind in _SPELT},
    (Kind.INTEGER, Kind.YEAR): lambda value, _old, _new: str(values.year(_str(value))),
    (Kind.INTEGER, Kind.DECIMAL): _to_decimal,
    (Kind.INTEGER, Kind.DOUBLE): _to_double,
    (Kind.INTEGER, Kind.BIT): _integer_to_bits,
    (Kind.YEAR, Kind.INTEGER): lambda value, _old, _new: str(values.integer(_str(value).lstrip("0") or "0")),
    (Kind.DECIMAL, Kind.DECIMAL): _to_decimal,
    (Kind.DECIMAL, Kind.INTEGER): _to_integer,
    (Kind.DECIMAL, Kind.DOUBLE): _to_double,
    (Kind.FLOAT, Kind.FLOAT): _double_to_double,
    (Kind.FLOAT, Kind.DOUBLE): _through_float,
    (Kind.DOUBLE, Kind.DOUBLE): _double_to_double,
    (Kind.DOUBLE, Kind.FLOAT): _through_float,
    (Kind.DOUBLE, Kind.INTEGER): _double_to_integer,
    (Kind.TEXT, Kind.BINARY): _text_to_bytes,
    (Kind.TEXT, Kind.INTEGER): _text_to_integer,
    (Kind.TEXT, Kind.DECIMAL): _to_decimal,
    (Kind.TEXT, Kind.ENUM): _element,
    (Kind.TEXT, Kind.DATE): _text_to_time,
    (Kind.TEXT, Kind.DATETIME): _text_to_time,
    (Kind.BINARY, Kind.BINARY): _pad,
    (Kind.BINARY, Kind.TEXT): _bytes_to_text,
    (Kind.BIT, Kind.BIT): _bits,
    (Kind.BIT, Kind.INTEGER): _bits_to_integer,
    (Kind.ENUM, Kind.ENUM): _element,
    (Kind.SET, Kind.SET): _set,
    (Kind.DATE, Kind.DATETIME): _date_to_datetime,
    (Kind.DATETIME, Kind.DATE): _datetime_to_date,
}
# Within a family nothing changes where the columns write their values alike.
_BY_FORM = (_to_decimal, _double_to_double, _to_text, _pad, _bits, _element, _set, _digits)
