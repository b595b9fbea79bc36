"""TiCDC Avro of one table inside the JVM, checked as far as a header and Spark's own reader go (`check="header"`).

One CASE over the five header bytes: each branch is Spark's `from_avro` with that id's writer schema, key or value,
resolved to a reader schema of the newest version's columns (reference: spark.md §2). So a record is read once, a row is
built once, and no Python is started.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from decimal import Decimal
from functools import reduce
from typing import TYPE_CHECKING, Any

from schemas.errors import WireError
from schemas.publish.avro import BEFORE
from schemas.table import Column as TableColumn
from schemas.table import Table
from schemas.types import Kind
from schemas.wire.framing import frame
from spark_jobs.avro_schemas import WriterSchema
from spark_jobs.avro_shapes import COMMIT, OP, ROW, Shape, shapes
from spark_jobs.columns import python_value, spark_type, tidb_row
from spark_jobs.lookup import Registered
from spark_jobs.plans import without_headers
from spark_jobs.table_view import Missing, default_of

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

_TWO_64 = Decimal(1 << 64)
_OPS = (b"c", b"u", b"d")  # as avro_shapes has them read
_KAFKA = ("topic", "partition", "offset", "timestamp", "key", "value")


@dataclass(frozen=True)
class HeaderPlan:
    """Messages of one table → change events. missing: what a row has for a column that its version lacks.

    others: headers of other tables' records, which are left out and counted. time_zone: of TIMESTAMP text. unreadable:
    registered versions that can't be read, and why.
    """

    table: Table
    keys: tuple[WriterSchema, ...]
    values: tuple[WriterSchema, ...]
    others: tuple[bytes, ...]
    missing: Missing = "null"
    time_zone: str = "UTC"
    unreadable: tuple[tuple[Registered, WireError], ...] = ()

    def decode(self, frame_: DataFrame, keep: bool = False) -> DataFrame:
        """Messages with Kafka's columns → change events (spark_jobs.columns.CHANGES, before and after as structs).

        keep: with the message, as `_key` and `_value`.
        """
        from pyspark.sql import functions as F

        if self.others:  # else the plan is spared a step
            frame_ = without_headers(frame_, self.others, self.table.id)
        found = shapes(self.values, self.keys)
        # A select for each step: what several columns of the next one use is then worked out once. No more steps than
        # that: Spark makes code for each, and a plan of more code takes longer to be made and compiled.
        data = F.coalesce("value", "key")
        cut = frame_.select(*_KAFKA, data.alias("_b"), F.substring(data, 1, 5).alias("_header"))
        read = cut.select(*_KAFKA, "_b", *(_read(s).alias(f"_f{s.number}") for s in found))
        said = dict(self._record(found))
        # Spark gives what stands twice a method of its own. Without that a wide table's rows would be built in the
        # stage's one method, and HotSpot compiles none beyond 8,000 bytes.
        said["_sound"] &= F.size(F.array(said["_row"])) > 0
        if len(found) > 1:
            read = read.select(*_KAFKA, "_b", *(c.alias(name) for name, c in said.items()))
            said = {name: F.col(name) for name in said}
        made = read.select(*_KAFKA, "_b", *(c.alias(name) for name, c in self._told(said)))
        kept = [F.col(name).alias(f"_{name}") for name in ("key", "value") if keep]
        return made.select(*(c.alias(name) for name, c in self._columns()), *kept)

    def _record(self, found: tuple[Shape, ...]) -> Iterator[tuple[str, Column]]:
        """What the record says, whichever shape it has; all but `_known` is NULL where it could not be read."""
        from pyspark.sql import functions as F

        # Of a record that it can't read from_avro makes a struct of NULLs: NULL itself means that no branch was taken.
        yield "_known", reduce(lambda one, other: one | other, (F.col(f"_f{s.number}").isNotNull() for s in found))
        yield "_sound", _first(found, self._sound)
        yield "_id", _first(found, lambda s, r: r[s.id_field])
        yield "_op", _first(found, lambda s, r: r[OP])
        yield "_ts", _first(found, lambda s, r: r[COMMIT])
        yield "_row", _first(found, self._row)
        if any(s.has_before for s in found):
            yield "_old", _first(found, self._old)

    def _told(self, said: Mapping[str, Column]) -> Iterator[tuple[str, Column]]:
        """What the event's columns are made of. said: what the record says, by name."""
        from pyspark.sql import functions as F

        op = F.when(F.col("value").isNull(), F.lit("d"))
        for name in _OPS:
            op = op.when(said["_op"] == F.lit(name), F.lit(name.decode()))
        yield "_ok", self._ok(said, op)
        yield "_done", op
        # Not op == "d": Spark moves that into the branches, and so compares the bytes with all three again.
        yield "_gone", F.col("value").isNull() | said["_op"].eqNullSafe(F.lit(b"d"))
        yield from ((name, said[name]) for name in ("_known", "_id", "_ts", "_row", "_old") if name in said)

    def _ok(self, said: Mapping[str, Column], op: Column) -> Column:
        """Whether Spark could read the record, its key is the table's, and op and commit_ts as TiCDC has them."""
        from pyspark.sql import functions as F

        keyed = F.col("key").isNull()
        if self.keys:
            keyed = reduce(lambda one, w: one | F.startswith("key", F.lit(w.header)), self.keys, keyed)
        ts, untold = said["_ts"], said["_op"].isNull()
        known = op.isNotNull() | untold  # first, where Spark works out the op in any case: it does that once then
        told = (ts >= 0) | (ts.isNull() & untold)
        alone = F.col("value").isNull() & untold  # a key's record has no op, and with one it is that of a value
        return F.coalesce(known & said["_sound"] & (alone | (F.col("value").isNotNull() & keyed)) & told, F.lit(False))

    def _columns(self) -> Iterator[tuple[str, Column]]:
        from pyspark.sql import functions as F

        ok, op, gone = F.col("_ok"), F.col("_done"), F.col("_gone")
        kind = tidb_row(self.table, certain=False)  # only metadata is added: such a cast costs nothing
        before = F.when(ok & gone, F.col("_row").cast(kind))
        if any(w.record.before for w in self.values):
            before = before.when(ok & (op == "u"), F.col("_old").cast(kind))
        none = F.array().cast("array<string>")
        names = F.array(*[F.lit(c.name) for c in self.keys[-1].record.columns]) if self.keys else none
        yield "kind", F.when(ok, F.lit("row")).otherwise(F.lit("error"))
        yield "op", F.when(ok, F.coalesce(op, F.lit("c")))
        yield "commit_ts", F.when(ok, F.col("_ts"))
        yield "commit_time", F.when(ok, F.timestamp_millis(F.shiftright("_ts", 18)))
        yield "db", F.when(ok, F.lit(self.table.id.db))
        yield "table", F.when(ok, F.lit(self.table.id.table))
        yield "schema_id", F.when(ok, F.col("_id"))
        yield "table_version", F.lit(None).cast("bigint")
        yield "key", F.when(ok, names)
        yield "before", before
        yield "after", F.when(ok & ~gone, F.col("_row").cast(kind))
        yield "flags", F.when(ok, F.when(op.isNull(), F.array(F.lit("op_unknown"))).otherwise(none))
        yield "ddl_type", F.lit(None).cast("int")
        yield "query", F.lit(None).cast("string")
        yield "row", F.lit(0)
        yield "source", F.struct("topic", "partition", "offset", "timestamp")
        code, detail = self._why()
        yield "error", F.when(~ok, F.struct(code.alias("code"), detail.alias("detail"), "key", "value"))

    def _why(self) -> tuple[Column, Column]:
        """Why a message is refused, as far as its header tells: code and detail."""
        from pyspark.sql import functions as F

        data = F.col("_b")
        rules = (
            (data.isNull(), "EMPTY_RECORD", "key and value are null"),
            ((F.length(data) < 5) | ~F.startswith(data, F.lit(b"\0")), "NOT_FRAMED", "no Confluent header"),
            *self._unreadable(data),
            (~F.col("_known"), "UNKNOWN_SCHEMA_ID", "the schema id is not known"),
        )
        code: Any = F
        detail: Any = F
        for condition, name, told in rules:
            code, detail = code.when(condition, F.lit(name)), detail.when(condition, F.lit(told))
        unread = 'Spark can\'t read the record; check="exact" says why'
        return code.otherwise(F.lit("MALFORMED")), detail.otherwise(F.lit(unread))

    def _unreadable(self, data: Column) -> Iterator[tuple[Column, str, str]]:
        """What is said of messages with the id of a registered version that can't be read."""
        from pyspark.sql import functions as F

        for entry, error in self.unreadable:
            header = F.lit(frame(entry.id, b""))
            named = F.startswith(data, header) | F.startswith(F.col("key"), header)
            yield named, error.code, f"{entry.subject} version {entry.version}: {error.detail}"

    def _sound(self, shape: Shape, record: Column) -> Column:
        """Spark could read the record, and each value fits the type that it is given."""
        row = record[ROW] if shape.exact else record
        sound = record[shape.id_field].isNotNull()
        for column in self.table.columns:
            found = shape.columns.get(column.name)
            if found is not None and _doubtful(shape, found):
                value = row[column.name]
                sound = sound & (value.isNull() | _typed(shape, value, found, spark_type(column)).isNotNull())
        return sound

    def _row(self, shape: Shape, record: Column) -> Column:
        return self._cells(shape, record[ROW] if shape.exact else record)

    def _old(self, shape: Shape, record: Column) -> Column | None:
        from pyspark.sql import functions as F

        if not shape.has_before:
            return None
        return F.when(record[BEFORE].isNotNull(), self._cells(shape, record[BEFORE]))

    def _cells(self, shape: Shape, row: Column) -> Column:
        """Struct of the newest version's columns: what Spark read, as it is, where that has all of them exactly."""
        from pyspark.sql import functions as F

        if shape.exact and all(self._preset(shape, c) is None for c in self.table.columns):
            return row
        return F.struct(*(self._column(shape, c, row).alias(c.name) for c in self.table.columns))

    def _preset(self, shape: Shape, column: TableColumn) -> str | bytes | None:
        """What records without this column get."""
        if self.missing != "default" or not shape.lacking(column.name):
            return None
        return default_of(column, self.time_zone)

    def _column(self, shape: Shape, column: TableColumn, record: Column) -> Column:
        from pyspark.sql import functions as F

        kind = spark_type(column)
        found = shape.columns.get(column.name)
        value = F.lit(None).cast(kind) if found is None else _typed(shape, record[column.name], found, kind)
        default = self._preset(shape, column)
        if default is not None:
            preset = F.lit(python_value(column, default)).cast(kind)
            id_ = F.col(f"_f{shape.number}")[shape.id_field]
            lacks = F.col("value").isNotNull() & id_.isin(*shape.lacking(column.name))
            value = F.when(lacks, preset).otherwise(value)
        return value


def _read(shape: Shape) -> Column:
    """CASE over the header → the record as the shape's reader schemas have it."""
    from pyspark.sql import functions as F
    from pyspark.sql.avro import functions as avro

    branches: Any = F
    for writer, text, reader in zip(shape.writers, shape.texts_read, shape.readers, strict=True):
        record = avro.from_avro("_b", text, {"mode": "PERMISSIVE", "avroSchema": reader})
        branches = branches.when(F.col("_header") == F.lit(writer.header), record)
    read: Column = branches
    return read


def _first(found: tuple[Shape, ...], make: Callable[[Shape, Column], Column | None]) -> Column:
    """What `make` says of the record, by the shape that has one; NULL where none has."""
    from pyspark.sql import functions as F

    made = [(F.col(f"_f{s.number}"), make(s, F.col(f"_f{s.number}"))) for s in found]
    if len(made) == 1 and made[0][1] is not None:
        return made[0][1]
    told = [F.when(record.isNotNull(), column) for record, column in made if column is not None]
    return reduce(lambda rest, one: F.coalesce(one, rest), reversed(told[:-1]), told[-1])


def _doubtful(shape: Shape, column: TableColumn) -> bool:
    """Whether the wire can carry what the column's type can't hold: YEAR goes as an int, BIGINT UNSIGNED as text."""
    return column.type.kind is Kind.YEAR or column.name in shape.texts


def _typed(shape: Shape, value: Column, column: TableColumn, kind: str) -> Column:
    """What Spark reads of a column → the newest version's Spark type `kind`, exactly; NULL for what it can't hold."""
    from pyspark.sql import functions as F

    if column.name in shape.texts:
        wide = value.try_cast("decimal(20,0)")
        return F.when(value.rlike(r"^(0|[1-9]\d{0,19})$") & (wide < F.lit(_TWO_64)), wide)
    if column.type.kind is Kind.INTEGER and column.unsigned and column.type.bits == 64:
        wide = value.cast("decimal(20,0)")  # each branch has its own cast: the usual one then needs only this
        return F.when(value < 0, (wide + F.lit(_TWO_64)).cast(kind)).otherwise(wide.cast(kind))
    return value.try_cast(kind) if _doubtful(shape, column) else value.cast(kind)
