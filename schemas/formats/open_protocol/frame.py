"""The frame of a message: version and (length, body) pairs (upstream ticdc `open/encoder.go`).

key = uint64 version | { uint64 length | key }*, value = { uint64 length | value }*; big-endian, matched by position.
"""

from collections.abc import Iterable

from ticdc_bridge.schemas.codec.byte_signatures import name_body, with_body_name
from ticdc_bridge.schemas.formats.framing import check_size
from ticdc_bridge.schemas.model.errors import WireError

VERSION = 1
_HEAD = VERSION.to_bytes(8, "big")


def begins(key: bytes) -> bool:
    """True if bytes begin as a key does."""
    return key.startswith(_HEAD)


def split_key(data: bytes) -> list[bytes]:
    """A message's key → the keys of its events. WireError NOT_FRAMED, TRUNCATED, TOO_LARGE."""
    check_size(data, "key")
    if len(data) >= 8 and data[:8] != _HEAD:
        details = with_body_name(f"protocol version {int.from_bytes(data[:8], 'big')}, not 1", data, json_read=False)
        raise WireError("NOT_FRAMED", where="key", details=details)
    if len(data) < 8:
        raise _truncated_error(data, "key", "the version", 8, len(data))
    out = []
    at, end = 8, len(data)
    while at < end:
        body, at = _piece(data, at, "key")
        out.append(body)
    if not out:
        raise WireError("MALFORMED", where="key", details="it has no event")
    return out


def split_value(data: bytes, count: int) -> list[bytes]:
    """A message's value → the values of `count` events. WireError TRUNCATED, TRAILING_BYTES, TOO_LARGE."""
    check_size(data, "value")
    out, at = [], 0
    for _ in range(count):
        body, at = _piece(data, at, "value")
        out.append(body)
    if at != len(data):
        raise WireError("TRAILING_BYTES", where="value", count=len(data) - at)
    return out


def _piece(data: bytes, at: int, where: str) -> tuple[bytes, int]:
    start = at + 8
    if start > len(data):
        raise _truncated_error(data, where, "a length", 8, len(data) - at)
    end = start + int.from_bytes(data[at:start], "big")
    if end > len(data):
        raise _truncated_error(data, where, "an event", end - start, len(data) - start)
    return data[start:end], end


def _truncated_error(data: bytes, where: str, field: str, needed: int, have: int) -> WireError:
    """Cut, or something else: a length and a version begin with a zero byte, as only huge ones do not."""
    if data and data[0] and (what := name_body(data)):
        return WireError("NOT_FRAMED", where=where, details=f"it is {what}")
    return WireError("TRUNCATED", where=where, field=field, details=f"{needed} bytes needed, {have} there")


def join_key(keys: Iterable[bytes]) -> bytes:
    """Keys of events → a message's key."""
    return _HEAD + join_value(keys)


def join_value(bodies: Iterable[bytes]) -> bytes:
    """Values of events → a message's value."""
    return b"".join(piece for body in bodies for piece in (len(body).to_bytes(8, "big"), body))
