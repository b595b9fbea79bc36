"""How the kernels of the JSON formats, those that Craft shares with them, and Avro's are compiled and cached."""

from __future__ import annotations

from schemas.columnar.kernels.jit import COMPILED, Kernels

_FILES = (
    "byte_buffers.py",
    "text.py",
    "json_scan.py",
    "json_text.py",
    "json_fill.py",
    "json_all.py",
    "temporal.py",
)

_AVRO_READ = ("byte_buffers.py", "text.py", "avro_bytes.py", "avro_read.py")

_JSON = Kernels("json", [("schemas.columnar.kernels", file) for file in _FILES])
jit, jit_allocating = _JSON.jit, _JSON.jit_allocating
avro_read_jit = Kernels("avro-read", [("schemas.columnar.kernels", file) for file in _AVRO_READ]).jit
cells_jit = Kernels("cells", [("schemas.columnar.kernels", "columns.py")]).jit
varint_jit = Kernels("varint", [("schemas.columnar.kernels", "byte_buffers.py")]).jit

__all__ = ["COMPILED", "avro_read_jit", "cells_jit", "jit", "jit_allocating", "varint_jit"]
