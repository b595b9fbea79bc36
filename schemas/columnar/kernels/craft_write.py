"""Rows of one table (`schemas.columnar.rows`) → Craft messages, for numba: the bytes of `layout.write_rows`.

First `measure` checks each value and says how long its content is: by this TiCDC cuts batches. Then `write` puts the
messages together. numbers, lengths: [row][new columns, then old columns]; a length of -1 is NULL, -2 a column that is
not sent.
"""

from typing import Any, NamedTuple

import numpy as np

from ticdc_bridge.schemas.columnar.kernels.byte_buffers import copy, equal_bytes, put, write_eight, zigzag
from ticdc_bridge.schemas.columnar.kernels.jit import inline, jit, jit_allocating
from ticdc_bridge.schemas.columnar.kernels.temporal import is_temporal
from ticdc_bridge.schemas.columnar.kernels.text import Array, is_decimal

# What a column's cells are, and what a and b are. SIGNED, YEAR: the least and the greatest number. UNSIGNED: the
# greatest. ENUM, SET: names, from a to b in the table's elements. DOUBLE: finite. DECIMAL: precision and scale,
# precision 0: not known. NOTHING: only NULL is written. From SPAN on the content is the text or the bytes.
SIGNED, YEAR, UNSIGNED, ENUM, SET, DOUBLE, NOTHING, SPAN, DECIMAL, DATE, DATETIME, TIME = range(12)


class WriteLayout(NamedTuple):
    """What is written. names: UTF-8 of the different names in the order database, table, columns; name_ends.

    table: the table's place among the names; column: the columns' places. types, flags: of the columns in Craft. keys:
    1 for those of the handle key. codes, a, b: of the columns, as above; cells: which cell of a row each is, -1: none.
    elements, element_ends: UTF-8 of the names of all ENUM and SET columns. most_rows, most_bytes: where messages are
    cut.
    """

    names: Array
    name_ends: Array
    table: int
    column: Array
    types: Array
    flags: Array
    keys: Array
    codes: Array
    a: Array
    b: Array
    cells: Array
    elements: Array
    element_ends: Array
    most_rows: int
    most_bytes: int


class RowsToWrite(NamedTuple):
    """Rows of one shape. commit_ts: known. image_bits: 1 new only, 2 old only, 3 both. short: of a delete only the key.

    group: rows in a row with the same number may go into one message. after, before, step, start, length, data:
    as `Rows` has them.
    """

    commit_ts: Array
    image_bits: Array
    short: Array
    group: Array
    after: Array
    before: Array
    step: Array
    start: Array
    length: Array
    data: Array


# ---------------------------------------------------------------------------------- what is written
@jit
def measure(target: WriteLayout, rows: RowsToWrite, numbers: Array, lengths: Array, bad: Array) -> None:
    """numbers: what a value is written from: a number, the bits of one, or a span's place. bad: rows that are left."""
    columns = target.column.shape[0]
    for row in range(rows.image_bits.shape[0]):
        for image in range(2):
            first, sent = rows.before[row] if image else rows.after[row], 0
            for k in range(columns):
                slot, size = image * columns + k, -2
                if rows.image_bits[row] >> image & 1 and not (rows.short[row] and not target.keys[k]):
                    if target.cells[k] >= 0:
                        cell = first + rows.step[row] * target.cells[k]
                        if rows.length[cell] == -2 and rows.image_bits[row] == 3:  # it has not changed
                            cell += rows.after[row] - first
                        size = rows.length[cell]
                        numbers[row, slot] = rows.start[cell]
                    if size >= 0:
                        numbers[row, slot], size = _content(target, k, rows.data, numbers[row, slot], size)
                        bad[row] |= size < 0
                    elif size == -2:
                        bad[row] |= not image
                    sent += size != -2
                lengths[row, slot] = size
            bad[row] |= rows.image_bits[row] >> image & 1 == 1 and not sent


@inline
def _content(target: WriteLayout, column: int, data: Array, pos: int, size: int) -> Any:
    """(what a value is written from, how long its content is; -1: it is none of its column)."""
    code, a, b = target.codes[column], target.a[column], target.b[column]
    if code >= SPAN:
        end = pos + size
        if code == DECIMAL:
            sound = is_decimal(data, pos, end, a, b)
        else:
            sound = code == SPAN or is_temporal(code - DATE, data, pos, end)
        return pos, size if sound else -1
    if code in (ENUM, SET):
        number, sound = _number_of(target, code == SET, a, b, data, pos, pos + size)
        return number, _size(np.uint64(number)) if sound else -1
    if code == DOUBLE:
        return pos, 8 if (pos >> 52) & 0x7FF != 0x7FF else -1
    if code == UNSIGNED:
        return pos, _size(np.uint64(pos)) if np.uint64(pos) <= np.uint64(a) else -1
    sound = code != NOTHING and a <= pos <= b and (code == SIGNED or not 0 < pos < 1901)
    return pos, _size(zigzag(pos)) if sound else -1


@jit
def _size(number: Any) -> int:
    """Bytes of a uvarint."""
    size = 1
    while number > np.uint64(127):
        number >>= np.uint64(7)
        size += 1
    return size


@jit
def _number_of(target: WriteLayout, is_set: bool, first: int, last: int, data: Array, pos: int, end: int) -> Any:
    """Names → (ENUM's index or SET's mask, whether all are elements). No text is 0, unless it is an element of ENUM."""
    if not is_set:
        number = _find_element(target, first, last, data, pos, end) + 1
        return number, number > 0 or pos == end
    mask = np.uint64(0)
    while pos < end:
        stop = pos
        while stop < end and data[stop] != 44:
            stop += 1
        number = _find_element(target, first, last, data, pos, stop)
        if number < 0 or stop == end - 1:  # no name after the last comma
            return 0, False
        mask |= np.uint64(1) << np.uint64(number)
        pos = stop + 1
    return np.int64(mask), True


@jit
def _find_element(target: WriteLayout, first: int, last: int, data: Array, pos: int, end: int) -> int:
    """Which of the elements first…last-1 a name is; -1: none."""
    for element in range(first, last):
        begin = target.element_ends[element - 1] if element else 0
        size = target.element_ends[element] - begin
        if size == end - pos and equal_bytes(data, pos, target.elements, begin, size):
            return element - first
    return -1


# ---------------------------------------------------------------------------------- messages
@jit
def write_head(target: WriteLayout, sent: Array, count: int, out: Array, at: int, ids: Array, used: Array) -> Any:
    """Names, types and flags of the columns in sent[:count]; next position."""
    at = put(out, at, count)
    before = np.int64(0)
    for i in range(count):
        name = target.column[sent[i]]
        if ids[name] < 0:
            ids[name] = used[0]
            used[0] += 1
            used[used[0]] = name
        at = put(out, at, zigzag(ids[name] - before))
        before = ids[name]
    for i in range(count):
        at = put(out, at, target.types[sent[i]])
    for i in range(count):
        at = put(out, at, target.flags[sent[i]])
    return at


@jit
def write_group(
    target: WriteLayout, data: Array, numbers: Array, lengths: Array, row: int, image: int, out: Array, at: int,
    ids: Array, used: Array, scratch: Array,
) -> Any:  # fmt: skip
    """A column group → next position. ids: of the names, -1 not used yet; used[0] counts them, used[1:] lists them.

    scratch: where the last head of all columns is and its size, then the columns sent.
    """
    columns = target.column.shape[0]
    shift = columns * (image - 1)
    sent = scratch[2:]
    count = 0
    for k in range(columns):
        if lengths[row, shift + k] != -2:
            sent[count] = k
            count += 1
    out[at] = image
    at += 1
    if count == columns and scratch[0] >= 0:
        copy(out, at, out, scratch[0], scratch[1])
        at += scratch[1]
    else:
        start = at
        at = write_head(target, sent, count, out, at, ids, used)
        if count == columns:
            scratch[0], scratch[1] = start, at - start
    for i in range(count):
        length = lengths[row, shift + sent[i]]
        if length < 64:
            out[at] = np.uint8(2 * length if length >= 0 else 1)
            at += 1
        else:
            at = put(out, at, zigzag(length))
    for i in range(count):
        length, number, code = lengths[row, shift + sent[i]], numbers[row, shift + sent[i]], target.codes[sent[i]]
        if length < 0:
            continue
        if code >= SPAN:
            copy(out, at, data, number, length)
        elif code == DOUBLE:
            write_eight(out, at, np.uint64(number))
        else:
            put(out, at, zigzag(number) if code <= YEAR else np.uint64(number))
        at += length
    return at


@jit
def write_message(
    target: WriteLayout, rows: RowsToWrite, numbers: Array, lengths: Array, first: int, last: int, out: Array, at: int,
    ids: Array, used: Array, sizes: Array, scratch: Array,
) -> Any:  # fmt: skip
    """Rows first…last-1 → one message; next position. Each row has at least one side."""
    ids[:] = -1
    ids[0], used[0], used[1], scratch[0] = 0, 1, 0, -1
    if target.table:
        ids[1], used[0], used[2] = 1, 2, 1
    out[at] = 1
    start = at = at + 1
    stamp = np.int64(0)
    for row in range(first, last):
        at = put(out, at, np.uint64(rows.commit_ts[row]) - np.uint64(stamp))
        stamp = rows.commit_ts[row]
    for _ in range(first, last):
        at = put(out, at, 1)
    for row in range(first, last):
        at = put(out, at, 1 if row == first else 0)  # no partition: -1, then no difference
    for _ in range(first, last):
        at = put(out, at, 0)  # schema 0, then no difference
    for row in range(first, last):
        at = put(out, at, 2 if target.table and row == first else 0)
    headers = at - start
    for row in range(first, last):
        for image in range(1, 3):
            begin = at
            if rows.image_bits[row] & image:
                at = write_group(target, rows.data, numbers, lengths, row, image, out, at, ids, used, scratch)
            sizes[row - first, image - 1] = at - begin
    begin, ends = at, target.name_ends
    at = put(out, at, used[0])
    for name in used[1 : used[0] + 1]:
        at = put(out, at, ends[name] - (ends[name - 1] if name else 0))
    for name in used[1 : used[0] + 1]:
        start = ends[name - 1] if name else 0
        copy(out, at, target.names, start, ends[name] - start)
        at += ends[name] - start
    return write_sizes(out, at, headers, at - begin, sizes, last - first)


@jit
def write_sizes(out: Array, at: int, headers: int, terms: int, sizes: Array, count: int) -> Any:
    """Size tables and footer; next position. sizes: of the new and the old group of each row, 0 for none."""
    begin = at
    at = put(out, put(out, put(out, at, 2), zigzag(headers)), zigzag(terms - headers))
    at = put(out, at, count)
    number = np.int64(0)
    for i in range(count):
        at = put(out, at, zigzag(sizes[i, 0] + sizes[i, 1] - number))
        number = sizes[i, 0] + sizes[i, 1]
    for i in range(count):
        if sizes[i, 0] and sizes[i, 1]:
            at = put(out, put(out, put(out, at, 2), zigzag(sizes[i, 0])), zigzag(sizes[i, 1] - sizes[i, 0]))
        else:
            at = put(out, put(out, at, 1), zigzag(sizes[i, 0] + sizes[i, 1]))
    end = put(out, at, at - begin)
    for i in range((end - at) // 2):  # the footer: a uvarint, reversed
        out[at + i], out[end - 1 - i] = out[end - 1 - i], out[at + i]
    return end


@jit_allocating
def write(
    target: WriteLayout, rows: RowsToWrite, numbers: Array, lengths: Array, estimates: Array, bad: Array, out: Array,
    ends: Array, leads: Array,
) -> None:  # fmt: skip
    """Rows → messages in `out`. ends: where what is written of each row ends; leads: rows that a message begins with.

    The rows of a message but the first are in it. estimates: TiCDC's, of the rows' sizes.
    """
    count = rows.image_bits.shape[0]
    ids = np.empty(target.name_ends.shape[0], np.int64)
    used = np.empty(target.name_ends.shape[0] + 1, np.int64)
    sizes = np.empty((min(count, target.most_rows), 2), np.int64)
    scratch = np.empty(target.column.shape[0] + 2, np.int64)
    first, at = 0, 0
    while first < count:
        last, size = first, 0
        if bad[first]:
            last += 1
        else:
            while last < count and not bad[last] and rows.group[last] == rows.group[first]:
                size += estimates[last]
                last += 1
                if size > target.most_bytes or last - first >= target.most_rows:
                    break
            at = write_message(target, rows, numbers, lengths, first, last, out, at, ids, used, sizes, scratch)
            leads[first] = True
        ends[first:last] = at
        first = last
