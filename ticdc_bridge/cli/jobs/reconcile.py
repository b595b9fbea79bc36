"""`reconcile`: prove that lake tables equal TiDB's at one TSO, and mend the rows that differ."""

from dataclasses import dataclass
from functools import cache
from typing import Any, ClassVar, Final

from ticdc_bridge.cli.job_file import JobFileCommand
from ticdc_bridge.cli.job_options import METRICS_HOST, Lineage, SnapshotOptions
from ticdc_bridge.cli.options import AS_JSON, INPUT, OUTPUT, REPORTS, flag, option

COMMAND_CLASS: Final = JobFileCommand


@dataclass(kw_only=True)
class Reconcile(Lineage, SnapshotOptions):
    """Compare lake tables with TiDB, or with a dump, at one TSO, and list the rows that differ.

    TiDB and Spark compute checksums of the rows by ranges of the key. Only where they differ are rows read. This works
    while merge and TiDB's users write: without --at, the TSO is the last watermark that merge had read, if it is
    recent; a row of the lake that is newer is not judged, and a difference counts only if it is still there after
    --wait, at a later TSO. Nothing is written without --repair.

    Examples:
      BRIDGE_TIDB_PASSWORD=… ticdc-bridge reconcile --lake delta:/lake/orders --tidb mysql://reader@tidb:4000 \\
          --table shop.orders --out differences.jsonl
      ticdc-bridge reconcile --lake 'delta:/lake/{schema}/{table}' --dump dumpling:/backup/shop --tables 'shop.*'
      ticdc-bridge reconcile --lake delta:/lake/orders --tidb mysql://reader@tidb:4000 --table shop.orders \\
          --every 1h --sample 20 --metrics :9300
    """

    notes: ClassVar[str] = """\
Exit codes:
  0 equal   1 some rows differ   2 can't tell: wrong usage, other columns, or something can't be reached
"""

    lake: str = option(
        INPUT, "TABLE", "The table of the lake: delta:PATH or iceberg:CATALOG.DB.TABLE, with {schema} and {table}.",
        default=...
    )  # fmt: skip
    tidb: str | None = option(
        INPUT, "URL", "mysql://USER@HOST:PORT, read by tidb_snapshot. [BRIDGE_TIDB_PASSWORD, BRIDGE_TIDB_CA]"
    )
    dump: str | None = option(INPUT, "DUMP", "dumpling:DIR-OR-URL (SQL, CSV or Parquet), instead of --tidb.")
    chunk: int = option(INPUT, "ROWS", "Rows of one statement in TiDB.", min=1, default=200_000)
    sample: int = option(
        INPUT, "N", "Compare N ranges of --chunk rows, chosen at random; 0: all rows.", min=0, default=0
    )
    out: str = option(OUTPUT, "FILE|-", "Where the rows that differ go, as JSON lines.", default="-")
    wait: str = option(
        OUTPUT, "TIME", "How long a difference is compared again, at later TSOs, before it counts.", default="60s"
    )
    repair: bool = flag(OUTPUT, "--repair", "Load the rows that differ, and compare again.")
    every: str | None = option(REPORTS, "TIME", "Compare again and again, with a pause of this time, for --metrics.")
    metrics: str | None = option(
        REPORTS, "FILE|:PORT", "Prometheus metrics: a text file, or, with --every, served on a port."
    )
    metrics_host: str = METRICS_HOST
    json: bool = AS_JSON

    def run(self) -> int:
        import time

        from ticdc_bridge.cli.codec_arguments import chosen_tables, seconds, spark_settings
        from ticdc_bridge.cli.options import check_zone
        from ticdc_bridge.schemas.model.credentials import mask_passwords
        from ticdc_bridge.schemas.model.spark_types import SparkTypes
        from ticdc_bridge.spark_jobs.pipeline.job import Job
        from ticdc_bridge.spark_jobs.snapshots.load_job import snapshot_config
        from ticdc_bridge.spark_jobs.snapshots.reconcile_job import ReconcileJob, run_reconcile, source_of
        from ticdc_bridge.spark_jobs.streaming import lineage, metrics
        from ticdc_bridge.spark_jobs.streaming.sinks import session_of

        locations = {"--lake": self.lake, "--changelog": self.changelog, "--versions": self.versions}
        choice, _ = chosen_tables(self, locations)
        zone = check_zone("--time-zone", self.time_zone) or "UTC"
        source_zone = check_zone("--source-time-zone", self.source_time_zone) or zone
        job = Job(
            snapshot_config(zone, SparkTypes(), self.on_lossy), merge=self.engine, changelog=self.changelog,
            versions=self.versions, outputs=self.outputs, private=self.private_columns(choice, self.outputs),
        )  # fmt: skip
        reconcile_job = ReconcileJob(
            job, self.lake, source_of(self.tidb, self.dump), choice, source_zone, seconds(self.wait, "--wait"),
            self.out, self.repair, self.at, self.dump_options, self.chunk, self.sample, self.json,
        )  # fmt: skip
        pause = None if self.every is None else seconds(self.every, "--every")
        if pause is None:
            metrics.check(self.metrics)
        name = self.job or "reconcile"
        gauges = metrics.JobMetrics(self.metrics, name, self.metrics_host)
        settings = spark_settings(self, True, self.lake, *job.more_locations)
        session = cache(lambda: session_of(job, settings, self.lake, None))
        head = lineage.head_of(name, "reconcile", mask_passwords(reconcile_job.source), self.lake, job)

        def report(table: dict[str, Any]) -> None:
            lineage.send(self.lineage, {**head, "tables": [table]})

        while True:
            total = run_reconcile(reconcile_job, session, gauges, report)
            if pause is None:
                return 1 if total.judged else 0
            time.sleep(pause)
