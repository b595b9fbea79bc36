"""Changes of Debezium's MySQL and MariaDB connectors in `merge`: their binlog positions stand for commit_ts.

Nobody can tell by a position which of them are older than a statement, so all must have the columns of the one
definition, and a table is ordered by positions or by commit_ts, never by both.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from pyspark.sql import functions as F

from ticdc_bridge.schemas.model.errors import SetupError
from ticdc_bridge.schemas.model.table import Table, TableId
from ticdc_bridge.spark_jobs.pipeline.event_order import BINLOG_ORDER, BINLOG_SERVER

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from pyspark.sql import Column, DataFrame

    from ticdc_bridge.spark_jobs.lake.engines.base import LakeTable

ORDER, SERVERS = "bridge.order", "bridge.binlog_servers"
"""Table properties: "binlog" where positions order the changes; whose they are (`check_servers`)."""
_ANY = (1 << 63) - 1
_TRUNCATE = 11  # TiDB's ActionType
_MISMATCH = "definition_mismatch:"


def are_by_binlog(changes: DataFrame, ours: Column, id_: TableId) -> bool | None:
    """Whether positions order these changes (spark_jobs.arrow.change_schema.CHANGES); None: they do not say, as where
    there are only null values. ours: events of the table.

    SetupError STOPPED where some have a commit_ts, or a TRUNCATE stands among them: nobody can tell what comes before
    it.
    """
    by_binlog, row = F.array_contains("flags", BINLOG_ORDER), F.col("kind") == "row"
    counts = changes.where(ours).agg(
        F.count_if(row & by_binlog).alias("binlog"),
        F.count_if(row & ~by_binlog & F.col("commit_ts").isNotNull()).alias("timed"),
        F.count_if((F.col("kind") == "ddl") & (F.col("ddl_type") == _TRUNCATE)).alias("truncates"),
    )
    found: Any = counts.collect()[0]
    if found["binlog"] and found["timed"]:
        details = f"{found['binlog']} changes have a binlog position and {found['timed']} a commit_ts: merge them apart"
        raise SetupError("STOPPED", where=str(id_), details=details)
    if found["binlog"] and found["truncates"]:
        details = (
            "a TRUNCATE TABLE without a commit_ts: nobody can tell which changes come before it. Begin with another"
            " table, and the changes after it"
        )
        raise SetupError("STOPPED", where=str(id_), details=details)
    return bool(found["binlog"]) if found["binlog"] or found["timed"] else None


def stored_order(tables: Iterable[LakeTable]) -> bool | None:
    """Whether positions order the rows of the first of the tables that is there; None: none is."""
    there = next((table for table in tables if table.exists()), None)
    return None if there is None else there.properties().get(ORDER) == "binlog"


def check_columns(changes: DataFrame, table: Table) -> None:
    """SetupError STOPPED for a row that does not have the columns of the definition, or has them of another type."""
    columns = [c for c in table.columns if not c.virtual]
    names = F.array(*(F.lit(c.name.lower()) for c in columns))
    needed = [c.name.lower() for c in columns if not c.nullable or c.default is not None]
    have = F.transform(F.map_keys("after"), F.lower)
    other = F.array_except(have, names)
    lacking = F.array_except(F.array(*map(F.lit, needed)).cast("array<string>"), have)
    mismatch = F.expr(f"get(filter(flags, f -> startswith(f, '{_MISMATCH}')), 0)")
    first = F.when(F.col("after").isNotNull(), F.coalesce(F.get(other, 0), F.get(lacking, 0)))
    odd = F.coalesce(F.substring_index(mismatch, ":", -1), first).alias("name")
    row = changes.select(odd).where("name IS NOT NULL").first()
    if row is not None:
        details = (
            f"column {row['name']}: a change does not have it as the definition does, and a binlog position does not"
            " tell whether the change is older. Give the definition that the changes have (--ddl), and merge those from"
            " before it was changed into another place"
        )
        raise SetupError("STOPPED", where=str(table.id), details=details)


def check_servers(changes: DataFrame, stored: str | None, newest: Callable[[], int | None], id_: TableId) -> str | None:
    """What to keep of the servers (JSON: newest transaction by server, null: not known), where it is not `stored`.

    newest: the newest position of the table. After a failover the connector reads another server's binlog, whose files
    have numbers of their own: a transaction that was not there before at an earlier position than one that was. Sent
    again is what has a number that was there. SetupError STOPPED.
    """
    known: dict[str, int | None] = json.loads(stored) if stored else {}
    flag = F.get(F.filter("flags", lambda f: F.startswith(f, F.lit(BINLOG_SERVER))), 0)
    told = F.split(F.substring(flag, len(BINLOG_SERVER) + 1, 1 << 20), " ", 2)
    where = F.struct("source.topic", "source.partition")
    rows = changes.select("commit_ts", "position", "row", where.alias("place"), told[1].alias("server"),
                          told[0].cast("bigint").alias("number")).where("server IS NOT NULL")  # fmt: skip
    there = {r["server"]: r["number"] for r in rows.groupBy("server").agg(F.max("number").alias("number")).collect()}
    servers = {*known, *there}
    if len(servers) > 1:
        _refuse_failover(rows, known, newest() if known else None, id_)
    if len(servers) < 2 and known:
        return None  # one server alone has one binlog: its numbers need not be kept
    merged = {server: _larger(known.get(server), there.get(server)) for server in sorted(servers)}
    text = json.dumps(merged if len(servers) > 1 else dict.fromkeys(merged))
    return text if servers and text != stored else None


def _larger(one: int | None, other: int | None) -> int | None:
    return max((n for n in (one, other) if n is not None), default=None)


def _refuse_failover(rows: DataFrame, known: Mapping[str, int | None], newest: int | None, id_: TableId) -> None:
    from pyspark.sql import Window

    numbers = {server: _ANY if number is None else number for server, number in known.items()}
    before = F.coalesce(*(F.when(F.col("server") == s, F.lit(n)) for s, n in numbers.items()), F.lit(-1))
    read = Window.partitionBy("place").orderBy("position", "row").rowsBetween(Window.unboundedPreceding, -1)
    of_server = Window.partitionBy("place", "server").orderBy("position", "row")
    last = F.max("number").over(of_server.rowsBetween(Window.unboundedPreceding, -1))
    is_new = F.col("number") > F.greatest(before, F.coalesce(last, F.lit(-1)))
    position = F.greatest(F.max("commit_ts").over(read), F.lit(newest).cast("bigint"))
    row = rows.withColumn("other", is_new & (F.col("commit_ts") < position)).where("other").first()
    if row is not None:
        details = (
            f"a change of another server ({row['server']}) has an earlier binlog position than changes that were read"
            " before it, as after a failover: the two servers' positions can't be compared. Let the connector take a"
            " new snapshot, and merge it and what follows it into another place"
        )
        raise SetupError("STOPPED", where=str(id_), details=details)


def check_order(properties: dict[str, str], by_binlog: bool, location: str) -> None:
    """SetupError STOPPED where the rows of the table of the lake came by the other order."""
    if (properties.get(ORDER) == "binlog") != by_binlog:
        words = ("commit_ts", "binlog position")
        details = (
            f"its rows are ordered by {words[not by_binlog]}, and these changes have a {words[by_binlog]}:"
            " the two can't be compared. Merge them into another place"
        )
        raise SetupError("STOPPED", where=location, details=details)
