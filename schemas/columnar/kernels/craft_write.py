"""Contents of values → Craft messages, for numba; byte for byte what `layout.write_rows` makes.

places and lengths are [new columns, then old columns][row]; a length of -1 is NULL, -2 a column that is not sent.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from schemas.columnar.kernels.byte_buffers import Array, copy, put, zigzag
from schemas.columnar.kernels.jit import jit, jit_allocating


class WriteLayout(NamedTuple):
    """What is written. names: UTF-8 of the different names in the order database, table, columns; name_ends.

    table: the table's place among the names; column: the columns' places. codes, flags: of the columns. keys: 1 for
    those of the handle key. most_rows, most_bytes: where messages are cut.
    """

    names: Array
    name_ends: Array
    table: int
    column: Array
    codes: Array
    flags: Array
    keys: Array
    most_rows: int
    most_bytes: int


@jit
def width(target: WriteLayout, name: int) -> int:
    return int(target.name_ends[name] - (target.name_ends[name - 1] if name else 0))


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
        at = put(out, at, target.codes[sent[i]])
    for i in range(count):
        at = put(out, at, target.flags[sent[i]])
    return at


@jit
def write_group(
    target: WriteLayout,
    contents: Array,
    places: Array,
    lengths: Array,
    row: int,
    side: int,
    out: Array,
    at: int,
    ids: Array,
    used: Array,
    work: Array,
) -> Any:
    """A column group → next position. ids: of the names, -1 not used yet; used[0] counts them, used[1:] lists them.

    work: where the last head of all columns is and its size, then the columns sent.
    """
    columns = target.column.shape[0]
    shift = columns * (side - 1)
    sent = work[2:]
    count = 0
    for k in range(columns):
        if lengths[shift + k, row] != -2:
            sent[count] = k
            count += 1
    out[at] = side
    at += 1
    if count == columns and work[0] >= 0:
        copy(out, at, out, work[0], work[1])
        at += work[1]
    else:
        start = at
        at = write_head(target, sent, count, out, at, ids, used)
        if count == columns:
            work[0], work[1] = start, at - start
    for i in range(count):
        length = lengths[shift + sent[i], row]
        if length < 64:
            out[at] = np.uint8(2 * length if length >= 0 else 1)
            at += 1
        else:
            at = put(out, at, zigzag(length))
    for i in range(count):
        length = lengths[shift + sent[i], row]
        if length > 0:
            copy(out, at, contents, places[shift + sent[i], row], length)
            at += length
    return at


@jit
def write_message(
    target: WriteLayout,
    contents: Array,
    places: Array,
    lengths: Array,
    commit_ts: Array,
    partition: Array,
    sides: Array,
    first: int,
    last: int,
    out: Array,
    at: int,
    ids: Array,
    used: Array,
    sizes: Array,
    work: Array,
) -> Any:
    """Rows first…last-1 → one message; next position. Each row has at least one side."""
    ids[:] = -1
    ids[0], used[0], used[1], work[0] = 0, 1, 0, -1
    if target.table:
        ids[1], used[0], used[2] = 1, 2, 1
    out[at] = 1
    start = at = at + 1
    stamp = np.int64(0)
    for row in range(first, last):
        at = put(out, at, np.uint64(commit_ts[row]) - np.uint64(stamp))
        stamp = commit_ts[row]
    for _ in range(first, last):
        at = put(out, at, 1)
    number = np.int64(0)
    for row in range(first, last):
        at = put(out, at, zigzag(partition[row] - number))
        number = partition[row]
    for _ in range(first, last):
        at = put(out, at, 0)  # schema 0, then no difference
    for row in range(first, last):
        at = put(out, at, 2 if target.table and row == first else 0)
    headers = at - start
    for row in range(first, last):
        for side in range(1, 3):
            begin = at
            if sides[row] & side:
                at = write_group(target, contents, places, lengths, row, side, out, at, ids, used, work)
            sizes[row - first, side - 1] = at - begin
    at = write_terms(target, out, at, used)
    return write_sizes(out, at, headers, used[used[0] + 1], sizes, last - first)


@jit
def write_terms(target: WriteLayout, out: Array, at: int, used: Array) -> Any:
    """The term dictionary; next position. used[used[0] + 1] gets its size."""
    begin = at
    at = put(out, at, used[0])
    for i in range(used[0]):
        at = put(out, at, width(target, used[i + 1]))
    for i in range(used[0]):
        name = used[i + 1]
        for j in range(target.name_ends[name - 1] if name else 0, target.name_ends[name]):
            out[at] = target.names[j]
            at += 1
    used[used[0] + 1] = at - begin
    return at


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
    return footer(out, at, at - begin)


@jit
def footer(out: Array, at: int, size: int) -> int:
    """The reversed uvarint at the end."""
    end = put(out, at, size)
    for i in range((end - at) // 2):
        out[at + i], out[end - 1 - i] = out[end - 1 - i], out[at + i]
    return end


@jit_allocating
def write(
    target: WriteLayout,
    contents: Array,
    places: Array,
    lengths: Array,
    commit_ts: Array,
    partition: Array,
    sides: Array,
    estimates: Array,
    out: Array,
    ends: Array,
    counts: Array,
) -> int:
    """All rows → messages one after another in `out`; ends and counts: of the messages. Out: how many.

    sides: 1 new only, 2 old only, 3 both. estimates: TiCDC's, of the rows' sizes.
    """
    rows = commit_ts.shape[0]
    ids = np.empty(target.name_ends.shape[0], np.int64)
    used = np.empty(target.name_ends.shape[0] + 2, np.int64)
    sizes = np.empty((min(rows, target.most_rows), 2), np.int64)
    work = np.empty(target.column.shape[0] + 2, np.int64)
    first, at, messages = 0, 0, 0
    while first < rows:
        last, size = first, 0
        while last < rows:
            size += estimates[last]
            last += 1
            if size > target.most_bytes or last - first >= target.most_rows:
                break
        at = write_message(
            target, contents, places, lengths, commit_ts, partition, sides, first, last, out, at, ids, used, sizes, work
        )
        ends[messages], counts[messages] = at, last - first
        messages += 1
        first = last
    return messages
