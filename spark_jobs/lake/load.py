"""Loads the rows that a table of TiDB had at one TSO into tables of the lake: as changes of that commit_ts.

So whatever `merge` does about newer rows, deleted keys, columns and types is done here too, and both may come in either
order. A current table without rows is written without a MERGE. docs/decisions/0048 has the rules.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from ticdc_bridge.schemas.model.errors import SetupError
from ticdc_bridge.schemas.model.names import quote_name
from ticdc_bridge.schemas.model.table import Column, Table, TableId
from ticdc_bridge.schemas.model.types import BYTES
from ticdc_bridge.spark_jobs.arrow.change_schema import SOURCE
from ticdc_bridge.spark_jobs.lake import changelog, merge, row_versions
from ticdc_bridge.spark_jobs.lake.column_history import SchemaChange
from ticdc_bridge.spark_jobs.lake.column_values import plain_sql
from ticdc_bridge.spark_jobs.lake.engines.base import RowFile, Upsert
from ticdc_bridge.spark_jobs.lake.engines.spark_sql import keep_rows
from ticdc_bridge.spark_jobs.lake.past_rows import COMMIT_TIME
from ticdc_bridge.spark_jobs.lake.row_values import RowValues
from ticdc_bridge.spark_jobs.lake.table_columns import APPLIED, LOADED, TableColumns, load_into_new
from ticdc_bridge.spark_jobs.lake.tombstones import COMMIT_TS
from ticdc_bridge.spark_jobs.pipeline.result import Summary
from ticdc_bridge.spark_jobs.spark.sql_expressions import sql_literal

FILE, LINE = "file", "line"
"""Columns of read rows: the chunk, and the row's number in it."""


class SourceError(Exception):
    """In Spark's workers: what is wrong with the source; the driver finds it in Spark's text."""


@dataclass(frozen=True)
class Snapshot:
    """The rows of a table at a TSO.

    Args:
        tso: physical ms << 18 | logical.
        table: as it was defined then.
        rows: c_N for each of `columns`, in its exact type; `file` and `line` tell rows apart. With COMMIT_TS, and
            ROW_MESSAGE of a table without a key, where they are for a current table.
        columns: those that the source has.
        count, files: of a load: how many rows these are, and what holds them, by the columns' names.
        left_out: keys (map<string,string> in plain form) of rows that the snapshot has, and `rows` has not.
    """

    tso: int
    table: Table
    rows: DataFrame
    columns: Sequence[Column]
    count: int = 0
    files: Sequence[RowFile] = ()
    left_out: DataFrame | None = None

    @property
    def id(self) -> TableId:
        return self.table.id

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
        kinds = [kind for _, kind in self.rows.dtypes]
        texts = ", ".join(plain_sql(f"c_{n}", kinds[n], column) for n, column in enumerate(self.columns))
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

    def deletes(self, keys: DataFrame, names: Sequence[str], texts: str) -> DataFrame:
        """Deletes at the TSO, one for each row of `keys`. names: of the key's columns; texts: SQL, an array of them."""
        listed = f"array({', '.join(map(sql_literal, names))})"
        return keys.selectExpr(
            *self.fields, "'d' AS op", f"{listed} AS key", "CAST(NULL AS map<string,string>) AS after",
            f"map_from_arrays({listed}, {texts}) AS before", "CAST(-1 AS bigint) AS position",
        )  # fmt: skip


Target = merge.CurrentTable | changelog.Changelog | row_versions.RowVersions


class TargetState(NamedTuple):
    """applied, loaded: APPLIED and LOADED of a lake table. is_clear: up to the TSO it has the snapshot's rows alone."""

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
    has_tso = F.col(columns.kind.time_column) == tso
    loaded = F.col(merge.ROW_MESSAGE).startswith(f"snapshot {tso}/") if keyless else has_tso
    is_clear = rows.where(~loaded).isEmpty()
    if keyless and not is_clear:
        details = f"{lake_table.location} has rows from before TSO {tso}, and no key that tells those of the snapshot"
        raise columns.stopped(f"{details}. {load_into_new(columns.settings.id)}")
    return TargetState(columns.time_of(APPLIED), columns.time_of(LOADED), is_clear)


class Loaded(NamedTuple):
    """What a load did. newer: rows that are newer, or deleted later, in the place. removed: keys it did not have.
    errors: rows with a value that does not fit its column's type.
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
    """A snapshot into a current table, as it is now by `steps`. deletes: of `missing_keys`. SetupError as of merge."""
    columns, lake_table, deleted = target.columns, target.columns.lake_table, target.columns.tombstone_table
    target.check_key(columns, table, lake_table.exists())
    if _has_rows(target, snapshot):
        return Loaded(snapshot.count, 0)
    is_new = not lake_table.exists() or (
        lake_table.read().isEmpty() and not (deleted.exists() and not deleted.read().isEmpty())
    )
    rows, of_snapshot = snapshot.count, f"{COMMIT_TS} = {snapshot.tso}"
    # Later statements may give the columns other names and values: merge follows them.
    if is_new and all(step.commit_ts < snapshot.tso for step in steps):
        _fill(columns, snapshot, table, steps)
        if lake_table.read().count() == rows:
            revived = delete_revived(columns, snapshot, table, steps)
            return Loaded(rows, rows - revived, revived)
        lake_table.delete(of_snapshot)  # a stream wrote rows at the same time: these are merged with them
    before = lake_table.read().where(of_snapshot).count() if lake_table.exists() else 0
    changes = _with(snapshot.changes(), deletes)
    replace(target, loading=snapshot.tso).merge(changes, table, steps, summary)
    delete_revived(columns, snapshot, table, steps)
    after = lake_table.read().where(of_snapshot).count()
    return Loaded(rows, after - before, rows - after, deletes.count() if deletes is not None else 0)


def delete_revived(columns: TableColumns, snapshot: Snapshot, table: Table, steps: list[SchemaChange]) -> int:
    """Rows whose keys a stream deleted while they were written, when it did not find them; how many."""
    rows = RowValues(columns.values, table, steps)
    tombstones, lake_table = columns.tombstones(rows.keys), columns.lake_table
    stored = tombstones.stored if rows.keys else None
    if stored is None or stored.where(F.col(COMMIT_TS) > snapshot.tso).isEmpty():
        return 0
    kinds = F.lit(snapshot.tso).alias("commit_ts"), F.lit(False).alias("is_deleted")
    written = lake_table.read().where(f"{COMMIT_TS} = {snapshot.tso}").select(*rows.stored_keys(), *kinds)
    late = keep_rows(tombstones.mark_late(written, snapshot.tso).where("late"), are_few=False)
    if count := late.count():
        values = [(COMMIT_TS, "commit_ts")]
        lake_table.merge(late, Upsert(rows.key_pairs, values, update="false", insert="false", delete="true"))
    return count


def _has_rows(target: Target, snapshot: Snapshot) -> bool:
    """True if a table without a key has the snapshot's rows, maybe of another source, which numbers them otherwise.
    SetupError STOPPED where it has others of the TSO.
    """
    columns = target.columns
    if snapshot.table.handle_key or not columns.lake_table.exists():
        return False
    name, of = (changelog.CHANGE, "kafka/") if isinstance(target, changelog.Changelog) else (merge.ROW_MESSAGE, "")
    have = columns.lake_table.read().where(F.col(name).startswith(f"{of}snapshot {snapshot.tso}/")).count()
    if have not in (0, snapshot.count):
        details = f"{columns.lake_table.location} has {have} rows of TSO {snapshot.tso}, and this load {snapshot.count}"
        raise columns.stopped(f"{details}; no key tells which are lacking. {load_into_new(columns.settings.id)}")
    return have > 0


def _with(changes: DataFrame, deletes: DataFrame | None) -> DataFrame:
    return changes if deletes is None else changes.unionByName(deletes, allowMissingColumns=True)


def _fill(columns: TableColumns, snapshot: Snapshot, table: Table, steps: list[SchemaChange]) -> None:
    """A table without rows: those of the snapshot in one commit, as their files where it takes them."""
    columns.follow_or_create(table, steps)
    have = columns.lake_table.read()
    kinds = dict(snapshot.rows.drop(FILE, LINE).dtypes)
    kinds |= {column.name: kinds.pop(f"c_{n}") for n, column in enumerate(snapshot.columns)}
    fits = kinds.items() <= dict(have.dtypes).items()
    if snapshot.count and not (fits and columns.lake_table.add_files(snapshot.files)):
        values = {name: F.col(name) for name in (COMMIT_TS, merge.ROW_MESSAGE)}
        values |= {c.name: columns.values.from_exact(F.col(f"c_{n}"), c) for n, c in enumerate(snapshot.columns)}
        fields = ((f, values.get(f.name, F.lit(None))) for f in have.schema.fields)
        rows = snapshot.rows.select(*(value.cast(f.dataType).alias(f.name) for f, value in fields))
        columns.refuse_partitions(rows, [(f.name, f.name) for f in have.schema.fields])
        # With a read of the table, for Delta: a merge at the same time has a conflict then (as in add_files).
        columns.lake_table.add_rows(rows.union(have.where(f"{COMMIT_TS} IS NULL")))
    columns.create_tombstones(table)


def row_message(tso: int, file: int, line: int) -> str:
    """What tells a row of a table without a key (ROW_MESSAGE), as `merge` makes it of `Snapshot.changes`."""
    return f"snapshot {tso}/{file}/{line}/{_before(tso)}/0"


def _before(tso: int) -> int:
    """Milliseconds since 1970, just before those of the TSO."""
    return (tso >> 18) - 1


def missing_keys(target: Target, snapshot: Snapshot, table: Table, steps: list[SchemaChange]) -> DataFrame | None:
    """Deletes at the TSO of keys that the snapshot has not, None without any. SetupError USAGE without a key."""
    columns = target.columns
    rows = RowValues(columns.values, table, steps)
    if not rows.keys:
        details = "--replace needs a key, to find the rows that TiDB no longer has: load the table into a new place"
        raise SetupError("USAGE", details=f"table {snapshot.id}: {details}")
    if not columns.lake_table.exists():
        return None
    target.follow(table, steps)  # the snapshot's columns may have newer names
    is_current = isinstance(target, merge.CurrentTable)
    known = columns.lake_table.read().where(f"{COMMIT_TS} <= {snapshot.tso}" if is_current else _valid_at(snapshot.tso))
    kinds = ["binary" if c.type.kind in BYTES else columns.values.type_of(c) for c in rows.keys]
    if "timestamp" in kinds:
        raise columns.stopped("--replace: the key has a TIMESTAMP of Spark's type: load the table into a new place")
    pairs = zip(rows.keys, kinds, strict=True)
    texts = [F.expr(plain_sql(quote_name(c.name), kind, c)).alias(f"t_{n}") for n, (c, kind) in enumerate(pairs)]
    changes = snapshot.changes().select("after", "commit_ts")
    if snapshot.left_out is not None:
        changes = changes.unionByName(snapshot.left_out.selectExpr("key AS after", f"{snapshot.tso} AS commit_ts"))
    here = changes.select(*rows.keys_of("after"))
    gone = known.select(*rows.stored_keys(), *texts).join(here, rows.key_names, "left_anti")
    before = ", ".join(f"t_{n}" for n in range(len(rows.keys)))
    deletes = snapshot.deletes(gone, [column.name for column in rows.keys], f"array({before})").localCheckpoint()
    return None if deletes.isEmpty() else deletes


def load_past(
    target: changelog.Changelog | row_versions.RowVersions, snapshot: Snapshot, table: Table,
    steps: list[SchemaChange], deletes: DataFrame | None, summary: Summary,
) -> int:  # fmt: skip
    """A snapshot into a changelog, or into row versions; how many rows it added. As `load_current`."""
    changes = snapshot.changes()
    if _has_rows(target, snapshot):
        return 0
    if isinstance(target, row_versions.RowVersions) and target.columns.lake_table.exists():
        target.follow(table, steps)  # the snapshot's columns may have newer names
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
