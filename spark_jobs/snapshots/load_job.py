"""`load`: rows that tables had at one TSO, from a dump or a live TiDB, into tables of the lake."""

from __future__ import annotations

import re
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any, Final

from ticdc_bridge.schemas.ddl.executor.versions import DdlText
from ticdc_bridge.schemas.inputs.schema_files import FileSchemas
from ticdc_bridge.schemas.model.errors import Hint, SetupError
from ticdc_bridge.schemas.model.options import Options
from ticdc_bridge.schemas.model.spark_types import SparkTypes
from ticdc_bridge.schemas.model.table import Table, TableId
from ticdc_bridge.schemas.model.types import Kind
from ticdc_bridge.schemas.model.values import shift_zone
from ticdc_bridge.spark_jobs.io.locations import TableLocation, table_location_of
from ticdc_bridge.spark_jobs.io.object_paths import path_of
from ticdc_bridge.spark_jobs.lake import changelog, load, merge
from ticdc_bridge.spark_jobs.lake.column_history import SchemaChange, schema_changes, sort_statements
from ticdc_bridge.spark_jobs.lake.name_history import rename_chain
from ticdc_bridge.spark_jobs.lake.table_columns import APPLIED, LOADED
from ticdc_bridge.spark_jobs.pipeline.codec_config import CodecConfig
from ticdc_bridge.spark_jobs.pipeline.job import Job
from ticdc_bridge.spark_jobs.pipeline.progress import report_slow_steps
from ticdc_bridge.spark_jobs.pipeline.result import Summary
from ticdc_bridge.spark_jobs.pipeline.table_choice import TableChoice, TableLayout, location_by_rule
from ticdc_bridge.spark_jobs.pipeline.table_view import ANY_TABLE, OnLossy, TableView
from ticdc_bridge.spark_jobs.snapshots.letters import collect_letters, without_unfit
from ticdc_bridge.spark_jobs.snapshots.source import read_source
from ticdc_bridge.spark_jobs.snapshots.stage import LETTERS, Stage, Stages, begun, duration, no_stage, stage_root
from ticdc_bridge.spark_jobs.spark.errors import raised_message
from ticdc_bridge.spark_jobs.spark.session import running_tasks
from ticdc_bridge.spark_jobs.streaming.merge_batch import targets_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@dataclass(frozen=True)
class LoadJob:
    """What a load is given. job: places, layout, engine, types, tables without a key, as of merge; its side read is
    `snapshot_side`. source_zone: of TIMESTAMP text in the source. statements: of the tables' history, if any is known.
    letters: a file for rows with a value that is none of its column's type; None: the first ends the load.
    """

    job: Job
    out: str
    tso: int
    tables: Sequence[load.SnapshotTable]
    stages: Stages
    source_zone: str = "UTC"
    replace: bool = False
    statements: Sequence[DdlText] = ()
    letters: str | None = None


@dataclass(frozen=True)
class Source:
    """What is loaded. text: as --source has it; at: the TSO that is asked for; options: what Dumpling was told."""

    text: str
    choice: TableChoice
    at: int | None = None
    options: Mapping[str, Any] = field(default_factory=dict)

    def job(
        self, job: Job, out: str, stage: str | None = None, conf: Mapping[str, str] = {}, *, source_zone: str,
        replace: bool = False, statements: Sequence[DdlText] = (), letters: str | None = None,
    ) -> LoadJob:  # fmt: skip
        """The load of it. Arguments as LoadJob has them, and as `stage_root`. SetupError as `read_source`."""
        zone = job.read.options.time_zone
        places = (out, job.changelog, job.versions, job.outputs, replace, zone, job.current)
        stages = Stages(
            repr((self.text.rpartition("@")[2], *places)),
            lambda id_: stage_root(_locations(job, out, id_)[0], id_, stage, conf),
        )
        tso, tables = read_source(self.text, self.choice, self.at, zone, self.options, stages)
        return LoadJob(job, out, tso, tables, stages, source_zone, replace, statements, letters)


@dataclass
class LoadSummary:
    """Counts of a load. flags: columns that are not exact, as asked for by --on-lossy flag."""

    tso: int
    rows: int = 0
    written: int = 0
    newer: int = 0
    removed: int = 0
    errors: int = 0
    flags: list[str] = field(default_factory=list)

    def lines(self) -> list[str]:
        """The summary for people."""
        counts = {"tso": self.tso, "rows": self.rows, "written": self.written, "newer in the table": self.newer,
                  "removed": self.removed, "errors": self.errors}  # fmt: skip
        return [*(f"flag {text}" for text in self.flags), *(f"{name} {count}" for name, count in counts.items())]


def run_load(load_job: LoadJob, spark: SparkSession) -> LoadSummary:
    """Loads the tables one by one; those that a load which did not end had loaded at this TSO stay as they are.

    SetupError as merge raises it; the tables before are loaded then.
    """
    summary, began, letters = LoadSummary(load_job.tso), time.monotonic(), list[Path]()
    for table in load_job.tables:
        summary.flags += _check_losses(load_job, table)
    stages = [load_job.stages.of(table, load_job.tso) for table in load_job.tables]
    with begun(stages), TemporaryDirectory() as scratch:
        for number, (table, stage) in enumerate(zip(load_job.tables, stages, strict=True), 1):
            letters.append(Path(scratch, f"{number}{LETTERS}") if stage is None else stage.folder / LETTERS)
            count = f"{number} of {len(stages)}"
            done = _with_progress(load_job, table, stage, letters[-1], spark, f"load: {table.table.id} ({count})")
            for name in ("rows", "written", "newer", "removed", "errors"):
                setattr(summary, name, getattr(summary, name) + getattr(done, name))
            rate = f"{summary.rows / max(time.monotonic() - began, 0.001):,.0f} rows/s"
            print(f"load: {table.table.id}: {done.rows} rows ({count} tables, {rate})", file=sys.stderr)
        if load_job.letters is not None:
            collect_letters(letters, path_of(load_job.letters))
    return summary


def _with_progress(
    load_job: LoadJob, table: load.SnapshotTable, stage: Stage | None, letters: Path, spark: SparkSession, text: str
) -> load.Loaded:
    def so_far() -> str:
        return (stage.progress() if stage is not None else "") or running_tasks(spark)

    with report_slow_steps(text, 10, so_far):
        try:
            done = _load_table(load_job, table, stage, letters, spark)
        except Exception as error:
            known = None if isinstance(error, SetupError) else _source_error(error, table.table.id)
            if known is None:
                raise
            raise known from error
        if stage is not None:
            stage.finish(done)
        return done


def snapshot_side(zone: str, types: SparkTypes, on_lossy: OnLossy) -> CodecConfig:
    """The side that a load reads: changes whose TIMESTAMP text has the changefeed's zone."""
    view = TableView(Table(ANY_TABLE, ()), types, on_lossy=on_lossy)
    return CodecConfig("open", FileSchemas([]), Options.of({}, time_zone=zone), view=view)


def plan(load_job: LoadJob) -> tuple[list[str], list[str]]:
    """What a load would do, a line a table, and what stands against it, a line each. Nothing is written."""
    lines, obstacles, found = [f"tso {load_job.tso}"], list[str](), list[tuple[load.SnapshotTable, load.Estimate]]()
    for table in load_job.tables:
        try:
            found.append((table, table.estimate()))
        except SetupError as error:
            obstacles.append(f"table {table.table.id}: {error.detail}")
    seconds = sum(estimate.seconds for _, estimate in found)
    for table, estimate in found:
        id_, key = table.table.id, ", ".join(table.table.handle_key)
        out, *others = filter(None, _locations(load_job.job, load_job.out, id_)[:3])
        about = "" if estimate.is_exact else "about "
        roughly = "about " if estimate.seconds else ""  # by statistics
        places = ", ".join(map(str, (out, *others)))
        lines.append(
            f"{id_} -> {places}: {about}{estimate.rows:,} rows, {roughly}{estimate.chunks:,} chunks,"
            f" {roughly}{estimate.size:,} bytes, key {key or 'none'}, {len(table.columns)} columns"
        )
        if not key and load_job.job.current and load_job.job.without_key == "refuse":
            obstacles.append(f"table {id_}: it has no key (--without-key append)")
        if load_job.stages.root_of(id_) is None and not table.is_read_in_place:
            obstacles.append(no_stage(id_).detail)
        losses = [f"table {id_}: {text}" for text in table.losses()]
        if _refuses_losses(load_job):
            obstacles += losses
        else:
            lines += [f"flag {text}" for text in losses]
        obstacles += table.obstacles(seconds)
    if seconds:
        lines.append(f"reading takes about {duration(seconds)}")
    return lines, list(dict.fromkeys(obstacles))


def _refuses_losses(load_job: LoadJob) -> bool:
    view = load_job.job.read.view
    return view is None or view.on_lossy == "error"


def _check_losses(load_job: LoadJob, table: load.SnapshotTable) -> list[str]:
    losses = table.losses()
    if losses and _refuses_losses(load_job):
        details = f"{'; '.join(losses)}. Use another source, or accept that with --on-lossy flag"
        raise SetupError("STOPPED", where=str(table.table.id), details=details)
    return [f"{table.table.id}: {text}" for text in losses]


def _load_table(
    load_job: LoadJob, source: load.SnapshotTable, stage: Stage | None, letters: Path, spark: SparkSession
) -> load.Loaded:
    id_ = source.table.id
    read = load_job.job.read
    assert read.view is not None
    read = replace(read, view=replace(read.view, table=Table(id_, ())))
    out, changes_at, versions, layout = _locations(load_job.job, load_job.out, id_)
    job = replace(load_job.job, read=read, changelog=changes_at, versions=versions, layout=layout)
    statements = sort_statements([*load_job.statements, source.definition])
    names = rename_chain(statements, id_).names()
    has_key = any(column.handle_key for column in _newest(schema_changes(statements, id_)).columns)
    targets = targets_of(spark, job, id_, out, names, has_key)
    is_there = all(target.columns.lake_table.exists() for target in targets)
    before = stage.done() if stage is not None and is_there else None
    if before is not None and (not before.errors or load_job.letters is not None):
        print(f"load: {id_} was loaded before at this TSO", file=sys.stderr)
        return before
    places = [(target, load.place_of(target, load_job.tso)) for target in targets]
    for target, place in places:
        _check_place(load_job, target, place)
    rows = source.rows(spark, stage)
    count = stage.count() if stage is not None and not source.is_read_in_place else source.estimate().rows
    snapshot = load.Snapshot(
        load_job.tso, source.table, rows, source.columns, count, is_lossy=not _refuses_losses(load_job)
    )
    for name, number in snapshot.nulled(targets[0].columns.values).items():
        print(f"load: flag {id_}: column {name}: {number} dates that its type can't hold are NULL", file=sys.stderr)
    summary, done, errors, deletes = Summary(), load.Loaded(0, 0), 0, None
    exact = snapshot
    if load_job.letters is not None:
        exact, errors = without_unfit(snapshot, targets[0].columns.values, letters, source, load_job.replace)
    zones = load_job.source_zone, read.options.time_zone
    snapshot, exact = _in_zone(snapshot, *zones), _in_zone(exact, *zones)
    living = [p for p in places if p[1].loaded <= load_job.tso and not isinstance(p[0], changelog.Changelog)]
    if load_job.replace and living:
        target, place = living[0]
        steps = _steps(load_job, source, place, is_all=True)
        deletes = load.missing_keys(target, snapshot, _newest(steps), steps)
        # A load that is killed between two of them finds the same keys again: they are looked for in the last.
        places.sort(key=lambda pair: pair[0] is target)
    for target, place in places:
        if place.loaded > load_job.tso:  # a newer snapshot has all that this one has, or took it away
            done = done if done.rows else load.Loaded(count, 0, count)
            continue
        is_all = place.is_clear or (load_job.replace and not isinstance(target, changelog.Changelog))
        steps = _steps(load_job, source, place, is_all)
        table = _newest(steps)
        if isinstance(target, merge.CurrentTable):
            done = load.load_current(target, exact, table, steps, deletes, summary)
        else:
            added = load.load_past(target, exact, table, steps, deletes, summary)
            done = done if job.current else load.Loaded(exact.count, added)
        is_at_statement = any(s.commit_ts == load_job.tso for s in load_job.statements)
        for name in (APPLIED, LOADED) if is_all else (APPLIED,) if is_at_statement else ():
            if target.columns.time_of(name) < load_job.tso:
                target.columns.lake_table.set_property(name, str(load_job.tso))
    return replace(done, rows=done.rows + errors, errors=errors)


def _newest(steps: Sequence[SchemaChange]) -> Table:
    return next(step.after for step in reversed(steps) if step.after is not None)


def _steps(load_job: LoadJob, source: load.SnapshotTable, place: load.Place, is_all: bool) -> list[SchemaChange]:
    """The table's history for a place. is_all: all its rows up to the TSO are the snapshot's then, and what statements
    up to there did is in it. Else the place has still to follow them: the definition tells the columns alone.
    """
    definition, tso = source.definition, load_job.tso
    # The rows come after a statement that has the TSO itself.
    known = [replace(s, commit_ts=tso - 1) if s.commit_ts == tso else s for s in load_job.statements]
    if not is_all:
        earlier = (s.commit_ts for s in known if s.commit_ts < tso)
        definition = replace(definition, commit_ts=min(tso - 1, max(place.applied, 0, *earlier)))
    steps = schema_changes(sort_statements([*known, definition]), source.table.id)
    return [replace(step, unsure="", unclear="") if is_all and step.commit_ts <= tso else step for step in steps]


def _check_place(load_job: LoadJob, target: load.Target, place: load.Place) -> None:
    """SetupError STOPPED for a place that follows statements from after the snapshot, which are not given."""
    newest = max((s.commit_ts for s in load_job.statements), default=-1)
    if load_job.tso < place.applied and place.loaded <= load_job.tso and newest < place.applied:
        details = (
            f"{target.columns.lake_table.location} follows statements up to commit_ts {place.applied}, which are from"
            f" after the snapshot: give them ({Hint.DDL}), or load a newer snapshot"
        )
        raise target.columns.stopped(details)


def _locations(job: Job, out: str, id_: TableId) -> tuple[TableLocation, str | None, str | None, TableLayout]:
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


def _in_zone(snapshot: load.Snapshot, source: str, target: str) -> load.Snapshot:
    """TIMESTAMP values of the source's zone as text in the target's."""
    if source == target:
        return snapshot
    from pyspark.sql import functions as F

    def shift(text: str | None) -> str | None:
        try:
            return None if text is None else shift_zone(text, source, target)[0]
        except ValueError as error:
            raise load.SourceError(str(error)) from error

    shifted = F.udf(lambda text: shift(text), "string")
    of_zone = {n for n, column in enumerate(snapshot.columns) if column.type.kind is Kind.TIMESTAMP}
    texts = {f"c_{n}": shifted(F.expr(snapshot.text(n))) for n in of_zone}
    return replace(snapshot, rows=snapshot.rows.withColumns(texts)) if texts else snapshot


_OF_SOURCE: Final = re.compile(r"(?:SourceError|SetupError): ([^\n]+)")


def _source_error(error: Exception, id_: TableId) -> SetupError | None:
    """What the source's rows are not, in Spark's text; None for another error."""
    found = _OF_SOURCE.search(str(error))
    details = found[1] if found else raised_message(error)
    return None if details is None else SetupError("STOPPED", where=str(id_), details=details)
