"""Cells → their texts in the plain form (`schemas.plain.writer`), and cells with their texts → its lines, for numba.

A line is literals, and between them numbers and the row's texts as JSON strings, escaped as
`schemas.plain.writer.json_line` escapes them.
"""

from typing import Any, NamedTuple

import numpy as np

from ticdc_bridge.schemas.columnar.kernels import json_write as put
from ticdc_bridge.schemas.columnar.kernels import numbers as real
from ticdc_bridge.schemas.columnar.kernels.byte_buffers import copy, equal_bytes
from ticdc_bridge.schemas.columnar.kernels.jit import inline, jit, jit_allocating
from ticdc_bridge.schemas.columnar.kernels.text import Array

NONE = -(1 << 63)
"""A number that is not there."""
NUMBER_ROOM = 24
ESCAPED = 5
"""Bytes that one byte of a text may take more than itself."""

_ABSENT = -2
_OFFSET, _COMMIT_TS, _AFTER, _EXTRA, _BYTES = (
    np.frombuffer(text, np.uint8)
    for text in (b', "offset": ', b'", "commit_ts": ', b', "after": ', b', "extra": ', b'{"hex": ')
)


# What a cell holds: as `Form`; from BITS on BIT, of as many bytes as the number is larger, 0 for as few as it takes.
NOTHING, INT, UINT, DOUBLE, FLOAT, TEXT, BYTES, BITS = range(8)

_LONGEST = 32  # of a number or BIT
_HEAD, _TAIL = np.frombuffer(b'{"hex":"', np.uint8), np.frombuffer(b'"}', np.uint8)


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
def fill_lines(
    lines: LineLiterals, rows: LineRows, texts: Array, starts: Array, length: Array, out: Array, ends: Array
) -> None:
    """Lines one after another. texts, starts: of the cells; length: as `Rows` has it."""
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
        to = _object(old, step, first, last, text, names, cells, hexed, texts, starts, length, out, to)
        to = _bytes(_AFTER, out, to)
        to = _object(new, step, first, last, text, names, cells, hexed, texts, starts, length, out, to)
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
def _literal(text: Array, starts: Array, number: int, out: Array, to: int) -> int:
    size = int(starts[number, 1])
    copy(out, to, text, starts[number, 0], size)
    return to + size


@inline
def _bytes(text: Array, out: Array, to: int) -> int:
    copy(out, to, text, 0, text.shape[0])
    return to + int(text.shape[0])


@inline
def _number(number: int, out: Array, to: int) -> int:
    return put.null(out, to) if number == NONE else real.put_int(number, out, to)


@jit
def _object(
    row: int, step: int, first: int, last: int, text: Array, names: Array, cells: Array, hexed: Array, texts: Array,
    indexes: Array, length: Array, out: Array, to: int,
) -> int:  # fmt: skip
    if row < 0:
        return put.null(out, to)
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
            to = put.null(out, to)
        elif hexed[column]:  # {"hex":"…"}
            to = _bytes(_BYTES, out, to)
            start, end = indexes[cell] + 7, indexes[cell + 1]
            copy(out, to, texts, start, end - start)
            to += end - start
        else:
            start = indexes[cell]
            to = put.string(texts, start, indexes[cell + 1] - start, True, out, to)
    out[to] = 125
    return to + 1


# ---------------------------------------------------------------------------------- texts of cells
@jit
def classify_cells(shape: Array, first: Array, step: Array, ends: Array, kinds: Array, cells: Array) -> bool:
    """Says of each cell of rows from `first` on, `step` apart, what it holds.

    kinds: of the columns of shape n, up to ends[n]. False for a row that has cells that are not there.
    """
    for row in range(shape.shape[0]):
        start = ends[shape[row] - 1] if shape[row] else 0
        count = ends[shape[row]] - start
        if first[row] >= 0:
            if (count - 1) * step[row] >= cells.shape[0] - first[row]:
                return False
            for column in range(count):
                cells[first[row] + step[row] * column] = kinds[start + column]
    return True


@jit
def text_room(cells: Array, length: Array, most: int) -> int:
    """Bytes that the texts take at most. most: bytes of data; a cell of more is none."""
    total = 0
    for cell in range(cells.shape[0]):
        total += _LONGEST
        if (cells[cell] == TEXT or cells[cell] == BYTES) and 0 < length[cell] <= most:
            total += 2 * length[cell]
    return total


@jit
def fill_texts(cells: Array, start: Array, length: Array, data: Array, out: Array, offsets: Array, valid: Array) -> int:
    """Texts one after another; NULL, ABSENT and what no row has are not valid. Out: the first cell that is none, -1."""
    to = 0
    for cell in range(cells.shape[0]):
        offsets[cell] = to
        valid[cell] = length[cell] >= 0 and cells[cell] != NOTHING
        if valid[cell]:
            to = _text(cells[cell], start[cell], length[cell], data, out, to)
            if to < 0:
                return cell
    offsets[cells.shape[0]] = to
    return -1


@jit
def _text(kind: int, pos: int, size: int, data: Array, out: Array, to: int) -> int:
    """Where a value's text ends; -1 for what is no value."""
    if kind in (TEXT, BYTES):
        if pos < 0 or pos > data.shape[0] - size:
            return -1
        if kind == BYTES:
            return _hex(data, pos, size, out, to)
        copy(out, to, data, pos, size)
        return to + size
    if kind == INT:
        return real.put_int(pos, out, to)
    if kind == UINT:
        return real.put_unsigned(np.uint64(pos), out, to)
    if kind in (DOUBLE, FLOAT):
        digits, power, sound = real.of_double(pos) if kind == DOUBLE else real.of_float(pos)
        return real.put_general(pos < 0, digits, power, out, to) if sound else -1
    return _bits(np.uint64(pos), kind - BITS, out, to)


@jit
def _hex(data: Array, pos: int, size: int, out: Array, to: int) -> int:
    to = _bytes(_HEAD, out, to)
    for i in range(pos, pos + size):
        out[to], out[to + 1] = put.HEX[data[i] >> 4], put.HEX[data[i] & 15]
        to += 2
    return _bytes(_TAIL, out, to)


@jit
def _bits(number: Any, size: int, out: Array, to: int) -> int:
    """BIT's bytes, high byte first; -1 where they are too few."""
    least = 1
    while least < 8 and number >> np.uint64(8 * least):
        least += 1
    size = size or least
    if size < least:
        return -1
    to = _bytes(_HEAD, out, to)
    for i in range(2 * size - 1, -1, -1):
        out[to] = put.HEX[number >> np.uint64(4 * i) & np.uint64(15)]
        to += 1
    return _bytes(_TAIL, out, to)


# ---- What TiCDC's Debezium messages say beside their row (`RowChange.extra`), for numba: as JSON of the plain form.

ROOM = 512
"""Bytes of one message's at most."""
_MAX_CLUSTER_NAME = 256  # of a cluster's name
_DIGITS = 18

_START, _SOURCE, _TS, _START_TS, _CLUSTER, _DEFAULT, _SCHEMA, _NULL = (
    np.frombuffer(text, np.uint8)
    for text in (
        b'{"payload":{', b"source", b"ts_ms", b"start_ts", b"cluster_id", b'"default"', b',"schema":', b"null",
    )
)  # fmt: skip
_REPORTED = tuple(np.frombuffer(text, np.uint8) for text in (b'"ts_ms": ', b'"start_ts": ', b'"cluster_id": '))


@jit_allocating
def extras(data: Array, first: Array, last: Array, out: Array, ends: Array, left: Array) -> None:
    """The extras of each message data[first:last], which is valid JSON; left: messages whose extras are not certain."""
    to = 0
    spans = np.zeros((3, 2), np.int64)
    for row in range(first.shape[0]):
        spans[:] = 0
        left[row] = not _find(data, first[row], last[row], spans)
        if not left[row]:
            to = _put(data, spans, out, to)
        ends[row + 1] = to


@jit
def _find(data: Array, pos: int, end: int, spans: Array) -> bool:
    """Where the values are that are told (0, 0: nowhere). False where something is not as TiCDC writes it."""
    if not _starts(data, pos, end, _START):
        return False
    pos += _START.shape[0]
    depth, source, of_source = 1, False, False  # depth in the payload; whether this is the source, or becomes it
    while pos < end:
        byte = data[pos]
        pos += 1
        if byte == 123 or byte == 91:
            depth += 1
            source = source or (depth == 2 and of_source and byte == 123)
        elif byte == 125 or byte == 93:
            depth -= 1
            if depth == 0:
                return _ends(data, pos, end)
            source = source and depth >= 2
        elif byte == 34:
            start, plain = pos, True
            while pos < end and data[pos] != 34:
                if data[pos] == 92:
                    plain = False
                    pos += 1
                pos += 1
            pos += 1
            if pos < end and data[pos] == 58 and (depth == 1 or (depth == 2 and source)):
                if not plain:
                    return False
                if depth == 1:
                    of_source = _is(data, start, pos - 1, _SOURCE)
                if not _take_member(data, start, pos - 1, end, depth == 1, spans):
                    return False
            elif pos < end and data[pos] <= 32:
                return False  # a space where TiCDC writes none: it may come before a colon
    return False


@jit
def _take_member(data: Array, start: int, stop: int, end: int, of_payload: bool, spans: Array) -> bool:
    """Takes the value of the member data[start:stop] where it is one that is told. False where its form is another."""
    pos = stop + 2
    if of_payload:
        if not _is(data, start, stop, _TS):
            return True
        if _starts(data, pos, end, _NULL):
            return True
        return spans[0, 1] == 0 and _find_number(data, pos, end, spans, 0)
    if _is(data, start, stop, _START_TS):
        return spans[1, 1] == 0 and _find_number(data, pos, end, spans, 1)
    if not _is(data, start, stop, _CLUSTER):
        return True
    if spans[2, 1] or pos >= end or data[pos] != 34:
        return False
    after = pos + 1
    while after < end and data[after] != 34:
        if data[after] < 32 or data[after] >= 128 or data[after] == 92:
            return False
        after += 1
    if after - pos > _MAX_CLUSTER_NAME:
        return False
    if not _is(data, pos, after + 1, _DEFAULT):
        spans[2, 0], spans[2, 1] = pos, after + 1
    return True


@jit
def _find_number(data: Array, pos: int, end: int, spans: Array, n: int) -> bool:
    after = pos
    while after < end and 48 <= data[after] <= 57:
        after += 1
    size = after - pos
    if not 0 < size <= _DIGITS or (size > 1 and data[pos] == 48) or after >= end:
        return False
    spans[n, 0], spans[n, 1] = pos, after
    return bool(data[after] == 44 or data[after] == 125)


@jit
def _put(data: Array, spans: Array, out: Array, to: int) -> int:
    """An object of what was found; nothing at all where nothing was."""
    some = False
    for n, label in enumerate(_REPORTED):
        start, size = spans[n, 0], spans[n, 1] - spans[n, 0]
        if size == 0:
            continue
        out[to] = 44 if some else 123
        to += 1
        if some:
            out[to] = 32
            to += 1
        some = True
        to = _bytes(label, out, to)
        copy(out, to, data, start, size)
        to += size
    if some:
        out[to] = 125
        to += 1
    return to


@jit
def _ends(data: Array, pos: int, end: int) -> bool:
    """True if nothing follows the payload but a schema."""
    return bool((end - pos == 1 and data[pos] == 125) or _starts(data, pos, end, _SCHEMA))


@jit
def _starts(data: Array, pos: int, end: int, text: Array) -> bool:
    return bool(end - pos >= text.shape[0] and _is(data, pos, pos + text.shape[0], text))


@jit
def _is(data: Array, pos: int, end: int, text: Array) -> bool:
    return bool(end - pos == text.shape[0] and equal_bytes(data, pos, text, 0, text.shape[0]))
