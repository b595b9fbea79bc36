"""The contents of a DDL statement: the parser's result and apply()'s input. Nothing here knows SQL text."""

from dataclasses import dataclass, field
from typing import Literal, NamedTuple

from ticdc_bridge.schemas.model.partitions import PartitionChange, Partitioning
from ticdc_bridge.schemas.model.table import TableId


class TableName(NamedTuple):
    """A table as a statement names it; db is "" where the statement leaves it to the current database."""

    db: str
    table: str

    def in_db(self, db: str) -> TableId:
        """The table meant where `db` is the current database."""
        return TableId(self.db or db, self.table)


@dataclass(frozen=True, slots=True)
class DataType:
    """A type as written. name: of schemas.model.types, before character sets and lengths decide (`text` may be
    `mediumtext`).

    length, scale: the numbers in parentheses, None where not written. binary: the BINARY attribute (a *_bin collation).
    elements: bytes for x'…' and b'…', which are in the column's character set.
    """

    name: str
    length: int | None = None
    scale: int | None = None
    elements: tuple[str | bytes, ...] = ()
    unsigned: bool = False
    zerofill: bool = False
    charset: str = ""
    binary: bool = False


@dataclass(frozen=True, slots=True)
class DefaultValue:
    """A default value as written. kind: null, text, int, decimal, float, bits, now, date, expr or
    computed (another expression than one call of a function, which TiDB computes when it runs the statement).

    text: digits, the text, the expression as TiDB stores it, or the fraction digits of CURRENT_TIMESTAMP(n); bits: the
    bytes of x'…' and b'…'.
    """

    kind: Literal["null", "text", "int", "decimal", "float", "bits", "now", "date", "expr", "computed"]
    text: str = ""
    bits: bytes = b""


@dataclass(frozen=True, slots=True)
class ColumnDef:
    """A column definition. nullable: None where neither NULL nor NOT NULL is written.

    clustered: of its PRIMARY KEY, None where not written. unique_first: UNIQUE, or SERIAL, stands before PRIMARY KEY.
    default_dropped: TiDB shows the column, and with no DEFAULT.
    """

    name: str
    type: DataType
    nullable: bool | None = None
    default: DefaultValue | None = None
    auto_increment: bool = False
    primary_key: bool = False
    unique_key: bool = False
    unique_first: bool = False
    comment: str = ""
    collate: str = ""
    generated: str | None = None
    stored: bool = False
    on_update: bool = False
    update_digits: int = 0
    auto_random: bool = False
    clustered: bool | None = None
    default_dropped: bool = field(default=False, compare=False)


UNREAD = "?"
"""An index's condition that is not understood."""


@dataclass(frozen=True, slots=True)
class IndexDef:
    """An index. parts: column names, "" for an expression.

    expressions: those of the parts that are understood, as TiDB writes them. clustered: None where not written.
    lengths: of the parts' prefixes, None where not written. special: FULLTEXT,
    SPATIAL, VECTOR or COLUMNAR. references, referenced: table and columns that a foreign key names. condition: of a
    partial index (WHERE), as TiDB writes it, or UNREAD.
    """

    kind: Literal["primary", "unique", "index", "foreign", "check"]
    name: str
    parts: tuple[str, ...] = ()
    lengths: tuple[int | None, ...] = ()
    special: str = ""
    references: TableName | None = None
    referenced: tuple[str, ...] = ()
    expressions: tuple[str, ...] = field(default=(), compare=False)
    clustered: bool | None = None
    condition: str = ""


@dataclass(frozen=True, slots=True)
class TableOptions:
    """The options of a table that rows can feel, and its engine; None where not written.

    others: words of the options that are written besides.
    """

    charset: str | None = None
    collate: str | None = None
    comment: str | None = None
    engine: str | None = None
    others: tuple[str, ...] = field(default=(), compare=False)


# ---- clauses of ALTER TABLE
@dataclass(frozen=True, slots=True)
class ColumnPosition:
    """FIRST (after is "") or AFTER a column."""

    after: str = ""


@dataclass(frozen=True, slots=True)
class AddColumns:
    columns: tuple[ColumnDef, ...]
    position: ColumnPosition | None = None
    if_not_exists: bool = False


@dataclass(frozen=True, slots=True)
class ChangeColumn:
    """MODIFY COLUMN, or CHANGE COLUMN of a column of another name."""

    old: str
    column: ColumnDef
    position: ColumnPosition | None = None
    if_exists: bool = False


@dataclass(frozen=True, slots=True)
class RenameColumn:
    old: str
    new: str


@dataclass(frozen=True, slots=True)
class DropColumn:
    name: str
    if_exists: bool = False


@dataclass(frozen=True, slots=True)
class SetDefault:
    """ALTER COLUMN … SET DEFAULT, or DROP DEFAULT (default is None)."""

    column: str
    default: DefaultValue | None


@dataclass(frozen=True, slots=True)
class AddIndex:
    index: IndexDef
    if_not_exists: bool = False


@dataclass(frozen=True, slots=True)
class DropIndex:
    """name "PRIMARY" drops the primary key."""

    name: str
    if_exists: bool = False


@dataclass(frozen=True, slots=True)
class RenameIndex:
    old: str
    new: str


@dataclass(frozen=True, slots=True)
class RenameTo:
    new: TableName


@dataclass(frozen=True, slots=True)
class SetOptions:
    options: TableOptions


@dataclass(frozen=True, slots=True)
class ConvertTo:
    """CONVERT TO CHARACTER SET: of the table and of all its character columns. charset "" is DEFAULT."""

    charset: str
    collate: str = ""


@dataclass(frozen=True, slots=True)
class ExchangePartition:
    """Two tables change rows; neither changes its columns."""

    table: TableName


@dataclass(frozen=True, slots=True)
class NoColumnEffect:
    """A clause that changes no column: partitions, TTL, locks, attributes. what: its first words. partitioned,
    partitioning: of PARTITION BY, see CreateTable. name: of a foreign key or an index. partitions: of ADD PARTITION and
    the like, None where they were not read in full.
    """

    what: str
    partitioned: bool = False
    name: str = ""
    partitioning: Partitioning | None = None
    partitions: PartitionChange | None = None


Clause = (
    AddColumns | ChangeColumn | RenameColumn | DropColumn | SetDefault | AddIndex | DropIndex | RenameIndex | RenameTo
    | SetOptions | ConvertTo | ExchangePartition | NoColumnEffect
)  # fmt: skip


# ---- statements
@dataclass(frozen=True, slots=True)
class CreateDatabase:
    name: str
    if_not_exists: bool = False
    charset: str = ""
    collate: str = ""


@dataclass(frozen=True, slots=True)
class AlterDatabase:
    """name "" is the current database."""

    name: str
    charset: str = ""
    collate: str = ""


@dataclass(frozen=True, slots=True)
class DropDatabase:
    name: str
    if_exists: bool = False


@dataclass(frozen=True, slots=True)
class FlashbackDatabase:
    name: str
    new: str = ""


@dataclass(frozen=True, slots=True)
class CreateTable:
    """temporary: "" or "local" (seen by one session only: it never reaches the history) or "global". partitioned: it
    has PARTITION BY; partitioning: what that says, None where it was not read in full. from_select: it ends in a
    SELECT, which TiDB parses and does not do.
    """

    table: TableName
    columns: tuple[ColumnDef, ...] = ()
    indexes: tuple[IndexDef, ...] = ()
    options: TableOptions = field(default_factory=TableOptions)
    like: TableName | None = None
    if_not_exists: bool = False
    temporary: Literal["", "local", "global"] = ""
    partitioned: bool = False
    from_select: bool = False
    partitioning: Partitioning | None = None


@dataclass(frozen=True, slots=True)
class CreateRelation:
    """A view or a sequence: a name that holds no rows."""

    kind: Literal["view", "sequence"]
    table: TableName
    replace: bool = False
    if_not_exists: bool = False


@dataclass(frozen=True, slots=True)
class DropTables:
    """DROP TABLE, DROP VIEW, DROP SEQUENCE."""

    kind: Literal["table", "view", "sequence"]
    tables: tuple[TableName, ...]
    if_exists: bool = False
    temporary: Literal["", "local", "global"] = ""


@dataclass(frozen=True, slots=True)
class RenameTables:
    """In order: a later pair sees what an earlier one did."""

    pairs: tuple[tuple[TableName, TableName], ...]


@dataclass(frozen=True, slots=True)
class TruncateTable:
    table: TableName


@dataclass(frozen=True, slots=True)
class AlterTable:
    """Also CREATE INDEX and DROP INDEX."""

    table: TableName
    clauses: tuple[Clause, ...]


@dataclass(frozen=True, slots=True)
class RecoverTable:
    """RECOVER TABLE and FLASHBACK TABLE … [TO new]. table is None when a job number names it."""

    table: TableName | None
    new: str = ""


@dataclass(frozen=True, slots=True)
class NoRowEffect:
    """A statement that changes no table. what: its first words."""

    what: str


Statement = (
    CreateDatabase | AlterDatabase | DropDatabase | FlashbackDatabase | CreateTable | CreateRelation | DropTables
    | RenameTables | TruncateTable | AlterTable | RecoverTable | NoRowEffect
)  # fmt: skip


def named_tables(statement: Statement) -> list[TableName]:
    """The tables, views and sequences that a statement makes, changes or removes, under all their names."""
    match statement:
        case CreateTable() | CreateRelation() | TruncateTable():
            return [statement.table]
        case AlterTable():
            new = [clause.new for clause in statement.clauses if isinstance(clause, RenameTo)]
            exchanged = [clause.table for clause in statement.clauses if isinstance(clause, ExchangePartition)]
            return [statement.table, *new, *exchanged]
        case DropTables():
            return [*statement.tables]
        case RenameTables():
            return [name for pair in statement.pairs for name in pair]
        case RecoverTable(table=TableName() as recovered):
            return [recovered._replace(table=statement.new or recovered.table)]
    return []
