"""Two change events that should say the same: what is different (for `verify`, and the tests of every format pair)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from ticdc_bridge.schemas.inspect.losses import WrittenValue
from ticdc_bridge.schemas.model import values
from ticdc_bridge.schemas.model.event import Row, RowChange
from ticdc_bridge.schemas.model.names import sanitise_name
from ticdc_bridge.schemas.model.table import Column, Value
from ticdc_bridge.schemas.model.types import BY_NAME, Kind


@dataclass(frozen=True)
class EventDifference:
    """where: as `Loss.where` ("digits", "bits": the same value in more digits or bytes). cell: None: of the event."""

    where: str
    cell: WrittenValue | None
    first: Any
    second: Any

    def __str__(self) -> str:
        name = self.cell.column.name + " " + self.cell.column.type.name if self.cell else "event"
        return f"{self.where} of {name}: {self.first!r} → {self.second!r}"[:300]


def differences(first: RowChange, second: RowChange, defined: bool, format_: str) -> Iterator[EventDifference]:
    """What a reader gets otherwise than it was. Values are compared exactly, FLOAT as float32."""
    rename = sanitise_name if format_ == "avro" and not defined else str
    names = (first.db, first.table_name, *(c.name for c in first.table.columns if not c.virtual))
    if rename is sanitise_name and any(sanitise_name(n) != n for n in names):
        yield EventDifference("name", None, names, (second.db, second.table_name))
    for what, one, other in (
        ("op", first.op, second.op),
        ("commit_ts", first.commit_ts, second.commit_ts),
        ("table", tuple(map(rename, (first.db, first.table_name))), (second.db, second.table_name)),
        ("key", {*map(rename, first.key)}, {*second.key}),
    ):
        if one != other:
            yield EventDifference(what, None, one, other)
    for side in ("before", "after"):
        row, back = _visible_values(first, side), _visible_values(second, side)
        if (row is None) != (back is None):
            yield EventDifference(side, None, row, back)
        elif row is not None and back is not None:
            yield from _rows(first, second, {rename(n): (n, v) for n, v in row.items()}, back, defined)


def _visible_values(event: RowChange, side: str) -> Row | None:
    row: Row | None = getattr(event, side)
    if row is None:
        return None
    hidden = {c.name for c in event.table.columns if c.virtual}
    return {name: value for name, value in row.items() if name not in hidden}


_NO_COLUMN = Column("", BY_NAME["text"])


def _rows(
    first: RowChange, second: RowChange, one: dict[str, tuple[str, Value]], other: Row, defined: bool
) -> Iterator[EventDifference]:
    for name, (own, value) in one.items():
        cell = WrittenValue(first.table.by_name.get(own, _NO_COLUMN), value, first, defined)
        if name not in other:
            yield EventDifference("missing", cell, value, "(absent)")
        elif (where := _differs(cell.column, value, _shift_value(cell.column, other[name], first, second))) != "":
            yield EventDifference(where, cell, value, other[name])
    for name, value in other.items():
        if name not in one:
            cell = WrittenValue(second.table.by_name.get(name, _NO_COLUMN), value, first, defined)
            hidden = name in first.table.by_name and first.table.by_name[name].virtual
            where = "extra" if value is not None else "virtual" if hidden else "filled" if first.key_only else "extra"
            yield EventDifference(where, cell, "(absent)", value)


def _shift_value(column: Column, value: Value, first: RowChange, second: RowChange) -> Value:
    if column.type.kind is not Kind.TIMESTAMP or not isinstance(value, str) or first.zone == second.zone:
        return value
    try:
        return values.shift_zone(value, second.zone, first.zone)[0]
    except ValueError:
        return value  # no TIMESTAMP's text: its type was not known


def _differs(column: Column, one: Value, other: Value) -> str:
    if one == other:
        return ""
    kind = column.type.kind
    if one is None or other is None:
        return "cell"
    if kind is Kind.FLOAT and _float32(one) == _float32(other) is not None:
        return ""
    if kind in (Kind.DATETIME, Kind.TIME, Kind.TIMESTAMP) and _pad_fraction(one) == _pad_fraction(other):
        return "digits"
    if isinstance(one, bytes) and isinstance(other, bytes) and kind is Kind.BIT:
        return "bits" if int.from_bytes(one, "big") == int.from_bytes(other, "big") else "cell"
    return "cell"


def _float32(value: Value) -> float | None:
    """What a FLOAT's text says as a double; both of a damaged one and of the float32 that it happens to be."""
    try:
        return values.as_float32(values.real(str(value)))
    except (ValueError, OverflowError):
        return None


def _pad_fraction(value: Value) -> str:
    whole, _, fraction = str(value).partition(".")
    return f"{whole}.{fraction.ljust(6, '0')}"
