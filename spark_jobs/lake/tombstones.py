"""Deleted keys of a merged table, with the commit_ts of their deletes: the Delta table `PATH__tombstones`.

An older change of such a key that comes late brings no row back. The columns are called as the key's, and follow them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from operator import or_
from typing import TYPE_CHECKING

from pyspark.sql import functions as F

from schemas.model.names import quote_name
from schemas.model.table import Column
from spark_jobs.lake.column_history import SchemaChange
from spark_jobs.lake.engines.base import Engine, LakeTable, Upsert

if TYPE_CHECKING:
    from pyspark.sql import Column as SparkColumn
    from pyspark.sql import DataFrame, SparkSession

COMMIT_TS = "_commit_ts"
"""Column of a merged table and of its deleted keys: the commit_ts of their newest change."""


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

    def add_deleted(self, deletions: DataFrame) -> None:
        """Takes deleted keys (k_0 …, commit_ts); of a key the newest."""
        names = [F.col(f"k_{n}").alias(c.name) for n, c in enumerate(self.keys)]
        rows = deletions.select(*names, F.col("commit_ts").alias(COMMIT_TS))
        if not self.table.exists():
            self.table.overwrite(rows)
            return
        keys = [(c.name, c.name) for c in self.keys]
        values = [*keys, (COMMIT_TS, COMMIT_TS)]
        self.table.merge(rows, Upsert(keys, values, update=f"s.{COMMIT_TS} > t.{COMMIT_TS}"))

    def drop_late(self, newest: DataFrame) -> DataFrame:
        """Changes (k_0 …, commit_ts, gone) without those that are older than their key's delete."""
        if not self.table.exists():
            return newest
        buried = self.table.read().alias("b")
        condition = F.lit(True)
        for n, column in enumerate(self.keys):
            condition = condition & F.col(f"s.k_{n}").eqNullSafe(F.col(f"b.{quote_name(column.name)}"))
        late = ~F.col("s.gone") & (F.col(f"b.{COMMIT_TS}") > F.col("s.commit_ts"))
        joined = newest.alias("s").join(buried, condition, "left")
        return joined.where(~F.coalesce(late, F.lit(False))).select("s.*")

    # ---- the key as it changes
    def forget(self, commit_ts: int) -> None:
        """Of deletes up to here: the table was emptied then, and no older change is applied any more."""
        if self.table.exists() and COMMIT_TS in self.table.read().columns:
            self.table.delete(f"{COMMIT_TS} <= {commit_ts}")

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
        have, types = dict(frame.dtypes), {c.name: kind for c, kind in zip(self.keys, self.types, strict=True)}
        if have == {**types, COMMIT_TS: "bigint"}:
            return None
        if have.keys() == {*types, COMMIT_TS}:
            casts = {name: f"try_cast({quote_name(name)} AS {kind})" for name, kind in types.items()}
            losses = [f"NOT {quote_name(name)} <=> try_cast({text} AS {have[name]})" for name, text in casts.items()]
            if frame.where(" OR ".join(losses)).isEmpty():
                self.table.overwrite(
                    frame.select(*(F.expr(text).alias(name) for name, text in casts.items()), COMMIT_TS)
                )
                return None
        return self._forget_all(frame)

    def _forget_all(self, frame: DataFrame) -> int | None:
        newest = frame.agg(F.max(COMMIT_TS if COMMIT_TS in frame.columns else "commit_ts")).collect()[0][0]
        kinds = zip(self.keys, self.types, strict=True)
        columns = [*(f"{quote_name(column.name)} {kind}" for column, kind in kinds), f"{COMMIT_TS} bigint"]
        self.table.overwrite(self.spark.createDataFrame([], ", ".join(columns)))
        return None if newest is None else int(newest)
