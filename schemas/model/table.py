"""Tables as they were at a commit_ts: the authority on types (docs/DESIGN.md)."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import zip_longest
from typing import NamedTuple

from ticdc_bridge.schemas.model.names import sanitise_name
from ticdc_bridge.schemas.model.partitions import Partitioning
from ticdc_bridge.schemas.model.types import TidbType

# ---- Which columns of two versions of a table are the same one.


def with_ids_of(before: Table, after: Table) -> Table:
    """`after` as the next version of `before`, which nothing but its columns describes (SHOW CREATE TABLE, a registered
    schema): a column of the same name, in any letters, has the same id.

    Columns that are new have ids of their own, as TiDB gives them. Where others are gone at the same time, `may_be` has
    the ids of those that a new one may be, renamed.
    """
    by_name = {c.name.lower(): c for c in before.columns}
    now = {c.name.lower() for c in after.columns}
    gone = [c for c in before.columns if c.name.lower() not in now]
    last = max([before.last_column_id, *(c.id for c in before.columns)])
    columns: list[Column] = []
    for column in after.columns:
        if (same := by_name.get(column.name.lower())) is not None:
            columns.append(replace(column, id=same.id, may_be=same.may_be))
            continue
        last += 1
        # A column that is computed when it is read has no values that it could have kept.
        may_be = {id_ for c in gone if not (c.virtual or column.virtual) for id_ in (c.id, *c.may_be)}
        columns.append(replace(column, id=last, may_be=tuple(sorted(may_be))))
    return replace(after, columns=tuple(columns), created_ts=before.created_ts, last_column_id=last)


Value = str | bytes | None
"""A column value in the row model: SQL text, bytes for binary strings and BIT (big-endian), or None for NULL."""


def require_text(value: Value) -> str:
    """ValueError for bytes."""
    if not isinstance(value, str):
        raise ValueError("bytes, where text is needed")
    return value


def require_bytes(value: Value) -> bytes:
    """ValueError for text."""
    if not isinstance(value, bytes):
        raise ValueError("text, where binary is needed")
    return value


class TableId(NamedTuple):
    """A table's name. From Avro without a table definition both parts are sanitised names."""

    db: str
    table: str

    def __str__(self) -> str:
        return f"{self.db}.{self.table}"

    @property
    def folded(self) -> TableId:
        """The name as TiDB compares it: without regard to case (lower_case_table_names=2)."""
        return TableId(self.db.lower(), self.table.lower())

    @property
    def sanitised(self) -> TableId:
        """The name as Avro has it (`schemas.model.names.sanitise_name`)."""
        return TableId(sanitise_name(self.db), sanitise_name(self.table))


@dataclass(frozen=True, slots=True)
class Column:
    """A column of one table version.

    length: n of CHAR(n) and BIT(n), display width of an integer as SHOW CREATE TABLE knows it, precision of DECIMAL
    and of FLOAT(M,D), dimension of VECTOR(n). scale: DECIMAL's scale, or the fraction digits (fsp) of a temporal type;
    None where it isn't known.
    default: plain form, or an expression such as CURRENT_TIMESTAMP (`default_is_expr`); a TIMESTAMP default is in UTC.
    has_default tells DEFAULT NULL from no default. default_dropped: NULL is allowed, but SHOW CREATE TABLE has no
    DEFAULT NULL (after ALTER COLUMN … DROP DEFAULT); nothing else feels it. vague: what the type could be besides
    `type`, "" when it is certain. charset, collate: "" where unknown; "binary" for every type that is no character
    type, as in TiDB.
    generated: the expression's text, None for an ordinary column; `virtual` tells VIRTUAL from STORED.
    unique_key: it is part of a unique index, the primary key aside; multiple_key: it is part of an index of several
    columns or of a non-unique one (TiDB's flags as TiCDC spreads them over an index's columns). id: TiDB's column id,
    0 where unknown; two columns that differ in it alone are equal, because SHOW CREATE TABLE does not tell it. may_be:
    ids of columns that versions before had: this one is new, or one of them, renamed (`schemas.model.table`).
    """

    name: str
    type: TidbType
    unsigned: bool = False
    length: int | None = None
    scale: int | None = None
    elements: tuple[str, ...] = ()
    nullable: bool = True
    has_default: bool = False
    default: Value = None
    default_is_expr: bool = False
    default_unzoned: bool = False
    handle_key: bool = False
    primary_key: bool = False
    virtual: bool = False
    vague: str = ""
    charset: str = ""
    collate: str = ""
    comment: str = ""
    zerofill: bool = False
    auto_increment: bool = False
    on_update: str = ""
    generated: str | None = None
    unique_key: bool = False
    multiple_key: bool = False
    default_dropped: bool = field(default=False, compare=False)
    id: int = field(default=0, compare=False)
    may_be: tuple[int, ...] = field(default=(), compare=False)

    @property
    def has_default_value(self) -> bool:
        """True if its default is something else than NULL."""
        return self.has_default and self.default is not None

    @property
    def is_unsigned64(self) -> bool:
        """True if it is a BIGINT UNSIGNED."""
        return self.unsigned and self.type.bits == 64


@dataclass(frozen=True, slots=True)
class Index:
    """An index: its columns in index order. The primary key is called PRIMARY.

    lengths: of the columns' prefixes, None for a whole column; () where all are whole or nothing is known. condition:
    of a partial index. Indexes that differ in these alone are equal, because only DDL tells them.
    """

    name: str
    columns: tuple[str, ...]
    unique: bool = False
    lengths: tuple[int | None, ...] = field(default=(), compare=False)
    condition: str = field(default="", compare=False)

    @property
    def parts(self) -> tuple[tuple[str, int | None], ...]:
        """Each column, with the length of its prefix."""
        return tuple(zip_longest(self.columns, self.lengths))


@dataclass(frozen=True, slots=True)
class ForeignKey:
    """columns of the table → referenced columns of another. name: "" where neither was written nor is known."""

    name: str
    columns: tuple[str, ...]
    table: TableId
    referenced: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class TableDetails:
    """Facts of a table that change no row, as far as its DDL says them; TiDB refuses statements because of them.

    clustered: of the primary key, None where it is not written. partitioned: it has partitions. partitioning: None
    where there are none, or they were not read in full.
    """

    clustered: bool | None = None
    partitioned: bool = False
    foreign_keys: tuple[ForeignKey, ...] = ()
    partitioning: Partitioning | None = None


@dataclass(frozen=True)
class Table:
    """A table's columns in table order. Immutable, so that decoders and encoders can be compiled per table.

    indexes, charset, collate and comment are known from DDL only: empty where a message described the table. details:
    None where they are not known; tables that differ in them alone are equal, because only their DDL tells them.
    created_ts: commit_ts of the CREATE TABLE or snapshot that a version goes back to, 0 where unknown: in versions with
    the same one, columns with the same id are one column, whatever it was called. last_column_id: the highest that was
    there when a column was dropped. foreign_keys: how many it has or had, as far as known. registered: where schemas in
    a registry describe the table, all versions of the subject, oldest first, with ids of one history.
    """

    id: TableId
    columns: tuple[Column, ...]
    indexes: tuple[Index, ...] = ()
    charset: str = ""
    collate: str = ""
    comment: str = ""
    details: TableDetails | None = field(default=None, compare=False)
    created_ts: int = field(default=0, compare=False)
    last_column_id: int = field(default=0, compare=False)
    foreign_keys: int = field(default=0, compare=False)
    registered: tuple[Table, ...] = field(default=(), compare=False, repr=False)
    by_name: dict[str, Column] = field(init=False, compare=False, repr=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "by_name", {c.name: c for c in self.columns})

    @classmethod
    def keyed(cls, id_: TableId, columns: Iterable[Column], key: Collection[str]) -> Table:
        """Columns of which all that is known of keys is that this is the primary one."""
        return cls(id_, tuple(replace(c, handle_key=c.name in key, primary_key=c.name in key) for c in columns))

    def is_key_alone(self, key: Collection[str], row: Collection[str]) -> bool:
        """True if a row is only its key: what the message had no more of."""
        return bool(key) and set(row) <= set(key) and any(not c.virtual and c.name not in row for c in self.columns)

    @cached_property
    def handle_key(self) -> tuple[str, ...]:
        """The columns TiCDC identifies a row by: primary key, else the chosen NOT NULL unique key; table order."""
        return tuple(c.name for c in self.columns if c.handle_key)

    @cached_property
    def avro_names(self) -> tuple[str, ...]:
        """The columns' names as Avro has them, in lower case."""
        return tuple(sanitise_name(c.name).lower() for c in self.columns)

    @cached_property
    def primary_key(self) -> tuple[str, ...]:
        return tuple(c.name for c in self.columns if c.primary_key)


UNDECIDED = -1


@dataclass(frozen=True, slots=True)
class TableVersion:
    """A table from a DDL's commit_ts on. A row at commit_ts T has the newest version with commit_ts < T.

    commit_ts: UNDECIDED for what several versions say alike of a row.
    """

    commit_ts: int
    table: Table

    @property
    def known_commit_ts(self) -> int | None:
        """The `table_version` of events; None where it is undecided."""
        return None if self.commit_ts == UNDECIDED else self.commit_ts


class ColumnMismatch(NamedTuple):
    """A column that a message and a definition have in two types; `defined` is "" where the definition lacks it."""

    name: str
    sent: str
    defined: str

    def __str__(self) -> str:
        if not self.defined:
            return f"column {self.name} ({self.sent} in the message) is not in the definition"
        return f"column {self.name} is {self.sent} in the message, {self.defined} in the definition"


class DefinitionMismatch(NamedTuple):
    """Why a row was read without the definition of its table (of this commit_ts): the columns that do not fit."""

    table: TableId
    commit_ts: int
    columns: tuple[ColumnMismatch, ...]
    of_key: bool = False  # the message names another key

    def __str__(self) -> str:
        most = 5
        more = f"; and {len(self.columns) - most} more" if len(self.columns) > most else ""
        return f"table {self.table}: {'; '.join(map(str, self.columns[:most]))}{more}"
