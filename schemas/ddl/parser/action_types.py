"""TiDB's ActionType of a statement: the number by which Open, Craft and Avro's watermark mode name a DDL.

Upstream `pkg/meta/model/job.go`. What one statement can be several of (REMOVE, COALESCE PARTITION …) has none here.
"""

from ticdc_bridge.schemas.ddl.parser import statements
from ticdc_bridge.schemas.ddl.parser.lexer import mode_of
from ticdc_bridge.schemas.ddl.parser.statement_parser import parse
from ticdc_bridge.schemas.model.errors import DdlError
from ticdc_bridge.schemas.model.event import DdlEvent

_STATEMENTS: dict[type, int] = {
    statements.CreateDatabase: 1, statements.DropDatabase: 2, statements.CreateTable: 3, statements.TruncateTable: 11,
    statements.RenameTables: 14, statements.RecoverTable: 25, statements.AlterDatabase: 26,
}  # fmt: skip
_RELATIONS = {"view": 21, "sequence": 34}
_DROPPED = {"table": 4, "view": 24, "sequence": 36}
_CLAUSES: dict[type, int] = {
    statements.DropColumn: 6, statements.ChangeColumn: 12, statements.RenameColumn: 12, statements.RenameTo: 14,
    statements.SetDefault: 15, statements.RenameIndex: 18, statements.ConvertTo: 22, statements.ExchangePartition: 42,
}  # fmt: skip
_INDEXES = {"index": 7, "unique": 7, "foreign": 9, "primary": 32}
_NO_COLUMN_EFFECT = {
    "DROP FOREIGN KEY": 10, "DROP PARTITION": 20, "TRUNCATE PARTITION": 23, "ALTER INDEX VISIBLE": 41,
    "ALTER INDEX INVISIBLE": 41, "REORGANIZE PARTITION": 64, "PARTITION BY": 71,
}  # fmt: skip
_MULTIPLE_CHANGES = 61


def action_type(statement: statements.Statement) -> int | None:
    """The number, None where the statement alone does not tell it."""
    match statement:
        case statements.CreateRelation():
            return _RELATIONS[statement.kind]
        case statements.DropTables():
            return _DROPPED[statement.kind]
        case statements.AlterTable(clauses=(clause,)):
            return _of_clause(clause)
        case statements.AlterTable():
            return _MULTIPLE_CHANGES if statement.clauses else None
    return _STATEMENTS.get(type(statement))


def _of_clause(clause: statements.Clause) -> int | None:
    match clause:
        case statements.AddColumns():
            return 5 if len(clause.columns) == 1 else _MULTIPLE_CHANGES
        case statements.AddIndex():
            return _INDEXES.get(clause.index.kind)
        case statements.DropIndex():
            return 33 if clause.name == "PRIMARY" else 8
        case statements.NoColumnEffect():
            return _NO_COLUMN_EFFECT.get(clause.what)
        case statements.SetOptions() if clause.options.charset or clause.options.collate:
            return 22
        case statements.SetOptions():
            return 17 if clause.options.comment is not None else None
    return _CLAUSES.get(type(clause))


def ddl_type_of(event: DdlEvent) -> int | None:
    """The event's own number, else that of its statement; None where neither tells."""
    if event.ddl_type is not None or not event.query:
        return event.ddl_type
    try:
        return action_type(parse(event.query, mode_of(event.format), event.db))
    except DdlError:
        return None
