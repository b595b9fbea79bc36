"""Messages that nobody can read, of each format: what is wrong with them, and the reason that they must get."""

import json
import struct
from dataclasses import replace

from tests.support.golden import WIDE, Golden
from ticdc_bridge.schemas.model.event import Message

GOOD = {name: Golden(name, case) for name, case in WIDE.items() if name != "open-tiflow"}  # it is read as open is
HUGE = struct.pack(">Q", (1 << 63) - 1)
_LONG = b"\xfe" + b"\xff" * 8 + b"\x01"
"""A varint of 2^63 - 1, for a length."""


def rows(format_: str) -> list[Message]:
    """Good messages of a format that hold rows."""
    golden = GOOD[format_]
    decoder = golden.side(ddl=True).decoder()
    return [m for m in golden.messages() if m.value and [e for e in decoder.decode(m) if hasattr(e, "op")]]


def poison(format_: str) -> dict[str, tuple[Message, set[str]]]:
    """By what is wrong: the message, and the codes of which it must get one."""
    good = rows(format_)[0]
    value = good.value or b""

    def of(data: bytes | None, *codes: str, key: bytes | None = good.key) -> tuple[Message, set[str]]:
        return replace(good, key=key, value=data), set(codes)

    if format_ in ("avro", "debezium-avro"):
        head = value[:5]
        return {
            "wrong framing": of(b"\x07" + value[1:], "NOT_FRAMED"),
            "no more than the framing's first byte": of(b"\x00", "NOT_FRAMED", "TRUNCATED"),
            "unknown id": of(b"\x00" + (999_999).to_bytes(4, "big") + value[5:], "UNKNOWN_SCHEMA_ID"),
            "truncated": of(value[:-3], "TRUNCATED"),
            "a length of 2^63 - 1": of(head + _LONG * 40, "TRUNCATED", "MALFORMED", "TOO_LARGE"),
            "left over": of(value + b"\x00\x00", "TRAILING_BYTES", "MALFORMED"),
        }
    if format_ == "open":
        key = good.key or b""
        return {
            "another version": of(value, "MALFORMED", "NOT_FRAMED", key=b"\x00" * 7 + b"\x09" + key[8:]),
            "a length of 2^63 - 1": of(HUGE + value[8:], "TRUNCATED", "MALFORMED", "TOO_LARGE"),
            "truncated": of(value[:-3], "TRUNCATED", "MALFORMED"),
            "not JSON": of(value[:8] + b"}" + value[9:], "MALFORMED"),
        }
    if format_ == "craft":
        return {
            "another version": of(b"\x7f" + value[1:], "MALFORMED", "NOT_FRAMED"),
            "truncated": of(value[: len(value) // 2], "TRUNCATED", "MALFORMED", "TOO_LARGE"),
            "lengths of 2^63 - 1": of(value[:2] + b"\xff" * (len(value) - 2), "TRUNCATED", "MALFORMED", "TOO_LARGE"),
        }
    return {
        "not JSON": of(b"not JSON", "MALFORMED"),
        "truncated": of(value[:-3], "TRUNCATED", "MALFORMED"),
        "not UTF-8": of(b'{"\xff\xfe', "MALFORMED"),
        "another document": of(b"[7]", "MALFORMED"),
        "its parts are no objects": of(_flat(value), "MALFORMED"),
    }


def _flat(value: bytes) -> bytes:
    """The document with a number in the place of each of its parts."""
    return json.dumps(dict.fromkeys(json.loads(value), 7)).encode()
