"""How the texts of a dump are written, by Dumpling's options and its files; refused where neither proves it."""

import binascii
import json
import re
import shlex
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from itertools import product
from typing import Any, Final, NamedTuple

from ticdc_bridge.schemas.columnar.dump_reader import TIMES, DumpCut, DumpTextError, TextColumn, TextForm, dump_rows
from ticdc_bridge.schemas.model.errors import SetupError
from ticdc_bridge.schemas.model.table import Column
from ticdc_bridge.schemas.model.types import BYTES, ELEMENTS, NUMBERS, Kind
from ticdc_bridge.schemas.model.values import bit_size
from ticdc_bridge.spark_jobs.arrow.library import array_of, pa

OPTION: Final = "--dump-options"
_OPTIONS: Final = {"csv-separator": "separator", "csv-delimiter": "quote", "csv-line-terminator": "terminator",
                   "csv-null-value": "null", "no-header": "has_header", "csv-output-dialect": "binary",
                   "escape-backslash": "escapes"}  # fmt: skip
_BINARY: Final = {"": "raw", "default": "raw", "bigquery": "base64", "snowflake": "hex", "redshift": "hex"}
_DECODERS: Final[dict[str, Callable[[bytes], bytes]]] = {
    "hex": binascii.unhexlify,
    "base64": partial(binascii.a2b_base64, strict_mode=True),
}
_KNOWN: Final[dict[str, tuple[Any, ...]]] = {
    "separator": (b",", b"\t", b"|+|", b"|", b";", b"\x01"), "quote": (b'"', b"'", b""), "terminator": (b"\r\n", b"\n"),
    "null": (b"\\N", b"", b"NULL", b"null"), "has_header": (True, False), "binary": ("raw", "hex", "base64"),
    "escapes": (True, False),
}  # fmt: skip
"""What is tried, Dumpling's defaults first."""
_SIGNS: Final = {rb"\t": b"\t", rb"\n": b"\n", rb"\r": b"\r", rb"\r\n": b"\r\n"}
"""What a shell may have made of the options that Dumpling was given."""


class FileHead(NamedTuple):
    """The first bytes of a file, inflated, and of what. is_complete: there are no more."""

    name: str
    data: bytes
    columns: Sequence[Column]
    is_complete: bool


def dump_options(text: str | None) -> dict[str, Any]:
    """Fields of TextForm by Dumpling's command line, "" for its defaults; None: nothing is known. SetupError USAGE."""
    if text is None:
        return {}
    given = {name: values[0] for name, values in _KNOWN.items()}
    try:
        words = iter(shlex.split(text))
    except ValueError as error:
        raise SetupError("USAGE", details=f"{OPTION}: {error}") from error
    for word in words:
        option, has_value, value = word.removeprefix("--").partition("=")
        name = _OPTIONS.get(option, "")
        if name in ("has_header", "escapes"):
            given[name] = (value.lower() in ("false", "f", "0")) is (name == "has_header")
        elif name:
            value = value if has_value else next(words, "")
            if name == "binary" and value not in _BINARY:
                raise SetupError("USAGE", details=f"{OPTION}: {option} is {', '.join(filter(None, _BINARY))}")
            given[name] = _BINARY[value] if name == "binary" else value.encode()
        elif option.startswith("csv-"):
            raise SetupError("USAGE", details=f"{OPTION}: --{option} is not known")
    return given


def arrow_rows(read: Callable[[int], bytes], columns: Sequence[Column], form: TextForm) -> Iterator[list[Any]]:
    """The rows of a file as Arrow columns of texts, and of bytes. DumpTextError."""
    for rows in dump_rows(read, columns, form):
        yield [arrow_array(values, column, form) for values, column in zip(rows, columns, strict=True)]


def head_rows(data: bytes, is_complete: bool, columns: Sequence[Column], form: TextForm) -> Iterator[list[Any]]:
    """The rows in the first bytes of a file; DumpCut after them where there are more bytes. Else as `arrow_rows`."""
    chunks = iter([data])

    def read(_: int) -> bytes:
        block = next(chunks, b"")
        if not (block or is_complete):
            raise DumpCut("the rest is not here")
        return block

    return arrow_rows(read, columns, form)


def arrow_array(values: TextColumn, column: Column, form: TextForm) -> Any:
    """A column as Arrow's texts, or bytes. DumpTextError."""
    kind = pa.binary() if column.type.kind in BYTES else pa.string()
    array = array_of(kind, values.valid, values.offsets, values.data)
    decode = _DECODERS.get(form.binary) if form.is_csv and _is_binary(column) else None
    try:
        if decode is not None:
            return pa.array([value and decode(value) for value in array.to_pylist()], kind)
        array.validate(full=True)
    except ValueError as error:  # pyarrow's too
        what = f"bytes that are no {form.binary}" if decode is not None else "a text that is not UTF-8: mend it in TiDB"
        raise DumpTextError(f"column {column.name}: {what}") from error
    return array


def _is_binary(column: Column) -> bool:
    """True if Dumpling writes its values as bytes."""
    return column.type.kind in BYTES or (column.type.kind in ELEMENTS and column.charset == "binary")


def text_form(is_csv: bool, heads: Iterable[FileHead], given: Mapping[str, Any]) -> TextForm:
    """How the files of a dump are read, by what the first bytes of some of each table's (`heads`) prove, and `given`.

    SetupError USAGE where several forms give other values, or none fits.
    """
    known = _KNOWN if is_csv else {"escapes": _KNOWN["escapes"]}
    readings = {name: (_SIGNS[value], value) if value in _SIGNS else (value,) for name, value in given.items()}
    tried = [readings.get(name, values) for name, values in known.items()]
    forms, are_same = [TextForm(is_csv, **dict(zip(known, form, strict=True))) for form in product(*tried)], True
    has_bytes = False
    for head in heads:
        if len(forms) == 1:
            break
        found = [(form, _cells(head, form)) for form in forms]
        cells = [(form, values) for form, values in found if not isinstance(values, DumpTextError)]
        cells = [entry for entry in cells if is_csv and entry[0].has_header] or cells  # it could be a row of texts, too
        # Where values fit their types in no dialect, some are none of their type, which the load finds out.
        cells = [
            entry for entry in cells
            if all(is_value(v, c) for c, values in zip(head.columns, entry[1], strict=True) for v in values)
        ] or cells  # fmt: skip
        if not cells:
            details = f"{head.name} can't be read in any known dialect ({found[0][1]}): it is damaged, or Dumpling had"
            raise SetupError("USAGE", details=f"{details} other options: give them ({OPTION} '--csv-separator … …')")
        forms = [form for form, _ in cells]
        has_bytes = has_bytes or any(map(_is_binary, head.columns))
        are_same = are_same and head.is_complete and all(values == cells[0][1] for _, values in cells)
    unsure = {name for name in known if any(getattr(form, name) != getattr(forms[0], name) for form in forms)}
    if all(form.quote for form in forms):
        unsure -= {"null"}  # another way to write it is refused when it comes
    unsure -= set() if has_bytes else {"binary"}
    if are_same or not unsure:
        return forms[0]
    if unsure == {"escapes"}:
        return replace(forms[0], escapes=None)
    names = ", ".join(f"--{option}" for option, name in _OPTIONS.items() if name in unsure)
    details = f"the dump does not show {names}: give the options that Dumpling ran with ({OPTION} '' for its defaults)"
    raise SetupError("USAGE", details=details)


def _cells(head: FileHead, form: TextForm) -> list[list[Any]] | DumpTextError:
    """The values of each column; the error where the head can't be read so."""
    mark, cells = form.quote, [list[Any]() for _ in head.columns]
    names = (mark + form.name_text(column.name) + mark for column in head.columns)
    header = form.separator.join(names) + form.terminator
    if form.is_csv and form.has_header and not head.data.startswith(header):
        return DumpTextError("its first line does not name the table's columns")
    try:
        for rows in head_rows(head.data, head.is_complete, head.columns, form):
            for values, found in zip(rows, cells, strict=True):
                found += values.to_pylist()
    except DumpTextError as error:
        if head.is_complete or not isinstance(error, DumpCut):
            return DumpTextError(str(error))  # the error itself has hold of the reader's buffers
    return cells


def is_value(value: Any, column: Column) -> bool:
    """True if a text can be a value of the column."""
    if value is None:
        return True
    kind, length = column.type.kind, column.length
    if kind is Kind.BIT:
        return len(value) == bit_size(length or 1)
    if kind is Kind.BINARY:
        return length is None or len(value) <= length
    if kind is Kind.JSON:
        with suppress(ValueError):
            json.loads(value)
            return True
        return False
    if kind in ELEMENTS:
        return value in ("", *column.elements) or (kind is Kind.SET and {*value.split(",")} <= {*column.elements})
    if kind in NUMBERS:
        return re.fullmatch(r"-?[0-9.]+(?:e[+-]?[0-9]+)?", value) is not None
    return kind not in TIMES or value[:1] in {*"-0123456789"}


def refuse_alike(form: TextForm, columns: Sequence[Column], name: str) -> None:
    """SetupError USAGE where two values, or NULL and a value, are written alike."""
    sign = (form.quote or form.separator)[:1]
    why, texts = "", [column.name for column in columns if column.type.kind not in (*NUMBERS, *TIMES)]
    alike = [column.name for column in columns if column.nullable and _can_be_null(form, column, sign)]
    if alike:
        null = form.null.decode("utf-8", "replace")
        why = f"NULL and the value {null!r} look alike in {', '.join(alike)}"
    elif sign in b"0nr" and form.escapes is not False:
        why = f"a backslash and {sign.decode()} stand for two signs"
    elif texts and not form.quote and not (form.escapes and {*form.terminator} & {*b"\0\r\n"}):
        why = f"texts without quotes and escapes may hold what ends a row: {', '.join(texts)}"
    if why and form.is_csv:
        then = f"give the options that Dumpling ran with ({OPTION}), or " * (form.escapes is None)
        then += "dump again with its own --csv-delimiter and --csv-null-value, or to Parquet"
        raise SetupError("USAGE", details=f"{name}: {why}: {then}")


def _can_be_null(form: TextForm, column: Column, sign: bytes) -> bool:
    """True if a value of the column can be written as NULL is. sign: what a backslash stands before."""
    if form.quote and column.type.kind not in NUMBERS:
        return form.null.startswith(form.quote)
    if form.escapes and form.null[:1] == b"\\" and form.null[1:2] not in b"\\0nr" + sign:
        return False  # no value is written so
    return is_value(form.null if column.type.kind in BYTES else form.null.decode("utf-8", "replace"), column)
