"""`--in` and `--out`: message files, standard output and Kafka topics behind one form."""

import atexit
import json
import re
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from itertools import chain
from pathlib import Path
from typing import Any, Protocol

from ticdc_bridge.clients.kafka import TopicChoice
from ticdc_bridge.schemas.codec.compression import UNREADABLE
from ticdc_bridge.schemas.inputs.dead_letters import dead_letter
from ticdc_bridge.schemas.inputs.replay import MessageSink
from ticdc_bridge.schemas.model.errors import SetupError, WireError
from ticdc_bridge.schemas.model.event import Message
from ticdc_bridge.schemas.model.options import Options
from ticdc_bridge.schemas.model.ports import TableSource
from ticdc_bridge.schemas.model.reasons import usage_errors
from ticdc_bridge.schemas.plain.reader import error_of_line, plain_message, same_message
from ticdc_bridge.schemas.plain.writer import json_line
from ticdc_bridge.spark_jobs.io import locations, message_files
from ticdc_bridge.spark_jobs.io.archive_files import archive_files, files_not_read
from ticdc_bridge.spark_jobs.io.locations import KafkaClient, topic_of_location
from ticdc_bridge.spark_jobs.io.object_paths import path_of
from ticdc_bridge.spark_jobs.io.storage_sink import StorageFolder, is_data_file, is_storage_folder, read_data_file

_NO_OPTIONS = Options()
_NO_FILES = (
    "this directory has no files of a stream (000000000000.jsonl, …), no Avro files of values and none of a "
    "storage sink (CDC000001.json or .csv, meta/schema_….json); give a message file by its name"
)


def read_source(
    location: str, kafka: KafkaClient, options: Options = _NO_OPTIONS, tables: TableSource | None = None
) -> Iterator[Message | tuple[WireError, Message]]:
    """The messages of FILE, a stream's or storage sink's folder, `-`, kafka:TOPIC. tables: for what CSV leaves out."""
    locations.refuse_table_source(location)
    topics = locations.topics_of_location(location)
    if topics is None:
        path = path_of("/dev/stdin" if location == "-" else location)
        if is_storage_folder(location):
            return StorageFolder(location).read(options, tables)
        if is_data_file(path) and (".csv" in path.suffixes or options.terminator):
            return read_data_file(path, options, tables)
        # A folder is what a stream wrote, a file a micro-batch by number; or a topic's archive.
        files = sorted(path.glob("[0-9]" * 12 + ".jsonl")) or archive_files(location)
        if path.is_dir() and not files:
            raise SetupError("USAGE", details=f"{location}: {_NO_FILES}")
        if path.is_dir() and files[0].suffix == ".avro" and (others := files_not_read(path)):
            print(f"warning: {others}", file=sys.stderr)
        return chain.from_iterable(map(message_files.read_messages, files or [path]))
    return _read_topics(topics, kafka)


def _read_topics(topics: TopicChoice, kafka: KafkaClient) -> Iterator[Message]:
    """Topics one after the other, by name; Kafka is asked with the first message: outputs can be abandoned then."""
    from ticdc_bridge.clients.kafka import read_topic

    settings = kafka.settings()
    for name in [topics.only] if topics.only else topics.find(settings):
        yield from read_topic(name, settings, kafka.from_offset)


def plain_source(location: str, kafka: KafkaClient) -> Iterator[Message | tuple[WireError, Message]]:
    """The plain-form lines of FILE, `-` or kafka:TOPIC as messages; of an error line its error and the message."""
    locations.refuse_table_source(location)
    lines: Iterator[tuple[bytes, Message | None]]
    if topic_of_location(location) is not None:
        lines = ((m.value or b"", m) for m in read_source(location, kafka) if isinstance(m, Message))
    else:
        # Not from Parquet: there {"hex":"00"} as a text and the bytes that it stands for look the same.
        lines = ((line, None) for line in _lines(path_of("/dev/stdin" if location == "-" else location)))
    rows: list[Message] = []
    for line, origin in lines:
        item = plain_item(line, origin)
        if rows and not (isinstance(item, Message) and same_message(rows[0], item) and len(rows) < _MOST_ROWS):
            yield _join_lines(rows)
            rows.clear()
        if isinstance(item, Message):
            rows.append(item)
        else:
            yield item
    if rows:
        yield _join_lines(rows)


_MOST_ROWS = 10_000


def _join_lines(rows: list[Message]) -> Message:
    """Lines that one message gave, as one message: formats with batches write them together again."""
    return rows[0] if len(rows) == 1 else replace(rows[0], value=b"\n".join(m.value or b"" for m in rows))


def plain_item(line: bytes, origin: Message | None = None) -> Message | tuple[WireError, Message]:
    """A plain-form line → its message, or what failed and the message it is told of."""
    try:
        return error_of_line(line) or plain_message(line, origin)
    except WireError as error:
        return error, origin or Message(None, line)


def _lines(path: Path) -> Iterator[bytes]:
    with usage_errors(path, *UNREADABLE), message_files.opened(path) as file:
        for line in iter(lambda: file.readline(message_files.MAX_LINE), b""):
            if line.strip():
                yield line.rstrip(b"\r\n")


def lines_file(location: str, options: Options, plain: bool, tables: TableSource | None = None) -> Path:
    """The messages of a file or folder as a file of lines, which may be the file itself; else it goes when the process
    ends. plain: they are lines of the plain form. tables: as `read_source`. SetupError USAGE.
    """
    path = path_of(location)
    if path.suffix != ".avro" and path.is_file() and message_files.is_plain_lines(path):
        return path
    if not path.exists():
        raise SetupError("USAGE", details=f"{location}: No such file or directory")
    handle, name = tempfile.mkstemp(prefix="ticdc-bridge-", suffix=".jsonl")
    atexit.register(Path(name).unlink, missing_ok=True)
    with open(handle, "wb") as file:
        if plain:
            file.writelines(line + b"\n" for line in _lines(path))
        else:
            for item in read_source(location, KafkaClient(), options, tables):
                if isinstance(item, Message):
                    line = json_line(message_files.message_line(item)).encode()
                else:  # a line that is no message fails again where it is read
                    line = (item[1].value or b"").replace(b"\n", b" ")
                file.write(line + b"\n")
    return Path(name)


Sink = MessageSink


class _MessageLines(message_files.LineWriter):
    def write(self, message: Message) -> None:  # type: ignore[override]
        super().write(message_files.message_line(message))


def message_sink(location: str, kafka: KafkaClient, rule: str | None = None) -> Sink:
    """A writer of messages to FILE, FILE.parquet, `-`, kafka:TOPIC or kafka:. rule: named their topics, which win."""
    topic = topic_of_location(location, empty=True)
    if topic is not None:
        from ticdc_bridge.clients.kafka import TopicWriter

        return TopicWriter(None if rule else topic or None, kafka.settings(), kafka.read)
    locations.check_is_file(location)
    if location.endswith(".parquet"):
        from ticdc_bridge.spark_jobs.io.parquet import ParquetWriter

        return ParquetWriter(path_of(location))
    return _MessageLines(sys.stdout if location == "-" else path_of(location))


class Closable(Protocol):
    """An output. `close` when all was written, `abandon` when the job failed."""

    def close(self) -> None: ...

    def abandon(self) -> None: ...


class LineSink(Closable, Protocol):
    """Where plain-form events go, as objects or as their finished lines."""

    def write(self, value: dict[str, Any]) -> None: ...

    def write_text(self, line: str) -> None: ...


class _TopicLines:
    """Each event is a message: its line as the value, no key, in the partition it was read from."""

    def __init__(self, sink: Sink, topic: str) -> None:
        self._sink, self._topic = sink, topic
        self.close, self.abandon = sink.close, sink.abandon

    def write(self, value: dict[str, Any]) -> None:
        self._write(json_line(value), value.get("partition"))

    def write_text(self, line: str) -> None:
        head = _HEAD.match(line)
        self._write(line, json.loads(head[1]) if head else json.loads(line).get("partition"))

    def _write(self, line: str, partition: int | None) -> None:
        self._sink.write(Message(None, line.encode(), self._topic, partition))


_HEAD = re.compile(
    r'\{"kind": "\w+", "format": "[\w-]+", "topic": (?:null|"(?:[^"\\]|\\.)*"), "partition": (null|\d+), '
)
"""How the line of an event begins; group 1 is its partition."""


def line_sink(location: str, kafka: KafkaClient) -> LineSink:
    """A writer of plain-form events to FILE, FILE.parquet, `-` or kafka:TOPIC."""
    topic = topic_of_location(location)
    if topic is not None:
        return _TopicLines(message_sink(location, kafka), topic)
    locations.check_is_file(location)
    if location.endswith(".parquet"):
        from ticdc_bridge.spark_jobs.io.parquet import EventParquet

        return EventParquet(path_of(location))
    return message_files.LineWriter(sys.stdout if location == "-" else path_of(location))


class DeadLetters:
    """--dead-letter FILE | kafka:TOPIC. A file is made only when there is something to put into it."""

    def __init__(self, location: str, kafka: KafkaClient) -> None:
        self.location, self._kafka = location, kafka
        self._is_file = topic_of_location(location) is None and location != "-"
        self._sink: Sink | None = None if self._is_file else message_sink(location, kafka)
        if self._is_file:
            message_files.partial_path_of(path_of(location))

    def write(self, error: WireError, origin: Message) -> None:
        has_lines, letter = self._is_file and not self.location.endswith(".parquet"), dead_letter(error, origin)
        if self._sink is None:
            self._sink = (
                _MessageLines(path_of(self.location)) if has_lines else message_sink(self.location, self._kafka)
            )
        if has_lines and isinstance(self._sink, _MessageLines):
            self._sink.write_text(
                json_line({**message_files.message_line(letter), "code": error.code, "detail": error.detail})
            )
        else:
            self._sink.write(letter)

    def close(self) -> None:
        """Complete. Without dead letters an older file of that name goes, so that none is taken for this run's."""
        if self._sink is not None:
            self._sink.close()
        elif self._is_file:
            path, partial = message_files.partial_path_of(path_of(self.location))
            if partial is not None:
                path.unlink(missing_ok=True)

    def abandon(self) -> None:
        if self._sink is not None:
            self._sink.abandon()


@contextmanager
def complete_together(*outputs: Closable | None) -> Iterator[None]:
    """Outputs are completed together when the job ends well, and abandoned when it doesn't."""
    try:
        yield
    except BaseException:
        for output in filter(None, outputs):
            output.abandon()
        raise
    for output in filter(None, outputs):
        output.close()
