"""What TiCDC's Debezium JSON puts around the values of a table's rows: texts, made once per table.

The encoder of single events and the compiled writer of batches both write from a `Plan`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from enum import Enum
from functools import lru_cache
from typing import Any

from schemas.errors import WireError
from schemas.options import Options
from schemas.publish import debezium as publish
from schemas.table import Column, Table, TableId
from schemas.types import Kind
from schemas.wire import debezium_fields as fields
from schemas.wire import debezium_ticdc as ticdc
from schemas.wire.debezium_reader import ANY_TYPE


class Slot(Enum):
    """Where a row's own text goes. SOURCE_MS: physical ms of its commit_ts; TS_MS: the same, if nothing else is known.

    KEY, BEFORE, AFTER: objects of columns.
    """

    KEY = "key"
    BEFORE = "before"
    AFTER = "after"
    SOURCE_MS = "source.ts_ms"
    COMMIT_TS = "source.commit_ts"
    START_TS = "source.start_ts"
    TS_MS = "ts_ms"


Layout = tuple[str | Slot, ...]
"""A message's key or value: literals, and between them what a row puts there."""


@dataclass(frozen=True, slots=True)
class Cell:
    """A column in a row's object: `"name":`, and the writer of its values."""

    name: str
    column: Column
    write: fields.Write


@dataclass(frozen=True, slots=True)
class Plan:
    """Compiled per table. columns: of rows, in order; key: of the key. key_layout: of a message's key.

    values: by what a row event is (`kind_of_row`), the layout of a message's value.
    """

    columns: tuple[Cell, ...]
    key: tuple[Cell, ...]
    key_layout: Layout
    values: Mapping[str, Layout]


KINDS = ("c", "u", "u-", "d")
"""The kinds of row that cells can say."""


def kind_of_row(op: str, before: bool) -> str:
    """The name of a row event's layout: its op, or "u-" for an update without its old row."""
    return "u-" if op == "u" and not before else op


_SIDES: dict[str, dict[str, Any]] = {
    "c": {"before": None, "after": Slot.AFTER},
    "r": {"before": None, "after": Slot.AFTER},
    "u": {"before": Slot.BEFORE, "after": Slot.AFTER},
    "u-": {"after": Slot.AFTER},
    "d": {"after": None, "before": Slot.BEFORE},
}


def unsized(table: Table) -> list[Column]:
    """DATETIME columns whose fsp is not known: it is that of a row's value, as TiCDC writes all its digits."""
    return [c for c in table.columns if c.type.kind is Kind.DATETIME and c.scale is None]


def compile_plan(
    table: Table, scales: Mapping[str, int], known: frozenset[str] | None, cluster_id: str, options: Options
) -> Plan:
    """scales: fsp of the columns that lack one. known: columns of a row that has its key alone, None for a whole row.

    WireError TYPE_UNKNOWN for a column that can't be written or described for certain.
    """
    sized = (replace(c, scale=scales[c.name]) if c.name in scales else c for c in table.columns)
    table = Table(table.id, tuple(sized))
    columns = tuple(_cells(table, options))
    source = source_block(table.id, cluster_id, options)
    key_schema = publish.key_schema(table, options, cluster_id)
    value_schema = publish.value_schema(table, options, cluster_id, known)
    values = {
        name: layout(envelope(name.removesuffix("-"), source, sides), value_schema, options)
        for name, sides in _SIDES.items()
    }
    return Plan(
        columns, tuple(c for c in columns if c.column.handle_key), layout(Slot.KEY, key_schema, options), values
    )


def _cells(table: Table, options: Options) -> Iterator[Cell]:
    for column in table.columns:
        unsure = column.vague == ANY_TYPE or column.type.kind in (Kind.ENUM, Kind.SET, Kind.BIT)
        if column.vague and (unsure or options.enable_tidb_extension):
            details = f"the message does not tell whether it is {column.vague}; give a table definition (--ddl)"
            raise WireError("TYPE_UNKNOWN", column=column.name, details=details)
        if not column.virtual:
            writer = fields.writer(column, options.enable_tidb_extension, options.on_lossy == "flag")
            yield Cell(publish.compact(column.name) + ":", column, writer)


def source_block(id_: TableId, cluster_id: str, options: Options) -> dict[str, Any]:
    """The source block, with slots; that of a watermark names no table."""
    source = ticdc.source_block(id_, 0, cluster_id)
    source.update(ts_ms=Slot.SOURCE_MS, commit_ts=Slot.COMMIT_TS)
    if options.debezium_include_start_ts and id_.table:
        source["start_ts"] = Slot.START_TS
    source["cluster_id"] = cluster_id
    return source


def envelope(op: str, source: Mapping[str, Any], sides: Mapping[str, Any]) -> dict[str, Any]:
    """The payload of an event, in TiCDC's order."""
    return {"source": source, "ts_ms": Slot.TS_MS, "transaction": None, "op": op, **sides}


def layout(payload: Any, schema: str, options: Options) -> Layout:
    """A key or value with its payload, slots in it, and its schema where that is written."""
    pieces: list[str | Slot] = ['{"payload":', *_pieces(payload)]
    pieces.append("}" if options.debezium_disable_schema else f',"schema":{schema}}}')
    return tuple(_merged(pieces))


def _pieces(value: Any) -> Iterator[str | Slot]:
    if isinstance(value, Slot):
        yield value
    elif isinstance(value, Mapping):
        lead = "{"
        for name, inner in value.items():
            yield f"{lead}{_text(name)}:"
            yield from _pieces(inner)
            lead = ","
        yield "}" if value else "{}"
    else:
        yield _text(value) if isinstance(value, str) else publish.compact(value)


@lru_cache(4096)
def _text(text: str) -> str:
    return publish.compact(text)


def _merged(pieces: Iterable[str | Slot]) -> Iterator[str | Slot]:
    literal = ""
    for piece in pieces:
        if isinstance(piece, Slot):
            yield literal
            yield piece
            literal = ""
        else:
            literal += piece
    yield literal
