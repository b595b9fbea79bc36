"""`load`: rows that were there before a changefeed, at one TSO, into lake tables."""

from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Final, Literal

from ticdc_bridge.cli import job_options
from ticdc_bridge.cli.job_file import JobFileCommand
from ticdc_bridge.cli.options import AS_JSON, DEFINITIONS, ERRORS, INPUT, OUTPUT, KafkaOptions, flag, option
from ticdc_bridge.schemas.model.errors import SetupError

COMMAND_CLASS: Final = JobFileCommand


@dataclass(kw_only=True)
class Load(job_options.SnapshotOptions, job_options.SchemaOptions, KafkaOptions):
    """Load the rows that tables of TiDB had at one TSO into lake tables, where `merge` goes on.

    Each row has `_commit_ts` = the TSO. It replaces no newer row and brings back no key that was deleted later, so load
    and merge may come in either order. The same load again changes nothing.

    Start the changefeed at the TSO that `load` prints (cdc cli changefeed create --start-ts=TSO), or before it. If
    it runs already, --in kafka:TOPIC checks that it began in time.

    Examples:
      ticdc-bridge load --source dumpling:/backup/shop --tables 'shop.*' --out 'delta:/lake/{schema}/{table}'
      BRIDGE_TIDB_PASSWORD=… ticdc-bridge load --source mysql://reader@tidb:4000 --table shop.orders \\
          --out delta:/lake/orders --dry-run
      ticdc-bridge load --source mysql://reader@tidb:4000 --table shop.orders --out delta:/lake/orders --replace
    """

    source: str = option(
        INPUT, "SOURCE",
        "dumpling:DIR-OR-URL (SQL, CSV or Parquet), or mysql://USER@HOST:PORT of a TiDB, read by tidb_snapshot. "
        "[BRIDGE_TIDB_PASSWORD, BRIDGE_TIDB_CA]",
        default=...
    )  # fmt: skip
    in_: str | None = option(
        INPUT, "kafka:TOPIC,…", "The changefeed's topics: a load that leaves a gap before them is refused.", "--in"
    )
    format: str = job_options.formats(job_options.READ, "Format of the messages of --in:", "--format", default="auto")
    ddl: Path | None = option(
        DEFINITIONS, "SOURCE", "The tables' DDL, needed if the lake table follows DDL from after the snapshot already."
    )
    out: str | None = option(OUTPUT, "TABLE", "The table as TiDB has it: delta:PATH or iceberg:CATALOG.DB.TABLE.")
    partition_by: str | None = option(OUTPUT, "COLUMNS", "Partition columns of a new table.")
    cluster_by: str | None = option(OUTPUT, "COLUMNS", "Clustering columns of a new table.")
    without_key: Literal["refuse", "append"] = option(
        OUTPUT, None, "Tables without a key: refuse them, or append each row once.", default="refuse"
    )
    on_partition_drop: Literal["remove", "keep"] = job_options.ON_PARTITION_DROP
    types: Literal["exact", "typed"] = job_options.TYPES
    replace: bool = flag(OUTPUT, "--replace", "Remove keys that the snapshot lacks and that are not newer.")
    dry_run: bool = flag(OUTPUT, "--dry-run", "Print what would be loaded, and what would stop it.")
    dead_letter: str | None = option(
        ERRORS, "FILE",
        "File for rows with a value that does not fit its column's type. Without it, such a row stops the load.",
    )  # fmt: skip
    reader_features: Literal["minimal", "full"] = job_options.READER_FEATURES
    json: bool = AS_JSON

    def run(self) -> int:
        from ticdc_bridge.cli.codec_arguments import chosen_tables, spark_settings
        from ticdc_bridge.cli.options import check_zone
        from ticdc_bridge.schemas.inputs.table_definitions import statements_of
        from ticdc_bridge.schemas.model.spark_types import SparkTypes
        from ticdc_bridge.spark_jobs.pipeline.job import Job
        from ticdc_bridge.spark_jobs.pipeline.progress import print_counts, print_lines
        from ticdc_bridge.spark_jobs.pipeline.table_choice import TableLayout
        from ticdc_bridge.spark_jobs.snapshots.load_job import LoadJob, plan, run_load, snapshot_config
        from ticdc_bridge.spark_jobs.streaming.sinks import session_of
        from ticdc_bridge.spark_jobs.streaming.table_results import print_tables

        locations = {"--out": self.out, "--changelog": self.changelog, "--versions": self.versions}
        choice, outputs = chosen_tables(self, locations)
        out = next(iter(outputs.values()))
        zone = check_zone("--time-zone", self.time_zone) or "UTC"
        source_zone = check_zone("--source-time-zone", self.source_time_zone) or zone
        job = Job(
            snapshot_config(zone, SparkTypes(self.types), self.on_lossy), merge=self.engine,
            current=self.out is not None, changelog=self.changelog, versions=self.versions, outputs=self.outputs,
            without_key=self.without_key, layout=TableLayout.of(self.partition_by, self.cluster_by),
            on_partition_drop=self.on_partition_drop, private=self.private_columns(choice, self.outputs),
        )  # fmt: skip
        settings = spark_settings(self, True, self.source.removeprefix("dumpling:"), out, *job.more_locations)
        load_job = LoadJob.of(
            job, self.source, out, choice, self.at, self.dump_options, source_zone, self.replace,
            statements_of(self.ddl), self.dead_letter, settings.conf,
        )  # fmt: skip
        if self.in_ is not None:
            self._check_handover(load_job.tso)
        if self.dry_run:
            lines, obstacles = plan(load_job)
            print("\n".join(lines))
            if obstacles:
                print_lines("load: would stop", obstacles)
            return 2 if obstacles else 0
        session = cache(lambda: session_of(job, settings, out, None))
        done = run_load(load_job, session)
        print_tables("load", session(), job, out, [table.table.id for table in load_job.tables])
        counts = {"tso": load_job.tso, "rows": done.rows, "written": done.written, "newer in the table": done.newer,
                  "removed": done.removed, "errors": done.errors}  # fmt: skip
        print_counts("load", counts, self.json, code := int(done.errors > 0))
        return code

    def _check_handover(self, tso: int) -> None:
        """SetupError STOPPED where the topics of --in lack changes from after the TSO."""
        from ticdc_bridge.cli.codec_arguments import kafka_of, registry_wait, schemas_of
        from ticdc_bridge.clients.kafka import TopicChoice
        from ticdc_bridge.schemas.inputs.kafka_settings import TOPIC
        from ticdc_bridge.schemas.inspect.format_lookup import format_named
        from ticdc_bridge.schemas.model.options import Options
        from ticdc_bridge.spark_jobs.pipeline.codec_config import CodecConfig
        from ticdc_bridge.spark_jobs.pipeline.progress import print_lines
        from ticdc_bridge.spark_jobs.snapshots.handover import check_handover

        assert self.in_ is not None
        if not self.in_.removeprefix(TOPIC).strip(" ,") or not self.in_.startswith(TOPIC):
            raise SetupError("USAGE", details=f"load --in {self.in_}: kafka:TOPIC is needed")
        schemas = schemas_of(self.registry, self.schemas, registry_wait(self), format_named(self.format))
        config = CodecConfig(self.format, schemas, Options.of({}, time_zone=self.time_zone or "UTC"))
        topics = TopicChoice(self.in_.removeprefix(TOPIC))
        unknown = f"whether the changefeed began at or before TSO {tso} is not known"
        texts = check_handover(topics, kafka_of(self).settings(), config, tso)
        print_lines("warning", [f"{unknown}: {text}" for text in texts])
