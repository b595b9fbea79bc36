"""Replays recorded DDL histories: one JSON line in, one JSON line out with the tables as they are afterwards.

A line is {"script", "seq", "db", "ddl", "sql_mode", "ok", "wire": [{"ts", "scm", "tbl", "t", "q"}]}. Mode `wire` reads
`wire[].q`, as TiCDC sends statements; mode `typed` reads `ddl` as it was typed under `db` and `sql_mode`. Catalogs
start empty at each new script.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from typing import Any, Literal

from ticdc_bridge.schemas.ddl.executor.apply import affected_tables, apply
from ticdc_bridge.schemas.ddl.executor.catalog import Catalog, new_catalog
from ticdc_bridge.schemas.ddl.executor.indexes import PRIMARY
from ticdc_bridge.schemas.ddl.parser.lexer import WIRE, LexicalMode
from ticdc_bridge.schemas.ddl.parser.statement_parser import parse
from ticdc_bridge.schemas.model.errors import DdlError, SetupError
from ticdc_bridge.schemas.model.reasons import reason_of
from ticdc_bridge.schemas.model.table import Column, Table, TableId
from ticdc_bridge.schemas.model.type_text import default_text, type_text

HistoryMode = Literal["wire", "typed"]


def replay(lines: Iterable[str], mode: HistoryMode) -> Iterator[dict[str, Any]]:
    """Lines of a history → one result a line. SetupError USAGE for a line of another form.

    `ok` false: the statement could not be read or applied (`error` says why); the catalog stays as it was.
    """
    catalog, script = new_catalog(), None
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        recorded = _read_recorded(line, number)
        if recorded["script"] != script:
            catalog, script = new_catalog(), recorded["script"]
        before = catalog
        try:
            statements = _statements(recorded, mode)
            catalog, ids = _apply_all(catalog, statements if recorded["ok"] else [])
            error = None
        except DdlError as problem:
            catalog, ids, error = before, (), problem.detail
        yield _result(recorded, before, catalog, ids, error)


def _read_recorded(line: str, number: int) -> dict[str, Any]:
    try:
        document = json.loads(line)
        record = {name: document[name] for name in ("script", "seq", "db", "ddl", "sql_mode", "ok", "wire")}
        record["wire"] = [(entry["scm"], entry["q"]) for entry in record["wire"]]
    except (ValueError, LookupError, TypeError, RecursionError) as error:
        details = f"line {number} is no line of a DDL history: {reason_of(error)}"
        raise SetupError("USAGE", details=details) from error
    return record


def _statements(recorded: dict[str, Any], mode: HistoryMode) -> list[tuple[str, Any]]:
    """(database, statement) pairs of a line, parsed."""
    if mode == "typed":
        db = recorded["db"]
        return [(db, parse(recorded["ddl"], LexicalMode.of_sql_mode(recorded["sql_mode"]), db))]
    return [(db, parse(query, WIRE, db)) for db, query in recorded["wire"]]


def _apply_all(catalog: Catalog, statements: list[tuple[str, Any]]) -> tuple[Catalog, tuple[TableId, ...]]:
    ids: list[TableId] = []
    for db, statement in statements:
        ids += affected_tables(catalog, statement, db)
        catalog = apply(catalog, statement, db)
    return catalog, tuple(ids)


def _result(
    recorded: dict[str, Any], before: Catalog, after: Catalog, ids: Iterable[TableId], error: str | None
) -> dict[str, Any]:
    unique = list(dict.fromkeys(i.folded for i in ids))
    dropped_ids = [table_id for i in unique if (table_id := before.exists(i)) and not after.exists(i)]
    # IF NOT EXISTS of what exists, and other statements without effect, touch nothing.
    tables = [] if after is before else [t for i in unique if (t := after.table(i))]
    return {
        "script": recorded["script"], "seq": recorded["seq"], "ok": error is None, "error": error,
        "tables": [table_form(t) for t in tables], "gone": [list(i) for i in dropped_ids],
    }  # fmt: skip


def table_form(table: Table) -> dict[str, Any]:
    """A table as a JSON object; types as SHOW CREATE TABLE writes them, default values as texts."""
    return {
        "db": table.id.db, "table": table.id.table, "columns": [column_form(c) for c in table.columns],
        "primary_key": next((list(i.columns) for i in table.indexes if i.name == PRIMARY), []),
        "unique_keys": {i.name: list(i.columns) for i in table.indexes if i.unique and i.name != PRIMARY},
    }  # fmt: skip


def column_form(column: Column) -> dict[str, Any]:
    """A column as a JSON object, as `table_form`."""
    default = default_text(column)
    return {
        "name": column.name, "type": type_text(column), "nullable": column.nullable, "charset": column.charset,
        "collate": column.collate, "default": {"hex": default.hex()} if isinstance(default, bytes) else default,
        "default_is_expr": column.default_is_expr, "auto_increment": column.auto_increment,
        "generated": column.generated, "stored": column.generated is not None and not column.virtual,
        "comment": column.comment,
    }  # fmt: skip
