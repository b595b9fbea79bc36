"""The columns of a table of the lake that mirrors a table of TiDB, over its history.

A rename renames, a wider type widens, a dropped column goes, an added one comes with what TiDB shows in the rows that
were there. How far that is stands in a table property, so that a run that was cut off goes on. Rows that were written
before a column got another type become what TiDB made of them (`spark_jobs.pipeline.conversions`); where nobody can
tell what that is, the job stops.
"""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import groupby
from typing import Any, NamedTuple

from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from ticdc_bridge.schemas.model.errors import Hint, SetupError
from ticdc_bridge.schemas.model.names import quote_name
from ticdc_bridge.schemas.model.spark_types import EXACT, SparkTypes, json_type, metadata_of
from ticdc_bridge.schemas.model.table import Column, Table, TableId
from ticdc_bridge.schemas.model.types import Kind
from ticdc_bridge.spark_jobs.lake.column_history import SchemaChange, column_before, emptied_at, load_again
from ticdc_bridge.spark_jobs.lake.column_values import ColumnValues
from ticdc_bridge.spark_jobs.lake.engines.base import LakeTable, TableColumn
from ticdc_bridge.spark_jobs.lake.partition_sql import can_be_unknown
from ticdc_bridge.spark_jobs.lake.tombstones import COMMIT_TS, RESERVED_NAMES, Tombstones
from ticdc_bridge.spark_jobs.pipeline.progress import report_slow_steps
from ticdc_bridge.spark_jobs.pipeline.table_choice import NO_LAYOUT, TableLayout
from ticdc_bridge.spark_jobs.pipeline.table_view import OnLossy

APPLIED = "bridge.schema_ts"
"""Table property: the commit_ts up to which the history is followed."""
LOADED = "bridge.loaded_ts"
"""Table property: the TSO of the newest snapshot from which all rows up to it come (docs/decisions/0048)."""
ORDER = "bridge.order"
"""Table property: "offset" where Kafka's offsets order the changes."""
FORGOTTEN = "bridge.unburied_ts"
"""Table property: the commit_ts up to which deleted keys are not kept any more."""
TYPES = "bridge.types"
"""Table property: --types of the job that made it."""
_ZONE = "bridge.time_zone"
"""Table property: the zone of TIMESTAMP text, where columns have some."""
_RENAMED, NAME = "bridge.renamed", "bridge.name"
_KEY = "bridge.key"
"""Table property: the names of the key's columns, as JSON."""
_PRIVATE = "bridge.private"
"""Table property: the private columns that it had at any time and what was done with them, as JSON."""
_BETWEEN = "_bridge_renamed_"
_NULL_PARTITION = "__HIVE_DEFAULT_PARTITION__"


def load_into_new(id_: TableId | None) -> str:
    """What to do where a table of the lake can't go on."""
    return f"Load the table into a new place, where merge goes on: {str(Hint.LOAD_NEW).format(table=id_)}"


class TableKind(NamedTuple):
    """metadata: columns beside those of the table of TiDB; time_column: that of them with a row's commit_ts.
    keeps_past: whether columns and rows that TiDB has not any more stay.
    """

    metadata: tuple[TableColumn, ...] = (TableColumn(COMMIT_TS, "bigint"),)
    time_column: str = COMMIT_TS
    keeps_past: bool = False
    partitioned_by: tuple[str, ...] = ()

    @property
    def metadata_names(self) -> set[str]:
        return {column.name for column in self.metadata}


@dataclass(frozen=True)
class TableSettings:
    """A job's settings of a table of the lake. id: the table in TiDB; names: its names by time (name_history).

    zone: of TIMESTAMP text. by_offset: Kafka has the order of the changes, which have no commit_ts. null_values: their
    format has null values after deletes (spark_jobs.lake.null_values). on_lossy: a value that its type can't hold stops
    the job, or is NULL and counted. untimed_hint: what to do where changes have no commit_ts. layout: of a table that
    is made. private: as of ColumnMask.facts.
    """

    id: TableId
    types: SparkTypes = EXACT
    zone: str = "UTC"
    names: Sequence[tuple[int, TableId | None]] = ()
    by_offset: bool = False
    null_values: bool = False
    on_lossy: OnLossy = "error"
    untimed_hint: str = "the order of the changes can't be known"
    layout: TableLayout = NO_LAYOUT
    private: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class TableColumns:
    """tombstone_table: beside the table, of its deleted keys."""

    spark: SparkSession
    lake_table: LakeTable
    tombstone_table: LakeTable
    kind: TableKind
    settings: TableSettings

    @cached_property
    def values(self) -> ColumnValues:
        settings = self.settings
        return ColumnValues(self.spark, self.lake_table, settings.id, settings.types, settings.zone)

    def tombstones(self, keys: Sequence[Column]) -> Tombstones:
        """The deleted keys, of a key of these columns."""
        return Tombstones(self.spark, self.tombstone_table, keys, [self.values.type_of(c) for c in keys])

    def create_tombstones(self, table: Table) -> None:
        """The table of deleted keys, before there are any: by it a table that somebody removed is missed."""
        keys = [c for c in table.columns if c.handle_key]
        if keys and not self.tombstone_table.exists():
            self.tombstones(keys).create()

    def time_of(self, name: str) -> int:
        """A commit_ts that the table has as a property (APPLIED, LOADED); -1: it has none."""
        return int(self.lake_table.properties().get(name, -1)) if self.lake_table.exists() else -1

    def types(self) -> dict[str, str]:
        """The types of the columns that are there, by name."""
        return {f.name: f.dataType.simpleString() for f in self.lake_table.read().schema.fields}

    def stopped(self, details: str) -> SetupError:
        """SetupError STOPPED of the table in TiDB."""
        return SetupError("STOPPED", where=str(self.settings.id), details=details)

    def refuse_names(self, table: Table) -> None:
        """SetupError USAGE for a table with a column that is called as one of ours; deleted keys have more of ours."""
        reserved = self.kind.metadata_names
        for column in table.columns:
            if column.name.lower() in (reserved | RESERVED_NAMES if column.handle_key else reserved):
                raise SetupError("USAGE", details=f"table {self.settings.id} has a column {column.name} of its own")

    def can_follow(self) -> bool:
        """True if the table is there, and its rows have a commit_ts that statements come before or after."""
        return self.lake_table.exists() and self.lake_table.properties().get(ORDER) != "offset"

    def follow_or_create(self, table: Table, steps: list[SchemaChange]) -> int:
        """As `follow`; a table that is not there is made."""
        if self.lake_table.exists():
            return self.follow(table, steps)
        if self.tombstone_table.exists():
            details = (
                f"{self.lake_table.location} is not there, and its deleted keys are ({self.tombstone_table.location}):"
                " the table was removed, and these changes alone do not make it again. To start anew, remove the"
                " deleted keys and the checkpoint too"
            )
            raise self.stopped(details)
        columns = [self._lake_column(c) for c in table.columns if not c.virtual]
        properties = {"bridge.table": str(self.settings.id), **_properties_of(self.settings, table, steps)}
        properties |= {_PRIVATE: json.dumps(self.settings.private)} if self.settings.private else {}
        self.lake_table.create([*columns, *self.kind.metadata], properties, *self._layout(table))
        return -1

    def follow(self, table: Table, steps: list[SchemaChange]) -> int:
        """Brings the columns to where the table's are. Deletes up to the commit_ts are not kept by key; -1: all are."""
        properties = self.lake_table.prepare()
        types, wanted = properties.get(TYPES, "exact"), _properties_of(self.settings, table, ())
        if types != wanted[TYPES]:
            made = f"{self.lake_table.location} was made with {Hint.TYPES.of(types)}"
            raise SetupError("USAGE", details=f"{made}: its columns can't become {wanted[TYPES]}")
        if _ZONE in wanted and properties.get(_ZONE, wanted[_ZONE]) != wanted[_ZONE]:
            zones = f"TIMESTAMP text of time zone {properties[_ZONE]}, and these rows of {wanted[_ZONE]}"
            details = f"{self.lake_table.location} has {zones}: give the changefeed's, to load too"
            raise SetupError("USAGE", details=details)
        if (properties.get(ORDER) == "offset") != self.settings.by_offset:
            by_ts, by_offset = "commit_ts", "Kafka's offsets"
            stored, incoming = (by_ts, by_offset) if self.settings.by_offset else (by_offset, by_ts)
            details = (
                f"its rows are ordered by {stored}, and these changes by {incoming}"
                " (--order): the two can't be compared. Merge them into another place"
            )
            raise SetupError("STOPPED", where=self.lake_table.location, details=details)
        self.refuse_other_masks(table, properties)
        self._refuse_other(properties, int(properties.get(APPLIED, 0)))
        applied = self._check_columns(table, steps, properties)
        keys = [c for c in table.columns if c.handle_key]
        tombstones = self.tombstones(keys)
        forgotten, key = [int(properties.get(FORGOTTEN, -1))], properties.get(_KEY)
        done = [step for step in steps if step.commit_ts <= applied] if APPLIED not in properties else []
        for step in (step for step in done if step.removed is not None):  # nothing was followed when they came
            then = next((s.after for s in reversed(done) if s.after is not None), table)
            self.lake_table.delete(self.removed_rows(step, done, then))
        # Each of these does nothing where it is done already: a run that was cut off here begins that step again.
        for commit_ts, together in groupby((s for s in steps if s.commit_ts > applied), key=lambda s: s.commit_ts):
            for number, step in enumerate(together):
                if step.emptied:
                    self.lake_table.delete(f"{self.kind.time_column} <= {commit_ts}")
                    tombstones.forget(commit_ts)
                if step.emptied and step.before is None and step.after is not None:
                    self._begin_anew(step.after)
                if step.removed is not None and step.before is not None:
                    self.lake_table.delete(self.removed_rows(step, (), step.before))
                self._rename(step.renamed, f"{commit_ts}/{number}")
                if step.after is not None:
                    self._adapt_columns(step.after, step, drop=True)
                forgotten.append(self._record_forgotten(tombstones.follow(step, self._key_conversions(step))))
                key = self._record_key(step.after or table, key)
            self.lake_table.set_properties({APPLIED: str(commit_ts)})
        self._adapt_columns(table, None, drop=bool(steps))
        forgotten.append(self._record_forgotten(tombstones.fit() if keys else None))
        self._record_key(table, key)
        if steps and APPLIED not in properties and applied == 0 == steps[-1].commit_ts:
            self.lake_table.set_properties({APPLIED: "0"})
        private = self.settings.private and {**private_of(properties), **self.settings.private}
        wanted |= {_PRIVATE: json.dumps(private)} if private else {}
        for name in (NAME, _ZONE, _PRIVATE):
            if name in wanted and properties.get(name) != wanted[name]:
                self.lake_table.set_properties({name: wanted[name]})
        return max(forgotten)

    def refuse_other_masks(self, table: Table, properties: Mapping[str, str]) -> None:
        """SetupError STOPPED where the table that is there has other private columns than the settings."""
        if other := _other_private(self.settings, table, properties, self.types()):
            details = f"its private columns were others, or the key of their hashes was ({', '.join(other)})"
            advice = f"Give the same rules, of renamed columns by each name, or: {load_into_new(self.settings.id)}"
            raise self.stopped(f"{self.lake_table.location}: {details}. {advice}")

    def _begin_anew(self, table: Table) -> None:
        """Another table has the name, and the old one's rows are gone: columns of the new one are no columns of it."""
        columns = {c.name.lower(): (c.name, self.values.type_of(c)) for c in table.columns if not c.virtual}
        other = [name for name, kind in self.types().items() if columns.get(name.lower(), (name, kind)) != (name, kind)]
        if other and self.lake_table.read().isEmpty():
            for name in other:
                self.lake_table.drop(name)

    def removed_rows(self, step: SchemaChange, steps: Sequence[SchemaChange], table: Table) -> str:
        """SQL: the rows of dropped partitions that are not newer. table: after the steps. SetupError STOPPED."""
        removed = self.values.removed_rows(step, steps, table)
        rows = f"{self.kind.time_column} <= {step.commit_ts} AND {removed}"
        if can_be_unknown(removed) and not self.lake_table.read().where(f"({rows}) IS NULL").isEmpty():
            raise self.doubt_error()
        return rows

    def doubt_error(self) -> SetupError:
        """SetupError STOPPED where it is not known whether a row was in a dropped partition."""
        details = "a text by which rows are spread to partitions ends with blanks, which not all servers compare alike"
        return self.stopped(f"DROP PARTITION: {details}. {load_again(self.settings.id)}")

    def refuse_partitions(self, rows: DataFrame, pairs: Sequence[tuple[str, str]]) -> None:
        """SetupError STOPPED for values that no partition of the table has exactly.

        pairs: columns, and their names in the rows that are to be written.
        """
        by, kinds = {name.lower() for name in self.lake_table.text_partitions()}, dict(rows.dtypes)
        for column, name in pairs:
            kind, reason = kinds[name], ""
            if column.lower() not in by:
                continue
            if kind == "binary" or (kind.startswith("decimal") and not kind.endswith(",0)")):
                reason = f"is {kind}, which not every writer of Delta has exactly there"
            elif kind == "string" and not rows.where(F.col(quote_name(name)).isin("", _NULL_PARTITION)).isEmpty():
                reason = f"is empty or {_NULL_PARTITION} in a row: Delta takes that for NULL"
            if reason:
                details = f"column {column}, by which {self.lake_table.location} is partitioned, {reason}"
                raise self.stopped(f"{details}. Choose another layout. {load_into_new(self.settings.id)}")

    def _record_forgotten(self, commit_ts: int | None) -> int:
        if commit_ts is None:
            return -1
        commit_ts = max(commit_ts, self.time_of(FORGOTTEN))  # `maintain` may have removed newer ones
        self.lake_table.set_properties({FORGOTTEN: str(commit_ts)})
        return commit_ts

    def _key_conversions(self, step: SchemaChange) -> dict[str, Any]:
        """The new values of key columns that got another type: by their old names."""
        conversions: dict[str, Any] = {}
        for column in step.after.columns if step.after else ():
            old = column_before(step, column.name)
            if column.handle_key and old is not None and self.values.is_converted(old, column):
                text = self.values.conversion_sql(quote_name(old.name), old, column)
                conversions[old.name] = self.values.convert(text, column)
        return conversions

    def _refuse_other(self, properties: dict[str, str], applied: int) -> None:
        """Tables may have changed names since the last run: the rows that are there are those of one of them."""
        owner = properties.get(NAME)
        if owner is None or not self.settings.names:
            return
        now = next(name for until, name in self.settings.names if applied < until)
        if owner.lower() == str(now).lower():
            return
        was = f"was called {now} then" if now else "did not exist then"
        details = (
            f"{self.lake_table.location} has the rows of the table that was called {owner} at commit_ts {applied}."
            f" The table that is called {self.settings.names[-1][1]} now {was}, so it is another one."
            f" {load_into_new(self.settings.names[-1][1])}"
        )
        raise self.stopped(details)

    def _record_key(self, table: Table, recorded: str | None) -> str:
        if (key := _key_text(table)) != recorded:
            self.lake_table.set_properties({_KEY: key})
        return key

    def _check_columns(self, table: Table, steps: list[SchemaChange], properties: Mapping[str, str]) -> int:
        """Up to which commit_ts the columns that are there follow the statements.

        SetupError STOPPED where rows are there and what is given does not lead from their columns, or from their key,
        to those of now: it is another table's, or a statement came late, is missing, or was changed. To follow it would
        drop columns with all their values, and fill others with NULL.
        """
        applied, key = int(properties.get(APPLIED, 0)), properties.get(_KEY)
        have = self.types().keys() - self.kind.metadata_names
        if any(name.startswith(_BETWEEN) for name in have):
            return applied  # a run was cut off while columns got new names
        is_followed = APPLIED in properties
        if not is_followed and any(s.commit_ts for s in steps):
            applied = self.lake_table.read().agg(F.max(self.kind.time_column)).collect()[0][0] or 0
        created = next((s for s in reversed(steps) if s.emptied and s.before is None and s.commit_ts > applied), None)
        if created is not None and not self.kind.keeps_past:
            applied = created.commit_ts - 1  # no row from before is this table's: what is followed begins here
            if self.lake_table.read().where(f"{self.kind.time_column} > {created.commit_ts}").isEmpty():
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
        if self.kind.keeps_past and applied == int(properties.get(LOADED, -1)):
            missing = set()  # a snapshot has no columns that were dropped before it
        keys = {_key_text(t) for t in (then, *later)}
        is_other_key = key not in keys if key is not None else bool(set(then.handle_key) & missing)
        is_other = bool(extra or missing) if is_exact else bool(steps and extra and missing)
        if (is_other_key or is_other) and not self.lake_table.read().isEmpty():
            differ = ", ".join([*sorted(extra), *(f"no {name}" for name in sorted(missing))])
            differ = f"key {key}, not {_key_text(then)}" if is_other_key and key is not None else differ
            details = (
                f"{self.lake_table.location} follows the table's history up to commit_ts {applied}, and the definitions"
                f" that are given have other columns there ({differ}): its rows are another table's, or a statement is"
                " missing, came late, or was changed. Give all statements, and a new definition with a newer commit_ts,"
                f" if it is not another table. {load_into_new(self.settings.id)}"
            )
            raise self.stopped(details)
        if not is_followed and applied:
            self._catch_up(done)
        return applied

    def _catch_up(self, done: list[SchemaChange]) -> None:
        """For a table that was made without statements: what these did to older rows."""
        emptied = -1 if self.kind.keeps_past else emptied_at(done)
        if emptied > 0:
            self.lake_table.delete(f"{self.kind.time_column} <= {emptied}")
            self.tombstones([]).forget(emptied)
        fills = list[tuple[int, dict[str, str]]]()
        for step in (s for s in done if s.commit_ts > max(emptied, 0)):
            if step.before is None or step.after is None:
                continue
            pairs = [(column_before(step, c.name), c) for c in step.after.columns if not c.virtual]
            filled = {new.name: text for _, new in pairs if (text := self.values.fill_sql(step, new)) is not None}
            changed = [new.name for old, new in pairs if old is not None and self.values.is_converted(old, new)]
            changed += [new for old, new in step.renamed.items() if old.lower() != new.lower()]
            if not (filled or changed):
                continue
            if self.lake_table.read().where(f"{self.kind.time_column} <= {step.commit_ts}").isEmpty():
                continue
            if changed:
                details = (
                    f"column {changed[0]}: it was changed at commit_ts {step.commit_ts}, and {self.lake_table.location}"
                    " was made without that statement: its older rows do not follow it."
                    f" {load_into_new(self.settings.id)}"
                )
                raise self.stopped(details)
            fills.append((step.commit_ts, filled))
        for commit_ts, values_ in fills:
            self.lake_table.update(values_, f"{self.kind.time_column} <= {commit_ts}")
        if done:
            self.lake_table.set_properties({APPLIED: str(done[-1].commit_ts)})

    def _rename(self, renamed: dict[str, str], name: str) -> None:
        """Old names → new ones, all at once. name: of the step."""
        have = self.types()
        if not {old.lower() for old in renamed} & {new.lower() for new in renamed.values()}:
            for old, new in renamed.items():
                if old in have and new not in have:
                    self.lake_table.rename(old, new)
            return
        # A swap, a chain or other letters go by names that no other column has: a run that was cut off can go on.
        if self.lake_table.properties().get(_RENAMED) != name:
            for old, new in renamed.items():
                if old in have:
                    self.lake_table.rename(old, _BETWEEN + new)
            self.lake_table.set_properties({_RENAMED: name})
        for between in (c for c in self.types() if c.startswith(_BETWEEN)):
            self.lake_table.rename(between, between.removeprefix(_BETWEEN))

    def _layout(self, table: Table) -> tuple[Sequence[str], Sequence[str]]:
        """The partition and the cluster columns of a new table. SetupError USAGE for one that it does not have."""
        if self.kind.partitioned_by:
            return self.kind.partitioned_by, ()
        names = {c.name.lower(): c.name for c in table.columns if not c.virtual}
        layout = self.settings.layout
        if missing := [name for name in (*layout.partition_by, *layout.cluster_by) if name.lower() not in names]:
            details = f"table {self.settings.id} has no column {missing[0]} to be partitioned or clustered by"
            raise SetupError("USAGE", details=details)
        return [names[n.lower()] for n in layout.partition_by], [names[n.lower()] for n in layout.cluster_by]

    def _lake_column(self, column: Column) -> TableColumn:
        return TableColumn(column.name, self.values.type_of(column), _comment(column))

    def _adapt_columns(self, table: Table, step: SchemaChange | None, drop: bool) -> None:
        """step: the one that made the table so; what it added gets a value in the rows that are there."""
        have = self.types()
        self.lake_table.allow([self.values.type_of(c) for c in table.columns], [*have.values()])
        columns = [c for c in table.columns if not c.virtual]
        changed = [c for c in columns if step is not None and c.name in have and self._changes(step, c, have[c.name])]
        if step is not None and changed:
            self._rewrite(step, changed)
        fills = dict[str, str]()
        for column in (c for c in columns if c not in changed):
            kind, fill, is_filled = self.values.type_of(column), self.values.fill_sql(step, column), False
            if column.name not in have:
                time = self.kind.time_column
                newer = "false" if step is None else f"{time} > {step.commit_ts} OR {time} IS NULL"
                is_filled = self.lake_table.add(self._lake_column(column), fill, newer)
            elif have[column.name] != kind:
                self._retype(column.name, have[column.name], kind)
            if fill is not None and not is_filled:
                fills[column.name] = fill
        if step is not None and fills:
            with report_slow_steps(f"{self.settings.id}: filling {', '.join(fills)} in the rows that are there"):
                self.lake_table.update(fills, f"{self.kind.time_column} <= {step.commit_ts}")
        now = {field.name: field.metadata.get("comment", "") for field in self.lake_table.read().schema.fields}
        for column in columns:  # a column's comment is its TiDB type, as that is now
            comment = _comment(column)
            if comment and comment != now.get(column.name):
                self.lake_table.comment(column.name, comment)
        names = {c.name for c in columns} | self.kind.metadata_names
        for name in set(have) - names if drop and not self.kind.keeps_past else ():
            self.lake_table.drop(name)
        self.lake_table.reorder([c.name for c in columns])

    def _changes(self, step: SchemaChange, column: Column, have: str) -> bool:
        """True if TiDB made other values of the column's, which is not done yet."""
        old = column_before(step, column.name)
        if old is None or not self.values.is_converted(old, column):
            return False
        if (have, self.values.type_of(column), column.scale) == ("float", "double", None):
            return False  # the wider type shows what TiDB made of it: the float's value
        return not (have == self.values.type_of(column) != self.values.type_of(old))

    def _rewrite(self, step: SchemaChange, columns: list[Column]) -> None:
        """The table anew, with what TiDB made of these columns' values."""
        frame = self.lake_table.read()
        conversions, losses = dict[str, Any](), []
        for column in columns:
            old, name = column_before(step, column.name), quote_name(column.name)
            assert old is not None
            value = self.values.convert(self.values.conversion_sql(name, old, column), column)
            losses.append(F.when(F.col(name).isNotNull() & value.isNull(), F.lit(f"{column.name} {_sql_type(old)}")))
            conversions[column.name] = value.alias(column.name, metadata={"comment": _sql_type(column)})
        lost = F.coalesce(*losses, F.lit(None).cast("string")).alias("lost")
        row = frame.select(lost).where("lost IS NOT NULL").first()
        if row is not None:
            details = (
                f"column {row['lost']} got another type at commit_ts {step.commit_ts}, and the conversion that"
                f" TiDB made of some values is not known. {load_into_new(self.settings.id)}"
            )
            raise self.stopped(details)
        rows = frame.select(*(conversions.get(name, F.col(quote_name(name))) for name in frame.columns))
        self.lake_table.overwrite(rows)

    def _retype(self, name: str, have: str, kind: str) -> None:
        """Widens in place where Delta can; else writes the table anew. A value that would be another stops the job."""
        if have == "string" and kind != "string":
            return  # text holds every value; nothing is converted that need not be
        if self.lake_table.widen(name, kind):
            return
        frame = self.lake_table.read()
        back = f"try_cast(try_cast({quote_name(name)} AS {kind}) AS {have})"
        try:
            fits = frame.where(f"NOT {quote_name(name)} <=> {back}").isEmpty()
        except AnalysisException:  # types that Spark makes nothing of each other
            fits = False
        if not fits:
            details = f"column {name}: its rows don't fit from {have} to {kind}. {load_into_new(self.settings.id)}"
            raise self.stopped(details)
        self.lake_table.overwrite(frame.withColumn(name, F.expr(f"try_cast({quote_name(name)} AS {kind})")))


def find_lag(
    settings: TableSettings, table: Table, steps: Sequence[SchemaChange], properties: Mapping[str, str],
    columns: Mapping[str, tuple[Any, str]],
) -> str | None:  # fmt: skip
    """What `TableColumns.follow` would do for a table that is there, or None. columns: type (JSON) and comment."""
    for name, value in ({ORDER: None} | _properties_of(settings, table, steps)).items():
        if ({TYPES: "exact"} | dict(properties)).get(name) != value:
            return f"its property {name} is not {value} yet"
    new_private = settings.private.items() - private_of(properties).items()
    if new_private or _other_private(settings, table, properties, columns):
        return "its private columns are not those yet"
    wanted = {c.name: (json_type(c, settings.types), _comment(c)) for c in table.columns if not c.virtual}
    wanted[COMMIT_TS] = ("long", "")
    if others := sorted(wanted.keys() ^ columns.keys()):
        return f"it has other columns ({', '.join(others)})"
    for name, (kind, comment) in wanted.items():
        if columns[name][0] != kind or comment not in ("", columns[name][1]):
            return f"column {name} is not as it is defined"
    return None


def _properties_of(settings: TableSettings, table: Table, steps: Sequence[SchemaChange]) -> dict[str, str]:
    """The properties of a table that follows all steps."""
    properties = {TYPES: settings.types.types, _KEY: _key_text(table)}
    properties |= {APPLIED: str(steps[-1].commit_ts)} if steps else {}
    properties |= {NAME: str(settings.names[-1][1])} if settings.names else {}
    if Kind.TIMESTAMP not in settings.types.kinds and any(c.type.kind is Kind.TIMESTAMP for c in table.columns):
        properties[_ZONE] = "UTC" if settings.zone.upper() in ("UTC", "ETC/UTC", "Z", "+00:00") else settings.zone
    return properties | ({ORDER: "offset"} if settings.by_offset else {})


def private_of(properties: Mapping[str, str]) -> dict[str, str]:
    """What was done with a table's private columns, by their names in small letters."""
    private: dict[str, str] = json.loads(properties.get(_PRIVATE, "{}"))
    return private


def _other_private(
    settings: TableSettings, table: Table, properties: Mapping[str, str], have: Iterable[str]
) -> list[str]:
    """Columns of the table of the lake that were made by another mask than that of now. have: the columns there."""
    made, now = private_of(properties), settings.private
    there = {name.lower() for name in have} | made.keys()
    names = {column.name.lower() for column in table.columns} | now.keys()
    return sorted(name for name in names & there if made.get(name) != now.get(name))


def newest_gap(properties: Mapping[str, str]) -> int:
    """A change up to here needs Spark: a snapshot has it, or deletes of then are not known any more. -1: none does."""
    return max(int(properties.get(name, -1)) for name in (LOADED, FORGOTTEN))


def column_names(table: Table) -> set[str]:
    return {c.name for c in table.columns if not c.virtual}


def _key_text(table: Table) -> str:
    return json.dumps(sorted(c.name.lower() for c in table.columns if c.handle_key))


def _sql_type(column: Column) -> str:
    return str(metadata_of(column, certain=True).get("tidb_type", column.type.name))


def _comment(column: Column) -> str:
    """The column's TiDB type as its comment, "" where it is not known."""
    metadata = metadata_of(column, certain=bool(column.charset) or column.id != 0)
    return str(metadata["tidb_type"]) if metadata else ""
