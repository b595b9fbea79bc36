"""Typed values of one column → their contents, for numba: the other way round than `craft_fill`.

Contents of all columns lie in one buffer `out`; `at` is where they go on. places and lengths say by row where a value
is; a length of -1 is NULL. A value that does not fit its column marks its row in `bad`.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from schemas.columnar.kernels.byte_buffers import Array, put, zigzag
from schemas.columnar.kernels.jit import jit, jit_allocating
from schemas.columnar.kernels.text import fits, is_decimal

_DIVISOR = np.uint64(1_000_000_000)
_LOW32 = np.uint64(0xFFFFFFFF)


@jit
def write_signed(
    values: Array, valid: Array, low: int, high: int, out: Array, at: int, places: Array, lengths: Array, bad: Array
) -> int:
    """int64 → zig-zag varints. Out: where the contents end."""
    for row in range(values.shape[0]):
        places[row], lengths[row] = at, -1
        if valid[row]:
            if values[row] < low or values[row] > high:
                bad[row] = 1
            at = put(out, at, zigzag(values[row]))
            lengths[row] = at - places[row]
    return at


@jit
def write_unsigned(
    values: Array, valid: Array, high: Any, out: Array, at: int, places: Array, lengths: Array, bad: Array
) -> int:
    """uint64 → uvarints."""
    for row in range(values.shape[0]):
        places[row], lengths[row] = at, -1
        if valid[row]:
            if values[row] > high:
                bad[row] = 1
            at = put(out, at, values[row])
            lengths[row] = at - places[row]
    return at


@jit
def write_doubles(bits: Array, valid: Array, out: Array, at: int, places: Array, lengths: Array, bad: Array) -> int:
    """Bits of float64 → eight bytes, low first. Not finite: bad."""
    for row in range(bits.shape[0]):
        places[row], lengths[row] = at, -1
        if valid[row]:
            if (bits[row] >> np.uint64(52)) & np.uint64(0x7FF) == np.uint64(0x7FF):
                bad[row] = 1
            for i in range(8):
                out[at + i] = np.uint8((bits[row] >> np.uint64(8 * i)) & np.uint64(255))
            at += 8
            lengths[row] = 8
    return at


@jit_allocating
def write_decimals(
    pairs: Array,
    valid: Array,
    precision: int,
    scale: int,
    out: Array,
    at: int,
    places: Array,
    lengths: Array,
    bad: Array,
) -> int:
    """128-bit unscaled integers (low, high) → plain notation with `scale` fraction digits."""
    digits = np.empty(48, np.uint8)
    zero, one = np.uint64(0), np.uint64(1)
    for row in range(pairs.shape[0]):
        places[row], lengths[row] = at, -1
        if not valid[row]:
            continue
        low, high = pairs[row, 0], pairs[row, 1]
        if high >> np.uint64(63):
            low = ~low + one
            high = ~high + (one if low == zero else zero)
            out[at] = 45
            at += 1
        count = 0
        while low != zero or high != zero or count <= scale:
            if high != zero:
                low, high, part = divide(low, high)
            else:
                part = low % _DIVISOR
                low //= _DIVISOR
            for _ in range(9):
                digits[count] = np.uint8(48 + part % np.uint64(10))
                part //= np.uint64(10)
                count += 1
        while count > scale + 1 and digits[count - 1] == 48:
            count -= 1
        if count > precision and not (count == scale + 1 and digits[count - 1] == 48):
            bad[row] = 1
        for i in range(count - 1, -1, -1):
            out[at] = digits[i]
            at += 1
            if i == scale and scale > 0:
                out[at] = 46
                at += 1
        lengths[row] = at - places[row]
    return at


@jit
def divide(low: Any, high: Any) -> Any:
    """(low, high) ÷ 10^9 → (low, high, remainder), by 32 bits at a time."""
    shift = np.uint64(32)
    rest = high % _DIVISOR
    top = high // _DIVISOR
    part = (rest << shift) | (low >> shift)
    upper = part // _DIVISOR
    part = ((part % _DIVISOR) << shift) | (low & _LOW32)
    return (upper << shift) | (part // _DIVISOR), top, part % _DIVISOR


@jit
def bits_of(data: Array, offsets: Array, out: Array, bad: Array) -> None:
    """Big-endian bytes → uint64."""
    for row in range(out.shape[0]):
        value = np.uint64(0)
        for i in range(offsets[row], offsets[row + 1]):
            if value >> np.uint64(56) != np.uint64(0):
                bad[row] = 1
            value = (value << np.uint64(8)) | np.uint64(data[i])
        out[row] = value


@jit
def place_bytes(
    data: Array,
    offsets: Array,
    valid: Array,
    form: Array,
    least: int,
    base: int,
    places: Array,
    lengths: Array,
    bad: Array,
) -> None:
    """Texts that lie in the contents from `base` on. form: classes of characters, "0" a digit; from `least` on.

    An empty form allows anything. What may follow `least` is a point and digits, as far as the form goes.
    """
    for row in range(valid.shape[0]):
        places[row], lengths[row] = base + offsets[row] - offsets[0], -1
        if valid[row]:
            size = offsets[row + 1] - offsets[row]
            lengths[row] = size
            if form.shape[0]:
                at = offsets[row]
                if form[2] == 58 and size and data[at] == 45:  # TIME has a sign, and two or three digits of hours
                    at += 1
                    size -= 1
                skip = 1 if form[2] == 58 and size > 2 and data[at + 2] != 58 else 0
                fine = size - skip == least or least + 1 < size - skip <= form.shape[0]
                for i in range(size):
                    k = i - skip
                    want = form[k] if 0 <= k < form.shape[0] else 48
                    byte = data[at + i]
                    if (48 <= byte <= 57) != (want == 48) or (want != 48 and byte != want):
                        fine = False
                if not fine:
                    bad[row] = 1


@jit
def check_decimals(out: Array, places: Array, lengths: Array, precision: int, scale: int, bad: Array) -> None:
    """DECIMALs that travel as text: plain notation, and inside their precision where it is known (not 0)."""
    for row in range(places.shape[0]):
        if lengths[row] >= 0:
            at, end = places[row], places[row] + lengths[row]
            if not is_decimal(out, at, end) or (precision > 0 and not fits(out, at, end, precision, scale)):
                bad[row] = 1
