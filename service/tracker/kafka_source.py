"""Topics as a source, by confluent-kafka (librdkafka), all calls from the tracker's own thread.

Partitions are assigned by hand and offsets kept in the store: Kafka's groups could not promise that an event and the
offset behind it are kept together.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any, Final

from ticdc_bridge.clients.kafka import KafkaErrors, library, make_client, partitions, watermarks
from ticdc_bridge.schemas.model.event import Message
from ticdc_bridge.service.history.model import Place
from ticdc_bridge.service.tracker.sources import MOST_BYTES, SourceBatch

_LOOK_EVERY: Final = 30.0
_LOT: Final = 50


class KafkaSource:
    """Several topics, from where they were read to, or from their earliest messages."""

    def __init__(self, topics: list[str], settings: Mapping[str, str]) -> None:
        self._topics, self._servers = topics, settings["bootstrap.servers"]
        config: dict[str, Any] = {
            "group.id": "ticdc-bridge-tracker", "enable.auto.commit": False, "auto.offset.reset": "earliest",
            "enable.partition.eof": False, "queued.max.messages.kbytes": 16_384, **settings,
            "error_cb": self._remember,
        }  # fmt: skip
        self._failure: type[Exception] = library().KafkaException
        self._errors = KafkaErrors(self._servers, lambda: self._client_error)
        self._ends: dict[Place, int] = {}
        self._position: dict[Place, int] = {}
        self._looked = 0.0
        self._client_error = ""
        self._high: dict[Place, int] = {}
        self._kept: dict[Place, int | None] = {}
        self._gaps: list[str] = []
        self._announced = False
        self._consumer = make_client(library().Consumer, config)

    def _remember(self, error: Any) -> None:
        self._client_error = str(error)

    def start(self, places: dict[Place, int | None]) -> None:
        self._kept = {place: offset for place, offset in places.items() if place[0] in self._topics}
        with self._errors:
            self._assign()
        self._ends = dict(self._high)

    def _assign(self) -> set[Place]:
        """Read all partitions there are; those that are new from their beginning."""
        TopicPartition = library().TopicPartition
        self._looked = time.monotonic()
        places: set[Place] = set()
        for topic in self._topics:
            places |= {(topic, number) for number in partitions(self._consumer, topic, self._servers)}
        for place in places - self._position.keys():
            low, high = watermarks(self._consumer, *place)
            self._high[place] = high
            self._position[place] = self._begin(place, self._kept.get(place), low, high)
        self._consumer.assign([TopicPartition(*place, offset) for place, offset in self._position.items()])
        return places

    def _begin(self, place: Place, offset: int | None, low: int, high: int) -> int:
        if offset is None:
            return low
        where = f"partition {place[1]} of topic {place[0]}"
        if offset < low:
            self._gaps.append(f"{where}: messages {offset} to {low - 1} were deleted before they were read")
            return low
        if offset > high:
            self._gaps.append(
                f"{where}: it ends at {high}, but was read to {offset}: a new topic, read from its beginning"
            )
            return low
        return offset

    def read(self, most: int, seconds: float) -> SourceBatch | None:
        batch = SourceBatch()
        with self._errors:
            if time.monotonic() - self._looked > _LOOK_EVERY:
                batch.partitions = self._assign()
            elif not self._announced:
                batch.partitions = set(self._position)
            self._announced = True
            records = self._consume(most, seconds)
        batch.gaps, self._gaps = self._gaps, []
        for record in records:
            trouble = record.error()
            if trouble is not None:
                if trouble.fatal():
                    raise self._errors.error_of(trouble)
                self._client_error = str(trouble)
                continue
            message = Message.of_record(record)
            self._position[message.topic or "", message.partition or 0] = (message.offset or 0) + 1
            batch.messages.append(message)
        return batch

    def _consume(self, most: int, seconds: float) -> list[Any]:
        """Waits for the first message only; what there is then is taken in small lots, so that it stays bounded."""
        records: list[Any] = []
        size = 0
        while len(records) < most and size < MOST_BYTES:
            lot = self._consumer.consume(min(_LOT, most - len(records)), 0.0 if records else seconds)
            records += lot
            size += sum(len(one.value() or b"") for one in lot)
            if len(lot) < _LOT:
                break
        return records

    def lag(self) -> dict[Place, int]:
        TopicPartition = library().TopicPartition
        lags = {}
        for place, position in self._position.items():
            try:
                _, high = self._consumer.get_watermark_offsets(TopicPartition(*place), cached=True)
            except self._failure:
                continue
            if high >= 0:
                lags[place] = max(high - position, 0)
        return lags

    def is_caught_up(self) -> bool:
        """Offsets without a record (transaction markers, compaction) count: the consumer's own position tells."""
        TopicPartition = library().TopicPartition
        behind = [place for place, end in self._ends.items() if self._position.get(place, 0) < end]
        if not behind:
            return True
        try:
            now = self._consumer.position([TopicPartition(*place) for place in behind])
        except self._failure:
            return False
        for one in now:
            if one.offset is not None and one.offset > self._position[one.topic, one.partition]:
                self._position[one.topic, one.partition] = one.offset
        return all(self._position[place] >= self._ends[place] for place in behind)

    def close(self) -> None:
        self._consumer.close()
