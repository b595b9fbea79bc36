"""`merge`: keep a lake table equal to TiDB's (CDC merge: upsert, delete, DDL)."""

from dataclasses import dataclass, field, replace
from typing import Final, Literal

from ticdc_bridge.cli import job_options
from ticdc_bridge.cli.job_file import JobFileCommand
from ticdc_bridge.cli.options import INPUT, OUTPUT, REPORTS, option
from ticdc_bridge.schemas.model.errors import SetupError

COMMAND_CLASS: Final = JobFileCommand


@dataclass(kw_only=True)
class Merge(job_options.TableSelection, job_options.PrivacyOptions, job_options.JobOptions):
    """Keep a lake table equal to TiDB's (CDC merge: upsert, delete, DDL).

    For each key the change with the highest commit_ts wins; the column `_commit_ts` has it. The columns follow the
    table's DDL: from --ddl, from --history, or from DDL in the topic. Without them (Avro) they follow the registered
    schemas, in which a rename looks like a drop plus an add: columns are added, never removed.

    delta:PATH is written by delta-spark, or by deltalake (pip install deltalake) if Delta's jars can't be fetched:
    deltalake writes the table anew when a column is renamed, dropped or gets another type. A Delta table may also have
    a name, delta:CATALOG.SCHEMA.TABLE; docs/lake.md has the settings of catalogs.

    iceberg:CATALOG.DB.TABLE is written by Iceberg's Spark runtime. The catalog is configured in Spark by --conf.

    Examples:
      ticdc-bridge merge --format avro --registry http://localhost:8081 --ddl history.jsonl \\
          --in kafka:shop_orders --table shop.orders --out delta:/lake/orders
      ticdc-bridge merge --format debezium --in kafka:shop --table shop.orders --out delta:/lake/orders \\
          --stream --checkpoint /lake/_checkpoints/orders --trigger 30s
      ticdc-bridge merge --format canal-json --topics 'tidb_.*' --tables 'shop.*' \\
          --out 'delta:/lake/{schema}/{table}' --stream --checkpoint /lake/_checkpoints/shop
      ticdc-bridge merge … --conf spark.sql.catalog.lake=org.apache.iceberg.spark.SparkCatalog \\
          --conf spark.sql.catalog.lake.type=rest --conf spark.sql.catalog.lake.uri=http://localhost:8181 \\
          --out iceberg:lake.shop.orders
    """

    format: str = job_options.formats(job_options.READ, "Format of the messages:", "--format")
    table: str | None = option(INPUT, "DB.TABLE", "The table; --tables takes several.")
    out: str = field(default="", init=False)
    current: str | None = option(
        OUTPUT, "TABLE",
        "The table as TiDB has it now: delta:PATH or iceberg:CATALOG.DB.TABLE; of several tables with {schema} and "
        "{table}, such as delta:/lake/{schema}/{table}.",
        "--out"
    )  # fmt: skip
    at_once: int = option(OUTPUT, "N", "How many tables are written at the same time.", min=1, default=4)
    engine: str = job_options.engines(
        "Library that writes the table. auto: delta-spark, deltalake if its jars are missing; iceberg-spark for "
        "iceberg:."
    )
    partition_by: str | None = option(OUTPUT, "COLUMNS", "Partition columns of a new table.")
    cluster_by: str | None = option(OUTPUT, "COLUMNS", "Clustering columns of a new table.")
    changelog: str | None = option(OUTPUT, "TABLE", "A table of all changes, appended exactly once.")
    versions: str | None = option(OUTPUT, "TABLE", "A table of all row versions with their validity (SCD type 2).")
    consistent: str | None = option(
        OUTPUT, "TABLE",
        "A table that says which version each table was at a resolved ts; the stream ends micro-batches there. Read it "
        "with `ticdc-bridge at`.",
    )  # fmt: skip
    without_key: Literal['refuse', 'append'] = option(
        OUTPUT, None,
        "Tables without a key: refuse them, or append inserts and count updates and deletes.",
        default="refuse"
    )  # fmt: skip
    order: Literal["commit_ts", "offset"] = option(
        OUTPUT, None,
        "Which of a key's changes wins: the one with the highest commit_ts, or, for messages without one, the last in "
        "Kafka.",
        default="commit_ts"
    )  # fmt: skip
    on_partition_drop: Literal["remove", "keep"] = job_options.ON_PARTITION_DROP
    types: Literal["exact", "typed"] = job_options.TYPES
    openlineage: str | None = option(
        REPORTS, "NAMESPACE",
        "Send an OpenLineage event for each micro-batch of a stream, as a job of this namespace. Its client is "
        "configured by OPENLINEAGE_URL or openlineage.yml.",
    )  # fmt: skip
    spark: bool = option(None, None, "merge always runs in Spark.", "--spark", default=False, hidden=True)
    master: str | None = job_options.MASTER

    def run(self) -> int:
        from ticdc_bridge.cli.codec_arguments import (
            choose_tables,
            default_database,
            read_config,
            table_outputs,
            view_of,
        )
        from ticdc_bridge.cli.job_runner import run_job
        from ticdc_bridge.schemas.inputs.table_definitions import statements_of
        from ticdc_bridge.schemas.inspect.format_lookup import format_named
        from ticdc_bridge.spark_jobs.pipeline.job import Job
        from ticdc_bridge.spark_jobs.pipeline.table_choice import TableChoice, TableLayout, is_rule

        locations = {"--out": self.current, "--changelog": self.changelog, "--versions": self.versions}
        outputs = table_outputs("merge", self.table, locations)
        if len({is_rule(output) for output in outputs.values()}) > 1:
            details = f"{' and '.join(outputs)}: all of them name {{schema}} and {{table}}, or none"
            raise SetupError("USAGE", details=details)
        if self.current is None and any(entry.location for entry in self.outputs):
            details = "[[table]]: target is for the current table, and this job writes none: give --out or omit target"
            raise SetupError("USAGE", details=details)
        if self.order == "offset" and (self.versions or any(entry.versions for entry in self.outputs)):
            details = "--versions needs the changes' commit_ts: it can't be given with --order offset"
            raise SetupError("USAGE", details=details)
        if self.openlineage is not None and not (self.openlineage.strip() and self.stream):
            raise SetupError("USAGE", details="--openlineage NAMESPACE goes with --stream")
        self._check_consistent(outputs)
        self.out = next(iter(outputs.values()))
        chosen = choose_tables(self)
        zoned = self.types == "typed" and format_named(self.format).zone is None
        read = replace(read_config(self, "error", warn=zoned), view=view_of(self), chosen=chosen)
        job = Job(
            read, None, None, self.on_error, merge=self.engine, at_once=self.at_once, current=self.current is not None,
            changelog=self.changelog, versions=self.versions, without_key=self.without_key, outputs=self.outputs,
            order=self.order, layout=TableLayout.of(self.partition_by, self.cluster_by),
            on_partition_drop=self.on_partition_drop, ddl_zone=self.ddl_time_zone or "", consistent=self.consistent,
            private=self.private_columns(chosen or TableChoice.of([self.table or "*.*"]), self.outputs),
        )  # fmt: skip
        return run_job(self, job, statements_of(self.ddl, default_database(self)))

    def _check_consistent(self, outputs: dict[str, str]) -> None:
        """SetupError USAGE where --consistent does not go with the other options."""
        from ticdc_bridge.spark_jobs.io.locations import check_different, table_location_of
        from ticdc_bridge.spark_jobs.pipeline.table_choice import is_rule

        if self.consistent is None:
            return
        location, targets = table_location_of(self.consistent), [*outputs.values(), *(o.location for o in self.outputs)]
        details = ""
        if not self.stream or self.current is None or self.order == "offset":
            details = "--consistent goes with --stream and --out, and with the order of commit_ts"
        elif location is None or is_rule(self.consistent):
            details = f"--consistent {self.consistent}: one delta:PATH or iceberg:CATALOG.DB.TABLE is needed"
        elif any(target is not None and not target.startswith(location.format) for target in targets):
            details = f"--consistent {self.consistent}: give it the format of the tables"
        if details:
            raise SetupError("USAGE", details=details)
        check_different({**outputs, "--consistent": self.consistent})
