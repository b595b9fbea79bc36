"""Values of changes as columns of a table of the lake: each by the name and type of its column at its commit_ts."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from ticdc_bridge.schemas.model.errors import SetupError
from ticdc_bridge.schemas.model.table import Column, Table
from ticdc_bridge.spark_jobs.lake.column_history import SchemaChange, added_column, names_over_time, types_over_time
from ticdc_bridge.spark_jobs.lake.merge_columns import MergeColumns
from ticdc_bridge.spark_jobs.lake.null_values import without_null_values
from ticdc_bridge.spark_jobs.lake.tombstones import OWN_NAMES, Tombstones
from ticdc_bridge.spark_jobs.pipeline.conversions import converter
from ticdc_bridge.spark_jobs.pipeline.table_view import OnLossy
from ticdc_bridge.spark_jobs.spark.sql_expressions import sql_literal

_INEXACT = (
    "lossy_decimal",
    "float_damaged",
    "temporal_zero_ambiguous",
    "boolean_number",
    "fraction_cut",
    "replaced_utf8",
)
"""Flags of values that other values are written as, too."""
INEXACT_KEY = "get(filter(flags, f -> exists(`key`, k -> f IN ({}))), 0)".format(
    ", ".join(f"concat('{flag}:', k)" for flag in _INEXACT)
)
"""SQL: one of these flags of a column of a change's key; NULL for none."""


def _changes_key(step: SchemaChange) -> bool:
    """Whether the statement gave a table that was there another key; a key column that is renamed is the same."""
    if step.before is None or step.after is None or step.emptied:
        return False
    old = {step.renamed.get(c.name, c.name).lower() for c in step.before.columns if c.handle_key}
    return old != {c.name.lower() for c in step.after.columns if c.handle_key}


@dataclass(frozen=True)
class RowValues(MergeColumns):
    """A table of the lake, and what the changes have for its columns.

    on_lossy: a value that its type can't hold stops the job, or is NULL and counted. untimed: what to do where changes
    have no commit_ts.
    """

    on_lossy: OnLossy = "error"
    untimed: str = "the order of the changes can't be known"

    def _refuse_names(self, table: Table) -> None:
        """SetupError USAGE for a table with a column that is called as one of ours; deleted keys have more of ours."""
        ours, of_keys = self._metadata_names(), OWN_NAMES
        for column in table.columns:
            if column.name.lower() in (ours | of_keys if column.handle_key else ours):
                raise SetupError("USAGE", details=f"table {self.id} has a column {column.name} of its own")

    def _refuse_other_columns(self, changes: DataFrame, table: Table) -> None:
        """SetupError STOPPED for a row that has other columns than the definition, or has them of another type."""
        columns = [c for c in table.columns if not c.virtual]
        names = F.array(*(F.lit(c.name.lower()) for c in columns))
        needed = [c.name.lower() for c in columns if not c.nullable or c.default is not None]
        have = F.transform(F.map_keys("after"), F.lower)
        other = F.array_except(have, names)
        lacking = F.array_except(F.array(*map(F.lit, needed)).cast("array<string>"), have)
        mismatch = F.expr("get(filter(flags, f -> startswith(f, 'definition_mismatch:')), 0)")
        first = F.when(F.col("after").isNotNull(), F.coalesce(F.get(other, 0), F.get(lacking, 0)))
        odd = F.coalesce(F.substring_index(mismatch, ":", -1), first).alias("name")
        row = changes.select(odd).where("name IS NOT NULL").first()
        if row is not None:
            details = (
                f"column {row['name']}: a change does not have it as the definition does, and an offset does not tell"
                " whether the change is older. Give the definition that the changes have (--ddl), and merge those from"
                " before it was changed into another place"
            )
            raise SetupError("STOPPED", where=str(table.id), details=details)

    def _refuse_older_key(self, changes: DataFrame, steps: list[SchemaChange]) -> None:
        """SetupError STOPPED for updates without their old row from before the table got the key that it has now: the
        row may have had another value of that key, and nothing tells which.
        """
        at = max((step.commit_ts for step in steps if _changes_key(step)), default=None)
        if at is None:
            return
        row = changes.where(f"op = 'u' AND before IS NULL AND commit_ts <= {at}").select("commit_ts").first()
        if row is not None:
            details = (
                f"the table got another key at commit_ts {at}, and the update at commit_ts {row['commit_ts']} was sent"
                " without its old row: nobody can tell which row of the new key it changed. Merge first with the"
                " definitions and messages from before that statement, then with all"
            )
            raise SetupError("STOPPED", where=str(self.id), details=details)

    def _refuse_inexact_key(self, flag: str | None) -> None:
        """SetupError STOPPED where a change has a flag of INEXACT_KEY, unless the user takes such values."""
        if flag is not None and self.on_lossy == "error":
            name, _, column = flag.partition(":")
            details = (
                f"column {column} is in the key, and a message does not hold its value exactly ({name}): two rows of"
                " TiDB could become one. Use a protocol that keeps it, leave the table out, or accept that with"
                " --on-lossy flag"
            )
            raise SetupError("STOPPED", where=str(self.id), details=details)

    def _without_null_values(self, changes: DataFrame, steps: list[SchemaChange], tombstones: Tombstones) -> DataFrame:
        """The changes without the null values after deletes."""
        keys = [self._value("before", c, steps) for c in tombstones.keys]
        return without_null_values(changes, keys, tombstones.messages())

    def _find_unfit(self, table: Table, steps: list[SchemaChange]) -> Any:
        """Whether a value is none that its column's type can hold: such a zero date has no Spark type but text."""
        unfit = F.lit(False)
        for column in (c for c in table.columns if c.type.kind in self.types.kinds and not c.virtual):
            for side in ("before", "after"):
                text = self._text(side, column, steps)[0]
                unfit = unfit | (F.expr(text).isNotNull() & self._convert(text, column).isNull())
        return unfit

    def _bad_column(self, column: Column, steps: list[SchemaChange]) -> Any:
        """The column's name where its value (after) can't be made one of the column's type."""
        text, _, received = self._text("after", column, steps)
        return F.when(F.expr(f"({received}) IS NOT NULL") & self._convert(text, column).isNull(), F.lit(column.name))

    def _value(self, side: str, column: Column, steps: list[SchemaChange]) -> Any:
        """A column of a row, by the name that it had at the row's commit_ts; what TiDB shows where it was not there."""
        text, present, _ = self._text(side, column, steps)
        typed = self._convert(text, column)
        value = self._older_value(column, steps)
        if value is None:
            return typed
        return F.when(F.expr(present), typed).otherwise(F.expr(self._constant(column, value)))

    def _older_value(self, column: Column, steps: list[SchemaChange]) -> Any:
        """What rows show that are older than the column; None: NULL, or not known."""
        first = added_column(steps, column.name)
        value = None if first is None else self._fill_value(first)[1]
        for _, old, new in types_over_time(steps, column) if value is not None else ():
            convert = converter(old, new)
            try:
                value = convert(value) if convert else value
            except ValueError as error:
                details = f"column {column.name}: nobody can tell what TiDB made of its default {value!r}: {error}"
                raise SetupError("STOPPED", where=str(self.id), details=details) from error
        return value

    def _text(self, side: str, column: Column, steps: list[SchemaChange]) -> tuple[str, str, str]:
        """SQL: a column's text in plain form, whether the row has the column, and the text as it was received."""
        text = f"{side}[{sql_literal(column.name)}]"
        present = f"map_contains_key({side}, {sql_literal(column.name)})"
        for until, name in reversed(names_over_time(steps, column.name)):
            then = "CAST(NULL AS string)" if name is None else f"{side}[{sql_literal(name)}]"
            there = "false" if name is None else f"map_contains_key({side}, {sql_literal(name)})"
            text = f"CASE WHEN commit_ts <= {until} THEN {then} ELSE {text} END"
            present = f"CASE WHEN commit_ts <= {until} THEN {there} ELSE {present} END"
        received = text
        for until, old, new in types_over_time(steps, column):
            if converter(old, new) is not None:
                # Avro's deletes tell no commit_ts: digits and lengths can be brought to the new form all the same.
                when = f"commit_ts <= {until}" + (" OR commit_ts IS NULL" if old.type.kind is new.type.kind else "")
                text = f"CASE WHEN {when} THEN {self._conversion_sql(text, old, new)} ELSE {text} END"
        return text, present, received
