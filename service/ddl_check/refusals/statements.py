"""Statements that TiDB itself refuses, as far as the tables alone can tell: with TiDB's error numbers.

Rules that migrations of public repositories run into and that hold in every supported version; `--try` asks a TiDB for
the rest. What depends on rows (a NULL, a value that is too long, a duplicate) is a risk, not a refusal.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from enum import IntEnum
from typing import Any, Final

from ticdc_bridge.schemas.ddl.executor.catalog import Catalog
from ticdc_bridge.schemas.ddl.executor.charsets import DEFAULT, Charset
from ticdc_bridge.schemas.ddl.executor.column_types import column
from ticdc_bridge.schemas.ddl.executor.indexes import PRIMARY, column_indexes, find
from ticdc_bridge.schemas.ddl.parser import statements as ddl
from ticdc_bridge.schemas.model.errors import DdlError
from ticdc_bridge.schemas.model.table import Column, Table, TableId
from ticdc_bridge.schemas.model.type_text import type_text
from ticdc_bridge.schemas.model.types import ELEMENTS, Kind
from ticdc_bridge.service.ddl_check.refusals import definitions, keys
from ticdc_bridge.service.ddl_check.refusals.definitions import Refusal, SqlModes


def refusals(catalog: Catalog, statement: ddl.Statement, db: str, modes: SqlModes) -> list[Refusal]:
    """Why TiDB refuses a statement, in no order of TiDB's; [] where nothing is known against it."""
    return list(dict.fromkeys(_of_statement(catalog, statement, db, modes)))


def _of_statement(catalog: Catalog, statement: ddl.Statement, db: str, modes: SqlModes) -> Iterator[Refusal]:
    match statement:
        case ddl.CreateDatabase():
            yield from definitions.of_name(statement.name, 1102, "database")
            yield from definitions.of_charset_names(statement.charset, statement.collate)
            if catalog.databases.get(statement.name) and not statement.if_not_exists:
                yield Refusal(1007, f"Can't create database '{statement.name}'; database exists")
        case ddl.AlterDatabase():
            yield from definitions.of_charset_names(statement.charset, statement.collate)
        case ddl.CreateTable() if statement.from_select:
            yield Refusal(1105, "'CREATE TABLE ... SELECT' is not implemented yet")
        case ddl.CreateTable():
            yield from _of_create(catalog, statement, db, modes)
        case ddl.CreateRelation() if not (statement.replace or statement.if_not_exists):
            yield from _of_taken(catalog, statement.table.in_db(db))
        case ddl.RenameTables():
            left, made = set[TableId](), set[TableId]()
            for old, new in statement.pairs:  # in order: a later pair sees what an earlier one did
                source, target = old.in_db(db), new.in_db(db)
                found = list(of_rename(catalog, source, new, db))
                yield from (r for r in found if r.number != 1050 or target.folded not in left)
                if target.folded in {*made, source.folded}:
                    yield Refusal(1050, f"Table '{target}' already exists")
                left = (left | {source.folded}) - {target.folded}
                made = (made - {source.folded}) | {target.folded}
        case ddl.AlterTable():
            table = catalog.table(statement.table.in_db(db))
            if table is not None:
                yield from Alteration(catalog, table, db, modes).refusals(statement.clauses)
        case ddl.DropTables() if statement.temporary != "local":
            ids = [name.in_db(db) for name in statement.tables]
            for id_ in ids:
                if catalog.exists(id_) is None and not statement.if_exists:
                    yield Refusal(1051, f"Unknown table '{id_}'", certain=False)
                elif statement.kind == "table":
                    yield from keys.of_dropped_table(catalog, id_, ids, truncated=False)
        case ddl.TruncateTable():
            yield from keys.of_dropped_table(catalog, statement.table.in_db(db), (), truncated=True)


def _of_taken(catalog: Catalog, id_: TableId) -> Iterator[Refusal]:
    if catalog.exists(id_):
        yield Refusal(1050, f"Table '{id_}' already exists")


def _of_create(catalog: Catalog, s: ddl.CreateTable, db: str, modes: SqlModes) -> Iterator[Refusal]:
    id_ = s.table.in_db(db)
    yield from definitions.of_name(s.table.table, 1103, "table")
    if not s.if_not_exists and s.temporary != "local":
        yield from _of_taken(catalog, id_)
    if s.like is not None:
        source = s.like.in_db(db)
        if catalog.table(source) is None:
            yield Refusal(1146, f"Table '{source}' doesn't exist", certain=False)
        return
    yield from definitions.of_options(s.options)
    database = catalog.databases.get(id_.db)
    charset = definitions.charset_of(s.options.charset, s.options.collate, database.charset if database else DEFAULT)
    yield from definitions.of_twice([c.name for c in s.columns])
    for defined in s.columns:
        yield from definitions.of_definition(defined, charset, modes, added=False)
        yield from definitions.of_dependency(defined, s.columns)
    indexes = [*s.indexes, *column_indexes(s.columns)]
    primary = {part.lower() for index in indexes if index.kind == "primary" for part in index.parts}
    if any(c.name.lower() in primary and (c.nullable or (c.default and c.default.kind == "null")) for c in s.columns):
        yield NULL_IN_PRIMARY_KEY
    try:
        made = tuple(column(entry, charset) for entry in s.columns)
    except DdlError:
        return
    table = Table(id_, made, (), charset.name, charset.collate)
    yield from keys.of_indexes(table, indexes)
    yield from keys.of_automatic(s.columns, indexes)
    for index in s.indexes:
        yield from keys.of_foreign_key(catalog, table, index)


# ---- ALTER TABLE
NULL_IN_PRIMARY_KEY: Final = Refusal(
    1171, "All parts of a PRIMARY KEY must be NOT NULL; if you need NULL in a key, use UNIQUE instead"
)
_OPTIONS: Final = frozenset((
    "SHARD_ROW_ID_BITS", "AUTO_INCREMENT", "AUTO_ID_CACHE", "AUTO_RANDOM_BASE", "PLACEMENT POLICY", "ROW_FORMAT",
    "TTL", "TTL_ENABLE", "TTL_JOB_INTERVAL", "STORAGE_CLASS", "AFFINITY", "ENGINE_ATTRIBUTE",
))  # fmt: skip
"""Options that ALTER TABLE can change, besides character set, collation, comment and engine."""
_STRINGS: Final = (Kind.TEXT, Kind.BINARY)
_DATES: Final = (Kind.DATE, Kind.DATETIME, Kind.TIMESTAMP)
_CLOCK: Final = (*_DATES, Kind.TIME, Kind.YEAR)
_FRACTIONS: Final = (Kind.DECIMAL, Kind.FLOAT, Kind.DOUBLE)
# Kinds that do not become kinds.
_NOT_CONVERTED: Final = (
    ((*_CLOCK, *_STRINGS, Kind.JSON), (Kind.BIT,)), ((*_CLOCK, *_FRACTIONS, Kind.JSON, Kind.BIT), ELEMENTS),
    ((*ELEMENTS, Kind.BIT, *_FRACTIONS), _DATES), ((*ELEMENTS, Kind.BIT), (Kind.TIME,)),
)  # fmt: skip
# Collations in which equal texts are equal in the other one too.
_COMPATIBLE: Final = (
    ("utf8mb4_general_ci", "utf8_general_ci"), ("utf8mb4_unicode_ci", "utf8_unicode_ci"),
    ("utf8mb4_bin", "utf8_bin", "latin1_bin", "ascii_bin"),
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Alteration:
    """The clauses of ALTER TABLE on a table; db: the current database."""

    catalog: Catalog
    table: Table
    db: str
    modes: SqlModes

    def refusals(self, clauses: tuple[ddl.Clause, ...]) -> Iterator[Refusal]:
        for clause in clauses:
            if rule := _CLAUSES.get(type(clause)):
                yield from rule(self, clause)
        yield from _of_together(self.table, clauses)

    @property
    def charset(self) -> Charset:
        return Charset(self.table.charset, self.table.collate)

    def find(self, name: str) -> Column | None:
        return find(self.table.columns, name)

    def unknown(self, name: str) -> Refusal:
        return Refusal(1054, f"Unknown column '{name}' in '{self.table.id.table}'")

    def of_generated(self, name: str) -> Iterator[Refusal]:
        """Generated columns that name a column which is dropped or gets another name."""
        for entry in self.table.columns:
            names = map(str.lower, definitions.generated_names(entry.generated or ""))
            if entry.name.lower() != name.lower() and name.lower() in names:
                yield Refusal(3108, f"Column '{name}' has a generated column dependency.")


# ---- columns
def _add_columns(alteration: Alteration, clause: ddl.AddColumns) -> Iterator[Refusal]:
    table = alteration.table
    yield from definitions.of_twice([c.name for c in clause.columns])
    for defined in clause.columns:
        if alteration.find(defined.name):
            if not clause.if_not_exists:
                yield Refusal(1060, f"Duplicate column name '{defined.name}'")
            continue
        constraints = {
            "AUTO_INCREMENT": defined.auto_increment, "PRIMARY KEY": defined.primary_key,
            "UNIQUE KEY": defined.unique_key, "AUTO_RANDOM": defined.auto_random,
        }  # fmt: skip
        for word in (word for word, is_present in constraints.items() if is_present):
            text = f"unsupported add column '{defined.name}' constraint {word} when altering '{table.id}'"
            yield Refusal(8200, text)
        if defined.generated is not None and defined.stored:
            text = "'Adding generated stored column through ALTER TABLE' is not supported for generated columns."
            yield Refusal(3106, text)
        yield from definitions.of_definition(defined, alteration.charset, alteration.modes, added=True)
        yield from definitions.of_dependency(defined, [*table.columns, *clause.columns])
    if clause.position and clause.position.after and not alteration.find(clause.position.after):
        yield alteration.unknown(clause.position.after)


def _change_column(alteration: Alteration, clause: ddl.ChangeColumn) -> Iterator[Refusal]:
    old, defined, table = alteration.find(clause.old), clause.column, alteration.table
    if old is None:
        if not clause.if_exists:
            yield alteration.unknown(clause.old)
        return
    if defined.name.lower() != old.name.lower():
        if alteration.find(defined.name):
            yield Refusal(1060, f"Duplicate column name '{defined.name}'")
        yield from alteration.of_generated(old.name)
    else:
        for refusal in alteration.of_generated(old.name):
            yield Refusal(3106, f"'{refusal.text}' is not supported for generated columns.")
    if clause.position and clause.position.after:
        after = alteration.find(clause.position.after)
        if after is None or after is old:
            yield alteration.unknown(clause.position.after)
    if old.primary_key and defined.nullable:
        yield NULL_IN_PRIMARY_KEY
    constraints = {"PRIMARY KEY": defined.primary_key, "UNIQUE KEY": defined.unique_key}
    for word in (word for word, is_present in constraints.items() if is_present):
        yield Refusal(8200, f"Unsupported modify column: can't change column constraint ({word})")
    found = [*definitions.of_definition(defined, alteration.charset, alteration.modes, added=False)]
    if clause.position is None:
        found += definitions.of_dependency(defined, [defined if c is old else c for c in table.columns])
    yield from found
    if not found:
        try:
            new = column(defined, alteration.charset)
        except DdlError:
            return
        yield from _of_type(old, new, alteration, auto_random=defined.auto_random)
        if old.type is not new.type or old.length != new.length or old.charset != new.charset:
            yield from keys.of_changed(table, [new], old.name)


def _of_type(old: Column, new: Column, alteration: Alteration, *, auto_random: bool) -> Iterator[Refusal]:
    """A column that is defined anew. auto_random: it becomes AUTO_RANDOM."""
    if (Kind.VECTOR in (old.type.kind, new.type.kind) and old.type is not new.type) or any(
        old.type.kind in a and new.type.kind in b for a, b in _NOT_CONVERTED
    ):
        text = f"change from original type {type_text(old)} to {type_text(new)} is currently unsupported yet"
        yield Refusal(8200, f"Unsupported modify column: {text}")
        return
    rewritten = _needs_rewriting(old, new)
    indexed = any(old.name in i.columns for i in alteration.table.indexes)
    unsupported = {
        "this column has primary key flag": rewritten and old.primary_key,
        "column has related generated column": rewritten and not (old.generated is None and new.generated is None),
        "can't set auto_increment": new.auto_increment and not old.auto_increment,
        "can't remove auto_increment without @@tidb_allow_remove_auto_inc enabled":
            old.auto_increment and not new.auto_increment and not auto_random,
    }  # fmt: skip
    for text in (text for text, is_present in unsupported.items() if is_present):
        yield Refusal(8200, f"Unsupported modify column: {text}")
    before, after = (
        Charset("binary", "binary") if c.type.kind is Kind.BINARY else Charset(c.charset, c.collate) for c in (old, new)
    )
    textual = all(c.type.kind in (*_STRINGS, *ELEMENTS) for c in (old, new))
    # A change that rewrites the rows converts them and their indexes too, but from and to gbk.
    if textual and (not rewritten or "gbk" in (before.name, after.name)):
        yield from _of_charset(before, after, old.name if indexed else "")
    if old.virtual != new.virtual:
        yield Refusal(3106, "'Changing the STORED status' is not supported for generated columns.")


def _needs_rewriting(old: Column, new: Column) -> bool:
    """True if TiDB has to write each row's value again (upstream GetModifiableColumnJob)."""
    a, b = old.type, new.type
    if a.kind in _STRINGS and b.kind in _STRINGS:
        lobs = any(c.name.endswith(("text", "blob")) for c in (a, b))
        fixed = [c.name in ("char", "binary") for c in (a, b)]
        padded = a.name == b.name == "binary" and old.length != new.length
        return (fixed[0] != fixed[1] and not lobs) or definitions.is_shorter(old, new) or padded
    if a.kind is Kind.INTEGER and b.kind is Kind.INTEGER:
        return b.bits < a.bits or old.unsigned != new.unsigned
    if a is not b:
        return True
    if a.kind is Kind.DECIMAL:
        return (old.length, old.scale, old.unsigned) != (new.length, new.scale, new.unsigned)
    if a.kind in ELEMENTS:
        return new.elements[: len(old.elements)] != old.elements
    return (new.length or 0) < (old.length or 0) or (new.scale or 0) < (old.scale or 0) or old.unsigned != new.unsigned


def _of_charset(before: Charset, after: Charset, indexed: str = "") -> Iterator[Refusal]:
    """Another character set or collation, known by name. indexed: the column's name where it has an index."""
    if not (before.name and after.name):
        return
    alike = before.collate == after.collate or any({before.collate, after.collate} <= {*each} for each in _COMPATIBLE)
    if indexed and not alike:
        text = f"of column '{indexed}' from '{before.collate}' to '{after.collate}' when index is defined on it."
        yield Refusal(8200, f"Unsupported modifying collation {text}")
    elif before.name != after.name and (before.name, after.name) not in (("utf8", "utf8mb4"), ("latin1", "utf8mb4")):
        yield Refusal(8200, f"Unsupported modify charset from {before.name} to {after.name}")


def _rename_column(alteration: Alteration, clause: ddl.RenameColumn) -> Iterator[Refusal]:
    if alteration.find(clause.old) is None:
        yield alteration.unknown(clause.old)
        return
    yield from definitions.of_column_name(clause.new)
    if clause.old.lower() != clause.new.lower():
        yield from alteration.of_generated(clause.old)
        if alteration.find(clause.new):
            yield Refusal(1060, f"Duplicate column name '{clause.new}'")


def _drop_column(alteration: Alteration, clause: ddl.DropColumn) -> Iterator[Refusal]:
    old, table = alteration.find(clause.name), alteration.table
    if old is None:
        if not clause.if_exists:
            yield Refusal(1091, f"Can't DROP '{clause.name}'; check that column/key exists")
        return
    yield from alteration.of_generated(old.name)
    if len(table.columns) == 1:
        yield Refusal(1090, f"can't drop only column {old.name} in table {table.id.table}")
    if any(old.name in i.columns and (i.name == PRIMARY or len(i.columns) > 1) for i in table.indexes):
        yield Refusal(8200, f"can't drop column {old.name} with composite index covered or Primary Key covered now")


def _set_default(alteration: Alteration, clause: ddl.SetDefault) -> Iterator[Refusal]:
    old, default = alteration.find(clause.column), clause.default
    if old is None:
        yield alteration.unknown(clause.column)
    elif default is not None and default.kind == "null":
        if not old.nullable:
            yield Refusal(1067, f"Invalid default value for '{old.name}'")
    elif default is not None and default.kind == "expr":
        yield from definitions.of_call(old.name, default.text, added=False)
    elif default is not None and default.kind not in ("expr", "computed"):
        yield from definitions.of_literal(old, default, alteration.modes)


# ---- indexes and the table as a whole
def _add_index(alteration: Alteration, clause: ddl.AddIndex) -> Iterator[Refusal]:
    if clause.if_not_exists and find(alteration.table.indexes, clause.index.name):
        return
    yield from keys.of_indexes(alteration.table, [clause.index])
    yield from keys.of_foreign_key(alteration.catalog, alteration.table, clause.index)


def _drop_index(alteration: Alteration, clause: ddl.DropIndex) -> Iterator[Refusal]:
    index = find(alteration.table.indexes, clause.name)
    if index is not None:
        yield from keys.of_dropped_index(alteration.catalog, alteration.table, index)
    elif not clause.if_exists:
        yield Refusal(1091, f"index {clause.name} doesn't exist")


def _rename_index(alteration: Alteration, clause: ddl.RenameIndex) -> Iterator[Refusal]:
    if not find(alteration.table.indexes, clause.old):
        yield Refusal(1176, f"Key '{clause.old}' doesn't exist in table '{alteration.table.id.table}'")
    if clause.old.lower() != clause.new.lower() and find(alteration.table.indexes, clause.new):
        yield Refusal(1061, f"Duplicate key name '{clause.new}'")


def of_rename(catalog: Catalog, old: TableId, new: ddl.TableName, db: str) -> Iterator[Refusal]:
    target = new.in_db(db)
    yield from definitions.of_name(new.table, 1103, "table")
    if target.folded != old.folded and catalog.exists(target):
        yield Refusal(1050, f"Table '{target}' already exists")
    if catalog.databases.get(target.db) is None:
        text = f"Error on rename of '{old}' to '{target}' (errno: 168 - Database `{target.db}` doesn't exist)"
        yield Refusal(1025, text, certain=False)


def _set_options(alteration: Alteration, clause: ddl.SetOptions) -> Iterator[Refusal]:
    yield from definitions.of_options(clause.options)
    if not _OPTIONS.issuperset(clause.options.others):
        yield Refusal(8200, "This type of ALTER TABLE is currently unsupported")
    if clause.options.charset or clause.options.collate:
        after = definitions.charset_of(clause.options.charset, clause.options.collate, alteration.charset)
        yield from _of_charset(alteration.charset, after)


def _without_effect(alteration: Alteration, clause: ddl.NoColumnEffect) -> Iterator[Refusal]:
    table, details = alteration.table, alteration.table.details
    if clause.what.startswith("ALTER INDEX") and not find(table.indexes, clause.name):
        yield Refusal(1176, f"Key '{clause.name}' doesn't exist in table '{table.id.table}'")
    elif clause.what == "DROP FOREIGN KEY" and details and not find(details.foreign_keys, clause.name):
        yield Refusal(1091, f"Can't DROP '{clause.name}'; check that column/key exists")


def _convert(alteration: Alteration, clause: ddl.ConvertTo) -> Iterator[Refusal]:
    yield from definitions.of_charset_names(clause.charset, clause.collate)
    table = alteration.table
    database = alteration.catalog.databases.get(table.id.db)
    after = definitions.charset_of(clause.charset, clause.collate, database.charset if database else DEFAULT)
    texts = [c for c in table.columns if c.charset not in ("", "binary")] if after.name else []
    for c in texts:
        indexed = any(c.name in i.columns for i in table.indexes)
        yield from _of_charset(Charset(c.charset, c.collate), after, c.name if indexed else "")
    yield from _of_charset(alteration.charset, after)
    yield from keys.of_changed(table, [replace(c, charset=after.name) for c in texts if c.charset != after.name])


_CLAUSES: Final[dict[type, Callable[[Alteration, Any], Iterator[Refusal]]]] = {
    ddl.AddColumns: _add_columns, ddl.ChangeColumn: _change_column, ddl.RenameColumn: _rename_column,
    ddl.DropColumn: _drop_column, ddl.SetDefault: _set_default, ddl.AddIndex: _add_index, ddl.DropIndex: _drop_index,
    ddl.RenameIndex: _rename_index,
    ddl.RenameTo: lambda a, clause: of_rename(a.catalog, a.table.id, clause.new, a.db),
    ddl.SetOptions: _set_options, ddl.ConvertTo: _convert, ddl.NoColumnEffect: _without_effect,
}  # fmt: skip


# ---- clauses that TiDB does not run together
def _of_together(table: Table, clauses: Sequence[ddl.Clause]) -> Iterator[Refusal]:
    """Each clause becomes a job; a column or an index may be in one of them only."""
    dropped = {c.name.lower() for c in clauses if isinstance(c, ddl.DropColumn)}
    every = len(dropped) > 1 and dropped >= {c.name.lower() for c in table.columns}
    if every and not any(isinstance(c, ddl.AddColumns) for c in clauses):
        yield Refusal(1090, "You can't delete all columns with ALTER TABLE; use DROP TABLE instead")
    counted = [c for c in clauses if not (isinstance(c, ddl.NoColumnEffect) and c.what in ("ALGORITHM", "LOCK"))]
    if sum(len(c.columns) if isinstance(c, ddl.AddColumns) else 1 for c in counted) < 2:
        return
    for clause in counted:
        if isinstance(clause, ddl.RenameTo) and clause.new.in_db(table.id.db).folded != table.id.folded:
            yield Refusal(8200, "Unsupported multi schema change for rename table")
    seen = set[tuple[str, str]]()
    uses = [use for clause in counted for use in _uses(table, clause)]
    for use, what, name in sorted(uses, key=lambda entry: (entry[1], entry[0])):  # columns, then indexes
        if (what, name.lower()) in seen:
            yield Refusal(8200, f"Unsupported multi schema change: operate same {what} '{name.lower()}'")
        elif use not in (_Use.PLACED, _Use.NEEDED):
            seen.add((what, name.lower()))


class _Use(IntEnum):
    """What a clause does with a name, in the order in which TiDB looks at them.

    PLACED: it is named after AFTER, or by VISIBLE. NEEDED: an index has it.
    """

    ADDED = 0
    DROPPED = 1
    PLACED = 2
    CHANGED = 3
    NEEDED = 4


def _uses(table: Table, clause: ddl.Clause) -> Iterator[tuple[_Use, str, str]]:
    """(use, `column` or `index`, name) of each name that counts."""
    column, index = "column", "index"
    position = clause.position if isinstance(clause, (ddl.AddColumns, ddl.ChangeColumn)) else None
    match clause:
        case ddl.AddColumns():
            new = [c.name for c in clause.columns if not (clause.if_not_exists and find(table.columns, c.name))]
            yield from ((_Use.ADDED, column, name) for name in new)
            position = position if new else None
        case ddl.DropColumn() if find(table.columns, clause.name):
            yield _Use.DROPPED, column, clause.name
        case ddl.ChangeColumn() if find(table.columns, clause.old):
            if clause.old.lower() == clause.column.name.lower():
                yield _Use.CHANGED, column, clause.old
            else:
                yield from ((_Use.ADDED, column, clause.column.name), (_Use.DROPPED, column, clause.old))
        case ddl.ChangeColumn():
            return
        case ddl.RenameColumn() if clause.old.lower() != clause.new.lower():
            yield from ((_Use.ADDED, column, clause.new), (_Use.DROPPED, column, clause.old))
        case ddl.SetDefault():
            yield _Use.CHANGED, column, clause.column
        case ddl.AddIndex() if not clause.index.special and clause.index.kind in ("primary", "unique", "index"):
            if not (clause.if_not_exists and find(table.indexes, clause.index.name)):
                yield from ((_Use.NEEDED, column, part) for part in clause.index.parts if part)
                if name := PRIMARY if clause.index.kind == "primary" else clause.index.name:
                    yield _Use.ADDED, index, name
        case ddl.DropIndex() if find(table.indexes, clause.name):
            yield _Use.DROPPED, index, clause.name
        case ddl.RenameIndex() if clause.old != clause.new:
            yield from ((_Use.ADDED, index, clause.new), (_Use.DROPPED, index, clause.old))
        case ddl.NoColumnEffect() if clause.what.startswith("ALTER INDEX"):
            yield _Use.PLACED, index, clause.name
    if position and position.after:
        yield _Use.PLACED, column, position.after
