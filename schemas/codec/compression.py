"""Snappy blocks, LZ4 frames and compressed files, bounded. The one place that imports the library (cramjam)."""

from __future__ import annotations

import bz2
import gzip
import io
import lzma
import zlib
from collections.abc import Callable
from typing import IO, Any, Final

from ticdc_bridge.schemas.model.reasons import reason_of

LZ4_MAGIC = b"\x04\x22\x4d\x18"
ZSTD_MAGIC = b"\x28\xb5\x2f\xfd"
OPENERS: Final[dict[bytes, Callable[[IO[bytes]], Any]]] = {
    b"\x1f\x8b": gzip.open,
    b"BZh": bz2.open,
    b"\xfd7zXZ\x00": lzma.open,
}
"""First bytes of a file → what opens it for its content, of those that Python knows."""
UNREADABLE: Final = (OSError, EOFError, zlib.error, lzma.LZMAError)
"""Errors of reading a file that is missing, or whose compressed content is damaged."""
_JSON = (b"{", b" ", b"\t", b"\r", b"\n")
_LZ4_GROWTH = 256  # a byte of LZ4 stands for 255 bytes at most


def _library() -> Any:
    try:
        import cramjam
    except ImportError as error:
        raise ValueError("it is compressed, and the library cramjam is not installed") from error
    return cramjam


def decompress(data: bytes, most: int) -> bytes:
    """A JSON document as it is, or what a Snappy block or LZ4 frame holds: `large-message-handle-compression`.

    ValueError for neither, and for more than `most` bytes. A Snappy block can't begin like a JSON object: 0x22 or 0x7d
    after its length would copy from nowhere.
    """
    if data[:2] in (b'{"', b"{}") or not data:
        return data
    try:
        return unlz4(data, most) if data[:4] == LZ4_MAGIC else unsnap(data, most)
    except ValueError as error:
        if data[:1] in _JSON:
            return data
        raise ValueError(f"neither JSON nor compressed as TiCDC does: {reason_of(error)}") from error


def unsnap(data: bytes, most: int) -> bytes:
    """A Snappy block → its content. ValueError when it is none, or inflates to more than `most` bytes."""
    size, shift = 0, 0
    for byte in data[:5]:
        size |= (byte & 0x7F) << shift
        shift += 7
        if byte < 0x80:
            break
    else:
        raise ValueError("not a Snappy block")
    # Three bytes (a copy) stand for 64 at most.
    if size > most or size > len(data) * 64:
        raise ValueError(f"a Snappy block that claims {size} bytes")
    try:
        return bytes(_library().snappy.decompress_raw(data))
    except _library().DecompressionError as error:
        raise ValueError("not a Snappy block, or a damaged one") from error


def unlz4(data: bytes, most: int) -> bytes:
    """An LZ4 frame → its content. ValueError when it is none, is cut, or inflates to more than `most` bytes."""
    library = _library()
    room = bytearray(min(most, len(data) * _LZ4_GROWTH))
    try:
        size = library.lz4.decompress_into(data, room)
    except library.DecompressionError as error:
        raise ValueError(f"a damaged LZ4 frame, or one of more than {most} bytes") from error
    return bytes(memoryview(room)[:size])


def snap(data: bytes) -> bytes:
    """Bytes → a Snappy block."""
    return bytes(_library().snappy.compress_raw(data))


def lz4(data: bytes) -> bytes:
    """Bytes → an LZ4 frame."""
    return bytes(_library().lz4.compress(data))


def inflate_file(data: bytes, most: int) -> bytes:
    """A file's content, as it is where it is not compressed. ValueError for damage, and for more than `most` bytes."""
    if data.startswith(LZ4_MAGIC):
        return unlz4(data, most)
    content: bytes
    if data.startswith(ZSTD_MAGIC):
        library = _library()
        try:
            content = bytes(library.zstd.decompress(data))
        except library.DecompressionError as error:
            raise ValueError("not a Zstandard file, or a damaged one") from error
    elif opener := next((opener for magic, opener in OPENERS.items() if data.startswith(magic)), None):
        try:
            content = opener(io.BytesIO(data)).read(most + 1)
        except UNREADABLE as error:
            raise ValueError("the compressed file is cut, or damaged") from error
    else:
        return data
    if len(content) > most:
        raise ValueError(f"it inflates to more than {most} bytes")
    return content
