"""Rows of any tables → JSON texts, for numba: literals, and between them values of cells (`schemas.columnar.rows`).

A program is what one kind of row of one table becomes: steps for the key, the value, and the objects in them. A value
that needs a rule of its own, that can't be kept, or that is not what its column holds, leaves its row.
"""

from typing import Any, NamedTuple

import numpy as np

from ticdc_bridge.schemas.columnar.kernels import numbers as real
from ticdc_bridge.schemas.columnar.kernels import temporal as moment
from ticdc_bridge.schemas.columnar.kernels.byte_buffers import (
    BLOCK,
    copy,
    copy_block,
    copy_short,
    find_special,
    read_eight,
)
from ticdc_bridge.schemas.columnar.kernels.jit import inline, jit
from ticdc_bridge.schemas.columnar.kernels.temporal import NEVER, NONE, TWICE
from ticdc_bridge.schemas.columnar.kernels.text import Array

# ---- Values of JSON but for numbers, for numba: strings, base64, null, true and false.

_ONES, _BLANKS, _QUOTES, _SLASHES, _HIGH, _C2, _E2 = (
    np.uint64(byte * 0x0101010101010101) for byte in (1, 32, 34, 92, 128, 0xC2, 0xE2)
)
HEX = np.frombuffer(b"0123456789abcdef", np.uint8)
_LETTERS = np.full(256, 117, np.uint8)  # by character: what follows the backslash of its escape
_LETTERS[np.frombuffer(b'"\\\b\f\n\r\t', np.uint8)] = np.frombuffer(b'"\\bfnrt', np.uint8)
_BASE64 = np.frombuffer(b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/", np.uint8)


@inline
def null(out: Array, to: int) -> int:
    out[to], out[to + 1], out[to + 2], out[to + 3] = 110, 117, 108, 108
    return to + 4


@inline
def boolean(true: bool, out: Array, to: int) -> int:
    if true:
        out[to], out[to + 1], out[to + 2], out[to + 3] = 116, 114, 117, 101
        return to + 4
    out[to], out[to + 1], out[to + 2], out[to + 3], out[to + 4] = 102, 97, 108, 115, 101
    return to + 5


@jit
def bits(number: int, size: int, out: Array, to: int) -> int:
    """Base64 of `size` bytes, low byte first; -1 for more bits than fit these."""
    rest = np.uint64(number)
    if size < 8 and rest >> np.uint64(8 * size):
        return -1
    out[to] = 34
    to += 1
    for done in range(0, size, 3):
        three = int(rest & np.uint64(0xFFFFFF))
        to = _put_four(three & 255, three >> 8 & 255, three >> 16, size - done, out, to)
        rest >>= np.uint64(24)
    out[to] = 34
    return to + 1


@jit
def base64(data: Array, pos: int, end: int, out: Array, to: int) -> int:
    """Bytes as a string of base64."""
    out[to] = 34
    to += 1
    while end - pos >= 3:
        to = _put_four(int(data[pos]), int(data[pos + 1]), int(data[pos + 2]), 3, out, to)
        pos += 3
    if pos < end:
        to = _put_four(int(data[pos]), int(data[pos + 1]) if end - pos == 2 else 0, 0, end - pos, out, to)
    out[to] = 34
    return to + 1


@jit
def _put_four(a: int, b: int, c: int, count: int, out: Array, to: int) -> int:
    """Three bytes, or as many as there are, in base64."""
    out[to], out[to + 1] = _BASE64[a >> 2], _BASE64[(a & 3) << 4 | b >> 4]
    out[to + 2] = _BASE64[(b & 15) << 2 | c >> 6] if count > 1 else 61
    out[to + 3] = _BASE64[c & 63] if count > 2 else 61
    return to + 4


@inline
def string(data: Array, pos: int, size: int, lines: bool, out: Array, to: int) -> int:
    """A JSON string, as `json.dumps` writes it with UTF-8 as it is; lines: but for U+0085, U+2028 and U+2029."""
    out[to] = 34
    to += 1
    if _is_plain(data, pos, pos + size, lines):
        copy(out, to, data, pos, size)
        to += size
    else:
        to = _put_escaped(data, pos, pos + size, lines, out, to)
    out[to] = 34
    return to + 1


@inline
def short_string(data: Array, pos: int, size: int, out: Array, to: int) -> int:
    """As `string` with `lines` false, made for short ones. `out` has room for BLOCK bytes more."""
    if size > BLOCK or data.shape[0] - pos < BLOCK or find_special(data, pos) < size:
        return string(data, pos, size, False, out, to)
    copy_block(out, to + 1, data, pos)
    out[to], out[to + 1 + size] = 34, 34
    return to + size + 2


@inline
def _is_plain(data: Array, pos: int, end: int, lines: bool) -> bool:
    """True if nothing has to be escaped; with `lines` false also for text that needs a closer look."""
    slow = np.uint64(0)
    while end - pos >= 8:
        word = read_eight(data, pos)
        quotes, slashes = word ^ _QUOTES, word ^ _SLASHES
        # A byte below n borrows from its highest bit, which it does not have itself.
        slow |= (word - _BLANKS) & ~word | (quotes - _ONES) & ~quotes | (slashes - _ONES) & ~slashes
        if lines:
            two, three = word ^ _C2, word ^ _E2
            slow |= (two - _ONES) & ~two | (three - _ONES) & ~three
        pos += 8
    odd = slow & _HIGH != np.uint64(0)
    while pos < end:
        byte = data[pos]
        odd = odd or byte < 32 or byte == 34 or byte == 92 or (lines and (byte == 0xC2 or byte == 0xE2))
        pos += 1
    return not odd


@jit
def _put_escaped(data: Array, pos: int, end: int, lines: bool, out: Array, to: int) -> int:
    while pos < end:
        byte = data[pos]
        pos += 1
        if byte < 32 or byte == 34 or byte == 92:
            letter = _LETTERS[byte]
            if letter == 117:
                to = _put_unicode(byte, out, to)
            else:
                out[to], out[to + 1] = 92, letter
                to += 2
        elif lines and byte == 0xC2 and end - pos > 0 and data[pos] == 0x85:
            to = _put_unicode(0x85, out, to)
            pos += 1
        elif lines and byte == 0xE2 and end - pos > 1 and data[pos] == 0x80 and data[pos + 1] & 0xFE == 0xA8:
            to = _put_unicode(0x2028 + (data[pos + 1] & 1), out, to)
            pos += 2
        else:
            out[to] = byte
            to += 1
    return to


@jit
def _put_unicode(code: int, out: Array, to: int) -> int:
    out[to], out[to + 1] = 92, 117
    for digit in range(4):
        out[to + 2 + digit] = HEX[code >> (12 - 4 * digit) & 15]
    return to + 6


# What follows a step's literal. SIGNED: an int64 from a to b. UNSIGNED: a uint64, written as the int64 of its bits;
# one that wraps is noted, or leaves its row where `note` is REFUSE. BITS: a bytes in base64, low byte first. DATE,
# MILLIS, MICROS: a: a zero date is 0, not null. TIMESTAMP: a, b: a zone's stretches (`temporal.to_utc`), a below 0
# for UTC. NOTHING: only null.
(
    END, KEY, BEFORE, AFTER, MS, COMMIT, NOTHING, SIGNED, UNSIGNED, YEAR, DOUBLE, FLOAT, BOOLEAN, BITS, STRING, BASE64,
    DECIMAL, DATE, MILLIS, MICROS, TIMESTAMP, TIME,
) = range(22)  # fmt: skip

# Of a step: its literal in `text`, op, column, a, b, what is noted of a value that changes (an id, REFUSE or SILENT),
# and whether the row may lack the column (PRESENT: no, LACKS: it must).
FROM, TO, OP, COLUMN, A, B, NOTE, LACK = range(8)
WIDTH = 8
REFUSE, SILENT = -1, -2
PRESENT, LACKS = range(2)

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


class JsonSteps(NamedTuple):
    """text: all literals. steps: WIDTH numbers each, one after another. table: [program][…]."""

    text: Array
    steps: Array
    table: Array


class JsonRows(NamedTuple):
    """Cells as `Rows` has them; program: of each row, -1 to leave it; commit_ts: below 0 where it is null, ~ms of the
    row's time.
    """

    program: Array
    commit_ts: Array
    after: Array
    before: Array
    step: Array
    start: Array
    length: Array
    data: Array


class JsonOutput(NamedTuple):
    """key_ends, value_ends: one more than rows, the first 0. notes: (row, id). state: as above."""

    keys: Array
    values: Array
    key_ends: Array
    value_ends: Array
    left: Array
    notes: Array
    state: Array


# Functions take arrays, not tuples of them: numba would count references to each array in each call.


@jit
def write(at: int, rows: JsonRows, programs: JsonSteps, zones: Array, out: JsonOutput) -> int:
    """Writes on from row `at`; out: the first row not written, for which there may not be room."""
    text, steps, table = programs.text, programs.steps, programs.table
    state, notes, left = out.state, out.notes, out.left
    keys, values, key_ends, value_ends = out.keys, out.values, out.key_ends, out.value_ends
    pos, length, data, of, commit_ts = rows.start, rows.length, rows.data, rows.program, rows.commit_ts
    after, before, steps_of = rows.after, rows.before, rows.step
    while at < of.shape[0]:
        key_to, value_to, program = state[KEY_TO], state[VALUE_TO], of[at]
        if program >= 0:
            new, old, apart, ts = after[at], before[at], steps_of[at], commit_ts[at]
            by = old if table[program, OF_BEFORE] else new  # the row that the key is of
            columns, most = table[program, COLUMNS], data.shape[0]
            new_room, old_room = _room(length, new, apart, columns, most), _room(length, old, apart, columns, most)
            if new_room >= 0 and old_room >= 0:
                state[KEY_NEED] = table[program, KEY_SIZE] + max(new_room, old_room) + 3 * _LONGEST + BLOCK
                state[VALUE_NEED] = table[program, VALUE_SIZE] + new_room + old_room + 3 * _LONGEST + BLOCK
                if state[KEY_NEED] > keys.shape[0] - key_to or state[VALUE_NEED] > values.shape[0] - value_to:
                    return at
                key_to = _message(
                    text, steps, zones, table, program, KEY_FIRST, pos, length, data, new, old, by, apart, ts, keys,
                    key_to, notes, state, at,
                )  # fmt: skip
                if key_to >= 0:
                    value_to = _message(
                        text, steps, zones, table, program, VALUE_FIRST, pos, length, data, new, old, by, apart, ts,
                        values, value_to, notes, state, at,
                    )  # fmt: skip
                if key_to >= 0 and value_to >= 0:
                    state[KEY_TO], state[VALUE_TO] = key_to, value_to
                    left[at] = 0
        key_ends[at + 1], value_ends[at + 1] = state[KEY_TO], state[VALUE_TO]
        at += 1
    return at


@inline
def _room(length: Array, first: int, apart: int, columns: int, most: int) -> int:
    """Bytes that a row's values take at most; -1 for cells that are not there."""
    if first < 0:
        return 0
    if apart < 1 or (columns - 1) * apart >= length.shape[0] - first:
        return -1
    total = columns * _LONGEST
    for cell in range(first, first + columns * apart, apart):
        if 0 < length[cell] <= most:  # what is longer than all data leaves its row
            total += _SIX * length[cell]
    return total


@jit
def _message(
    text: Array, steps: Array, zones: Array, table: Array, program: int, field: int, offset: Array, length: Array,
    data: Array, new: int, old: int, by: int, apart: int, commit_ts: int, out: Array, to: int, notes: Array,
    state: Array, row: int,
) -> int:  # fmt: skip
    """A key or value, -1 where a value is left. field: KEY_FIRST or VALUE_FIRST."""
    for base in range(table[program, field] * WIDTH, table[program, field + 1] * WIDTH, WIDTH):
        start, op = steps[base + FROM], steps[base + OP]
        to = copy_short(out, to, text, start, steps[base + TO] - start)
        if op == MS:
            to = real.put_int(commit_ts >> 18 if commit_ts >= 0 else ~commit_ts, out, to)
        elif op == COMMIT:
            to = real.put_int(commit_ts, out, to) if commit_ts >= 0 else null(out, to)
        elif op != END:
            first = by if op == KEY else old if op == BEFORE else new
            columns = KEYS_FIRST if op == KEY else ROW_FIRST
            noted = row if op != KEY else -1  # what is noted of a key is noted of its row, too
            to = _object(
                offset, length, data, first, apart, text, steps, table[program, columns], table[program, columns + 1],
                zones, out, to, notes, state, noted,
            )  # fmt: skip
            if to < 0:
                return -1
    return to


@inline
def _object(
    offset: Array, length: Array, data: Array, first: int, apart: int, text: Array, steps: Array, step: int, last: int,
    zones: Array, out: Array, to: int, notes: Array, state: Array, row: int,
) -> int:  # fmt: skip
    """Columns of a row, -1 where a value is left. row: what is noted with a value that changes, -1 not to."""
    if first < 0:
        return -1
    for base in range(step * WIDTH, last * WIDTH, WIDTH):
        start, op = steps[base + FROM], steps[base + OP]
        to = copy_short(out, to, text, start, steps[base + TO] - start)
        if op == END:
            continue
        cell = first + apart * steps[base + COLUMN]
        size = length[cell]
        if size < 0:
            if size < _ABSENT or (size == _ABSENT) != (steps[base + LACK] == LACKS):
                return -1
            to = null(out, to)
            continue
        if steps[base + LACK] == LACKS:
            return -1
        to, changed = _value(data, offset[cell], size, op, steps, base, zones, out, to)
        if to < 0:
            return -1
        if changed and row >= 0 and steps[base + NOTE] >= 0:
            count = state[NOTES]
            if count >= notes.shape[0]:
                return -1
            notes[count, 0], notes[count, 1] = row, steps[base + NOTE]
            state[NOTES] = count + 1
    return to


@inline
def _value(
    data: Array, pos: int, size: int, op: int, steps: Array, base: int, zones: Array, out: Array, to: int
) -> Any:
    """A value → (next place or -1, whether it changed)."""
    if op >= STRING:
        if pos < 0 or pos > data.shape[0] - size:
            return -1, False
        if op == STRING:
            return short_string(data, pos, size, out, to), False
        return _put_span(data, pos, pos + size, op, steps, base, zones, out, to)
    if op == SIGNED:
        return real.put_int(pos, out, to) if steps[base + A] <= pos <= steps[base + B] else -1, False
    if op == UNSIGNED:
        if pos < 0 and steps[base + NOTE] == REFUSE:
            return -1, False
        return real.put_int(pos, out, to), pos < 0
    if op == YEAR:
        return real.put_int(pos, out, to) if pos == 0 or 1901 <= pos <= 2155 else -1, False
    if op == DOUBLE:
        return real.put_double(pos, out, to), False
    if op == FLOAT:
        return real.put_float(pos, out, to), False
    if op == BOOLEAN:
        return boolean(pos != 0, out, to), False
    return -1 if op == NOTHING else bits(pos, steps[base + A], out, to), False


@jit
def _put_span(
    data: Array, pos: int, end: int, op: int, steps: Array, base: int, zones: Array, out: Array, to: int
) -> Any:
    """A value that stands in data[pos:end], strings left out."""
    if op == BASE64:
        return base64(data, pos, end, out, to), False
    if op == DECIMAL:
        return real.put_decimal(data, pos, end, steps[base + NOTE] >= 0, out, to)
    if op == TIMESTAMP:
        return _timestamp(data, pos, end, steps[base + A], steps[base + B], zones, out, to)
    if op == TIME:
        number = moment.time_micros(data, pos, end)
        return real.put_int(number, out, to) if number != NONE else -1, False
    return _temporal(data, pos, end, op, steps[base + A], steps[base + NOTE], out, to)


@jit
def _temporal(data: Array, pos: int, end: int, op: int, required: int, note: int, out: Array, to: int) -> Any:
    """DATE and DATETIME as numbers. Left are years below 100, partial dates, and zero dates where they are refused."""
    if end - pos < 10 or (data[pos] == 48 and data[pos + 1] == 48):
        if note < 0 or not moment.is_zero_date(data, pos, end):
            return -1, False
        if not required:
            return null(out, to), True
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
    occurrence = 0
    out[to] = 34
    to += 1
    if zone < 0:
        copy(out, to, data, pos, 19)
    else:
        seconds, occurrence = moment.to_utc(micros // 1_000_000, zone, last, zones)
        if occurrence == NEVER:
            return -1, False
        moment.put_date(seconds // 86400, out, to)
        moment.put_clock(seconds % 86400 * 1_000_000, 0, out, to + 11)
    out[to + 10] = 84
    copy(out, to + 19, data, pos + 19, end - pos - 19)
    to += end - pos
    out[to], out[to + 1] = 90, 34
    return to + 2, occurrence == TWICE


@jit
def mark_unsized(rows: JsonRows, shape: Array, skip: Array, ends: Array, columns: Array, kinds: Array) -> None:
    """By row, a bit for each DATETIME column without fsp: whether its first text has more than three fraction digits.

    ends, columns: by shape, these columns. skip: rows of which the old row is of no account.
    """
    for at in range(shape.shape[0]):
        first = ends[shape[at] - 1] if shape[at] else 0
        for n in range(first, ends[shape[at]]):
            cell = -1
            if rows.before[at] >= 0 and not skip[at]:
                cell = rows.before[at] + rows.step[at] * columns[n]
            if (cell < 0 or cell >= rows.length.shape[0] or rows.length[cell] < 0) and rows.after[at] >= 0:
                cell = rows.after[at] + rows.step[at] * columns[n]
            if 0 <= cell < rows.length.shape[0] and rows.length[cell] >= 0:
                pos, size = rows.start[cell], rows.length[cell]
                if 0 <= pos <= rows.data.shape[0] - size:
                    end = pos + size
                    while pos < end and rows.data[pos] != 46:
                        pos += 1
                    if end - pos > 4:
                        kinds[at] |= np.int64(1) << np.int64(n - first)
