"""The columns of a Delta table that mirrors a table of TiDB, over its history.

A rename renames, a wider type widens, a dropped column goes, an added one comes with what TiDB shows in the rows that
were there. How far that is stands in a table property, so that a run that was cut off goes on. Rows that were written
before a column got another type become what TiDB made of them (`spark_jobs.conversions`); where nobody can tell what
that is, the job stops.
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
from spark_jobs.history import Step, came, column_before, filled
from spark_jobs.stones import COMMIT_TS, Stones
from spark_jobs.table_view import READ as PYTHON
from spark_jobs.typed_view import READ

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

APPLIED = "bridge.schema_ts"
"""Table property: the commit_ts up to which the history is followed."""
_TYPES, _RENAMED, _NAME, _UNBURIED = "bridge.types", "bridge.renamed", "bridge.name", "bridge.unburied_ts"
_BETWEEN = "_bridge_renamed_"
NUMBERS = (Kind.INTEGER, Kind.YEAR, Kind.FLOAT, Kind.DOUBLE, Kind.DECIMAL)


@dataclass(frozen=True)
class Mirror:
    """A Delta table that mirrors a table of TiDB. zone: of TIMESTAMP text. names: the table's, by time
    (history_names.table_names).
    """

    spark: SparkSession
    id: TableId
    path: str
    types: Types = EXACT
    zone: str = "UTC"
    names: Sequence[tuple[int, TableId | None]] = ()

    # ---- values
    def _converted(self, value: str, old: Column, new: Column) -> str:
        """SQL: what TiDB made of a value of a column that got another type, in plain form; NULL: nobody can tell."""
        name = f"bridge_{crc32(repr((old, new)).encode()):08x}"
        self.spark.udf.register(name, converted_text(old, new), "string")
        return f"{name}({value})"

    def _convert(self, text: str, column: Column) -> Any:
        """A text in plain form as the column's type; NULL for what a temporal type or a number's can't hold."""
        if column.type.kind in self.types.kinds:
            return READ[column.type.kind](F.expr(text), self.zone)
        if column.type.kind in NUMBERS:
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

    # ---- columns
    def _follow(self, table: Table, steps: list[Step]) -> int:
        """Brings the columns of the Delta table, which is there, to where the table's are.

        Deletes up to this commit_ts are not kept by key any more; -1: all are.
        """
        properties = self._properties()
        applied, types = int(properties.get(APPLIED, 0)), properties.get(_TYPES, "exact")
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
            self._remember(APPLIED, str(commit_ts))
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
        properties = {**lake.PROPERTIES, APPLIED: str(applied), "bridge.table": str(self.id)}
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
