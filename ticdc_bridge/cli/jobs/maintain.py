"""`maintain`: the upkeep of lake tables."""

from dataclasses import dataclass
from math import ceil

from ticdc_bridge.cli.job_options import SparkConf, engines
from ticdc_bridge.cli.options import INPUT, OUTPUT, option
from ticdc_bridge.schemas.model.errors import SetupError

_DAY = 86_400.0


@dataclass(kw_only=True)
class Maintain(SparkConf):
    """Compact lake tables, and remove what is too old to be needed: versions, deleted keys, changes.

    A stream may write the tables meanwhile. Choose --keep longer than the changefeed can go back (its gc-ttl), Kafka
    keeps messages, and readers need old versions. A change that comes later than that stops merge.

    Examples:
      ticdc-bridge maintain --table-at delta:/lake/shop/orders --table-at delta:/lake/shop/items --keep 14d
      ticdc-bridge maintain --table-at iceberg:lake.log.orders --keep-changes 90d
    """

    table_at: list[str] = option(INPUT, "TABLE", "A table that merge or load wrote (repeatable).", default=...)
    keep: str = option(OUTPUT, "TIME", "How long versions and deleted keys stay: 7d, 36h.", default="7d")
    keep_changes: str | None = option(OUTPUT, "DAYS", "How long changes stay in a changelog: 90d. Default: for ever.")
    engine: str = engines("Library that changes the table, as for merge.")

    def run(self) -> int:
        from ticdc_bridge.cli.codec_arguments import seconds, tables_at
        from ticdc_bridge.spark_jobs.lake.upkeep import maintain
        from ticdc_bridge.spark_jobs.pipeline.progress import print_lines, report_slow_steps
        from ticdc_bridge.spark_jobs.spark.session import running_tasks

        keep, days = seconds(self.keep, "--keep"), None
        if self.keep_changes is not None:
            days = ceil(seconds(self.keep_changes, "--keep-changes") / _DAY)
        if keep < _DAY or (days is not None and days * _DAY < keep):
            details = "--keep is at least 1d, --keep-changes at least as long: else a repeated change could come twice"
            raise SetupError("USAGE", details=details)
        spark, locations = tables_at(self, self.table_at, self.engine)
        for text, location in locations.items():
            with report_slow_steps(f"maintain: {text}", 10, lambda: running_tasks(spark)):
                print_lines(f"maintain: {text}", maintain(spark, self.engine, location, ceil(keep / 3600), days))
        return 0
