"""How the kernels from typed columns to cells are compiled and cached (`schemas.columnar.kernels.jit`)."""

from __future__ import annotations

from schemas.columnar.kernels.jit import COMPILED, Kernels

jit = Kernels("typed-cells", [("schemas.columnar.kernels", f) for f in ("typed_cells.py", "table_hash.py")]).jit

__all__ = ["COMPILED", "jit"]
