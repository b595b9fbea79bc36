"""`reconcile`: whether tables of the lake are TiDB's at one TSO, which rows are not, and these rows mended."""

import gc
import json
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, suppress
from dataclasses import dataclass, replace
from itertools import chain, repeat
from typing import Any, Final, NamedTuple

from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql import functions as F

from ticdc_bridge.schemas.inputs.live_tables import is_server
from ticdc_bridge.schemas.model.errors import SetupError
from ticdc_bridge.schemas.model.event import tso_physical_ms
from ticdc_bridge.schemas.model.names import quote_name
from ticdc_bridge.schemas.model.spark_types import SparkTypes
from ticdc_bridge.schemas.model.table import Column
from ticdc_bridge.schemas.model.types import BYTES
from ticdc_bridge.spark_jobs.io.locations import check_folders, check_is_lines
from ticdc_bridge.spark_jobs.io.message_files import LineWriter
from ticdc_bridge.spark_jobs.io.object_paths import path_of
from ticdc_bridge.spark_jobs.lake.column_history import load_again
from ticdc_bridge.spark_jobs.lake.column_masks import follow_renames
from ticdc_bridge.spark_jobs.lake.commit_summary import COMMIT_TS, RESOLVED_TS, with_commit_facts
from ticdc_bridge.spark_jobs.lake.engines.base import AUTO, ENGINES, LakeTable
from ticdc_bridge.spark_jobs.lake.engines.spark_sql import set_for_now
from ticdc_bridge.spark_jobs.lake.load import Snapshot, Target
from ticdc_bridge.spark_jobs.lake.merge import CurrentTable
from ticdc_bridge.spark_jobs.lake.table_columns import APPLIED, LOADED, NAME, ORDER, TYPES
from ticdc_bridge.spark_jobs.lake.tables import engine_of
from ticdc_bridge.spark_jobs.pipeline.arguments import check_choices, with_parameter_names
from ticdc_bridge.spark_jobs.pipeline.job import Job
from ticdc_bridge.spark_jobs.pipeline.private_columns import PrivateColumns
from ticdc_bridge.spark_jobs.pipeline.progress import print_counts, print_lines, report_slow_steps
from ticdc_bridge.spark_jobs.pipeline.result import Summary
from ticdc_bridge.spark_jobs.pipeline.table_choice import TableChoice
from ticdc_bridge.spark_jobs.pipeline.table_view import OnLossy
from ticdc_bridge.spark_jobs.runtime.spark_settings import SparkSettings
from ticdc_bridge.spark_jobs.snapshots.checksums import NEWER as NEWER_ROWS
from ticdc_bridge.spark_jobs.snapshots.checksums import Groups
from ticdc_bridge.spark_jobs.snapshots.differences import DIFFERENT, EXTRA, MISSING, NEWER, LakeRows
from ticdc_bridge.spark_jobs.snapshots.dump_dialect import dump_options as options_of
from ticdc_bridge.spark_jobs.snapshots.frames import PREFIX, DumpTable
from ticdc_bridge.spark_jobs.snapshots.load_job import check_losses, errors_of_source, locations_of, snapshot_config
from ticdc_bridge.spark_jobs.snapshots.repair import repair_rows
from ticdc_bridge.spark_jobs.snapshots.row_types import RowTypes
from ticdc_bridge.spark_jobs.snapshots.source import CHUNK_ROWS, read_source
from ticdc_bridge.spark_jobs.snapshots.stage import SnapshotTable, read_rows
from ticdc_bridge.spark_jobs.snapshots.tidb_reader import TidbServer, TidbTable, literal
from ticdc_bridge.spark_jobs.streaming.lineage import edge
from ticdc_bridge.spark_jobs.streaming.merge_batch import targets_of
from ticdc_bridge.spark_jobs.streaming.metrics import JobMetrics
from ticdc_bridge.spark_jobs.streaming.sinks import session_of

_MOST: Final = 10_000
"""Keys that are asked for again by their values, and mended; of more, all rows are compared again."""
_KEYS: Final = 500
"""Keys of one statement."""
_COMMITS: Final = 20
"""The newest of a lake table, among which the last watermark is looked for."""
_RECENT: Final = 300_000 << 18
"""A TSO's distance, 5 minutes: GC takes no rows of a time so near, unless it is set to."""
PAUSES: Final = (2.0, 4.0, 8.0, 15.0, 30.0)
"""Seconds before a difference is asked again; the last one is the longest."""


class Checked(NamedTuple):
    """rows: TiDB's at the TSO; equal: those that the lake has so; newer: the lake's rows and deletes after it."""

    rows: int = 0
    equal: int = 0
    different: int = 0
    missing: int = 0
    extra: int = 0
    newer: int = 0

    @property
    def judged(self) -> int:
        """How many differences there are."""
        return self.different + self.missing + self.extra


@dataclass(frozen=True)
class ReconcileJob:
    """What a reconcile is given.

    Args:
        job: places and engine, as of load. lake: the rule of the current tables.
        source, tables, at, dump_options, source_zone: as of load. chunk_rows: of a statement in TiDB.
        wait: seconds until a difference is one.
        out: a file for the lines, - or "" (nowhere).
        mends: rows that differ are loaded.
        sample: ranges of a table that are compared; 0: all.
    """

    job: Job
    lake: str
    source: str
    tables: TableChoice
    source_zone: str
    wait: float = 60.0
    out: str = ""
    mends: bool = False
    at: int | None = None
    dump_options: str | None = None
    chunk_rows: int = CHUNK_ROWS
    sample: int = 0
    as_json: bool = False

    def __post_init__(self) -> None:
        """SetupError USAGE for what does not go together."""
        if (self.sample or self.job.private.rules) and (self.mends or self.source.startswith(PREFIX)):
            what = "--sample" if self.sample else "with private columns"
            raise SetupError("USAGE", details=f"reconcile {what} goes with --tidb, and without --repair")
        check_is_lines("--out", self.out, "reconcile", or_stdout=True)
        check_folders({"--out": self.out})

    @property
    def zone(self) -> str:
        """The zone of TIMESTAMP text in the lake."""
        return self.job.read.options.time_zone or "UTC"


def lake_targets(spark: SparkSession, job: Job, out: str, source: SnapshotTable) -> list[Target]:
    """The job's tables of a table, the current one first, with the types that it was made with.

    SetupError USAGE where there is none, STOPPED where its rows can't be told apart, or have no commit_ts.
    """
    table, read = source.table, job.read
    location, changelog, versions, layout = locations_of(job, out, table.id)
    assert read.view is not None
    details = "" if table.handle_key else "it has no primary or NOT NULL unique key: its rows can't be distinguished"
    lake_table = engine_of(spark, job.merge or AUTO, location.format)(spark, location.name)
    if not lake_table.exists():
        raise SetupError("USAGE", details=f"{lake_table.location}: there is no table")
    properties = lake_table.properties()
    if properties.get(ORDER) == "offset":
        details = f"the rows of {lake_table.location} have no commit_ts (--order offset), so newer ones can't be told"
    if details:
        raise SetupError("STOPPED", where=str(table.id), details=details)
    view = replace(read.view, types=SparkTypes("typed" if properties.get(TYPES) == "typed" else "exact"))
    job = replace(job, read=replace(read, view=view), changelog=changelog, versions=versions, layout=layout)
    targets = targets_of(spark, job, table.id, location, [], True)
    targets[0].columns.refuse_other_masks(table, properties)  # differences show values
    return [*targets]


class ReconciledTable:
    """A table at one TSO after the other. tso: of all rows that were compared last."""

    def __init__(self, job: ReconcileJob, source: SnapshotTable, spark: SparkSession, tso: int) -> None:
        """SetupError as of `lake_targets`."""
        self._job, self._source, self._spark, self.tso, self._now = job, source, spark, tso, tso
        self._targets = lake_targets(spark, job.job, job.lake, source)
        assert isinstance(self._targets[0], CurrentTable)
        zero_dates = source.zero_dates if isinstance(source, DumpTable) else ()
        self.lake = LakeRows(self._targets[0], source.table, source.columns, zero_dates)
        self._ranges: list[tuple[str, str]] | None = None
        lake_table, id_ = self.lake.target.columns.lake_table, str(source.table.id)
        properties, details = lake_table.properties(), ""
        applied, loaded = (int(properties.get(name, -1)) for name in (APPLIED, LOADED))
        if (owner := properties.get(NAME, id_)).lower() != id_.lower():
            details = f"has the rows of {owner}. If that was renamed, run merge first; else compare another place"
        if tso < applied:
            details = f"follows statements up to commit_ts {applied}, from after TSO {tso}: take a newer one"
        if details and job.mends:
            raise self.lake.target.columns.stopped(f"--repair: {lake_table.location} {details}")
        if details:
            print(f"warning: {lake_table.location} {details}", file=sys.stderr)
        if isinstance(source, TidbTable) and job.at is None and not job.mends:
            self._go_back(source, lake_table, max(applied, loaded))

    def _go_back(self, source: TidbTable, lake_table: LakeTable, since: int) -> None:
        """To the newest watermark of merge, if it is recent and not before `since`: no change is late then."""
        marks = (int(commit.facts.get(RESOLVED_TS, -1)) for commit in lake_table.commits(_COMMITS))
        then = max(marks, default=-1)
        if since <= then and self.tso - then < _RECENT:
            with suppress(SetupError):  # TiDB has removed the rows of that time
                self._move_to(source, replace(source.server, tso=then))

    def find(self) -> tuple[Checked, Iterable[Row]]:
        """What is found and stays until --wait has passed, and these rows of LakeRows.differences."""
        checked, found = self._compare()
        if checked.judged > _MOST and self._job.wait:
            time.sleep(self._job.wait)
            checked, found = self._compare()  # at the same TSO: behind the newest one, as many rows are late
        are_many = checked.judged > _MOST
        if are_many and self._job.mends:
            details = f"more than {_MOST:,} rows differ. {load_again(self._source.table.id)}"
            raise self.lake.target.columns.stopped(details)
        if are_many or not (checked.judged and (self._job.wait or self._job.mends)):
            return checked, found
        before = [*found]
        rows, newer = self._ask_again(before)
        kinds = Counter(row["kind"] for row in rows)
        equal = checked.equal + sum(row["tidb"] is not None for row in before)
        equal -= newer + kinds[DIFFERENT] + kinds[MISSING]
        checked = Checked(checked.rows, equal, kinds[DIFFERENT], kinds[MISSING], kinds[EXTRA], checked.newer + newer)
        return checked, rows

    def repair(self, rows: Sequence[Row]) -> int:
        """Loads the rows of some differences as they are now; how many."""
        self._go_on()
        snapshot, here = self._rows_of(rows), self.lake.with_keys(self.lake.read(), self._keys(rows))
        # TiDB finds keys by their collation: other rows than those that were asked for, too.
        asked = {_id(row) for row in rows}
        left = [row for row in self.lake.differences(here, snapshot).collect() if _id(row) in asked]
        with with_commit_facts(self._spark, {COMMIT_TS: str(snapshot.tso)}):
            count = repair_rows(self._targets, self.lake, snapshot, left, self._source.definition)
        self._go_on()
        return count

    def _go_on(self) -> None:
        """At the newest TSO from now on; a dump has its own. SetupError STOPPED where the table is another one then."""
        source = self._source
        if isinstance(source, TidbTable) and not self._move_to(source, source.server.newest()):
            raise self.lake.target.columns.stopped("its definition was changed meanwhile: reconcile again")

    def _move_to(self, source: TidbTable, server: TidbServer) -> bool:
        """The table at the server's TSO from now on; False where it is another one then."""
        (table,) = _public([*server.tables([source.table.id], source.chunk_rows)], self._job.job.private)
        assert isinstance(table, TidbTable)
        if table.table == source.table:
            self._source, self._now = table, server.tso
        return table.table == source.table

    # ---- all rows
    def _compare(self) -> tuple[Checked, Iterable[Row]]:
        rows, source, self.tso = self.lake.read(), self._source, self._now
        is_newer = f"_ts > {self.tso}"
        if isinstance(source, DumpTable):
            snapshot = self._read(source.read, source.files)
            count, newer = snapshot.rows.count(), rows.where(is_newer).count()
            return self._found(count, newer, self.lake.differences(rows, snapshot))
        assert isinstance(source, TidbTable)
        groups = Groups(source, self.lake.types(), self._sample(source, rows))
        if groups.sample:
            name = f"l_{self.lake.columns.index(groups.first)}"
            rows = rows.where(" OR ".join(f"{name} BETWEEN {first} AND {last}" for first, last in groups.sample))
        _ = groups.ranges  # are asked for here, and not by both threads
        with ThreadPoolExecutor(1) as pool:
            asked = pool.submit(groups.of_tidb)
            in_lake = groups.of_lake(rows, is_newer)
            in_tidb = asked.result()
        count, newer = sum(values[0] for values in in_tidb.values()), in_lake.get(NEWER_ROWS, (0,))[0]
        differing = groups.to_read({g for g in {*in_lake, *in_tidb} if in_lake.get(g) != in_tidb.get(g)})
        queries = groups.queries(differing)
        if not queries:
            return Checked(count, count, newer=newer), []
        snapshot = self._read(source.read, queries)
        is_differing = F.expr(groups.group_sql(is_newer)).isin(sorted({*differing, NEWER_ROWS}))
        rows = groups.with_numbers(rows).where(is_differing).select(*rows.columns)
        return self._found(count, newer, self.lake.differences(rows, snapshot))

    def _found(self, count: int, newer: int, differences: DataFrame) -> tuple[Checked, Iterable[Row]]:
        """count: TiDB's rows. newer: the lake's that are newer."""
        differences = differences.localCheckpoint()  # TiDB is not asked twice
        counted = differences.groupBy("kind", F.col("lake").isNull()).count().collect()
        kinds = {(row[0], row[1]): row[2] for row in counted}
        deleted = kinds.get((NEWER, True), 0)
        different, missing = kinds.get((DIFFERENT, False), 0), kinds.get((MISSING, True), 0)
        equal = count - different - missing - deleted - kinds.get((NEWER, False), 0)
        checked = Checked(count, equal, different, missing, kinds.get((EXTRA, False), 0), newer + deleted)
        return checked, differences.where(F.col("kind") != NEWER).toLocalIterator()

    def _read(self, read: Callable[[str], Iterator[list[Any]]], chunks: Sequence[str]) -> Snapshot:
        """Rows of the source, as read_rows has them."""
        is_dump, zone = isinstance(self._source, DumpTable), self._job.zone
        zones = self._job.source_zone if is_dump else zone, zone
        types = RowTypes(self._source.columns, SparkTypes(), zones, self._job.job.is_lossy)
        rows = read_rows(self._spark, types, read, chunks)
        return Snapshot(self._now, self._source.table, rows, self._source.columns)

    def _sample(self, source: TidbTable, rows: DataFrame) -> list[tuple[str, str]]:
        """Ranges that begin with keys of the lake at random. One that begins in another is left out."""
        if not self._job.sample or self._ranges is not None:
            return self._ranges or []
        column = Groups(source, {}).first
        if column is None:
            details = "--sample: its key begins with no integer, and has no ranges. Leave --sample out"
            raise self.lake.target.columns.stopped(details)
        name, ranges = f"l_{self.lake.columns.index(column)}", list[tuple[int, int]]()
        picked = rows.select(name).where(f"{name} IS NOT NULL").orderBy(F.rand()).limit(self._job.sample).collect()
        for first in sorted(int(row[0]) for row in picked):
            if not ranges or first > ranges[-1][1]:
                ranges.append((first, source.end_of_chunk(column, first)))
        self._ranges = [(str(first), str(last)) for first, last in ranges]
        return self._ranges

    # ---- rows of some keys
    def _ask_again(self, rows: list[Row]) -> tuple[list[Row], int]:
        """Those of some differences that stay, and how many keys the lake has newer ones of meanwhile.

        A row that is written all the time is never TiDB's newest: it is compared with those of all TSOs since, too.
        """
        left, newer, until = {_id(row): row for row in rows}, 0, time.monotonic() + self._job.wait
        asked = [self._rows_of(rows)]
        sent = [row for row in rows if row["tidb"] is not None and row["turn"] == 1]
        known = self.lake.of_keys(asked[0], self._keys(sent))
        if known.count() < len(sent):  # it would count as equal, or be deleted
            details = "TiDB has a row that it does not find by its key: --wait 0s compares without asking for it"
            raise self.lake.target.columns.stopped(f"{details}. {load_again(self._source.table.id)}")
        for pause in chain(PAUSES, repeat(PAUSES[-1])):
            time.sleep(max(min(pause, until - time.monotonic()), 0))
            self._go_on()
            asked += [self._rows_of([*left.values()])] if isinstance(self._source, TidbTable) else []
            here = self.lake.with_keys(self.lake.read(), self._keys([*left.values()]))
            for then in asked:
                found = {_id(row): row for row in self.lake.differences(here, then).collect()}
                newer += sum(id_ in found and found[id_]["kind"] == NEWER for id_ in left)
                left = {id_: found[id_] for id_ in left if id_ in found and found[id_]["kind"] != NEWER}
            if not left or time.monotonic() >= until:
                break
        return [*left.values()], newer

    def _keys(self, rows: Sequence[Row]) -> DataFrame:
        """The keys of some differences, as LakeRows.with_keys takes them."""
        return self._spark.createDataFrame([(row["key"],) for row in rows], "key array<string>")

    def _rows_of(self, rows: Sequence[Row]) -> Snapshot:
        """What the source has of the keys of some differences."""
        source = self._source
        if isinstance(source, DumpTable):
            snapshot = self._read(source.read, source.files)
            return replace(snapshot, rows=self.lake.of_keys(snapshot, self._keys(rows)).localCheckpoint())
        assert isinstance(source, TidbTable)
        columns = [self.lake.columns[n] for n in self.lake.keys]
        names = ", ".join(quote_name(column.name) for column in columns)
        values = [f"({', '.join(map(_literal, row['key'], columns))})" for row in rows]
        queries = [f"WHERE ({names}) IN ({', '.join(values[n : n + _KEYS])})" for n in range(0, len(values), _KEYS)]
        snapshot = self._read(source.read, queries)
        # Two statements find one row where its collation takes their keys for the same.
        found = snapshot.rows.dropDuplicates([f"c_{n}" for n in self.lake.keys])
        return replace(snapshot, rows=found.localCheckpoint())


def _id(row: Row) -> tuple[Any, ...]:
    """What tells a difference from others."""
    return (*row["key"], row["turn"])


def _literal(text: str | None, column: Column) -> str:
    """A key's text as SQL; NULL for what does not fit its column's type."""
    try:
        data = bytes.fromhex(json.loads(text or "")["hex"]) if column.type.kind in BYTES else (text or "").encode()
        return "NULL" if text is None else literal(data, column)
    except ValueError:
        return "NULL"


# ---- all tables
def source_of(tidb: str | None, dump: str | None) -> str:
    """The source as `read_source` takes it. SetupError USAGE where it is not one of both, or of another form."""
    if not (is_server(tidb or "") if dump is None else tidb is None and dump.startswith(PREFIX)):
        details = f"compare with what? Give --tidb mysql://USER@HOST:PORT or --dump {PREFIX}DIR-OR-URL"
        raise SetupError("USAGE", details=f"reconcile: {details}")
    return tidb or dump or ""


def run_reconcile(
    job: ReconcileJob, session: Callable[[], SparkSession], metrics: JobMetrics,
    report: Callable[[dict[str, Any]], None] | None = None,
) -> Checked:  # fmt: skip
    """Compares the tables, and prints what was found; the sum. session: is asked for when the source is there. report:
    takes a table's, as an edge of lineage.
    """
    options = options_of(job.dump_options)
    tso, tables = read_source(job.source, job.tables, job.at, job.zone, options, None, job.chunk_rows)
    private = follow_renames(job.job.private, (table.definition for table in tables))
    job = replace(job, job=replace(job.job, private=private))
    tables = _public(tables, private)
    total, newest, spark = Checked(), 0, session()
    with ExitStack() as stack:
        writer = LineWriter(sys.stdout if job.out == "-" else path_of(job.out)) if job.out else None
        if writer is not None:
            stack.callback(writer.abandon)
        # Decimals have no exponent as text then, and times are those of the changefeed.
        stack.enter_context(set_for_now(spark, "spark.sql.ansi.enabled", "true"))
        stack.enter_context(set_for_now(spark, "spark.sql.session.timeZone", job.zone))
        for number, source in enumerate(tables, 1):
            id_, count = source.table.id, f"{number} of {len(tables)}"
            if number > 1 and job.at is None and isinstance(source, TidbTable):  # GC takes the rows of a time
                server = source.server.newest()
                (source,), tso = _public([*server.tables([id_], source.chunk_rows)], private), server.tso
            named = {"db": id_.db, "table": id_.table} if len(tables) > 1 else {}
            with report_slow_steps(f"reconcile: {id_} ({count})", 10), errors_of_source(id_):
                table, checked = _reconcile(job, spark, source, tso, writer, named)
            if named:
                words = ", ".join(f"{name} {value}" for name, value in checked._asdict().items())
                print(f"reconcile: {id_} ({count}): {words}", file=sys.stderr)
            total, newest = Checked(*map(sum, zip(total, checked, strict=True))), max(newest, table.tso)
            if report is not None:
                found = {"db": id_.db, "table": id_.table, "reconciled": table.tso, "different": checked.judged}
                report(edge(None, checked.rows) | found)
            metrics.show("reconciled_rows", checked.equal, str(id_))
            metrics.show("reconciled_seconds", tso_physical_ms(table.tso) / 1000, str(id_))
            for kind in ("different", "missing", "extra"):
                metrics.show("differences", getattr(checked, kind), str(id_), kind)
            gc.collect()  # as after each micro-batch of a stream
        if writer is not None:
            writer.close()
    metrics.update(Summary())
    print_counts("reconcile", {"tso": newest, **total._asdict()}, job.as_json, int(total.judged > 0))
    return total


def _public(tables: Iterable[SnapshotTable], private: PrivateColumns) -> list[SnapshotTable]:
    """The tables as the lake has them; their private columns are not compared. SetupError STOPPED for one of a key."""
    public = list[SnapshotTable]()
    for source in tables:
        mask = private.of_table([source.table.id])
        if mask.rules and any(mask.method_of(name) for name in source.table.handle_key):
            details = "its key is private: TiDB's rows can't be found by what the lake has of it"
            raise SetupError("STOPPED", where=str(source.table.id), details=details)
        columns = [column for column in source.columns if not mask.method_of(column.name)]
        public.append(replace(source, table=mask.mask_table(source.table), columns=columns) if mask.rules else source)
    return public


def _reconcile(
    job: ReconcileJob, spark: SparkSession, source: SnapshotTable, tso: int, writer: LineWriter | None,
    named: dict[str, str],
) -> tuple[ReconciledTable, Checked]:  # fmt: skip
    """named: what tells the table's lines from others."""
    print_lines("reconcile: flag", check_losses(source, job.job))
    table, kept = ReconciledTable(job, source, spark, tso), list[Row]()
    checked, rows = table.find()
    for row in rows:
        if writer is not None:
            writer.write({**named, **table.lake.line(row)})
        kept += [row] if job.mends else []
    if not kept:
        return table, checked
    print(f"reconcile: {source.table.id}: repaired {table.repair(kept)}", file=sys.stderr)
    return table, table.find()[0]


@with_parameter_names
def reconcile(
    lake: str,
    *,
    table: str,
    tidb: str | None = None,
    dump: str | None = None,
    at: int | None = None,
    wait: float = 60.0,
    out: str | None = None,
    repair: bool = False,
    changelog: str | None = None,
    versions: str | None = None,
    time_zone: str = "UTC",
    source_time_zone: str | None = None,
    engine: str = AUTO,
    on_lossy: OnLossy = "error",
    dump_options: str | None = None,
) -> dict[str, int]:
    """Compares tables of the lake with TiDB, or with a dump, at one TSO. The command `reconcile`.

    Args:
        table: "db.table", or patterns of TiDB's table filter. wait: in seconds. Others are as the command has them.
    Returns:
        The counts that the command prints: `rows`, `equal`, `different`, `missing`, `extra`, `newer`.
    Raises:
        SetupError: for wrong arguments, and where it can't be told whether the rows are equal.
    """
    check_choices(on_lossy=(on_lossy, ("error", "flag")), engine=(engine, (AUTO, *ENGINES)))
    job = Job(snapshot_config(time_zone, SparkTypes(), on_lossy), merge=engine, changelog=changelog, versions=versions)
    reconcile_job = ReconcileJob(
        job, lake, source_of(tidb, dump), TableChoice.of([table]), source_time_zone or time_zone, wait, out or "",
        repair, at, dump_options,
    )  # fmt: skip
    metrics = JobMetrics(None, "reconcile")
    return run_reconcile(reconcile_job, lambda: session_of(job, SparkSettings(), lake, None), metrics)._asdict()
