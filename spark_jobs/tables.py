"""Names of tables on the command line."""

from __future__ import annotations

from schemas.errors import SetupError
from schemas.table import TableId


def table_of(text: str | None) -> TableId | None:
    """ "db.table" → TableId; None for None. SetupError USAGE."""
    if text is None:
        return None
    db, dot, name = text.partition(".")
    if not (db and dot and name):
        raise SetupError("USAGE", details=f"table {text!r}: db.table is needed")
    return TableId(db, name)
