"""Avro object container files: archives of topics read as messages, and one table's rows written (Avro 1.12).

Kafka Connect's S3 and HDFS sinks keep a message's value as a record, without its header. A message read here has one
again, of AWS Glue's form: the id is made of the schema's text, so that no registry's id can be taken for it. Nothing is
allocated before its size was compared with what a file may have. The one place that imports fastavro.
"""

import bz2
import hashlib
import io
import lzma
import zlib
from collections.abc import Callable, Iterable, Iterator
from itertools import pairwise
from pathlib import Path
from typing import IO, Any, NamedTuple, NoReturn
from uuid import UUID

from ticdc_bridge.schemas.codec import avro as binary
from ticdc_bridge.schemas.codec import compression
from ticdc_bridge.schemas.codec.avro_schema import SchemaType, map_reader, parse_schema, reader
from ticdc_bridge.schemas.formats.avro.schema import BEFORE
from ticdc_bridge.schemas.formats.framing import MAX_MESSAGE, frame
from ticdc_bridge.schemas.model.errors import SetupError
from ticdc_bridge.schemas.model.event import Message
from ticdc_bridge.schemas.model.reasons import reason_of, usage_errors
from ticdc_bridge.spark_jobs.io.archive_files import origin_of
from ticdc_bridge.spark_jobs.io.message_files import AtomicFile

_MAGIC = b"Obj\x01"
_SYNC = 16  # bytes of the marker after the header and after each block
_MOST_HEADER, _MOST_BLOCK = 16 << 20, MAX_MESSAGE + (1 << 20)
_FULL_BLOCK = 1 << 16  # bytes after which a block is written
_METADATA = map_reader(binary.read_bytes)
_ENVELOPE = {"key", "value", "offset", "partition", "topic", "timestamp", "headers"}
_IN_ENVELOPE = (
    "each record has a message's value among other fields: let the sink write values alone "
    "(Aiven's: format.output.fields=value, format.output.envelope=false)"
)


class ArchivedSchema(NamedTuple):
    """The schema of files' records, the id and subject of its messages, and its version: the newest has the highest."""

    subject: str
    version: int
    id: str
    schema: str
    has_deletes: bool
    """Whether a delete is a record, too: those of TiCDC's Avro without the old row are null values."""


def archived_schemas(files: Iterable[Path]) -> list[ArchivedSchema]:
    """The schemas of an archive's files (each partition's in order), the oldest first. SetupError USAGE.

    Older is what Connect numbered lower (`connect.version`, the registry's version), or what came first in a partition.
    """
    found: dict[tuple[str, str], tuple[str, SchemaType]] = {}  # by subject and id
    sequences: dict[tuple[Any, ...], dict[str, None]] = {}  # ids in order, by record and partition
    for path in files:
        with _opened(path) as file:
            container = _Container(file, path)
        topic, partition, _ = origin_of(path)
        record = container.record.props
        found.setdefault((f"{topic}-value", container.id), (container.schema, container.record))
        partition_key = (topic, partition) if partition >= 0 else ()
        sequences.setdefault((record.get("namespace"), record["name"], *partition_key), {})[container.id] = None
    age = dict.fromkeys((id_ for _, id_ in found), 0)
    for _ in age:  # as many times as the longest chain of "came after" can be
        for ids in sequences.values():
            for older, newer in pairwise(ids):
                age[newer] = max(age[newer], age[older] + 1)

    def by_age(item: tuple[tuple[str, str], tuple[str, SchemaType]]) -> tuple[int, int]:
        numbered = item[1][1].props.get("connect.version")
        return numbered if isinstance(numbered, int) else 0, age[item[0][1]]

    return [
        ArchivedSchema(subject, number, id_, text, not {"before", BEFORE}.isdisjoint(f.name for f in record.fields))
        for number, ((subject, id_), (text, record)) in enumerate(sorted(found.items(), key=by_age), 1)
    ]


def read_archive(path: Path) -> Iterator[Message]:
    """The records of a file as messages without a key, in order. SetupError USAGE for a damaged file.

    topic and partition: as the sinks name their files; the offsets of all but the first record are not known.
    """
    topic, partition, _ = origin_of(path)
    with _opened(path) as file:
        container = _Container(file, path)
        for record in container.records():
            value = frame(container.id, record)
            yield Message(None, value, topic, partition) if partition >= 0 else Message(None, value)


def _opened(path: Path) -> IO[bytes]:
    with usage_errors(path):
        return path.open("rb")


class _Container:
    """A file whose header was read: its schema's text and id, and its records, block by block."""

    def __init__(self, file: IO[bytes], path: Path) -> None:
        self._file, self._path = file, path
        if self._take(len(_MAGIC), "its first four bytes") != _MAGIC:
            self._fail("an Avro container begins with Obj and 0x01, this does not", at=0)
        metadata = self._read_metadata()
        self._sync = self._take(_SYNC, "the header")
        codec, self.schema = metadata.get("avro.codec", "null"), metadata.get("avro.schema", "")
        if codec not in _INFLATE:
            known = ", ".join(_INFLATE)
            self._refuse(f"its codec is {codec[:40]!r}, read are {known}: write it again with one of them")
        self._inflate = _INFLATE[codec]
        if not self.schema:
            self._refuse("the header has no avro.schema: what the records are can't be known")
        try:
            self.record = parse_schema(self.schema)
            if self.record.kind != "record":
                raise ValueError(f"a record is needed, this is a {self.record.kind}")
            names = {f.name for f in self.record.fields}
            if names <= _ENVELOPE and "value" in names:
                raise ValueError(_IN_ENVELOPE)
            self._ends = _ends_of(self.record)
        except ValueError as error:
            self._refuse(f"its schema is neither TiCDC's nor Debezium's: {reason_of(error)}"[:300])
        self.id = str(UUID(bytes=hashlib.sha256(self.schema.encode("utf-8", "surrogateescape")).digest()[:16]))

    def records(self) -> Iterator[bytes]:
        """Each record's bytes."""
        while self._file.read(1):
            start = self._file.seek(-1, io.SEEK_CUR)
            count, size = self._long("a block's count of records"), self._long("a block's size")
            if not 0 <= size <= _MOST_BLOCK:
                self._fail(f"a block of {size} bytes, at most {_MOST_BLOCK}", start)
            block = self._take(size, f"a block of {size} bytes")
            if self._take(_SYNC, "a block's sync marker") != self._sync:
                self._fail("the block does not end with the file's sync marker", start)
            try:
                data = self._inflate(block)
                if not 0 <= count <= len(data):  # a record has a byte at least
                    raise ValueError(f"{count} records in {len(data)} bytes")
            except (ValueError, OSError, EOFError, zlib.error, lzma.LZMAError) as error:
                self._fail(f"the block can't be read: {reason_of(error)}"[:300], start)
            pos, ends = 0, self._ends(data)
            for number in range(count):
                try:
                    end = next(ends)
                    if not pos < end <= len(data):
                        raise ValueError("the block ends in it")
                except (binary.TruncatedValue, ValueError, EOFError, LookupError, OverflowError) as error:
                    reason = f"record {number} of {count} of the block can't be read: {reason_of(error)}"
                    self._fail(reason[:300], start)
                yield data[pos:end]
                pos = end
            if pos != len(data):
                self._fail(f"{len(data) - pos} bytes are left in the block after its {count} records", start)

    def _read_metadata(self) -> dict[str, str]:
        """The header's map. Its end is not known before: as much is read as it needs, up to _MOST_HEADER bytes."""
        start, head = self._file.tell(), b""
        while True:
            more = self._file.read(max(len(head), 1 << 16))
            head += more
            try:
                pairs, end = _METADATA(head, 0)
                break
            except binary.TruncatedValue as cut:
                if not more:
                    self._fail(f"the file ends in its header: {cut}", start)
                if len(head) > _MOST_HEADER:
                    self._fail(f"its header has more than {_MOST_HEADER} bytes", start)
            except ValueError as error:
                self._fail(f"its header can't be read: {reason_of(error)}"[:300], start)
        self._file.seek(start + end)
        return {name: value.decode("utf-8", "surrogateescape") for name, value in pairs.items()}

    def _long(self, name: str) -> int:
        start = self._file.tell()
        try:
            number, size = binary.read_long(self._file.read(11), 0)
        except (binary.TruncatedValue, ValueError) as error:
            self._fail(f"{name}: {error}", start)
        self._file.seek(start + size)
        return number

    def _take(self, size: int, name: str) -> bytes:
        start, data = self._file.tell(), self._file.read(size)
        if len(data) < size:
            self._fail(f"the file ends in {name}: {len(data)} bytes are there", start)
        return data

    def _refuse(self, reason: str) -> NoReturn:
        raise SetupError("USAGE", details=f"{self._path}: {reason}")

    def _fail(self, reason: str, at: int) -> NoReturn:
        self._refuse(f"at byte {at}: {reason}; no message after it is read: fetch the file again")


def _ends_of(schema: SchemaType) -> Callable[[bytes], Iterator[int]]:
    """What finds the ends of a block's records, one after another. ValueError for a schema whose values have no bytes.

    fastavro reads a record in a fraction of the time that ours takes, but trusts the counts of arrays.
    """
    try:
        shape = _shape_of(schema, [])
    except _ArrayError:
        read = reader(schema, str)

        def ends_by_reading(data: bytes) -> Iterator[int]:
            pos = 0
            while True:
                pos = read(data, pos)[1]
                yield pos

        return ends_by_reading
    import fastavro

    written = fastavro.parse_schema(shape)

    def ends(data: bytes) -> Iterator[int]:
        stream = io.BytesIO(data)
        while True:
            fastavro.schemaless_reader(stream, written, None)
            yield stream.tell()

    return ends


class _ArrayError(Exception):
    pass


def _shape_of(schema: SchemaType, seen: list[int]) -> Any:
    """A schema's kinds alone, texts as bytes: names, defaults and logical types say nothing of where a value ends."""
    if schema.kind == "array":
        raise _ArrayError
    if schema.kind == "union":
        return [b.kind if b.kind == "null" else _shape_of(b, seen) for b in schema.branches]
    if schema.kind != "record":
        if schema.kind == "null":
            raise ValueError("a field that is always null")
        return "bytes" if schema.kind == "string" else schema.kind
    name = f"r{id(schema)}"
    if id(schema) in seen:
        return name
    seen.append(id(schema))
    if not schema.fields:
        raise ValueError("a record without fields")
    fields = [{"name": f"f{number}", "type": _shape_of(f.type, seen)} for number, f in enumerate(schema.fields)]
    return {"type": "record", "name": name, "fields": fields}


# ---- codecs: the bytes of a block → its content, at most _MOST_BLOCK bytes
def _inflate_by(make: Callable[[], Any]) -> Callable[[bytes], bytes]:
    def inflate(block: bytes) -> bytes:
        stream = make()
        data: bytes = stream.decompress(block, _MOST_BLOCK)
        if not stream.eof:
            more = "inflated it has more than" if len(data) >= _MOST_BLOCK else "it is cut after"
            raise ValueError(f"{more} {len(data)} bytes")
        return data

    return inflate


def _unsnap(block: bytes) -> bytes:  # the CRC-32 of the content is after it
    data = compression.unsnap(block[:-4], _MOST_BLOCK)
    if zlib.crc32(data).to_bytes(4, "big") != block[-4:]:
        raise ValueError("its CRC-32 is that of another content")
    return data


_INFLATE: dict[str, Callable[[bytes], bytes]] = {
    "null": bytes,
    "deflate": _inflate_by(lambda: zlib.decompressobj(-15)),
    "snappy": _unsnap,
    "bzip2": _inflate_by(bz2.BZ2Decompressor),
    "xz": _inflate_by(lambda: lzma.LZMADecompressor(memlimit=_MOST_BLOCK)),
}


# ---- writing
class ArchiveWriter(AtomicFile):
    """Values without their messages' headers to FILE.avro in blocks (deflate): all or nothing, and reproducible."""

    def __init__(self, path: Path, schema: str) -> None:
        super().__init__(path, "Avro")
        self._records, self._size = list[bytes](), 0
        text = schema.encode()
        self._sync = hashlib.sha256(text).digest()[:_SYNC]
        entries = ((b"avro.schema", text), (b"avro.codec", b"deflate"))
        pairs = b"".join(binary.write_bytes(name) + binary.write_bytes(value) for name, value in entries)
        with usage_errors(path):
            self._file = self._partial.open("wb")
            self._file.write(_MAGIC + binary.write_long(len(entries)) + pairs + b"\x00" + self._sync)

    def write(self, message: Message) -> None:
        self._records.append(message.value or b"")
        self._size += len(self._records[-1])
        if self._size >= _FULL_BLOCK:
            self._flush()

    def _flush(self) -> None:
        stream = zlib.compressobj(wbits=-15)
        block = stream.compress(b"".join(self._records)) + stream.flush()
        head = binary.write_long(len(self._records)) + binary.write_long(len(block))
        self._file.write(head + block + self._sync)
        self._records.clear()
        self._size = 0

    def close(self) -> None:
        """Complete: the file gets its name."""
        if self._records:
            self._flush()
        super().close()
