"""Null values in `merge`: Debezium's connectors send one right after each delete (`tombstones.on.delete`).

One is a delete of its own only where Kafka compacted the delete away (docs/decisions/0017). Else it says nothing new,
and the row may have come back since: the reader may be behind, or read again. So the messages of deletes are kept with
the deleted keys: a null value right after one of them, or before it, is left out.
"""

from collections.abc import Sequence
from functools import reduce
from operator import and_

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from ticdc_bridge.spark_jobs.arrow.change_schema import SOURCE

FORMATS = ("debezium-mysql", "debezium-tidb", "auto")
"""Formats of which null values are read, beside those whose deletes they are."""
MESSAGE = SOURCE
"""Spark type of a delete's message."""
IS_DELETE, IS_NULL = "op = 'd' AND commit_ts IS NOT NULL", "op = 'd' AND commit_ts IS NULL"
"""SQL: whether a change is a delete that says its commit_ts (or position); whether it is a null value."""


def without_null_values(changes: DataFrame, keys: Sequence[Column], stored: DataFrame | None) -> DataFrame:
    """The changes without null values whose deletes are among them or in `stored`. keys: a delete's key values."""
    names = [f"k_{n}" for n in range(len(keys))]
    marked = changes.withColumns(dict(zip(names, keys, strict=True)))
    deletes = marked.where(IS_DELETE).select(*names, F.col("source").alias("message"))
    if stored is not None:
        deletes = deletes.unionByName(stored.select(*names, "message"))
    nulls, deletes = marked.where(IS_NULL).alias("n"), deletes.alias("d")
    same = [F.col(f"n.{name}").eqNullSafe(F.col(f"d.{name}")) for name in names]
    same += [F.col(f"n.source.{name}").eqNullSafe(F.col(f"d.message.{name}")) for name in ("topic", "partition")]
    follows = F.expr(
        "n.source.offset = d.message.offset + 1 OR n.source.offset <= d.message.offset"
        " AND coalesce(n.source.timestamp <= d.message.timestamp, true)"
    )
    single = nulls.join(deletes, reduce(and_, same) & follows, "left_anti").select("n.*")
    return marked.where(f"NOT ({IS_NULL})").unionByName(single).drop(*names)
