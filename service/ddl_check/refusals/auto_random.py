"""What TiDB refuses of AUTO_RANDOM.

Source: upstream tidb `pkg/ddl/create_table.go` (setTableAutoRandomBits), `pkg/ddl/modify_column.go` (checkAutoRandom).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from schemas.ddl.parser.statements import ColumnDef, IndexDef
from schemas.model.table import Column, TableDetails
from service.ddl_check.refusals.columns import Refusal

_MOST: Final = 15


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
    if one.random_bits == 0:
        yield _invalid("the value of auto_random should be positive")


def of_change(details: TableDetails | None, old: Column, new: ColumnDef) -> Iterator[Refusal]:
    """In MODIFY and CHANGE. details: of the table before."""
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
    if not had and not (old.auto_increment and old.primary_key and details.clustered is not False):
        yield _invalid("auto_random can only be converted from auto_increment clustered primary key")
