"""Craft's numbers and chunks (upstream tiflow `pkg/sink/codec/craft/message_encoder.go`, `message_decoder.go`).

A reader takes (data, position, end) and gives (value, next position); it reads nothing at or past `end`. A chunk of n
elements carries no count: n is known from elsewhere and was compared with the bytes that are there. Longer spellings of
a number than the shortest are accepted, as by TiCDC's own decoder.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from ticdc_bridge.schemas.codec.varint import uvarint as uvarint
from ticdc_bridge.schemas.codec.varint import zigzag as zigzag
from ticdc_bridge.schemas.model.errors import WireError

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
        details = f"{text[:80]!a} is not UTF-8"
        raise WireError("INVALID_VALUE", column=ascii(what)[1:-1], details=details) from error


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
    numbers, number = [], 0
    for delta in deltas:
        number = (number + delta) & MASK
        numbers.append(number)
    return numbers, pos


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
