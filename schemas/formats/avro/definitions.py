"""The definition of the table that an Avro record is of; both have other names (schemas.model.names.sanitise_name)."""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

from ticdc_bridge.schemas.codec.bounded_cache import BoundedCache
from ticdc_bridge.schemas.formats.avro.record import RecordReader
from ticdc_bridge.schemas.formats.definitions import in_letters, join_definition
from ticdc_bridge.schemas.model import values
from ticdc_bridge.schemas.model.names import in_letters_of, own_names, sanitise_name
from ticdc_bridge.schemas.model.options import Options
from ticdc_bridge.schemas.model.ports import TableSource, TableVersions
from ticdc_bridge.schemas.model.table import UNDECIDED, Column, DefinitionMismatch, Table, TableId, TableVersion
from ticdc_bridge.schemas.model.types import Kind

Joined = tuple[TableVersion | None, DefinitionMismatch | None]
"""The definition that describes a record, or why the one that there is does not; neither where there is none."""


class _Entry(NamedTuple):
    record: RecordReader
    version: TableVersion
    joined: Joined


_Versions = tuple[RecordReader, tuple[TableVersion, ...], TableVersion | None]
"""A record, the versions with its columns, and the one that it is of."""


class DefinitionsOfRecords:
    """Looks for definitions; a record and a version are compared once."""

    def __init__(self, tables: TableSource | None, options: Options) -> None:
        self._tables, self._options = tables, options
        self._entries: BoundedCache[tuple[int, int], _Entry] = BoundedCache(10_000)
        self._same: BoundedCache[tuple[int, ...], _Versions] = BoundedCache(10_000)

    def find(self, record: RecordReader, commit_ts: int | None) -> Joined:
        """The definition in force at commit_ts. WireError DEFINITION_MISMATCH, and as the source of tables says."""
        if self._tables is None:
            return None, None
        version = self._tables.sanitised(record.id, tuple(c.name for c in record.columns), commit_ts)
        if version is None and commit_ts is None:
            version = self._by_types(record)
        if version is not None:
            return self._join(record, version)
        other = self._other_version(record.id, commit_ts)
        return None, None if other is None else self._join(record, other)[1]

    def _by_types(self, record: RecordReader) -> TableVersion | None:
        """Of versions with the record's columns, what those say whose types are the record's (`_agreed`); None where
        nothing says which of them the record is of.
        """
        if not isinstance(self._tables, TableVersions):
            return None
        versions = tuple(self._tables.with_columns(record.id, tuple(c.name for c in record.columns)))
        key = id(record), *map(id, versions)
        entry = self._same.get(key)
        if entry is None:
            lenient = replace(self._options, definition_mismatch="warn")
            some = [v for v in versions if _compare(record, v, lenient)[1] is None]
            entry = self._same[key] = record, versions, _agreed(record, some)
        return entry[2]

    def _other_version(self, id_: TableId, commit_ts: int | None) -> TableVersion | None:
        """The table's definition, which has other columns; None where it can't be known which one is meant: without a
        commit_ts, unless there is one alone.
        """
        assert self._tables is not None
        other = None if commit_ts is None else self._tables.at(id_, commit_ts)
        return other or self._tables.sanitised(id_, (), commit_ts)

    def _join(self, record: RecordReader, version: TableVersion) -> Joined:
        key = id(record), id(version)
        entry = self._entries.get(key)
        if entry is None or entry.record is not record or entry.version is not version:
            entry = self._entries[key] = _Entry(record, version, _compare(record, version, self._options))
        return entry.joined


def _agreed(record: RecordReader, versions: list[TableVersion]) -> TableVersion | None:
    """The newest of versions whose columns are the same.

    Where they differ in what no value depends on (a length, an index, TINYINT or INT): the record's columns with their
    names and ids, of which the rest is as little known as without definitions. None where they say more than one thing.
    """
    if len({tuple((c, c.id) for c in v.table.columns) for v in versions}) == 1:
        return versions[-1]
    if len({(v.table.created_ts, tuple(map(_meaning, v.table.columns))) for v in versions}) != 1:
        return None
    newest = versions[-1].table
    columns = (
        replace(
            sent, name=own.name, id=own.id, scale=own.scale, virtual=own.virtual,
            handle_key=own.handle_key, primary_key=own.primary_key,
        )
        for sent, own in zip(record.columns, newest.columns, strict=True)
    )  # fmt: skip
    return TableVersion(UNDECIDED, Table(newest.id, tuple(columns), created_ts=newest.created_ts))


def _meaning(column: Column) -> tuple[object, ...]:
    """What decides which column a value of the record is, and what the value is."""
    is_sized = column.type.kind is Kind.BIT or column.type.name == "binary"
    return (
        column.name, column.id, column.type.kind, column.unsigned, column.length if is_sized else None, column.scale,
        column.elements, column.virtual, column.handle_key, column.primary_key,
    )  # fmt: skip


def _compare(record: RecordReader, version: TableVersion, options: Options) -> Joined:
    folded = {sanitise_name(c.name).lower(): c.name for c in version.table.columns}
    names = (in_letters_of(folded.get(c.name.lower(), c.name), c.name) for c in record.columns)
    version = in_letters(version, record.id, names)
    own, twice = own_names(c.name for c in version.table.columns)
    if any(c.name in twice for c in record.columns):
        return version, None  # the decoder says that it can't know which column is meant
    sent = (replace(c, name=own.get(c.name, c.name)) for c in record.columns)
    return join_definition(version.table.id, version, sent, _fits, options)


def _fits(own: Column, sent: Column) -> bool:
    """Whether the schema's type is what TiCDC makes of the definition's."""
    kind = own.type.kind
    if own.type.avro_name != sent.type.avro_name or (kind is Kind.INTEGER and own.unsigned != sent.unsigned):
        return False
    if kind is Kind.DECIMAL:
        return sent.scale in (None, own.scale)
    if kind is Kind.BIT:
        return sent.length == own.length
    return kind not in (Kind.ENUM, Kind.SET) or values.join_allowed(sent.elements) == values.join_allowed(own.elements)
