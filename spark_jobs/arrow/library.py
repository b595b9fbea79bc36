"""pyarrow, untyped: its stubs know less than the library."""

from typing import Any

import numpy as np
import pyarrow
import pyarrow.compute

pa: Any = pyarrow
pc: Any = pyarrow.compute


def array_of(kind: Any, valid: Any, *buffers: Any) -> Any:
    """An Arrow array of numpy's arrays (offsets and data), not copied. valid: which values (bool) are not NULL."""
    validity = None if valid.all() else pa.py_buffer(np.packbits(valid, bitorder="little"))
    return pa.Array.from_buffers(kind, len(valid), [validity, *map(pa.py_buffer, buffers)])
