"""Arrow batches of messages → Arrow batches of change events, by compiled readers; the codec reads what they leave."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from ticdc_bridge.schemas import columnar
from ticdc_bridge.schemas.columnar.kernels.jit import COMPILED
from ticdc_bridge.schemas.columnar.plain_lines import plain_texts
from ticdc_bridge.schemas.columnar.rows import ABSENT, NO_COMMIT_TS, Rows, RowsReader
from ticdc_bridge.schemas.model.ports import SchemaSource
from ticdc_bridge.spark_jobs.arrow import batches as cells
from ticdc_bridge.spark_jobs.arrow.batches import BatchReader, several_flags
from ticdc_bridge.spark_jobs.arrow.binary_rows import binary_rows
from ticdc_bridge.spark_jobs.arrow.library import offsets_of, pa
from ticdc_bridge.spark_jobs.arrow.table_columns import LEFT, OF_TABLE
from ticdc_bridge.spark_jobs.pipeline.codec_config import CodecConfig
from ticdc_bridge.spark_jobs.pipeline.result import Summary
from ticdc_bridge.spark_jobs.pipeline.table_view import TableView

_POSITION_COLUMNS = frozenset(("topic", "partition", "offset", "timestamp"))
_OP_BITS = 18  # of a TSO, below its milliseconds
_MOST_BYTES = 1 << 30  # of texts at a time: offsets of Arrow's strings have 31 bits


BINARY = {"before": "before_bytes", "after": "after_bytes"}
"""Columns with a side as Spark's own row, whose struct is NULL then."""
_BuildImages = Callable[[Any], dict[str, Any]]


@dataclass(frozen=True, slots=True)
class ChangeBatch:
    """Events that the kernels read, in message order: a record batch, and each one's message in the batch (int64)."""

    origin: Any
    rows: Any


def can_read_changes(config: CodecConfig) -> bool:
    """True if change events of what a side reads come from kernels. Rows that a checksum judges do not."""
    is_readable = config.format in columnar.READERS and (config.tables is not None or config.format == "avro")
    return COMPILED and is_readable and not config.verify_checksum


class ChangeReader(BatchReader):
    """Messages → change events."""

    def __init__(self, config: CodecConfig, schema: Any, key: tuple[str, ...] | None = None) -> None:
        """
        Args:
            config: rows that a checksum judges, or that its view may refuse, go through the plain codec.
            schema: `change_schema`. With structs of the side's view a row of another table is of the kind `other`;
                it may have the columns of BINARY then.
            key: of almost all rows of the view's table. Such a row, read by kernels, has no kind, table, key and flags
                (NULL): whoever reads it knows them. None: each row has all.
        """
        super().__init__(config, can_read_changes(config), _POSITION_COLUMNS)
        self._schema, self._key = schema, key
        self._is_typed = pa.types.is_struct(schema.field("before").type)

    @property
    def view(self) -> TableView | None:
        """Whose structs the rows have; None: they are in plain form."""
        return self._config.view if self._is_typed else None

    @cached_property
    def _reader(self) -> RowsReader:
        config = self._config
        if self._is_typed and config.tables is None:  # a table's other columns are of no account to a delete by its key
            config = replace(config, schemas=_NoNewest(config.schemas))  # type: ignore[arg-type]
        return cells.reader_of(config, without_extra=True)  # a change event says nothing beside the row

    def _build_output(
        self, batch: Any, rows: Rows, left: Any, topics: Any, summary: Summary | None
    ) -> tuple[ChangeBatch, Any]:
        slow = cells.other_messages(batch, rows, left)
        slow[rows.message[several_flags(rows)]] = True
        slow |= cells.milliseconds(batch.column("timestamp"))[1]
        build_images = self._structs(rows, slow) if self._is_typed else self._maps(rows, slow)
        mask = cells.leave_out(rows, self._config.chosen, slow, summary)
        chosen = np.flatnonzero(mask)
        columns = _columns(rows, chosen, batch, self._schema) | self._names(rows, chosen)
        columns |= build_images(chosen)
        arrays = [columns[f.name] if f.name in columns else pa.nulls(len(chosen), f.type) for f in self._schema]
        cells.count_rows(rows, {}, mask, topics, summary)
        return ChangeBatch(rows.message[mask], pa.RecordBatch.from_arrays(arrays, schema=self._schema)), slow

    def _names(self, rows: Rows, chosen: Any) -> dict[str, Any]:
        """The columns that say of which table a row is, and whose key it has."""
        view = self.view
        in_view = [view is None or view.has(s.table.id) for s in rows.shapes]
        ids = [view.table.id if view and of else s.table.id for s, of in zip(rows.shapes, in_view, strict=True)]
        of_shape: dict[str, list[Any]] = {
            "kind": ["row" if of else "other" for of in in_view],
            "db": [id_.db for id_ in ids], "table": [id_.table for id_ in ids],
            "key": [list(s.key) for s in rows.shapes],
        }  # fmt: skip
        if self._key is not None:
            of_shape = {name: [None if of else v for v, of in zip(values, in_view, strict=True)]
                        for name, values in of_shape.items()}  # fmt: skip
        shape = pa.array(rows.shape[chosen])
        columns = {n: pa.array(values, self._schema.field(n).type).take(shape) for n, values in of_shape.items()}
        if self._key is None or any(flagged[chosen].any() for flagged in rows.flags.values()):
            columns["flags"] = _flags(rows, chosen, self._schema.field("flags").type)
        return columns

    # Both: the messages (bool) of rows that the view may refuse become slow. Out: the sides of chosen rows.
    def _maps(self, rows: Rows, slow: Any) -> _BuildImages:
        plain, kind = plain_texts(rows), self._schema.field("before").type
        if len(plain.data) > _MOST_BYTES:
            raise ValueError("too many texts for one batch")
        texts = cells.arrow_array(plain, pa.string())
        if self._table is not None:
            slow[rows.message[self._table.find_doubtful(rows)]] = True
        return lambda chosen: {name: _maps(rows, chosen, getattr(rows, name), texts, kind) for name in BINARY}

    def _structs(self, rows: Rows, slow: Any) -> _BuildImages:
        table = self._table
        assert table is not None
        status, positions = table.locate(rows, self._key)
        slow[rows.message[status == LEFT]] = True
        of_table = np.flatnonzero((status == OF_TABLE) & ~slow[rows.message])
        bad, images = np.zeros(len(of_table), np.bool_), dict[str, Any]()
        # Spark's own rows where nothing is added to them, and no value is looked at.
        binary = BINARY["after"] in self._schema.names and not table.adds_defaults(rows) and not table.view.types.kinds
        for name in BINARY:
            first = getattr(rows, name)
            if not binary:
                kind = self._schema.field(name).type
                images[name] = table.build_struct(rows, first, of_table, positions, kind, bad)
            elif (first[of_table] >= 0).any():
                cells_of_image = rows.shape[of_table], first[of_table], rows.step[of_table]
                images[BINARY[name]], unfit = binary_rows(rows, *cells_of_image, table.columns, positions)
                bad |= unfit
        slow[rows.message[of_table[bad]]] = True
        numbers = np.full(len(status), -1)
        numbers[of_table] = np.arange(len(of_table))

        def build_images(chosen: Any) -> dict[str, Any]:
            if len(chosen) == len(of_table) and (chosen == of_table).all():
                return images
            which = numbers[chosen]
            return {name: image.take(pa.array(which, mask=which < 0)) for name, image in images.items()}

        return build_images


class _NoNewest:
    """Schemas of which nobody asks for the newest."""

    def __init__(self, schemas: SchemaSource) -> None:
        self.by_id, self.id_of = schemas.by_id, schemas.id_of

    def newest(self, subject: str) -> str | None:
        return None


def _columns(rows: Rows, chosen: Any, batch: Any, schema: Any) -> dict[str, Any]:
    """What the chosen rows have in the schema's columns, but their tables, flags and sides."""
    message, stamps = rows.message[chosen], rows.commit_ts[chosen]
    shape, unstamped = pa.array(rows.shape[chosen]), stamps == NO_COMMIT_TS
    by_shape = {
        "schema_id": [s.schema_id for s in rows.shapes], "table_version": [s.table_version for s in rows.shapes],
    }  # fmt: skip
    columns = {name: pa.array(values, schema.field(name).type).take(shape) for name, values in by_shape.items()}
    columns |= {
        "op": cells.op_array(rows.op[chosen]),
        "commit_ts": pa.array(stamps, mask=unstamped),
        "commit_time": pa.array((stamps >> _OP_BITS) * 1000, mask=unstamped).view(schema.field("commit_time").type),
        "row": pa.array(cells.numbers_in_message(message)),
        "source": cells.source_array(batch, message, schema.field("source").type),
    }
    if "headers" in schema.names:
        columns["headers"] = cells.headers_array(batch, message)
    return columns


def _maps(rows: Rows, chosen: Any, first: Any, texts: Any, kind: Any) -> Any:
    """One side of the chosen rows: the columns that the row has, and their texts."""
    first, of, step = first[chosen], rows.shape[chosen], rows.step[chosen]
    widths = np.array([len(s.columns) for s in rows.shapes] or [0], np.int64)
    names = pa.array([c.name for s in rows.shapes for c in s.columns], pa.string())
    none = first < 0
    counts = np.where(none, 0, widths[of]) if len(of) else np.zeros(0, np.int64)
    ends = np.cumsum(counts)
    within = np.arange(ends[-1] if len(ends) else 0) - np.repeat(ends - counts, counts)
    cell = np.repeat(first, counts) + np.repeat(step, counts) * within
    column = np.repeat((np.cumsum(widths) - widths)[of], counts) + within
    present = rows.length[cell] != ABSENT
    if not present.all():
        owner = np.repeat(np.arange(len(counts)), counts)[present]
        cell, column, counts = cell[present], column[present], np.bincount(owner, minlength=len(counts))
    items = texts if len(cell) == len(texts) and (cell == np.arange(len(cell))).all() else texts.take(pa.array(cell))
    mask = pa.array(none) if none.any() else None
    return pa.MapArray.from_arrays(
        pa.array(offsets_of(counts)), names.take(pa.array(column)), items, type=kind, mask=mask
    )


def _flags(rows: Rows, chosen: Any, kind: Any) -> Any:
    which = np.zeros(len(chosen), np.int64)  # of a row with one flag, its number from 1 on
    for number, flagged in enumerate(rows.flags.values(), 1):
        which[flagged[chosen]] = number
    present = which > 0
    values = pa.array(list(rows.flags), pa.string()).take(pa.array(which[present] - 1))
    return pa.ListArray.from_arrays(pa.array(offsets_of(present)), values, type=kind)
