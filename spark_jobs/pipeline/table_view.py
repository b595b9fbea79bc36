"""One table's rows in Spark's types: what each value must be, in the in-process decoder and in Arrow batches.

What a column can't hold is an error of its message (INVALID_VALUE) or, where that is asked for, a NULL with the flag
`not_typed:<column>`; never a NULL without a word.
"""

from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, fields, replace
from datetime import UTC, date, datetime, timedelta
from decimal import ROUND_HALF_UP, Context, Decimal
from functools import cache, cached_property
from typing import Any, Literal

from ticdc_bridge.schemas.codec.bounded_cache import BoundedCache
from ticdc_bridge.schemas.formats.base import Decoder
from ticdc_bridge.schemas.model import values
from ticdc_bridge.schemas.model.errors import Hint, SetupError, WireError
from ticdc_bridge.schemas.model.event import Event, Message, RowChange
from ticdc_bridge.schemas.model.ports import TableLineage, TableSource
from ticdc_bridge.schemas.model.spark_types import EXACT, INTEGER_BITS, SparkTypes, python_value, spark_type
from ticdc_bridge.schemas.model.table import Column, Table, TableId, Value
from ticdc_bridge.schemas.model.types import FRACTIONAL, NUMBERS, Kind
from ticdc_bridge.spark_jobs.pipeline.conversions import converter
from ticdc_bridge.spark_jobs.pipeline.row_conversion import RowConversion

_EPOCH = datetime(1970, 1, 1)
ANY_TABLE = TableId("", "")
"""Whose view has all tables, by whatever columns their definitions say."""
NOT_TYPED, FOLD = "not_typed", "timestamp_fold"
Missing = Literal["null", "default"]
OnLossy = Literal["error", "flag"]
_WIDE = Context(prec=100)  # digits: of any DECIMAL, which the default of 28 is not


@dataclass(frozen=True)
class TableView:
    """A table's newest columns and their types.

    missing: what a row has for a column that its version lacks. on_lossy: what a value is that its column's type can't
    hold: "error" fails the message, "flag" makes it NULL with a flag.
    """

    table: Table
    types: SparkTypes = EXACT
    missing: Missing = "null"
    on_lossy: OnLossy = "error"

    def apply(self, event: RowChange, tables: TableSource | None = None) -> None:
        """Makes a row of the table one of the newest columns, in their letters and types, and checks its values.

        Where defaults are asked for it gets what it lacks. WireError INVALID_VALUE; TYPE_UNKNOWN where nothing says
        which column is which; MALFORMED as of `check_names`; of merge, DEFINITION_MISMATCH of another key.
        """
        if event.mismatch is not None and event.mismatch.of_key and not self.table.columns:
            details = f"{event.mismatch}. merge knows rows by their key: give the definitions in force ({Hint.DDL})"
            raise WireError("DEFINITION_MISMATCH", details=details)
        conversion = self._find_conversion(event, tables)
        if conversion.unclear is not None:
            raise WireError("TYPE_UNKNOWN", column=conversion.unclear[0], details=conversion.unclear[1])
        for image in ("before", "after"):
            row = getattr(event, image)
            if row is None:
                continue
            row = self._convert(event, row, conversion)
            if self.missing == "default" and not event.key_only:
                lacking = (self.table.by_name.get(c.name, c) for c in conversion.lacking)
                defaults = ((c.name, default_of(c, event.zone)) for c in lacking)
                row = {**row, **{name: value for name, value in defaults if value is not None}}
            setattr(event, image, row)
        check_names(event, self.table, tables)
        if conversion.names:
            event.key = tuple(conversion.names.get(name) or name for name in event.key)
        event.table = conversion.described
        for checked in filter(None, (event.before, event.after)):
            for name, column, read in self.checked_columns:
                value = checked.get(name)
                if value is not None:
                    self._check(event, column, value, read, conversion.kinds.get(name, column.type.kind))

    def _find_conversion(self, event: RowChange, tables: TableSource | None) -> RowConversion:
        if self.table.columns or tables is None:
            return self.conversion_of(event.table, older=event.mismatch is None, exact=tables is None, tables=tables)
        # merge follows names and types over time: a row gets the letters of the definition in force, and its types.
        version = tables.at(event.table.id, event.commit_ts)
        target = version.table if version else self.table
        return self.conversion_of(event.table, older=False, target=target, typed=event.mismatch is not None)

    def conversion_of(
        self, table: Table, older: bool, target: Table | None = None, typed: bool = True, exact: bool = False,
        tables: TableSource | None = None,
    ) -> RowConversion:  # fmt: skip
        """How rows that `table` describes become rows of the newest columns (spark_jobs.pipeline.row_conversion).

        target: instead of the newest columns. typed: False: names alone. older, exact: as RowConversion has them.
        tables: asked for the versions' column ids, where they do not have those of one history.
        """
        target = target or self.table
        key = id(table), id(target), older, typed, exact, tables is None
        entry = self._conversions.get(key)
        if entry is None or entry.table is not table or entry.target is not target:
            pair = table, target
            if older and isinstance(tables, TableLineage):
                pair = tables.in_same_history(table, target)
            entry = replace(RowConversion.of(*pair, older, exact), table=table, target=target)
            entry = self._conversions[key] = entry if typed else replace(entry, steps=())
        return entry

    def _convert(self, event: RowChange, row: dict[str, Value], conversion: RowConversion) -> dict[str, Value]:
        row = conversion.rename(row)
        changed: dict[str, Value] = {}
        for step in conversion.steps:
            name = step.new.name
            value = row.get(name)
            if value is None:
                continue
            try:
                changed[name] = step.make(value)
            except (ValueError, TypeError, ArithmeticError) as error:
                if self.on_lossy == "error":
                    raise WireError("INVALID_VALUE", column=name, details=step.detail(value, error)) from error
                changed[name] = None
                event.flag(f"{NOT_TYPED}:{name}")
        return {**row, **changed} if changed else row

    def _check(
        self, event: RowChange, column: Column, value: Value, read: Callable[[str, str], Any] | None, source: Kind
    ) -> None:
        try:
            if read is None:
                check_number(column, value, source)
                return
            if not isinstance(value, str):
                raise ValueError(value)
            read(value, event.zone)
        except (ValueError, ArithmeticError) as error:
            if read is None or self.on_lossy == "error":
                raise WireError("INVALID_VALUE", column=column.name, details=self.detail(column, value)) from error
            event.flag(f"{NOT_TYPED}:{column.name}")
            return
        if column.type.kind is Kind.TIMESTAMP and values.shift_zone(str(value), event.zone, "UTC")[1]:
            event.flag(f"{FOLD}:{column.name}")

    def detail(self, column: Column, value: Value) -> str:
        """Why a value does not go into its column."""
        text = value[:40] if isinstance(value, str) else repr(value)[:40]
        return f"{text} is no value of Spark's {spark_type(column, self.types)}"

    def has(self, id_: TableId) -> bool:
        """True if a name, in any letters, is the table's."""
        return id_ == self.table.id or id_.folded == self._folded_id or self.table.id == ANY_TABLE

    def row(self, row: Mapping[str, Value] | None, zone: str) -> dict[str, Any] | None:
        """A row that was checked → Python values as Arrow takes them for the columns' types; NULL where flagged."""
        if row is None:
            return None
        return {n: make(row[n], zone) for n, make in self.makers if n in row}

    @cached_property
    def _folded_id(self) -> TableId:
        return self.table.id.folded

    @cached_property
    def visible_columns(self) -> list[Column]:
        return [c for c in self.table.columns if not c.virtual]

    @cached_property
    def _conversions(self) -> BoundedCache[tuple[int, int, bool, bool, bool, bool], RowConversion]:
        return BoundedCache(1024, 1 << 20, lambda _, entry: len(entry.table.columns))

    def __getstate__(self) -> dict[str, Any]:
        return {f.name: getattr(self, f.name) for f in fields(self)}

    @cached_property
    def checked_columns(self) -> list[tuple[str, Column, Callable[[str, str], Any] | None]]:
        kinds = self.types.kinds
        return [
            (c.name, c, READ[c.type.kind] if c.type.kind in kinds else None)
            for c in self.visible_columns
            if c.type.kind in kinds or c.type.kind in NUMBERS
        ]

    @cached_property
    def makers(self) -> list[tuple[str, Callable[[Value, str], Any]]]:
        return [(c.name, self._maker(c)) for c in self.visible_columns]

    def _maker(self, column: Column) -> Callable[[Value, str], Any]:
        if column.type.kind not in self.types.kinds:
            return lambda value, _zone: python_value(column, value)
        read = READ[column.type.kind]

        def make_typed(value: Value, zone: str) -> Any:
            try:
                return read(value, zone) if isinstance(value, str) else None
            except (ValueError, ArithmeticError):
                if self.on_lossy == "error":
                    raise
                return None

        return make_typed


class ViewDecoder:
    """A decoder whose rows of the table fit the view."""

    def __init__(self, decoder: Decoder, view: TableView, tables: TableSource | None = None) -> None:
        self._decoder, self._view, self._tables = decoder, view, tables

    def decode(self, message: Message) -> list[Event]:
        events = self._decoder.decode(message)
        for event in events:
            if isinstance(event, RowChange) and (self._view.has(event.table.id) or not self._view.table.columns):
                self._view.apply(event, self._tables)
        return events


def check_names(event: RowChange, newest: Table, tables: TableSource | None) -> None:
    """WireError MALFORMED for a row with a column that neither its version nor the newest has.

    Columns that were dropped since are left out of the newest ones; that a column was dropped can't be told of a row
    which no definition describes. A row older than all definitions is let through.
    newest: without columns where they are for `tables` to say.
    """
    if tables is None or event.table_version is not None or event.table.created_ts:
        return
    if not newest.columns:
        version = tables.at(event.table.id, None)
        newest = version.table if version else newest
    images = (event.after, event.before)
    strange = next((name for row in images for name in row or () if name not in newest.by_name), None)
    if strange is not None and tables.at(event.table.id, event.commit_ts) is not None:
        advice = f"give what is missing ({Hint.DDL}, {Hint.HISTORY})"
        details = f"column {strange!r} is not in the table's definition; {advice}"
        raise WireError("MALFORMED", where=str(event.table.id), details=details)


def default_of(column: Column, zone: str) -> Value:
    """The default of a row that lacks the column, TIMESTAMP in its zone; None: an expression, or of an unknown zone."""
    if is_computed(column) or column.default_unzoned or column.default is None:
        return None
    if column.type.kind is Kind.TIMESTAMP and isinstance(column.default, str):
        return values.shift_zone(column.default, "UTC", zone)[0]
    return plain_default(column)


def with_default_of(first: Column, column: Column, is_defined: bool = False) -> Column:
    """A column with the default that it came with (`first`): what TiDB has in rows from before, whatever it is now.

    is_defined: by DDL, which tells all defaults: a NOT NULL column without one came with its type's zero.
    """
    if is_defined and first.default is None and not first.virtual:
        first = replace(first, default=original_default(first)[1])
    value, unknown = first.default, is_computed(first) or first.default_unzoned
    convert = None if unknown or value is None else converter(first, column)
    try:
        value = convert(plain_default(first)) if convert else value
    except ValueError:
        unknown = True
    return replace(column, has_default=first.has_default, default=value, default_is_expr=unknown)


def original_default(column: Column) -> tuple[bool, Any]:
    """(known, value) of an added column in the rows that were there: TiDB's original default, but no expression's."""
    if column.has_default and column.default is not None:
        is_known = not (is_computed(column) or column.default_unzoned)
        return is_known, plain_default(column) if is_known else None
    if column.nullable:
        return True, None
    kind = column.type.kind
    if kind in (Kind.ENUM, Kind.SET):
        return True, column.elements[0] if kind is Kind.ENUM and column.elements else ""
    if kind in _ZERO:
        digits = "." + "0" * (column.scale or 0) if column.scale else ""
        return True, _ZERO[kind] + (digits if kind in _WITH_DIGITS else "")
    if kind is Kind.BINARY:
        return True, b"\0" * (column.length or 1) if column.type.name == "binary" else b""
    if kind is Kind.BIT and column.length:
        return True, b"\0" * values.bit_size(column.length)
    return (True, "null") if kind is Kind.JSON else (False, None)


_WITH_DIGITS = (Kind.DECIMAL, Kind.DATETIME, Kind.TIMESTAMP, Kind.TIME)
_ZERO = {
    Kind.INTEGER: "0", Kind.FLOAT: "0", Kind.DOUBLE: "0", Kind.DECIMAL: "0", Kind.YEAR: "0", Kind.TEXT: "",
    Kind.DATE: "0000-00-00", Kind.DATETIME: "0000-00-00 00:00:00", Kind.TIMESTAMP: "0000-00-00 00:00:00",
    Kind.TIME: "00:00:00",
}  # fmt: skip


def is_computed(column: Column) -> bool:
    """True if the default is an expression, or the time of the statement: no definition tells the value."""
    is_clock = column.type.kind in (*FRACTIONAL, Kind.DATE) and str(column.default)[:8].upper() == "CURRENT_"
    return column.default_is_expr or is_clock


def plain_default(column: Column) -> Value:
    """A column's default as a row has that value: a DECIMAL's digits, all bytes of a BIT, no more than the type holds.

    The default itself stays as it was written.
    """
    kind, value = column.type.kind, column.default
    if kind is Kind.BIT and isinstance(value, bytes):
        return value.rjust(((column.length or 1) + 7) // 8, b"\0")
    if kind is Kind.YEAR and isinstance(value, str):
        year = int(Decimal(value).quantize(_ONE, ROUND_HALF_UP))  # of two digits, but 0000 is NOT NULL's
        return str(year if year > 99 or value == "0000" else year + (2000 if year < 70 else 1900))
    if kind is Kind.TEXT and isinstance(value, str):
        value = value[: column.length]  # more are blanks
        return value.rstrip(" ") if column.type.name == "char" else value
    if kind is Kind.BINARY and value is not None:
        value = (value if isinstance(value, bytes) else value.encode())[: column.length]
        return value.ljust(column.length or 1, b"\0") if column.type.name == "binary" else value
    if kind in (Kind.FLOAT, Kind.DOUBLE) and isinstance(value, str):
        number = values.real(value)
        return values.float_text(values.as_float32(number)) if kind is Kind.FLOAT else values.double_text(number)
    if kind is Kind.DECIMAL and isinstance(value, str):
        with suppress(ArithmeticError):  # no number: what a message had
            rounded = Decimal(value).quantize(_ONE.scaleb(-(column.scale or 0)), ROUND_HALF_UP, _WIDE)
            return f"{rounded or abs(rounded):f}"
    return value


def check_number(column: Column, value: Value, source: Kind) -> None:
    """ValueError where the column's Spark type does not hold the number. source: what its own version's column is."""
    if not isinstance(value, str):
        raise ValueError(value)
    kind = spark_type(column)
    values.real(value)  # what Python alone takes for a number (1_0) is none
    if kind in INTEGER_BITS:
        values.check_range(int(value), INTEGER_BITS[kind], unsigned=False)
    elif kind.startswith("decimal("):
        precision, scale = map(int, kind[8:-1].split(","))
        number = Decimal(value)
        if number.adjusted() >= precision - scale or number != number.quantize(_ONE.scaleb(-scale), context=_WIDE):
            raise ValueError(value)
    elif kind == "float" and source is not Kind.FLOAT:
        values.parse_float32(value)
    elif kind == "double" and source not in (Kind.FLOAT, Kind.DOUBLE) and not values.survives_double(value):
        raise ValueError(value)


_ONE = Decimal(1)


# ---- temporal values: text → Python's, ValueError or OverflowError for those that Spark's type can't hold


def _datetime(text: str, _zone: str) -> datetime:
    return _EPOCH + timedelta(microseconds=values.micros_of_datetime(text))


def _timestamp(text: str, zone: str) -> datetime:
    if not "0002" <= text[:4] <= "9998":  # TIMESTAMP ends long before; in another zone these may be of no year at all
        raise ValueError(text)
    return _datetime(values.shift_zone(text, zone, "UTC")[0], zone).replace(tzinfo=UTC)


READ: Mapping[Kind, Callable[[str, str], Any]] = {
    Kind.DATE: lambda text, _zone: date.fromordinal(values.days_of_date(text) + _EPOCH.toordinal()),
    Kind.DATETIME: _datetime,
    Kind.TIMESTAMP: _timestamp,
    Kind.TIME: lambda text, _zone: timedelta(microseconds=values.micros_of_time(text)),
}


@cache
def transition_dates(zone: str) -> frozenset[str]:
    """The local dates, 1969 to 2040, on which a zone's clocks were or will be set: there a text may mean two times."""
    dates, rules = set(), values.zone(zone)
    day, end = datetime(1969, 12, 31), datetime(2040, 1, 1)
    while day < end:
        after = day + timedelta(days=1)
        if day.replace(tzinfo=rules).utcoffset() != after.replace(tzinfo=rules, fold=1).utcoffset():
            dates |= {(day + timedelta(days=n)).date().isoformat() for n in (-1, 0, 1)}
        day = after
    return frozenset(dates)


def table_of(text: str | None) -> TableId | None:
    """ "db.table" → TableId; None for None. SetupError USAGE."""
    return None if text is None else table_id(text)


def table_id(text: str) -> TableId:
    """ "db.table" → TableId. SetupError USAGE."""
    db, dot, name = text.partition(".")
    if not (db and dot and name):
        raise SetupError("USAGE", details=f"table {text!r}: db.table is needed")
    return TableId(db, name)
