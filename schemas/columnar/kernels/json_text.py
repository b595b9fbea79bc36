"""Contents of JSON strings, which stand between the quotes → texts and bytes, for numba."""

from __future__ import annotations

from typing import Any

import numpy as np

from ticdc_bridge.schemas.columnar.kernels.byte_buffers import BLOCK, copy_block, count_zeros, equal_bytes
from ticdc_bridge.schemas.columnar.kernels.jit import inline, jit
from ticdc_bridge.schemas.columnar.kernels.text import Array, utf8

_NONE, _ONE, _LOW, _BOTH = (np.uint64(n) for n in (0, 1, (1 << BLOCK) - 1, (1 << BLOCK) + 1))
_HIGHS = ~_LOW


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
    plain = _unescape_letter(letter)
    if plain < 0:
        return -1, to
    out[to] = plain
    return pos, to + 1


@jit
def _unescape_letter(letter: int) -> int:
    if letter == 34 or letter == 92 or letter == 47:
        return int(letter)
    if letter == 110:
        return 10
    if letter == 116:
        return 9
    if letter == 114:
        return 13
    if letter == 98:
        return 8
    return 12 if letter == 102 else -1


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
    code = 0
    for i in range(pos, pos + 4):
        digit = _hex(data[i])
        if digit < 0:
            return -1
        code = code * 16 + digit
    return code


@jit
def _hex(byte: int) -> int:
    if 48 <= byte <= 57:
        return int(byte) - 48
    if 65 <= byte <= 70:
        return int(byte) - 55
    return int(byte) - 87 if 97 <= byte <= 102 else -1


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
    whole = size - 4 if pad else size
    at, stop, one = np.uint64(pos), np.uint64(pos + whole), np.uint64(1)
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
    to += whole // 4 * 3
    if pad:
        a, b = _SIX[data[pos + whole]], _SIX[data[pos + whole + 1]]
        c = _SIX[data[pos + whole + 2]] if pad == 1 else np.uint8(0)
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
            high, low = _hex(out[pos]), _hex(out[pos + 1])
            if high < 0 or low < 0:
                return -1
            out[to] = high << 4 | low
            pos += 2
        elif letter == 97:
            out[to] = 7
        elif letter == 118:
            out[to] = 11
        elif letter == 47 or _unescape_letter(letter) < 0:
            return -1
        else:
            out[to] = _unescape_letter(letter)
        to += 1
    return to


# ---------------------------------------------------------------------------------- NULL or a default
@jit
def mark_image(data: Array, places: Array, lengths: Array, images: Array, first: int, end: int, bad: Array) -> None:
    """Marks rows whose content is images[first:end], which stands for NULL or a default alike."""
    for row in range(places.shape[0]):
        if lengths[row] < 0:
            continue
        place, size = places[row], lengths[row]
        if size == end - first and equal_bytes(data, place, images, first, size):
            bad[row] = 1
        for i in range(place, place + size):
            if data[i] == 92:  # an escape: it may be the image in another spelling
                bad[row] = 1
