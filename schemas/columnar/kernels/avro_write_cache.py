"""How the kernels that write Avro are compiled and cached (`schemas.columnar.kernels.jit`)."""

from __future__ import annotations

from schemas.columnar.kernels.jit import COMPILED, Kernels

_FILES = (
    "text.py",
    "byte_buffers.py",
    "temporal.py",
    "avro_values.py",
    "avro_write.py",
)

_KERNELS = Kernels("avro-write", [("schemas.columnar.kernels", file) for file in _FILES])
jit, jit_allocating = _KERNELS.jit, _KERNELS.jit_allocating

__all__ = ["COMPILED", "jit", "jit_allocating"]
