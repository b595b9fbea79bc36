"""Deletion vectors: which rows of a data file are gone (protocol: "Deletion Vectors", "Deletion Vector Format")."""

from __future__ import annotations

import struct
from base64 import b85decode, b85encode
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any
from uuid import UUID, uuid4
from zlib import crc32

from ticdc_bridge.spark_jobs.lake.delta_protocol.transaction_log import UnsupportedTable

if TYPE_CHECKING:
    from pyroaring import BitMap64

_FORMAT, _MAGIC = b"\x01", struct.pack("<I", 1681511377)
_B85 = b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz!#$%&()*+-;<=>?@^_`{|}~"
_Z85 = b"0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ.-:+=^!/*?&<>()[]{}@%$#"
_ENCODE, _DECODE = bytes.maketrans(_B85, _Z85), bytes.maketrans(_Z85, _B85)
_UUID_LENGTH = 20


def read_vector(table: Path, descriptor: Mapping[str, Any]) -> BitMap64:
    """The positions of the rows that are gone. UnsupportedTable for a vector that is elsewhere or damaged."""
    from pyroaring import BitMap64

    if descriptor["storageType"] != "u":
        raise UnsupportedTable("a deletion vector is in the log, or in another folder")
    size, file = descriptor["sizeInBytes"], _file_of(table, descriptor["pathOrInlineDv"])
    with file.open("rb") as stored:
        stored.seek(descriptor.get("offset") or 0)
        stored_size, data, check = int.from_bytes(stored.read(4)), stored.read(size), int.from_bytes(stored.read(4))
    if stored_size != size or check != crc32(data):
        raise UnsupportedTable(f"the deletion vector {file.name} is damaged")
    if data[:4] != _MAGIC:
        raise UnsupportedTable("a deletion vector has another format")
    vector = BitMap64.deserialize(data[4:])
    if len(vector) != descriptor["cardinality"]:
        raise UnsupportedTable(f"the log has another number of rows for {file.name} than it has")
    return vector


def write_vectors(table: Path, vectors: Mapping[str, BitMap64]) -> tuple[Path | None, dict[str, dict[str, Any]]]:
    """A file of vectors (None without any), and their descriptors. vectors: by the paths of their data files."""
    if not vectors:
        return None, {}
    uuid, made, descriptors = uuid4(), bytearray(_FORMAT), dict[str, dict[str, Any]]()
    name = b85encode(uuid.bytes).translate(_ENCODE).decode()
    for path, vector in vectors.items():
        data = _MAGIC + vector.serialize()
        descriptors[path] = {
            "storageType": "u", "pathOrInlineDv": name, "offset": len(made), "sizeInBytes": len(data),
            "cardinality": len(vector),
        }  # fmt: skip
        made += struct.pack(">i", len(data)) + data + struct.pack(">I", crc32(data))
    file = _file_of(table, name)
    file.write_bytes(made)
    return file, descriptors


def _file_of(table: Path, text: str) -> Path:
    """A file of vectors. text: a prefix of the folder's name, if any, and a UUID in Z85."""
    uuid = UUID(bytes=b85decode(text[-_UUID_LENGTH:].encode().translate(_DECODE)))
    return table / text[:-_UUID_LENGTH] / f"deletion_vector_{uuid}.bin"
