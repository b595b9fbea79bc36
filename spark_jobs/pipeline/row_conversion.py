"""Rows of one description of a table → rows of its newest columns: other letters of names, other types.

A row that is older than the newest definition becomes what TiDB made of the rows that were there
(`spark_jobs.pipeline.conversions`). By registered schemas alone it need not be older: a table that got its former type
back uses the former schema again. Then only what has a way back is converted. Where the definition does not describe
the message, or its column's type then is not known, nothing is converted: a value is taken if it has the form of
the newest type.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, NamedTuple

from ticdc_bridge.schemas.model import values
from ticdc_bridge.schemas.model.errors import Hint
from ticdc_bridge.schemas.model.spark_types import spark_type, widens
from ticdc_bridge.schemas.model.table import Column, Table, Value
from ticdc_bridge.schemas.model.type_text import type_text
from ticdc_bridge.schemas.model.types import Kind
from ticdc_bridge.schemas.plain.column_check import check_of
from ticdc_bridge.spark_jobs.pipeline.conversions import converter
from ticdc_bridge.spark_jobs.pipeline.same_columns import same_columns

_Convert = Callable[[Value], Value]
_NUMBERS = (Kind.INTEGER, Kind.FLOAT, Kind.DOUBLE, Kind.DECIMAL)


class ColumnStep(NamedTuple):
    """What becomes of a column's values, which are not NULL. make: ValueError, TypeError, ArithmeticError where none
    is certain. certain: values were of the type `source`.
    """

    source: Column
    new: Column
    make: Callable[[Value], Value]
    certain: bool

    @property
    def widens(self) -> bool:
        """True if it is a number that the newest column's Spark type holds as the same number."""
        if not self.certain or self.new.type.kind not in _NUMBERS or self.source.type.kind not in _NUMBERS:
            return False
        is_rounded = self.new.type.kind is Kind.DOUBLE and self.new.scale is not None
        source, new = spark_type(self.source), spark_type(self.new)
        return not is_rounded and new != "string" and widens(source, new)

    def detail(self, value: Value, error: Exception) -> str:
        """Why a value has no place in the newest column."""
        text = repr(value[:40]) if isinstance(value, str | bytes) else repr(value)
        source, new = type_text(self.source), type_text(self.new)
        if self.certain:
            return f"{text} of {source} has no certain value as {new}, which the column is now: {error}"
        sent = self.source.vague or source
        return f"{text} is no {new}; the message has it as {sent} ({Hint.ON_LOSSY_FLAG} makes it NULL)"


@dataclass(frozen=True)
class RowConversion:
    """Compiled for rows that `table` describes, and the columns of `target`.

    described: the table, with the target's letters in its name; names: columns that the target calls otherwise, None
    where it has another column of that name; lacking: those that the table has not; kinds: of what the values are;
    unclear: (column, why) where nothing says which column of the target it is: such rows have no place there.
    """

    table: Table
    target: Table
    described: Table
    names: dict[str, str | None]
    steps: tuple[ColumnStep, ...]
    lacking: tuple[Column, ...]
    kinds: dict[str, Kind]
    unclear: tuple[str, str] | None = None

    @classmethod
    def of(cls, table: Table, newest: Table, older: bool, exact: bool = False) -> RowConversion:
        """older: the rows can be older than the newest definition. exact: that is not certain."""
        pairs, lacking, unclear = same_columns(table, newest)
        names: dict[str, str | None] = {entry.name: c.name for entry, c in pairs if entry.name != c.name}
        taken = {c.name.lower() for c in newest.columns if not c.virtual}
        paired = {entry.name for entry, _ in pairs}
        names |= {c.name: None for c in table.columns if c.name.lower() in taken and c.name not in paired}
        made = (_step(entry, c, older, exact) for entry, c in pairs if not _same_type(entry, c))
        steps = tuple(step for step in made if step is not None)
        certain = {step.new.name for step in steps if step.certain}
        return cls(
            table,
            newest,
            replace(table, id=newest.id) if newest.columns and table.id != newest.id else table,
            names,
            steps,
            lacking,
            {c.name: entry.type.kind for entry, c in pairs if c.name not in certain},
            unclear if older else None,
        )

    @property
    def renames(self) -> bool:
        """True if columns have other names, or may have: such rows are not read many at once."""
        return bool(self.names) or self.unclear is not None

    def rename(self, row: dict[str, Value]) -> dict[str, Value]:
        """The row by the newest definition's names."""
        if not self.names:
            return row
        return {new: value for name, value in row.items() if (new := self.names.get(name, name)) is not None}


def _same_type(column: Column, new: Column) -> bool:
    if column is new:
        return True
    a, b = ((c.type, c.unsigned, c.length, c.scale, c.elements, c.charset) for c in (column, new))
    return not column.vague and a == b


def _step(column: Column, new: Column, older: bool, exact: bool) -> ColumnStep | None:
    if older and not column.vague:
        convert = converter(column, new)
        if convert is not None and exact:
            convert = partial(_convert_exactly, convert, converter(new, column))
        return None if convert is None else ColumnStep(column, new, convert, certain=True)
    if not column.vague and column.type.kind is not new.type.kind:
        return ColumnStep(column, new, _refuse, certain=False)
    if column.type.kind is new.type.kind is Kind.BIT:  # without a length: its fewest bytes
        convert = converter(column, new)
        return None if convert is None else ColumnStep(column, new, convert, certain=False)
    check = _CHECKS.get(new.type.kind, check_of(new))
    if new.type.kind is Kind.INTEGER:
        check = partial(values.integer, bits=new.type.bits, unsigned=new.unsigned)
    return None if check is None else ColumnStep(column, new, partial(_keep, check), certain=False)


def _convert_exactly(convert: _Convert, back: _Convert | None, value: Value) -> Value:
    made = convert(value)
    if made != value and (back is None or back(made) != value):
        raise ValueError("it would be changed, and schemas alone do not tell that the row is older; give definitions")
    return made


def _keep(check: Callable[[Any], object], value: Value) -> Value:
    check(value)
    return value


def _refuse(value: Value) -> Value:
    raise ValueError(value)


def _check_text(value: Value) -> None:
    """Text that any of the character types holds, as its length is the writer's."""
    if not isinstance(value, str):
        raise TypeError(value)


_CHECKS: dict[Kind, Callable[[Any], object]] = {
    Kind.YEAR: lambda value: values.check_year(values.integer(value)),
    Kind.JSON: _check_text,
    Kind.VECTOR: _check_text,
}
