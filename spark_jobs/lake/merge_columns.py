"""The columns of a Delta table that mirrors a table of TiDB, over its history.

A rename renames, a wider type widens, a dropped column goes, an added one comes with what TiDB shows in the rows that
were there. How far that is stands in a table property, so that a run that was cut off goes on. Rows that were written
before a column got another type become what TiDB made of them (`spark_jobs.pipeline.conversions`); where nobody can
tell what that is, the job stops.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import groupby
from typing import Any, ClassVar
from zlib import crc32

from pyspark.errors import AnalysisException
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from ticdc_bridge.schemas.model import values
from ticdc_bridge.schemas.model.errors import SetupError
from ticdc_bridge.schemas.model.names import quote_name
from ticdc_bridge.schemas.model.spark_types import EXACT, SparkTypes, metadata_of, spark_type
from ticdc_bridge.schemas.model.table import Column, Table, TableId
from ticdc_bridge.schemas.model.types import Kind
from ticdc_bridge.spark_jobs.lake.column_history import (
    SchemaChange,
    column_before,
    emptied_at,
    is_added_by,
    with_defaults,
)
from ticdc_bridge.spark_jobs.lake.engines.base import Engine, LakeTable, TableColumn
from ticdc_bridge.spark_jobs.lake.tombstones import COMMIT_TS, Tombstones
from ticdc_bridge.spark_jobs.pipeline.conversions import converter, text_converter
from ticdc_bridge.spark_jobs.pipeline.progress import tell_slow_work
from ticdc_bridge.spark_jobs.pipeline.table_view import READ as PYTHON
from ticdc_bridge.spark_jobs.spark.sql_expressions import CAST_SQL, sql_literal
from ticdc_bridge.spark_jobs.spark.temporal_sql import READ

APPLIED = "bridge.schema_ts"
"""Table property: the commit_ts up to which the history is followed."""
ORDER = "bridge.order"
"""Table property: "offset" where Kafka's offsets order the changes."""
_TYPES, _RENAMED, _NAME, _UNBURIED = "bridge.types", "bridge.renamed", "bridge.name", "bridge.unburied_ts"
_KEY = "bridge.key"
"""Table property: the names of the key's columns, as JSON."""
_BETWEEN = "_bridge_renamed_"
NUMBERS = (Kind.INTEGER, Kind.YEAR, Kind.FLOAT, Kind.DOUBLE, Kind.DECIMAL)


@dataclass(frozen=True)
class MergeColumns:
    """A Delta table that mirrors a table of TiDB. engine: what writes it. zone: of TIMESTAMP text. names: the table's,
    by time (history_names.table_names). by_offset: Kafka has the order of the changes, which have no commit_ts.
    null_values: their format has null values after deletes (spark_jobs.lake.null_values).
    """

    spark: SparkSession
    id: TableId
    path: str
    engine: Engine
    types: SparkTypes = EXACT
    zone: str = "UTC"
    names: Sequence[tuple[int, TableId | None]] = ()
    by_offset: bool = False
    null_values: bool = False

    time_column: ClassVar[str] = COMMIT_TS
    """That of the metadata columns which tells the commit_ts of a row."""
    keeps_past: ClassVar[bool] = False
    """Whether rows of a table that was there before stay."""
    partitioned_by: ClassVar[tuple[str, ...]] = ()

    @property
    def metadata(self) -> tuple[TableColumn, ...]:
        """Columns beside those of the table of TiDB."""
        return (TableColumn(COMMIT_TS, "bigint"),)

    @cached_property
    def delta(self) -> LakeTable:
        return self.engine(self.spark, self.path)

    def _tombstones(self, keys: list[Column]) -> Tombstones:
        return Tombstones(self.spark, self.path, keys, [self._type(c) for c in keys], self.engine)

    # ---- values
    def _conversion_sql(self, value: str, old: Column, new: Column) -> str:
        """SQL: what TiDB made of a value of a column that got another type, in plain form; NULL: nobody can tell."""
        name = f"bridge_{crc32(repr((old, new)).encode()):08x}"
        self.spark.udf.register(name, text_converter(old, new), "string")
        return f"{name}({value})"

    def _convert(self, text: str, column: Column) -> Any:
        """A text in plain form as the column's type; NULL for what a temporal type or a number's can't hold."""
        if column.type.kind in self.types.kinds:
            return READ[column.type.kind](F.expr(text), self.zone)
        if column.type.kind in NUMBERS:
            return F.expr(f"try_cast(({text}) AS {self._type(column)})")
        convert = CAST_SQL.get(column.type.kind)
        return F.expr(convert(f"({text})", column) if convert else text)

    def _type(self, column: Column) -> str:
        return self.delta.column_type(spark_type(column, self.types))

    def _fill_value(self, column: Column) -> tuple[bool, Any]:
        """What rows have that were there when the column came; TIMESTAMP text in the rows' zone."""
        is_known, value = with_defaults(column)
        if column.type.kind is Kind.TIMESTAMP and isinstance(value, str):
            value = values.shift_zone(value, "UTC", self.zone)[0]
        return is_known, value

    def _constant(self, column: Column, value: Any) -> str:
        """A value in plain form as SQL of the column's Spark type; NULL for a zero date that it can't hold."""
        if column.type.kind in self.types.kinds:
            try:
                moment = PYTHON[column.type.kind](str(value), self.zone)
            except (ValueError, ArithmeticError):
                return f"CAST(NULL AS {self._type(column)})"
            text = f"{moment:%Y-%m-%d %H:%M:%S.%f} UTC" if column.type.kind is Kind.TIMESTAMP else str(value)
            return f"CAST({sql_literal(text)} AS {self._type(column)})"
        return _constant(column, value)

    # ---- columns
    def _follow(self, table: Table, steps: list[SchemaChange]) -> int:
        """Brings the columns of the Delta table, which is there, to where the table's are.

        Deletes up to this commit_ts are not kept by key any more; -1: all are.
        """
        properties = self.delta.prepare()
        types = properties.get(_TYPES, "exact")
        if types != self.types.types:
            details = f"{self.path} was made with --types {types}: its columns can't become {self.types.types}"
            raise SetupError("USAGE", details=details)
        if (properties.get(ORDER) == "offset") != self.by_offset:
            words = ("commit_ts", "Kafka's offsets")
            details = (
                f"its rows are ordered by {words[not self.by_offset]}, and these changes by {words[self.by_offset]}"
                " (--order): the two can't be compared. Merge them into another place"
            )
            raise SetupError("STOPPED", where=self.delta.location, details=details)
        self._refuse_other(properties, int(properties.get(APPLIED, 0)))
        applied = self._check_columns(table, steps, properties)
        keys = [c for c in table.columns if c.handle_key]
        tombstones = self._tombstones(keys)
        forgotten, key = [int(properties.get(_UNBURIED, -1))], properties.get(_KEY)
        # Each of these does nothing where it is done already: a run that was cut off here begins that step again.
        for commit_ts, together in groupby((s for s in steps if s.commit_ts > applied), key=lambda s: s.commit_ts):
            for number, step in enumerate(together):
                if step.emptied:
                    self.delta.delete(f"{self.time_column} <= {commit_ts}")
                    tombstones.forget(commit_ts)
                if step.emptied and step.before is None and step.after is not None:
                    self._begin_anew(step.after)
                self._rename(step.renamed, f"{commit_ts}/{number}")
                if step.after is not None:
                    self._adapt_columns(step.after, step, drop=True)
                forgotten.append(self._record_forgotten(tombstones.follow(step, self._key_conversions(step))))
                key = self._record_key(step.after or table, key)
            self.delta.set_property(APPLIED, str(commit_ts))
        self._adapt_columns(table, None, drop=bool(steps))
        forgotten.append(self._record_forgotten(tombstones.fit() if keys else None))
        self._record_key(table, key)
        if steps and APPLIED not in properties and applied == 0 == steps[-1].commit_ts:
            self.delta.set_property(APPLIED, "0")
        if self.names and properties.get(_NAME) != str(self.names[-1][1]):
            self.delta.set_property(_NAME, str(self.names[-1][1]))
        return max(forgotten)

    def _begin_anew(self, table: Table) -> None:
        """Another table has the name, and the old one's rows are gone: columns of the new one are no columns of it."""
        columns = {c.name.lower(): (c.name, self._type(c)) for c in table.columns if not c.virtual}
        other = [
            name for name, kind in self._columns().items() if columns.get(name.lower(), (name, kind)) != (name, kind)
        ]
        if other and self.delta.read().isEmpty():
            for name in other:
                self.delta.drop(name)

    def _record_forgotten(self, commit_ts: int | None) -> int:
        if commit_ts is None:
            return -1
        self.delta.set_property(_UNBURIED, str(commit_ts))
        return commit_ts

    def _key_conversions(self, step: SchemaChange) -> dict[str, Any]:
        """What becomes of the values of key columns that got another type: by their old names."""
        conversions: dict[str, Any] = {}
        for column in step.after.columns if step.after else ():
            old = column_before(step, column.name)
            if column.handle_key and old is not None and self._changes_values(old, column):
                conversions[old.name] = self._convert(self._conversion_sql(quote_name(old.name), old, column), column)
        return conversions

    def _refuse_other(self, properties: dict[str, str], applied: int) -> None:
        """Tables may have changed names since the last run: the rows that are there are those of one of them."""
        owner = properties.get(_NAME)
        if owner is None or not self.names:
            return
        now = next(name for until, name in self.names if applied < until)
        if owner.lower() == str(now).lower():
            return
        was = f"was {now} then" if now else "was not there yet"
        details = (
            f"{self.path} has the rows of what was {owner} up to commit_ts {applied}; what is {self.names[-1][1]} now"
            f" {was}: another table (RENAME TABLE), whose rows go to another place"
        )
        raise SetupError("STOPPED", where=str(self.id), details=details)

    def _record_key(self, table: Table, recorded: str | None) -> str:
        if (key := _key_text(table)) != recorded:
            self.delta.set_property(_KEY, key)
        return key

    def _check_columns(self, table: Table, steps: list[SchemaChange], properties: Mapping[str, str]) -> int:
        """Up to which commit_ts the columns that are there follow the statements.

        SetupError STOPPED where rows are there and what is given does not lead from their columns, or from their key,
        to those of now: it is another table's, or a statement came late, is missing, or was changed. To follow it would
        drop columns with all their values, and fill others with NULL.
        """
        applied, key = int(properties.get(APPLIED, 0)), properties.get(_KEY)
        have = self._columns().keys() - self._metadata_names()
        if any(name.startswith(_BETWEEN) for name in have):
            return applied  # a run was cut off while columns got new names
        is_followed = APPLIED in properties
        if not is_followed and any(s.commit_ts for s in steps):
            applied = self.delta.read().agg(F.max(self.time_column)).collect()[0][0] or 0
        created = next((s for s in reversed(steps) if s.emptied and s.before is None and s.commit_ts > applied), None)
        if created is not None and not self.keeps_past:
            applied = created.commit_ts - 1  # no row from before is this table's: what is followed begins here
            if self.delta.read().where(f"{self.time_column} > {created.commit_ts}").isEmpty():
                return applied
        else:
            created = None
        done, todo = ([s for s in steps if (s.commit_ts <= applied) is is_done] for is_done in (True, False))
        last = created or next((s for s in reversed(done) if s.after is not None), None)
        then = (last.after if last is not None else todo[0].after if todo else None) or table
        # A definition without a commit_ts is that of now, whenever that is; a snapshot's comes of any other.
        is_exact = last is not None and last.commit_ts > 0
        columns, later = column_names(then), [s.after for s in todo if s.after is not None]
        # A run may have been cut off while a later step was followed.
        extra = have.difference(columns, *map(column_names, later))
        missing = {name for name in columns - have if all(name in column_names(t) for t in later)}
        keys = {_key_text(t) for t in (then, *later)}
        is_other_key = key not in keys if key is not None else bool(set(then.handle_key) & missing)
        is_other = bool(extra or missing) if is_exact else bool(steps and extra and missing)
        if (is_other_key or is_other) and not self.delta.read().isEmpty():
            differ = ", ".join([*sorted(extra), *(f"no {name}" for name in sorted(missing))])
            differ = f"key {key}, not {_key_text(then)}" if is_other_key and key is not None else differ
            details = (
                f"{self.path} follows the table's history up to commit_ts {applied}, and the definitions that are given"
                f" have other columns there ({differ}): its rows are another table's, or a statement is missing, came"
                " late, or was changed. Give all statements, and a new definition with a newer commit_ts; if it is"
                " another table, or a statement came late, merge the whole changelog into a new place"
            )
            raise SetupError("STOPPED", where=str(self.id), details=details)
        if not is_followed and applied:
            self._catch_up(done)
        return applied

    def _catch_up(self, done: list[SchemaChange]) -> None:
        """Of a table that was made without statements: what these did to older rows."""
        emptied = -1 if self.keeps_past else emptied_at(done)
        if emptied > 0:
            self.delta.delete(f"{self.time_column} <= {emptied}")
            self._tombstones([]).forget(emptied)
        fills = list[tuple[int, dict[str, str]]]()
        for step in (s for s in done if s.commit_ts > max(emptied, 0)):
            if step.before is None or step.after is None:
                continue
            pairs = [(column_before(step, c.name), c) for c in step.after.columns if not c.virtual]
            filled = {new.name: text for _, new in pairs if (text := self._fill_sql(step, new)) is not None}
            changed = [new.name for old, new in pairs if old is not None and self._changes_values(old, new)]
            changed += [new for old, new in step.renamed.items() if old.lower() != new.lower()]
            if not (filled or changed):
                continue
            if self.delta.read().where(f"{self.time_column} <= {step.commit_ts}").isEmpty():
                continue
            if changed:
                details = (
                    f"column {changed[0]}: it was changed at commit_ts {step.commit_ts}, and {self.path} was made"
                    " without that statement: its older rows do not follow it. Merge the whole changelog into a new"
                    " place"
                )
                raise SetupError("STOPPED", where=str(self.id), details=details)
            fills.append((step.commit_ts, filled))
        for commit_ts, values_ in fills:
            self.delta.update(values_, f"{self.time_column} <= {commit_ts}")
        if done:
            self.delta.set_property(APPLIED, str(done[-1].commit_ts))

    def _rename(self, renamed: dict[str, str], name: str) -> None:
        """Old names → new ones, all at once. name: of the step."""
        have = self._columns()
        if not {old.lower() for old in renamed} & {new.lower() for new in renamed.values()}:
            for old, new in renamed.items():
                if old in have and new not in have:
                    self.delta.rename(old, new)
            return
        # A swap, a chain or other letters go by names that no other column has: a run that was cut off can go on.
        if self.delta.properties().get(_RENAMED) != name:
            for old, new in renamed.items():
                if old in have:
                    self.delta.rename(old, _BETWEEN + new)
            self.delta.set_property(_RENAMED, name)
        for between in (c for c in self._columns() if c.startswith(_BETWEEN)):
            self.delta.rename(between, between.removeprefix(_BETWEEN))

    def _create(self, table: Table, steps: list[SchemaChange]) -> None:
        columns = [self._lake_column(c) for c in table.columns if not c.virtual]
        properties = {"bridge.table": str(self.id), _TYPES: self.types.types, _KEY: _key_text(table)}
        if steps:
            properties[APPLIED] = str(max(s.commit_ts for s in steps))
        if self.names:
            properties[_NAME] = str(self.names[-1][1])
        if self.by_offset:
            properties[ORDER] = "offset"
        self.delta.create([*columns, *self.metadata], properties, *self._layout(table))

    def _layout(self, table: Table) -> tuple[Sequence[str], Sequence[str]]:
        """The columns that a new table is partitioned by, and those that it is clustered by."""
        del table
        return self.partitioned_by, ()

    def _lake_column(self, column: Column) -> TableColumn:
        return TableColumn(column.name, self._type(column), _comment(column))

    def _adapt_columns(self, table: Table, step: SchemaChange | None, drop: bool) -> None:
        """step: the one that made the table so; what it added gets a value in the rows that are there."""
        have = self._columns()
        self.delta.allow([self._type(c) for c in table.columns], [*have.values()])
        columns = [c for c in table.columns if not c.virtual]
        changed = [c for c in columns if step is not None and c.name in have and self._changes(step, c, have[c.name])]
        if step is not None and changed:
            self._rewrite(step, changed)
        fills = dict[str, str]()
        for column in (c for c in columns if c not in changed):
            kind, fill, is_filled = self._type(column), self._fill_sql(step, column), False
            if column.name not in have:
                is_filled = self._add(column, fill, step)
            elif have[column.name] != kind:
                self._retype(column.name, have[column.name], kind)
            if fill is not None and not is_filled:
                fills[column.name] = fill
        if step is not None and fills:
            with tell_slow_work(f"{self.id}: filling {', '.join(fills)} in the rows that are there"):
                self.delta.update(fills, f"{self.time_column} <= {step.commit_ts}")
        self._tell_types(columns)
        names = {c.name for c in columns} | self._metadata_names()
        for name in set(have) - names if drop and not self.keeps_past else ():
            self.delta.drop(name)
        self.delta.reorder([c.name for c in columns])

    def _fill_sql(self, step: SchemaChange | None, column: Column) -> str | None:
        """What rows from before a statement have in a column that it added; None: nothing, or nobody knows."""
        if step is None or not is_added_by(step, column.name):
            return None
        is_known, value = self._fill_value(column)
        return self._constant(column, value) if is_known and value is not None else None

    def _add(self, column: Column, fill: str | None, step: SchemaChange | None) -> bool:
        """Whether the rows from before the statement have `fill` with that."""
        if step is None or fill is None:
            return self.delta.add(self._lake_column(column))
        newer = f"{self.time_column} > {step.commit_ts} OR {self.time_column} IS NULL"
        return self.delta.add(self._lake_column(column), fill, newer)

    def _tell_types(self, columns: list[Column]) -> None:
        """A column's comment is its TiDB type, as that is now."""
        now = {field.name: field.metadata.get("comment", "") for field in self.delta.read().schema.fields}
        for column in columns:
            comment = _comment(column)
            if comment and comment != now.get(column.name):
                self.delta.comment(column.name, comment)

    def _changes(self, step: SchemaChange, column: Column, have: str) -> bool:
        """Whether TiDB made other values of the column's, which is not done yet."""
        old = column_before(step, column.name)
        if old is None or not self._changes_values(old, column):
            return False
        if (have, self._type(column), column.scale) == ("float", "double", None):
            return False  # the wider type shows what TiDB made of it: the float's value
        return not (have == self._type(column) != self._type(old))

    def _changes_values(self, old: Column, new: Column) -> bool:
        """Whether a column of the Delta table has other values after a change of type."""
        if converter(old, new) is None:
            return False
        typed = old.type.kind is new.type.kind and new.type.kind in self.types.kinds
        return not (typed and (new.scale or 0) >= (old.scale or 0))  # Spark's types have all digits

    def _rewrite(self, step: SchemaChange, columns: list[Column]) -> None:
        """The table anew, with what TiDB made of these columns' values."""
        frame = self.delta.read()
        conversions, losses = dict[str, Any](), []
        for column in columns:
            old, name = column_before(step, column.name), quote_name(column.name)
            assert old is not None
            value = self._convert(self._conversion_sql(name, old, column), column)
            losses.append(F.when(F.col(name).isNotNull() & value.isNull(), F.lit(f"{column.name} {_sql_type(old)}")))
            conversions[column.name] = value.alias(column.name, metadata={"comment": _sql_type(column)})
        row = (
            frame.select(F.coalesce(*losses, F.lit(None).cast("string")).alias("lost"))
            .where("lost IS NOT NULL")
            .first()
        )
        if row is not None:
            details = (
                f"column {row['lost']}: it got another type at commit_ts {step.commit_ts}, and nobody can tell what"
                " TiDB made of all its values. Merge a changelog that begins with a copy of the table into a new place"
            )
            raise SetupError("STOPPED", where=str(self.id), details=details)
        rows = frame.select(*(conversions.get(name, F.col(quote_name(name))) for name in frame.columns))
        self.delta.overwrite(rows)

    def _retype(self, name: str, have: str, kind: str) -> None:
        """Widens in place where Delta can; else writes the table anew. A value that would be another stops the job."""
        if have == "string" and kind != "string":
            return  # text holds every value; nothing is converted that need not be
        if self.delta.widen(name, kind):
            return
        frame = self.delta.read()
        back = f"try_cast(try_cast({quote_name(name)} AS {kind}) AS {have})"
        try:
            fits = frame.where(f"NOT {quote_name(name)} <=> {back}").isEmpty()
        except AnalysisException:  # types that Spark makes nothing of each other
            fits = False
        if not fits:
            details = f"column {name}: its rows don't fit from {have} to {kind}"
            raise SetupError("STOPPED", where=str(self.id), details=details)
        self.delta.overwrite(frame.withColumn(name, F.expr(f"try_cast({quote_name(name)} AS {kind})")))

    def _metadata_names(self) -> set[str]:
        return {column.name for column in self.metadata}

    def _columns(self) -> dict[str, str]:
        return {f.name: f.dataType.simpleString() for f in self.delta.read().schema.fields}


def column_names(table: Table) -> set[str]:
    return {c.name for c in table.columns if not c.virtual}


def _key_text(table: Table) -> str:
    return json.dumps(sorted(c.name.lower() for c in table.columns if c.handle_key))


def _sql_type(column: Column) -> str:
    return str(metadata_of(column, certain=True).get("tidb_type", column.type.name))


def _comment(column: Column) -> str:
    """The column's TiDB type as its comment, "" where nobody knows it."""
    metadata = metadata_of(column, certain=bool(column.charset) or column.id != 0)
    return str(metadata["tidb_type"]) if metadata else ""


def _constant(column: Column, value: Any) -> str:
    """A value in plain form as SQL of the column's Spark type."""
    if column.type.kind in (Kind.BIT, Kind.BINARY):
        data = value if isinstance(value, bytes) else str(value).encode()
        return f"X'{data.hex()}'"
    text = value.decode("utf-8", "replace") if isinstance(value, bytes) else str(value)
    return f"CAST({sql_literal(text)} AS {spark_type(column)})"
