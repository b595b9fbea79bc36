"""Deleted keys of a merged table, with the commit_ts of their deletes: the Delta table `PATH__tombstones`.

An older change of such a key that comes late brings no row back. The columns are called as the key's, and follow them.
A key may have several rows, as deletes are appended: the largest commit_ts counts, and all that have a place have the
same one.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, reduce
from operator import and_, or_
from typing import TYPE_CHECKING

from pyspark.sql import functions as F

from schemas.model.names import quote_name
from schemas.model.table import Column
from spark_jobs.lake.bare_deletes import PLACE, is_before
from spark_jobs.lake.column_history import SchemaChange
from spark_jobs.lake.engines.base import Engine, LakeTable, TableColumn, Upsert

if TYPE_CHECKING:
    from pyspark.sql import Column as SparkColumn
    from pyspark.sql import DataFrame, SparkSession

COMMIT_TS = "_commit_ts"
"""Column of a merged table and of its deleted keys: the commit_ts of their newest change."""
_PLACE = "_place"
"""Column of deleted keys, where deletes have no commit_ts: the last one's place. Its commit_ts is NULL where it was not
known what it deleted.
"""


@dataclass(frozen=True)
class Tombstones:
    """keys: the handle key's columns as they are now; types: of these in Spark. path: of the table that is merged."""

    spark: SparkSession
    path: str
    keys: Sequence[Column]
    types: Sequence[str]
    engine: Engine

    @property
    def table(self) -> LakeTable:
        return self.engine(self.spark, self.path.rstrip("/") + "__tombstones")

    @cached_property
    def stored(self) -> DataFrame | None:
        """The deleted keys as they are when this is first asked; None: there is no table of them."""
        table = self.table
        return table.read() if table.exists() else None

    def have_places(self) -> bool:
        """Whether some are deletes without a commit_ts (spark_jobs.lake.bare_deletes)."""
        return self.stored is not None and _PLACE in self.stored.columns

    def add_deleted(self, deletions: DataFrame, tidy: bool = False) -> None:
        """Takes deleted keys (k_0 …, buried: up to which commit_ts changes are late; of deletes without a commit_ts
        `delete_place`). tidy: write the table anew, with one row a key.
        """
        names = [F.col(f"k_{n}").alias(c.name) for n, c in enumerate(self.keys)]
        has_places = "delete_place" in deletions.columns
        places = [F.col("delete_place").alias(_PLACE)] if has_places else []
        rows = deletions.select(*names, F.col("buried").alias(COMMIT_TS), *places)
        if self.stored is None:
            self.table.overwrite(rows)
        elif has_places:
            self._add_placed(rows)
        else:
            if self.have_places():
                rows = rows.withColumn(_PLACE, F.lit(None).cast(PLACE))
            rows = rows.select(*map(quote_name, self.stored.columns))
            if tidy:
                self.table.overwrite(self._one_a_key(self.stored.union(rows)))
            else:
                self.table.add_rows(rows)

    def _add_placed(self, rows: DataFrame) -> None:
        """Rows with the places of deletes, of which a key's last one counts."""
        assert self.stored is not None
        if not self.have_places():
            self.table.add(TableColumn(_PLACE, PLACE))
        names = [c.name for c in self.keys]
        stored = self._one_a_key(self.table.read()).alias("b")
        joined = rows.alias("s").join(stored, self._has_key("s", names), "left")
        newer = F.greatest(f"s.{COMMIT_TS}", f"b.{COMMIT_TS}").alias(COMMIT_TS)
        place = F.coalesce(f"s.{_PLACE}", f"b.{_PLACE}").alias(_PLACE)
        rows = joined.select(*(F.col(f"s.{quote_name(name)}") for name in names), newer, place)
        keys = [(name, name) for name in names]
        values = [*keys, (COMMIT_TS, COMMIT_TS), (_PLACE, _PLACE)]
        self.table.merge(rows.localCheckpoint(), Upsert(keys, values, update="true"))

    def _one_a_key(self, frame: DataFrame) -> DataFrame:
        places = [F.max(_PLACE).alias(_PLACE)] if _PLACE in frame.columns else []
        names = [quote_name(c.name) for c in self.keys]
        return frame.groupBy(*names).agg(F.max(COMMIT_TS).alias(COMMIT_TS), *places)

    def mark_late(self, newest: DataFrame, oldest_ts: int | None) -> DataFrame:
        """Changes (k_0 …, commit_ts, gone, buried) with `late`: whether they are older than their key's delete.

        One that is by its place in Kafka tells up to which commit_ts others are: `buried`. oldest_ts: of those that
        are not deletes, None where there are none; Spark skips files of deletes that are all older.
        """
        stored, stays = self.stored, ~F.col("s.gone")
        by_place = "place" in newest.columns and self.have_places()
        if stored is None or (oldest_ts is None and not by_place):
            return newest.withColumn("late", F.lit(False))
        if not by_place:
            stored = stored.where(F.col(COMMIT_TS) > F.lit(oldest_ts))
        stored = self._one_a_key(stored).alias("b")
        condition = self._has_key("s", [f"k_{n}" for n in range(len(self.keys))])
        joined = newest.alias("s").join(stored, condition, "left")
        late = F.coalesce(stays & (F.col(f"b.{COMMIT_TS}") > F.col("s.commit_ts")), F.lit(False))
        if not by_place:
            return joined.select("s.*", late.alias("late"))
        is_earlier = stays & is_before("s.place", f"b.{_PLACE}")
        buried = F.greatest("s.buried", F.when(is_earlier, F.col("s.commit_ts") + 1)).alias("buried")
        others = [F.col(f"s.{name}") for name in newest.columns if name != "buried"]
        return joined.select(*others, buried, (late | is_earlier).alias("late"))

    def by_key(self, names: Sequence[str]) -> DataFrame:
        """Deleted keys (`names`) as spark_jobs.lake.bare_deletes.place_bare_deletes takes them."""
        if self.stored is None:
            kinds = [f"{name} {kind}" for name, kind in zip(names, self.types, strict=True)]
            columns = ", ".join([*kinds, f"_buried bigint, _delete_place {PLACE}, _was_deleted boolean"])
            return self.spark.createDataFrame([], columns)
        frame = self._one_a_key(self.stored)
        place = F.col(_PLACE) if _PLACE in frame.columns else F.lit(None).cast(PLACE)
        keys = (F.col(quote_name(c.name)).alias(name) for name, c in zip(names, self.keys, strict=True))
        return frame.select(
            *keys, F.col(COMMIT_TS).alias("_buried"), place.alias("_delete_place"), F.lit(True).alias("_was_deleted")
        )

    def _has_key(self, of: str, names: Sequence[str]) -> SparkColumn:
        """Whether a deleted key `b` is that of a frame with this alias, whose key columns have these names."""
        pairs = zip(names, self.keys, strict=True)
        same = (F.col(f"{of}.{quote_name(n)}").eqNullSafe(F.col(f"b.{quote_name(c.name)}")) for n, c in pairs)
        return reduce(and_, same)

    # ---- the key as it changes
    def forget(self, commit_ts: int) -> None:
        """Of deletes up to here: the table was emptied then, and no older change is applied any more. But of those
        without a commit_ts: where one comes again, only its place tells that it is older.
        """
        columns = self.table.read().columns if self.table.exists() else []
        if COMMIT_TS in columns:
            self.table.delete(f"{COMMIT_TS} <= {commit_ts}" + (f" AND {_PLACE} IS NULL" if _PLACE in columns else ""))

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
        """Brings the columns to the key's types.

        Where the key is another one, or deleted keys don't fit exactly, all are forgotten: the newest commit_ts of
        them, else None.
        """
        if not self.table.exists():
            return None
        frame = self.table.read()
        places = [_PLACE] if _PLACE in frame.columns else []
        have = dict(frame.drop(_PLACE).dtypes)
        types = {c.name: kind for c, kind in zip(self.keys, self.types, strict=True)}
        if have == {**types, COMMIT_TS: "bigint"}:
            return None
        if have.keys() == {*types, COMMIT_TS}:
            casts = {name: f"try_cast({quote_name(name)} AS {kind})" for name, kind in types.items()}
            losses = [f"NOT {quote_name(name)} <=> try_cast({text} AS {have[name]})" for name, text in casts.items()]
            if frame.where(" OR ".join(losses)).isEmpty():
                self.table.overwrite(
                    frame.select(*(F.expr(text).alias(name) for name, text in casts.items()), COMMIT_TS, *places)
                )
                return None
        return self._forget_all(frame)

    def _forget_all(self, frame: DataFrame) -> int | None:
        newest = frame.agg(F.max(COMMIT_TS if COMMIT_TS in frame.columns else "commit_ts")).collect()[0][0]
        kinds = zip(self.keys, self.types, strict=True)
        columns = [*(f"{quote_name(column.name)} {kind}" for column, kind in kinds), f"{COMMIT_TS} bigint"]
        self.table.overwrite(self.spark.createDataFrame([], ", ".join(columns)))
        return None if newest is None else int(newest)
