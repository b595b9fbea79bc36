"""Contents of JSON strings, which stand between the quotes → texts and bytes, for numba."""

from __future__ import annotations

import numpy as np

from schemas.columnar.kernels.byte_buffers import read_eight
from schemas.columnar.kernels.jit import jit
from schemas.columnar.kernels.text import Array, utf8

_ONES, _SLASHES, _HIGH = (np.uint64(byte * 0x0101010101010101) for byte in (1, 92, 128))


@jit
def is_plain_text(data: Array, pos: int, end: int) -> bool:
    """Whether data[pos:end] is UTF-8 without a backslash."""
    first, every, slashes = pos, np.uint64(0), np.uint64(0)
    while end - pos >= 8:
        word = read_eight(data, pos)
        slash = word ^ _SLASHES
        every |= word
        slashes |= (slash - _ONES) & ~slash
        pos += 8
    if pos < end and end - first >= 8:
        word = read_eight(data, end - 8)
        slash = word ^ _SLASHES
        every |= word
        slashes |= (slash - _ONES) & ~slash
    elif pos < end:
        for at in range(pos, end):
            every |= np.uint64(data[at])
            slashes |= np.uint64(128) if data[at] == 92 else np.uint64(0)
    if slashes & _HIGH:
        return False
    return bool(not every & _HIGH or utf8(data, first, end))


@jit
def unescape(data: Array, pos: int, end: int, out: Array, to: int) -> int:
    r"""Resolves JSON's escapes; out: where the text ends in `out`, -1 for \ufffd, half a pair and what is no escape."""
    while pos < end:
        at, first, stop = np.uint64(pos), np.uint64(to), np.uint64(end)
        while at < stop and data[at] != 92:
            out[first] = data[at]
            at += np.uint64(1)
            first += np.uint64(1)
        to += int(np.int64(at)) - pos
        pos = int(np.int64(at))
        if pos >= end:
            break
        pos += 1
        if pos >= end:
            return -1
        letter = data[pos]
        pos += 1
        if letter == 34:
            out[to] = 34
            to += 1
            continue
        if letter == 117:
            code = _hex4(data, pos, end)
            pos += 4
            if 0xD800 <= code < 0xDC00 and end - pos >= 6 and data[pos] == 92 and data[pos + 1] == 117:
                low = _hex4(data, pos + 2, end)
                pos += 6
                if not 0xDC00 <= low < 0xE000:
                    return -1
                code = 0x10000 + ((code - 0xD800) << 10) + (low - 0xDC00)
            if code < 0 or code == 0xFFFD or 0xD800 <= code < 0xE000:
                return -1
            to = _put_char(code, out, to)
            continue
        plain = _unescape_letter(letter)
        if plain < 0:
            return -1
        out[to] = plain
        to += 1
    return to


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
def mark_images(
    data: Array, places: Array, lengths: Array, rows: int, images: Array, image_ends: Array, bad: Array
) -> None:
    """Marks rows whose content is one of some images: what stands for NULL or a default alike."""
    for row in range(rows):
        if lengths[row] < 0:
            continue
        first = 0
        for k in range(image_ends.shape[0]):
            if image_ends[k] - first == lengths[row]:
                same = True
                for i in range(lengths[row]):
                    same = same and data[places[row] + i] == images[first + i]
                if same:
                    bad[row] = 1
            first = image_ends[k]
        for i in range(places[row], places[row] + lengths[row]):
            if data[i] == 92:  # an escape: it may be one of them in another spelling
                bad[row] = 1
