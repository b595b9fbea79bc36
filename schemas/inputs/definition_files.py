"""Files that stand in for a history: `--ddl FILE`.

JSON lines {"commit_ts", "db", "query"} with statements as TiCDC sends them; `"typed": true` marks a statement as
typed (with its `"sql_mode"`), `"mode": "show"` the output of SHOW CREATE TABLE; `"zone"` is that of literal TIMESTAMP
defaults. Or SQL (schemas.inputs.sql_files), or a golden's meta.json.
"""

import json
from collections.abc import Iterator
from typing import Any

from ticdc_bridge.schemas.ddl.executor.versions import DdlText
from ticdc_bridge.schemas.ddl.parser.lexer import SHOW, TYPED, WIRE, LexicalMode
from ticdc_bridge.schemas.inputs.sql_files import is_sql, sql_statements
from ticdc_bridge.schemas.model.reasons import reason_of, shown
from ticdc_bridge.schemas.model.values import zone as known_zone

LEFT_OUT = "left_out"
"""The field of a line that names a table which an export has no definition of."""
_MODES = {"wire": WIRE, "typed": TYPED, "show": SHOW}


def ddl_lines(text: str) -> list[DdlText]:
    """The statements of a file of JSON lines, in order of their commit_ts. ValueError says which line is wrong."""
    ddl_texts = []
    for number, line in number_lines(text.lstrip("\ufeff")):
        try:
            fields = json.loads(line)
        except (ValueError, RecursionError) as error:
            details = 'is not JSON: lines {"commit_ts","db","query"} are needed, or SQL alone (FILE.sql)'
            raise ValueError(f"line {number} {details}") from error
        if isinstance(fields, dict) and LEFT_OUT in fields:
            continue  # a table that `history export` could not describe
        try:
            ddl_texts.append(_statement(fields))
        except ValueError as error:
            raise ValueError(f"line {number}: {reason_of(error)}") from error
    if not ddl_texts:
        raise ValueError("it is empty")
    return sorted(ddl_texts, key=lambda s: s.commit_ts)


def ddl_of_meta(meta: dict[str, Any]) -> list[DdlText]:
    """The statements of a golden's meta.json, as they were typed. ValueError where it has another form."""
    try:
        steps = [s for s in meta["steps"] if s["kind"] == "ddl"]
        return [DdlText(s["commit_ts"], s.get("schema") or "", s["sql"], TYPED) for s in steps]
    except (LookupError, TypeError, AttributeError) as error:
        raise ValueError(f"a golden's meta.json is needed ({reason_of(error)})") from error


def statements(text: str, db: str = "") -> list[DdlText]:
    """The statements of JSON lines, SQL or a golden's meta.json. db: of SQL's names that have none. ValueError."""
    if is_sql(text):
        return sql_statements(text, db)
    meta = meta_of(text, "steps")
    return ddl_lines(text) if meta is None else ddl_of_meta(meta)


def meta_of(text: str, *keys: str) -> dict[str, Any] | None:
    """The document, where the whole text is one JSON object that has one of these keys."""
    try:
        document = json.loads(text)
    except (ValueError, RecursionError):
        return None
    return document if isinstance(document, dict) and set(keys) & document.keys() else None


def number_lines(text: str) -> Iterator[tuple[int, str]]:
    """The lines that are not blank, with their numbers from 1."""
    return ((number, line) for number, line in enumerate(text.split("\n"), 1) if line.strip())


def _statement(row: Any) -> DdlText:
    if not isinstance(row, dict):
        raise ValueError("an object with commit_ts, db and query is needed")
    if lacking := next((name for name in ("commit_ts", "query") if name not in row), None):
        more = " (a TSO: from when on it holds; SQL that holds from the beginning goes into a FILE.sql)"
        raise ValueError(f"it has no {lacking}{more if lacking == 'commit_ts' else ''}")
    commit_ts, db, query = row["commit_ts"], row.get("db", ""), row["query"]
    if type(commit_ts) is not int or not isinstance(db, str) or not isinstance(query, str):
        raise ValueError("commit_ts must be a whole number, db and query texts")
    mode = row.get("mode", "typed" if row.get("typed") else "wire")
    if not isinstance(mode, str) or mode not in _MODES:
        raise ValueError(f"mode {shown(mode)}: wire, typed or show is needed")
    sql_mode = row.get("sql_mode", "")
    if not isinstance(sql_mode, str):
        raise ValueError("sql_mode must be text")
    zone = row.get("zone", "")
    try:
        if zone != "":
            known_zone(zone)
    except (ValueError, TypeError) as error:
        raise ValueError(f"zone {shown(zone)}: an IANA name such as Asia/Shanghai, or +08:00, is needed") from error
    lexical_mode = LexicalMode.of_sql_mode(sql_mode) if mode == "typed" else _MODES[mode]
    return DdlText(commit_ts, db, query, lexical_mode, zone)
