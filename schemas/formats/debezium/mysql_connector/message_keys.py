"""What a message's key says of a connector's row, whoever made the key.

The connector's own key is an object of the key's columns. Another converter or transform makes a number, a text or a
list of it, and a topic router adds the table's name: the row is in the value, so none of these is an error.
Source: Debezium's `ByLogicalTableRouter` (key.field.name).
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from typing import Any, NamedTuple

from ticdc_bridge.schemas.model.table import TableId

ROUTER_FIELD = "__dbz__physicalTableIdentifier"


class MessageKey(NamedTuple):
    """A key. given: the message has one. values: by column, {} where it names none; columns: their names.

    single: a bare number or text.

    schema: the key's Connect schema, None without one, and what stands for it in caches. router_table: the table's name
    that a topic router added, "".
    """

    given: bool
    values: Mapping[str, Any]
    columns: tuple[str, ...] = ()
    single: Any = None
    token: Hashable = None
    schema: Mapping[str, Any] | None = None
    router_table: str = ""

    def table(self) -> TableId | None:
        """The table that the key names: by its router, or in its schema's name (`prefix.db.table.Key`)."""
        if self.router_table:
            return table_of_name(self.router_table)
        name = self.schema.get("name") if self.schema is not None else None
        return table_of_name(name.removesuffix(".Key")) if isinstance(name, str) and name.endswith(".Key") else None


NO_KEY = MessageKey(False, {})
OPAQUE_KEY = MessageKey(True, {})


def message_key(payload: Any, token: Hashable, schema: Mapping[str, Any] | None) -> MessageKey:
    """A key that was read."""
    if not isinstance(payload, dict):
        return OPAQUE_KEY if payload is None or isinstance(payload, list | bool) else MessageKey(True, {}, (), payload)
    router = ""
    if ROUTER_FIELD in payload:
        payload, named = dict(payload), payload[ROUTER_FIELD]
        del payload[ROUTER_FIELD]
        router = named if isinstance(named, str) else ""
    return MessageKey(True, payload, tuple(payload), None, token, schema, router)


def table_of_name(name: str) -> TableId | None:
    """`prefix.db.table` → the table; None for a name of fewer parts."""
    parts = name.split(".")
    return TableId(parts[-2], parts[-1]) if len(parts) >= 3 and all(parts) else None
