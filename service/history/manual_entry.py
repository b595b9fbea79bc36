"""What people give to a history: statements and snapshots, from a JSON object or a command line.

Also tables that messages describe themselves: Simple's tableSchema, Debezium's tableChanges.
"""

import base64
import binascii
import time
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Any, Final

from ticdc_bridge.schemas.ddl.executor.show_create import show_create
from ticdc_bridge.schemas.ddl.executor.versions import literal_timestamps
from ticdc_bridge.schemas.ddl.parser import statements as ddl
from ticdc_bridge.schemas.ddl.parser.lexer import SHOW, SQL_MODES, LexicalMode, unknown_mode
from ticdc_bridge.schemas.ddl.parser.statement_parser import parse
from ticdc_bridge.schemas.formats.base import Context
from ticdc_bridge.schemas.formats.debezium.schema_changes import table_after
from ticdc_bridge.schemas.model.errors import WireError
from ticdc_bridge.schemas.model.event import MAX_TSO, DdlEvent, Message, ms_to_tso
from ticdc_bridge.schemas.model.table import Table, TableId
from ticdc_bridge.service.errors import RegistryError
from ticdc_bridge.service.history.model import DEFAULT_CHANGEFEED, DdlRecord, HistoryReader, clean, tso_of
from ticdc_bridge.service.history.table_schemas import table_of_schemas
from ticdc_bridge.service.registry.view import RegistryView

_NOT_STATED: Final = "Debezium's tableChanges do not tell some of its defaults"


def table_after_event(event: DdlEvent) -> tuple[Table, str] | None:
    """(the table after a DDL event, what is not known of it), where the message tells it."""
    if event.schema is not None:
        return event.schema, ""
    table = table_after(event.extra.get("tableChanges"), TableId(event.db, event.table))
    if table is None:
        return None
    return table, _NOT_STATED if any(c.vague for c in table.columns) else ""


Json = Mapping[str, Any]
DDL_FIELDS: Final = ("changefeed", "commit_ts", "time", "db", "table", "query", "sql_mode", "mode")
SNAPSHOT_FIELDS: Final = (
    "changefeed", "commit_ts", "time", "db", "table", "query", "subject", "version", "message", "format",
)  # fmt: skip
MESSAGE_FIELDS: Final = ("key_b64", "value_b64")


def record_ddl(body: Json, history: HistoryReader) -> list[DdlRecord]:
    """A statement. RegistryError WHICH_CHANGEFEED, UNPROCESSABLE for an object of another form, DDL_… if unreadable."""
    _check_known(body, DDL_FIELDS)
    when = _when(body)
    if when is None:
        raise _entry_error("commit_ts (a TSO) or time (RFC 3339) is needed: when did the statement take effect?")
    mode = _text(body, "mode", "typed")
    if mode not in ("typed", "wire"):
        raise _entry_error(f"mode {mode!r}: typed or wire is needed")
    db, query, sql_mode = _text(body, "db"), _text(body, "query", None), _text(body, "sql_mode")
    unknown = unknown_mode(sql_mode)
    if unknown:
        raise _entry_error(f"sql_mode {unknown[:40]!r} is not one of TiDB's: {', '.join(sorted(SQL_MODES))}")
    table = _text(body, "table") or table_of(query, db, mode, sql_mode)
    return [DdlRecord(_feed(body, history), when, db, table, query, mode=mode, sql_mode=sql_mode)]


def table_of(query: str, db: str, mode: str, sql_mode: str = "") -> str:
    """The table that a statement is about, "" for none; RENAME: its new name. DdlError where it can't be read."""
    modes = {"wire": LexicalMode(backslashes=False), "show": SHOW}
    statement = parse(query, modes.get(mode) or LexicalMode.of_sql_mode(sql_mode), db)
    match statement:
        case ddl.AlterTable() | ddl.CreateTable() | ddl.TruncateTable():
            return statement.table.table
        case ddl.RenameTables():
            return statement.pairs[-1][1].table
        case ddl.DropTables():
            return statement.tables[0].table
        case ddl.RecoverTable() if statement.table:
            return statement.new or statement.table.table
    return ""


def record_snapshot(body: Json, history: HistoryReader, view: RegistryView) -> list[DdlRecord]:
    """A snapshot: {"query"} (SHOW CREATE TABLE), {"subject", "version"}, or {"message", "format"}.

    Without commit_ts or time it counts from where the changefeed is sealed, or from now. RegistryError as `record_ddl`.
    """
    _check_known(body, SNAPSHOT_FIELDS)
    sources = [name for name in ("query", "subject", "message") if name in body]
    if len(sources) != 1:
        raise _entry_error("one of query (SHOW CREATE TABLE), subject or message is needed")
    name = _feed(body, history)
    when = _snapshot_time(body, name, history)
    entry = {"query": _fill_from_statement, "subject": _fill_from_subject, "message": _message}[sources[0]]
    return [entry(body, DdlRecord(name, when, _text(body, "db"), _text(body, "table"), "", "snapshot"), view)]


def record_tables(body: Json, tables: Iterable[Table], history: HistoryReader) -> list[DdlRecord]:
    """Snapshots of many tables at once: of a dump, or a live TiDB. body: as of `record_snapshot`, without a source.

    A table with a literal TIMESTAMP default in UTC is kept as it is: its text would be read in the session's zone.
    """
    name = _feed(body, history)
    when = _snapshot_time(body, name, history)
    records = []
    for table in tables:
        record = DdlRecord(name, when, *table.id, "", "snapshot")
        in_utc = any(not column.default_unzoned for column in literal_timestamps(table))
        text = show_create(table, unknown="(NULL)")
        records.append(_form(record, table, "") if in_utc else replace(record, query=text, mode="show"))
    return records


def _snapshot_time(body: Json, changefeed: str, history: HistoryReader) -> int:
    """When it counts from: as it says, or from where the changefeed is sealed, or from now."""
    when = _when(body)
    if when is None:
        sealed = {entry.name: entry.sealed_ts for entry in history.changefeeds()}
        when = sealed.get(changefeed) or None
    return ms_to_tso(time.time_ns() // 1_000_000) if when is None else when


def _fill_from_statement(body: Json, record: DdlRecord, _view: RegistryView) -> DdlRecord:
    query = _text(body, "query", None)
    table = table_of(query, record.db, "show")
    if record.table and record.table.lower() != table.lower():
        raise _entry_error(f"the statement creates {table!r}, not {record.table!r}")
    return replace(record, query=query, mode="show", table=table)


def _fill_from_subject(body: Json, record: DdlRecord, view: RegistryView) -> DdlRecord:
    subject, version = _text(body, "subject", None), body.get("version")
    if version in (None, "latest"):
        number = None
    elif type(version) is int and 0 < version < 1 << 31:
        number = version
    else:
        raise _entry_error("version is a number, or latest")
    text, number = view.text(subject, number)
    key = None
    if subject.endswith("-value"):
        with suppress(RegistryError):  # a table without primary key has none
            key = view.text(subject.removesuffix("-value") + "-key", None)[0]
    table, reason = table_of_schemas(text, key, record.db, record.table, f"{subject} version {number}")
    return _form(record, table, reason)


def _form(record: DdlRecord, table: Table, partial: str) -> DdlRecord:
    return replace(record, db=table.id.db, table=table.id.table, mode="form", carried=table, partial=partial)


def _message(body: Json, record: DdlRecord, _view: RegistryView) -> DdlRecord:
    """A Simple BOOTSTRAP or DDL message, or a Debezium DDL message with tableChanges."""
    # With all formats, which a start has no use for.
    from ticdc_bridge.schemas.inputs.schema_files import FileSchemas
    from ticdc_bridge.schemas.inspect.format_lookup import format_named

    message = body["message"]
    if not isinstance(message, dict):
        raise _entry_error("message: an object with key_b64 and value_b64 is needed")
    try:
        key, value = (
            None if message.get(name) is None else base64.b64decode(message[name], validate=True)
            for name in MESSAGE_FIELDS
        )
        decoder = format_named(_text(body, "format", "auto")).decoder(Context(FileSchemas([], "a snapshot")))
        events = decoder.decode(Message(key, value))
    except (TypeError, binascii.Error, ValueError) as error:
        raise _entry_error(f"message: {error}") from error
    except WireError as error:
        raise _entry_error(f"message: {error.detail}") from error
    for event in events:
        pair = table_after_event(event) if isinstance(event, DdlEvent) else None
        if pair is not None:
            table, partial = pair
            id_ = TableId(record.db or table.id.db, record.table or table.id.table)
            return _form(record, replace(table, id=id_), partial)
    raise _entry_error("message: it describes no table; a Simple BOOTSTRAP, or a Debezium DDL with tableChanges, does")


# ---- fields
def _check_known(body: Json, names: Sequence[str]) -> None:
    unknown = sorted(body.keys() - set(names))
    if unknown:
        raise _entry_error(f"{', '.join(unknown)[:200]}: not known; known: {', '.join(sorted(names))}")


def _feed(body: Json, history: HistoryReader) -> str:
    if body.get("changefeed") is None:
        existing = history.changefeeds()
        if len(existing) > 1:
            raise RegistryError("WHICH_CHANGEFEED", known=", ".join(entry.name for entry in existing))
        return existing[0].name if existing else DEFAULT_CHANGEFEED
    name = _text(body, "changefeed")
    if not name or len(name) > 200 or not name.isprintable():
        raise _entry_error("changefeed: a name of 1 to 200 characters is needed")
    return name


def _text(body: Json, name: str, default: str | None = "") -> str:
    value = body.get(name, default)
    if not isinstance(value, str):
        raise _entry_error(f"{name}: a text is needed")
    return clean(value)


def _when(body: Json) -> int | None:
    ts, moment = body.get("commit_ts"), body.get("time")
    if type(ts) is int and 0 <= ts <= MAX_TSO:
        return ts
    if ts is None and moment is None:
        return None
    text = moment if ts is None else ts
    if not isinstance(text, str):
        raise RegistryError("INVALID_TIME", text=str(text)[:80])
    return tso_of(text)


def _entry_error(details: str) -> RegistryError:
    return RegistryError("UNPROCESSABLE", details=details)
