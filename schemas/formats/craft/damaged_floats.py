"""FLOAT slots that TiCDC damaged and that hold a float32 all the same.

TiCDC (v8.2 on) reserves four bytes for a FLOAT and writes eight, so that the next number of the batch (an integer,
FLOAT, DOUBLE, YEAR, ENUM, SET or BIT) overwrites the high ones (upstream tiflow `craft/message_encoder.go`,
EncodeTiDBType). A slot that holds no float32 shows it. One that does is told by its neighbour: its bytes from the fifth
on are the first bytes of the next number. One such byte can be chance (a sound slot in 256 looks like that), so it
counts where most slots of the message have it, or one has two. The value is not changed by being flagged.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

from schemas.formats.craft import columns
from schemas.formats.craft.layout import Part, RowEvent
from schemas.model import values
from schemas.model.event import Event, RowChange

FLOAT = 4
# Types whose content is allocated beside that of a FLOAT; texts are not copied.
_NOT_FINITE = ("NaN", "+Inf", "-Inf")
_NUMBERS = frozenset({1, 2, 3, 4, 5, 8, 9, 13, 16, 247, 248})


@dataclass(frozen=True, slots=True)
class _Slot:
    """A number of the message, in the order of encoding."""

    event: RowChange
    side: str
    name: str
    is_float: bool
    content: bytes


def mark(data: bytes, parts: Sequence[Part], events: Sequence[Event]) -> None:
    """Flags the FLOATs of a message that its encoder damaged, and gives them the text of the double that is there."""
    if not any(isinstance(part, RowEvent) and _has_float(part) for part in parts):
        return
    slots = list(_slots(data, parts, events))
    pairs = [(slot, after) for slot, after in pairwise(slots) if slot.is_float]
    hit = [(slot, _count_overwritten(slot, after)) for slot, after in pairs]
    damaged_slots = [slot for slot, count in hit if count]
    if max((count for _, count in hit), default=0) < 2 and 2 * len(damaged_slots) <= len(pairs):
        return
    if slots[-1].is_float:
        damaged_slots.append(slots[-1])  # overwritten by the next message's first number
    for slot in damaged_slots:
        row = getattr(slot.event, slot.side)
        text = values.double_text(columns.double(slot.content)) if row[slot.name] not in _NOT_FINITE else row[slot.name]
        if text != row[slot.name]:
            row[slot.name] = text
            slot.event.flag(f"{columns.FLOAT_DAMAGED}:{slot.name}")


def _count_overwritten(slot: _Slot, after: _Slot) -> int:
    """Bytes of the slot that are the next number's; zeros tell nothing."""
    head = after.content[:4]
    return len(head) if slot.content[4:].startswith(head) and any(head) else 0


def _has_float(part: RowEvent) -> bool:
    return any(side is not None and FLOAT in side.head.types for side in (part.new, part.old))


def _slots(data: bytes, parts: Sequence[Part], events: Sequence[Event]) -> Iterator[_Slot]:
    for part, event in zip(parts, events, strict=True):
        if not isinstance(part, RowEvent) or not isinstance(event, RowChange):
            continue
        for group, side in ((part.new, "after"), (part.old, "before")):
            if group is None:
                continue
            pos = group.pos
            for name, code, length in zip(group.head.names, group.head.types, group.lengths, strict=True):
                if length >= 0:
                    if code in _NUMBERS:
                        yield _Slot(event, side, name, code == FLOAT, data[pos : pos + length])
                    pos += length
