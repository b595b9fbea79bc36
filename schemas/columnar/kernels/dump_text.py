"""Rows of a dump's SQL and CSV files → where their values stand, and the values of a column as texts, for numba."""

from __future__ import annotations

from typing import NamedTuple

from ticdc_bridge.schemas.columnar.kernels.byte_buffers import copy
from ticdc_bridge.schemas.columnar.kernels.jit import inline, jit
from ticdc_bridge.schemas.columnar.kernels.text import Array

NULL, BARE, QUOTED, ESCAPED, HEX = range(5)
"""What a value is: NULL, text without quotes, text between quotes, the same with escapes in it, digits of x'…'."""
ANY, NOT_BARE, NOT_NULL = range(3)
"""What values of a column can be: any; not text without quotes; not NULL, so that what looks like it is a text."""
MORE, ENDED, CUT, MALFORMED = range(4)
"""How a scan ended: no room for another row, the statement's end, within a row, at what can't stand there."""

_QUOTE, _COMMA, _OPEN, _CLOSE, _SEMICOLON, _BACKSLASH = 0x27, 0x2C, 0x28, 0x29, 0x3B, 0x5C


class Cells(NamedTuple):
    """The values of some rows, one row after the other: first byte, byte after the last, and what it is."""

    starts: Array
    ends: Array
    kinds: Array


class CsvMarks(NamedTuple):
    """Bytes of a CSV dialect (uint8); `quote` is empty where nothing is quoted, `null` is how NULL is written."""

    separator: Array
    quote: Array
    terminator: Array
    null: Array


@inline
def _stands_at(data: Array, at: int, end: int, mark: Array) -> bool:
    size = mark.shape[0]
    if size == 0 or at + size > end:
        return False
    for n in range(size):  # noqa: SIM110 - numba has no generators here
        if data[at + n] != mark[n]:
            return False
    return True


@jit
def scan_sql(
    data: Array, at: int, end: int, columns: int, has_escapes: bool, cells: Cells, rows: int, state: Array
) -> int:
    """Rows `(value,…)` of an INSERT from data[at] on; rows: how many `cells` has already. How many it has then.

    has_escapes: a backslash escapes; else a quote in a text is doubled. state: how it ended, and where: after the last
    whole row (CUT, MORE), after the semicolon (ENDED), at the byte that is wrong (MALFORMED).
    """
    room = cells.starts.shape[0] // columns
    starts, ends, kinds = cells.starts, cells.ends, cells.kinds
    while True:
        begin = at
        while at < end and (data[at] <= 0x20 or data[at] == _COMMA):
            at += 1
        if at < end and data[at] == _SEMICOLON:
            state[0], state[1] = ENDED, at + 1
            return rows
        if rows == room:
            state[0], state[1] = MORE, begin
            return rows
        if at < end and data[at] != _OPEN:
            state[0], state[1] = MALFORMED, at
            return rows
        at += 1
        for column in range(columns):
            cell = rows * columns + column
            if at >= end:
                state[0], state[1] = CUT, begin
                return rows
            kind, first, last = BARE, at, at
            is_hex = data[at] == 0x78 and at + 1 < end and data[at + 1] == _QUOTE
            if data[at] == _QUOTE or is_hex:
                kind = HEX if is_hex else QUOTED
                at += 2 if is_hex else 1
                first = at
                while at < end:
                    byte = data[at]
                    if byte == _QUOTE:
                        if not has_escapes and at + 1 < end and data[at + 1] == _QUOTE:
                            kind = ESCAPED
                            at += 2
                            continue
                        break
                    if byte == _BACKSLASH and has_escapes:
                        kind = ESCAPED
                        at += 1
                    at += 1
                last = at
                at += 1
                if at >= end:  # also where a quote that may be doubled is the last byte
                    state[0], state[1] = CUT, begin
                    return rows
            else:
                while at < end and data[at] != _COMMA and data[at] != _CLOSE:
                    at += 1
                last = at
                if at >= end:
                    state[0], state[1] = CUT, begin
                    return rows
                if data[first] == 0x4E:  # NULL
                    kind = NULL
            if data[at] != (_CLOSE if column == columns - 1 else _COMMA):
                state[0], state[1] = MALFORMED, at
                return rows
            at += 1
            starts[cell], ends[cell], kinds[cell] = first, last, kind
        rows += 1


@jit
def scan_csv(
    data: Array, at: int, end: int, columns: int, has_escapes: bool, marks: CsvMarks, is_last: bool, cells: Cells,
    state: Array,
) -> int:  # fmt: skip
    """Rows of a CSV file from data[at] on; how many. is_last: no bytes come after `end`. Else as `scan_sql`."""
    room, rows = cells.starts.shape[0] // columns, 0
    starts, ends, kinds = cells.starts, cells.ends, cells.kinds
    separator, quote, terminator, null = marks.separator, marks.quote, marks.terminator, marks.null
    ahead = max(separator.shape[0], quote.shape[0], terminator.shape[0])
    while True:
        begin = at
        if rows == room or at >= end:
            state[0], state[1] = (ENDED if at >= end and is_last else MORE), at
            return rows
        for column in range(columns):
            cell = rows * columns + column
            kind, first, last = BARE, at, at
            if _stands_at(data, at, end, quote):
                kind = QUOTED
                at += quote.shape[0]
                first, is_closed = at, False
                while at < end:
                    if has_escapes and data[at] == _BACKSLASH:
                        kind = ESCAPED
                        at += 2
                    elif data[at] == quote[0] and _stands_at(data, at, end, quote):
                        if not has_escapes and _stands_at(data, at + quote.shape[0], end, quote):
                            kind = ESCAPED
                            at += 2 * quote.shape[0]
                            continue
                        is_closed = True
                        break
                    else:
                        at += 1
                last = at
                at += quote.shape[0]
                if not is_closed:
                    state[0], state[1] = CUT, begin
                    return rows
            else:
                while at < end:
                    if has_escapes and data[at] == _BACKSLASH and at + 1 < end:
                        kind = ESCAPED
                        at += 2
                        continue
                    if _stands_at(data, at, end, separator) or _stands_at(data, at, end, terminator):
                        break
                    at += 1
                last = min(at, end)
                is_null = last - first == null.shape[0]
                for n in range(null.shape[0] if is_null else 0):
                    is_null = is_null and data[first + n] == null[n]
                if is_null:
                    kind = NULL
            if at + ahead > end and not is_last:
                state[0], state[1] = CUT, begin
                return rows
            starts[cell], ends[cell], kinds[cell] = first, last, kind
            if column < columns - 1:
                if not _stands_at(data, at, end, separator):
                    state[0], state[1] = MALFORMED, at
                    return rows
                at += separator.shape[0]
            elif _stands_at(data, at, end, terminator):
                at += terminator.shape[0]
            elif at < end or not is_last:
                state[0], state[1] = MALFORMED, at
                return rows
        rows += 1


@jit
def fill_texts(
    data: Array, cells: Cells, column: int, columns: int, rows: int, rule: int, escapes: Array, quote: Array,
    out: Array, offsets: Array, valid: Array,
) -> int:  # fmt: skip
    """A column's values, without their escapes, in `out`; the row of one that can't be read, -1 where there is none.

    rule: ANY, NOT_BARE or NOT_NULL. escapes: by the byte after a backslash what stands for both, 256 for none; empty
    where quotes are doubled. offsets: one more than rows. valid: 0 for NULL.
    """
    to = 0
    offsets[0] = 0
    for row in range(rows):
        cell = row * columns + column
        at, last, kind = cells.starts[cell], cells.ends[cell], cells.kinds[cell]
        if kind == BARE and rule == NOT_BARE:
            return row
        if kind == NULL and rule == NOT_NULL:
            kind = BARE
        valid[row] = kind != NULL
        if kind == ESCAPED:
            while at < last:
                byte = data[at]
                if escapes.shape[0] and byte == _BACKSLASH:
                    if at + 1 >= last or escapes[data[at + 1]] == 256:
                        return row
                    byte = escapes[data[at + 1]]
                    at += 1
                elif not escapes.shape[0] and _stands_at(data, at, last, quote):
                    for n in range(quote.shape[0]):  # the first of the two is left out
                        byte = data[at + n]
                        out[to + n] = byte
                    to += quote.shape[0] - 1
                    at += 2 * quote.shape[0] - 1
                out[to] = byte
                to += 1
                at += 1
        elif kind == HEX:
            if (last - at) & 1:
                return row
            while at < last:
                high, low = _digit(data[at]), _digit(data[at + 1])
                if high < 0 or low < 0:
                    return row
                out[to] = high << 4 | low
                to += 1
                at += 2
        elif kind != NULL:
            copy(out, to, data, at, last - at)
            to += last - at
        offsets[row + 1] = to
    return -1


@inline
def _digit(byte: int) -> int:
    if 48 <= byte <= 57:
        return byte - 48
    byte |= 0x20
    return byte - 87 if 97 <= byte <= 102 else -1
