"""Names for bytes that are no message of the format read, by how they begin.

Pipelines compress, encode or wrap messages. Sources: RFC 1950 to 1952 (zlib, deflate, gzip), RFC 8878 (Zstandard), the
framing format of google/snappy, lz4_Frame_format.md, Avro 1.12 (single objects, container files), RFC 3629 and Unicode
(byte order marks), Java's Object Serialization Stream Protocol, Confluent's wire format, TiCDC's formats.
"""

import base64
import binascii
import json
import re
import zlib
from collections.abc import Callable

from ticdc_bridge.schemas.codec import avro as binary
from ticdc_bridge.schemas.model.errors import Hint

# ---- Whether bytes are a message of TiCDC's Craft, by the size tables at their end (upstream tiflow `codec/craft`).


def craft_problem(value: bytes) -> str:
    """Why bytes that begin with 0x01 are no message of Craft; "" where its size tables fit it."""
    size = shift = 0
    pos = len(value) - 1
    while pos > 0 and shift < 63:  # a varint in reverse: read backwards, low group first
        byte = value[pos]
        size |= (byte & 0x7F) << shift
        pos -= 1
        if byte < 0x80:
            break
        shift += 7
    start = pos + 1 - size
    if not 1 <= start <= pos:
        return "it begins with 0x01 like Craft, but has no size tables at its end"
    try:
        # A count, then the first value and the differences: header bytes and dictionary bytes.
        at, numbers = start, list[int]()
        for _ in range(4):
            number, at = _uvarint(value, at, pos + 1)
            numbers.append(number)
        count, first, step, events = numbers
        if events * 6 > len(value):  # an event takes that many bytes in the header and the table
            raise ValueError(f"{events} events")
        bodies = total = 0
        for _ in range(events):
            delta, at = binary.read_long(value, at)
            bodies += delta
            total += bodies
    except (ValueError, binary.TruncatedValue):
        return "it begins with 0x01 like Craft, but its size tables can't be read"
    header, terms = (first >> 1) ^ -(first & 1), (step >> 1) ^ -(step & 1)
    if count != 2 or not events or 1 + header + header + terms + total != start:
        return "it begins with 0x01 like Craft, but its size tables do not fit the message"
    return ""


def _uvarint(data: bytes, pos: int, end: int) -> tuple[int, int]:
    """(the number, the position after it). ValueError."""
    number = shift = 0
    while pos < end and shift <= 63:
        byte = data[pos]
        number |= (byte & 0x7F) << shift
        pos, shift = pos + 1, shift + 7
        if byte < 0x80:
            return number, pos
    raise ValueError("a number goes on past the end")


_DECOMPRESS = "decompress it first"
_TO_UTF8 = "convert it to UTF-8 first"
_PREFIXES: tuple[tuple[bytes, str, str], ...] = (
    (b"\x1f\x8b", "gzip data", _DECOMPRESS),
    (b"\x28\xb5\x2f\xfd", "Zstandard (zstd) data", _DECOMPRESS),
    (b"\xff\x06\x00\x00sNaPpY", "framed Snappy (Snappy's framing format; TiCDC writes bare blocks)", _DECOMPRESS),
    (b"\x82SNAPPY\x00", "Snappy as Java's library frames it (snappy-java)", _DECOMPRESS),
    (b"\x04\x22\x4d\x18", "an LZ4 frame", _DECOMPRESS),
    (b"LZ4Block", "LZ4 as Java's library frames it (lz4-java)", _DECOMPRESS),
    (b"BZh", "bzip2 data", _DECOMPRESS),
    (b"\xfd7zXZ\x00", "xz data", _DECOMPRESS),
    (b"PK\x03\x04", "a ZIP archive", "unpack it first"),
    (b"Obj\x01", "an Avro container file", "write it to FILE.avro, which the command decode reads"),
    (b"\xc3\x01", "an Avro single object (0xc3 0x01 and a fingerprint, no schema id)",
     "only messages with a registry's schema id are read"),
    (b"PAR1", "a Parquet file", "write it to FILE.parquet, which the command decode reads"),
    (b"\xac\xed\x00\x05", "Java serialization", "use a JSON or Avro converter in the pipeline"),
    (b"\xff\xfe", "UTF-16 text (little-endian)", _TO_UTF8),
    (b"\xfe\xff", "UTF-16 text (big-endian)", _TO_UTF8),
    (b"{\x00", "UTF-16 text (little-endian)", _TO_UTF8),
    (b"\x00{\x00", "UTF-16 text (big-endian)", _TO_UTF8),
    (b"\xef\xbb\xbf", "text with a byte order mark (BOM)", "remove its first three bytes"),
    (b"\x03\x05", "AWS Glue's header with a compressed body", "read it as an Avro format"),
    (b"\x03\x00", "AWS Glue's header (0x03, and a schema's UUID)", "read it as an Avro format"),
)  # fmt: skip
"""First bytes, what they are, and what the user can do. The longer stands before the shorter."""
_BASE64 = re.compile(rb"[A-Za-z0-9+/_-]{8,}={0,2}\Z")
_PATTERNS: tuple[tuple[re.Pattern[bytes], str], ...] = (
    (re.compile(rb"\s*<(?:!doctype\s+html|html)\b", re.IGNORECASE),
     "an HTML page (an error page of a proxy?): look at what writes the topic"),
    (re.compile(rb"\s*<(?:\?xml|[A-Za-z!])"), "XML: choose a format that is read here"),
    (re.compile(rb"\"?[IUD]\"?[,|\t]\"?[^,|\t]+\"?[,|\t]"),
     "a line of CSV, as TiCDC's storage sink writes it: give its folder to the command decode"),
    (re.compile(rb"\s*(?!\d+\s*\Z)(?:0x|\\x)?(?:[0-9a-fA-F]{2}){8,}\s*\Z"), "hexadecimal text: decode it first"),
)  # fmt: skip
"""How texts begin, what they are, and what the user can do; the first that fits."""
_MOST_LOOKED_AT = 1 << 20


def name_body(data: bytes) -> str:
    """Names the bytes and says what to do about it ("gzip data: decompress it first"), "" where nothing tells.

    Only for bytes that could not be read: JSON, framed Avro and the like are named too, as what the format is not.
    Looks at the beginning, and parses a JSON document of at most 1 MiB.
    """
    if not data:
        return "an empty value (0 bytes), which is neither a message nor a tombstone (null)"
    for prefix, what, todo in _PREFIXES:
        if data.startswith(prefix):
            return f"{what}: {todo}"
    return next(filter(None, (recognise(data) for recognise in _RECOGNISERS)), "")


def with_body_name(reason: str, data: bytes, json_read: bool = True) -> str:
    """A reason why bytes could not be read, or what they are where that is known.

    json_read: the format is in JSON: of a JSON object the reason says more than its name.
    """
    if json_read and data[:1] == b"{" and data[1:2] != b"\x00":
        return reason
    what = name_body(data)
    return f"it is {what}" if what else reason


def _zlib(data: bytes) -> str:
    if data[0] & 0x0F != 8 or len(data) < 3 or int.from_bytes(data[:2], "big") % 31:
        return ""
    try:
        zlib.decompressobj().decompress(data[:4096], 16)
    except zlib.error:
        return ""
    return f"zlib data (deflate): {_DECOMPRESS}"


def _json_document(data: bytes) -> str:
    first = data.lstrip(b" \t\r\n")[:1]
    if first == b"[":
        return "a JSON array (a list): a message is one JSON object; write each element as a message of its own"
    if len(data) > _MOST_LOOKED_AT or first not in _JSON_BEGINS:
        return ""
    try:
        value = json.loads(data)
    except (ValueError, RecursionError):
        return ""
    if isinstance(value, str):
        inner = value.strip()
        if inner[:1] in ("{", "["):
            return "a JSON string that holds JSON (encoded twice): send the inner text as the message"
        if _base64(inner.encode("utf-8", "replace")):
            return "a JSON string that holds base64 (as Connect's JsonConverter writes bytes): send the decoded bytes"
        return "a JSON string, not a JSON object"
    if isinstance(value, dict):
        return "a JSON object: choose a format in JSON (debezium, canal-json, …), or auto"
    if value is None:
        return "the text null, which is neither a message nor a tombstone (Kafka's null)"
    return f"{'true or false' if isinstance(value, bool) else 'a number'} alone, not a JSON object"


_JSON_BEGINS = frozenset(bytes((byte,)) for byte in b'{"-0123456789tfn')


def _base64(data: bytes) -> str:
    text = data.strip().replace(b"\n", b"").replace(b"\r", b"")
    if not _BASE64.match(text) or text.isdigit() or (len(text.rstrip(b"=")) % 4) == 1:
        return ""
    try:
        inner = base64.b64decode(text.translate(_URL_SAFE) + b"=" * (-len(text) % 4), validate=True)
    except binascii.Error:
        return ""
    # A word of letters is base64, too: what it holds must begin like a message, or be long.
    if inner[:1] in (b"{", b"\x00", b"[") or len(text) > 64 or any(inner.startswith(p) for p, _, _ in _PREFIXES):
        return "base64 text: decode it first"
    return ""


_URL_SAFE = bytes.maketrans(b"-_", b"+/")


def is_open_value(data: bytes) -> bool:
    """True if bytes are values of the Open Protocol from the first to the last: a length of eight bytes, then JSON."""
    pos = 0
    while data[pos + 8 : pos + 10] == b'{"':
        pos += 8 + int.from_bytes(data[pos : pos + 8], "big")
    return bool(pos) and pos == len(data) and data.endswith(b"}")


def _ticdc(data: bytes) -> str:
    if data[:1] == b"\x01" and not craft_problem(data):
        return f"TiCDC's Craft: read it with {Hint.FORMAT.of('craft')}"
    is_key = data[:8] == (1).to_bytes(8, "big") and is_open_value(data[8:])
    return f"TiCDC's Open Protocol: read it with {Hint.FORMAT.of('open')}" if is_key or is_open_value(data) else ""


def _confluent(data: bytes) -> str:
    if data[:2] != b"\x00\x00" or len(data) < 6:  # an id beyond 16 million is another format's byte
        return ""
    if data[5:6] == b"{":
        return "JSON behind a schema id (0x00 and four bytes), as a JSON Schema converter writes it"
    schema_id = int.from_bytes(data[1:5], "big")
    return f"framed with schema id {schema_id} (Avro or Protobuf): choose an Avro format, or auto"


def _text(data: bytes) -> str:
    """Text of printable characters, whatever it says."""
    try:
        text = data[:4096].decode()
    except UnicodeDecodeError:
        return ""
    return "plain text, not JSON" if text.replace("\n", "").replace("\r", "").replace("\t", "").isprintable() else ""


def _protobuf(data: bytes) -> str:
    """Bytes that are fields of Protobuf from the first to the last, at least one of them with a length."""
    pos, kinds = 0, list[int]()
    try:
        while pos < len(data) and len(kinds) < 64:
            tag, pos = _uvarint(data, pos, len(data))
            kinds.append(tag & 7)
            if not 1 <= tag >> 3 <= 1000:
                return ""
            size, at = (0, pos) if kinds[-1] in (1, 5) else _uvarint(data, pos, len(data))
            pos = at + {0: 0, 1: 8, 2: size, 5: 4}[kinds[-1]]
    except (ValueError, LookupError):
        return ""
    if (len(kinds) < 64 and pos != len(data)) or len(kinds) < 2 or 2 not in kinds:
        return ""
    return "Protobuf, by its form (TiCDC's protocol=canal writes it): choose canal-json in the changefeed"


_RECOGNISERS: tuple[Callable[[bytes], str], ...] = (
    _zlib, _json_document, lambda data: next((what for pattern, what in _PATTERNS if pattern.match(data)), ""), _base64,
    _ticdc, _confluent, _protobuf, _text,
)  # fmt: skip
