"""`load`: rows that tables had at one TSO, from a dump or a live TiDB, into tables of the lake."""

from __future__ import annotations

import dataclasses
import gc
import re
import sys
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Final

from ticdc_bridge.schemas.codec.compression import UNREADABLE
from ticdc_bridge.schemas.columnar.dump_reader import DumpTextError
from ticdc_bridge.schemas.ddl.executor.versions import DdlText
from ticdc_bridge.schemas.inputs.live_tables import is_server
from ticdc_bridge.schemas.inputs.schema_files import FileSchemas
from ticdc_bridge.schemas.model.errors import Hint, SetupError
from ticdc_bridge.schemas.model.options import Options
from ticdc_bridge.schemas.model.reasons import counted
from ticdc_bridge.schemas.model.spark_types import SparkTypes
from ticdc_bridge.schemas.model.table import Table, TableId
from ticdc_bridge.spark_jobs.io.locations import TableLocation, check_different, check_is_lines, table_location_of
from ticdc_bridge.spark_jobs.io.message_files import LineWriter
from ticdc_bridge.spark_jobs.io.object_paths import path_of, remove_folder
from ticdc_bridge.spark_jobs.io.stores import spark_location
from ticdc_bridge.spark_jobs.lake import changelog, commit_summary, load, merge
from ticdc_bridge.spark_jobs.lake.column_history import SchemaChange, schema_changes, sort_statements
from ticdc_bridge.spark_jobs.lake.column_masks import follow_renames
from ticdc_bridge.spark_jobs.lake.name_history import rename_chain
from ticdc_bridge.spark_jobs.lake.table_columns import APPLIED, LOADED
from ticdc_bridge.spark_jobs.lake.tombstones import COMMIT_TS
from ticdc_bridge.spark_jobs.pipeline.codec_config import CodecConfig
from ticdc_bridge.spark_jobs.pipeline.job import Job
from ticdc_bridge.spark_jobs.pipeline.progress import print_lines, report_slow_steps
from ticdc_bridge.spark_jobs.pipeline.result import Summary
from ticdc_bridge.spark_jobs.pipeline.table_choice import TableChoice, TableLayout, location_by_rule
from ticdc_bridge.spark_jobs.pipeline.table_view import ANY_TABLE, OnLossy, TableView
from ticdc_bridge.spark_jobs.snapshots.dump_dialect import dump_options as options_of
from ticdc_bridge.spark_jobs.snapshots.private_table import PrivateTable
from ticdc_bridge.spark_jobs.snapshots.row_types import RowTypes
from ticdc_bridge.spark_jobs.snapshots.source import read_source
from ticdc_bridge.spark_jobs.snapshots.stage import ChunkWriting, SnapshotTable, Stage, Stages, begun, stage_root
from ticdc_bridge.spark_jobs.spark.errors import is_conflict, raised_message
from ticdc_bridge.spark_jobs.spark.session import running_tasks
from ticdc_bridge.spark_jobs.streaming.merge_batch import steps_of, targets_of

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


_OF_SOURCE: Final = re.compile(r"(?:SourceError|SetupError): ([^\n]+)")
"""In Spark's text: what the source's rows are not."""
_CONFLICTS: Final = 4
"""With another job's commits, after which a table is loaded again."""


@dataclass(frozen=True)
class LoadJob:
    """What a load is given. job: places, layout, engine, types, tables without a key, as of merge; it reads by
    `snapshot_config`. source_zone: of TIMESTAMP text in the source. statements: of the tables' history, if it is known.
    letters: a file for rows with a value that does not fit its column's type; None: the first ends the load.
    """

    job: Job
    out: str
    tso: int
    tables: Sequence[SnapshotTable]
    stages: Stages
    source_zone: str
    replace: bool
    statements: Sequence[DdlText]
    letters: str | None

    @classmethod
    def of(
        cls, job: Job, source: str, out: str, choice: TableChoice, at: int | None, dump_options: str | None,
        source_zone: str, replace: bool, statements: Sequence[DdlText], letters: str | None, conf: Mapping[str, str],
    ) -> LoadJob:  # fmt: skip
        """With the tables of a source that are chosen. conf: settings of Spark. SetupError as of `read_source`."""
        assert job.read.view is not None
        zone, past = job.read.options.time_zone, {"--changelog": job.changelog, "--versions": job.versions}
        check_is_lines("--dead-letter", letters or "", "load")
        check_different({"--out": out if job.current else None, **past, "--dead-letter": letters})
        if source_zone != zone and is_server(source):
            raise SetupError("USAGE", details="--source-time-zone: a live TiDB is asked in --time-zone")
        chunks_by = zone, source_zone, job.read.view.types, job.read.view.on_lossy
        given = source.rpartition("@")[2], out, *past.values(), job.outputs, replace, job.current, *chunks_by
        stages = Stages(repr(given), lambda id_: stage_root(locations_of(job, out, id_)[0], conf))
        tso, tables = read_source(source, choice, at, zone, options_of(dump_options), stages)
        private = follow_renames(job.private, [*statements, *(table.definition for table in tables)])
        tables = [PrivateTable.of(table, private) for table in tables]
        job = dataclasses.replace(job, private=private)
        return cls(job, out, tso, tables, stages, source_zone, replace, statements, letters)


def run_load(load_job: LoadJob, session: Callable[[], SparkSession]) -> load.Loaded:
    """Loads the tables, but those that an unfinished load at this TSO had loaded. SetupError as of merge. session: is
    asked for when nothing stands against the load.
    """
    total, tables = load.Loaded(0, 0), load_job.tables
    if refused := _refused_keys(load_job):
        raise SetupError("USAGE", details="; ".join(refused))
    for losses in [check_losses(table, load_job.job) for table in tables]:
        print_lines("load: flag", losses)
    stages, spark = [load_job.stages.of(table, load_job.tso) for table in tables], session()
    with begun(stages):
        for number, (table, stage) in enumerate(zip(tables, stages, strict=True), 1):
            id_, count = table.table.id, f"{number} of {len(stages)}"
            state = lambda: stage.progress() or running_tasks(spark)  # noqa: B023, E731  # for this turn alone
            facts = commit_summary.with_commit_facts(spark, {commit_summary.COMMIT_TS: str(load_job.tso)})
            with report_slow_steps(f"load: {id_} ({count})", 10, state), errors_of_source(id_), facts:
                done = _load_beside_streams(load_job, table, stage, spark)
            stage.finish(done)
            total = load.Loaded(*map(sum, zip(total, done, strict=True)))
            print(f"load: {id_}: {counted(done.rows, 'row')} (table {count})", file=sys.stderr)
            gc.collect()  # as after each micro-batch of a stream
        if load_job.letters is not None:
            _write_letters(path_of(load_job.letters), [path for stage in stages for path in stage.letters()])
    return total


def _write_letters(path: Path, files: Sequence[Path]) -> None:
    """The dead letters of all tables; no file where there are none."""
    if not files:
        path.unlink(missing_ok=True)
        return
    path.parent.mkdir(parents=True, exist_ok=True)
    with ExitStack() as stack:
        writer = LineWriter(path)
        stack.callback(writer.abandon)
        for file in files:
            with file.open(encoding="utf-8") as lines:
                for line in lines:
                    writer.write_text(line.rstrip("\n"))
        writer.close()


@contextmanager
def errors_of_source(id_: TableId) -> Iterator[None]:
    """What Spark's workers say of a source is SetupError STOPPED of the table."""
    try:
        yield
    except Exception as error:
        found = _OF_SOURCE.search(str(error))
        details = found[1] if found else raised_message(error)
        if isinstance(error, SetupError) or details is None:
            raise
        raise SetupError("STOPPED", where=str(id_), details=details) from error


def snapshot_config(zone: str, types: SparkTypes, on_lossy: OnLossy) -> CodecConfig:
    """The side that a load reads: changes whose TIMESTAMP text has the changefeed's zone."""
    view = TableView(Table(ANY_TABLE, ()), types, on_lossy=on_lossy)
    return CodecConfig("open", FileSchemas([]), Options.of({}, time_zone=zone), view=view)


def plan(load_job: LoadJob) -> tuple[list[str], list[str]]:
    """What a load would do, a line a table, and what stands against it, a line each. Nothing is written."""
    lines, obstacles, rows = [f"tso {load_job.tso}"], list[str](), 0
    for table in load_job.tables:
        id_, key = table.table.id, ", ".join(table.table.handle_key)
        try:
            losses, estimate = table.losses(), table.estimate()
        except (SetupError, DumpTextError, *UNREADABLE) as error:
            obstacles.append(f"table {id_}: {error.detail if isinstance(error, SetupError) else error}")
            continue
        rows += estimate.rows
        targets = ", ".join(str(target) for target in locations_of(load_job.job, load_job.out, id_)[:3] if target)
        about = "" if estimate.is_exact else "about "
        counts = {"row": estimate.rows, "chunk": estimate.chunks, "byte": estimate.size}
        size, columns = ", ".join(counted(n, what) for what, n in counts.items()), len(table.columns)
        lines.append(f"{id_} -> {targets}: {about}{size}, key {key or 'none'}, {counted(columns, 'column')}")
        if load_job.job.is_lossy:
            lines += [f"flag table {id_}: {text}" for text in losses]
        else:
            obstacles += [f"table {id_}: {text}" for text in losses]
    return lines, _refused_keys(load_job) + obstacles + load_job.tables[0].obstacles(rows)


def _refused_keys(load_job: LoadJob) -> list[str]:
    """What stands against tables without a key, a sentence each."""
    refused = load_job.job.current and load_job.job.without_key == "refuse"
    ids = [table.table.id for table in load_job.tables if refused and not table.table.handle_key]
    return [f"table {i}: it has no key: leave it out (--tables '…,!{i}'), or {Hint.WITHOUT_KEY_APPEND}" for i in ids]


def check_losses(table: SnapshotTable, job: Job) -> list[str]:
    """What the source does not hold exactly, a sentence each. SetupError STOPPED where that is not accepted."""
    losses = table.losses()
    if losses and not job.is_lossy:
        details = f"{'; '.join(losses)}. Use another source, or accept that with --on-lossy flag"
        raise SetupError("STOPPED", where=str(table.table.id), details=details)
    return [f"{table.table.id}: {text}" for text in losses]


def _load_beside_streams(load_job: LoadJob, source: SnapshotTable, stage: Stage, spark: SparkSession) -> load.Loaded:
    """`_load_table`, again where a stream changed the table at the same time: what is read and written is found."""
    for _ in range(_CONFLICTS):
        try:
            return _load_table(load_job, source, stage, spark)
        except Exception as error:
            if not is_conflict(error):
                raise
            print(f"load: {source.table.id}: another job changed the table meanwhile; again", file=sys.stderr)
    return _load_table(load_job, source, stage, spark)


def _load_table(load_job: LoadJob, source: SnapshotTable, stage: Stage, spark: SparkSession) -> load.Loaded:
    id_ = source.table.id
    read = load_job.job.read
    assert read.view is not None
    read = replace(read, view=replace(read.view, table=Table(id_, ())))
    out, changes_at, versions, layout = locations_of(load_job.job, load_job.out, id_)
    job = replace(load_job.job, read=read, changelog=changes_at, versions=versions, layout=layout)
    statements = sort_statements([*load_job.statements, source.definition])
    names = rename_chain(statements, id_).names()
    has_key = any(column.handle_key for column in _newest(schema_changes(statements, id_)).columns)
    targets = targets_of(spark, job, id_, out, names, has_key)
    before = stage.done()
    if before is not None and all(target.columns.lake_table.exists() for target in targets):
        print(f"load: {id_} was loaded before at this TSO", file=sys.stderr)
        return before
    if before is not None:  # somebody has removed what it made, and its chunks are gone
        remove_folder(stage.folder)
    states = [(target, load.state_of(target, load_job.tso)) for target in targets]
    newest = max((s.commit_ts for s in load_job.statements), default=-1)
    for target, state in states:
        if load_job.tso < state.applied and state.loaded <= load_job.tso and newest < state.applied:
            follows = f"{target.columns.lake_table.location} follows statements up to commit_ts {state.applied}"
            details = f"{follows}, from after the snapshot: give them ({Hint.DDL}), or load a newer snapshot"
            raise target.columns.stopped(details)
    for target in targets:
        target.columns.refuse_names(source.table)
        if target.columns.lake_table.exists():  # before values are read into the stage
            target.columns.refuse_other_masks(source.table, target.columns.lake_table.properties())
    snapshot, errors = _read(load_job, job, source, stage, spark)
    count = snapshot.count
    summary, done = Summary(), load.Loaded(0, 0)
    removed: list[tuple[load.Target, DataFrame | None]] = []
    living = [p for p in states if p[1].loaded <= load_job.tso and not isinstance(p[0], changelog.Changelog)]
    for target, state in living if load_job.replace else ():
        steps = _steps(load_job, source, state, is_all=True)
        removed.append((target, load.missing_keys(target, snapshot, _newest(steps), steps)))
    # A load that is killed before the last of them finds the changelog's keys there again.
    states.sort(key=lambda pair: bool(removed) and pair[0] is removed[0][0])
    for target, state in states:
        deletes = next((keys for of, keys in removed if of is target), removed[0][1] if removed else None)
        if state.loaded > load_job.tso:  # a newer snapshot has all that this one has, or took it away
            done = done if done.rows else load.Loaded(count, 0, count)
            continue
        is_all = state.is_clear or (load_job.replace and not isinstance(target, changelog.Changelog))
        steps = _steps(load_job, source, state, is_all)
        table = _newest(steps)
        if isinstance(target, merge.CurrentTable):
            done = load.load_current(target, snapshot, table, steps, deletes, summary)
        else:
            added = load.load_past(target, snapshot, table, steps, deletes, summary)
            done = done if job.current else load.Loaded(count, added)
        is_at_statement = any(s.commit_ts == load_job.tso for s in load_job.statements)
        marks = (APPLIED, LOADED) if is_all else (APPLIED,) if is_at_statement else ()
        lake_table = target.columns.lake_table
        have = lake_table.properties() if marks else {}
        if behind := [name for name in marks if int(have.get(name, -1)) < load_job.tso]:
            lake_table.set_properties(dict.fromkeys(behind, str(load_job.tso)))
        if (is_all or state.loaded == load_job.tso) and not errors and isinstance(target, merge.CurrentTable):
            # A stream may have written older rows before it saw LOADED: from now on it leaves out their deletes.
            older = f"{COMMIT_TS} < {load_job.tso}"
            if not lake_table.read().where(older).isEmpty():
                lake_table.delete(older)
    return done._replace(rows=done.rows + errors, errors=errors)


def _read(
    load_job: LoadJob, job: Job, source: SnapshotTable, stage: Stage, spark: SparkSession
) -> tuple[load.Snapshot, int]:
    """The rows of a table, and how many were left out. SetupError STOPPED for such rows where nobody asked for that."""
    assert job.read.view is not None
    added = [COMMIT_TS, *([] if source.table.handle_key else [merge.ROW_MESSAGE])] if job.current else []
    zones = load_job.source_zone, job.read.options.time_zone
    types = RowTypes(source.columns, job.read.view.types, zones, job.is_lossy)
    writing = ChunkWriting(types, load_job.tso, added, load_job.letters is not None, load_job.replace)
    rows, letters = stage.read(spark, source, writing), stage.letters()
    if letters and load_job.letters is None:
        details = "a load that did not end has left out rows with values that do not fit their type: give --dead-letter"
        raise SetupError("STOPPED", where=str(source.table.id), details=details)
    keys = spark.read.schema("key map<string,string>").option("__globPaths__", "false")
    left_out = keys.json([spark_location(str(path)) for path in letters]) if letters else None
    nulled = sum((Counter(note.nulled) for note in stage.notes.values()), Counter[str]())
    print_lines("load: flag", [f"{source.table.id}: {text}: {count}" for text, count in nulled.items()])
    errors = sum(note.errors for note in stage.notes.values())
    files = stage.files()
    snapshot = load.Snapshot(load_job.tso, source.table, rows, source.columns, stage.count(), files, left_out)
    return snapshot, errors


def _newest(steps: Sequence[SchemaChange]) -> Table:
    return next(step.after for step in reversed(steps) if step.after is not None)


def _steps(load_job: LoadJob, source: SnapshotTable, state: load.TargetState, is_all: bool) -> list[SchemaChange]:
    """The history for a table of the lake. is_all: all its rows up to the TSO are the snapshot's then, and what
    statements up to there did is in it. Else it has still to follow them: the definition tells the columns alone.
    """
    definition, tso = source.definition, load_job.tso
    # The rows come after a statement that has the TSO itself.
    known = [replace(s, commit_ts=tso - 1) if s.commit_ts == tso else s for s in load_job.statements]
    if not is_all:
        earlier = (s.commit_ts for s in known if s.commit_ts < tso)
        definition = replace(definition, commit_ts=min(tso - 1, max(state.applied, 0, *earlier)))
    steps = steps_of(sort_statements([*known, definition]), source.table.id, load_job.job)
    return [replace(step, unsure="", unclear="") if is_all and step.commit_ts <= tso else step for step in steps]


def locations_of(job: Job, out: str, id_: TableId) -> tuple[TableLocation, str | None, str | None, TableLayout]:
    """Where a table goes: the current one (or the first that is asked for), the changelog, the versions, the layout."""
    given = next((entry for entry in job.outputs if entry.tables.takes(id_)), None)
    rules = [out, job.changelog, job.versions]
    if given is not None:
        of_table = (given.location, given.changelog, given.versions)
        rules = [output or rule for output, rule in zip(of_table, rules, strict=True)]
    first, changelog, versions = (rule and location_by_rule(rule, id_) for rule in rules)
    location = table_location_of(first or "")
    assert location is not None
    return location, changelog, versions, (given and given.layout) or job.layout
