"""Many Craft messages at once → typed columns of one table's rows, by compiled kernels (`jit`).

What comes out is what `CraftDecoder` gives, typed. Messages that hold anything but rows of this table in this shape, or
that are wrong in any way, are left to it: it says what they are. Without numba all are.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from schemas.columnar.columns import MAX_BATCH, is_decimal128
from schemas.columnar.kernels.jit import COMPILED
from schemas.columnar.rows import freeze
from schemas.columnar.typed_rows import DecodedRows, TypedColumn, TypedRows
from schemas.formats.craft import columns as craft_columns
from schemas.formats.craft.layout import BINARY, MAX_EVENTS, MAX_MESSAGE, UNSIGNED
from schemas.model.event import MAX_TSO
from schemas.model.table import Column, Table
from schemas.model.types import Kind

_CELLS = 120_000  # of one side at a time: what was scanned is still in the cache when it is filled in
_TERMS = 1 << 16
_NUMBERS = {Kind.INTEGER, Kind.FLOAT, Kind.DOUBLE, Kind.YEAR, Kind.BIT, Kind.ENUM, Kind.SET}


class CraftTableReader:
    """Compiled per table version. low, high: commit_ts of the rows that have this version, both ends included."""

    def __init__(self, table: Table, low: int = 0, high: int = MAX_TSO) -> None:
        self.columns = tuple(c for c in table.columns if not c.virtual)
        self._plan: Any = _plan(table, self.columns, low, high) if COMPILED else None

    def decode(self, data: Any, starts: Any, ends: Any) -> DecodedRows:
        """Messages as places in one uint8 array (starts, ends: int64), at most MAX_BATCH bytes of them."""
        import numpy as np

        decoded = DecodedRows()
        if self._plan is None:
            decoded.left = list(range(len(starts)))
            return decoded
        if len(data) > MAX_BATCH:
            raise ValueError(f"{len(data)} bytes in one batch, at most {MAX_BATCH}")
        data = freeze(data)
        status = np.zeros(len(starts), np.uint8)
        index = np.flatnonzero(ends - starts <= MAX_MESSAGE)
        for chunk in self._chunks(data, starts, ends, index, status):
            decoded.chunks.append(chunk)
        decoded.left = np.flatnonzero(status == 0).tolist()
        return decoded

    def _chunks(self, data: Any, starts: Any, ends: Any, index: Any, status: Any) -> Iterator[TypedRows]:
        """Rows of the messages in `index`; status of those that were taken becomes 1."""
        import numpy as np

        from schemas.columnar.kernels import craft_read

        count = len(self.columns)
        # A row has at least 14 bytes, so that memory follows what is there and not what is claimed.
        most = int((ends[index] - starts[index]).sum()) // 14 + 1
        room = min(max(_CELLS // count, 1024), MAX_EVENTS, most)
        at, first, last = 0, np.ascontiguousarray(starts[index]), np.ascontiguousarray(ends[index])
        work = _new_scratch(room, count)
        cells = [np.empty((2 * count, room), np.int32) for _ in range(2)]
        while at < len(index):
            scan = _new_scan_result(cells, room, len(index))
            rows, after = craft_read.scan(data, first, last, at, self._plan, scan, work)
            positions = np.arange(at, after)[scan.status[at:after] == craft_read.TAKEN]
            bad = np.zeros(rows, np.uint8)
            typed = self._fill(data, scan, rows, index, bad)
            if bad.any():
                spoilt = np.unique(scan.message[:rows][bad != 0])
                yield from self._chunks(data, starts, ends, index[np.setdiff1d(positions, spoilt)], status)
            elif rows:
                status[index[positions]] = 1
                yield typed
            at = after

    def _fill(self, data: Any, scan: Any, rows: int, index: Any, bad: Any) -> TypedRows:
        import numpy as np

        count = len(self.columns)
        sides = []
        for shift in (0, count):
            there = bool((scan.side[:rows] & (2 if shift else 1)).any())
            sides.append(
                tuple(
                    _fill_column(
                        data, c, scan.places[shift + k], scan.lengths[shift + k], rows if there else 0, rows, bad
                    )
                    for k, c in enumerate(self.columns)
                )
            )
        sent = scan.lengths[count:, :rows] != -2
        key_only = (scan.side[:rows] == 2) & ~sent.all(axis=0)
        if key_only.any():  # some other columns than the key's: the decoder says what that is
            keys = np.array([c.handle_key for c in self.columns], np.bool_)
            bad[key_only & (sent != keys[:, None]).any(axis=0)] = 1
        return TypedRows(
            index[scan.message[:rows]], scan.commit_ts[:rows], scan.partition[:rows], scan.side[:rows], key_only,
            sides[0], sides[1],
        )  # fmt: skip


# ---------------------------------------------------------------------------------------------- plan
def _plan(table: Table, columns: tuple[Column, ...], low: int, high: int) -> Any:
    import numpy as np

    from schemas.columnar.kernels import craft_read as kernel

    names = list(dict.fromkeys((table.id.db, table.id.table, *(c.name for c in columns))))
    texts = [name.encode("utf-8", "surrogatepass") for name in names]
    places = {c.name: k for k, c in enumerate(columns)}
    kinds = [craft_columns.type_of(c) for c in columns]
    masks = [_mask(c) for c in columns]
    numbers = [
        kernel.FLOAT if c.type.kind is Kind.FLOAT else kernel.NUMBER if c.type.kind in _NUMBERS else 0 for c in columns
    ]
    roles = [kernel.DATABASE * (n == table.id.db) + kernel.TABLE * (n == table.id.table) for n in names]

    def array(numbers: list[int]) -> Any:
        return np.array(numbers, np.int64)

    return kernel.ScanTargets(
        np.frombuffer(b"".join(texts), np.uint8),
        np.cumsum(array([len(t) for t in texts])),
        array(roles),
        array([places.get(n, -1) for n in names]),
        array([code for code, _ in kinds]),
        array([flags & mask for (_, flags), mask in zip(kinds, masks, strict=True)]),
        array(masks),
        array(numbers),
        low,
        high,
    )


def _mask(column: Column) -> int:
    """The flags that decide how a value is read."""
    kind = column.type.kind
    unsigned = 0 if kind in (Kind.BIT, Kind.YEAR) else UNSIGNED
    return unsigned | (BINARY if kind in (Kind.TEXT, Kind.BINARY) else 0)


def _new_scratch(room: int, count: int) -> Any:
    import numpy as np

    from schemas.columnar.kernels import craft_read as kernel

    size = max(room, count, 2)
    by_event: list[Any] = [np.empty(size, np.int64) for _ in range(8)]
    terms: list[Any] = [np.empty(_TERMS, np.int64) for _ in range(2)]
    return kernel.ScanScratch._make([*by_event, *terms, np.zeros(kernel.STATES, np.int64)])


def _new_scan_result(cells: list[Any], room: int, messages: int) -> Any:
    import numpy as np

    from schemas.columnar.kernels import craft_read as kernel

    return kernel.ScanResult(
        cells[0],
        cells[1],
        np.empty(room, np.int64),
        np.empty(room, np.int64),
        np.empty(room, np.int64),
        np.empty(room, np.int64),
        np.zeros(messages, np.uint8),
    )


# ---------------------------------------------------------------------------------------------- values
def _fill_column(data: Any, column: Column, places: Any, lengths: Any, rows: int, total: int, bad: Any) -> TypedColumn:
    """rows: 0 where no row has this side; then all of the `total` values are missing."""
    import numpy as np

    valid = lengths[:total] >= 0 if rows else np.zeros(total, np.bool_)
    if not rows:
        lengths = np.full(total, -2, np.int32)
        places = np.zeros(total, np.int32)
    form, fill = _FORMS[column.type.kind]
    if form == "int" and column.unsigned:
        form = "uint"
    elif form in ("enum", "set") and not column.elements:
        form = "number"
    elif form == "decimal" and not is_decimal128(column):
        form, fill = "text", _fill_decimal_text
    values = fill(column, data, places, lengths, total, bad)
    offsets = None
    if isinstance(values, tuple):
        values, offsets = values
    return TypedColumn(column, form, values, valid, offsets)


_Fill = Callable[[Column, Any, Any, Any, int, Any], Any]


def _fill_integer(column: Column, data: Any, places: Any, lengths: Any, rows: int, bad: Any) -> Any:
    import numpy as np

    from schemas.columnar.kernels import craft_fill

    if column.unsigned:
        return _fill_unsigned((1 << column.type.bits) - 1, data, places, lengths, rows, bad)
    out = np.empty(rows, np.int64)
    top = 1 << column.type.bits - 1
    craft_fill.fill_signed(data, places, lengths, rows, -top, top - 1, out, bad)
    return out


def _fill_year(_column: Column, data: Any, places: Any, lengths: Any, rows: int, bad: Any) -> Any:
    import numpy as np

    from schemas.columnar.kernels import craft_fill

    out = np.empty(rows, np.int64)
    craft_fill.fill_signed(data, places, lengths, rows, 0, 2155, out, bad)
    bad[(out > 0) & (out < 1901)] = 1
    return out


def _fill_unsigned(high: int, data: Any, places: Any, lengths: Any, rows: int, bad: Any) -> Any:
    import numpy as np

    from schemas.columnar.kernels import craft_fill

    out = np.empty(rows, np.uint64)
    craft_fill.fill_unsigned(data, places, lengths, rows, np.uint64(high), out, bad)
    return out


def _fill_bits(column: Column, data: Any, places: Any, lengths: Any, rows: int, bad: Any) -> Any:
    size = {
        Kind.BIT: (1 << (column.length or 64)) - 1,
        Kind.ENUM: len(column.elements) or (1 << 64) - 1,
        Kind.SET: (1 << (len(column.elements) or 64)) - 1,
    }
    return _fill_unsigned(size[column.type.kind], data, places, lengths, rows, bad)


def _fill_real(column: Column, data: Any, places: Any, lengths: Any, rows: int, bad: Any) -> Any:
    import numpy as np

    from schemas.columnar.kernels import craft_fill

    out = np.empty(rows, np.uint64)
    craft_fill.fill_doubles(data, places, lengths, rows, column.type.kind is Kind.FLOAT, out, bad)
    return out.view(np.float64)


def _fill_decimal(column: Column, data: Any, places: Any, lengths: Any, rows: int, bad: Any) -> Any:
    import numpy as np

    from schemas.columnar.kernels.text import fill_decimals

    out = np.empty((rows, 2), np.uint64)
    assert column.length is not None
    assert column.scale is not None
    fill_decimals(data, places, lengths, rows, column.length, column.scale, out, bad)
    return out


def _fill_text(column: Column, data: Any, places: Any, lengths: Any, rows: int, bad: Any) -> Any:
    from schemas.columnar.kernels import craft_fill

    check = craft_fill.ANY if column.type.kind is Kind.BINARY else craft_fill.TEXT
    return _bytes(check, column, data, places, lengths, rows, bad)


def _fill_decimal_text(column: Column, data: Any, places: Any, lengths: Any, rows: int, bad: Any) -> Any:
    from schemas.columnar.kernels import craft_fill

    return _bytes(craft_fill.DECIMAL, column, data, places, lengths, rows, bad)


def _bytes(check: int, column: Column, data: Any, places: Any, lengths: Any, rows: int, bad: Any) -> Any:
    import numpy as np

    from schemas.columnar.kernels import craft_fill

    offsets = np.empty(rows + 1, np.int32)
    out = np.empty(craft_fill.sizes_of(lengths, rows, offsets), np.uint8)
    is_sized = column.length is not None and column.scale is not None
    precision, scale = (column.length or 0, column.scale or 0) if is_sized else (0, 0)
    craft_fill.fill_bytes(data, places, lengths, rows, check, precision, scale, offsets, out, bad)
    return out, offsets


_FORMS: dict[Kind, tuple[str, _Fill]] = {
    Kind.INTEGER: ("int", _fill_integer),
    Kind.YEAR: ("int", _fill_year),
    Kind.FLOAT: ("float", _fill_real),
    Kind.DOUBLE: ("double", _fill_real),
    Kind.DECIMAL: ("decimal", _fill_decimal),
    Kind.BIT: ("bit", _fill_bits),
    Kind.ENUM: ("enum", _fill_bits),
    Kind.SET: ("set", _fill_bits),
    Kind.BINARY: ("bytes", _fill_text),
    **dict.fromkeys(
        (Kind.TEXT, Kind.DATE, Kind.DATETIME, Kind.TIMESTAMP, Kind.TIME, Kind.JSON, Kind.VECTOR), ("text", _fill_text)
    ),
}
