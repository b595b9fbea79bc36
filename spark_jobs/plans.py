"""What the plans of all formats share: names of metrics, and which types hold which."""

from __future__ import annotations

from collections.abc import Collection
from itertools import count
from typing import TYPE_CHECKING

from schemas.table import TableId

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

SKIPPED = ("tombstone", "empty")
"""Kinds of rows that workers give for a message without an event (spark_jobs.codec.Result.skipped)."""

UNWRITTEN = (*SKIPPED, "ddl", "watermark", "bootstrap")
"""What workers say in the column `skipped` of a message, or an event of it, for which nothing was written."""

_numbers = count(1)


def metric(name: str, table: TableId) -> str:
    """Name of an observed metric: of one table, so that the plans of several can stand in one query."""
    return f"ticdc_bridge_{name}.{table}"


def without_headers(messages: DataFrame, theirs: Collection[bytes], table: TableId) -> DataFrame:
    """Messages with Kafka's columns without those whose record has one of the headers `theirs`.

    table: of which messages are wanted; those of others are counted (metric `ticdc_bridge_other_tables`).
    """
    from pyspark.sql import functions as F

    header = F.substring(F.coalesce("value", "key"), 1, 5)
    found = header.isin(*[F.lit(h) for h in theirs]) if theirs else F.lit(False)
    counted = messages.withColumn("_theirs", F.coalesce(found, F.lit(False)))
    counted = counted.observe(metric("other_tables", table), F.count(F.when(F.col("_theirs"), 1)).alias("rows"))
    return counted.where(~F.col("_theirs")).drop("_theirs")


def without_skipped(events: DataFrame, kind: Column, name: str = "") -> DataFrame:
    """Without the rows that stand for a message without an event, which are counted (`skipped_told`)."""
    told, skipped = skipped_told(events, kind, name)
    return told.where(~skipped)


def skipped_told(events: DataFrame, kind: Column, name: str = "") -> tuple[DataFrame, Column]:
    """(the events, which of their rows stand for a message without an event).

    These are counted: metric `ticdc_bridge_tombstones`, with `name` or a number of its own, has `rows` (tombstones) and
    `empty` (messages that hold nothing).
    """
    from pyspark.sql import functions as F

    counts = [F.count(F.when(kind == one, 1)).alias(of) for one, of in zip(SKIPPED, ("rows", "empty"), strict=True)]
    told = events.observe(f"ticdc_bridge_tombstones{name or f'.{next(_numbers)}'}", *counts)
    return told, F.coalesce(kind.isin(*SKIPPED), F.lit(False))


def without_unwritten(messages: DataFrame) -> DataFrame:
    """Without the rows that stand for what is not written in the other format, and without the column `skipped`.

    They are counted by kind (UNWRITTEN): metric `ticdc_bridge_skipped`, with a number of its own.
    """
    from pyspark.sql import functions as F

    skipped = F.col("skipped")
    counts = [F.count(F.when(skipped == kind, 1)).alias(kind) for kind in UNWRITTEN]
    told = messages.observe(f"ticdc_bridge_skipped.{next(_numbers)}", *counts)
    return told.where(skipped.isNull()).drop("skipped")


def widens(old: str, new: str) -> bool:
    """Every value of Spark type `old` is one of `new`, without a change."""
    return old == new or (old, new) in _WIDENING or _longer(old, new)


def _longer(old: str, new: str) -> bool:
    """decimal(p,s) has room for the digits on both sides of the point."""
    if not (old.startswith("decimal(") and new.startswith("decimal(")):
        return False
    (digits, scale), (more, finer) = (map(int, kind[8:-1].split(",")) for kind in (old, new))
    return scale <= finer and digits - scale <= more - finer


_WIDENING = {
    ("int", "bigint"), ("int", "decimal(20,0)"), ("bigint", "decimal(20,0)"), ("float", "double"),
    ("smallint", "int"), ("smallint", "bigint"),
}  # fmt: skip
