"""How the kernels that write JSON, and the texts of the plain form, from cells are compiled and cached."""

from __future__ import annotations

from schemas.columnar.kernels.jit import COMPILED, Kernels

_FILES = (
    "json_put.py",
    "byte_buffers.py",
    "numbers.py",
    "temporal.py",
    "json_write.py",
    "plain_texts.py",
)

_KERNELS = Kernels("json-write", [("schemas.columnar.kernels", file) for file in _FILES])
jit, inline = _KERNELS.jit, _KERNELS.inline

__all__ = ["COMPILED", "inline", "jit"]
