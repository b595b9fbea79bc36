"""How Craft's kernels are compiled and cached (`schemas.codec.jit`)."""

from __future__ import annotations

from schemas.codec.jit import COMPILED, Kernels

_NAMES = ("numbers", "read", "fill", "content", "write")
_SOURCES = [("schemas.wire.craft", f"kernel_{name}.py") for name in _NAMES]

_SHARED = [("schemas.codec", f"kernel_{name}.py") for name in ("text", "varint", "copy")]

_KERNELS = Kernels("craft", [*_SOURCES, *_SHARED])
jit, making = _KERNELS.jit, _KERNELS.making

__all__ = ["COMPILED", "jit", "making"]
