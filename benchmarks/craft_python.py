"""The rival of the compiled Craft kernels: the same typed values in plain Python, with every trick that helped there.

Both check the same: numbers use their bytes and are in range, texts are UTF-8, decimals fit their columns.
Reading: heads of column groups are parsed once and found again by their bytes, numbers of one byte come from a table,
values go straight into one list a column. Writing: heads are made once, small numbers come from a table.
"""

import re
import struct
from collections.abc import Callable, Sequence
from decimal import Decimal
from typing import Any

from ticdc_bridge.schemas.formats.craft.layout import (
    NEW,
    OLD,
    ROW,
    Dictionary,
    MessageParser,
    RowEvent,
    RowImage,
    delta_uvarints,
    delta_varints,
    unzigzag,
    uvarint,
    uvarints,
    varint,
)
from ticdc_bridge.schemas.formats.craft.values import type_of
from ticdc_bridge.schemas.model import values
from ticdc_bridge.schemas.model.table import Column, Table
from ticdc_bridge.schemas.model.types import Kind

_ONE_BYTE_SIGNED = tuple(unzigzag(n) for n in range(128))
_DOUBLE, _SINGLE = struct.Struct("<d"), struct.Struct("<f")
_UVARINTS = tuple(uvarint(n) for n in range(1 << 14))
_VARINTS = {n: varint(n) for n in range(-(1 << 12), 1 << 12)}
_LENGTHS = tuple(varint(n) for n in range(1 << 12))
_NULL = varint(-1)


# ---------------------------------------------------------------------------------------------- reading
def _number(content: bytes) -> int:
    """A uvarint that is all of the content, up to 64 bits."""
    if len(content) == 1 and content[0] < 128:
        return content[0]
    number, shift = 0, 0
    for byte in content:
        number |= (byte & 127) << shift
        shift += 7
    if not content or content[-1] > 127 or number >> 64 or not all(map(_MORE, content[:-1])):
        raise ValueError("no number")
    return number


_MORE = (128).__and__


def _unsigned(high: int) -> Callable[[bytes], int]:
    def read(content: bytes) -> int:
        number = _number(content)
        if number > high:
            raise ValueError("out of range")
        return number

    return read


def _signed(low: int, high: int) -> Callable[[bytes], int]:
    def read(content: bytes) -> int:
        if len(content) == 1 and content[0] < 128:
            return _ONE_BYTE_SIGNED[content[0]]
        number = _number(content)
        number = (number >> 1) ^ -(number & 1)
        if not low <= number <= high:
            raise ValueError("out of range")
        return number

    return read


def _double(content: bytes) -> float:
    number: float = _DOUBLE.unpack(content)[0]
    if number - number != 0:
        raise ValueError("not finite")
    return number


def _float(content: bytes) -> float:
    number: float = _DOUBLE.unpack(content)[0]
    if _SINGLE.unpack(_SINGLE.pack(number))[0] != number:
        raise ValueError("no float32")
    return number


def _text(content: bytes) -> str:
    return content.decode()


def _bytes(content: bytes) -> bytes:
    return content


def _decimal(scale: int, limit: Decimal) -> Callable[[bytes], Decimal]:
    plain = re.compile(rf"-?\d{{1,65}}(?:\.\d{{1,{scale}}})?\Z", re.ASCII).match

    def read(content: bytes) -> Decimal:
        text = content.decode()
        number = Decimal(text)
        if not plain(text) or not -limit < number < limit:
            raise ValueError("no DECIMAL of the column")
        return number

    return read


def _reader(column: Column) -> Callable[[bytes], Any]:
    kind = column.type.kind
    if kind is Kind.INTEGER:
        top = 1 << column.type.bits - 1
        return _unsigned(2 * top - 1) if column.unsigned else _signed(-top, top - 1)
    if kind is Kind.ENUM:
        names = ("", *column.elements)
        return lambda content: names[_number(content)]
    if kind is Kind.SET:
        elements = column.elements
        sets = [",".join(e for i, e in enumerate(elements) if n >> i & 1) for n in range(1 << len(elements))]
        return lambda content: sets[_number(content)]
    if kind is Kind.BIT:
        size, read = values.bit_size(column.length or 64), _unsigned((1 << (column.length or 64)) - 1)
        return lambda content: read(content).to_bytes(size, "big")
    if kind is Kind.DECIMAL and column.length is not None and column.scale is not None and column.length <= 38:
        return _decimal(column.scale, Decimal(10) ** (column.length - column.scale))
    return _READERS.get(kind, _text)


_READERS: dict[Kind, Callable[[bytes], Any]] = {
    Kind.YEAR: _signed(0, 2155),
    Kind.FLOAT: _float,
    Kind.DOUBLE: _double,
    Kind.BINARY: _bytes,
}


class PythonDecoder:
    """Messages → for each side one list of typed values a column, and op and commit_ts of the rows."""

    def __init__(self, table: Table) -> None:
        self._parser = MessageParser()
        self._readers = {c.name: _reader(c) for c in table.columns}
        self._names = tuple(c.name for c in table.columns)

    def decode(self, messages: Sequence[bytes]) -> dict[str, Any]:
        before: dict[str, list[Any]] = {name: [] for name in self._names}
        after: dict[str, list[Any]] = {name: [] for name in self._names}
        ops: list[str] = []
        stamps: list[int] = []
        plans: dict[Any, tuple[Any, Any]] = {}
        for data in messages:
            for piece in self._parser.parse(data):
                assert isinstance(piece, RowEvent)
                stamps.append(piece.commit_ts)
                ops.append("d" if piece.new is None else "c" if piece.old is None else "u")
                for group, image, k in ((piece.new, after, 0), (piece.old, before, 1)):
                    if group is None:
                        for column in image.values():
                            column.append(None)
                        continue
                    plan = plans.get(group.head)
                    if plan is None:
                        plan = plans[group.head] = (self._plan(group, after), self._plan(group, before))
                    pos = group.pos
                    for (append, read), length in zip(plan[k], group.lengths, strict=True):
                        if length < 0:
                            append(None)
                        else:
                            end = pos + length
                            append(read(data[pos:end]))
                            pos = end
        return {"op": ops, "commit_ts": stamps, "before": before, "after": after}

    def _plan(self, group: RowImage, image: dict[str, list[Any]]) -> tuple[Any, ...]:
        return tuple((image[name].append, self._readers[name]) for name in group.head.names)


# ---------------------------------------------------------------------------------------------- writing
def _w_unsigned(high: int) -> Callable[[Any], bytes]:
    def write(number: Any) -> bytes:
        number = int(number)  # BIGINT UNSIGNED comes as a Decimal
        if not 0 <= number <= high:
            raise ValueError("out of range")
        return _UVARINTS[number] if number < 1 << 14 else uvarint(number)

    return write


def _w_signed(low: int, high: int) -> Callable[[int], bytes]:
    def write(number: int) -> bytes:
        if not low <= number <= high:
            raise ValueError("out of range")
        return _VARINTS.get(number) or varint(number)

    return write


def _w_double(number: float) -> bytes:
    if number - number != 0:
        raise ValueError("not finite")
    return _DOUBLE.pack(number)


def _w_decimal(scale: int, limit: Decimal) -> Callable[[Decimal], bytes]:
    def write(number: Decimal) -> bytes:
        text = format(number, "f")
        if not -limit < number < limit or len(text.partition(".")[2]) != scale:
            raise ValueError("no DECIMAL of the column")
        return text.encode()

    return write


def _w_formed(form: str) -> Callable[[str], bytes]:
    matches = re.compile(form, re.ASCII).match

    def write(text: str) -> bytes:
        if not matches(text):
            raise ValueError("not of the column's form")
        return text.encode()

    return write


def _writer(column: Column) -> Callable[[Any], bytes]:
    kind = column.type.kind
    if kind is Kind.INTEGER:
        top = 1 << column.type.bits - 1
        return _w_unsigned(2 * top - 1) if column.unsigned else _w_signed(-top, top - 1)
    if kind is Kind.ENUM:
        names = {name: uvarint(i) for i, name in enumerate(("", *column.elements))}
        return names.__getitem__
    if kind is Kind.SET:
        elements = column.elements
        masks = {
            ",".join(e for i, e in enumerate(elements) if n >> i & 1): uvarint(n) for n in range(1 << len(elements))
        }
        return masks.__getitem__
    if kind is Kind.BIT:
        write = _w_unsigned((1 << (column.length or 64)) - 1)
        return lambda data: write(int.from_bytes(data, "big"))
    if kind is Kind.DECIMAL and column.length is not None and column.scale is not None and column.length <= 38:
        return _w_decimal(column.scale, Decimal(10) ** (column.length - column.scale))
    return _WRITERS.get(kind, str.encode)


_MOMENT = r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d(?:\.\d{1,6})?\Z"
_WRITERS: dict[Kind, Callable[[Any], bytes]] = {
    Kind.YEAR: _w_signed(0, 2155),
    Kind.FLOAT: _w_double,
    Kind.DOUBLE: _w_double,
    Kind.BINARY: bytes,
    Kind.DATE: _w_formed(r"\d{4}-\d\d-\d\d\Z"),
    Kind.DATETIME: _w_formed(_MOMENT),
    Kind.TIMESTAMP: _w_formed(_MOMENT),
    Kind.TIME: _w_formed(r"-?\d{2,3}:\d\d:\d\d(?:\.\d{1,6})?\Z"),
}


class PythonEncoder:
    """Typed rows of whole columns, batch by batch, → messages."""

    def __init__(self, table: Table) -> None:
        names = Dictionary()
        names.id(table.id.db)
        names.id(table.id.table)
        ids = [names.id(c.name) for c in table.columns]
        kinds = [type_of(c) for c in table.columns]
        flags = uvarints(f for _, f in kinds)
        head = uvarint(len(ids)) + delta_varints(ids) + uvarints(c for c, _ in kinds) + flags
        self._heads = {image: uvarint(image) + head for image in (NEW, OLD)}
        self._terms = names.data()
        self._writers = [_writer(c) for c in table.columns]

    def encode(self, rows: Sequence[tuple[int, Any, Any]]) -> bytes:
        """(commit_ts, after, before) by row, each a tuple of values or None → a message."""
        bodies, groups = [], []
        for _, after, before in rows:
            sizes = []
            for image, row in ((NEW, after), (OLD, before)):
                if row is not None:
                    contents = [None if v is None else write(v) for write, v in zip(self._writers, row, strict=True)]
                    lengths = [_NULL if c is None else _LENGTHS[len(c)] for c in contents]
                    group = self._heads[image] + b"".join(lengths) + b"".join(filter(None, contents))
                    bodies.append(group)
                    sizes.append(len(group))
            groups.append(sizes)
        count = len(rows)
        headers = delta_uvarints([row[0] for row in rows]) + bytes([ROW]) * count + delta_varints([-1] * count)
        headers += bytes(count) + delta_varints([1] * count)
        tables = [[len(headers), len(self._terms)], [sum(sizes) for sizes in groups], *groups]
        sizes_part = b"".join(uvarint(len(t)) + delta_varints(t) for t in tables)
        return b"".join((b"\x01", headers, *bodies, self._terms, sizes_part, uvarint(len(sizes_part))[::-1]))
