"""How the kernels that write JSON, and the texts of the plain form, from cells are compiled and cached."""

from __future__ import annotations

from schemas.codec.jit import COMPILED, Kernels

_FILES = (
    "kernel_json_put.py",
    "kernel_copy.py",
    "kernel_real.py",
    "kernel_moment.py",
    "kernel_json_write.py",
    "kernel_plain.py",
)

_KERNELS = Kernels("json-write", [("schemas.codec", file) for file in _FILES])
jit, inlined = _KERNELS.jit, _KERNELS.inlined

__all__ = ["COMPILED", "inlined", "jit"]
