"""Many JSON messages against texts that are known: where each value is, for numba.

A template is what TiCDC writes around the values of a row: literals, and between them values of known kinds. A message
that matches one byte for byte has its values where the template says; any other is left to the decoder in Python. So
spaces, other orders, keys that stand twice, other tables and other schemas need no rule here. Contents of strings are
only skipped: `json_cells` judges them.
"""

from typing import Any, NamedTuple

import numpy as np

from ticdc_bridge.schemas.columnar.kernels.byte_buffers import BLOCK, equal_bytes, find_special, read_eight, swap_bytes
from ticdc_bridge.schemas.columnar.kernels.jit import inline, jit
from ticdc_bridge.schemas.columnar.kernels.text import Array, find_digits_end, read_digits

# What a template is made of. COMMIT: the row's commit_ts. PARTITION: its table id. COUNT: an integer of no account.
# ANY: a number, string or boolean of no account. All but COMMIT, PARTITION and COUNT may be null.
LITERAL, INTEGER, REAL, STRING, BOOLEAN, COMMIT, PARTITION, COUNT, ANY = range(9)
NULL, ABSENT = -1, -2
_TRUE, _FALSE = np.frombuffer(b"true", np.uint8), np.frombuffer(b"false", np.uint8)
UNESCAPED = np.zeros(256, np.uint8)  # by the letter after a backslash: the character; 0 for \u and what is none
UNESCAPED[np.frombuffer(b'"\\/bfnrt', np.uint8)] = np.frombuffer(b'"\\/\b\f\n\r\t', np.uint8)


class Templates(NamedTuple):
    """Templates. text: all literals. steps: by step, (kind, start of the literal or slot, its end).

    starts, middles, ends: by template, the steps of the message's key are starts…middles, those of its value
    middles…ends. keyed: whether there is a key. image_bits: as in `RowChunk`. low, high: commit_ts of the
    rows, both ends included. columns: how many; slots are new columns, then old columns.
    """

    text: Array
    steps: Array
    starts: Array
    middles: Array
    ends: Array
    keyed: Array
    image_bits: Array
    low: int
    high: int
    columns: int


class MessageRows(NamedTuple):
    """Rows to look at: key and value in their buffers, first key place -1 where there is no key; the message of each.

    Rows of one message stand together.
    """

    keys: Array
    values: Array
    key_first: Array
    key_last: Array
    value_first: Array
    value_last: Array
    message: Array


class ValuePositions(NamedTuple):
    """What was found, by row. starts, lengths: [slot][row]; a length is NULL or ABSENT too."""

    starts: Array
    lengths: Array
    message: Array
    commit_ts: Array
    partition: Array
    image_bits: Array


@jit
def scan(
    source: MessageRows, at: int, rows: int, enough: int, learn_from: int, plan: Templates, positions: ValuePositions,
    taken_mask: Array, last: Array,
) -> Any:  # fmt: skip
    """Reads on from given row `at`, with `rows` found before. Out: (rows found, next given row, an unknown one or -1).

    Stops with the message that makes it `enough` rows, where there is no room for a message's rows, and from given row
    `learn_from` on at a row that matches no template: then the next given row is the first of its message. taken_mask:
    by given row, 1 where its message was taken.
    """
    total, room = source.message.shape[0], positions.message.shape[0]
    while at < total and rows < enough:
        start, first = at, rows
        unknown = -1
        while at < total and source.message[at] == source.message[start]:
            if unknown < 0:
                if rows >= room:
                    return first, start, -1
                if _row(source, at, plan, positions, rows, last):
                    positions.message[rows] = source.message[at]
                    rows += 1
                else:
                    unknown = at
            at += 1
        if unknown >= 0:
            rows = first
            if start >= learn_from:
                return rows, start, unknown
        else:
            taken_mask[start:at] = 1
    return rows, at, -1


@jit
def _row(source: MessageRows, at: int, plan: Templates, positions: ValuePositions, row: int, last: Array) -> bool:
    """True if a template matches; the one that did last is tried first."""
    count = plan.image_bits.shape[0]
    key, key_end, value, value_end = (
        source.key_first[at], source.key_last[at], source.value_first[at], source.value_last[at],
    )  # fmt: skip
    for turn in range(count):
        k = last[0] + turn
        if k >= count:
            k -= count
        if bool(plan.keyed[k]) != (key >= 0):
            continue
        positions.partition[row], middle = -1, plan.middles[k]
        if key >= 0 and not _walk(source.keys, key, key_end, plan, plan.starts[k], middle, positions, row):
            continue
        if _walk(source.values, value, value_end, plan, middle, plan.ends[k], positions, row):
            image = plan.image_bits[k]
            positions.image_bits[row] = image
            for field in range(2):
                if not image & (1 << field):
                    for slot in range(field * plan.columns, (field + 1) * plan.columns):
                        positions.starts[slot, row], positions.lengths[slot, row] = 0, ABSENT
            last[0] = k
            return True
    return False


@inline
def _walk(
    data: Array, first: int, end: int, plan: Templates, step: int, stop: int, positions: ValuePositions, row: int
) -> bool:
    """True if data[first:end] matches the steps step…stop; notes what they found."""
    pos = first
    while step < stop:
        kind, a = plan.steps[step, 0], plan.steps[step, 1]
        if kind == LITERAL:
            size = plan.steps[step, 2] - a
            if end - pos < size or not equal_bytes(data, pos, plan.text, a, size):
                return False
            pos += size
        elif kind in (COMMIT, PARTITION, COUNT):
            number, pos = _count(data, pos, end)
            if pos < 0:
                return False
            if kind == COMMIT:
                if number < 1 or number < plan.low or number > plan.high:  # 0 stands for one that is not known
                    return False
                positions.commit_ts[row] = number
            elif kind == PARTITION:
                positions.partition[row] = number
        else:
            start, stop_at, pos = _value(data, pos, end, kind)
            if pos < 0:
                return False
            if kind != ANY:
                positions.starts[a, row], positions.lengths[a, row] = start, stop_at - start if start >= 0 else NULL
        step += 1
    return bool(pos == end)


@inline
def _value(data: Array, pos: int, end: int, kind: int) -> Any:
    """(start and end of a value's content, next position): start -1 for null, next position -1 for another kind."""
    if pos >= end:
        return 0, 0, -1
    byte = data[pos]
    if byte == 110:  # null
        if end - pos >= 4 and data[pos + 1] == 117 and data[pos + 2] == 108 and data[pos + 3] == 108:
            return -1, -1, pos + 4
        return 0, 0, -1
    if byte == 34:
        if kind != STRING and kind != ANY:
            return 0, 0, -1
        close = _string(data, pos + 1, end, kind == ANY)
        return pos + 1, close, close + 1 if close >= 0 else -1
    if byte == 116 or byte == 102:
        after = _boolean(data, pos, end) if kind in (BOOLEAN, ANY) else -1
        return pos, after, after
    if kind == INTEGER:
        after = _integer(data, pos, end)
        return pos, after, after
    after = _real(data, pos, end) if kind in (REAL, ANY) else -1
    return pos, after, after


@inline
def _string(data: Array, pos: int, end: int, closely: bool) -> int:
    """Position of the quote that ends a string, -1 where none does. closely: its escapes are looked at, too."""
    while pos < end:
        if data.shape[0] - pos >= BLOCK:
            at = find_special(data, pos)
            pos += at
            if at == BLOCK:
                continue
            if pos >= end:
                return -1
        byte = data[pos]
        if byte == 34:
            return pos
        if byte < 32:
            return -1
        pos += 1
        if byte == 92:
            if pos >= end or (closely and not UNESCAPED[data[pos]]):
                return -1  # what is escaped as \u is left
            pos += 1
    return -1


@jit
def _boolean(data: Array, pos: int, end: int) -> int:
    if end - pos >= 4 and equal_bytes(data, pos, _TRUE, 0, 4):
        return pos + 4
    return pos + 5 if end - pos >= 5 and equal_bytes(data, pos, _FALSE, 0, 5) else -1


@inline
def _integer(data: Array, pos: int, end: int) -> int:
    """Where an integer of JSON ends, -1 for none. What follows it belongs to the next literal."""
    if pos < end and data[pos] == 45:
        pos += 1
    start, pos = pos, find_digits_end(data, pos, end)
    if pos == start or (data[start] == 48 and pos - start > 1):
        return -1
    return pos


@jit
def _real(data: Array, pos: int, end: int) -> int:
    """Where a number of JSON ends, -1 for none."""
    pos = _integer(data, pos, end)
    if pos >= 0 and pos < end and data[pos] == 46:
        start = pos + 1
        pos = find_digits_end(data, start, end)
        if pos == start:
            return -1
    if pos >= 0 and pos < end and (data[pos] == 101 or data[pos] == 69):
        pos += 1
        if pos < end and (data[pos] == 43 or data[pos] == 45):
            pos += 1
        start, pos = pos, find_digits_end(data, pos, end)
        if pos == start:
            return -1
    return pos


@jit
def _count(data: Array, pos: int, end: int) -> Any:
    """(a number from 0 to 2^63-1, next position), -1 for anything else."""
    after = _integer(data, pos, end)
    if after < 0 or data[pos] == 45 or after - pos > 19:
        return np.int64(0), -1
    number = read_digits(data, pos, after)
    if number > np.uint64(0x7FFFFFFFFFFFFFFF):
        return np.int64(0), -1
    return np.int64(number), after


@jit
def frames(
    keys: Array, key_first: Array, key_last: Array, values: Array, value_first: Array, value_last: Array, out: Array
) -> int:
    """The Open Protocol's frames: a version and (length, body) pairs, value bodies matched by position.

    out: (message, key first, key last, value first, value last) by row, as far as it has room. Messages in another
    frame have none. Out: how many rows.
    """
    rows = 0
    for m in range(key_first.shape[0]):
        at, end, to, close = key_first[m], key_last[m], value_first[m], value_last[m]
        if at < 0 or end - at < 8 or _length(keys, at, 8) != 1:
            continue
        at += 8
        first, sound = rows, True
        while sound and (at < end or to < close):
            key, value = _length(keys, at, end - at), _length(values, to, close - to)
            sound = 0 <= key <= end - at - 8 and 0 <= value <= close - to - 8
            if sound:
                if rows < out.shape[0]:
                    out[rows, 0], out[rows, 1], out[rows, 2] = m, at + 8, at + 8 + key
                    out[rows, 3], out[rows, 4] = to + 8, to + 8 + value
                at, to = at + 8 + key, to + 8 + value
                rows += 1
        if not sound:
            rows = first
    return rows


@jit
def _length(data: Array, at: int, room: int) -> Any:
    """A big-endian uint64 below 2^62; -1 where there is none."""
    if room < 8:
        return np.int64(-1)
    number = swap_bytes(read_eight(data, at))
    return np.int64(number) if number < np.uint64(1 << 62) else np.int64(-1)
