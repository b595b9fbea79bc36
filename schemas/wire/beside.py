"""What messages say beside their rows (`RowChange.extra`), of many at once, as JSON of the plain form.

For the rows that `CellReader`s of whole messages take (`typed_cells`, `avro_cells` with bare=False).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from schemas.codec.cells import Binaries
from schemas.codec.typed import frozen

Beside = Callable[[Binaries, Any], tuple[Binaries | None, Any]]
"""Values, and the numbers of rows' messages → (what is said beside each; None: nothing; which (bool) can't be told)."""


def _nothing(_values: Binaries, message: Any) -> tuple[None, Any]:
    import numpy as np

    return None, np.zeros(len(message), np.bool_)


def _debezium(values: Binaries, message: Any) -> tuple[Binaries, Any]:
    import numpy as np

    from schemas.codec import kernel_debezium_extra as kernel

    count, places = len(message), np.ascontiguousarray(values.offsets, np.int64)
    out, ends = np.empty(count * kernel.ROOM, np.uint8), np.zeros(count + 1, np.int64)
    left = np.zeros(count, np.bool_)
    first, last = (frozen(np.ascontiguousarray(array)) for array in (places[:-1][message], places[1:][message]))
    kernel.extras(frozen(np.ascontiguousarray(values.data, np.uint8)), first, last, out, ends, left)
    return Binaries(out[: ends[-1]], ends, np.ones(count, np.bool_)), left


BESIDE: Mapping[str, Beside] = {"avro": _nothing, "debezium": _debezium, "open": _nothing, "open-tiflow": _nothing}
"""By format."""
