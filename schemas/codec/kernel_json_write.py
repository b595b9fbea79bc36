"""Rows of any tables → JSON texts, for numba: literals, and between them values of cells (`schemas.codec.cells`).

A program is what one kind of row of one table becomes: steps for the key, the value, and the objects in them. A value
that needs a rule of its own, that can't be kept, or that is not what its column holds, leaves its row.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from schemas.codec import kernel_moment as moment
from schemas.codec import kernel_real as real
from schemas.codec.json_write_kernels import jit
from schemas.codec.kernel_copy import copy
from schemas.codec.kernel_moment import NEVER, NONE, TWICE
from schemas.codec.kernel_text import Array

# What follows a step's literal. SIGNED: an int64 from a to b. UNSIGNED: a uint64, written as the int64 of its bits;
# one that wraps is noted, or leaves its row where `note` is REFUSE. BITS: a bytes in base64, low byte first. DATE,
# MILLIS, MICROS: a: a zero date is 0, not null. TIMESTAMP: a, b: a zone's stretches (`kernel_moment.to_utc`), a below 0
# for UTC. NOTHING: only null.
(
    END, KEY, BEFORE, AFTER, MS, COMMIT, NOTHING, SIGNED, UNSIGNED, YEAR, DOUBLE, FLOAT, BOOLEAN, BITS, STRING, BASE64,
    DECIMAL, DATE, MILLIS, MICROS, TIMESTAMP, TIME,
) = range(22)  # fmt: skip

# Of a step: its literal in `text`, op, column, a, b, what is noted of a value that changes (an id, REFUSE or SILENT),
# and whether the row may lack the column (WHOLE: no, LACKS: it must).
FROM, TO, OP, COLUMN, A, B, NOTE, LACK = range(8)
WIDTH = 8
REFUSE, SILENT = -1, -2
WHOLE, LACKS = range(2)

# Of a program: steps of the key and of the value, of their objects, bytes of its literals, and of columns a row.
(
    KEY_FIRST, KEY_LAST, VALUE_FIRST, VALUE_LAST, KEYS_FIRST, KEYS_LAST, ROW_FIRST, ROW_LAST, KEY_SIZE, VALUE_SIZE,
    COLUMNS, OF_BEFORE,
) = range(12)  # fmt: skip

# Of the state: bytes written, notes made, room that the next row may need.
KEY_TO, VALUE_TO, NOTES, KEY_NEED, VALUE_NEED = range(5)

_NULL, _ABSENT = -1, -2
_LONGEST = 32  # of any value but strings and base64
_SIX = 6  # a control character is \u00XX
_EPOCH = np.frombuffer(b'"1970-01-01T00:00:00Z"', np.uint8)
_HEX = np.frombuffer(b"0123456789abcdef", np.uint8)
_BASE64 = np.frombuffer(b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/", np.uint8)


class Programs(NamedTuple):
    """text: all literals. steps: WIDTH numbers each, one after another. table: [program][…]."""

    text: Array
    steps: Array
    table: Array


class Rows(NamedTuple):
    """Cells as `CellRows` has them; program: of each row, -1 to leave it; commit_ts: known or made up, else 0."""

    program: Array
    commit_ts: Array
    after: Array
    before: Array
    place: Array
    length: Array
    data: Array


class Out(NamedTuple):
    """key_ends, value_ends: one more than rows, the first 0. notes: (row, id). state: as above."""

    keys: Array
    values: Array
    key_ends: Array
    value_ends: Array
    left: Array
    notes: Array
    state: Array


@jit
def write(at: int, rows: Rows, programs: Programs, zones: Array, out: Out) -> int:
    """Writes on from row `at`; out: the first row not written, for which there may not be room."""
    state = out.state
    while at < rows.program.shape[0]:
        program = rows.program[at]
        key_to, value_to = state[KEY_TO], state[VALUE_TO]
        if program >= 0:
            of = programs.table[program]
            key_room, value_room = _room(rows, at, of)
            if key_room >= 0:
                state[KEY_NEED], state[VALUE_NEED] = key_room, value_room
                if key_room > out.keys.shape[0] - key_to or value_room > out.values.shape[0] - value_to:
                    return at
                key_to = _message(rows, at, of[KEY_FIRST], of[KEY_LAST], of, programs, zones, out.keys, key_to, out)
                if key_to >= 0:
                    value_to = _message(
                        rows, at, of[VALUE_FIRST], of[VALUE_LAST], of, programs, zones, out.values, value_to, out
                    )
                if key_to >= 0 and value_to >= 0:
                    state[KEY_TO], state[VALUE_TO] = key_to, value_to
                    out.left[at] = 0
        out.key_ends[at + 1], out.value_ends[at + 1] = state[KEY_TO], state[VALUE_TO]
        at += 1
    return at


@jit
def _room(rows: Rows, at: int, of: Array) -> Any:
    """Bytes that key and value take at most; -1 for cells that are not there."""
    key, value = of[KEY_SIZE] + 3 * _LONGEST, of[VALUE_SIZE] + 3 * _LONGEST
    for turn in range(2):
        first = rows.before[at] if turn else rows.after[at]
        if first < 0:
            continue
        if first + of[COLUMNS] > rows.length.shape[0]:
            return -1, -1
        total = of[COLUMNS] * _LONGEST
        for cell in range(first, first + of[COLUMNS]):
            size = rows.length[cell]
            if size > rows.data.shape[0]:
                size = 0  # no span: it leaves its row
            total += _SIX * max(size, 0)
        value += total
        if turn == of[OF_BEFORE]:
            key += total
    return key, value


@jit
def _message(
    rows: Rows, at: int, step: int, last: int, of: Array, programs: Programs, zones: Array, out: Array, to: int,
    noted: Out,
) -> int:  # fmt: skip
    """A key or value, -1 where a value is left."""
    text, steps = programs.text, programs.steps
    while step < last and to >= 0:
        start, op = steps[step * WIDTH + FROM], steps[step * WIDTH + OP]
        size = steps[step * WIDTH + TO] - start
        copy(out, to, text, start, size)
        to += size
        if op == MS:
            to = real.put_int(rows.commit_ts[at] >> 18, out, to)
        elif op == COMMIT:
            to = real.put_int(rows.commit_ts[at], out, to)
        elif op != END:
            old = op == BEFORE or (op == KEY and of[OF_BEFORE])
            first = rows.before[at] if old else rows.after[at]
            begin, end = (of[KEYS_FIRST], of[KEYS_LAST]) if op == KEY else (of[ROW_FIRST], of[ROW_LAST])
            notes = at if op != KEY else -1  # what is noted of a key is noted of its row, too
            to = _object(
                rows.place, rows.length, rows.data, first, text, steps, begin, end, zones, out, to, noted.notes,
                noted.state, notes,
            )  # fmt: skip
        step += 1
    return to


@jit
def _object(
    place: Array, length: Array, data: Array, first: int, text: Array, steps: Array, step: int, last: int,
    zones: Array, out: Array, to: int, notes: Array, state: Array, row: int,
) -> int:  # fmt: skip
    """Columns of a row, -1 where a value is left. row: what is noted with a value that changes, -1 not to."""
    if first < 0:
        return -1
    for base in range(step * WIDTH, last * WIDTH, WIDTH):
        start, op = steps[base + FROM], steps[base + OP]
        size = steps[base + TO] - start
        copy(out, to, text, start, size)
        to += size
        if op == END:
            continue
        cell = first + steps[base + COLUMN]
        size = length[cell]
        if size < 0:
            if size < _ABSENT or (size == _ABSENT) != (steps[base + LACK] == LACKS):
                return -1
            to = _null(out, to)
            continue
        if steps[base + LACK] == LACKS:
            return -1
        to, changed = _value(data, place[cell], size, op, steps, base, zones, out, to)
        if to < 0:
            return -1
        if changed and row >= 0 and steps[base + NOTE] >= 0:
            count = state[NOTES]
            if count >= notes.shape[0]:
                return -1
            notes[count, 0], notes[count, 1] = row, steps[base + NOTE]
            state[NOTES] = count + 1
    return to


@jit
def _value(
    data: Array, place: int, size: int, op: int, steps: Array, base: int, zones: Array, out: Array, to: int
) -> Any:
    """A value → (next place or -1, whether it changed)."""
    if op >= STRING:
        if place < 0 or place > data.shape[0] - size:
            return -1, False
        if op == STRING:
            return _string(data, place, size, out, to), False
        return _spanned(data, place, place + size, op, steps, base, zones, out, to)
    if op == SIGNED:
        return real.put_int(place, out, to) if steps[base + A] <= place <= steps[base + B] else -1, False
    if op == UNSIGNED:
        if place < 0 and steps[base + NOTE] == REFUSE:
            return -1, False
        return real.put_int(place, out, to), place < 0
    if op == YEAR:
        return real.put_int(place, out, to) if place == 0 or 1901 <= place <= 2155 else -1, False
    if op == DOUBLE:
        return real.put_double(place, out, to), False
    if op == FLOAT:
        return real.put_float(place, out, to), False
    return -1 if op == NOTHING else _bits(place, op, steps[base + A], out, to), False


@jit
def _spanned(
    data: Array, pos: int, end: int, op: int, steps: Array, base: int, zones: Array, out: Array, to: int
) -> Any:
    """A value that stands in data[pos:end], strings left out."""
    if op == BASE64:
        out[to] = 34
        to = base64(data, pos, end, out, to + 1)
        out[to] = 34
        return to + 1, False
    if op == DECIMAL:
        return real.put_decimal(data, pos, end, steps[base + NOTE] >= 0, out, to)
    if op == TIMESTAMP:
        return _timestamp(data, pos, end, steps[base + A], steps[base + B], zones, out, to)
    if op == TIME:
        number = moment.time_micros(data, pos, end)
        return real.put_int(number, out, to) if number != NONE else -1, False
    return _temporal(data, pos, end, op, steps[base + A], steps[base + NOTE], out, to)


@jit
def _null(out: Array, to: int) -> int:
    out[to], out[to + 1], out[to + 2], out[to + 3] = 110, 117, 108, 108
    return to + 4


@jit
def _bits(bits: int, op: int, size: int, out: Array, to: int) -> int:
    """true or false, or base64 of `size` bytes, low byte first; -1 for more bits than fit these."""
    if op == BOOLEAN:
        if bits:
            out[to], out[to + 1], out[to + 2], out[to + 3] = 116, 114, 117, 101
            return to + 4
        out[to], out[to + 1], out[to + 2], out[to + 3], out[to + 4] = 102, 97, 108, 115, 101
        return to + 5
    number = np.uint64(bits)
    if size < 8 and number >> np.uint64(8 * size):
        return -1
    some = np.empty(8, np.uint8)
    for i in range(size):
        some[i] = np.uint8(number >> np.uint64(8 * i) & np.uint64(255))
    out[to] = 34
    to = base64(some, 0, size, out, to + 1)
    out[to] = 34
    return to + 1


@jit
def base64(data: Array, pos: int, end: int, out: Array, to: int) -> int:
    while end - pos >= 3:
        bits = int(data[pos]) << 16 | int(data[pos + 1]) << 8 | int(data[pos + 2])
        out[to], out[to + 1] = _BASE64[bits >> 18], _BASE64[bits >> 12 & 63]
        out[to + 2], out[to + 3] = _BASE64[bits >> 6 & 63], _BASE64[bits & 63]
        pos += 3
        to += 4
    if pos < end:
        bits = int(data[pos]) << 16
        if end - pos == 2:
            bits |= int(data[pos + 1]) << 8
        out[to], out[to + 1] = _BASE64[bits >> 18], _BASE64[bits >> 12 & 63]
        out[to + 2], out[to + 3] = _BASE64[bits >> 6 & 63] if end - pos == 2 else 61, 61
        to += 4
    return to


@jit
def _string(data: Array, place: int, size: int, out: Array, to: int) -> int:
    """A JSON string, as `json.dumps` writes it with UTF-8 as it is."""
    out[to] = 34
    to += 1
    # Unsigned indices: numba need not look for negative ones, so that this is a vector operation.
    slow = np.uint8(0)
    i, end = np.uint64(place), np.uint64(place + size)
    while i < end:
        byte = data[i]
        slow |= (byte < 32) | (byte == 34) | (byte == 92)
        i += np.uint64(1)
    if slow:
        to = _escaped(data, place, place + size, out, to)
    else:
        copy(out, to, data, place, size)
        to += size
    out[to] = 34
    return to + 1


@jit
def _escaped(data: Array, pos: int, end: int, out: Array, to: int) -> int:
    while pos < end:
        byte = data[pos]
        pos += 1
        if byte >= 32 and byte != 34 and byte != 92:
            out[to] = byte
            to += 1
            continue
        letter = _letter(byte)
        out[to], out[to + 1] = 92, letter
        to += 2
        if letter == 117:
            out[to], out[to + 1], out[to + 2], out[to + 3] = 48, 48, _HEX[byte >> 4], _HEX[byte & 15]
            to += 4
    return to


@jit
def _letter(byte: int) -> int:
    if byte == 34 or byte == 92:
        return int(byte)
    if byte == 10:
        return 110
    if byte == 13:
        return 114
    if byte == 9:
        return 116
    if byte == 8:
        return 98
    return 102 if byte == 12 else 117


@jit
def _temporal(data: Array, pos: int, end: int, op: int, required: int, note: int, out: Array, to: int) -> Any:
    """DATE and DATETIME as numbers. Left are years below 100, partial dates, and zero dates where they are refused."""
    if end - pos < 10 or (data[pos] == 48 and data[pos + 1] == 48):
        if note < 0 or not moment.is_zero_date(data, pos, end):
            return -1, False
        if not required:
            return _null(out, to), True
        out[to] = 48
        return to + 1, True
    if op == DATE:
        number = moment.days(data, pos, end) if end - pos == 10 else NONE
    else:
        number = moment.micros(data, pos, end)
        if op == MILLIS and number != NONE:
            millis = number // 1000
            number = millis if millis * 1000 == number else NONE
    return real.put_int(number, out, to) if number != NONE else -1, False


@jit
def _timestamp(data: Array, pos: int, end: int, zone: int, last: int, zones: Array, out: Array, to: int) -> Any:
    """TIMESTAMP text in a zone → text in UTC."""
    if moment.is_zero_timestamp(data, pos, end):
        copy(out, to, _EPOCH, 0, _EPOCH.shape[0])
        return to + _EPOCH.shape[0], False
    micros = moment.micros(data, pos, end)
    if micros == NONE:
        return -1, False
    seen = 0
    out[to] = 34
    to += 1
    if zone < 0:
        copy(out, to, data, pos, 19)
    else:
        seconds, seen = moment.to_utc(micros // 1_000_000, zone, last, zones)
        if seen == NEVER:
            return -1, False
        year, month, day = moment.date_of(seconds // 86400)
        clock = seconds % 86400
        real.put_digits(np.uint64(year), 4, out, to)
        real.put_digits(np.uint64(month), 2, out, to + 5)
        real.put_digits(np.uint64(day), 2, out, to + 8)
        real.put_digits(np.uint64(clock // 3600), 2, out, to + 11)
        real.put_digits(np.uint64(clock // 60 % 60), 2, out, to + 14)
        real.put_digits(np.uint64(clock % 60), 2, out, to + 17)
        out[to + 4], out[to + 7], out[to + 13], out[to + 16] = 45, 45, 58, 58
    out[to + 10] = 84
    copy(out, to + 19, data, pos + 19, end - pos - 19)
    to += end - pos
    out[to], out[to + 1] = 90, 34
    return to + 2, seen == TWICE


@jit
def unsized(rows: Rows, shape: Array, skip: Array, ends: Array, columns: Array, kinds: Array) -> None:
    """By row, a bit for each DATETIME column without fsp: whether its first text has more than three fraction digits.

    ends, columns: by shape, these columns. skip: rows of which the old row is of no account.
    """
    for at in range(shape.shape[0]):
        first = ends[shape[at] - 1] if shape[at] else 0
        for n in range(first, ends[shape[at]]):
            cell = -1
            if rows.before[at] >= 0 and not skip[at]:
                cell = rows.before[at] + columns[n]
            if (cell < 0 or cell >= rows.length.shape[0] or rows.length[cell] < 0) and rows.after[at] >= 0:
                cell = rows.after[at] + columns[n]
            if 0 <= cell < rows.length.shape[0] and rows.length[cell] >= 0:
                pos, size = rows.place[cell], rows.length[cell]
                if 0 <= pos <= rows.data.shape[0] - size:
                    end = pos + size
                    while pos < end and rows.data[pos] != 46:
                        pos += 1
                    if end - pos > 4:
                        kinds[at] |= np.int64(1) << np.int64(n - first)
