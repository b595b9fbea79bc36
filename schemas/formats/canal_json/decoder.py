"""TiCDC Canal-JSON (protocol=canal-json), read (upstream ticdc `pkg/sink/codec/canal`).

Every value is text. `mysqlType` names each column's type: without content-compatible no length, fraction digits or
elements, which then come from the table's definition, where there is one. Binary strings are ISO-8859-1 text. The
commit_ts is there with enable-tidb-extension only. A message may be a Snappy block or an LZ4 frame as a whole.

Canal itself and others write it too (alibaba/canal `protocol/FlatMessage.java`), and are read: types as MySQL has them
and in any letters, `old` left out where it is null, numbers beside texts in `data`, records of transactions. Flink and
SeaTunnel name no types (`mysqlType`): then ENUM and SET are names, and binary strings base64 (Jackson's binary nodes).
`_csv` is our own mark of a row that a CSV file had (spark_jobs.io.storage_sink): ENUM and SET are names.
"""

import re
from collections.abc import Mapping
from functools import partial
from typing import Any

from ticdc_bridge.schemas.codec import claim_check, json_exact, sql_text
from ticdc_bridge.schemas.codec.bounded_cache import BoundedCache
from ticdc_bridge.schemas.codec.json_exact import Number, name_other_form, utf8
from ticdc_bridge.schemas.ddl.parser.column_definitions import TYPE_NAMES
from ticdc_bridge.schemas.formats.base import Context
from ticdc_bridge.schemas.formats.definitions import ANY_TYPE, by_definition, join_definition, same_type
from ticdc_bridge.schemas.formats.framing import inflated, json_object, malformed_error
from ticdc_bridge.schemas.formats.other_fields import other_fields
from ticdc_bridge.schemas.model import values
from ticdc_bridge.schemas.model.errors import Hint, WireError
from ticdc_bridge.schemas.model.event import DdlEvent, Event, Message, RowChange, Watermark, ms_to_tso
from ticdc_bridge.schemas.model.reasons import reason_of
from ticdc_bridge.schemas.model.table import Column, DefinitionMismatch, Table, TableId, TableVersion, Value
from ticdc_bridge.schemas.model.types import BY_NAME, ELEMENTS, FRACTIONAL, Kind

_FIELDS = frozenset(
    ("id", "database", "table", "pkNames", "isDdl", "type", "es", "ts", "sql", "sqlType", "mysqlType", "data", "old",
     "_tidb", "_csv")
)  # fmt: skip
_TIDB = frozenset(("commitTs", "watermarkTs", "onlyHandleKey", "claimCheckLocation"))
_OPS = {"INSERT": "c", "UPDATE": "u", "DELETE": "d"}
_DDL = ("CREATE", "ALTER", "ERASE", "RENAME", "TRUNCATE", "CINDEX", "DINDEX")
# Records of the binlog that change no row (canal's CanalEntry: EntryType, EventType), and statements of type QUERY.
_MARKERS = ("TRANSACTIONBEGIN", "TRANSACTIONEND", "XACOMMIT", "XAROLLBACK", "GTID", "MHEARTBEAT")
_MARKER_QUERY = re.compile(r"\s*(?:BEGIN|COMMIT|ROLLBACK|SAVEPOINT|RELEASE|START\s+TRANSACTION|XA)\b", re.IGNORECASE)
_TYPE = re.compile(
    r"\s*([a-z][a-z0-9]*(?: (?:precision|varying))?)\s*(?:\((.*)\))?"
    r"((?:\s+(?:unsigned|signed|zerofill|binary|(?:charset|character set|collate) \w+))*)\s*\Z",
    re.ASCII | re.DOTALL | re.IGNORECASE,
)
_OTHER_NAMES = {"bool": "tinyint", "real": "double", "serial": "bigint"}
_NUMBERS = re.compile(r"\s*(\d{1,10})\s*(?:,\s*(\d{1,3})\s*)?\Z", re.ASCII)
_ELEMENT = re.compile(r"\s*'((?:[^'\\]|''|\\.)*)'\s*(?:,|\Z)", re.DOTALL)
_MOST_KEPT = 1_000_000  # columns of all tables together
_SIZED = (Kind.DECIMAL, Kind.BIT, Kind.VECTOR)
_Joined = tuple[Table, TableVersion | None, DefinitionMismatch | None]


class CanalJsonDecoder:
    """Decodes with the types that each message names."""

    def __init__(self, context: Context) -> None:
        self._context = context
        self._tables: BoundedCache[tuple[Any, ...], tuple[TableVersion | None, _Joined]] = BoundedCache(
            10_000, _MOST_KEPT, lambda key, _: len(key[1])
        )

    def decode(self, message: Message) -> list[Event]:
        """One message → its rows, or a DDL or watermark event; none for a transaction's begin or end.

        WireError as the error table says.
        """
        if message.value is None:
            raise WireError("EMPTY_RECORD", details="the value is null: Canal-JSON sends no such message")
        body, replaced = _parse(message.value)
        try:
            claim = _claim(body)
            if claim[0]:
                uri = utf8(claim[0], "claimCheckLocation")
                body, replaced = claim_check.fetch_value(self._context.claims, uri, _parse)
                claim_check.check_row(uri, claim, _claim(body))
            tidb = body.get("_tidb") or {}
            kind = utf8(body["type"], "type").upper()
            if kind == "TIDB_WATERMARK":
                return [Watermark("canal-json", json_exact.integer(tidb["watermarkTs"], "watermarkTs"))]
            tso = tidb.get("commitTs")
            commit_ts = None if tso is None else json_exact.integer(tso, "commitTs")
            if kind in _OPS:
                by_option = self._context.table_by_option(message.topic) or self._context.table
                key_only = tidb.get("onlyHandleKey") is True
                return list(self._rows(_completed(body, kind, by_option), kind, commit_ts, key_only, replaced))
            return _statement(body, kind, commit_ts)
        except (KeyError, TypeError, AttributeError, ValueError, ArithmeticError) as error:
            reason = name_other_form(body, "canal-json") or reason_of(error)
            raise malformed_error("value", f"not a Canal-JSON message: {reason}") from error

    def _rows(
        self, body: dict[str, Any], kind: str, commit_ts: int | None, key_only: bool, replaced: bool
    ) -> list[RowChange]:
        op = _OPS[kind]
        id_ = TableId(*(utf8(body[name], name) for name in ("database", "table")))
        data, old = body["data"], body.get("old")
        if not isinstance(data, list) or not data or (op == "u" and old is not None and len(old) != len(data)):
            raise ValueError(f"{kind} with the wrong rows")
        es = _time(body)
        types = _types(body)
        form = "json" if types is None else "csv" if body.get("_csv") is True else ""
        if types is None:
            types = {name: _ANY_TYPE for image in (*data, *(old or ())) for name in image or ()}
        table, version, mismatch = self._table(id_, types, body.get("pkNames"), commit_ts, es)
        events = []
        others = other_fields(message=(body, _FIELDS), _tidb=(body.get("_tidb") or {}, _TIDB))
        read = partial(_row, table, table.id if version else None, replaced, form)
        for number, image in enumerate(data):
            if not image:
                raise ValueError("a row without columns")
            flags: dict[str, None] = {}
            row: dict[str, Value] | None = read(image, flags)
            before = None if op != "u" or old is None else read(old[number], flags)
            if op == "d":
                before, row = row, None
            elif key_only:
                flags["handle_key_only"] = None
            # A message does not say that delete-only-output-handle-key-columns is on.
            key_alone = key_only or (op == "d" and table.is_key_alone(table.handle_key, image))
            event = RowChange(
                "canal-json", table, op, commit_ts, before, row,  # type: ignore[arg-type]
                table.handle_key, self._context.options.time_zone, None, version.commit_ts if version else None,
                list(flags), {**_time_extra(commit_ts, es), **others}, key_alone,
            )  # fmt: skip
            event.note_mismatch(mismatch)
            events.append(event)
        return events

    def _table(self, id_: TableId, types: dict[str, Any], keys: Any, commit_ts: int | None, es: int | None) -> _Joined:
        listed = tuple(types.items())
        if not all(isinstance(t, str) for _, t in listed) or not isinstance(keys, list | None):
            raise ValueError("mysqlType or pkNames is not what Canal-JSON has")
        for name in keys or ():
            if utf8(name, "pkNames") not in types:
                raise ValueError(f"the key has column {name[:80]!r}, mysqlType does not")
        version = None
        if self._context.tables is not None:
            # Without the extension es, the commit's millisecond, is all that tells the time.
            at = commit_ts if commit_ts is not None or es is None else ms_to_tso(es) + 1
            version = self._context.tables.at(id_, at)
        key = (id_, listed, tuple(keys or ()), id(version))  # versions of one second have the same time
        if key not in self._tables:
            sent = Table(id_, tuple(column_of_type(n, t, n in key[2]) for n, t in listed))
            joined, mismatch = join_definition(id_, version, sent.columns, same_type, self._context.options)
            self._tables[key] = version, (joined.table if joined else sent, joined, mismatch)
        return self._tables[key][1]


def _claim(body: dict[str, Any]) -> tuple[Any, ...]:
    """Where the row is, "" or None for here, and whose it is."""
    tidb = body.get("_tidb") or {}
    return tidb.get("claimCheckLocation"), body.get("database"), body.get("table"), tidb.get("commitTs")


def _completed(body: dict[str, Any], kind: str, by_option: TableId | None) -> dict[str, Any]:
    """A row's message as Canal writes it: SeaTunnel's row is no list, Flink CDC once put a deleted one into `old`, and
    neither they nor Flink SQL need say of which table it is. ValueError where nothing says it.
    """
    data, old = body.get("data"), body.get("old")
    if data is None and kind == "DELETE":
        data, old = old, None
    if isinstance(data, dict) and name_other_form(body, "canal-json"):
        raise ValueError("its rows are no list")
    images = {"data": [data] if isinstance(data, dict) else data, "old": [old] if isinstance(old, dict) else old}
    if body.get("database") and body.get("table"):
        return {**body, **images}
    if by_option is None:
        details = "nothing says of which table it is: set the option table or table_from_topic"
        raise ValueError(f"{details} ({Hint.READ_OPTIONS})")
    return {**body, **images, "database": by_option.db, "table": body.get("table") or by_option.table}


def _parse(data: bytes) -> tuple[dict[str, Any], bool]:
    return json_object(inflated(data, "not JSON"), "not JSON")


_ANY_TYPE = f"{ANY_TYPE}: the message does not tell it"


def _types(body: dict[str, Any]) -> dict[str, Any] | None:
    """Names and types of the columns in their order; None where the message has none.

    TiCDC's sqlType lists the columns in table order, its mysqlType in none.
    """
    types, order = body.get("mysqlType"), body.get("sqlType")
    if types is None:
        return None
    if not isinstance(types, dict) or not isinstance(order, dict | None):
        raise ValueError("mysqlType or sqlType is no object")
    if order is None:
        return types
    if order.keys() != types.keys():
        raise ValueError("sqlType and mysqlType list different columns")
    return {name: types[name] for name in order}


def _time(body: dict[str, Any]) -> int | None:
    """The commit's millisecond; a few writers leave it out."""
    es = body.get("es")
    return None if es is None else json_exact.integer(es, "es")


def _time_extra(commit_ts: int | None, es: int | None) -> dict[str, Any]:
    return {} if commit_ts is not None or es is None else {"es": es}


def _statement(body: dict[str, Any], kind: str, commit_ts: int | None) -> list[Event]:
    """A record that is no row: DDL, or a transaction's begin or end (no event). ValueError for any other."""
    query = utf8(body.get("sql") or "", "sql")
    if body.get("isDdl") is True or (kind in _DDL and query):
        if not query.strip():
            raise ValueError(f"a DDL record ({kind[:40]}) without its statement: sql is empty")
        db, table = (utf8(body.get(name) or "", name) for name in ("database", "table"))
        extra = {"type": kind, **_time_extra(commit_ts, _time(body))}
        return [DdlEvent("canal-json", db, table, commit_ts, None, query, extra)]
    if kind in _MARKERS or (kind == "QUERY" and _MARKER_QUERY.match(query)):
        return []
    if kind == "QUERY":
        raise ValueError(
            "a QUERY record that is no DDL: its statement changed rows that it does not list (binlog_format=STATEMENT?)"
        )
    raise ValueError(f"type {kind[:40]!r} is not known: INSERT, UPDATE, DELETE, and those of DDL are")


def column_of_type(name: str, mysql_type: str, key: bool) -> Column:
    """A column of `mysqlType`: "bigint unsigned", with content-compatible "decimal(16,4)" or "set('a','b')"."""
    if mysql_type in (_ANY_TYPE, ""):  # Canal leaves it empty where it has no definition of the table
        return Column(utf8(name, "column"), BY_NAME["text"], handle_key=key, primary_key=key, vague=_ANY_TYPE)
    match = _TYPE.match(utf8(mysql_type, "a type"))
    name_of_type = TYPE_NAMES.get(match[1].upper(), "") if match else ""
    if not match or not name_of_type:
        raise ValueError(f"column {name[:80]!r}: type {mysql_type[:40]!r} is not known")
    type_, inner = BY_NAME[_OTHER_NAMES.get(name_of_type, name_of_type)], match[2]
    attributes = match[3].lower().split()
    length = scale = None
    elements: tuple[str, ...] = ()
    if inner is not None and type_.kind in ELEMENTS:
        elements = _elements(inner)
    elif inner is not None:
        numbers = _NUMBERS.match(inner)
        if not numbers:
            raise ValueError(f"type {mysql_type[:40]!r} is not known")
        first, second = int(numbers[1]), int(numbers[2] or 0)
        length = first if type_.kind in _SIZED or type_.name == "binary" else None
        scale = first if type_.kind in FRACTIONAL else second if type_.kind is Kind.DECIMAL else None
        if type_.kind is Kind.FLOAT and numbers[2]:
            scale = second
    if (type_.kind is Kind.BIT and length is not None and not 1 <= length <= 64) or (scale or 0) > 30:
        raise ValueError(f"type {mysql_type[:40]!r} is not known")
    says_unsigned = name_of_type == "serial" or not {"unsigned", "zerofill"}.isdisjoint(attributes)
    unsigned = says_unsigned and type_.kind not in (Kind.BIT, Kind.YEAR)
    vague = _VAGUE.get(type_.kind, "") if inner is None else ""
    return Column(
        utf8(name, "column"), type_, unsigned, length, scale, elements, handle_key=key, primary_key=key, vague=vague
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
        entry = _ELEMENT.match(inner, pos)
        if not entry:
            raise ValueError(f"elements {inner[:40]!r} can't be read")
        elements.append(re.sub(r"''|\\(.)", lambda m: m[1] or "'", entry[1], flags=re.DOTALL))
        pos = entry.end()
    return tuple(elements)


def _row(
    table: Table, defined: TableId | None, replaced: bool, form: str, image: Any, flags: dict[str, None]
) -> dict[str, Value]:
    if not isinstance(image, Mapping):
        raise ValueError("a row is no object")
    row: dict[str, Value] = {}
    for name, cell in image.items():
        column = table.by_name.get(name)
        if column is None:
            raise ValueError(f"column {name[:80]!r} is not in mysqlType")
        if column.virtual:  # Canal's own rows come from MySQL's binlog, which has them
            flags[f"virtual_left_out:{name}"] = None
            continue
        try:
            row[name] = None if cell is None else _value(column, _cell_text(column, cell), flags, form)
        except ValueError as error:
            raise ValueError(f"column {name!r}: {by_definition(error, defined)}") from error
        if replaced and isinstance(row[name], str) and "\ufffd" in str(row[name]):
            flags[f"invalid_utf8:{name}"] = None
    return row


def _cell_text(column: Column, cell: Any) -> str:
    """A value's text. TiCDC and Canal write texts, others JSON's numbers and booleans too, whose text is as exact."""
    if column.vague == _ANY_TYPE:
        return cell if isinstance(cell, str) else json_exact.dump(cell)
    kind = column.type.kind
    if cell is True or cell is False:
        if kind in (Kind.INTEGER, Kind.BIT):
            return "1" if cell else "0"
        if kind is Kind.JSON:
            return "true" if cell else "false"
    elif isinstance(cell, Number):
        if kind in _WRITTEN_AS_NUMBERS:
            return str(cell)
    elif isinstance(cell, str):
        return cell
    what = "an object or a list" if isinstance(cell, dict | list) else "no text"
    raise ValueError(f"{what}, where {column.type.name} is needed")


_WRITTEN_AS_NUMBERS = (
    Kind.INTEGER, Kind.DECIMAL, Kind.FLOAT, Kind.DOUBLE, Kind.YEAR, Kind.BIT, Kind.ENUM, Kind.SET, Kind.JSON,
)  # fmt: skip
_DAY = r"(\d{4}-(?:0\d|1[0-2])-(?:[0-2]\d|3[01]))"
_MINUTES = r":[0-5]\d:[0-5]\d(?:\.\d{1,9})?"
_MOMENT = re.compile(rf"{_DAY}[ T]((?:[01]\d|2[0-3]){_MINUTES})\Z", re.ASCII)
_TEMPORAL_TEXTS = {
    Kind.DATE: re.compile(rf"{_DAY}(?:[ T]00:00:00(?:\.0+)?)?\Z", re.ASCII),
    Kind.DATETIME: _MOMENT,
    Kind.TIMESTAMP: _MOMENT,
    Kind.TIME: re.compile(rf"(-?\d{{1,3}}{_MINUTES})\Z", re.ASCII),
}
"""Dates and times: the groups with a blank between them are SQL's text. Java writes T, and 0 h of a DATE."""
_SHORT_HOUR = re.compile(r"\A(-?)(\d:)", re.ASCII)


def _temporal(column: Column, text: str) -> str:
    """In the digits that the column has: others than TiCDC leave zeros out at the end, and of an hour."""
    kind = column.type.kind
    match = _TEMPORAL_TEXTS[kind].match(text)
    if match is None:
        raise ValueError(f"{text[:40]!r} is no {column.type.name.upper()}")
    plain = " ".join(match.groups())
    if kind is Kind.DATE:
        return plain
    if kind is Kind.TIME:
        plain = _SHORT_HOUR.sub(r"\g<1>0\2", plain)
    return sql_text.pad_fraction(plain, column.scale)


def _value(column: Column, text: str, flags: dict[str, None], form: str) -> Value:
    kind = column.type.kind
    if column.vague == _ANY_TYPE:
        flags[f"untyped:{column.name}"] = None
        return sql_text.text_or_bytes(text)
    if kind is Kind.BINARY:  # ISO-8859-1; a binlog leaves out the zeros at the end of a BINARY(n), and so does Canal
        try:
            data = values.base64_bytes(text) if form == "json" else text.encode("latin-1")
        except UnicodeEncodeError as error:
            raise ValueError("no ISO-8859-1 text, as binary strings are written") from error
        return data.ljust(column.length or 0, b"\0") if column.type.name == "binary" else data
    if kind in ELEMENTS and (form or not _is_number(column, text)):
        # by name, as others than TiCDC write them
        names = [text] if column.type.kind is Kind.ENUM else text.split(",")
        if column.elements and text and not set(names) <= set(column.elements):
            raise ValueError(f"{text[:40]!r} is no element of the {column.type.kind.name}")
        return sql_text.text_or_bytes(text)
    if kind in _TEMPORAL_TEXTS:
        return _temporal(column, text)
    value, flag = sql_text.read(column, text)
    if flag:
        flags[f"{flag}:{column.name}"] = None
    return value


def _is_number(column: Column, text: str) -> bool:
    """True if an ENUM or SET is written by its number, as TiCDC and Canal do, and not by name, as others do."""
    if not text.isascii() or not text.isdigit() or (len(text) > 1 and text[0] == "0"):
        return False
    count = len(column.elements)
    is_beyond = int(text) > count if column.type.kind is Kind.ENUM else len(text) < 30 and int(text) >> count
    return not (count and is_beyond and text in column.elements)
