"""Rows that ExtractNewRecordState flattened: which fields it added, and what headers say.

Source: Debezium's documentation of "New Record State Extraction" and its `AbstractExtractNewRecordState`: a field of
add.fields is called prefix + field, or prefix + struct + `_` + field; `__deleted` always so.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from ticdc_bridge.schemas.codec import json_exact
from ticdc_bridge.schemas.codec.bounded_cache import BoundedCache
from ticdc_bridge.schemas.formats.base import Context
from ticdc_bridge.schemas.formats.debezium.mysql_connector.message_keys import table_of_name
from ticdc_bridge.schemas.formats.debezium.side_messages import MYSQL_ONLY, check_connector, database_of
from ticdc_bridge.schemas.model.event import Message
from ticdc_bridge.schemas.model.table import Table, TableId

DELETED = "__deleted"
_ENVELOPE = ("op", "ts_ms", "ts_us", "ts_ns", "deleted")
_SOURCE = (
    "version", "connector", "name", "ts_ms", "ts_us", "ts_ns", "snapshot", "db", "sequence", "schema", "table",
    "server_id", "gtid", "file", "pos", "row", "thread", "query", "commit_ts", "cluster_id",
)  # fmt: skip
_OTHERS = ("lsn", "txId", "xmin", "scn", "commit_scn", "change_lsn", "commit_lsn", "collection", "ord")
_TRANSACTION = ("id", "total_order", "data_collection_order")
_QUALIFIED = (*(f"source_{f}" for f in (*_SOURCE, *_OTHERS)), *(f"transaction_{f}" for f in _TRANSACTION))
_BARE = (*_ENVELOPE, *_SOURCE, *_OTHERS, "total_order", "data_collection_order")
_OF_WRITER = frozenset(p + f for f in (*_OTHERS, "connector") for p in ("", "source_"))
# Without a prefix these alone are taken for the transform's: a table has its own `name` and `version`.
_WITHOUT_PREFIX = ("op", "ts_ms", "db", "table", *_QUALIFIED)


class FlattenedRow(NamedTuple):
    """A flattened row's parts. table: whose it is, None where nothing says; op: None where nothing says.

    columns: names of the table's own columns, in order; added: what the transform added, by its names; source: what of
    it the envelope's source block had.
    """

    table: TableId | None
    op: str | None
    columns: tuple[str, ...]
    added: dict[str, Any]
    source: dict[str, Any]

    @property
    def is_marked(self) -> bool:
        """Whether deletes of this table are rows of their own (delete mode rewrite): then all have `__deleted`."""
        return DELETED in self.added


class _Plan(NamedTuple):
    """What rows with the same fields have in common. added: (name, field) of what the transform added; columns: the
    others. of_source: (field, its name in the source block). of_writer: the fields that tell the connector.
    """

    added: tuple[tuple[str, str], ...]
    columns: tuple[str, ...]
    of_source: tuple[tuple[str, str], ...]
    of_writer: tuple[str, ...]


class FlattenedRows:
    """Takes flattened rows apart, by the options and by the definitions of tables that are known."""

    def __init__(self, context: Context, format_: str) -> None:
        self._format = format_
        self._options, self._tables, self._asked = context.options, context.tables, context.table
        prefix = context.options.add_fields_prefix
        self._names = {prefix + f: f for f in (_BARE + _QUALIFIED if prefix else _WITHOUT_PREFIX)}
        self._names[DELETED] = "deleted"
        self._plans: BoundedCache[tuple[tuple[str, ...], frozenset[str]], _Plan] = BoundedCache(
            1024, 1 << 20, lambda key, _: sum(map(len, key[0]))
        )
        self._own: BoundedCache[int, tuple[Table, frozenset[str]]] = BoundedCache(4096)

    def read(self, payload: Mapping[str, Any], headers: Mapping[str, str], topic: str | None) -> FlattenedRow | None:
        """A payload's parts. None where neither a field nor a header is of the transform, and no table is named.

        ValueError for a field of another database's connector, and for an op that is none.
        """
        names = tuple(payload)
        plan = self._plan(names, frozenset())
        fields = {field: payload[name] for name, field in plan.added}
        table = self.table(fields, headers, topic) or self._asked
        if not fields and not headers and table is None:
            return None
        version = self._tables.at(table, None) if self._tables is not None and table is not None and fields else None
        own = self._own_columns(version.table) if version is not None else None
        if own:  # the table's own columns stay in the row, whatever they are called
            plan = self._plan(names, own)
            fields = {field: payload[name] for name, field in plan.added}
        for field in plan.of_writer:
            self._check_writer(field.removeprefix("source_"), fields[field])
        op = "d" if fields.get("deleted") in ("true", True) else fields.get("op") or headers.get("op")
        if op is not None and op not in ("c", "u", "d", "r"):
            raise ValueError(f"the operation {json_exact.dump(op)[:20]} of a flattened row is not c, u, d or r")
        added = {name: payload[name] for name, _ in plan.added}
        return FlattenedRow(table, op, plan.columns, added, {name: fields[field] for field, name in plan.of_source})

    def _plan(self, names: tuple[str, ...], own: frozenset[str]) -> _Plan:
        plan = self._plans.get((names, own))
        if plan is None:
            added = tuple((name, self._names[name]) for name in names if name in self._names and name not in own)
            plan = self._plans[names, own] = _Plan(
                added,
                tuple(name for name in names if name not in self._names or name in own),
                tuple((field, _OF_SOURCE[field]) for _, field in added if field in _OF_SOURCE),
                tuple(field for _, field in added if field in _OF_WRITER),
            )
        return plan

    def _own_columns(self, table: Table) -> frozenset[str]:
        """The names of what transforms add that are a table's own columns, in any letters."""
        entry = self._own.get(id(table))
        if entry is None or entry[0] is not table:
            columns = {column.name.lower() for column in table.columns}
            own = frozenset(name for name in self._names if name.lower() in columns)
            entry = self._own[id(table)] = table, own
        return entry[1]

    def headers(self, message: Message) -> dict[str, str]:
        """What the transform said in record headers (add.headers), by the field's name without prefix."""
        prefix, out = self._options.add_headers_prefix, {}
        for name, value in message.headers:
            field = name.removeprefix(prefix)
            if value is not None and name.startswith(prefix) and field in _HEADERS:
                out[field] = _header_text(value)
        return out

    def table(self, fields: Mapping[str, Any], headers: Mapping[str, str], topic: str | None) -> TableId | None:
        """Whose a row is: by what the transform added, else by the options; None where nothing says."""
        db, table = _text_of("db", fields, headers), _text_of("table", fields, headers)
        if db and table:
            return TableId(db, table)
        default = self._default_table(topic)
        return TableId(default.db, table) if table and default else default

    def _check_writer(self, field: str, value: Any) -> None:
        """ValueError for a row of a connector that the format does not read."""
        database = database_of(field)
        if database:
            raise ValueError(f"its field {field} is of the connector for {database}; {MYSQL_ONLY}")
        if field == "connector":
            check_connector({field: value}, self._format)

    def _default_table(self, topic: str | None) -> TableId | None:
        if self._options.table:
            db, _, table = self._options.table.partition(".")
            return TableId(db, table)
        return table_of_name(topic) if self._options.table_from_topic and topic else None


_OF_SOURCE = {f"source_{name}": name for name in _SOURCE} | {n: n for n in _SOURCE if n not in _ENVELOPE}
"""A field that was added → that of the source block: a time alone is the envelope's, `source_ts_ms` the commit's."""
_HEADERS = ("op", "db", "table", "source_db", "source_table")


def _text_of(name: str, *places: Mapping[str, Any]) -> str:
    for place in places:
        value = place.get(name) or place.get("source_" + name)
        if isinstance(value, str):
            return json_exact.utf8(value, name)
    return ""


def _header_text(value: bytes) -> str:
    """A header of Connect's simple converter, or of its JSON converter with schema or without."""
    text = value.decode("utf-8", "replace")
    if text[:1] not in ('"', "{"):
        return text
    try:
        content = json_exact.decode(text)
    except ValueError:
        return text
    content = content.get("payload") if isinstance(content, dict) else content
    return content if isinstance(content, str) else text
