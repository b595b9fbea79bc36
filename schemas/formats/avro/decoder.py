"""TiCDC Avro (protocol=avro), read and written (upstream ticdc `pkg/sink/codec/avro`).

Insert and update: key record and value record, each Confluent-framed; delete: the key alone. With
avro-include-before-value the value also holds the old row, and a delete has a value. With avro-enable-watermark DDL
(0x01), watermarks (0x02) and deletes (0x03) come unframed. Codecs are compiled once per schema id or table.
"""

import re
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from ticdc_bridge.schemas.codec import json_exact
from ticdc_bridge.schemas.codec.avro_schema import FieldError, read_fields
from ticdc_bridge.schemas.codec.bounded_cache import BoundedCache
from ticdc_bridge.schemas.codec.byte_signatures import with_body_name
from ticdc_bridge.schemas.formats.avro import schema as publish
from ticdc_bridge.schemas.formats.avro.schema import BEFORE
from ticdc_bridge.schemas.formats.avro.values import RecordReader, compile_record, field_error
from ticdc_bridge.schemas.formats.base import Context, FieldPosition
from ticdc_bridge.schemas.formats.definitions import in_letters, join_definition
from ticdc_bridge.schemas.formats.framing import names_schema, unframe_field
from ticdc_bridge.schemas.formats.other_fields import other_fields
from ticdc_bridge.schemas.model import values
from ticdc_bridge.schemas.model.errors import WireError
from ticdc_bridge.schemas.model.event import DdlEvent, Event, Message, RowChange, Watermark, is_likely_tso
from ticdc_bridge.schemas.model.names import avro_subject, in_letters_of, names_of_columns, sanitise_name, topic_subject
from ticdc_bridge.schemas.model.options import Options
from ticdc_bridge.schemas.model.ports import SchemaId, SchemaSource, TableSource, TableVersions
from ticdc_bridge.schemas.model.reasons import reason_of
from ticdc_bridge.schemas.model.table import UNDECIDED, Column, DefinitionMismatch, Table, TableId, TableVersion, Value
from ticdc_bridge.schemas.model.types import ELEMENTS, Kind

# ---- The definition of the table that an Avro record is of; both have other names (schemas.model.names.sanitise_name).

Joined = tuple[TableVersion | None, DefinitionMismatch | None]
"""The definition that describes a record, or why the one that there is does not; neither where there is none."""


_Versions = tuple[RecordReader, tuple[TableVersion, ...], TableVersion | None]
"""A record, the versions with its columns, and the one that it is of."""


class DefinitionsOfRecords:
    """Looks for definitions; a record and a version are compared once."""

    def __init__(self, tables: TableSource | None, options: Options) -> None:
        self._tables, self._options = tables, options
        self._entries: BoundedCache[tuple[Any, ...], tuple[RecordReader, TableVersion, Joined]] = BoundedCache(10_000)
        self._same: BoundedCache[tuple[Any, ...], _Versions] = BoundedCache(10_000)

    def find(self, record: RecordReader, commit_ts: int | None, keys: tuple[str, ...] = ()) -> Joined:
        """The definition in force at commit_ts. keys: the columns of the message's key. WireError DEFINITION_MISMATCH,
        and as the source of tables says.
        """
        if self._tables is None:
            return None, None
        version = self._tables.sanitised(record.id, tuple(c.name for c in record.columns), commit_ts)
        if version is None and commit_ts is None:
            version = self._by_types(record, keys)
        if version is not None:
            return self._join(record, keys, version)
        # The table's definition has other columns. Without a commit_ts which is meant is known of a single one only.
        other = None if commit_ts is None else self._tables.at(record.id, commit_ts)
        other = other or self._tables.sanitised(record.id, (), commit_ts)
        return None, None if other is None else self._join(record, keys, other)[1]

    def _by_types(self, record: RecordReader, keys: tuple[str, ...]) -> TableVersion | None:
        """Among versions with the record's columns, what those say whose types are the record's (`_agreed`); None where
        nothing says which of them the record is of.
        """
        if not isinstance(self._tables, TableVersions):
            return None
        versions = tuple(self._tables.with_columns(record.id, tuple(c.name for c in record.columns)))
        key = id(record), keys, *map(id, versions)
        entry = self._same.get(key)
        if entry is None:
            lenient = replace(self._options, definition_mismatch="warn")
            some = [v for v in versions if _compare(record, keys, v, lenient)[1] is None]
            entry = self._same[key] = record, versions, _agreed(record, some)
        return entry[2]

    def _join(self, record: RecordReader, keys: tuple[str, ...], version: TableVersion) -> Joined:
        key = id(record), keys, id(version)
        return self._entries.find(key, lambda: (record, version, _compare(record, keys, version, self._options)))[2]


def _agreed(record: RecordReader, versions: list[TableVersion]) -> TableVersion | None:
    """The newest of versions whose columns are the same.

    Where they differ in what no value depends on (a length, an index, TINYINT or INT): the record's columns with their
    names and ids, of which the rest is as little known as without definitions. None where they say more than one thing.
    The record may have the key's columns alone: then no others are compared.
    """
    if len({tuple((c, c.id) for c in v.table.columns) for v in versions}) == 1:
        return versions[-1]
    found = [{sanitise_name(c.name).lower(): c for c in v.table.columns} for v in versions]
    meant = [tuple(by_name[sent.name.lower()] for sent in record.columns) for by_name in found]
    if len({(v.table.created_ts, tuple(map(_meaning, c))) for v, c in zip(versions, meant, strict=True)}) != 1:
        return None
    newest = versions[-1].table
    columns = (
        replace(
            sent, name=column.name, id=column.id, scale=column.scale, virtual=column.virtual,
            handle_key=column.handle_key, primary_key=column.primary_key,
        )
        for sent, column in zip(record.columns, meant[-1], strict=True)
    )  # fmt: skip
    return TableVersion(UNDECIDED, Table(newest.id, tuple(columns), created_ts=newest.created_ts))


def _meaning(column: Column) -> tuple[object, ...]:
    """What decides which column a value of the record is, and what the value is."""
    is_sized = column.type.kind is Kind.BIT or column.type.name == "binary"
    return (
        column.name, column.id, column.type.kind, column.unsigned, column.length if is_sized else None, column.scale,
        column.elements, column.virtual, column.handle_key, column.primary_key,
    )  # fmt: skip


def _compare(record: RecordReader, keys: tuple[str, ...], version: TableVersion, options: Options) -> Joined:
    folded = {sanitise_name(c.name).lower(): c.name for c in version.table.columns}
    names = (in_letters_of(folded.get(c.name.lower(), c.name), c.name) for c in record.columns)
    version = in_letters(version, TableId(*map(in_letters_of, version.table.id, record.id)), names)
    table_names, twice = names_of_columns(c.name for c in version.table.columns)
    if any(c.name in twice for c in record.columns):
        return version, None  # the decoder says that it can't know which column is meant
    sent = (replace(c, name=table_names.get(c.name, c.name), handle_key=c.name in keys) for c in record.columns)
    return join_definition(version.table.id, version, sent, _fits, options)


def _fits(column: Column, sent: Column) -> bool:
    """True if the schema's type is what TiCDC makes of the definition's."""
    kind = column.type.kind
    if column.type.avro_name != sent.type.avro_name or (kind is Kind.INTEGER and column.unsigned != sent.unsigned):
        return False
    if kind is Kind.DECIMAL:
        return sent.scale in (None, column.scale)
    if kind is Kind.BIT:
        return sent.length == column.length
    return kind not in ELEMENTS or values.join_allowed(sent.elements) == values.join_allowed(column.elements)


# ---- Where each field of an Avro record stands in its bytes, for `explain`.


def trace_record(record: RecordReader, data: bytes, pos: int, message_field: str, image: str) -> list[FieldPosition]:
    """The fields of a record that begins at `pos`; those of the old row on side "before". WireError when it is cut."""
    positions = []
    for field in record.fields:
        start = pos
        try:
            row, pos = read_fields((replace(field, convert=None),), data, pos)
        except FieldError as error:
            raise field_error(error, message_field) from error
        value = row[field.name]
        raw = data[start:pos]
        if field.name == BEFORE and record.before is not None and raw != b"\x00":
            positions += trace_record(record.before, data, start + 1, message_field, "before")
        else:
            beside = "" if field.name in record.extension or field.name == BEFORE else image
            text = "" if beside else value.decode("utf-8", "replace") if isinstance(value, bytes) else str(value)
            positions.append(
                FieldPosition(message_field, start, raw, " | ".join(field.branches), beside, field.name, value=text)
            )
    return positions


DDL, WATERMARK, DELETE = 1, 2, 3  # first bytes with avro-enable-watermark
_SUM = "_tidb_row_level_checksum"
_KNOWN_FIELDS = frozenset(str(f["name"]) for f in publish.EXTENSION + publish.CHECKSUM)
_UINT32 = re.compile(r"(?:0|[1-9]\d{0,9})\Z", re.ASCII)


# ---------------------------------------------------------------------------------------------- decoder
class AvroDecoder:
    """Decodes with the writer schema of each record, looked up by id and compiled once."""

    def __init__(self, context: Context) -> None:
        self._context = context
        self._records: BoundedCache[tuple[SchemaId, str, str | None], RecordReader] = BoundedCache(100_000)
        self._tables: BoundedCache[tuple[Any, ...], tuple[RecordReader, Table]] = BoundedCache(100_000)
        self._newest = NewestRecords(context.schemas)
        self._definitions = DefinitionsOfRecords(context.tables, context.options)

    def decode(self, message: Message) -> list[Event]:
        """Key and value → one row, or a DDL or watermark event. WireError as the error table says."""
        value = message.value
        if message.key is None and value is None:
            details = (
                "key and value are null: TiCDC deletes rows of a table without primary key this way, "
                "and which row it was can't be known"
            )
            raise WireError("EMPTY_RECORD", details=details)
        if value and value[0] in (DDL, WATERMARK, DELETE) and not names_schema(message.headers, "value"):
            if message.key is None and value[0] != DELETE:
                return [_read_out_of_band(value)]
            if value[0] == DELETE and len(value) == 9:
                return [self._delete(message, int.from_bytes(value[1:], "big"))]
        return [self._delete(message, None) if value is None else self._upsert(message, value)]

    def trace(self, message: Message) -> list[FieldPosition]:
        """The fields of key and value; a Glue message's offsets are in its inflated body."""
        fields: list[FieldPosition] = []
        for field, data in (("key", message.key), ("value", message.value)):
            if data is not None and (names_schema(message.headers, field) or _is_framed(data)):
                schema_id, body, pos, where = unframe_field(data, field, message.headers)
                image = "key" if field == "key" else "after"
                record = self._record((schema_id, field, message.topic), where)
                traced = trace_record(record, body, pos, field, image)
                if any(t.name == "_tidb_op" and t.raw == b"\x02d" for t in traced):
                    traced = [replace(t, image="before") if t.image == "after" else t for t in traced]
                fields += traced
        return fields

    def _record(self, asked: tuple[SchemaId, str, str | None], where: str) -> RecordReader:
        """asked: the schema's id, the part of the message, and the topic, which says whose id it is."""
        record = self._records.get(asked)
        if record is None:
            schema_id, field, topic = asked
            text = self._context.schemas.by_id(schema_id, where, topic_subject(topic, field))
            record = self._records[asked] = compile_record(text, where)
        return record

    def _read(self, message: Message, field: str, data: bytes) -> tuple[SchemaId, RecordReader, dict[str, Any]]:
        schema_id, data, pos, where = unframe_field(data, field, message.headers)
        record = self._record((schema_id, field, message.topic), where)
        row, pos = record.read(data, pos, where)
        if pos != len(data):
            raise WireError("TRAILING_BYTES", where=where, count=len(data) - pos)
        return schema_id, record, row

    def _key(self, message: Message, data: bytes) -> tuple[SchemaId, RecordReader, dict[str, Any]]:
        schema_id, key, row = self._read(message, "key", data)
        if key.of_value:
            beside = ", ".join(f.name for f in key.fields if f.name in key.extension or f.name == publish.BEFORE)
            details = f"schema id {schema_id} is that of a value: it has {beside}"
            raise WireError("MALFORMED", where="key", details=details)
        return schema_id, key, row

    def _upsert(self, message: Message, value: bytes) -> RowChange:
        schema_id, record, row = self._read(message, "value", value)
        key = None if message.key is None else self._key(message, message.key)[1]
        flags: list[str] = []
        extra = {k: row.pop(k) for k in record.extension}
        op, commit_ts = extra.pop("_tidb_op", None), extra.pop("_tidb_commit_ts", None)
        extra.pop("_tidb_commit_physical_time", None)
        others = other_fields(value=(extra, _KNOWN_FIELDS))
        extra = {**({"checksum": _checksum(extra)} if _SUM in extra else {}), **others}
        before = row.pop(publish.BEFORE, None) if record.before else None
        if op is None:
            op = "c"
            flags.append("op_unknown")
        elif op not in ("c", "u", "d"):
            raise WireError("MALFORMED", where="value", details=f"_tidb_op is {str(op)[:20]!r}, not c, u or d")
        if commit_ts is not None and commit_ts < 0:
            raise WireError("MALFORMED", where="value", details=f"_tidb_commit_ts {commit_ts} is no TSO")
        after = None if op == "d" else row
        before = row if op == "d" else before
        return self._event(record, key, (op, commit_ts, before, after), schema_id, flags, extra)

    def _delete(self, message: Message, commit_ts: int | None) -> RowChange:
        if message.key is None:
            raise WireError("EMPTY_RECORD", details="a delete without a key: which row it was can't be known")
        schema_id, key, row = self._key(message, message.key)
        # The key record lists only the key; the newest value schema of the topic tells the other columns' names.
        newest = self._newest.of(message.topic)
        record = newest or key
        if record.id != key.id or not {c.name for c in key.columns} <= {c.name for c in record.columns}:
            record = key
        event = self._event(record, key, ("d", commit_ts, row, None), schema_id, [], {})
        event.key_only = True
        event.untimed = newest is not None and "_tidb_commit_ts" not in newest.extension
        return event

    def _event(
        self, record: RecordReader, key: RecordReader | None,
        change: tuple[Any, int | None, dict[str, Value] | None, dict[str, Value] | None], schema_id: SchemaId,
        flags: list[str], extra: dict[str, Any],
    ) -> RowChange:  # fmt: skip
        op, commit_ts, before, after = change
        keys = tuple(c.name for c in key.columns) if key else ()
        if strange := [name for name in keys if all(name != c.name for c in record.columns)]:
            raise WireError("MALFORMED", where="key", details=f"it has column {strange[0]!r}, the row does not")
        version, mismatch = self._definitions.find(record, commit_ts, keys)
        names, twice = names_of_columns(c.name for c in version.table.columns if not c.virtual) if version else ({}, ())
        unclear = next((name for name in twice if any(name == c.name for c in record.columns)), None)
        if unclear is not None:
            details = f"two columns of {record.id} become {unclear!r} in Avro, and which one is meant can't be known"
            raise WireError("MALFORMED", where="record", details=details)
        if version is not None and all(name in names for name in keys):
            before, after = (
                {names[k]: v for k, v in row.items() if k in names} if row is not None else None
                for row in (before, after)
            )
            table, keys = version.table, tuple(names[name] for name in keys)
        else:
            version, table = None, self._table(record, keys)
        if record.keyspace != "default":
            extra["keyspace"] = record.keyspace
        event = RowChange(
            "avro", table, op, commit_ts, before, after, keys or table.handle_key, self._context.options.time_zone,
            schema_id if isinstance(schema_id, int) else None, version.known_commit_ts if version else None, flags,
            extra,
        )  # fmt: skip
        event.note_mismatch(mismatch)
        return event

    def _table(self, record: RecordReader, keys: tuple[str, ...]) -> Table:
        return self._tables.find((id(record), keys), lambda: (record, Table.keyed(record.id, record.columns, keys)))[1]


class NewestRecords:
    """The newest value schemas of topics, asked for once."""

    def __init__(self, schemas: SchemaSource, compiled: Callable[[str, str], RecordReader] = compile_record) -> None:
        """compiled: as `compile_record`, for one that keeps what it made."""
        self._schemas, self._compiled = schemas, compiled
        self._found: BoundedCache[str, RecordReader | None] = BoundedCache()

    def of(self, topic: str | None) -> RecordReader | None:
        """Compiled; None where there is none, or one that is not TiCDC's: a delete's key says enough."""
        if topic is None:
            return None
        if topic not in self._found:
            text = self._schemas.newest(avro_subject(topic, "value"))
            try:
                self._found[topic] = None if text is None else self._compiled(text, "newest value schema")
            except WireError:
                self._found[topic] = None
        return self._found[topic]


def _is_framed(data: bytes) -> bool:
    """False for a DDL, watermark or delete of avro-enable-watermark."""
    return data[:1] not in (b"\x01", b"\x02") and not (data[0] == DELETE and len(data) == 9)


def _checksum(extra: dict[str, Any]) -> dict[str, Any]:
    """The row checksum as RowChange.extra has it. TiCDC writes "" where the row came without one.

    Text that is no number is kept: it is the check that fails then (schemas.inspect.checksum), not the row.
    """
    text = extra[_SUM]
    if isinstance(text, bytes):
        raise WireError("MALFORMED", where="value", details=f"{_SUM} is not UTF-8")
    return {
        "version": extra.get("_tidb_checksum_version", 0),
        "corrupted": extra.get("_tidb_corrupted", False),
        "current": int(text) if text and _UINT32.match(text) else text or None,
        "previous": None,
    }


def _read_out_of_band(value: bytes) -> Event:
    """DDL and watermark messages of avro-enable-watermark (upstream `avro/encoder.go`)."""
    if value[0] == WATERMARK:
        if len(value) != 9:
            raise WireError("MALFORMED", where="value", details=f"a watermark has 9 bytes, this has {len(value)}")
        commit_ts = int.from_bytes(value[1:], "big")
        if not is_likely_tso(commit_ts):
            details = "0x02, but no watermark either: its time is not TiDB's"
            raise WireError("NOT_FRAMED", where="value", details=details)
        return Watermark("avro", commit_ts)
    try:
        ddl = json_exact.decode(json_exact.document(value[1:]))
        db, table, query = (json_exact.utf8(ddl[name], name) for name in ("schema", "table", "query"))
        commit_ts, kind = (json_exact.integer(ddl[name], name) for name in ("commitTs", "type"))
        return DdlEvent("avro", db, table, commit_ts, kind, query)
    except (ValueError, KeyError, TypeError) as error:
        details = with_body_name(f"not a DDL event: {reason_of(error)}", value, json_read=False)
        raise WireError("MALFORMED", where="value", details=details) from error
