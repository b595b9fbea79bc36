"""Message files: Kafka records as JSON lines or Parquet, and where they are read from and written to."""

import codecs
import io
import json
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC
from itertools import chain
from pathlib import Path
from typing import IO, Any

from ticdc_bridge.schemas.codec.compression import LZ4_MAGIC, OPENERS, UNREADABLE, ZSTD_MAGIC
from ticdc_bridge.schemas.formats.framing import MAX_MESSAGE
from ticdc_bridge.schemas.inputs.message_lines import has_several_objects
from ticdc_bridge.schemas.inputs.message_lines import message_line as message_line
from ticdc_bridge.schemas.inputs.message_lines import parse_line as parse_line
from ticdc_bridge.schemas.model.errors import SetupError, WireError
from ticdc_bridge.schemas.model.event import Message
from ticdc_bridge.schemas.model.reasons import usage_errors
from ticdc_bridge.schemas.plain.writer import json_line
from ticdc_bridge.spark_jobs.io.object_paths import ObjectPath, arrow_source, partial_path_for

MAX_LINE = MAX_MESSAGE * 3
# Of a Parquet file.
NO_KEY_OR_VALUE = "{path}: no column {missing}; a message file has key and value in binary"
OTHER_TYPES = "{path}: a message file has key and value in binary, and headers as key and value too"


def read_messages(path: Path) -> Iterator[Message | tuple[WireError, Message]]:
    """The messages of a file, in order; a line that is none comes as (error, message with the line as its value).

    A file that begins with a list, or an object over lines, is of JSON documents: at most _MOST_DOCUMENT bytes.
    SetupError USAGE when it can't be read.
    """
    if path.suffix == ".parquet":
        yield from _read_parquet(path)
        return
    if path.suffix == ".avro":
        from ticdc_bridge.spark_jobs.io.avro_files import read_archive

        yield from read_archive(path)
        return
    with usage_errors(path, *UNREADABLE), opened(path) as file:
        lines = iter(lambda: file.readline(MAX_LINE), b"")
        numbered = ((number, line) for number, line in enumerate(lines, 1) if line.strip())
        first = next(numbered, None)
        if first is not None and _begins_document(first[1]):
            pieces = _documents(first[1] + file.read(_MOST_DOCUMENT + 1), first[0], path)
        else:
            pieces = numbered if first is None else chain((first,), numbered)
        for number, line in pieces:
            try:
                yield parse_line(line, f"{path.name}:{number}")
            except WireError as error:
                yield error, Message(None, line.rstrip(b"\r\n"))


def is_plain_lines(path: Path) -> bool:
    """True if a file is lines as they are: neither compressed nor a JSON document. SetupError USAGE."""
    with usage_errors(path), path.open("rb") as file:
        head = file.read(_LONGEST_MAGIC)
        if any(head.startswith(magic) for magic in _COMPRESSED):
            return False
        file.seek(0)
        first = next((line for line in iter(lambda: file.readline(MAX_LINE), b"") if line.strip()), b"")
        return not _begins_document(first)


@contextmanager
def opened(path: Path) -> Iterator[IO[bytes]]:
    """The file's content, inflated where it is compressed. OSError; SetupError USAGE without the library for it."""
    with path.open("rb") as file:
        head = file.peek(_LONGEST_MAGIC)[:_LONGEST_MAGIC]
        inflate = next((how for magic, how in _COMPRESSED.items() if head.startswith(magic)), None)
        if inflate is None:
            yield file
            return
        with inflate(file) as content:
            yield content


def _inflate_by_arrow(codec: str) -> Callable[[IO[bytes]], Any]:
    def inflate(file: IO[bytes]) -> Any:
        try:
            import pyarrow
        except ImportError as error:
            details = f"{file.name}: it is compressed ({codec}), and the library pyarrow is not installed"
            raise SetupError("USAGE", details=details) from error
        pa: Any = pyarrow  # the stubs know less than the library
        return io.BufferedReader(pa.CompressedInputStream(pa.PythonFile(file, "r"), codec), 1 << 16)

    return inflate


class _Utf16Text(io.RawIOBase):
    """Text in UTF-16, as Windows' PowerShell writes it (`… > FILE`), read as UTF-8."""

    def __init__(self, file: IO[bytes]) -> None:
        self._text, self._left, self._name = io.TextIOWrapper(file, "utf-16", newline=""), b"", file.name

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        try:
            data = self._left or self._text.read(1 << 16).encode()
        except UnicodeError as error:
            raise SetupError("USAGE", details=f"{self._name}: its UTF-16 text is damaged, or cut") from error
        count = min(len(buffer), len(data))
        buffer[:count], self._left = data[:count], data[count:]
        return count


_COMPRESSED: dict[bytes, Callable[[IO[bytes]], Any]] = {
    **OPENERS,
    ZSTD_MAGIC: _inflate_by_arrow("zstd"),
    LZ4_MAGIC: _inflate_by_arrow("lz4"),
    **dict.fromkeys((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE), lambda file: io.BufferedReader(_Utf16Text(file))),
}
"""First bytes of a file → what inflates it, or makes UTF-8 of it."""
_LONGEST_MAGIC = max(map(len, _COMPRESSED))
_MOST_DOCUMENT = 256 << 20


def _begins_document(line: bytes) -> bool:
    """True if a file's first line begins a JSON list or an object of several lines, or has several messages."""
    text = line.strip().removeprefix(b"\xef\xbb\xbf")
    return text[:1] == b"[" or text == b"{" or has_several_objects(text)


def _documents(data: bytes, number: int, path: Path) -> Iterator[tuple[int, bytes]]:
    """JSON documents one after another, lists taken apart → (line, text) of each. What is none is the last."""
    if len(data) > _MOST_DOCUMENT:
        details = (
            f"{path}: a JSON document of more than {_MOST_DOCUMENT >> 20} MiB: write a message a line (jq -c '.[]')"
        )
        raise SetupError("USAGE", details=details)
    text = data.decode("utf-8", "surrogateescape").removeprefix("\ufeff")
    find_end, pos, at, depth = json.JSONDecoder().raw_decode, 0, 0, 0
    while True:
        start, pos = pos, _SEPARATORS.match(text, pos).end()  # type: ignore[union-attr]
        depth += text.count("[", start, pos) - text.count("]", start, pos)
        if pos == len(text):
            if depth:
                raise SetupError("USAGE", details=f"{path}: the JSON list does not end: the file is cut, or damaged")
            return
        try:
            _, end = find_end(text, pos)
        except (ValueError, RecursionError):
            end = 0
        number, at = number + text.count("\n", at, pos), pos
        yield number, text[pos : end or None].encode("utf-8", "surrogateescape")
        if not end:  # no JSON from here on
            return
        pos = end


_SEPARATORS = re.compile(r"[\s\[\],]*")
"""What stands before, between and after the messages of a document."""


def _read_parquet(path: Path) -> Iterator[Message]:
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        with pq.ParquetFile(arrow_source(path)) as file:
            missing = {"key", "value"} - set(file.schema_arrow.names)
            if missing:
                raise SetupError("USAGE", details=NO_KEY_OR_VALUE.format(path=path, missing=", ".join(sorted(missing))))
            if not _has_kafkas_types(file.schema_arrow, pa):
                raise SetupError("USAGE", details=OTHER_TYPES.format(path=path))
            for batch in file.iter_batches(4096):
                yield from map(message_of_row, rows_of(batch))
    except FileNotFoundError as error:
        raise SetupError("USAGE", details=f"{path}: No such file or directory") from error
    except (OSError, pa.ArrowException) as error:
        raise SetupError("USAGE", details=f"{path}: {error}") from error


def _has_kafkas_types(schema: Any, pa: Any) -> bool:
    if any(schema.field(name).type not in (pa.binary(), pa.large_binary(), pa.null()) for name in ("key", "value")):
        return False
    kind = schema.field("headers").type if "headers" in schema.names else pa.null()
    is_list = pa.types.is_list(kind) and pa.types.is_struct(kind.value_type)
    return pa.types.is_null(kind) or (is_list and {field.name for field in kind.value_type} == {"key", "value"})


def rows_of(batch: Any) -> list[dict[str, Any]]:
    """An Arrow batch's rows, but Kafka's timestamp, and that in `source`, in ms: Python's times end with year 9999."""
    import pyarrow as pa

    names = batch.schema.names
    if "timestamp" in names and pa.types.is_timestamp(batch.schema.field("timestamp").type):
        index = names.index("timestamp")
        batch = batch.set_column(index, "timestamp", _to_ms(batch.column(index)))
    if "source" in names and pa.types.is_struct(batch.schema.field("source").type):
        index = names.index("source")
        source = batch.column(index)
        pieces = [_to_ms(a) if pa.types.is_timestamp(a.type) else a for a in source.flatten()]
        fields = [pa.field(f.name, a.type) for f, a in zip(source.type, pieces, strict=True)]
        sources = pa.StructArray.from_arrays(pieces, fields=fields, mask=source.is_null())
        batch = batch.set_column(index, "source", sources)
    rows: list[dict[str, Any]] = batch.to_pylist()
    return rows


_PER_MS = {"ms": 1, "us": 1000, "ns": 1_000_000}


def _to_ms(times: Any) -> Any:
    """Arrow timestamps → int64 of ms, as `round` has them."""
    import numpy as np
    import pyarrow as pa

    if times.type.unit == "s":
        return times.cast(pa.timestamp("ms", times.type.tz)).cast(pa.int64())
    per = _PER_MS[times.type.unit]
    units, rest = np.divmod(np.asarray(times.cast(pa.int64()).fill_null(0)), per)
    up = (rest * 2 > per) | ((rest * 2 == per) & (units % 2 == 1))
    return pa.array(units + up, mask=np.asarray(times.is_null()))


def message_of_row(row: dict[str, Any]) -> Message:
    """A row with Kafka's columns (Parquet, Arrow) → message; timestamp in ms or as a datetime."""
    timestamp = row.get("timestamp")
    if timestamp is not None and not isinstance(timestamp, int):
        zoned = timestamp if timestamp.tzinfo else timestamp.replace(tzinfo=UTC)
        timestamp = round(zoned.timestamp() * 1000)
    if timestamp is not None and timestamp < 0:  # Kafka's word for none, which Spark takes for a time
        timestamp = None
    headers = tuple((h["key"], h["value"]) for h in row.get("headers") or ())
    return Message(
        row["key"], row["value"], row.get("topic"), row.get("partition"), row.get("offset"), timestamp, headers
    )


def partial_path_of(path: Path) -> tuple[Path, Path | None]:
    """(the file of a name, what it is written to until it is complete; None: a pipe, a device). SetupError USAGE."""
    if path.is_dir():
        raise SetupError("USAGE", details=f"{path}: it is a folder")
    if path.exists() and not path.is_file():
        return path, None
    if isinstance(path, ObjectPath):
        path.check_bucket()
        return path, partial_path_for(path)
    path = path.resolve()
    return path, path.with_name(f".{path.name}.part")


def finish(partial: Path, path: Path) -> None:
    """What was written as a part gets its name. SetupError STORE_UNREACHABLE of an object."""
    if isinstance(path, ObjectPath):
        path.put(partial)
    else:
        partial.replace(path)


class AtomicFile:
    """A file that appears under its name only when it is complete; whoever fills it opens `_part` as `_file`."""

    _file: Any

    def __init__(self, path: Path, kind: str) -> None:
        """kind: what is written, for the error. SetupError USAGE for a place that is no file."""
        self._path, partial = partial_path_of(path)
        if partial is None:
            raise SetupError("USAGE", details=f"{path}: {kind} needs a file")
        self._partial = partial

    def close(self) -> None:
        """Complete: the file gets its name."""
        self._file.close()
        finish(self._partial, self._path)

    def abandon(self) -> None:
        """Not complete: an older file stays as it was."""
        self._file.close()
        self._partial.unlink(missing_ok=True)


class LineWriter:
    """Writes objects as JSON lines to a file or a stream. A file appears under its name only when it is complete."""

    def __init__(self, target: Path | IO[str]) -> None:
        self._path: Path | None = None
        self._partial: Path | None = None
        self._written = 0
        if isinstance(target, Path):
            self._path, self._partial = partial_path_of(target)
            with usage_errors(target):
                self._file: IO[str] = (self._partial or target).open("w", encoding="utf-8")
        else:
            self._file = target

    def write(self, value: dict[str, Any]) -> None:
        self.write_text(json_line(value))

    def write_text(self, line: str) -> None:
        self._written += 1
        self._file.write(line + "\n")

    def close(self) -> None:
        """Complete: the file gets its name."""
        if self._path is None:
            self._file.flush()
            return
        self._file.close()
        if self._partial is not None:
            finish(self._partial, self._path)

    def abandon(self) -> None:
        """Not complete: what was written stays beside a file, as `.NAME.part`, and what was there stays as it was."""
        if self._partial is not None and self._path is not None:
            self._file.close()
            if not self._written or isinstance(self._path, ObjectPath):
                self._partial.unlink(missing_ok=True)
