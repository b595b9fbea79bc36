"""Rows that a server of MySQL's protocol sends as text, as columns in flat arrays: no object for each value.

The client of the connection sends the statement and reads the columns' descriptions; the rows after them come here.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Final

import numpy as np

from ticdc_bridge.schemas.columnar.dump_reader import TextColumn, text_room
from ticdc_bridge.schemas.columnar.kernels import dump_text
from ticdc_bridge.schemas.columnar.kernels.dump_text import CUT, ENDED, MALFORMED
from ticdc_bridge.schemas.columnar.kernels.row_packets import LONG, MOST, scan_packets

BLOCK: Final = 4 << 20
"""Bytes of rows that are looked at together."""
_ROWS: Final = 1 << 16
_NOTHING: Final = np.empty(0, np.int64), np.frombuffer(b"", np.uint8)


def packet_rows(read_into: Callable[[Any], int], columns: int) -> Iterator[list[TextColumn] | bytes]:
    """The rows, then the packet after them: the end, or an error.

    Args:
        read_into: fills a buffer as far as bytes have come; how many, 0 where none will.
    Raises:
        EOFError: the connection ended within the rows.
        ValueError: for what are no rows of so many columns.
    """
    data: Any = np.empty(BLOCK, np.uint8)
    state = np.zeros(2, np.int64)
    size = max(_ROWS // columns, 1) * columns
    cells = np.empty(size, np.int64), np.empty(size, np.int64), np.empty(size, np.uint8)
    rows = at = filled = 0

    def take(count: int) -> Any:
        """The next bytes, those first that are here."""
        nonlocal at
        taken: Any = np.empty(count, np.uint8)
        have = min(count, filled - at)
        taken[:have] = data[at : at + have]
        at += have
        while have < count:
            have += _some(read_into(memoryview(taken)[have:]))
        return taken

    while True:
        rows = scan_packets(data, at, filled, columns, 0, cells, rows, state)
        at = int(state[1])
        if state[0] == MALFORMED:
            raise ValueError("the server sends what are no rows of the query")
        if rows and (state[0] != CUT or filled == BLOCK):
            yield _texts(data, cells, columns, rows)
            rows = 0
        if state[0] == ENDED:
            yield take(int.from_bytes(take(4)[:3].tobytes(), "little")).tobytes()
            return
        if state[0] == LONG or (state[0] == CUT and at == 0 and filled == BLOCK):
            parts, count = [take(4)], MOST
            while count == MOST:
                head = parts[0] if len(parts) == 1 else take(4)
                count = int.from_bytes(head[:3].tobytes(), "little")
                parts.append(take(count))
            row = np.concatenate(parts)
            if scan_packets(row, 0, len(row), columns, len(row) - 4, cells, 0, state) != 1:
                raise ValueError("the server sends what are no rows of the query")
            yield _texts(row, cells, columns, 1)
        if rows == 0:
            data[: filled - at] = data[at:filled].copy()
            at, filled = 0, filled - at
        if state[0] == CUT:
            filled += _some(read_into(memoryview(data)[filled:]))


def _some(count: int) -> int:
    if not count:
        raise EOFError("the connection ended within the rows")
    return count


def _texts(data: Any, cells: Any, columns: int, rows: int) -> list[TextColumn]:
    texts = text_room(cells, 0, rows, columns)
    for n, text in enumerate(texts):
        dump_text.fill_texts(data, cells, n, columns, 0, rows, dump_text.ANY, *_NOTHING, *text)
    return texts
