"""What every wire format is: a decoder from messages to events, and an encoder back."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Protocol

from schemas.event import Event, Message, RowChange, ms_to_tso
from schemas.ports import SchemaSource, TableSource
from schemas.wire.options import Options


@dataclass(frozen=True, slots=True)
class Context:
    """What a codec works with: schemas by id, tables by time (None: types come from the message), options."""

    schemas: SchemaSource
    tables: TableSource | None = None
    options: Options = field(default_factory=Options)


class Decoder(Protocol):
    def decode(self, message: Message) -> list[Event]:
        """One message → its events in order. WireError when it can't be read; then none of its events counts."""
        ...


class Encoder(Protocol):
    def encode(self, event: Event, origin: Message) -> list[Message]:
        """One event → its messages, on the topic of `origin`. Empty: the format can't carry this kind of event.

        WireError (LossyError) when a value can't be written. A row is never left out.
        """
        ...


@dataclass(frozen=True, slots=True)
class Format:
    """A row of FORMATS. `zone` is the zone of TIMESTAMP text it decodes to, None: the changefeed's (an option)."""

    name: str
    decoder: Callable[[Context], Decoder]
    encoder: Callable[[Context], Encoder]
    zone: str | None = None
    needs_schemas: bool = False


def commit_ts_of(event: RowChange, origin: Message) -> int | None:
    """The row's commit_ts; where the source has none, one made from the message's timestamp, flagged as such."""
    if event.commit_ts is not None or origin.timestamp is None or origin.timestamp <= 0:
        return event.commit_ts
    event.flags.append("synthetic_commit_ts")
    return ms_to_tso(origin.timestamp)
