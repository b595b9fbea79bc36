"""TiCDC Canal-JSON (protocol=canal-json), read (upstream ticdc `pkg/sink/codec/canal`).

Every value is text. `mysqlType` names each column's type: without content-compatible no length, fraction digits or
elements, which then come from the table's definition, where there is one. Binary strings are ISO-8859-1 text. The
commit_ts is there with enable-tidb-extension only. A message may be a Snappy block or an LZ4 frame as a whole.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from schemas.codec import claim_check, compression, json_exact, sql_text
from schemas.codec.bounded_cache import BoundedCache
from schemas.formats.base import Context
from schemas.formats.definitions import join_definition, same_type
from schemas.formats.framing import MAX_MESSAGE
from schemas.model.errors import WireError
from schemas.model.event import DdlEvent, Event, Message, RowChange, Watermark, ms_to_tso
from schemas.model.table import Column, DefinitionMismatch, Table, TableId, TableVersion, Value
from schemas.model.types import BY_NAME, Kind

_OPS = {"INSERT": "c", "UPDATE": "u", "DELETE": "d"}
_TYPE = re.compile(r"([a-z]+)(?:\((.*)\))?((?: unsigned| zerofill)*)\Z", re.ASCII | re.DOTALL)
_NUMBERS = re.compile(r"(\d{1,10})(?:,(\d{1,3}))?\Z", re.ASCII)
_ELEMENT = re.compile(r"'((?:[^'\\]|''|\\.)*)'(?:,|\Z)", re.DOTALL)
_MOST_KEPT = 1_000_000  # columns of all tables together
_SIZED = (Kind.DECIMAL, Kind.BIT, Kind.VECTOR)
_TEMPORAL = (Kind.DATETIME, Kind.TIMESTAMP, Kind.TIME)


_Joined = tuple[Table, TableVersion | None, DefinitionMismatch | None]


class CanalJsonDecoder:
    """Decodes with the types that each message names."""

    def __init__(self, context: Context) -> None:
        self._context = context
        self._tables: BoundedCache[tuple[Any, ...], _Joined] = BoundedCache(
            10_000, _MOST_KEPT, lambda key, _: len(key[1])
        )

    def decode(self, message: Message) -> list[Event]:
        """One message → its rows, or a DDL or watermark event. WireError as the error table says."""
        if message.value is None:
            raise WireError("EMPTY_RECORD", details="the value is null: Canal-JSON sends no such message")
        body, replaced = _parse(message.value)
        try:
            tidb = body.get("_tidb") or {}
            location = tidb.get("claimCheckLocation")
            if location:
                body, replaced = self._fetch_claim(_text(location, "claimCheckLocation"))
                tidb = body.get("_tidb") or {}
            if body["type"] == "TIDB_WATERMARK":
                return [Watermark("canal-json", json_exact.integer(tidb["watermarkTs"], "watermarkTs"))]
            tso = tidb.get("commitTs")
            commit_ts = None if tso is None else json_exact.integer(tso, "commitTs")
            if body["isDdl"] is True:
                db, table, query = (_text(body[name], name) for name in ("database", "table", "sql"))
                extra: dict[str, Any] = {"type": _text(body["type"], "type")}
                if commit_ts is None:
                    extra["es"] = json_exact.integer(body["es"], "es")
                return [DdlEvent("canal-json", db, table, commit_ts, None, query, extra)]
            return list(self._rows(body, commit_ts, tidb.get("onlyHandleKey") is True, replaced))
        except (KeyError, TypeError, AttributeError, ValueError, ArithmeticError) as error:
            reason = f"no {error}" if isinstance(error, KeyError) else str(error)
            raise WireError("MALFORMED", where="value", details=f"not a Canal-JSON message: {reason}"[:300]) from error

    def _fetch_claim(self, location: str) -> tuple[dict[str, Any], bool]:
        body, replaced = _parse(claim_check.fetch_message(self._context.claims, location)[1])
        if (body.get("_tidb") or {}).get("claimCheckLocation"):
            raise WireError("CLAIM_CHECK", uri=location[:300], details="the file points to another file")
        return body, replaced

    def _rows(self, body: dict[str, Any], commit_ts: int | None, key_only: bool, replaced: bool) -> list[RowChange]:
        op = _OPS[body["type"]]
        id_ = TableId(*(_text(body[name], name) for name in ("database", "table")))
        data, old = body["data"], body["old"]
        if not isinstance(data, list) or not data or (op == "u" and old is not None and len(old) != len(data)):
            raise ValueError(f"{body['type']} with the wrong rows")
        es = json_exact.integer(body["es"], "es")
        # sqlType lists the columns in table order, mysqlType in none.
        types = {name: body["mysqlType"][name] for name in body["sqlType"]}
        if len(types) != len(body["mysqlType"]):
            raise ValueError("sqlType and mysqlType list different columns")
        table, version, mismatch = self._table(id_, types, body["pkNames"], commit_ts, es)
        events = []
        for number, image in enumerate(data):
            flags: dict[str, None] = {}
            row = _row(table, image, flags, replaced)
            before = None if op != "u" or old is None else _row(table, old[number], flags, replaced)
            if op == "d":
                before, row_after = row, None
            else:
                row_after = row
            if key_only and op != "d":
                flags["handle_key_only"] = None
            event = RowChange(
                "canal-json", table, op, commit_ts, before, row_after,  # type: ignore[arg-type]
                tuple(c.name for c in table.columns if c.handle_key), self._context.options.time_zone, None,
                version.commit_ts if version else None, list(flags), {} if commit_ts is not None else {"es": es},
                key_only,
            )  # fmt: skip
            if mismatch is not None:
                event.note_mismatch(mismatch)
            events.append(event)
        return events

    def _table(self, id_: TableId, types: dict[str, Any], keys: Any, commit_ts: int | None, es: int) -> _Joined:
        listed = tuple(types.items())
        if not all(isinstance(t, str) for _, t in listed) or not isinstance(keys, list | None):
            raise ValueError("mysqlType or pkNames is not what Canal-JSON has")
        for name in keys or ():
            if _text(name, "pkNames") not in types:
                raise ValueError(f"the key has column {name[:80]!r}, mysqlType does not")
        version = None
        if self._context.tables is not None:
            # Without the extension es, the commit's millisecond, is all that tells the time.
            version = self._context.tables.at(id_, ms_to_tso(es) + 1 if commit_ts is None else commit_ts)
        key = (id_, listed, tuple(keys or ()), version.commit_ts if version else None)
        if key not in self._tables:
            own = Table(id_, tuple(_column(n, t, n in key[2]) for n, t in listed))
            version, mismatch = join_definition(id_, version, own.columns, same_type, self._context.options)
            self._tables[key] = version.table if version else own, version, mismatch
        return self._tables[key]


def _parse(data: bytes) -> tuple[dict[str, Any], bool]:
    """Message → (its object, whether TiCDC wrote U+FFFD for bytes that are not UTF-8: Go escapes that one only)."""
    if len(data) > MAX_MESSAGE:
        raise WireError("TOO_LARGE", where="value", details=f"{len(data)} bytes, at most {MAX_MESSAGE}")
    try:
        data = compression.decompress(data, MAX_MESSAGE)
        body = json_exact.decode(json_exact.document(data))
    except ValueError as error:
        raise WireError("MALFORMED", where="value", details=f"not JSON: {error}"[:300]) from error
    if not isinstance(body, dict):
        raise WireError("MALFORMED", where="value", details="not a JSON object")
    return body, b"\\ufffd" in data


def _text(value: Any, what: str) -> str:
    return json_exact.utf8(value, what)


def _column(name: str, mysql_type: str, key: bool) -> Column:
    """A column of `mysqlType`: "bigint unsigned", with content-compatible "decimal(16,4)" or "set('a','b')"."""
    match = _TYPE.match(_text(mysql_type, "a type"))
    if not match or match[1] not in BY_NAME:
        raise ValueError(f"type {mysql_type[:40]!r} is not known")
    type_, inner = BY_NAME[match[1]], match[2]
    length = scale = None
    elements: tuple[str, ...] = ()
    if inner is not None and type_.kind in (Kind.ENUM, Kind.SET):
        elements = _elements(inner)
    elif inner is not None:
        numbers = _NUMBERS.match(inner)
        if not numbers:
            raise ValueError(f"type {mysql_type[:40]!r} is not known")
        first, second = int(numbers[1]), int(numbers[2] or 0)
        length = first if type_.kind in _SIZED else None
        scale = first if type_.kind in _TEMPORAL else second if type_.kind is Kind.DECIMAL else None
        if type_.kind is Kind.FLOAT and numbers[2]:
            scale = second
    if (type_.kind is Kind.BIT and length is not None and not 1 <= length <= 64) or (scale or 0) > 30:
        raise ValueError(f"type {mysql_type[:40]!r} is not known")
    unsigned = "unsigned" in match[3] and type_.kind not in (Kind.BIT, Kind.YEAR)
    vague = _VAGUE.get(type_.kind, "") if inner is None else ""
    return Column(
        _text(name, "column"), type_, unsigned, length, scale, elements, handle_key=key, primary_key=key, vague=vague
    )


# What `mysqlType` without content-compatible leaves open.
_VAGUE = {
    Kind.ENUM: "this ENUM or another: its elements are not sent",
    Kind.SET: "this SET or another: its elements are not sent",
    Kind.BIT: "BIT(1) or longer: its length is not sent",
}


def _elements(inner: str) -> tuple[str, ...]:
    """The quoted list of an ENUM or SET; a quote is doubled, a backslash too."""
    elements, pos = [], 0
    while pos < len(inner):
        one = _ELEMENT.match(inner, pos)
        if not one:
            raise ValueError(f"elements {inner[:40]!r} can't be read")
        elements.append(re.sub(r"''|\\(.)", lambda m: m[1] or "'", one[1], flags=re.DOTALL))
        pos = one.end()
    return tuple(elements)


def _row(table: Table, image: Any, flags: dict[str, None], replaced: bool) -> dict[str, Value]:
    if not isinstance(image, Mapping):
        raise ValueError("a row is no object")
    row: dict[str, Value] = {}
    for name, cell in image.items():
        column = table.by_name.get(name)
        if column is None:
            raise ValueError(f"column {name[:80]!r} is not in mysqlType")
        try:
            row[name] = None if cell is None else _value(column, json_exact.string(cell, "the value"), flags)
        except ValueError as error:
            raise ValueError(f"column {name!r}: {error}") from error
        if replaced and isinstance(row[name], str) and "\ufffd" in str(row[name]):
            flags[f"invalid_utf8:{name}"] = None
    return row


def _value(column: Column, text: str, flags: dict[str, None]) -> Value:
    if column.type.kind is Kind.BINARY:
        return text.encode("latin-1")
    value, flag = sql_text.read(column, text)
    if flag:
        flags[f"{flag}:{column.name}"] = None
    return value
