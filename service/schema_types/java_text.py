"""What Java makes of texts: JSON read and written, numbers, names of types, and the order of a HashMap.

Avro's: comments allowed, numbers in Java's notation (Apache Avro's `Schema.toString()`). Schemas of JSON: keys in the
order sent, numbers digit by digit as BigDecimal has them (measured with Confluent 8.5.0). A whole number stays a Python
int, any other becomes a Decimal, whose text follows the same rules (`1e3` is `1E+3`, `1.50` stays).
"""

import json
import math
import re
import struct
from collections.abc import Iterable
from decimal import ROUND_HALF_EVEN, Context, Decimal, InvalidOperation
from typing import Any, Final

from ticdc_bridge.schemas.model.reasons import reason_of

MAX_DEPTH: Final = 200
"""Nesting of a schema text. Real schemas stay under 50; the bound keeps recursive steps far from Python's limit."""
TOO_DEEP: Final = f"Document nesting depth exceeds the maximum allowed ({MAX_DEPTH})"

# What is never closed runs to the end, so that no text makes this search slow.
_COMMENT = re.compile(r'("(?:\\.|[^"\\])*(?:"|\Z))|//[^\n]*|/\*.*?(?:\*/|\Z)', re.DOTALL)
_INFINITY = re.compile(r'("(?:\\.|[^"\\])*(?:"|\Z))|-INF', re.DOTALL)
_ESCAPED = re.compile('["\\\\\x00-\x1f\ud800-\udfff]')
_ESCAPES: Final = {'"': '\\"', "\\": "\\\\", "\b": "\\b", "\f": "\\f", "\n": "\\n", "\r": "\\r", "\t": "\\t"}

# Java writes a double as a plain decimal in this range and with an exponent outside it.
_PLAIN_FROM, _PLAIN_TO = 1e-3, 1e7
_FLOAT_DIGITS = 9
_CONTAINERS: Final = (dict, list)


def _refuse_constant(name: str) -> Any:
    raise ValueError(f"Unrecognized token '{name}'")


_READER: Final = json.JSONDecoder(parse_constant=_refuse_constant)  # json.loads would make one each time
_BLANKS: Final = " \t\r\n"


def load_avro(text: str) -> Any:
    """Parse a schema text, however deep. Raises ValueError with a reason: not JSON, or anything after it."""
    try:
        value, rest = _loads(text, _READER)
    except ValueError:
        if "/" not in text:
            raise
        value, rest = _loads(_COMMENT.sub(lambda match: match[1] or " " * len(match[0]), text), _READER)
    if rest and (dangling := text[-rest:].strip(_BLANKS)):
        raise ValueError(f"dangling content after end of schema: {dangling}")
    return value


def check_depth(value: Any) -> None:
    """Raises ValueError for what is nested too deeply."""
    if depth_exceeds(value, MAX_DEPTH):
        raise ValueError(TOO_DEEP)


def _loads(text: str, reader: json.JSONDecoder) -> tuple[Any, int]:
    """The value at the beginning of a text, and how many characters are behind it."""
    try:
        value, end = reader.raw_decode(text, len(text) - len(text.lstrip(_BLANKS)))
        return value, len(text) - end
    except json.JSONDecodeError as error:
        raise ValueError(reason_of(error)) from None
    except RecursionError:
        raise ValueError(TOO_DEEP) from None


def load_compact(text: str) -> Any:
    """JSON without comments, and with no space around it. Raises ValueError, not with a reason for users."""
    value, rest = _loads(text, _READER)
    if rest:
        raise ValueError
    return value


def depth_exceeds(value: Any, limit: int) -> bool:
    """True if arrays and objects nest deeper than `limit`; walks level by level, so no depth can hurt it."""
    level: list[Any] = [value] if type(value) in _CONTAINERS else []
    for _ in range(limit):
        if not level:
            return False
        level = [
            inner
            for item in level
            for inner in (item.values() if type(item) is dict else item)
            if type(inner) in _CONTAINERS
        ]
    return bool(level)


def dump_json(value: Any, *, ordered: bool = False) -> str:
    """Compact JSON with Java's numbers and Jackson's escapes; `ordered`: keys sorted by UTF-16 units, as Java sorts."""
    if isinstance(value, str):
        return quote(value)
    if isinstance(value, bool) or value is None:
        return _LITERALS[value]
    if isinstance(value, dict):
        keys = sorted(value, key=utf16) if ordered else value
        return "{" + ",".join([f"{quote(key)}:{dump_json(value[key], ordered=ordered)}" for key in keys]) + "}"
    if isinstance(value, list | tuple):
        return "[" + ",".join([dump_json(item, ordered=ordered) for item in value]) + "]"
    return java_double(value) if isinstance(value, float) else str(value)


def quote(text: str) -> str:
    if _ESCAPED.search(text) is None:  # nearly always, and twice as quick
        return f'"{text}"'
    return '"' + _ESCAPED.sub(_escape, text) + '"'


def _escape(match: re.Match[str]) -> str:
    character = match[0]
    if character >= "\ud800":
        return "?"  # half of a pair: what Java's UTF-8 makes of it
    return _ESCAPES.get(character) or f"\\u{ord(character):04X}"


def java_double(value: float) -> str:
    """`Double.toString`: 1.0, 1.0E10, 1.0E-5. What is no number or overflowed prints as in Jackson, quoted."""
    if math.isnan(value):
        return '"NaN"'
    if math.isinf(value):
        return '"Infinity"' if value > 0 else '"-Infinity"'
    return _java_notation(repr(value), abs(value))


def java_float(value: float) -> str:
    """`Float.toString`: the shortest digits that give the same 32-bit value."""
    single = _round_float(value)
    if not math.isfinite(single):
        return java_double(single)
    for digits in range(1, _FLOAT_DIGITS + 1):
        text = f"{single:.{digits}g}"
        if _round_float(float(text)) == single:
            break
    return _java_notation(repr(float(text)), abs(single))


def _round_float(value: float) -> float:
    """The nearest 32-bit value."""
    try:
        return float(struct.unpack("<f", struct.pack("<f", value))[0])
    except OverflowError:
        return math.copysign(math.inf, value)


def _java_notation(text: str, size: float) -> str:
    sign, digits = ("-", text[1:]) if text.startswith("-") else ("", text)
    if size == 0 or (_PLAIN_FROM <= size < _PLAIN_TO and "e" not in digits):
        return text
    mantissa, _, exponent = digits.partition("e")
    integer, _, fraction = mantissa.partition(".")
    leading = len(integer + fraction) - len((integer + fraction).lstrip("0"))
    figures = (integer + fraction).strip("0")
    if len(figures) == 1:  # Java never writes fewer than two digits, so it may choose the second better
        two, _, power = f"{size:.1e}".partition("e")
        return f"{sign}{two}E{int(power)}"
    scale = int(exponent or 0) + len(integer) - 1 - leading
    return f"{sign}{figures[0]}.{figures[1:] or '0'}E{scale}"


_MAX_PLAIN_EXPONENT: Final = 400
_DIGITS: Final = Context(prec=1000, rounding=ROUND_HALF_EVEN)


def java_number(text: str) -> str:
    """A number as Java's DecimalFormat writes it: plain, at most three decimals. What is no number stays."""
    sign, digits = ("-", text[1:]) if text.startswith("-") else ("", text)
    try:
        if digits[:2].lower() == "0x":
            return f"{sign}{int(digits, 16)}"
        if len(digits) > 1 and digits.startswith("0") and digits.isdigit():
            return f"{sign}{int(digits, 8)}"
        value = Decimal(digits.rstrip("fFdDlL"))
        if not value.is_finite() or abs(value.adjusted()) > _MAX_PLAIN_EXPONENT:
            return text
        rounded = value.quantize(Decimal("0.001"), context=_DIGITS)
    except (ValueError, InvalidOperation):
        return text
    plain = f"{rounded:f}".rstrip("0").rstrip(".")
    return f"{sign}{plain}"


Json = None | bool | int | Decimal | str | list[Any] | dict[str, Any]

MAX_NUMBER_LENGTH: Final = 1000
"""Characters of a number; the limit of the JSON library that Confluent uses."""
_MAX_EXPONENT: Final = 2**31 - 1

_LITERALS: Final = {None: "null", True: "true", False: "false"}


def load_schema(text: str) -> Json:
    """Parse a schema text as Confluent stores it: the last of equal keys, NaN and Infinity as texts, nothing after it.

    Raises ValueError: no JSON, too deep, a number too long.
    """
    text = _INFINITY.sub(lambda match: match[1] or "-Infinity", text) if "-INF" in text else text
    value: Json = _loads(text, _SCHEMA_READER)[0]
    check_depth(value)
    return value


def utf16(text: str) -> bytes:
    return text.encode("utf-16-be", "surrogatepass")


def kind_of(value: Json) -> str:
    """The kind of a value, in the words of Confluent's messages."""
    names = {dict: "OBJECT", list: "ARRAY", str: "STRING", bool: "BOOLEAN", type(None): "NULL"}
    return names.get(type(value), "NUMBER")


_INT, _LONG = 2**31, 2**63


def java_type(value: Json) -> str:
    """The Java class that the parser would have found."""
    if isinstance(value, int) and not isinstance(value, bool):
        return "Integer" if -_INT <= value < _INT else "Long" if -_LONG <= value < _LONG else "BigInteger"
    names = {bool: "Boolean", Decimal: "BigDecimal", str: "String", list: "JsonArray", type(None): "Null"}
    return names.get(type(value), "JsonObject")


def _fraction(digits: str) -> Decimal:
    try:
        number = Decimal(_check_length(digits))
    except InvalidOperation:
        raise ValueError(f"number out of range: {digits}") from None
    exponent = number.as_tuple().exponent
    if not isinstance(exponent, int) or abs(exponent) > _MAX_EXPONENT:
        raise ValueError(f"number out of range: {digits}")
    return number if number else number.copy_abs()  # BigDecimal has no negative zero


def _check_length(digits: str) -> str:
    if len(digits) > MAX_NUMBER_LENGTH:
        raise ValueError(f"a number has {len(digits)} characters, more than {MAX_NUMBER_LENGTH}")
    return digits


_SCHEMA_READER: Final = json.JSONDecoder(
    parse_int=lambda digits: int(_check_length(digits)), parse_float=_fraction, parse_constant=str
)
_SMALLEST_TABLE: Final = 16
_LOAD: Final = 0.75


def hash_order(*names: Iterable[str], concurrent: bool = False) -> list[str]:
    """The distinct names as a HashSet yields them that was made of the first and then got the others.

    `concurrent`: as a ConcurrentHashMap does, which grows one name earlier. Ties stay in the order given.
    """
    first, *others = ([*some] for some in names)
    distinct = list(dict.fromkeys([*first, *(name for some in others for name in some)]))
    needed = max((len(distinct) + concurrent) / _LOAD, int(len(first) / _LOAD) + 1 if others else 0)
    size = _SMALLEST_TABLE
    while size < needed:
        size *= 2
    return sorted(distinct, key=lambda name: _hash_of(name) & (size - 1))


def _hash_of(name: str) -> int:
    """`String.hashCode`, its upper half folded into the lower as HashMap does."""
    units, value = utf16(name), 0
    for index in range(0, len(units), 2):
        value = (31 * value + (units[index] << 8 | units[index + 1])) & 0xFFFFFFFF
    return value ^ value >> 16
