"""Tables that messages describe themselves: Simple's tableSchema, Debezium's tableChanges."""

from __future__ import annotations

from typing import Final

from schemas.codec.table_changes import table_after
from schemas.event import DdlEvent
from schemas.table import Table, TableId

_NOT_TOLD: Final = "Debezium's tableChanges do not tell some of its defaults"


def table_after_event(event: DdlEvent) -> tuple[Table, str] | None:
    """(the table after a DDL event, what is not known of it), where the message tells it."""
    if event.schema is not None:
        return event.schema, ""
    found = table_after(event.extra.get("tableChanges"), TableId(event.db, event.table))
    if found is None:
        return None
    return found, _NOT_TOLD if any(c.vague for c in found.columns) else ""
