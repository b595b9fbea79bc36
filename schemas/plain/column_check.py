"""Checks that a column can hold a value that people give (in lines in plain form, DataFrames), by family of types.

Values of messages were in a column of TiDB and need none; those of a line may come from anywhere, and most formats
would carry them as they are. What TiDB takes under a lax sql_mode passes: zero and partial dates, days that a month
does not have, the ENUM of index 0. Fewer fraction digits than the column has pass too, and more where they are zeros:
that is how a message without a definition tells them.

No check stands here for numbers that every writer must read (integers, YEAR, FLOAT, DOUBLE), nor for JSON and VECTOR,
which are text as received.
"""

import re
from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

from ticdc_bridge.schemas.codec.bounded_cache import BoundedCache
from ticdc_bridge.schemas.formats.base import says_changed
from ticdc_bridge.schemas.model import values
from ticdc_bridge.schemas.model.errors import WireError
from ticdc_bridge.schemas.model.table import Column, Table, Value, require_bytes
from ticdc_bridge.schemas.model.types import Kind

Check = Callable[[Any], object]
"""A value that is not NULL. ValueError, TypeError for what the column does not hold."""


class _Checks(NamedTuple):
    """The checks of one table: the columns that have one, the bytes of each BIT, and what a row is known by."""

    table: Table
    columns: tuple[tuple[str, Check], ...]
    bits: dict[str, int]
    key: tuple[str, ...]


class ColumnCheck:
    """Checks rows; what to look for is compiled once per table."""

    def __init__(self) -> None:
        self._made: BoundedCache[tuple[int, bool], _Checks] = BoundedCache()

    def check(
        self, table: Table, rows: tuple[dict[str, Value] | None, ...], flags: list[str], listed: bool = False,
        fewest: bool = False,
    ) -> None:  # fmt: skip
        """WireError INVALID_VALUE for a value that its column does not hold, but for some that the writers judge.

        NULL is no value of a NOT NULL column of the handle key; of other columns writers judge it.
        rows: the old one and the new one. Left to the writers is what came changed already (a double takes a DECIMAL
        as another double had it), and in deletes what came without its type: most of it is not written.

        listed: elements are those of an Avro schema (`check_of`). fewest: a BIT may have the fewest bytes that its
        number takes, as where its length was not known; it gets all of them.
        """
        checks = self._checks(table, listed)
        for row in rows:
            if row is None:
                continue
            for name in checks.key:
                if row.get(name, "") is None and not _is_left_alone(name, flags, rows[-1] is None):
                    details = "it is NULL, and rows are known by this column, which is NOT NULL"
                    raise WireError("INVALID_VALUE", column=name, details=details)
            for name in checks.bits.keys() & row.keys() if fewest else ():
                bits = row[name]
                if isinstance(bits, bytes) and bits and (bits[0] or len(bits) == 1):
                    row[name] = bits.rjust(checks.bits[name], b"\0")
            for name, check in checks.columns:
                value = row.get(name)
                if value is None:
                    continue
                try:
                    check(value)
                except (ValueError, TypeError) as error:
                    if not _is_left_alone(name, flags, rows[-1] is None):
                        raise WireError("INVALID_VALUE", column=name, details=str(error)[:300]) from error

    def _checks(self, table: Table, listed: bool) -> _Checks:
        checks = self._made.get((id(table), listed))
        if checks is None:
            pairs = ((column.name, check_of(column, listed)) for column in table.columns)
            bits = {c.name: values.bit_size(c.length) for c in table.columns if c.type.kind is Kind.BIT and c.length}
            key = tuple(c.name for c in table.columns if c.handle_key and not c.nullable)
            checks = _Checks(table, tuple((name, check) for name, check in pairs if check), bits, key)
            self._made[id(table), listed] = checks
        return checks


_IN_DOUBT = ("untyped", "binary_or_text", "decimal_or_double")


def _is_left_alone(name: str, flags: list[str], deleted: bool) -> bool:
    mine = [flag for flag in flags if flag.partition(":")[2] == name]
    return any(says_changed(flag) or (deleted and flag.partition(":")[0] in _IN_DOUBT) for flag in mine)


# ---------------------------------------------------------------------------------- by family
def _not_negative(fits: Check, text: str) -> None:
    fits(text)
    if text.startswith("-"):
        raise ValueError(f"{text[:80]} is negative, the column UNSIGNED")


_DAY = r"\d{4}-(?:0\d|1[0-2])-(?:[0-2]\d|3[01])"
_MINUTES = r":[0-5]\d:[0-5]\d"
_MOMENT = rf"{_DAY} (?:[01]\d|2[0-3]){_MINUTES}"
_FORMS = {
    Kind.DATE: _DAY,
    Kind.DATETIME: _MOMENT,
    Kind.TIMESTAMP: _MOMENT,
    Kind.TIME: rf"-?(?:[0-7]?\d\d|8[0-2]\d|83[0-8]){_MINUTES}",
}


def _form_check(column: Column) -> Check:
    kind, digits = column.type.kind, 6 if column.scale is None else column.scale
    fraction = rf"(?:\.\d{{1,{digits}}}0{{0,{6 - digits}}})?" if digits else r"(?:\.0{1,6})?"
    pattern = _FORMS[kind] + ("" if kind is Kind.DATE else fraction)
    name = column.type.name.upper() + ("" if column.scale is None else f"({column.scale})")
    return partial(_check_match, re.compile(pattern, re.ASCII).fullmatch, name)


def _check_match(match: Callable[[str], object], name: str, text: str) -> None:
    if not match(text):
        raise ValueError(f"{text[:40]!r} is no {name}")


# 1970-01-01 00:00:01 to 2038-01-19 03:14:07 in UTC, and a day around it: the text is in the zone of its line.
_FIRST_DAY, _LAST_DAY = "1969-12-31", "2038-01-20"


def _instant(formed: Check, text: str) -> None:
    formed(text)
    if text.startswith(values.ZERO_TIMESTAMP):
        return
    if text[8:10] > "28" or "-00" in text[:10]:
        values.days_of_date(text[:10])
    if not _FIRST_DAY <= text[:10] <= _LAST_DAY:
        raise ValueError(f"{text[:40]} is outside of TIMESTAMP's range")


def _is_element(names: frozenset[str], listed: str, text: str) -> None:
    """listed: the elements as TiCDC's Avro lists them, "" where they are certain."""
    if text not in names and f",{values.join_allowed((text,))}," not in listed:
        raise ValueError(f"{text[:80]!r} is not one of its elements")


def _are_elements(names: frozenset[str], listed: str, text: str) -> None:
    if text not in names:
        for name in text.split(","):
            _is_element(names, listed, name)


def _short_text(name: str, most: int, value: str | bytes) -> None:
    """Counts characters: of bytes that are not UTF-8 their number is not known."""
    if isinstance(value, str) and len(value) > most and _REPLACEMENT not in value:
        raise ValueError(f"a text of {len(value)} characters is no {name}({most})")


_REPLACEMENT = "\N{REPLACEMENT CHARACTER}"  # classic TiCDC writes it for each byte of a character that is no UTF-8


def _short_bytes(name: str, most: int | None, value: Value) -> None:
    size = len(require_bytes(value))
    if most is not None and size > most:
        raise ValueError(f"{size} bytes are no {name}({most})")


def check_of(column: Column, listed: bool = False) -> Check | None:
    """Compiled check of a column's values; None where its family has none, or nothing to hold values to is known.

    listed: the elements are those of an Avro schema, where TiCDC's escapes may have changed them.
    """
    kind, name = column.type.kind, column.type.name.upper()
    match kind:
        case Kind.DECIMAL:
            fits = values.decimal_check(column.length, column.scale)
            return partial(_not_negative, fits) if column.unsigned else fits
        case Kind.BIT if column.length is not None:
            return partial(values.check_bit, column.length)
        case Kind.TEXT if column.length is not None:
            return partial(_short_text, name, column.length)
        case Kind.BINARY:
            return partial(_short_bytes, name, column.length)
        case Kind.ENUM | Kind.SET if column.elements:
            check = _is_element if kind is Kind.ENUM else _are_elements
            in_avro = f",{values.join_allowed(column.elements)}," if listed else ""
            return partial(check, frozenset(("", *column.elements)), in_avro)  # the name of index 0 is always one
        case Kind.DATE | Kind.DATETIME | Kind.TIME:
            return _form_check(column)
        case Kind.TIMESTAMP:
            return partial(_instant, _form_check(column))
    return None
