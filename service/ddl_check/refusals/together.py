"""Clauses of one ALTER TABLE that TiDB does not run together.

Source: upstream tidb `pkg/ddl/multi_schema_change.go` (fillMultiSchemaInfo, checkMultiSchemaInfo) and `executor.go`
(AlterTable): each clause becomes a job, and these are kinds of jobs, columns and indexes that may be there once.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Final, NamedTuple

from ticdc_bridge.schemas.ddl.executor.indexes import PRIMARY, find
from ticdc_bridge.schemas.ddl.parser.statements import (
    AddColumns,
    AddIndex,
    ChangeColumn,
    Clause,
    DropColumn,
    DropIndex,
    ExchangePartition,
    IndexDef,
    NoColumnEffect,
    RenameColumn,
    RenameIndex,
    RenameTo,
    SetDefault,
    SetOptions,
)
from ticdc_bridge.schemas.model.table import Table
from ticdc_bridge.service.ddl_check.refusals.columns import Refusal
from ticdc_bridge.service.ddl_check.refusals.dependencies import begins
from ticdc_bridge.service.ddl_check.refusals.generated import generated_names

_UNCOUNTED: Final = ("ALGORITHM", "LOCK", "VALIDATION")
_ALONE_OPTIONS: Final = (
    "AUTO_ID_CACHE", "AUTO_RANDOM_BASE", "PLACEMENT POLICY", "TTL_ENABLE", "TTL_JOB_INTERVAL", "SHARD_ROW_ID_BITS",
)  # fmt: skip
_ALONE: Final = ("DROP FOREIGN KEY", "CACHE", "ATTRIBUTES", "SET TIFLASH REPLICA", "REMOVE TTL")
_IF_NEW: Final = ("SHARD_ROW_ID_BITS", "SET TIFLASH REPLICA")
"""TiDB makes no job where the table is so already, which is not known here."""


class _Columns(NamedTuple):
    """Those that a clause adds, drops, names after AFTER, changes, and needs for an index or an expression."""

    added: tuple[str, ...] = ()
    dropped: tuple[str, ...] = ()
    placed: tuple[str, ...] = ()
    changed: tuple[str, ...] = ()
    needed: tuple[str, ...] = ()


class _Indexes(NamedTuple):
    added: tuple[str, ...] = ()
    dropped: tuple[str, ...] = ()
    shown: tuple[str, ...] = ()


def of_algorithm(clauses: Sequence[Clause]) -> Iterator[Refusal]:
    """ALGORITHM = INSTANT where TiDB has to fill an index (upstream `pkg/ddl/ddl_algorithm.go`).

    The last one counts; for slower ones TiDB takes its own, with a warning.
    """
    algorithms = [c.names for c in clauses if isinstance(c, NoColumnEffect) and c.what == "ALGORITHM"]
    if algorithms[-1:] == [("INSTANT",)] and any(isinstance(c, AddIndex) for c in clauses):
        text = "ALGORITHM=INSTANT is not supported. Reason: Cannot alter table by INSTANT. Try ALGORITHM=INPLACE."
        yield Refusal(1846, text)


def of_together(table: Table, clauses: Sequence[Clause]) -> Iterator[Refusal]:
    counted = [c for c in clauses if not (isinstance(c, NoColumnEffect) and c.what in _UNCOUNTED)]
    several = sum(len(c.columns) + len(c.indexes) if isinstance(c, AddColumns) else 1 for c in counted)
    dropped = {c.name.lower() for c in clauses if isinstance(c, DropColumn)}
    added = any(isinstance(c, AddColumns) for c in clauses)
    if len(dropped) > 1 and not added and dropped >= {c.name.lower() for c in table.columns}:
        yield Refusal(1090, "You can't delete all columns with ALTER TABLE; use DROP TABLE instead")
    if several < 2:
        return
    for clause in counted:
        for word in _alone(table, clause):
            text = f"Unsupported multi schema change for {word.lower()}"
            yield Refusal(8200, text, certain=word not in _IF_NEW)
    columns = [_columns(table, c) for c in counted]
    order = [
        *((group[n], n != 2) for n in range(4) for group in columns),
        *((group.needed, False) for group in columns),
    ]
    for name in _repeated(order):
        yield Refusal(8200, f"Unsupported multi schema change: operate same column '{name}'")
    indexes = [_indexes(table, c) for c in counted]
    for name in _repeated((group[n], True) for n in range(3) for group in indexes):
        yield Refusal(8200, f"Unsupported multi schema change: operate same index '{name}'")
    yield from _of_needed_index(table, counted, {n.lower() for group in indexes for n in group.dropped})


def _alone(table: Table, clause: Clause) -> Iterator[str]:
    """What of a clause TiDB runs in a statement of its own only."""
    details = table.details
    match clause:
        case RenameTo() if clause.new.in_db(table.id.db).folded != table.id.folded:
            yield "rename table"
        case ExchangePartition():
            yield "exchange partition"
        case NoColumnEffect(what="REMOVE TTL") if details is None or not details.ttl:
            return
        case NoColumnEffect() if "PARTITION" in clause.what or clause.what in _ALONE:
            yield clause.what
        case SetOptions():
            yield from (word for word in clause.options.others if word in _ALONE_OPTIONS)
            if clause.options.ttl is not None:
                yield "TTL"
            if clause.options.affinity is not None:
                yield "AFFINITY"


def _repeated(groups: Iterable[tuple[Iterable[str], bool]]) -> list[str]:
    """Names that an earlier group has, each once. (names, whether they count for later groups)."""
    seen, found = set[str](), dict[str, None]()
    for names, counts in groups:
        for name in map(str.lower, names):
            if name in seen:
                found[name] = None
            elif counts:
                seen.add(name)
    return list(found)


def _columns(table: Table, clause: Clause) -> _Columns:
    match clause:
        case AddColumns():
            new = [c for c in clause.columns if not (clause.if_not_exists and find(table.columns, c.name))]
            needed = [name for c in new for name in generated_names(c.generated or "")]
            needed += [part for index in clause.indexes for part in _parts(table, index)]
            placed = (clause.position.after,) if clause.position and clause.position.after and new else ()
            return _Columns(tuple(c.name for c in new), placed=placed, needed=tuple(needed))
        case DropColumn() if find(table.columns, clause.name):
            return _Columns(dropped=(clause.name,))
        case ChangeColumn() if find(table.columns, clause.old):
            placed = (clause.position.after,) if clause.position and clause.position.after else ()
            if clause.old.lower() == clause.column.name.lower():
                return _Columns(placed=placed, changed=(clause.old,))
            return _Columns((clause.column.name,), (clause.old,), placed)
        case RenameColumn() if clause.old.lower() != clause.new.lower():
            return _Columns((clause.new,), (clause.old,))
        case SetDefault():
            return _Columns(changed=(clause.column,))
        case AddIndex() if not (clause.if_not_exists and find(table.indexes, clause.index.name)):
            return _Columns(needed=tuple(_parts(table, clause.index)))
    return _Columns()


def _parts(table: Table, index: IndexDef) -> Iterator[str]:
    """The columns of an index that is made; of a foreign key, where it needs an index of its own."""
    if index.special or index.kind == "check":
        return
    if index.kind == "foreign" and any(begins(one.columns, index.parts) for one in table.indexes):
        return
    yield from (part for part in index.parts if part)
    yield from (name for text in index.expressions for name in generated_names(text))


def _indexes(table: Table, clause: Clause) -> _Indexes:
    match clause:
        case AddIndex() if clause.index.kind in ("primary", "unique", "index") and not clause.index.special:
            if clause.if_not_exists and find(table.indexes, clause.index.name):
                return _Indexes()
            name = PRIMARY if clause.index.kind == "primary" else clause.index.name
            return _Indexes((name,) if name else ())
        case DropIndex() if find(table.indexes, clause.name):
            return _Indexes(dropped=(clause.name,))
        case RenameIndex() if clause.old != clause.new:
            return _Indexes((clause.new,), (clause.old,))
        case NoColumnEffect() if clause.what.startswith("ALTER INDEX"):
            return _Indexes(shown=clause.names)
    return _Indexes()


def _of_needed_index(table: Table, clauses: Iterable[Clause], dropped: set[str]) -> Iterator[Refusal]:
    """An index that goes, though a foreign key of the same statement needs it."""
    for clause in clauses:
        if isinstance(clause, AddIndex) and clause.index.kind == "foreign":
            fitting = [i for i in table.indexes if begins(i.columns, clause.index.parts)]
            if fitting and all(i.name.lower() in dropped for i in fitting):
                yield Refusal(1553, f"Cannot drop index '{fitting[0].name}': needed in a foreign key constraint")
