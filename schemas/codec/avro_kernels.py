"""How the kernels that write Avro are compiled and cached (`schemas.codec.jit`)."""

from __future__ import annotations

from schemas.codec.jit import COMPILED, Kernels

_FILES = (
    "kernel_text.py",
    "kernel_varint.py",
    "kernel_copy.py",
    "kernel_moment.py",
    "kernel_avro_values.py",
    "kernel_avro_write.py",
)

_KERNELS = Kernels("avro-write", [("schemas.codec", file) for file in _FILES])
jit, making = _KERNELS.jit, _KERNELS.making

__all__ = ["COMPILED", "jit", "making"]
