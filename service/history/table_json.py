"""Replays recorded DDL histories: one JSON line in, one JSON line out with the tables as they are afterwards.

A line is {"script", "seq", "db", "ddl", "sql_mode", "ok", "wire": [{"ts", "scm", "tbl", "t", "q"}]}. Mode `wire` reads
`wire[].q`, as TiCDC sends statements; mode `typed` reads `ddl` as it was typed under `db` and `sql_mode`. Catalogs
start empty at each new script.
"""

import json
from collections.abc import Iterable, Iterator
from typing import Any, Literal

from ticdc_bridge.schemas.ddl.executor.apply import affected_tables, apply
from ticdc_bridge.schemas.ddl.executor.catalog import new_catalog
from ticdc_bridge.schemas.ddl.executor.indexes import PRIMARY
from ticdc_bridge.schemas.ddl.parser.lexer import WIRE, LexicalMode
from ticdc_bridge.schemas.ddl.parser.statement_parser import parse
from ticdc_bridge.schemas.model.errors import DdlError
from ticdc_bridge.schemas.model.reasons import usage_errors
from ticdc_bridge.schemas.model.table import Column, Table, TableId
from ticdc_bridge.schemas.model.type_text import default_text, type_text

HistoryMode = Literal["wire", "typed"]


def replay(lines: Iterable[str], mode: HistoryMode) -> Iterator[dict[str, Any]]:
    """Lines of a history → one result a line (`ok` false: `error` says why). SetupError USAGE for another form."""
    catalog, script = new_catalog(), None
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        what = f"line {number} is no line of a DDL history"
        with usage_errors(what, ValueError, LookupError, TypeError, RecursionError):
            document = json.loads(line)
            recorded = {name: document[name] for name in ("script", "seq", "db", "ddl", "sql_mode", "ok", "wire")}
            recorded["wire"] = [(entry["scm"], entry["q"]) for entry in recorded["wire"]]
        if recorded["script"] != script:
            catalog, script = new_catalog(), recorded["script"]
        before = catalog
        db, sql_mode, error, ids = recorded["db"], recorded["sql_mode"], None, list[TableId]()
        try:
            if mode == "typed":
                statements = [(db, parse(recorded["ddl"], LexicalMode.of_sql_mode(sql_mode), db))]
            else:
                statements = [(db, parse(query, WIRE, db)) for db, query in recorded["wire"]]
            for db, statement in statements if recorded["ok"] else ():
                ids += affected_tables(catalog, statement, db)
                catalog = apply(catalog, statement, db)
        except DdlError as problem:
            catalog, ids, error = before, [], problem.detail
        unique = dict.fromkeys(id_.folded for id_ in ids)
        gone = [list(id_) for i in unique if (id_ := before.exists(i)) and not catalog.exists(i)]
        # IF NOT EXISTS of what exists, and other statements without effect, touch nothing.
        tables = [] if catalog is before else [table_form(t) for i in unique if (t := catalog.table(i))]
        head = {"script": recorded["script"], "seq": recorded["seq"]}
        yield {**head, "ok": error is None, "error": error, "tables": tables, "gone": gone}


def table_form(table: Table) -> dict[str, Any]:
    """A table as a JSON object; types in TiDB's short form, which leaves ZEROFILL out, default values as texts."""
    return {
        "db": table.id.db, "table": table.id.table, "columns": [column_form(c) for c in table.columns],
        "primary_key": next((list(i.columns) for i in table.indexes if i.name == PRIMARY), []),
        "unique_keys": {i.name: list(i.columns) for i in table.indexes if i.unique and i.name != PRIMARY},
    }  # fmt: skip


def column_form(column: Column) -> dict[str, Any]:
    default = default_text(column)
    return {
        "name": column.name, "type": type_text(column).removesuffix(" zerofill"), "zerofill": column.zerofill,
        "nullable": column.nullable, "charset": column.charset,
        "collate": column.collate, "default": {"hex": default.hex()} if isinstance(default, bytes) else default,
        "default_is_expr": column.default_is_expr, "auto_increment": column.auto_increment,
        "generated": column.generated, "stored": column.generated is not None and not column.virtual,
        "comment": column.comment,
    }  # fmt: skip
