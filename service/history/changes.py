"""What differs between two versions of a table: columns and their order, keys, character set, collation, comment.

Which column is which, the statements in between say (`NamePaths`); it is never guessed from what columns look like.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal

from ticdc_bridge.schemas.ddl.executor.indexes import is_hidden
from ticdc_bridge.schemas.ddl.executor.show_create import key_name
from ticdc_bridge.schemas.ddl.parser.statements import Statement
from ticdc_bridge.schemas.model.names import quote_name, quote_text
from ticdc_bridge.schemas.model.table import Column, Index, Table
from ticdc_bridge.schemas.model.type_text import default_text, type_text
from ticdc_bridge.schemas.model.types import FRACTIONAL, Kind
from ticdc_bridge.service.history.statements import column_renames, dropped_columns, key_renames
from ticdc_bridge.service.history.table_json import column_form

ChangeKind = Literal["added", "dropped", "recreated", "renamed", "changed", "reordered"]


@dataclass(frozen=True, slots=True)
class StructureChange:
    """One difference. part: column, key, columns (their order), or an option: charset, collate, comment.

    name: as it is afterwards, or was if it is dropped; old_name: before, where that is another. before, after: JSON
    forms. recreated: dropped and added again under its name, so that its values are gone. text: for people.
    """

    kind: ChangeKind
    part: str
    name: str
    text: str
    before: Any = None
    after: Any = None
    old_name: str = ""

    def form(self) -> dict[str, Any]:
        named = {"old_name": self.old_name} if self.old_name else {}
        of = {"kind": self.kind, "part": self.part, "name": self.name, **named}
        return {**of, "before": self.before, "after": self.after, "text": self.text}


@dataclass(frozen=True, slots=True)
class NamePaths:
    """What a table's columns and keys are called later, by their first names; one that is not there was dropped."""

    columns: Mapping[str, str]
    keys: Mapping[str, str]

    @classmethod
    def of(cls, table: Table) -> NamePaths:
        return cls({c.name: c.name for c in table.columns}, {i.name: i.name for i in table.indexes})

    def after(self, statement: Statement | None, table: Table) -> NamePaths:
        """The paths to the table that a statement gave; None: to a description of it, in which names stay."""
        gone = dropped_columns(statement)
        left = {old: name for old, name in self.columns.items() if name.lower() not in gone}
        columns = _follow(left, column_renames(statement), (c.name for c in table.columns))
        return NamePaths(columns, _follow(self.keys, key_renames(statement), (i.name for i in table.indexes)))


def _follow(paths: Mapping[str, str], renames: Mapping[str, str], names: Iterable[str]) -> dict[str, str]:
    now = {name.lower(): name for name in names}
    moved = {old: renames.get(name.lower(), name).lower() for old, name in paths.items()}
    return {old: now[name] for old, name in moved.items() if name in now}


def changes(before: Table | None, after: Table | None, paths: NamePaths | None = None) -> list[StructureChange]:
    """Each difference; all that a table has is added or dropped where there is none on the other side.

    paths: from `before` to `after`; None where it is not known how one became the other, so that names stay.
    """
    if before is None or after is None:
        if (single := before or after) is None:
            return []
        nothing = replace(single, columns=(), indexes=())
        before, after, paths = before or nothing, after or nothing, NamePaths({}, {})
    paths = paths or NamePaths.of(before).after(None, after)
    found = [*_columns(before, after, paths), *_keys(before, after, paths)]
    for field, words in (("charset", "character set"), ("collate", "collation"), ("comment", "comment")):
        old, new = getattr(before, field), getattr(after, field)
        if old != new:
            absent = "none" if field == "comment" else "unknown"
            shown = [(quote_text(entry) if field == "comment" else entry) if entry else absent for entry in (old, new)]
            found.append(StructureChange("changed", field, "", f"{words} {shown[0]} → {shown[1]}", old, new))
    return found


# ---- columns
def _columns(before: Table, after: Table, paths: NamePaths) -> Iterator[StructureChange]:
    old_names = {name: old for old, name in paths.columns.items()}
    fresh = {c.name.lower() for c in after.columns if c.name not in old_names}
    for column in before.columns:
        if column.name not in paths.columns and column.name.lower() not in fresh:
            yield _single_change("dropped", column, before=column)
    existing = {c.name.lower(): c for c in before.columns}
    for column in after.columns:
        old_name = old_names.get(column.name)
        if old_name is not None:
            old = before.by_name[old_name]
            if old_name != column.name:
                text, forms = f"{old_name} is renamed to {column.name}", (column_form(old), column_form(column))
                yield StructureChange("renamed", "column", column.name, text, *forms, old_name)
            if _compared(old) != _compared(column):
                yield _single_change("changed", column, before=old, after=column)
            continue
        lost = existing.get(column.name.lower())
        if lost is not None and lost.name not in paths.columns:
            yield _single_change("recreated", column, before=lost, after=column)
        else:
            yield _single_change("added", column, after=column)
    order = [paths.columns[c.name] for c in before.columns if c.name in paths.columns]
    now = [c.name for c in after.columns if c.name in old_names]
    if order != now:
        text = f"the order of the columns: {', '.join(c.name for c in after.columns)}"
        yield StructureChange("reordered", "columns", "", text, order, now)


def _compared(column: Column) -> Column:
    """A column without its name, and without what its keys say."""
    return replace(
        column, name="", default_unzoned=False, handle_key=False, primary_key=False, unique_key=False,
        multiple_key=False,
    )  # fmt: skip


def _single_change(
    kind: ChangeKind, column: Column, *, before: Column | None = None, after: Column | None = None
) -> StructureChange:
    old, new = (None if entry is None else column_form(entry) for entry in (before, after))
    text = f"{column.name} {column_text(column)}"
    if kind == "changed" and before is not None:
        text = f"{column.name}: {column_text(before)} → {column_text(column)}"
    elif kind == "recreated" and before is not None:
        text = f"{column.name} was dropped and added again: {column_text(before)} → {column_text(column)}"
    return StructureChange(kind, "column", column.name, text, old, new)


def column_text(column: Column) -> str:
    """A column without its name, in the words of SQL."""
    words = [type_text(column) + (f" (or {column.vague})" if column.vague else "")]
    if column.generated is not None:
        words.append(f"AS ({column.generated}) {'VIRTUAL' if column.virtual else 'STORED'}")
    words.append("NULL" if column.nullable else "NOT NULL")
    default = default_text(column)
    if isinstance(default, bytes):
        words.append(f"DEFAULT x'{default.hex()}'")
    elif default is not None:
        is_unquoted = column.default_is_expr or column.type.kind is Kind.BIT
        words.append(f"DEFAULT {default if is_unquoted else quote_text(default)}")
    if column.on_update:
        words.append(f"ON UPDATE {column.on_update}")
    if column.auto_increment:
        words.append("AUTO_INCREMENT")
    if column.collate not in ("", "binary"):
        words.append(f"COLLATE {column.collate}")
    elif column.charset not in ("", "binary"):
        words.append(f"CHARACTER SET {column.charset}")
    if column.comment:
        words.append(f"COMMENT {quote_text(column.comment)}")
    return " ".join(words)


# ---- keys
def _keys(before: Table, after: Table, paths: NamePaths) -> Iterator[StructureChange]:
    now = {i.name: i for i in after.indexes}
    for old in before.indexes:
        name = paths.keys.get(old.name)
        new = None if name is None else now.pop(name)
        if new is None:
            yield StructureChange("dropped", "key", old.name, key_text(old), _key_form(old))
            continue
        forms = _key_form(old), _key_form(new)
        if old.name != new.name:
            text = f"key {old.name} is renamed to {new.name}"
            yield StructureChange("renamed", "key", new.name, text, *forms, old.name)
        moved = tuple(paths.columns.get(column, column) for column in old.columns)
        if (moved, old.unique) != (new.columns, new.unique):
            yield StructureChange("changed", "key", new.name, f"{key_text(old)} → {key_text(new)}", *forms)
    for new in now.values():
        yield StructureChange("added", "key", new.name, key_text(new), None, _key_form(new))


def key_text(index: Index) -> str:
    """A key as SHOW CREATE TABLE writes it; a part that is an expression is not known by its text."""
    return f"{key_name(index)} ({','.join('(expression)' if is_hidden(c) else quote_name(c) for c in index.columns)})"


def _key_form(index: Index) -> dict[str, Any]:
    columns = [None if is_hidden(column) else column for column in index.columns]
    return {"name": index.name, "columns": columns, "unique": index.unique}


_MAX_REPORTED = 8
_SIGN_NOT_STATED = (Kind.BIT, Kind.YEAR, Kind.DECIMAL)  # Debezium does not say it of DECIMAL


def difference(base: Table, actual: Table, *, all_columns: bool = True) -> str:
    """What of `actual` contradicts `base`, "" for nothing. all_columns: `actual` should have every column."""
    # Virtual columns are left out of most formats' rows.
    missing = [c.name for c in base.columns if all_columns and c.name not in actual.by_name and not c.virtual]
    differences = [f"column {name} is missing" for name in missing]
    differences += [f"column {c.name} is not in the history" for c in actual.columns if c.name not in base.by_name]
    for column in actual.columns:
        other = base.by_name.get(column.name)
        if other is not None:
            differences += (f"column {column.name}: {what}" for what in column_difference(other, column))
    more = f", and {len(differences) - _MAX_REPORTED} more" if len(differences) > _MAX_REPORTED else ""
    return "; ".join(differences[:_MAX_REPORTED]) + more


def column_difference(base: Column, actual: Column) -> Iterable[str]:
    """What contradicts in one column: type, signedness, sizes, elements, whether it can be NULL."""
    if base.vague or actual.vague:
        return
    if base.type is not actual.type:
        yield f"type {actual.type.name}, the history says {base.type.name}"
        return
    if base.unsigned != actual.unsigned and base.type.kind not in _SIGN_NOT_STATED:
        yield f"{'' if actual.unsigned else 'not '}unsigned, against the history"
    if base.type.kind in (Kind.DECIMAL, Kind.BIT) and actual.length is not None and base.length != actual.length:
        yield f"length {actual.length}, the history says {base.length}"
    scaled = base.type.kind is Kind.DECIMAL or base.type.kind in FRACTIONAL
    if scaled and actual.scale is not None and (base.scale or 0) != actual.scale:
        yield f"scale {actual.scale}, the history says {base.scale or 0}"
    if base.elements != actual.elements and actual.elements:
        yield f"elements {list(actual.elements)[:20]}, the history says {list(base.elements)[:20]}"
    if base.nullable != actual.nullable:
        yield f"{'NULL' if actual.nullable else 'NOT NULL'}, against the history"
