"""A folder that TiDB's Dumpling wrote: its TSO, its tables with their definitions, and which files are whose.

Upstream `dumpling/export`: `metadata.go`, `writer.go` (names of files), `consistency.go` (what the TSO means).
"""

import re
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Final, NamedTuple

from ticdc_bridge.schemas.codec.compression import UNREADABLE
from ticdc_bridge.schemas.ddl.executor.versions import DdlText, versions
from ticdc_bridge.schemas.ddl.parser.lexer import SHOW
from ticdc_bridge.schemas.inputs.live_tables import unescape
from ticdc_bridge.schemas.model.errors import DdlError, SetupError
from ticdc_bridge.schemas.model.event import MAX_TSO
from ticdc_bridge.schemas.model.table import TableId
from ticdc_bridge.spark_jobs.io.object_paths import ObjectPath, path_of
from ticdc_bridge.spark_jobs.snapshots.frames import PREFIX, DumpTable, opened

_COMPRESSED: Final = r"(?:\.(?:gz|zst|snappy))?"
_DATA: Final = re.compile(
    rf"(?P<name>.+)\.(?P<kind>sql|csv){_COMPRESSED}\Z|(?P<stem>.+?)(?:\.(?:snappy|gz|zst))?\.(?P<parquet>parquet)\Z"
)
_OF_OTHERS: Final = re.compile(r".+/metadata|(?:.+/)?_delta_log/.+")
"""Files of another dump, or of a Delta table, in the folder of a dump."""
_SCHEMA: Final = re.compile(rf"(?P<db>[^.]+)\.(?P<table>[^.]+)-schema\.sql{_COMPRESSED}\Z")
_OTHER: Final = re.compile(
    rf"(?P<name>.+)-(?:schema-(?P<what>create|view|sequence|trigger|post)|placement-policy-create)\.sql{_COMPRESSED}\Z"
)
_DEFAULT_NAME: Final = re.compile(r"(?P<db>[^./]+)\.(?P<table>[^./]+)\.\d{9,}\Z")
_CREATE: Final = re.compile(r"^(CREATE [^`]*TABLE .*?)[;\s]*\Z", re.MULTILINE | re.DOTALL)
_NUMBERED: Final = re.compile(r"((?:.+/)?[^./]+\.[^./]+\.\d{9,})\..+")
_POSITION: Final = re.compile(r"^\s*Log:[ \t]*(\S*)\s*^\s*Pos:[ \t]*(\S[^\n]*?)[ \t\r]*\n", re.MULTILINE)
"""A line that has an end: of one that was cut, the digits would be another TSO."""
_LOG: Final = "tidb-binlog"
_MOST: Final = 16 << 20
"""Bytes of a definition, or of the metadata."""
_BETWEEN: Final = "[./_-]"
_SKIPPED: Final = {"view": "views", "sequence": "sequences", "trigger": "triggers", "post": "routines"}


class Dump(NamedTuple):
    """skipped: files that hold no rows of a table, by what they are."""

    tso: int
    tables: list[DumpTable]
    skipped: Counter[str]


def read_dump(location: str, at: int | None = None) -> Dump:
    """What a folder of Dumpling's has. at: its TSO (physical ms << 18 | logical), where its metadata does not say it.

    SetupError USAGE for what is no whole dump, or has files that are nobody's.
    """
    folder = path_of(location)
    # Spark's workers have the current folder of when they began.
    folder = folder if isinstance(folder, ObjectPath) else folder.absolute()
    if not folder.is_dir():
        raise _error(location, "there is no such folder")
    paths = sorted((path for path in folder.rglob("*") if path.is_file()), key=str)
    names = {str(path)[len(str(folder)) + 1 :]: path for path in paths}
    if "metadata" not in names:
        raise _error(location, "it has no file called metadata, which Dumpling writes at its end: dump again")
    tso = _tso(names.pop("metadata"), location, at)
    skipped, views, others = Counter[str](), set[str](), dict[str, str]()
    schemas, data, times = dict[TableId, Path](), list[tuple[str, Path, str]](), Counter[TableId | str]()
    if other_file := next(filter(_OF_OTHERS.fullmatch, names), None):
        raise _error(location, f"{other_file}: another dump, or a table, is in the folder: give each its own")
    for name, path in names.items():
        if other := _OTHER.fullmatch(path.name):
            skipped.update([_SKIPPED[other["what"]]] if other["what"] in _SKIPPED else [])
            views |= {other["name"]} if other["what"] == "view" else set()
        elif found := _SCHEMA.fullmatch(path.name):
            schemas[id_ := TableId(unescape(found["db"]), unescape(found["table"]))] = path
            times[id_] += 1
        elif found := _DATA.fullmatch(name):
            data.append((found["name"] or found["stem"], path, found["kind"] or found["parquet"]))
            times[data[-1][0]] += 1
        else:
            skipped["other files"] += 1
            others |= {numbered[1]: name} if (numbered := _NUMBERED.fullmatch(name)) else {}
    if twice := next((what for what, count in times.items() if count > 1), None):
        raise _error(location, f"{twice} is there twice: two dumps, or a file and what it was inflated to?")
    if unknown := next((name for numbered, name in others.items() if numbered not in times), None):
        raise _error(location, f"{unknown}: rows by its name, of no kind that is read (.csv, .csv.gz …): unpack it")
    tables = {
        id_.folded: _definition(id_, path, tso, location)
        for id_, path in schemas.items()
        if path.name.partition("-schema.sql")[0] not in views
    }
    for name, path, kind in data:
        table = tables[_table_of(name, [table.id for table in tables.values()], location)]
        if table.kind not in ("", kind):
            raise _error(location, f"table {table.id} has files of several kinds: {table.kind}, {kind}")
        table.kind = kind
        table.files.append(str(path))
        table.sizes.append(path.stat().st_size)
    return Dump(tso, list(tables.values()), skipped)


def _tso(metadata: Path, location: str, at: int | None) -> int:
    with metadata.open("rb") as file:
        found = _POSITION.findall(file.read(_MOST).decode("ascii", "replace"))
    log, text = found[0] if found else ("", "")
    if len(set(found)) > 1 or (text.isdigit() and log != _LOG):
        why = "several positions: rows may be newer than the first" if log == _LOG else f"a position of {log}, no TSO"
        raise _error(location, f"its metadata has {why}: dump a TiDB with --consistency snapshot")
    tso = int(text) if text.isdigit() else 0
    if not 0 < (at or tso) <= MAX_TSO:
        time = f" of its time {text}: CAST(UNIX_TIMESTAMP('{text}') * 1000 AS UNSIGNED) << 18" if ":" in text else ""
        raise _error(location, f"its metadata names no TSO, or is cut: give that of its rows (--at N){time}")
    if at is not None and tso not in (0, at):
        raise _error(location, f"its metadata says that it holds the rows of TSO {text}, and --at says {at}")
    return at or tso


def _definition(id_: TableId, path: Path, tso: int, location: str) -> DumpTable:
    """As of just before the TSO: a row belongs to what was defined before its commit_ts."""
    try:
        with opened(path) as file:
            data = file.read(_MOST + 1)
        if len(data) > _MOST:
            raise ValueError(f"it has more than {_MOST} bytes, and is no definition")
        found = _CREATE.search(data.decode())
        if found is None:
            raise ValueError("it has no CREATE TABLE")
        shown = DdlText(tso - 1, id_.db, found[1], SHOW, where=path.name)
        table = versions([shown])[-1].table
    except (DdlError, ValueError, *UNREADABLE) as error:
        details = error.detail if isinstance(error, DdlError) else f"{path.name}: {error}"
        then = f"take the files of {id_} out of the folder to load the others, and load it from its TiDB"
        raise _error(location, f"{details}: {then}") from error
    # STORED generated columns are left out too (upstream `export/sql.go`).
    return DumpTable(table, shown, [column for column in table.columns if column.generated is None])


def _table_of(name: str, tables: Sequence[TableId], location: str) -> TableId:
    """The table of a file with rows, by its name below the folder, without its endings. A template of the user's has
    names as they are, or with %XX as the usual one.
    """
    if usual := _DEFAULT_NAME.fullmatch(name):
        id_ = TableId(unescape(usual["db"]), unescape(usual["table"])).folded
        found = [table for table in tables if table.folded == id_]
    else:
        found = [id_ for id_ in tables if any(_is_named(text, id_) for text in (name, unescape(name)))]
        longest = max((len(id_.db + id_.table) for id_ in found), default=0)
        found = [id_ for id_ in found if len(id_.db + id_.table) == longest]
    if len(found) == 1:
        return found[0].folded
    details = "whose rows these are is not known: their definition (DB.TABLE-schema.sql) is missing, or several fit"
    raise _error(location, f"{name}: {details}")


def _is_named(text: str, id_: TableId) -> bool:
    db = re.search(rf"(?:\A|{_BETWEEN}){re.escape(id_.db)}(?={_BETWEEN})", text)
    table = rf"(?:\A|{_BETWEEN}){re.escape(id_.table)}(?:{_BETWEEN}|\Z)"
    return db is not None and re.search(table, text[db.end() :]) is not None


def _error(location: str, details: str) -> SetupError:
    return SetupError("USAGE", details=f"{PREFIX}{location}: {details}")
