"""How the kernels of the JSON formats, and those that Craft shares with them, are compiled and cached."""

from __future__ import annotations

from schemas.codec.jit import COMPILED, Kernels

_FILES = ("kernel_text.py", "kernel_json.py", "kernel_json_text.py", "kernel_json_fill.py", "kernel_json_all.py")

jit = Kernels("json", [("schemas.codec", file) for file in _FILES]).jit

__all__ = ["COMPILED", "jit"]
