"""A table's history as a merge needs it: what its columns were called and when, what was added, when it was emptied."""

from collections.abc import Iterable
from dataclasses import dataclass, field, replace

from ticdc_bridge.schemas.ddl.executor.apply import apply
from ticdc_bridge.schemas.ddl.executor.catalog import new_catalog
from ticdc_bridge.schemas.ddl.executor.versions import DdlText, in_utc
from ticdc_bridge.schemas.ddl.parser.lexer import SHOW, mode_of
from ticdc_bridge.schemas.ddl.parser.statement_parser import parse
from ticdc_bridge.schemas.ddl.parser.statements import (
    AlterTable,
    ChangeColumn,
    CreateTable,
    DropTables,
    ExchangePartition,
    FlashbackDatabase,
    NoColumnEffect,
    NoRowEffect,
    RecoverTable,
    RenameColumn,
    Statement,
    TruncateTable,
)
from ticdc_bridge.schemas.model.errors import DdlError, Hint, SetupError
from ticdc_bridge.schemas.model.event import DdlEvent
from ticdc_bridge.schemas.model.table import Column, Table, TableId
from ticdc_bridge.spark_jobs.lake.name_history import rename_chain
from ticdc_bridge.spark_jobs.lake.partition_sql import RemovedPartitions, Spread, UnknownRows, rows_of
from ticdc_bridge.spark_jobs.pipeline.same_columns import same_columns


@dataclass(frozen=True, slots=True)
class SchemaChange:
    """The effect of one statement on the table. before, after: None where the table was not there.

    renamed: old name → new, other letters of the same name too. emptied: no row from before is the table's (TRUNCATE;
    CREATE, whether or not the DROP before it is known; a DROP alone leaves the copy, which RECOVER TABLE makes right
    again). unsure: what the statement is called, where it took rows away or brought some back and nothing tells which,
    or what a column that it ADDED has in them; why: the reason, if it is known. unclear: why it is not known which
    columns stayed (SHOW CREATE TABLE with others than before). removed: partitions whose rows it took away; word: what
    it is called then; without `removed` the rows stay here.
    """

    commit_ts: int
    before: Table | None
    after: Table | None
    renamed: dict[str, str] = field(default_factory=dict)
    emptied: bool = False
    unsure: str = ""
    unclear: str = ""
    why: str = ""
    word: str = ""
    removed: RemovedPartitions | None = None

    def old_name(self, name: str) -> str | None:
        """The name that a column had before the statement; None: the statement did not rename it."""
        return next((old for old, new in self.renamed.items() if new == name), None)


def statements_of_events(events: Iterable[DdlEvent]) -> list[DdlText]:
    """DDL as the stream carried it."""
    return [
        DdlText(e.commit_ts, e.db, e.query, mode_of(e.format)) for e in events if e.query and e.commit_ts is not None
    ]


def schema_changes(statements: Iterable[DdlText], id_: TableId) -> list[SchemaChange]:
    """The effects of the statements on one table, in order; each statement once. RENAME TABLE is followed.

    id_: the table's name at any time (spark_jobs.lake.name_history). SetupError USAGE says which statement can't be
    read.
    """
    ordered = sort_statements(statements)
    catalog, changes, is_gone = new_catalog(), list[SchemaChange](), False
    line = rename_chain(ordered, id_)
    for number, ddl in enumerate(ordered):
        old, new = line.name_before(number), line.name_after(number)
        id_ = new or old or id_
        before, statement, is_shown = catalog.table(old) if old else None, None, False
        try:
            statement = parse(ddl.query, ddl.mode, ddl.db)
            if is_shown := ddl.mode is SHOW and isinstance(statement, CreateTable):
                catalog = apply(catalog, DropTables("table", (statement.table,), if_exists=True), ddl.db)
            catalog = apply(catalog, statement, ddl.db)
            if ddl.zone and new is not None and (table := catalog.table(new)) is not None:
                catalog = catalog.with_table(in_utc(table, ddl.zone))
        except DdlError as error:
            if isinstance(statement, RecoverTable) and statement.table is None:  # by a job's number: it may be ours
                if is_gone:
                    changes.append(SchemaChange(ddl.commit_ts, before, before, unsure="RECOVER TABLE BY JOB"))
                continue
            if id_.table.lower() not in ddl.query.lower():
                continue  # another table's
            details = f"DDL at commit_ts {ddl.commit_ts}, {ddl.query[:200]!r}: {error.detail}"
            raise SetupError("USAGE", details=f"the history of {id_} can't be followed: {details}") from error
        if new is None:
            continue  # the name is another table's yet
        after = catalog.table(new)
        truncated = isinstance(statement, TruncateTable) and same_table(statement.table.in_db(ddl.db), id_)
        back = isinstance(statement, RecoverTable | FlashbackDatabase)
        is_created = isinstance(statement, CreateTable) and not is_shown and after is not None and after != before
        before = None if is_created else before
        again = is_created or (before is None and after is not None and is_gone and not back)
        unsure, removed, why = _unclear_change(statement, ddl, id_), None, ""
        if unsure in _DROPPED and before is not None:
            removed, why = _removed_partitions(statement, ddl, before)
        by_its_name = not isinstance(statement, RecoverTable | FlashbackDatabase) or not statement.new
        if back and before is None and after is not None and not (is_gone and by_its_name):
            unsure = "FLASHBACK" if isinstance(statement, FlashbackDatabase) else "RECOVER or FLASHBACK TABLE"
        is_gone = is_gone if after is None and before is None else after is None
        renamed: dict[str, str] = {}
        if before is not None and after is not None:
            now = {c.name.lower(): c.name for c in after.columns}  # a column may be written in other letters now
            renamed = {c.name: now[c.name.lower()] for c in before.columns if now.get(c.name.lower(), c.name) != c.name}
            if isinstance(statement, AlterTable) and any(
                same_table(statement.table.in_db(ddl.db), i) for i in (id_, before.id)
            ):
                renamed |= _column_renames(statement, before, after)
        unclear = ""
        if is_shown and before is not None and after is not None:
            odd = same_columns(replace(before, created_ts=0), after).unclear
            unclear = f"column {odd[0]}: {odd[1]}" if odd else ""
        if truncated or again or renamed or unsure or before != after:
            word, unsure = (unsure, "") if removed is not None else ("", unsure)
            emptied = truncated or again
            change = SchemaChange(ddl.commit_ts, before, after, renamed, emptied, unsure, unclear, why, word, removed)
            added = (c for c in (after.columns if after else ()) if c.default_unzoned and is_added_by(change, c.name))
            if (column := next(added, None)) is not None:
                why = (
                    f"DEFAULT {column.default!r} of column {column.name} is in the time zone of the session that ran it"
                )
                change = replace(change, unsure=ADDED, why=f"{why}, which is not known: give it ({Hint.DDL_TIME_ZONE})")
            changes.append(change)
    return changes


def keep_partitions(steps: Iterable[SchemaChange]) -> list[SchemaChange]:
    """Steps by which rows of dropped partitions stay."""
    return [
        replace(step, unsure="", why="", removed=None, word=step.unsure or step.word)
        if (step.unsure or step.word) in _OF_PARTITIONS
        else step
        for step in steps
    ]


def column_now(steps: Iterable[SchemaChange], commit_ts: int, name: str) -> str | None:
    """What a column is called at the end; None: it was dropped. name: at the commit_ts, in any letters."""
    for step in steps:
        if step.commit_ts > commit_ts and step.after is not None:
            now = {old.lower(): new for old, new in step.renamed.items()}
            now = {c.name.lower(): c.name for c in step.after.columns} | now
            if name.lower() not in now:
                return None
            name = now[name.lower()]
    return name


def load_again(id_: TableId | None) -> str:
    """What to do where the rows of a table of the lake are to be made TiDB's again."""
    return f"Load it again, and merge goes on: {str(Hint.LOAD_REPLACE).format(table=id_)}"


def unsure_text(word: str, commit_ts: int, why: str, id_: TableId) -> str:
    """The error of a statement after which it is not known which rows are there."""
    why = why or "a changefeed does not tell which rows it took away or brought back"
    return f"{word} at commit_ts {commit_ts}: {why}. {load_again(id_)}"


def sort_statements(statements: Iterable[DdlText]) -> list[DdlText]:
    """Each statement once, by commit_ts."""
    return sorted({(s.commit_ts, s.db, s.query): s for s in statements}.values(), key=lambda s: s.commit_ts)


def same_table(name: TableId, other: TableId) -> bool:
    """True if two names are those of one table: TiDB takes them in any letters."""
    return name.folded == other.folded


ADDED = "ADD COLUMN"
_DROPPED = ("TRUNCATE PARTITION", "DROP PARTITION")
_OF_PARTITIONS = (*_DROPPED, "FIRST PARTITION")


def _removed_partitions(statement: Statement, ddl: DdlText, before: Table) -> tuple[RemovedPartitions | None, str]:
    """The partitions that a statement dropped or emptied; None where their rows are not known, and why."""
    assert isinstance(statement, AlterTable)
    change = next(c.partitions for c in statement.clauses if isinstance(c, NoColumnEffect) and c.what in _DROPPED)
    assert change is not None  # no names would be all partitions
    partitioning = before.details.partitioning if before.details else None
    removed = RemovedPartitions(partitioning, change.names, ddl.zone)
    columns, keys = {c.name.lower(): c for c in before.columns}, {name.lower() for name in before.handle_key}
    by = partitioning.columns if partitioning and removed.names else ()
    try:
        if keys and not {name.lower() for name in by} <= keys:
            raise UnknownRows("its key does not tell the partition of a row (a global index)")
        rows_of(removed, lambda name: Spread("c", columns[name.lower()]))
    except ValueError as error:
        return None, str(error)
    return removed, ""


def _unclear_change(statement: Statement, ddl: DdlText, id_: TableId) -> str:
    """The word for a statement that took rows of the table away or brought some, and does not say which."""
    if isinstance(statement, AlterTable):
        is_same = same_table(statement.table.in_db(ddl.db), id_)
        for clause in statement.clauses:
            if isinstance(clause, NoColumnEffect) and clause.what in _OF_PARTITIONS and is_same:
                return clause.what
            if isinstance(clause, ExchangePartition) and (is_same or same_table(clause.table.in_db(ddl.db), id_)):
                return "EXCHANGE PARTITION"
    if isinstance(statement, NoRowEffect) and statement.what.startswith("FLASHBACK"):
        query = ddl.query.lower()
        if "cluster" in query or id_.table.lower() in query or id_.db.lower() in query:
            return statement.what
    return ""


def _column_renames(statement: AlterTable, before: Table, after: Table) -> dict[str, str]:
    """Old names, in the table's letters, → new ones. In TiDB RENAME COLUMN to other letters does nothing."""
    columns = {c.name.lower(): c.name for c in before.columns}
    renames: dict[str, str] = {}
    for clause in statement.clauses:
        if isinstance(clause, RenameColumn | ChangeColumn):
            new = clause.new if isinstance(clause, RenameColumn) else clause.column.name
            if clause.old.lower() != new.lower() and clause.old.lower() in columns and new in after.by_name:
                renames[columns[clause.old.lower()]] = new
    return renames


def names_over_time(steps: list[SchemaChange], column: str) -> list[tuple[int, str | None]]:
    """[(until, name)…] oldest first: what the column was called in rows with commit_ts ≤ until.

    None: it was not there yet; a column of that name in such rows was another, dropped or renamed since.
    """
    names: list[tuple[int, str | None]] = []
    name = column
    for step in reversed(steps):
        if (old := step.old_name(name)) is not None:
            names.insert(0, (step.commit_ts, old))
            name = old
        elif is_added_by(step, name):
            names.insert(0, (step.commit_ts, None))
            break
        if step.emptied:
            break
    return names


def is_added_by(step: SchemaChange, name: str) -> bool:
    """True if the statement added the column to a table that was there."""
    if step.before is None or step.after is None or name in step.renamed.values():
        return False
    present = {c.name.lower() for c in step.before.columns if c.name not in step.renamed}
    return name.lower() not in present and name.lower() in {c.name.lower() for c in step.after.columns}


def types_over_time(steps: list[SchemaChange], column: Column) -> list[tuple[int, Column, Column]]:
    """[(until, before, after)…] oldest first: in rows with commit_ts ≤ until a value is one of the column `before`."""
    name, types = column.name, list[tuple[int, Column, Column]]()
    for step in reversed(steps):
        if step.emptied or is_added_by(step, name):
            break
        if step.before is None or step.after is None:
            continue  # it was dropped, and brought back
        old = column_before(step, name)
        if old is not None and name in step.after.by_name:
            types.insert(0, (step.commit_ts, old, step.after.by_name[name]))
            name = old.name
    return types


def added_column(steps: list[SchemaChange], column: str) -> Column | None:
    """The column as it was when ALTER TABLE added it; None for one that the table had from the start."""
    name = column
    for step in reversed(steps):
        if step.emptied:
            return None
        if is_added_by(step, name) and step.after is not None:
            return next(c for c in step.after.columns if c.name.lower() == name.lower())
        name = step.old_name(name) or name
    return None


def column_before(step: SchemaChange, name: str) -> Column | None:
    """A column of the table after a statement as it was before it."""
    return None if step.before is None else step.before.by_name.get(step.old_name(name) or name)


def emptied_at(steps: list[SchemaChange]) -> int:
    """The commit_ts of the last TRUNCATE or the like; -1: there was none."""
    return max((step.commit_ts for step in steps if step.emptied), default=-1)


def unsure_step(steps: list[SchemaChange], emptied: int) -> SchemaChange | None:
    """The last statement, since the table was emptied, after which it is not known which rows or columns are there."""
    return next((step for step in reversed(steps) if (step.unsure or step.unclear) and step.commit_ts > emptied), None)
