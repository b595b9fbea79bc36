"""pyarrow, untyped: its stubs know less than the library."""

from typing import Any

import numpy as np
import pyarrow
import pyarrow.compute

pa: Any = pyarrow
pc: Any = pyarrow.compute


def keep(table: Any, mask: Any) -> Any:
    """The rows of an Arrow table for which a mask is true; a filter copies them, also where these are all."""
    return table if pc.all(mask).as_py() else table.filter(mask)


def array_of(kind: Any, valid: Any, *buffers: Any) -> Any:
    """An Arrow array of numpy's arrays (offsets and data), not copied. valid: which values (bool) are not NULL."""
    validity = None if valid.all() else pa.py_buffer(np.packbits(valid, bitorder="little"))
    return pa.Array.from_buffers(kind, len(valid), [validity, *map(pa.py_buffer, buffers)])
