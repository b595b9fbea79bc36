"""What every wire format is: a decoder from messages to events, and an encoder back."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Protocol, runtime_checkable

from schemas.errors import WireError
from schemas.event import MAX_TSO, Event, Message, RowChange, ms_to_tso, tso_physical_ms
from schemas.options import Options
from schemas.ports import SchemaSource, TableSource


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


@runtime_checkable
class BatchEncoder(Encoder, Protocol):
    """An encoder of a format whose messages hold several rows."""

    def encode_rows(self, rows: Sequence[RowChange], origin: Message) -> list[Message]:
        """The rows of one source message → messages with as many rows each as the options allow, in order."""
        ...


@dataclass(frozen=True, slots=True)
class Format:
    """A row of FORMATS. `zone` is the zone of TIMESTAMP text it decodes to, None: the changefeed's (an option).

    takes_schemas: it may use a registry where one is given, and does without where its messages are JSON.
    """

    name: str
    decoder: Callable[[Context], Decoder]
    encoder: Callable[[Context], Encoder]
    zone: str | None = None
    needs_schemas: bool = False
    takes_schemas: bool = False


def commit_ts_of(event: RowChange, origin: Message) -> int | None:
    """The row's commit_ts; where the source has none, one made from the message's timestamp, flagged as such.

    WireError INVALID_VALUE for one that no TiDB gives.
    """
    commit_ts = event.commit_ts
    if commit_ts is None:
        commit_ts = _synthetic(event, origin)
        if commit_ts is not None:
            event.flag("synthetic_commit_ts")
    if commit_ts is not None and not 0 <= commit_ts <= MAX_TSO:
        raise WireError("INVALID_VALUE", column="commit_ts", details=f"{commit_ts} is no TSO (physical ms << 18)")
    return commit_ts


def _synthetic(event: RowChange, origin: Message) -> int | None:
    """A commit_ts from a MySQL source block (its time, then its position in the binlog), or the message's timestamp."""
    source = event.extra.get("source")
    if isinstance(source, dict):
        ms, pos, row = (source.get(name) for name in ("ts_ms", "pos", "row"))
        if isinstance(ms, int) and 0 < ms <= tso_physical_ms(MAX_TSO):
            return ms_to_tso(ms) | sum(n for n in (pos, row) if isinstance(n, int)) % ms_to_tso(1)
    if origin.timestamp is not None and origin.timestamp > 0:
        return ms_to_tso(origin.timestamp)
    return None
