"""Bytes from one numpy buffer to another, for numba: memcpy, as a loop takes three times as long for short texts.

Varints into a numpy buffer, for numba.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from schemas.columnar.kernels import jit as compiling

if compiling.COMPILED:
    types, cgutils = compiling.numba.types, compiling.numba.core.cgutils

    @compiling.numba.extending.intrinsic  # type: ignore[untyped-decorator]
    def copy(_context: Any, out: Any, to: Any, data: Any, first: Any, size: Any) -> Any:
        """data[first:first + size] → out[to:]. Neither place is looked at: both must be within, and not overlap."""

        def code(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            target, source = (
                builder.gep(context.make_array(signature.args[n])(context, builder, args[n]).data, [args[n + 1]])
                for n in (0, 2)
            )
            cgutils.raw_memcpy(builder, target, source, args[4], 1)
            return context.get_dummy_value()

        return types.void(out, types.int64, data, types.int64, types.int64), code

    @compiling.numba.extending.intrinsic  # type: ignore[untyped-decorator]
    def read_eight(_context: Any, data: Any, at: Any) -> Any:
        """data[at:at + 8] as a uint64, low byte first. The place is not looked at."""

        def code(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            start = builder.gep(context.make_array(signature.args[0])(context, builder, args[0]).data, [args[1]])
            wide = context.get_value_type(types.uint64)
            return builder.load(builder.bitcast(start, wide.as_pointer()), align=1)

        return types.uint64(data, types.int64), code

    @compiling.numba.extending.intrinsic  # type: ignore[untyped-decorator]
    def first_byte(_context: Any, marks: Any) -> Any:
        """Which byte of a uint64, the low one first, has its high bit set; 8 for none. No other bits are set."""

        def code(_context: Any, builder: Any, _signature: Any, args: Any) -> Any:
            return builder.lshr(builder.cttz(args[0], cgutils.false_bit), args[0].type(3))

        return types.int64(types.uint64), code

else:

    def first_byte(marks: Any) -> int:
        return next((n for n in range(8) if int(marks) >> (8 * n + 7) & 1), 8)

    def read_eight(data: Any, at: int) -> Any:
        return data[at : at + 8].view("<u8")[0]

    def copy(out: Any, to: int, data: Any, first: int, size: int) -> None:
        out[to : to + size] = data[first : first + size]


Array = Any  # numpy arrays: numba knows their types


@compiling.jit
def put(out: Array, at: int, value: Any) -> int:
    """A uvarint; next position."""
    rest = np.uint64(value)
    while rest > np.uint64(127):
        out[at] = np.uint8(rest & np.uint64(127)) | np.uint8(128)
        rest >>= np.uint64(7)
        at += 1
    out[at] = np.uint8(rest)
    return at + 1


@compiling.jit
def zigzag(value: Any) -> Any:
    return np.uint64((np.int64(value) << 1) ^ (np.int64(value) >> 63))


@compiling.jit
def equal_bytes(one: Array, a: int, other: Array, b: int, size: int) -> bool:
    """Whether one[a:] and other[b:] begin with the same `size` bytes; both have them."""
    # Unsigned indices: numba need not look for negative ones, so that this is a vector operation.
    differ = np.uint8(0)
    i, first, second, last = np.uint64(0), np.uint64(a), np.uint64(b), np.uint64(size)
    while i < last:
        differ |= one[first + i] ^ other[second + i]
        i += np.uint64(1)
    return bool(differ == 0)
