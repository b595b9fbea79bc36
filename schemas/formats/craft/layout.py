"""What a Craft message is made of (upstream tiflow `pkg/sink/codec/craft/model.go`): taken apart and put together.

    uvarint version | headers | bodies | term dictionary | size tables | reversed uvarint: bytes of the size tables

TiDB's documentation and TiCDC's code differ in places; the code is followed: differences in delta chunks and the
lengths of nullable chunks are zig-zag, length -1 is NULL, the first size table is an ordinary one.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import accumulate

from ticdc_bridge.schemas.codec.bounded_cache import BoundedCache
from ticdc_bridge.schemas.codec.byte_signatures import with_body_name
from ticdc_bridge.schemas.codec.varint import uvarint as uvarint
from ticdc_bridge.schemas.codec.varint import zigzag as zigzag
from ticdc_bridge.schemas.formats.framing import check_size
from ticdc_bridge.schemas.model.errors import WireError
from ticdc_bridge.schemas.model.event import MAX_TSO
from ticdc_bridge.schemas.model.types import MAX_COLUMNS

# ---- Craft's numbers and chunks (upstream tiflow `pkg/sink/codec/craft/message_encoder.go`, `message_decoder.go`).
#
# A reader takes (data, position, end) and gives (value, next position); it reads nothing at or past `end`. A chunk of n
# elements carries no count: n is known from elsewhere and was compared with the bytes that are there. Longer spellings
# of a number than the shortest are accepted, as by TiCDC's own decoder.

MASK = (1 << 64) - 1
_SIGN = 1 << 63


def malformed_error(pos: int, details: str) -> WireError:
    """The error of what can't be right at a byte of the value."""
    return WireError("MALFORMED", where=f"value, byte {pos}", details=details)


def check_utf8(what: str, text: str) -> None:
    """WireError INVALID_VALUE for a name or statement that UTF-8 can't hold."""
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise WireError("INVALID_VALUE", column=ascii(what)[1:-1], details=f"{text[:80]!a} is not UTF-8") from error


def to_signed(number: int) -> int:
    """A uint64 as the int64 with the same bits."""
    return number - (1 << 64) if number & _SIGN else number


def unzigzag(number: int) -> int:
    return (number >> 1) ^ -(number & 1)


_UNZIGZAG = tuple(unzigzag(n) for n in range(128))


# ---------------------------------------------------------------------------------------------- reading
def read_uvarint(data: bytes, pos: int, end: int) -> tuple[int, int]:
    """Up to 64 bits, 7 a byte, low bits first. WireError MALFORMED when it is cut or longer than ten bytes."""
    if pos < end and (byte := data[pos]) < 0x80:
        return byte, pos + 1
    start, number, shift = pos, 0, 0
    while pos < end:
        byte = data[pos]
        pos += 1
        number |= (byte & 0x7F) << shift
        if byte < 0x80:
            if number > MASK:
                raise malformed_error(start, "a number has more than 64 bits")
            return number, pos
        shift += 7
        if shift > 63:
            raise malformed_error(start, "a number has more than ten bytes")
    raise malformed_error(start, "a number is cut off")


def read_uvarints(data: bytes, pos: int, end: int, count: int) -> tuple[Sequence[int], int]:
    """A uvarint chunk."""
    chunk = data[pos : pos + count]
    if pos + count <= end and chunk.isascii():  # all of one byte each: by far the commonest
        return chunk, pos + count
    numbers = []
    for _ in range(count):
        number, pos = read_uvarint(data, pos, end)
        numbers.append(number)
    return numbers, pos


def read_varints(data: bytes, pos: int, end: int, count: int) -> tuple[list[int], int]:
    """n zig-zag numbers one after another (the lengths of a nullable bytes chunk)."""
    numbers, pos = read_uvarints(data, pos, end, count)
    if isinstance(numbers, bytes):
        return [_UNZIGZAG[n] for n in numbers], pos
    return [(n >> 1) ^ -(n & 1) for n in numbers], pos


def read_delta_uvarints(data: bytes, pos: int, end: int, count: int) -> tuple[list[int], int]:
    """The first number, then differences modulo 2^64."""
    deltas, pos = read_uvarints(data, pos, end, count)
    return [number & MASK for number in accumulate(deltas)], pos


def read_delta_varints(data: bytes, pos: int, end: int, count: int) -> tuple[list[int], int]:
    """The first number, then zig-zag differences modulo 2^64."""
    deltas, pos = read_varints(data, pos, end, count)
    numbers, number = [], 0
    for delta in deltas:
        number += delta
        if not -_SIGN <= number < _SIGN:
            number = to_signed(number & MASK)
        numbers.append(number)
    return numbers, pos


def read_footer(data: bytes, first: int) -> tuple[int, int]:
    """The reversed uvarint at the end → (its number, its position). At most five bytes, none before `first`."""
    pos, number, shift = len(data), 0, 0
    while shift < 35:
        pos -= 1
        if pos < first:
            raise malformed_error(first, "the size of the size tables is cut off")
        number |= (data[pos] & 0x7F) << shift
        if data[pos] < 0x80:
            return number, pos
        shift += 7
    raise malformed_error(pos, "the size of the size tables has more than five bytes")


# ---------------------------------------------------------------------------------------------- writing
def varint(number: int) -> bytes:
    """int64 → zig-zag uvarint."""
    return uvarint(zigzag(number))


def uvarints(numbers: Iterable[int]) -> bytes:
    return b"".join(map(uvarint, numbers))


def varints(numbers: Iterable[int]) -> bytes:
    return b"".join(map(varint, numbers))


def delta_uvarints(numbers: Sequence[int]) -> bytes:
    return uvarints((n - before) & MASK for n, before in zip(numbers, (0, *numbers[:-1]), strict=True))


def delta_varints(numbers: Sequence[int]) -> bytes:
    return varints(to_signed((n - before) & MASK) for n, before in zip(numbers, (0, *numbers[:-1]), strict=True))


VERSION = 1
ROW, DDL, RESOLVED = 1, 2, 3
NEW, OLD = 1, 2
NO_PARTITION = NO_TERM = -1

MAX_EVENTS = 1 << 18  # an event can be as short as six bytes; TiCDC's default is 16 in a message
_KEPT_TERMS = 32 << 10  # bytes of a dictionary that is kept: what hostile messages can make us hold is bounded


@dataclass(frozen=True, slots=True, eq=False)
class Head:
    """The part of a column group that rows of one table share: names, type codes, flags, and its own bytes."""

    data: bytes
    names: tuple[str, ...]
    types: tuple[int, ...]
    flags: tuple[int, ...]


@dataclass(slots=True)
class RowImage:
    """One side of a row. lengths: of its values (-1: NULL), which follow one another from `pos` on."""

    head: Head
    lengths: list[int]
    pos: int


@dataclass(slots=True)
class RowEvent:
    db: str
    table: str
    commit_ts: int
    partition: int
    new: RowImage | None
    old: RowImage | None


@dataclass(slots=True)
class DdlBody:
    db: str
    table: str
    commit_ts: int
    type: int
    query: str


@dataclass(slots=True)
class ResolvedEvent:
    commit_ts: int


Part = RowEvent | DdlBody | ResolvedEvent


@dataclass(frozen=True, slots=True)
class _Terms:
    """A term dictionary, and the heads met with it (the same ids mean the same names)."""

    terms: tuple[str, ...]
    heads: list[Head]


class MessageParser:
    """Takes messages apart. Dictionaries and heads are kept: rows of a table repeat them byte for byte."""

    def __init__(self) -> None:
        self._terms: BoundedCache[bytes, _Terms] = BoundedCache(64)

    def parse(self, data: bytes) -> list[Part]:
        """A message → its events in order. WireError MALFORMED or TOO_LARGE, with the byte."""
        check_size(data, "value")
        if not data:
            raise malformed_error(0, "an empty message")
        version, start = read_uvarint(data, 0, len(data))
        if version != VERSION:
            raise malformed_error(0, with_body_name(f"Craft version {version} is not {VERSION}", data, json_read=False))
        size, footer = read_footer(data, start)
        if size > footer - start:
            raise malformed_error(footer, f"size tables of {size} bytes, {footer - start} are there")
        tables_at = footer - size
        (head_size, terms_size), sizes, groups = _size_tables(data, tables_at, footer)
        bodies_at = start + head_size
        terms_at = tables_at - terms_size
        if bodies_at + sum(sizes) != terms_at or terms_at < bodies_at:
            details = "headers, bodies and dictionary do not add up to what is before the size tables"
            raise malformed_error(tables_at, details)
        raw = data[terms_at:tables_at]
        dictionary = self._terms.get(raw)
        if dictionary is None:
            dictionary = _Terms(_terms(data, terms_at, tables_at), [])
            if len(raw) <= _KEPT_TERMS:
                self._terms[raw] = dictionary
        return self._events(data, start, bodies_at, sizes, groups, dictionary)

    def _events(
        self, data: bytes, pos: int, body: int, sizes: list[int], groups: list[list[int]], dictionary: _Terms
    ) -> list[Part]:
        count, start = len(sizes), pos
        stamps, pos = read_delta_uvarints(data, pos, body, count)
        types, pos = read_uvarints(data, pos, body, count)
        partitions, pos = read_delta_varints(data, pos, body, count)
        schemas, pos = read_delta_varints(data, pos, body, count)
        tables, pos = read_delta_varints(data, pos, body, count)
        if pos != body:
            raise malformed_error(pos, f"headers end {body - pos} bytes before their size")
        if max(stamps) > MAX_TSO:
            raise malformed_error(start, f"commit_ts {max(stamps)} is no TSO")
        terms = dictionary.terms
        for ids in (schemas, tables):
            if min(ids) < NO_TERM or max(ids) >= len(terms):
                raise malformed_error(start, f"a name's id is not among the {len(terms)} terms")
        rows = sum(t == ROW for t in types)
        if rows != len(groups):
            raise malformed_error(body, f"{len(groups)} tables of group sizes for {rows} rows")
        row_events: list[Part] = []
        row_groups = iter(groups)
        for stamp, kind, partition, schema, table, size in zip(
            stamps, types, partitions, schemas, tables, sizes, strict=True
        ):
            end = body + size
            db, name = (terms[i] if i >= 0 else "" for i in (schema, table))
            if kind == ROW:
                new, old = self._row(data, body, end, next(row_groups), dictionary)
                if not db or not name:
                    raise malformed_error(start, "a row without the name of its schema or table")
                row_events.append(RowEvent(db, name, stamp, partition, new, old))
            elif kind == DDL:
                ddl_type, pos = read_uvarint(data, body, end)
                length, pos = read_uvarint(data, pos, end)
                if length != end - pos:
                    raise malformed_error(pos, f"a query of {length} bytes, {end - pos} are there")
                row_events.append(DdlBody(db, name, stamp, ddl_type, text(data, pos, end)))
            elif kind == RESOLVED:
                if size:
                    raise malformed_error(body, "a resolved event with a body")
                row_events.append(ResolvedEvent(stamp))
            else:
                raise malformed_error(start, f"event type {kind} is not 1, 2 or 3")
            body = end
        return row_events

    def _row(
        self, data: bytes, pos: int, end: int, sizes: list[int], dictionary: _Terms
    ) -> tuple[RowImage | None, RowImage | None]:
        if len(sizes) > 2 or sum(sizes) != end - pos or min(sizes) < 2:
            raise malformed_error(pos, f"column groups of {sizes[:3]} bytes in a row of {end - pos}")
        images: dict[int, RowImage] = {}
        for size in sizes:
            kind = data[pos]
            if kind not in (NEW, OLD) or kind in images:
                raise malformed_error(pos, f"column group {kind} is not one new and one old")
            images[kind] = _group(data, pos + 1, pos + size, dictionary)
            pos += size
        return images.get(NEW), images.get(OLD)


def _size_tables(data: bytes, pos: int, end: int) -> tuple[list[int], list[int], list[list[int]]]:
    """→ sizes of headers and dictionary, of the bodies, and of the column groups row by row."""
    tables: list[list[int]] = []
    while pos < end:
        start = pos
        count, pos = read_uvarint(data, pos, end)
        if not 1 <= count <= end - pos:
            raise malformed_error(start, f"a size table of {count} entries in {end - pos} bytes")
        if len(tables) < 2 and count > MAX_EVENTS:
            raise WireError("TOO_LARGE", where=f"value, byte {start}", details=f"{count} events, at most {MAX_EVENTS}")
        sizes, pos = read_delta_varints(data, pos, end, count)
        if min(sizes) < 0 or max(sizes) > start:
            raise malformed_error(start, "a size is negative or larger than what is there")
        tables.append(sizes)
    if len(tables) < 2 or len(tables[0]) < 2:
        raise malformed_error(end, "size tables of headers, dictionary and bodies are not all there")
    return tables[0][:2], tables[1], tables[2:]


def _terms(data: bytes, pos: int, end: int) -> tuple[str, ...]:
    if pos == end:
        return ()
    start = pos
    count, pos = read_uvarint(data, pos, end)
    if not 1 <= count <= end - pos:
        raise malformed_error(start, f"{count} terms in {end - pos} bytes")
    lengths, pos = read_uvarints(data, pos, end, count)
    if sum(lengths) != end - pos:
        raise malformed_error(start, f"terms of {sum(lengths)} bytes, {end - pos} are there")
    terms = []
    for length in lengths:
        terms.append(text(data, pos, pos + length))
        pos += length
    return tuple(terms)


def text(data: bytes, pos: int, end: int) -> str:
    """UTF-8 text. WireError MALFORMED."""
    try:
        return data[pos:end].decode()
    except UnicodeDecodeError as error:
        raise malformed_error(pos + error.start, "not UTF-8") from error


def _group(data: bytes, pos: int, end: int, dictionary: _Terms) -> RowImage:
    """A column group after its kind: head, lengths, values; it must fill its size."""
    for head in dictionary.heads:
        if data.startswith(head.data, pos, end):
            break
    else:
        head = _head(data, pos, end, dictionary.terms)
        dictionary.heads[:] = (head, *dictionary.heads[:3])
    pos += len(head.data)
    lengths, pos = read_varints(data, pos, end, len(head.names))
    if min(lengths) < -1:
        raise malformed_error(pos, "a negative length")
    if sum(lengths) + lengths.count(-1) != end - pos:
        raise malformed_error(pos, f"values of {sum(lengths) + lengths.count(-1)} bytes, {end - pos} are there")
    return RowImage(head, lengths, pos)


def _head(data: bytes, pos: int, end: int, terms: tuple[str, ...]) -> Head:
    start = pos
    count, pos = read_uvarint(data, pos, end)
    if not 1 <= count <= min((end - pos) // 4, MAX_COLUMNS):
        raise malformed_error(start, f"{count} columns in {end - pos} bytes")
    ids, pos = read_delta_varints(data, pos, end, count)
    if min(ids) < 0 or max(ids) >= len(terms):
        raise malformed_error(start, f"a column name's id is not among the {len(terms)} terms")
    types, pos = read_uvarints(data, pos, end, count)
    flags, pos = read_uvarints(data, pos, end, count)
    names = tuple(terms[i] for i in ids)
    if len(set(names)) != count:
        raise malformed_error(start, "a column is there twice")
    return Head(data[start:pos], names, tuple(types), tuple(flags))


# ---------------------------------------------------------------------------------------------- writing
class Dictionary:
    """Terms by id, in the order of their first use."""

    def __init__(self) -> None:
        self._ids: dict[str, int] = {}

    def id(self, term: str) -> int:
        return self._ids.setdefault(term, len(self._ids))

    def optional(self, term: str) -> int:
        """The id, -1 for no name."""
        return self.id(term) if term else NO_TERM

    def data(self) -> bytes:
        if not self._ids:
            return b""
        terms = [term.encode() for term in self._ids]
        return uvarint(len(terms)) + uvarints(map(len, terms)) + b"".join(terms)


@dataclass(frozen=True, slots=True)
class RowCells:
    """One side of a row to be written; None is NULL."""

    names: Sequence[str]
    types: Sequence[int]
    flags: Sequence[int]
    contents: Sequence[bytes | None]


@dataclass(frozen=True, slots=True)
class RowOut:
    db: str
    table: str
    commit_ts: int
    partition: int
    new: RowCells | None
    old: RowCells | None

    def estimate(self) -> int:
        """TiCDC's estimate of the row's size, by which it cuts batches (upstream `rowChangedBuffer`)."""
        size = 32 + len(self.db.encode()) + len(self.table.encode())
        for image in (self.new, self.old):
            if image is not None:
                size += sum(len(name.encode()) for name in image.names) + 16 * len(image.names)
                size += sum(len(content) for content in image.contents if content)
        return size


def write_rows(rows: Sequence[RowOut]) -> bytes:
    """Rows → one message. Schema names get their ids first, then table names, then columns as they come."""
    terms = Dictionary()
    schemas = [terms.id(row.db) for row in rows]
    tables = [terms.id(row.table) for row in rows]
    groups = [[_write_group(k, image, terms) for k, image in ((NEW, r.new), (OLD, r.old)) if image] for r in rows]
    headers = _headers([r.commit_ts for r in rows], ROW, [r.partition for r in rows], schemas, tables)
    return _message(headers, [b"".join(g) for g in groups], terms.data(), [[len(g) for g in row] for row in groups])


def write_ddl(db: str, table: str, commit_ts: int, ddl_type: int, query: str) -> bytes:
    """One DDL event → its message."""
    terms = Dictionary()
    schemas, tables = [terms.optional(db)], [terms.optional(table)]
    data = query.encode()
    body = uvarint(ddl_type) + uvarint(len(data)) + data
    return _message(_headers([commit_ts], DDL, [NO_PARTITION], schemas, tables), [body], terms.data(), [])


def write_resolved(commit_ts: int) -> bytes:
    """One resolved event → its message."""
    return _message(_headers([commit_ts], RESOLVED, [NO_PARTITION], [NO_TERM], [NO_TERM]), [b""], b"", [])


def _headers(
    stamps: Sequence[int], kind: int, partitions: Sequence[int], schemas: Sequence[int], tables: Sequence[int]
) -> bytes:
    kinds = uvarints([kind] * len(stamps))
    return delta_uvarints(stamps) + kinds + b"".join(map(delta_varints, (partitions, schemas, tables)))


def _write_group(kind: int, cells: RowCells, terms: Dictionary) -> bytes:
    names = uvarint(len(cells.names)) + delta_varints([terms.id(name) for name in cells.names])
    lengths = varints(-1 if content is None else len(content) for content in cells.contents)
    head = (uvarint(kind), names, uvarints(cells.types), uvarints(cells.flags), lengths)
    return b"".join((*head, *filter(None, cells.contents)))


def _message(headers: bytes, bodies: Sequence[bytes], terms: bytes, groups: Sequence[Sequence[int]]) -> bytes:
    sizes = [[len(headers), len(terms)], [len(body) for body in bodies], *groups]
    tables = b"".join(uvarint(len(table)) + delta_varints(table) for table in sizes)
    return b"".join((uvarint(VERSION), headers, *bodies, terms, tables, uvarint(len(tables))[::-1]))
