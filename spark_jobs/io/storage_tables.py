"""Schema files of TiCDC's storage sink: what a table's columns were, and the DDL statement that made them so.

`{db}/{table}/meta/schema_{version}_{checksum}.json` (upstream ticdc `pkg/cloudstorage/schema_file.go`; a database's DDL
in `{db}/meta/`). Releases of 2026 list the elements of ENUM and SET (`ColumnElems`). A virtual generated column is
listed as any other, though data files leave it out.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

from ticdc_bridge.schemas.ddl.parser.literals import quote_escaped
from ticdc_bridge.schemas.formats.canal_json.decoder import column_of_type
from ticdc_bridge.schemas.model.errors import SetupError
from ticdc_bridge.schemas.model.event import DdlEvent, Message
from ticdc_bridge.schemas.model.reasons import usage_errors
from ticdc_bridge.schemas.model.table import Table, TableId, TableVersion

SCHEMA_FILE = re.compile(r"schema_(\d{1,20})_\d{1,10}\.json\Z", re.ASCII)


@dataclass(frozen=True)
class TableFile:
    """A schema file. `version` is the table version, a commit_ts."""

    path: Path
    document: dict[str, Any]

    @classmethod
    def read(cls, path: Path) -> TableFile:
        """SetupError USAGE for what is none."""
        with usage_errors(f"{path}: no schema file of a storage sink", OSError, ValueError, RecursionError):
            document = json.loads(path.read_text(encoding="utf-8"))
            if not isinstance(document, dict) or not isinstance(document.get("Schema"), str):
                raise ValueError("no 'Schema'")
            if type(document.get("TableVersion")) is not int:
                raise ValueError("no 'TableVersion'")
            return cls(path, document)

    @property
    def version(self) -> int:
        return int(self.document["TableVersion"])

    @property
    def id(self) -> TableId:
        return TableId(self.document["Schema"], str(self.document.get("Table") or ""))

    @cached_property
    def types(self) -> dict[str, str]:
        """The columns' types as Canal-JSON's mysqlType has them. SetupError USAGE."""
        with usage_errors(f"{self.path}: TableColumns", LookupError, TypeError, AttributeError):
            return {column["ColumnName"]: _type_text(column) for column in self._columns}

    @property
    def keys(self) -> list[str]:
        return [column["ColumnName"] for column in self._columns if column.get("ColumnIsPk") == "true"]

    @property
    def _columns(self) -> list[dict[str, Any]]:
        return list(self.document.get("TableColumns") or ())

    def table_version(self) -> TableVersion | None:
        """The table that it describes; None for a database's, and a table's that is gone. SetupError USAGE.

        What it does not tell is open: elements where they are not listed (`Column.vague`), which columns are virtual.
        """
        if not self.types:
            return None
        required = {column["ColumnName"] for column in self._columns if column.get("ColumnNullable") == "false"}
        try:
            columns = (column_of_type(name, text, name in self.keys) for name, text in self.types.items())
            table = Table(self.id, tuple(replace(c, nullable=c.name not in required) for c in columns))
        except ValueError as error:
            raise SetupError("USAGE", details=f"{self.path}: {error}") from error
        return TableVersion(self.version, table)

    def statement(self) -> DdlEvent | None:
        """Its statement; None for a table that was there when the changefeed began."""
        query, kind = self.document.get("Query"), self.document.get("Type")
        if not isinstance(query, str) or not query:
            return None
        return DdlEvent("canal-json", *self.id, self.version, kind if type(kind) is int else None, query)

    def ddl_message(self) -> Message | None:
        """Its statement as a message of Canal-JSON."""
        statement = self.statement()
        if statement is None:
            return None
        return Message(None, json_bytes({
            "database": self.id.db, "table": self.id.table, "isDdl": True, "type": "QUERY",
            "sql": statement.query, "_tidb": {"commitTs": self.version},
        }))  # fmt: skip


def _type_text(column: dict[str, Any]) -> str:
    """A column's type as MySQL writes it: with elements where they are listed, without a scale of 0."""
    name, _, unsigned = column["ColumnType"].lower().partition(" ")
    name = {"var_string": "varchar", "tidbvectorfloat32": "vector"}.get(name, name)
    length, scale, elements = (column.get(f"Column{of}") for of in ("Precision", "Scale", "Elems"))
    if name in ("datetime", "timestamp", "time"):
        name += f"({scale or 0})"
    elif name == "decimal" or (name in ("float", "double") and scale):
        name += f"({length},{scale or 0})"
    elif name == "bit":
        name += f"({length or 1})"
    elif name in ("enum", "set") and elements:
        name += f"({','.join(map(quote_escaped, elements))})"
    return f"{name} {unsigned}".strip()


def json_bytes(document: dict[str, Any]) -> bytes:
    """Compact JSON; bytes that are not UTF-8 (surrogateescape) stay as they are."""
    return json.dumps(document, ensure_ascii=False, separators=(",", ":")).encode("utf-8", "surrogateescape")
