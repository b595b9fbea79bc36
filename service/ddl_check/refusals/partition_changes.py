"""Partitions that are there: changes of them that TiDB refuses, and EXCHANGE PARTITION.

Source: upstream tidb `pkg/ddl/partition_executor.go`, `pkg/ddl/executor.go`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence, Set
from itertools import pairwise
from typing import Any, Final

from ticdc_bridge.schemas.ddl.executor.details import numbered_names
from ticdc_bridge.schemas.ddl.executor.indexes import find
from ticdc_bridge.schemas.ddl.parser.partition_definitions import PartitionDef
from ticdc_bridge.schemas.ddl.parser.statements import NoColumnEffect
from ticdc_bridge.schemas.model.table import Partitioning, Table, TableDetails
from ticdc_bridge.service.ddl_check.refusals.columns import Refusal
from ticdc_bridge.service.ddl_check.refusals.partitions import (
    NOT_INCREASING,
    is_less,
    of_literals,
    of_order,
    of_partition_names,
    of_values,
)

MANAGED: Final = {
    "ADD PARTITION", "DROP PARTITION", "TRUNCATE PARTITION", "COALESCE PARTITION", "REORGANIZE PARTITION",
    "FIRST PARTITION", "LAST PARTITION", "REMOVE PARTITIONING",
}  # fmt: skip


def of_management(table: Table, clause: NoColumnEffect) -> Iterator[Refusal]:
    """Of a table whose details are known."""
    spread = table.details.partitioning if table.details else None
    if spread is None:
        yield Refusal(1505, "Partition management on a not partitioned table is not possible")
        return
    method, ranged = spread.method, spread.method.startswith(("RANGE", "LIST"))
    match clause.what:
        case "DROP PARTITION" if not ranged:
            yield Refusal(1512, "DROP PARTITION can only be used on RANGE/LIST partitions")
        case "COALESCE PARTITION" if ranged:
            yield Refusal(1509, "COALESCE PARTITION can only be used on HASH/KEY partitions")
        case "COALESCE PARTITION" if clause.count == 0:
            yield Refusal(1515, "At least one partition must be coalesced")
        case "COALESCE PARTITION" if spread.partitions and clause.count >= len(spread.partitions):
            yield _ALL
        case "DROP PARTITION" if spread.names and not clause.lenient:
            if len(clause.names) >= len(spread.names):
                yield _ALL
            yield from _of_unknown(spread, clause, 1507, "Error in list of partitions to DROP")
            if _repeated(clause.names):
                yield Refusal(1507, "Error in list of partitions to DROP")
        case "REORGANIZE PARTITION" if not ranged:
            yield Refusal(8200, "Unsupported reorganize partition")
        case "TRUNCATE PARTITION" if spread.names:
            unknown = next((n for n in clause.names if n.lower() not in map(str.lower, spread.names)), "")
            text = f"Unknown partition '{unknown}' in table '{table.id.table}'"
            yield from _of_unknown(spread, clause, 1735, text)
        case "REORGANIZE PARTITION" if spread.names and clause.names:
            yield from _of_unknown(spread, clause, 1567, "Incorrect partition name")
            for name in _repeated(clause.names):
                yield Refusal(1517, f"Duplicate partition name {name}")
            gone = {name.lower() for name in clause.names}
            yield from of_partition_names(clause.added, [n for n in spread.names if n.lower() not in gone])
            yield from of_literals(table, clause.added, method, spread.columns)
            yield from _of_reorganized(table, spread, gone, clause.added)
        case "LAST PARTITION" if method.startswith("LIST"):
            yield Refusal(1492, "For LIST partitions each partition must be defined")
        case "FIRST PARTITION" | "LAST PARTITION" if not method.startswith("RANGE"):
            text = f"{clause.what}, does not seem like an INTERVAL partitioned table"
            yield Refusal(8200, f"Unsupported {text}")
        case "LAST PARTITION" if any(one.has_maxvalue for one in spread.partitions):
            yield Refusal(8200, "Unsupported LAST PARTITION when MAXVALUE partition exists")
        case "FIRST PARTITION" | "LAST PARTITION":
            yield from _of_interval_end(spread, clause)
        case "ADD PARTITION" if not ranged:
            yield from _of_numbered(spread, clause)
        case "ADD PARTITION":
            yield from _of_added(table, spread, clause)


_ALL: Final = Refusal(1508, "Cannot remove all partitions, use DROP TABLE instead")


def _of_added(table: Table, spread: Partitioning, clause: NoColumnEffect) -> Iterator[Refusal]:
    """ADD PARTITION of RANGE and LIST."""
    kind, _, columns = spread.method.partition(" ")
    if not clause.added:
        yield Refusal(1492, f"For {kind} partitions each partition must be defined")
    for one in clause.added:
        yield from of_values(one, kind, len(spread.columns) if columns else 0)
    yield from of_literals(table, clause.added, spread.method, spread.columns)
    if any(one.has_default for one in spread.partitions):
        text = "Unsupported ADD List partition, already contains DEFAULT partition. Please use REORGANIZE"
        yield Refusal(8200, f"{text} PARTITION instead")
    yield from of_order(table, [*spread.partitions, *clause.added], spread.method, spread.columns)
    if not clause.lenient:
        yield from of_partition_names(clause.added, spread.names)


def _repeated(names: Sequence[str]) -> list[str]:
    lower = [name.lower() for name in names]
    return [name for place, name in enumerate(lower) if name in lower[:place]]


def _of_numbered(spread: Partitioning, clause: NoColumnEffect) -> Iterator[Refusal]:
    """ADD PARTITION of HASH and KEY."""
    for one in clause.added:
        if one.values:
            owner = {"LESS THAN": "RANGE", "IN": "LIST"}.get(one.values, "SYSTEM_TIME")
            yield Refusal(1480, f"Only {owner} PARTITIONING can use VALUES {one.values} in partition definition")
    made = [PartitionDef(name) for name in numbered_names(spread, clause.count)] if spread.partitions else []
    yield from of_partition_names([*clause.added, *made], spread.names)


def _is_reached(given: int, ends: Sequence[int], step: int, *, beyond: bool) -> bool:
    """Whether an end stands among those that are there, after the first; or some steps beyond the last."""
    within = given > ends[-1] if beyond else ends[0] < given <= ends[-1]
    return within and not (given - ends[0]) % step


def _of_interval_end(spread: Partitioning, clause: NoColumnEffect) -> Iterator[Refusal]:
    """FIRST and LAST PARTITION, where all ends are whole numbers (upstream GeneratePartDefsFromInterval)."""
    known = [one for one in spread.partitions if one.name.upper() != "P_NULL" and not one.has_maxvalue]
    ends, given = [n for one in known for n in one.numbers], [n for one in clause.added for n in one.numbers]
    if not known or len(ends) < len(known) or len(given) != 1:
        return
    step = ends[1] - ends[0] if len(ends) > 1 else 0
    if not step or any(later - one != step for one, later in pairwise(ends)):
        yield Refusal(8200, f"Unsupported {clause.what}, does not seem like an INTERVAL partitioned table")
    elif not _is_reached(given[0], ends, step, beyond=clause.what == "LAST PARTITION"):
        text = f"expr ({given[0]}) not matching FIRST + n INTERVALs ({ends[0]} + n * {step})"
        yield Refusal(8200, f"Unsupported INTERVAL: {text}")


def _of_reorganized(
    table: Table, spread: Partitioning, gone: Set[str], added: Sequence[PartitionDef]
) -> Iterator[Refusal]:
    """gone: names in small letters, of partitions that others take the place of. The last ones may end elsewhere."""
    places = [place for place, one in enumerate(spread.partitions) if one.name.lower() in gone]
    if not places:
        return
    kind, last = spread.method.partition(" ")[0], places[-1]
    if kind == "RANGE" and places != list(range(places[0], last + 1)):
        yield Refusal(8200, "Unsupported REORGANIZE PARTITION of RANGE; not adjacent partitions")
        return
    before = [one for place, one in enumerate(spread.partitions) if place < places[0] or kind == "LIST"]
    before = [one for one in before if one.name.lower() not in gone]
    yield from of_order(table, [*before, *added], spread.method, spread.columns)
    if kind == "RANGE" and added and last < len(spread.partitions) - 1:
        columns = [find(table.columns, name) for name in spread.columns]
        ends = [row for one in (spread.partitions[last], added[-1]) for row in one.rows]
        if len(ends) == 2 and any(is_less(row, other, columns) for row, other in (ends, reversed(ends))):
            yield NOT_INCREASING


def _of_unknown(spread: Partitioning, clause: NoColumnEffect, number: int, text: str) -> Iterator[Refusal]:
    if not {name.lower() for name in clause.names} <= {name.lower() for name in spread.names}:
        yield Refusal(number, text)


# ---- EXCHANGE PARTITION
def of_exchange(table: Table, partition: str, other: Table | None) -> Iterator[Refusal]:
    """other: the table that takes the partition's place, None where it is not known."""
    spread = table.details.partitioning if table.details else None
    if table.details is not None and spread is None:
        yield Refusal(1505, "Partition management on a not partitioned table is not possible")
    if spread and spread.names and partition.lower() not in map(str.lower, spread.names):
        yield Refusal(1735, f"Unknown partition '{partition}' in table '{table.id.table}'")
    if other is None:
        yield Refusal(1146, "The table to exchange with the partition doesn't exist", certain=False)
        return
    if other.details and other.details.temporary:
        yield Refusal(1733, f"Table to exchange with partition is temporary: '{other.id.table}'")
    if other.details and other.details.partitioning:
        yield Refusal(1732, f"Table to exchange with partition is partitioned: '{other.id.table}'")
    elif other.details and other.details.foreign_keys:
        yield Refusal(1740, f"Table to exchange with partition has foreign key references: '{other.id.table}'")
    if table.details and table.details.everywhere:
        yield Refusal(1731, f"Non matching attribute 'global index: {table.details.everywhere[0]}'")
    if any(a.virtual != b.virtual for a, b in zip(table.columns, other.columns, strict=False)):
        text = "'Exchanging partitions for non-generated columns' is not supported for generated columns."
        yield Refusal(3106, text)
    elif (
        _forms(table) != _forms(other)
        or not _have_like_charsets(table, other)
        or _differ_in_details(table, partition, other)
    ):
        yield _DIFFERENT
    else:
        # TiDB asks its own numbers of columns, which only their history tells.
        for a, b in zip(table.columns, other.columns, strict=True):
            if a.id and b.id and a.id != b.id:
                text = f"Non matching attribute 'column: {a.name}' between partition and table"
                yield Refusal(1731, text, certain=False)


_DIFFERENT: Final = Refusal(1736, "Tables have different definitions")


def _forms(table: Table) -> list[tuple[Any, ...]]:
    return [
        (
            c.name.lower(),
            c.type.name,
            c.unsigned,
            c.length,
            c.scale,
            c.elements,
            c.nullable,
            c.generated,
            c.primary_key,
            c.auto_increment,
            c.zerofill,
        )
        for c in table.columns
    ]


def _have_like_charsets(table: Table, other: Table) -> bool:
    """As far as they are known."""
    pairs = [
        (table.collate, other.collate),
        *((a.collate, b.collate) for a, b in zip(table.columns, other.columns, strict=True)),
    ]
    return all(a == b for a, b in pairs if a and b)


def _differ_in_details(table: Table, partition: str, other: Table) -> bool:
    """Indexes that one lacks or has otherwise, AUTO_RANDOM, placement. A length of prefixes is not known."""
    mine, others = table.details, other.details
    if mine is None or others is None:
        return False
    indexes, other_indexes = (
        {i.name.lower(): ([c.lower() for c in i.columns], i.unique) for i in one.indexes} for one in (table, other)
    )
    if indexes != other_indexes or _expressions(mine) != _expressions(others):
        return True
    if None not in (mine.clustered, others.clustered) and mine.clustered != others.clustered:
        return True
    spread = mine.partitioning.partitions if mine.partitioning else ()
    policy = next((one.policy for one in spread if one.name.lower() == partition.lower()), "") or mine.policy
    if policy.lower() != others.policy.lower():
        return True
    return (mine.auto_random.lower(), mine.random) != (others.auto_random.lower(), others.random)


def _expressions(details: TableDetails) -> set[tuple[str, ...]]:
    """Of each expression index its name and the columns that it names."""
    return {(name.lower(), *map(str.lower, columns)) for name, columns in details.expressions}
