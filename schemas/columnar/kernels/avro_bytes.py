"""Primitives of Avro's binary form in a numpy buffer, for numba: bounds-checked, in their shortest form only."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from ticdc_bridge.schemas.columnar.kernels.jit import jit

Array = Any  # numpy arrays: numba knows their types

# Places in `Scratch.state`.
SCRATCH = 0  # how much of the scratch holds text


class Scratch(NamedTuple):
    """scratch: text that is not in the messages. digits: of a number, the last first. state: see the _ constants."""

    scratch: Array
    digits: Array
    limbs: Array
    state: Array


@jit
def long_at(data: Array, pos: int, end: int) -> Any:
    """Zig-zag varint of up to 64 bits in its shortest form → (number, next position; -1 where there is none)."""
    if pos >= end:
        return np.int64(0), -1
    byte = np.uint64(data[pos])
    pos += 1
    number, shift = byte & np.uint64(127), np.uint64(0)
    while byte >= np.uint64(128):
        shift += np.uint64(7)
        if pos >= end or shift > np.uint64(63):
            return np.int64(0), -1
        byte = np.uint64(data[pos])
        pos += 1
        if shift == np.uint64(63) and byte > np.uint64(1):
            return np.int64(0), -1
        number |= (byte & np.uint64(127)) << shift
    if shift and not byte:
        return np.int64(0), -1
    return np.int64(number >> np.uint64(1)) ^ -np.int64(number & np.uint64(1)), pos


@jit
def span_at(data: Array, pos: int, end: int) -> Any:
    """Bytes with their length before them → (first, after the last; -1 where they are not all there)."""
    size, pos = long_at(data, pos, end)
    if pos < 0 or size < 0 or size > end - pos:
        return 0, -1
    return pos, pos + size


@jit
def read_little_endian(data: Array, pos: int, size: int) -> Any:
    """Little-endian bytes as a number."""
    number = np.uint64(0)
    for i in range(size):
        number |= np.uint64(data[pos + i]) << np.uint64(8 * i)
    return number


@jit
def widen_float(bits: Any) -> Any:
    """A finite float32's bits → the float64's."""
    sign = (bits >> np.uint64(31)) << np.uint64(63)
    exponent, fraction = (bits >> np.uint64(23)) & np.uint64(0xFF), bits & np.uint64(0x7FFFFF)
    if exponent == np.uint64(0):
        if fraction == np.uint64(0):
            return sign
        exponent = np.uint64(1)
        while not fraction & np.uint64(0x800000):
            fraction <<= np.uint64(1)
            exponent -= np.uint64(1)  # below 0 it wraps, and 896 brings it back
        fraction &= np.uint64(0x7FFFFF)
    return sign | (exponent + np.uint64(896)) << np.uint64(52) | fraction << np.uint64(29)


@jit
def unsigned_text(data: Array, pos: int, end: int) -> Any:
    """Digits of a number below 2^64, without leading zeros → (number, whether they are that)."""
    number, ten = np.uint64(0), np.uint64(10)
    if end - pos < 1 or end - pos > 20 or (data[pos] == 48 and end - pos > 1):
        return number, False
    most, rest = np.uint64(1844674407370955161), np.uint64(5)
    for i in range(pos, end):
        digit = np.uint64(data[i]) - np.uint64(48)  # what is below "0" becomes huge
        if digit > np.uint64(9) or number > most or (number == most and digit > rest):
            return number, False
        number = number * ten + digit
    return number, True


@jit
def digits_of(data: Array, pos: int, size: int, work: Scratch) -> int:
    """A two's complement integer of up to 32 bytes → how many digits its magnitude has; they are in work.digits."""
    digits, limbs, count, ten = work.digits, work.limbs, 0, np.uint64(10)
    fill = np.uint64(0xFF) if data[pos] >= 128 else np.uint64(0)
    if size <= 8:
        number = np.uint64(0) - (fill & np.uint64(1))
        for i in range(size):
            number = number << np.uint64(8) | np.uint64(data[pos + i])
        if fill:
            number = ~number + np.uint64(1)
        while number:
            digits[count] = np.uint8(number % ten)
            number //= ten
            count += 1
        return count
    top = (size + 3) // 4
    carry, low = fill & np.uint64(1), np.uint64(0xFFFFFFFF)
    for limb in range(top):  # the least first
        number = np.uint64(0)
        for i in range(4):
            at = size - 1 - 4 * limb - i
            byte = fill if at < 0 else np.uint64(data[pos + at])
            number |= (byte ^ fill) << np.uint64(8 * i)
        number += carry
        carry = number >> np.uint64(32)
        limbs[limb] = number & low
    while True:
        while top and not limbs[top - 1]:
            top -= 1
        if not top:
            break
        rest = np.uint64(0)
        for limb in range(top - 1, -1, -1):
            number = rest << np.uint64(32) | limbs[limb]
            limbs[limb] = number // np.uint64(1000000000)
            rest = number % np.uint64(1000000000)
        for _ in range(9):
            digits[count] = np.uint8(rest % ten)
            rest //= ten
            count += 1
    while count and not digits[count - 1]:
        count -= 1
    return count


@jit
def decimal(data: Array, pos: int, size: int, precision: int, scale: int, work: Scratch) -> int:
    """A DECIMAL's bytes → its text at the end of the scratch; out: the text's length, -1 where it does not fit."""
    if size < 1 or size > 32:
        return -1
    count = digits_of(data, pos, size, work)
    if count > precision:
        return -1
    out, first, digits = work.scratch, work.state[SCRATCH], work.digits
    to = first
    if data[pos] >= 128:
        out[to] = 45
        to += 1
    for k in range(max(count, scale + 1) - 1, -1, -1):
        out[to] = np.uint8(48) + (digits[k] if k < count else np.uint8(0))
        to += 1
        if k == scale and k:
            out[to] = 46
            to += 1
    work.state[SCRATCH] = to
    return int(to - first)
