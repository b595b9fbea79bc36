"""Base-128 varints, as Avro, Craft and protobuf write them: seven bits a byte, the low ones first."""


def zigzag(number: int) -> int:
    """int64 → uint64, small for small magnitudes: 0, -1, 1, -2 → 0, 1, 2, 3."""
    return (number << 1) ^ (number >> 63)


def uvarint(number: int) -> bytes:
    """uint64 → its shortest varint."""
    if number < 0x80:
        return number.to_bytes(1)
    out = bytearray()
    while number > 0x7F:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    out.append(number)
    return bytes(out)
