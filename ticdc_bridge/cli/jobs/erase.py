"""`erase`: one key's rows leave lake tables."""

import json
import sys
from dataclasses import dataclass
from datetime import UTC, datetime

from ticdc_bridge.cli.job_options import SparkConf, engines
from ticdc_bridge.cli.options import INPUT, option
from ticdc_bridge.schemas.model.errors import SetupError


@dataclass(kw_only=True)
class Erase(SparkConf):
    """Remove the rows of one key from lake tables: current tables, changelogs, row versions, and deleted keys.

    Delete the row in TiDB first. The receipt on stdout has a line of JSON for each table. Older versions have the rows
    until `maintain` removes them. Dead letters, topics, checkpoints and backups are not searched. Exit code 1: no table
    had such a row.

    Examples:
      ticdc-bridge erase --table-at delta:/lake/shop/users --table-at delta:/lake/log/users --key id=17
    """

    table_at: list[str] = option(INPUT, "TABLE", "A table that merge or load wrote (repeatable).", default=...)
    key: list[str] = option(
        INPUT, "COLUMN=VALUE", "A column of the key, and its value as TiDB has it (repeatable).", default=...
    )
    engine: str = engines("Library that changes the table, as for merge.")

    def run(self) -> int:
        from ticdc_bridge.cli.codec_arguments import tables_at
        from ticdc_bridge.spark_jobs.lake.erasure import check_key, erase

        key = {column.strip(): value for column, equals, value in (text.partition("=") for text in self.key) if equals}
        if len(key) != len(self.key):
            raise SetupError("USAGE", details="--key COLUMN=VALUE: each names another column, and its value")
        spark, locations = tables_at(self, self.table_at, self.engine)
        for location in locations.values():
            check_key(spark, self.engine, location, key)
        rows = 0
        for location in locations.values():
            for erased in erase(spark, self.engine, location, key):
                line = {"table": erased.location, "columns": [*key], "rows": erased.rows, "version": erased.version}
                print(json.dumps({**line, "at": datetime.now(UTC).isoformat(timespec="seconds")}), flush=True)
                rows += erased.rows
        text = "older versions have them until `maintain` removes these" if rows else "no table had such a row"
        print(f"erase: rows {rows}: {text}", file=sys.stderr)
        return 0 if rows else 1
