"""Rows of any tables (`schemas.columnar.rows`) → keys and values of TiCDC Avro, for numba; the bytes of
`AvroEncoder`.
"""

from typing import Any, NamedTuple

import numpy as np

from ticdc_bridge.schemas.columnar.kernels import numbers
from ticdc_bridge.schemas.columnar.kernels.byte_buffers import copy, copy_short, put, swap_bytes, write_eight, zigzag
from ticdc_bridge.schemas.columnar.kernels.jit import inline, jit, jit_allocating
from ticdc_bridge.schemas.columnar.kernels.temporal import is_zero_timestamp, micros, put_clock, put_date
from ticdc_bridge.schemas.columnar.kernels.text import is_decimal

# ---- Cells → Avro values in a numpy buffer, for numba: as `schemas.formats.avro.values` writes them.
#
# Each function writes at `at` and gives the next position, or -1 for a value that the format's own encoder has to see.

Array = Any  # numpy arrays: numba knows their types
_LOW32 = np.uint64(0xFFFFFFFF)
_LIMBS = 8  # of 32 bits: what DECIMAL(65) needs at most is 217


@jit
def put_long(out: Array, at: int, number: int) -> int:
    """Zig-zag varint of an int64."""
    return put(out, at, zigzag(number))


@inline
def put_span(out: Array, at: int, data: Array, pos: int, length: int) -> int:
    return copy_short(out, put_long(out, at, length), data, pos, length)


@jit
def put_digits(out: Array, at: int, number: int) -> int:
    """uint64 (as the int64 of the same bits) → its decimal text with its length."""
    digits = np.uint64(number)
    size = numbers.count_digits(digits)
    return numbers.put_digits(digits, size, out, put_long(out, at, size))


@jit
def put_double(out: Array, at: int, pos: int) -> int:
    bits = np.uint64(pos)
    if (bits >> np.uint64(52)) & np.uint64(0x7FF) == np.uint64(0x7FF):
        return -1
    write_eight(out, at, bits)
    return at + 8


@jit
def put_float(out: Array, at: int, pos: int) -> int:
    """A float64 that is a float32 → the latter's bits. `out` has room for four bytes more."""
    number = np.int64(pos).view(np.float64)
    single = np.float32(number)
    if np.float64(single) != number or not np.isfinite(single):
        return -1
    write_eight(out, at, np.uint64(single.view(np.uint32)))
    return at + 4


@jit
def put_bits(out: Array, at: int, pos: int, length: int) -> int:
    """BIT(length), big-endian. `out` has room for eight bytes."""
    bits = np.uint64(pos)
    if length < 1 or (length < 64 and bits >> np.uint64(length)):
        return -1
    size = (length + 7) // 8
    at = put_long(out, at, size)
    write_eight(out, at, swap_bytes(bits << np.uint64(64 - 8 * size)))
    return at + size


# ---------------------------------------------------------------------------------- decimals
@jit
def put_decimal(
    out: Array, at: int, data: Array, index: int, length: int, precision: int, scale: int, limbs: Array
) -> int:
    """DECIMAL's text → the shortest two's complement of the unscaled integer. limbs: room for _LIMBS uint64."""
    pos, end = index, index + length
    negative = pos < end and data[pos] == 45
    if negative:
        pos += 1
    integer, fraction, digits, wide, pending, small = 0, -1, 0, False, 0, np.uint64(0)
    factor, left = np.uint64(1), scale
    while pos < end or (left and digits):
        digit = np.uint64(0)
        if pos >= end:  # zeros up to the scale
            left -= 1
        else:
            digit = np.uint64(data[pos]) - np.uint64(48)  # what is below "0" becomes huge
            pos += 1
            if digit > np.uint64(9):
                if data[pos - 1] != 46 or fraction >= 0 or not integer:
                    return -1
                fraction = 0
                continue
            if fraction < 0:
                integer += 1
            else:
                fraction += 1
                if not left:
                    if digit:
                        return -1
                    continue
                left -= 1
            if not digits and not digit:
                continue
        digits += 1
        if digits <= 18:
            small = small * np.uint64(10) + digit
            continue
        if not wide:
            limbs[:] = 0
            limbs[0], limbs[1] = small & _LOW32, small >> np.uint64(32)
            wide, pending, small, factor = True, 2, np.uint64(0), np.uint64(1)
        small, factor = small * np.uint64(10) + digit, factor * np.uint64(10)
        if factor == np.uint64(1_000_000_000):
            pending = _times_add(limbs, pending, factor, small)
            small, factor = np.uint64(0), np.uint64(1)
    if not 1 <= integer <= 65 or fraction == 0 or fraction > 65:
        return -1
    if digits > precision or digits > 65:
        return -1
    if not wide:
        return _put_small(out, at, -np.int64(small) if negative else np.int64(small))
    if factor > np.uint64(1):
        pending = _times_add(limbs, pending, factor, small)
    return _put_limbs(out, at, limbs, negative)


@jit
def _times_add(limbs: Array, used: int, factor: Any, more: Any) -> int:
    """limbs × factor + more, both below 2^32."""
    carry = more
    for i in range(used):
        carry += limbs[i] * factor
        limbs[i] = carry & _LOW32
        carry >>= np.uint64(32)
    if carry and used < _LIMBS:
        limbs[used] = carry
        used += 1
    return used


@jit
def _put_small(out: Array, at: int, number: Any) -> int:
    bits, size = np.uint64(number ^ (number >> 63)), 1
    while size < 8 and bits >> np.uint64(8 * size - 1):
        size += 1
    out[at] = 2 * size
    at += 1
    for i in range(size):
        out[at + i] = np.uint8((number >> (8 * (size - 1 - i))) & 255)
    return at + size


@jit
def _put_limbs(out: Array, at: int, limbs: Array, negative: bool) -> int:
    if negative:  # two's complement is the complement of one less
        i = 0
        while limbs[i] == np.uint64(0):
            limbs[i] = _LOW32
            i += 1
        limbs[i] -= np.uint64(1)
    top = _LIMBS - 1
    while top and limbs[top] == np.uint64(0):
        top -= 1
    size, bits = 4 * top + 1, limbs[top]
    while bits >= np.uint64(128):
        bits >>= np.uint64(8)
        size += 1
    out[at] = 2 * size
    at += 1
    for i in range(size):
        byte = size - 1 - i
        octet = (limbs[byte // 4] >> np.uint64(8 * (byte % 4))) & np.uint64(255)
        out[at + i] = np.uint8(octet ^ np.uint64(255) if negative else octet)
    return at + size


# ---------------------------------------------------------------------------------- TIMESTAMP in another zone
@jit
def _offset(zones: Array, first: int, count: int, seconds: int, wall: int) -> int:
    """The offset at a time. wall: 0 UTC, 1 local time (the first of two), 2 local time (the second)."""
    low, high = 0, count  # how many changes have been
    while low < high:
        middle = (low + high + 1) // 2
        at = zones[first + middle, 0]
        before, after = zones[first + middle - 1, 1], zones[first + middle, 1]
        if wall == 1:
            at += max(before, after)
        elif wall == 2:
            at += min(before, after)
        if seconds >= at:
            low = middle
        else:
            high = middle - 1
    return int(zones[first + low, 1])


@jit
def put_timestamp(out: Array, at: int, data: Array, pos: int, length: int, zones: Array, pair: Any) -> Any:
    """TIMESTAMP text in the target's zone → (next position or -1, whether it is ambiguous).

    zones (int64, two columns): since when (seconds, UTC) which offset holds; the first row of a zone has no start.
    pair: (first row of the source's, changes, first row of the target's, changes, first second, last second).
    """
    if is_zero_timestamp(data, pos, pos + length):
        return put_span(out, at, data, pos, length), False
    local = micros(data, pos, pos + length) // 1_000_000
    if not pair[4] <= local <= pair[5]:
        return -1, False
    before = _offset(zones, pair[0], pair[1], local, 1)
    after = _offset(zones, pair[0], pair[1], local, 2)
    if before < after:
        return -1, False
    utc = local - before
    local_time = utc + _offset(zones, pair[2], pair[3], utc, 0)
    again = _offset(zones, pair[2], pair[3], local_time, 1) != _offset(zones, pair[2], pair[3], local_time, 2)
    at = put_long(out, at, length)
    copy(out, at, data, pos, length)
    put_date(local_time // 86400, out, at)  # from year 1970 on, or late in 1969
    put_clock(local_time % 86400 * 1_000_000, 0, out, at + 11)
    return at + length, bool(before != after or again)


INT, UINT, UINT_TEXT, YEAR, FLOAT, DOUBLE, DECIMAL, DECIMAL_TEXT, BIT, SPAN, TIMESTAMP, VIRTUAL, LEFT = range(13)
"""What a field is. VIRTUAL: always NULL. LEFT: a value of it is for the format's own encoder."""
NOT_NULL, NULL_FIRST, VALUE_FIRST = range(3)
KEY, VALUE = range(2)
_ROOM = 40  # bytes that a value takes at most, beside those of a span; put_span writes BLOCK of them
MOST_ZONED = 63  # TIMESTAMP columns of a record that may be ambiguous: bits of `folds`


class WriteSteps(NamedTuple):
    """How rows are written: a program for each shape and topic.

    fields (int64 by 6): what it is, its cell in the row, its union, two sizes (bits; precision and scale; length), and
    for TIMESTAMP its bit in `folds`. of (int64 by 9): the program's fields of the key (first, last) and of the value,
    its frames in `heads` (first, last) of the key and of the value (-1: there is none), and its row of `pairs`,
    -1 where no zone has to be changed. heads: uint8. zones, pairs: as `put_timestamp` takes them.
    """

    fields: Array
    of: Array
    heads: Array
    zones: Array
    pairs: Array


class WriteOptions(NamedTuple):
    """The encoder's options: with the old row, the extension, the checksum's fields, deletes as 0x03 and commit_ts."""

    before: bool
    extension: bool
    checksum: bool
    watermarks: bool


class WriteRows(NamedTuple):
    """As `Rows` has them. commit_ts: -1 for none. program: of each row, -1 where it is left."""

    program: Array
    commit_ts: Array
    op: Array
    after: Array
    before: Array
    step: Array
    start: Array
    length: Array
    data: Array


@jit_allocating
def message_sizes(programs: WriteSteps, modes: WriteOptions, rows: WriteRows) -> Any:
    """Bytes that keys and values take at most."""
    fields, of, lengths = programs.fields, programs.of, rows.length
    room = np.zeros(2, np.int64)
    for row in range(rows.program.shape[0]):
        program = rows.program[row]
        cell = rows.before[row] if rows.op[row] == 100 else rows.after[row]
        if program < 0 or cell < 0:
            continue
        for field in range(2):
            first, last = of[program, 2 * field], of[program, 2 * field + 1]
            for image in range(2 if field == VALUE and modes.before else 1):
                cell = rows.before[row] if image else cell
                if cell < 0:
                    break
                room[field] += _ROOM * (last - first)
                for f in range(first, last):
                    n = cell + rows.step[row] * fields[f, 1]
                    if fields[f, 1] >= 0 and lengths[n] > 8:
                        room[field] += lengths[n]
            room[field] += of[program, 5 + 2 * field] - of[program, 4 + 2 * field] + 64
    return room


@jit_allocating
def write(
    programs: WriteSteps, modes: WriteOptions, rows: WriteRows, field: int, out: Array, ends: Array, left: Array,
    folds: Array,
) -> None:  # fmt: skip
    """Keys (part KEY) or values of all rows, one after another; ends: one more than rows, from 0 on.

    left: set for rows that are left. folds: bits of the TIMESTAMP columns whose time was ambiguous are added.
    """
    # Arrays are taken out of the tuples here and no function gets a tuple: numba counts references each time.
    fields, of, heads, zones, pairs = programs.fields, programs.of, programs.heads, programs.zones, programs.pairs
    program_of, op, after, before, step = rows.program, rows.op, rows.after, rows.before, rows.step
    starts, lengths, data, commit_ts = rows.start, rows.length, rows.data, rows.commit_ts
    limbs, start, at = np.zeros(8, np.uint64), 0, 0
    for row in range(program_of.shape[0]):
        at = start = at if at >= 0 else start  # what was begun of a row that is left is written over
        ends[row] = start
        program = program_of[row]
        cell = before[row] if op[row] == 100 else after[row]
        if program < 0 or cell < 0:
            left[row] = True
            continue
        head, more = of[program, 4 + 2 * field], 0
        if head < 0:
            if field == VALUE and modes.watermarks and commit_ts[row] >= 0:  # a delete: 0x03 and its TSO
                out[at] = 3
                write_eight(out, at + 1, swap_bytes(np.uint64(commit_ts[row])))
                at += 9
            continue
        size = of[program, 5 + 2 * field] - head
        copy(out, at, heads, head, size)
        at += size
        for image in range(2 if field == VALUE and modes.before else 1):
            if image:
                cell = before[row]
                out[at] = 0 if cell < 0 else 2
                at += 1
                if cell < 0:
                    break
            for f in range(of[program, 2 * field], of[program, 2 * field + 1]):
                what, n = fields[f, 0], cell + step[row] * fields[f, 1]
                length = lengths[n] if fields[f, 1] >= 0 else -1 if what == VIRTUAL else -2
                if length >= 0 and what == TIMESTAMP and of[program, 8] >= 0:
                    at = put_branch(out, at, fields[f, 2])
                    at, twice = put_timestamp(out, at, data, starts[n], length, zones, pairs[of[program, 8]])
                    if twice:
                        at = at if fields[f, 5] < MOST_ZONED else -1
                        more |= np.int64(1) << fields[f, 5]
                elif length >= 0:
                    at = put_branch(out, at, fields[f, 2])
                    at = _put_field(out, at, what, fields[f, 3], fields[f, 4], data, starts[n], length, limbs)
                elif length == -1 and fields[f, 2] != NOT_NULL:
                    out[at] = 0 if fields[f, 2] == NULL_FIRST else 2
                    at += 1
                else:
                    at = -1
                if at < 0:
                    break
            if at < 0:
                break
        if at >= 0 and field == VALUE:
            at = _put_extension(modes.extension, modes.before, modes.checksum, op[row], commit_ts[row], out, at)
        left[row] |= at < 0
        folds[row] |= more if at >= 0 else 0
    ends[program_of.shape[0]] = at if at >= 0 else start


@jit
def put_branch(out: Array, at: int, union: int) -> int:
    """The branch of a value in its union."""
    if union == NOT_NULL:
        return at
    out[at] = 2 if union == NULL_FIRST else 0
    return at + 1


@inline
def _put_field(
    out: Array, at: int, what: int, first: int, second: int, data: Array, pos: int, length: int, limbs: Array
) -> int:
    """A value that is there."""
    if what in (SPAN, TIMESTAMP):
        return int(put_span(out, at, data, pos, length))
    if what == INT:
        top = np.int64(1) << (first - 1)
        return -1 if first < 64 and (pos < -top or pos >= top) else int(put_long(out, at, pos))
    if what == UINT:
        return -1 if first < 64 and pos >> first else int(put_long(out, at, pos))
    if what == DECIMAL:
        return int(put_decimal(out, at, data, pos, length, first, second, limbs))
    if what == DECIMAL_TEXT:
        sound = is_decimal(data, pos, pos + length, first, second)
        return int(put_span(out, at, data, pos, length)) if sound else -1
    if what == DOUBLE:
        return int(put_double(out, at, pos))
    if what == FLOAT:
        return int(put_float(out, at, pos))
    if what == BIT:
        return int(put_bits(out, at, pos, first))
    if what == YEAR:
        return int(put_long(out, at, pos)) if pos == 0 or 1901 <= pos <= 2155 else -1
    return int(put_digits(out, at, pos)) if what == UINT_TEXT else -1


@inline
def _put_extension(extension: bool, before: bool, checksum: bool, op: int, commit_ts: int, out: Array, at: int) -> int:
    """What stands after the row (and the old one). Out: -1 without a commit_ts where one is needed."""
    if extension or before:
        out[at], out[at + 1] = 2, op
        at += 2
    if extension:
        if commit_ts < 0:
            return -1
        at = put_long(out, at, commit_ts)
        at = put_long(out, at, commit_ts >> 18)
    if checksum:  # of a row that came without one
        out[at], out[at + 1], out[at + 2] = 0, 0, 0
        at += 3
    return at
