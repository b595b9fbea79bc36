"""How the kernels from typed columns to cells are compiled and cached (`schemas.codec.jit`)."""

from __future__ import annotations

from schemas.codec.jit import COMPILED, Kernels

jit = Kernels("typed-cells", [("schemas.codec", "kernel_typed_cells.py")]).jit

__all__ = ["COMPILED", "jit"]
