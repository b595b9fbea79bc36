"""Rows that a server of MySQL's protocol sends as text, as columns in flat arrays: no object for each value.

The client of the connection sends the statement and reads the columns' descriptions; the rows after them come here.
"""

from collections.abc import Callable, Iterator
from typing import Any, Final

import numpy as np

from ticdc_bridge.schemas.columnar.dump_reader import TextColumn, text_room
from ticdc_bridge.schemas.columnar.kernels import dump_text
from ticdc_bridge.schemas.columnar.kernels.dump_text import CUT, ENDED, MALFORMED
from ticdc_bridge.schemas.columnar.kernels.row_packets import scan_packets

BLOCK: Final = 17 << 20
"""Bytes of rows that are looked at together: a packet at least."""
_ROWS: Final = 1 << 16
_NOTHING: Final = np.empty(0, np.int64), np.frombuffer(b"", np.uint8)


def packet_rows(read_into: Callable[[Any], int], columns: int) -> Iterator[list[TextColumn] | bytes]:
    """The rows, then the packet after them: the end, or an error.

    Args:
        read_into: fills a buffer as far as bytes have come; how many, 0 where none will.
    Raises:
        ValueError: for what are no rows of so many columns, or where the connection ended within them.
    """
    data: Any = np.empty(BLOCK, np.uint8)
    state = np.zeros(2, np.int64)
    size = max(_ROWS // columns, 1) * columns
    cells = np.empty(size, np.int64), np.empty(size, np.int64), np.empty(size, np.uint8)
    rows = at = filled = 0
    while True:
        rows = scan_packets(data, at, filled, columns, cells, rows, state)
        at = int(state[1])
        if state[0] == MALFORMED:
            raise ValueError("the server sends what are no rows of the query, or a row of 16 MiB or more: dump it")
        if rows and (state[0] != CUT or filled == BLOCK):
            texts = text_room(cells, 0, rows, columns)
            for n, text in enumerate(texts):
                dump_text.fill_texts(data, cells, n, columns, 0, rows, dump_text.ANY, *_NOTHING, *text)
            yield texts
            rows = 0
        if state[0] == ENDED:
            yield data[at + 4 : at + 4 + int.from_bytes(data[at : at + 3].tobytes(), "little")].tobytes()
            return
        if rows == 0:
            data[: filled - at] = data[at:filled].copy()
            at, filled = 0, filled - at
        if state[0] == CUT:
            count = read_into(memoryview(data)[filled:])
            if not count:
                raise ValueError("the connection ended within the rows")
            filled += count
