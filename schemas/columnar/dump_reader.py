"""Rows of Dumpling's SQL and CSV files as columns of texts and bytes, in flat arrays.

Upstream `dumpling/export/writer_util.go` and `sql_type.go` say how values are written: `'…'` with backslash escapes or
doubled quotes, x'…' for bytes, numbers bare; in CSV whatever the options name.
"""

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

import numpy as np

from ticdc_bridge.schemas.columnar.kernels import dump_text
from ticdc_bridge.schemas.columnar.kernels.dump_text import CUT, ENDED, MALFORMED, Cells
from ticdc_bridge.schemas.model.table import Column
from ticdc_bridge.schemas.model.types import BYTES, NUMBERS, Kind

BLOCK: Final = 8 << 20
"""Bytes of a file that are looked at together."""
_MOST: Final = 256 << 20
"""Bytes of a row; TiDB's own limit (txn-entry-size-limit) is 120 MiB, which escapes may double."""
_MOST_HEAD: Final = 1 << 20
"""Bytes before the rows of a statement: it may list 1017 columns, of 64 letters each."""
_ROWS: Final = 1 << 16
_HEAD: Final = re.compile(
    rb"INSERT INTO `((?:[^`]|``){1,256})`\s*(?:\(((?:`(?:[^`]|``){1,256}`,?){1,4096})\)\s*)?VALUES", re.ASCII
)
_NAME: Final = re.compile(r"`((?:[^`]|``)+)`")
_PASSED_OVER: Final = re.compile(rb"[\s;]+|/\*[^;]*?\*/|--[^\n]*\n")
_SQL_ESCAPES: Final = {b"0": b"\0", b"n": b"\n", b"r": b"\r", b"Z": b"\x1a", b"\\": b"\\", b"'": b"'", b'"': b'"'}
_CSV_ESCAPES: Final = {b"0": b"\0", b"n": b"\n", b"r": b"\r", b"\\": b"\\"}
TIMES: Final = (Kind.DATE, Kind.DATETIME, Kind.TIMESTAMP, Kind.TIME)


@dataclass(frozen=True)
class TextForm:
    """How the rows of files are written: Dumpling's --csv-separator, --csv-delimiter (quote), --csv-line-terminator,
    --csv-null-value, --no-header, --csv-output-dialect (binary: raw, hex or base64) and --escape-backslash (escapes;
    None: not known, and what it matters for is refused). table: that of SQL's statements, "" for any.
    """

    is_csv: bool = False
    separator: bytes = b","
    quote: bytes = b'"'
    terminator: bytes = b"\r\n"
    null: bytes = b"\\N"
    has_header: bool = True
    binary: str = "raw"
    escapes: bool | None = True
    table: str = ""

    def name_text(self, name: str) -> bytes:
        """A column's name as the first line of a CSV file has it, without the quotes."""
        text, sign = name.encode(), (self.quote or self.separator)[:1]
        if self.escapes:
            return re.sub(rb"[\\" + re.escape(sign) + rb"]", rb"\\\g<0>", text)
        return text.replace(self.quote, self.quote * 2) if self.quote else text


class TextColumn(NamedTuple):
    """A column of some rows: uint8 with offsets (int32, one more than rows). valid: 0 for NULL."""

    data: Any
    offsets: Any
    valid: Any


class DumpTextError(ValueError):
    """What stands in a file is not what Dumpling writes with the options that are known."""


class DumpCut(DumpTextError):
    """A file ends in the middle."""


def dump_rows(read: Callable[[int], bytes], columns: Sequence[Column], form: TextForm) -> Iterator[list[TextColumn]]:
    """The rows of a file.

    Args:
        read: the next bytes of the file, inflated, b"" at its end.
        columns: those of the table that the dump has, in the table's order.
    Raises:
        DumpTextError: says at which byte.
    """
    reader, is_last = _Reader(columns, form), False
    scan = reader.scan_csv if form.is_csv else reader.scan_sql
    while True:
        rows, needs_more = scan(is_last)
        if rows:
            yield reader.texts(rows)
        if needs_more and is_last:
            if reader.at < len(reader.buffer) or reader.in_rows:
                raise reader.cut()
            return
        if needs_more:
            block = read(BLOCK)
            is_last = not block
            reader.add(block)


class _Reader:
    """The bytes of a file that are looked at, and where its next row stands."""

    def __init__(self, columns: Sequence[Column], form: TextForm) -> None:
        self.buffer, self.at, self.in_rows = b"", 0, False
        self._data, self._before, self._columns, self._form = _array(b""), 0, columns, form
        self._order: list[int] | None = None  # which column each value of a row is of
        self._first = 0  # the row after the header
        size = max(_ROWS // len(columns), 64) * len(columns)
        self._cells = np.empty(size, np.int64), np.empty(size, np.int64), np.empty(size, np.uint8)
        self._state, self._has_escapes = np.zeros(2, np.int64), form.escapes is not False
        quote = form.quote if form.is_csv else b"'"
        self._marks = (_array(form.separator), _array(quote), _array(form.terminator), _array(form.null))
        sign = (quote or form.separator)[:1]  # what else would end a text
        meanings = (_CSV_ESCAPES | {sign: sign} if form.is_csv else _SQL_ESCAPES) if form.escapes else {}
        self._escapes = np.full(256 if self._has_escapes else 0, 256, np.int64)
        for byte, meaning in meanings.items():
            self._escapes[byte[0]] = meaning[0]

    def add(self, block: bytes) -> None:
        """The next bytes of the file, after those that no row was read of."""
        self._before += self.at
        self.buffer, self.at = self.buffer[self.at :] + block, 0
        if len(self.buffer) > _MOST:
            raise DumpTextError(f"a row of more than {_MOST} bytes at byte {self._before}: damaged, or other options?")
        self._data = _array(self.buffer)

    def scan_sql(self, is_last: bool) -> tuple[int, bool]:
        """How many rows stand from `at` on, and whether more bytes are needed for the next."""
        del is_last
        rows = 0
        while True:
            if not self.in_rows:
                while (blank := _PASSED_OVER.match(self.buffer, self.at)) is not None:
                    self.at = blank.end()
                head = _HEAD.match(self.buffer, self.at)
                if head is None:
                    if len(self.buffer) - self.at > _MOST_HEAD:
                        raise self._error(self.at)
                    return rows, True
                name = head[1].decode("utf-8", "replace").replace("``", "`")
                if self._form.table.lower() not in ("", name.lower()):
                    raise DumpTextError(f"it has rows of table {name}: take it out, or give it that table's name")
                listed = _NAME.findall((head[2] or b"").decode("utf-8", "replace"))
                self._follow([name.replace("``", "`") for name in listed] or [c.name for c in self._columns])
                self.at, self.in_rows = head.end(), True
            rows = dump_text.scan_sql(
                self._data, self.at, len(self.buffer), len(self._columns), self._has_escapes, self._marks[1],
                self._cells, rows, self._state,
            )  # fmt: skip
            self.at, self.in_rows = int(self._state[1]), bool(self._state[0] != ENDED)
            if self._state[0] == MALFORMED:
                raise self._error(self.at)
            if self.in_rows:
                return rows, bool(self._state[0] == CUT)

    def scan_csv(self, is_last: bool) -> tuple[int, bool]:
        """As `scan_sql`."""
        rows = dump_text.scan_csv(
            self._data, self.at, len(self.buffer), len(self._columns), self._has_escapes, self._marks, is_last,
            self._cells, self._state,
        )  # fmt: skip
        self.at, self._first = int(self._state[1]), 0
        if self._state[0] == MALFORMED:
            raise self._error(self.at, f" (a row of {len(self._columns)} columns is expected)")
        if rows and self._order is None:
            cells = zip(*self._cells, self._columns, strict=False)
            names = {self._form.name_text(column.name): column.name for column in self._columns}
            texts = [self.buffer[start:end] for start, end, _, _ in cells]
            header = [names.get(text, text.decode("utf-8", "replace")) for text in texts]
            self._follow(header if self._form.has_header else [column.name for column in self._columns])
            self._first = int(self._form.has_header)
        return rows, bool(self._state[0] == CUT or self.at >= len(self.buffer))

    def _follow(self, names: list[str]) -> None:
        """The columns that values are of, in this order."""
        numbers = {column.name.lower(): n for n, column in enumerate(self._columns)}
        order = [numbers.get(name.lower(), -1) for name in names]
        if sorted(order) != [*range(len(numbers))] or self._order not in (None, order):
            raise DumpTextError(f"its columns are not those of the table's definition: {', '.join(names)[:500]}")
        self._order = order

    def texts(self, rows: int) -> list[TextColumn]:
        """The first rows of the cells, the header left out, by the table's columns."""
        columns = dict[int, TextColumn]()
        for position, (n, text) in enumerate(
            zip(self._order or (), text_room(self._cells, self._first, rows, len(self._columns)), strict=True)
        ):
            bad = dump_text.fill_texts(
                self._data, self._cells, position, len(self._columns), self._first, rows, self._rule(self._columns[n]),
                self._escapes, self._marks[1], *text,
            )  # fmt: skip
            if bad >= 0:
                at = self._before + int(self._cells[0][bad * len(self._columns) + position])
                what = "nothing proves what a backslash or quote means, or the file is damaged or has another dialect"
                details = f"the value at byte {at} can't be read: {what} (--dump-options '' for Dumpling's defaults)"
                raise DumpTextError(f"column {self._columns[n].name}: {details}")
            columns[n] = text
        return [columns[n] for n in range(len(self._columns))]

    def _rule(self, column: Column) -> int:
        kind, has_quotes = column.type.kind, bool(self._marks[1].size)
        if has_quotes and kind not in NUMBERS and (kind not in BYTES or self._form.is_csv):
            return dump_text.ONLY_QUOTED
        return dump_text.ANY if column.nullable or not self._form.is_csv else dump_text.NOT_NULL

    def _error(self, at: int, more: str = "") -> DumpTextError:
        """Values of rows stay out of texts."""
        return DumpTextError(
            f"byte {self._before + at} can't stand there: the file is damaged, or was written with other options{more}"
        )

    def cut(self) -> DumpCut:
        return DumpCut(f"it ends within a row or statement, after byte {self._before + self.at}: the file is cut")


def text_room(cells: Cells, first: int, rows: int, columns: int) -> list[TextColumn]:
    """Arrays for the values of rows from `first` on, a column each."""
    sizes = (cells[1] - cells[0])[first * columns : rows * columns].reshape(rows - first, columns).sum(axis=0)
    count = rows - first
    return [
        TextColumn(np.empty(int(size) + 1, np.uint8), np.empty(count + 1, np.int32), np.empty(count, np.uint8))
        for size in sizes
    ]


def _array(data: bytes) -> Any:
    return np.frombuffer(data, np.uint8)
