"""Cells with their texts (`schemas.columnar.plain_lines`) → lines of the plain form, for numba.

A line is literals, and between them numbers and the row's texts as JSON strings, escaped as
`schemas.plain.writer.json_line` escapes them.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from schemas.columnar.kernels.byte_buffers import copy, read_eight
from schemas.columnar.kernels.jit import inline, jit
from schemas.columnar.kernels.text import Array

NONE = -(1 << 63)
"""A number that is not there."""
NUMBER_ROOM = 24
ESCAPED = 5
"""Bytes that one byte of a text may take more than itself."""

_ABSENT = -2
_ONES, _BLANKS, _QUOTES, _SLASHES, _HIGH, _C2, _E2 = (
    np.uint64(byte * 0x0101010101010101) for byte in (1, 32, 34, 92, 128, 0xC2, 0xE2)
)
_HEX = np.frombuffer(b"0123456789abcdef", np.uint8)
_OFFSET, _COMMIT_TS, _AFTER, _EXTRA, _BYTES = (
    np.frombuffer(text, np.uint8)
    for text in (b', "offset": ', b'", "commit_ts": ', b', "after": ', b', "extra": ', b'{"hex": ')
)


class LineLiterals(NamedTuple):
    """Literals. text: all of them; the others are int64 (first byte, size) in it, by number.

    topics: the line up to its partition; before_op, before_row: by shape; flags: up to the line's end but for what it
    has beside its row; names: by column of all shapes. cells: which cell of the row such a column is; hexed: it is
    bytes; ends: after the last column of each shape.
    """

    text: Array
    topics: Array
    before_op: Array
    before_row: Array
    flags: Array
    names: Array
    cells: Array
    hexed: Array
    ends: Array


class LineRows(NamedTuple):
    """By row: numbers of its literals, of what it says (NONE where it does not), its first cells (-1: none) and their
    distance.

    extra: bytes that stand beside it, extra_ends: where those of each row end, one more than rows.
    """

    topic: Array
    shape: Array
    flag: Array
    partition: Array
    offset: Array
    op: Array
    commit_ts: Array
    before: Array
    after: Array
    step: Array
    extra: Array
    extra_ends: Array


@jit
def count_escapes(data: Array) -> int:
    """How many bytes may have to be escaped."""
    count = 0
    for byte in data:
        count += byte < 32 or byte == 34 or byte == 92 or byte == 0xC2 or byte == 0xE2
    return count


@jit
def fill(
    lines: LineLiterals, rows: LineRows, texts: Array, places: Array, length: Array, out: Array, ends: Array
) -> None:
    """Lines one after another. texts, places: of the cells; length: as `Rows` has it."""
    to = 0
    text, names, cells, hexed = lines.text, lines.names, lines.cells, lines.hexed
    for row in range(rows.shape.shape[0]):
        shape = rows.shape[row]
        first = lines.ends[shape - 1] if shape else 0
        last = lines.ends[shape]
        to = _literal(text, lines.topics, rows.topic[row], out, to)
        to = _number(rows.partition[row], out, to)
        to = _bytes(_OFFSET, out, to)
        to = _number(rows.offset[row], out, to)
        to = _literal(text, lines.before_op, shape, out, to)
        out[to] = rows.op[row]
        to = _bytes(_COMMIT_TS, out, to + 1)
        to = _number(rows.commit_ts[row], out, to)
        to = _literal(text, lines.before_row, shape, out, to)
        step, old, new = rows.step[row], rows.before[row], rows.after[row]
        to = _object(old, step, first, last, text, names, cells, hexed, texts, places, length, out, to)
        to = _bytes(_AFTER, out, to)
        to = _object(new, step, first, last, text, names, cells, hexed, texts, places, length, out, to)
        to = _literal(text, lines.flags, rows.flag[row], out, to)
        start, size = rows.extra_ends[row], rows.extra_ends[row + 1] - rows.extra_ends[row]
        if size:
            to = _bytes(_EXTRA, out, to)
            copy(out, to, rows.extra, start, size)
            to += size
        out[to] = 125
        to += 1
        ends[row + 1] = to


@inline
def _literal(text: Array, places: Array, number: int, out: Array, to: int) -> int:
    size = int(places[number, 1])
    copy(out, to, text, places[number, 0], size)
    return to + size


@inline
def _bytes(text: Array, out: Array, to: int) -> int:
    copy(out, to, text, 0, text.shape[0])
    return to + int(text.shape[0])


@inline
def _null(out: Array, to: int) -> int:
    out[to], out[to + 1], out[to + 2], out[to + 3] = 110, 117, 108, 108
    return to + 4


@jit
def _number(number: int, out: Array, to: int) -> int:
    if number == NONE:
        return _null(out, to)
    rest = np.uint64(number)
    if number < 0:
        out[to] = 45
        to += 1
        rest = np.uint64(-number)
    size, above = 1, rest // np.uint64(10)
    while above:
        size += 1
        above //= np.uint64(10)
    for at in range(to + size - 1, to - 1, -1):
        out[at] = 48 + rest % np.uint64(10)
        rest //= np.uint64(10)
    return to + size


@jit
def _object(
    row: int, step: int, first: int, last: int, text: Array, names: Array, cells: Array, hexed: Array, texts: Array,
    places: Array, length: Array, out: Array, to: int,
) -> int:  # fmt: skip
    if row < 0:
        return _null(out, to)
    out[to] = 123
    to += 1
    some = False
    for column in range(first, last):
        cell = row + step * cells[column]
        size = length[cell]
        if size == _ABSENT:
            continue
        if some:
            out[to], out[to + 1] = 44, 32
            to += 2
        some = True
        to = _literal(text, names, column, out, to)
        if size < 0:
            to = _null(out, to)
        elif hexed[column]:  # {"hex":"…"}
            to = _bytes(_BYTES, out, to)
            start, end = places[cell] + 7, places[cell + 1]
            copy(out, to, texts, start, end - start)
            to += end - start
        else:
            to = _string(texts, places[cell], places[cell + 1], out, to)
    out[to] = 125
    return to + 1


@inline
def _string(data: Array, pos: int, end: int, out: Array, to: int) -> int:
    out[to] = 34
    to += 1
    if _is_plain(data, pos, end):
        copy(out, to, data, pos, end - pos)
        to += end - pos
    else:
        to = _put_escaped(data, pos, end, out, to)
    out[to] = 34
    return to + 1


@inline
def _is_plain(data: Array, pos: int, end: int) -> bool:
    """Whether nothing has to be escaped; false also for text that needs a closer look."""
    slow = np.uint64(0)
    while end - pos >= 8:
        word = read_eight(data, pos)
        quotes, slashes, two, three = word ^ _QUOTES, word ^ _SLASHES, word ^ _C2, word ^ _E2
        slow |= (word - _BLANKS) & ~word | (quotes - _ONES) & ~quotes | (slashes - _ONES) & ~slashes
        slow |= (two - _ONES) & ~two | (three - _ONES) & ~three
        pos += 8
    special = slow & _HIGH != np.uint64(0)
    while pos < end:
        byte = data[pos]
        special = special or byte < 32 or byte == 34 or byte == 92 or byte == 0xC2 or byte == 0xE2
        pos += 1
    return not special


@jit
def _put_escaped(data: Array, pos: int, end: int, out: Array, to: int) -> int:
    while pos < end:
        byte = data[pos]
        if byte == 34 or byte == 92:
            out[to], out[to + 1] = 92, byte
            to += 2
        elif byte < 32:
            to = _control(byte, out, to)
        elif byte == 0xC2 and end - pos > 1 and data[pos + 1] == 0x85:
            to = _unicode(0x0085, out, to)
            pos += 1
        elif byte == 0xE2 and end - pos > 2 and data[pos + 1] == 0x80 and data[pos + 2] & 0xFE == 0xA8:
            to = _unicode(0x2028 + (data[pos + 2] & 1), out, to)
            pos += 2
        else:
            out[to] = byte
            to += 1
        pos += 1
    return to


@jit
def _control(byte: int, out: Array, to: int) -> int:
    letter = 0
    if byte == 8:
        letter = 98
    elif byte == 9:
        letter = 116
    elif byte == 10:
        letter = 110
    elif byte == 12:
        letter = 102
    elif byte == 13:
        letter = 114
    if not letter:
        return _unicode(byte, out, to)
    out[to], out[to + 1] = 92, letter
    return to + 2


@jit
def _unicode(code: int, out: Array, to: int) -> int:
    out[to], out[to + 1] = 92, 117
    for digit in range(4):
        out[to + 2 + digit] = _HEX[code >> (12 - 4 * digit) & 15]
    return to + 6
