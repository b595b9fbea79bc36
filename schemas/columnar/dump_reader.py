"""Rows of Dumpling's SQL and CSV files as columns of texts and bytes, in flat arrays.

Upstream `dumpling/export/writer_util.go` and `sql_type.go` say how values are written: `'…'` with backslash escapes or
doubled quotes, x'…' for bytes, numbers bare; in CSV whatever the options name.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from ticdc_bridge.schemas.columnar.kernels import dump_text
from ticdc_bridge.schemas.columnar.kernels.dump_text import CUT, ENDED, MALFORMED, Cells, CsvMarks
from ticdc_bridge.schemas.model.table import Column
from ticdc_bridge.schemas.model.types import Kind

BLOCK: Final = 8 << 20
"""Bytes of a file that are looked at together."""
_MOST: Final = 256 << 20
"""Bytes of a row; TiDB's own limit (txn-entry-size-limit) is 120 MiB, which escapes may double."""
_ROWS: Final = 1 << 16
_HEAD: Final = re.compile(rb"INSERT INTO `((?:[^`]|``)+)`\s*(?:\(((?:`(?:[^`]|``)+`,?)+)\)\s*)?VALUES", re.ASCII)
_PASSED_OVER: Final = re.compile(rb"[\s;]+|/\*[^;]*?\*/|--[^\n]*\n")
_NAME: Final = re.compile(r"`((?:[^`]|``)+)`")
_SQL_ESCAPES: Final = {b"0": b"\0", b"n": b"\n", b"r": b"\r", b"Z": b"\x1a", b"\\": b"\\", b"'": b"'", b'"': b'"'}
_CSV_ESCAPES: Final = {b"0": b"\0", b"n": b"\n", b"r": b"\r", b"\\": b"\\"}
_BYTES: Final = (Kind.BIT, Kind.BINARY)
_NUMBERS: Final = (Kind.INTEGER, Kind.YEAR, Kind.FLOAT, Kind.DOUBLE, Kind.DECIMAL)


@dataclass(frozen=True)
class CsvDialect:
    """Dumpling's options: --csv-separator, --csv-delimiter, --csv-line-terminator, --csv-null-value, --no-header.

    binary: raw, hex or base64 (--csv-output-dialect).
    """

    separator: bytes = b","
    quote: bytes = b'"'
    terminator: bytes = b"\r\n"
    null: bytes = b"\\N"
    has_header: bool = True
    binary: str = "raw"

    @property
    def marks(self) -> CsvMarks:
        return CsvMarks(*(_array(mark) for mark in (self.separator, self.quote, self.terminator, self.null)))


@dataclass(frozen=True, slots=True)
class TextColumn:
    """A column of some rows: uint8 with offsets (int32, one more than rows). valid: 0 for NULL."""

    data: Any
    offsets: Any
    valid: Any


@dataclass(frozen=True, slots=True)
class DumpRows:
    """Rows that stand together in a file."""

    columns: list[TextColumn]
    count: int


class DumpTextError(ValueError):
    """What stands in a file is not what Dumpling writes with the options that are known."""


class DumpCut(DumpTextError):
    """A file ends in the middle."""


def sql_rows(read: Callable[[int], bytes], columns: Sequence[Column], escapes: bool) -> Iterator[DumpRows]:
    """The rows of a SQL file.

    Args:
        read: the next bytes of the file, inflated, b"" at its end.
        columns: those of the table that the dump has, in the table's order.
        escapes: a backslash escapes (Dumpling's default); False: quotes are doubled.
    Raises:
        DumpTextError: says at which byte.
    """
    buffer, at, before, in_rows, order = b"", 0, 0, False, list(range(len(columns)))
    names = {column.name.lower(): n for n, column in enumerate(columns)}
    cells, state = _cells(len(columns)), np.zeros(2, np.int64)
    reader = _ColumnReader(columns, _escape_table(_SQL_ESCAPES, escapes), b"'", None)
    while True:
        data, rows, needs_more = np.frombuffer(buffer, np.uint8), 0, False
        while not needs_more:
            if not in_rows:
                while (blank := _PASSED_OVER.match(buffer, at)) is not None:
                    at = blank.end()
                head = _HEAD.match(buffer, at)
                if head is None:
                    needs_more = True
                    continue
                listed = _order(head[2], names) if head[2] else list(range(len(columns)))
                if listed != order and rows:
                    break  # these rows' values stand in another order
                order, at, in_rows = listed, head.end(), True
            rows = dump_text.scan_sql(data, at, len(buffer), len(order), escapes, cells, rows, state)
            at = int(state[1])
            if state[0] == MALFORMED:
                raise DumpTextError(_wrong(buffer, at, before))
            in_rows = state[0] != ENDED
            if state[0] not in (ENDED, CUT):
                break
            needs_more = state[0] == CUT
        if rows:
            yield reader.read(data, cells, rows, order, before)
        if needs_more:
            more = read(BLOCK)
            if not more:
                if in_rows or buffer[at:].strip():
                    raise DumpCut(f"it ends within a statement, after byte {before + at}: the file is cut")
                return
            before += at
            buffer, at = buffer[at:] + more, 0
            if len(buffer) > _MOST:
                raise DumpTextError(f"a row of more than {_MOST} bytes, or none of Dumpling's, at byte {before}")


def csv_rows(
    read: Callable[[int], bytes], columns: Sequence[Column], dialect: CsvDialect, escapes: bool
) -> Iterator[DumpRows]:
    """The rows of a CSV file. As `sql_rows`."""
    buffer, at, before, is_last, is_header = b"", 0, 0, False, dialect.has_header
    order, names = list(range(len(columns))), {column.name.lower(): n for n, column in enumerate(columns)}
    cells, state, marks = _cells(len(columns)), np.zeros(2, np.int64), dialect.marks
    sign = (dialect.quote or dialect.separator)[:1]  # what else would end a text
    reader = _ColumnReader(columns, _escape_table(_CSV_ESCAPES | {sign: sign}, escapes), dialect.quote, dialect.binary)
    while not (is_last and at >= len(buffer)):
        data, more = np.frombuffer(buffer, np.uint8), False
        rows = dump_text.scan_csv(data, at, len(buffer), len(columns), escapes, marks, is_last, cells, state)
        if state[0] == MALFORMED:
            details = f" (a row of {len(columns)} columns is expected)"
            raise DumpTextError(_wrong(buffer, int(state[1]), before) + details)
        first = 0
        if rows and is_header:
            header = [buffer[cells.starts[n] : cells.ends[n]].decode("utf-8", "replace") for n in range(len(columns))]
            if sorted(name.lower() for name in header) != sorted(names):
                raise DumpTextError(f"its first line is not the header of the table's columns: {', '.join(header)}")
            order, first, is_header = [names[name.lower()] for name in header], 1, False
        if rows > first:
            yield reader.read(data, cells, rows, order, before, first)
        more = rows < cells.starts.shape[0] // len(columns)
        at = int(state[1])
        if more and is_last and state[0] == CUT:
            raise DumpCut(f"it ends within a row, after byte {before + at}: the file is cut")
        if more and not is_last:
            block = read(BLOCK)
            before, is_last = before + at, not block
            buffer, at = buffer[at:] + block, 0
            if len(buffer) > _MOST:
                raise DumpTextError(f"a row of more than {_MOST} bytes at byte {before}: another dialect?")


class _ColumnReader:
    """binary: as CsvDialect has it; None: bytes are x'…'."""

    def __init__(self, columns: Sequence[Column], escapes: Any, quote: bytes, binary: str | None) -> None:
        self._columns, self._escapes, self._quote, self._binary = columns, escapes, _array(quote), binary
        bare = dump_text.NOT_BARE if quote else dump_text.ANY
        self._rules = [
            dump_text.ANY if c.type.kind in _NUMBERS or (binary is None and c.type.kind in _BYTES)
            else bare if quote or c.nullable else dump_text.NOT_NULL
            for c in columns
        ]  # fmt: skip

    def read(self, data: Any, cells: Cells, rows: int, order: list[int], before: int, first: int = 0) -> DumpRows:
        """order: which column each value of a row is of. before: bytes of the file before `data`."""
        count, width = rows - first, len(order)
        cells = Cells(*(array[first * width : rows * width] for array in cells))
        columns: list[Any] = [None] * width
        sizes = (cells.ends - cells.starts).reshape(count, width).sum(axis=0)
        for position, n in enumerate(order):
            out, offsets = np.empty(int(sizes[position]) + 1, np.uint8), np.empty(count + 1, np.int32)
            valid = np.empty(count, np.uint8)
            bad = dump_text.fill_texts(
                data, cells, position, width, count, self._rules[n], self._escapes, self._quote, out, offsets, valid
            )
            if bad >= 0:
                at = before + int(cells.starts[bad * width + position])
                raise DumpTextError(
                    f"column {self._columns[n].name}: the value at byte {at} is not written as the others are:"
                    " the file is damaged, or is of another dialect (--dump-options)"
                )
            columns[n] = TextColumn(out, offsets, valid)
        return DumpRows(columns, count)


def _escape_table(meanings: dict[bytes, bytes], escapes: bool) -> Any:
    """What a byte after a backslash stands for, 256 for an unknown one; empty where quotes are doubled."""
    if not escapes:
        return np.empty(0, np.int64)
    table = np.full(256, 256, np.int64)
    for sign, meaning in meanings.items():
        if sign:
            table[sign[0]] = meaning[0]
    return table


def _array(data: bytes) -> Any:
    return np.frombuffer(data, np.uint8)


def _cells(columns: int) -> Cells:
    size = max(_ROWS // max(columns, 1), 64) * columns
    return Cells(np.empty(size, np.int64), np.empty(size, np.int64), np.empty(size, np.uint8))


def _order(listed: bytes, names: dict[str, int]) -> list[int]:
    """Which columns an INSERT lists."""
    given = [name.replace("``", "`").lower() for name in _NAME.findall(listed.decode("utf-8", "replace"))]
    if sorted(given) != sorted(names):
        raise DumpTextError(f"its columns are not those of the table's definition: {', '.join(given)}")
    return [names[name] for name in given]


def _wrong(buffer: bytes, at: int, before: int) -> str:
    """What stands where a value can't; values of rows stay out of texts."""
    return f"byte {before + at} can't stand there: the file is damaged, or was written with other options"
