"""Bytes from one numpy buffer to another, for numba: memcpy, as a loop takes three times as long for short texts."""

from __future__ import annotations

from typing import Any

from schemas.codec import jit

if jit.COMPILED:
    types, cgutils = jit.numba.types, jit.numba.core.cgutils

    @jit.numba.extending.intrinsic  # type: ignore[untyped-decorator]
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

else:

    def copy(out: Any, to: int, data: Any, first: int, size: int) -> None:
        out[to : to + size] = data[first : first + size]
