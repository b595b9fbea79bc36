"""A table of one column of each type and a row of it: what kernels are compiled by before workers need them."""

from __future__ import annotations

from collections.abc import Iterable

from ticdc_bridge.schemas.model.table import Column, Value
from ticdc_bridge.schemas.model.types import BY_NAME, Kind

_TEXTS: dict[Kind, str | bytes] = {
    Kind.BINARY: b"1",
    Kind.ENUM: "a",
    Kind.SET: "a",
    Kind.YEAR: "2000",
    Kind.DATE: "2000-01-01",
    Kind.DATETIME: "2000-01-01 00:00:00",
    Kind.TIMESTAMP: "2000-01-01 00:00:00",
    Kind.TIME: "00:00:00",
}


def sample_columns() -> tuple[Column, ...]:
    """One of each type, named by it; DECIMAL(9,2), BIT(9)."""
    return tuple(
        Column(type_.name, type_, length=9, scale=2 if type_.kind is Kind.DECIMAL else None, elements=("a",))
        for type_ in BY_NAME.values()
    )


def sample_row(columns: Iterable[Column]) -> dict[str, Value]:
    """A value of each column in plain form."""
    return {c.name: _bits(c) if c.type.kind is Kind.BIT else _TEXTS.get(c.type.kind, "1") for c in columns}


def _bits(column: Column) -> bytes:
    return (1).to_bytes(((column.length or 1) + 7) // 8, "big")
