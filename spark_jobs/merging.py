"""`merge`: changes → a Delta table as the table in TiDB is. Upsert and delete by key; the newest commit_ts wins.

The table's columns follow its history: a rename renames, a wider type widens, a dropped column goes, an added one comes
with what TiDB shows in the rows that were there. How far that is stands in a table property. Deleted keys are kept
with their commit_ts in a second table beside it, `PATH__tombstones`: an older change that comes late (TiCDC sends at
least once) brings no row back. Both make a run that is repeated give the same table.

Rows that were written before a column got another type become what TiDB made of them (`spark_jobs.conversions`), in the
Delta table and in changes alike; where nobody can tell what that is, the job stops.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import TYPE_CHECKING, Any
from zlib import crc32

from pyspark.sql import functions as F

from schemas import values
from schemas.errors import SetupError
from schemas.publish.spark import EXACT, Types, metadata_of
from schemas.table import Column, Table, TableId
from schemas.types import Kind
from spark_jobs import lake
from spark_jobs.columns import _CONVERT, _literal, quoted, spark_type
from spark_jobs.conversions import converted_text, converter
from spark_jobs.history import Step, added, came, column_before, filled, names_over_time, types_over_time
from spark_jobs.stones import Stones
from spark_jobs.summary import Summary
from spark_jobs.table_view import NOT_TYPED, OnLossy
from spark_jobs.table_view import READ as PYTHON
from spark_jobs.typed_view import READ

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_APPLIED, _TYPES, _RENAMED = "bridge.schema_ts", "bridge.types", "bridge.renamed"
_NAME, _UNBURIED = "bridge.name", "bridge.unburied_ts"
_BETWEEN = "_bridge_renamed_"
_NUMBERS = (Kind.INTEGER, Kind.YEAR, Kind.FLOAT, Kind.DOUBLE, Kind.DECIMAL)
COMMIT_TS = "_commit_ts"


@dataclass(frozen=True)
class Target:
    """A Delta table that mirrors a table of TiDB. zone: of TIMESTAMP text; on_lossy: a value that its type can't hold
    stops the job, or is NULL and counted. names: the table's, by time (history.table_names).
    """

    spark: SparkSession
    id: TableId
    path: str
    types: Types = EXACT
    zone: str = "UTC"
    on_lossy: OnLossy = "error"
    names: Sequence[tuple[int, TableId | None]] = ()

    def merge(self, changes: DataFrame, table: Table, steps: list[Step], summary: Summary) -> int:
        """Applies row changes (spark_jobs.columns.CHANGES with maps, and `position`); how many keys it wrote.

        table: the columns as they are now. steps: the table's history, [] where no DDL is known.
        SetupError USAGE for a table without handle key, STOPPED where a change can't be made exactly.
        """
        keys = [c for c in table.columns if c.handle_key]
        if not keys:
            details = f"table {self.id} has neither a primary key nor a NOT NULL unique key: rows can't be told apart"
            raise SetupError("USAGE", details=details)
        if any(c.name.lower() == COMMIT_TS for c in table.columns):
            raise SetupError("USAGE", details=f"table {self.id} has a column {COMMIT_TS} of its own")
        if self.on_lossy == "error":
            self._refuse_unfit(changes, table, steps)
        emptied = max((s.commit_ts for s in steps if s.emptied), default=-1)
        rows = changes.where(F.col("commit_ts").isNull() | (F.col("commit_ts") > emptied))
        self._refuse_unsure(rows, steps, emptied)
        unburied = -1
        if lake.exists(self.spark, self.path):
            unburied = self._follow(table, steps)
        else:
            self._create(table, max((s.commit_ts for s in steps), default=0))
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
            return self._apply(newest.drop("bad"), table, keys, unburied)
        finally:
            newest.unpersist()

    def follow(self, table: Table, steps: list[Step]) -> None:
        """Brings the columns of the Delta table, if there is one, to where the history is. As `merge` without rows."""
        if lake.exists(self.spark, self.path):
            self._refuse_unsure(None, steps, max((s.commit_ts for s in steps if s.emptied), default=-1))
            self._follow(table, steps)

    # ---- rows
    def _refuse_unsure(self, rows: DataFrame | None, steps: list[Step], emptied: int) -> None:
        """A statement after which nobody can tell which rows are there, and rows that are older."""
        unsure = [step for step in steps if step.unsure and step.commit_ts > emptied]
        if not unsure:
            return
        step, copies = unsure[-1], []
        if lake.exists(self.spark, self.path) and int(self._properties().get(_APPLIED, 0)) < step.commit_ts:
            there = self.spark.read.format("delta").load(lake.absolute(self.path))
            copies.append(there.where(f"{COMMIT_TS} > {emptied}").select(F.col(COMMIT_TS).alias("commit_ts")))
        if rows is not None:
            copies.append(rows.where("op <> 'd'").select("commit_ts"))
        if any(not one.where(f"commit_ts <= {step.commit_ts}").isEmpty() for one in copies):
            details = (
                f"{step.unsure} at commit_ts {step.commit_ts}: a changefeed does not tell which rows it took away or"
                " brought back. Begin anew in another place, with changes that come after it and a copy of the table"
            )
            raise SetupError("STOPPED", where=str(self.id), details=details)

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
                " that the column has now, or nobody can tell what TiDB made of it, and no later change of the row is"
                " here"
            )
            raise SetupError("STOPPED", where=str(self.id), details=details)

    def _bad(self, column: Column, steps: list[Step]) -> Any:
        """The column's name where its value (after) can't be made one of the column's type."""
        text, _, received = self._text("after", column, steps)
        return F.when(F.expr(f"({received}) IS NOT NULL") & self._convert(text, column).isNull(), F.lit(column.name))

    def _newest(self, rows: DataFrame, table: Table, keys: list[Column], steps: list[Step]) -> DataFrame:
        """One row a key: its last change. A row whose key was updated is deleted under its old key."""
        from pyspark.sql import Window

        shown = [c for c in table.columns if not c.virtual]
        old = [self._value("before", c, steps).alias(f"k_{n}") for n, c in enumerate(keys)]
        new = [self._value("after", c, steps).alias(f"k_{n}") for n, c in enumerate(keys)]
        values = [self._value("after", c, steps).alias(f"v_{n}") for n, c in enumerate(shown)]
        none = [F.lit(None).cast(self._type(c)).alias(f"v_{n}") for n, c in enumerate(shown)]
        place = [F.col("commit_ts"), F.col("position"), F.col("row")]
        changed = [c for c in shown if c.type.kind in _NUMBERS or types_over_time(steps, c)] if len(steps) > 1 else []
        bad = F.coalesce(*(self._bad(c, steps) for c in changed), F.lit(None).cast("string")).alias("bad")
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
        text, present, _ = self._text(side, column, steps)
        typed = self._convert(text, column)
        value = self._shown(column, steps)
        if value is None:
            return typed
        return F.when(F.expr(present), typed).otherwise(F.expr(self._constant(column, value)))

    def _shown(self, column: Column, steps: list[Step]) -> Any:
        """What rows show that are older than the column; None: NULL, or not known."""
        first = added(steps, column.name)
        value = None if first is None else self._filled(first)[1]
        for _, old, new in types_over_time(steps, column) if value is not None else ():
            convert = converter(old, new)
            try:
                value = convert(value) if convert else value
            except ValueError as error:
                details = f"column {column.name}: nobody can tell what TiDB made of its default {value!r}: {error}"
                raise SetupError("STOPPED", where=str(self.id), details=details) from error
        return value

    def _text(self, side: str, column: Column, steps: list[Step]) -> tuple[str, str, str]:
        """SQL: a column's text in plain form, whether the row has the column, and the text as it was received."""
        text = f"{side}[{_literal(column.name)}]"
        present = f"map_contains_key({side}, {_literal(column.name)})"
        for until, name in reversed(names_over_time(steps, column.name)):
            then = "CAST(NULL AS string)" if name is None else f"{side}[{_literal(name)}]"
            there = "false" if name is None else f"map_contains_key({side}, {_literal(name)})"
            text = f"CASE WHEN commit_ts <= {until} THEN {then} ELSE {text} END"
            present = f"CASE WHEN commit_ts <= {until} THEN {there} ELSE {present} END"
        received = text
        for until, old, new in types_over_time(steps, column):
            if converter(old, new) is not None:
                # Avro's deletes tell no commit_ts: digits and lengths can be brought to the new form all the same.
                when = f"commit_ts <= {until}" + (" OR commit_ts IS NULL" if old.type.kind is new.type.kind else "")
                text = f"CASE WHEN {when} THEN {self._converted(text, old, new)} ELSE {text} END"
        return text, present, received

    def _converted(self, value: str, old: Column, new: Column) -> str:
        """SQL: what TiDB made of a value of a column that got another type, in plain form; NULL: nobody can tell."""
        name = f"bridge_{crc32(repr((old, new)).encode()):08x}"
        self.spark.udf.register(name, converted_text(old, new), "string")
        return f"{name}({value})"

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

    def _apply(self, newest: DataFrame, table: Table, keys: list[Column], unburied: int) -> int:
        shown = [c for c in table.columns if not c.virtual]
        names = [f"k_{n}" for n in range(len(keys))]
        count = newest.count()
        if not count:
            return 0
        stones = Stones(self.spark, self.path, keys, [self._type(c) for c in keys])
        stones.bury(newest.where("gone and known").select(*names, "commit_ts"))
        self._refuse_unburied(newest, keys, unburied)
        source = stones.without_late(newest)
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

    def _refuse_unburied(self, newest: DataFrame, keys: list[Column], until: int) -> None:
        """Deleted keys are forgotten when the table gets another key: a row that comes late may be one of them."""
        if until < 0:
            return
        there = self.spark.read.format("delta").load(lake.absolute(self.path)).alias("t")
        same = [F.col(f"t.{quoted(c.name)}").eqNullSafe(F.col(f"s.k_{n}")) for n, c in enumerate(keys)]
        late = newest.where(f"NOT gone AND commit_ts < {until}").alias("s")
        found = late.join(there, same, "left_anti").select("commit_ts").first()
        if found is not None:
            details = (
                f"the change at commit_ts {found['commit_ts']} comes late, and the table has another key since: nobody"
                " can tell whether its row was deleted. Merge the whole changelog into a new table"
            )
            raise SetupError("STOPPED", where=str(self.id), details=details)

    # ---- columns
    def _follow(self, table: Table, steps: list[Step]) -> int:
        """Brings the columns of the Delta table, which is there, to where the table's are.

        Deletes up to this commit_ts are not kept by key any more; -1: all are.
        """
        properties = self._properties()
        applied, types = int(properties.get(_APPLIED, 0)), properties.get(_TYPES, "exact")
        if types != self.types.types:
            details = f"{self.path} was made with --types {types}: its columns can't become {self.types.types}"
            raise SetupError("USAGE", details=details)
        self._refuse_other(properties, applied)
        keys = [c for c in table.columns if c.handle_key]
        stones = Stones(self.spark, self.path, keys, [self._type(c) for c in keys])
        forgotten = [int(properties.get(_UNBURIED, -1))]
        # Each of these does nothing where it is done already: a run that was cut off here begins that step again.
        for commit_ts, together in groupby((s for s in steps if s.commit_ts > applied), key=lambda s: s.commit_ts):
            for number, step in enumerate(together):
                if step.emptied:
                    self.spark.sql(f"DELETE FROM {lake.at(self.path)} WHERE {COMMIT_TS} <= {commit_ts}")
                    stones.forget(commit_ts)
                self._rename(step.renamed, f"{commit_ts}/{number}")
                if step.after is not None:
                    self._reach(step.after, step, drop=True)
                forgotten.append(self._forgotten(stones.follow(step, self._of_keys(step))))
            self._remember(_APPLIED, str(commit_ts))
        self._reach(table, None, drop=bool(steps))
        forgotten.append(self._forgotten(stones.fit() if keys else None))
        if self.names and properties.get(_NAME) != str(self.names[-1][1]):
            self._remember(_NAME, str(self.names[-1][1]))
        return max(forgotten)

    def _forgotten(self, commit_ts: int | None) -> int:
        if commit_ts is None:
            return -1
        self._remember(_UNBURIED, str(commit_ts))
        return commit_ts

    def _of_keys(self, step: Step) -> dict[str, Any]:
        """What becomes of the values of key columns that got another type: by their old names."""
        found: dict[str, Any] = {}
        for column in step.after.columns if step.after else ():
            old = column_before(step, column.name)
            if column.handle_key and old is not None and self._other(old, column):
                found[old.name] = self._convert(self._converted(quoted(old.name), old, column), column)
        return found

    def _refuse_other(self, properties: dict[str, str], applied: int) -> None:
        """Tables may have changed names since the last run: the rows that are there are those of one of them."""
        told = properties.get(_NAME)
        if told is None or not self.names:
            return
        now = next(name for until, name in self.names if applied < until)
        if told.lower() == str(now).lower():
            return
        was = f"was {now} then" if now else "was not there yet"
        details = (
            f"{self.path} has the rows of what was {told} up to commit_ts {applied}; what is {self.names[-1][1]} now"
            f" {was}: another table (RENAME TABLE), whose rows go to another place"
        )
        raise SetupError("STOPPED", where=str(self.id), details=details)

    def _rename(self, renamed: dict[str, str], name: str) -> None:
        """Old names → new ones, all at once. name: of the step."""
        have = self._columns()
        if not {old.lower() for old in renamed} & {new.lower() for new in renamed.values()}:
            for old, new in renamed.items():
                if old in have and new not in have:
                    self._rename_column(old, new)
            return
        # A swap, a chain or other letters go by names that no other column has: a run that was cut off can go on.
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
        if self.names:
            properties[_NAME] = str(self.names[-1][1])
        told = ", ".join(f"'{k}' = {_literal(v)}" for k, v in properties.items())
        columns_text = ", ".join([*columns, f"{COMMIT_TS} bigint"])
        lake.clear_unborn(self.spark, self.path)
        self.spark.sql(f"CREATE TABLE {lake.at(self.path)} ({columns_text}) USING delta TBLPROPERTIES ({told})")

    def _reach(self, table: Table, step: Step | None, drop: bool) -> None:
        """step: the one that made the table so; what it added gets a value in the rows that are there."""
        have = self._columns()
        lake.allow_ntz(self.spark, self.path, [self._type(c) for c in table.columns], list(have.values()))
        columns = [c for c in table.columns if not c.virtual]
        changed = [c for c in columns if step is not None and c.name in have and self._changes(step, c, have[c.name])]
        if step is not None and changed:
            self._rewrite(step, changed)
        for column in (c for c in columns if c not in changed):
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
        self._tell_types(columns)
        shown = {c.name for c in columns} | {COMMIT_TS}
        for name in set(have) - shown if drop else ():
            self.spark.sql(f"ALTER TABLE {lake.at(self.path)} DROP COLUMN {quoted(name)}")

    def _tell_types(self, columns: list[Column]) -> None:
        """A column's comment is its TiDB type, as that is now."""
        fields = self.spark.read.format("delta").load(lake.absolute(self.path)).schema.fields
        now = {field.name: field.metadata.get("comment", "") for field in fields}
        for column in columns:
            if _comment(column) and _comment(column) != f" COMMENT {_literal(now.get(column.name, ''))}":
                where = f"{lake.at(self.path)} ALTER COLUMN {quoted(column.name)}"
                self.spark.sql(f"ALTER TABLE {where}{_comment(column)}")

    def _changes(self, step: Step, column: Column, have: str) -> bool:
        """Whether TiDB made other values of the column's, which is not done yet."""
        old = column_before(step, column.name)
        if old is None or not self._other(old, column):
            return False
        return not (have == self._type(column) != self._type(old))

    def _other(self, old: Column, new: Column) -> bool:
        """Whether a column of the Delta table has other values after a change of type."""
        if converter(old, new) is None:
            return False
        typed = old.type.kind is new.type.kind and new.type.kind in self.types.kinds
        return not (typed and (new.scale or 0) >= (old.scale or 0))  # Spark's types have all digits

    def _rewrite(self, step: Step, columns: list[Column]) -> None:
        """The table anew, with what TiDB made of these columns' values."""
        frame = self.spark.read.format("delta").load(lake.absolute(self.path))
        made, lost = dict[str, Any](), []
        for column in columns:
            old, name = column_before(step, column.name), quoted(column.name)
            assert old is not None
            value = self._convert(self._converted(name, old, column), column)
            lost.append(F.when(F.col(name).isNotNull() & value.isNull(), F.lit(f"{column.name} {_sql_type(old)}")))
            made[column.name] = value.alias(column.name, metadata={"comment": _sql_type(column)})
        found = (
            frame.select(F.coalesce(*lost, F.lit(None).cast("string")).alias("lost")).where("lost IS NOT NULL").first()
        )
        if found is not None:
            details = (
                f"column {found['lost']}: it got another type at commit_ts {step.commit_ts}, and nobody can tell what"
                " TiDB made of all its values. Merge a changelog that begins with a copy of the table into a new place"
            )
            raise SetupError("STOPPED", where=str(self.id), details=details)
        rows = frame.select(*(made.get(name, F.col(quoted(name))) for name in frame.columns))
        rows.write.format("delta").mode("overwrite").option("overwriteSchema", "true").save(lake.absolute(self.path))

    def _retype(self, name: str, have: str, wanted: str) -> None:
        """Widens in place where Delta can; else writes the table anew. A value that would be another stops the job."""
        from pyspark.errors import PySparkException

        if have == "string" and wanted != "string":
            return  # text holds every value; nothing is converted that need not be
        try:
            self.spark.sql(f"ALTER TABLE {lake.at(self.path)} ALTER COLUMN {quoted(name)} TYPE {wanted}")
            return
        except PySparkException:
            frame = self.spark.read.format("delta").load(lake.absolute(self.path))
        cast = frame.withColumn(name, F.expr(f"try_cast({quoted(name)} AS {wanted})"))
        back = f"try_cast(try_cast({quoted(name)} AS {wanted}) AS {have})"
        if not frame.where(f"NOT {quoted(name)} <=> {back}").isEmpty():
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


def _sql_type(column: Column) -> str:
    return str(metadata_of(column, certain=True).get("tidb_type", column.type.name))


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
