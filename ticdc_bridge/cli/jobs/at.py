"""`at`: which version lake tables were at one time, and SQL that reads them so."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from ticdc_bridge.cli.job_options import SparkConf
from ticdc_bridge.cli.options import INPUT, format_out, milliseconds, option
from ticdc_bridge.schemas.model.errors import SetupError

if TYPE_CHECKING:
    from ticdc_bridge.spark_jobs.lake.points_in_time import Reading


@dataclass(kw_only=True)
class At(SparkConf):
    """Show how to read lake tables as they were at one time: version, columns, and SQL for Spark, DuckDB and Trino.

    --consistent reads the table that `merge --consistent` writes: all tables at the newest resolved ts up to the time.
    --lake reads one table alone: row versions and a changelog are exact to the row, a current table to the
    micro-batch, whose commit has its commit_ts. Without a time: the newest.

    Examples:
      ticdc-bridge at --consistent delta:/lake/_consistent --time 2026-11-26T10:00:00Z --format sql
      ticdc-bridge at --lake delta:/lake/shop/orders --commit-ts 462554534904397825
    """

    consistent: str | None = option(INPUT, "TABLE", "The table that merge --consistent writes.")
    lake: str | None = option(INPUT, "TABLE", "One table: a current table, row versions or a changelog.")
    time: int | None = option(
        INPUT, "TIME", "The time: 2026-11-26T10:00:00Z (UTC without a zone), or ms since 1970.", parser=milliseconds
    )
    commit_ts: int | None = option(INPUT, "N", "The commit_ts, instead of a time.")
    tables: list[str] = option(INPUT, "PATTERNS", "Only these tables, by TiDB's table filter (repeatable).", default=[])
    format: Literal["text", "json", "sql"] = format_out("For people (text), programs (json), or SQL alone.")

    def run(self) -> int:
        from ticdc_bridge.cli.codec_arguments import spark_settings
        from ticdc_bridge.schemas.model.event import ms_to_tso
        from ticdc_bridge.schemas.model.table import TableId
        from ticdc_bridge.spark_jobs.io.locations import table_location_of
        from ticdc_bridge.spark_jobs.lake import tables
        from ticdc_bridge.spark_jobs.lake.engines.base import AUTO
        from ticdc_bridge.spark_jobs.lake.points_in_time import read_commits, read_points
        from ticdc_bridge.spark_jobs.pipeline.table_choice import TableChoice

        text = self.consistent or self.lake or ""
        location = table_location_of(text)
        if location is None or (self.consistent and self.lake):
            details = "which table? Give --consistent TABLE or --lake TABLE (delta:PATH or iceberg:CATALOG.DB.TABLE)"
            raise SetupError("USAGE", details=details)
        if self.time is not None and self.commit_ts is not None:
            raise SetupError("USAGE", details="--time and --commit-ts are two times: give one of them")
        commit_ts = self.commit_ts if self.time is None else ms_to_tso(self.time + 1) - 1  # the last of the millisecond
        settings, choice = spark_settings(self, True, text), TableChoice.of(self.tables or ["*.*"])
        spark = tables.session(settings, [location.format], by=AUTO)
        if self.consistent is not None:
            readings = read_points(spark, location, commit_ts)
            self._print([r for r in readings if choice.takes(TableId(*r.table.split(".", 1)))])
        else:
            self._print([read_commits(spark, location, commit_ts)])
        return 0

    def _print(self, readings: list[Reading]) -> None:
        from ticdc_bridge.spark_jobs.pipeline.progress import when_and_age

        if self.format == "json":
            print(json.dumps([{
                "table": r.table, "location": str(r.location), "commit_ts": r.commit_ts, "exactly": r.exactly,
                "version": r.version, "columns": [{"name": n, "type": kind} for n, kind in r.columns], "sql": r.sql(),
            } for r in readings], indent=2))  # fmt: skip
            return
        for reading in readings:
            at = reading.commit_ts
            when = "the newest" if at is None else f"commit_ts {at} ({when_and_age(at)})"
            version = "" if reading.version is None else f", version {reading.version}"
            mark = "-- " if self.format == "sql" else ""
            print(f"{mark}{reading.table}: {reading.location}{version}: {when}, {reading.exactly}")
            if self.format == "sql":
                print("".join(f"-- {engine}\n{query};\n" for engine, query in reading.sql().items()))
            else:
                print("".join(f"  {name} {kind}\n" for name, kind in reading.columns), end="")
