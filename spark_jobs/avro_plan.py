"""TiCDC Avro of one table inside the JVM: Spark's from_avro, one branch per schema id (reference: spark.md §2).

Spark's reader is lenient: it takes trailing bytes, a wrong schema that happens to fit and text that is not UTF-8. With
`exact` each record is therefore written again with to_avro and compared byte for byte: equal bytes mean that nothing
was lost. What differs goes to the in-process decoder, whose event or error is taken. With `header` only the id and
Spark's own failures are checked.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from decimal import Decimal
from functools import reduce
from typing import TYPE_CHECKING, Any

from schemas.errors import WireError
from schemas.publish.avro import BEFORE
from schemas.publish.spark import metadata_of
from schemas.table import Column as TableColumn
from schemas.table import Table, TableId
from schemas.types import Kind
from schemas.values import bit_size
from schemas.wire.framing import frame
from spark_jobs.avro_read import HeaderPlan
from spark_jobs.avro_schemas import WriterSchema, once, spark_schema, versions_of
from spark_jobs.codec import Side
from spark_jobs.columns import (
    CHANGES,
    MAX_SPARK_PRECISION,
    arrow_schema,
    python_value,
    row_type,
    spark_type,
    tidb_row,
)
from spark_jobs.fast_reader import spare_memory
from spark_jobs.lookup import HttpSchemas, Registered
from spark_jobs.plans import metric, widens, without_headers
from spark_jobs.table_view import Missing, default_of
from spark_jobs.workers import rescue, rescued_type

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

_TWO_64 = Decimal(1 << 64)


@dataclass(frozen=True)
class AvroPlan:
    """How one table's messages are decoded: its key and value schemas, and the columns of the result."""

    side: Side
    keys: tuple[WriterSchema, ...]
    values: tuple[WriterSchema, ...]
    others: tuple[bytes, ...]
    exact: bool
    missing: Missing = "null"
    unreadable: tuple[tuple[Registered, WireError], ...] = ()

    @classmethod
    def of(cls, side: Side, id_: TableId, *, exact: bool, missing: Missing = "null") -> AvroPlan | None:
        """The plan, None where Spark can't hold the versions in one set of columns: then the workers decode."""
        found = versions_of(side.schemas, id_, whole=True)
        if not found.values or not _one_shape(found.values):
            return None
        ours = (*found.keys, *found.values)
        if isinstance(side.schemas, HttpSchemas):
            side.schemas.know(w.entry for w in ours)
        ids = {w.entry.id for w in ours}
        others = tuple({frame(e.id, b"") for e in found.others if e.id not in ids})
        return cls(side, once(found.keys), once(found.values), others, exact, missing, found.unreadable)

    @property
    def key(self) -> tuple[str, ...]:
        """The names of the newest key schema's columns."""
        return tuple(c.name for c in self.keys[-1].record.columns) if self.keys else ()

    @property
    def table(self) -> Table:
        """The table with the columns of its newest registered version."""
        record = self.values[-1].record
        return Table(record.id, record.columns)

    def decode(self, frame_: DataFrame, keep: bool = False) -> DataFrame:
        """Messages with Kafka's columns → change events with before and after as structs.

        keep: with the message, as `_key` and `_value`.
        """
        from pyspark.sql import functions as F

        spare_memory(frame_, sum(len(w.entry.schema) for w in (*self.keys, *self.values)))
        if not self.exact:
            zone = self.side.options.time_zone
            known = (self.table, self.keys, self.values, self.others, self.missing, zone)
            plan = HeaderPlan(*known, self.unreadable)
            return plan.decode(frame_, keep)

        read = self.without_others(frame_).select(
            "*",
            *(_decoded("value", w).alias(f"_v{n}") for n, w in enumerate(self.values)),
            *(_decoded("key", w).alias(f"_k{n}") for n, w in enumerate(self.keys)),
        )
        checked = read.withColumn("_ok", self._ok())
        rescued = checked.withColumn("_told", self._told_by_the_codec())
        late = F.coalesce(F.col("_told.kind") == "other", F.lit(False))
        counted = rescued.withColumn("_late", late)
        counted = counted.observe(
            metric("late_tables", self.table.id), F.count(F.when(F.col("_late"), 1)).alias("rows")
        )
        kept = [F.col(name).alias(f"_{name}") for name in ("key", "value") if keep]
        return counted.where(~F.col("_late")).select(*self._columns(_CODEC_TOLD), *kept)

    def without_others(self, frame_: DataFrame) -> DataFrame:
        """The messages without those of other tables, as far as their schema ids are known; these are counted."""
        return without_headers(frame_, self.others, self.table.id)

    def _told_by_the_codec(self) -> Column:
        """What the in-process decoder makes of a message that Spark's reader does not give back byte for byte."""
        from pyspark.sql import functions as F
        from pyspark.sql.pandas.functions import arrow_udf

        kind = rescued_type(row_type(self.table))
        rescuer = rescue(self.side, self.table, arrow_schema(f"told {kind}").field("told").type)
        bad = [F.when(~F.col("_ok"), F.col(name)) for name in ("key", "value")]
        topic = F.when(~F.col("_ok"), F.coalesce("topic", F.lit("")))
        told: Column = arrow_udf(rescuer, kind)(*bad, topic)  # type: ignore[call-overload]
        return told

    # ---- is the message what it should be
    def _ok(self) -> Column:
        from pyspark.sql import functions as F

        value = reduce(lambda a, b: a | b, (self._intact("value", n, w) for n, w in enumerate(self.values)))
        key = reduce(lambda a, b: a | b, (self._intact("key", n, w) for n, w in enumerate(self.keys)), F.lit(False))
        no_value, no_key = F.col("value").isNull(), F.col("key").isNull()
        return F.coalesce(F.when(no_value, key).otherwise(value & (no_key | key)), F.lit(False))

    def _intact(self, side: str, number: int, writer: WriterSchema) -> Column:
        """The record of this id is there, and (exact) the same bytes come out when it is written again."""
        from pyspark.sql import functions as F
        from pyspark.sql.avro import functions as avro

        name = f"_{side[0]}{number}"
        # A record that Spark can't read is a struct of NULLs: a NULL where none can be gives it away.
        types = {f["name"]: f["type"] for f in json.loads(writer.entry.schema)["fields"]}
        there = F.col(name).isNotNull()
        for field, kind in types.items():
            if not isinstance(kind, list):
                there &= F.col(name)[field].isNotNull()
        if "_tidb_op" in writer.record.extension:
            there &= F.col(name)["_tidb_op"].isin("c", "u", "d")
        if "_tidb_commit_ts" in writer.record.extension:
            there &= F.col(name)["_tidb_commit_ts"] >= 0
        for column in writer.record.columns:
            rule = _RULES.get((column.type.kind, _primitive(types[column.name])))
            if rule is not None:
                there &= F.coalesce(rule(F.col(name)[column.name], column), F.lit(True))
        again = avro.to_avro(F.col(name), spark_schema(writer.entry.schema))
        return F.when(there, again == F.substring(side, 6, 1 << 30)).otherwise(F.lit(False))

    # ---- the event's columns
    def _columns(self, told: frozenset[str]) -> Iterator[Column]:
        """The event's columns; those of `told` come from `_told` where Spark's own reading is not right."""
        from pyspark.sql import functions as F

        ok = F.col("_ok")
        op = self._extension("_tidb_op")
        row_op = F.when(F.col("value").isNotNull(), F.coalesce(op, F.lit("c"))).otherwise(F.lit("d"))
        commit_ts = self._extension("_tidb_commit_ts")
        unknown = F.when(op.isNull() & F.col("value").isNotNull(), F.array(F.lit("op_unknown"))).otherwise(F.array())
        source = F.struct("topic", "partition", "offset", "timestamp")
        error = F.struct(F.col("_told.code"), F.col("_told.detail"), F.col("key"), F.col("value"))
        made: dict[str, Column] = {
            "kind": F.lit("row"),
            "op": row_op,
            "commit_ts": commit_ts,
            "db": F.lit(self.table.id.db),
            "table": F.lit(self.table.id.table),
            "schema_id": self._schema_id(),
            "table_version": F.lit(None).cast("bigint"),
            "key": F.array(*[F.lit(name) for name in self.key]) if self.keys else F.array(),
            "before": self._before(row_op),
            "after": F.when(row_op != "d", self._row("value", lambda n: F.col(f"_v{n}"))),
            "flags": unknown.cast("array<string>"),
        }
        made |= {"ddl_type": F.lit(None).cast("int"), "query": F.lit(None).cast("string")}
        for name, column in made.items():
            when, rescued = F.when(ok, column), F.col(f"_told.{name}")
            if name in ("before", "after"):
                rescued = rescued.cast(tidb_row(self.table, certain=False))  # one type with the other branch
            made[name] = when.otherwise(rescued) if name in told else when
        if "kind" not in told:
            made["kind"] = F.coalesce(made["kind"], F.lit("error"))
        made |= {
            "commit_time": F.timestamp_millis(F.shiftright(made["commit_ts"], 18)), "row": F.lit(0), "source": source,
            "error": F.when(F.col("_told.code").isNotNull(), error),
        }  # fmt: skip
        yield from (made[name].alias(name) for name in _NAMES)

    def _extension(self, name: str) -> Column:
        from pyspark.sql import functions as F

        found = [F.col(f"_v{n}")[name] for n, w in enumerate(self.values) if name in w.record.extension]
        return F.coalesce(*found) if found else F.lit(None).cast("bigint" if name.endswith("_ts") else "string")

    def _schema_id(self) -> Column:
        from pyspark.sql import functions as F

        found = [F.when(F.col(f"_v{n}").isNotNull(), F.lit(w.entry.id)) for n, w in enumerate(self.values)]
        found += [F.when(F.col(f"_k{n}").isNotNull(), F.lit(w.entry.id)) for n, w in enumerate(self.keys)]
        return F.coalesce(*found)

    def _before(self, op: Column) -> Column:
        """Key-only deletes have their key columns; with avro-include-before-value the old row is in the record."""
        from pyspark.sql import functions as F

        has_value = F.col("value").isNotNull()
        branches = F.when((op == "d") & has_value, self._row("value", lambda n: F.col(f"_v{n}")))
        branches = branches.when(op == "d", self._row("key", lambda n: F.col(f"_k{n}")))
        return branches.when(op != "d", self._row("value", self._old))

    def _old(self, number: int) -> Column | None:
        """The old row in a record of a version, None where the version has no room for one."""
        from pyspark.sql import functions as F

        return F.col(f"_v{number}")[BEFORE] if self.values[number].record.before else None

    def _row(self, side: str, struct_of: Any) -> Column:
        """The newest version's columns from whichever version the record has; NULL where that one lacks a column."""
        from pyspark.sql import functions as F

        target, kind = self.table.columns, tidb_row(self.table, certain=False)
        out = F.lit(None).cast(kind)
        for number, writer in enumerate(self.values if side == "value" else self.keys):
            have = {c.name: c for c in writer.record.columns}
            record = struct_of(number)
            if record is None:
                continue
            columns = [
                (_typed(record[c.name], have[c.name]) if c.name in have else self._lacking(side, c))
                .cast(spark_type(c))
                .alias(c.name, metadata=metadata_of(c, certain=False))
                for c in target
            ]
            out = F.when(record.isNotNull(), F.struct(*columns).cast(kind)).otherwise(out)
        return out

    def _lacking(self, side: str, column: TableColumn) -> Column:
        """What a row has for a column that its version lacks."""
        from pyspark.sql import functions as F

        wanted = self.missing == "default" and side == "value"
        default = default_of(column, self.side.options.time_zone) if wanted else None
        return F.lit(None if default is None else python_value(column, default))


# What is taken from `_told` where Spark's own reading is not right.
_CODEC_TOLD = frozenset(
    ("kind", "op", "commit_ts", "db", "table", "schema_id", "key", "before", "after", "flags", "ddl_type", "query")
)
_NAMES = (
    "kind", "op", "commit_ts", "commit_time", "db", "table", "schema_id", "table_version", "key", "before", "after",
    "flags", "ddl_type", "query", "row", "source", "error",
)  # fmt: skip
assert all(f"{name} " in CHANGES.replace("`", "") for name in _NAMES)


def _decoded(side: str, writer: WriterSchema) -> Column:
    from pyspark.sql import functions as F
    from pyspark.sql.avro import functions as avro

    body = F.substring(side, 6, 1 << 30)
    read = avro.from_avro(body, spark_schema(writer.entry.schema), {"mode": "PERMISSIVE"})
    return F.when(F.substring(side, 1, 5) == F.lit(writer.header), read)


def _primitive(kind: Any) -> str:
    """The Avro primitive of a column's type, which is an object or a union with null."""
    return str(next(b for b in kind if b != "null")["type"] if isinstance(kind, list) else kind["type"])


def _typed(value: Column, column: TableColumn) -> Column:
    """What Spark reads of a column → its exact Spark type (spark_jobs.columns.spark_type)."""
    from pyspark.sql import functions as F

    kind = column.type.kind
    if kind is Kind.INTEGER and column.unsigned and column.type.bits == 64:
        wide = value.cast("decimal(20,0)")
        return F.when(wide < 0, wide + F.lit(_TWO_64)).otherwise(wide)
    return value


def _short(value: Column, _column: TableColumn) -> Column:
    return value.between(-(1 << 15), (1 << 15) - 1)


def _finite(value: Column, _column: TableColumn) -> Column:
    from pyspark.sql import functions as F

    return F.abs(value) <= F.lit(1.7976931348623157e308)  # false for NaN too: Spark holds it greater than any number


def _bits(value: Column, column: TableColumn) -> Column:
    from pyspark.sql import functions as F

    length = column.length or 0
    first = F.conv(F.hex(F.substring(value, 1, 1)), 16, 10).cast("int")
    return (F.length(value) == bit_size(length)) & (first < 1 << ((length - 1) % 8 + 1))


def _utf8(value: Column, _column: TableColumn) -> Column:
    from pyspark.sql import functions as F

    return F.is_valid_utf8(value)


def _decimal_text(value: Column, _column: TableColumn) -> Column:
    return value.rlike(r"^-?\d{1,65}(\.\d{1,65})?$")


def _unsigned_text(value: Column, _column: TableColumn) -> Column:
    from pyspark.sql import functions as F

    return value.rlike(r"^(0|[1-9]\d{0,19})$") & (value.try_cast("decimal(20,0)") < F.lit(_TWO_64))


# What the in-process decoder checks of a value and Spark's reader does not.
_RULES: dict[tuple[Kind, str], Callable[[Column, TableColumn], Column]] = {
    (Kind.YEAR, "int"): _short,
    (Kind.FLOAT, "float"): _finite,
    (Kind.DOUBLE, "double"): _finite,
    (Kind.BIT, "bytes"): _bits,
    (Kind.DECIMAL, "string"): _decimal_text,
    (Kind.INTEGER, "string"): _unsigned_text,
    **{(kind, "string"): _utf8 for kind in Kind if kind not in (Kind.DECIMAL, Kind.INTEGER)},
}


def _one_shape(values: tuple[WriterSchema, ...]) -> bool:
    """True when every version's columns can be cast to the newest's without a loss, in types that Spark holds."""
    newest = {c.name: c for c in values[-1].record.columns}
    folded = {name.lower() for name in newest}
    if len(folded) < len(newest) or any(_too_wide(c) for c in newest.values()):
        return False
    for writer in values:
        for column in writer.record.columns:
            other = newest.get(column.name)
            if other is not None and not widens(spark_type(column), spark_type(other)):
                return False
    return True


def _too_wide(column: TableColumn) -> bool:
    """DECIMAL over 38 digits in precise mode is bytes to Spark: its text takes our own decoder."""
    return column.type.kind is Kind.DECIMAL and column.length is not None and column.length > MAX_SPARK_PRECISION
