"""Changes of a column that TiDB refuses (upstream tidb `pkg/ddl/modify_column.go`, `pkg/types/field_type.go`)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from ticdc_bridge.schemas.ddl.executor.charsets import Charset
from ticdc_bridge.schemas.model.table import Column, Table
from ticdc_bridge.schemas.model.type_text import type_text
from ticdc_bridge.schemas.model.types import Kind
from ticdc_bridge.service.ddl_check.refusals.columns import Refusal

_STRINGS: Final = (Kind.TEXT, Kind.BINARY)
_DATES: Final = (Kind.DATE, Kind.DATETIME, Kind.TIMESTAMP)
_CLOCK: Final = (*_DATES, Kind.TIME, Kind.YEAR)
_FRACTIONS: Final = (Kind.DECIMAL, Kind.FLOAT, Kind.DOUBLE)
_LISTS: Final = (Kind.ENUM, Kind.SET)
# Kinds that do not become kinds.
_UNSUPPORTED: Final = (
    ((*_CLOCK, *_STRINGS, Kind.JSON), (Kind.BIT,)),
    ((*_CLOCK, *_FRACTIONS, Kind.JSON, Kind.BIT), _LISTS),
    ((*_LISTS, Kind.BIT, *_FRACTIONS), _DATES),
    ((*_LISTS, Kind.BIT), (Kind.TIME,)),
)
_CAPACITY: Final = {"tiny": 255, "": 65_535, "medium": (1 << 24) - 1, "long": (1 << 32) - 1}
# Collations in which equal texts are equal in the other one too.
_COMPATIBLE: Final = (
    ("utf8mb4_general_ci", "utf8_general_ci"), ("utf8mb4_unicode_ci", "utf8_unicode_ci"),
    ("utf8mb4_bin", "utf8_bin", "latin1_bin", "ascii_bin"),
)  # fmt: skip
_CHARSETS: Final = (("utf8", "utf8mb4"), ("latin1", "utf8mb4"))


def of_change(old: Column, new: Column, table: Table, *, auto_random: bool = False) -> Iterator[Refusal]:
    """A column that is defined anew. auto_random: it becomes AUTO_RANDOM."""
    if Kind.VECTOR in (old.type.kind, new.type.kind) and old.type is not new.type:
        yield _unsupported_type(old, new)
        return
    if any(old.type.kind in a and new.type.kind in b for a, b in _UNSUPPORTED):
        yield _unsupported_type(old, new)
        return
    rewritten = needs_rewriting(old, new)
    if rewritten:
        yield from _of_rewriting(old, new, table)
    indexed = any(old.name in i.columns for i in table.indexes)
    yield from _of_charset(old, new, rewritten, indexed)
    if new.auto_increment and not old.auto_increment:
        yield Refusal(8200, "Unsupported modify column: can't set auto_increment")
    if old.auto_increment and not new.auto_increment and not auto_random:
        text = "can't remove auto_increment without @@tidb_allow_remove_auto_inc enabled"
        yield Refusal(8200, f"Unsupported modify column: {text}")
    if old.virtual != new.virtual:
        yield Refusal(3106, "'Changing the STORED status' is not supported for generated columns.")
    elif new.generated is not None and old.generated != new.generated and (indexed or not new.virtual):
        what = "an indexed column" if new.virtual else "a stored column"
        yield Refusal(3106, f"'modifying {what}' is not supported for generated columns.")
    elif new.generated is not None and indexed and (old.type, old.length) != (new.type, new.length):
        text = "Unsupported modification for generated columns covered by an index (TiDB of 2026)"
        yield Refusal(3106, text, certain=False)


def _of_rewriting(old: Column, new: Column, table: Table) -> Iterator[Refusal]:
    """What TiDB does not write anew (upstream `onModifyColumn`, GetModifiableColumnJob)."""
    if old.primary_key:
        yield Refusal(8200, "Unsupported modify column: this column has primary key flag")
    if old.generated is not None or new.generated is not None:
        yield Refusal(8200, "Unsupported modify column: column has related generated column")
    if table.details and table.details.partitioning:
        text = "table is partition table (TiDB of 2026 takes it)"
        yield Refusal(8200, f"Unsupported modify column: {text}", certain=False)


def _unsupported_type(old: Column, new: Column) -> Refusal:
    text = f"change from original type {type_text(old)} to {type_text(new)} is currently unsupported yet"
    return Refusal(8200, f"Unsupported modify column: {text}")


def needs_rewriting(old: Column, new: Column) -> bool:
    """Whether TiDB has to write each row's value again."""
    a, b = old.type, new.type
    if a.kind in _STRINGS and b.kind in _STRINGS:
        return (_is_fixed(old) != _is_fixed(new) and not (_is_lob(old) or _is_lob(new))) or _shrinks(old, new)
    if a.kind is Kind.INTEGER and b.kind is Kind.INTEGER:
        return b.bits < a.bits or old.unsigned != new.unsigned
    if a is not b:
        return True
    if a.kind is Kind.DECIMAL:
        return (old.length, old.scale, old.unsigned) != (new.length, new.scale, new.unsigned)
    if a.kind in _LISTS:
        return new.elements[: len(old.elements)] != old.elements
    shorter = (new.length or 0) < (old.length or 0) or (new.scale or 0) < (old.scale or 0)
    return shorter or old.unsigned != new.unsigned


def _is_lob(c: Column) -> bool:
    return c.type.name.endswith(("text", "blob"))


def _is_fixed(c: Column) -> bool:
    return c.type.name in ("char", "binary")


def _room(c: Column) -> int:
    for end in ("text", "blob"):
        if c.type.name.endswith(end):
            return _CAPACITY[c.type.name.removesuffix(end)]
    return c.length or 0


def _shrinks(old: Column, new: Column) -> bool:
    padded = old.type.name == new.type.name == "binary" and old.length != new.length
    return _room(new) < _room(old) or padded


def _own_charset(c: Column) -> Charset:
    """Without a name where it is not known: a text of a table without CHARSET."""
    return Charset("binary", "binary") if c.type.kind is Kind.BINARY else Charset(c.charset, c.collate)


def _of_charset(old: Column, new: Column, rewritten: bool, indexed: bool) -> Iterator[Refusal]:
    before, after = _own_charset(old), _own_charset(new)
    if not (before.name and after.name) or old.type.kind not in (*_STRINGS, *_LISTS):
        return
    if new.type.kind not in (*_STRINGS, *_LISTS):
        return
    for refusal in of_charset(before, after, old.name if indexed else ""):
        # A change that rewrites the rows converts them too, but from and to gbk.
        if not rewritten or "gbk" in (before.name, after.name) or "collation" in refusal.text:
            yield refusal


def of_charset(before: Charset, after: Charset, indexed: str = "") -> Iterator[Refusal]:
    """A table or a column gets another character set or collation. indexed: the column's name where it has an index."""
    if indexed and not _is_compatible(before.collate, after.collate):
        text = f"of column '{indexed}' from '{before.collate}' to '{after.collate}' when index is defined on it."
        yield Refusal(8200, f"Unsupported modifying collation {text}")
    elif before.name != after.name and (before.name, after.name) not in _CHARSETS:
        yield Refusal(8200, f"Unsupported modify charset from {before.name} to {after.name}")
    elif before.name == after.name and before.collate != after.collate and before.name not in ("utf8", "utf8mb4"):
        yield Refusal(8200, f"Unsupported modify change collate from {before.collate} to {after.collate}")


def _is_compatible(a: str, b: str) -> bool:
    return a == b or any(a in group and b in group for group in _COMPATIBLE)
