"""Loads the rows that a table of TiDB had at one TSO into tables of the lake: as changes of that commit_ts.

So whatever `merge` does about newer rows, deleted keys, columns and types is done here too, and both may come in either
order. A current table without rows is written without a MERGE. docs/decisions/0048 has the rules.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple, Protocol

from pyspark.sql import Column as SparkColumn
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from ticdc_bridge.schemas.ddl.executor.versions import DdlText
from ticdc_bridge.schemas.model.errors import SetupError
from ticdc_bridge.schemas.model.names import quote_name
from ticdc_bridge.schemas.model.table import Column, Table, TableId
from ticdc_bridge.schemas.model.types import Kind
from ticdc_bridge.spark_jobs.arrow.change_schema import SOURCE
from ticdc_bridge.spark_jobs.lake import changelog, merge, row_versions
from ticdc_bridge.spark_jobs.lake.column_history import SchemaChange, emptied_at
from ticdc_bridge.spark_jobs.lake.past_rows import COMMIT_TIME
from ticdc_bridge.spark_jobs.lake.row_values import RowValues
from ticdc_bridge.spark_jobs.lake.table_columns import APPLIED, LOADED, TableColumns, load_into_new
from ticdc_bridge.spark_jobs.lake.tombstones import COMMIT_TS
from ticdc_bridge.spark_jobs.pipeline.result import Summary
from ticdc_bridge.spark_jobs.spark.sql_expressions import sql_literal

_BYTES = (Kind.BIT, Kind.BINARY)
_NUMBERS = (Kind.INTEGER, Kind.YEAR, Kind.FLOAT, Kind.DOUBLE, Kind.DECIMAL)


class SourceError(Exception):
    """In Spark's workers: what is wrong with the source; the driver finds it in Spark's text."""


class SnapshotTable(Protocol):
    """A table at the TSO. columns: those that can be read; definition: its CREATE TABLE, as of just before the TSO."""

    @property
    def table(self) -> Table: ...

    @property
    def definition(self) -> DdlText: ...

    @property
    def columns(self) -> Sequence[Column]: ...

    @property
    def size(self) -> int:
        """Bytes to be read, 0 where that is not known."""
        ...

    def rows(self, spark: SparkSession) -> DataFrame:
        """As Snapshot has them."""
        ...

    def losses(self, spark: SparkSession) -> list[str]:
        """What the source does not hold exactly: a sentence a column. SetupError where it can't be read at all."""
        ...


@dataclass(frozen=True)
class Snapshot:
    """The rows of a table at a TSO.

    Args:
        tso: physical ms << 18 | logical.
        table: as it was defined then.
        rows: c_N for each of `columns`, as text in plain form, bytes, or as Parquet has it; `file` and `line` tell rows
            apart.
        columns: those that the source has.
    """

    tso: int
    table: Table
    rows: DataFrame
    columns: Sequence[Column]

    @property
    def id(self) -> TableId:
        return self.table.id

    def text(self, number: int) -> str:
        """SQL: a value in plain form."""
        name, column = f"c_{number}", self.columns[number]
        kind = dict(self.rows.dtypes)[name]
        if kind == "string":
            return name
        if kind == "binary":
            return f"""'{{"hex":"' || lower(hex({name})) || '"}}'"""
        if kind == "timestamp_ntz":
            fraction = "." + "S" * column.scale if column.scale else ""
            return f"date_format({name}, 'yyyy-MM-dd HH:mm:ss{fraction}')"
        return f"CAST({name} AS string)"

    def changes(self) -> DataFrame:
        """The rows as spark_jobs.arrow.change_schema.CHANGES with `position`, inserted at the TSO."""
        names = ", ".join(sql_literal(column.name) for column in self.columns)
        texts = ", ".join(self.text(n) for n in range(len(self.columns)))
        keys = ", ".join(sql_literal(name) for name in self.table.handle_key)
        at = f"CAST({self.tso} AS bigint)"
        # Rows of a table without a key are told apart by where they stand in the snapshot. A delete without a commit_ts
        # that Kafka had later, in this millisecond too, is newer than they are.
        time = f"timestamp_millis({_before(self.tso)})"
        source = f"named_struct('topic', 'snapshot {self.tso}', 'partition', file, 'offset', line, 'timestamp', {time})"
        return self.rows.selectExpr(
            "'row' AS kind", "'s' AS op", f"{at} AS commit_ts", f"{COMMIT_TIME.format(at)} AS commit_time",
            f"{sql_literal(self.id.db)} AS db", f"{sql_literal(self.id.table)} AS table",
            "CAST(NULL AS int) AS schema_id", "CAST(NULL AS bigint) AS table_version",
            f"CAST(array({keys}) AS array<string>) AS key",
            "CAST(NULL AS map<string,string>) AS before", f"map_from_arrays(array({names}), array({texts})) AS after",
            "CAST(array() AS array<string>) AS flags", "0 AS row", f"CAST({source} AS {SOURCE}) AS source",
            "CAST(NULL AS string) AS error", "(CAST(file AS bigint) << 40) + line AS position",
        )  # fmt: skip


Target = merge.CurrentTable | changelog.Changelog | row_versions.RowVersions


class Place(NamedTuple):
    """What a place is to a snapshot. applied, loaded: APPLIED and LOADED. is_clear: it has no rows from before the TSO
    but the snapshot's.
    """

    applied: int
    loaded: int
    is_clear: bool


def place_of(target: Target, tso: int) -> Place:
    """SetupError STOPPED for a table without a key that has rows from before the snapshot, which has them too."""
    columns, lake_table = target.columns, target.columns.lake_table
    if not columns.can_follow():
        return Place(-1, -1, not lake_table.exists())
    rows = lake_table.read().where(f"{columns.kind.time_column} <= {tso}")
    keyless = merge.ROW_MESSAGE in columns.types()
    own = F.col(merge.ROW_MESSAGE).startswith(f"snapshot {tso}/") if keyless else F.col(columns.kind.time_column) == tso
    is_clear = rows.where(~own).isEmpty()
    if keyless and not is_clear:
        details = (
            f"{lake_table.location} has rows from before TSO {tso}, and nothing tells which of them the snapshot has,"
            " as the table has no key"
        )
        raise columns.stopped(f"{details}. {load_into_new(columns.settings.id)}")
    return Place(columns.time_of(APPLIED), columns.time_of(LOADED), is_clear)


@dataclass(frozen=True)
class Loaded:
    """What a load did. newer: rows that are newer, or deleted later, in the place. removed: keys it did not have."""

    rows: int
    written: int
    newer: int = 0
    removed: int = 0


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
    if is_new and emptied_at(steps) < snapshot.tso:
        return _fill(columns, snapshot, table, steps)
    rows, of_snapshot = snapshot.rows.count(), f"{COMMIT_TS} = {snapshot.tso}"
    before = lake_table.read().where(of_snapshot).count() if lake_table.exists() else 0
    replace(target, loading=snapshot.tso).merge(_with(snapshot.changes(), deletes), table, steps, summary)
    after = lake_table.read().where(of_snapshot).count()
    return Loaded(rows, after - before, rows - after, deletes.count() if deletes is not None else 0)


def _with(changes: DataFrame, deletes: DataFrame | None) -> DataFrame:
    return changes if deletes is None else changes.unionByName(deletes, allowMissingColumns=True)


def _fill(columns: TableColumns, snapshot: Snapshot, table: Table, steps: list[SchemaChange]) -> Loaded:
    """A table without rows: those of the snapshot in one commit, each value checked as it is written."""
    columns.refuse_names(table)
    columns.follow_or_create(table, steps)
    rows = RowValues(columns.values, table, steps)
    typed = _typed(snapshot, rows)
    fields = columns.lake_table.read().schema.fields
    extra = {COMMIT_TS: F.lit(snapshot.tso).cast("bigint"), merge.ROW_MESSAGE: _row_message(snapshot)}
    values = {**extra, **typed}
    frame = snapshot.rows.select(*(values[f.name].cast(f.dataType).alias(f.name) for f in fields))
    columns.lake_table.add_rows(frame)
    count = columns.lake_table.read().count()
    return Loaded(count, count)


def _row_message(snapshot: Snapshot) -> SparkColumn:
    return F.concat_ws("/", F.lit(f"snapshot {snapshot.tso}"), "file", "line", F.lit(_before(snapshot.tso)), F.lit(0))


def _before(tso: int) -> int:
    """Milliseconds since 1970, just before those of the TSO."""
    return (tso >> 18) - 1


def _typed(snapshot: Snapshot, rows: RowValues) -> dict[str, SparkColumn]:
    """The values of the snapshot's rows, by the columns of the lake; one that its column can't hold ends the job."""
    by_name = {column.name: n for n, column in enumerate(snapshot.columns)}
    typed = dict[str, SparkColumn]()
    for column in rows.columns:
        if column.name not in by_name:
            typed[column.name] = F.lit(None)
            continue
        number = by_name[column.name]
        name, kind = f"c_{number}", dict(snapshot.rows.dtypes)[f"c_{number}"]
        if column.type.kind in _BYTES and kind == "binary":
            typed[column.name] = F.col(name)
            continue
        value = rows.of_column.convert(snapshot.text(number), column)
        if kind != "string" and column.type.kind in _NUMBERS:
            value = F.col(name).try_cast(rows.of_column.type_of(column))
        if rows.of_column.type_of(column) != "string":
            details = f"column {column.name}: a value of the snapshot is none of its type {column.type.name}"
            value = F.when(F.col(name).isNotNull() & value.isNull(), F.raise_error(F.lit(details))).otherwise(value)
        typed[column.name] = value
    return typed


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
    texts = [F.expr(_plain(column, columns)).alias(f"t_{n}") for n, column in enumerate(rows.keys)]
    here = snapshot.changes().select(*rows.keys_of("after"))
    gone = known.select(*rows.stored_keys(), *texts).join(here, rows.key_names, "left_anti")
    pairs = ", ".join(f"{sql_literal(column.name)}, t_{n}" for n, column in enumerate(rows.keys))
    at, names = f"CAST({snapshot.tso} AS bigint)", ", ".join(sql_literal(column.name) for column in rows.keys)
    deletes = gone.selectExpr(
        "'row' AS kind", "'d' AS op", f"{at} AS commit_ts", f"{COMMIT_TIME.format(at)} AS commit_time",
        f"{sql_literal(snapshot.id.db)} AS db", f"{sql_literal(snapshot.id.table)} AS table", f"array({names}) AS key",
        f"map({pairs}) AS before", "CAST(NULL AS map<string,string>) AS after",
        "CAST(array() AS array<string>) AS flags", "0 AS row", "CAST(-1 AS bigint) AS position",
    ).localCheckpoint()  # fmt: skip
    return None if deletes.isEmpty() else deletes


def _plain(column: Column, columns: TableColumns) -> str:
    """SQL: a value of a key as the table of the lake has it → in plain form."""
    name, kind = quote_name(column.name), columns.values.type_of(column)
    if column.type.kind in _BYTES:
        return f"""'{{"hex":"' || lower(hex({name})) || '"}}'"""
    if kind == "timestamp_ntz":
        fraction = "." + "S" * column.scale if column.scale else ""
        return f"date_format({name}, 'yyyy-MM-dd HH:mm:ss{fraction}')"
    if kind == "timestamp":
        raise columns.stopped(f"--replace: the key has a TIMESTAMP ({column.name}) of Spark's type: load it elsewhere")
    return f"CAST({name} AS string)"


def load_past(
    target: changelog.Changelog | row_versions.RowVersions, snapshot: Snapshot, table: Table,
    steps: list[SchemaChange], deletes: DataFrame | None, summary: Summary,
) -> int:  # fmt: skip
    """A snapshot into a changelog, or into row versions; how many rows it added. As `load_current`."""
    changes = snapshot.changes()
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
