"""How the texts of a dump are written: what Dumpling was told, and what its files prove.

Nothing in a dump names its options. What the files prove is taken; where they prove nothing, Dumpling's own default is,
with a warning that names the option.
"""

from __future__ import annotations

import binascii
import json
import re
import shlex
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from itertools import product
from typing import Any, Final, NamedTuple

import numpy as np
import pyarrow

from ticdc_bridge.schemas.columnar.dump_reader import CsvDialect, DumpCut, DumpTextError, TextColumn, csv_rows, sql_rows
from ticdc_bridge.schemas.model.errors import SetupError
from ticdc_bridge.schemas.model.table import Column
from ticdc_bridge.schemas.model.types import Kind
from ticdc_bridge.schemas.model.values import bit_size

pa: Any = pyarrow  # the stubs know less than the library

OPTION: Final = "--dump-options"
_NUMBERS: Final = (Kind.INTEGER, Kind.YEAR, Kind.FLOAT, Kind.DOUBLE, Kind.DECIMAL)
_TIMES: Final = (Kind.DATE, Kind.DATETIME, Kind.TIMESTAMP, Kind.TIME)
_TEXTS: Final = {"csv-separator": "separator", "csv-delimiter": "quote", "csv-line-terminator": "terminator",
                 "csv-null-value": "null"}  # fmt: skip
_DECODERS: Final[dict[str, Callable[[bytes], bytes]]] = {"hex": binascii.unhexlify, "base64": binascii.a2b_base64}
_BINARY: Final = {"bigquery": "base64", "snowflake": "hex", "redshift": "hex", "": "raw"}
_SEPARATORS: Final = (b",", b"\t", b"|+|", b"|", b";", b"\x01")
_TERMINATORS: Final = (b"\r\n", b"\n")
_NULLS: Final = (b"\\N", b"", b"NULL", b"null")
_SIGNS: Final = {"\\t": "\t", "\\n": "\n", "\\r": "\r", "\\r\\n": "\r\n"}
_MOST_CELLS: Final = 200


@dataclass(frozen=True)
class DumpOptions:
    """What Dumpling was told of its files; None: nobody says. escapes: --escape-backslash."""

    separator: bytes | None = None
    quote: bytes | None = None
    terminator: bytes | None = None
    null: bytes | None = None
    has_header: bool | None = None
    binary: str | None = None
    escapes: bool | None = None

    @classmethod
    def of(cls, text: str | None) -> DumpOptions:
        """Of Dumpling's own command line, "" for its defaults; None: nothing is known. SetupError USAGE."""
        if text is None:
            return cls()
        given: dict[str, Any] = dict(vars(_DEFAULTS))
        words = iter(shlex.split(text))
        for word in words:
            name, has_value, value = word.removeprefix("--").partition("=")
            if name == "no-header":
                given["has_header"] = value.lower() == "false"
            elif name == "escape-backslash":
                given["escapes"] = value.lower() != "false"
            elif name in _TEXTS or name == "csv-output-dialect":
                value = value if has_value else next(words, "")
                if name in _TEXTS:
                    given[_TEXTS[name]] = _SIGNS.get(value, value).encode()
                elif value not in _BINARY:
                    raise SetupError("USAGE", details=f"{OPTION}: {name} is {', '.join(filter(None, _BINARY))}")
                else:
                    given["binary"] = _BINARY[value]
        return cls(**given)


_DEFAULTS: Final = DumpOptions(b",", b'"', b"\r\n", b"\\N", True, "raw", True)


@dataclass(frozen=True)
class TextForm:
    """How the files of one table are read. dialect: None for SQL.

    assumed: Dumpling's options that nothing proves, and whose default is taken.
    """

    escapes: bool
    dialect: CsvDialect | None = None
    assumed: tuple[str, ...] = ()

    def rows(self, read: Callable[[int], bytes], columns: Sequence[Column]) -> Iterator[list[Any]]:
        """The rows of a file as Arrow columns of texts, and of bytes. DumpTextError."""
        rows = (
            sql_rows(read, columns, self.escapes)
            if self.dialect is None
            else csv_rows(read, columns, self.dialect, self.escapes)
        )
        for part in rows:
            yield [self._arrow(values, column) for values, column in zip(part.columns, columns, strict=True)]

    def _arrow(self, values: TextColumn, column: Column) -> Any:
        bits = None if values.valid.all() else pa.py_buffer(np.packbits(values.valid, bitorder="little").tobytes())
        buffers = [bits, pa.py_buffer(values.offsets), pa.py_buffer(values.data)]
        if column.type.kind not in (Kind.BIT, Kind.BINARY):
            texts = pa.Array.from_buffers(pa.string(), len(values.valid), buffers)
            try:
                texts.validate(full=True)
            except pa.ArrowInvalid as error:
                raise DumpTextError(f"column {column.name}: a text that is not UTF-8") from error
            return texts
        data = pa.Array.from_buffers(pa.binary(), len(values.valid), buffers)
        binary = self.dialect.binary if self.dialect else ""
        decode = _DECODERS.get(binary)
        if decode is None:
            return data
        try:
            return pa.array([value and decode(value) for value in data.to_pylist()], pa.binary())
        except ValueError as error:
            raise DumpTextError(f"column {column.name}: bytes that are no {binary}: {error}") from error


class FileHead(NamedTuple):
    """The first bytes of a file, inflated, and of what. is_whole: there are no more."""

    name: str
    data: bytes
    columns: Sequence[Column]
    is_whole: bool


def text_form(kind: str, heads: Sequence[FileHead], options: DumpOptions) -> TextForm:
    """How the files of a dump are read, by what the first bytes of some of each table's prove.

    Args:
        kind: sql or csv.
    Raises:
        SetupError: USAGE where the dialect can't be told, or can't hold a table's values exactly.
    """
    forms: set[TextForm] | None = None
    binary = {"raw", "hex", "base64"} if options.binary is None else {options.binary}
    for head in heads:
        dialects = [None] if kind == "sql" else list(_dialects(head, options))
        modes = (True, False) if options.escapes is None else (options.escapes,)
        parsed = dict[TextForm, list[list[Any]]]()
        for form in (TextForm(mode, dialect) for dialect in dialects for mode in modes):
            if (forms is None or form in forms) and (cells := _cells(head, form)) is not None:
                parsed[form] = cells
        # Where values fit their types in no dialect, some are none of their type, which the load finds out.
        fitting = {form: cells for form, cells in parsed.items() if _do_fit(head.columns, cells)} or parsed
        if not fitting:
            details = f"{head.name} can't be read with any dialect that is known: say what Dumpling was told"
            raise SetupError("USAGE", details=f"{details} ({OPTION} '--csv-separator … --csv-delimiter …')")
        forms = set(fitting)
        for cells in fitting.values() if kind == "csv" else ():
            binary &= _binary(head.columns, cells)
    if not forms:
        return TextForm(True, None if kind == "sql" else CsvDialect())
    mode, assumed = any(form.escapes for form in forms), list[str]()
    if len({form.escapes for form in forms}) > 1 and any(b"\\" in head.data.replace(b"\\N", b"") for head in heads):
        assumed.append("--escape-backslash")
    if kind == "sql":
        return TextForm(mode, None, tuple(assumed))
    dialects = [form.dialect for form in forms if form.dialect is not None]
    # Where no NULL was seen, another way to write it is refused when it comes.
    without_null = {replace(dialect, null=b"") for dialect in dialects}
    if len(without_null) > 1:
        details = f"{heads[0].name} could be of several dialects: say what Dumpling was told"
        raise SetupError("USAGE", details=f"{details} ({OPTION} '--csv-separator … --csv-delimiter …')")
    dialect = min(dialects, key=lambda d: _NULLS.index(d.null) if d.null in _NULLS else 0)
    has_bytes = any(column.type.kind is Kind.BINARY for head in heads for column in head.columns)
    if len(binary) > 1 and has_bytes:
        assumed.append("--csv-output-dialect")
    dialect = replace(dialect, binary="raw" if "raw" in binary else binary.pop())
    for head in heads:
        _refuse_null_texts(dialect, head.columns, mode, head.name)
    return TextForm(mode, dialect, tuple(assumed))


def _dialects(head: FileHead, options: DumpOptions) -> Iterator[CsvDialect]:
    """Dialects whose header the file has; without one, all that are known."""
    data, names = head.data, [column.name.encode() for column in head.columns]
    nulls = _NULLS if options.null is None else (options.null,)
    if options.has_header is not False:
        first = data.find(names[0])
        quote = data[: max(first, 0)] if options.quote is None else options.quote
        rest = len(quote) + len(names[0]) + len(quote)
        second = data.find(quote + names[1], rest) if len(names) > 1 else -1
        separator = options.separator or (data[rest:second] if second >= 0 else b",")
        header = separator.join(quote + name + quote for name in names)
        if 0 <= first <= 8 and data.startswith(header):
            after = data[len(header) :]
            for terminator in [options.terminator] if options.terminator else _TERMINATORS:
                if after.startswith(terminator):
                    yield from (CsvDialect(separator, quote, terminator, null) for null in nulls)
            return
        if options.has_header:
            return
    separators = _SEPARATORS if options.separator is None else (options.separator,)
    quotes = (b'"', b"'", b"") if options.quote is None else (options.quote,)
    terminators = [options.terminator] if options.terminator else _TERMINATORS
    yield from (CsvDialect(*marks, has_header=False) for marks in product(separators, quotes, terminators, nulls))


def _cells(head: FileHead, form: TextForm) -> list[list[Any]] | None:
    """The first values of each column, None where the head can't be read so."""
    chunks, cells = iter([head.data]), [list[Any]() for _ in head.columns]
    try:
        for rows in form.rows(lambda _: next(chunks, b""), head.columns):
            for n, column in enumerate(rows):
                cells[n] += column.slice(0, _MOST_CELLS - len(cells[n])).to_pylist()
    except DumpCut:
        if head.is_whole:
            return None
    except DumpTextError:
        return None
    return cells


def _do_fit(columns: Sequence[Column], cells: list[list[Any]]) -> bool:
    """Whether values can be of their columns' types."""
    for column, values in zip(columns, cells, strict=True):
        fits = _FITS.get(column.type.kind)
        if fits is not None and not all(fits(value) for value in values if value is not None):
            return False
    return True


def _is_json(text: str) -> bool:
    with suppress(ValueError):
        json.loads(text)
        return True
    return False


_FITS: Final[dict[Kind, Callable[[str], bool]]] = {
    **dict.fromkeys(_NUMBERS, lambda value: re.fullmatch(r"-?[0-9.]+(?:e[+-]?[0-9]+)?", value) is not None),
    **dict.fromkeys(_TIMES, lambda value: value[:1] in "-0123456789"), Kind.JSON: _is_json,
}  # fmt: skip
"""What a value of a type can be, by the text that a dialect makes of it."""


def _binary(columns: Sequence[Column], cells: list[list[Any]]) -> set[str]:
    """raw, hex or base64, by the sizes of BIT, and by bytes that only some of them have."""
    forms = {"raw", "hex", "base64"}
    for column, values in zip(columns, cells, strict=True):
        for value in filter(None, values if column.type.kind in (Kind.BIT, Kind.BINARY) else ()):
            forms -= {"hex"} if not _decodes(binascii.unhexlify, value) else set()
            forms -= {"base64"} if not _decodes(_from_base64, value) else set()
            if column.type.kind is Kind.BIT:
                size = bit_size(column.length or 0)
                sizes = {"raw": size, "hex": 2 * size, "base64": -(-size // 3) * 4}
                forms &= {form for form, of in sizes.items() if of == len(value)}
    return forms


def _from_base64(value: bytes) -> bytes:
    return binascii.a2b_base64(value, strict_mode=True)


def _decodes(decode: Callable[[bytes], bytes], value: bytes) -> bool:
    with suppress(ValueError):
        decode(value)
        return True
    return False


def _refuse_null_texts(dialect: CsvDialect, columns: Sequence[Column], escapes: bool, name: str) -> None:
    """SetupError USAGE where NULL and a text are written alike: without quotes, and the text is not escaped."""
    if dialect.quote or (escapes and dialect.null[:1] == b"\\" and dialect.null != b"\\\\"):
        return
    text = dialect.null.decode("utf-8", "replace")
    alike = [
        column.name
        for column in columns
        if column.nullable and column.type.kind not in (*_NUMBERS, *_TIMES, Kind.BIT, Kind.JSON)
        and (column.type.kind not in (Kind.ENUM, Kind.SET) or text in ("", *column.elements))
    ]  # fmt: skip
    if alike:
        details = (
            f"{name}: NULL is written {text!r} and texts have no quotes, so NULL and the text {text!r} look alike in"
            f" {', '.join(alike)}: dump again with --csv-delimiter, or to Parquet"
        )
        raise SetupError("USAGE", details=details)
