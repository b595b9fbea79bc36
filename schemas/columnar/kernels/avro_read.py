"""Many Avro messages of any schemas at once → cells (`schemas.columnar.rows`), for numba.

A schema is a program: a step for each field, in the record's order. What a step can't take as it is leaves the message
to the decoder in Python, which says why. Nothing is read or written at a place that was not compared with the end of
the message, or follows from lengths that were.
"""

from typing import Any, NamedTuple

import numpy as np

from ticdc_bridge.schemas.columnar.kernels import avro_codes as codes
from ticdc_bridge.schemas.columnar.kernels.byte_buffers import read_eight, swap_bytes
from ticdc_bridge.schemas.columnar.kernels.jit import inline, jit
from ticdc_bridge.schemas.columnar.kernels.text import is_decimal, is_sound_text

# ---- Primitives of Avro's binary form in a numpy buffer, for numba: bounds-checked, in their shortest form only.

Array = Any  # numpy arrays: numba knows their types

# Places in `Scratch.state`.
SCRATCH = 0  # how much of the scratch holds text


class Scratch(NamedTuple):
    """scratch: text that is not in the messages. digits: of a number, the last first. state: see the _ constants."""

    scratch: Array
    digits: Array
    limbs: Array
    state: Array


@jit
def long_at(data: Array, pos: int, end: int) -> Any:
    """Zig-zag varint of up to 64 bits in its shortest form → (number, next position; -1 where there is none)."""
    if pos >= end:
        return np.int64(0), -1
    byte = np.uint64(data[pos])
    pos += 1
    number, shift = byte & np.uint64(127), np.uint64(0)
    while byte >= np.uint64(128):
        shift += np.uint64(7)
        if pos >= end or shift > np.uint64(63):
            return np.int64(0), -1
        byte = np.uint64(data[pos])
        pos += 1
        if shift == np.uint64(63) and byte > np.uint64(1):
            return np.int64(0), -1
        number |= (byte & np.uint64(127)) << shift
    if shift and not byte:
        return np.int64(0), -1
    return np.int64(number >> np.uint64(1)) ^ -np.int64(number & np.uint64(1)), pos


@jit
def span_at(data: Array, pos: int, end: int) -> Any:
    """Bytes with their length before them → (first, after the last; -1 where they are not all there)."""
    size, pos = long_at(data, pos, end)
    if pos < 0 or size < 0 or size > end - pos:
        return 0, -1
    return pos, pos + size


@jit
def unsigned_text(data: Array, pos: int, end: int) -> Any:
    """Digits of a number below 2^64, without leading zeros → (number, whether they are that)."""
    number, ten = np.uint64(0), np.uint64(10)
    if end - pos < 1 or end - pos > 20 or (data[pos] == 48 and end - pos > 1):
        return number, False
    most, rest = np.uint64(1844674407370955161), np.uint64(5)
    for i in range(pos, end):
        digit = np.uint64(data[i]) - np.uint64(48)  # what is below "0" becomes huge
        if digit > np.uint64(9) or number > most or (number == most and digit > rest):
            return number, False
        number = number * ten + digit
    return number, True


@jit
def digits_of(data: Array, pos: int, size: int, scratch: Scratch) -> int:
    """A two's complement integer of up to 32 bytes → how many digits its magnitude has; they are in scratch.digits."""
    digits, limbs, count, ten = scratch.digits, scratch.limbs, 0, np.uint64(10)
    fill = np.uint64(0xFF) if data[pos] >= 128 else np.uint64(0)
    if size <= 8:
        number = np.uint64(0) - (fill & np.uint64(1))
        for i in range(size):
            number = number << np.uint64(8) | np.uint64(data[pos + i])
        if fill:
            number = ~number + np.uint64(1)
        while number:
            digits[count] = np.uint8(number % ten)
            number //= ten
            count += 1
        return count
    top = (size + 3) // 4
    carry, low = fill & np.uint64(1), np.uint64(0xFFFFFFFF)
    for limb in range(top):  # the least first
        number = np.uint64(0)
        for i in range(4):
            at = size - 1 - 4 * limb - i
            byte = fill if at < 0 else np.uint64(data[pos + at])
            number |= (byte ^ fill) << np.uint64(8 * i)
        number += carry
        carry = number >> np.uint64(32)
        limbs[limb] = number & low
    while True:
        while top and not limbs[top - 1]:
            top -= 1
        if not top:
            break
        rest = np.uint64(0)
        for limb in range(top - 1, -1, -1):
            number = rest << np.uint64(32) | limbs[limb]
            limbs[limb] = number // np.uint64(1000000000)
            rest = number % np.uint64(1000000000)
        for _ in range(9):
            digits[count] = np.uint8(rest % ten)
            rest //= ten
            count += 1
    while count and not digits[count - 1]:
        count -= 1
    return count


@jit
def decimal(data: Array, pos: int, size: int, precision: int, scale: int, scratch: Scratch) -> int:
    """A DECIMAL's bytes → its text at the end of the scratch; out: the text's length, -1 where it does not fit."""
    if size < 1 or size > 32:
        return -1
    count = digits_of(data, pos, size, scratch)
    if count > precision:
        return -1
    out, first, digits = scratch.scratch, scratch.state[SCRATCH], scratch.digits
    to = first
    if data[pos] >= 128:
        out[to] = 45
        to += 1
    for k in range(max(count, scale + 1) - 1, -1, -1):
        out[to] = np.uint8(48) + (digits[k] if k < count else np.uint8(0))
        to += 1
        if k == scale and k:
            out[to] = 46
            to += 1
    scratch.state[SCRATCH] = to
    return int(to - first)


STEP = 4  # a step: what it reads; branch of null in its union (-1: no union); two numbers of its own (see `value`)

HEADER = 5  # bytes of the magic byte and the schema's id
_TEXT_A_BYTE = 34  # the longest text of a DECIMAL (68) is of two bytes of the message, or more

# What stands in a message's place of a schema id; ids have 32 bits.
NOTHING, STRANGE, DELETED = 1 << 40, 1 << 41, 1 << 42
# Programs of messages, where they have none: null, can't be read, a delete as avro-enable-watermark writes it.
NULL, UNREADABLE, MARK = -1, -2, -3

# Places in `Scratch.state`, after SCRATCH.
_OP, _COMMIT_TS, _BEFORE = range(1, 4)
STATES = 4


class MessageField(NamedTuple):
    """Keys or values: bytes, where each begins and ends, and the program of each."""

    data: Array
    offsets: Array
    program: Array


class ReadSteps(NamedTuple):
    """steps: of all programs, [step, STEP]. ends: where each program's steps end."""

    steps: Array
    ends: Array


class ReadRows(NamedTuple):
    """The rows found, in message order. value, key: their programs, NULL where there is none. unknown: no op said."""

    message: Array
    commit_ts: Array
    op: Array
    after: Array
    before: Array
    value: Array
    key: Array
    unknown: Array
    start: Array
    length: Array


@jit
def ids(data: Array, offsets: Array, valid: Array, most: int, out: Array) -> None:
    """The schema id in the header of each message; NOTHING for null, DELETED for 0x03 and a TSO, else STRANGE."""
    for n in range(valid.shape[0]):
        at, size = offsets[n], offsets[n + 1] - offsets[n]
        if not valid[n]:
            out[n] = NOTHING
        elif size >= HEADER and size <= most and data[at] == 0:
            number = np.int64(data[at + 1]) << 24 | np.int64(data[at + 2]) << 16
            number |= np.int64(data[at + 3]) << 8 | np.int64(data[at + 4])
            out[n] = number - (number >> 31 << 32)
        else:
            out[n] = DELETED if size == 9 and data[at] == 3 else STRANGE


# ---------------------------------------------------------------------------------------------- steps
@jit
def number_at(data: Array, pos: int, end: int, code: int, most: int) -> Any:
    """A number of the steps LONG to DOUBLE → (the cell's start, next position; -1 where it is not one).

    most: bits of a number without sign, or YEAR; 0: not checked.
    """
    if code <= codes.INT_UNSIGNED:
        number, pos = long_at(data, pos, end)
        narrow = code in (codes.INT, codes.INT_UNSIGNED)
        if narrow and (number < -0x80000000 or number > 0x7FFFFFFF):
            return number, -1
        if (code in (codes.LONG_UNSIGNED, codes.INT_UNSIGNED)) and number < 0:
            return number, -1
        is_year = number == 0 or (number >= 1901 and number <= 2155)
        if (most > 0 and number >> most != 0) or (most == codes.YEAR and not is_year):
            return number, -1
        return number, pos
    if code == codes.TEXT_UNSIGNED:
        first, pos = span_at(data, pos, end)
        if pos < 0:
            return np.int64(0), -1
        bits, sound = unsigned_text(data, first, pos)
        return np.int64(bits), pos if sound else -1
    if code == codes.FLOAT:
        if end - pos < 4:
            return np.int64(0), -1
        bits = np.uint64(0)
        for i in range(4):
            bits |= np.uint64(data[pos + i]) << np.uint64(8 * i)
        sound = (bits >> np.uint64(23)) & np.uint64(0xFF) != np.uint64(0xFF)
        return np.float64(np.uint32(bits).view(np.float32)).view(np.int64), pos + 4 if sound else -1
    if end - pos < 8:
        return np.int64(0), -1
    bits = read_eight(data, pos)
    sound = (bits >> np.uint64(52)) & np.uint64(0x7FF) != np.uint64(0x7FF)
    return np.int64(bits), pos + 8 if sound else -1


@jit
def bits_at(data: Array, first: int, end: int, size: int, length: int) -> Any:
    """BIT(length)'s bytes → (number, whether they are that)."""
    if end - first != size:
        return np.int64(0), False
    number = np.uint64(0)
    for i in range(first, end):
        number = number << np.uint64(8) | np.uint64(data[i])
    return np.int64(number), length == 64 or number >> np.uint64(length) == np.uint64(0)


@jit
def extension(data: Array, pos: int, end: int, code: int, state: Array) -> int:
    """A field that is no column → next position, -1 where it is not what it must be."""
    if code in (codes.COMMIT_TS, codes.PASS_LONG, codes.PASS_INT):
        number, pos = long_at(data, pos, end)
        if code == codes.COMMIT_TS:
            state[_COMMIT_TS] = number
            return pos if number >= 0 else -1
        return pos if code == codes.PASS_LONG or -0x80000000 <= number <= 0x7FFFFFFF else -1
    if code in (codes.OP, codes.PASS_BYTES, codes.PASS_TEXT):
        first, pos = span_at(data, pos, end)
        if pos < 0:
            return -1
        if code == codes.OP:
            op = data[first] if pos - first == 1 else np.uint8(0)
            state[_OP] = op
            return pos if op == 99 or op == 117 or op == 100 else -1
        return pos if code == codes.PASS_BYTES or is_sound_text(data, first, pos) else -1
    size = 4 if code == codes.PASS_FOUR else 8 if code == codes.PASS_EIGHT else 1
    if end - pos < size or (code == codes.PASS_BOOLEAN and data[pos] > 1):
        return -1
    return pos + size


@inline
def record(
    data: Array, pos: int, end: int, step: int, last: int, base: int, scratch: int, cell: int,
    steps: Array, rows: ReadRows, memory: Scratch,
) -> Any:  # fmt: skip
    """One record's cells from `cell` on → (next position, or -1; next cell). base: what makes a position in `data` a
    start; scratch: the start of the scratch's first byte."""
    start, length = rows.start, rows.length
    while step < last:
        code, null, a, b = steps[step, 0], steps[step, 1], steps[step, 2], steps[step, 3]
        step += 1
        if null >= 0:
            if pos >= end:
                return -1, cell
            branch = data[pos]
            pos += 1
            if branch == 2 * null:
                if code < codes.OP:
                    start[cell], length[cell] = 0, -1
                    cell += 1
                elif code == codes.BEFORE:
                    step += a
                continue
            if branch != 2 - 2 * null:
                return -1, cell
        if code <= codes.DOUBLE:
            number, pos = number_at(data, pos, end, code, b)
            if pos < 0:
                return -1, cell
            start[cell], length[cell] = number, 8
            cell += 1
            continue
        if code >= codes.OP:
            if code == codes.BEFORE:
                memory.state[_BEFORE] = cell
                continue
            pos = extension(data, pos, end, code, memory.state)
            if pos < 0:
                return -1, cell
            continue
        first, pos = span_at(data, pos, end)
        if pos < 0:
            return -1, cell
        sound, at, size = True, base + first, pos - first
        if code == codes.TEXT:
            sound = is_sound_text(data, first, pos)
        elif code == codes.DECIMAL_TEXT:
            sound = is_decimal(data, first, pos, 0, 0)
        elif code == codes.DECIMAL_BYTES:
            at = scratch + memory.state[SCRATCH]
            size = decimal(data, first, size, a, b, memory)
            sound = size >= 0
        elif code == codes.BITS:
            at, sound = bits_at(data, first, pos, a, b)
            size = 8
        if not sound:
            return -1, cell
        start[cell], length[cell] = at, size
        cell += 1
    return pos, cell


@jit
def room(field: MessageField, most: Array) -> Any:
    """(cells, bytes of text) that a part's messages need at most. most: of each program, by itself.

    A cell takes a byte of the message at least, a DECIMAL two: memory follows what is there.
    """
    cells = text = 0
    for message in range(field.program.shape[0]):
        program = field.program[message]
        if program >= 0:
            size = field.offsets[message + 1] - field.offsets[message] - HEADER
            cells += min(size, most[program, 0])
            text += min(size * _TEXT_A_BYTE, most[program, 1])
    return cells, text


@jit
def read(
    values: MessageField, keys: MessageField, base: int, scratch: int, programs: ReadSteps, rows: ReadRows,
    memory: Scratch,
) -> Any:  # fmt: skip
    """All messages → (rows, cells). base, scratch: starts of the keys' and the scratch's first byte."""
    state, steps, ends = memory.state, programs.steps, programs.ends
    row, cell = 0, 0
    for message in range(values.program.shape[0]):
        value, key, scratch_at = values.program[message], keys.program[message], state[SCRATCH]
        if value == UNREADABLE or key == UNREADABLE or (value < 0 and key < 0):
            continue
        state[_OP], state[_COMMIT_TS], state[_BEFORE] = 0, -1, -1
        first, end, sound = cell, cell, True
        if value >= 0:
            stop = values.offsets[message + 1]
            at, begin = values.offsets[message] + HEADER, ends[value - 1] if value else 0
            pos, end = record(values.data, at, stop, begin, ends[value], 0, scratch, cell, steps, rows, memory)
            sound = pos == stop
        elif value == MARK:
            state[_COMMIT_TS] = np.int64(swap_bytes(read_eight(values.data, values.offsets[message] + 1)))
            sound = state[_COMMIT_TS] >= 0
        if sound and key >= 0:
            stop, used = keys.offsets[message + 1], state[SCRATCH]
            at, begin = keys.offsets[message] + HEADER, ends[key - 1] if key else 0
            pos, last = record(keys.data, at, stop, begin, ends[key], base, scratch, end, steps, rows, memory)
            sound = pos == stop
            if value < 0:
                end, state[_OP] = last, 100
            else:
                state[SCRATCH] = used
        if not sound:
            state[SCRATCH] = scratch_at
            continue
        op = state[_OP]
        rows.message[row], rows.commit_ts[row], rows.value[row], rows.key[row] = (
            message, state[_COMMIT_TS], max(value, NULL), key,
        )  # fmt: skip
        rows.unknown[row], rows.op[row] = op == 0, op if op else 99
        rows.after[row], rows.before[row] = first, state[_BEFORE]
        if op == 100:
            rows.after[row], rows.before[row] = -1, first
        row += 1
        cell = end
    return row, cell


@jit
def rearrange(chosen: Array, source: Array, cell: int, rows: ReadRows) -> int:
    """Cells of the rows `chosen` once more, from `cell` on. source: of each new cell, the old one; -1: absent."""
    for n in chosen:
        for image in (rows.after, rows.before):
            first = image[n]
            if first < 0:
                continue
            image[n] = cell
            for at in source:
                if at < 0:
                    rows.start[cell], rows.length[cell] = 0, -2
                else:
                    rows.start[cell], rows.length[cell] = rows.start[first + at], rows.length[first + at]
                cell += 1
    return cell
