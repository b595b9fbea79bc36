"""Clients of Kafka (librdkafka): made, read and written with, and what their failures are called."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass
from difflib import get_close_matches
from functools import cached_property
from types import TracebackType
from typing import Any, Final

from ticdc_bridge.schemas.model.credentials import mask_settings
from ticdc_bridge.schemas.model.errors import Hint, SetupError
from ticdc_bridge.schemas.model.event import Message

SLICE: Final = 0.25
"""Seconds of a call after which it is looked at again whether to go on."""
_TIMEOUT: Final = 10.0
_REACH_SECONDS: Final = 3.0
"""A broker that is there says so in less."""
_GONE_AFTER: Final = 5.0
_FLUSH_SECONDS: Final = 60.0
_NO_ID: Final = "AAAAAAAAAAAAAAAAAAAAAA"
_NAME: Final = re.compile(r"[A-Za-z0-9._-]{1,249}")
_MAX_SOURCES: Final = 1 << 15  # partitions of all topics: positions have 15 bits for them


# ---- clients and their errors
def library() -> Any:
    import confluent_kafka
    import confluent_kafka.admin

    return confluent_kafka


def make_client(kind: Callable[[dict[str, Any]], Any], settings: Mapping[str, Any]) -> Any:
    """A client of a kind, such as `library().Consumer`. Raises SetupError for settings that librdkafka does not take.

    A connection error is raised once, by the call that fails, unless the settings have an `error_cb`.
    """
    try:
        return kind({"error_cb": lambda _error: None, **settings, "log_level": 0})
    except (library().KafkaException, ValueError, TypeError) as error:
        reason = mask_settings(_reason(error), settings)
        raise SetupError("USAGE", details=f"Kafka settings: {reason}") from error


class KafkaErrors:
    """A block in which librdkafka's errors become SetupError KAFKA_UNREACHABLE. more: what else is known of why."""

    def __init__(self, servers: str, more: Callable[[], str] = str) -> None:
        self._servers, self._more = servers, more

    def __enter__(self) -> None:
        library()

    def __exit__(self, kind: Any, error: BaseException | None, at: TracebackType | None) -> None:
        if isinstance(error, library().KafkaException):
            raise self.error_of(error) from error

    def error_of(self, error: Any) -> SetupError:
        details = f"{_reason(error)} {self._more()}".strip()
        return SetupError("KAFKA_UNREACHABLE", servers=self._servers, details=details)


def _reason(error: Any) -> str:
    """What librdkafka says, without its codes."""
    first = error.args[0] if getattr(error, "args", None) else error
    if not hasattr(first, "str"):
        return str(first)
    codes = library().KafkaError
    is_away = first.code() in (codes._TRANSPORT, codes._ALL_BROKERS_DOWN, codes._TIMED_OUT, codes._RESOLVE)
    hint = "it can't be reached (is it the right HOST:PORT, and does it want TLS or SASL? --kafka-config): "
    return (hint if is_away else "") + str(first.str())


class ClientErrors:
    """What librdkafka says beside its answers. fatal: no broker can be reached, or none lets us in."""

    def __init__(self, servers: str) -> None:
        self.servers, self.text, self.fatal = servers, "", False

    def __call__(self, error: Any) -> None:
        codes = library().KafkaError
        self.text = str(error.str() if hasattr(error, "str") else error)
        # One broker's connection ends for many reasons, and others may be there.
        self.fatal = self.fatal or error.code() in (codes._ALL_BROKERS_DOWN, codes._AUTHENTICATION)


@contextmanager
def connection(settings: Mapping[str, str]) -> Iterator[ClientErrors]:
    """A block whose clients tell their errors to what it gives; those raised in it become KAFKA_UNREACHABLE."""
    errors = ClientErrors(settings["bootstrap.servers"])
    with KafkaErrors(errors.servers, lambda: errors.text):
        yield errors


def find_topics(client: Any, errors: ClientErrors, until: float, topic: str | None = None) -> dict[str, Any]:
    """Topics by name. SetupError KAFKA_UNREACHABLE, at once where no broker takes a connection."""
    until = min(until, time.monotonic() + _REACH_SECONDS)
    while True:
        left = max(until - time.monotonic(), 0.05)
        try:
            named = {"topic": topic} if topic else {}
            return dict(client.list_topics(**named, timeout=min(left, SLICE)).topics)
        except library().KafkaException:
            client.poll(0)  # calls back with what is known of why
            if errors.fatal or time.monotonic() >= until:
                reason = errors.text or f"no answer within {_REACH_SECONDS:g} s"
                details = f"it can't be reached: {reason}"
                raise SetupError("KAFKA_UNREACHABLE", servers=errors.servers, details=details) from None


def topic_error(client: Any, topic: str, error: Any, servers: str) -> SetupError:
    """What the broker says against a topic, with similar names where there is no such one."""
    details = error.str().removeprefix("Broker: ")
    if error.code() == library().KafkaError.UNKNOWN_TOPIC_OR_PART:
        names: list[str] = []
        with suppress(library().KafkaException):
            names = [
                name for name, found in client.list_topics(timeout=_REACH_SECONDS).topics.items() if not found.error
            ]
        details = _unknown_text(topic, names, servers)
    return SetupError("UNKNOWN_TOPIC", topic=topic, details=details)


def _unknown_text(topic: str, names: Iterable[str], servers: str) -> str:
    similar = get_close_matches(topic, [name for name in names if name != topic], 3, 0.6)
    return f"there is no such topic at {servers}" + (f"; similar: {', '.join(similar)}" if similar else "")


def check_name(topic: str) -> None:
    """SetupError UNKNOWN_TOPIC for what no topic can be called."""
    if not _NAME.fullmatch(topic) or topic in (".", ".."):
        details = "a topic's name has 1 to 249 of the letters A-Z, a-z, digits, '.', '_' and '-'"
        raise SetupError("UNKNOWN_TOPIC", topic=repr(topic[:60]), details=details)


@contextmanager
def _consumer(settings: Mapping[str, str], reset: str = "earliest") -> Iterator[Any]:
    """A consumer without a group's offsets. librdkafka's errors in the block are SetupError KAFKA_UNREACHABLE."""
    config = {
        "group.id": "ticdc-bridge", "enable.auto.commit": False, "auto.offset.reset": reset,
        "enable.partition.eof": False, **settings,
    }  # fmt: skip
    with KafkaErrors(settings["bootstrap.servers"]), closing(make_client(library().Consumer, config)) as consumer:
        yield consumer


def _admin(settings: Mapping[str, str]) -> Any:
    """A client that a name has to hold until all its answers are there: they fail when it goes."""
    return make_client(library().admin.AdminClient, settings)


def partitions(client: Any, topic: str, servers: str) -> list[int]:
    """The numbers of a topic's partitions. SetupError UNKNOWN_TOPIC."""
    metadata = client.list_topics(topic, timeout=_TIMEOUT).topics[topic]
    if metadata.error is not None:
        raise topic_error(client, topic, metadata.error, servers)
    return list(metadata.partitions)


def watermarks(consumer: Any, topic: str, partition: int) -> tuple[int, int]:
    """(oldest offset, offset after the newest). A partition that gets another leader just now is asked again."""
    end, codes = time.monotonic() + _TIMEOUT, library().KafkaError
    while True:
        try:
            low, high = consumer.get_watermark_offsets(library().TopicPartition(topic, partition), _TIMEOUT)
            return low, high
        except library().KafkaException as error:
            moving = error.args[0].code() in (codes.NOT_LEADER_FOR_PARTITION, codes.LEADER_NOT_AVAILABLE)
            if not moving or time.monotonic() > end:
                raise
            time.sleep(0.2)


# ---- messages
def read_topic(topic: str, settings: Mapping[str, str], from_offset: int = 0) -> Iterator[Message]:
    """A topic's messages in the order partition, offset, up to the high watermarks seen at the start.

    from_offset: of each partition, or its earliest where that is later. SetupError KAFKA_UNREACHABLE, UNKNOWN_TOPIC.
    """
    servers = settings["bootstrap.servers"]
    with _consumer(settings) as consumer:
        ends = {p: watermarks(consumer, topic, p) for p in partitions(consumer, topic, servers)}
        for partition, (low, high) in sorted(ends.items()):
            start = max(low, from_offset)
            if start < high:
                yield from _read_partition(consumer, topic, partition, start, high, servers)


def read_range(topic: str, partition: int, start: int, end: int, settings: Mapping[str, str]) -> Iterator[Message]:
    """A partition's messages with offsets in [start, end). SetupError KAFKA_UNREACHABLE."""
    with _consumer(settings, "error") as consumer:
        yield from _read_partition(consumer, topic, partition, start, end, settings["bootstrap.servers"])


def read_message(topic: str, partition: int, offset: int, settings: Mapping[str, str]) -> Message:
    """The message at an offset. SetupError USAGE when there is none, KAFKA_UNREACHABLE, UNKNOWN_TOPIC."""
    servers = settings["bootstrap.servers"]
    with _consumer(settings, "error") as consumer:
        if partition not in partitions(consumer, topic, servers):
            raise SetupError("USAGE", details=f"topic {topic!r} has no partition {partition}")
        low, high = watermarks(consumer, topic, partition)
        if not low <= offset < high:
            details = f"topic {topic!r} partition {partition} has offsets {low} to {high - 1}, not {offset}"
            raise SetupError("USAGE", details=details)
        message = next(_read_partition(consumer, topic, partition, offset, high, servers), None)
    if message is None or message.offset != offset:
        details = f"topic {topic!r} partition {partition} has no message at offset {offset}"
        raise SetupError("USAGE", details=f"{details}: compacted away, or a transaction's marker")
    return message


def _read_partition(
    consumer: Any, topic: str, partition: int, start: int, high: int, servers: str
) -> Iterator[Message]:
    begin = library().TopicPartition(topic, partition, start)
    consumer.assign([begin])
    position, waited = start, 0
    while position < high:
        batch = consumer.consume(1000, 1.0)
        for record in batch:
            if record.error() is not None:
                raise library().KafkaException(record.error())
            if record.offset() >= high:
                return
            yield Message.of_record(record)
        # Offsets without a record (transaction markers, compaction) end before the high watermark: ask where we are.
        position = max(consumer.position([begin])[0].offset, position)
        waited = 0 if batch else waited + 1
        if waited > 30:
            details = f"{topic} partition {partition}: nothing came after offset {position} for 30 s"
            raise SetupError("KAFKA_UNREACHABLE", servers=servers, details=details)


# ---- what is known of topics
def extents(topic: str, settings: Mapping[str, str]) -> dict[int, tuple[int, int]]:
    """(oldest offset, offset after the newest) of each partition. SetupError KAFKA_UNREACHABLE, UNKNOWN_TOPIC."""
    with _consumer(settings) as consumer:
        numbers = partitions(consumer, topic, settings["bootstrap.servers"])
        return {partition: watermarks(consumer, topic, partition) for partition in numbers}


def partition_counts(settings: Mapping[str, str], topic: str | None, prefix: str = "") -> dict[str, int]:
    """Partitions of the topic, or of all that begin with `prefix` and are there. SetupError KAFKA_UNREACHABLE."""
    with KafkaErrors(settings["bootstrap.servers"]):
        topics = _admin(settings).list_topics(**({"topic": topic} if topic else {}), timeout=_TIMEOUT).topics
    return {n: len(t.partitions) for n, t in topics.items() if t.error is None and n.startswith(prefix)}


def newest_offsets(counts: Mapping[str, int], settings: Mapping[str, str]) -> dict[tuple[str, int], int]:
    """Offsets after the newest messages, as far as told. counts: partitions by topic. SetupError KAFKA_UNREACHABLE."""
    keys = [(topic, partition) for topic, count in counts.items() for partition in range(count)]
    with KafkaErrors(settings["bootstrap.servers"]):
        return list_offsets(_admin(settings), keys, "latest", _TIMEOUT)


def list_offsets(
    client: Any, keys: Collection[tuple[str, int]], which: str, seconds: float
) -> dict[tuple[str, int], int]:
    """The `earliest` or `latest` offset of (topic, partition); without those that the broker does not tell."""
    if not keys:
        return {}
    spec, kind = getattr(library().admin.OffsetSpec, which)(), library().TopicPartition
    offsets = {}
    for key, answer in client.list_offsets({kind(*key): spec for key in keys}, request_timeout=seconds).items():
        with suppress(library().KafkaException, TimeoutError):
            offsets[key.topic, key.partition] = int(answer.result(seconds + 1).offset)
    return offsets


def topic_ids(topics: Collection[str], settings: Mapping[str, str]) -> dict[str, str]:
    """As `topic_id`, of several topics that are there; without those of which it can't be told."""
    ids, client = dict[str, str](), _admin(settings)
    with suppress(library().KafkaException, ValueError):
        named = library().TopicCollection([*topics])
        for name, answer in client.describe_topics(named, request_timeout=_TIMEOUT).items():
            with suppress(library().KafkaException, TimeoutError, ValueError):
                uuid = str(answer.result(_TIMEOUT + 1).topic_id)
                ids |= {name: uuid} if uuid not in ("None", _NO_ID) else {}
    return ids


def topic_id(topic: str, settings: Mapping[str, str]) -> str | None:
    """What the broker knows a topic by; one made anew has another. None: can't be told. SetupError UNKNOWN_TOPIC."""
    client, end = _admin(settings), time.monotonic() + _GONE_AFTER
    while True:
        try:
            answers = client.describe_topics(library().TopicCollection([topic]), request_timeout=_TIMEOUT)
            uuid = answers[topic].result(_TIMEOUT + 1).topic_id
            return str(uuid) if uuid is not None and str(uuid) != _NO_ID else None
        except library().KafkaException as error:
            if error.args[0].code() != library().KafkaError.UNKNOWN_TOPIC_OR_PART:
                return None  # an old broker, no right to ask, or it is away for a moment
            if time.monotonic() > end:
                raise topic_error(client, topic, error.args[0], settings["bootstrap.servers"]) from error
            time.sleep(0.5)  # a broker that has just started may not know its topics yet
        except (TimeoutError, ValueError):
            return None


def largest_messages(settings: Mapping[str, str], topics: Iterable[str]) -> dict[str, int]:
    """`max.message.bytes` of topics: larger messages a topic refuses. What the broker does not tell is left out."""
    kind, client = library().admin.ConfigResource, _admin(settings)
    resources = [kind(kind.Type.TOPIC, topic) for topic in topics]
    answers = client.describe_configs(resources, request_timeout=_TIMEOUT) if resources else {}
    sizes = {}
    for resource, answer in answers.items():
        # No right to ask, an old broker, or it is away.
        with suppress(library().KafkaException, KeyError, TimeoutError):
            sizes[resource.name] = int(answer.result(_TIMEOUT + 1)["max.message.bytes"].value)
    return sizes


# ---- writing
def same_topic_error(topic: str) -> str:
    """Says that a rule for topics names the one that is read."""
    wrong = "the topic that is read: the job would read what it wrote; name other ones"
    return f"{Hint.TOPIC}: the rule gives {topic}, {wrong}"


class TopicWriter:
    """Writes messages to a topic, idempotently and in order; a message keeps its partition (modulo the topic's).

    Args:
        topic: None: each message has its own.
        read: topics that none may have.
        must_exist: no topic is made: SetupError UNKNOWN_TOPIC for one that is not there.
        seconds: how long `close` waits for what is under way.
    """

    def __init__(
        self, topic: str | None, settings: Mapping[str, str], read: TopicChoice | None = None, *,
        must_exist: bool = False, seconds: float = _FLUSH_SECONDS,
    ) -> None:  # fmt: skip
        self._topic, self._read, self._must_exist, self._seconds = topic, read, must_exist, seconds
        self._servers = settings["bootstrap.servers"]
        config: dict[str, Any] = {
            "enable.idempotence": True, "linger.ms": 20, "compression.type": "lz4", **settings,
        }  # fmt: skip
        if must_exist:
            config |= {"allow.auto.create.topics": False, "delivery.timeout.ms": int(seconds * 1000)}
        self._client_errors = ClientErrors(self._servers)
        self._producer = make_client(library().Producer, config | {"error_cb": self._client_errors})
        self._errors = KafkaErrors(self._servers, self._sent_text)
        self._counts: dict[str, int] = {}
        self._failure = self._unknown = ""
        self.delivered = 0

    def write(self, message: Message) -> None:
        """Queues a message. SetupError KAFKA_UNREACHABLE, UNKNOWN_TOPIC when an earlier one could not be written."""
        topic = self._topic or message.topic
        if topic is None:
            raise SetupError("USAGE", details="the message has no topic to write to: give kafka:TOPIC")
        if self._read is not None and self._read.takes(topic):
            raise SetupError("USAGE", details=same_topic_error(topic))
        with self._errors:
            if topic not in self._counts:
                self._counts[topic] = self._count(topic)
            count, partition = self._counts[topic], -1  # librdkafka's partitioner
            if message.partition is not None and count:
                partition = message.partition % count  # what was in order, in one partition, stays so
            while True:
                try:
                    self._producer.produce(
                        topic, message.value, message.key, on_delivery=self._on_delivery,
                        timestamp=message.timestamp or 0, headers=list(message.headers), partition=partition,
                    )  # fmt: skip
                    break
                except BufferError:
                    self._producer.poll(SLICE)
            self._producer.poll(0)
        self._check()

    def _count(self, topic: str) -> int:
        """Partitions of a topic; 0 for one that is not there yet: the broker makes it, or refuses the first message."""
        if not self._must_exist:
            found = self._producer.list_topics(topic, timeout=_TIMEOUT).topics[topic]
        else:
            check_name(topic)
            found = find_topics(self._producer, self._client_errors, time.monotonic() + _TIMEOUT, topic)[topic]
            if found.error is not None:
                raise topic_error(self._producer, topic, found.error, self._servers)
        return 0 if found.error is not None else len(found.partitions)

    def _on_delivery(self, error: Any, record: Any) -> None:
        if error is None:
            self.delivered += 1
        elif not self._failure:
            self._failure = f"{error.str()}."
            codes = library().KafkaError
            if error.code() in (codes.UNKNOWN_TOPIC_OR_PART, codes._UNKNOWN_TOPIC):
                self._unknown = record.topic()

    def _check(self) -> None:
        if self._unknown:
            unknown = _unknown_text(self._unknown, (), self._servers)
            details = f"{unknown}, and the broker makes none. {self._sent_text()}"
            raise SetupError("UNKNOWN_TOPIC", topic=self._unknown, details=details)
        if self._failure:
            raise SetupError("KAFKA_UNREACHABLE", servers=self._servers, details=f"{self._failure} {self._sent_text()}")

    def _sent_text(self) -> str:
        return f"Messages sent before: {self.delivered}."

    def close(self) -> None:
        """All messages are acknowledged, or SetupError KAFKA_UNREACHABLE, UNKNOWN_TOPIC."""
        left = self._producer.flush(self._seconds)
        if left and not self._failure:
            self._failure = f"{left} messages were not acknowledged within {self._seconds:g} s."
        self._check()

    def abandon(self) -> None:
        """Forgets what was not sent."""
        self._producer.purge()
        self._producer.flush(SLICE)


# ---- which topics
@dataclass(frozen=True)
class TopicChoice:
    """Which topics a job reads, after `kafka:`: TOPIC, A,B or by a regular expression, /REGEX/ (`--topics`)."""

    text: str

    def __post_init__(self) -> None:
        """SetupError USAGE for a regular expression that is none."""
        try:
            _ = self.pattern
        except re.error as error:
            details = f"--topics {self.text[1:-1]}: not a regular expression (at character {(error.pos or 0)})"
            raise SetupError("USAGE", details=details) from error

    @cached_property
    def pattern(self) -> re.Pattern[str] | None:
        """What the whole of a topic's name has to match; None for topics by name."""
        is_pattern = len(self.text) > 1 and self.text.startswith("/") and self.text.endswith("/")
        return re.compile(self.text[1:-1]) if is_pattern else None

    @cached_property
    def names(self) -> tuple[str, ...]:
        """The topics that are named, sorted."""
        return () if self.pattern else tuple(sorted({word.strip() for word in self.text.split(",") if word.strip()}))

    @property
    def only(self) -> str | None:
        """The topic, where it is one."""
        return self.names[0] if len(self.names) == 1 else None

    def takes(self, topic: str | None) -> bool:
        if self.pattern is not None:
            return topic is not None and not topic.startswith("__") and bool(self.pattern.fullmatch(topic))
        return topic in self.names

    def find(self, settings: Mapping[str, str]) -> dict[str, int]:
        """The topics that are there, with their numbers of partitions. SetupError UNKNOWN_TOPIC, KAFKA_UNREACHABLE."""
        every = partition_counts(settings, None)
        counts = {topic: n for topic, n in sorted(every.items()) if self.takes(topic)}
        if missing := sorted({*self.names} - counts.keys()):
            details = _unknown_text(missing[0], every, settings["bootstrap.servers"])
            raise SetupError("UNKNOWN_TOPIC", topic=missing[0], details=details)
        if not counts:
            raise SetupError("UNKNOWN_TOPIC", topic=repr(self.text[1:-1]), details="no topic's name fits the pattern")
        return counts

    def spark_options(self) -> dict[str, str]:
        """The options of Spark's Kafka source."""
        if self.pattern is not None:
            return {"subscribePattern": f"(?!__)(?:{self.pattern.pattern})"}
        return {"subscribe": ",".join(self.names)}

    def __str__(self) -> str:
        return self.text


def number_sources(counts: Mapping[str, int], known: list[tuple[str, int]]) -> list[tuple[str, int]]:
    """(topic, partition) of each source by its number: known ones, then new ones, sorted. SetupError: too many."""
    existing = set(known)
    numbered = [*known, *((t, p) for t in sorted(counts) for p in range(counts[t]) if (t, p) not in existing)]
    if len(numbered) > _MAX_SOURCES:
        details = f"the topics have {len(numbered)} partitions; one job reads {_MAX_SOURCES} at most"
        raise SetupError("USAGE", details=details)
    return numbered
