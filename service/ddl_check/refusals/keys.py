"""Indexes and foreign keys that TiDB refuses (upstream tidb `pkg/ddl/index.go`, `pkg/ddl/foreign_key.go`)."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Final

from ticdc_bridge.schemas.ddl.executor.catalog import Catalog
from ticdc_bridge.schemas.ddl.executor.charsets import longest_character
from ticdc_bridge.schemas.ddl.executor.indexes import PRIMARY, find
from ticdc_bridge.schemas.ddl.parser.statements import ColumnDef, IndexDef
from ticdc_bridge.schemas.model.table import Column, ForeignKey, Index, Table, TableId
from ticdc_bridge.schemas.model.types import Kind
from ticdc_bridge.service.ddl_check.refusals import definitions
from ticdc_bridge.service.ddl_check.refusals.definitions import Refusal

_MAX_BYTES: Final = 3072
_STRINGS: Final = (Kind.TEXT, Kind.BINARY)
_WIDTHS: Final = {
    Kind.FLOAT: 4, Kind.DOUBLE: 8, Kind.DATE: 3, Kind.DATETIME: 8, Kind.TIMESTAMP: 4, Kind.TIME: 3, Kind.YEAR: 1,
    Kind.ENUM: 2, Kind.SET: 8,
}  # fmt: skip
# Functions of expression indexes that need no setting of the server (upstream GAFunction4ExpressionIndex).
_IN_INDEXES: Final = frozenset("""
    cast lower upper md5 reverse vitess_hash tidb_shard json_type json_extract json_unquote json_array json_object
    json_set json_insert json_replace json_remove json_contains json_contains_path json_valid json_array_append
    json_array_insert json_merge_patch json_merge_preserve json_pretty json_quote json_schema_valid json_search
    json_storage_size json_depth json_keys json_length
""".split())  # fmt: skip
AUTO_WITHOUT_KEY: Final = Refusal(
    1075,
    "Incorrect table definition; there can be only one auto column and it must be defined as a key (TiDB of 2026 takes "
    "one without a key)",
    certain=False,
)


# ---- indexes
def of_indexes(table: Table, added: Sequence[IndexDef]) -> Iterator[Refusal]:
    """Indexes that come to a table; a table that is made has none before."""
    names = {i.name.lower() for i in table.indexes}
    kept = [i for i in added if i.kind in ("primary", "unique", "index")]
    if sum(i.kind == "primary" for i in kept) + (PRIMARY.lower() in names) > 1:
        yield Refusal(1068, "Multiple primary key defined")
    for index in kept:
        if index.name:
            yield from definitions.of_name(index.name, 1280, "index")
        if index.special == "SPATIAL":
            yield Refusal(8200, "SPATIAL index is not supported")
        if index.special == "FULLTEXT":
            text = "FULLTEXT index is not supported (some versions make the table without it, others take one column)"
            yield Refusal(8200, text, certain=False)
        if index.kind != "primary" and index.name:
            if index.name.upper() == PRIMARY:
                yield Refusal(1280, f"Incorrect index name '{index.name}'")
            if index.name.lower() in names:
                yield Refusal(1061, f"Duplicate key name '{index.name}'")
            names.add(index.name.lower())
        yield from _of_key_columns(table, index)


def _of_key_columns(table: Table, index: IndexDef) -> Iterator[Refusal]:
    named = [part.lower() for part in index.parts if part]
    for name in dict.fromkeys(n for n in named if named.count(n) > 1):
        yield Refusal(1060, f"Duplicate column name '{name}'")
    if index.kind == "primary" and "" in index.parts:
        yield Refusal(3756, "The primary key cannot be an expression index")
    for text in index.expressions if not index.special else ():
        words = f"Expression of expression index '{index.name or 'expression_index'}' contains a disallowed function."
        yield from definitions.of_functions(text, Refusal(3758, words))
        if definitions.called_functions(text) - _IN_INDEXES:
            words = "Unsupported creating expression index containing unsafe functions without allow-expression-index"
            yield Refusal(8200, f"{words} in config", certain=False)
    size = 0
    for part, length in zip(index.parts, index.lengths or (None,) * len(index.parts), strict=True):
        column = find(table.columns, part) if part else None
        if part and column is None:
            yield Refusal(1072, f"column does not exist: {part}")
        elif column is not None and not index.special:
            yield from _of_key_column(index, column, length)
            size += _bytes(column, length)
    yield from _too_long(size)


def _of_key_column(index: IndexDef, column: Column, length: int | None) -> Iterator[Refusal]:
    kind, name, lob = column.type.kind, column.name, column.type.name.endswith(("text", "blob"))
    if kind in _STRINGS and column.length == 0 and not lob:
        yield Refusal(1167, f"The used storage engine can't index column '{name}'")
    elif length == 0:
        yield Refusal(1391, f"Key part '{name}' length cannot be 0")
    elif length is not None and (kind not in _STRINGS or (not lob and length > (column.length or 0))):
        text = "the used key part isn't a string, the used length is longer than the key part"
        yield Refusal(1089, f"Incorrect prefix key; {text}, or the storage engine doesn't support unique prefix keys")
    elif length is None:
        yield from _of_type(column)
    if index.kind == "primary" and column.virtual:
        yield definitions.VIRTUAL_KEY


def _of_type(column: Column) -> Iterator[Refusal]:
    if column.type.kind is Kind.JSON:
        yield Refusal(3152, f"JSON column '{column.name}' cannot be used in key specification.")
    elif column.type.name.endswith(("text", "blob")):
        yield Refusal(1170, f"BLOB/TEXT column '{column.name}' used in key specification without a key length")


def _too_long(size: int) -> Iterator[Refusal]:
    if size > _MAX_BYTES:
        yield Refusal(1071, f"Specified key was too long ({size} bytes); max key length is {_MAX_BYTES} bytes")


def of_changed(table: Table, changed: Sequence[Column], old_name: str = "") -> Iterator[Refusal]:
    """Columns of another type or character set in indexes as they were before. old_name: the renamed column's."""
    if table.details is None:
        return
    by_name = {c.name: c for c in table.columns}
    new = {old_name or c.name: c for c in changed}
    for index in table.indexes:
        columns = [new.get(name) or by_name.get(name) for name in index.columns]
        if not any(index.lengths) and not new.keys().isdisjoint(index.columns):
            for name in index.columns:
                yield from _of_type(new[name]) if name in new else ()
            yield from _too_long(sum(_bytes(c, None) for c in columns if c is not None))


def _bytes(column: Column, length: int | None) -> int:
    kind = column.type.kind
    if kind in _STRINGS:
        units = length if length is not None else column.length or 0
        return units * (longest_character(column.charset) if kind is Kind.TEXT else 1)
    if kind is Kind.INTEGER:
        return (column.type.bits or 8) // 8
    if kind is Kind.BIT:
        return ((column.length or 1) + 7) // 8
    if kind is Kind.DECIMAL:
        groups, rest = divmod(column.length or 10, 9)
        return groups * 4 + (rest + 1) // 2
    return _WIDTHS.get(kind, 0)


def of_automatic(columns: Sequence[ColumnDef], indexes: Sequence[IndexDef]) -> Iterator[Refusal]:
    """AUTO_INCREMENT of CREATE TABLE: one column, with which a key begins."""
    automatic = [c.name.lower() for c in columns if c.auto_increment]
    firsts = {i.parts[0].lower() for i in indexes if i.parts and i.kind in ("primary", "unique", "index")}
    if len(automatic) > 1:
        yield AUTO_WITHOUT_KEY._replace(certain=True)
    elif any(name not in firsts for name in automatic):
        yield AUTO_WITHOUT_KEY


# ---- foreign keys
def of_foreign_key(catalog: Catalog, table: Table, index: IndexDef) -> Iterator[Refusal]:
    """With foreign_key_checks on, as by default: the caller takes out what TiDB does not say otherwise."""
    if index.kind != "foreign" or index.references is None:
        return
    name = index.name or "fk_1"
    if len(index.parts) != len(index.referenced):
        yield Refusal(1239, f"Incorrect foreign key definition for '{name}': Key and table reference don't match")
        return
    for part in index.parts:
        column = find(table.columns, part)
        if column is None:
            yield Refusal(1072, f"Key column '{part}' doesn't exist in table")
    foreign_keys = table.details.foreign_keys if table.details else ()
    if index.name and any(key.name.lower() == index.name.lower() for key in foreign_keys):
        yield Refusal(1826, f"Duplicate foreign key constraint name '{index.name}'")
    target = index.references.in_db(table.id.db)
    parent = table if target.folded == table.id.folded else catalog.table(target)
    if parent is None:
        yield Refusal(1824, f"Failed to open the referenced table '{target.table}'", certain=False)
        return
    for part, referenced in zip(index.parts, index.referenced, strict=True):
        column, found = find(table.columns, part), find(parent.columns, referenced)
        if found is None:
            text = f"Missing column '{referenced}' for constraint '{name}' in the referenced table '{target.table}'"
            yield Refusal(3734, f"Failed to add the foreign key constraint. {text}")
        elif column is not None and not _are_alike(column, found):
            text = f"column '{part}' and referenced column '{referenced}' in foreign key constraint '{name}'"
            yield Refusal(3780, f"Referencing {text} are incompatible.")
    if parent is not table and not any(begins(i.columns, index.referenced) for i in parent.indexes):
        text = f"Missing index for constraint '{name}' in the referenced table '{target.table}'"
        yield Refusal(1822, f"Failed to add the foreign key constraint. {text}")


def _are_alike(column: Column, other: Column) -> bool:
    """True if both have the same type, sign and character set, as far as it is known; lengths may differ."""
    if not (column.charset and other.charset):
        other = replace(other, charset=column.charset, collate=column.collate)
    first, second = ((c.type, c.unsigned, c.charset, c.collate) for c in (column, other))
    return first == second


def begins(index: tuple[str, ...], columns: tuple[str, ...]) -> bool:
    return tuple(map(str.lower, index[: len(columns)])) == tuple(map(str.lower, columns))


def references(catalog: Catalog, table: TableId, *, with_itself: bool) -> list[tuple[Table, ForeignKey]]:
    """Foreign keys that name a table, with the tables that have them. with_itself: also those of the table itself. []
    where the tables are read from a store, which keeps no details."""
    return [
        (child, key)
        for child in catalog.described_tables()
        for key in (child.details.foreign_keys if child.details else ())
        if key.table.folded == table.folded and (with_itself or child.id.folded != table.folded)
    ]


# ---- what foreign keys need
def of_dropped_index(catalog: Catalog, table: Table, index: Index) -> Iterator[Refusal]:
    details, others = table.details, [i for i in table.indexes if i is not index]
    clustered = details.clustered if details else None
    if index.name == PRIMARY and clustered is not False:
        text = "Unsupported drop primary key when the table is using clustered index"
        yield Refusal(8200, text, certain=clustered is True)
    needed = [key.columns for key in details.foreign_keys] if details else []
    needed += [key.referenced for _, key in references(catalog, table.id, with_itself=True)]
    for columns in needed:
        if begins(index.columns, columns) and not any(begins(i.columns, columns) for i in others):
            yield Refusal(1553, f"Cannot drop index '{index.name}': needed in a foreign key constraint")


def of_dropped_table(
    catalog: Catalog, table: TableId, gone: Sequence[TableId], *, truncated: bool
) -> Iterator[Refusal]:
    """A table that is dropped with others (gone), or truncated."""
    for child, key in references(catalog, table, with_itself=False):
        if truncated:
            text = f"`{child.id.db}`.`{child.id.table}` CONSTRAINT `{key.name}`"
            yield Refusal(1701, f"Cannot truncate a table referenced in a foreign key constraint ({text})")
        elif child.id.folded not in {entry.folded for entry in gone}:
            text = f"referenced by a foreign key constraint '{key.name}' on table '{child.id.table}'"
            yield Refusal(3730, f"Cannot drop table '{table.table}' {text}.")
