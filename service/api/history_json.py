"""Table histories as JSON."""

from typing import Any

from ticdc_bridge.service.errors import RegistryError
from ticdc_bridge.service.history import model
from ticdc_bridge.service.history.changes import NamePaths
from ticdc_bridge.service.history.changes import changes as table_changes
from ticdc_bridge.service.history.model import WHAT_TO_DO, DdlRecord, HistoryState, TableVersionRow, time_text
from ticdc_bridge.service.history.statements import statement_or_none

Json = dict[str, Any]


def listing(
    feed: HistoryState, name: str, items: list[Json], offset: int, limit: int, count: int | None = None, **more: Any
) -> Json:
    """A page of a list; next_offset is null on the last one. count: of all items, None where it is not known."""
    has_more = len(items) == limit if count is None else offset + limit < count
    head = {"changefeed": feed.name, "sealed_ts": feed.sealed_ts, **more}
    return {**head, name: items, "next_offset": offset + limit if has_more else None}


def changefeed(
    feed: HistoryState, numbers: dict[str, int], positions: dict[model.PartitionKey, tuple[int | None, int | None]]
) -> Json:
    return {
        "changefeed": feed.name,
        "sealed_ts": feed.sealed_ts,
        "sealed_time": time_text(feed.sealed_ts) if feed.sealed_ts else None,
        "ddl_time_zone": feed.zone or None,
        "events": {state: numbers.get(state, 0) for state in ("sealed", "pending", "failed")},
        "drift": numbers.get("drift", 0),
        "partitions": [
            {"topic": topic, "partition": partition, "next_offset": offset, "watermark": watermark}
            for (topic, partition), (offset, watermark) in sorted(positions.items())
        ],
    }


def name(row: model.NameRow, contradicted: model.Contradiction | None = None) -> Json:
    """A name with its newest version. contradicted: what rows and messages say against it."""
    return {
        "db": row.id.db, "table": row.id.table, "state": str(row.state), "table_id": row.table_id or None,
        "commit_ts": row.from_ts, "since": row.since, **({"reason": row.reason} if row.reason else {}),
        **({"relation": row.relation} if row.relation else {}),
        **({"contradicted": contradicted.form()} if contradicted else {}),
    }  # fmt: skip


def version(row: TableVersionRow, ddl: DdlRecord | None, contradicted: model.Contradiction | None = None) -> Json:
    return {
        "commit_ts": row.from_ts, "time": time_text(row.from_ts), "to_ts": row.to_ts, "state": str(row.state),
        "table_id": row.table_id or None, "since": row.since, "reason": row.reason or None,
        "columns": len(row.table.columns) if row.table is not None and row.is_live else None,
        "ddl": None if ddl is None else event(ddl), "contradicted": contradicted.form() if contradicted else None,
    }  # fmt: skip


_SIGNS = {"added": "new", "dropped": "gone"}


def changes(row: TableVersionRow, before: TableVersionRow | None, ddl: DdlRecord | None) -> list[Json]:
    """The changes of a version since the one before it; nothing where there is no table on one side."""
    if before is None or before.table is None or row.table is None or not (before.is_live and row.is_live):
        return []
    paths = NamePaths.of(before.table).after(statement_or_none(ddl), row.table)
    differences = table_changes(before.table, row.table, paths)
    return [{"kind": _SIGNS.get(difference.kind, "changed"), "text": difference.text} for difference in differences]


def event(record: DdlRecord) -> Json:
    return {
        "commit_ts": record.commit_ts,
        "time": time_text(record.commit_ts),
        **{name: getattr(record, name) for name in ("ordinal", "kind", "db", "table", "ddl_type", "query", "mode")},
        **({"sql_mode": record.sql_mode} if record.sql_mode else {}),
        **{name: getattr(record, name) for name in ("state", "unsealed_source", "copies")},
        "format": record.format or None,
        **{name: getattr(record, name) for name in ("topic", "partition", "offset", "error")},
    }


def as_of_head(as_of: model.AsOf, ts: int, inclusive: bool) -> Json:
    """The head of an as-of answer: resolved says whether DDL that is not known yet can still change it."""
    feed, ddl = as_of.changefeed, as_of.ddl
    return {
        "changefeed": feed.name, "at": ts, "at_time": time_text(ts), "inclusive": inclusive,
        "sealed_ts": feed.sealed_ts, "resolved": ts <= feed.sealed_ts, "pending": as_of.pending,
        "unsealed_source": ddl is not None and ddl.unsealed_source,
    }  # fmt: skip


def drift(entry: model.Drift) -> Json:
    return {
        **{name: getattr(entry, name) for name in ("kind", "db", "table", "commit_ts")}, "version": entry.version_ts,
        "detail": entry.detail, "count": entry.count, "last_seen": entry.seen_ms,
    }  # fmt: skip


def never_seen_error(feed: HistoryState, db: str, table: str) -> RegistryError:
    details = f": none of its DDL was seen; {WHAT_TO_DO}"
    return RegistryError("TABLE_NOT_KNOWN", table=f"{db}.{table}", changefeed=feed.name, details=details)


def not_known_error(as_of: model.AsOf, db: str, table: str) -> RegistryError:
    """Why there is no version: it was never seen, or not until later."""
    if as_of.next_ts is None:
        return never_seen_error(as_of.changefeed, db, table)
    details = f"the first that is known of it came then; {WHAT_TO_DO}"
    return RegistryError("TABLE_NOT_YET", table=f"{db}.{table}", until=as_of.next_ts, details=details)


def no_table_error(row: TableVersionRow, ddl: DdlRecord | None) -> RegistryError:
    by = f": {ddl.query[:200]}" if ddl is not None and ddl.query else ""
    if row.state is model.State.GONE:
        return RegistryError("TABLE_GONE", table=str(row.id), since=row.since, details=f"dropped or renamed{by}")
    if row.state is model.State.RELATION:
        details = f": it is a {row.relation}, which has no rows"
        return RegistryError("TABLE_NOT_KNOWN", table=str(row.id), changefeed="", details=details)
    details = f"{row.reason}; {WHAT_TO_DO}"
    return RegistryError("TABLE_UNKNOWN_SINCE", table=str(row.id), since=row.since, details=details)
