"""Where a table of the lake is not as its rows were at a TSO: row by row, by the values that `load` would write."""

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from operator import or_
from typing import Any, Final

from pyspark.sql import Column as SparkColumn
from pyspark.sql import DataFrame, Row, Window
from pyspark.sql import functions as F

from ticdc_bridge.schemas.model.errors import Hint
from ticdc_bridge.schemas.model.names import quote_name
from ticdc_bridge.schemas.model.table import Column, Table
from ticdc_bridge.schemas.model.types import BYTES, Kind
from ticdc_bridge.schemas.model.values import double_text, float_text
from ticdc_bridge.spark_jobs.lake.column_values import plain_sql
from ticdc_bridge.spark_jobs.lake.load import Snapshot
from ticdc_bridge.spark_jobs.lake.merge import CurrentTable
from ticdc_bridge.spark_jobs.lake.tombstones import COMMIT_TS

DIFFERENT, MISSING, EXTRA, NEWER = "different", "missing", "extra", "newer"
"""Kinds of differences: the lake's row has other values, it has none, TiDB has none; the lake is newer than the TSO."""
_LIKE: Final[Mapping[Kind, Callable[[str], str]]] = {
    Kind.FLOAT: lambda text: float_text(float(text)), Kind.DOUBLE: lambda text: double_text(float(text)),
    Kind.YEAR: lambda text: str(int(text)),
}  # fmt: skip
"""Texts of values in plain form, by what Spark or TiDB writes."""


@dataclass(frozen=True)
class LakeRows:
    """The rows of a current table of the lake. table: in TiDB; columns: those that are compared; zero_dates: those of
    them whose NULL may be a zero date in the source.
    """

    target: CurrentTable
    table: Table
    columns: Sequence[Column]
    zero_dates: Sequence[Column] = ()

    def read(self) -> DataFrame:
        """Those of now: l_N for each of `columns`, and `_ts`. SetupError STOPPED where the table has other columns."""
        settings, rows = self.target.columns, self.target.columns.lake_table.read()
        have = {field.name.lower(): field.dataType.simpleString() for field in rows.schema.fields}
        needed = {c.name.lower(): settings.values.type_of(c) for c in self.table.columns if not c.virtual}
        needed[COMMIT_TS] = "bigint"
        if have != needed:
            odd = [
                f"{name} ({have.get(name, 'not in the lake')}, {needed.get(name, 'not in TiDB')})"
                for name in sorted({*have, *needed})
                if have.get(name) != needed.get(name)
            ]
            details = (
                f"{settings.lake_table.location} does not have the columns that TiDB has at the TSO: {', '.join(odd)}."
                f" Wait until merge has followed the DDL ({Hint.DDL}), or give a TSO (--at) of its columns"
            )
            raise settings.stopped(details)
        names = [F.col(quote_name(c.name)).alias(f"l_{n}") for n, c in enumerate(self.columns)]
        return rows.select(*names, F.coalesce(COMMIT_TS, F.lit(-1)).alias("_ts"))

    def types(self) -> dict[str, str]:
        return {column.name: self.target.columns.values.type_of(column) for column in self.columns}

    @property
    def keys(self) -> list[int]:
        """The numbers of the key's columns."""
        return [n for n, column in enumerate(self.columns) if column.handle_key]

    # ---- differences
    def differences(self, rows: DataFrame, snapshot: Snapshot) -> DataFrame:
        """Where some of the lake's rows are not the snapshot's, which has these keys and no others.

        Returns:
            kind; columns: the names of those that differ; key, lake, tidb: texts of the key's columns and of all; turn:
            a number, from 1, of rows of the lake with one key. Of kind NEWER: rows of the snapshot.
        """
        values, keys = self.target.columns.values, self.keys
        first = Window.partitionBy(*(f"l_{n}" for n in keys)).orderBy(F.desc("_ts"))
        lake = rows.withColumn("_turn", F.row_number().over(first))
        kinds = dict(snapshot.rows.dtypes)
        texts = (F.expr(plain_sql(f"c_{n}", kinds[f"c_{n}"], c)) for n, c in enumerate(self.columns))
        exact = [F.col(f"c_{n}") for n in range(len(self.columns))]
        typed = [values.from_exact(value, c) for value, c in zip(exact, self.columns, strict=True)]
        tidb = snapshot.rows.select(
            *(value.alias(f"t_{n}") for n, value in enumerate(typed)),
            *((F.lit(False) if t is e else e.isNotNull() & t.isNull()).alias(f"u_{n}")
              for n, (t, e) in enumerate(zip(typed, exact, strict=True))),
            F.array(*texts).alias("tidb"),
        )  # fmt: skip
        same_key = reduce(lambda a, b: a & b, (F.col(f"l_{n}") == F.col(f"t_{n}") for n in keys))
        both = lake.join(tidb, same_key & (F.col("_turn") == 1), "full_outer")
        for n in keys:
            both = both.withColumn(f"k_{n}", F.coalesce(f"l_{n}", f"t_{n}"))
        both = self._with_deletes(both)
        differs = [self._differs(n) for n in range(len(self.columns))]
        has_lake, has_tidb = F.col("_turn").isNotNull(), F.col("tidb").isNotNull()
        kind = (
            F.when(F.greatest("_ts", "_deleted") > snapshot.tso, F.when(has_tidb, NEWER))
            .when(~has_lake, MISSING)
            .when(~has_tidb, EXTRA)
            .when(reduce(or_, differs), DIFFERENT)
        )
        names = (F.when(differ, F.lit(c.name)) for differ, c in zip(differs, self.columns, strict=True))
        return both.withColumn("kind", kind).where("kind IS NOT NULL").select(
            "kind", self._texts("k", keys).alias("key"), F.coalesce("_turn", F.lit(1)).alias("turn"),
            F.when(F.col("kind") == DIFFERENT, F.array_compact(F.array(*names))).alias("columns"),
            F.when(has_lake, self._texts("l", range(len(self.columns)))).alias("lake"), "tidb",
        )  # fmt: skip

    def _differs(self, number: int) -> SparkColumn:
        lake, tidb = F.col(f"l_{number}"), F.col(f"t_{number}")
        differs = ~lake.eqNullSafe(tidb) | F.col(f"u_{number}")
        if self.columns[number] in self.zero_dates:
            differs &= ~(tidb.isNull() & F.coalesce(lake.cast("string").rlike("^0000|-00"), F.lit(True)))
        return differs

    def _with_deletes(self, both: DataFrame) -> DataFrame:
        """With `_deleted`: when the lake's newest delete of a key was committed that it has no row of."""
        stored = self.target.columns.tombstones([self.columns[n] for n in self.keys]).stored
        if stored is None:
            return both.withColumn("_deleted", F.lit(None).cast("bigint"))
        names = {n: quote_name(self.columns[n].name) for n in self.keys}
        newest = stored.groupBy(*names.values()).agg(F.max(COMMIT_TS).alias("_deleted"))
        deleted = newest.select(*(F.col(name).alias(f"d_{n}") for n, name in names.items()), "_deleted")
        same = reduce(lambda a, b: a & b, (F.col(f"k_{n}") == F.col(f"d_{n}") for n in names))
        return both.join(deleted, F.col("_turn").isNull() & same, "left")

    def with_keys(self, rows: DataFrame, keys: DataFrame) -> DataFrame:
        """The rows whose keys are some of `differences`. keys: of it, `key` alone."""
        return rows.join(F.broadcast(keys), self._texts("l", self.keys) == keys["key"], "left_semi")

    def of_keys(self, snapshot: Snapshot, keys: DataFrame) -> DataFrame:
        """The snapshot's rows of keys, which are as `with_keys` has them."""
        values = self.target.columns.values
        typed = {f"k_{n}": values.from_exact(F.col(f"c_{n}"), self.columns[n]) for n in self.keys}
        same = self._texts("k", self.keys) == keys["key"]
        return snapshot.rows.withColumns(typed).join(F.broadcast(keys), same, "left_semi").drop(*typed)

    def _texts(self, of: str, numbers: Iterable[int]) -> SparkColumn:
        """The texts of columns OF_N, which have the lake's types."""
        types, chosen = self.types(), [(n, self.columns[n]) for n in numbers]
        return F.array(*(F.expr(plain_sql(f"{of}_{n}", types[c.name], c)) for n, c in chosen))

    def line(self, row: Row) -> dict[str, Any]:
        """A difference as `reconcile --out` has it, in plain form."""
        images = {}
        for image in ("lake", "tidb"):
            values = row[image]
            images[image] = values and {c.name: plain(v, c) for c, v in zip(self.columns, values, strict=True)}
        keys = [self.columns[n] for n in self.keys]
        key = {column.name: plain(text, column) for column, text in zip(keys, row["key"], strict=True)}
        return {"kind": row["kind"], "key": key, "columns": row["columns"] or [], **images}


def plain(text: str | None, column: Column) -> Any:
    """A value's text as JSON lines have it."""
    if text is None:
        return None
    if column.type.kind in BYTES:
        return json.loads(text)
    convert = _LIKE.get(column.type.kind)
    try:
        return convert(text) if convert else text
    except ValueError:
        return text
