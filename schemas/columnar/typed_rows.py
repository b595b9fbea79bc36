"""Typed columns of many rows: what the compiled decoders of all formats give, and Craft's encoder takes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from schemas.model.table import Column


@dataclass(frozen=True, slots=True)
class TypedColumn:
    """A column of one side of the rows. valid: False for NULL and for a row that lacks this side or column.

    form says what `values` is: int (int64), uint, number, enum, set, bit (uint64: value, index or mask), double and
    float (float64), decimal (pairs of uint64, low and high, two's complement), text, bytes (uint8 with `offsets`).
    """

    column: Column
    form: str
    values: Any
    valid: Any
    offsets: Any = None


@dataclass(frozen=True, slots=True)
class TypedRows:
    """Rows in message order. message: its index in the batch.

    side: 1 new only (c), 2 old only (d), 3 both (u), 5 new only of an update (u).

    key_only: a delete of which the message has its key alone. after, before: the columns of the table.
    """

    message: Any
    commit_ts: Any
    partition: Any
    side: Any
    key_only: Any
    after: tuple[TypedColumn, ...]
    before: tuple[TypedColumn, ...]
