"""A micro-batch's changes, each table's to a place of its own: decoded once, then written a few tables at a time.

Only tables that have changes in the batch, or DDL that their places do not follow yet, are opened. Where one fails, the
others of the batch are written all the same, and the job ends: its next start writes the batch again, which changes
nothing where it was written.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Collection, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from dataclasses import dataclass, field
from pathlib import Path
from zlib import crc32

from pyspark import inheritable_thread_target
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from ticdc_bridge.clients.http import WaitInterrupted
from ticdc_bridge.schemas.ddl.executor.versions import DdlText
from ticdc_bridge.schemas.model.errors import BridgeError, SetupError
from ticdc_bridge.schemas.model.table import TableId
from ticdc_bridge.spark_jobs.io.locations import table_location_of
from ticdc_bridge.spark_jobs.lake.name_history import RenameChain
from ticdc_bridge.spark_jobs.lake.table_histories import TableHistories
from ticdc_bridge.spark_jobs.pipeline.result import OTHER_TABLE, Summary
from ticdc_bridge.spark_jobs.pipeline.table_choice import TableChoice, TableLayout, TablePlace, location_by_rule
from ticdc_bridge.spark_jobs.spark.session import is_connect
from ticdc_bridge.spark_jobs.streaming.checkpoint import Checkpoint
from ticdc_bridge.spark_jobs.streaming.row_owners import IS_ESTIMATED, OWNED_AT, TABLE_ESTIMATED, RowOwners, is_of_names

_TABLE = "_of_table"
_MORE = ("changelog", "versions")
"""Places beside a table's location."""


@dataclass
class TableWork:
    """What a batch does for a table. changes: None: there are none, and its place follows its DDL alone.

    statements: its history. rows: read of it; newest: their largest commit_ts; out: keys or rows written. layout: of a
    table that is made, if it is not the job's. changelog, versions: the places of these, None for none. refused: why it
    has no place: then it is not written, as one that fails.
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
    summary: Summary = field(default_factory=Summary)

    @property
    def id(self) -> TableId:
        return self.chain.name

    @property
    def places(self) -> set[str]:
        return {place for place in (self.location, self.changelog, self.versions) if place is not None}

    @property
    def digest(self) -> int:
        return crc32(repr(self.statements).encode("utf-8", "surrogatepass"))


class ManyTables:
    """rules: the location, changelog and versions of each table that has none in `places`. most: how many are written
    at a time. follows: a table that gets another name keeps its place, which follows its DDL; else each name is one.
    cut_off: set, no other table of the batch begins, and it ends with WaitInterrupted.
    """

    def __init__(
        self, choice: TableChoice, rules: Mapping[str, str | None], places: Sequence[TablePlace], most: int,
        follows: bool, checkpoint: Checkpoint | None,
    ) -> None:  # fmt: skip
        self._choice, self._rules, self._own_places = choice, rules, places
        self._most, self._follows = most, follows
        self._checkpoint, self.cut_off = checkpoint, threading.Event()
        earlier = checkpoint.table_choices(choice.patterns) if checkpoint else []
        self._earlier = [TableChoice(tuple(patterns)) for patterns in earlier]
        self._places = checkpoint.table_places() if checkpoint else {}
        self._statements: tuple[DdlText, ...] | None = None
        self._histories = TableHistories([])

    def write(
        self, changes: DataFrame | None, number: int, statements: Sequence[DdlText], summary: Summary,
        write_table: Callable[[TableWork], int], session: SparkSession,
    ) -> list[TableWork]:  # fmt: skip
        """Changes (spark_jobs.arrow.change_schema.CHANGES with maps, and `position`; None: there are none) to their
        tables; what was done, by table. number: of the micro-batch. statements: all that are known. write_table: gives
        the keys or rows written.

        SetupError as it raises it, or for a table that can't have its place; after the other tables are written.
        """
        is_new = self._statements != tuple(statements)
        if is_new:
            self._statements = tuple(statements)
            self._histories = TableHistories(statements if self._follows else ())
        if changes is None:
            return self._write_all(self._only_ddl(()) if is_new else [], summary, write_table, session)
        # Where a table's rows stand together, Spark leaves out most of what it cached of the others.
        marked = RowOwners(self._checkpoint, number).mark(changes, self._histories.shared)
        marked = marked.withColumn(_TABLE, F.lower(F.concat_ws(".", "db", "table")))
        marked = marked.sortWithinPartitions(_TABLE, "position").persist()
        try:
            work = self._with_changes(marked, summary)
            if is_new:
                work += self._only_ddl({one.id.folded for one in work})
            return self._write_all(work, summary, write_table, session)
        finally:
            marked.unpersist()

    # ---- which tables
    def _with_changes(self, changes: DataFrame, summary: Summary) -> list[TableWork]:
        """The tables of the changes; what is of none of them is counted."""
        largest = F.max(F.struct("commit_ts", "db", "table"))
        counts = F.count(F.lit(1)).alias("rows"), F.count_if(IS_ESTIMATED).alias("estimated")
        groups = changes.groupBy("kind", _TABLE).agg(*counts, largest.alias("newest")).collect()
        work, names, others = dict[TableId, TableWork](), dict[TableId, list[str]](), 0
        for group in groups:
            if group["kind"] != "row":
                summary.skipped[group["kind"]] += group["rows"]
                continue
            others += group["rows"]
            newest, is_ours = group["newest"], False
            for chain in self._histories.tables_named(TableId(newest["db"], newest["table"])):
                one = work.get(chain.name.folded) or self._work_of(chain)
                if one is not None:
                    is_ours = True
                    work[chain.name.folded] = one
                    names.setdefault(chain.name.folded, []).append(group[_TABLE])
                    one.rows += group["rows"]
                    one.newest = max((ts for ts in (one.newest, newest["commit_ts"]) if ts is not None), default=None)
            if is_ours and group["estimated"]:
                summary.flags[TABLE_ESTIMATED] += group["estimated"]
        for id_, one in work.items():
            one.changes = changes.where((F.col("kind") == "row") & F.col(_TABLE).isin(*names[id_]))
            if one.chain.past:  # at other times these were other tables' names
                one.changes = one.changes.where(is_of_names(one.chain.names()))
                one.rows = one.changes.count()
            one.changes = one.changes.drop(_TABLE, OWNED_AT, IS_ESTIMATED)
            others -= one.rows
        if others:
            summary.skipped[OTHER_TABLE] += others
        return [one for one in work.values() if one.rows]

    def _only_ddl(self, others: Collection[TableId]) -> list[TableWork]:
        """Tables, but for the others, whose places do not follow their DDL yet."""
        tables = (self._work_of(c) for c in self._histories.tables() if c.name.folded not in others)
        return [
            one
            for one in tables
            if one is not None
            and one.refused is None
            and len(one.statements) > 1
            and self._place(one.chain).get("history") != one.digest
            and any(map(_may_be_there, one.places))
        ]

    def _work_of(self, chain: RenameChain) -> TableWork | None:
        """None for a table that is not chosen."""
        if self._first_name(chain) is None:
            return None
        own = self._own_place(chain)
        layout = own.layout if own else None
        try:
            place = self._place(chain)
        except SetupError as error:
            return TableWork(chain, "", (), refused=error)
        work = TableWork(chain, str(place["location"]), self._histories.statements_of(chain), layout=layout)
        for kind in _MORE:
            if self._rule(kind, own) is not None:
                setattr(work, kind, str(place[kind]))
        return work

    def _rule(self, kind: str, own: TablePlace | None) -> str | None:
        return (getattr(own, kind) if own else None) or self._rules[kind]

    def _own_place(self, chain: RenameChain) -> TablePlace | None:
        """By the name that the table's places have; else by its newest."""
        names = (self._first_name(chain), chain.name)
        own = (one for name in names if name for one in self._own_places if one.tables.takes(name))
        return next(own, None)

    def _first_name(self, chain: RenameChain) -> TableId | None:
        """The first of a table's names that is chosen: its place has that, whatever the table is called later."""
        return next((id_ for _, id_ in chain.names() if id_ is not None and self._choice.takes(id_)), None)

    def _place(self, chain: RenameChain) -> dict[str, str | int]:
        """Where a table is, which a checkpoint keeps: its name may come in other letters later."""
        name = self._first_name(chain)
        assert name is not None
        self._check_whole(name)
        own, place = self._own_place(chain), self._places.get(str(name.folded), {})
        for kind in ("location", *_MORE):
            if kind not in place and (rule := self._rule(kind, own)) is not None:
                place[kind] = location_by_rule(rule, name)
        return self._places.setdefault(str(name.folded), place)

    def _check_whole(self, name: TableId) -> None:
        """SetupError STOPPED for a table whose earlier changes the stream read when it was not chosen."""
        for choice in self._earlier:
            if not choice.takes(name):
                details = (
                    f"an earlier run of this --checkpoint took --tables {choice}, and read its changes"
                    " without it: merge it from the beginning with another --checkpoint, and leave it out here"
                )
                raise SetupError("STOPPED", where=str(name), details=details)

    # ---- writing them
    def _write_all(
        self, work: list[TableWork], summary: Summary, write_table: Callable[[TableWork], int],
        session: SparkSession,
    ) -> list[TableWork]:  # fmt: skip
        errors: dict[TableId, Exception] = {one.id: one.refused for one in work if one.refused}
        by_place = dict[str, TableWork]()
        for one, place in [(each, place) for each in work if each.refused is None for place in each.places]:
            other = by_place.setdefault(place, one)
            if other is not one:
                details = (
                    f"{other.id} would go to {place} too: --out gives both that place, or one was renamed and"
                    f" keeps it. Leave one of them out (--tables '…,!{one.id}'), and write it by a job of its own"
                )
                errors[one.id] = errors[other.id] = SetupError("STOPPED", where=str(one.id), details=details)

        def write_one(one: TableWork) -> None:
            one.out = write_table(one)

        held, able = summary.held, [one for one in work if one.id not in errors]
        errors |= _run_together(write_one, able, self._most, session, self.cut_off)
        if self.cut_off.is_set():
            raise WaitInterrupted("stopped while the tables of a batch were written")
        for one in work:
            if one.id not in errors:
                self._place(one.chain)["history"] = one.digest
                summary.merge(one.summary)
                summary.out += one.out
        summary.held = held
        if self._checkpoint is not None:
            self._checkpoint.keep_table_places(self._places)
        if errors:
            _raise_first(errors, len(work))
        return work


def _may_be_there(location: str) -> bool:
    """Whether a table can be at a place; looked up where that costs nothing."""
    table = table_location_of(location)
    is_folder = table is not None and table.format == "delta" and "://" not in table.name
    return table is None or not is_folder or Path(table.name, "_delta_log").exists()


def _run_together(
    run: Callable[[TableWork], None], work: Sequence[TableWork], most: int, session: SparkSession,
    cut_off: threading.Event,
) -> dict[TableId, Exception]:  # fmt: skip
    """Runs for each table, `most` at a time, until it is cut off; what failed, by table."""
    errors = dict[TableId, Exception]()

    def run_one(one: TableWork) -> None:
        if cut_off.is_set():
            return
        try:
            if len(work) > 1 and not is_connect(session):  # a table's jobs share the cores with the others'
                session.sparkContext.setLocalProperty("spark.scheduler.pool", f"table {one.id}")
            run(one)
        except Exception as error:
            errors[one.id] = error

    if len(work) == 1:
        run_one(work[0])
        return errors
    if work:
        inherit = inheritable_thread_target(session)
        with ThreadPoolExecutor(min(most, len(work)), "table") as pool:
            try:
                wait([pool.submit(inherit(run_one), one) for one in work])
            except BaseException:  # Ctrl-C: those that are being written end
                cut_off.set()
                raise
    return errors


def _raise_first(errors: dict[TableId, Exception], count: int) -> None:
    """One of ours first: it comes again at each try."""
    ours = [(id_, error) for id_, error in errors.items() if isinstance(error, BridgeError)]
    for id_, error in ours:
        print(f"error table {id_}: {error.detail}", file=sys.stderr)
    if count > len(errors):
        text = f"{count - len(errors)} of {count} tables of the batch are written; they are not written twice"
        print(f"{text}, {len(errors)} failed", file=sys.stderr)
    raise ours[0][1] if ours else next(iter(errors.values()))
