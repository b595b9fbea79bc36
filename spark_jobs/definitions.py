"""`--ddl FILE`: table definitions for formats that lack them.

JSON lines {"commit_ts", "db", "query"} with DDL as TiCDC sends it; `"typed": true` marks a statement as typed (with
its `"sql_mode"`), `"mode": "show"` the output of SHOW CREATE TABLE, which replaces what was known of the table. Or a
golden's meta.json: the columns its DDL steps list, else their SQL.
"""

from __future__ import annotations

import json
from bisect import bisect_left
from pathlib import Path
from typing import Any

from schemas.ddl.lexer import SHOW, TYPED, WIRE, Mode
from schemas.ddl.versions import DdlText, versions
from schemas.errors import DdlError, SetupError
from schemas.names import sanitise_name
from schemas.table import Column, Table, TableId, TableVersion, Value
from schemas.types import BY_CODE, Kind

_TEMPORAL = (Kind.DATETIME, Kind.TIMESTAMP, Kind.TIME)
_NO_LENGTH = -1


class Definitions:
    """Table versions by name and time (schemas.ports.TableSource)."""

    def __init__(self, versions: list[TableVersion]) -> None:
        self._by_id: dict[TableId, list[TableVersion]] = {}
        for version in sorted(versions, key=lambda v: v.commit_ts):
            self._by_id.setdefault(version.table.id, []).append(version)
        self._by_avro: dict[TableId, list[TableId]] = {}
        for id_ in self._by_id:
            self._by_avro.setdefault(_avro_id(id_), []).append(id_)

    @classmethod
    def read(cls, path: Path, zone: str | None = None) -> Definitions:
        """zone: of literal TIMESTAMP defaults in DDL text. SetupError USAGE when the file has another form."""
        try:
            text = path.read_text(encoding="utf-8")
            meta = _meta(text)
            return cls(_of_lines(text, zone) if meta is None else _of_meta(meta, zone))
        except OSError as error:
            raise SetupError("USAGE", details=f"--ddl {path}: {error.strerror or error}") from error
        except DdlError as error:
            raise SetupError("USAGE", details=f"--ddl {path}: {error.detail}") from error
        except (ValueError, LookupError, TypeError, AttributeError, RecursionError) as error:
            details = f"--ddl {path}: not JSON lines of DDL, nor a golden's meta.json ({type(error).__name__}: {error})"
            raise SetupError("USAGE", details=details) from error

    def at(self, table: TableId, commit_ts: int | None) -> TableVersion | None:
        return _newest_before(self._by_id.get(table, []), commit_ts)

    def sanitised(self, table: TableId, columns: tuple[str, ...], commit_ts: int | None) -> TableVersion | None:
        found: list[TableVersion] = []
        for id_ in self._by_avro.get(table, []):
            versions = self._by_id[id_]
            # Without a commit_ts any version can be meant.
            found += versions if commit_ts is None else filter(None, [_newest_before(versions, commit_ts)])
        # The columns tell which: all of a version's, or (a key-only delete) some of them. Where they fit versions that
        # differ, or two tables that Avro calls the same, none is taken: the registered schema is what is known.
        names = {id(v): tuple(sanitise_name(c.name) for c in v.table.columns) for v in found}
        same = [v for v in found if names[id(v)] == columns] or [v for v in found if set(columns) <= set(names[id(v)])]
        return same[-1] if len({v.table for v in same}) == 1 else None


def _meta(text: str) -> dict[str, Any] | None:
    """A golden's meta.json: one object, with steps."""
    try:
        found = json.loads(text)
    except ValueError:
        return None
    return found if isinstance(found, dict) and "steps" in found else None


def _of_lines(text: str, zone: str | None) -> list[TableVersion]:
    statements = []
    for number, line in enumerate(text.split("\n"), 1):
        if line.strip():
            try:
                statements.append(_statement(json.loads(line)))
            except (ValueError, LookupError, TypeError) as error:
                raise ValueError(f"line {number}: {error}") from error
    if not statements:
        raise ValueError("it is empty")
    return versions(sorted(statements, key=lambda s: s.commit_ts), zone)


def _statement(found: dict[str, Any]) -> DdlText:
    commit_ts, db, query = found["commit_ts"], found.get("db", ""), found["query"]
    if type(commit_ts) is not int or not isinstance(db, str) or not isinstance(query, str):
        raise ValueError("commit_ts must be a whole number, db and query texts")
    mode = found.get("mode", "typed" if found.get("typed") else "wire")
    if mode not in _MODES:
        raise ValueError(f"mode {mode!r}: wire, typed or show is needed")
    return DdlText(commit_ts, db, query, Mode.typed(found.get("sql_mode", "")) if mode == "typed" else _MODES[mode])


_MODES = {"wire": WIRE, "typed": TYPED, "show": SHOW}


def _of_meta(meta: dict[str, Any], zone: str | None) -> list[TableVersion]:
    steps = [step for step in meta["steps"] if step["kind"] == "ddl"]
    if any(map(_is_table, steps)):
        return [_version(step) for step in steps if _is_table(step)]
    texts = [DdlText(step["commit_ts"], step["schema"], step["sql"], TYPED) for step in steps]
    return versions(texts, zone or meta.get("session_tz") or meta.get("tz"))


def _is_table(step: dict[str, Any]) -> bool:
    """A view's columns have no type; it has no rows either."""
    return bool(step.get("columns")) and all(c["mysql_type"] for c in step["columns"])


def _avro_id(id_: TableId) -> TableId:
    return TableId(sanitise_name(id_.db), sanitise_name(id_.table))


def _newest_before(versions: list[TableVersion], commit_ts: int | None) -> TableVersion | None:
    """A row whose commit_ts equals a DDL's belongs to the version before that DDL."""
    index = len(versions) if commit_ts is None else bisect_left(versions, commit_ts, key=lambda v: v.commit_ts)
    return versions[index - 1] if index else None


def _version(step: dict[str, Any]) -> TableVersion:
    table = Table(TableId(step["schema"], step["table"]), tuple(_column(c) for c in step["columns"]))
    return TableVersion(step["commit_ts"], table)


def _column(listed: dict[str, Any]) -> Column:
    kind = BY_CODE[listed["mysql_type"], listed["charset"] == "binary"]
    scale = None
    if kind.kind in _TEMPORAL or kind.kind is Kind.DECIMAL:
        scale = max(listed["decimal"], 0)
    elif kind.kind is Kind.FLOAT and listed["decimal"] != _NO_LENGTH:
        scale = listed["decimal"]
    default = listed["default"]
    expression = isinstance(default, str) and default.upper().startswith("CURRENT_TIMESTAMP")
    return Column(
        listed["name"],
        kind,
        unsigned=listed["unsigned"] and kind.kind not in (Kind.BIT, Kind.YEAR),
        length=listed["flen"] if kind.kind in (Kind.DECIMAL, Kind.BIT) else None,
        scale=scale,
        elements=tuple(listed.get("elems") or ()),
        nullable=not listed["not_null"],
        has_default=default is not None,
        default=_default(kind.kind, default),
        default_is_expr=expression,
        handle_key=listed["handle_key"],
        primary_key=listed["pri_key"],
        virtual=listed.get("generated") == "virtual",
        charset=listed["charset"],
        collate=listed["collate"],
        id=listed["id"],
    )


def _default(kind: Kind, default: Any) -> Value:
    if isinstance(default, dict):
        return bytes.fromhex(default["hex"])
    if default is not None and kind in (Kind.BIT, Kind.BINARY):
        return str(default).encode()
    return None if default is None else str(default)
