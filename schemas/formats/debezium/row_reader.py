"""Rows of the Debezium family: payload and Connect schema → row change, whatever the bytes were (JSON or Avro).

A payload is a dict as `schemas.codec.json_exact` gives it: numbers are `Number`, the text they were; only Avro's bytes
stay bytes. Which columns there are and how each is read says a `DebeziumDialect` (TiCDC's, or the MySQL connector's).
"""

from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

from ticdc_bridge.schemas.codec import json_exact
from ticdc_bridge.schemas.codec.bounded_cache import BoundedCache
from ticdc_bridge.schemas.codec.sql_text import text_or_bytes
from ticdc_bridge.schemas.formats.base import Context
from ticdc_bridge.schemas.formats.definitions import by_definition, join_definition
from ticdc_bridge.schemas.model.errors import WireError
from ticdc_bridge.schemas.model.event import MAX_TSO, Row, RowChange
from ticdc_bridge.schemas.model.reasons import reason_of
from ticdc_bridge.schemas.model.table import Column, DefinitionMismatch, Table, TableId, TableVersion, Value
from ticdc_bridge.schemas.model.types import BY_NAME

ANY_TYPE = "a number, text, a date or anything else"

Read = Callable[[Any], tuple[Value, str]]
"""Value of the payload → (plain value, flag or ""). ValueError when the value is not of the column's type."""


@dataclass(frozen=True, slots=True)
class DebeziumDialect:
    """How one writer's columns are read.

    column: Connect field → column. reader: column, its Connect field (None without schema) → reader.
    null_images: column, schema default → values that NULL may have been written as; default_images: the same from a
    definition. fits: whether a definition's column can be the field's. connector: it is Debezium's own: it says no
    commit_ts, so the newest version is tried; it sends generated columns' values, which the bridge leaves out; it
    loses NULL to no other default than the schema's; and keys are made by anybody, so they may say nothing of the
    columns. adjusted: a column's name → the other names that the writer may give it. unavailable: what stands in place
    of a value that the writer did not have: the column is left out of the row.
    """

    format: str
    column: Callable[[Mapping[str, Any]], Column]
    reader: Callable[[Column, Mapping[str, Any] | None], Read]
    null_images: Callable[[Column, Any], tuple[Any, ...]]
    default_images: Callable[[Column], tuple[Any, ...]]
    fits: Callable[[Column, Mapping[str, Any]], bool]
    connector: bool = False
    adjusted: Callable[[str], frozenset[str]] | None = None
    unavailable: tuple[str | bytes, ...] = ()


@dataclass(frozen=True, slots=True)
class _Shape:
    """A compiled row schema: the columns it declares, their fields, and which values mean NULL or the default alike."""

    columns: dict[str, Column]
    fields: dict[str, Mapping[str, Any]]
    defaults: dict[str, Any]


@dataclass(frozen=True, slots=True)
class _Layout:
    """A shape joined with a table version: the table of the events, and a reader per column (None: left out).

    key: the columns that the row is known by. readers and ambiguous are by the message's names; column_names: of those
    that are not the table's, the table's. unavailable: see DebeziumDialect.
    """

    table: Table
    version: int | None
    key: tuple[str, ...]
    readers: dict[str, Read | None]
    ambiguous: dict[str, tuple[Any, ...]]
    column_names: dict[str, str]
    mismatch: DefinitionMismatch | None
    unavailable: tuple[str | bytes, ...]


class _Joined(NamedTuple):
    """A table version that describes a message, or why there is none. column_names: of adjusted names, the table's."""

    version: TableVersion | None
    column_names: dict[str, str]
    mismatch: DefinitionMismatch | None


@dataclass(frozen=True, slots=True)
class MessageContent:
    """A message's parts. token: what stands for the schema in a cache; schema: the envelope's, None without one."""

    payload: dict[str, Any]
    source: dict[str, Any]
    token: Hashable
    schema: Mapping[str, Any] | None
    keys: tuple[str, ...]


class DebeziumRowReader:
    """Reads rows; layouts are compiled once per schema and table version."""

    def __init__(self, dialect: DebeziumDialect, context: Context) -> None:
        self._dialect = dialect
        self._tables, self._options = context.tables, context.options
        self._layouts: BoundedCache[tuple[Any, ...], _Layout] = BoundedCache(1024, 8 << 20, _weight)

    def read(self, change: MessageContent, commit_ts: int | None, extra: dict[str, Any]) -> RowChange:
        """ValueError for what is not a row change; WireError for a column that can't be read."""
        payload, source = change.payload, change.source
        op = payload["op"]
        if op not in ("c", "u", "d", "r"):
            raise ValueError(f"op {json_exact.dump(op)[:40]} is not c, u, d or r")
        if "db" not in source or "table" not in source:
            raise ValueError("its source has no db or no table, so nothing says of which table it is")
        id_ = TableId(json_exact.utf8(source["db"], "db"), json_exact.utf8(source["table"], "table"))
        if not all(id_):
            raise ValueError("its source has an empty db or table, so nothing says of which table it is")
        before, after = payload.get("before"), payload.get("after")
        image = after or before  # {} is null: a side that is not there
        if not image or not isinstance(after, dict | None) or not isinstance(before, dict | None):
            raise ValueError(f"op {op!r} without its row")
        layout = self._layout(id_, change, self._tables.at(id_, commit_ts) if self._tables else None, image)
        flags: list[str] = []
        try:
            images = [_read_row(layout, row_image, flags) if row_image else None for row_image in (before, after)]
        except ValueError as error:
            raise ValueError(by_definition(error, None if layout.version is None else layout.table.id)) from error
        if (images[0] is None and op == "d") or (images[1] is None and op != "d"):
            raise ValueError(f"op {op!r} without its row")
        if op != "u" and images[op == "d"] is not None:
            raise ValueError(f"op {op!r} with two rows: it has one alone, before or after it")
        event = RowChange(
            self._dialect.format, layout.table, op, commit_ts, images[0], images[1], layout.key, "UTC",
            None, layout.version, list(dict.fromkeys(flags)), extra,
        )  # fmt: skip
        event.note_mismatch(layout.mismatch)
        return event

    def _layout(
        self, id_: TableId, change: MessageContent, version: TableVersion | None, row: Mapping[str, Any]
    ) -> _Layout:
        names = tuple(row) if change.schema is None or self._dialect.connector else ()
        key = (id_, change.token, change.keys, version.commit_ts if version else None, names)
        if key not in self._layouts:
            shape = None if change.schema is None else _shape(self._dialect, change.schema)
            named = (*names, *change.keys)
            column_names = _column_names(self._dialect, version.table, named) if version is not None else {}
            version, mismatch = self._join(id_, version, shape, names, column_names, change.keys)
            joined = _Joined(version, column_names if version else {}, mismatch)
            self._layouts[key] = _compile(self._dialect, id_, shape, change.keys, joined, tuple(row))
        return self._layouts[key]

    def _join(
        self, id_: TableId, version: TableVersion | None, shape: _Shape | None, names: tuple[str, ...],
        column_names: Mapping[str, str], keys: tuple[str, ...],
    ) -> tuple[TableVersion | None, DefinitionMismatch | None]:  # fmt: skip
        """The version, where it can be the one that the message was written with. names: of the row, else the schema's
        count. column_names: of names that were adjusted, the table's. keys: the message's.
        """
        fields = {column_names.get(name, name): field for name, field in shape.fields.items()} if shape else {}
        columns = shape.columns if shape else {}
        sent = [columns.get(n) or Column(n, BY_NAME["text"], vague=ANY_TYPE) for n in names or columns]
        key = () if self._dialect.connector else keys
        sent = [replace(c, name=column_names.get(c.name, c.name), handle_key=c.name in key) for c in sent]

        def fits(defined: Column, column: Column) -> bool:
            return column.name not in fields or self._dialect.fits(defined, fields[column.name])

        def describe(column: Column) -> str:
            field = fields.get(column.name)
            return "a value without type" if field is None else str(field.get("name") or field["type"])

        return join_definition(id_, version, sent, fits, self._options, describe)


def _weight(key: tuple[Any, ...], layout: _Layout) -> int:
    """About the characters that a layout was made of: its key holds the schema's text."""
    return 64 * len(layout.table.columns) + (len(key[1]) if isinstance(key[1], str) else 0)


def _column_names(dialect: DebeziumDialect, table: Table, names: tuple[str, ...]) -> dict[str, str]:
    """Names of a message that its writer adjusted → the table's own, where one column alone can be meant."""
    strange = {name for name in names if name not in table.by_name}
    if not strange or dialect.adjusted is None:
        return {}
    meant: dict[str, list[str]] = {}
    for column in table.columns:
        if column.name not in names:
            for name in strange & dialect.adjusted(column.name):
                meant.setdefault(name, []).append(column.name)
    found = {name: columns[0] for name, columns in meant.items() if len(columns) == 1}
    return found if len(set(found.values())) == len(found) else {}


def _shape(dialect: DebeziumDialect, schema: Mapping[str, Any]) -> _Shape:
    """An envelope's schema → compiled schema of its row."""
    row = next((f for f in schema["fields"] if f["field"] in ("after", "before")), None)
    if row is None:
        raise ValueError("the schema has neither before nor after")
    shape = _Shape({}, {}, {})
    for field in row["fields"]:
        column = dialect.column(field)
        # TiCDC lists a virtual generated column twice and never sends its value.
        shape.columns[column.name] = replace(column, virtual=column.name in shape.columns)
        shape.fields[column.name] = field
        if "default" in field and column.nullable:
            shape.defaults[column.name] = field["default"]
    return shape


def _compile(
    dialect: DebeziumDialect, id_: TableId, shape: _Shape | None, keys: tuple[str, ...], joined: _Joined,
    names: tuple[str, ...],
) -> _Layout:  # fmt: skip
    version, column_names = joined.version, joined.column_names
    if version is not None:
        table = version.table
    else:
        columns = shape.columns.values() if shape else [Column(n, BY_NAME["text"], vague=ANY_TYPE) for n in names]
        table = Table.keyed(id_, columns, keys)
    for name in (text for c in table.columns for text in (c.name, *c.elements)):
        json_exact.utf8(name, "a name")
    keys = _key_columns(dialect, table, tuple(column_names.get(name, name) for name in keys))
    typed = version is not None or shape is not None
    fields = shape.fields if shape else {}
    sent = {name: wire for wire, name in column_names.items()}
    readers: dict[str, Read | None] = {}
    ambiguous = {}
    for column in table.columns:
        name = sent.get(column.name, column.name)
        if dialect.connector and column.virtual:
            readers[name] = None
            continue
        if version is None and dialect.format == "debezium-avro":  # its schemas call NOT NULL columns optional, too
            column = replace(column, nullable=False)
        readers[name] = dialect.reader(column, fields.get(name)) if typed else _read_untyped
        images: tuple[Any, ...] = ()
        if shape and name in shape.defaults:
            images = dialect.null_images(column, shape.defaults[name])
        # A converter puts the schema's default in NULL's place, and no other.
        from_version = version is not None and not (dialect.connector and shape)
        if from_version and column.nullable and column.has_default_value:
            images += dialect.default_images(column)
        if images:
            ambiguous[name] = images
    return _Layout(
        table, version.commit_ts if version else None, keys, readers, ambiguous, column_names, joined.mismatch,
        dialect.unavailable,
    )  # fmt: skip


def _key_columns(dialect: DebeziumDialect, table: Table, keys: tuple[str, ...]) -> tuple[str, ...]:
    """The columns that a row is known by: those of the message's key, if it names any of the table.

    A connector's key may be of another converter or transform: then the table's definition tells. Without one it is
    what is left of the key. ValueError for a key of TiCDC's with a column that the row lacks.
    """
    strange = [name for name in keys if name not in table.by_name]
    if strange and not dialect.connector:
        raise ValueError(f"the key has column {strange[0]!r}, the row does not")
    if keys and not strange:
        return keys
    return table.handle_key if dialect.connector else keys


def _read_untyped(value: Any) -> tuple[Value, str]:
    """Without schema and definition: the value's JSON text, flagged; nothing is guessed."""
    if isinstance(value, bool):
        return "true" if value else "false", "untyped"
    if isinstance(value, str):
        return text_or_bytes(str(value)), "untyped"
    raise ValueError("an object or a list is no column value")


def _read_row(layout: _Layout, image: Mapping[str, Any], flags: list[str]) -> Row:
    row: dict[str, Value] = {}
    for name, value in image.items():
        try:
            read = layout.readers[name]
        except KeyError:
            raise ValueError(f"column {name!r} is not in the schema") from None
        if read is None:
            flags.append(f"virtual_left_out:{name}")
            continue
        column_name = layout.column_names.get(name, name)
        if value is None:
            row[column_name] = None
            continue
        if value in layout.unavailable:
            flags.append(f"value_not_sent:{column_name}")
            continue
        try:
            row[column_name], flag = read(value)
        except WireError:
            raise
        except (ValueError, ArithmeticError) as error:
            raise ValueError(f"column {name!r}: {reason_of(error)}") from error
        if flag:
            flags.append(f"{flag}:{column_name}")
        if name in layout.ambiguous and value in layout.ambiguous[name]:
            flags.append(f"null_or_default:{column_name}")
    return row


def commit_ts_of_source(source: Mapping[str, Any]) -> int | None:
    """`commit_ts` of a source block; None where there is none. ValueError for one that is no TSO."""
    if source.get("commit_ts") is None:
        return None
    commit_ts = json_exact.integer(source["commit_ts"], "commit_ts")
    if not 0 <= commit_ts <= MAX_TSO:
        raise ValueError(f"commit_ts {commit_ts} is no TSO")
    return commit_ts or None  # 0 is what we write where it is not known
