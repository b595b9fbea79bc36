"""Many Craft messages at once → chunks of one table's rows, by compiled kernels.

What comes out is what `CraftDecoder` gives. Messages that hold anything but rows of this table in this shape, or that
are wrong in any way, are left to it: it says what they are. Without numba all are.
"""

from collections.abc import Iterator
from typing import Any

import numpy as np

from ticdc_bridge.schemas.columnar.columns import MAX_BATCH, decimal_size
from ticdc_bridge.schemas.columnar.kernels import craft_cells
from ticdc_bridge.schemas.columnar.kernels import craft_read as kernel
from ticdc_bridge.schemas.columnar.kernels.jit import COMPILED
from ticdc_bridge.schemas.columnar.rows import CELLS, ChunkMemory, MessageBuffers, RowChunk, freeze, name_numbers
from ticdc_bridge.schemas.formats.craft import values as craft_values
from ticdc_bridge.schemas.formats.craft.layout import MAX_EVENTS
from ticdc_bridge.schemas.formats.definitions import ALWAYS_UNSIGNED, BINARY, HANDLE_KEY, UNSIGNED
from ticdc_bridge.schemas.formats.framing import MAX_MESSAGE
from ticdc_bridge.schemas.model.event import MAX_TSO
from ticdc_bridge.schemas.model.table import Column, Table
from ticdc_bridge.schemas.model.types import ELEMENTS, Kind
from ticdc_bridge.schemas.model.values import integer_limits

_TERMS = 1 << 16
_FLOATS = {"auto": kernel.FLOAT, "damaged": kernel.DAMAGED_FLOAT, "sound": kernel.NUMBER}
_NUMBERS = {Kind.INTEGER, Kind.DOUBLE, Kind.YEAR, Kind.BIT, Kind.ENUM, Kind.SET}


class CraftTableReader:
    """Compiled per table version. low, high: commit_ts of the rows that have this version, both ends included.

    craft_float: the option; messages with FLOATs that the decoder may flag are left to it.
    """

    def __init__(self, table: Table, low: int = 0, high: int = MAX_TSO, craft_float: str = "auto") -> None:
        self.columns = tuple(c for c in table.columns if not c.virtual)
        self._plan: Any = _plan(table, self.columns, low, high, _FLOATS[craft_float]) if COMPILED else None
        self._slots: Any = _slots(self.columns) if COMPILED else None

    def read(self, buffers: MessageBuffers, memory: ChunkMemory, taken_mask: Any) -> Iterator[RowChunk]:
        """As `json_templates.TemplateReader.read`."""
        first, last = buffers.value_first, buffers.value_last
        if self._plan is None:
            return
        if len(buffers.values) > MAX_BATCH:
            raise ValueError(f"{len(buffers.values)} bytes in one batch, at most {MAX_BATCH}")
        index = np.flatnonzero((first >= 0) & (last - first <= MAX_MESSAGE))
        yield from self._chunks(freeze(buffers.values), first, last, index, memory, taken_mask)

    def _chunks(
        self, data: Any, starts: Any, ends: Any, index: Any, memory: ChunkMemory, taken_mask: Any
    ) -> Iterator[RowChunk]:
        count = len(self.columns)
        # A row has at least 14 bytes, so that memory follows what is there and not what is claimed.
        most = int((ends[index] - starts[index]).sum()) // 14 + 1
        room = min(max(CELLS // count, 1024), MAX_EVENTS, most)
        at, first, last = 0, np.ascontiguousarray(starts[index]), np.ascontiguousarray(ends[index])
        by_event = [np.empty(max(room, count, 2), np.int64) for _ in range(8)]
        terms = [np.empty(_TERMS, np.int64) for _ in range(2)]
        scratch = kernel.ScanScratch._make((*by_event, *terms, np.zeros(kernel.STATES, np.int64)))
        while at < len(index):
            pieces: list[Any] = [*memory.new_cells(2 * count, room)]
            pieces += [np.empty(room, np.int64) for _ in range(4)]
            scan = kernel.ScanResult._make([*pieces, np.zeros(len(index), np.uint8)])
            rows, after = kernel.scan(data, first, last, at, self._plan, scan, scratch)
            positions = np.arange(at, after)[scan.status[at:after] == kernel.TAKEN]
            bad = np.zeros(rows, np.uint8)
            chunk = self._fill(data, scan, rows, index, memory, bad)
            if bad.any():
                spoilt = np.unique(scan.message[:rows][bad != 0])
                others = index[np.setdiff1d(positions, spoilt)]
                yield from self._chunks(data, starts, ends, others, memory, taken_mask)
            elif rows:
                taken_mask[index[positions]] = True
                yield chunk
            at = after

    def _fill(self, data: Any, scan: Any, rows: int, index: Any, memory: ChunkMemory, bad: Any) -> RowChunk:
        count = len(self.columns)
        sent = scan.lengths[count:, :rows] != -2
        key_only = (scan.image_bits[:rows] == 2) & ~sent.all(axis=0)
        if key_only.any():  # some other columns than the key's: the decoder says what that is
            keys = np.array([c.handle_key for c in self.columns], np.bool_)
            bad[key_only & (sent != keys[:, None]).any(axis=0)] = 1
        craft_cells.fill(data, scan.starts, scan.lengths, rows, self._slots, bad)
        flags: dict[str, Any] = {}
        for slot, column in enumerate(self.columns * 2):
            if column.type.kind in ELEMENTS:
                numbered = name_numbers(column, scan.starts[slot, :rows], scan.lengths[slot, :rows], memory)
                if numbered.any():
                    flag = f"enum_number:{column.name}"
                    flags[flag] = flags.get(flag, False) | numbered
        return RowChunk(
            index[scan.message[:rows]], scan.commit_ts[:rows], scan.partition[:rows], scan.image_bits[:rows], key_only,
            scan.starts, scan.lengths, flags,
        )  # fmt: skip


# ---------------------------------------------------------------------------------------------- plan
def _plan(table: Table, columns: tuple[Column, ...], low: int, high: int, floats: int) -> Any:
    names = list(dict.fromkeys((table.id.db, table.id.table, *(c.name for c in columns))))
    texts = [name.encode("utf-8", "surrogatepass") for name in names]
    indexes = {c.name: k for k, c in enumerate(columns)}
    kinds = [craft_values.type_of(c) for c in columns]
    masks = [_mask(c) for c in columns]
    numbers = [floats if c.type.kind is Kind.FLOAT else int(c.type.kind in _NUMBERS) * kernel.NUMBER for c in columns]
    roles = [kernel.DATABASE * (n == table.id.db) + kernel.TABLE * (n == table.id.table) for n in names]
    slots, codes = [indexes.get(n, -1) for n in names], [code for code, _ in kinds]
    wanted = [flags & mask for (_, flags), mask in zip(kinds, masks, strict=True)]
    arrays = (np.array(piece, np.int64) for piece in (roles, slots, codes, wanted, masks, numbers))
    ends = np.cumsum([len(t) for t in texts], dtype=np.int64)
    return kernel.ScanTargets._make((np.frombuffer(b"".join(texts), np.uint8), ends, *arrays, low, high))


def _mask(column: Column) -> int:
    """The flags that decide how a value is read, or whether the definition is the row's."""
    kind = column.type.kind
    unsigned = 0 if kind in ALWAYS_UNSIGNED else UNSIGNED
    return HANDLE_KEY | unsigned | (BINARY if kind in (Kind.TEXT, Kind.BINARY) else 0)


# ---------------------------------------------------------------------------------------------- values
def _slots(columns: tuple[Column, ...]) -> craft_cells.CraftSlots:
    steps = [_step(column) for column in columns * 2]
    # High limits have 64 bits without a sign: they travel as they are.
    a = np.array([a & (1 << 64) - 1 for _, a, _ in steps], np.uint64).view(np.int64)
    code, b = (np.array([step[k] for step in steps], np.int64) for k in (0, 2))
    return craft_cells.CraftSlots(freeze(code), freeze(a), freeze(b))


def _step(column: Column) -> tuple[int, int, int]:
    kind, count = column.type.kind, len(column.elements)
    if kind is Kind.INTEGER:
        low, high = integer_limits(column.type.bits, column.unsigned)
        return (craft_cells.UNSIGNED, high, 0) if column.unsigned else (craft_cells.SIGNED, low, high)
    if kind is Kind.DECIMAL:
        return craft_cells.DECIMAL, *decimal_size(column)
    most = {
        Kind.YEAR: (0, 2155),
        Kind.BIT: ((1 << (column.length or 64)) - 1, 0),
        Kind.ENUM: (count or (1 << 64) - 1, 0),
        Kind.SET: ((1 << (count or 64)) - 1, 0),
    }
    return _CODES.get(kind, craft_cells.TEXT), *most.get(kind, (0, 0))


_CODES = {
    Kind.YEAR: craft_cells.YEAR, Kind.FLOAT: craft_cells.FLOAT, Kind.DOUBLE: craft_cells.DOUBLE,
    Kind.BIT: craft_cells.UNSIGNED, Kind.ENUM: craft_cells.ENUM, Kind.SET: craft_cells.SET,
    Kind.BINARY: craft_cells.BYTES,
}  # fmt: skip
