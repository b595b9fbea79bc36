"""Indexes and foreign keys that TiDB refuses (upstream tidb `pkg/ddl/index.go`, `pkg/ddl/foreign_key.go`)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Final

from ticdc_bridge.schemas.ddl.executor.catalog import Catalog
from ticdc_bridge.schemas.ddl.executor.charsets import longest_character
from ticdc_bridge.schemas.ddl.executor.indexes import PRIMARY, find
from ticdc_bridge.schemas.ddl.parser.statements import ColumnDef, IndexDef
from ticdc_bridge.schemas.model.names import quote_name
from ticdc_bridge.schemas.model.table import Column, Index, Table, TableId
from ticdc_bridge.schemas.model.types import Kind
from ticdc_bridge.service.ddl_check.refusals.columns import AUTO_WITHOUT_KEY, Refusal, of_name
from ticdc_bridge.service.ddl_check.refusals.dependencies import NO_FOREIGN_KEY, REFERENCED_TTL
from ticdc_bridge.service.ddl_check.refusals.generated import (
    generated_names,
    of_arrays,
    of_expression,
    of_index_functions,
)

_MAX_COMMENT: Final = 1024
_MAX_PARTS: Final = 16
_MAX_BYTES: Final = 3072
_MAX_INDEXES: Final = 64
_JSON_FUNCTIONS: Final = frozenset("""
    json_array json_array_append json_array_insert json_extract json_insert json_keys json_merge json_merge_patch
    json_merge_preserve json_object json_remove json_replace json_search json_set
""".split())  # fmt: skip
INVISIBLE_PRIMARY: Final = Refusal(3522, "A primary key index cannot be invisible")
_STRINGS: Final = (Kind.TEXT, Kind.BINARY)
_WIDTHS: Final = {
    Kind.FLOAT: 4, Kind.DOUBLE: 8, Kind.DATE: 3, Kind.DATETIME: 8, Kind.TIMESTAMP: 4, Kind.TIME: 3, Kind.YEAR: 1,
    Kind.ENUM: 2, Kind.SET: 8,
}  # fmt: skip


def of_indexes(table: Table, added: Sequence[IndexDef], *, strict: bool = True) -> Iterator[Refusal]:
    """Indexes that come to a table; a table that is made has none before. strict: the sql_mode is."""
    names = {i.name.lower() for i in table.indexes}
    primary = sum(i.kind == "primary" for i in added) + (PRIMARY.lower() in names)
    if primary > 1:
        yield Refusal(1068, "Multiple primary key defined")
    kept = [i for i in added if i.kind in ("primary", "unique", "index")]
    if len(table.indexes) + len(kept) > _MAX_INDEXES:
        yield Refusal(1069, f"Too many keys specified; max {_MAX_INDEXES} keys allowed")
    for index in added:
        if len(index.name) > 64:
            yield from of_name(index.name, 1280, "Incorrect index name '{name}'")
        if index.kind not in ("primary", "unique", "index"):
            continue
        if index.special == "SPATIAL":
            yield Refusal(8200, "SPATIAL index is not supported")
        if index.name.endswith(" ") or (index.name.upper() == PRIMARY and index.kind != "primary"):
            yield Refusal(1280, f"Incorrect index name '{index.name}'")
        if index.kind != "primary" and index.name:
            if index.name.lower() in names:
                yield Refusal(1061, f"Duplicate key name '{index.name}'")
            names.add(index.name.lower())
        if strict and len(index.comment) > _MAX_COMMENT:
            yield Refusal(1688, f"Comment for index '{index.name}' is too long (max = {_MAX_COMMENT})")
        if index.kind == "primary" and index.invisible:
            yield INVISIBLE_PRIMARY
        if index.kind == "primary" and "" in index.parts:
            yield Refusal(3756, "The primary key cannot be an expression index")
        yield from _of_parts(table, index)


def _of_parts(table: Table, index: IndexDef) -> Iterator[Refusal]:
    if len(index.parts) > _MAX_PARTS:
        yield Refusal(1070, f"Too many key parts specified; max {_MAX_PARTS} parts allowed")
    named = [part.lower() for part in index.parts if part]
    for name in dict.fromkeys(n for n in named if named.count(n) > 1):
        yield Refusal(1060, f"Duplicate column name '{name}'")
    yield from _of_expressions(table, index)
    size = 0
    for part, length in zip(index.parts, index.lengths or (None,) * len(index.parts), strict=True):
        column = find(table.columns, part) if part else None
        if part and column is None:
            yield Refusal(1072, f"column does not exist: {part}")
        elif column is not None and not index.special:
            yield from _of_part(index, column, length)
            size += _bytes(column, length)
    if size > _MAX_BYTES:
        yield Refusal(1071, f"Specified key was too long ({size} bytes); max key length is {_MAX_BYTES} bytes")


def _of_expressions(table: Table, index: IndexDef) -> Iterator[Refusal]:
    """Expressions that are understood (upstream `pkg/ddl/index.go`, checkIndexColumn and buildHiddenColumnInfo)."""
    if index.special:
        return
    yield from of_arrays(index.expressions)
    for text in index.expressions:
        names = generated_names(text)
        if len(names) == 1 and text == quote_name(names[0]):
            yield Refusal(
                3762, "Functional index on a column is not supported. Consider using a regular index instead."
            )
        for name in names:
            if find(table.columns, name) is None:
                yield Refusal(1054, f"Unknown column '{name}' in 'expression'")
        outer = _outermost(text)
        if outer in _JSON_FUNCTIONS or (outer == "cast" and text.endswith(" as json)")):
            yield Refusal(
                3753, "Cannot create an expression index on a function that returns a JSON or GEOMETRY value."
            )
        elif outer in ("json_unquote", "json_pretty"):
            text_ = "Cannot create an expression index on an expression that returns a BLOB or TEXT. Please consider"
            yield Refusal(3757, f"{text_} using CAST.")
        automatic = {column.name.lower() for column in table.columns if column.auto_increment}
        if any(name.lower() in automatic for name in names):
            yield Refusal(3754, f"Expression index '{index.name}' cannot refer to an auto-increment column")
        words = f"Expression of expression index '{index.name or 'expression_index'}'"
        disallowed = Refusal(3758, f"{words} contains a disallowed function.")
        yield from of_expression(text, disallowed, Refusal(3800, f"{words} cannot refer to a row value"))
        yield from of_index_functions(text)


def _outermost(text: str) -> str:
    """The function whose call is the whole expression, "" where there is none."""
    name, paren, _ = text.partition("(")
    if not paren or not name.replace("_", "").isalnum() or not text.endswith(")"):
        return ""
    depth = 0
    for place, character in enumerate(text[len(name) :]):
        depth += (character == "(") - (character == ")")
        if not depth:
            return name.lower() if len(name) + place == len(text) - 1 else ""
    return ""


def _of_part(index: IndexDef, column: Column, length: int | None) -> Iterator[Refusal]:
    kind, name = column.type.kind, column.name
    if kind is Kind.JSON:
        yield Refusal(3152, f"JSON column '{name}' cannot be used in key specification.")
    elif kind is Kind.VECTOR:
        yield Refusal(8200, f"Unsupported add index on column '{name}': a VECTOR needs a VECTOR INDEX")
    elif kind in _STRINGS and column.length == 0 and not column.type.name.endswith(("text", "blob")):
        yield Refusal(1167, f"The used storage engine can't index column '{name}'")
    elif length == 0:
        yield Refusal(1391, f"Key part '{name}' length cannot be 0")
    elif length is None and column.type.name.endswith(("text", "blob")):
        yield Refusal(1170, f"BLOB/TEXT column '{name}' used in key specification without a key length")
    elif length is not None and (kind not in _STRINGS or _is_longer(column, length)):
        text = "the used key part isn't a string, the used length is longer than the key part"
        yield Refusal(1089, f"Incorrect prefix key; {text}, or the storage engine doesn't support unique prefix keys")
    if index.kind == "primary" and column.virtual:
        text = "'Defining a virtual generated column as primary key' is not supported for generated columns."
        yield Refusal(3106, text)


def of_changed_part(table: Table, old: Column, new: Column) -> Iterator[Refusal]:
    """A column that gets another definition, in its indexes. The lengths of prefixes are not known."""
    prefixed = {name.lower() for name in table.details.prefixed} if table.details else {old.name.lower()}
    for index in table.indexes:
        if old.name not in index.columns or old.name.lower() in prefixed:
            continue
        kind = new.type.kind
        if kind is Kind.JSON:
            yield Refusal(3152, f"JSON column '{old.name}' cannot be used in key specification.")
        elif new.type.name.endswith(("text", "blob")) and not old.type.name.endswith(("text", "blob")):
            yield Refusal(1170, f"BLOB/TEXT column '{old.name}' used in key specification without a key length")
        elif _bytes(new, None) > _MAX_BYTES >= _bytes(old, None):
            size = _bytes(new, None)
            text = f"Specified key was too long ({size} bytes); max key length is {_MAX_BYTES} bytes"
            yield Refusal(1071, text)


def of_converted(table: Table, charset: str) -> Iterator[Refusal]:
    """All texts of a table get this character set: keys that grow too long. Lengths of prefixes are not known."""
    if table.details is None:
        return
    columns = {c.name: replace(c, charset=charset) if c.charset not in ("", "binary") else c for c in table.columns}
    for index in table.indexes:
        if not set(index.columns) & set(table.details.prefixed):
            size = sum(_bytes(columns[name], None) for name in index.columns if name in columns)
            if size > _MAX_BYTES:
                text = f"Specified key was too long ({size} bytes); max key length is {_MAX_BYTES} bytes"
                yield Refusal(1071, text)


def _is_longer(column: Column, length: int) -> bool:
    return not column.type.name.endswith(("text", "blob")) and length > (column.length or 0)


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
        whole, rest = divmod(column.length or 10, 9)
        return whole * 4 + (rest + 1) // 2
    return _WIDTHS.get(kind, 0)


def of_automatic(columns: Sequence[ColumnDef], indexes: Sequence[IndexDef]) -> Iterator[Refusal]:
    """AUTO_INCREMENT of CREATE TABLE: one column, with which a key begins."""
    automatic = [c.name.lower() for c in columns if c.auto_increment]
    firsts = {i.parts[0].lower() for i in indexes if i.parts and i.kind in ("primary", "unique", "index")}
    if len(automatic) > 1:
        text = "there can be only one auto column and it must be defined as a key"
        yield Refusal(1075, f"Incorrect table definition; {text}")
    elif any(name not in firsts for name in automatic):
        yield AUTO_WITHOUT_KEY


def is_primary(table: Table, index: Index) -> bool:
    """The primary key, or the first unique key without NULLs where there is none."""
    unique = [i for i in table.indexes if i.unique]
    columns = {c.name: c for c in table.columns}
    firsts = [i for i in unique if i.name == PRIMARY] or [
        i for i in unique if all(n in columns and not columns[n].nullable for n in i.columns)
    ]
    return bool(firsts) and firsts[0] is index


def becomes_primary(table: Table, added: IndexDef) -> bool:
    """Whether a unique key that is added serves as primary key, because there is no other without NULLs."""
    columns = [find(table.columns, part) for part in added.parts]
    return (
        added.kind == "unique"
        and all(column is not None and not column.nullable for column in columns)
        and not any(is_primary(table, index) for index in table.indexes)
    )


# ---- foreign keys
def of_foreign_key(catalog: Catalog, table: Table, index: IndexDef) -> Iterator[Refusal]:
    """With foreign_key_checks on, as by default: the caller takes out what TiDB does not say otherwise."""
    if index.kind != "foreign" or index.references is None:
        return
    for name in index.parts:
        if not find(table.columns, name):
            yield Refusal(1072, f"Key column '{name}' doesn't exist in table")
    if len(index.parts) != len(index.referenced):
        text = "Key reference and table reference don't match"
        yield Refusal(
            1239, f"Incorrect foreign key definition for '{index.name or 'foreign key without name'}': {text}"
        )
        return
    for part in index.parts:
        own = find(table.columns, part)
        if own is not None and own.virtual:
            name = index.name or "fk_1"
            yield Refusal(3733, f"Foreign key '{name}' uses virtual column '{part}' which is not supported.")
        elif own is not None and own.generated:
            for action in (one for one in index.actions if one != "ON DELETE CASCADE"):
                yield Refusal(3104, f"Cannot define foreign key with {action} clause on a generated column.")
        elif index.actions and _is_base_of_stored(table, part):
            yield Refusal(1215, "Cannot add foreign key constraint")
        if own is not None and not own.nullable and index.sets_null:
            text = f"needed in a foreign key constraint '{index.name or 'fk_1'}' SET NULL"
            yield Refusal(1830, f"Column '{part}' cannot be NOT NULL: {text}")
    target = TableId(index.references.db or table.id.db, index.references.table)
    parent = table if target.folded == table.id.folded else catalog.table(target)
    if parent is None:
        # Only a view or a sequence of this name tells that there is no such table.
        certain = catalog.exists(target) is not None
        yield Refusal(1824, f"Failed to open the referenced table '{target.table}'", certain)
        return
    yield from _of_parent(table, parent, index)


def _is_base_of_stored(table: Table, name: str) -> bool:
    """Whether a column that is generated and stored names a column."""
    stored = [generated_names(one.generated) for one in table.columns if one.generated and not one.virtual]
    return any(name.lower() == one.lower() for names in stored for one in names)


def _of_parent(table: Table, parent: Table, index: IndexDef) -> Iterator[Refusal]:
    """The table that a foreign key names (upstream `pkg/ddl/foreign_key.go`, checkTableForeignKey)."""
    name = index.name or "fk_1"
    lower = [[part.lower() for part in parts] for parts in (index.parts, index.referenced)]
    if (parent is table and lower[0] == lower[1]) or (parent.details and parent.details.temporary):
        yield NO_FOREIGN_KEY
    if parent.details and parent.details.ttl:
        yield REFERENCED_TTL
    if any(one.details and one.details.partitioning for one in (parent, table)):
        yield Refusal(1506, "Foreign key clause is not yet supported in conjunction with partitioning")
    columns = [find(parent.columns, part) for part in index.referenced]
    for part, there in zip(index.referenced, columns, strict=True):
        if there is None:
            text = f"Missing column '{part}' for constraint '{name}' in the referenced table '{parent.id.table}'"
            yield Refusal(3734, f"Failed to add the foreign key constraint. {text}")
    known = tuple(c.name for c in columns if c is not None)
    if len(known) < len(columns):
        return
    for part, there in zip(index.parts, columns, strict=True):
        own = find(table.columns, part)
        if own is not None and there is not None and not _are_alike(own, there):
            text = f"column '{own.name}' and referenced column '{there.name}' in foreign key constraint '{name}'"
            yield Refusal(3780, f"Referencing {text} are incompatible.")
        if there is not None and there.virtual:
            yield Refusal(3733, f"Foreign key '{name}' uses virtual column '{part}' which is not supported.")
    fitting = [i for i in parent.indexes if i.columns[: len(known)] == known]
    if (parent.indexes or parent.details) and not any(_is_whole(parent, known, i) for i in fitting):
        text = f"Missing index for constraint '{name}' in the referenced table '{parent.id.table}'"
        yield Refusal(1822, f"Failed to add the foreign key constraint. {text}", certain=not fitting)


def _is_whole(table: Table, columns: tuple[str, ...], index: Index) -> bool:
    """Whether an index has these columns whole, or may have: another one has the prefix that is known. A prefix may
    be as long as its column."""
    prefixed = {name.lower() for name in table.details.prefixed} if table.details else set()
    others = {c for one in table.indexes if one != index for c in one.columns}
    return not any(c.lower() in prefixed and c not in others for c in columns)


def _are_alike(column: Column, other: Column) -> bool:
    """Whether both sides have the same type, sign and character set, as far as it is known; lengths may differ."""
    if not (column.charset and other.charset):
        return (column.type, column.unsigned) == (other.type, other.unsigned)
    first, second = ((c.type, c.unsigned, c.charset, c.collate) for c in (column, other))
    return first == second
