"""Whether bytes are a message of TiCDC's Craft, by the size tables at their end (upstream tiflow `codec/craft`)."""

from __future__ import annotations

from ticdc_bridge.schemas.codec import avro as binary


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
        (count, first, step, events), at = _uvarints(value, start, pos + 1, 4)
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


def _uvarints(data: bytes, pos: int, end: int, count: int) -> tuple[list[int], int]:
    numbers = []
    for _ in range(count):
        number = shift = 0
        while True:
            if pos >= end or shift > 63:
                raise ValueError("a number goes on past the end")
            byte = data[pos]
            number |= (byte & 0x7F) << shift
            pos, shift = pos + 1, shift + 7
            if byte < 0x80:
                break
        numbers.append(number)
    return numbers, pos
