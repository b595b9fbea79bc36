"""How the kernels of the JSON formats, those that Craft shares with them, and Avro's are compiled and cached."""

from __future__ import annotations

from schemas.codec.jit import COMPILED, Kernels

_FILES = (
    "kernel_copy.py",
    "kernel_text.py",
    "kernel_json.py",
    "kernel_json_text.py",
    "kernel_json_fill.py",
    "kernel_json_all.py",
    "kernel_moment.py",
)

_AVRO_READ = ("kernel_copy.py", "kernel_text.py", "kernel_avro_bytes.py", "kernel_avro_read.py")

_JSON = Kernels("json", [("schemas.codec", file) for file in _FILES])
jit, making = _JSON.jit, _JSON.making
avro_read_jit = Kernels("avro-read", [("schemas.codec", file) for file in _AVRO_READ]).jit
cells_jit = Kernels("cells", [("schemas.codec", "kernel_cells.py")]).jit
varint_jit = Kernels("varint", [("schemas.codec", "kernel_varint.py")]).jit

__all__ = ["COMPILED", "avro_read_jit", "cells_jit", "jit", "making", "varint_jit"]
