"""A micro-batch's changes, each table's to a place of its own: decoded once, then written a few tables at a time.

Only tables that have changes in the batch, or DDL that their places do not follow yet, are opened. Where one fails, the
others of the batch are written all the same. In a stream, one that can't go on (STOPPED) is set aside then
(spark_jobs.streaming.set_aside). Else the job ends: its next start writes the batch again, which changes nothing where
it was written.
"""

import sys
import threading
from collections.abc import Callable, Collection, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple
from zlib import crc32

from pyspark import inheritable_thread_target
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from ticdc_bridge.clients.http import WaitInterrupted
from ticdc_bridge.schemas.ddl.executor.versions import DdlText
from ticdc_bridge.schemas.model.errors import BridgeError, SetupError
from ticdc_bridge.schemas.model.reasons import counted
from ticdc_bridge.schemas.model.table import TableId
from ticdc_bridge.spark_jobs.io.locations import is_catalog_name, table_location_of
from ticdc_bridge.spark_jobs.lake.column_history import load_again, schema_changes
from ticdc_bridge.spark_jobs.lake.delta_protocol.transaction_log import UnsupportedTable
from ticdc_bridge.spark_jobs.lake.name_history import NEVER_ENDS, RenameChain
from ticdc_bridge.spark_jobs.lake.table_histories import TableHistories
from ticdc_bridge.spark_jobs.pipeline.result import OTHER_TABLE, Summary
from ticdc_bridge.spark_jobs.pipeline.table_choice import TableChoice, TableLayout, TableOutput, location_by_rule
from ticdc_bridge.spark_jobs.spark.errors import is_conflict
from ticdc_bridge.spark_jobs.spark.session import is_connect
from ticdc_bridge.spark_jobs.streaming.checkpoint import Checkpoint
from ticdc_bridge.spark_jobs.streaming.row_owners import IS_ESTIMATED, OWNED_AT, TABLE_ESTIMATED, RowOwners, is_of_names
from ticdc_bridge.spark_jobs.streaming.set_aside import SetAsideTables

_FILE = "tables.json"
"""Of the checkpoint: of each table, by its key, the places and a digest of the history that they follow."""
_TABLE = "_of_table"
_WAITED = 20
_BESIDE = ("changelog", "versions")
"""Places beside a table's location."""
_IN_KAFKA = "shiftleft(unix_millis(source.timestamp) + 1, 18)"
"""SQL: a TSO that is above the commit_ts of a change which has none."""


@dataclass
class TableTask:
    """The work of a batch for a table. changes: None: there are none, and its place follows its DDL alone.

    statements: its history. rows: read of it; newest: their largest commit_ts; out: keys or rows written. layout: of a
    table that is made, if it is not the job's. changelog, versions: the places of these, None for none. refused: why it
    has no place: then it is not written, as one that fails. key: what its state is kept by. waited: changes of
    earlier batches, of a table that was set aside. read_until: `newest`, or just after a change without one came to
    Kafka. needs: up to which commit_ts changes are gone; a load of a newer TSO makes up for them. seen: the
    TSO of its snapshot and its statements, where these are asked for.
    """

    chain: RenameChain
    location: str
    statements: Sequence[DdlText]
    changes: DataFrame | None = None
    rows: int = 0
    newest: int | None = None
    out: int = 0
    layout: TableLayout | None = None
    changelog: str | None = None
    versions: str | None = None
    refused: SetupError | None = None
    key: str = ""
    waited: DataFrame | None = None
    read_until: int = -1
    needs: int = -1
    seen: list[int] = field(default_factory=list)
    summary: Summary = field(default_factory=Summary)

    @property
    def id(self) -> TableId:
        return self.chain.name

    @property
    def locations(self) -> set[str]:
        return {location for location in (self.location, self.changelog, self.versions) if location is not None}

    @property
    def all_changes(self) -> DataFrame | None:
        """With those that waited."""
        if self.waited is None or self.changes is None:
            return self.changes if self.waited is None else self.waited
        return self.waited.unionByName(self.changes, allowMissingColumns=True)

    @property
    def digest(self) -> int:
        return crc32(repr(self.statements).encode("utf-8", "surrogatepass"))


class _Batch(NamedTuple):
    """A micro-batch as ManyTables.write has it."""

    number: int
    summary: Summary
    write_table: Callable[[TableTask], int]
    loaded_of: Callable[[TableTask], int]
    session: SparkSession
    when_written: Callable[[], object] | None


class ManyTables:
    """rules: the location, changelog and versions of each table that has none in `locations`. most: how many are
    written at a time. follows: a table that gets another name keeps its place, which follows its DDL; else each name is
    one. cut_off: set, no other table of the batch begins, and it ends with WaitInterrupted.
    """

    def __init__(
        self, choice: TableChoice, rules: Mapping[str, str | None], locations: Sequence[TableOutput], most: int,
        follows: bool, checkpoint: Checkpoint | None,
    ) -> None:  # fmt: skip
        self._choice, self._rules, self._outputs = choice, rules, locations
        self._most, self._follows = most, follows
        self._checkpoint, self.cut_off = checkpoint, threading.Event()
        earlier = checkpoint.table_choices(choice.patterns) if checkpoint else []
        self._earlier = [(TableChoice(tuple(patterns)), until) for patterns, until in earlier]
        self._set_aside = SetAsideTables(checkpoint) if checkpoint and follows else None
        if self._set_aside is not None and choice.only is not None and not self._set_aside.ids():
            self._set_aside = None  # a table alone ends the job
        self._states = checkpoint.read(_FILE, dict[str, dict[str, str | int]]()) if checkpoint else {}
        self._statements: tuple[DdlText, ...] | None = None
        self._are_followed = False  # also where a batch failed, and comes again in this process
        self._histories = TableHistories([])
        self.was_direct, self._waited = True, 0

    def tries_directly(self, statements: Sequence[DdlText]) -> bool:
        """Whether a batch is tried without Spark's MERGE first: not where tables may have to follow new statements, and
        seldom after one with a table that Spark had to merge.
        """
        self._waited = 0 if self.was_direct else (self._waited + 1) % _WAITED
        is_new = self._statements != tuple(statements) or not self._are_followed
        return not (is_new or self._waited or self.set_aside)

    def keep_read_until(self, newest_ts: int) -> None:
        """For a later run with other tables: changes up to this commit_ts were read, of all tables."""
        if self._checkpoint is not None:
            self._checkpoint.keep_read_until(newest_ts)

    def task_of_name(self, id_: TableId) -> TableTask | None:
        """The table of a name, None for one that is not taken. UnsupportedTable where a batch by Spark comes first."""
        chains = self._histories.tables_named(id_)
        names = [name for name in map(self._first_name, chains) if name is not None]
        if not names:
            return None
        is_kept = len(chains) == 1 and self._key(chains[0]) in self._states
        task = self._task_of(chains[0]) if is_kept else None
        if task is None or task.refused is not None:
            raise UnsupportedTable("its place is not known yet, or its name was another table's, too")
        return task

    @property
    def has_set_aside(self) -> bool:
        """True if changes of some table wait, whether it is chosen or not."""
        return self._set_aside is not None and bool(self._set_aside.ids())

    @property
    def set_aside(self) -> dict[str, tuple[int, str]]:
        """The chosen tables that can't go on, by name: how many changes wait, and why."""
        tables = self._set_aside
        chosen = {key: id_ for key, id_ in tables.ids().items() if self._choice.takes(id_)} if tables else {}
        return {str(id_): tables.reason(key) for key, id_ in chosen.items() if tables}

    def write(
        self, changes: DataFrame | None, number: int, statements: Sequence[DdlText], summary: Summary,
        write_table: Callable[[TableTask], int], loaded_of: Callable[[TableTask], int], session: SparkSession,
        when_written: Callable[[], object] | None = None,
    ) -> list[TableTask]:  # fmt: skip
        """Changes (spark_jobs.arrow.change_schema.CHANGES with maps, and `position`; None: there are none) to their
        tables; what was done, by table. number: of the micro-batch. statements: all that are known. write_table: gives
        the keys or rows written. loaded_of: the TSO of the snapshot that a table's places have; -1: one has none.
        when_written: is called before the checkpoint says which tables need not be written again.

        SetupError as it raises it, or for a table that can't have its place; after the other tables are written.
        """
        batch = _Batch(number, summary, write_table, loaded_of, session, when_written)
        if self._statements != tuple(statements):
            self._statements, self._are_followed = tuple(statements), False
            self._histories = TableHistories(statements if self._follows else ())
        if changes is None:
            return self._write_all(self._without_changes([]), batch)
        # Where a table's rows stand together, Spark leaves out most of what it cached of the others.
        marked = RowOwners(self._checkpoint, number).mark(changes, self._histories.shared)
        marked = marked.withColumn(_TABLE, F.lower(F.concat_ws("\n", "db", "table")))
        marked = marked.sortWithinPartitions(_TABLE, "position").persist()
        try:
            tasks = self._with_changes(marked, summary)
            return self._write_all(tasks + self._without_changes(tasks), batch)
        finally:
            marked.unpersist()

    # ---- which tables
    def _with_changes(self, changes: DataFrame, summary: Summary) -> list[TableTask]:
        """The tables of the changes; what is of none of them is counted."""
        largest = F.max(F.struct("commit_ts", "db", "table"))
        counts = F.count(F.lit(1)).alias("rows"), F.count_if(IS_ESTIMATED).alias("estimated")
        read_until = F.max(F.coalesce("commit_ts", F.expr(_IN_KAFKA), F.lit(NEVER_ENDS))).alias("read_until")
        groups = changes.groupBy("kind", _TABLE).agg(*counts, largest.alias("newest"), read_until).collect()
        tasks, names, others = dict[TableId, TableTask](), dict[TableId, list[str]](), 0
        for group in groups:
            if group["kind"] != "row":
                summary.skipped[group["kind"]] += group["rows"]
                continue
            others += group["rows"]
            newest, is_chosen = group["newest"], False
            for chain in self._histories.tables_named(TableId(newest["db"], newest["table"])):
                task = tasks.get(chain.name.folded) or self._task_of(chain)
                if task is not None:
                    is_chosen = True
                    tasks[chain.name.folded] = task
                    names.setdefault(chain.name.folded, []).append(group[_TABLE])
                    task.rows += group["rows"]
                    task.read_until = max(task.read_until, group["read_until"])
                    task.newest = max((ts for ts in (task.newest, newest["commit_ts"]) if ts is not None), default=None)
            if is_chosen and group["estimated"]:
                summary.flags[TABLE_ESTIMATED] += group["estimated"]
        for id_, task in tasks.items():
            task.changes = changes.where((F.col("kind") == "row") & F.col(_TABLE).isin(*names[id_]))
            if task.chain.past:  # at other times these were other tables' names
                task.changes = task.changes.where(is_of_names(task.chain.names()))
                task.rows = task.changes.count()
            task.changes = task.changes.drop(_TABLE, OWNED_AT, IS_ESTIMATED)
            others -= task.rows
        if others:
            summary.skipped[OTHER_TABLE] += others
        self.keep_read_until(max((group["read_until"] for group in groups if group["kind"] == "row"), default=-1))
        return [task for task in tasks.values() if task.rows]

    def _without_changes(self, others: Sequence[TableTask]) -> list[TableTask]:
        """Tables, but for the others, whose places do not follow their DDL yet, or that are set aside."""
        tasks = [] if self._are_followed else self._only_ddl({task.id.folded for task in others})
        keys = {task.key for task in (*others, *tasks)}
        for key, id_ in self._set_aside.ids().items() if self._set_aside else ():
            chains = (chain for chain in self._histories.tables_named(id_) if self._key(chain) == key)
            task = next(filter(None, map(self._task_of, chains)), None) if key not in keys else None
            tasks += [task] if task is not None and task.refused is None else []
        return tasks

    def _only_ddl(self, others: Collection[TableId]) -> list[TableTask]:
        """Tables, but for the others, whose places do not follow their DDL yet."""
        tables = (self._task_of(c) for c in self._histories.tables() if c.name.folded not in others)
        return [
            task
            for task in tables
            if task is not None
            and task.refused is None
            and len(task.statements) > 1
            and self._locations_of(task.chain).get("history") != task.digest
            and any(map(_may_exist, task.locations))
        ]

    def _task_of(self, chain: RenameChain) -> TableTask | None:
        """None for a table that is not chosen."""
        name = self._first_name(chain)
        if name is None:
            return None
        output = self._output_for(chain)
        layout = output.layout if output else None
        try:
            location = self._locations_of(chain)
        except SetupError as error:
            return TableTask(chain, "", (), refused=error)
        task = TableTask(chain, str(location["location"]), self._histories.statements_of(chain), layout=layout)
        task.key = self._key(chain)
        left_out = max((until for choice, until in self._earlier if not choice.takes(name)), default=-1)
        left_out = -1 if left_out < _created_ts(task, left_out) else left_out
        waited_out = self._set_aside.needs(task.key) if self._set_aside else -1
        task.needs = max(waited_out, left_out, int(location.get("needs", -1)))
        for kind in _BESIDE:
            if self._rule(kind, output) is not None:
                setattr(task, kind, str(location[kind]))
        return task

    def _rule(self, kind: str, output: TableOutput | None) -> str | None:
        return (getattr(output, kind) if output else None) or self._rules[kind]

    def _output_for(self, chain: RenameChain) -> TableOutput | None:
        """By the name that the table's places have; else by its newest."""
        names = (self._first_name(chain), chain.name)
        found = (task for name in names if name for task in self._outputs if task.tables.takes(name))
        return next(found, None)

    def _first_name(self, chain: RenameChain) -> TableId | None:
        """The first of a table's names that is chosen: its place has that, whatever the table is called later."""
        return next((id_ for _, id_ in chain.names() if id_ is not None and self._choice.takes(id_)), None)

    def _key(self, chain: RenameChain) -> str:
        """What a table's state is kept by; "": it is not chosen. Of a name that another table had before, with the
        commit_ts of when it got it.
        """
        if (name := self._first_name(chain)) is None:
            return ""
        until, names = zip(*chain.names(), strict=True)
        since, owners = (-1, *until)[names.index(name)], self._histories.shared.get(name.folded)
        return f"{name.folded}@{since}" if owners and since > owners[0].after else str(name.folded)

    def _locations_of(self, chain: RenameChain) -> dict[str, str | int]:
        """Where a table is, which a checkpoint keeps: its name may come in other letters later. It goes on in the place
        that [[table]] gives it now; what went to the one before has to be in a snapshot there (`needs`).
        """
        name, key = self._first_name(chain), self._key(chain)
        assert name is not None
        output, location = self._output_for(chain), self._states.get(key, {})
        for kind in ("location", *_BESIDE):
            is_given = self._follows and output is not None and getattr(output, kind) is not None
            if (is_given or kind not in location) and (rule := self._rule(kind, output)) is not None:
                then, now = str(location.get(kind, "")), location_by_rule(rule, name)
                location[kind] = now = then if then.casefold() == now.casefold() else now
                if then not in ("", now) and kind != "changelog" and "history" in location and self._checkpoint:
                    location["needs"] = self._checkpoint.read_until
                    self._checkpoint.keep(_FILE, self._states)
        return self._states.setdefault(key, location)

    # ---- writing them
    def _write_all(self, every: list[TableTask], batch: _Batch) -> list[TableTask]:
        summary = batch.summary
        tasks = [task for task in every if task.refused or not self._is_waiting(task, batch)]
        errors: dict[TableId, Exception] = {task.id: task.refused for task in tasks if task.refused}
        by_location = dict[str, TableTask]()
        for task, location in [
            (each, location) for each in tasks if each.refused is None for location in each.locations
        ]:
            other = by_location.setdefault(location, task)
            if other is not task:
                details = (
                    f"{other.id} would go to {location} too: --out gives both that place, or one was renamed and"
                    f" keeps it. Leave one of them out (--tables '…,!{task.id}'), and write it by a job of its own"
                )
                others = [each for each in (task, other) if "history" not in self._locations_of(each.chain)]
                for each in others or (task, other):  # one that was written there before goes on
                    errors[each.id] = SetupError("STOPPED", where=str(each.id), details=details)

        held, able = summary.held, [task for task in tasks if task.id not in errors]
        errors |= _run_together(batch.write_table, able, self._most, batch.session, self.cut_off)
        if self.cut_off.is_set():
            raise WaitInterrupted("stopped while the tables of a batch were written")
        if batch.when_written is not None:
            batch.when_written()
        done = [task for task in tasks if task.id not in errors]
        for task in done:
            self._locations_of(task.chain)["history"] = task.digest
            summary.merge(task.summary)
            summary.out += task.out
            if self._set_aside is not None and task.key in self._set_aside:
                task.rows += (waited := self._set_aside.release(task.key))
                print(f"table {task.id} goes on, with {counted(waited, 'change')} that waited", file=sys.stderr)
        summary.held = held
        if self._checkpoint is not None:
            self._checkpoint.keep(_FILE, self._states)
        can_go_on = all(isinstance(e, SetupError) and e.code == "STOPPED" for e in errors.values())
        if errors and (self._set_aside is None or not can_go_on):
            _raise_first(errors, len(tasks))
        for task in tasks:
            if task.id in errors:
                self._put_aside(task, errors[task.id], batch)
        summary.set_aside = self.set_aside
        self._are_followed = True
        return done

    # ---- tables that are set aside
    def _is_waiting(self, task: TableTask, batch: _Batch) -> bool:
        """True for a table that is set aside, and is not to be tried yet: the changes are kept. Of one that is to be
        tried, those that waited are found; it is refused as long as it lacks changes.
        """
        tables, is_aside = self._set_aside, self._set_aside is not None and task.key in self._set_aside
        if task.needs < 0 and not is_aside:
            return False
        task.seen = [batch.loaded_of(task), task.digest]
        if tables is not None and is_aside:
            if not tables.is_due(task.key, batch.number, task.seen):
                self._keep(tables, task, batch)
                return True
            task.waited = tables.waiting(task.key, batch.number, batch.session)
        if task.seen[0] < task.needs:
            details = "an earlier run of this --checkpoint had another place, took other --tables, or changes of it"
            details += f" have waited too long: a snapshot of commit_ts {task.needs} or later has what is gone."
            details += f" {load_again(task.id)}"
            if task.needs == NEVER_ENDS:
                details = "an earlier run of this --checkpoint took other --tables, and read its changes without it"
                details += ": merge it from the beginning with another --checkpoint, and leave it out here"
            task.refused = SetupError("STOPPED", where=str(task.id), details=details)
        return False

    def _put_aside(self, task: TableTask, error: Exception, batch: _Batch) -> None:
        """The others go on without a table."""
        assert self._set_aside is not None
        assert isinstance(error, SetupError)
        self._keep(self._set_aside, task, batch)
        if self._set_aside.record_try(task.key, batch.number, task.seen, error.detail):
            text = "is set aside: its changes wait beside the checkpoint, and the other tables go on"
            print(f"error table {task.id}: {error.detail}\ntable {task.id} {text}", file=sys.stderr)

    def _keep(self, tables: SetAsideTables, task: TableTask, batch: _Batch) -> None:
        id_ = self._first_name(task.chain) or task.id
        gone = tables.keep(task.key, id_, batch.number, task.changes, task.rows, task.read_until)
        if gone:
            batch.summary.skipped["waited too long"] += gone
            text = f"{counted(gone, 'change')} waited too long, and will not be merged"
            print(f"table {task.id}: {text}", file=sys.stderr)


def _created_ts(task: TableTask, after: int) -> int:
    """When a table was created, if its statements begin with that and it was after a commit_ts; else -1."""
    if after >= 0 and task.statements and task.statements[-1].commit_ts > after:
        with suppress(SetupError):  # is told where it is followed
            first = next(iter(schema_changes(task.statements, task.id)), None)
            return first.commit_ts if first is not None and first.emptied else -1
    return -1


def _may_exist(location: str) -> bool:
    """True if a table can be at a place; looked up where that costs nothing."""
    table = table_location_of(location)
    if table is None or table.format != "delta" or "://" in table.name or is_catalog_name(table.name):
        return True
    return Path(table.name, "_delta_log").exists()


def _run_together(
    write_table: Callable[[TableTask], int], tasks: Sequence[TableTask], most: int, session: SparkSession,
    cut_off: threading.Event,
) -> dict[TableId, Exception]:  # fmt: skip
    """Writes each table, `most` at a time, until it is cut off; what failed, by table."""
    errors = dict[TableId, Exception]()

    def run_batch(task: TableTask) -> None:
        if cut_off.is_set():
            return
        try:
            if len(tasks) > 1 and not is_connect(session):  # a table's jobs share the cores with the others'
                session.sparkContext.setLocalProperty("spark.scheduler.pool", f"table {task.id}")
            task.out = write_table(task)
        except Exception as error:
            errors[task.id] = error

    if len(tasks) == 1:
        run_batch(tasks[0])
        return errors
    if tasks:
        inherit = inheritable_thread_target(session)
        with ThreadPoolExecutor(min(most, len(tasks)), "table") as pool:
            try:
                wait([pool.submit(inherit(run_batch), task) for task in tasks])
            except BaseException:  # Ctrl-C: those that are being written end
                cut_off.set()
                raise
    return errors


def _raise_first(errors: dict[TableId, Exception], count: int) -> None:
    """One of ours first: it comes again at each try."""
    if lost := ", ".join(str(id_) for id_, error in errors.items() if is_conflict(error)):
        print(f"another job wrote at the same time: {lost}", file=sys.stderr)
    known = [(id_, error) for id_, error in errors.items() if isinstance(error, BridgeError)]
    for id_, error in known:
        print(f"error table {id_}: {error.detail}", file=sys.stderr)
    if count > len(errors):
        text = f"{count - len(errors)} of {count} tables of the batch are written; they are not written twice"
        print(f"{text}, {len(errors)} failed", file=sys.stderr)
    raise known[0][1] if known else next(iter(errors.values()))
