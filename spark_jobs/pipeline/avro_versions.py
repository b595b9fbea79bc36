"""The registered Avro schemas of one table, compiled."""

from dataclasses import dataclass, replace
from functools import lru_cache

from ticdc_bridge.clients.registry import Schemas
from ticdc_bridge.schemas.formats.avro.values import RecordReader, compile_record
from ticdc_bridge.schemas.inputs.schema_files import RegisteredSchema, name_of
from ticdc_bridge.schemas.inputs.subject_names import without_context
from ticdc_bridge.schemas.model.errors import WireError
from ticdc_bridge.schemas.model.ports import SchemaId
from ticdc_bridge.schemas.model.table import Table, TableId, with_ids_of
from ticdc_bridge.spark_jobs.pipeline.table_view import Missing, with_default_of


@dataclass(frozen=True, slots=True)
class WriterSchema:
    """A registered version of a table's key or value schema, compiled."""

    entry: RegisteredSchema
    record: RecordReader


@dataclass(frozen=True, slots=True)
class RegisteredVersions:
    """What a registry has of one table.

    keys, values: compiled, the newest last, of the default context if that has any; unreadable: versions that are none
    that TiCDC registers, and why; others: the schemas of other records; unclear: ids that contexts use for different
    schemas, so that the message's topic has to say which is meant.
    """

    keys: tuple[WriterSchema, ...]
    values: tuple[WriterSchema, ...]
    unreadable: tuple[tuple[RegisteredSchema, WireError], ...]
    others: tuple[RegisteredSchema, ...]
    unclear: frozenset[SchemaId] = frozenset()


_IDS = range(1 << 31)
_compiled = lru_cache(256)(compile_record)
"""Each plan of a table asks for all its versions."""


def registered_versions(schemas: Schemas, id_: TableId, complete: bool = False) -> RegisteredVersions:
    """complete: with the schemas of other tables, for which all of the registry is listed."""
    name = id_.sanitised.folded  # what TiCDC calls a table's records, in lower case
    entries = list(schemas.all() if complete else schemas.all(name))
    writers, unreadable, others = [], [], []
    for entry in entries:
        if isinstance(entry.id, int) and entry.id not in _IDS:
            continue  # no message says it
        record_name = name_of(entry.schema)
        if record_name is not None and record_name != name:
            others.append(entry)
            continue
        try:
            record = _compiled(entry.schema, f"schema id {entry.id}")
        except WireError as error:
            if record_name is not None:
                unreadable.append((entry, error))
            continue  # what is no record: the codec says so of each message
        if record.columns:  # no table is without: it says nothing of this one's
            writers.append(WriterSchema(entry, record))
    texts: dict[SchemaId, str] = {}
    unclear = frozenset(e.id for e in entries if texts.setdefault(e.id, e.schema) != e.schema)
    writers = [w for w in writers if w.entry.subject == without_context(w.entry.subject)] or writers
    by_version = sorted((w.entry for w in writers), key=lambda entry: entry.version)
    # Ids grow with time, UUIDs do not: of an archive's files the versions do.
    newest = {e.subject: (0, e.id) if isinstance(e.id, int) else (1, e.version) for e in by_version}
    writers.sort(key=lambda w: (newest[w.entry.subject], w.entry.subject, w.entry.version))
    keys = tuple(w for w in writers if w.entry.subject.endswith("-key"))
    values = tuple(w for w in writers if not w.entry.subject.endswith("-key"))
    return RegisteredVersions(keys, values, tuple(unreadable), tuple(others), unclear)


def newest_of(values: tuple[WriterSchema, ...], missing: Missing = "null") -> Table:
    """The table with the columns of its newest registered version (the last), which knows those before it. missing: as
    `newest_table` has it.
    """
    newest = values[-1]
    history = list[Table]()
    for writer in values:
        if writer.entry.subject == newest.entry.subject:
            table = Table(newest.record.id, writer.record.columns)
            numbered = tuple(replace(c, id=n) for n, c in enumerate(table.columns, 1))
            history.append(with_ids_of(history[-1], table) if history else replace(table, columns=numbered))
    columns = newest.record.columns
    if missing == "default":
        first = {c.id: c for table in reversed(history) for c in table.columns}
        columns = tuple(with_default_of(first[history[-1].by_name[c.name].id], c) for c in columns)
    return replace(Table(newest.record.id, columns), registered=tuple(history))
