"""Deletes without a commit_ts (Avro has none) in `merge`: where Kafka has them says what they come after.

A message's position is its topic, partition and offset, and Kafka's time of it. Within a partition offsets are
the order; between two (a topic got more partitions, a table another topic) the times are.
"""

from collections.abc import Sequence
from typing import NamedTuple

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


# ---- one key's changes, without Spark
class KafkaPosition(NamedTuple):
    """As KAFKA_POSITION. time: in microseconds."""

    topic: str | None
    partition: int | None
    offset: int | None
    time: int | None
    deleted_ts: int | None = None

    def is_before(self, other: "KafkaPosition | None", or_same: bool = False) -> bool:
        """As the function `is_before` has it of columns; other None: of no delete."""
        if other is None or self[:2] != other[:2]:
            return other is not None and _is_less(self.time, other.time)
        is_same = or_same and self.offset is not None and self.offset == other.offset
        return not _is_less(other.time, self.time) and (is_same or _is_less(self.offset, other.offset))

    def with_row_back(self, commit_ts: int) -> "KafkaPosition":
        """As the function `with_row_back` has it."""
        is_back = self.deleted_ts is not None and commit_ts <= self.deleted_ts
        return self._replace(deleted_ts=commit_ts - 1) if is_back else self


class KeyChange(NamedTuple):
    """A change of a key. number: of its row; commit_ts: None of a delete that has none; order: position and row."""

    number: int
    commit_ts: int | None
    is_deleted: bool
    order: tuple[int, int]
    source: KafkaPosition


class StoredKey(NamedTuple):
    """What is known of a key. row_ts: of its row, None: there is none. was_deleted: it is one of the deleted keys, with
    until_ts, up to where changes are late, and the position of its last delete without a commit_ts.
    """

    row_ts: int | None = None
    was_deleted: bool = False
    until_ts: int | None = None
    position: KafkaPosition | None = None


class LastChange(NamedTuple):
    """The last change of a key. commit_ts: rows that are older are replaced, None: any is. until_ts, position: to be
    remembered of its deletes, None: nothing.
    """

    change: KeyChange
    commit_ts: int | None
    is_late: bool
    until_ts: int | None
    position: KafkaPosition | None


def last_change(changes: Sequence[KeyChange], stored: StoredKey, clocks_agree: bool) -> LastChange | None:
    """What order_untimed_deletes, order_changes and Tombstones.mark_late find for one key. None: all was read before.

    changes: all of the key in a batch, newer than the last TRUNCATE where they have a commit_ts.
    """
    row_ts, position = stored.row_ts, stored.position
    changes = [c for c in changes if c.commit_ts is not None or not _was_read(c.source, stored)]
    if not changes:
        return None
    has_moved = len({c.source[:2] for c in changes}) > 1

    def moment(change: KeyChange) -> int:
        return change.source.time if has_moved and change.source.time is not None else -1

    newest = earlier = until_ts = deleted_at = None
    if stored.was_deleted:
        earlier = -1 if stored.until_ts is None else stored.until_ts - 1
    ranked = list[tuple[tuple[bool, bool, int, int, int, tuple[int, int]], KeyChange, int | None]]()
    for change in sorted(changes, key=lambda c: (moment(c), c.order)):
        slot, turn, is_early = change.commit_ts, int(not change.is_deleted), False
        if slot is not None:
            newest = latest(newest, slot)
            is_early = not change.is_deleted and change.source.is_before(position)
            until_ts = latest(until_ts, slot if is_early else None)
        else:
            is_older = clocks_agree and row_ts is not None and _is_less(change.source.time, (row_ts >> 18) * 1000)
            slot = newest if is_older and newest is not None else latest(newest, row_ts and row_ts - is_older)
            is_again = is_older or (earlier is not None and slot is not None and earlier < slot)
            turn = 1 if is_again else 2
            until_ts = latest(until_ts, None if slot is None else slot + (not is_again))
            deleted_at = change.source._replace(deleted_ts=slot)
            least = -1 if slot is None else slot
            earlier = least if earlier is None else min(earlier, least)
        rank = (not is_early, slot is not None, slot or 0, turn, moment(change), change.order)
        ranked.append((rank, change, slot))
    (is_in_time, *_), last, slot = max(ranked)
    if last.is_deleted:
        until_ts = latest(until_ts, last.commit_ts)
        after = slot if last.commit_ts is not None or slot is None else slot + 1  # the row of then goes, too
        return LastChange(last, after, False, until_ts, deleted_at)
    assert slot is not None
    is_late = not is_in_time or (stored.until_ts is not None and stored.until_ts > slot)
    if not is_late and deleted_at is not None:
        deleted_at = deleted_at.with_row_back(slot)
    elif not is_late and position is not None and (back := position.with_row_back(slot)) != position:
        deleted_at = back
    return LastChange(last, slot, is_late, until_ts, deleted_at)


def _was_read(source: KafkaPosition, stored: StoredKey) -> bool:
    """As `_was_applied` has it."""
    deleted_ts = stored.position.deleted_ts if stored.position is not None else None
    is_left = stored.row_ts is not None and deleted_ts is not None and stored.row_ts <= deleted_ts
    return source.is_before(stored.position, or_same=True) and (source.is_before(stored.position) or not is_left)


def _is_less(first: int | None, other: int | None) -> bool:
    return first is not None and other is not None and first < other


def latest(first: int | None, other: int | None) -> int | None:
    """The larger one of those that are there."""
    return max((ts for ts in (first, other) if ts is not None), default=None)
