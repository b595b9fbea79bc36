"""A record's statement: parsed, and on which names its effect depends."""

from ticdc_bridge.schemas.ddl.parser import statements as ddl
from ticdc_bridge.schemas.ddl.parser.lexer import SHOW, WIRE, LexicalMode
from ticdc_bridge.schemas.ddl.parser.statement_parser import parse
from ticdc_bridge.schemas.model.errors import DdlError
from ticdc_bridge.service.history.model import ALL, DdlRecord, Key, key_of

ALTERED = "altered"
"""Mode of a statement that could not be kept as it was: it is never read, so that nobody takes it for the original."""


def statement_of(record: DdlRecord) -> ddl.Statement:
    """DdlError where it can't be read; also for a snapshot whose statement is no CREATE TABLE."""
    if record.mode == ALTERED:
        raise DdlError("DDL_NOT_APPLICABLE", details="it holds a NUL character or half a surrogate pair")
    mode = {"wire": WIRE, "show": SHOW}.get(record.mode) or LexicalMode.of_sql_mode(record.sql_mode)
    statement = parse(record.query, mode, record.db)
    if record.kind == "snapshot" and not (isinstance(statement, ddl.CreateTable) and statement.like is None):
        raise DdlError("DDL_NOT_APPLICABLE", details="a snapshot is the CREATE TABLE that SHOW CREATE TABLE prints")
    return statement


def statement_or_none(record: DdlRecord | None) -> ddl.Statement | None:
    """The statement of a DDL event that could be read; None for a snapshot, and where there is no event."""
    if record is None or record.kind == "snapshot" or record.mode == "form":
        return None
    try:
        return statement_of(record)
    except DdlError:
        return None


def involved_names(record: DdlRecord, statement: ddl.Statement | None) -> set[Key]:
    """The names a statement is about or reads; those of a record that could not be read are the message's own."""
    db = record.db
    if statement is None or (isinstance(statement, ddl.RecoverTable) and statement.table is None):
        return {(db.lower(), record.table.lower())} if record.table else set()
    keys = {key_of(name.in_db(db)) for name in ddl.named_tables(statement)}
    match statement:
        case ddl.CreateTable():
            keys |= {(name_db, "") for name_db, _ in keys}
            keys |= {key_of(statement.like.in_db(db))} if statement.like else set()
        case ddl.RecoverTable(table=ddl.TableName() as recovered):
            keys.add(key_of(recovered.in_db(db)))
        case ddl.CreateDatabase() | ddl.AlterDatabase():
            keys = {((statement.name or db).lower(), "")}
        case ddl.DropDatabase() | ddl.FlashbackDatabase():
            new = statement.new if isinstance(statement, ddl.FlashbackDatabase) else ""
            keys = {(name.lower(), piece) for name in (statement.name, new) if name for piece in ("", ALL)}
    return keys


def column_renames(statement: ddl.Statement | None) -> dict[str, str]:
    """What a statement renames: old names, in lower case → new ones."""
    renames = {}
    for clause in statement.clauses if isinstance(statement, ddl.AlterTable) else ():
        if isinstance(clause, ddl.RenameColumn):
            renames[clause.old.lower()] = clause.new
        elif isinstance(clause, ddl.ChangeColumn):
            renames[clause.old.lower()] = clause.column.name
    return renames


def dropped_columns(statement: ddl.Statement | None) -> set[str]:
    """Names, in lower case, of the columns that a statement drops."""
    clauses = statement.clauses if isinstance(statement, ddl.AlterTable) else ()
    return {clause.name.lower() for clause in clauses if isinstance(clause, ddl.DropColumn)}


def key_renames(statement: ddl.Statement | None) -> dict[str, str]:
    clauses = statement.clauses if isinstance(statement, ddl.AlterTable) else ()
    return {clause.old.lower(): clause.new for clause in clauses if isinstance(clause, ddl.RenameIndex)}
