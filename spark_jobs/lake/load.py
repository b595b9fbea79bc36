"""Loads the rows that a table of TiDB had at one TSO into tables of the lake: as changes of that commit_ts.

So whatever `merge` does about newer rows, deleted keys, columns and types is done here too, and both may come in either
order. A current table without rows is written without a MERGE. docs/decisions/0048 has the rules.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import NamedTuple

from pyspark.sql import Column as SparkColumn
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from ticdc_bridge.schemas.model.errors import Hint, SetupError
from ticdc_bridge.schemas.model.names import quote_name
from ticdc_bridge.schemas.model.table import Column, Table, TableId
from ticdc_bridge.schemas.model.types import BYTES, NUMBERS, Kind
from ticdc_bridge.spark_jobs.arrow.change_schema import SOURCE
from ticdc_bridge.spark_jobs.lake import changelog, merge, row_versions
from ticdc_bridge.spark_jobs.lake.column_history import SchemaChange
from ticdc_bridge.spark_jobs.lake.column_values import ColumnValues
from ticdc_bridge.spark_jobs.lake.past_rows import COMMIT_TIME
from ticdc_bridge.spark_jobs.lake.row_values import RowValues
from ticdc_bridge.spark_jobs.lake.table_columns import APPLIED, LOADED, TableColumns, load_into_new
from ticdc_bridge.spark_jobs.lake.tombstones import COMMIT_TS
from ticdc_bridge.spark_jobs.pipeline.result import Summary
from ticdc_bridge.spark_jobs.spark.sql_expressions import sql_literal

_DATE, _TIME = r"\d{4}-\d\d-\d\d", r"\d\d:\d\d:\d\d(?:\.\d{1,6})?"
_FORMS = {
    Kind.DATE: rf"\A{_DATE}\z", Kind.DATETIME: rf"\A{_DATE} {_TIME}\z", Kind.TIMESTAMP: rf"\A{_DATE} {_TIME}\z",
    Kind.TIME: rf"\A-?\d?{_TIME}\z", Kind.DECIMAL: r"\A-?\d+(?:\.\d+)?\z",
}  # fmt: skip
"""Texts (Java's patterns) of types that the lake has as text."""


class SourceError(Exception):
    """In Spark's workers: what is wrong with the source; the driver finds it in Spark's text."""


@dataclass(frozen=True)
class Snapshot:
    """The rows of a table at a TSO.

    Args:
        tso: physical ms << 18 | logical.
        table: as it was defined then.
        rows: c_N for each of `columns`, as text in plain form, bytes, or as Parquet has it; `file` and `line` tell rows
            apart.
        columns: those that the source has.
        count: how many rows these are.
        is_lossy: a date that its type can't hold is NULL.
    """

    tso: int
    table: Table
    rows: DataFrame
    columns: Sequence[Column]
    count: int
    is_lossy: bool = False

    @property
    def id(self) -> TableId:
        return self.table.id

    @cached_property
    def _kinds(self) -> dict[str, str]:
        """The Spark types of the columns."""
        return dict(self.rows.dtypes)

    def text(self, number: int) -> str:
        """SQL: a value in plain form."""
        return _plain(f"c_{number}", self._kinds[f"c_{number}"], self.columns[number])

    def typed(self, number: int, column: Column, values: ColumnValues) -> SparkColumn:
        """A value as the lake has it; NULL for one that the column can't hold."""
        name = f"c_{number}"
        kind = self._kinds[name]
        if column.type.kind in BYTES and kind == "binary":
            return F.col(name)
        if kind != "string" and column.type.kind in NUMBERS:
            return F.col(name).try_cast(values.type_of(column))
        value: SparkColumn = values.convert(self.text(number), column)
        return value

    def is_unfit(self, number: int, column: Column, values: ColumnValues) -> SparkColumn | None:
        """Whether a value is none of its column's type; None where any text or bytes are one."""
        name, kind = F.col(f"c_{number}"), column.type.kind
        if self._kinds[f"c_{number}"] == values.type_of(column) != "string":
            return None
        is_date = kind in values.types.kinds
        if values.type_of(column) != "string" and kind not in BYTES and not (is_date and self.is_lossy):
            return name.isNotNull() & self.typed(number, column, values).isNull()
        if kind not in _FORMS or self._kinds[f"c_{number}"] != "string":
            return None
        return name.isNotNull() & ~name.rlike(_FORMS[kind])

    def nulled(self, values: ColumnValues) -> dict[str, int]:
        """By column how many dates are NULL because its type can't hold them."""
        dates = [(n, c) for n, c in enumerate(self.columns) if self.is_lossy and c.type.kind in values.types.kinds]
        lost = (F.col(f"c_{n}").isNotNull() & self.typed(n, column, values).isNull() for n, column in dates)
        counts = self.rows.agg(F.lit(0), *map(F.count_if, lost)).collect()[0][1:] if dates else ()
        return {column.name: count for (_, column), count in zip(dates, counts, strict=True) if count}

    def unfit(self, values: ColumnValues) -> SparkColumn:
        """The number of the first column whose value is none of its type; NULL where all are."""
        checks = ((n, self.is_unfit(n, column, values)) for n, column in enumerate(self.columns))
        return F.coalesce(*(F.when(c, F.lit(n)) for n, c in checks if c is not None), F.lit(None).cast("int"))

    def checked(self, values: ColumnValues) -> Snapshot:
        """The same; a value that is none of its column's type ends the job that reads it."""
        cells = {f"c_{n}": self._or_fail(F.col(f"c_{n}"), n, c, values) for n, c in enumerate(self.columns)}
        return replace(self, rows=self.rows.withColumns(cells))

    def checked_values(self, rows: RowValues) -> dict[str, SparkColumn]:
        """The values by the columns of the lake, checked as `checked` does it."""
        numbers = {column.name: n for n, column in enumerate(self.columns)}
        found = {column.name: F.lit(None) for column in rows.columns}
        for column in rows.columns:
            if column.name in numbers:
                n = numbers[column.name]
                value = self.typed(n, column, rows.of_column)
                found[column.name] = self._or_fail(value, n, column, rows.of_column)
        return found

    def _or_fail(self, value: SparkColumn, number: int, column: Column, values: ColumnValues) -> SparkColumn:
        is_unfit = self.is_unfit(number, column, values)
        is_date = column.type.kind in values.types.kinds
        hint = f"; {Hint.TYPES.of('exact')} keeps zero dates as text, {Hint.ON_LOSSY_FLAG} writes NULL" * is_date
        text = f"{unfit_text(column)}: --dead-letter FILE takes such rows out{hint}"
        return value if is_unfit is None else F.when(is_unfit, F.raise_error(F.lit(text))).otherwise(value)

    @property
    def fields(self) -> list[str]:
        """SQL: what all changes of the snapshot have alike."""
        at = f"CAST({self.tso} AS bigint)"
        return [
            "'row' AS kind", f"{at} AS commit_ts", f"{COMMIT_TIME.format(at)} AS commit_time",
            f"{sql_literal(self.id.db)} AS db", f"{sql_literal(self.id.table)} AS table",
            "CAST(array() AS array<string>) AS flags", "0 AS row",
        ]  # fmt: skip

    def changes(self) -> DataFrame:
        """The rows as spark_jobs.arrow.change_schema.CHANGES with `position`, inserted at the TSO."""
        names = ", ".join(sql_literal(column.name) for column in self.columns)
        texts = ", ".join(self.text(n) for n in range(len(self.columns)))
        keys = ", ".join(sql_literal(name) for name in self.table.handle_key)
        # Rows of a table without a key are told apart by where they stand in the snapshot. A delete without a commit_ts
        # that Kafka had later, in this millisecond too, is newer than they are.
        time = f"timestamp_millis({_before(self.tso)})"
        source = f"named_struct('topic', 'snapshot {self.tso}', 'partition', file, 'offset', line, 'timestamp', {time})"
        return self.rows.selectExpr(
            *self.fields, "'s' AS op", "CAST(NULL AS int) AS schema_id", "CAST(NULL AS bigint) AS table_version",
            f"CAST(array({keys}) AS array<string>) AS key", "CAST(NULL AS map<string,string>) AS before",
            f"map_from_arrays(array({names}), array({texts})) AS after", f"CAST({source} AS {SOURCE}) AS source",
            "CAST(NULL AS string) AS error", "(CAST(file AS bigint) << 40) + line AS position",
        )  # fmt: skip


Target = merge.CurrentTable | changelog.Changelog | row_versions.RowVersions


class TargetState(NamedTuple):
    """What a table of the lake has for a snapshot. applied, loaded: APPLIED and LOADED. is_clear: no rows from before
    the TSO but the snapshot's.
    """

    applied: int
    loaded: int
    is_clear: bool


def state_of(target: Target, tso: int) -> TargetState:
    """SetupError STOPPED for a table without a key that has rows from before the snapshot, which has them too."""
    columns, lake_table = target.columns, target.columns.lake_table
    if not columns.can_follow():
        return TargetState(-1, -1, not lake_table.exists())
    rows = lake_table.read().where(f"{columns.kind.time_column} <= {tso}")
    keyless = merge.ROW_MESSAGE in columns.types()
    loaded = (
        F.col(merge.ROW_MESSAGE).startswith(f"snapshot {tso}/") if keyless else F.col(columns.kind.time_column) == tso
    )
    is_clear = rows.where(~loaded).isEmpty()
    if keyless and not is_clear:
        details = f"{lake_table.location} has rows from before TSO {tso}, and no key to tell those of the snapshot by"
        raise columns.stopped(f"{details}. {load_into_new(columns.settings.id)}")
    return TargetState(columns.time_of(APPLIED), columns.time_of(LOADED), is_clear)


class Loaded(NamedTuple):
    """What a load did. newer: rows that are newer, or deleted later, in the place. removed: keys it did not have.
    errors: rows with a value that is none of its column's type.
    """

    rows: int
    written: int
    newer: int = 0
    removed: int = 0
    errors: int = 0


def load_current(
    target: merge.CurrentTable, snapshot: Snapshot, table: Table, steps: list[SchemaChange],
    deletes: DataFrame | None, summary: Summary,
) -> Loaded:  # fmt: skip
    """A snapshot into a current table.

    Args:
        table: the columns as they are now, by the statements in `steps`.
        deletes: of `missing_keys`, None for none.
    Raises:
        SetupError: as CurrentTable.merge.
    """
    columns, lake_table = target.columns, target.columns.lake_table
    target.check_key(columns, table, lake_table.exists())
    is_new = not lake_table.exists() or (lake_table.read().isEmpty() and not columns.tombstone_table.exists())
    # Later statements may give the columns other names and values: merge follows them.
    if is_new and all(step.commit_ts < snapshot.tso for step in steps):
        return _fill(columns, snapshot, table, steps)
    of_snapshot = f"{COMMIT_TS} = {snapshot.tso}"
    before = lake_table.read().where(of_snapshot).count() if lake_table.exists() else 0
    changes = _with(snapshot.checked(columns.values).changes(), deletes)
    replace(target, loading=snapshot.tso).merge(changes, table, steps, summary)
    after, rows = lake_table.read().where(of_snapshot).count(), snapshot.count
    return Loaded(rows, after - before, rows - after, deletes.count() if deletes is not None else 0)


def _with(changes: DataFrame, deletes: DataFrame | None) -> DataFrame:
    return changes if deletes is None else changes.unionByName(deletes, allowMissingColumns=True)


def _fill(columns: TableColumns, snapshot: Snapshot, table: Table, steps: list[SchemaChange]) -> Loaded:
    """A table without rows: those of the snapshot in one commit, each value checked as it is written."""
    columns.refuse_names(table)
    columns.follow_or_create(table, steps)
    start = F.lit(f"snapshot {snapshot.tso}")
    values = {
        COMMIT_TS: F.lit(snapshot.tso).cast("bigint"),
        merge.ROW_MESSAGE: F.concat_ws("/", start, "file", "line", F.lit(_before(snapshot.tso)), F.lit(0)),
        **snapshot.checked_values(RowValues(columns.values, table, steps)),
    }
    fields = columns.lake_table.read().schema.fields
    columns.lake_table.add_rows(snapshot.rows.select(*(values[f.name].cast(f.dataType).alias(f.name) for f in fields)))
    columns.create_tombstones(table)
    return Loaded(snapshot.count, snapshot.count)


def _before(tso: int) -> int:
    """Milliseconds since 1970, just before those of the TSO."""
    return (tso >> 18) - 1


def unfit_text(column: Column) -> str:
    """Of a value that its column can't hold."""
    return f"column {column.name}: a value of the snapshot is none of its type {column.type.name}"


def missing_keys(target: Target, snapshot: Snapshot, table: Table, steps: list[SchemaChange]) -> DataFrame | None:
    """Deletes at the TSO of the keys that a place has at it, and the snapshot has not; None where there are none.

    SetupError USAGE for a table without a key.
    """
    columns = target.columns
    rows = RowValues(columns.values, table, steps)
    if not rows.keys:
        details = "--replace: rows without a key can't be told from those that are gone: load it into a new place"
        raise SetupError("USAGE", details=f"table {snapshot.id}: {details}")
    if not columns.lake_table.exists():
        return None
    is_current = isinstance(target, merge.CurrentTable)
    known = columns.lake_table.read().where(f"{COMMIT_TS} <= {snapshot.tso}" if is_current else _valid_at(snapshot.tso))
    kinds = ["binary" if c.type.kind in BYTES else columns.values.type_of(c) for c in rows.keys]
    if "timestamp" in kinds:
        raise columns.stopped("--replace: the key has a TIMESTAMP of Spark's type: load it elsewhere")
    pairs = zip(rows.keys, kinds, strict=True)
    texts = [F.expr(_plain(quote_name(c.name), kind, c)).alias(f"t_{n}") for n, (c, kind) in enumerate(pairs)]
    here = snapshot.changes().select(*rows.keys_of("after"))
    gone = known.select(*rows.stored_keys(), *texts).join(here, rows.key_names, "left_anti")
    names = ", ".join(sql_literal(column.name) for column in rows.keys)
    before = ", ".join(f"t_{n}" for n in range(len(rows.keys)))
    deletes = gone.selectExpr(
        *snapshot.fields, "'d' AS op", f"array({names}) AS key", "CAST(NULL AS map<string,string>) AS after",
        f"map_from_arrays(array({names}), array({before})) AS before", "CAST(-1 AS bigint) AS position",
    ).localCheckpoint()  # fmt: skip
    return None if deletes.isEmpty() else deletes


def _plain(name: str, kind: str, column: Column) -> str:
    """SQL: a value of a Spark type in plain form."""
    if kind == "string":
        return name
    if kind == "binary":
        return f"""'{{"hex":"' || lower(hex({name})) || '"}}'"""
    if kind == "timestamp_ntz":
        fraction = "." + "S" * column.scale if column.scale else ""
        return f"date_format({name}, 'yyyy-MM-dd HH:mm:ss{fraction}')"
    return f"CAST({name} AS string)"


def load_past(
    target: changelog.Changelog | row_versions.RowVersions, snapshot: Snapshot, table: Table,
    steps: list[SchemaChange], deletes: DataFrame | None, summary: Summary,
) -> int:  # fmt: skip
    """A snapshot into a changelog, or into row versions; how many rows it added. As `load_current`."""
    changes = snapshot.checked(target.columns.values).changes()
    if isinstance(target, row_versions.RowVersions) and target.columns.lake_table.exists():
        changes = _without_known(target, changes, snapshot, table, steps)
    return target.merge(_with(changes, deletes), table, steps, summary)


def _valid_at(tso: int) -> str:
    """SQL: versions that were valid at a TSO."""
    ends_later = f"{row_versions.TO} IS NULL OR coalesce({row_versions.TO_TS} > {tso}, false)"
    return f"{row_versions.FROM_TS} <= {tso} AND ({ends_later})"


def _without_known(
    target: row_versions.RowVersions, changes: DataFrame, snapshot: Snapshot, table: Table, steps: list[SchemaChange]
) -> DataFrame:
    """Without rows whose version at the TSO is known, and has these values."""
    rows = RowValues(target.columns.values, table, steps)
    stored = [F.col(quote_name(name)).alias(f"s_{n}") for n, (name, _) in enumerate(rows.value_pairs)]
    known = target.columns.lake_table.read().where(_valid_at(snapshot.tso)).select(*stored)
    valued = changes.select("*", *rows.values_after())
    same = [F.col(name).eqNullSafe(F.col(f"s_{n}")) for n, (_, name) in enumerate(rows.value_pairs)]
    return valued.join(known, same, "left_anti").drop(*(name for _, name in rows.value_pairs))
