"""Deletes without a commit_ts (Avro has none) in `merge`: where Kafka has them says what they come after.

A message's position is its topic, partition and offset, and Kafka's time of it. Within a partition offsets are
the order; between two (a topic got more partitions, a table another topic) the times are.
"""

from collections.abc import Sequence

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

KAFKA_POSITION = "struct<topic:string,partition:int,offset:bigint,time:timestamp,deleted_ts:bigint>"
"""Spark type of a message's position, NULL where a file tells none. deleted_ts: the commit_ts of what it deleted."""

CLOCKS_AGREE = "coalesce(min(unix_millis(source.timestamp) - shiftright(commit_ts, 18)) >= 0, false)"
"""SQL: whether no message of these changes was in Kafka before its commit, by Kafka's clock and TiDB's."""


def kafka_position() -> Column:
    """The position of a change event (spark_jobs.arrow.change_schema.SOURCE), as `kafka_position`."""
    fields = ("source.topic", "source.partition", "source.offset", "source.timestamp", F.lit(None).cast("bigint"))
    return F.struct(*fields).cast(KAFKA_POSITION).alias("kafka_position")


def is_since(emptied: int) -> Column:
    """Whether a change is newer than a commit_ts, or has none."""
    return F.col("commit_ts").isNull() | (F.col("commit_ts") > emptied)


def is_before(position: str, other: str, or_same: bool = False) -> Column:
    """Whether a position (a column's name) is before another in Kafka; false where it is not known.

    A topic that was deleted and made again has its offsets anew: an offset counts where its time does not contradict.
    """
    compare = "<=" if or_same else "<"
    within = f"{position}.offset {compare} {other}.offset AND coalesce({position}.time <= {other}.time, true)"
    same = f"{position}.topic <=> {other}.topic AND {position}.partition <=> {other}.partition"
    return F.expr(f"coalesce(if({same}, {within}, {position}.time < {other}.time), false)")


def order_untimed_deletes(
    changes: DataFrame, names: Sequence[str], rows: DataFrame, deleted_keys: DataFrame, clocks_agree: bool,
    emptied: int = -1,
) -> DataFrame:  # fmt: skip
    """The changes, each delete without a commit_ts with that of the newest change before it, in the input or the table.

    changes: commit_ts, turn, position, row, kafka_position, `is_timed` (it has a commit_ts), key columns `names`. rows:
    the commit_ts (_row_ts) of the rows that are there. deleted_keys: up to where changes are late (_deleted_until_ts)
    and the position of the last such delete (_delete_position), as Tombstones.by_key has them; both are kept.
    clocks_agree: Kafka has no message before its commit, so a delete that it had before the row's commit is older than
    the row. emptied: the commit_ts of the last TRUNCATE.

    Of a key that was deleted before, a delete may be that one sent again, and the change that follows the row's: there
    the order of the input decides. Another one ends also what comes again. `bound`: up to where other changes are late
    after the delete. A delete that was read before is left out. `delete_position`: of the key's last one.
    """
    untimed, key = ~F.col("is_timed"), Window.partitionBy(*names)
    of = changes.where(untimed).select(*names).distinct()
    ordered = changes.join(of.join(rows, [*names], "left"), [*names], "left").join(deleted_keys, [*names], "left")
    ordered = ordered.where(F.col("is_timed") | ~_was_applied())
    where = F.struct("kafka_position.topic", "kafka_position.partition")
    moment = F.when(F.min(where).over(key) < F.max(where).over(key), F.col("kafka_position.time"))
    ordered = ordered.withColumn("moment", moment)
    input_order = key.orderBy("moment", "position", "row")
    before, so_far = (input_order.rowsBetween(Window.unboundedPreceding, end) for end in (-1, 0))
    # Nothing is stored of the row's position: Kafka's clock tells, where it agrees with TiDB's (docs/decisions/0042).
    had_before = "kafka_position.time < timestamp_millis(shiftright(_row_ts, 18))" if clocks_agree else "false"
    ordered = ordered.withColumn("is_older", untimed & F.coalesce(F.expr(had_before), F.lit(False)))
    # What the table has is before the delete, too: a change of the input before it may be one that was sent again
    # (docs/decisions/0042). Not if that is older than a TRUNCATE: then the delete is (0040). Nor if the row is newer:
    # the delete is that of the change.
    newest = F.max("commit_ts").over(so_far)
    is_of_input = (newest <= emptied) | F.col("is_older")
    slot = F.when(is_of_input, F.coalesce(newest, F.expr("_row_ts - 1"))).otherwise(F.greatest(newest, "_row_ts"))
    ordered = ordered.withColumn("slot", F.coalesce("commit_ts", slot))
    # The commit_ts of a delete that nothing came before is not known: -1, before all others.
    earlier_slot = F.min(F.when(untimed, F.coalesce("slot", F.lit(-1)))).over(before)
    stored_slot = F.when(F.col("_was_deleted"), F.coalesce(F.col("_deleted_until_ts") - 1, F.lit(-1)))
    again = F.coalesce(F.least(earlier_slot, stored_slot) < F.col("slot"), F.lit(False)) | F.col("is_older")
    ordered = ordered.withColumn("again", again)
    turn = F.when(F.col("is_timed"), F.col("turn")).when(F.col("again"), 1).otherwise(2)
    bound = F.when(untimed, F.when(F.col("again"), F.col("slot")).otherwise(F.col("slot") + 1))
    with_slot = F.col("kafka_position").withField("deleted_ts", F.col("slot")).alias("kafka_position")
    last = F.max(F.when(untimed, F.struct("moment", "position", "row", with_slot))).over(key)
    ordered = ordered.withColumns(
        {"turn": turn, "bound": bound, "commit_ts": F.col("slot"), "delete_position": last["kafka_position"]}
    )
    return ordered.drop("_row_ts", "_was_deleted", "slot", "again", "is_older")


def order_changes(
    changes: DataFrame, names: Sequence[str], rows: DataFrame | None, deleted_keys: DataFrame, clocks_agree: bool,
    emptied: int,
) -> tuple[DataFrame, Column, list[Column]]:  # fmt: skip
    """The changes with `delete_position` and `early` (`is_early`), up to where others of their key are late, and what
    orders a key's, the last one first.

    As order_untimed_deletes; rows None: no delete without a commit_ts is among them. message: of deletes after which
    null values may come; those stay, too, where they are older than the last TRUNCATE.
    """
    key, order = Window.partitionBy(*names), [F.desc_nulls_last("commit_ts"), F.desc("turn")]
    bound = F.lit(None).cast("bigint")
    if rows is None:
        changes = changes.join(deleted_keys.drop("_was_deleted"), [*names], "left")
        changes = changes.withColumn("delete_position", F.lit(None).cast(KAFKA_POSITION))
    else:
        changes = order_untimed_deletes(changes, names, rows, deleted_keys, clocks_agree, emptied)
        changes = changes.where(~F.col("is_timed") | is_since(emptied) | F.col("message").isNotNull())
        bound, order = F.max("bound").over(key), [*order, F.desc("moment")]
    changes = changes.withColumn("early", F.coalesce(is_early(), F.lit(False)))
    bound = F.greatest(bound, F.max(F.when(F.col("early"), F.col("commit_ts"))).over(key))
    return changes, bound, [F.asc("early"), *order]


def is_early() -> Column:
    """Whether a change that brings a row was in Kafka before its key's stored delete."""
    return F.col("is_timed") & (F.col("turn") == 1) & is_before("kafka_position", "_delete_position")


def with_row_back(position: str, commit_ts: str) -> Column:
    """The position of a delete (a column's name) after a change that may follow it: that brings the row back that it
    deleted, which is no row that is left of a job that was killed (`_was_applied`).
    """
    is_back = F.expr(f"coalesce({commit_ts} <= {position}.deleted_ts, false)")
    without = F.col(position).withField("deleted_ts", F.col(commit_ts) - 1)
    return F.when(is_back, without).otherwise(F.col(position))


def _was_applied() -> Column:
    """Whether a delete was read before. The last one is known before its row goes: a job may have been killed then."""
    is_last = ~is_before("kafka_position", "_delete_position")
    is_left = F.coalesce(F.col("_row_ts") <= F.col("_delete_position.deleted_ts"), F.lit(False))
    return is_before("kafka_position", "_delete_position", or_same=True) & ~(is_last & is_left)
