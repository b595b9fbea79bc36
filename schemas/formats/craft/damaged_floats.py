"""FLOAT slots that TiCDC damaged and that hold a float32 all the same.

TiCDC (v8.2 on) reserves four bytes for a FLOAT and writes eight, so that the next number of the batch (an integer,
FLOAT, DOUBLE, YEAR, ENUM, SET or BIT) overwrites the high ones (upstream tiflow `craft/message_encoder.go`,
EncodeTiDBType). A slot that holds no float32 shows it. One that does is told by its neighbour: its bytes from the fifth
on are the first bytes of the next number. One such byte can be chance (a sound slot in 256 looks like that), a zero
tells nothing. So they are weighed against slots that have other bytes there: of a damaging encoder some have (the last
of an allocated block). Where a message proves its encoder, all of its FLOATs that a number follows are flagged. Four
bytes on end, or one slot that is no float32, prove it beyond chance: from then on all of the topic's are. The bytes
can't be mended; the value is not changed by being flagged.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

from ticdc_bridge.schemas.formats.craft import columns
from ticdc_bridge.schemas.formats.craft.layout import Part, RowEvent
from ticdc_bridge.schemas.model import values
from ticdc_bridge.schemas.model.event import Event, RowChange

FLOAT = 4
# Types whose content is allocated beside that of a FLOAT; texts are not copied.
_NOT_FINITE = ("NaN", "+Inf", "-Inf")
_NUMBERS = frozenset({1, 2, 3, 4, 5, 8, 9, 13, 16, 247, 248})
_BYTES = 4  # of a slot that the next number can overwrite; as many prove an encoder
_MOST_TOPICS = 10_000


@dataclass(frozen=True, slots=True)
class _Slot:
    """A number of the message, in the order of encoding."""

    event: RowChange
    side: str
    name: str
    is_float: bool
    content: bytes


class FloatDamage:
    """What is known of the encoders of topics. mode: the option craft_float: "auto", "damaged" or "sound".

    topics: those whose encoder is proven to damage FLOATs; shared by the decoders of a side.
    """

    def __init__(self, mode: str, topics: set[str | None]) -> None:
        self._mode, self._topics = mode, topics
        self._weights: dict[str | None, int] = {}

    def mark(self, data: bytes, row_events: Sequence[Part], events: Sequence[Event], topic: str | None) -> None:
        """Flags the FLOATs of a message that its encoder damaged, and gives them the text of the double there."""
        if self._mode == "sound" or not any(
            isinstance(row_event, RowEvent) and _has_float(row_event) for row_event in row_events
        ):
            return
        slots = list(_slots(data, row_events, events))
        for slot in self._find_damaged(slots, topic):
            _flag(slot)

    def _find_damaged(self, slots: list[_Slot], topic: str | None) -> list[_Slot]:
        # The last one is overwritten by the next message's first number.
        every = [slot for slot in slots if slot.is_float]
        if self._mode == "damaged" or topic in self._topics:
            return every
        hits = [(slot, _weigh(slot, after)) for slot, after in pairwise(slots) if slot.is_float]
        self._learn(topic, [weight for _, weight in hits])
        against = sum(weight < 0 for _, weight in hits)
        if topic in self._topics or sum(max(weight, 0) for _, weight in hits) > max(1, 2 * against):
            return every
        likely_slots = [slot for slot, weight in hits if weight > 0]
        is_likely = 2 * len(likely_slots) > len(hits) or any(weight > 1 for _, weight in hits)
        return likely_slots if is_likely else []

    def _learn(self, topic: str | None, weights: list[int]) -> None:
        total = self._weights.get(topic, 0)
        for weight in weights:
            total = max(total + (weight if weight >= 0 else -_BYTES), 0)
            if total >= _BYTES and len(self._topics) < _MOST_TOPICS:
                self._topics.add(topic)
        if len(self._weights) >= _MOST_TOPICS and topic not in self._weights:
            self._weights.clear()
        self._weights[topic] = total


def _weigh(slot: _Slot, after: _Slot) -> int:
    """Bytes of the slot that are the next number's, but for zeros; four more where that makes it no float32; -1: it has
    other bytes there, so that it was not written over.
    """
    head = after.content[:_BYTES]
    if not slot.content[_BYTES:].startswith(head):
        return -1
    weight = sum(byte != 0 for byte in head)
    return weight + _BYTES if weight and not _is_float32(columns.double(slot.content)) else weight


def _is_float32(real: float) -> bool:
    try:
        return values.as_float32(real) == real
    except OverflowError:
        return False


def _flag(slot: _Slot) -> None:
    row = getattr(slot.event, slot.side)
    if row[slot.name] not in _NOT_FINITE:
        row[slot.name] = values.double_text(columns.double(slot.content))
    slot.event.flag(f"{columns.FLOAT_DAMAGED}:{slot.name}")


def _has_float(row_event: RowEvent) -> bool:
    return any(image is not None and FLOAT in image.head.types for image in (row_event.new, row_event.old))


def _slots(data: bytes, row_events: Sequence[Part], events: Sequence[Event]) -> Iterator[_Slot]:
    for row_event, event in zip(row_events, events, strict=True):
        if not isinstance(row_event, RowEvent) or not isinstance(event, RowChange):
            continue
        for group, image in ((row_event.new, "after"), (row_event.old, "before")):
            if group is None:
                continue
            pos = group.pos
            for name, code, length in zip(group.head.names, group.head.types, group.lengths, strict=True):
                if length >= 0:
                    if code in _NUMBERS:
                        yield _Slot(event, image, name, code == FLOAT, data[pos : pos + length])
                    pos += length
