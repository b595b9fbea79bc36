"""Cells → Avro values in a numpy buffer, for numba: as `schemas.formats.avro.record` writes them.

Each function writes at `at` and gives the next position, or -1 for a value that the format's own encoder has to see.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ticdc_bridge.schemas.columnar.kernels.byte_buffers import copy, copy_short, put, zigzag
from ticdc_bridge.schemas.columnar.kernels.jit import inline, jit
from ticdc_bridge.schemas.columnar.kernels.temporal import is_zero_timestamp, micros, put_clock, put_date

Array = Any  # numpy arrays: numba knows their types
_LOW32 = np.uint64(0xFFFFFFFF)
_LIMBS = 8  # of 32 bits: what DECIMAL(65) needs at most is 217


@jit
def put_long(out: Array, at: int, number: int) -> int:
    """Zig-zag varint of an int64."""
    return put(out, at, zigzag(number))


@inline
def put_span(out: Array, at: int, data: Array, place: int, length: int) -> int:
    return copy_short(out, put_long(out, at, length), data, place, length)


@jit
def put_digits(out: Array, at: int, number: int) -> int:
    """uint64 (as the int64 of the same bits) → its decimal text with its length."""
    rest, size = np.uint64(number), 1
    while rest > np.uint64(9):
        rest //= np.uint64(10)
        size += 1
    at = put_long(out, at, size)
    rest = np.uint64(number)
    for i in range(size):
        out[at + size - 1 - i] = np.uint8(np.uint64(48) + rest % np.uint64(10))
        rest //= np.uint64(10)
    return at + size


@jit
def put_low_first(out: Array, at: int, bits: Any, size: int) -> int:
    for i in range(size):
        out[at + i] = np.uint8((bits >> np.uint64(8 * i)) & np.uint64(255))
    return at + size


@jit
def put_double(out: Array, at: int, place: int) -> int:
    bits = np.uint64(place)
    if (bits >> np.uint64(52)) & np.uint64(0x7FF) == np.uint64(0x7FF):
        return -1
    return int(put_low_first(out, at, bits, 8))


@jit
def put_float(out: Array, at: int, place: int) -> int:
    """A float64 that is a float32 → the latter's bits."""
    bits = np.uint64(place)
    exponent = int((bits >> np.uint64(52)) & np.uint64(0x7FF))
    digits = bits & np.uint64(0xFFFFFFFFFFFFF)
    bits32 = np.uint64(0)
    if exponent or digits:
        exponent -= 1023 - 127
        drop = 29
        if exponent >= 255 or exponent < -23:
            return -1
        if exponent <= 0:  # subnormal: its leading one is written out
            digits |= np.uint64(1) << np.uint64(52)
            drop, exponent = 30 - exponent, 0
        if digits & ((np.uint64(1) << np.uint64(drop)) - np.uint64(1)):
            return -1
        bits32 = (np.uint64(exponent) << np.uint64(23)) | (digits >> np.uint64(drop))
    return int(put_low_first(out, at, bits32 | ((bits >> np.uint64(63)) << np.uint64(31)), 4))


@jit
def put_bits(out: Array, at: int, place: int, length: int) -> int:
    """BIT(length), big-endian."""
    bits = np.uint64(place)
    if length < 1 or (length < 64 and bits >> np.uint64(length)):
        return -1
    size = (length + 7) // 8
    at = put_long(out, at, size)
    for i in range(size):
        out[at + i] = np.uint8((bits >> np.uint64(8 * (size - 1 - i))) & np.uint64(255))
    return at + size


# ---------------------------------------------------------------------------------- decimals
@jit
def put_decimal(
    out: Array, at: int, data: Array, place: int, length: int, precision: int, scale: int, limbs: Array
) -> int:
    """DECIMAL's text → the shortest two's complement of the unscaled integer. limbs: room for _LIMBS uint64."""
    pos, end = place, place + length
    negative = pos < end and data[pos] == 45
    if negative:
        pos += 1
    whole, fraction, digits, wide, pending, small = 0, -1, 0, False, 0, np.uint64(0)
    factor, left = np.uint64(1), scale
    while pos < end:
        digit = np.uint64(data[pos]) - np.uint64(48)  # what is below "0" becomes huge
        pos += 1
        if digit > np.uint64(9):
            if data[pos - 1] != 46 or fraction >= 0 or not whole:
                return -1
            fraction = 0
            continue
        if fraction < 0:
            whole += 1
        else:
            fraction += 1
            if not left:
                if digit:
                    return -1
                continue
            left -= 1
        if not digits and not digit:
            continue
        digits += 1
        if digits <= 18:
            small = small * np.uint64(10) + digit
            continue
        if not wide:
            wide, pending, small, factor = True, _split_limbs(limbs, small), np.uint64(0), np.uint64(1)
        small, factor = small * np.uint64(10) + digit, factor * np.uint64(10)
        if factor == np.uint64(1_000_000_000):
            pending = _times_add(limbs, pending, factor, small)
            small, factor = np.uint64(0), np.uint64(1)
    if not 1 <= whole <= 65 or fraction == 0 or fraction > 65:
        return -1
    for _ in range(left if digits else 0):
        digits += 1
        if digits <= 18:
            small *= np.uint64(10)
            continue
        if not wide:
            wide, pending, small, factor = True, _split_limbs(limbs, small), np.uint64(0), np.uint64(1)
        small, factor = small * np.uint64(10), factor * np.uint64(10)
        if factor == np.uint64(1_000_000_000):
            pending = _times_add(limbs, pending, factor, small)
            small, factor = np.uint64(0), np.uint64(1)
    if digits > precision or digits > 65:
        return -1
    if not wide:
        return _put_small(out, at, -np.int64(small) if negative else np.int64(small))
    if factor > np.uint64(1):
        pending = _times_add(limbs, pending, factor, small)
    return _put_limbs(out, at, limbs, negative)


@jit
def _split_limbs(limbs: Array, small: Any) -> int:
    """A number below 10^18 into limbs; out: how many are in use."""
    limbs[:] = 0
    limbs[0], limbs[1] = small & _LOW32, small >> np.uint64(32)
    return 2


@jit
def _times_add(limbs: Array, used: int, factor: Any, more: Any) -> int:
    """limbs × factor + more, both below 2^32."""
    carry = more
    for i in range(used):
        carry += limbs[i] * factor
        limbs[i] = carry & _LOW32
        carry >>= np.uint64(32)
    if carry and used < _LIMBS:
        limbs[used] = carry
        used += 1
    return used


@jit
def _put_small(out: Array, at: int, number: Any) -> int:
    bits, size = np.uint64(number ^ (number >> 63)), 1
    while size < 8 and bits >> np.uint64(8 * size - 1):
        size += 1
    out[at] = 2 * size
    at += 1
    for i in range(size):
        out[at + i] = np.uint8((number >> (8 * (size - 1 - i))) & 255)
    return at + size


@jit
def _put_limbs(out: Array, at: int, limbs: Array, negative: bool) -> int:
    if negative:  # two's complement is the complement of one less
        i = 0
        while limbs[i] == np.uint64(0):
            limbs[i] = _LOW32
            i += 1
        limbs[i] -= np.uint64(1)
    top = _LIMBS - 1
    while top and limbs[top] == np.uint64(0):
        top -= 1
    size, bits = 4 * top + 1, limbs[top]
    while bits >= np.uint64(128):
        bits >>= np.uint64(8)
        size += 1
    out[at] = 2 * size
    at += 1
    for i in range(size):
        byte = size - 1 - i
        octet = (limbs[byte // 4] >> np.uint64(8 * (byte % 4))) & np.uint64(255)
        out[at + i] = np.uint8(octet ^ np.uint64(255) if negative else octet)
    return at + size


# ---------------------------------------------------------------------------------- TIMESTAMP in another zone
@jit
def _offset(zones: Array, first: int, count: int, seconds: int, wall: int) -> int:
    """The offset at a time. wall: 0 UTC, 1 local time (the first of two), 2 local time (the second)."""
    low, high = 0, count  # how many changes have been
    while low < high:
        middle = (low + high + 1) // 2
        at = zones[first + middle, 0]
        before, after = zones[first + middle - 1, 1], zones[first + middle, 1]
        if wall == 1:
            at += max(before, after)
        elif wall == 2:
            at += min(before, after)
        if seconds >= at:
            low = middle
        else:
            high = middle - 1
    return int(zones[first + low, 1])


@jit
def put_timestamp(out: Array, at: int, data: Array, place: int, length: int, zones: Array, pair: Any) -> Any:
    """TIMESTAMP text in the target's zone → (next position or -1, whether it is ambiguous).

    zones (int64, two columns): since when (seconds, UTC) which offset holds; the first row of a zone has no start.
    pair: (first row of the source's, changes, first row of the target's, changes, first second, last second).
    """
    if is_zero_timestamp(data, place, place + length):
        return put_span(out, at, data, place, length), False
    local = micros(data, place, place + length) // 1_000_000
    if not pair[4] <= local <= pair[5]:
        return -1, False
    before = _offset(zones, pair[0], pair[1], local, 1)
    after = _offset(zones, pair[0], pair[1], local, 2)
    if before < after:
        return -1, False
    utc = local - before
    there = utc + _offset(zones, pair[2], pair[3], utc, 0)
    again = _offset(zones, pair[2], pair[3], there, 1) != _offset(zones, pair[2], pair[3], there, 2)
    at = put_long(out, at, length)
    copy(out, at, data, place, length)
    put_date(there // 86400, out, at)  # from year 1970 on, or late in 1969
    put_clock(there % 86400 * 1_000_000, 0, out, at + 11)
    return at + length, bool(before != after or again)
