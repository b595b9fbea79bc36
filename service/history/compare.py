"""Two descriptions of one table: what contradicts. What one of them does not tell, contradicts nothing."""

from __future__ import annotations

from collections.abc import Iterable

from schemas.model.table import Column, Table
from schemas.model.types import Kind

_MOST_TOLD = 8
_SIZED = (Kind.DECIMAL, Kind.BIT)
_SIGN_NOT_TOLD = (Kind.BIT, Kind.YEAR, Kind.DECIMAL)  # Debezium does not say it of DECIMAL
_TEMPORAL = (Kind.DATETIME, Kind.TIMESTAMP, Kind.TIME)


def difference(known: Table, told: Table, *, all_columns: bool = True) -> str:
    """What of `told` contradicts `known`, "" for nothing. all_columns: `told` should have every column."""
    found = list(_names(known, told, all_columns))
    for column in told.columns:
        other = known.by_name.get(column.name)
        if other is not None:
            found += (f"column {column.name}: {what}" for what in column_difference(other, column))
    more = f", and {len(found) - _MOST_TOLD} more" if len(found) > _MOST_TOLD else ""
    return "; ".join(found[:_MOST_TOLD]) + more


def _names(known: Table, told: Table, all_columns: bool) -> Iterable[str]:
    if all_columns:
        for column in known.columns:
            # Virtual columns are left out of most formats' rows.
            if column.name not in told.by_name and not column.virtual:
                yield f"column {column.name} is missing"
    for column in told.columns:
        if column.name not in known.by_name:
            yield f"column {column.name} is not in the history"


def column_difference(known: Column, told: Column) -> Iterable[str]:
    """What contradicts in one column: type, signedness, sizes, elements, whether it can be NULL."""
    if known.vague or told.vague:
        return
    if known.type is not told.type:
        yield f"type {told.type.name}, the history says {known.type.name}"
        return
    if known.unsigned != told.unsigned and known.type.kind not in _SIGN_NOT_TOLD:
        yield f"{'' if told.unsigned else 'not '}unsigned, against the history"
    if known.type.kind in _SIZED and told.length is not None and known.length != told.length:
        yield f"length {told.length}, the history says {known.length}"
    scaled = known.type.kind is Kind.DECIMAL or known.type.kind in _TEMPORAL
    if scaled and told.scale is not None and (known.scale or 0) != told.scale:
        yield f"scale {told.scale}, the history says {known.scale or 0}"
    if known.elements != told.elements and told.elements:
        yield f"elements {list(told.elements)[:20]}, the history says {list(known.elements)[:20]}"
    if known.nullable != told.nullable:
        yield f"{'NULL' if told.nullable else 'NOT NULL'}, against the history"
