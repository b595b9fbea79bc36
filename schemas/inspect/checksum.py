"""TiDB's row checksum as TiCDC sends it (integrity-check-level = correctness): computed and compared.

CRC32 (IEEE) over the columns' values, NULL left out (upstream tidb `pkg/util/rowcodec/common.go`
appendDatumForChecksum, ticdc `pkg/sink/codec/common/verify_checksum.go`). Readers sum in the order of column ids; some
TiCDC versions sum in table order (ticdc `pkg/common/event/checksum.go`), which differs after ADD COLUMN … FIRST or
AFTER. Both are tried, and which one matched is reported.
"""

import math
import struct
import zlib
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from ticdc_bridge.schemas.model import values
from ticdc_bridge.schemas.model.event import Row, RowChange
from ticdc_bridge.schemas.model.table import Column, Value, require_bytes, require_text
from ticdc_bridge.schemas.model.types import Kind

ID_ORDER, TABLE_ORDER = "id", "table"


@dataclass(frozen=True, slots=True)
class Check:
    """The result of checking one row's checksum. `order` is the one that matched, None for a mismatch.

    computed: (order, CRC32) of every order tried. unverified: why it can't be computed, "" where it could.
    """

    image: str
    expected: int | str
    computed: tuple[tuple[str, int], ...] = ()
    order: str | None = None
    unverified: str = ""

    @property
    def outcome(self) -> str:
        """id | table | mismatch | unverified."""
        return "unverified" if self.unverified else self.order or "mismatch"

    def __str__(self) -> str:
        if self.unverified:
            return f"checksum of {self.image} can't be computed: {self.unverified}"
        tried = ", ".join(f"{crc} in {order} order" for order, crc in self.computed)
        return f"checksum of {self.image}: the message says {self.expected}, the columns give {tried}"


def verify(event: RowChange) -> list[Check]:
    """The checks of an event's rows, new row first; none where the message has no checksum.

    A mismatch is flagged as `checksum_mismatch:before` or `:after`; a row that TiCDC itself found to be damaged as
    `checksum_corrupted`.
    """
    checksum = event.extra.get("checksum")
    if not isinstance(checksum, dict):
        return []
    if checksum.get("corrupted"):
        event.flag("checksum_corrupted")
    checks = []
    for image, row, expected in (
        ("after", event.after, checksum.get("current")),
        ("before", event.before, checksum.get("previous")),
    ):
        if row is not None and expected is not None:
            check = _check(event, image, row, expected)
            if check.outcome == "mismatch":
                event.flag(f"checksum_mismatch:{image}")
            checks.append(check)
    return checks


def _check(event: RowChange, image: str, row: Row, expected: int | str) -> Check:
    missing = next((c.name for c in event.table.columns if not c.virtual and c.name not in row), None)
    if missing is not None:
        return Check(image, expected, unverified=f"the message does not carry column {missing!r}")
    if (vague := next((c.name for c in event.table.columns if c.vague), None)) is not None:
        return Check(image, expected, unverified=f"the type of column {vague!r} is not known")
    computed: list[tuple[str, int]] = []
    try:
        for order, columns in _orders(event, row):
            has_vector = any(c.type.kind is Kind.VECTOR and row[c.name] is not None for c in columns)
            # TiDB sums a VECTOR's bytes, TiCDC's own reader its text.
            for vector in (_vector, _with_length) if has_vector else (_vector,):
                crc = row_checksum(columns, row, event.zone, vector)
                computed.append((order, crc))
                if crc == expected:
                    return Check(image, expected, tuple(computed), order)
    except (ValueError, OverflowError) as error:
        return Check(image, expected, unverified=str(error))
    return Check(image, expected, tuple(computed))


def _orders(event: RowChange, row: Row) -> Iterable[tuple[str, Sequence[Column]]]:
    """The orders to try. Avro lists its columns by id; without ids any other format's list is in table order."""
    table = event.table
    row_order = [table.by_name[name] for name in row if name in table.by_name]
    by_id = row_order if event.format == "avro" else None
    if all(c.id for c in table.columns):
        by_id = sorted(row_order, key=lambda c: c.id)
    if by_id is not None:
        yield ID_ORDER, by_id
    if event.format != "avro" or event.table_version is not None:
        in_table = [c for c in table.columns if c.name in row]
        if in_table != by_id:
            yield TABLE_ORDER, in_table


def row_checksum(
    columns: Iterable[Column], row: Row, zone: str = "UTC", vector: Callable[[str], bytes] | None = None
) -> int:
    """CRC32 of a row's columns in the order given. zone: of its TIMESTAMP text; the sum is over UTC.

    ValueError for a value that is not of its column's type, or an ENUM or SET whose elements are not known.
    """
    crc = 0
    for column in columns:
        value = row[column.name]
        if value is None:
            continue
        try:
            is_vector = column.type.kind is Kind.VECTOR
            data = (vector or _vector)(require_text(value)) if is_vector else _datum(column, value, zone)
        except (ValueError, TypeError) as error:
            raise ValueError(f"column {column.name!r}: {error}") from error
        crc = zlib.crc32(data, crc)
    return crc


def _datum(column: Column, value: Value, zone: str) -> bytes:
    kind = column.type.kind
    if kind is Kind.TIMESTAMP:
        return _with_length(values.shift_zone(require_text(value), zone, "UTC")[0])
    if kind in (Kind.FLOAT, Kind.DOUBLE):
        number = values.real(require_text(value))
        if kind is Kind.FLOAT:
            number = values.as_float32(number)  # TiDB widens what it stores
        return struct.pack("<d", number if math.isfinite(number) else 0.0)
    if kind in _NUMBERS:
        return (_NUMBERS[kind](column, value) % (1 << 64)).to_bytes(8, "little")
    return _with_length(value)


def _integer(_column: Column, value: Value) -> int:
    return values.integer(require_text(value))


_NUMBERS: dict[Kind, Callable[[Column, Value], int]] = {
    Kind.INTEGER: _integer,
    Kind.YEAR: _integer,
    Kind.BIT: lambda _column, value: int.from_bytes(require_bytes(value), "big"),
    Kind.ENUM: lambda column, value: values.enum_index(require_text(value), column.elements),
    Kind.SET: lambda column, value: values.set_mask(require_text(value), column.elements),
}


def _with_length(value: Value) -> bytes:
    data = value if isinstance(value, bytes) else require_text(value).encode("utf-8", "surrogateescape")
    return len(data).to_bytes(4, "little") + data


def _vector(text: str) -> bytes:
    """TiDB's serialised VECTOR: dimensions as uint32, then float32s, little-endian."""
    if not text.startswith("[") or not text.endswith("]"):
        raise ValueError("not a vector")
    numbers = [values.real(word) for word in text[1:-1].split(",")] if len(text) > 2 else []
    return struct.pack(f"<I{len(numbers)}f", len(numbers), *numbers)
