"""`load`: rows that tables had at one TSO, from a dump or a live TiDB, into tables of the lake."""

from __future__ import annotations

import re
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Final

from ticdc_bridge.schemas.ddl.executor.versions import DdlText
from ticdc_bridge.schemas.inputs.schema_files import FileSchemas
from ticdc_bridge.schemas.model.errors import Hint, SetupError
from ticdc_bridge.schemas.model.options import Options
from ticdc_bridge.schemas.model.spark_types import SparkTypes
from ticdc_bridge.schemas.model.table import Table, TableId
from ticdc_bridge.schemas.model.types import Kind
from ticdc_bridge.schemas.model.values import shift_zone
from ticdc_bridge.spark_jobs.io.locations import TableLocation, table_location_of
from ticdc_bridge.spark_jobs.lake import changelog, load, merge
from ticdc_bridge.spark_jobs.lake.column_history import SchemaChange, schema_changes, sort_statements
from ticdc_bridge.spark_jobs.lake.name_history import rename_chain
from ticdc_bridge.spark_jobs.lake.table_columns import APPLIED, LOADED
from ticdc_bridge.spark_jobs.pipeline.codec_config import CodecConfig
from ticdc_bridge.spark_jobs.pipeline.job import Job
from ticdc_bridge.spark_jobs.pipeline.progress import report_slow_steps
from ticdc_bridge.spark_jobs.pipeline.result import Summary
from ticdc_bridge.spark_jobs.pipeline.table_choice import TableLayout, location_by_rule
from ticdc_bridge.spark_jobs.pipeline.table_view import ANY_TABLE, OnLossy, TableView
from ticdc_bridge.spark_jobs.spark.errors import raised_message
from ticdc_bridge.spark_jobs.spark.session import running_tasks
from ticdc_bridge.spark_jobs.streaming.merge_batch import targets_of

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


@dataclass(frozen=True)
class LoadJob:
    """What a load is given. job: places, layout, engine, types, tables without a key, as of merge; its side read is
    `snapshot_side`. source_zone: of TIMESTAMP text in the source. statements: of the tables' history, if any is known.
    """

    job: Job
    out: str
    tso: int
    tables: Sequence[load.SnapshotTable]
    source_zone: str = "UTC"
    replace: bool = False
    statements: Sequence[DdlText] = ()


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
    """Loads the tables one by one. SetupError as merge raises it; the tables before are loaded then."""
    summary, began = LoadSummary(load_job.tso), time.monotonic()
    for table in load_job.tables:
        summary.flags += _check_losses(load_job, table, spark)
    for number, table in enumerate(load_job.tables, 1):
        id_ = table.table.id
        with report_slow_steps(f"load: {id_} ({number} of {len(load_job.tables)})", 10, lambda: running_tasks(spark)):
            try:
                done = _load_table(load_job, table, spark)
            except Exception as error:
                known = None if isinstance(error, SetupError) else _source_error(error, id_)
                if known is None:
                    raise
                raise known from error
        for name in ("rows", "written", "newer", "removed"):
            setattr(summary, name, getattr(summary, name) + getattr(done, name))
        rate = f"{summary.rows / max(time.monotonic() - began, 0.001):,.0f} rows/s"
        print(f"load: {id_}: {done.rows} rows ({number} of {len(load_job.tables)} tables, {rate})", file=sys.stderr)
    return summary


def snapshot_side(zone: str, types: SparkTypes, on_lossy: OnLossy) -> CodecConfig:
    """The side that a load reads: changes whose TIMESTAMP text has the changefeed's zone."""
    view = TableView(Table(ANY_TABLE, ()), types, on_lossy=on_lossy)
    return CodecConfig("open", FileSchemas([]), Options.of({}, time_zone=zone), view=view)


def plan_lines(load_job: LoadJob) -> list[str]:
    """What a load would do: a line a table."""
    lines = [f"tso {load_job.tso}"]
    for table in load_job.tables:
        id_ = table.table.id
        size = f", {table.size:,} bytes" if table.size else ""
        key = ", ".join(table.table.handle_key) or "none"
        place = _locations(load_job, id_)[0]
        lines.append(f"{id_} -> {place}: key {key}, {len(table.columns)} columns{size}")
    return lines


def _check_losses(load_job: LoadJob, table: load.SnapshotTable, spark: SparkSession) -> list[str]:
    losses = table.losses(spark)
    view = load_job.job.read.view
    if losses and (view is None or view.on_lossy == "error"):
        details = f"{'; '.join(losses)}. Use another source, or accept that with --on-lossy flag"
        raise SetupError("STOPPED", where=str(table.table.id), details=details)
    return [f"{table.table.id}: {text}" for text in losses]


def _load_table(load_job: LoadJob, source: load.SnapshotTable, spark: SparkSession) -> load.Loaded:
    id_ = source.table.id
    read = load_job.job.read
    assert read.view is not None
    read = replace(read, view=replace(read.view, table=Table(id_, ())))
    out, changes_at, versions, layout = _locations(load_job, id_)
    job = replace(load_job.job, read=read, changelog=changes_at, versions=versions, layout=layout)
    statements = sort_statements([*load_job.statements, source.definition])
    steps, names = schema_changes(statements, id_), rename_chain(statements, id_).names()
    snapshot = load.Snapshot(load_job.tso, source.table, source.rows(spark), source.columns)
    snapshot = replace(snapshot, rows=_in_zone(snapshot.rows, snapshot, load_job.source_zone, read.options.time_zone))
    summary, done, deletes = Summary(), load.Loaded(0, 0), None
    targets = targets_of(spark, job, id_, out, names, any(c.handle_key for c in _newest(steps).columns))
    places = [load.place_of(target, load_job.tso) for target in targets]
    for target, place in zip(targets, places, strict=True):
        _check_place(load_job, target, place)
    for target, place in zip(targets, places, strict=True):
        if place.loaded > load_job.tso:  # a newer snapshot has all that this one has, or took it away
            count = snapshot.rows.count()
            done = done if done.rows else load.Loaded(count, 0, count)
            continue
        is_past = isinstance(target, changelog.Changelog)
        is_all = place.is_clear or (load_job.replace and not is_past)
        steps = _steps(load_job, source, place, is_all)
        table = _newest(steps)
        if load_job.replace and deletes is None and not is_past:
            deletes = load.missing_keys(target, snapshot, table, steps)
        if isinstance(target, merge.CurrentTable):
            done = load.load_current(target, snapshot, table, steps, deletes, summary)
        else:
            added = load.load_past(target, snapshot, table, steps, deletes, summary)
            done = done if job.current else load.Loaded(snapshot.rows.count(), added)
        is_at_statement = any(s.commit_ts == load_job.tso for s in load_job.statements)
        for name in (APPLIED, LOADED) if is_all else (APPLIED,) if is_at_statement else ():
            if target.columns.time_of(name) < load_job.tso:
                target.columns.lake_table.set_property(name, str(load_job.tso))
    return done


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


def _locations(load_job: LoadJob, id_: TableId) -> tuple[TableLocation, str | None, str | None, TableLayout]:
    """Where a table goes: the current one (or the first that is asked for), the changelog, the versions, the layout."""
    job = load_job.job
    given = next((entry for entry in job.outputs if entry.tables.takes(id_)), None)
    rules = [load_job.out, job.changelog, job.versions]
    if given is not None:
        of_table = (given.location, given.changelog, given.versions)
        rules = [output or rule for output, rule in zip(of_table, rules, strict=True)]
    out, changelog, versions = (rule and location_by_rule(rule, id_) for rule in rules)
    location = table_location_of(out or "")
    assert location is not None
    return location, changelog, versions, (given and given.layout) or job.layout


def _in_zone(rows: DataFrame, snapshot: load.Snapshot, source: str, target: str) -> DataFrame:
    """TIMESTAMP values of the source's zone as text in the target's."""
    if source == target:
        return rows
    from pyspark.sql import functions as F

    def shift(text: str | None) -> str | None:
        try:
            return None if text is None else shift_zone(text, source, target)[0]
        except ValueError as error:
            raise load.SourceError(str(error)) from error

    shifted = F.udf(lambda text: shift(text), "string")
    of_zone = {n for n, column in enumerate(snapshot.columns) if column.type.kind is Kind.TIMESTAMP}
    texts = {f"c_{n}": shifted(F.expr(snapshot.text(n))) for n in of_zone}
    return rows.withColumns(texts) if texts else rows


_OF_SOURCE: Final = re.compile(r"SourceError: ([^\n]+)")


def _source_error(error: Exception, id_: TableId) -> SetupError | None:
    """What the source's rows are not, in Spark's text; None for another error."""
    found = _OF_SOURCE.search(str(error))
    details = found[1] if found else raised_message(error)
    return None if details is None else SetupError("STOPPED", where=str(id_), details=details)
