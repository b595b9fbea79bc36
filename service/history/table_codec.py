"""Tables as the store keeps them: compact, the same bytes for the same columns, whatever the table is called.

A form is JSON, deflated: [columns, indexes, charset, collate, comment], and the number of foreign keys, if there are or
were any; a column is [name, type, flags, others], its flags one number and `others` what differs from a plain column;
an index is [name, columns, unique], and the lengths of its prefixes and its condition, if it has any. Stored forms must
stay readable: `_FLAGS` only grows.
"""

import hashlib
import json
import zlib
from typing import Any, Final

from ticdc_bridge.schemas.codec.bounded_cache import BoundedCache, LruCache
from ticdc_bridge.schemas.codec.json_exact import compact_json
from ticdc_bridge.schemas.model.table import Column, Index, Table, TableId
from ticdc_bridge.schemas.model.types import BY_NAME

_FLAGS: Final = (
    "unsigned", "nullable", "has_default", "default_is_expr", "default_unzoned", "handle_key", "primary_key", "virtual",
    "zerofill", "auto_increment", "unique_key", "multiple_key", "default_dropped",
)  # fmt: skip
_MOST_TEXTS: Final = 50_000
# Field of a column → its key in `others`, and what is left out.
_OTHERS: Final = (
    ("length", "l", None), ("scale", "s", None), ("elements", "e", ()), ("default", "d", None), ("vague", "v", ""),
    ("charset", "c", ""), ("collate", "o", ""), ("comment", "m", ""), ("on_update", "u", ""), ("generated", "g", None),
    ("id", "i", 0),
)  # fmt: skip


def encode(table: Table) -> bytes:
    """A table without its name."""
    indexes = [
        [i.name, list(i.columns), int(i.unique), *([i.lengths, i.condition] if any(i.lengths) or i.condition else [])]
        for i in table.indexes
    ]
    rest = compact_json([indexes, table.charset, table.collate, table.comment, *filter(None, [table.foreign_keys])])
    text = f"[[{','.join(map(_column, table.columns))}],{rest[1:]}"
    # Deflated at the lowest level: most of what can be gained, in a third of the time.
    return zlib.compress(text.encode("utf-8", "surrogatepass"), 1)


_texts: BoundedCache[int, tuple[Column, str]] = BoundedCache(_MOST_TEXTS)


def _column(column: Column) -> str:
    """A column's text, kept for a while: from version to version nearly all columns are the same objects."""
    entry = _texts.get(id(column))
    if entry is not None and entry[0] is column:
        return entry[1]
    flags = sum(1 << bit for bit, name in enumerate(_FLAGS) if getattr(column, name))
    others: dict[str, Any] = {}
    for name, key, left_out in _OTHERS:
        value = getattr(column, name)
        if value != left_out:
            others[key] = {"hex": value.hex()} if isinstance(value, bytes) else value
    text = compact_json([column.name, column.type.name, flags, others])
    _texts[id(column)] = (column, text)
    return text


def decode(form: bytes, id_: TableId) -> Table:
    """The table that `encode` was given, under a name."""
    text = zlib.decompress(form).decode("utf-8", "surrogatepass")
    columns, indexes, charset, collate, comment, *others = json.loads(text)
    return Table(
        id_,
        tuple(map(_intern_column, columns)),
        tuple(
            Index(name, tuple(pieces), bool(unique), tuple(*rest[:1]), *rest[1:])
            for name, pieces, unique, *rest in indexes
        ),
        charset,
        collate,
        comment,
        foreign_keys=others[0] if others else 0,
    )


_columns: BoundedCache[str, Column] = BoundedCache(_MOST_TEXTS)


def _intern_column(form: list[Any]) -> Column:
    """Equal columns of different tables and versions are one object: most databases repeat themselves."""
    key = repr(form)
    column = _columns.get(key)
    if column is not None:
        return column
    name, kind, flags, others = form
    fields: dict[str, Any] = {flag: bool(flags >> bit & 1) for bit, flag in enumerate(_FLAGS)}
    for field, short, _ in _OTHERS:
        if short in others:
            value = others[short]
            if isinstance(value, dict):
                value = bytes.fromhex(value["hex"])
            fields[field] = tuple(value) if field == "elements" else value
    column = _columns[key] = Column(name, BY_NAME[kind], **fields)
    return column


def digest(form: bytes) -> bytes:
    """The name of a form: 16 bytes."""
    return hashlib.blake2b(form, digest_size=16).digest()


TableCache = LruCache[tuple[bytes, TableId], Table]
"""Decoded tables by the digest of their form and their name."""
