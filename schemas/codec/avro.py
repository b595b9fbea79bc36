"""Avro binary primitives (Avro 1.12 specification, "Binary Encoding"), bounds-checked.

A reader is a function (buffer, position) → (value, next position); it raises `TruncatedValue` when the buffer ends too
early and ValueError when the bytes can't be what they should be. No length is trusted before it is compared with what
is there. Only the shortest form of a number is taken: every writer makes it, so a value never comes in two spellings.
"""

import struct
from collections.abc import Callable
from typing import Any

from ticdc_bridge.schemas.codec.varint import uvarint, zigzag

Reader = Callable[[bytes, int], tuple[Any, int]]

_FLOAT, _DOUBLE = struct.Struct("<f"), struct.Struct("<d")


class TruncatedValue(Exception):
    """The buffer ends inside a value; the text says what was missing."""


def read_long(buffer: bytes, pos: int) -> tuple[int, int]:
    """Zig-zag varint of up to 64 bits."""
    shift = number = 0
    size = len(buffer)
    while True:
        if pos >= size:
            raise TruncatedValue("a number goes on past the end")
        byte = buffer[pos]
        pos += 1
        number |= (byte & 0x7F) << shift
        if byte < 0x80:
            break
        shift += 7
        if shift > 63:
            raise ValueError("a number has more than ten bytes")
    if number >> 64:
        raise ValueError("a number has more than 64 bits")
    if not byte and shift:
        raise ValueError("a number is not in its shortest form")
    return (number >> 1) ^ -(number & 1), pos


def read_int(buffer: bytes, pos: int) -> tuple[int, int]:
    """Zig-zag varint of up to 32 bits."""
    number, pos = read_long(buffer, pos)
    if not -0x80000000 <= number <= 0x7FFFFFFF:
        raise ValueError(f"{number} is no 32-bit integer")
    return number, pos


def read_boolean(buffer: bytes, pos: int) -> tuple[bool, int]:
    if pos >= len(buffer):
        raise TruncatedValue("1 byte needed, 0 left")
    if buffer[pos] > 1:
        raise ValueError(f"0x{buffer[pos]:02x} is no boolean")
    return buffer[pos] == 1, pos + 1


def read_float(buffer: bytes, pos: int) -> tuple[float, int]:
    end = pos + 4
    if end > len(buffer):
        raise TruncatedValue(f"4 bytes needed, {len(buffer) - pos} left")
    return _FLOAT.unpack_from(buffer, pos)[0], end


def read_double(buffer: bytes, pos: int) -> tuple[float, int]:
    end = pos + 8
    if end > len(buffer):
        raise TruncatedValue(f"8 bytes needed, {len(buffer) - pos} left")
    return _DOUBLE.unpack_from(buffer, pos)[0], end


def read_bytes(buffer: bytes, pos: int) -> tuple[bytes, int]:
    size, pos = read_long(buffer, pos)
    end = pos + size
    if size < 0:
        raise ValueError(f"negative length {size}")
    if end > len(buffer):
        raise TruncatedValue(f"{size} bytes needed, {len(buffer) - pos} left")
    return buffer[pos:end], end


READERS: dict[str, Reader] = {
    "int": read_int,
    "long": read_long,
    "boolean": read_boolean,
    "float": read_float,
    "double": read_double,
    "bytes": read_bytes,
    "string": read_bytes,  # the caller decides what becomes of bytes that are not UTF-8
}


def write_long(number: int) -> bytes:
    """64-bit integer → zig-zag varint. ValueError when it has more bits."""
    if not -(1 << 63) <= number < 1 << 63:
        raise ValueError(f"{number} has more than 64 bits")
    return uvarint(zigzag(number))


def write_bytes(value: bytes) -> bytes:
    return write_long(len(value)) + value


def write_float(value: float) -> bytes:
    return _FLOAT.pack(value)


def write_double(value: float) -> bytes:
    return _DOUBLE.pack(value)


def decimal_size(unscaled: int) -> int:
    """Bytes of the shortest two's complement of an integer."""
    return (unscaled + (unscaled < 0)).bit_length() // 8 + 1


def write_decimal(unscaled: int) -> bytes:
    """Unscaled integer → the shortest two's complement, big-endian, with its length."""
    return write_bytes(unscaled.to_bytes(decimal_size(unscaled), "big", signed=True))
