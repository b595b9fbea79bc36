"""Bytes from one numpy buffer to another, for numba: memcpy, as a loop takes three times as long for short texts.

Varints into a numpy buffer, for numba.
"""

from functools import reduce
from typing import Any

import numpy as np

from ticdc_bridge.schemas.columnar.kernels import jit as compiling

BLOCK = 32
"""Bytes that are looked at in one step: most texts are shorter."""

if compiling.COMPILED:
    types, cgutils = compiling.numba.types, compiling.numba.core.cgutils
    ir = cgutils.ir

    def _address(context: Any, builder: Any, signature: Any, args: Any, n: int) -> Any:
        """Where element args[n + 1] of the array that is args[n] stands."""
        array = context.make_array(signature.args[n])(context, builder, args[n])
        return builder.gep(array.data, [args[n + 1]])

    @compiling.numba.extending.intrinsic  # type: ignore[untyped-decorator]
    def copy(_context: Any, out: Any, to: Any, data: Any, first: Any, size: Any) -> Any:
        """data[first:first + size] → out[to:]. Neither place is looked at: both must be within, and not overlap."""

        def code(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            target, source = (_address(context, builder, signature, args, n) for n in (0, 2))
            cgutils.raw_memcpy(builder, target, source, args[4], 1)
            return context.get_dummy_value()

        return types.void(out, types.int64, data, types.int64, types.int64), code

    @compiling.numba.extending.intrinsic  # type: ignore[untyped-decorator]
    def read_eight(_context: Any, data: Any, at: Any) -> Any:
        """data[at:at + 8] as a uint64, low byte first. The place is not looked at."""

        def code(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            start = _address(context, builder, signature, args, 0)
            return builder.load(builder.bitcast(start, ir.IntType(64).as_pointer()), align=1)

        return types.uint64(data, types.int64), code

    @compiling.numba.extending.intrinsic  # type: ignore[untyped-decorator]
    def write_eight(_context: Any, out: Any, to: Any, word: Any) -> Any:
        """A uint64 → out[to:to + 8], low byte first. The place is not looked at."""

        def code(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            start = _address(context, builder, signature, args, 0)
            builder.store(args[2], builder.bitcast(start, args[2].type.as_pointer()), align=1)
            return context.get_dummy_value()

        return types.void(out, types.int64, types.uint64), code

    def _load_block(context: Any, builder: Any, signature: Any, args: Any, n: int) -> Any:
        """The BLOCK bytes at args[n + 1] of the array that is args[n]."""
        kind = ir.VectorType(ir.IntType(8), BLOCK).as_pointer()
        return builder.load(builder.bitcast(_address(context, builder, signature, args, n), kind), align=1)

    def _mask(builder: Any, block: Any, *comparisons: tuple[str, int]) -> Any:
        """A bit for each byte of a block of which one of the comparisons is true, as an i32."""
        bits = [builder.icmp_unsigned(how, block, ir.Constant(block.type, [n] * BLOCK)) for how, n in comparisons]
        return builder.bitcast(reduce(builder.or_, bits), ir.IntType(BLOCK))

    @compiling.numba.extending.intrinsic  # type: ignore[untyped-decorator]
    def find_special(_context: Any, data: Any, at: Any) -> Any:
        r"""Which byte of data[at:at + BLOCK] is the first that is ", \ or below 32; BLOCK for none.

        The place is not looked at.
        """

        def code(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            block = _load_block(context, builder, signature, args, 0)
            marks = _mask(builder, block, ("==", 34), ("==", 92), ("<", 32))
            return builder.zext(builder.cttz(marks, cgutils.false_bit), ir.IntType(64))

        return types.int64(data, types.int64), code

    @compiling.numba.extending.intrinsic  # type: ignore[untyped-decorator]
    def copy_block(_context: Any, out: Any, to: Any, data: Any, at: Any) -> Any:
        r"""data[at:at + BLOCK] → out[to:]. Out: a bit for each byte that is \, above these one for each from 128 on.

        Neither place is looked at.
        """

        def code(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            block = _load_block(context, builder, signature, args, 2)
            start = _address(context, builder, signature, args, 0)
            builder.store(block, builder.bitcast(start, block.type.as_pointer()), align=1)
            wide = ir.IntType(64)
            slashes, highs = (
                builder.zext(_mask(builder, block, (how, n)), wide) for how, n in (("==", 92), (">=", 128))
            )
            return builder.or_(slashes, builder.shl(highs, wide(BLOCK)))

        return types.uint64(out, types.int64, data, types.int64), code

    @compiling.numba.extending.intrinsic  # type: ignore[untyped-decorator]
    def count_zeros(_context: Any, bits: Any) -> Any:
        """How many zeros a uint64 has below its lowest one; 64 for 0."""
        return types.int64(types.uint64), lambda _c, builder, _s, args: builder.cttz(args[0], cgutils.false_bit)

    @compiling.numba.extending.intrinsic  # type: ignore[untyped-decorator]
    def bit_length(_context: Any, bits: Any) -> Any:
        """How many bits a uint64 has from its highest one on; 0 for 0."""

        def code(_context: Any, builder: Any, _signature: Any, args: Any) -> Any:
            return builder.sub(args[0].type(64), builder.ctlz(args[0], cgutils.false_bit))

        return types.uint64(types.uint64), code

    @compiling.numba.extending.intrinsic  # type: ignore[untyped-decorator]
    def swap_bytes(_context: Any, word: Any) -> Any:
        """The bytes of a uint64 the other way round."""
        return types.uint64(types.uint64), lambda _context, builder, _signature, args: builder.bswap(args[0])

else:

    def bit_length(bits: Any) -> Any:
        return np.uint64(int(bits).bit_length())

    def swap_bytes(word: Any) -> Any:
        return np.uint64(word).byteswap()

    def count_zeros(bits: Any) -> int:
        return (int(bits) & -int(bits)).bit_length() - 1 if bits else 64

    def read_eight(data: Any, at: int) -> Any:
        return data[at : at + 8].view("<u8")[0]

    def write_eight(out: Any, to: int, word: Any) -> None:
        out[to : to + 8].view("<u8")[0] = word

    def find_special(data: Any, at: int) -> int:
        return next((n for n in range(BLOCK) if data[at + n] in (34, 92) or data[at + n] < 32), BLOCK)

    def copy_block(out: Any, to: int, data: Any, at: int) -> Any:
        out[to : to + BLOCK] = block = data[at : at + BLOCK].copy()
        return sum((int(byte == 92) << n) + (int(byte >= 128) << BLOCK + n) for n, byte in enumerate(block))

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


@compiling.inline
def copy_short(out: Array, to: int, data: Array, first: int, size: int) -> int:
    """As `copy`; out: the next place. `out` has room for BLOCK bytes more."""
    if size <= BLOCK and data.shape[0] - first >= BLOCK:
        copy_block(out, to, data, first)
    else:
        copy(out, to, data, first, size)
    return to + size


@compiling.inline
def equal_bytes(left: Array, a: int, other: Array, b: int, size: int) -> bool:
    """True if one[a:] and other[b:] begin with the same `size` bytes; both have them."""
    differ, i = np.uint64(0), 0
    if size < 8:
        for i in range(size):
            differ |= np.uint64(left[a + i] ^ other[b + i])
    else:
        while i < size - 8:
            differ |= read_eight(left, a + i) ^ read_eight(other, b + i)
            i += 8
        differ |= read_eight(left, a + size - 8) ^ read_eight(other, b + size - 8)
    return bool(differ == 0)
