"""Rows of any tables (`schemas.codec.cells`) → keys and values of TiCDC Avro, for numba; the bytes of `AvroEncoder`."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from schemas.codec.avro_kernels import jit
from schemas.codec.kernel_avro_values import (
    Array,
    copy,
    put_bits,
    put_decimal,
    put_digits,
    put_double,
    put_float,
    put_long,
    put_span,
    put_timestamp,
)
from schemas.codec.kernel_text import is_decimal

INT, UINT, UINT_TEXT, YEAR, FLOAT, DOUBLE, DECIMAL, DECIMAL_TEXT, BIT, SPAN, TIMESTAMP, VIRTUAL, LEFT = range(13)
"""What a field is. VIRTUAL: always NULL. LEFT: a value of it is for the format's own encoder."""
NOT_NULL, NULL_FIRST, VALUE_FIRST = range(3)
NO_PART = -1
_ROOM = 40  # bytes that a value which is no span takes at most
MOST_ZONED = 63  # TIMESTAMP columns of a record that may be ambiguous: bits of `Out.folds`


class Programs(NamedTuple):
    """How rows are written: a program for each shape and topic.

    fields (int64 by 6): what it is, its cell in the row, its union, two sizes (bits; precision and scale; length), and
    for TIMESTAMP its bit in `folds`. of (int64 by 9): the program's fields of the key (first, last) and of the value,
    its frames in `heads` (first, last) of the key and of the value (NO_PART: there is none), and its row of `pairs`,
    NO_PART where no zone has to be changed. heads: uint8. zones, pairs: as `put_timestamp` takes them.
    """

    fields: Array
    of: Array
    heads: Array
    zones: Array
    pairs: Array


class Modes(NamedTuple):
    """The encoder's options: with the old row, the extension, the checksum's fields, deletes as 0x03 and commit_ts."""

    before: bool
    extension: bool
    checksum: bool
    watermarks: bool
    max_bytes: int


class Rows(NamedTuple):
    """As `CellRows` has them. commit_ts: -1 for none. program: of each row, -1 where it is left."""

    program: Array
    commit_ts: Array
    op: Array
    after: Array
    before: Array
    place: Array
    length: Array
    data: Array


class Out(NamedTuple):
    """keys, values: bytes one after another; *_ends: one more than rows, from 0 on; *_valid, left: by row.

    folds: bits of the TIMESTAMP columns whose time was ambiguous.
    """

    keys: Array
    key_ends: Array
    key_valid: Array
    values: Array
    value_ends: Array
    value_valid: Array
    left: Array
    folds: Array


@jit
def _room_of(programs: Programs, rows: Rows, first: int, last: int, cell: int) -> int:
    """Bytes that a record takes at most."""
    room = _ROOM * (last - first)
    for f in range(first, last):
        if programs.fields[f, 1] >= 0 and rows.length[cell + programs.fields[f, 1]] > 8:
            room += rows.length[cell + programs.fields[f, 1]]
    return int(room)


@jit
def rooms(programs: Programs, modes: Modes, rows: Rows) -> Any:
    """Bytes that keys and values take at most."""
    keys, values = 0, 0
    for row in range(rows.program.shape[0]):
        if rows.program[row] < 0:
            continue
        program = programs.of[rows.program[row]]
        cell = rows.before[row] if rows.op[row] == 100 else rows.after[row]
        if cell < 0:
            continue
        keys += program[5] - program[4] + _room_of(programs, rows, program[0], program[1], cell)
        values += program[7] - program[6] + 64 + _room_of(programs, rows, program[2], program[3], cell)
        if modes.before and rows.before[row] >= 0:
            values += _room_of(programs, rows, program[2], program[3], rows.before[row])
    return keys, values


@jit
def _put_record(
    programs: Programs, rows: Rows, first: int, last: int, zone: int, cell: int, out: Array, at: int, limbs: Array
) -> Any:
    """A row's fields → (next position or -1, ambiguous TIMESTAMPs)."""
    folds = np.int64(0)
    for f in range(first, last):
        kind = programs.fields[f, 0]
        place: Any = np.int64(0)
        length: Any = np.int64(-1)
        if kind != VIRTUAL:
            if programs.fields[f, 1] < 0:
                return -1, folds
            place, length = rows.place[cell + programs.fields[f, 1]], rows.length[cell + programs.fields[f, 1]]
        union = programs.fields[f, 2]
        if length < 0:
            if length != -1 or union == NOT_NULL:
                return -1, folds
            out[at] = 0 if union == NULL_FIRST else 2
            at += 1
            continue
        if union != NOT_NULL:
            out[at] = 2 if union == NULL_FIRST else 0
            at += 1
        if kind == SPAN:
            at = put_span(out, at, rows.data, place, length)
        elif kind == INT:
            top = np.int64(1) << (programs.fields[f, 3] - 1)  # -2^63 of 64 bits
            if programs.fields[f, 3] < 64 and (place < -top or place >= top):
                return -1, folds
            at = put_long(out, at, place)
        elif kind == UINT:
            if programs.fields[f, 3] < 64 and (place < 0 or place >> programs.fields[f, 3]):
                return -1, folds
            at = put_long(out, at, place)
        elif kind == TIMESTAMP and zone < 0:
            at = put_span(out, at, rows.data, place, length)
        elif kind == TIMESTAMP:
            at, twice = put_timestamp(out, at, rows.data, place, length, programs.zones, programs.pairs[zone])
            if twice:
                if programs.fields[f, 5] >= MOST_ZONED:
                    return -1, folds
                folds |= np.int64(1) << programs.fields[f, 5]
        elif kind == DECIMAL:
            precision, scale = programs.fields[f, 3], programs.fields[f, 4]
            at = put_decimal(out, at, rows.data, place, length, precision, scale, limbs)
        elif kind == DECIMAL_TEXT:
            if not is_decimal(rows.data, place, place + length):
                return -1, folds
            at = put_span(out, at, rows.data, place, length)
        else:
            at = _put_rare(kind, programs.fields[f, 3], place, out, at)
        if at < 0:
            return -1, folds
    return at, folds


@jit
def _put_rare(kind: int, size: int, place: int, out: Array, at: int) -> int:
    if kind == DOUBLE:
        return int(put_double(out, at, place))
    if kind == FLOAT:
        return int(put_float(out, at, place))
    if kind == BIT:
        return int(put_bits(out, at, place, size))
    if kind == YEAR and (place == 0 or 1901 <= place <= 2155):
        return int(put_long(out, at, place))
    if kind == UINT_TEXT:
        return int(put_digits(out, at, place))
    return -1


@jit
def _put_extension(modes: Modes, op: int, commit_ts: int, out: Array, at: int) -> int:
    """What stands after the row (and the old one). Out: -1 without a commit_ts where one is needed."""
    if modes.extension or modes.before:
        out[at], out[at + 1] = 2, op
        at += 2
    if modes.extension:
        if commit_ts < 0:
            return -1
        at = put_long(out, at, commit_ts)
        at = put_long(out, at, commit_ts >> 18)
    if modes.checksum:  # of a row that came without one
        out[at], out[at + 1], out[at + 2] = 0, 0, 0
        at += 3
    return at


@jit
def _put_key(programs: Programs, rows: Rows, row: int, cell: int, out: Array, at: int, limbs: Array) -> Any:
    """(next position or -1, ambiguous TIMESTAMPs)."""
    program = programs.of[rows.program[row]]
    if program[4] < 0:
        return at, np.int64(0)
    copy(programs.heads, program[4], out, at, program[5] - program[4])
    at += program[5] - program[4]
    return _put_record(programs, rows, program[0], program[1], program[8], cell, out, at, limbs)


@jit
def _put_value(
    programs: Programs, modes: Modes, rows: Rows, row: int, cell: int, out: Array, at: int, limbs: Array
) -> Any:
    """(next position or -1, ambiguous TIMESTAMPs)."""
    program = programs.of[rows.program[row]]
    folds, more = np.int64(0), np.int64(0)
    if program[6] < 0:
        if modes.watermarks and rows.commit_ts[row] >= 0:
            out[at] = 3
            for i in range(8):
                out[at + 1 + i] = np.uint8((rows.commit_ts[row] >> (56 - 8 * i)) & 255)
            return at + 9, folds
        return at, folds
    copy(programs.heads, program[6], out, at, program[7] - program[6])
    at += program[7] - program[6]
    at, folds = _put_record(programs, rows, program[2], program[3], program[8], cell, out, at, limbs)
    if at >= 0 and modes.before:
        out[at] = 0 if rows.before[row] < 0 else 2
        at += 1
        if rows.before[row] >= 0:
            at, more = _put_record(programs, rows, program[2], program[3], program[8], rows.before[row], out, at, limbs)
            folds |= more
    if at >= 0:
        at = _put_extension(modes, rows.op[row], rows.commit_ts[row], out, at)
    return at, folds


@jit
def write(programs: Programs, modes: Modes, rows: Rows, out: Out) -> None:
    """Keys and values of all rows; those that are left take no bytes."""
    limbs = np.zeros(8, np.uint64)
    key_at, value_at = 0, 0
    out.key_ends[0], out.value_ends[0] = 0, 0
    for row in range(rows.program.shape[0]):
        out.left[row], out.key_valid[row], out.value_valid[row], out.folds[row] = True, False, False, 0
        out.key_ends[row + 1], out.value_ends[row + 1] = key_at, value_at
        cell = rows.before[row] if rows.op[row] == 100 else rows.after[row]
        if rows.program[row] < 0 or cell < 0:
            continue
        key_end, folds = _put_key(programs, rows, row, cell, out.keys, key_at, limbs)
        if key_end < 0:
            continue
        value_end, more = _put_value(programs, modes, rows, row, cell, out.values, value_at, limbs)
        if value_end < 0 or key_end - key_at + value_end - value_at + 36 > modes.max_bytes:
            continue
        out.left[row], out.folds[row] = False, folds | more
        out.key_valid[row], out.value_valid[row] = key_end > key_at, value_end > value_at
        key_at, value_at = key_end, value_end
        out.key_ends[row + 1], out.value_ends[row + 1] = key_at, value_at
