"""Messages whose schema ids stand elsewhere than in Confluent's five bytes: in record headers, or in eight bytes."""

from collections.abc import Callable, Iterator
from dataclasses import replace
from uuid import UUID

from ticdc_bridge.schemas.inputs.schema_files import FileSchemas
from ticdc_bridge.schemas.model.event import Message

_GUID = UUID(int=0x0102030405060708090A0B0C0D0E0F10)


def guid(number: int) -> bytes:
    """The 16 bytes of the GUID that an id has here."""
    return UUID(int=_GUID.int + number).bytes


def _parts(message: Message) -> Iterator[tuple[str, bytes]]:
    """The framed parts of a message, without what TiCDC leaves unframed."""
    for field, data in (("key", message.key), ("value", message.value)):
        if data is not None and data[:1] == b"\0":
            yield field, data


def _in_headers(message: Message, headers: Callable[[str, int], dict[str, bytes]]) -> Message:
    """Bare bodies, with the ids in headers, after headers of others."""
    found: list[tuple[str, bytes | None]] = [("trace", b"1"), ("__key", None)]
    pieces = {"key": message.key, "value": message.value}
    for piece, data in _parts(message):
        found += headers(piece, int.from_bytes(data[1:5], "big")).items()
        pieces[piece] = data[5:]
    return replace(message, key=pieces["key"], value=pieces["value"], headers=tuple(found))


def _eight_bytes(message: Message) -> Message:
    longer = {piece: b"\0\0\0\0\0" + data[1:] for piece, data in _parts(message)}
    return replace(message, key=longer.get("key", message.key), value=longer.get("value", message.value))


def id_bytes(number: int, size: int) -> bytes:
    return number.to_bytes(size, "big")


_BINARY = b"BINARY"
WAYS: dict[str, Callable[[Message], Message]] = {
    "id": lambda m: _in_headers(m, lambda part, n: {f"__{part}_schema_id": b"\0" + id_bytes(n, 4)}),
    "guid": lambda m: _in_headers(m, lambda part, n: {f"__{part}_schema_id": b"\1" + guid(n)}),
    "globalId": lambda m: _in_headers(
        m, lambda part, n: {f"apicurio.{part}.globalId": id_bytes(n, 8), f"apicurio.{part}.encoding": _BINARY}
    ),
    "contentId": lambda m: _in_headers(m, lambda part, n: {f"apicurio.{part}.contentId": id_bytes(n, 8)}),
    "eight bytes": _eight_bytes,
}
"""A message of framed Avro → the same with its ids elsewhere; with bodies that are bare, or begin otherwise."""


def with_guids(schemas: FileSchemas) -> FileSchemas:
    """The schemas, each with the GUID that `WAYS` gives its id."""
    entries = [e for e in schemas.all() if isinstance(e.id, int)]
    return FileSchemas([replace(e, guid=str(UUID(bytes=guid(int(e.id)))).upper()) for e in entries], "my.jsonl")
