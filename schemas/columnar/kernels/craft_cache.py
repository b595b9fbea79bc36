"""How Craft's kernels are compiled and cached (`schemas.columnar.kernels.jit`)."""

from __future__ import annotations

from schemas.columnar.kernels.jit import COMPILED, Kernels

_NAMES = ("numbers", "read", "fill", "content", "write")
_SOURCES = [("schemas.columnar.kernels", f"craft_{name}.py") for name in _NAMES]

_SHARED = [("schemas.columnar.kernels", f"{name}.py") for name in ("text", "byte_buffers")]

_KERNELS = Kernels("craft", [*_SOURCES, *_SHARED])
jit, jit_allocating = _KERNELS.jit, _KERNELS.jit_allocating

__all__ = ["COMPILED", "jit", "jit_allocating"]
