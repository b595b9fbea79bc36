"""CSV files of TiCDC's storage sink: text → rows (upstream ticdc `pkg/sink/codec/csv/csv_message.go`).

A row is I, U or D, table, database, the commit_ts (include-commit-ts), whether it is of an update (output-old-value:
an update is then a D and an I), the handle key (output-handle-key), and the columns in table order, but for virtual
ones and those that column selectors leave out. Texts are in quotes; without a quote, delimiter, backslash, CR and LF
are escaped. NULL is the null string outside quotes. A header line (output-field-header) names the columns.
"""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, NamedTuple

from ticdc_bridge.schemas.model.errors import Hint
from ticdc_bridge.schemas.model.event import ms_to_tso
from ticdc_bridge.schemas.model.options import Options
from ticdc_bridge.schemas.model.table import TableId

_OPS = {"I": "INSERT", "U": "UPDATE", "D": "DELETE"}
_HEAD = 3  # operation, table, database
_HEADER = "ticdc-meta$"  # how the header calls what stands before the columns
_COMMIT_TS = re.compile(r"\d{15,19}\Z", re.ASCII)
_ESCAPE = re.compile(r"\\(.)", re.DOTALL)
_ESCAPED = {"n": "\n", "r": "\r"}
_BINARY = ("binary", "varbinary", "tinyblob", "blob", "mediumblob", "longblob")
_BYTES: dict[str, Callable[[str], bytes]] = {
    "base64": lambda text: base64.b64decode(text, validate=True),
    "hex": bytes.fromhex,
}

Cells = list[str | None]


def not_recorded() -> str:
    """Why fields can't be recognized, and what helps."""
    return (
        "CSV leaves out virtual columns, and those that column selectors leave out, and here nothing says which: "
        f"{Hint.DDL} says which are virtual"
    )


class CsvText(NamedTuple):
    """A row as it stands: its cells, or None where it can't be taken apart. quoted: which cells stand in quotes; None
    for each where the files have none.
    """

    cells: Cells | None
    raw: str
    quoted: list[bool | None]


@dataclass(frozen=True)
class CsvDialect:
    """What the changefeed's [sink.csv] says: delimiter, quote, null; and [sink]: terminator, "": CR LF or LF."""

    delimiter: str
    quote: str
    null: str
    terminator: str = ""

    @classmethod
    def of(cls, options: Options) -> CsvDialect:
        return cls(options.csv_delimiter, options.csv_quote, options.csv_null, options.terminator)

    @cached_property
    def _row_end(self) -> re.Pattern[str]:
        return re.compile(re.escape(self.terminator) if self.terminator else r"\r?\n")

    def refuse_other_terminator(self, text: str) -> None:
        """ValueError where each line ends with a mark of another terminator: it would be read as part of a value."""
        if self.terminator or ("\r\n" in text and not self.quote):
            return
        marks = {line[-1] for line in text.replace("\r", "").split("\n") if line}
        known = {self.quote, self.delimiter, self.null[-1:], "="}  # base64 ends with =
        if len(marks) == 1 and not (mark := marks.pop()).isalnum() and mark not in known:
            end = json.dumps(mark + ("\r\n" if "\r\n" in text else "\n"))
            raise ValueError(f'each line ends with {mark!r}: is the changefeed\'s terminator {end}? Set it, or "\\n"')

    @cached_property
    def _quoted(self) -> re.Pattern[str] | None:
        quote = re.escape(self.quote)
        return re.compile(rf"{quote}((?:[^{quote}]|{quote}{quote})*+){quote}") if quote else None

    @cached_property
    def _unquoted(self) -> re.Pattern[str]:
        end = "|".join(map(re.escape, filter(None, (self.delimiter, self.terminator))))
        return re.compile(rf"(?:(?!{end})[^\r\n])*+" if self.quote else rf"(?:\\.|(?!{end})[^\r\n\\])*+", re.DOTALL)

    def rows(self, text: str) -> Iterator[CsvText]:
        """The rows of a file; one that can't be taken apart ends with its line."""
        pos = start = 0
        cells: Cells = []
        quoted: list[bool | None] = []
        while pos < len(text):
            cell, end = self._cell(text, pos)
            quoted.append(text.startswith(self.quote, pos) if self.quote else None)
            line_end = self._row_end.match(text, end)
            if cell is not _BROKEN and text.startswith(self.delimiter, end):
                cells.append(cell)
                pos = end + len(self.delimiter)
                if pos == len(text):
                    cells.append("")
                    yield CsvText(cells, text[start:], [*quoted, False if self.quote else None])
                    return
                continue
            if cell is not _BROKEN and (line_end or end == len(text)):
                cells.append(cell)
                if cells != [""]:
                    yield CsvText(cells, text[start:end], quoted)
            else:
                newline = text.find(self.terminator or "\n", end)
                end = len(text) if newline < 0 else newline
                line_end = self._row_end.match(text, end)
                yield CsvText(None, text[start:end].removesuffix("\r"), [])
            pos = start = line_end.end() if line_end else len(text)
            cells, quoted = [], []

    def _cell(self, text: str, pos: int) -> tuple[Any, int]:
        if self._quoted and text.startswith(self.quote, pos):
            match = self._quoted.match(text, pos)
            return (_BROKEN, pos) if match is None else (match[1].replace(self.quote * 2, self.quote), match.end())
        found = self._unquoted.match(text, pos)
        assert found is not None
        cell: str | None = found[0]
        if cell == self.null:
            cell = None
        elif not self.quote:
            cell = _ESCAPE.sub(lambda escape: _ESCAPED.get(escape[1], escape[1]), found[0])
        return cell, found.end()


_BROKEN = object()


@dataclass(frozen=True)
class CsvLayout:
    """What a row of a file has. types: of its columns, in order. binary: how binary values are written, base64 or hex.

    sure: nothing else of the table is left out. version: the table's. header: what the header names before the columns.
    """

    table: TableId
    types: dict[str, str]
    binary: str
    version: int = 0
    sure: bool = True
    header: tuple[str, ...] | None = None

    def with_header(self, cells: Cells) -> CsvLayout | None:
        """The layout of a file that begins with this row, if it is a header. ValueError for one of another table."""
        names = [cell or "" for cell in cells]
        before = [name.removeprefix(_HEADER) for name in names if name.startswith(_HEADER)]
        if not before or not names[0].startswith(_HEADER):
            return None
        columns = names[len(before) :]
        if strange := next((name for name in columns if name not in self.types), None):
            raise ValueError(f"the header has column {strange[:80]!r}, which the schema file does not have")
        return replace(self, types={n: self.types[n] for n in columns}, sure=True, header=tuple(before[_HEAD:]))

    def split(self, text: CsvText) -> tuple[int | None, bool, Cells]:
        """(commit_ts, whether it is of an update, the columns' values) of a row. ValueError for one that is not so."""
        cells = text.cells or []
        beside = len(cells) - _HEAD - len(self.types)
        if not 0 <= beside <= 3:
            raise ValueError(
                f"{len(cells)} values, for {len(self.types)} columns: are csv_delimiter, csv_quote and terminator "
                f"those of the changefeed? ({not_recorded()})"
            )
        if cells[0] not in _OPS:
            raise ValueError(f"it begins with {str(cells[0])[:20]!r}, not with I, U or D")
        if (cells[2], cells[1]) != (self.table.db, self.table.table):
            raise ValueError(f"a row of {cells[2]}.{cells[1]}, and the schema file is {self.table}'s")
        end = at = _HEAD + beside
        at, commit_ts = _HEAD, None
        if at < end and self._has("commit-ts", at, text, _COMMIT_TS):
            at, commit_ts = at + 1, int(cells[at] or "")
        of_update = at < end and self._has("is-update", at, text, _BOOLEAN)
        if of_update:
            at, of_update = at + 1, cells[at] == "true"
        if end - at > 1 or (not self.sure and self._leaves_out(text, end)):
            raise ValueError(f"the fields before the columns can't be recognized: {not_recorded()}")
        return commit_ts, of_update, cells[end:]

    def _has(self, name: str, at: int, text: CsvText, form: re.Pattern[str]) -> bool:
        if self.header is not None:
            return name in self.header
        assert text.cells is not None
        return not text.quoted[at] and form.match(text.cells[at] or "") is not None

    def _leaves_out(self, text: CsvText, at: int) -> bool:
        """True if the first column's value looks like what stands before columns."""
        assert text.cells is not None
        kind = re.split(r"[ (]", next(iter(self.types.values())))[0]
        if text.quoted[at]:
            return kind in _INTEGERS  # which never stand in quotes
        return kind not in ("json", *_TEXTS) and _BOOLEAN.match(text.cells[at] or "") is not None

    def may_lack_columns(self, text: CsvText) -> bool:
        """True if the first column's value could be the commit_ts of a row that lacks a column."""
        if self.sure or text.cells is None or len(text.cells) != _HEAD + len(self.types) or text.quoted[_HEAD]:
            return False
        value = text.cells[_HEAD] or ""
        return _COMMIT_TS.match(value) is not None and self.version < int(value) < self.version + _TEN_YEARS


_BOOLEAN = re.compile(r"(?:true|false)\Z")
_INTEGERS = ("tinyint", "smallint", "mediumint", "int", "bigint")
_TEXTS = ("char", "varchar", "tinytext", "text", "mediumtext", "longtext", "enum", "set")
_TEN_YEARS = ms_to_tso(10 * 366 * 86_400_000)


class CsvRow(NamedTuple):
    """A row whose cells are known. values: by column, as Canal-JSON's `data` has them (bytes as ISO-8859-1 text)."""

    kind: str
    commit_ts: int | None
    of_update: bool
    values: dict[str, str | None]

    @classmethod
    def of(cls, text: CsvText, layout: CsvLayout) -> CsvRow:
        """ValueError for a row that is not the table's."""
        if text.cells is None:
            raise ValueError("a value in quotes does not end, or more follows it: is terminator the changefeed's?")
        commit_ts, of_update, cells = layout.split(text)
        values = {}
        quoted = text.quoted[len(text.quoted) - len(cells) :]
        for (name, type_), cell, in_quotes in zip(layout.types.items(), cells, quoted, strict=True):
            kind = re.split(r"[ (]", type_)[0]
            if cell is not None and in_quotes is False and kind in ("json", *_TEXTS, *_BINARY):  # TiCDC quotes each
                raise ValueError(
                    f"column {name!r}: a text outside quotes: are csv_quote, csv_null and terminator the changefeed's?"
                )
            if cell is not None and kind in _BINARY:
                try:
                    cell = _BYTES[layout.binary](cell).decode("latin-1")
                except ValueError as error:
                    details = f"column {name!r}: no {layout.binary} text (csv_binary_encoding_method)"
                    raise ValueError(details) from error
            values[name] = cell
        return cls(_OPS[str(text.cells[0])], commit_ts, of_update, values)
