"""Deletes without a commit_ts (Avro has none) in a table of row versions: which version each one ends, and when.

They come after the same changes as in the current table (spark_jobs.lake.untimed_deletes), so the versions that have no
end are its rows. When TiDB deleted the row is not known, only that Kafka had the delete then: the version ends at that
time, or where the row's next version begins, and says by which message.
"""

from collections.abc import Sequence

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F

from ticdc_bridge.spark_jobs.lake.tombstones import Tombstones
from ticdc_bridge.spark_jobs.lake.untimed_deletes import is_early, order_untimed_deletes, with_row_back

MESSAGE = "struct<topic:string,partition:int,offset:bigint,timestamp:timestamp>"
"""Spark type of the message of a delete without a commit_ts."""
_FIELDS = ("topic", "partition", "offset", "timestamp")
_SURE, _ORDERED = 2, 1
"""Turns of such a delete at the commit_ts of the change that it follows: it ends it also where that comes again, or
unless that comes after it (order_untimed_deletes).
"""


def message_sql(position: str) -> str:
    """SQL: a message's position (spark_jobs.lake.untimed_deletes.KAFKA_POSITION) as MESSAGE."""
    values = ", ".join(f"'{field}', {position}.{field.replace('timestamp', 'time')}" for field in _FIELDS)
    return f"CAST(named_struct({values}) AS {MESSAGE})"


def order_ends(
    events: DataFrame, names: Sequence[str], newest: DataFrame, tombstones: Tombstones, clocks_agree: bool, emptied: int
) -> DataFrame:
    """The events of a batch, those of deletes without a commit_ts at the commit_ts of the change that they follow.

    events: `turn`, `opens`, `ts`, `time`, `position`, `row`, `kafka_position`, `is_timed`, key columns `names`, values.
    newest: the commit_ts of each key's newest version that is open, or that such a delete ended (_row_ts), and of the
    open one (_open_ts). clocks_agree, emptied: as order_untimed_deletes has them. Added: `message` of such deletes,
    `moment`; `bound` and `delete_position` as order_untimed_deletes has them; of keys that were deleted before
    `_deleted_until_ts`, `_delete_position`; `early`: whether it opens a version that is not open, and Kafka had it
    before that delete; `late_ts`: the newest commit_ts of these; `passed`: whether it opens a version after a newer
    change in the input: TiCDC sends that again, and the row had ended before.
    """
    deleted = tombstones.by_key(names)
    ordered = events.withColumnRenamed("ts", "commit_ts")
    ordered = order_untimed_deletes(ordered, names, newest.drop("_open_ts"), deleted, clocks_agree, emptied)
    ordered = ordered.withColumnRenamed("commit_ts", "ts").join(newest, [*names], "left")
    early = is_early() & F.col("opens") & ~F.col("ts").eqNullSafe(F.col("_open_ts"))
    ordered = ordered.withColumn("early", F.coalesce(early, F.lit(False)))
    late_ts = F.max(F.when(F.col("early"), F.col("ts"))).over(Window.partitionBy(*names))
    message = F.when(~F.col("is_timed"), F.expr(message_sql("kafka_position")))
    input_order = Window.partitionBy(*names).orderBy("moment", "position", "row")
    before = F.max(F.when(F.col("is_timed"), F.col("ts"))).over(input_order.rowsBetween(Window.unboundedPreceding, -1))
    passed = F.coalesce(F.col("opens") & (F.col("ts") < before), F.lit(False))
    ordered = ordered.withColumns({"message": message, "late_ts": late_ts, "passed": passed})
    # It is made of tables that are written next.
    return ordered.localCheckpoint()


def earlier_deletes(ordered: DataFrame, names: Sequence[str]) -> DataFrame:
    """Events for the deletes of earlier batches that end a change of this one, which Kafka had before them."""
    columns = {"ts": "late_ts", "time": "_delete_position.time", "message": message_sql("_delete_position")}
    ends = ordered.where("late_ts > coalesce(_delete_position.deleted_ts, -1)")
    ends = ends.select(*names, *(F.expr(text).alias(name) for name, text in columns.items())).dropDuplicates([*names])
    return ends.withColumns({"opens": F.lit(False), "turn": F.lit(_ORDERED), "position": F.lit(-1).cast("bigint")})


def turn_of_stored() -> str:
    """SQL: the turn of such a delete that ended a version which is in the table, of columns `ts` (the version's),
    `_deleted_until_ts`, `_delete_position`, `late_ts` and `_row_ts` (order_ends): only the newest one may come back.
    """
    is_sure = "_delete_position IS NULL OR coalesce(ts < greatest(_deleted_until_ts, late_ts, _row_ts), false)"
    return f"if({is_sure}, {_SURE}, {_ORDERED})"


def with_messages(events: DataFrame, names: Sequence[str]) -> DataFrame:
    """The events without these deletes; `message`: of the one that ends the version which an event opens."""
    same = Window.partitionBy(*names, "ts")
    order = F.struct("moment", "position", "row")
    untimed = F.col("message").isNotNull()
    is_new = ~F.coalesce(F.col("early") | F.col("passed"), F.lit(False))
    opened = F.max(F.when(F.col("opens") & is_new, order)).over(same)
    counts = untimed & ((F.col("turn") == _SURE) | opened.isNull() | (order > opened))
    by_time = F.struct("message.timestamp", "message")
    first = F.min(F.when(counts, by_time)).over(same)
    events = events.withColumn("_first", first).where(~untimed).drop("message")
    return events.withColumn("message", F.when(F.col("opens"), F.col("_first.message"))).drop("_first")


def deletions(ordered: DataFrame, names: Sequence[str]) -> DataFrame:
    """The keys to remember, as Tombstones.add_deleted takes them."""
    rows = ordered.where("opens AND NOT early AND ts >= coalesce(_deleted_until_ts, ts)")
    stored = with_row_back("_delete_position", "ts")
    back = rows.select(*names, F.when(F.expr("ts <= _delete_position.deleted_ts"), stored).alias("back"))
    back = back.groupBy(*names).agg(F.max("back").alias("back"))
    last = F.max(F.struct("moment", "position", "row", "ts", "opens")).alias("last")
    keys = ordered.groupBy(*names).agg(
        F.max(F.greatest("bound", "late_ts")).alias("deleted_until_ts"),
        F.max("delete_position").alias("delete_position"),
        last,
    )
    keys = keys.join(back, [*names], "left")
    opened = with_row_back("delete_position", "last.ts")
    position = F.when(F.col("last.opens"), opened).otherwise(F.col("delete_position"))
    keys = keys.select(*names, "deleted_until_ts", F.coalesce(position, "back").alias("delete_position"))
    return keys.where("deleted_until_ts IS NOT NULL OR delete_position IS NOT NULL")
