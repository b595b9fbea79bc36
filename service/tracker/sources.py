"""Where events come from: a file, or Kafka. Offsets are kept in the store, together with the events before them."""

import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, Protocol

from ticdc_bridge.clients.kafka import KafkaErrors, library, make_client, partitions, watermarks
from ticdc_bridge.schemas.formats.framing import MAX_MESSAGE
from ticdc_bridge.schemas.inputs.definition_files import LEFT_OUT
from ticdc_bridge.schemas.inputs.message_lines import parse_line
from ticdc_bridge.schemas.model.errors import WireError
from ticdc_bridge.schemas.model.event import Message
from ticdc_bridge.schemas.model.reasons import usage_errors
from ticdc_bridge.service.history.model import PartitionKey
from ticdc_bridge.service.tracker.events import UnusableEvent, object_of

_MAX_LINE = MAX_MESSAGE * 3
MOST_BYTES = 16 << 20
"""About as much is read at once, however few messages that are."""


@dataclass(slots=True)
class SourceBatch:
    """One look at a source. ddl: lines of DDL. bad: what is neither a message nor a line, with its reason."""

    messages: list[Message] = field(default_factory=list)
    ddl: list[dict[str, Any]] = field(default_factory=list)
    bad: list[tuple[str, str]] = field(default_factory=list)
    partitions: set[PartitionKey] = field(default_factory=set)
    gaps: list[str] = field(default_factory=list)


class Source(Protocol):
    def start(self, offsets: dict[PartitionKey, int | None]) -> None:
        """Begin where each partition was read to. SetupError where it can't be read."""

    def read(self, most: int, seconds: float) -> SourceBatch | None:
        """New messages, at most so many, waiting so long for the first; None at the end."""

    def lag(self) -> dict[PartitionKey, int]:
        """Messages between what was read and the end of each partition."""

    def is_caught_up(self) -> bool:
        """True if all that was there at the start has been read."""

    def close(self) -> None: ...


class FileSource:
    """JSON lines: messages, DDL as for `decode --ddl`, or a recorded history, in any mixture."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._number = 0
        with usage_errors(path):
            self._file = path.open("rb")

    def start(self, offsets: dict[PartitionKey, int | None]) -> None:
        """A file is read from its start: what it repeats is known."""

    def read(self, most: int, seconds: float) -> SourceBatch | None:
        batch, count, size = SourceBatch(), 0, 0
        while count < most and size < MOST_BYTES:
            with usage_errors(self._path):
                line = self._file.readline(_MAX_LINE)
            if not line:
                return batch if count else None
            count, size = count + 1, size + len(line)
            self._number += 1
            if line.strip():
                self._line(line, batch)
        return batch

    def _line(self, line: bytes, batch: SourceBatch) -> None:
        where = f"{self._path.name}:{self._number}"
        if b'"value_b64"' in line or b'"key_b64"' in line:
            try:
                batch.messages.append(parse_line(line, where))
            except WireError as error:
                batch.bad.append((error.code, error.detail))
            return
        try:
            object_ = object_of(line)
            if LEFT_OUT in object_:
                raise UnusableEvent(
                    f"the export has no definition of table {object_[LEFT_OUT]}: {object_.get('reason')}"
                )
            if "wire" not in object_ and not {"commit_ts", "query"} <= object_.keys():
                raise UnusableEvent("neither a message (key_b64, value_b64) nor DDL (commit_ts, query)")
            batch.ddl.append({**object_, "where": where})
        except UnusableEvent as error:
            batch.bad.append(("BAD_LINE", f"{where}: {error}"))

    def lag(self) -> dict[PartitionKey, int]:
        return {}

    def is_caught_up(self) -> bool:
        return False

    def close(self) -> None:
        self._file.close()


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
        self._ends: dict[PartitionKey, int] = {}
        self._position: dict[PartitionKey, int] = {}
        self._looked = 0.0
        self._client_error = ""
        self._high: dict[PartitionKey, int] = {}
        self._kept: dict[PartitionKey, int | None] = {}
        self._gaps: list[str] = []
        self._announced = False
        self._consumer = make_client(library().Consumer, config)

    def _remember(self, error: Any) -> None:
        self._client_error = str(error)

    def start(self, offsets: dict[PartitionKey, int | None]) -> None:
        self._kept = {name: offset for name, offset in offsets.items() if name[0] in self._topics}
        with self._errors:
            self._assign()
        self._ends = dict(self._high)

    def _assign(self) -> set[PartitionKey]:
        """Read all partitions there are; those that are new from their beginning."""
        TopicPartition = library().TopicPartition
        self._looked = time.monotonic()
        positions: set[PartitionKey] = set()
        for topic in self._topics:
            positions |= {(topic, number) for number in partitions(self._consumer, topic, self._servers)}
        for location in positions - self._position.keys():
            low, high = watermarks(self._consumer, *location)
            self._high[location] = high
            self._position[location] = self._begin(location, self._kept.get(location), low, high)
        self._consumer.assign([TopicPartition(*name, offset) for name, offset in self._position.items()])
        return positions

    def _begin(self, position: PartitionKey, offset: int | None, low: int, high: int) -> int:
        if offset is None:
            return low
        where = f"partition {position[1]} of topic {position[0]}"
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
            size += sum(len(entry.value() or b"") for entry in lot)
            if len(lot) < _LOT:
                break
        return records

    def lag(self) -> dict[PartitionKey, int]:
        TopicPartition = library().TopicPartition
        lags = {}
        for name, position in self._position.items():
            try:
                _, high = self._consumer.get_watermark_offsets(TopicPartition(*name), cached=True)
            except self._failure:
                continue
            if high >= 0:
                lags[name] = max(high - position, 0)
        return lags

    def is_caught_up(self) -> bool:
        """Offsets without a record (transaction markers, compaction) count: the consumer's own position tells."""
        TopicPartition = library().TopicPartition
        behind = [name for name, end in self._ends.items() if self._position.get(name, 0) < end]
        if not behind:
            return True
        try:
            now = self._consumer.position([TopicPartition(*position) for position in behind])
        except self._failure:
            return False
        for entry in now:
            if entry.offset is not None and entry.offset > self._position[entry.topic, entry.partition]:
                self._position[entry.topic, entry.partition] = entry.offset
        return all(self._position[position] >= self._ends[position] for position in behind)

    def close(self) -> None:
        self._consumer.close()
