"""What the Spark API's arguments stand for: schemas, definitions and claim checks by path, URL or object."""

from __future__ import annotations

import os
from pathlib import Path

from schemas.inputs.claim_check_folder import ClaimFolder
from schemas.inspect.format_lookup import format_named
from schemas.model.errors import SetupError
from schemas.model.ports import TableSource
from spark_jobs.sources.schema_registry import FileSchemas, HttpSchemas, Schemas
from spark_jobs.sources.table_definitions import TableDefinitions
from spark_jobs.sources.table_history import HistoryTables

File = str | os.PathLike[str]


def tables_of(ddl: File | TableSource | None, history: str | None, table: str | None = None) -> TableSource | None:
    """Table definitions: a file as --ddl takes it, a source of them, or the URL of a service that has their history.

    table: its database is that of names in SQL that have none.
    """
    if history is not None:
        if ddl is not None:
            raise SetupError("USAGE", details="ddl= and history= both define tables: give one")
        return HistoryTables(history).check()
    if isinstance(ddl, str | os.PathLike):
        return TableDefinitions.read(Path(ddl), db=(table or "").partition(".")[0])
    if ddl is not None and not callable(getattr(ddl, "at", None)):
        raise SetupError("USAGE", details=f"ddl={type(ddl).__name__}: a file or a TableSource is needed")
    return ddl


def claims_of(folder: File | None) -> ClaimFolder | None:
    return None if folder is None else ClaimFolder.of(Path(folder))


def schemas_of(format: str, registry: str | None, schemas: Schemas | File | None) -> Schemas:
    if isinstance(schemas, str | os.PathLike):
        return FileSchemas.read(Path(schemas))
    if schemas is not None and not callable(getattr(schemas, "by_id", None)):
        raise SetupError("USAGE", details=f"schemas={type(schemas).__name__}: a file or Schemas are needed")
    if schemas is not None:
        return schemas
    format_ = format_named(format)
    if not format_.needs_schemas and not (format_.uses_schemas and registry):
        return FileSchemas([])
    if registry is None:
        raise SetupError("USAGE", details=f"format {format} needs schemas: give registry= or schemas=")
    return HttpSchemas(registry).check()
