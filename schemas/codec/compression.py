"""Snappy blocks, LZ4 frames and compressed files, bounded. The one place that imports the library (cramjam)."""

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
_SNAPPY_MAGIC = b"\xff\x06\x00\x00sNaPpY"
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


class _SnappyFrames(io.RawIOBase):
    """A file of Snappy frames (upstream snappy `framing_format.txt`) as what it holds, a frame at a time."""

    def __init__(self, file: IO[bytes]) -> None:
        self._file, self._rest = file, memoryview(b"")

    def readable(self) -> bool:
        return True

    def close(self) -> None:
        self._file.close()
        super().close()

    def readinto(self, buffer: Any) -> int:
        while not self._rest:
            head = self._file.read(4)
            if not head:
                return 0
            body = self._file.read(int.from_bytes(head[1:], "little"))
            if len(head) < 4 or len(body) < int.from_bytes(head[1:], "little"):
                raise EOFError("the file of Snappy frames is cut")
            if head + body == _SNAPPY_MAGIC or head[0] >= 0x80:
                continue
            try:  # with the mark in front the library checks the frame's checksum
                self._rest = memoryview(bytes(_library().snappy.decompress(_SNAPPY_MAGIC + head + body)))
            except _library().DecompressionError as error:
                raise OSError("a damaged Snappy frame") from error
        count = min(len(buffer), len(self._rest))
        buffer[:count], self._rest = self._rest[:count], self._rest[count:]
        return count


def unsnap_frames(file: IO[bytes]) -> IO[bytes]:
    """A file of Snappy frames, inflated as it is read. Reading raises what UNREADABLE lists."""
    return io.BufferedReader(_SnappyFrames(file))


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
    openers = {**OPENERS, _SNAPPY_MAGIC: unsnap_frames}
    content: bytes
    if data.startswith(ZSTD_MAGIC):
        library = _library()
        try:
            content = bytes(library.zstd.decompress(data))
        except library.DecompressionError as error:
            raise ValueError("not a Zstandard file, or a damaged one") from error
    elif opener := next((opener for magic, opener in openers.items() if data.startswith(magic)), None):
        try:
            content = opener(io.BytesIO(data)).read(most + 1)
        except UNREADABLE as error:
            raise ValueError("the compressed file is cut, or damaged") from error
    else:
        return data
    if len(content) > most:
        raise ValueError(f"it inflates to more than {most} bytes")
    return content
