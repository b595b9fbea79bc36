"""Column values of the Open Protocol: JSON value ↔ plain value (upstream ticdc `open/codec.go`)."""

import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

from ticdc_bridge.schemas.codec import go_text
from ticdc_bridge.schemas.codec.sql_text import TEMPORAL_FORMS, text_or_bytes
from ticdc_bridge.schemas.model import values
from ticdc_bridge.schemas.model.errors import Hint, LossyError
from ticdc_bridge.schemas.model.table import Column, Value, require_bytes, require_text
from ticdc_bridge.schemas.model.types import ELEMENTS, Kind

NUMBERS = frozenset((Kind.INTEGER, Kind.YEAR, Kind.FLOAT, Kind.DOUBLE, Kind.ENUM, Kind.SET, Kind.BIT))
_REALS = (Kind.FLOAT, Kind.DOUBLE)
_BLOB_CODES = (249, 250, 251, 252)
_MASK = (1 << 64) - 1

Read = Callable[[str], Value]
"""The text of a JSON number, or what a JSON string holds → plain value. ValueError when it is no such value."""


# ---------------------------------------------------------------------------------- JSON value → plain value
def reader(column: Column, varchar_base64: bool) -> Read:
    """Compiled reader of a column's values that are not NULL. varchar_base64: as releases of 2020 wrote VARCHAR."""
    kind = column.type.kind
    if kind in (Kind.TEXT, Kind.BINARY):
        encoded = is_base64(column, varchar_base64)
        if kind is Kind.BINARY:
            return values.base64_bytes if encoded else go_text.unquote
        if encoded:
            return lambda text: values.utf8_or_bytes(values.base64_bytes(text))
        return text_or_bytes  # TiCDC copies bytes that are not UTF-8
    if kind is Kind.INTEGER:
        return _integer(column.type.bits, column.unsigned, column.vague != "")
    if kind in ELEMENTS:
        return partial(_enum if kind is Kind.ENUM else _set, column.elements) if column.elements else _number
    return (lambda text: values.bit_bytes(text, column.length)) if kind is Kind.BIT else _READERS[kind]


def is_base64(column: Column, varchar_base64: bool) -> bool:
    """True if a character or binary column's values are base64."""
    return varchar_base64 or column.type.code in _BLOB_CODES


def _integer(bits: int, unsigned: bool, either: bool) -> Callable[[str], str]:
    """either: without flags (old releases) the sign is not known, so both ranges are allowed."""
    low = 0 if unsigned else -(1 << bits - 1)
    high = 1 << bits if unsigned or either else 1 << bits - 1

    def read(text: str) -> str:
        number = int(text)  # JSON's grammar was checked: no spaces, no underscores
        if not low <= number < high:
            raise ValueError(f"{text[:40]} does not fit {'an unsigned' if unsigned else 'a'} {bits}-bit integer")
        return str(number)

    return read


def _number(text: str) -> str:
    return str(values.integer(text, 64, unsigned=True))


def _year(text: str) -> str:
    return str(values.year(text))


# Up to six digits are the shortest text of their float32, and Go's %g does not change them.
_SHORT = re.compile(r"(?!-?0\.0000)-?(?:0|[1-9][0-9]?)(?:\.[0-9]{0,3}[1-9])?\Z", re.ASCII)


def _float(text: str) -> str:
    return text if _SHORT.match(text) else values.float_text(values.as_float32(values.real(text)))


def _double(text: str) -> str:
    number = float(text)
    if 1e-4 <= number < 1e6 or -1e6 < number <= -1e-4:  # where Python's shortest text is Go's %g
        shortest = repr(number)
        return shortest[:-2] if shortest.endswith(".0") else shortest
    return values.double_text(values.real(text))


def _enum(elements: tuple[str, ...], text: str) -> str:
    index = values.integer(text)
    if not 0 <= index <= len(elements):
        raise ValueError(f"there is no element {index}, the table's definition has {len(elements)}")
    return elements[index - 1] if index else ""


def _set(elements: tuple[str, ...], text: str) -> str:
    mask = values.integer(text)
    if mask < 0 or mask >> len(elements):
        raise ValueError(f"{mask} has bits that the {len(elements)} elements of the table's definition do not have")
    return values.set_names(mask, elements)


def _utf8(text: str) -> str:
    if not text.isascii():
        text.encode()
    return text


def _matching_reader(pattern: re.Pattern[str], what: str) -> Read:
    def read(text: str) -> str:
        if not pattern.match(text):
            raise ValueError(f"{text[:40]!r} is not a {what}")
        return text

    return read


_READERS: dict[Kind, Read] = {
    Kind.YEAR: _year, Kind.FLOAT: _float, Kind.DOUBLE: _double, Kind.DECIMAL: values.check_decimal,
    **{kind: _matching_reader(form, kind.name.lower()) for kind, form in TEMPORAL_FORMS.items()}, Kind.JSON: _utf8,
    Kind.VECTOR: _utf8,
}  # fmt: skip


# ---------------------------------------------------------------------------------- plain value → JSON value
Flag = Callable[[str], None]
Write = Callable[[Value, Flag], str]
"""(plain value, where flags go) → JSON text. LossyError; ValueError or TypeError for what the column can't hold."""


@dataclass(frozen=True, slots=True)
class Style:
    """How an encoder writes: classic TiCDC uses Go's encoding/json, the new one json-iterator.

    lossy: bytes that are not UTF-8 become U+FFFD, as classic TiCDC writes them, instead of an error. raw: they are
    written as they are, as new TiCDC does: what was its message is the same again.
    """

    classic: bool
    lossy: bool
    raw: bool = False

    def string(self, text: str) -> str:
        return go_text.std_string(text) if self.classic else go_text.jsoniter_string(text)


def writer(column: Column, style: Style, numbered: bool) -> Write:
    """Compiled writer of a column's values. numbered: its ENUM or SET values are numbers already."""
    kind = column.type.kind
    if kind in (Kind.TEXT, Kind.BINARY):
        return partial(_w_string, column.name, style, kind is Kind.BINARY, is_base64(column, False))
    if kind in _REALS:
        return partial(_w_real, 32 if kind is Kind.FLOAT else 64, style.classic)
    if kind is Kind.INTEGER:
        return partial(_w_integer, _integer(column.type.bits, column.unsigned, column.vague != ""))
    if kind is Kind.ENUM and not numbered:
        return lambda value, _flag: str(values.enum_index(require_text(value), column.elements))
    if kind is Kind.SET and not numbered:
        return lambda value, _flag: str(values.set_mask(require_text(value), column.elements) & _MASK)
    if kind is Kind.BIT:
        return lambda value, _flag: str(values.check_range(values.bit_number(value), 64, unsigned=True))
    if kind in NUMBERS:
        read = _year if kind is Kind.YEAR else _number
        return lambda value, _flag: read(require_text(value))
    if kind is Kind.DECIMAL:
        return partial(_w_checked, style, values.decimal_check(column.length, column.scale))
    return partial(_w_checked, style, _READERS[kind])


def _w_string(name: str, style: Style, is_binary: bool, is_base64: bool, value: Value, flag: Flag) -> str:
    data = require_bytes(value) if is_binary or isinstance(value, bytes) else str(value).encode()
    if is_base64:
        return f'"{values.base64_text(data)}"'
    if is_binary:
        return style.string(go_text.quote(data))
    if isinstance(value, str):
        return style.string(value)
    text = data.decode("utf-8", "surrogateescape")
    if style.raw:
        return style.string(text)
    if not style.lossy:
        details = f"the text is not UTF-8, and JSON is; {Hint.ON_LOSSY_FLAG} writes U+FFFD for such bytes"
        raise LossyError("LOSSY_VALUE", column=name, details=details)
    flag(f"invalid_utf8:{name}")
    if not style.classic:
        return style.string(data.decode("utf-8", "replace"))
    return re.sub("[\udc80-\udcff]", r"\\ufffd", style.string(text))


def _w_integer(read: Callable[[str], str], value: Value, _flag: Flag) -> str:
    text = require_text(value)
    values.integer(text)
    return read(text)


def _w_real(bits: int, classic: bool, value: Value, _flag: Flag) -> str:
    (values.parse_float32 if bits == 32 else values.real)(require_text(value))
    return go_text.json_float(require_text(value), bits, classic)


def _w_checked(style: Style, check: Callable[[str], object], value: Value, _flag: Flag) -> str:
    text = require_text(value)
    check(text)
    return style.string(text)
