"""Messages as the batches that compiled readers take."""

from collections.abc import Sequence

import numpy as np

from tests.support.columnar_events import events_of
from ticdc_bridge.schemas.columnar.rows import Binaries, RowsReader, Topics
from ticdc_bridge.schemas.model.event import Message, RowChange


def binaries(texts: Sequence[bytes | None]) -> Binaries:
    """The texts after three bytes that are none of theirs, as in a part of a larger batch."""
    offsets = np.full(len(texts) + 1, 3, np.int64)
    offsets[1:] += np.cumsum([len(text or b"") for text in texts], dtype=np.int64)
    data = np.frombuffer(b"\xff\0\x80" + b"".join(text or b"" for text in texts), np.uint8)
    return Binaries(data, offsets, np.array([text is not None for text in texts], np.bool_))


def batch_of(messages: Sequence[Message]) -> tuple[Binaries, Binaries, Topics]:
    """(keys, values, topics), as `RowsReader.read` takes them."""
    positions: dict[str | None, int] = {}
    of = np.array([positions.setdefault(m.topic, len(positions)) for m in messages], np.int64)
    return binaries([m.key for m in messages]), binaries([m.value for m in messages]), Topics(tuple(positions), of)


def read_batch(reader: RowsReader, messages: Sequence[Message], format_: str) -> dict[int, RowChange]:
    """The rows that a reader takes, by message. One row a message at most; those left are all the others."""
    rows, left = reader.read(*batch_of(messages))
    taken = rows.message.tolist()
    assert taken == sorted(set(taken))
    assert sorted([*taken, *left.tolist()]) == list(range(len(messages)))
    return dict(zip(taken, events_of(rows, format_), strict=True))
