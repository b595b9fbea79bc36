"""Rows of any tables (`schemas.columnar.rows`) → keys and values of TiCDC Avro, for numba; the bytes of
`AvroEncoder`.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from ticdc_bridge.schemas.columnar.kernels.avro_values import (
    Array,
    put_bits,
    put_decimal,
    put_digits,
    put_double,
    put_float,
    put_long,
    put_span,
    put_timestamp,
)
from ticdc_bridge.schemas.columnar.kernels.byte_buffers import copy
from ticdc_bridge.schemas.columnar.kernels.jit import inline, jit, jit_allocating
from ticdc_bridge.schemas.columnar.kernels.text import is_decimal

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
    place: Array
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
        for part in range(2):
            first, last = of[program, 2 * part], of[program, 2 * part + 1]
            for side in range(2 if part == VALUE and modes.before else 1):
                cell = rows.before[row] if side else cell
                if cell < 0:
                    break
                room[part] += _ROOM * (last - first)
                for f in range(first, last):
                    n = cell + rows.step[row] * fields[f, 1]
                    if fields[f, 1] >= 0 and lengths[n] > 8:
                        room[part] += lengths[n]
            room[part] += of[program, 5 + 2 * part] - of[program, 4 + 2 * part] + 64
    return room


@jit_allocating
def write(
    programs: WriteSteps, modes: WriteOptions, rows: WriteRows, part: int, out: Array, ends: Array, left: Array,
    folds: Array,
) -> None:  # fmt: skip
    """Keys (part KEY) or values of all rows, one after another; ends: one more than rows, from 0 on.

    left: set for rows that are left. folds: bits of the TIMESTAMP columns whose time was ambiguous are added.
    """
    # Arrays are taken out of the tuples here and no function gets a tuple: numba counts references each time.
    fields, of, heads, zones, pairs = programs.fields, programs.of, programs.heads, programs.zones, programs.pairs
    program_of, op, after, before, step = rows.program, rows.op, rows.after, rows.before, rows.step
    places, lengths, data, commit_ts = rows.place, rows.length, rows.data, rows.commit_ts
    limbs, start, at = np.zeros(8, np.uint64), 0, 0
    for row in range(program_of.shape[0]):
        at = start = at if at >= 0 else start  # what was begun of a row that is left is written over
        ends[row] = start
        program = program_of[row]
        cell = before[row] if op[row] == 100 else after[row]
        if program < 0 or cell < 0:
            left[row] = True
            continue
        head, more = of[program, 4 + 2 * part], 0
        if head < 0:
            if part == VALUE and modes.watermarks and commit_ts[row] >= 0:
                at = _put_delete(out, at, commit_ts[row])
            continue
        size = of[program, 5 + 2 * part] - head
        copy(out, at, heads, head, size)
        at += size
        for side in range(2 if part == VALUE and modes.before else 1):
            if side:
                cell = before[row]
                out[at] = 0 if cell < 0 else 2
                at += 1
                if cell < 0:
                    break
            for f in range(of[program, 2 * part], of[program, 2 * part + 1]):
                what, n = fields[f, 0], cell + step[row] * fields[f, 1]
                length = lengths[n] if fields[f, 1] >= 0 else -1 if what == VIRTUAL else -2
                if length >= 0 and what == TIMESTAMP and of[program, 8] >= 0:
                    at = put_branch(out, at, fields[f, 2])
                    at, twice = put_timestamp(out, at, data, places[n], length, zones, pairs[of[program, 8]])
                    if twice:
                        at = at if fields[f, 5] < MOST_ZONED else -1
                        more |= np.int64(1) << fields[f, 5]
                elif length >= 0:
                    at = put_branch(out, at, fields[f, 2])
                    at = _put_field(out, at, what, fields[f, 3], fields[f, 4], data, places[n], length, limbs)
                else:
                    at = _put_null(out, at, fields[f, 2], length)
                if at < 0:
                    break
            if at < 0:
                break
        if at >= 0 and part == VALUE:
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


@jit
def _put_null(out: Array, at: int, union: int, length: int) -> int:
    if length != -1 or union == NOT_NULL:
        return -1
    out[at] = 0 if union == NULL_FIRST else 2
    return at + 1


@inline
def _put_field(
    out: Array, at: int, what: int, first: int, second: int, data: Array, place: int, length: int, limbs: Array
) -> int:
    """A value that is there."""
    if what in (SPAN, TIMESTAMP):
        return int(put_span(out, at, data, place, length))
    if what == INT:
        top = np.int64(1) << (first - 1)
        return -1 if first < 64 and (place < -top or place >= top) else int(put_long(out, at, place))
    if what == UINT:
        return -1 if first < 64 and place >> first else int(put_long(out, at, place))
    if what == DECIMAL:
        return int(put_decimal(out, at, data, place, length, first, second, limbs))
    if what == DECIMAL_TEXT:
        sound = is_decimal(data, place, place + length, first, second)
        return int(put_span(out, at, data, place, length)) if sound else -1
    if what == DOUBLE:
        return int(put_double(out, at, place))
    if what == FLOAT:
        return int(put_float(out, at, place))
    if what == BIT:
        return int(put_bits(out, at, place, first))
    if what == YEAR:
        return int(put_long(out, at, place)) if place == 0 or 1901 <= place <= 2155 else -1
    return int(put_digits(out, at, place)) if what == UINT_TEXT else -1


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


@jit
def _put_delete(out: Array, at: int, commit_ts: int) -> int:
    out[at] = 3
    for i in range(8):
        out[at + 1 + i] = np.uint8((commit_ts >> (56 - 8 * i)) & 255)
    return at + 9
