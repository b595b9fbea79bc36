"""Typed change events of one table from Arrow batches of messages, by the compiled kernels; in Spark's Python workers.

The kernels hand back, by index, what is not plain rows of the table: the format's own decoder reads just those. What
is the same in every row (the table's name, its key) is not sent through Arrow: `spark_jobs.spark.decode_plan` adds it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
import pyarrow

from schemas.formats.base import Decoder
from schemas.inspect.format_lookup import format_named
from schemas.model.errors import WireError
from schemas.model.event import MAX_TSO, Message, RowChange
from schemas.model.names import quote_name
from schemas.model.ports import TableSource
from schemas.model.spark_types import python_value, row_type, spark_type, widens
from schemas.model.table import Column, Table, TableId, TableVersion
from spark_jobs.arrow.change_schema import SOURCE
from spark_jobs.arrow.columns import arrow_type
from spark_jobs.arrow.event_rows import Batches, change_row, source_of
from spark_jobs.arrow.table_decoders import FORMATS as JSON
from spark_jobs.arrow.table_decoders import ArrowDecoder, ArrowJsonDecoder
from spark_jobs.io.message_files import message_of_row, rows_of
from spark_jobs.pipeline.codec_config import CodecConfig
from spark_jobs.pipeline.message_codec import decode_one
from spark_jobs.pipeline.result import MessageResult
from spark_jobs.pipeline.table_view import check_names, default_of

pa: Any = pyarrow  # the stubs know less than the library

FORMATS = ("craft", *JSON)
_MOST_VERSIONS = 64
OTHER_EVENT = (
    "struct<kind:string,db:string,`table`:string,schema_id:int,`key`:array<string>,flags:array<string>,"
    "ddl_type:int,query:string,code:string,detail:string,key_bytes:binary,value_bytes:binary>"
)


def typed_schema(table: Table) -> str:
    """Spark DDL of what `TypedBatches` yields. odd: NULL for a row of the table that the kernels took."""
    row = row_type(table)
    return (
        f"op string, commit_ts bigint, table_version bigint, row int, source {SOURCE}, before {row}, after {row},"
        f" odd {OTHER_EVENT}"
    )


def table_versions(tables: TableSource, id_: TableId) -> list[TableVersion]:
    """A table's versions, the newest first."""
    versions: list[TableVersion] = []
    at: int | None = None
    while len(versions) < _MOST_VERSIONS:
        try:
            version = tables.at(id_, at)
        except WireError:
            break  # not known any more: rows before that are the decoder's, which says why
        if version is None or (at is not None and version.commit_ts >= at):
            break
        versions.append(version)
        at = version.commit_ts
    return versions


@dataclass(frozen=True)
class TypedBatches:
    """Messages (Kafka's columns) → `typed_schema`. versions: of the table, the newest, whose columns are given, first.

    missing: "default" gives a row of an older version the default of a column that it lacks, "null" NULL. until: up to
    which commit_ts the newest version is known to hold; later rows are the decoder's, which asks again.
    """

    side: CodecConfig
    versions: tuple[TableVersion, ...]
    schema: Any
    missing: str = "null"
    until: int = MAX_TSO

    def __call__(self, batches: Batches) -> Iterator[Any]:
        plain = self.side.decoder()
        kernels = list(self._kernels())
        for batch in batches:
            left = np.arange(batch.num_rows)
            for kernel in kernels:
                if len(left):
                    typed_batches, left = kernel.decode(batch, left)
                    yield from typed_batches
            if len(left):
                yield self._decode_odd(plain, batch.take(pa.array(left)))

    def _kernels(self) -> Iterator[_Kernel]:
        high = self.until
        newest = self.versions[0].table
        for version in self.versions:
            if _is_castable(version.table, newest) and version.table.handle_key == newest.handle_key:
                yield _Kernel(self.side, version, high, newest, self.schema, self.missing)
            high = version.commit_ts

    # ---- what the kernels leave
    def _decode_odd(self, decoder: Decoder, batch: Any) -> Any:
        rows: list[dict[str, Any]] = []
        for row in rows_of(batch):
            message = message_of_row(row)
            rows += self._rows(decode_one(decoder, message), message)
        return pa.RecordBatch.from_pylist(rows, schema=self.schema)

    def _rows(self, result: MessageResult, origin: Message) -> list[dict[str, Any]]:
        rows, source = [], source_of(origin)
        error = result.error
        for number, event in enumerate(result.events if error is None else ()):
            change = change_row(event)
            odd = {k: change.get(k) for k in ("kind", "db", "table", "schema_id", "key", "flags", "ddl_type", "query")}
            row = {k: change.get(k) for k in ("op", "commit_ts", "table_version")}
            row |= {"row": number, "source": source, "odd": odd}
            if isinstance(event, RowChange) and event.table.id == self.versions[0].table.id:
                try:
                    check_names(event, self.versions[0].table, self.side.tables)
                    row |= self._typed_row(event)
                except WireError as strange:
                    error = strange
                    break
                except (ValueError, ArithmeticError, pa.ArrowException) as broken:
                    details = f"the newest version's columns can't hold the row: {broken}"
                    error = WireError("INVALID_VALUE", column=str(event.table.id), details=details)
                    break
            rows.append(row)
        if error is None:
            return rows or [{"row": 0, "source": source, "odd": {"kind": kind}} for kind in result.skipped]
        odd = {"kind": "error", "code": error.code, "detail": error.detail}
        odd |= {"key_bytes": origin.key, "value_bytes": origin.value}
        return [{"row": 0, "source": source, "odd": odd}]

    def _typed_row(self, event: RowChange) -> dict[str, Any]:
        newest = self.versions[0].table
        out: dict[str, Any] = {}
        for side, row in (("before", event.before), ("after", event.after)):
            if row is None:
                continue
            whole = event.table_version is not None and not event.key_only
            cells = {}
            for column in newest.columns:
                if column.virtual:
                    continue
                if column.name in row:
                    cells[column.name] = python_value(column, row[column.name])
                elif whole and self.missing == "default" and column.name not in event.table.by_name:
                    cells[column.name] = default_value(column, event.zone)
            # Arrow says here which value is not one of the newest column's.
            pa.array([cells], self.schema.field(side).type)
            out[side] = cells
        return out


def default_value(column: Column, zone: str) -> Any:
    """What a row that lacks the column has in it when defaults are asked for. zone: of TIMESTAMP text."""
    return python_value(column, default_of(column, zone))


def _is_castable(old: Table, new: Table) -> bool:
    """Every column of the old version is one of the newest's type, or of a narrower one."""
    types = {c.name: spark_type(c) for c in new.columns if not c.virtual}
    return all(types.get(c.name) is None or widens(spark_type(c), types[c.name]) for c in old.columns if not c.virtual)


class _Kernel:
    """A table version's compiled decoder."""

    def __init__(
        self, side: CodecConfig, version: TableVersion, high: int, newest: Table, schema: Any, missing: str
    ) -> None:
        self._version, self._newest, self._schema, self._missing = version, newest, schema, missing
        low = version.commit_ts + 1
        self._json = side.format in JSON
        self._zone = format_named(side.format).zone or side.options.time_zone
        if self._json:
            self._decoder: Any = ArrowJsonDecoder(side.format, version.table, side.options, low, high, keyed=True)
        else:
            self._decoder = ArrowDecoder(version.table, low, high)

    def decode(self, batch: Any, indices: Any) -> tuple[Iterator[Any], Any]:
        """The messages at `indices` → (batches, the indices that are left)."""
        part = batch if len(indices) == batch.num_rows else batch.take(pa.array(indices))
        value, key = part.column("value"), part.column("key")
        if self._json:
            chunks, left = self._decoder.decode(value, key)
        else:
            chunks, left = self._decoder.decode(value)
        return (self._shape_batch(part, chunk) for chunk in chunks), indices[np.asarray(left, np.int64)]

    def _shape_batch(self, part: Any, chunk: Any) -> Any:
        numbers = np.asarray(chunk.column("message"))
        count = len(numbers)
        first = np.concatenate((np.ones(1, bool), numbers[1:] != numbers[:-1])) if count else np.zeros(0, bool)
        starts = np.maximum.accumulate(np.where(first, np.arange(count), 0)) if count else np.zeros(0, int)
        arrays = [
            chunk.column("op"),
            chunk.column("commit_ts"),
            pa.array(np.full(count, self._version.commit_ts, np.int64)),
            pa.array((np.arange(count) - starts).astype(np.int32)),
            source_array(part, numbers, self._schema.field("source").type),
            *(self._row(chunk.column(side), self._schema.field(side).type) for side in ("before", "after")),
            pa.nulls(count, self._schema.field("odd").type),
        ]
        return pa.RecordBatch.from_arrays(arrays, schema=self._schema)

    def _row(self, rows: Any, kind: Any) -> Any:
        """A version's rows as the newest version's struct."""
        if self._version.table is self._newest:
            return rows
        have = {field.name: n for n, field in enumerate(rows.type)}
        by_name = self._newest.by_name
        columns = []
        for field in kind:
            if field.name in have:
                column = rows.field(have[field.name])
                columns.append(column if column.type == field.type else column.cast(field.type))
            elif self._missing == "default":
                default = default_value(by_name[field.name], self._zone)
                columns.append(pa.repeat(pa.scalar(default, field.type), len(rows)))
            else:
                columns.append(pa.nulls(len(rows), field.type))
        absent = rows.is_null() if rows.null_count else None
        return pa.StructArray.from_arrays(columns, fields=list(kind), mask=absent)


def source_array(batch: Any, message: Any, kind: Any) -> Any:
    """Where the messages of rows came from. message: each row's, ascending; kind: the column's Arrow type."""
    once = len(message) == batch.num_rows and bool((message == np.arange(len(message))).all())
    place = None if once else pa.array(message)
    columns = [batch.column(name) if once else batch.column(name).take(place) for name in _SOURCE]
    fields = list(kind)
    arrays = [a if a.type == f.type else a.cast(f.type) for a, f in zip(columns, fields, strict=True)]
    return pa.StructArray.from_arrays(arrays, fields=fields)


_SOURCE = ("topic", "partition", "offset", "timestamp")


@cache
def warm(format_: str) -> bool:
    """Compiles a format's kernels, or loads them, once in a process: workers find them in the cache then."""
    from spark_jobs.arrow import avro_batches, table_decoders

    if format_ == "avro":
        return avro_batches.warm()
    return table_decoders.warm_json() if format_ in JSON else table_decoders.warm_craft()


__all__ = [
    "FORMATS",
    "TypedBatches",
    "arrow_type",
    "default_value",
    "quote_name",
    "source_array",
    "table_versions",
    "typed_schema",
    "warm",
]
