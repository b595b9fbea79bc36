"""Renames that bring a table into what the changefeed replicates: TiCDC stops at them, whatever the protocol.

Source: upstream ticdc `logservice/schemastore/persist_storage_ddl_handlers.go` (ErrSyncRenameTableFailed).
"""

from __future__ import annotations

from typing import Final

from ticdc_bridge.schemas.ddl.parser.statements import AlterTable, RenameTables, RenameTo, Statement, TableName
from ticdc_bridge.service.changefeed.settings import ChangefeedSettings
from ticdc_bridge.service.ddl_check.advice import Advice

OTHER_WAY: Final = Advice(
    "rename-within-filter",
    "Let the filter take the old name as well before the statement; or make the table anew under the new name (CREATE "
    "TABLE … LIKE, INSERT … SELECT, DROP TABLE)",
)


def brought_in(statement: Statement, db: str, feed: ChangefeedSettings) -> str:
    """Why the changefeed stops at a rename, "" where it does not. TiCDC looks at each pair of names by itself."""
    for old, new in _pairs(statement):
        before, after = old.in_db(db), new.in_db(db)
        if feed.replicates(after) and not feed.replicates(before):
            return f"its filter leaves {before} out and takes {after}, and TiCDC refuses such a rename"
    return ""


def _pairs(statement: Statement) -> tuple[tuple[TableName, TableName], ...]:
    match statement:
        case RenameTables():
            return statement.pairs
        case AlterTable():
            return tuple((statement.table, c.new) for c in statement.clauses if isinstance(c, RenameTo))
    return ()
