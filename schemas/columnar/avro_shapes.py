"""What rows read from Avro have in common: records of value and key, and the table's definition → `RowShape`."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from ticdc_bridge.schemas.codec.bounded_cache import BoundedCache
from ticdc_bridge.schemas.columnar.avro_steps import carries
from ticdc_bridge.schemas.columnar.rows import NO_COMMIT_TS, RowShape
from ticdc_bridge.schemas.formats.avro.definitions import DefinitionsOfRecords
from ticdc_bridge.schemas.formats.avro.record import RecordReader
from ticdc_bridge.schemas.model.errors import WireError
from ticdc_bridge.schemas.model.names import own_names
from ticdc_bridge.schemas.model.ports import SchemaId, TableSource, TableSpans
from ticdc_bridge.schemas.model.table import Column, Table, TableVersion


@dataclass(frozen=True, slots=True, eq=False)
class RecordPair:
    """Rows of one schema and key. record: names and columns; cells: the columns in the order they are read.

    keys: names of the key record's columns. extra: the events carry more than a row.
    """

    record: RecordReader
    cells: tuple[Column, ...]
    keys: tuple[str, ...]
    schema_id: SchemaId
    key_only: bool
    extra: bool

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(c.name for c in self.record.columns)


def record_pair_of(
    record: RecordReader,
    cells: tuple[Column, ...],
    key: RecordReader | None,
    schema_id: SchemaId,
    key_only: bool,
    extra: bool,
) -> RecordPair | None:
    """None where the key has a column that the row lacks: the decoder refuses the message."""
    keys = tuple(c.name for c in key.columns) if key is not None else ()
    if not set(keys) <= {c.name for c in record.columns}:
        return None
    return RecordPair(record, cells, keys, schema_id, key_only, extra or record.keyspace != "default")


class ShapeCache:
    """The shape of each kind and table version, and what is to be done for it. One object for equal shapes."""

    def __init__(self, zone: str) -> None:
        self._zone = zone
        self._known: BoundedCache[tuple[RecordPair, int], tuple[TableVersion | None, tuple[RowShape, Any] | None]] = (
            BoundedCache(100_000)
        )
        self._same: BoundedCache[RowShape, RowShape] = BoundedCache(100_000)

    def of(self, kind: RecordPair, version: TableVersion | None) -> tuple[RowShape, Any] | None:
        """The shape, and where each of its cells is among the kind's (int64, -1: absent; None: all in place).

        None where the version's cells can't say what the schema's do.
        """
        entry = self._known.get((kind, id(version)))
        if entry is None or entry[0] is not version:
            entry = self._known[kind, id(version)] = version, self._make_shape(kind, version)
        return entry[1]

    def _make_shape(self, kind: RecordPair, version: TableVersion | None) -> tuple[RowShape, Any] | None:
        names, twice = (
            own_names(c.name for c in version.table.columns if not c.virtual) if version else ({}, frozenset())
        )
        if not twice.isdisjoint(kind.names):
            return None  # the decoder says why
        if version is not None and all(name in names for name in kind.keys):
            table, keys = version.table, tuple(names[name] for name in kind.keys)
        else:
            version, table, keys = None, _table(kind), kind.keys
            names = {name: name for name in kind.names}
        columns = tuple(c for c in table.columns if not c.virtual)
        places = {names[c.name]: n for n, c in enumerate(kind.cells) if c.name in names}
        if not all(carries(kind.cells[places[c.name]], c) for c in columns if c.name in places):
            return None
        source = [places.get(c.name, -1) for c in columns]
        shape = RowShape(
            table, columns, keys or table.handle_key, version.known_commit_ts if version else None,
            kind.schema_id if isinstance(kind.schema_id, int) else None, self._zone, kind.key_only,
            _order(columns, source),
        )  # fmt: skip
        shape = self._same.setdefault(shape, shape)
        return shape, None if source == list(range(len(kind.cells))) else np.array(source, np.int64)


def _order(columns: tuple[Column, ...], source: list[int]) -> tuple[str, ...]:
    """`RowShape.order` of columns of which the record has those at `source`."""
    there = [n for n in source if n >= 0]
    if there == sorted(there):
        return ()
    return tuple(name for _, name in sorted((n, c.name) for n, c in zip(source, columns, strict=True) if n >= 0))


def _table(kind: RecordPair) -> Table:
    keys = set(kind.keys)
    columns = (replace(c, handle_key=c.name in keys, primary_key=c.name in keys) for c in kind.record.columns)
    return Table(kind.record.id, tuple(columns))


# ---------------------------------------------------------------------------------------------- table versions
def versions_at(
    tables: TableSource | None, definitions: DefinitionsOfRecords, kind: RecordPair, commit_ts: Any, index: Any
) -> Iterator[tuple[Any, TableVersion | None]]:
    """The rows at `index`, by the version that their table has at their commit_ts; not those that have none to tell, or
    one that does not describe them: the decoder says so.
    """
    if tables is None:
        yield index, None
        return
    stamps = commit_ts[index]
    unknown = stamps == NO_COMMIT_TS
    if unknown.any():
        yield from _find_version(definitions, kind, None, index[unknown])
        index, stamps = index[~unknown], stamps[~unknown]
    if isinstance(tables, TableSpans):
        yield from _find_by_span(tables, definitions, kind, stamps, index)
    else:
        yield from _find_one_by_one(definitions, kind, stamps, index)


def _find_version(
    definitions: DefinitionsOfRecords, kind: RecordPair, commit_ts: int | None, index: Any
) -> Iterator[tuple[Any, TableVersion | None]]:
    try:
        version, mismatch = definitions.find(kind.record, commit_ts)
    except WireError:
        return  # the decoder says why
    if mismatch is None:
        yield index, version


def _find_by_span(
    tables: TableSpans, definitions: DefinitionsOfRecords, kind: RecordPair, stamps: Any, index: Any
) -> Iterator[tuple[Any, TableVersion | None]]:
    while len(index):
        commit_ts = int(stamps[0])
        after, until = tables.sanitised_span(kind.record.id, commit_ts)
        here = (stamps > after) & (stamps <= until)
        yield from _find_version(definitions, kind, commit_ts, index[here])
        index, stamps = index[~here], stamps[~here]


def _find_one_by_one(
    definitions: DefinitionsOfRecords, kind: RecordPair, stamps: Any, index: Any
) -> Iterator[tuple[Any, TableVersion | None]]:
    """Each commit_ts is asked for: the rows of one version together."""
    different, of = np.unique(stamps, return_inverse=True)
    by_version: dict[int, tuple[TableVersion | None, list[int]]] = {}
    for n, commit_ts in enumerate(different.tolist()):
        for _, version in _find_version(definitions, kind, commit_ts, index):
            by_version.setdefault(id(version), (version, []))[1].append(n)
    for version, stamped in by_version.values():
        yield index[np.isin(of, stamped)], version
