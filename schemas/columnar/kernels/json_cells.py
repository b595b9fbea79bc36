"""Values of a chunk of JSON rows → cells (`schemas.columnar.rows`), for numba.

In and out are the same arrays: by slot and row the place and length of a value's content, whose grammar was checked
(below 0: NULL, or not sent), become the cell; texts are copied, as a message may be much larger than its values. A
value that is not what its column takes marks its row in `bad`; the decoder in Python says what is wrong with it.

A block of rows is scanned and read, all slots of it, before the next one: its messages stay in the processor's cache.
In two passes over a batch, each value would come from memory again, which takes longer than reading it.
"""

from typing import Any, NamedTuple

import numpy as np

from ticdc_bridge.schemas.columnar.kernels.byte_buffers import (
    BLOCK,
    copy_block,
    copy_short,
    count_zeros,
    equal_bytes,
    read_eight,
)
from ticdc_bridge.schemas.columnar.kernels.jit import inline, jit
from ticdc_bridge.schemas.columnar.kernels.json_scan import UNESCAPED, MessageRows, Templates, ValuePositions, scan
from ticdc_bridge.schemas.columnar.kernels.numbers import put_scaled, read_double
from ticdc_bridge.schemas.columnar.kernels.temporal import MICROS_A_DAY, NONE, instant, is_temporal, put_clock, put_date
from ticdc_bridge.schemas.columnar.kernels.text import Array, find_digits_end, is_decimal, read_digits, utf8

# ---- Contents of JSON strings, which stand between the quotes → texts and bytes, for numba.

_NONE, _ONE, _LOW, _BOTH = (np.uint64(n) for n in (0, 1, (1 << BLOCK) - 1, (1 << BLOCK) + 1))
_HIGHS = ~_LOW
_DIGITS = np.full(256, 255, np.uint8)  # by byte: its value in hexadecimal; 255 for what is no such digit
_DIGITS[np.frombuffer(b"0123456789abcdefABCDEF", np.uint8)] = (*range(16), *range(10, 16))


@inline
def put_text(data: Array, pos: int, end: int, out: Array, to: int) -> int:
    r"""A string's content → UTF-8 in `out`, escapes resolved; out: where it ends, -1 where it is none (`unescape`).

    `out` has room for BLOCK bytes beyond the text: whole blocks are copied as far as `data` has them.
    """
    first, high = to, _NONE
    while data.shape[0] - pos >= BLOCK:
        marks = copy_block(out, to, data, pos)
        if end - pos < BLOCK:
            marks &= ((_ONE << np.uint64(end - pos)) - _ONE) * _BOTH
        high |= marks
        slashes = marks & _LOW
        if slashes:
            size = count_zeros(slashes)
            pos, to = _put_escaped(data, pos + size, end, out, to + size)
            if pos < 0:
                return -1
        elif end - pos <= BLOCK:
            to += end - pos
            pos = end
            break
        else:
            pos += BLOCK
            to += BLOCK
    if pos < end:
        to, high = unescape(data, pos, end, out, to), _HIGHS
        if to < 0:
            return -1
    return to if high <= _LOW or utf8(out, first, to) else -1


@jit
def unescape(data: Array, pos: int, end: int, out: Array, to: int) -> int:
    r"""Resolves JSON's escapes; out: where the text ends in `out`, -1 for \ufffd, half a pair and what is no escape."""
    while pos < end:
        if data[pos] == 92:
            pos, to = _put_escaped(data, pos, end, out, to)
            if pos < 0:
                return -1
        else:
            out[to] = data[pos]
            to += 1
            pos += 1
    return to


@jit
def _put_escaped(data: Array, pos: int, end: int, out: Array, to: int) -> Any:
    """The character of the escape at `pos` → (next position, -1 for what `unescape` refuses; next place)."""
    if pos + 1 >= end:
        return -1, to
    letter = data[pos + 1]
    pos += 2
    if letter == 117:
        code = _hex4(data, pos, end)
        pos += 4
        if 0xD800 <= code < 0xDC00 and end - pos >= 6 and data[pos] == 92 and data[pos + 1] == 117:
            low = _hex4(data, pos + 2, end)
            pos += 6
            if not 0xDC00 <= low < 0xE000:
                return -1, to
            code = 0x10000 + ((code - 0xD800) << 10) + (low - 0xDC00)
        if code < 0 or code == 0xFFFD or 0xD800 <= code < 0xE000:
            return -1, to
        return pos, _put_char(code, out, to)
    out[to] = UNESCAPED[letter]
    return pos if UNESCAPED[letter] else -1, to + 1


@jit
def _put_char(code: int, out: Array, to: int) -> int:
    """A character as UTF-8: never longer than its escape."""
    if code < 0x80:
        out[to] = code
        return to + 1
    if code < 0x800:
        out[to], out[to + 1] = 0xC0 | code >> 6, 0x80 | code & 63
        return to + 2
    if code < 0x10000:
        out[to], out[to + 1], out[to + 2] = 0xE0 | code >> 12, 0x80 | code >> 6 & 63, 0x80 | code & 63
        return to + 3
    out[to], out[to + 1] = 0xF0 | code >> 18, 0x80 | code >> 12 & 63
    out[to + 2], out[to + 3] = 0x80 | code >> 6 & 63, 0x80 | code & 63
    return to + 4


@jit
def _hex4(data: Array, pos: int, end: int) -> int:
    if end - pos < 4:
        return -1
    code, sound = 0, True
    for byte in data[pos : pos + 4]:
        sound = sound and _DIGITS[byte] < 16
        code = code * 16 + int(_DIGITS[byte])
    return code if sound else -1


# ---------------------------------------------------------------------------------- base64
_ALPHABET = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"
_SIX = np.full(256, 255, np.uint8)  # by byte: its six bits; 255 for what is none of the alphabet
_SIX[np.frombuffer(_ALPHABET, np.uint8)] = np.arange(64)


@jit
def unbase64(data: Array, pos: int, size: int, out: Array, to: int) -> int:
    """Canonical base64 → bytes in `out`; out: where they end, -1 for anything else."""
    if size & 3:
        return -1
    pad = 0
    if size:
        pad = (data[pos + size - 1] == 61) + (data[pos + size - 1] == 61 and data[pos + size - 2] == 61)
    full_size = size - 4 if pad else size
    at, stop, one = np.uint64(pos), np.uint64(pos + full_size), np.uint64(1)
    every, end = np.uint8(0), np.uint64(to)
    while at < stop:
        a, b = _SIX[data[at]], _SIX[data[at + one]]
        c, d = _SIX[data[at + np.uint64(2)]], _SIX[data[at + np.uint64(3)]]
        every |= a | b | c | d
        out[end] = a << np.uint8(2) | b >> np.uint8(4)
        out[end + one] = b << np.uint8(4) | c >> np.uint8(2)
        out[end + np.uint64(2)] = c << np.uint8(6) | d
        end += np.uint64(3)
        at += np.uint64(4)
    to += full_size // 4 * 3
    if pad:
        a, b = _SIX[data[pos + full_size]], _SIX[data[pos + full_size + 1]]
        c = _SIX[data[pos + full_size + 2]] if pad == 1 else np.uint8(0)
        every |= a | b | c
        if (pad == 1 and c & 3) or (pad == 2 and b & 15):
            return -1  # bits of no account that are not zero
        out[to] = a << np.uint8(2) | b >> np.uint8(4)
        if pad == 1:
            out[to + 1] = b << np.uint8(4) | c >> np.uint8(2)
        to += 3 - pad
    if every > 63:
        return -1
    return to


# ---------------------------------------------------------------------------------- strconv.Quote
@jit
def unquote(out: Array, first: int, end: int) -> int:
    r"""Bytes as Go quotes them, in their place: they are never longer than their escapes. Out: where they end.

    -1 for what is not so quoted, and for octal and \u escapes, which are left to the decoder in Python.
    """
    pos, to = first, first
    while pos < end:
        byte = out[pos]
        pos += 1
        if byte == 34 or byte == 10:
            return -1
        if byte != 92:
            out[to] = byte
            to += 1
            continue
        if pos >= end:
            return -1
        letter = out[pos]
        pos += 1
        if letter == 120:
            if end - pos < 2:
                return -1
            high, low = _DIGITS[out[pos]], _DIGITS[out[pos + 1]]
            if high > 15 or low > 15:
                return -1
            out[to] = high << 4 | low
            pos += 2
        elif letter == 97:
            out[to] = 7
        elif letter == 118:
            out[to] = 11
        elif letter == 47 or not UNESCAPED[letter]:
            return -1
        else:
            out[to] = UNESCAPED[letter]
        to += 1
    return to


# ---------------------------------------------------------------------------------- NULL or a default
@jit
def mark_image(data: Array, starts: Array, lengths: Array, images: Array, first: int, end: int, bad: Array) -> None:
    """Marks rows whose content is images[first:end], which stands for NULL or a default alike."""
    for row in range(starts.shape[0]):
        if lengths[row] < 0:
            continue
        start, size = starts[row], lengths[row]
        if size == end - first and equal_bytes(data, start, images, first, size):
            bad[row] = 1
        for i in range(start, start + size):
            if data[i] == 92:  # an escape: it may be the image in another spelling
                bad[row] = 1


# How a slot is read, and what a, b and c are. SIGNED, YEAR: the least and the greatest number. UNSIGNED: the greatest,
# and whether a negative int64 stands for that + 2^64. ENUM, SET: the greatest index or mask. DOUBLE, FLOAT: the bits of
# the greatest. BITS: bytes in base64. SHORT_DECIMAL: one that went through a double; precision and scale. DECIMAL: as
# text; the same, precision 0: not known. NOTHING: only NULL is read. DAYS, MOMENTS: whether zero is certain; MOMENTS:
# microseconds of a unit, and fraction digits. TIMES: fraction digits.
(
    SIGNED, YEAR, UNSIGNED, ENUM, SET, BOOLEAN, DOUBLE, FLOAT,
    TEXT, DATE, DATETIME, TIME, DECIMAL, NOTHING,
    SHORT_DECIMAL, BITS, UNQUOTED, BASE64, BASE64_TEXT, INSTANTS, DAYS, TIMES, MOMENTS,
) = range(23)  # fmt: skip
_BLOCK = 256  # rows: of 1.3 KB each they fill a third of a cache of 1 MiB
_LAST_DAY, _FIRST_DAY = 2932896, -719162  # 9999-12-31 and 0001-01-01, from 1970-01-01
_FIRST_MOMENT, _LAST_MOMENT = _FIRST_DAY * MICROS_A_DAY, (_LAST_DAY + 1) * MICROS_A_DAY - 1
_MOST_TIME = 839 * 3_600_000_000 - 1


class SlotReaders(NamedTuple):
    """How each slot is read. room: bytes of a value at most, where it can be longer than what stands in the message."""

    code: Array
    a: Array
    b: Array
    c: Array
    room: Array


class Images(NamedTuple):
    """By slot, contents that stand for NULL or a default alike. slot n has those from firsts[n] to firsts[n + 1]; ends:
    of each, where it ends in `text`."""

    text: Array
    ends: Array
    firsts: Array


@jit
def read(
    source: MessageRows, at: int, rows: int, learn_from: int, plan: Templates, positions: ValuePositions,
    taken_mask: Array, last: Array, slots: SlotReaders, images: Images, out: Array, to: int, bad: Array,
) -> Any:  # fmt: skip
    """`scan`, and what it finds becomes cells, a block of rows after another.

    Out: what `scan` gives, and the next place in `out`, which has the texts and room for all of them.
    """
    unknown = -1
    while unknown < 0:
        first = rows
        rows, at, unknown = scan(source, at, rows, first + _BLOCK, learn_from, plan, positions, taken_mask, last)
        if rows == first:
            break
        for slot in range(slots.code.shape[0]):
            position, length = positions.starts[slot, first:rows], positions.lengths[slot, first:rows]
            for n in range(images.firsts[slot], images.firsts[slot + 1]):
                begin = images.ends[n - 1] if n else 0
                mark_image(source.values, position, length, images.text, begin, images.ends[n], bad[first:rows])
            to = _fill_slot(
                slots.code[slot], source.values, position, length, slots.a[slot], slots.b[slot], slots.c[slot], out, to,
                bad[first:rows],
            )  # fmt: skip
    return rows, at, unknown, to


@jit
def _fill_slot(
    code: int, data: Array, start: Array, length: Array, a: int, b: int, c: int, out: Array, to: int, bad: Array
) -> int:
    # A loop each: what is asked of the code is asked once then.
    if code <= FLOAT:
        for row in range(start.shape[0]):
            if length[row] >= 0:
                number, sound = _number(code, data, start[row], length[row], a, b)
                start[row], length[row] = number if sound else 0, 8
                bad[row] |= not sound
        return to
    if code == TEXT:
        for row in range(start.shape[0]):
            pos, size = start[row], length[row]
            start[row] = to
            if size <= 0:
                continue
            end = put_text(data, pos, pos + size, out, to)
            if end < 0:
                bad[row] = 1
            else:
                length[row], to = end - to, end
        return to
    for row in range(start.shape[0]):
        pos, size = start[row], length[row]
        start[row] = to
        if size < 0:
            continue
        end = _put(code, data, pos, size, a, b, c, out, to)
        if end < 0:
            bad[row] = 1
        elif code == BITS:  # bytes, the low one first, as the bits of an int64
            beyond = np.uint64(64 - 8 * (end - to))
            start[row], length[row] = np.int64(read_eight(out, to) << beyond >> beyond), 8
        else:
            length[row], to = end - to, end
    return to


# ---------------------------------------------------------------------------------- numbers
@inline
def _number(code: int, data: Array, pos: int, size: int, a: int, b: int) -> Any:
    """(an int64, or the bits of another number; whether it is sound)."""
    if code <= YEAR:
        number, sound = signed_of(data, pos, size)
        return number, sound and a <= number <= b and (code == SIGNED or not 0 < number < 1901)
    if code == BOOLEAN:
        return np.int64(size == 4), True
    if code >= DOUBLE:
        bits, sound = read_double(data, pos, pos + size)
        return bits, sound and bits & 0x7FFFFFFFFFFFFFFF <= a
    unsigned, negative, sound = number_of(data, pos, size)
    if negative and unsigned:
        sound = sound and b != 0 and unsigned <= np.uint64(1) << np.uint64(63)
        unsigned = ~unsigned + np.uint64(1)
    return np.int64(unsigned), sound and unsigned <= np.uint64(a)


@inline
def number_of(data: Array, pos: int, size: int) -> Any:
    """(magnitude as uint64, negative, whether it has no more than 64 bits)."""
    end = pos + size
    negative = data[pos] == 45
    if negative:
        pos += 1
    if end - pos > 20:
        return np.uint64(0), negative, False
    number = read_digits(data, pos, min(end, pos + 19))  # so many digits always fit
    if end - pos == 20:
        digit = np.uint64(data[end - 1] - 48)
        if number > np.uint64(1844674407370955161) or (
            number == np.uint64(1844674407370955161) and digit > np.uint64(5)
        ):
            return np.uint64(0), negative, False
        number = number * np.uint64(10) + digit
    return number, negative, True


@inline
def signed_of(data: Array, pos: int, size: int) -> Any:
    """(int64, whether it is one)."""
    number, negative, sound = number_of(data, pos, size)
    top = np.uint64(1) << np.uint64(63)
    if not sound or number > top or (number == top and not negative):
        return np.int64(0), False
    return (np.int64(~number + np.uint64(1)) if negative else np.int64(number)), True


@jit
def _put_short_decimal(data: Array, pos: int, end: int, precision: int, scale: int, out: Array, to: int) -> int:
    """DECIMAL that went through a double → its text.

    Exact where all its digits at this scale are 15 at most: no two such numbers are one double. Any other: -1.
    """
    digits = min(precision, 15)
    if data[pos] != 45 or data[pos + 1] != 48:  # whose sign 0 does not keep
        start = pos + 1 if data[pos] == 45 else pos
        point = find_digits_end(data, start, end)
        integer_digits = 0 if data[start] == 48 else point - start
        if integer_digits + scale <= digits and (point == end or data[point] == 46):
            decimals = end - point - 1 if point < end else 0
            if decimals <= scale and (point == end or find_digits_end(data, point + 1, end) == end):
                to = copy_short(out, to, data, pos, end - pos)
                if scale and not decimals:
                    out[to] = 46
                    to += 1
                for _ in range(scale - decimals):
                    out[to] = 48
                    to += 1
                return to
    limit, most = np.uint64(1_000_000_000_000_000), np.uint64(1)
    for _ in range(digits):
        most *= np.uint64(10)
    number, negative, sound = _scale_number(data, pos, end, scale, limit)
    return put_scaled(negative, number, scale, out, to) if sound and number < most else -1


@jit
def _scale_number(data: Array, pos: int, end: int, scale: int, limit: Any) -> Any:
    """(a number × 10^scale, negative, whether that is an integer below the limit)."""
    number, decimals, point = np.uint64(0), 0, False
    negative = data[pos] == 45
    if negative:
        pos += 1
    while pos < end and data[pos] != 101 and data[pos] != 69:
        if data[pos] == 46:
            point = True
        else:
            if number >= limit:
                return number, negative, False
            number = number * np.uint64(10) + np.uint64(data[pos] - 48)
            decimals += 1 if point else 0
        pos += 1
    exponent, minus = 0, False
    if pos < end:
        pos += 1
        minus = data[pos] == 45
        if minus or data[pos] == 43:
            pos += 1
        while pos < end:
            exponent = exponent * 10 + (data[pos] - 48)
            if exponent > 99:
                return number, negative, False
            pos += 1
    shift = scale - decimals + (-exponent if minus else exponent)
    while shift < 0 and number % np.uint64(10) == np.uint64(0) and number:
        number //= np.uint64(10)
        shift += 1
    if not number:
        return number, negative, True
    while shift > 0 and number < limit:
        number *= np.uint64(10)
        shift -= 1
    return number, negative, shift == 0 and number < limit


# ---------------------------------------------------------------------------------- texts, bytes, dates and times
@jit
def _put(code: int, data: Array, pos: int, size: int, a: int, b: int, c: int, out: Array, to: int) -> int:
    """Where a value's text or bytes end in `out`; -1 for what is none of its column."""
    if code <= NOTHING:
        if code <= TIME:
            sound = is_temporal(code - DATE, data, pos, pos + size)
        else:
            sound = code == DECIMAL and is_decimal(data, pos, pos + size, a, b)
        return copy_short(out, to, data, pos, size) if sound else -1
    if code == SHORT_DECIMAL:
        return _put_short_decimal(data, pos, pos + size, a, b, out, to)
    if code == BITS:
        end = unbase64(data, pos, size, out, to) if size <= 12 else -1
        return end if end - to == a else -1
    if code == UNQUOTED:
        end = unescape(data, pos, pos + size, out, to)
        return unquote(out, to, end) if end >= 0 and utf8(out, to, end) else -1
    if code <= BASE64_TEXT:
        end = unbase64(data, pos, size, out, to)
        return -1 if code == BASE64_TEXT and end >= 0 and not utf8(out, to, end) else end
    if code == INSTANTS:  # the epoch stands for zero, too: left to Python
        number = instant(data, pos, pos + size)
        if number == NONE or 0 <= number < MICROS_A_DAY:
            return -1
        copy_short(out, to, data, pos, size - 1)
        out[to + 10] = 32
        return to + size - 1
    number, sound = signed_of(data, pos, size)
    if not sound:
        return -1
    if code == TIMES:
        if not -_MOST_TIME <= number <= _MOST_TIME:
            return -1
        if number < 0:
            out[to] = 45
            to += 1
        return put_clock(abs(number), a, out, to)
    if not number and not a:
        return -1
    if code == DAYS:
        return put_date(number, out, to) if _FIRST_DAY <= number <= _LAST_DAY else -1
    low, high = (_FIRST_MOMENT // 1000, _LAST_MOMENT // 1000) if b == 1000 else (_FIRST_MOMENT, _LAST_MOMENT)
    if not low <= number <= high:
        return -1
    since = np.uint64(number * b - _FIRST_MOMENT)
    days = since // np.uint64(MICROS_A_DAY)
    to = put_date(np.int64(days) + _FIRST_DAY, out, to)
    out[to] = 32
    return put_clock(np.int64(since - days * np.uint64(MICROS_A_DAY)), c, out, to + 1)
