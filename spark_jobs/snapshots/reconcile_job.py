"""`reconcile`: whether tables of the lake are TiDB's at one TSO, which rows are not, and these rows mended."""

from __future__ import annotations

import sys
from contextlib import ExitStack
from typing import Final

from pyspark.sql import Row, SparkSession

from ticdc_bridge.schemas.model.errors import SetupError
from ticdc_bridge.schemas.model.event import tso_physical_ms
from ticdc_bridge.schemas.model.spark_types import SparkTypes
from ticdc_bridge.spark_jobs.io.message_files import LineWriter
from ticdc_bridge.spark_jobs.io.object_paths import path_of
from ticdc_bridge.spark_jobs.lake.engines.base import AUTO, ENGINES
from ticdc_bridge.spark_jobs.lake.engines.spark_sql import set_for_now
from ticdc_bridge.spark_jobs.pipeline.arguments import check_choices, with_parameter_names
from ticdc_bridge.spark_jobs.pipeline.job import Job
from ticdc_bridge.spark_jobs.pipeline.progress import report_slow_steps, tell_lines
from ticdc_bridge.spark_jobs.pipeline.result import Summary
from ticdc_bridge.spark_jobs.pipeline.table_choice import TableChoice
from ticdc_bridge.spark_jobs.pipeline.table_view import OnLossy
from ticdc_bridge.spark_jobs.runtime.spark_settings import SparkSettings
from ticdc_bridge.spark_jobs.snapshots.dump_dialect import dump_options as options_of
from ticdc_bridge.spark_jobs.snapshots.frames import PREFIX
from ticdc_bridge.spark_jobs.snapshots.load_job import check_losses, errors_of_source, snapshot_side
from ticdc_bridge.spark_jobs.snapshots.reconciled_table import Checked, ReconciledTable, ReconcileJob
from ticdc_bridge.spark_jobs.snapshots.source import read_source
from ticdc_bridge.spark_jobs.snapshots.stage import SnapshotTable
from ticdc_bridge.spark_jobs.streaming.metrics import JobMetrics
from ticdc_bridge.spark_jobs.streaming.sinks import session_of

_FORMS: Final = {"tidb": "mysql://USER@HOST:PORT", "dump": f"{PREFIX}DIR-OR-URL"}


def source_of(tidb: str | None, dump: str | None) -> str:
    """The source as `read_source` takes it. SetupError USAGE where it is not one of both."""
    given = {name: text for name, text in (("tidb", tidb), ("dump", dump)) if text is not None}
    if len(given) != 1:
        words = " or ".join(f"--{name} {form}" for name, form in _FORMS.items())
        raise SetupError("USAGE", details=f"reconcile: compare with what? Give {words}")
    ((name, text),) = given.items()
    if not text.startswith(_FORMS[name].partition(":")[0] + ":"):
        raise SetupError("USAGE", details=f"--{name} {text}: {_FORMS[name]} is needed")
    return text


def run_reconcile(job: ReconcileJob, spark: SparkSession, metrics: JobMetrics) -> Checked:
    """Compares the tables one by one, and prints what was found; the sum. SetupError where that can't be told."""
    options = options_of(job.dump_options)
    tso, tables = read_source(job.source, job.tables, job.at, job.zone, options, None, job.chunk_rows)
    total, newest = Checked(), tso
    with ExitStack() as stack:
        writer = LineWriter(sys.stdout if job.out == "-" else path_of(job.out)) if job.out else None
        if writer is not None:
            stack.callback(writer.abandon)
        # Decimals have no exponent as text then, and times are those of the changefeed.
        stack.enter_context(set_for_now(spark, "spark.sql.ansi.enabled", "true"))
        stack.enter_context(set_for_now(spark, "spark.sql.session.timeZone", job.zone))
        for number, source in enumerate(tables, 1):
            id_, count = source.table.id, f"{number} of {len(tables)}"
            named = {"db": id_.db, "table": id_.table} if len(tables) > 1 else {}
            with report_slow_steps(f"reconcile: {id_} ({count})", 10), errors_of_source(id_):
                table, checked = _reconcile(job, spark, source, tso, writer, named)
            if named:
                words = ", ".join(f"{name} {value}" for name, value in checked._asdict().items())
                print(f"reconcile: {id_} ({count}): {words}", file=sys.stderr)
            total, newest = Checked(*map(sum, zip(total, checked, strict=True))), max(newest, table.tso)
            metrics.show("reconciled_rows", checked.equal, str(id_))
            metrics.show("reconciled_seconds", tso_physical_ms(table.tso) / 1000, str(id_))
            for kind in ("different", "missing", "extra"):
                metrics.show("differences", getattr(checked, kind), str(id_), kind)
        if writer is not None:
            writer.close()
    metrics.update(Summary())
    tell_lines("reconcile", [f"tso {newest}", *(f"{name} {value}" for name, value in total._asdict().items())])
    return total


def _reconcile(
    job: ReconcileJob, spark: SparkSession, source: SnapshotTable, tso: int, writer: LineWriter | None,
    named: dict[str, str],
) -> tuple[ReconciledTable, Checked]:  # fmt: skip
    """named: what tells the table's lines from others."""
    is_lossy = job.job.read.view is not None and job.job.read.view.on_lossy == "flag"
    for text in check_losses(source, is_lossy):
        print(f"reconcile: flag: {source.table.id}: {text}", file=sys.stderr)
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
        lake: `delta:PATH` or `iceberg:CATALOG.DB.TABLE`, with {schema} and {table} for several tables.
        table: "db.table", or patterns of TiDB's table filter.
        tidb, dump, at, repair, changelog, versions, engine, on_lossy, dump_options: as the command has them.
        wait: seconds in which a difference is asked again before it is one.
        out: a file for the rows that differ, as JSON lines.
        time_zone, source_time_zone: of TIMESTAMP text in the table, and in the dump (None: the same).
    Returns:
        The counts that the command prints: `rows`, `equal`, `different`, `missing`, `extra`, `newer`.
    Raises:
        SetupError: for wrong arguments, and where it can't be told whether the rows are equal.
    """
    check_choices(on_lossy=(on_lossy, ("error", "flag")), engine=(engine, (AUTO, *ENGINES)))
    job = Job(snapshot_side(time_zone, SparkTypes(), on_lossy), merge=engine, changelog=changelog, versions=versions)
    reconcile_job = ReconcileJob(
        job, lake, source_of(tidb, dump), TableChoice.of([table]), source_time_zone or time_zone, wait, out or "",
        repair, at, dump_options,
    )  # fmt: skip
    spark = session_of(job, SparkSettings(), lake, None)
    return run_reconcile(reconcile_job, spark, JobMetrics(None, "reconcile"))._asdict()
