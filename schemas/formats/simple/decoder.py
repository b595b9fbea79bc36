"""TiCDC Simple (protocol=simple), read in both encodings, JSON and Avro (upstream ticdc `pkg/sink/codec/simple`).

Rows name their table's schema by version; the schema itself comes before them, in a BOOTSTRAP or DDL message of the
same stream. Where there is a definition of the table (--ddl), it is taken instead. A row with neither has its values
as they are, flagged `untyped`. A message may be a Snappy block or an LZ4 frame as a whole.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from ticdc_bridge.schemas.codec import claim_check, json_exact, sql_text
from ticdc_bridge.schemas.codec.bounded_cache import BoundedCache
from ticdc_bridge.schemas.codec.json_exact import Number, integer, name_other_form, string, utf8
from ticdc_bridge.schemas.formats.base import Context
from ticdc_bridge.schemas.formats.definitions import join_definition, same_type
from ticdc_bridge.schemas.formats.framing import check_size, inflated, json_object, malformed_error
from ticdc_bridge.schemas.formats.other_fields import other_fields
from ticdc_bridge.schemas.formats.simple import avro
from ticdc_bridge.schemas.model import values
from ticdc_bridge.schemas.model.errors import WireError
from ticdc_bridge.schemas.model.event import Bootstrap, DdlEvent, Event, Message, RowChange, Watermark
from ticdc_bridge.schemas.model.reasons import reason_of
from ticdc_bridge.schemas.model.table import Column, DefinitionMismatch, Index, Table, TableId, TableVersion, Value
from ticdc_bridge.schemas.model.type_text import type_text
from ticdc_bridge.schemas.model.types import BY_NAME, BYTES, MAX_COLUMNS, Kind

# ---- Simple's tableSchema → table (upstream ticdc `pkg/sink/codec/simple/message.go`, TableSchema).

_SIZED = (Kind.DECIMAL, Kind.BIT, Kind.VECTOR)
_PLAIN_FLOAT = 12  # the length of FLOAT without (M,D)
_LENGTHS = {Kind.DATETIME: 19, Kind.TIMESTAMP: 19, Kind.TIME: 10}  # lengths without fraction digits


def table_of(schema: Any, avro: bool) -> tuple[Table, int] | None:
    """A message's tableSchema → (table, schema version); None for a view, which has no columns of its own.

    avro: it comes from the Avro encoding, where a BIT default is its bytes; in JSON it is a number.

    TiCDC makes up a last index "primary" where the table has no index PRIMARY: for a clustered integer key, and for a
    table without primary key, of its first NOT NULL unique key. The latter is seen by that key having the same columns.

    KeyError, TypeError or ValueError where TiCDC would not write it.
    """
    columns = [_column(c, avro) for c in schema["columns"]]
    id_ = TableId(utf8(schema["schema"], "schema"), utf8(schema["table"], "table"))
    version = parse_integer(schema["version"], "version")
    indexes = [_index(i) for i in schema["indexes"]]
    plain = [i.columns for i, name, _ in indexes if i.unique and not name]
    indexes = [i for i in indexes if i[1] in ("", "PRIMARY") or i[0].columns not in plain]
    typed_columns = [c for c in columns if c is not None]
    if len(typed_columns) < len(columns):
        return None
    if len({c.name for c in typed_columns}) < len(typed_columns):
        raise ValueError("two columns have one name")
    return Table(id_, _with_keys(typed_columns, indexes), tuple(index for index, *_ in indexes)), version


def parse_integer(value: Any, what: str) -> int:
    """An integer, as JSON or Avro has it. ValueError."""
    return value if type(value) is int else integer(value, what)


def boolean(value: Any, what: str) -> bool:
    """true, false, or left out. ValueError."""
    if value is None or type(value) is bool:
        return bool(value)
    raise ValueError(f"{what} is no boolean")


def _column(listed: Any, avro: bool) -> Column | None:
    data_type = listed["dataType"]
    name = utf8(data_type["mysqlType"], "mysqlType")
    if name == "unspecified":
        return None
    if name not in BY_NAME:
        raise ValueError(f"type {name[:40]!r} is not known")
    type_ = BY_NAME[name]
    length, decimal = (
        None if data_type.get(k) is None else parse_integer(data_type[k], k) for k in ("length", "decimal")
    )
    column = Column(
        utf8(listed["name"], "name"),
        type_,
        unsigned=boolean(data_type.get("unsigned"), "unsigned") and type_.kind not in (Kind.BIT, Kind.YEAR),
        length=length if type_.kind in _SIZED else None,
        scale=_scale(type_.kind, length, decimal),
        elements=tuple(utf8(e, "element") for e in data_type.get("elements") or ()),
        nullable=boolean(listed["nullable"], "nullable"),
        charset=utf8(data_type["charset"], "charset"),
        collate=utf8(data_type["collate"], "collate"),
    )
    if column.type.kind is Kind.BIT and not 1 <= (column.length or 0) <= 64:
        raise ValueError(f"BIT({column.length})")
    if column.type.kind is Kind.DECIMAL and not 0 <= (column.scale or 0) <= (column.length or 0) <= 65:
        raise ValueError(f"DECIMAL({column.length},{column.scale})")
    if column.type.kind in _LENGTHS and not 0 <= (column.scale or 0) <= 6:
        raise ValueError(f"{column.scale} fraction digits")
    default = listed.get("default")
    if default is None:
        return column
    default_text = str(default) if isinstance(default, Number) else string(default, "default")
    clock = type_.kind in (Kind.DATETIME, Kind.TIMESTAMP) and default_text.upper().startswith("CURRENT_TIMESTAMP")
    return replace(column, has_default=True, default=_default(column, default_text, avro), default_is_expr=clock)


def _scale(kind: Kind, length: int | None, decimal: int | None) -> int | None:
    """DECIMAL's scale, or fraction digits; Avro leaves DATETIME's and TIME's out, their length tells them."""
    if kind is Kind.DECIMAL:
        return decimal or 0
    if kind in _LENGTHS:
        beyond = (length or _LENGTHS[kind]) - _LENGTHS[kind]
        return decimal if decimal is not None else max(beyond - 1, 0)
    # FLOAT(M,D) is a double to Debezium; D itself is not sent.
    return 0 if kind is Kind.FLOAT and length not in (None, _PLAIN_FLOAT) else None


def _default(column: Column, default_text: str, avro: bool) -> Value:
    if column.type.kind is Kind.BIT and not avro:
        return values.integer(default_text).to_bytes(values.bit_size(column.length or 64), "big")
    return default_text.encode("utf-8", "surrogateescape") if column.type.kind in BYTES else default_text


def _index(listed: Any) -> tuple[Index, str, bool]:
    """(index, its name where it is said to be primary, whether one of its columns can be NULL)."""
    columns = tuple(utf8(c, "column") for c in listed["columns"])
    primary, unique = boolean(listed["primary"], "primary"), boolean(listed["unique"], "unique")
    name = utf8(listed["name"], "name")
    return (
        Index("PRIMARY" if primary else name, columns, unique or primary),
        name if primary else "",
        boolean(listed["nullable"], "nullable"),
    )


def _with_keys(columns: list[Column], indexes: list[tuple[Index, str, bool]]) -> tuple[Column, ...]:
    """The columns with their keys. Handle key: the primary key, else the NOT NULL unique key of fewest columns."""
    names = {c.name for c in columns}
    primary = next((i.columns for i, name, _ in indexes if name), ())
    unique = [i.columns for i, _, null in indexes if i.unique and not null and set(i.columns) <= names]
    handle = primary or min(unique, key=len, default=())
    alone = {i.columns[0] for i, *_ in indexes if i.unique and len(i.columns) == 1 and i.name != "PRIMARY"}
    shared = {c for i, *_ in indexes if len(i.columns) > 1 or not i.unique for c in i.columns}
    return tuple(
        replace(
            c, primary_key=c.name in primary, handle_key=c.name in handle, unique_key=c.name in alone,
            multiple_key=c.name in shared,
        )
        for c in columns
    )  # fmt: skip


_OPS = {"INSERT": "c", "UPDATE": "u", "DELETE": "d"}
_CLAIM = ("claimCheckLocation", "database", "table", "commitTs")
_DDL = ("CREATE", "RENAME", "CINDEX", "DINDEX", "ERASE", "TRUNCATE", "ALTER", "QUERY")
_ANY_TYPE = "a number, text, a date or anything else"
_AVRO = bytes([avro.FIRST_BYTE])
_OTHER_THAN = "neither JSON nor Simple's Avro"
_MOST_KEPT = 1_000_000  # columns of all tables together


@dataclass(frozen=True, slots=True)
class _KnownTable:
    """A table as a schema version has it; table_version is its commit_ts where a DDL message told it.

    mismatch: why a definition that was given is not used.
    """

    table: Table
    table_version: int | None = None
    mismatch: DefinitionMismatch | None = None


_Joined = tuple[TableVersion | None, _KnownTable | None, TableVersion | None, DefinitionMismatch | None]
"""A definition, the table as the stream has it, and what `join_definition` makes of both."""


class SimpleDecoder:
    """Decodes with the table schemas that came before in the stream. One decoder reads one stream."""

    def __init__(self, context: Context) -> None:
        self._context = context
        self._versions: BoundedCache[tuple[TableId, int], _KnownTable] = BoundedCache(
            10_000, _MOST_KEPT, lambda _, entry: len(entry.table.columns)
        )
        self._tables: BoundedCache[tuple[Any, ...], Table] = BoundedCache(
            10_000, _MOST_KEPT, lambda _, t: len(t.columns)
        )
        self._joined: BoundedCache[tuple[Any, ...], _Joined] = BoundedCache(
            10_000, _MOST_KEPT, lambda key, _: len(key[-1])
        )

    def decode(self, message: Message) -> list[Event]:
        """One message → one event. WireError as the error table says."""
        if message.value is None:
            raise WireError("EMPTY_RECORD", details="the value is null: Simple sends no such message")
        body, replaced, avro = parse(message.value)
        try:
            if body.get("claimCheckLocation"):
                uri, claim = utf8(body["claimCheckLocation"], "claimCheckLocation"), [body.get(n) for n in _CLAIM]
                body, replaced, _ = claim_check.fetch_value(self._context.claims, uri, parse)
                claim_check.check_row(uri, claim, [body.get(n) for n in _CLAIM])
            if parse_integer(body["version"], "version") != 1:
                raise ValueError(f"version {body['version']} is not known")
            return [self._event(body, replaced, avro)]
        except (KeyError, TypeError, AttributeError, ValueError, ArithmeticError) as error:
            reason = name_other_form(body, "simple") or reason_of(error)
            raise malformed_error("value", f"not a Simple message: {reason}") from error

    def _event(self, body: dict[str, Any], replaced: bool, avro: bool) -> Event:
        kind = body["type"]
        if kind in _OPS:
            return self._row(body, replaced)
        if kind == "WATERMARK":
            return Watermark("simple", parse_integer(body["commitTs"], "commitTs"))
        if kind == "BOOTSTRAP":
            entry = self._learn(body["tableSchema"], None, avro)
            if entry is None:
                raise ValueError("a bootstrap of something that is no table")
            table, version = entry
            ddl_version = self._versions[table.id, version].table_version
            return Bootstrap("simple", *table.id, ddl_version, None, "", schema=table, schema_version=version)
        if kind not in _DDL:
            raise ValueError(f"type {json_exact.dump(kind)[:40]} is not known")
        commit_ts, query = parse_integer(body["commitTs"], "commitTs"), utf8(body["sql"], "sql")
        before, after = body.get("preTableSchema"), body.get("tableSchema")
        if before is not None:
            self._learn(before, None, avro)
        schema = after or before
        definition = None if after is None else self._learn(after, commit_ts, avro)
        db, name = (utf8(schema[k], k) for k in ("schema", "table")) if schema else ("", "")
        return DdlEvent("simple", db, name, commit_ts, None, query, {"type": kind}, definition and definition[0])

    def _learn(self, schema: Any, commit_ts: int | None, avro: bool) -> tuple[Table, int] | None:
        if len(schema["columns"]) > MAX_COLUMNS:
            raise ValueError(f"{len(schema['columns'])} columns")
        definition = table_of(schema, avro)
        if definition is not None:
            table, version = definition
            entry = self._versions.get((table.id, version))
            if entry is not None and entry.table != table:
                raise ValueError(f"schema version {version} of {table.id} was told with other columns before")
            if entry is None or entry.table_version is None:  # a bootstrap repeats a DDL message, without its commit_ts
                self._versions[table.id, version] = _KnownTable(table, commit_ts)
        return definition

    # ---- rows
    def _row(self, body: dict[str, Any], replaced: bool) -> RowChange:
        op = _OPS[body["type"]]
        id_ = TableId(utf8(body["database"], "database"), utf8(body["table"], "table"))
        commit_ts, version = (parse_integer(body[name], name) for name in ("commitTs", "schemaVersion"))
        data, old = body.get("data"), body.get("old")
        if not isinstance(data, dict | None) or not isinstance(old, dict | None):
            raise ValueError("a row is no object")
        if (data is None) != (op == "d") or (old is None) != (op == "c") or not (old if op == "d" else data):
            raise ValueError(f"{body['type']} with the wrong rows: INSERT has data, UPDATE data and old, DELETE old")
        key_only = boolean(body.get("handleKeyOnly"), "handleKeyOnly")
        names = {**(old or {}), **(data or {})}
        definition = self._find_table(id_, version, commit_ts, names, key_only)
        reading = _RowReader(definition.table, replaced)
        before, after = (None if row is None else reading.row(row) for row in (old, data))
        if key_only and op != "d":
            reading.flags["handle_key_only"] = None
        event = RowChange(
            "simple", definition.table, op, commit_ts, before, after,  # type: ignore[arg-type]
            tuple(names) if key_only and not definition.table.handle_key else definition.table.handle_key,
            reading.zone or self._context.options.time_zone, None, definition.table_version, list(reading.flags),
            _extra(body, version), key_only,
        )  # fmt: skip
        event.note_mismatch(definition.mismatch)
        return event

    def _find_table(
        self, id_: TableId, version: int, commit_ts: int, names: Mapping[str, Any], key_only: bool
    ) -> _KnownTable:
        entry = self._versions.get((id_, version))
        mismatch = None
        if self._context.tables is not None:
            defined, mismatch = self._join(id_, self._context.tables.at(id_, commit_ts), entry, tuple(names))
            if defined is not None:
                return _KnownTable(defined.table, defined.commit_ts)
        if entry is None:
            columns = (Column(utf8(n, "column"), BY_NAME["text"], vague=_ANY_TYPE) for n in names)
            return _KnownTable(Table(id_, tuple(columns)), mismatch=mismatch)
        if (strange := next((n for n in names if n not in entry.table.by_name), None)) is not None:
            raise ValueError(f"column {strange[:80]!r} is not in schema version {version}")
        if key_only or len(names) == len(entry.table.columns):
            return replace(entry, mismatch=mismatch) if mismatch else entry
        # A virtual column is in the schema and never in a row.
        left_out = tuple(c.name for c in entry.table.columns if c.name not in names)
        table = self._tables.get((id_, version, left_out))
        if table is None:
            columns = (replace(c, virtual=c.name in left_out) for c in entry.table.columns)
            table = self._tables[id_, version, left_out] = replace(entry.table, columns=tuple(columns))
        return _KnownTable(table, entry.table_version, mismatch)

    def _join(
        self, id_: TableId, defined: TableVersion | None, known: _KnownTable | None, names: tuple[str, ...]
    ) -> tuple[TableVersion | None, DefinitionMismatch | None]:
        """The definition that was given, where it describes the row. known: the table as the stream has it."""
        key = (id_, id(defined), id(known), names)
        entry = self._joined.get(key)
        if entry is None:
            by_name = known.table.by_name if known else {}
            sent = [by_name.get(n) or Column(utf8(n, "column"), BY_NAME["text"], vague=_ANY_TYPE) for n in names]
            joined = join_definition(
                id_, defined, sent, lambda column, sent: bool(sent.vague) or same_type(column, sent),
                self._context.options, lambda sent: "a value without type" if sent.vague else type_text(sent),
            )  # fmt: skip
            entry = self._joined[key] = defined, known, *joined
        return entry[2:]


def parse(data: bytes) -> tuple[dict[str, Any], bool, bool]:
    """Message → (its object and whether bytes were replaced, as `json_object`; whether it is Avro). WireError."""
    # As the length of a Snappy block Avro's first byte would say 22: no message of Simple is so short.
    if data[:1] == _AVRO:
        check_size(data, "value")
    else:
        data = inflated(data, _OTHER_THAN)
    return (avro.read(data), False, True) if data[:1] == _AVRO else (*json_object(data, _OTHER_THAN), False)


_FIELDS = frozenset(
    ("version", "type", "database", "table", "tableID", "commitTs", "buildTs", "schemaVersion", "claimCheckLocation",
     "handleKeyOnly", "checksum", "data", "old", "sql", "tableSchema", "preTableSchema")
)  # fmt: skip


def _extra(body: Mapping[str, Any], version: int) -> dict[str, Any]:
    extra: dict[str, Any] = {"schema_version": version, "table_id": parse_integer(body["tableID"], "tableID")}
    extra |= other_fields(message=(body, _FIELDS))
    if (checksum := body.get("checksum")) is not None:
        extra["checksum"] = {
            "version": parse_integer(checksum["version"], "checksum version"),
            "corrupted": boolean(checksum["corrupted"], "corrupted"),
            "current": parse_integer(checksum["current"], "checksum"),
            "previous": parse_integer(checksum["previous"], "checksum"),
        }
    return extra


class _RowReader:
    """The rows of one message: their zone (the message says it with each TIMESTAMP) and flags are found on the way."""

    def __init__(self, table: Table, replaced: bool) -> None:
        self._table, self._replaced = table, replaced
        self.zone: str | None = None
        self.flags: dict[str, None] = {}

    def row(self, cells: Mapping[str, Any]) -> dict[str, Value]:
        """Cells → values in table order."""
        return {c.name: self._value(c, cells[c.name]) for c in self._table.columns if c.name in cells}

    def _value(self, column: Column, cell: Any) -> Value:
        if cell is None:
            return None
        try:
            value, flag = self._read(column, cell)
        except ValueError as error:
            raise ValueError(f"column {column.name!r}: {error}") from error
        if flag:
            self.flags[f"{flag}:{column.name}"] = None
        if self._replaced and isinstance(value, str) and "\ufffd" in value:
            self.flags[f"invalid_utf8:{column.name}"] = None
        return value

    def _read(self, column: Column, cell: Any) -> tuple[Value, str]:
        untyped = "untyped" if column.vague else ""
        if isinstance(cell, Mapping):
            if column.type.kind is not Kind.TIMESTAMP and not untyped:
                raise ValueError(f"a TIMESTAMP, where {column.type.name} is needed")
            return self._timestamp(cell), untyped
        if isinstance(cell, bytes):
            if column.type.kind is not Kind.BINARY and not untyped:
                raise ValueError(f"bytes, where {column.type.name} is needed")
            return cell, untyped
        cell_text = json_exact.string(cell, "the value")
        if untyped:
            return sql_text.text_or_bytes(cell_text), untyped
        if column.type.kind is Kind.TIMESTAMP:
            raise ValueError("a TIMESTAMP without its time zone")
        if column.type.kind is Kind.BINARY:
            return values.base64_bytes(cell_text), ""
        return sql_text.read(column, cell_text)

    def _timestamp(self, cell: Mapping[str, Any]) -> str:
        location, value = (utf8(cell[name], name) for name in ("location", "value"))
        if location != "Local":  # Go's name of a zone that it does not know by name
            values.zone(location)
            if self.zone not in (None, location):
                raise ValueError("TIMESTAMPs of two time zones in one row")
            self.zone = location
        return value
