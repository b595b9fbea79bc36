"""Contents of values → Craft messages, for numba; byte for byte what `layout.write_rows` makes.

places and lengths are [new columns, then old columns][row]; a length of -1 is NULL, -2 a column that is not sent.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from schemas.wire.craft.jit import jit
from schemas.wire.craft.kernel_numbers import Array, put, zigzag


class Target(NamedTuple):
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
def estimate(target: Target, lengths: Array, row: int) -> int:
    """TiCDC's estimate of a row's size."""
    columns = target.column.shape[0]
    table = target.table
    size = 32 + target.name_ends[0] + width(target, table)
    for k in range(2 * columns):
        length = lengths[k, row]
        if length != -2:
            size += 16 + width(target, target.column[k % columns]) + max(length, 0)
    return int(size)


@jit
def width(target: Target, name: int) -> int:
    return int(target.name_ends[name] - (target.name_ends[name - 1] if name else 0))


@jit
def write_group(
    target: Target,
    contents: Array,
    places: Array,
    lengths: Array,
    row: int,
    side: int,
    out: Array,
    at: int,
    ids: Array,
    used: Array,
) -> Any:
    """A column group → next position. ids: of the names, -1 not used yet; used[0] counts them, used[1:] lists them."""
    columns = target.column.shape[0]
    shift = columns * (side - 1)
    count = 0
    for k in range(columns):
        count += lengths[shift + k, row] != -2
    out[at] = side
    at = put(out, at + 1, count)
    before = np.int64(0)
    for k in range(columns):
        if lengths[shift + k, row] != -2:
            name = target.column[k]
            if ids[name] < 0:
                ids[name] = used[0]
                used[0] += 1
                used[used[0]] = name
            at = put(out, at, zigzag(ids[name] - before))
            before = ids[name]
    for k in range(columns):
        if lengths[shift + k, row] != -2:
            at = put(out, at, target.codes[k])
    for k in range(columns):
        if lengths[shift + k, row] != -2:
            at = put(out, at, target.flags[k])
    for k in range(columns):
        if lengths[shift + k, row] != -2:
            at = put(out, at, zigzag(lengths[shift + k, row]))
    for k in range(columns):
        place = places[shift + k, row]
        for i in range(lengths[shift + k, row]):
            out[at + i] = contents[place + i]
        at += max(lengths[shift + k, row], 0)
    return at


@jit
def write_message(
    target: Target,
    contents: Array,
    places: Array,
    lengths: Array,
    commit_ts: Array,
    partition: Array,
    first: int,
    last: int,
    out: Array,
    at: int,
    ids: Array,
    used: Array,
    sizes: Array,
) -> Any:
    """Rows first…last-1 → one message; next position. Each row has at least one side."""
    columns = target.column.shape[0]
    ids[:] = -1
    ids[0], used[0], used[1] = 0, 1, 0
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
            there = False
            for k in range(columns * (side - 1), columns * side):
                there = there or lengths[k, row] != -2
            if there:
                at = write_group(target, contents, places, lengths, row, side, out, at, ids, used)
            sizes[row - first, side - 1] = at - begin
    begin = at
    at = put(out, at, used[0])
    for i in range(used[0]):
        at = put(out, at, width(target, used[i + 1]))
    for i in range(used[0]):
        name = used[i + 1]
        for j in range(target.name_ends[name - 1] if name else 0, target.name_ends[name]):
            out[at] = target.names[j]
            at += 1
    terms, begin = at - begin, at
    at = put(out, put(out, put(out, at, 2), zigzag(headers)), zigzag(terms - headers))
    at = put(out, at, last - first)
    number = np.int64(0)
    for i in range(last - first):
        at = put(out, at, zigzag(sizes[i, 0] + sizes[i, 1] - number))
        number = sizes[i, 0] + sizes[i, 1]
    for i in range(last - first):
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


@jit
def write(
    target: Target,
    contents: Array,
    places: Array,
    lengths: Array,
    commit_ts: Array,
    partition: Array,
    out: Array,
    ends: Array,
    counts: Array,
) -> int:
    """All rows → messages one after another in `out`; ends and counts: of the messages. Out: how many."""
    rows = commit_ts.shape[0]
    ids = np.empty(target.name_ends.shape[0], np.int64)
    used = np.empty(target.name_ends.shape[0] + 1, np.int64)
    sizes = np.empty((min(rows, target.most_rows), 2), np.int64)
    first, at, messages = 0, 0, 0
    while first < rows:
        last, size = first, 0
        while last < rows:
            size += estimate(target, lengths, last)
            last += 1
            if size > target.most_bytes or last - first >= target.most_rows:
                break
        at = write_message(
            target, contents, places, lengths, commit_ts, partition, first, last, out, at, ids, used, sizes
        )
        ends[messages], counts[messages] = at, last - first
        messages += 1
        first = last
    return messages
