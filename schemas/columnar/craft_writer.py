"""Typed columns of one table's rows → Craft messages, by compiled kernels: the bytes that `CraftEncoder` writes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from schemas.columnar.kernels.jit import COMPILED
from schemas.columnar.rows import freeze
from schemas.columnar.typed_rows import TypedColumn, TypedRows
from schemas.formats.craft import columns as craft_columns
from schemas.formats.craft.primitives import check_utf8
from schemas.model.errors import WireError
from schemas.model.options import Options
from schemas.model.table import Column, Table
from schemas.model.types import Kind

_CLOCK = "00:00:00.000000"
# Characters of a form, and the length of its shortest text.
_TEMPORAL = {
    Kind.DATE: ("0000-00-00", 10),
    Kind.DATETIME: ("0000-00-00 " + _CLOCK, 19),
    Kind.TIMESTAMP: ("0000-00-00 " + _CLOCK, 19),
    Kind.TIME: (_CLOCK, 8),
}


class CraftWriter:
    """Compiled per table and options (max_batch_size, max_message_bytes, no_old_value, delete_only_…).

    TIMESTAMP text is written as it is given: it has to be in the zone of the target. WireError TYPE_UNKNOWN for ENUM
    and SET without elements.
    """

    def __init__(self, table: Table, options: Options) -> None:
        self._options = options
        self.columns = tuple(c for c in table.columns if not c.virtual)
        for column in self.columns:
            if column.type.kind in (Kind.ENUM, Kind.SET) and not column.elements:
                raise craft_columns.no_elements(column)
        for name in (*table.id, *(c.name for c in self.columns)):
            check_utf8(name, name)
        self._base = 32 + len(table.id.db.encode()) + len(table.id.table.encode())
        self._target: Any = _target(table, self.columns, options) if COMPILED else None

    @property
    def is_compiled(self) -> bool:
        """False without numba: then `encode` can't be used."""
        return self._target is not None

    def encode(self, rows: TypedRows) -> tuple[Any, Any, Any]:
        """Rows of all columns → (messages one after another as uint8, where each ends, rows of each).

        WireError INVALID_VALUE with the column and the row when a value does not fit its column.
        """
        import numpy as np

        from schemas.columnar.kernels import craft_write

        count, total = len(self.columns), len(rows.commit_ts)
        sides = (*rows.after, *rows.before)
        contents = np.empty(sum(map(_room, sides)), np.uint8)
        places = np.empty((2 * count, total), np.int32)
        lengths = np.empty((2 * count, total), np.int32)
        bad = np.zeros(total, np.uint8)
        at = 0
        for k, typed in enumerate(sides):
            at = _write(typed, contents, at, places[k], lengths[k], bad)
            if bad.any():
                raise _value_error(typed.column, int(np.flatnonzero(bad)[0]))
        side = self._leave_out(rows, lengths)
        names = int(self._target.name_ends[-1])
        most_rows = max(1, min(self._options.max_batch_size, total))
        out = np.empty(at + total * (2 * (12 + 20 * count) + 80) + total * (names + 10 * count + 100), np.uint8)
        ends, counts = np.empty(total, np.int64), np.empty(total, np.int64)
        target = self._target._replace(most_rows=most_rows)
        stamps, partition, side = freeze(rows.commit_ts), freeze(rows.partition), side.astype(np.int64)
        estimates = self._estimates(lengths)
        message_count = craft_write.write(
            target, contents, places, lengths, stamps, partition, side, estimates, out, ends, counts
        )
        return out[: ends[message_count - 1] if message_count else 0], ends[:message_count], counts[:message_count]

    def _estimates(self, lengths: Any) -> Any:
        """TiCDC's estimates of the rows' sizes, by which it cuts batches."""
        import numpy as np

        names = np.array([len(c.name.encode()) + 16 for c in self.columns] * 2, np.int64)
        sent = names @ (lengths != -2)
        return self._base + sent + np.maximum(lengths, 0).sum(axis=0, dtype=np.int64)

    def _leave_out(self, rows: TypedRows, lengths: Any) -> Any:
        """Marks sides and columns that are not sent; out: the sides that are."""
        import numpy as np

        count = len(self.columns)
        side = rows.side & 1 if self._options.no_old_value else rows.side
        side = np.where(rows.side == 2, 2, side)
        lengths[:count, (side & 1) == 0] = -2
        lengths[count:, (side & 2) == 0] = -2
        keys = rows.key_only | bool(self._options.delete_only_output_handle_key_columns)
        short = (side == 2) & keys
        if short.any():
            if not any(c.handle_key for c in self.columns):
                details = "a row without columns to write: the table has no handle key"
                raise WireError("INVALID_VALUE", column="key", details=details)
            for k, column in enumerate(self.columns):
                if not column.handle_key:
                    lengths[count + k, short] = -2
        return side


def _value_error(column: Column, row: int) -> WireError:
    name = column.type.name.upper() + (" UNSIGNED" if column.unsigned else "")
    return WireError("INVALID_VALUE", column=column.name, details=f"the value of row {row} is no {name} of this column")


def _target(table: Table, columns: Sequence[Column], options: Options) -> Any:
    import numpy as np

    from schemas.columnar.kernels import craft_write

    names = list(dict.fromkeys((table.id.db, table.id.table, *(c.name for c in columns))))
    texts = [name.encode() for name in names]
    kinds = [craft_columns.type_of(c) for c in columns]

    def array(numbers: Sequence[int]) -> Any:
        return np.array(numbers, np.int64)

    return craft_write.WriteLayout(
        np.frombuffer(b"".join(texts), np.uint8),
        np.cumsum(array([len(t) for t in texts])),
        names.index(table.id.table),
        array([names.index(c.name) for c in columns]),
        array([code for code, _ in kinds]),
        array([flags for _, flags in kinds]),
        array([c.handle_key for c in columns]),
        max(1, options.max_batch_size),
        options.max_message_bytes,
    )


# ---------------------------------------------------------------------------------------------- contents
def _room(typed: TypedColumn) -> int:
    """Bytes that the contents of a column can have at most."""
    if typed.form in ("text", "bytes"):
        return len(typed.values)
    return len(typed.valid) * (48 if typed.form == "decimal" else 10)


def _write(typed: TypedColumn, out: Any, at: int, places: Any, lengths: Any, bad: Any) -> int:
    parts = (None if part is None else freeze(part) for part in (typed.values, typed.valid, typed.offsets))
    typed = TypedColumn(typed.column, typed.form, *parts)
    return _WRITERS[typed.form](typed, out, at, places, lengths, bad)


def _write_signed(typed: TypedColumn, out: Any, at: int, places: Any, lengths: Any, bad: Any) -> int:
    from schemas.columnar.kernels import craft_content

    low, high = 0, 2155
    if typed.column.type.kind is Kind.YEAR:
        bad[(typed.values > 0) & (typed.values < 1901) & typed.valid] = 1
    else:
        high = (1 << typed.column.type.bits - 1) - 1
        low = -high - 1
    return int(craft_content.write_signed(typed.values, typed.valid, low, high, out, at, places, lengths, bad))


def _write_unsigned(typed: TypedColumn, out: Any, at: int, places: Any, lengths: Any, bad: Any) -> int:
    import numpy as np

    from schemas.columnar.kernels import craft_content

    column = typed.column
    high = {
        Kind.INTEGER: (1 << (column.type.bits or 64)) - 1,
        Kind.ENUM: len(column.elements),
        Kind.SET: (1 << len(column.elements)) - 1,
        Kind.BIT: (1 << (column.length or 64)) - 1,
    }[column.type.kind]
    top = np.uint64(high)
    return int(craft_content.write_unsigned(typed.values, typed.valid, top, out, at, places, lengths, bad))


def _doubles(typed: TypedColumn, out: Any, at: int, places: Any, lengths: Any, bad: Any) -> int:
    import numpy as np

    from schemas.columnar.kernels import craft_content

    bits = typed.values.view(np.uint64)
    return int(craft_content.write_doubles(bits, typed.valid, out, at, places, lengths, bad))


def _decimals(typed: TypedColumn, out: Any, at: int, places: Any, lengths: Any, bad: Any) -> int:
    from schemas.columnar.kernels import craft_content

    precision, scale = typed.column.length, typed.column.scale
    assert precision is not None
    assert scale is not None
    return int(craft_content.write_decimals(typed.values, typed.valid, precision, scale, out, at, places, lengths, bad))


def _texts(typed: TypedColumn, out: Any, at: int, places: Any, lengths: Any, bad: Any) -> int:
    import numpy as np

    from schemas.columnar.kernels import craft_content

    kind = typed.column.type.kind
    form, least = _TEMPORAL.get(kind, ("", 0))
    text = np.frombuffer(form.encode(), np.uint8)
    size = len(typed.values)
    out[at : at + size] = typed.values
    craft_content.place_bytes(typed.values, typed.offsets, typed.valid, text, least, at, places, lengths, bad)
    if kind is Kind.DECIMAL:
        is_sized = typed.column.length is not None and typed.column.scale is not None
        precision, scale = (typed.column.length or 0, typed.column.scale or 0) if is_sized else (0, 0)
        craft_content.check_decimals(out, places, lengths, precision, scale, bad)
    return at + size


_WRITERS: dict[str, Callable[[TypedColumn, Any, int, Any, Any, Any], int]] = {
    "int": _write_signed,
    **dict.fromkeys(("uint", "enum", "set", "bit"), _write_unsigned),
    "double": _doubles,
    "float": _doubles,
    "decimal": _decimals,
    "text": _texts,
    "bytes": _texts,
}
