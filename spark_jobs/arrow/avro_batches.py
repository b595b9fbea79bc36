"""TiCDC Avro of one table from Arrow batches, by the compiled reader (`schemas.columnar.avro_reader`); in Spark's
workers.

One reader takes messages of all schema ids, also of those registered after the query was planned. What it leaves, and
rows that the newest version's columns can't hold as they are, are read by the in-process decoder.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow
import pyarrow.compute

from schemas.columnar.avro_reader import AvroReader
from schemas.columnar.columns import ColumnValues, cells_of, read_columns
from schemas.columnar.kernels.jit import COMPILED
from schemas.columnar.rows import NO_COMMIT_TS, Binaries, Rows, RowShape, Topics
from schemas.formats.avro import schema as publish
from schemas.formats.avro.encoder import AvroEncoder
from schemas.formats.avro.record import compile_record
from schemas.formats.base import Context
from schemas.model.event import Message, RowChange
from schemas.model.options import Options
from schemas.model.ports import SchemaSource
from schemas.model.spark_types import INTEGER_BITS, spark_type, widens
from schemas.model.table import Column, Table, TableId, TableVersion
from schemas.model.types import BY_NAME
from spark_jobs.arrow.columns import array_of_column, bytes_of, row_type
from spark_jobs.arrow.event_rows import Batches
from spark_jobs.arrow.sample_rows import sample_columns, sample_row
from spark_jobs.arrow.table_rows import TypedBatches, default_value, source_array, typed_schema
from spark_jobs.pipeline.codec_config import CodecConfig
from spark_jobs.sources.schema_registry import FileSchemas, RegisteredSchema

pa: Any = pyarrow  # the stubs know less than the library
pc: Any = pyarrow.compute

_OP_TEXTS = ("c", "u", "d")
_OP_CODES = np.zeros(256, np.int8)
_OP_CODES[[ord(text) for text in _OP_TEXTS]] = range(3)
_OURS, _OTHERS, _LEFT = 0, 1, 2


def avro_schema(table: Table) -> str:
    """Spark DDL of what `AvroBatches` yields: as `typed_schema`, and what a row of the kernel has beside that."""
    return f"{typed_schema(table)}, schema_id int, op_unknown boolean"


def avro_arrow(table: Table) -> Any:
    """`avro_schema` as Arrow has it: what Spark makes of it, without Spark."""
    row, texts = row_type([c for c in table.columns if not c.virtual]), pa.list_(pa.string())
    odd = [("kind", pa.string()), ("db", pa.string()), ("table", pa.string()), ("schema_id", pa.int32())]
    odd += [("key", texts), ("flags", texts), ("ddl_type", pa.int32()), ("query", pa.string())]
    odd += [("code", pa.string()), ("detail", pa.string()), ("key_bytes", pa.binary()), ("value_bytes", pa.binary())]
    source = [("topic", pa.string()), ("partition", pa.int32()), ("offset", pa.int64())]
    source.append(("timestamp", pa.timestamp("us", "UTC")))
    return pa.schema(
        [
            ("op", pa.string()), ("commit_ts", pa.int64()), ("table_version", pa.int64()), ("row", pa.int32()),
            ("source", pa.struct(source)), ("before", row), ("after", row), ("odd", pa.struct(odd)),
            ("schema_id", pa.int32()), ("op_unknown", pa.bool_()),
        ]
    )  # fmt: skip


@dataclass(frozen=True)
class AvroBatches(TypedBatches):
    """Messages (Kafka's columns) → `avro_schema`, in the messages' order. versions: the newest, whose columns it has.

    key: the names of the key that almost all rows have; the others' stand in `odd`. Rows of other tables are there with
    nothing but their table.
    """

    key: tuple[str, ...] = ()

    def __call__(self, batches: Batches) -> Iterator[Any]:
        plain, context = self.side.decoder(), self.side.context()
        if context.tables is None:  # then a table's other columns are of no account to a delete by its key
            context = replace(context, schemas=_NoNewest(context.schemas))
        reader = AvroReader(context, bare=True)
        for batch in batches:
            if batch.num_rows:
                yield self._decode_batch(reader, plain, batch)

    def _decode_batch(self, reader: AvroReader, plain: Any, batch: Any) -> Any:
        rows, left = reader.read(*_parts(batch))
        views = [self._view(shape) for shape in rows.shapes]
        status = np.array([of for of, _ in views], np.int64)[rows.shape]
        places = np.array([parts for _, parts in views], np.int64).reshape(len(views), len(self._columns))
        chosen = np.flatnonzero(status == _OURS)
        own_batch, wrong = self._build_batch(rows, chosen, places, batch)
        others = np.flatnonzero(status == _OTHERS)
        parts = [(rows.message[chosen[~wrong]], own_batch)]
        if len(others):
            parts.append((rows.message[others], self._build_others(rows, others, batch)))
        left = np.sort(np.concatenate([left, rows.message[chosen[wrong]], rows.message[status == _LEFT]]))
        if len(left):
            parts.append((left, self._decode_odd(plain, batch.take(pa.array(left)))))
        return _in_order([one for one in parts if len(one[0])] or parts)

    # ---- shapes
    @cached_property
    def _columns(self) -> tuple[Column, ...]:
        return tuple(c for c in self.versions[0].table.columns if not c.virtual)

    def _view(self, shape: RowShape) -> tuple[int, list[int]]:
        """What rows of a shape are, and where their cells are among the columns."""
        none = [-1] * len(self._columns)
        if shape.table.id != self.versions[0].table.id:
            return _OTHERS, none
        types = {c.name: spark_type(c) for c in self._columns}
        certain = self.side.tables is None or shape.table_version is not None
        if not certain and not all(c.name in types for c in shape.columns):
            return _LEFT, none
        fits = all(c.name not in types or widens(spark_type(c), types[c.name]) for c in shape.columns)
        places = cells_of(shape, self._columns) if fits and shape.key == self.key else None
        return (_LEFT, none) if places is None else (_OURS, places)

    # ---- batches
    def _build_batch(self, rows: Rows, chosen: Any, places: Any, batch: Any) -> tuple[Any, Any]:
        """Rows of the table → (a batch, which of them it is without: a value is none of its column)."""
        shape = rows.shape[chosen]
        sides, bad = {}, np.zeros(len(chosen), np.bool_)
        for name in ("before", "after"):
            first = getattr(rows, name)[chosen]
            sides[name] = (first, *self._side(rows, shape, first, rows.step[chosen], places))
            bad |= sides[name][2]
        message, structs = rows.message[chosen], {}
        for name, (first, columns, _) in sides.items():
            kind = self.schema.field(name).type
            if columns is None:
                structs[name] = pa.nulls(len(chosen), kind)
            else:
                arrays = self._arrays(rows, shape, columns)
                structs[name] = pa.StructArray.from_arrays(arrays, fields=list(kind), mask=pa.array(first < 0))
        stamps, versions = rows.commit_ts[chosen], [s.table_version for s in rows.shapes]
        unknown = rows.flags.get("op_unknown")
        none = np.zeros(len(chosen), np.bool_)
        by_name = {
            "op": pa.DictionaryArray.from_arrays(_OP_CODES[rows.op[chosen]], pa.array(_OP_TEXTS)).dictionary_decode(),
            "commit_ts": pa.array(stamps, mask=stamps == NO_COMMIT_TS),
            "table_version": pa.array(versions, pa.int64()).take(pa.array(shape)),
            "row": pa.array(np.zeros(len(chosen), np.int32)),
            "source": source_array(batch, message, self.schema.field("source").type),
            **structs,
            "odd": pa.nulls(len(chosen), self.schema.field("odd").type),
            "schema_id": pa.array([s.schema_id for s in rows.shapes], pa.int32()).take(pa.array(shape)),
            "op_unknown": pa.array(none if unknown is None else unknown[chosen]),
        }
        whole = pa.RecordBatch.from_arrays([by_name[name] for name in self.schema.names], schema=self.schema)
        return (whole.filter(pa.array(~bad)) if bad.any() else whole), bad

    def _side(self, rows: Rows, shape: Any, first: Any, step: Any, places: Any) -> tuple[Any, Any]:
        """(typed columns or None where no row has this side, which rows are bad)."""
        if not (first >= 0).any():
            return None, np.zeros(len(first), np.bool_)
        columns, bad = read_columns(rows, shape, first, step, self._columns, places)
        for typed in columns:
            if typed.form in ("int", "uint"):
                bad |= _find_too_large(typed)
        return columns, bad

    def _arrays(self, rows: Rows, shape: Any, columns: Sequence[ColumnValues]) -> list[Any]:
        zone = self.side.options.time_zone
        arrays = []
        for typed in columns:
            array, name = array_of_column(typed), typed.column.name
            lack = [not s.key_only and name not in s.table.by_name for s in rows.shapes]
            if self.missing == "default" and any(lack):
                default = pa.scalar(default_value(typed.column, zone), array.type)
                array = pc.if_else(pa.array(np.array(lack)[shape]), default, array)
            arrays.append(array)
        return arrays

    def _build_others(self, rows: Rows, chosen: Any, batch: Any) -> Any:
        """Rows of other tables, with nothing but the table: they are counted."""
        columns: dict[str, Any] = {f.name: pa.nulls(len(chosen), f.type) for f in self.schema}
        kind = self.schema.field("odd").type
        odd = [{"kind": "row", "db": s.table.id.db, "table": s.table.id.table} for s in rows.shapes]
        columns["odd"] = pa.array(odd, kind).take(pa.array(rows.shape[chosen]))
        columns["source"] = source_array(batch, rows.message[chosen], self.schema.field("source").type)
        return pa.RecordBatch.from_arrays([columns[name] for name in self.schema.names], schema=self.schema)


class _NoNewest:
    """Schemas of which nobody asks for the newest."""

    def __init__(self, schemas: SchemaSource) -> None:
        self.by_id, self.id_of = schemas.by_id, schemas.id_of

    def newest(self, subject: str) -> str | None:
        return None


def _find_too_large(typed: ColumnValues) -> Any:
    """Integers that their column's Spark type does not hold."""
    bits = INTEGER_BITS.get(spark_type(typed.column), 65)
    signed = typed.form == "int"
    if bits > 64 or (bits == 64 and signed):
        return np.zeros(len(typed.valid), np.bool_)
    top = (1 << bits - 1) - 1
    return (typed.values > top) | (typed.values < (-top - 1 if signed else 0))


# ---------------------------------------------------------------------------------------------- batches
def _parts(batch: Any) -> tuple[Binaries, Binaries, Topics]:
    topic = batch.column("topic").dictionary_encode()
    names = [*topic.dictionary.to_pylist(), None]
    of = np.asarray(topic.indices.fill_null(len(names) - 1)).astype(np.int64)
    return _binaries(batch.column("key")), _binaries(batch.column("value")), Topics(names, of)


def _binaries(array: Any) -> Binaries:
    data, offsets = bytes_of(array)
    return Binaries(data, offsets, np.asarray(array.is_valid()))


def _in_order(parts: list[tuple[Any, Any]]) -> Any:
    """Batches, each with the messages of its rows → one batch in the messages' order."""
    if len(parts) == 1:
        return parts[0][1]
    order = np.argsort(np.concatenate([message for message, _ in parts]), kind="stable")
    return pa.concat_batches([batch for _, batch in parts]).take(pa.array(order))


# ---------------------------------------------------------------------------------------------- compiling
def warm() -> bool:
    """Compiles the kernels or loads them from the cache (`schemas.columnar.kernels.jit`): once in a driver or an image.

    Workers then find them. Out: False without numba, where there is nothing to compile.
    """
    if not COMPILED:
        return False
    handle = Column("id", BY_NAME["bigint"], unsigned=True, nullable=False, handle_key=True, primary_key=True)
    columns = (*sample_columns(), handle)
    table, options = Table(TableId("a", "b"), columns), Options.of({"enable_tidb_extension": True})
    key, value = publish.key_schema(table, options), publish.value_schema(table, options)
    schemas = FileSchemas([RegisteredSchema("t-key", 1, 1, str(key)), RegisteredSchema("t-value", 1, 2, value)])
    row = sample_row(columns)
    encoder = AvroEncoder(Context(schemas, None, options))
    changes = [
        RowChange("made", table, op, 1 << 60, None if op == "c" else row, None if op == "d" else row, ("id",), "UTC")
        for op in ("c", "d")
    ]
    messages = [m for change in changes for m in encoder.encode(change, Message(None, None, "t"))]
    arrays = {name: pa.array([getattr(m, name) for m in messages], pa.binary()) for name in ("key", "value")}
    record = compile_record(value, "a sample")
    newest = Table(record.id, record.columns)
    schema = avro_arrow(newest)
    arrays |= {f.name: pa.nulls(len(messages), f.type) for f in schema.field("source").type}
    batches = AvroBatches(CodecConfig("avro", schemas, options), (TableVersion(0, newest),), schema, key=("id",))
    list(batches([pa.RecordBatch.from_pydict(arrays)]))
    return True
