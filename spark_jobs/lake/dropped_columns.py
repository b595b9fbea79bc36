"""A table's history for tables of the lake that keep the past: no column of it goes, and no statement empties it.

A column that was dropped stays, NULL in what is newer. Where another column gets its name, it is called
`NAME__dropped_COMMIT_TS` from then on. A table that is created again after a DROP goes on: a column of the same name
and type is the same one; in any other, older rows have nothing.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from ticdc_bridge.schemas.model.table import Column, Table
from ticdc_bridge.spark_jobs.lake.column_history import SchemaChange


@dataclass(frozen=True, slots=True)
class ClearingStatement:
    """A statement that took rows away without telling which. word: TRUNCATE, DROP, or the word of an unsure
    SchemaChange; `is_sure`: no row was left. is_first: it is a CREATE, and nothing is known of the table from before:
    mostly there was none. step: of dropped partitions, whose rows `removed` has, or which stay; why: see SchemaChange.
    """

    commit_ts: int
    word: str
    is_sure: bool
    is_first: bool = False
    step: SchemaChange | None = None
    why: str = ""

    @property
    def ends_rows(self) -> bool:
        """True if it ended rows, and which is known."""
        return self.is_sure or (self.step is not None and self.step.removed is not None)


@dataclass(slots=True)
class FullHistory:
    """table: as it is now, and after its columns the dropped ones. steps: those that lead there. dropped: the name of
    each → commit_ts of its DROP. clearing: in order.
    """

    table: Table
    steps: list[SchemaChange] = field(default_factory=list)
    dropped: dict[str, int] = field(default_factory=dict)
    clearing: list[ClearingStatement] = field(default_factory=list)

    @property
    def emptied(self) -> int:
        """The commit_ts of the last statement after which no row was left; -1: there was none."""
        return max((statement.commit_ts for statement in self.clearing if statement.is_sure), default=-1)

    @property
    def unsure(self) -> ClearingStatement | None:
        """The last statement after which it is not known which rows are left, unless all were removed since."""
        unsure = (s for s in reversed(self.clearing) if not s.is_sure and s.step is None)
        return next((statement for statement in unsure if statement.commit_ts > self.emptied), None)


def full_history(table: Table, steps: Sequence[SchemaChange]) -> FullHistory:
    """table: as TiDB has it. steps: spark_jobs.lake.column_history.schema_changes; [] where no DDL is known."""
    history, full_table, gone_at = FullHistory(table), None, 0
    last: Table | None = None  # without dropped columns
    for step in steps:
        if step.after is None:
            gone_at = step.commit_ts
        again = step.emptied and step.before is None
        if step.emptied:
            at, word = (gone_at or step.commit_ts, "DROP") if again else (step.commit_ts, "TRUNCATE")
            history.clearing.append(ClearingStatement(at, word, True, is_first=again and full_table is None))
            gone_at = 0
        if step.unsure:
            history.clearing.append(ClearingStatement(step.commit_ts, step.unsure, False, why=step.why))
        if step.word:
            history.clearing.append(ClearingStatement(step.commit_ts, step.word, False, step=step))
        if step.after is None:
            continue
        if full_table is None:
            full_table = last = step.before
        if full_table is None or last is None:
            full_table = last = step.after
            history.steps.append(SchemaChange(step.commit_ts, None, full_table))
            continue
        if again:
            stays, after = _match_created(last, step.after)
        else:  # old names → new ones of the columns that the statement did not drop
            names, after = {c.name: step.renamed.get(c.name, c.name) for c in last.columns}, step.after
            stays = {old: new for old, new in names.items() if new in after.by_name}
        change = _keep_dropped(history, full_table, after, stays, step.commit_ts)
        history.steps.append(change)
        full_table, last = change.after, step.after
    history.table = full_table or table
    return history


def _match_created(before: Table, after: Table) -> tuple[dict[str, str], Table]:
    """The columns that a table of the same name has again, and the new one, whose defaults are none of older rows."""
    created = {c.name.lower(): c for c in after.columns}
    same = {c.name: created[c.name.lower()].name for c in before.columns if _same_type(c, created.get(c.name.lower()))}
    columns = tuple(
        c if c.name in same.values() else replace(c, nullable=True, has_default=False, default=None)
        for c in after.columns
    )
    return same, replace(after, columns=columns)


def _same_type(column: Column, other: Column | None) -> bool:
    def shape(c: Column) -> tuple[object, ...]:
        return c.type, c.unsigned, c.length, c.scale, c.elements, c.virtual

    return other is not None and shape(column) == shape(other)


def _keep_dropped(
    history: FullHistory, full_table: Table, after: Table, stays: dict[str, str], commit_ts: int
) -> SchemaChange:
    """The step from the table with all its columns to the next one. stays: old names → new ones."""
    taken = {c.name.lower() for c in after.columns}
    renamed = {old: new for old, new in stays.items() if old != new}
    dropped, kept = dict[str, int](), list[Column]()
    for column in full_table.columns:
        if column.name in stays or column.virtual:
            continue
        at, name = history.dropped.get(column.name, commit_ts), column.name
        if name.lower() in taken:
            name = f"{name}__dropped_{at}"
            renamed[column.name] = name
        dropped[name] = at
        kept.append(replace(column, name=name, handle_key=False, primary_key=False, nullable=True))
    history.dropped = dropped
    return SchemaChange(commit_ts, full_table, replace(after, columns=(*after.columns, *kept)), renamed)
