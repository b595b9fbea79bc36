"""Readers of Avro's compound types, put together from readers of their parts (Avro 1.12, "Binary Encoding").

A record is a dict by its fields' names, an array a list, a map a dict. What fails is told with the names of the fields
around it (`FieldError`). No count is trusted before it is compared with what is there.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

from ticdc_bridge.schemas.codec import avro as binary
from ticdc_bridge.schemas.codec.avro import Reader, TruncatedValue

MOST_ITEMS = 1 << 16  # no array of a message has more: elements of an ENUM, columns of a table

Convert = Callable[[Any], Any]


@dataclass(frozen=True, slots=True)
class FieldReader:
    """A field of a record. convert: what becomes of a value that is not null (None: nothing).

    branches: the kinds of its union in their order, or its one kind; where somebody asks.
    """

    name: str
    read: Reader
    convert: Convert | None = None
    branches: tuple[str, ...] = ()


class FieldError(ValueError):
    """A field of a record that can't be read; its text says why. path: the names, from the outermost record's on.

    is_cut: the buffer ends in it.
    """

    def __init__(self, name: str, error: Exception) -> None:
        super().__init__(str(error))
        self.path, self.is_cut = [name], isinstance(error, TruncatedValue)


def read_fields(fields: tuple[FieldReader, ...], buffer: bytes, pos: int) -> tuple[dict[str, Any], int]:
    """A record's fields from `pos` on → (values by name, next position). FieldError."""
    record: dict[str, Any] = {}
    for field in fields:
        try:
            value, pos = field.read(buffer, pos)
            record[field.name] = value if value is None or field.convert is None else field.convert(value)
        except FieldError as error:
            error.path.insert(0, field.name)
            raise
        except (TruncatedValue, ValueError) as error:
            raise FieldError(field.name, error) from error
    return record, pos


def record_reader(**fields: Reader) -> Reader:
    """Reader of a record of these fields."""
    return partial(read_fields, tuple(FieldReader(name, read) for name, read in fields.items()))


def converted(read: Reader, convert: Convert) -> Reader:
    """The same reader, with what `convert` makes of its values."""

    def reader(buffer: bytes, pos: int) -> tuple[Any, int]:
        value, pos = read(buffer, pos)
        return convert(value), pos

    return reader


def utf8(data: bytes) -> str:
    """Bytes of a string; those that are not UTF-8 stand as lone surrogates (Python's surrogateescape)."""
    return data.decode("utf-8", "surrogateescape")


read_text = converted(binary.read_bytes, utf8)


def union_reader(*branches: Reader | None) -> Reader:
    """Reader of a union; None stands for null."""

    def read(buffer: bytes, pos: int) -> tuple[Any, int]:
        index, pos = binary.read_long(buffer, pos)
        if not 0 <= index < len(branches):
            raise ValueError(f"union branch {index}, there are {len(branches)}")
        branch = branches[index]
        return (None, pos) if branch is None else branch(buffer, pos)

    return read


def enum_reader(symbols: tuple[str, ...], what: str) -> Reader:
    """Reader of an enum. what: what it is called in errors."""

    def read(buffer: bytes, pos: int) -> tuple[Any, int]:
        index, pos = binary.read_int(buffer, pos)
        if not 0 <= index < len(symbols):
            raise ValueError(f"{what} {index}, there are {len(symbols)}")
        return symbols[index], pos

    return read


@dataclass(slots=True)
class ItemBudget:
    """How many items all arrays of a value together may still have, so that memory stays in proportion to it."""

    left: int = MOST_ITEMS


def array_reader(item: Reader, budget: ItemBudget | None = None, block: Reader | None = None) -> Reader:
    """Reader of an array. budget: what it shares with others; else it has MOST_ITEMS of its own.

    block: reader of a block's head, where it is not `block_count`.
    """
    head = block or block_count

    def read(buffer: bytes, pos: int) -> tuple[Any, int]:
        items: list[Any] = []
        share = budget or ItemBudget()
        while True:
            count, pos = head(buffer, pos)
            if not count:
                return items, pos
            share.left -= count
            if share.left < 0:
                raise ValueError(f"more than {MOST_ITEMS} items")
            for _ in range(count):
                value, pos = item(buffer, pos)
                items.append(value)

    return read


def block_count(buffer: bytes, pos: int) -> tuple[int, int]:
    """The head of an array's or map's next block → (how many items it has, where they begin). 0 items: the end."""
    count, pos = binary.read_long(buffer, pos)
    if count < 0:
        size, pos = binary.read_long(buffer, pos)
        count = -count
        if not 0 <= size <= len(buffer) - pos:
            raise TruncatedValue(f"a block of {size} bytes, {len(buffer) - pos} left")
    if count > len(buffer) - pos:
        raise TruncatedValue(f"{count} items, {len(buffer) - pos} bytes left")
    return count, pos


def map_reader(value: Reader, block: Reader | None = None) -> Reader:
    """Reader of a map, as `array_reader`; ValueError where a key stands twice."""

    def entry(buffer: bytes, pos: int) -> tuple[Any, int]:
        name, pos = read_text(buffer, pos)
        content, pos = value(buffer, pos)
        return (name, content), pos

    entries = array_reader(entry, block=block)

    def read(buffer: bytes, pos: int) -> tuple[Any, int]:
        pairs, pos = entries(buffer, pos)
        members = dict(pairs)
        if len(members) != len(pairs):
            raise ValueError("a column stands twice in one row")
        return members, pos

    return read
