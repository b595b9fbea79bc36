"""Deleted keys of a merged table, with the commit_ts of their deletes: the Delta table `PATH__tombstones`.

An older change of such a key that comes late brings no row back. The columns are called as the key's, and follow them.
A key may have several rows, as deletes are appended: the largest commit_ts counts, and all that have a place have the
same one.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, reduce
from operator import and_, or_

from pyspark.sql import Column as SparkColumn
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from ticdc_bridge.schemas.model.names import quote_name
from ticdc_bridge.schemas.model.table import Column
from ticdc_bridge.spark_jobs.lake.column_history import SchemaChange
from ticdc_bridge.spark_jobs.lake.engines.base import LakeTable, TableColumn, Upsert
from ticdc_bridge.spark_jobs.lake.null_values import MESSAGE
from ticdc_bridge.spark_jobs.lake.untimed_deletes import KAFKA_POSITION, with_row_back

COMMIT_TS = "_commit_ts"
"""Column of a merged table and of its deleted keys: the commit_ts of their newest change."""
POSITION = "_place"
"""Column of deleted keys: the place of the last delete without a commit_ts. _commit_ts NULL: of an unknown row."""
_MESSAGE = "_message"
"""Column of deleted keys, where null values come after deletes: the message of a delete."""
RESERVED_NAMES = frozenset((POSITION, _MESSAGE))
"""Names that a key's column can't have, beside COMMIT_TS."""


@dataclass(frozen=True)
class Tombstones:
    """table: theirs. keys: the handle key's columns as they are now; types: of these in Spark."""

    spark: SparkSession
    table: LakeTable
    keys: Sequence[Column]
    types: Sequence[str]

    @cached_property
    def stored(self) -> DataFrame | None:
        """The deleted keys as they are when this is first asked; None: there is no table of them."""
        table = self.table
        return table.read() if table.exists() else None

    def have_positions(self) -> bool:
        """True if some are deletes without a commit_ts (spark_jobs.lake.untimed_deletes)."""
        return self.stored is not None and POSITION in self.stored.columns

    def messages(self) -> DataFrame | None:
        """The deleted keys (k_0 …) and the messages of their deletes; None: none are kept."""
        if self.stored is None or _MESSAGE not in self.stored.columns:
            return None
        names = [F.col(quote_name(c.name)).alias(f"k_{n}") for n, c in enumerate(self.keys)]
        return self.stored.where(F.col(_MESSAGE).isNotNull()).select(*names, F.col(_MESSAGE).alias("message"))

    def add_deleted(self, deletions: DataFrame, tidy: bool = False) -> None:
        """Takes deleted keys (k_0 …, deleted_until_ts: up to which commit_ts changes are late; of deletes without a
        commit_ts `delete_position`; `messages` of deletes after which null values may come). tidy: write the table
        anew, with one row a key.
        """
        names = [F.col(f"k_{n}").alias(c.name) for n, c in enumerate(self.keys)]
        positions = [F.col("delete_position").alias(POSITION)] if "delete_position" in deletions.columns else []
        messages = [F.explode_outer("messages").alias(_MESSAGE)] if "messages" in deletions.columns else []
        rows = deletions.select(*names, F.col("deleted_until_ts").alias(COMMIT_TS), *positions, *messages)
        if self.stored is None:
            self.table.overwrite(rows)
            return
        if messages and _MESSAGE not in self.stored.columns:
            self.table.add(TableColumn(_MESSAGE, MESSAGE))
        if positions:
            self._add_with_positions(rows.drop(_MESSAGE).dropDuplicates([c.name for c in self.keys]))
        if not positions or messages:
            rows = rows.where(F.col(_MESSAGE).isNotNull()).drop(POSITION) if positions else rows
            self._add_rows(rows, tidy)

    def _add_rows(self, rows: DataFrame, tidy: bool) -> None:
        stored = self.table.read()
        for name, kind in ((POSITION, KAFKA_POSITION), (_MESSAGE, MESSAGE)):
            if name in stored.columns and name not in rows.columns:
                rows = rows.withColumn(name, F.lit(None).cast(kind))
        rows = rows.select(*map(quote_name, stored.columns))
        if tidy:
            self.table.overwrite(self._newest_by_key(stored.union(rows), by_message=True))
        else:
            self.table.add_rows(rows)

    def _add_with_positions(self, rows: DataFrame) -> None:
        """Rows with the places of deletes, of which a key's last one counts."""
        assert self.stored is not None
        if not self.have_positions():
            self.table.add(TableColumn(POSITION, KAFKA_POSITION))
        names = [c.name for c in self.keys]
        stored = self._newest_by_key(self.table.read()).alias("b")
        joined = rows.alias("s").join(stored, self._has_key("s", names), "left")
        newer = F.greatest(f"s.{COMMIT_TS}", f"b.{COMMIT_TS}").alias(COMMIT_TS)
        position = F.coalesce(f"s.{POSITION}", f"b.{POSITION}").alias(POSITION)
        rows = joined.select(*(F.col(f"s.{quote_name(name)}") for name in names), newer, position)
        keys = [(name, name) for name in names]
        values = [*keys, (COMMIT_TS, COMMIT_TS), (POSITION, POSITION)]
        self.table.merge(rows.localCheckpoint(), Upsert(keys, values, update="true"))

    def _newest_by_key(self, frame: DataFrame, by_message: bool = False) -> DataFrame:
        """One row a key; by_message: and topic and partition of the messages of its deletes, with the last one."""
        positions = [F.max(POSITION).alias(POSITION)] if POSITION in frame.columns else []
        names = [quote_name(c.name) for c in self.keys]
        if not by_message or _MESSAGE not in frame.columns:
            return frame.groupBy(*names).agg(F.max(COMMIT_TS).alias(COMMIT_TS), *positions)
        pieces = [F.col(f"{_MESSAGE}.{name}").alias(f"_{name}") for name in ("topic", "partition")]
        last = F.max(_MESSAGE).alias(_MESSAGE)
        tidied = frame.groupBy(*names, *pieces).agg(F.max(COMMIT_TS).alias(COMMIT_TS), *positions, last)
        return tidied.select(*map(quote_name, frame.columns))

    def mark_late(self, newest: DataFrame, oldest_ts: int | None) -> DataFrame:
        """Changes (k_0 …, commit_ts, is_deleted) with `late`: whether they are older than their key's delete.

        oldest_ts: of those that are not deletes, None where there are none; Spark skips files of deletes that are all
        older. Changes that have `early` (spark_jobs.lake.untimed_deletes.is_early) have `_deleted_until_ts` of by_key,
        too.
        """
        stored, stays = self.stored, ~F.col("s.is_deleted")
        if "early" in newest.columns:
            return self._mark_early(newest)
        if stored is None or oldest_ts is None:
            return newest.withColumn("late", F.lit(False))
        stored = self._newest_by_key(stored.where(F.col(COMMIT_TS) > F.lit(oldest_ts))).alias("b")
        condition = self._has_key("s", [f"k_{n}" for n in range(len(self.keys))])
        joined = newest.alias("s").join(stored, condition, "left")
        late = F.coalesce(stays & (F.col(f"b.{COMMIT_TS}") > F.col("s.commit_ts")), F.lit(False))
        return joined.select("s.*", late.alias("late"))

    @staticmethod
    def _mark_early(newest: DataFrame) -> DataFrame:
        """Places of deletes are known: `delete_position` is what to keep of the key's."""
        late = F.expr("NOT is_deleted AND (early OR coalesce(_deleted_until_ts > commit_ts, false))")
        newest = newest.withColumn("late", late)
        is_back = F.expr("NOT is_deleted AND NOT late")
        is_stored_back = F.expr("commit_ts <= _delete_position.deleted_ts")
        stored = F.when(is_stored_back, with_row_back("_delete_position", "commit_ts"))
        back = F.coalesce(with_row_back("delete_position", "commit_ts"), stored)
        position = F.when(is_back, back).otherwise(F.col("delete_position"))
        return newest.withColumn("delete_position", position).drop("_deleted_until_ts", "_delete_position", "early")

    def by_key(self, names: Sequence[str]) -> DataFrame:
        """Deleted keys (`names`) as spark_jobs.lake.untimed_deletes.order_untimed_deletes takes them."""
        if self.stored is None:
            kinds = [f"{name} {kind}" for name, kind in zip(names, self.types, strict=True)]
            kinds += ["_deleted_until_ts bigint", f"_delete_position {KAFKA_POSITION}", "_was_deleted boolean"]
            return self.spark.createDataFrame([], ", ".join(kinds))
        frame = self._newest_by_key(self.stored)
        position = F.col(POSITION) if POSITION in frame.columns else F.lit(None).cast(KAFKA_POSITION)
        keys = (F.col(quote_name(c.name)).alias(name) for name, c in zip(names, self.keys, strict=True))
        until, was_deleted = F.col(COMMIT_TS).alias("_deleted_until_ts"), F.lit(True).alias("_was_deleted")
        return frame.select(*keys, until, position.alias("_delete_position"), was_deleted)

    def _has_key(self, of: str, names: Sequence[str]) -> SparkColumn:
        """Whether a deleted key `b` is that of a frame with this alias, whose key columns have these names."""
        pairs = zip(names, self.keys, strict=True)
        same = (F.col(f"{of}.{quote_name(n)}").eqNullSafe(F.col(f"b.{quote_name(c.name)}")) for n, c in pairs)
        return reduce(and_, same)

    # ---- the key as it changes
    def forget(self, commit_ts: int) -> None:
        """Forgets deletes up to here: the table was emptied then, and no older change is applied any more. Those
        without a commit_ts, and null values, stay: where one comes again, only its place shows that it is older.
        """
        if self.table.exists():
            columns = self.table.read().columns
            others = (f" AND {name} IS NULL" for name in (POSITION, _MESSAGE) if name in columns)
            self.table.delete(f"{COMMIT_TS} <= {commit_ts}" + "".join(others))

    def follow(self, step: SchemaChange, conversions: Mapping[str, SparkColumn]) -> int | None:
        """The key's columns under their new names and, by old names, with the values that `conversions` has for them.

        Where one has none for a deleted key, all are forgotten: the newest commit_ts of them, else None.
        """
        if not (step.renamed or conversions) or not self.table.exists():
            return None
        frame = self.table.read()
        conversions = {name: value for name, value in conversions.items() if name in frame.columns}
        renamed = {name: step.renamed.get(name, name) for name in frame.columns}
        # Where no old name is here, a run that was cut off has done it.
        moved = set(renamed.values()) != set(frame.columns) and len(set(renamed.values())) == len(renamed)
        if not moved and not conversions:
            return None
        losses = [F.col(quote_name(name)).isNotNull() & value.isNull() for name, value in conversions.items()]
        if losses and not frame.where(reduce(or_, losses)).isEmpty():
            return self._forget_all(frame)
        names = renamed if moved else {name: name for name in frame.columns}
        self.table.overwrite(
            frame.select(*(conversions.get(old, F.col(quote_name(old))).alias(new) for old, new in names.items()))
        )
        return None

    def fit(self) -> int | None:
        """Brings the columns to the key's types. Keys that don't fit are forgotten: the newest commit_ts, or None."""
        if not self.table.exists():
            return None
        frame = self.table.read()
        positions = [name for name in (POSITION, _MESSAGE) if name in frame.columns]
        have = dict(frame.drop(POSITION, _MESSAGE).dtypes)
        types = {c.name: kind for c, kind in zip(self.keys, self.types, strict=True)}
        if have == {**types, COMMIT_TS: "bigint"}:
            return None
        if have.keys() == {*types, COMMIT_TS}:
            casts = {name: f"try_cast({quote_name(name)} AS {kind})" for name, kind in types.items()}
            losses = [f"NOT {quote_name(name)} <=> try_cast({text} AS {have[name]})" for name, text in casts.items()]
            if frame.where(" OR ".join(losses)).isEmpty():
                self.table.overwrite(
                    frame.select(*(F.expr(text).alias(name) for name, text in casts.items()), COMMIT_TS, *positions)
                )
                return None
        return self._forget_all(frame)

    def create(self) -> None:
        """The table anew, without rows."""
        kinds = zip(self.keys, self.types, strict=True)
        columns = [*(f"{quote_name(column.name)} {kind}" for column, kind in kinds), f"{COMMIT_TS} bigint"]
        self.table.overwrite(self.spark.createDataFrame([], ", ".join(columns)))

    def _forget_all(self, frame: DataFrame) -> int | None:
        newest = frame.agg(F.max(COMMIT_TS)).collect()[0][0]
        self.create()
        return None if newest is None else int(newest)
