"""Change events of one table from Arrow batches of messages, its columns typed; in Spark's Python workers.

A compiled reader (schemas.columnar) takes messages of any tables, versions and schema ids, also of those that came
after the query was planned. What it leaves, and rows that the newest version's columns can't hold as they are, are read
by the in-process decoder. What is the same in every row (the table's name, its key) is not sent through Arrow:
`spark_jobs.spark.decode_plan` adds it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow
import pyarrow.compute

from ticdc_bridge.schemas.columnar import READERS
from ticdc_bridge.schemas.columnar.rows import NO_COMMIT_TS, Rows, RowsReader
from ticdc_bridge.schemas.formats.base import Decoder
from ticdc_bridge.schemas.model.errors import WireError
from ticdc_bridge.schemas.model.event import Row, RowChange
from ticdc_bridge.schemas.model.ports import SchemaSource
from ticdc_bridge.schemas.model.spark_types import EXACT
from ticdc_bridge.schemas.model.table import Table
from ticdc_bridge.spark_jobs.arrow.batches import (
    headers_array,
    merge_in_order,
    numbers_in_message,
    op_array,
    read_rows,
    reader_of,
)
from ticdc_bridge.spark_jobs.arrow.binary_rows import binary_rows
from ticdc_bridge.spark_jobs.arrow.columns import row_type
from ticdc_bridge.spark_jobs.arrow.event_rows import Batches, change_row, place_of
from ticdc_bridge.spark_jobs.arrow.table_columns import LEFT, OTHERS, OURS, TableColumns
from ticdc_bridge.spark_jobs.io.message_files import message_of_row
from ticdc_bridge.spark_jobs.io.parquet import HEADERS
from ticdc_bridge.spark_jobs.pipeline.arguments import result_in_python
from ticdc_bridge.spark_jobs.pipeline.codec_config import CodecConfig
from ticdc_bridge.spark_jobs.pipeline.message_codec import decode_one
from ticdc_bridge.spark_jobs.pipeline.result import warn_of_mismatches
from ticdc_bridge.spark_jobs.pipeline.table_view import TableView

pa: Any = pyarrow  # the stubs know less than the library
pc: Any = pyarrow.compute

FORMATS = tuple(READERS)
_OF_ODD = ("kind", "db", "table", "schema_id", "key", "flags", "ddl_type", "query")


BINARY = {"before": "before_bytes", "after": "after_bytes"}


def rows_schema(table: Table, format_: str, headers: bool = False, binary: bool = False) -> Any:
    """What `TableRows` yields. odd: NULL for a row of the table that the kernels took. headers: with the messages'.

    binary: where a side stands as Spark's own row in its column of BINARY, the struct is NULL.
    """
    row, texts = row_type([c for c in table.columns if not c.virtual]), pa.list_(pa.string())
    odd = [("kind", pa.string()), ("db", pa.string()), ("table", pa.string()), ("schema_id", pa.int32())]
    odd += [("key", texts), ("flags", texts), ("ddl_type", pa.int32()), ("query", pa.string())]
    odd += [("code", pa.string()), ("detail", pa.string()), ("key_bytes", pa.binary()), ("value_bytes", pa.binary())]
    source = [("topic", pa.string()), ("partition", pa.int32()), ("offset", pa.int64())]
    source.append(("timestamp", pa.timestamp("us", "UTC")))
    columns = [
        ("op", pa.string()), ("commit_ts", pa.int64()), ("table_version", pa.int64()), ("row", pa.int32()),
        ("source", pa.struct(source)), ("before", row), ("after", row), ("odd", pa.struct(odd)),
    ]  # fmt: skip
    if binary:
        columns += [(name, pa.binary()) for name in BINARY.values()]
    if format_ == "avro":
        columns += [("schema_id", pa.int32()), ("op_unknown", pa.bool_())]
    if headers:
        columns.append(("headers", HEADERS))
    return pa.schema(columns)


@dataclass(frozen=True)
class TableRows:
    """Messages (Kafka's columns) → rows of `schema` (`rows_schema`), in the messages' order.

    side: with a view of the table's newest columns. key: the names of the key that almost all rows have; the others'
    stand in `odd`. Rows of other tables are there with nothing but their table.
    """

    side: CodecConfig
    schema: Any
    key: tuple[str, ...] = ()

    def __call__(self, batches: Batches) -> Iterator[Any]:
        decoder, side = self.side.decoder(), self.side
        if side.tables is None:  # then a table's other columns are of no account to a delete by its key
            side = replace(side, schemas=_NoNewest(side.schemas))  # type: ignore[arg-type]
        reader = reader_of(side, bare=True)
        for batch in batches:
            if batch.num_rows:
                yield self._read(reader, decoder, batch)

    def _read(self, reader: RowsReader, decoder: Decoder, batch: Any) -> Any:
        rows, left, _ = read_rows(reader, batch)
        status, places = self._table.place(rows, self.key)
        for name, flagged in rows.flags.items():
            if name != "op_unknown":  # which the schema has a column for
                status[flagged & (status == OURS)] = LEFT
        chosen, others = np.flatnonzero(status == OURS), np.flatnonzero(status == OTHERS)
        fast, bad = self._build_batch(rows, chosen, places, batch)
        slow = np.union1d(left, rows.message[np.concatenate((chosen[bad], np.flatnonzero(status == LEFT)))])
        if len(others):
            order = np.argsort(np.concatenate((chosen, others)))
            fast = pa.concat_batches([fast, self._build_others(rows, others, batch)]).take(pa.array(order))
            chosen = np.concatenate((chosen, others))[order]
        origin = rows.message[chosen]
        if len(slow) and (stays := ~np.isin(origin, slow)).sum() < len(origin):
            fast, origin = fast.filter(pa.array(stays)), origin[stays]
        return merge_in_order(batch, slow, self.schema, lambda row: self._odd_rows(decoder, row), fast, origin)

    @cached_property
    def _table(self) -> TableColumns:
        return TableColumns(self.side)

    @cached_property
    def _exact(self) -> TableView:
        return replace(self._table.view, types=EXACT)  # other types are made of these in SQL

    # ---- what the kernels took
    def _build_batch(self, rows: Rows, chosen: Any, places: Any, batch: Any) -> tuple[Any, Any]:
        """Rows of the table → (a batch, in which of them (bool) a value is none of its column)."""
        shape, message, bad = rows.shape[chosen], rows.message[chosen], np.zeros(len(chosen), np.bool_)
        is_binary, sides = self._is_binary(rows), {}
        for name, other in BINARY.items():
            first, kind = getattr(rows, name)[chosen], self.schema.field(name).type
            cells = first, rows.step[chosen]
            sides[name], sides[other] = pa.nulls(len(chosen), kind), pa.nulls(len(chosen), pa.binary())
            if not (first >= 0).any():
                continue
            if is_binary:
                sides[other], unfit = binary_rows(rows, shape, *cells, self._table.columns, places)
                bad |= unfit
            else:
                arrays = self._table.build_side(rows, shape, cells, places, bad)
                sides[name] = pa.StructArray.from_arrays(arrays, fields=list(kind), mask=pa.array(first < 0))
        stamps, versions = rows.commit_ts[chosen], [s.table_version for s in rows.shapes]
        unknown = rows.flags.get("op_unknown")
        none = np.zeros(len(chosen), np.bool_)
        by_name = {
            "op": op_array(rows.op[chosen]),
            "commit_ts": pa.array(stamps, mask=stamps == NO_COMMIT_TS),
            "table_version": pa.array(versions, pa.int64()).take(pa.array(shape)),
            "row": pa.array(numbers_in_message(rows.message)[chosen]),
            "source": source_array(batch, message, self.schema.field("source").type),
            **sides,
            "odd": pa.nulls(len(chosen), self.schema.field("odd").type),
            "schema_id": pa.array([s.schema_id for s in rows.shapes], pa.int32()).take(pa.array(shape)),
            "op_unknown": pa.array(none if unknown is None else unknown[chosen]),
        }
        if "headers" in self.schema.names:
            by_name["headers"] = headers_array(batch, message)
        return pa.RecordBatch.from_arrays([by_name[name] for name in self.schema.names], schema=self.schema), bad

    def _is_binary(self, rows: Rows) -> bool:
        """Whether both sides go as Spark's own rows: nothing is added to them, and no value is looked at."""
        return (
            BINARY["after"] in self.schema.names
            and not self._table.adds_defaults(rows)
            and not self._table.view.types.kinds
        )

    def _build_others(self, rows: Rows, chosen: Any, batch: Any) -> Any:
        """Rows of other tables, with nothing but the table: they are counted."""
        columns: dict[str, Any] = {f.name: pa.nulls(len(chosen), f.type) for f in self.schema}
        odd = [{"kind": "row", "db": s.table.id.db, "table": s.table.id.table} for s in rows.shapes]
        columns["odd"] = pa.array(odd, self.schema.field("odd").type).take(pa.array(rows.shape[chosen]))
        columns["row"] = pa.array(numbers_in_message(rows.message)[chosen])
        columns["source"] = source_array(batch, rows.message[chosen], self.schema.field("source").type)
        return pa.RecordBatch.from_arrays([columns[name] for name in self.schema.names], schema=self.schema)

    # ---- what they leave
    def _odd_rows(self, decoder: Decoder, input_row: dict[str, Any]) -> list[dict[str, Any]]:
        origin = message_of_row(input_row)
        result, rows = result_in_python(decode_one(decoder, origin), "decode"), list[dict[str, Any]]()
        place, error = place_of(origin), result.error
        warn_of_mismatches(result)
        for number, event in enumerate(result.events):
            change = change_row(event)
            row = {name: change.get(name) for name in ("op", "commit_ts", "table_version")}
            row |= {"row": number, **place, "odd": {name: change.get(name) for name in _OF_ODD}}
            if isinstance(event, RowChange) and self._table.view.has(event.table.id):
                try:
                    row |= {"before": self._values(event.before), "after": self._values(event.after)}
                except (ValueError, ArithmeticError, pa.ArrowException) as broken:
                    details = f"the newest version's columns can't hold the row: {broken}"
                    error = WireError("INVALID_VALUE", column=str(event.table.id), details=details)
                    break
            rows.append(row)
        if error is None:
            return rows or [{"row": 0, **place, "odd": {"kind": kind}} for kind in result.skipped]
        odd = {"kind": "error", "code": error.code, "detail": error.detail}
        return [{"row": 0, **place, "odd": odd | {"key_bytes": origin.key, "value_bytes": origin.value}}]

    def _values(self, row: Row | None) -> dict[str, Any] | None:
        values = self._exact.row(row, self._table.zone)
        pa.array([values], self.schema.field("after").type)  # says which value is not one of the newest column's
        return values


class _NoNewest:
    """Schemas of which nobody asks for the newest."""

    def __init__(self, schemas: SchemaSource) -> None:
        self.by_id, self.id_of = schemas.by_id, schemas.id_of

    def newest(self, subject: str) -> str | None:
        return None


def source_array(batch: Any, message: Any, kind: Any) -> Any:
    """Where the messages of rows came from. message: each row's, ascending; kind: the column's Arrow type."""
    once = len(message) == batch.num_rows and bool((message == np.arange(len(message))).all())
    place = None if once else pa.array(message)
    fields = list(kind)
    columns = [batch.column(f.name) if once else batch.column(f.name).take(place) for f in fields]
    arrays = [a if a.type == f.type else a.cast(f.type) for a, f in zip(columns, fields, strict=True)]
    return pa.StructArray.from_arrays(arrays, fields=fields)
