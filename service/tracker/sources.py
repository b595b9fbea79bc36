"""Where events come from: a file, or Kafka (`service.tracker.kafka_source`)."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

from ticdc_bridge.schemas.formats.framing import MAX_MESSAGE
from ticdc_bridge.schemas.inputs.definition_files import LEFT_OUT
from ticdc_bridge.schemas.inputs.message_lines import parse_line
from ticdc_bridge.schemas.model.errors import SetupError, WireError
from ticdc_bridge.schemas.model.event import Message
from ticdc_bridge.service.history.model import Place
from ticdc_bridge.service.tracker.events import UnusableEvent, is_line_of_ddl, object_of

_MAX_LINE = MAX_MESSAGE * 3
MOST_BYTES = 16 << 20
"""About as much is read at once, however few messages that are."""


@dataclass(slots=True)
class SourceBatch:
    """One look at a source. ddl: lines of DDL. bad: what is neither a message nor a line, with its reason."""

    messages: list[Message] = field(default_factory=list)
    ddl: list[dict[str, Any]] = field(default_factory=list)
    bad: list[tuple[str, str]] = field(default_factory=list)
    partitions: set[Place] = field(default_factory=set)
    gaps: list[str] = field(default_factory=list)


class Source(Protocol):
    def start(self, places: dict[Place, int | None]) -> None:
        """Begin where each partition was read to. SetupError where it can't be read."""

    def read(self, most: int, seconds: float) -> SourceBatch | None:
        """New messages, at most so many, waiting so long for the first; None at the end."""

    def lag(self) -> dict[Place, int]:
        """Messages between what was read and the end of each partition."""

    def is_caught_up(self) -> bool:
        """True if all that was there at the start has been read."""

    def close(self) -> None: ...


class FileSource:
    """JSON lines: messages, DDL as for `decode --ddl`, or a recorded history, in any mixture."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._number = 0
        try:
            self._file = path.open("rb")
        except OSError as error:
            raise SetupError("USAGE", details=f"{path}: {error.strerror or error}") from error

    def start(self, places: dict[Place, int | None]) -> None:
        """A file is read from its start: what it repeats is known."""

    def read(self, most: int, seconds: float) -> SourceBatch | None:
        batch, count, size = SourceBatch(), 0, 0
        while count < most and size < MOST_BYTES:
            try:
                line = self._file.readline(_MAX_LINE)
            except OSError as error:
                raise SetupError("USAGE", details=f"{self._path}: {error.strerror or error}") from error
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
                return
            except WireError as error:
                batch.bad.append((error.code, error.detail))
                return
        try:
            object_ = object_of(line)
            if LEFT_OUT in object_:
                raise UnusableEvent(
                    f"the export has no definition of table {object_[LEFT_OUT]}: {object_.get('reason')}"
                )
            if not is_line_of_ddl(object_):
                raise UnusableEvent("neither a message (key_b64, value_b64) nor DDL (commit_ts, query)")
            batch.ddl.append({**object_, "where": where})
        except UnusableEvent as error:
            batch.bad.append(("BAD_LINE", f"{where}: {error}"))

    def lag(self) -> dict[Place, int]:
        return {}

    def is_caught_up(self) -> bool:
        return False

    def close(self) -> None:
        self._file.close()
