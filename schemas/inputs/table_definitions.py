"""`--ddl SOURCE`: table definitions for formats that lack them.

SQL, JSON lines of DDL (`schemas.inputs.definition_files`; a SHOW CREATE TABLE replaces what was known of the table), a
folder of SQL, a live TiDB (`schemas.inputs.table_sources`), or a golden's meta.json: the columns its DDL steps list.
"""

from __future__ import annotations

from bisect import bisect_left
from pathlib import Path
from typing import Any

from ticdc_bridge.schemas.ddl.executor.versions import DdlText, versions
from ticdc_bridge.schemas.inputs.definition_files import meta_of
from ticdc_bridge.schemas.inputs.table_sources import definition_text, read_statements, usage_error
from ticdc_bridge.schemas.model.errors import DdlError
from ticdc_bridge.schemas.model.event import MAX_TSO
from ticdc_bridge.schemas.model.names import sanitise_name
from ticdc_bridge.schemas.model.reasons import reason_of
from ticdc_bridge.schemas.model.table import Column, Table, TableId, TableVersion, Value
from ticdc_bridge.schemas.model.types import BY_CODE, BYTES, FRACTIONAL, Kind


class TableDefinitions:
    """Table versions by name, in any letters, and time (schemas.model.ports.TableSource)."""

    def __init__(self, versions: list[TableVersion]) -> None:
        self._by_id: dict[TableId, list[TableVersion]] = {}
        for version in sorted(versions, key=lambda v: v.commit_ts):
            self._by_id.setdefault(version.table.id.folded, []).append(version)
        self._by_avro: dict[TableId, list[TableId]] = {}
        for id_, of_table in self._by_id.items():  # İ is no letter of Avro's names, and in small letters the i of it is
            for name in {version.table.id.sanitised.folded for version in of_table}:
                self._by_avro.setdefault(name, []).append(id_)

    @classmethod
    def read(cls, source: Path | str, zone: str | None = None, db: str = "") -> TableDefinitions:
        """source: a file, a folder, or a server's URL. zone: of literal TIMESTAMP defaults in DDL text. db: of names in
        SQL that have none. SetupError USAGE when it can't be read, or has another form.
        """
        try:
            meta = meta_of(definition_text(source), "steps") if isinstance(source, Path) and source.is_file() else None
            return cls(versions(statements_of(source, db), zone) if meta is None else _of_meta(meta))
        except DdlError as error:
            raise usage_error(source, error.detail) from error
        except (OSError, ValueError) as error:
            raise usage_error(source, reason_of(error)) from error
        except (LookupError, TypeError, AttributeError) as error:
            raise usage_error(source, "it is JSON, but neither lines of DDL nor a golden's meta.json") from error

    def table_ids(self) -> list[TableId]:
        """The tables, each by its newest definition's letters."""
        return [versions[-1].table.id for versions in self._by_id.values()]

    def at(self, table: TableId, commit_ts: int | None) -> TableVersion | None:
        return _newest_before(self._by_id.get(table.folded, []), commit_ts)

    def sanitised(self, table: TableId, columns: tuple[str, ...], commit_ts: int | None) -> TableVersion | None:
        candidates: list[TableVersion] = []
        for id_ in self._by_avro.get(table.folded, []):
            versions = self._by_id[id_]
            # Without a commit_ts any version can be meant.
            candidates += versions if commit_ts is None else filter(None, [_newest_before(versions, commit_ts)])
        # The columns tell which: all of a version's, or (a key-only delete) some of them. Where they fit versions that
        # differ, or two tables that Avro calls the same, none is taken: the registered schema is what is known.
        columns = tuple(name.lower() for name in columns)
        same = [v for v in candidates if v.table.avro_names == columns] or [
            v for v in candidates if set(columns) <= set(v.table.avro_names)
        ]
        return same[-1] if len({v.table for v in same}) == 1 else None

    def with_columns(self, table: TableId, columns: tuple[str, ...]) -> list[TableVersion]:
        """As schemas.model.ports.TableVersions has it."""
        columns = tuple(name.lower() for name in columns)
        candidates = [v for id_ in self._by_avro.get(table.folded, []) for v in self._by_id[id_]]
        keys = ((v, {sanitise_name(name).lower() for name in v.table.handle_key}) for v in candidates)
        return [v for v in candidates if v.table.avro_names == columns] or [v for v, k in keys if k == set(columns)]

    def sanitised_span(self, table: TableId, commit_ts: int) -> tuple[int, int]:
        """After and up to which commit_ts `sanitised` says the same (schemas.model.ports.TableSpans)."""
        after, until = -1, MAX_TSO
        for id_ in self._by_avro.get(table.folded, []):
            versions = self._by_id[id_]
            index = bisect_left(versions, commit_ts, key=lambda v: v.commit_ts)
            if index:
                after = max(after, versions[index - 1].commit_ts)
            if index < len(versions):
                until = min(until, versions[index].commit_ts)
        return after, until


def statements_of(source: Path | str | None, db: str = "") -> list[DdlText]:
    """The statements of a --ddl source; none where there is none. As `TableDefinitions.read`."""
    return [] if source is None or source == Path("stream") else read_statements(source, db).statements


def _of_meta(meta: dict[str, Any]) -> list[TableVersion]:
    """The columns that its DDL steps list; a classic meta lists none. A view's columns have no type."""
    steps = [step for step in meta["steps"] if step["kind"] == "ddl" and step.get("columns")]
    return [_version(step) for step in steps if all(c["mysql_type"] for c in step["columns"])]


def _version(step: dict[str, Any]) -> TableVersion:
    columns = tuple(map(_column, step["columns"]))
    # TiDB's id of the table says as well which versions have the column ids of one history.
    table = Table(TableId(step["schema"], step["table"]), columns, created_ts=step.get("table_id", 0))
    return TableVersion(step["commit_ts"], table)


def _newest_before(versions: list[TableVersion], commit_ts: int | None) -> TableVersion | None:
    """A row whose commit_ts equals a DDL's belongs to the version before that DDL."""
    index = len(versions) if commit_ts is None else bisect_left(versions, commit_ts, key=lambda v: v.commit_ts)
    return versions[index - 1] if index else None


def _column(listed: dict[str, Any]) -> Column:
    type_ = BY_CODE[listed["mysql_type"], listed["charset"] == "binary"]
    scale = None
    if type_.kind in FRACTIONAL or type_.kind is Kind.DECIMAL:
        scale = max(listed["decimal"], 0)
    elif type_.kind is Kind.FLOAT and listed["decimal"] != -1:  # else it has no (M,D)
        scale = listed["decimal"]
    default = listed["default"]
    expression = isinstance(default, str) and default.upper().startswith("CURRENT_TIMESTAMP")
    unsigned = listed["unsigned"] and type_.kind not in (Kind.BIT, Kind.YEAR)
    length = listed["flen"] if type_.kind in (Kind.DECIMAL, Kind.BIT) else None
    return Column(
        listed["name"], type_, unsigned, length, scale, tuple(listed.get("elems") or ()), not listed["not_null"],
        default is not None, _default(type_.kind, default), expression, handle_key=listed["handle_key"],
        primary_key=listed["pri_key"], virtual=listed.get("generated") == "virtual", charset=listed["charset"],
        collate=listed["collate"], id=listed["id"],
    )  # fmt: skip


def _default(kind: Kind, default: Any) -> Value:
    if isinstance(default, dict):
        return bytes.fromhex(default["hex"])
    if default is not None and kind in BYTES:
        return str(default).encode()
    return None if default is None else str(default)
