"""The plain form read again: a line of `decode` → the change event it was made of (docs/reference.md)."""

import base64
import json
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, NamedTuple

from ticdc_bridge.schemas.codec.bounded_cache import BoundedCache
from ticdc_bridge.schemas.codec.json_exact import has_surrogates
from ticdc_bridge.schemas.formats.avro.values import RecordReader, compile_record
from ticdc_bridge.schemas.formats.base import Context, Format, refuse_encoder
from ticdc_bridge.schemas.formats.definitions import in_letters
from ticdc_bridge.schemas.formats.format_table import FORMATS
from ticdc_bridge.schemas.formats.other_fields import EXTRA as OTHER_FIELDS
from ticdc_bridge.schemas.model.errors import Hint, WireError
from ticdc_bridge.schemas.model.event import MAX_TSO, Bootstrap, DdlEvent, Event, Message, Row, RowChange, Watermark
from ticdc_bridge.schemas.model.names import avro_subject, names_of_columns, topic_subject
from ticdc_bridge.schemas.model.reasons import reason_of, shown
from ticdc_bridge.schemas.model.table import Table, TableId, TableVersion, Value
from ticdc_bridge.schemas.model.types import Kind
from ticdc_bridge.schemas.model.values import set_names
from ticdc_bridge.schemas.plain.column_check import ColumnCheck

# ---- What a plain line may say beside its row (`extra`): encoders write it into messages as it is.


class _Rule(NamedTuple):
    holds: Callable[[Any], bool]
    needed: str


def _is_natural(value: Any) -> bool:
    return type(value) is int and 0 <= value < 1 << 63


def _all_values(value: Any, holds: Callable[[Any], bool]) -> bool:
    return isinstance(value, dict) and all(map(holds, value.values()))


def _cell(value: Any) -> bool:
    if not isinstance(value, list) or len(value) != 3:
        return False
    code, handle, flags = value
    return _is_natural(code) and type(handle) is bool and (flags is None or _is_natural(flags))


def _is_text(value: Any) -> bool:
    return isinstance(value, str)


_INT64 = _Rule(lambda value: type(value) is int and -(1 << 63) <= value < 1 << 63, "a number of 64 bits")
_TEXT = _Rule(_is_text, "a text")
_OTHERS = {
    OTHER_FIELDS: _Rule(
        lambda v: _all_values(v, lambda members: isinstance(members, dict)),
        "an object of objects by part of the message",
    )
}
_OPEN = {
    **_OTHERS,
    "rid": _INT64,
    "ptn": _INT64,
    "ohk": _Rule(lambda v: type(v) is bool, "true or false"),
    "columns": _Rule(lambda v: _all_values(v, _cell), "an object of [type code, handle key or not, flags or null]"),
    "enum_zero": _Rule(lambda v: isinstance(v, list) and all(map(_is_text, v)), "a list of texts"),
}
_TICDC = {**_OTHERS, "ts_ms": _INT64, "start_ts": _INT64, "cluster_id": _TEXT}
_BY_FORMAT: Mapping[str, Mapping[str, _Rule]] = {
    "avro": {"keyspace": _TEXT},
    "open": _OPEN,
    "open-tiflow": _OPEN,
    "craft": {
        "types": _Rule(
            lambda v: _all_values(v, lambda p: isinstance(p, list) and len(p) == 2 and all(map(_is_natural, p))),
            "an object of [type code, flags]",
        ),
        "raw": _Rule(
            lambda v: _all_values(v, lambda image: _all_values(image, _is_text)), "an object of contents in hex by side"
        ),
    },
    "debezium": _TICDC,
    "debezium-avro": _TICDC,
    "debezium-tidb": {**_OTHERS, "source": _Rule(lambda v: isinstance(v, dict), "an object")},
    "debezium-mysql": {**_OTHERS, "source": _Rule(lambda v: isinstance(v, dict), "an object")},
}


def check_extra(format_: str, extra: Mapping[str, Any]) -> None:
    """WireError BAD_LINE for what the encoder of `format_` could not write, or no decoder could read again."""
    for name, rule in _BY_FORMAT.get(format_, {}).items():
        if name in extra and not rule.holds(extra[name]):
            raise _line_error(f"extra.{name} is {shown(extra[name], 60)}; {rule.needed} is needed")
    if has_surrogates(extra):
        raise _line_error("a text in extra holds half of a surrogate pair")


_OPS = ("c", "u", "d", "r")
_BIT_WITHOUT_LENGTH = ("open", "open-tiflow", "craft", "canal-json")  # whose messages do not tell the length of a BIT


_POSITION = (("topic", str, "a text"), ("partition", int, "a whole number"), ("offset", int, "a whole number"))


def plain_message(line: bytes, origin: Message | None = None) -> Message:
    """A line as a message: its text as the value, and where the change was read first (`origin`: where the line was).

    WireError BAD_LINE for what is no line of the plain form.
    """
    fields = _object(line)
    for name, kind, words in _POSITION:
        value = fields.get(name)
        if value is not None and type(value) is not kind:
            raise _line_error(f"{name} is {shown(value)}, {words} is needed")
        if isinstance(value, int) and not 0 <= value < 1 << 63:
            raise _line_error(f"{name} is {value}, which Kafka has not")
    topic, partition, offset = (fields.get(name) for name in ("topic", "partition", "offset"))
    try:
        headers = read_headers(fields.get("headers"))
    except ValueError as error:
        raise _line_error(str(error)) from error
    if origin is None:
        return Message(None, line, topic, partition, offset, headers=headers)
    return Message(None, line, topic or origin.topic, partition, offset, origin.timestamp, headers)


def error_of_line(line: bytes) -> tuple[WireError, Message] | None:
    """Reads an error line: why a message could not be decoded, and the message. None for any other line."""
    fields = _object(line)
    if fields.get("kind") != "error":
        return None
    try:
        key, value = (read_bytes(fields.get(name), name) for name in ("key_b64", "value_b64"))
    except ValueError as broken:
        raise _line_error(str(broken)) from broken
    error = WireError("NOT_DECODED", details=f"{fields.get('code')}: {fields.get('detail')}"[:1000])
    return error, replace(plain_message(line), key=key, value=value)


def same_message(first: Message, then: Message) -> bool:
    """True if two lines are rows of one message: their topic, partition and offset say so."""
    return first.offset is not None and (first.topic, first.partition, first.offset) == (
        then.topic, then.partition, then.offset,
    )  # fmt: skip


ChosenKeys = BoundedCache[tuple[int, tuple[str, ...]], tuple[Table, Table]]


def with_row_key(table: Table, key: tuple[str, ...], chosen: ChosenKeys) -> Table:
    """The table with the handle key that a row names: which unique key TiCDC chose is not in the DDL, and its message
    knows better than a definition of another time which the primary key was. chosen: one object for each.
    """
    if set(key) == set(table.handle_key) or not all(name in table.by_name for name in key) or not key:
        return table
    entry = chosen.get((id(table), key))
    if entry is None:
        primary = key if table.primary_key else ()
        columns = (replace(c, handle_key=c.name in key, primary_key=c.name in primary) for c in table.columns)
        entry = chosen[id(table), key] = table, replace(table, columns=tuple(columns))
    return entry[1]


class PlainDecoder:
    """Reads plain-form lines: a message's value is a line, or the lines of one message's rows.

    Types come from a table definition valid at the row's commit_ts, else from the Avro schema that the line's
    `schema_id` names.
    """

    def __init__(self, context: Context) -> None:
        self._context = context
        self._records: BoundedCache[Any, RecordReader | None] = BoundedCache(100_000)
        self._tables: BoundedCache[tuple[Any, ...], Table] = BoundedCache(100_000)
        self._chosen = ChosenKeys(100_000)
        self._names: BoundedCache[int, tuple[Table, tuple[dict[str, str], frozenset[str]]]] = BoundedCache(100_000)
        self._held = ColumnCheck()

    def decode(self, message: Message) -> list[Event]:
        """Lines → an event each. WireError BAD_LINE, TYPE_UNKNOWN, INVALID_VALUE."""
        return [self._event(line, message) for line in (message.value or b"").split(b"\n")]

    def _event(self, line: bytes, message: Message) -> Event:
        fields = _object(line)
        kind, format_, extra = fields.get("kind"), fields.get("format"), fields.get("extra", {})
        if format_ not in FORMATS or not isinstance(extra, dict):
            raise _line_error(f"format is {shown(format_)}; one of {', '.join(FORMATS)} is needed")
        if extra:
            check_extra(format_, extra)
        commit_ts = fields.get("commit_ts")
        if commit_ts is not None and (type(commit_ts) is not int or not 0 <= commit_ts <= MAX_TSO):
            raise _line_error(f"commit_ts is {shown(commit_ts)}, a TSO is needed")
        if kind == "watermark":
            if commit_ts is None:
                raise _line_error("a watermark has a commit_ts")
            return Watermark(format_, commit_ts, extra)
        db, table = (_text(fields, name) for name in ("db", "table"))
        if kind == "bootstrap":
            return Bootstrap(format_, db, table, None, None, "", extra)
        if kind == "ddl":
            ddl_type = fields.get("ddl_type")
            if ddl_type is not None and type(ddl_type) is not int:
                raise _line_error(f"ddl_type is {shown(ddl_type)}, a number is needed")
            return DdlEvent(format_, db, table, commit_ts, ddl_type, _text(fields, "query"), extra)
        if kind != "row":
            raise _line_error(f"kind is {shown(kind)}; row, ddl, watermark, bootstrap or error is needed")
        return self._row(fields, message, TableId(db, table), commit_ts)

    def _row(self, fields: dict[str, Any], message: Message, id_: TableId, commit_ts: int | None) -> RowChange:
        op: Any = fields.get("op")
        key: Any = fields.get("key")
        flags: Any = fields.get("flags") or []
        if op not in _OPS:
            raise _line_error(f"op is {shown(op)}; c, u, d or r is needed")
        if not _texts(key) or not _texts(flags):
            raise _line_error("key and flags are lists of texts")
        before, after = (_values(fields.get(image), image) for image in ("before", "after"))
        # {} for a side that is not there is null. An update's can be one that changed nothing (Canal-JSON).
        before, after = before if before or op in "ud" else None, after if op != "d" else after or None
        row = before if op == "d" else after
        if row is None:
            raise _line_error(f"op {op!r} without its row")
        schema_id, format_ = fields.get("schema_id"), fields["format"]
        table, version = self._table(fields, message, id_, commit_ts, row)
        table = with_row_key(table, tuple(key), self._chosen)
        names, twice = self._names.find(id(table), lambda: (table, names_of_columns(c.name for c in table.columns)))[1]
        if names and not all(name in table.by_name for r in (before, after) for name in r or ()):
            unclear = next((n for r in (before, after) for n in r or () if n in twice and n not in table.by_name), None)
            if unclear is not None:
                raise WireError("INVALID_VALUE", column=unclear, details=f"two columns of {id_} have this name in Avro")
            before, after, row = (r and {names.get(name, name): r[name] for name in r} for r in (before, after, row))
            key = [names.get(name, name) for name in key]
            assert row is not None
        strange = next((n for r in (before, after) for n in r or () if n not in table.by_name), None)
        if strange is not None:
            details = f"table {id_} has no such column at commit_ts {commit_ts}"
            raise WireError("INVALID_VALUE", column=strange, details=details)
        table_version = fields.get("table_version")
        flags = name_elements(table, flags, before, after)
        self._held.check(table, (before, after), flags, version is None, format_ in _BIT_WITHOUT_LENGTH)
        return RowChange(
            format_, table, op, commit_ts, before, after, tuple(key),
            FORMATS[format_].zone or self._context.options.time_zone,
            schema_id if isinstance(schema_id, int) else None,
            table_version if isinstance(table_version, int) else version.commit_ts if version else None,
            flags, dict(fields.get("extra", {})), table.is_key_alone(key, row),
        )  # fmt: skip

    def _table(
        self, fields: dict[str, Any], message: Message, id_: TableId, commit_ts: int | None, row: Row
    ) -> tuple[Table, TableVersion | None]:
        tables = self._context.tables
        version = None
        if tables is not None:
            table_version = fields.get("table_version")
            if type(table_version) is int and 0 <= table_version < MAX_TSO:
                version = tables.at(id_, table_version + 1)
                version = version if version and version.commit_ts == table_version else None
            elif fields["format"] == "avro":
                version = tables.sanitised(id_, tuple(row), commit_ts)
            if version is None and (commit_ts is not None or fields.get("schema_id") is None):
                version = tables.at(id_, commit_ts)
        if version is not None:
            version = in_letters(version, id_, row)
            return version.table, version
        schema_id = fields.get("schema_id")
        if fields["format"] == "avro" and schema_id is not None:
            keys = tuple(fields["key"])
            field = "key" if fields["op"] == "d" and set(row) <= set(keys) else "value"
            return self._registered_table(schema_id, field, keys, id_, message.topic, row), None
        details = f"table {id_} is not known at commit_ts {commit_ts}; give table definitions ({Hint.DDL})"
        raise WireError("TYPE_UNKNOWN", column="*", details=details)

    def _registered_table(
        self, schema_id: Any, field: str, keys: tuple[str, ...], id_: TableId, topic: str | None, row: Row
    ) -> Table:
        """The table of a registered schema. A delete names its key's; the topic's newest value schema tells more."""
        if (entry := self._tables.get((schema_id, field, keys, topic, id_))) is not None:
            return entry
        asked = schema_id, topic_subject(topic, field)
        if asked not in self._records:
            self._records[asked] = _try_compile(self._context.schemas.by_id(schema_id, "schema_id", asked[1]))
        record = self._records[asked]
        if record is None:
            raise WireError("UNSUPPORTED_SCHEMA", where="schema", details=f"schema id {schema_id} is not TiCDC's")
        if {c.name for c in record.columns} <= set(keys) and topic is not None:
            newest = _try_compile(self._context.schemas.newest(avro_subject(topic, "value")))
            if newest and newest.id == record.id and set(keys) <= {c.name for c in newest.columns}:
                record = newest
        table = self._tables[schema_id, field, keys, topic, id_] = Table.keyed(id_, record.columns, keys)
        return table


def _try_compile(text: str | None) -> RecordReader | None:
    try:
        return None if text is None else compile_record(text, "schema")
    except WireError:
        return None


def name_elements(table: Table, flags: list[str], *rows: dict[str, Value] | None) -> list[str]:
    """ENUM and SET that came by number (flag enum_number) get their names, where the table knows them; other flags."""
    other_flags = []
    for flag in flags:
        name, _, column = flag.partition(":")
        elements = table.by_name[column].elements if name == "enum_number" and column in table.by_name else ()
        if not elements:
            other_flags.append(flag)
            continue
        single = table.by_name[column].type.kind is Kind.ENUM
        for row in rows:
            if row is not None and isinstance(row.get(column), str):
                row[column] = _element_names(str(row[column]), elements, single, column)
    return other_flags


def _element_names(text: str, elements: tuple[str, ...], single: bool, column: str) -> str:
    number = int(text) if text.isdecimal() and text.isascii() and len(text) < 21 else -1
    if number < 0 or number > len(elements) if single else number < 0 or number >> len(elements):
        raise WireError("INVALID_VALUE", column=column, details=f"{text[:40]!r} is no number of its elements")
    if single:
        return elements[number - 1] if number else ""
    return set_names(number, elements)


def _object(line: bytes) -> dict[str, Any]:
    try:
        fields = json.loads(line.decode("utf-8-sig"), object_pairs_hook=_unique_members)
    except (ValueError, RecursionError) as error:
        raise _line_error(f"not JSON: {reason_of(error)}"[:300]) from error
    if not isinstance(fields, dict) or not isinstance(fields.get("kind"), str):
        raise _line_error("an object with `kind` is needed: what decode prints")
    return fields


def _unique_members(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """A JSON object whose names stand once. WireError BAD_LINE: of two values, which one is meant can't be known."""
    members = dict(pairs)
    if len(members) < len(pairs):
        twice = next(name for n, (name, _) in enumerate(pairs) if any(name == other for other, _ in pairs[:n]))
        raise _line_error(f"{twice!r:.60} stands twice in an object")
    return members


def _line_error(details: str) -> WireError:
    return WireError("BAD_LINE", where="plain form", details=details)


def _text(fields: dict[str, Any], name: str) -> str:
    if not isinstance(fields.get(name), str):
        raise _line_error(f"{name} is {shown(fields.get(name))}, a text is needed")
    return str(fields[name])


def _texts(value: Any) -> bool:
    return isinstance(value, list) and all(isinstance(v, str) for v in value)


def _values(row: Any, image: str) -> dict[str, Value] | None:
    if row is None:
        return None
    if not isinstance(row, dict):
        raise _line_error(f"{image} is no object")
    return {name: _value(value, name) for name, value in row.items()}


def _value(value: Any, name: str) -> Value:
    if value is None:
        return None
    if type(value) is not str:
        try:
            if isinstance(value, dict) and value.keys() == {"hex"}:
                data = bytes.fromhex(value["hex"])
                if len(data) * 2 == len(value["hex"]):  # Python takes blanks between bytes
                    return data
        except (ValueError, TypeError):
            pass
        details = f'{shown(value)} is no value of the plain form: null, a text, or {{"hex":"00ff"}}'
        raise WireError("INVALID_VALUE", column=name, details=details)
    if not value.isascii():
        try:
            value.encode()
        except UnicodeEncodeError as error:  # JSON has escapes for it
            details = f"character {error.start} of its text is half a surrogate pair, which no column holds"
            raise WireError("INVALID_VALUE", column=name, details=details) from error
    return value


def read_bytes(text: Any, what: str) -> bytes | None:
    """The bytes that base64 stands for, None for null. ValueError. what: the member's name, for that."""
    if not isinstance(text, str | None):
        raise ValueError(f"{what} is no text: base64 is needed")
    try:
        return None if text is None else base64.b64decode(text, validate=True)
    except ValueError as error:
        raise ValueError(f"{what} is no base64 text") from error


def read_headers(headers: Any) -> tuple[tuple[str, bytes | None], ...]:
    """`Message.headers` of a line's: pairs of a name and base64 (or null); an object of them too. ValueError."""
    if isinstance(headers, dict):
        headers = [[name, e] for name, value in headers.items() for e in (value if type(value) is list else [value])]
    if not isinstance(headers, list | None):
        raise ValueError(_WHAT_HEADERS_ARE)
    read = []
    for pair in headers or ():
        if not isinstance(pair, list) or len(pair) != 2 or not isinstance(pair[0], str):
            raise ValueError(_WHAT_HEADERS_ARE)
        read.append((pair[0], read_bytes(pair[1], "headers")))
    return tuple(read)


_WHAT_HEADERS_ARE = "headers: a list of pairs [name, base64 or null] is needed, or an object {name: base64}"


PLAIN = Format("plain", PlainDecoder, refuse_encoder("plain"), carries_ddl=True, writes=False)
"""Not a wire format: change events as lines (schemas.plain.writer), a message's value each."""
