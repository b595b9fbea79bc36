"""`merge`: changes → a Delta table as the table in TiDB is. Upsert and delete by key; the newest commit_ts wins.

The table's columns follow its history: a rename renames, a wider type widens, a dropped column goes, an added one comes
with what TiDB shows in the rows that were there. How far that is stands in a table property. Deleted keys are kept
with their commit_ts in a second table beside it, `PATH__tombstones`: an older change that comes late (TiCDC sends at
least once) brings no row back. Both make a run that is repeated give the same table.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import groupby
from typing import TYPE_CHECKING, Any

from pyspark.sql import functions as F

from schemas import values
from schemas.errors import SetupError
from schemas.publish.spark import EXACT, Types, metadata_of
from schemas.table import Column, Table, TableId
from schemas.types import Kind
from spark_jobs import lake
from spark_jobs.columns import _CONVERT, _literal, quoted, spark_type
from spark_jobs.history import Step, came, filled, names_over_time, was_float
from spark_jobs.summary import Summary
from spark_jobs.table_view import NOT_TYPED, OnLossy
from spark_jobs.table_view import READ as PYTHON
from spark_jobs.typed_view import READ

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_APPLIED, _TYPES, _RENAMED = "bridge.schema_ts", "bridge.types", "bridge.renamed"
_BETWEEN = "_bridge_renamed_"
_NUMBERS = (Kind.INTEGER, Kind.YEAR, Kind.FLOAT, Kind.DOUBLE, Kind.DECIMAL)
COMMIT_TS = "_commit_ts"


@dataclass(frozen=True)
class Target:
    """A Delta table that mirrors a table of TiDB. zone: of TIMESTAMP text; on_lossy: a value that its type can't hold
    stops the job, or is NULL and counted.
    """

    spark: SparkSession
    id: TableId
    path: str
    types: Types = EXACT
    zone: str = "UTC"
    on_lossy: OnLossy = "error"

    def merge(self, changes: DataFrame, table: Table, steps: list[Step], summary: Summary) -> int:
        """Applies row changes (spark_jobs.columns.CHANGES with maps, and `position`); how many keys it wrote.

        table: the columns as they are now. steps: the table's history, [] where no DDL is known.
        SetupError USAGE for a table without handle key, STOPPED where a change can't be made exactly.
        """
        keys = [c for c in table.columns if c.handle_key]
        if not keys:
            details = f"table {self.id} has neither a primary key nor a NOT NULL unique key: rows can't be told apart"
            raise SetupError("USAGE", details=details)
        if any(c.name == COMMIT_TS for c in table.columns):
            raise SetupError("USAGE", details=f"table {self.id} has a column {COMMIT_TS} of its own")
        if self.on_lossy == "error":
            self._refuse_unfit(changes, table, steps)
        if lake.exists(self.spark, self.path):
            self._follow(table, steps)
        else:
            self._create(table, max((s.commit_ts for s in steps), default=0))
        emptied = max((s.commit_ts for s in steps if s.emptied), default=-1)
        rows = changes.where(F.col("commit_ts").isNull() | (F.col("commit_ts") > emptied))
        summary.skipped.update({"before TRUNCATE": n} if (n := changes.count() - rows.count()) else {})
        missing = rows.where("commit_ts is null and op <> 'd'").count()
        if missing:
            details = f"{missing} changes have no commit_ts (enable-tidb-extension): the newest one can't be known"
            raise SetupError("STOPPED", where=str(self.id), details=details)
        self._refuse_key_only(rows)
        if self.on_lossy == "flag" and (count := self._unfit(rows, table, steps).count()):
            summary.flags[NOT_TYPED] += count
        newest = self._newest(rows, table, keys, steps).persist()
        try:
            if len(steps) > 1:
                self._refuse_bad(newest)
            return self._apply(newest.drop("bad"), table, keys)
        finally:
            newest.unpersist()

    def follow(self, table: Table, steps: list[Step]) -> None:
        """Brings the columns of the Delta table, if there is one, to where the history is. As `merge` without rows."""
        if lake.exists(self.spark, self.path):
            self._follow(table, steps)

    # ---- rows
    def _unfit(self, rows: DataFrame, table: Table, steps: list[Step]) -> DataFrame:
        """Rows with a value that its column's type can't hold: such a zero date has no Spark type but text."""
        kinds = self.types.kinds
        columns = [c for c in table.columns if c.type.kind in kinds and not c.virtual]
        unfit = F.lit(False)
        for column in columns:
            for side in ("before", "after"):
                text = self._text(side, column, steps)[0]
                unfit = unfit | (F.expr(text).isNotNull() & self._convert(text, column).isNull())
        return rows.where(unfit) if columns else rows.limit(0)

    def _refuse_unfit(self, rows: DataFrame, table: Table, steps: list[Step]) -> None:
        if not self.types.kinds:
            return
        found = self._unfit(rows, table, steps).select("commit_ts").first()
        if found is not None:
            details = (
                f"the change at commit_ts {found['commit_ts']} has a date or time that Spark's types can't hold:"
                " --types exact keeps it as text, --on-lossy flag writes NULL"
            )
            raise SetupError("STOPPED", where=str(self.id), details=details)

    def _refuse_key_only(self, rows: DataFrame) -> None:
        cut = rows.where("op <> 'd' and array_contains(flags, 'handle_key_only')").limit(1).collect()
        if cut:
            details = f"a change at commit_ts {cut[0]['commit_ts']} carries only its key (a large message)"
            raise SetupError("STOPPED", where=str(self.id), details=details)

    def _refuse_bad(self, newest: DataFrame) -> None:
        """A row that is in the table and has, from an older version, what its column can't be made of now."""
        found = newest.where("bad IS NOT NULL AND NOT gone").first()
        if found is not None:
            details = (
                f"column {found['bad']}: its value in the change at commit_ts {found['commit_ts']} is none of the type"
                " that the column has now, and no later change of the row is here"
            )
            raise SetupError("STOPPED", where=str(self.id), details=details)

    def _bad(self, column: Column, steps: list[Step]) -> Any:
        """The column's name where its value (after) is no number of the column's type."""
        text = self._text("after", column, steps)[0]
        return F.when(F.expr(f"({text}) IS NOT NULL") & self._convert(text, column).isNull(), F.lit(column.name))

    def _newest(self, rows: DataFrame, table: Table, keys: list[Column], steps: list[Step]) -> DataFrame:
        """One row a key: its last change. A row whose key was updated is deleted under its old key."""
        from pyspark.sql import Window

        shown = [c for c in table.columns if not c.virtual]
        old = [self._value("before", c, steps).alias(f"k_{n}") for n, c in enumerate(keys)]
        new = [self._value("after", c, steps).alias(f"k_{n}") for n, c in enumerate(keys)]
        values = [self._value("after", c, steps).alias(f"v_{n}") for n, c in enumerate(shown)]
        none = [F.lit(None).cast(self._type(c)).alias(f"v_{n}") for n, c in enumerate(shown)]
        place = [F.col("commit_ts"), F.col("position"), F.col("row")]
        numbers = [self._bad(c, steps) for c in shown if c.type.kind in _NUMBERS] if len(steps) > 1 else []
        bad = F.coalesce(*numbers, F.lit(None).cast("string")).alias("bad")
        written = rows.where("op <> 'd'").select(F.lit(1).alias("turn"), *place, *new, *values, bad)
        none.append(F.lit(None).cast("string").alias("bad"))
        deleted = rows.where("op = 'd' or before is not null").select(F.lit(0).alias("turn"), *place, *old, *none)
        names = [f"k_{n}" for n in range(len(keys))]
        key = Window.partitionBy(*names)
        # Avro's deletes tell no commit_ts: theirs is that of the change before them, after which they come.
        so_far = key.orderBy("position", "row").rowsBetween(Window.unboundedPreceding, 0)
        both = written.unionByName(deleted).withColumn("known", F.col("commit_ts").isNotNull())
        both = both.withColumn("turn", F.when(F.col("known"), F.col("turn")).otherwise(2))
        both = both.withColumn("commit_ts", F.coalesce("commit_ts", F.max("commit_ts").over(so_far)))
        # At one commit_ts a delete comes before an insert.
        last = key.orderBy(F.desc_nulls_last("commit_ts"), F.desc("turn"), F.desc("position"), F.desc("row"))
        newest = both.withColumn("_n", F.row_number().over(last)).where("_n = 1").drop("_n", "position", "row")
        return newest.withColumn("gone", F.col("turn") != 1).drop("turn")

    def _value(self, side: str, column: Column, steps: list[Step]) -> Any:
        """A column of a row, by the name that it had at the row's commit_ts; what TiDB shows where it was not there."""
        text, present = self._text(side, column, steps)
        typed = self._convert(text, column)
        known, value = self._filled(column) if _was_added(column, steps) else (True, None)
        if not known or value is None:
            return typed
        return F.when(F.expr(present), typed).otherwise(F.expr(self._constant(column, value)))

    def _text(self, side: str, column: Column, steps: list[Step]) -> tuple[str, str]:
        """SQL: a column's text in plain form, and whether the row has the column."""
        text = f"{side}[{_literal(column.name)}]"
        present = f"map_contains_key({side}, {_literal(column.name)})"
        for until, name in reversed(names_over_time(steps, column.name)):
            then = "CAST(NULL AS string)" if name is None else f"{side}[{_literal(name)}]"
            there = "false" if name is None else f"map_contains_key({side}, {_literal(name)})"
            text = f"CASE WHEN commit_ts <= {until} THEN {then} ELSE {text} END"
            present = f"CASE WHEN commit_ts <= {until} THEN {there} ELSE {present} END"
        if (single := was_float(column, steps)) is not None:  # TiDB's DOUBLE of 0.1 is then 0.10000000149011612
            double = f"CAST(CAST(try_cast({text} AS float) AS double) AS string)"
            text = f"CASE WHEN commit_ts <= {single} THEN {double} ELSE {text} END"
        return text, present

    def _convert(self, text: str, column: Column) -> Any:
        """A text in plain form as the column's type; NULL for what a temporal type or a number's can't hold."""
        if column.type.kind in self.types.kinds:
            return READ[column.type.kind](F.expr(text), self.zone)
        if column.type.kind in _NUMBERS:
            return F.expr(f"try_cast(({text}) AS {self._type(column)})")
        convert = _CONVERT.get(column.type.kind)
        return F.expr(convert(f"({text})", column) if convert else text)

    def _type(self, column: Column) -> str:
        return spark_type(column, self.types)

    def _filled(self, column: Column) -> tuple[bool, Any]:
        """What rows have that were there when the column came; TIMESTAMP text in the rows' zone."""
        known, value = filled(column)
        if column.type.kind is Kind.TIMESTAMP and isinstance(value, str):
            value = values.shift_zone(value, "UTC", self.zone)[0]
        return known, value

    def _constant(self, column: Column, value: Any) -> str:
        """A value in plain form as SQL of the column's Spark type; NULL for a zero date that it can't hold."""
        if column.type.kind in self.types.kinds:
            try:
                made = PYTHON[column.type.kind](str(value), self.zone)
            except (ValueError, ArithmeticError):
                return f"CAST(NULL AS {self._type(column)})"
            text = f"{made:%Y-%m-%d %H:%M:%S.%f} UTC" if column.type.kind is Kind.TIMESTAMP else str(value)
            return f"CAST({_literal(text)} AS {self._type(column)})"
        return _constant(column, value)

    def _apply(self, newest: DataFrame, table: Table, keys: list[Column]) -> int:
        shown = [c for c in table.columns if not c.virtual]
        names = [f"k_{n}" for n in range(len(keys))]
        count = newest.count()
        if not count:
            return 0
        stones = lake.absolute(self.path).rstrip("/") + "__tombstones"
        self._bury(newest.where("gone and known").select(*names, "commit_ts"), stones, names)
        source = newest
        if lake.exists(self.spark, stones):
            buried = self.spark.read.format("delta").load(stones).withColumnRenamed("commit_ts", "buried")
            same = [F.col(f"s.{n}").eqNullSafe(F.col(f"b.{n}")) for n in names]
            condition = same[0]
            for one in same[1:]:
                condition = condition & one
            late = ~F.col("s.gone") & (F.col("b.buried") > F.col("s.commit_ts"))
            joined = source.alias("s").join(buried.alias("b"), condition, "left")
            source = joined.where(~F.coalesce(late, F.lit(False))).select("s.*")
        view = "bridge_merge_source"
        source.createOrReplaceTempView(view)
        on = " AND ".join(f"t.{quoted(c.name)} <=> s.{n}" for n, c in zip(names, keys, strict=True))
        pairs = [(quoted(c.name), f"s.v_{n}") for n, c in enumerate(shown)] + [(COMMIT_TS, "s.commit_ts")]
        self.spark.sql(
            f"MERGE INTO {lake.at(self.path)} t USING {view} s ON {on}"
            f" WHEN MATCHED AND s.gone AND (s.commit_ts > t.{COMMIT_TS}"
            f" OR NOT s.known AND (s.commit_ts IS NULL OR s.commit_ts >= t.{COMMIT_TS})) THEN DELETE"
            f" WHEN MATCHED AND NOT s.gone AND s.commit_ts >= t.{COMMIT_TS} THEN"
            f" UPDATE SET {', '.join(f't.{a} = {b}' for a, b in pairs)}"
            f" WHEN NOT MATCHED AND NOT s.gone THEN INSERT ({', '.join(a for a, _ in pairs)})"
            f" VALUES ({', '.join(b for _, b in pairs)})"
        )
        self.spark.catalog.dropTempView(view)
        return count

    def _bury(self, gone: DataFrame, stones: str, names: list[str]) -> None:
        if gone.isEmpty():
            return
        if not lake.exists(self.spark, stones):
            gone.write.format("delta").save(stones)
            return
        gone.createOrReplaceTempView("bridge_gone")
        on = " AND ".join(f"t.{n} <=> s.{n}" for n in names)
        self.spark.sql(
            f"MERGE INTO {lake.at(stones)} t USING bridge_gone s ON {on} WHEN MATCHED AND s.commit_ts > t.commit_ts"
            " THEN UPDATE SET * WHEN NOT MATCHED THEN INSERT *"
        )
        self.spark.catalog.dropTempView("bridge_gone")

    # ---- columns
    def _follow(self, table: Table, steps: list[Step]) -> None:
        """Brings the columns of the Delta table, which is there, to where the table's are."""
        properties = self._properties()
        applied, types = int(properties.get(_APPLIED, 0)), properties.get(_TYPES, "exact")
        if types != self.types.types:
            details = f"{self.path} was made with --types {types}: its columns can't become {self.types.types}"
            raise SetupError("USAGE", details=details)
        # Each of these does nothing where it is done already: a run that was cut off here begins that step again.
        for commit_ts, together in groupby((s for s in steps if s.commit_ts > applied), key=lambda s: s.commit_ts):
            for number, step in enumerate(together):
                if step.emptied:
                    self.spark.sql(f"DELETE FROM {lake.at(self.path)} WHERE {COMMIT_TS} <= {commit_ts}")
                self._rename(step.renamed, f"{commit_ts}/{number}")
                if step.after is not None:
                    self._reach(step.after, step, drop=True)
            self._remember(_APPLIED, str(commit_ts))
        self._reach(table, None, drop=bool(steps))

    def _rename(self, renamed: dict[str, str], name: str) -> None:
        """Old names → new ones, all at once. name: of the step."""
        have = self._columns()
        if not set(renamed) & set(renamed.values()):
            for old, new in renamed.items():
                if old in have and new not in have:
                    self._rename_column(old, new)
            return
        # A swap or a chain goes by names that no other column has, so that a run that was cut off can go on.
        if self._properties().get(_RENAMED) != name:
            for old, new in renamed.items():
                if old in have:
                    self._rename_column(old, _BETWEEN + new)
            self._remember(_RENAMED, name)
        for between in (c for c in self._columns() if c.startswith(_BETWEEN)):
            self._rename_column(between, between.removeprefix(_BETWEEN))

    def _rename_column(self, old: str, new: str) -> None:
        self.spark.sql(f"ALTER TABLE {lake.at(self.path)} RENAME COLUMN {quoted(old)} TO {quoted(new)}")

    def _create(self, table: Table, applied: int) -> None:
        columns = [f"{quoted(c.name)} {self._type(c)}{_comment(c)}" for c in table.columns if not c.virtual]
        properties = {**lake.PROPERTIES, _APPLIED: str(applied), "bridge.table": str(self.id)}
        properties[_TYPES] = self.types.types
        told = ", ".join(f"'{k}' = {_literal(v)}" for k, v in properties.items())
        columns_text = ", ".join([*columns, f"{COMMIT_TS} bigint"])
        lake.clear_unborn(self.spark, self.path)
        self.spark.sql(f"CREATE TABLE {lake.at(self.path)} ({columns_text}) USING delta TBLPROPERTIES ({told})")

    def _reach(self, table: Table, step: Step | None, drop: bool) -> None:
        """step: the one that made the table so; what it added gets a value in the rows that are there."""
        have = self._columns()
        lake.allow_ntz(self.spark, self.path, [self._type(c) for c in table.columns], list(have.values()))
        for column in (c for c in table.columns if not c.virtual):
            wanted, name = self._type(column), quoted(column.name)
            if column.name not in have:
                added = f"{name} {wanted}{_comment(column)}"
                self.spark.sql(f"ALTER TABLE {lake.at(self.path)} ADD COLUMNS ({added})")
            elif have[column.name] != wanted:
                self._retype(column.name, have[column.name], wanted)
            known, value = self._filled(column)
            if step is not None and came(step, column.name) and known and value is not None:
                self.spark.sql(
                    f"UPDATE {lake.at(self.path)} SET {name} = {self._constant(column, value)}"
                    f" WHERE {COMMIT_TS} <= {step.commit_ts}"
                )
            self._tell_type(column)
        shown = {c.name for c in table.columns if not c.virtual} | {COMMIT_TS}
        for name in set(have) - shown if drop else ():
            self.spark.sql(f"ALTER TABLE {lake.at(self.path)} DROP COLUMN {quoted(name)}")

    def _tell_type(self, column: Column) -> None:
        """The column's comment is its TiDB type, as that is now."""
        fields = self.spark.read.format("delta").load(lake.absolute(self.path)).schema.fields
        now = next((f.metadata.get("comment", "") for f in fields if f.name == column.name), "")
        if _comment(column) and _comment(column) != f" COMMENT {_literal(now)}":
            where = f"{lake.at(self.path)} ALTER COLUMN {quoted(column.name)}"
            self.spark.sql(f"ALTER TABLE {where}{_comment(column)}")

    def _retype(self, name: str, have: str, wanted: str) -> None:
        """Widens in place where Delta can; else writes the table anew. A value that does not fit stops the job."""
        from pyspark.errors import PySparkException

        if have == "string" and wanted != "string":
            return  # text holds every value; nothing is converted that need not be
        try:
            self.spark.sql(f"ALTER TABLE {lake.at(self.path)} ALTER COLUMN {quoted(name)} TYPE {wanted}")
            return
        except PySparkException:
            frame = self.spark.read.format("delta").load(lake.absolute(self.path))
        cast = frame.withColumn(name, F.expr(f"try_cast({quoted(name)} AS {wanted})"))
        bad = (
            frame.where(f"{quoted(name)} IS NOT NULL AND try_cast({quoted(name)} AS {wanted}) IS NULL").limit(1).count()
        )
        if bad:
            details = f"column {name}: its rows don't fit from {have} to {wanted}"
            raise SetupError("STOPPED", where=str(self.id), details=details)
        writer = cast.write.format("delta").mode("overwrite").option("overwriteSchema", "true")
        writer.save(lake.absolute(self.path))

    def _columns(self) -> dict[str, str]:
        schema = self.spark.read.format("delta").load(lake.absolute(self.path)).schema
        return {f.name: f.dataType.simpleString() for f in schema.fields}

    def _properties(self) -> dict[str, str]:
        row = self.spark.sql(f"DESCRIBE DETAIL {lake.at(self.path)}").collect()[0]
        return dict(row["properties"])

    def _remember(self, name: str, value: str) -> None:
        self.spark.sql(f"ALTER TABLE {lake.at(self.path)} SET TBLPROPERTIES ('{name}' = '{value}')")


def _was_added(column: Column, steps: list[Step]) -> bool:
    """Whether the column came by ALTER TABLE, so that older rows have none."""
    return any(name is None for _, name in names_over_time(steps, column.name))


def _comment(column: Column) -> str:
    """The column's TiDB type as its comment, "" where nobody knows it."""
    told = metadata_of(column, certain=bool(column.charset) or column.id != 0)
    return f" COMMENT {_literal(told['tidb_type'])}" if told else ""


def _constant(column: Column, value: Any) -> str:
    """A value in plain form as SQL of the column's Spark type."""
    if column.type.kind in (Kind.BIT, Kind.BINARY):
        data = value if isinstance(value, bytes) else str(value).encode()
        return f"X'{data.hex()}'"
    text = value.decode("utf-8", "replace") if isinstance(value, bytes) else str(value)
    return f"CAST({_literal(text)} AS {spark_type(column)})"
