"""What was read of each topic before: what a null value means there.

After a delete, the connector sends the key once more with a null value, so that Kafka's compaction drops the row. Where
a transform flattened the topic, or compaction dropped the delete, that null value is all that is left of it.
"""

from __future__ import annotations

from ticdc_bridge.schemas.codec.bounded_cache import BoundedCache
from ticdc_bridge.schemas.model.event import Message, RowChange
from ticdc_bridge.schemas.model.table import TableId

_MOST_KEYS, _MOST_BYTES, _LONGEST = 50_000, 16 << 20, 1 << 16


_Key = tuple[str | None, bytes | None]


class TopicMemory:
    """Rows of the topics that one decoder reads. A forgotten key makes its delete repeat, which changes nothing."""

    def __init__(self) -> None:
        self._deleted: BoundedCache[_Key, bool] = BoundedCache(
            _MOST_KEYS, _MOST_BYTES, lambda key, _: len(key[1] or b"")
        )
        self._tables: BoundedCache[str | None, set[TableId]] = BoundedCache(4096)
        self._flattened: BoundedCache[str | None, bool] = BoundedCache(4096)
        self._untimed: BoundedCache[str | None, bool] = BoundedCache(4096)

    def add(self, message: Message, event: RowChange, bare_deletes: bool) -> None:
        """A row that was read. bare_deletes: it was flattened, and nothing says that deletes have rows of their own."""
        topic = message.topic
        if event.op == "d" and len(message.key or b"") <= _LONGEST:
            self._deleted[topic, message.key] = True
        elif self._deleted:
            self._deleted.pop((topic, message.key), None)
        tables = self._tables.get(topic)
        if tables is None:
            tables = self._tables[topic] = set()
        if event.table.id not in tables and len(tables) < 2:
            tables.add(event.table.id)
        if self._flattened.get(topic) is not bare_deletes:
            self._flattened[topic] = bare_deletes
        if self._untimed.get(topic) is not event.untimed:
            self._untimed[topic] = event.untimed

    def was_deleted(self, message: Message) -> bool:
        """Whether the last row of the message's key was a delete."""
        return (message.topic, message.key) in self._deleted

    def only_table(self, topic: str | None) -> TableId | None:
        """The table of a topic's rows; None before the first, and where there are several."""
        tables = self._tables.get(topic, set())
        return next(iter(tables)) if len(tables) == 1 else None

    def has_bare_deletes(self, topic: str | None) -> bool:
        """Whether a topic's rows are flattened, so that a null value is the only sign of a delete."""
        return self._flattened.get(topic, False)

    def is_untimed(self, topic: str | None) -> bool:
        """Whether a topic's rows say nothing of when they were committed."""
        return self._untimed.get(topic, False)
