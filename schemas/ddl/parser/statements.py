"""What a DDL statement says: the parser's result and apply()'s input. Nothing here knows SQL text."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal, NamedTuple

from ticdc_bridge.schemas.ddl.parser.calls import Call
from ticdc_bridge.schemas.ddl.parser.partition_definitions import PartitionBy, PartitionDef
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
    """A default value as written. kind: null, text, int, decimal, float, bits, now, date or expr.

    text: digits, the text, the expression as TiDB stores it, or the fraction digits of CURRENT_TIMESTAMP(n); bits: the
    bytes of x'…' and b'…'.
    """

    kind: Literal["null", "text", "int", "decimal", "float", "bits", "now", "date", "expr"]
    text: str = ""
    bits: bytes = b""


@dataclass(frozen=True, slots=True)
class ColumnDef:
    """A column definition. nullable: None where neither NULL nor NOT NULL is written.

    random_bits, random_range: of AUTO_RANDOM(bits, range), 0 where not written. clustered: of its PRIMARY KEY, None
    where not written. default_dropped: TiDB shows the column, and with no DEFAULT. owner: the names that are written
    before its own.
    """

    name: str
    type: DataType
    nullable: bool | None = None
    default: DefaultValue | None = None
    auto_increment: bool = False
    primary_key: bool = False
    unique_key: bool = False
    comment: str = ""
    collate: str = ""
    generated: str | None = None
    stored: bool = False
    on_update: bool = False
    update_digits: int = 0
    auto_random: bool = False
    random_bits: int = 0
    random_range: int = 0
    clustered: bool | None = None
    default_dropped: bool = field(default=False, compare=False)
    owner: tuple[str, ...] = field(default=(), compare=False)


@dataclass(frozen=True, slots=True)
class IndexDef:
    """An index. kind "check" exists for its name and its columns. parts: column names, "" for an expression.

    names: what expressions among the parts, or a CHECK, name. expressions: those of the parts that are understood, as
    TiDB writes them. clustered: None where not written. sets_null: a foreign key with SET NULL. invisible: INVISIBLE is
    written. actions: of a foreign key, such as ON UPDATE CASCADE, but NO ACTION and RESTRICT.

    lengths: of the parts' prefixes, None where not written. special: FULLTEXT, SPATIAL, VECTOR or COLUMNAR. references,
    referenced: table and columns that a foreign key names. everywhere: GLOBAL, one index over all partitions.
    """

    kind: Literal["primary", "unique", "index", "foreign", "check"]
    name: str
    parts: tuple[str, ...] = ()
    lengths: tuple[int | None, ...] = ()
    special: str = ""
    references: TableName | None = None
    referenced: tuple[str, ...] = ()
    everywhere: bool = False
    names: tuple[str, ...] = field(default=(), compare=False)
    expressions: tuple[str, ...] = field(default=(), compare=False)
    clustered: bool | None = None
    sets_null: bool = False
    comment: str = field(default="", compare=False)
    invisible: bool = field(default=False, compare=False)
    actions: tuple[str, ...] = field(default=(), compare=False)


@dataclass(frozen=True, slots=True)
class TableOptions:
    """The options of a table that rows can feel, and its engine; None where not written.

    ttl: the column of TTL. affinity: its value. policy: of placement, "" for the default one. others: words of the
    options that are written besides.
    """

    charset: str | None = None
    collate: str | None = None
    comment: str | None = None
    engine: str | None = None
    ttl: str | None = None
    affinity: str | None = None
    policy: str | None = field(default=None, compare=False)
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
    indexes: tuple[IndexDef, ...] = ()


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
    by_create_index: bool = field(default=False, compare=False)


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
    """Two tables change rows; neither changes its columns. validated: TiDB looks whether the rows fit."""

    table: TableName
    partition: str = ""
    validated: bool = field(default=True, compare=False)


@dataclass(frozen=True, slots=True)
class NoColumnEffect:
    """A clause that changes no column: partitions, TTL, locks, attributes. what: its first words. names: of the
    partitions, foreign key, CHECK, index or algorithm; () for all. added: partitions that it makes, or where FIRST and
    LAST PARTITION end. count: of COALESCE PARTITION and of ADD PARTITION PARTITIONS.
    """

    what: str
    partition: PartitionBy | None = None
    names: tuple[str, ...] = ()
    added: tuple[PartitionDef, ...] = ()
    lenient: bool = False
    count: int = 1


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
    policy: str = field(default="", compare=False)


@dataclass(frozen=True, slots=True)
class AlterDatabase:
    """name "" is the current database."""

    name: str
    charset: str = ""
    collate: str = ""
    policy: str = field(default="", compare=False)


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
    """temporary: "" or "local" (seen by one session only: it never reaches the history) or "global". shown: it is a
    SHOW CREATE TABLE. from_select: it ends in a SELECT, which TiDB parses and does not do. cached: TiDB shows that the
    table is a cached one.
    """

    table: TableName
    columns: tuple[ColumnDef, ...] = ()
    indexes: tuple[IndexDef, ...] = ()
    options: TableOptions = field(default_factory=TableOptions)
    like: TableName | None = None
    if_not_exists: bool = False
    temporary: Literal["", "local", "global"] = ""
    partition: PartitionBy | None = None
    shown: bool = field(default=False, compare=False)
    from_select: bool = False
    cached: bool = field(default=False, compare=False)


class ViewItem(NamedTuple):
    """One column of a view's SELECT. name: in the view; "*" for all, "" where it is an expression's text. path: the
    names that are all of it, () for any other expression."""

    name: str
    path: tuple[str, ...] = ()


class ViewSelect(NamedTuple):
    """A plain SELECT: its columns, its tables with their aliases, and paths of columns in other expressions."""

    items: tuple[ViewItem, ...]
    tables: tuple[tuple[TableName, str], ...]
    paths: tuple[tuple[str, ...], ...] = ()


Numbers = tuple[tuple[str, int], ...]
"""Options of a sequence with their numbers, which TiDB checks against one another."""


class NamedObject(NamedTuple):
    """A sequence, placement policy or resource group that a statement is about. lenient: IF EXISTS or IF NOT EXISTS."""

    name: TableName
    lenient: bool = False
    numbers: Numbers = ()


@dataclass(frozen=True, slots=True)
class CreateRelation:
    """A view or a sequence: a name that holds no rows. has_variables: @x or @@x stands in a view. columns: the names
    that a view gives its columns, () where its SELECT does. selects: one, or those of a UNION; () where one is no plain
    one. calls: of functions, in a view. numbers: of a sequence's options. definer: of a view, without the host.
    """

    kind: Literal["view", "sequence"]
    table: TableName
    replace: bool = False
    if_not_exists: bool = False
    has_variables: bool = field(default=False, compare=False)
    columns: tuple[str, ...] = field(default=(), compare=False)
    selects: tuple[ViewSelect, ...] = field(default=(), compare=False)
    calls: tuple[Call, ...] = field(default=(), compare=False)
    numbers: Numbers = field(default=(), compare=False)
    definer: str = field(default="", compare=False)


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
    """A statement that changes no table. what: its first words. replaces: OR REPLACE; replaces_none: and IF NOT EXISTS,
    both."""

    what: str
    replaces_none: bool = False
    replaces: bool = field(default=False, compare=False)
    about: NamedObject | None = field(default=None, compare=False)


Statement = (
    CreateDatabase | AlterDatabase | DropDatabase | FlashbackDatabase | CreateTable | CreateRelation | DropTables
    | RenameTables | TruncateTable | AlterTable | RecoverTable | NoRowEffect
)  # fmt: skip
