"""Rows of a dump's SQL and CSV files → where their values stand, and the values of a column as texts, for numba.

Cells are the values of some rows, one row after the other: (first byte, byte after the last, what it is). Marks of a
dialect (uint8) are (separator, quote, terminator, null): `quote` is empty where nothing is quoted.
"""

from ticdc_bridge.schemas.columnar.kernels.byte_buffers import copy
from ticdc_bridge.schemas.columnar.kernels.jit import inline, jit
from ticdc_bridge.schemas.columnar.kernels.text import Array

NULL, UNQUOTED, QUOTED, ESCAPED, HEX = range(5)
"""What a value is: NULL, text without quotes, text between quotes, the same with escapes in it, digits of x'…'."""
ANY, ONLY_QUOTED, NOT_NULL = range(3)
"""What values of a column can be: any; not text without quotes; not NULL, so that what looks like it is a text."""
MORE, ENDED, CUT, MALFORMED = range(4)
"""How a scan ended: no room for another row, the statement's end, within a row, at what can't stand there."""
Cells = tuple[Array, Array, Array]

_QUOTE, _COMMA, _OPEN, _CLOSE, _SEMICOLON, _BACKSLASH = 0x27, 0x2C, 0x28, 0x29, 0x3B, 0x5C


@inline
def _stands_at(data: Array, at: int, end: int, mark: Array) -> bool:
    size = mark.shape[0]
    if size == 0 or at + size > end:
        return False
    for n in range(size):  # noqa: SIM110 - numba has no generators here
        if data[at + n] != mark[n]:
            return False
    return True


@inline
def _text_end(data: Array, at: int, end: int, quote: Array, has_escapes: bool) -> tuple[int, int]:
    """Where the quote after a text stands, `end` or more where it does not; QUOTED or ESCAPED."""
    kind = QUOTED
    while at < end:
        if has_escapes and data[at] == _BACKSLASH:
            kind = ESCAPED
            at += 2
        elif data[at] == quote[0] and _stands_at(data, at, end, quote):
            if has_escapes or not _stands_at(data, at + quote.shape[0], end, quote):
                break
            kind = ESCAPED
            at += 2 * quote.shape[0]
        else:
            at += 1
    return at, kind


@jit
def scan_sql(
    data: Array, at: int, end: int, columns: int, has_escapes: bool, quote: Array, cells: Cells, rows: int, state: Array
) -> int:
    """Rows `(value,…)` of an INSERT from data[at] on; rows: how many `cells` has already. How many it has then.

    has_escapes: a backslash escapes; else a quote in a text is doubled. state: how it ended, and where: after the last
    whole row (CUT, MORE), after the semicolon (ENDED), at the byte that is wrong (MALFORMED).
    """
    starts, ends, kinds = cells
    room = starts.shape[0] // columns
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
            is_hex = at + 1 < end and data[at] == 0x78 and data[at + 1] == _QUOTE
            if is_hex or (at < end and data[at] == _QUOTE):
                first = at + (2 if is_hex else 1)
                last, kind = _text_end(data, first, end, quote, has_escapes)
                at = last + 1
                kind = HEX if is_hex else kind
            else:
                first = at
                while at < end and data[at] != _COMMA and data[at] != _CLOSE:
                    at += 1
                last = at
                kind = NULL if first < end and data[first] == 0x4E else UNQUOTED
            if at >= end:  # also where a quote that may be doubled is the last byte
                state[0], state[1] = CUT, begin
                return rows
            if data[at] != (_CLOSE if column == columns - 1 else _COMMA):
                state[0], state[1] = MALFORMED, at
                return rows
            at += 1
            cell = rows * columns + column
            starts[cell], ends[cell], kinds[cell] = first, last, kind
        rows += 1


@jit
def scan_csv(
    data: Array, at: int, end: int, columns: int, has_escapes: bool, marks: tuple[Array, Array, Array, Array],
    is_last: bool, cells: Cells, state: Array,
) -> int:  # fmt: skip
    """Rows of a CSV file from data[at] on; how many. is_last: no bytes come after `end`. Else as `scan_sql`."""
    starts, ends, kinds = cells
    separator, quote, terminator, null = marks
    room, rows = starts.shape[0] // columns, 0
    ahead = max(separator.shape[0], quote.shape[0], terminator.shape[0])
    while True:
        begin = at
        if rows == room or at >= end:
            state[0], state[1] = (ENDED if at >= end and is_last else MORE), at
            return rows
        for column in range(columns):
            if _stands_at(data, at, end, quote):
                first = at + quote.shape[0]
                last, kind = _text_end(data, first, end, quote, has_escapes)
                at = last + quote.shape[0]
                is_cut = last >= end
            else:
                first, kind, is_cut = at, UNQUOTED, False
                while (
                    at < end and not _stands_at(data, at, end, separator) and not _stands_at(data, at, end, terminator)
                ):
                    if has_escapes and data[at] == _BACKSLASH and at + 1 < end:
                        kind = UNQUOTED if quote.shape[0] else ESCAPED
                        at += 1
                    at += 1
                last = at
                if last - first == null.shape[0] and (last == first or _stands_at(data, first, end, null)):
                    kind = NULL
            if is_cut or (at + ahead > end and not is_last):
                state[0], state[1] = CUT, begin
                return rows
            mark = separator if column < columns - 1 else terminator
            if _stands_at(data, at, end, mark):
                at += mark.shape[0]
            else:  # Dumpling ends the last row, too
                state[0], state[1] = (CUT, begin) if at + ahead > end else (MALFORMED, at)
                return rows
            cell = rows * columns + column
            starts[cell], ends[cell], kinds[cell] = first, last, kind
        rows += 1


@jit
def fill_texts(
    data: Array, cells: Cells, column: int, columns: int, first: int, rows: int, rule: int, escapes: Array,
    quote: Array, out: Array, offsets: Array, valid: Array,
) -> int:  # fmt: skip
    """A column's values from row `first` on, without their escapes, in `out`; the row of one that can't be read, -1
    where there is none.

    rule: ANY, ONLY_QUOTED or NOT_NULL. escapes: by the byte after a backslash what stands for both, 256 for none;
    empty where quotes are doubled. offsets: one more than rows. valid: 0 for NULL.
    """
    starts, ends, kinds = cells
    to = 0
    offsets[0] = 0
    for row in range(first, rows):
        cell = row * columns + column
        at, last, kind = starts[cell], ends[cell], kinds[cell]
        if kind == NULL and rule == NOT_NULL:
            kind = UNQUOTED
        if kind == UNQUOTED and rule == ONLY_QUOTED:
            return row
        valid[row - first] = kind != NULL
        if kind == ESCAPED:
            while at < last:
                byte = data[at]
                if escapes.shape[0] and byte == _BACKSLASH:
                    at += 1
                    if at >= last or escapes[data[at]] == 256:
                        return row
                    byte = escapes[data[at]]
                elif not escapes.shape[0] and _stands_at(data, at, last, quote):
                    for n in range(quote.shape[0] - 1):
                        out[to + n] = byte
                        byte = quote[n + 1]
                    to += quote.shape[0] - 1
                    at += 2 * quote.shape[0] - 1  # the first of the two is left out
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
        offsets[row - first + 1] = to
    return -1


@inline
def _digit(byte: int) -> int:
    if 48 <= byte <= 57:
        return byte - 48
    byte |= 0x20
    return byte - 87 if 97 <= byte <= 102 else -1
