"""Change events → records of a history."""

import json
from dataclasses import replace
from typing import Any

from ticdc_bridge.schemas.ddl.executor.catalog import new_catalog
from ticdc_bridge.schemas.ddl.executor.versions import DdlText, apply_text, literal_timestamps
from ticdc_bridge.schemas.ddl.parser.lexer import SHOW, WIRE, mode_of
from ticdc_bridge.schemas.model.errors import DdlError
from ticdc_bridge.schemas.model.event import MAX_TSO, Bootstrap, DdlEvent, Message, ms_to_tso
from ticdc_bridge.schemas.model.reasons import reason_of
from ticdc_bridge.schemas.model.table import Table
from ticdc_bridge.service.history.manual_entry import table_after_event
from ticdc_bridge.service.history.model import DdlRecord, clean
from ticdc_bridge.service.history.statements import ALTERED

MAY_LACK_WATERMARKS = frozenset({"canal-json", "debezium", "debezium-avro", "debezium-mysql", "debezium-tidb"})
"""Formats whose watermarks come only with TiCDC's extension, or never."""


class UnusableEvent(ValueError):
    """An event, or a line, that a history can't take; the text says why."""


def record_of(changefeed: str, event: DdlEvent, message: Message) -> DdlRecord:
    """The record of a DDL event, or of a table that is shown. UnusableEvent without a commit_ts or a statement."""
    where = {"topic": clean(message.topic or ""), "partition": message.partition or 0, "offset": message.offset}
    of: dict[str, Any] = {"format": event.format, **where}
    db, table = clean(event.db), clean(event.table)
    if isinstance(event, Bootstrap):
        if event.schema is None or not _has_usable_names(event.schema):
            raise UnusableEvent("bootstrap without a table that has a name")
        since = event.schema_version if event.commit_ts is None else event.commit_ts
        return DdlRecord(changefeed, _tso(since), db, table, "", "snapshot", mode="form", carried=event.schema, **of)
    commit_ts = event.commit_ts
    if commit_ts is None and isinstance(event.extra.get("es"), int):
        commit_ts = ms_to_tso(event.extra["es"])  # Canal-JSON without extension tells the millisecond only
    if commit_ts is None:
        raise UnusableEvent("DDL without commit_ts")
    if not event.query.strip():
        raise UnusableEvent("DDL without a statement")
    carried, partial = table_after_event(event) or (None, "")
    if carried is not None and not _has_usable_names(carried):
        carried = None
    mode = "wire" if mode_of(event.format) is WIRE else "typed"
    mode = mode if clean(event.query) == event.query else ALTERED
    return DdlRecord(
        changefeed, _tso(commit_ts), db, table, clean(event.query), ddl_type=event.ddl_type, mode=mode, carried=carried,
        partial=partial, **of,
    )  # fmt: skip


def _has_usable_names(table: Table) -> bool:
    """True if its names can be kept as they are."""
    return bool(table.id.db and table.id.table) and all(clean(piece) == piece for piece in table.id)


def _tso(number: int) -> int:
    if not 0 <= number <= MAX_TSO:
        raise UnusableEvent(f"commit_ts {str(number)[:30]} is no TSO")
    return number


def records_of_line(changefeed: str, object_: dict[str, Any]) -> list[DdlRecord]:
    """Records of a line of DDL: {"commit_ts", "db", "query"} (as `--ddl` of decode), or a recorded history's.

    Nobody will ever resolve them, so they are sealed at once. UnusableEvent for a line of another form.
    """
    try:
        if "wire" in object_:
            wire = object_["wire"] if object_.get("ok", True) else []
            return [_line(changefeed, w["ts"], w["scm"], w["tbl"], w["q"], w.get("t")) for w in wire]
        mode = object_.get("mode", "typed" if object_.get("typed") else "wire")
        if mode not in ("wire", "typed", "show"):
            raise UnusableEvent(f"mode {mode!r}: wire, typed or show is needed")
        table, kind = object_.get("table", ""), object_.get("ddl_type")
        of = (
            object_["commit_ts"], object_.get("db", ""), table, object_["query"], kind, mode,
            object_.get("sql_mode", ""),
        )  # fmt: skip
        record = _line(changefeed, *of)
        return [_with_zone(record, object_["zone"]) if object_.get("zone") and mode == "show" else record]
    except (LookupError, TypeError, AttributeError) as error:
        raise UnusableEvent(f"not a line of DDL: {reason_of(error)}") from error


def _with_zone(record: DdlRecord, zone: Any) -> DdlRecord:
    """A snapshot whose literal TIMESTAMP defaults are in a zone of their own, as `history export` writes it."""
    try:
        [table] = apply_text(new_catalog(), DdlText(record.commit_ts, record.db, record.query, SHOW, str(zone)))[1]
    except (DdlError, ValueError) as error:
        raise UnusableEvent(reason_of(error)) from error
    if not literal_timestamps(table):
        return record
    return replace(record, db=table.id.db, table=table.id.table, query="", mode="form", carried=table)


def _line(
    changefeed: str, commit_ts: Any, db: Any, table: Any, query: Any, ddl_type: Any = None, mode: str = "wire",
    sql_mode: Any = "",
) -> DdlRecord:  # fmt: skip
    if type(commit_ts) is not int or not all(isinstance(text, str) for text in (db, table, query, sql_mode)):
        raise UnusableEvent("commit_ts must be a whole number; db, table and query texts")
    if type(ddl_type) is not int or not -1 < ddl_type < 1 << 31:
        ddl_type = None
    return DdlRecord(
        changefeed, _tso(commit_ts), clean(db), clean(table), clean(query), "snapshot" if mode == "show" else "ddl",
        ddl_type=ddl_type, mode=mode, sql_mode=clean(sql_mode), unsealed_source=True,
    )  # fmt: skip


def object_of(line: bytes) -> dict[str, Any]:
    """A line's JSON object. UnusableEvent."""
    try:
        object_ = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise UnusableEvent(f"not JSON: {reason_of(error)}"[:300]) from error
    if not isinstance(object_, dict):
        raise UnusableEvent("not a JSON object")
    return object_
