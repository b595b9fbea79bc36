"""Deletes without a commit_ts (Avro has none) in `merge`: where Kafka has them says what they come after.

A message's place is its topic, partition and offset, and the time that Kafka has of it. Within a partition offsets are
the order; between two (a topic got more partitions, a table another topic) the times are.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import functions as F

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyspark.sql import Column, DataFrame

PLACE = "struct<topic:string,partition:int,offset:bigint,time:timestamp,deleted_ts:bigint>"
"""Spark type of a message's place; fields are NULL where a file does not tell them. deleted_ts: of a delete, the
commit_ts of what it deleted.
"""


def place_of_source() -> Column:
    """The place of a change event (spark_jobs.arrow.change_schema.SOURCE), as `place`."""
    fields = ("source.topic", "source.partition", "source.offset", "source.timestamp", F.lit(None).cast("bigint"))
    return F.struct(*fields).cast(PLACE).alias("place")


def is_before(one: str, other: str, or_same: bool = False) -> Column:
    """Whether a place (a column's name) is before another in Kafka; false where nobody can tell.

    A topic that was deleted and made again has its offsets anew: an offset counts where its time does not contradict.
    """
    compare = "<=" if or_same else "<"
    within = f"{one}.offset {compare} {other}.offset AND coalesce({one}.time <= {other}.time, true)"
    same = f"{one}.topic <=> {other}.topic AND {one}.partition <=> {other}.partition"
    return F.expr(f"coalesce(if({same}, {within}, {one}.time < {other}.time), false)")


def place_bare_deletes(changes: DataFrame, names: Sequence[str], rows: DataFrame, buried: DataFrame) -> DataFrame:
    """The changes, each delete without a commit_ts with that of the change before it, in the input or in the table.

    changes: commit_ts, turn, position, row, place, `known` (it has a commit_ts), key columns `names`. rows, buried:
    the commit_ts (_row_ts) of the rows that are there; that up to which changes of deleted keys are late (_buried), and
    the last such delete's place (_delete_place).

    A delete comes after that change, also where the change comes again: `bound` is where older changes end. Of a key
    that was deleted before, a delete may be that one sent again, and the change that follows the row's: there the order
    of the input decides. One that was read before is left out. `delete_place`: of the key's last one.
    """
    from pyspark.sql import Window

    bare, key = ~F.col("known"), Window.partitionBy(*names)
    of = changes.where(bare).select(*names).distinct()
    placed = changes.join(of.join(rows, [*names], "left").join(buried, [*names], "left"), [*names], "left")
    placed = placed.where(F.col("known") | ~_was_applied())
    where = F.struct("place.topic", "place.partition")
    moment = F.when(F.min(where).over(key) < F.max(where).over(key), F.col("place.time"))
    placed = placed.withColumn("moment", moment)
    input_order = key.orderBy("moment", "position", "row")
    before, so_far = (input_order.rowsBetween(Window.unboundedPreceding, end) for end in (-1, 0))
    placed = placed.withColumn("slot", F.coalesce("commit_ts", F.max("commit_ts").over(so_far), "_row_ts"))
    # Of a delete that nothing came before, nobody knows the commit_ts: -1, before all others.
    earlier_slot = F.min(F.when(bare, F.coalesce("slot", F.lit(-1)))).over(before)
    buried_slot = F.when(F.col("_was_deleted"), F.coalesce(F.col("_buried") - 1, F.lit(-1)))
    again = F.coalesce(F.least(earlier_slot, buried_slot) < F.col("slot"), F.lit(False))
    placed = placed.withColumn("again", again)
    turn = F.when(F.col("known"), F.col("turn")).when(F.col("again"), 1).otherwise(2)
    bound = F.when(bare & ~F.col("again"), F.col("slot") + 1)
    place = F.col("place").withField("deleted_ts", F.col("slot")).alias("place")
    last = F.max(F.when(bare, F.struct("moment", "position", "row", place))).over(key)
    placed = placed.withColumns(
        {"turn": turn, "bound": bound, "commit_ts": F.col("slot"), "delete_place": last["place"]}
    )
    return placed.drop("_row_ts", "_buried", "_delete_place", "_was_deleted", "slot", "again")


def _was_applied() -> Column:
    """Whether a delete was read before. The last one is known before its row goes: a job may have been killed then."""
    is_last = ~is_before("place", "_delete_place")
    is_left = F.coalesce(F.col("_row_ts") <= F.col("_delete_place.deleted_ts"), F.lit(False))
    return is_before("place", "_delete_place", or_same=True) & ~(is_last & is_left)
