"""Values of JSON but for numbers, for numba: strings, base64, null, true and false."""

from __future__ import annotations

import numpy as np

from ticdc_bridge.schemas.columnar.kernels.byte_buffers import BLOCK, copy, copy_block, find_special, read_eight
from ticdc_bridge.schemas.columnar.kernels.jit import inline, jit
from ticdc_bridge.schemas.columnar.kernels.text import Array

_ONES, _BLANKS, _QUOTES, _SLASHES, _HIGH, _C2, _E2 = (
    np.uint64(byte * 0x0101010101010101) for byte in (1, 32, 34, 92, 128, 0xC2, 0xE2)
)
HEX = np.frombuffer(b"0123456789abcdef", np.uint8)
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
        to = _put_four(
            int(rest & np.uint64(255)),
            int(rest >> np.uint64(8) & np.uint64(255)),
            int(rest >> np.uint64(16) & np.uint64(255)),
            size - done,
            out,
            to,
        )
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
def string(data: Array, place: int, size: int, lines: bool, out: Array, to: int) -> int:
    """A JSON string, as `json.dumps` writes it with UTF-8 as it is; lines: but for U+0085, U+2028 and U+2029."""
    out[to] = 34
    to += 1
    if _is_plain(data, place, place + size, lines):
        copy(out, to, data, place, size)
        to += size
    else:
        to = _put_escaped(data, place, place + size, lines, out, to)
    out[to] = 34
    return to + 1


@inline
def short_string(data: Array, place: int, size: int, out: Array, to: int) -> int:
    """As `string` with `lines` false, made for short ones. `out` has room for BLOCK bytes more."""
    if size > BLOCK or data.shape[0] - place < BLOCK or find_special(data, place) < size:
        return string(data, place, size, False, out, to)
    copy_block(out, to + 1, data, place)
    out[to], out[to + 1 + size] = 34, 34
    return to + size + 2


@inline
def _is_plain(data: Array, pos: int, end: int, lines: bool) -> bool:
    """Whether nothing has to be escaped; with `lines` false also for text that needs a closer look."""
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
            letter = _letter(byte)
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
