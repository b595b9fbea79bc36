"""Defaults that TiDB refuses: values that the type does not hold, types and functions that have none.

Source: upstream tidb `pkg/ddl/add_column.go` (getDefaultValue, checkColumnDefaultValue), `pkg/ddl/column.go`
(checkDefaultValue).
"""

from __future__ import annotations

import calendar
import re
from collections.abc import Iterator
from dataclasses import replace
from decimal import ROUND_HALF_UP, Context, Decimal, InvalidOperation
from typing import Final

from ticdc_bridge.schemas.ddl.executor.charsets import encodable
from ticdc_bridge.schemas.ddl.executor.default_values import with_default
from ticdc_bridge.schemas.ddl.parser.calls import calls_of
from ticdc_bridge.schemas.ddl.parser.statements import ColumnDef, DefaultValue
from ticdc_bridge.schemas.model.errors import DdlError
from ticdc_bridge.schemas.model.table import Column
from ticdc_bridge.schemas.model.types import Kind
from ticdc_bridge.service.ddl_check.refusals.columns import Refusal, SqlModes
from ticdc_bridge.service.ddl_check.refusals.functions import SYNTAX_ERROR, no_function, of_calls
from ticdc_bridge.service.ddl_check.refusals.generated import outermost_function

_LOBS: Final = ("tinytext", "text", "mediumtext", "longtext", "tinyblob", "blob", "mediumblob", "longblob", "json")
_NUMBERS: Final = (Kind.INTEGER, Kind.FLOAT, Kind.DOUBLE, Kind.DECIMAL)
_TEXT: Final = r"(?:_\w+)?'(?:[^']|'')*'"
# The calls that TiDB takes as a default, in its own text of them: what stands outermost, and its arguments where they
# count (getFuncCallDefaultValue).
_TAKEN: Final = re.compile(
    r"(?:rand|uuid|uuid_to_bin|uuid_v4|uuid_v7|nextval|json_object|json_array|json_quote|vec_from_text)\(.*\)"
    r"|date_format\(now\(\d*\), (?:_\w+)?'%Y-%m(?:-%d(?: %H[.:]%i[.:]%s)?)?'\)"
    r"|replace\((?:convert\()?upper\(uuid\(\)\).*\)"
    r"|upper\(substring_index\(user\(\), (?:_\w+)?'@', .*\)\)"
    rf"|str_to_date\((?:{_TEXT}|[\d.]+), (?:{_TEXT}|[\d.]+)\)",
    re.DOTALL,
)
_MOST_DIGITS: Final = 65
_EXACT: Final = Context(prec=100)
_UNSAFE: Final = frozenset(("rand", "uuid", "uuid_to_bin", "replace", "upper"))


def of_default(defined: ColumnDef, bare: Column, modes: SqlModes, added: bool) -> Iterator[Refusal]:
    """bare: the column without its default. added: by ALTER TABLE, where a function must not differ from row to row."""
    default = defined.default
    if default is None or defined.generated is not None:
        return
    if default.kind == "null":
        if defined.nullable is False or defined.primary_key:
            yield _invalid(defined.name)
    elif default.kind == "expr":
        yield from of_sequence(bare, default)
        yield from _of_expression(defined.name, default.text, added)
        if added and default.text.startswith("date_format("):
            yield from _of_added_format(bare, default.text)
    else:
        yield from of_literal(bare, default, modes)
        if defined.auto_increment:
            yield _invalid(defined.name)


def of_sequence(column: Column, default: DefaultValue) -> Iterator[Refusal]:
    """NEXT VALUE FOR: of numbers alone."""
    if default.text.startswith("nextval(") and column.type.kind not in _NUMBERS:
        yield Refusal(8228, f"Unsupported sequence default value for column type '{column.name}'")


def of_literal(column: Column, default: DefaultValue, modes: SqlModes) -> Iterator[Refusal]:
    """A default that is no expression and not NULL."""
    kind = column.type.kind
    if column.type.name in _LOBS:
        if modes.strict or default != DefaultValue("text"):
            yield Refusal(1101, f"BLOB/TEXT/JSON column '{column.name}' can't have a default value")
    elif kind is Kind.VECTOR:
        text = "can't have a literal default. Use expression default instead: ((VEC_FROM_TEXT('...')))"
        yield Refusal(1105, f"VECTOR column '{column.name}' {text}")
    elif default.kind == "now":
        digits = int(default.text or 0)
        if kind not in (Kind.DATETIME, Kind.TIMESTAMP) or digits != (column.scale or 0):
            yield _invalid(column.name)
    elif default.kind == "date":
        if kind in _NUMBERS or kind in (Kind.BIT, Kind.TIME):
            yield _invalid(column.name)
    elif not _holds(column, default, modes):
        yield _invalid(column.name)


def _invalid(name: str) -> Refusal:
    return Refusal(1067, f"Invalid default value for '{name}'")


def _of_expression(name: str, text: str, added: bool) -> Iterator[Refusal]:
    if text.endswith("`") and not calls_of(text):
        yield Refusal(1105, "column name is not yet supported as a default value")
        return
    outermost = outermost_function(text)
    if not outermost:
        yield Refusal(SYNTAX_ERROR, f"DEFAULT of '{name}' is neither a literal nor a call of a function")
    elif added and outermost in _UNSAFE:
        words = "it uses a system function that may return a different value on the slave"
        yield Refusal(1674, f"Statement is unsafe because {words}")
    elif added and outermost == "nextval":
        yield Refusal(8230, f"Unsupported using sequence as default value in add column '{name}'")
    elif not _TAKEN.fullmatch(text):
        words = f"Default value expression of column '{name}' contains a disallowed function: `{outermost}`."
        yield Refusal(3770, words)
    else:
        yield from of_calls(calls_of(text), lambda call: no_function(call, "")._replace(certain=False))


def _of_added_format(column: Column, text: str) -> Iterator[Refusal]:
    """ADD COLUMN takes the value at once: a month is no date, and a date no element."""
    if column.type.kind in (Kind.DATE, Kind.DATETIME, Kind.TIMESTAMP) and text.endswith("'%Y-%m')"):
        yield Refusal(1292, f"Incorrect {column.type.name} value")
    if column.type.kind in (Kind.ENUM, Kind.SET):
        yield Refusal(1265, f"Data truncated for column '{column.name}'")


# ---- whether a type holds a value
def _holds(column: Column, default: DefaultValue, modes: SqlModes) -> bool:
    try:
        made = with_default(replace(column, default=None), default).default
    except DdlError:
        return False
    if isinstance(made, bytes):
        return column.type.kind is not Kind.BINARY or not _too_long(len(made), column, modes)
    kind, text = column.type.kind, str(made)
    if kind in _NUMBERS:
        return _in_range(column, text)
    if kind is Kind.YEAR:
        number = _number(text)
        return number is not None and (0 <= number <= 99 or 1901 <= number <= 2155)
    if kind in (Kind.DATE, Kind.DATETIME, Kind.TIMESTAMP):
        return _is_date(kind, text, modes)
    if kind is Kind.TEXT:
        return not _too_long(len(text), column, modes) and (not modes.strict or encodable(text, column.charset))
    return True


def _too_long(length: int, column: Column, modes: SqlModes) -> bool:
    return modes.strict and column.length is not None and length > column.length


def _number(text: str) -> Decimal | None:
    try:
        return Decimal(text.strip())
    except InvalidOperation:
        return None


def _in_range(column: Column, text: str) -> bool:
    number = _number(text)
    if number is None or not number.is_finite():
        return False
    if column.type.kind in (Kind.INTEGER, Kind.DECIMAL):
        if number.adjusted() >= _MOST_DIGITS:
            return False
        number = number.quantize(Decimal(1).scaleb(-(column.scale or 0)), ROUND_HALF_UP, _EXACT)
    if column.unsigned and number < 0:
        return False
    if column.type.kind is Kind.INTEGER:
        bits = column.type.bits
        low, high = (0, (1 << bits) - 1) if column.unsigned else (-(1 << (bits - 1)), (1 << (bits - 1)) - 1)
        return low <= number <= high
    if column.length is not None and column.scale is not None:
        return number.copy_abs() < Decimal(10) ** (column.length - column.scale)
    return column.type.kind is not Kind.FLOAT or abs(number) < Decimal("3.4028235e38")


def _is_date(kind: Kind, text: str, modes: SqlModes) -> bool:
    year, month, day = int(text[:4]), int(text[5:7]), int(text[8:10])
    if not (year or month or day):
        return not (modes.strict and modes.no_zero_date)
    if not (month and day):
        return kind is not Kind.TIMESTAMP and not (modes.strict and modes.no_zero_in_date)
    if day > calendar.monthrange(year or 2000, month)[1] and not (modes.invalid_dates and day <= 31):
        return False
    # A day on either side: the session's time zone is not known here.
    return kind is not Kind.TIMESTAMP or "1969-12-31" <= text[:10] <= "2038-01-20"
