"""The structure of many Craft messages at once, for numba: where each value of each column is.

It takes messages that hold nothing but rows of one table in one shape. Whatever else a message holds, or is wrong in
it, leaves it to the decoder in Python, which says what it is. Checks are those of `schemas.formats.craft.layout`:
counts are compared with the bytes that are there, sizes with the message, and no index is used that was not checked.
"""

from typing import Any, NamedTuple

import numpy as np

from ticdc_bridge.schemas.columnar.kernels.byte_buffers import equal_bytes
from ticdc_bridge.schemas.columnar.kernels.craft_cells import count_of, deltas, read_back, unzigzag, uvarint
from ticdc_bridge.schemas.columnar.kernels.jit import jit
from ticdc_bridge.schemas.columnar.kernels.text import utf8

Array = Any  # numpy arrays: numba knows their types
TAKEN, LEFT = 1, 0
DATABASE, TABLE = 1, 2
NUMBER, FLOAT, DAMAGED_FLOAT = 1, 2, 3


class ScanTargets(NamedTuple):
    """What is looked for. names: UTF-8 of the different names, name_ends: where each ends.

    roles: of a name, DATABASE | TABLE; column: of a name, the column it names, else -1. codes, marks, mask: of a
    column, its type code, and the flags in `mask` that it must have. numbers: of columns that TiCDC allocates
    together; a DAMAGED_FLOAT leaves its message to the decoder. low, high: commit_ts of the rows, both ends included.
    """

    names: Array
    name_ends: Array
    roles: Array
    column: Array
    codes: Array
    marks: Array
    mask: Array
    numbers: Array
    low: int
    high: int


class ScanResult(NamedTuple):
    """What was found. starts, lengths: [new columns, then old columns][row]; a length is -1 for NULL, -2 if not sent.

    image_bits: 1 new only, 2 old only, 3 both. status: by message, TAKEN or LEFT.
    """

    starts: Array
    lengths: Array
    message: Array
    commit_ts: Array
    partition: Array
    image_bits: Array
    status: Array


class ScanScratch(NamedTuple):
    """Scratch of the scan. state: see the _ constants."""

    sizes: Array
    kinds: Array
    schemas: Array
    tables: Array
    partitions: Array
    order: Array
    seen: Array
    ids: Array
    term_plan: Array
    term_ends: Array
    state: Array


# Places in Work.state: of the message at hand, of the dictionary and the head met last, of FLOATs.
_EVENTS, _HEADERS, _TERMS_AT, _TABLES, _GROUPS, _LAST, _BODIES = range(7)
_KNOWN_AT, _KNOWN_SIZE, _KNOWN_TERMS, _HEAD_AT, _HEAD_SIZE, _HEAD_COLUMNS = range(7, 13)
_FLOAT_AT, _DAMAGED, STATES = range(13, 16)


@jit
def dictionary(data: Array, pos: int, end: int, plan: ScanTargets, scratch: ScanScratch) -> int:
    """Terms → the index of each in the plan's names (-1: none of them). Out: how many terms, -1 if it is none."""
    count, pos = count_of(data, pos, end, scratch.term_plan.shape[0])
    if pos < 0:
        return -1
    total = np.int64(0)
    for i in range(count):
        value, pos = uvarint(data, pos, end)
        if pos < 0 or value > np.uint64(end - pos) or total > end - pos:
            return -1
        total += np.int64(value)
        scratch.term_ends[i] = total
    if total != end - pos:
        return -1
    first = pos
    for i in range(count):
        last = pos + scratch.term_ends[i]
        if not utf8(data, first, last):
            return -1
        scratch.term_plan[i] = find_name(data, first, last, plan)
        first = last
    return int(count)


@jit
def find_name(data: Array, first: int, last: int, plan: ScanTargets) -> int:
    """The plan's name with these bytes, -1 for none."""
    begin = 0
    for k in range(plan.name_ends.shape[0]):
        end = plan.name_ends[k]
        if end - begin == last - first and equal_bytes(data, first, plan.names, begin, end - begin):
            return int(k)
        begin = end
    return -1


@jit
def frame(data: Array, start: int, end: int, most: int, scratch: ScanScratch) -> bool:
    """Version, footer, first two size tables → the message's places in scratch.state, body sizes in scratch.sizes."""
    value, first = uvarint(data, start, end)
    if first < 0 or value != np.uint64(1):
        return False
    size, last = read_back(data, end - 1, first)
    if last < 0 or size > last - first:
        return False
    tables = last - size
    count, pos = count_of(data, tables, last, scratch.sizes.shape[0])
    if pos < 0 or count < 2:
        return False
    pos = deltas(data, pos, last, count, 0, tables - start, scratch.sizes)
    if pos < 0:
        return False
    headers, terms, at = scratch.sizes[0], scratch.sizes[1], pos
    count, pos = count_of(data, pos, last, most)
    if pos < 0:
        return False
    pos = deltas(data, pos, last, count, 0, at - start, scratch.sizes)
    if pos < 0:
        return False
    total = headers + terms
    for i in range(count):
        total += scratch.sizes[i]
        if total > tables - first:
            return False
    state = scratch.state
    state[_EVENTS], state[_HEADERS], state[_BODIES], state[_TERMS_AT] = count, first, first + headers, tables - terms
    state[_TABLES], state[_GROUPS], state[_LAST] = tables, pos, last
    return bool(total == tables - first and terms > 0)


@jit
def headers(data: Array, rows: int, plan: ScanTargets, result: ScanResult, scratch: ScanScratch) -> bool:
    """commit_ts, types, partitions and names of all events of the message; all must be rows of the plan's table."""
    state = scratch.state
    count, pos, end = state[_EVENTS], state[_HEADERS], state[_BODIES]
    stamp = np.uint64(0)
    for i in range(count):
        value, pos = uvarint(data, pos, end)
        stamp += value
        if pos < 0 or stamp > np.uint64(plan.high) or np.int64(stamp) < plan.low:
            return False
        result.commit_ts[rows + i] = np.int64(stamp)
    for _ in range(count):
        value, pos = uvarint(data, pos, end)
        if pos < 0 or value != np.uint64(1):
            return False
    pos = deltas(data, pos, end, count, -(1 << 63), (1 << 63) - 1, scratch.partitions)
    if pos < 0:
        return False
    at, size = state[_TERMS_AT], state[_TABLES] - state[_TERMS_AT]
    if state[_KNOWN_AT] < 0 or size != state[_KNOWN_SIZE] or not equal_bytes(data, state[_KNOWN_AT], data, at, size):
        state[_HEAD_AT] = state[_KNOWN_AT] = -1
        terms = dictionary(data, at, at + size, plan, scratch)
        if terms < 0:
            return False
        state[_KNOWN_AT], state[_KNOWN_SIZE], state[_KNOWN_TERMS] = at, size, terms
    last = state[_KNOWN_TERMS] - 1
    pos = deltas(data, pos, end, count, 0, last, scratch.schemas)
    if pos >= 0:
        pos = deltas(data, pos, end, count, 0, last, scratch.tables)
    if pos != end:
        return False
    for i in range(count):
        database, table = scratch.term_plan[scratch.schemas[i]], scratch.term_plan[scratch.tables[i]]
        if database < 0 or table < 0 or not plan.roles[database] & DATABASE or not plan.roles[table] & TABLE:
            return False
    return True


@jit
def head(data: Array, pos: int, end: int, plan: ScanTargets, scratch: ScanScratch) -> int:
    """Names, types and flags of a column group → next position; scratch.order gets the plan's columns in their order.

    -1 where they are not columns of the plan in its types, each at most once.
    """
    state, codes, order = scratch.state, plan.codes, scratch.order
    size = state[_HEAD_SIZE]
    if state[_HEAD_AT] >= 0 and end - pos > size and equal_bytes(data, state[_HEAD_AT], data, pos, size):
        return int(pos + size)
    state[_HEAD_AT] = -1
    start = pos
    count, pos = count_of(data, pos, end, codes.shape[0])
    if pos < 0:
        return -1
    pos = deltas(data, pos, end, count, 0, state[_KNOWN_TERMS] - 1, scratch.ids)
    if pos < 0:
        return -1
    scratch.seen[:] = 0
    for i in range(count):
        k = scratch.term_plan[scratch.ids[i]]
        column = plan.column[k] if k >= 0 else -1
        if column < 0 or scratch.seen[column]:
            return -1
        scratch.seen[column] = 1
        order[i] = column
    for i in range(count):
        value, pos = uvarint(data, pos, end)
        if pos < 0 or value != np.uint64(codes[order[i]]):
            return -1
    for i in range(count):
        value, pos = uvarint(data, pos, end)
        column = order[i]
        if pos < 0 or value > np.uint64(255) or (np.int64(value) & plan.mask[column]) != plan.marks[column]:
            return -1
    state[_HEAD_AT], state[_HEAD_SIZE], state[_HEAD_COLUMNS] = start, pos - start, count
    return int(pos)


@jit
def values(
    data: Array, pos: int, end: int, row: int, shift: int, result: ScanResult, plan: ScanTargets, scratch: ScanScratch
) -> bool:
    """Lengths and starts of a group's values, which fill it to its end."""
    order, count, sizes = scratch.order, scratch.state[_HEAD_COLUMNS], scratch.ids
    if end - pos < count:
        return False
    every = np.uint8(0)
    total: Any = np.int64(0)
    least: Any = np.int64(0)
    i, first = np.uint64(0), np.uint64(pos)
    for k in range(count):
        byte = data[first + i]
        i += np.uint64(1)
        every |= byte
        size = np.int64(byte >> 1) ^ -np.int64(byte & 1)
        sizes[k] = size
        total += max(size, 0)
        least = min(least, size)
    if every < 128:  # lengths of one byte each: by far the commonest
        if least < -1:
            return False
        pos += count
    else:
        total = np.int64(0)
        for k in range(count):
            value, pos = uvarint(data, pos, end)
            if pos < 0 or value > np.uint64(1 << 32):
                return False
            sizes[k] = unzigzag(value)
            if sizes[k] < -1:
                return False
            total += max(sizes[k], 0)
    if total != end - pos:
        return False
    # Unsigned indices again. `float_at` is a FLOAT whose neighbour comes next: TiCDC may have written
    # that over it, as schemas.formats.craft.decoder has it.
    at, base, float_at = np.uint64(row), np.uint64(shift), scratch.state[_FLOAT_AT]
    for k in range(count):
        column = base + np.uint64(order[k])
        size = sizes[k]
        result.lengths[column, at] = size
        result.starts[column, at] = pos
        if size >= 0:
            kind = plan.numbers[order[k]]
            if kind and (float_at >= 0 or kind != NUMBER):
                if kind == DAMAGED_FLOAT or (
                    float_at >= 0 and equal_bytes(data, float_at + 4, data, pos, min(4, size))
                ):
                    scratch.state[_DAMAGED] = 1
                float_at = pos if kind == FLOAT and size == 8 else -1
            pos += size
    scratch.state[_FLOAT_AT] = float_at
    return True


@jit
def row_groups(
    data: Array, body: int, size: int, row: int, groups: int, plan: ScanTargets, result: ScanResult,
    scratch: ScanScratch,
) -> int:  # fmt: skip
    """One row's column groups → next position in the tables of group sizes, -1 if they are none."""
    columns = plan.codes.shape[0]
    pieces, groups = count_of(data, groups, scratch.state[_LAST], 2)
    if groups < 0:
        return -1
    groups = deltas(data, groups, scratch.state[_LAST], pieces, 2, size, scratch.kinds)
    if groups < 0 or scratch.kinds[0] + (scratch.kinds[1] if pieces == 2 else 0) != size:
        return -1
    result.image_bits[row] = 0
    for field in range(pieces):
        end = body + scratch.kinds[field]
        image = np.int64(data[body])
        if image < 1 or image > 2 or result.image_bits[row] & image:
            return -1
        result.image_bits[row] |= image
        before = scratch.state[_HEAD_AT]
        pos = head(data, body + 1, end, plan, scratch)
        if pos < 0 or (field == 1 and scratch.state[_HEAD_AT] != before):  # the old row has the new one's columns
            return -1
        if scratch.state[_HEAD_COLUMNS] < columns:
            if image == 1 or pieces == 2:  # only a delete may have its key alone
                return -1
            result.lengths[columns:, row] = -2
        if not values(data, pos, end, row, columns * (image - 1), result, plan, scratch):
            return -1
        body = end
    if result.image_bits[row] == 1:
        result.lengths[columns:, row] = -2
    elif result.image_bits[row] == 2:
        result.lengths[:columns, row] = -2
    return int(groups)


@jit
def scan(
    data: Array, starts: Array, ends: Array, message: int, plan: ScanTargets, result: ScanResult, scratch: ScanScratch
) -> Any:
    """Messages from `message` on → (rows written, next message). It stops before a message that does not fit."""
    room = result.commit_ts.shape[0]
    state = scratch.state
    state[_KNOWN_AT] = state[_HEAD_AT] = -1
    rows = 0
    while message < starts.shape[0]:
        result.status[message] = LEFT
        if frame(data, starts[message], ends[message], min(room, scratch.sizes.shape[0]), scratch):
            count = state[_EVENTS]
            if rows + count > room:
                return rows, message
            if headers(data, rows, plan, result, scratch):
                state[_FLOAT_AT] = -1
                state[_DAMAGED] = 0
                body, groups, done = state[_BODIES], state[_GROUPS], 0
                for i in range(count):
                    groups = row_groups(data, body, scratch.sizes[i], rows + i, groups, plan, result, scratch)
                    if groups < 0:
                        break
                    result.message[rows + i] = message
                    result.partition[rows + i] = scratch.partitions[i]
                    body += scratch.sizes[i]
                    done += 1
                if done == count and groups == state[_LAST] and not state[_DAMAGED]:
                    result.status[message] = TAKEN
                    rows += count
        message += 1
    return rows, message
