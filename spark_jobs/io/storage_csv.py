"""CSV files of TiCDC's storage sink: text → rows (upstream tiflow `pkg/sink/codec/csv/csv_message.go`).

A row is I, U or D, table, database, the commit_ts (include-commit-ts), whether it is of an update (output-old-value:
an update is then a D and an I), the handle key (output-handle-key), and the columns in table order. Texts are in
quotes; without a quote, delimiter, backslash, CR and LF are escaped. NULL is the null string outside quotes.
"""

from __future__ import annotations

import base64
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

from schemas.model.options import Options
from schemas.model.table import TableId

_OPS = {"I": "INSERT", "U": "UPDATE", "D": "DELETE"}
_HEAD = 3  # operation, table, database
_COMMIT_TS = re.compile(r"\d{15,19}\Z", re.ASCII)
_ESCAPE = re.compile(r"\\(.)", re.DOTALL)
_ESCAPED = {"n": "\n", "r": "\r"}
_BINARY = ("binary", "varbinary", "tinyblob", "blob", "mediumblob", "longblob")
_BYTES: dict[str, Callable[[str], bytes]] = {
    "base64": lambda text: base64.b64decode(text, validate=True),
    "hex": bytes.fromhex,
}

Cells = list[str | None]


class CsvText(NamedTuple):
    """A row as it stands: its cells, or None where it can't be taken apart."""

    cells: Cells | None
    raw: str


@dataclass(frozen=True)
class CsvDialect:
    """What the changefeed's [sink.csv] says: delimiter, quote, null."""

    delimiter: str
    quote: str
    null: str

    @classmethod
    def of(cls, options: Options) -> CsvDialect:
        return cls(options.csv_delimiter, options.csv_quote, options.csv_null)

    @cached_property
    def _quoted(self) -> re.Pattern[str] | None:
        quote = re.escape(self.quote)
        return re.compile(rf"{quote}((?:[^{quote}]|{quote}{quote})*+){quote}") if quote else None

    @cached_property
    def _bare(self) -> re.Pattern[str]:
        end = re.escape(self.delimiter)
        return re.compile(rf"(?:(?!{end})[^\r\n])*+" if self.quote else rf"(?:\\.|(?!{end})[^\r\n\\])*+", re.DOTALL)

    def rows(self, text: str) -> Iterator[CsvText]:
        """The rows of a file; one that can't be taken apart ends with its line."""
        pos = start = 0
        cells: Cells = []
        while pos < len(text):
            cell, end = self._cell(text, pos)
            line_end = _LINE_END.match(text, end)
            if cell is not _BROKEN and text.startswith(self.delimiter, end):
                cells.append(cell)
                pos = end + len(self.delimiter)
                if pos == len(text):
                    cells.append("")
                    yield CsvText(cells, text[start:])
                    return
                continue
            if cell is not _BROKEN and (line_end or end == len(text)):
                cells.append(cell)
                if cells != [""]:
                    yield CsvText(cells, text[start:end])
            else:
                newline = text.find("\n", end)
                end = len(text) if newline < 0 else newline
                line_end = _LINE_END.match(text, end)
                yield CsvText(None, text[start:end].removesuffix("\r"))
            pos = start = line_end.end() if line_end else len(text)
            cells = []

    def _cell(self, text: str, pos: int) -> tuple[Any, int]:
        if self._quoted and text.startswith(self.quote, pos):
            match = self._quoted.match(text, pos)
            return (_BROKEN, pos) if match is None else (match[1].replace(self.quote * 2, self.quote), match.end())
        found = self._bare.match(text, pos)
        assert found is not None
        cell: str | None = found[0]
        if cell == self.null:
            cell = None
        elif not self.quote:
            cell = _ESCAPE.sub(lambda escape: _ESCAPED.get(escape[1], escape[1]), found[0])
        return cell, found.end()


_LINE_END = re.compile(r"\r?\n")
_BROKEN = object()


class CsvRow(NamedTuple):
    """A row whose cells are known. values: by column, as Canal-JSON's `data` has them (bytes as ISO-8859-1 text)."""

    kind: str
    commit_ts: int | None
    of_update: bool
    values: dict[str, str | None]

    @classmethod
    def of(cls, cells: Cells, table: TableId, types: dict[str, str], binary: str) -> CsvRow:
        """ValueError for a row that is not the table's. binary: how binary values are written, base64 or hex."""
        beside = len(cells) - _HEAD - len(types)
        if not 0 <= beside <= 3:
            raise ValueError(
                f"{len(cells)} values, and the schema file has {len(types)} columns: are csv_delimiter and csv_quote "
                "those of the changefeed? (tables with virtual columns can't be read: CSV leaves them out)"
            )
        if cells[0] not in _OPS:
            raise ValueError(f"it begins with {str(cells[0])[:20]!r}, not with I, U or D")
        if (cells[2], cells[1]) != (table.db, table.table):
            raise ValueError(f"a row of {cells[2]}.{cells[1]}, and the schema file is {table}'s")
        commit_ts, of_update = None, False
        for cell in cells[_HEAD : _HEAD + beside]:
            if commit_ts is None and _COMMIT_TS.match(cell or ""):
                commit_ts = int(cell or "")
            elif cell in ("true", "false"):
                of_update = cell == "true"
        values = {}
        for (name, type_), cell in zip(types.items(), cells[_HEAD + beside :], strict=True):
            if cell is not None and type_.partition("(")[0] in _BINARY:
                cell = _bytes_text(name, cell, binary)
            values[name] = cell
        return cls(_OPS[str(cells[0])], commit_ts, of_update, values)


def _bytes_text(name: str, cell: str, binary: str) -> str:
    try:
        return _BYTES[binary](cell).decode("latin-1")
    except ValueError as error:
        raise ValueError(f"column {name!r}: no {binary} text (csv_binary_encoding_method)") from error
