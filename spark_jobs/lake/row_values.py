"""Values of changes as columns of a table of the lake: each by the name and type of its column at its commit_ts."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, reduce
from operator import or_
from typing import Any, Literal

from pyspark.sql import Column as SparkColumn
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from ticdc_bridge.schemas.model.errors import Hint, SetupError
from ticdc_bridge.schemas.model.names import quote_name
from ticdc_bridge.schemas.model.table import Column, Table
from ticdc_bridge.schemas.model.types import NUMBERS
from ticdc_bridge.spark_jobs.lake.column_history import SchemaChange, added_column, names_over_time, types_over_time
from ticdc_bridge.spark_jobs.lake.column_values import ColumnValues
from ticdc_bridge.spark_jobs.pipeline.conversions import converter
from ticdc_bridge.spark_jobs.spark.sql_expressions import sql_literal

Image = Literal["before", "after"]


@dataclass(frozen=True)
class RowValues:
    """steps: the table's history. dropped: columns that stay, by the commit_ts of their DROP (lake.dropped_columns)."""

    of_column: ColumnValues
    table: Table
    steps: list[SchemaChange]
    dropped: Mapping[str, int] = field(default_factory=dict)

    @cached_property
    def columns(self) -> list[Column]:
        """Those that the table of the lake has."""
        return [c for c in self.table.columns if not c.virtual]

    @cached_property
    def keys(self) -> list[Column]:
        return [c for c in self.columns if c.handle_key]

    @property
    def key_names(self) -> list[str]:
        """k_0 …: what the key's columns are called in frames of changes; other values are v_0 …."""
        return [f"k_{n}" for n in range(len(self.keys))]

    @property
    def key_pairs(self) -> list[tuple[str, str]]:
        """The key's columns and their names in frames."""
        return [(c.name, name) for c, name in zip(self.keys, self.key_names, strict=True)]

    @property
    def value_pairs(self) -> list[tuple[str, str]]:
        return [(c.name, f"v_{n}") for n, c in enumerate(self.columns)]

    def stored_keys(self) -> list[SparkColumn]:
        """The key's columns of the table of the lake, by their names in frames."""
        return [F.col(quote_name(column)).alias(name) for column, name in self.key_pairs]

    def dropped_sql(self, since: int, oldest_ts: int | None) -> str:
        """SQL over the values (v_0 …): whether a row was in a partition that was dropped after `since` and after the
        row; "" where no such statement is that new. oldest_ts: of the rows, None: there are none.
        """
        names, steps = dict(self.value_pairs), (self.steps if oldest_ts is not None else ())
        return " OR ".join(
            f"(commit_ts <= {step.commit_ts} AND"
            f" {self.of_column.removed_rows(step, self.steps, self.table, names.__getitem__)})"
            for step in steps
            if step.removed is not None and step.commit_ts >= max(since + 1, oldest_ts or 0)
        )

    # ---- values
    def keys_of(self, image: Image) -> list[SparkColumn]:
        """The values of the key, by their names in frames."""
        columns = [self.value(image, c) for c in self.keys]
        if image == "before":
            # Some changefeeds tell of the old row what changed: a key column that it lacks is as it was.
            columns = [F.coalesce(old, self.value("after", c)) for old, c in zip(columns, self.keys, strict=True)]
        return [c.alias(name) for c, name in zip(columns, self.key_names, strict=True)]

    def deleted_keys(self) -> list[SparkColumn]:
        """The values of the key in deletes, by their names in frames."""
        return [self.value("before", c).alias(name) for c, name in zip(self.keys, self.key_names, strict=True)]

    def values_after(self) -> list[SparkColumn]:
        return [self.value("after", c).alias(f"v_{n}") for n, c in enumerate(self.columns)]

    def changes_of_keys(self, changes: DataFrame, more: Sequence[SparkColumn]) -> DataFrame:
        """A row of each key (k_0 …) that a change brings (`turn` 1, with v_0 …) and takes away (`turn` 0); more: other
        columns. `bad`: the name of a column whose value does not fit its type.
        """
        none = [F.lit(None).cast(self.of_column.type_of(c)).alias(f"v_{n}") for n, c in enumerate(self.columns)]
        bad, no_bad = self.bad_column().alias("bad"), F.lit(None).cast("string").alias("bad")
        upserts = changes.where("op <> 'd'").select(
            F.lit(1).alias("turn"), *more, *self.keys_of("after"), *self.values_after(), bad
        )
        deletes = changes.where("op = 'd' or before is not null").select(
            F.lit(0).alias("turn"), *more, *self.keys_of("before"), *none, no_bad
        )
        return upserts.unionByName(deletes)

    def value(self, image: Image, column: Column) -> SparkColumn:
        """A column, by its name at the row's commit_ts; as TiDB shows it before it was there, NULL after its DROP."""
        text, present, _ = self._text(image, column)
        typed: SparkColumn = self.of_column.convert(text, column)
        if (value := self._older_value(column)) is not None:
            typed = F.when(F.expr(present), typed).otherwise(F.expr(self.of_column.constant(column, value)))
        dropped_at = self.dropped.get(column.name)
        return typed if dropped_at is None else F.when(F.col("commit_ts") <= dropped_at, typed)

    def sent_before(self, column: Column) -> SparkColumn:
        """A column of `before` as it was sent, NULL where it was not."""
        sent: SparkColumn = self.of_column.convert(self._text("before", column)[0], column)
        return sent

    def bad_column(self, columns: Sequence[Column] | None = None) -> SparkColumn:
        """The name of a column whose value (after) can't be made one of its type. columns: None: those that had another
        type, or are numbers, which another one may be made for.
        """
        if columns is None:
            steps = self.steps if len(self.steps) > 1 else []
            columns = [c for c in self.columns if steps and (c.type.kind in NUMBERS or types_over_time(steps, c))]
        names = list[SparkColumn]()
        for column in columns:
            text, _, received = self._text("after", column)
            is_bad = F.expr(f"({received}) IS NOT NULL") & self.of_column.convert(text, column).isNull()
            names.append(F.when(is_bad, F.lit(column.name)))
        return F.coalesce(*names, F.lit(None).cast("string"))

    def lacking_column(self) -> SparkColumn:
        """The name of a column that a row (after) was sent without, though the table had it then; NULL for none.

        To write NULL would lose a value. An insert can lack what is NULL in rows that are older than a definition.
        """
        is_insert = F.expr("op IN ('c', 'r') AND NOT array_contains(flags, 'op_unknown')")
        needed, others, checks = list[str](), list[str](), list[SparkColumn]()
        for column in self.columns:
            may_be_null = column.nullable and column.default is None
            until, dropped_at = names_over_time(self.steps, column.name), self.dropped.get(column.name)
            if not until and dropped_at is None:
                (others if may_be_null else needed).append(column.name)
                continue
            is_missing = ~F.expr(self._text("after", column)[1]) & ~(is_insert & F.lit(may_be_null))
            if until and until[0][1] is None:  # it was not there yet
                is_missing &= F.col("commit_ts") > until[0][0]
            if dropped_at is not None:
                is_missing &= F.col("commit_ts") <= dropped_at
            checks.append(F.when(is_missing, F.lit(column.name)))
        names = F.when(is_insert, _texts(needed)).otherwise(_texts([*needed, *others]))
        lacking = F.get(F.array_except(names, F.map_keys("after")), 0)
        return F.when(F.col("after").isNotNull(), F.coalesce(lacking, *checks))

    def is_unfit(self) -> SparkColumn:
        """Whether a value is none that its column's type can hold: such a zero date has no Spark type but text."""
        temporal = [c for c in self.columns if c.type.kind in self.of_column.types.kinds]
        images: tuple[Image, ...] = ("before", "after")
        texts = [(self._text(image, c)[0], c) for c in temporal for image in images]
        unfit = (F.expr(text).isNotNull() & self.of_column.convert(text, c).isNull() for text, c in texts)
        return reduce(or_, unfit, F.lit(False))

    def _older_value(self, column: Column) -> Any:
        """The value that rows older than the column show; None: NULL, or not known."""
        first = added_column(self.steps, column.name)
        value = None if first is None else self.of_column.fill_value(first)
        for _, old, new in types_over_time(self.steps, column) if value is not None else ():
            convert = converter(old, new)
            try:
                value = convert(value) if convert else value
            except ValueError as error:
                what = f"the conversion that TiDB made of its default {value!r} is not known"
                details = f"column {column.name}: {what}: {error}"
                raise SetupError("STOPPED", where=str(self.of_column.id), details=details) from error
        return value

    def _text(self, image: Image, column: Column) -> tuple[str, str, str]:
        """SQL: a column's text in plain form, whether the row has the column, and the text as it was received."""
        text = f"{image}[{sql_literal(column.name)}]"
        present = f"map_contains_key({image}, {sql_literal(column.name)})"
        for until, name in reversed(names_over_time(self.steps, column.name)):
            then = "CAST(NULL AS string)" if name is None else f"{image}[{sql_literal(name)}]"
            was_present = "false" if name is None else f"map_contains_key({image}, {sql_literal(name)})"
            text = f"CASE WHEN commit_ts <= {until} THEN {then} ELSE {text} END"
            present = f"CASE WHEN commit_ts <= {until} THEN {was_present} ELSE {present} END"
        received = text
        for until, old, new in types_over_time(self.steps, column):
            if converter(old, new) is not None:
                # Avro's deletes tell no commit_ts: digits and lengths can be brought to the new form all the same.
                when = f"commit_ts <= {until}" + (" OR commit_ts IS NULL" if old.type.kind is new.type.kind else "")
                text = f"CASE WHEN {when} THEN {self.of_column.conversion_sql(text, old, new)} ELSE {text} END"
        return text, present, received

    # ---- what can't be written
    def refuse_other_columns(self, changes: DataFrame, is_defined: bool) -> None:
        """SetupError STOPPED for a row that has other columns than the definition, or has them of another type.

        is_defined: by DDL; registered schemas may be newer than a row.
        """
        names = F.array(*(F.lit(c.name.lower()) for c in self.columns))
        needed = [c.name.lower() for c in self.columns if not c.nullable or c.default is not None]
        have = F.transform(F.map_keys("after"), F.lower)
        other = F.array_except(have, names)
        lacking = F.array_except(_texts(needed), have)
        mismatch = F.expr("get(filter(flags, f -> startswith(f, 'definition_mismatch:')), 0)")
        first = F.when(F.col("after").isNotNull(), F.coalesce(F.get(other, 0), F.get(lacking, 0)))
        if is_defined:
            first = F.coalesce(first, self.lacking_column())
        odd = F.coalesce(F.substring_index(mismatch, ":", -1), first).alias("name")
        row = changes.select(odd).where("name IS NOT NULL").first()
        if row is not None:
            details = (
                f"column {row['name']}: a change does not have it as the definition does, and an offset does not tell"
                f" whether the change is older. Give the definition that the changes have ({Hint.DDL}), and merge"
                " those from before it was changed into another place"
            )
            raise SetupError("STOPPED", where=str(self.table.id), details=details)

    def refuse_older_key(self, changes: DataFrame) -> None:
        """SetupError STOPPED for updates without their old row from before the table got the key that it has now: the
        row may have had another value of that key, and nothing tells which.
        """
        at = max((step.commit_ts for step in self.steps if _changes_key(step)), default=None)
        if at is None:
            return
        row = changes.where(f"op = 'u' AND before IS NULL AND commit_ts <= {at}").select("commit_ts").first()
        if row is not None:
            details = (
                f"the table got another key at commit_ts {at}, and the update at commit_ts {row['commit_ts']} was sent"
                " without its old row, so the row of the new key is not known. Merge first with the"
                " definitions and messages from before that statement, then with all"
            )
            raise SetupError("STOPPED", where=str(self.of_column.id), details=details)

    def lacking_key(self) -> SparkColumn:
        """The name of a key column that has no value in a frame's row."""
        return F.coalesce(*(F.when(F.col(name).isNull(), F.lit(column)) for column, name in self.key_pairs))

    def lacking_key_error(self, commit_ts: int | None, column: str) -> SetupError:
        details = (
            f"the change at commit_ts {commit_ts} has no value of column {column}, which is in the key."
            " Check that the definition is the table's"
        )
        return SetupError("STOPPED", where=str(self.of_column.id), details=details)


def _texts(names: Sequence[str]) -> SparkColumn:
    return F.array(*map(F.lit, names)).cast("array<string>")


def _changes_key(step: SchemaChange) -> bool:
    """True if the statement gave a table that was there another key; a key column that is renamed is the same."""
    if step.before is None or step.after is None or step.emptied:
        return False
    old = {step.renamed.get(c.name, c.name).lower() for c in step.before.columns if c.handle_key}
    return old != {c.name.lower() for c in step.after.columns if c.handle_key}
