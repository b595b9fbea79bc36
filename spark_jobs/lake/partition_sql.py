"""Which rows dropped partitions had: SQL over the columns that rows are spread by, as TiDB compares them.

NULL goes to the lowest partition of RANGE and to the first of HASH; so does a date with a zero that TO_DAYS makes NULL
(upstream `pkg/table/tables/partition.go`). All functions rise with their column, so that a bound is a value of it:
engines skip files by that.
"""

import re
from collections.abc import Callable
from datetime import UTC, date, datetime, timedelta
from typing import Final, NamedTuple

from ticdc_bridge.schemas.model.errors import Hint
from ticdc_bridge.schemas.model.partitions import Bound, Limit, Partitioning, UnixTime
from ticdc_bridge.schemas.model.table import Column
from ticdc_bridge.schemas.model.types import Kind
from ticdc_bridge.schemas.model.values import shift_zone
from ticdc_bridge.spark_jobs.spark.sql_expressions import sql_literal

_COLLATIONS: Final = ("utf8mb4_bin", "utf8_bin", "ascii_bin", "latin1_bin", "utf8mb4_0900_bin")
"""By which texts are in the order of their bytes, but for blanks at the end, as to which servers differ."""
_DATES, _OTHERS = (Kind.DATE, Kind.DATETIME), (Kind.INTEGER, Kind.YEAR, Kind.TEXT)
_KINDS: Final = {"TO_DAYS": _DATES, "YEAR": _DATES, "UNIX_TIMESTAMP": (Kind.TIMESTAMP,), "": (*_OTHERS, *_DATES)}
_TIME: Final = re.compile(r"(\d{4}-\d\d-\d\d)(?: (\d\d:\d\d:\d\d)(?:\.(\d{1,6}))?)?")

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


class UnknownRows(ValueError):
    """Why it is not known which rows a partition had."""


class RemovedPartitions(NamedTuple):
    """A DROP or TRUNCATE PARTITION. partitioning: before it; None: it is not known. names: () for all. zone: of the
    session that defined them, "" where it is not known.
    """

    partitioning: Partitioning | None
    names: tuple[str, ...]
    zone: str = ""


class Spread(NamedTuple):
    """A column that rows are spread by. sql: its value in plain form; zone: of TIMESTAMP text, None: in seconds."""

    sql: str
    column: Column
    zone: str | None = "UTC"


def rows_of(removed: RemovedPartitions, spread: Callable[[str], Spread]) -> str:
    """SQL: whether a row was in one of the partitions; NULL where it is not known.

    spread: a column, by its name then. UnknownRows where it is known of no row.
    """
    if not removed.names:
        return "true"
    by = removed.partitioning
    if by is None:
        raise UnknownRows("which rows its partitions have is not known: KEY, or another function than those followed")
    columns = [spread(name) for name in by.columns]
    for _, column, _ in columns:
        kind = column.type.kind
        if column.virtual or kind not in _KINDS[by.function] or (by.method == "HASH" and kind is not Kind.INTEGER):
            raise UnknownRows(f"column {column.name}, virtual or of its type: how it spreads rows is not known")
        if kind is Kind.TEXT and column.collate not in _COLLATIONS:
            raise UnknownRows(f"column {column.name}: how collation {column.collate or '?'} orders texts is not known")
    rows, numbers = _Rows(by, removed.zone, columns), [(name, by.number(name)) for name in removed.names]
    if missing := [name for name, number in numbers if number is None]:
        raise UnknownRows(f"partition {missing[0]} is not in the definitions that are known")
    sql = " OR ".join(f"coalesce({rows.of(number)}, false)" for _, number in numbers if number is not None)
    doubts = [f"coalesce({value} LIKE '% ', false)" for value, column, _ in columns if column.type.kind is Kind.TEXT]
    return f"if({' OR '.join(doubts)}, NULL, {sql})" if doubts else f"({sql})"


def can_be_unknown(sql: str) -> bool:
    """True if SQL of `rows_of` can be NULL."""
    return sql.startswith("if(")


class _Rows(NamedTuple):
    """How a table spreads its rows. zone: of UNIX_TIMESTAMP('…')."""

    by: Partitioning
    zone: str
    columns: list[Spread]

    def of(self, number: int) -> str:
        """SQL: whether a row is in a partition."""
        parts = [part.values for part in self.by.partitions]
        if self.by.method == "HASH":  # the remainder of a signed 64-bit number, without its sign
            value, column, _ = self.columns[0]
            of_null = "" if number else f" OR {value} IS NULL"
            if column.is_unsigned64:
                value = f"(CASE WHEN {value} >= {1 << 63} THEN {value} - {1 << 64} ELSE {value} END)"
            return f"(abs({value} % {len(parts)}) = {number}{of_null})"
        if self.by.method == "RANGE":
            upper = self._is_less(parts[number][0])
            return f"{upper} AND NOT {self._is_less(parts[number - 1][0])}" if number else upper
        if parts[number] == ((Limit.DEFAULT,),):
            others = " OR ".join(self._is_in(values) for n, values in enumerate(parts) if n != number)
            return f"NOT coalesce({others or 'false'}, false)"
        return self._is_in(parts[number])

    def _is_less(self, bounds: tuple[Bound, ...]) -> str:
        """Whether a row comes before bounds, column by column."""
        sql = ""
        if len(bounds) != len(self.columns):
            raise UnknownRows("its partitions have another number of values than columns")
        for spread, bound in reversed(list(zip(self.columns, bounds, strict=True))):
            if bound is Limit.MAXVALUE:
                sql = "true"
            else:
                literal = self._literal(spread, bound)
                rest = f" OR ({spread.sql} = {literal} AND {sql})" if sql else ""
                sql = f"({spread.sql} < {literal} OR {self._is_null(spread)}{rest})"
        return sql

    def _is_in(self, values: tuple[tuple[Bound, ...], ...]) -> str:
        rows = (" AND ".join(map(self._is, self.columns, row)) for row in values)
        return f"({' OR '.join(f'({row})' for row in rows)})"

    def _is(self, spread: Spread, bound: Bound) -> str:
        if bound is None:
            return self._is_null(spread)
        if self.by.function and isinstance(bound, int):
            return f"({self._is_less((bound + 1,))} AND NOT {self._is_less((bound,))})"
        return f"{spread.sql} = {self._literal(spread, bound)}"

    def _is_null(self, spread: Spread) -> str:
        text = spread.sql
        has_zero = f"(substr({text}, 6, 2) = '00' OR substr({text}, 9, 2) = '00')"
        return f"({text} IS NULL OR {has_zero})" if self.by.function == "TO_DAYS" else f"{text} IS NULL"

    def _literal(self, spread: Spread, bound: Bound) -> str:
        """A bound as a value of the column. UnknownRows for one that is none."""
        kind, function = spread.column.type.kind, self.by.function
        if isinstance(bound, int) and function == "TO_DAYS" and 366 <= bound <= date.max.toordinal() + 365:
            return f"'{date.fromordinal(bound - 365)}'"
        if isinstance(bound, int) and function == "YEAR" and 1 <= bound <= 9999:
            return f"'{bound:04}'"
        if function == "UNIX_TIMESTAMP":
            return self._moment(spread, bound)
        if isinstance(bound, int) and not function and kind in (Kind.INTEGER, Kind.YEAR):
            return str(bound)
        if isinstance(bound, str) and kind is Kind.TEXT and not bound.endswith(" "):
            return sql_literal(bound)
        if isinstance(bound, str) and kind in _DATES and not function and (match := _TIME.fullmatch(bound)):
            day, clock, fraction = match[1], match[2] or "00:00:00", match[3] or ""
            digits = spread.column.scale or 0
            if kind is Kind.DATE and clock == "00:00:00" and not fraction.strip("0"):
                return f"'{day}'"
            if kind is Kind.DATETIME and not fraction[digits:].strip("0"):
                return f"'{day} {clock}{'.' * bool(digits)}{fraction[:digits].ljust(digits, '0')}'"
        raise UnknownRows(f"bound {bound} is not a value of column {spread.column.name}")

    def _moment(self, spread: Spread, bound: Bound) -> str:
        """A time as the column has it, where one moment alone has that text."""
        if isinstance(bound, UnixTime) and not self.zone:
            details = f"UNIX_TIMESTAMP('{bound.text}') is in the time zone of the session that ran the statement"
            raise UnknownRows(f"{details}, which is not known: give it ({Hint.DDL_TIME_ZONE})")
        if isinstance(bound, UnixTime):
            utc, is_twice = shift_zone(bound.text, self.zone, "UTC")
        elif isinstance(bound, int) and 0 < bound < 1 << 31:
            utc, is_twice = f"{_EPOCH + timedelta(seconds=bound):%Y-%m-%d %H:%M:%S}", False
        else:
            raise UnknownRows(f"bound {bound} is no time")
        text, is_shifted_twice = shift_zone(utc, "UTC", spread.zone or "UTC")
        if is_twice or is_shifted_twice:
            raise UnknownRows(f"{text} was twice, as clocks were set back")
        seconds = (datetime.fromisoformat(f"{utc}+00:00") - _EPOCH).total_seconds()
        return f"'{text}'" if spread.zone else f"{seconds:.0f}"
