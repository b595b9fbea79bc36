"""Which version each table of the lake was at a time: the table of `merge --consistent`, commits of one table, SQL."""

from collections.abc import Collection, Sequence
from itertools import starmap
from typing import NamedTuple

from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from ticdc_bridge.schemas.model.errors import SetupError
from ticdc_bridge.schemas.model.event import tso_physical_ms
from ticdc_bridge.schemas.model.names import quote_ansi, quote_name
from ticdc_bridge.spark_jobs.io.locations import TableLocation, is_catalog_name, split_table_name, table_location_of
from ticdc_bridge.spark_jobs.lake import changelog, commit_summary, row_versions, tables
from ticdc_bridge.spark_jobs.lake.engines.base import AUTO, LakeTable, TableColumn
from ticdc_bridge.spark_jobs.lake.engines.delta_files import sql_name
from ticdc_bridge.spark_jobs.lake.tombstones import COMMIT_TS
from ticdc_bridge.spark_jobs.spark.sql_expressions import sql_literal

_COLUMNS = {
    "resolved_ts": "bigint", "time": "timestamp", "table": "string", "version": "bigint", "location": "string"
}  # fmt: skip
_MS = {"spark": "unix_millis({})", "duckdb": "epoch_ms({})", "trino": "to_unixtime({}) * 1000"}
"""SQL by engine: the milliseconds of a time."""
_AS_OF = {"spark": "VERSION AS OF {}", "duckdb": "AT (VERSION => {})", "trino": "FOR VERSION AS OF {}"}


# ---- the table of --consistent
class TablePoint(NamedTuple):
    """A table of TiDB (DB.TABLE), and the version of its table of the lake.

    newest_ts: of changes in it that are above the resolved ts, -1 where there are none. noted_ts: the resolved ts.
    """

    table: str
    version: int
    newest_ts: int
    noted_ts: int


def point_of(table: str, lake_table: LakeTable, tombstones: LakeTable, resolved: int) -> TablePoint | None:
    """The point of a current table as it is now; None where nothing was ever in it. tombstones: its deleted keys."""
    if not lake_table.exists() or (version := lake_table.version()) is None:
        return None
    frames = [lake_table.read_at(version), *([tombstones.read()] if tombstones.exists() else [])]
    newest = [f.where(F.col(COMMIT_TS) > resolved).agg(F.max(COMMIT_TS)).collect()[0][0] for f in frames]
    return TablePoint(table, version, max((ts for ts in newest if ts is not None), default=-1), resolved)


def add_points(spark: SparkSession, lake_table: LakeTable, resolved: int, points: dict[str, TablePoint]) -> None:
    """Adds a row for each table, by its location, in one commit; the same rows again change nothing."""
    if not lake_table.exists():
        lake_table.create([*starmap(TableColumn, _COLUMNS.items())], {})
    is_recorded = (F.col("resolved_ts") == resolved) & F.col("location").isin(*points)
    if not lake_table.read().where(is_recorded).isEmpty():
        return
    rows = [(resolved, point.table, point.version, location) for location, point in sorted(points.items())]
    frame = spark.createDataFrame(rows, "resolved_ts bigint, table string, version bigint, location string")
    frame = frame.withColumn("time", F.timestamp_millis(F.lit(tso_physical_ms(resolved))))
    lake_table.add_rows(frame.select(*_COLUMNS).coalesce(1))


def is_table_of_points(columns: Collection[str]) -> bool:
    """True if a table with these columns is one of --consistent."""
    return _COLUMNS.keys() <= {*columns}


# ---- reading a table as it was
class Reading(NamedTuple):
    """How a table of the lake is read as it was.

    table: DB.TABLE, or its location's last part. commit_ts: up to where it has TiDB's changes, if that is known;
    exactly: how near that is to the time asked for. version: None: the newest. columns: name and type of each then.
    where: SQL of its rows, by the engine's name; {} for all. folder: where a Delta table's files are.
    """

    table: str
    location: TableLocation
    commit_ts: int | None
    exactly: str
    version: int | None
    columns: Sequence[tuple[str, str]]
    where: dict[str, str]
    folder: str

    def sql(self) -> dict[str, str]:
        """The query by the engine's name. Trino is taken to have Delta tables in a catalog `delta`, by the names that
        they have in another catalog, or by TiDB's.
        """
        name, as_of = self.location.name, {k: "" if self.version is None else f" {v}" for k, v in _AS_OF.items()}
        if self.location.format == "iceberg":
            parts = split_table_name(name)
            ansi = ".".join(map(quote_ansi, parts))
            names = dict.fromkeys(_AS_OF, ansi) | {"spark": ".".join(map(quote_name, parts))}
        else:
            path = sql_literal(self.folder.replace("s3a://", "s3://"))
            argument, as_of["duckdb"] = "" if self.version is None else f", version => {self.version}", ""
            names_there = name.split(".")[1:] if is_catalog_name(name) else self.table.split(".", 1)
            trino = ".".join(map(quote_ansi, ("delta", *names_there)))
            names = {"spark": sql_name(name), "duckdb": f"delta_scan({path}{argument})", "trino": trino}
        where = {engine: f" WHERE {text}" for engine, text in self.where.items()}
        return {e: f"SELECT * FROM {names[e]}{as_of[e].format(self.version)}{where.get(e, '')}" for e in _AS_OF}


def read_points(spark: SparkSession, location: TableLocation, commit_ts: int | None) -> list[Reading]:
    """Each table at the newest resolved ts of a table of --consistent, up to `commit_ts` (None: of all).

    SetupError USAGE where it is no such table; STOPPED where it has no row up to there.
    """
    lake_table = tables.engine_of(spark, AUTO, location.format)(spark, location.name)
    frame = lake_table.read() if lake_table.exists() else None
    if frame is None or not is_table_of_points(frame.columns):
        raise SetupError("USAGE", details=f"--consistent {location}: no table that merge --consistent wrote")
    rows = frame if commit_ts is None else frame.where(F.col("resolved_ts") <= commit_ts)
    resolved, oldest = rows.agg(F.max("resolved_ts")).collect()[0][0], frame.agg(F.min("resolved_ts")).collect()[0][0]
    if resolved is None:
        raise SetupError("STOPPED", where=str(location), details=f"its oldest resolved ts is {oldest}")
    found = list[Reading]()
    for row in rows.where(F.col("resolved_ts") == resolved).orderBy("table").collect():
        at = table_location_of(row["location"])
        assert at is not None
        table = tables.engine_of(spark, AUTO, at.format)(spark, at.name)
        columns, version = table.read_at(row["version"]).dtypes, row["version"]
        found.append(Reading(row["table"], at, resolved, "to the resolved ts", version, columns, {}, _folder_of(table)))
    return found


def read_commits(spark: SparkSession, location: TableLocation, commit_ts: int | None) -> Reading:
    """A table by what it says itself: row versions and changelogs by their rows, a current table by its commits.

    commit_ts: None: the newest. SetupError USAGE where there is no table; STOPPED where no commit tells the commit_ts
    of its changes, or the oldest one is newer.
    """
    lake_table = tables.engine_of(spark, AUTO, location.format)(spark, location.name)
    if not lake_table.exists():
        raise SetupError("USAGE", details=f"--lake {location}: there is no table")
    columns = lake_table.read().dtypes
    names, name = {column for column, _ in columns}, location.name.rstrip("/").rpartition("/")[2].rpartition(".")[2]
    if row_versions.MESSAGE in names or changelog.CHANGE in names:
        where = _rows_until(commit_ts, row_versions.MESSAGE in names)
        return Reading(name, location, commit_ts, "to the row", None, columns, where, _folder_of(lake_table))
    commits = [commit for commit in lake_table.commits() if commit_summary.COMMIT_TS in commit.facts]
    newest = [int(commit.facts[commit_summary.COMMIT_TS]) for commit in commits]
    # A late change may be in a newer commit: all up to the one that is taken have to be old enough.
    last = next((n for n in reversed(range(len(commits))) if commit_ts is not None and newest[n] > commit_ts), -1)
    if last + 1 >= len(commits):
        details = (
            f"its oldest commit has changes up to {newest[-1]}" if commits else "its commits don't say their commit_ts"
        )
        raise SetupError("STOPPED", where=str(location), details=details)
    exactly = f"to the batch; the next one has changes up to {newest[last]}" if last >= 0 else "to the newest batch"
    frame = lake_table.read_at(version := commits[last + 1].version)
    if commit_ts is not None and not frame.where(F.col(COMMIT_TS) > commit_ts).isEmpty():
        raise SetupError("STOPPED", where=str(location), details=f"version {version} has rows of a later load")
    at_ts = max(newest[last + 1 :])
    return Reading(name, location, at_ts, exactly, version, frame.dtypes, {}, _folder_of(lake_table))


def _folder_of(table: LakeTable) -> str:
    return table.folder() if table.location.startswith("delta:") else ""


def _rows_until(commit_ts: int | None, are_versions: bool) -> dict[str, str]:
    """SQL of the rows of row versions that were valid at a commit_ts, or of a changelog's rows up to there."""
    if commit_ts is None:
        return dict.fromkeys(_AS_OF, f"{row_versions.TO} IS NULL") if are_versions else {}
    if not are_versions:
        time, until = changelog.KIND.time_column, tso_physical_ms(commit_ts)  # a delete of Avro has its message's time
        by_time = {
            engine: f"{time} IS NULL AND {ms.format('_kafka_timestamp')} <= {until}" for engine, ms in _MS.items()
        }
        return {engine: f"{time} <= {commit_ts} OR {text}" for engine, text in by_time.items()}
    to, to_ts = row_versions.TO, row_versions.TO_TS
    begun, lasts = f"{row_versions.FROM_TS} <= {commit_ts}", f"{to} IS NULL OR {to_ts} > {commit_ts}"
    # One that was ended by a delete without a commit_ts has its time alone.
    by_time = {
        engine: f"{to_ts} IS NULL AND {ms.format(to)} > {tso_physical_ms(commit_ts)}" for engine, ms in _MS.items()
    }
    return {engine: f"{begun} AND ({lasts} OR {text})" for engine, text in by_time.items()}
