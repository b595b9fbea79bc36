"""Leaves of expressions, as TiDB prints them: names, numbers, texts, types in CAST, units of time."""

import math
from decimal import Decimal

from ticdc_bridge.schemas.ddl.parser.cursor import Cursor
from ticdc_bridge.schemas.model.names import quote_text

UNITS = frozenset(
    """
    MICROSECOND SECOND MINUTE HOUR DAY WEEK MONTH QUARTER YEAR SECOND_MICROSECOND MINUTE_MICROSECOND MINUTE_SECOND
    HOUR_MICROSECOND HOUR_SECOND HOUR_MINUTE DAY_MICROSECOND DAY_SECOND DAY_MINUTE DAY_HOUR YEAR_MONTH
    SQL_TSI_SECOND SQL_TSI_MINUTE SQL_TSI_HOUR SQL_TSI_DAY SQL_TSI_WEEK SQL_TSI_MONTH SQL_TSI_QUARTER SQL_TSI_YEAR
""".split()
)
_ODBC = {"D": "DATE", "T": "TIME", "TS": "TIMESTAMP"}
# A type in CAST → its name and how many numbers may follow it (upstream `types.FieldType`, RestoreAsCastType).
_CASTS = {
    "CHAR": ("char", 1), "CHARACTER": ("char", 1), "BINARY": ("binary", 1), "DATE": ("date", 0), "YEAR": ("year", 0),
    "DATETIME": ("datetime", 1), "TIME": ("time", 1), "DECIMAL": ("decimal", 2), "DEC": ("decimal", 2),
    "NUMERIC": ("decimal", 2), "FIXED": ("decimal", 2), "JSON": ("json", 0), "DOUBLE": ("double", 0),
    "REAL": ("double", 0), "FLOAT": ("float", 2), "VECTOR": ("vector", 1), "SIGNED": ("signed", 0),
    "UNSIGNED": ("unsigned", 0),
}  # fmt: skip


def text_literal(text: str, charset: str = "utf8mb4") -> str:
    """A text as TiDB stores it in an expression."""
    return f"_{charset}" + quote_escaped(text)


def quote_escaped(text: str) -> str:
    """In single quotes; TiDB writes a backslash twice, whatever the sql_mode."""
    return quote_text(text.replace("\\", "\\\\"))


def odbc_literal(c: Cursor) -> str:
    """{d '2020-01-02'}"""
    word = _ODBC.get(c.upper) or c.fail("d", "t", "ts")
    c.advance()
    text = c.literal()
    c.expect("}")
    return temporal_literal(word, text)


def temporal_literal(word: str, text: str) -> str:
    """DATE '…' and the like."""
    return f"{word} {quote_escaped(text)}"


def number_literal(c: Cursor) -> str:
    """A number as TiDB prints it: 007 is 7, .5 is 0.5, 1e3 is 1e+03."""
    text = str(c.token.value)
    if "e" in text or "E" in text:
        if math.isinf(float(text)):
            c.fail("a number below 1.8e308")
        c.advance()
        return _exponent_text(float(text))
    c.advance()
    integer, _, fraction = text.partition(".")
    integer = integer.lstrip("0") or "0"
    return f"{integer}.{fraction}" if fraction else integer


def _exponent_text(number: float) -> str:
    """The shortest digits that mean the number, always with an exponent of two digits or more."""
    digits = Decimal(repr(number)).as_tuple()
    text = "".join(map(str, digits.digits)).rstrip("0") or "0"
    exponent = int(digits.exponent) + len(digits.digits) - 1 if number else 0
    mantissa = text[0] + ("." + text[1:] if text[1:] else "")
    return f"{mantissa}e{'-' if exponent < 0 else '+'}{abs(exponent):02d}"


def bits_literal(text: str) -> str:
    """x'…', 0x…, b'…' and 0b… as TiDB prints them."""
    digits = text[2:].rstrip("'")
    if text[1] in "xX" or text[0] in "xX":
        return f"x'{digits.lower().rjust(len(digits) + len(digits) % 2, '0')}'"
    return f"b'{digits.lstrip('0') or digits[:1]}'"


def unit(c: Cursor) -> str:
    if c.upper not in UNITS:
        c.fail("a unit of time such as DAY")
    return c.advance().upper.lower().removeprefix("sql_tsi_")


def cast_type(c: Cursor) -> str:
    """The type in CAST and CONVERT."""
    name, count = _CASTS.get(c.upper) or c.fail("a type such as CHAR, SIGNED, DECIMAL, DATETIME or JSON")
    c.advance()
    sizes = list[int]()
    if count and c.accept("("):
        sizes = c.listed(Cursor.integer)
        if len(sizes) > count:
            c.fail(")")
        c.expect(")")
    if name in ("signed", "unsigned"):
        c.accept_any("INTEGER", "INT")
        return name
    if name == "char":
        return _char_cast(c, sizes)
    if name == "float":
        return "double" if sizes and sizes[0] > 24 else name
    if name == "decimal":
        sizes = (sizes or [10])[: 2 if len(sizes) > 1 and sizes[1] else 1]
    elif name != "binary" and not (sizes and sizes[0] and name != "vector"):
        return name
    return f"{name}({', '.join(map(str, sizes))})" if sizes else name


def _char_cast(c: Cursor, sizes: list[int]) -> str:
    """CHAR in CAST. BINARY and a character set decide what is printed."""
    binary = c.accept("BINARY")
    charset = ""
    if c.accept("CHARSET") or c.accept("CHARACTER", "SET") or c.accept("CHAR", "SET"):
        charset = c.word_or_text("a character set").lower()
        binary = c.accept("BINARY") or binary
    size = f"({sizes[0]})" if sizes else ""
    if charset == "binary" or (binary and not charset):
        return f"binary{size}"
    return f"char{size}{' binary' if binary else ''}{f' charset {charset}' if charset not in ('', 'utf8mb4') else ''}"
