"""How the kernels of the JSON formats, and those that Craft shares with them, are compiled and cached."""

from __future__ import annotations

from schemas.codec.jit import COMPILED, Kernels

_FILES = ("kernel_text.py", "kernel_json.py", "kernel_json_text.py", "kernel_json_fill.py")
_WRITE = ("kernel_real.py", "kernel_moment.py", "kernel_json_write.py")

jit = Kernels("json", [("schemas.codec", file) for file in _FILES]).jit
jit_write = Kernels("json-write", [("schemas.codec", file) for file in _WRITE]).jit

__all__ = ["COMPILED", "jit", "jit_write"]
