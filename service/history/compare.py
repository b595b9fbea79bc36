"""Two descriptions of one table: what contradicts. What one of them does not tell, contradicts nothing."""

from __future__ import annotations

from collections.abc import Iterable

from ticdc_bridge.schemas.model.table import Column, Table
from ticdc_bridge.schemas.model.types import Kind

_MOST_TOLD = 8
_SIZED = (Kind.DECIMAL, Kind.BIT)
_SIGN_NOT_TOLD = (Kind.BIT, Kind.YEAR, Kind.DECIMAL)  # Debezium does not say it of DECIMAL
_TEMPORAL = (Kind.DATETIME, Kind.TIMESTAMP, Kind.TIME)


def difference(base: Table, actual: Table, *, all_columns: bool = True) -> str:
    """What of `actual` contradicts `base`, "" for nothing. all_columns: `actual` should have every column."""
    differences = list(_names(base, actual, all_columns))
    for column in actual.columns:
        other = base.by_name.get(column.name)
        if other is not None:
            differences += (f"column {column.name}: {what}" for what in column_difference(other, column))
    more = f", and {len(differences) - _MOST_TOLD} more" if len(differences) > _MOST_TOLD else ""
    return "; ".join(differences[:_MOST_TOLD]) + more


def _names(base: Table, actual: Table, all_columns: bool) -> Iterable[str]:
    if all_columns:
        for column in base.columns:
            # Virtual columns are left out of most formats' rows.
            if column.name not in actual.by_name and not column.virtual:
                yield f"column {column.name} is missing"
    for column in actual.columns:
        if column.name not in base.by_name:
            yield f"column {column.name} is not in the history"


def column_difference(base: Column, actual: Column) -> Iterable[str]:
    """What contradicts in one column: type, signedness, sizes, elements, whether it can be NULL."""
    if base.vague or actual.vague:
        return
    if base.type is not actual.type:
        yield f"type {actual.type.name}, the history says {base.type.name}"
        return
    if base.unsigned != actual.unsigned and base.type.kind not in _SIGN_NOT_TOLD:
        yield f"{'' if actual.unsigned else 'not '}unsigned, against the history"
    if base.type.kind in _SIZED and actual.length is not None and base.length != actual.length:
        yield f"length {actual.length}, the history says {base.length}"
    scaled = base.type.kind is Kind.DECIMAL or base.type.kind in _TEMPORAL
    if scaled and actual.scale is not None and (base.scale or 0) != actual.scale:
        yield f"scale {actual.scale}, the history says {base.scale or 0}"
    if base.elements != actual.elements and actual.elements:
        yield f"elements {list(actual.elements)[:20]}, the history says {list(base.elements)[:20]}"
    if base.nullable != actual.nullable:
        yield f"{'NULL' if actual.nullable else 'NOT NULL'}, against the history"
