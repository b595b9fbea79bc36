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


def entries_of(maps: Any) -> tuple[Any, Any, Any]:
    """Of an array of maps: how many entries each has (numpy), and the keys and items of all."""
    offsets = np.asarray(maps.offsets)
    first, count = int(offsets[0]), int(offsets[-1] - offsets[0])
    return np.diff(offsets), maps.keys.slice(first, count), maps.items.slice(first, count)


def offsets_of(counts: Any) -> Any:
    """Where lists of so many values begin and end (numpy, int32)."""
    offsets = np.zeros(len(counts) + 1, np.int32)
    np.cumsum(counts, out=offsets[1:])
    return offsets


def array_of(kind: Any, valid: Any, *buffers: Any) -> Any:
    """An Arrow array of numpy's arrays (offsets and data), not copied. valid: which values (bool) are not NULL."""
    validity = None if valid.all() else pa.py_buffer(np.packbits(valid, bitorder="little"))
    return pa.Array.from_buffers(kind, len(valid), [validity, *map(pa.py_buffer, buffers)])
