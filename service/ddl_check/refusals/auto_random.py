"""What TiDB refuses of AUTO_RANDOM.

Source: upstream tidb `pkg/ddl/create_table.go` (setTableAutoRandomBits), `pkg/ddl/modify_column.go` (checkAutoRandom).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from ticdc_bridge.schemas.ddl.executor.indexes import PRIMARY, find
from ticdc_bridge.schemas.ddl.parser.statements import ColumnDef, IndexDef
from ticdc_bridge.schemas.model.table import Column, Table
from ticdc_bridge.service.ddl_check.refusals.columns import Refusal

_MOST: Final = 15
_LEAST_LEFT: Final = 27
"""Bits that count up, besides those that are random and the sign."""


def _invalid(text: str) -> Refusal:
    return Refusal(8216, f"Invalid auto random: {text}")


INCOMPATIBLE: Final = _invalid("auto_random is incompatible with default")


def of_new(one: ColumnDef, primary: IndexDef | None) -> Iterator[Refusal]:
    """In CREATE TABLE."""
    if (
        primary is None
        or primary.parts[0].lower() != one.name.lower()
        or one.clustered is False
        or (primary.clustered is False)
    ):
        yield _invalid(f"column {one.name} is not the primary key, or the primary key is nonclustered")
    yield from _of_definition(one)


def _of_definition(one: ColumnDef) -> Iterator[Refusal]:
    if one.auto_increment:
        yield _invalid("auto_random is incompatible with auto_increment")
    if one.default is not None:
        yield INCOMPATIBLE
    if not 32 <= one.random_range <= 64:
        yield _invalid(f"auto_random range bits must be between 32 and 64, but got {one.random_range}")
    if one.random_bits > _MOST:
        text = f"max allowed auto_random shard bits is {_MOST}, but got {one.random_bits} on column `{one.name}`"
        yield _invalid(text)
    elif one.random_range >= 32 and one.random_range - one.random_bits - (not one.type.unsigned) < _LEAST_LEFT:
        yield _invalid("auto_random ID space is too small, please decrease the shard bits or increase the range bits")
    if one.random_bits == 0:
        yield _invalid("the value of auto_random should be positive")


def of_change(table: Table, old: Column, new: ColumnDef) -> Iterator[Refusal]:
    """In MODIFY and CHANGE. table: as it is before."""
    details, primary = table.details, find(table.indexes, PRIMARY)
    if details is None:
        return
    had = details.auto_random.lower() == old.name.lower()
    if had and not new.auto_random:
        yield _invalid("adding/dropping/modifying auto_random is not supported")
    if not new.auto_random:
        return
    yield from _of_definition(new)
    bits, width = details.random
    if had and new.random_bits < bits:
        yield _invalid("decreasing auto_random shard bits is not supported")
    if had and new.random_range != width:
        yield _invalid("alter the range bits of auto_random column is not supported")
    is_first = primary is not None and primary.columns[:1] == (old.name,)
    if not had and not (old.auto_increment and is_first and details.clustered is not False):
        yield _invalid("auto_random can only be converted from auto_increment clustered primary key")
    elif not had and old.type.name != new.type.name:
        yield _invalid("modifying the auto_random column type is not supported")
