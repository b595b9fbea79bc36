"""`/kafka`: topics, their messages decoded, and dead letters. Ours; Confluent's registry has none."""

import re
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, Final, TypeVar

import anyio
import anyio.to_thread
from fastapi import Response

from ticdc_bridge.schemas.model.errors import SetupError
from ticdc_bridge.schemas.model.event import tso_physical_ms
from ticdc_bridge.service.api.bodies import FLAG, INTEGER, STRING, Body, Kind, as_is, list_of
from ticdc_bridge.service.api.kafka_topics import KafkaTopics
from ticdc_bridge.service.api.request import ApiCall
from ticdc_bridge.service.api.routing import PAGE, Called, Parameter, Router
from ticdc_bridge.service.api.routing import STRING as TEXT_PARAMETER
from ticdc_bridge.service.auth.acl import ADMIN, MESSAGES
from ticdc_bridge.service.errors import RegistryError
from ticdc_bridge.service.history.model import tso_of
from ticdc_bridge.service.registry.view import StoreSchemas

T = TypeVar("T")

router = Router("/kafka", retry_on_outage=False)

_ASKING: Final = anyio.CapacityLimiter(4)
"""Of the threads that the service has for everything else, none waits for Kafka."""
_REPLAYING: Final = anyio.CapacityLimiter(1)
_SECONDS: Final = 12.0
_REPLAY_SECONDS: Final = 90.0
_MOST_WAITING: Final = 16
_LAST: Final = 20
_MOST: Final = 500
_SEARCHED: Final = 1000
_LIKELY: Final = re.compile(r"dead|dlq", re.IGNORECASE)
"""In the names of topics that hold dead letters, probably: jobs may call them anything."""

_NAME = Parameter("name", "Only topics with this text in their names, whatever its case", TEXT_PARAMETER)
_LETTERS = Parameter("deadLetters", "Only topics of dead letters: that jobs reported, or with dead or dlq in the name")
_COUNT = Parameter("last", "How many messages, 20 if not said, 500 at most", {"type": "integer", "format": "int32"})
_BEFORE = Parameter("before", "Only messages before these offsets, as PARTITION:OFFSET,…", TEXT_PARAMETER)
_TIME = Parameter("beforeTime", "Only messages before a time: RFC 3339, or milliseconds since 1970", TEXT_PARAMETER)
_KEY = Parameter("key", "Of 1000 messages those with this value in a key column, or text in the key", TEXT_PARAMETER)
_PARTITION = Parameter("partition", "Only of this partition", {"type": "integer", "format": "int32"})
_FORMAT = Parameter(
    "messageFormat", "The messages' format; auto, if not said, detects each message's own", TEXT_PARAMETER
)


async def _ask_kafka(
    call: ApiCall, ask: Callable[[KafkaTopics], T], seconds: float = _SECONDS, limiter: anyio.CapacityLimiter = _ASKING
) -> T:
    """Runs `ask` in a thread. RegistryError NO_KAFKA, KAFKA_SETTINGS; SetupError KAFKA_UNREACHABLE."""
    kafka = call.services.kafka
    if kafka is None:
        raise RegistryError("NO_KAFKA")
    if limiter.statistics().tasks_waiting >= _MOST_WAITING:
        raise SetupError("KAFKA_UNREACHABLE", servers="this service", details="too many requests wait for it already")
    try:
        with anyio.fail_after(seconds):
            return await anyio.to_thread.run_sync(partial(ask, kafka), limiter=limiter, abandon_on_cancel=True)
    except TimeoutError:
        details = f"no answer within {seconds:g} s"
        if limiter is _REPLAYING:
            details += "; letters may have been sent: look at their topics before you try again"
        raise SetupError("KAFKA_UNREACHABLE", servers="its bootstrap servers", details=details) from None
    except SetupError as error:
        if error.code != "USAGE":
            raise
        raise RegistryError("KAFKA_SETTINGS", details=error.detail) from error


@router.declare("GET", "/topics", needs=MESSAGES, query=(_NAME, _LETTERS, *PAGE))
async def list_topics(call: Called) -> Response:
    """Topics by name, each with its partitions and how many offsets it has."""
    from ticdc_bridge.service.registry.lineage import dead_letter_topics

    search, (offset, limit) = call.text("name").lower(), call.page_limits()
    only_letters = call.flag("deadLetters")
    reported = dead_letter_topics(call.registry) if only_letters else set()

    def wanted(name: str) -> bool:
        return search in name.lower() and bool(not only_letters or name in reported or _LIKELY.search(name))

    rows, total = await _ask_kafka(call, lambda kafka: kafka.topics(wanted, offset, limit))
    following = offset + limit if offset + limit < total else None
    return call.answer({"topics": rows, "total": total, "next_offset": following})


_NUMBERS: Final = re.compile(r"[0-9]{1,10}:[0-9]{1,19}")
_WINDOW: Final = (_COUNT, _PARTITION, _BEFORE, _TIME, _KEY)


@router.declare("GET", "/topics/{topic}/messages", needs=MESSAGES, query=(*_WINDOW, _FORMAT, "changefeed"))
async def list_messages(call: Called) -> Response:
    """The last messages of a topic, the newest first, decoded, each with its table's version or why it can't be read.

    `older` is the `before` of the next page; null where there is none.

    Versions are those of the changefeed that is asked for, of the only one that follows the topic, or the only one.
    """
    topic, count = call.segment("topic"), min(max(call.integer("last", _LAST), 1), _MOST)
    partition, key, moment = call.integer("partition", -1), call.text("key"), _moment(call.text("beforeTime"))
    before = _ends(dict(at.partition(":")[::2] for at in call.text("before").split(",") if at)) or {}
    name, feed = call.text("messageFormat") or "auto", call.text("changefeed")

    def read(kafka: KafkaTopics) -> dict[str, Any]:
        from ticdc_bridge.service.api.decoded_messages import (  # with all formats: imported when asked
            check_format,
            decode_messages,
        )

        check_format(name)

        window = None if partition < 0 else partition, before, moment
        last = kafka.last_messages(topic, _SEARCHED if key else count, *window)
        history = call.services.history
        with call.registry.store.read():
            changefeed = history.changefeed(feed).name if feed else _changefeed_of(call, topic)
            decoded = decode_messages(last.messages, name, StoreSchemas(call.registry.store), history, changefeed)
        return {
            "topic": topic,
            "changefeed": changefeed,
            "partitions": [
                {"partition": entry, "from": low, "to": high} for entry, (low, high) in sorted(last.extents.items())
            ],
            "messages": sorted(
                (entry for entry in decoded if not key or _has_key(entry, key)),
                key=lambda entry: (entry["timestamp"] or 0, entry["offset"]),
                reverse=True,
            ),
            "read": len(decoded),
            "older": ",".join(f"{name}:{offset}" for name, offset in last.older.items()) or None,
            "unread_partitions": list(last.unread),
            "too_large": last.left_out,
        }

    return call.answer(await _ask_kafka(call, read))


def _has_key(entry: Mapping[str, Any], text: str) -> bool:
    """Whether a decoded message has a text in its key, or a value in a column of the key."""
    rows = [event for event in entry["events"] if event["kind"] == "row"]
    images = [(event, event[name] or {}) for event in rows for name in ("before", "after")]
    values = [image.get(column) for event, image in images for column in event["key"]]
    return text in values or text in (entry["key"] or {}).get("text", "")


def _changefeed_of(call: ApiCall, topic: str) -> str | None:
    """The changefeed whose history comes from a topic; else the only one there is; else none."""
    history = call.services.history
    topics = {name: {partition[0] for partition in read} for name, read in history.partitions().items()}
    following = [name for name, read in topics.items() if topic in read]
    names = following or [changefeed.name for changefeed in history.changefeeds()]
    return names[0] if len(names) == 1 else None


@router.declare("GET", "/topics/{topic}/messages/{partition}/{offset}", needs=MESSAGES)
async def get_message(call: Called) -> Response:
    """One message by its place, as a line of a message file."""
    from ticdc_bridge.schemas.inputs.message_lines import message_line

    topic, position = call.segment("topic"), [_number(call, name) for name in ("partition", "offset")]
    return call.answer(message_line(await _ask_kafka(call, lambda kafka: kafka.message_at(topic, *position))))


def _number(call: ApiCall, name: str) -> int:
    text = call.segment(name)
    if text.isascii() and text.isdecimal() and len(text) <= 19:
        return int(text)
    raise RegistryError("MESSAGE_NOT_FOUND", details=f"{text[:40]!r} is no {name}: a number from 0 on is needed.")


@router.declare("GET", "/topics/{topic}/dead-letters", needs=MESSAGES)
async def list_dead_letters(call: Called) -> Response:
    """The dead letters of a topic by reason; `ends` names the messages that a replay may be limited to."""
    from ticdc_bridge.service.api.decoded_messages import count_reasons

    topic = call.segment("topic")
    return call.answer(await _ask_kafka(call, lambda kafka: count_reasons(kafka, topic)))


def _moment(value: Any) -> int | None:
    """Milliseconds since 1970, or an RFC 3339 time."""
    if value is None or value == "":
        return None
    text = str(value)
    return int(text) if text.isascii() and text.isdecimal() and len(text) <= 15 else tso_physical_ms(tso_of(text))


_REPLAY: Final[Mapping[str, Kind]] = {
    "reasons": list_of("ArrayList", STRING), "since": Kind(_moment, {"type": ["integer", "string", "null"]}),
    "max_attempts": INTEGER, "ends": as_is({"type": ["object", "null"]}), "dry_run": FLAG,
}  # fmt: skip


@router.declare("POST", "/topics/{topic}/replay", needs=ADMIN, body=Body("replay", "ReplayRequest", _REPLAY))
async def replay_dead_letters(call: Called) -> Response:
    """Sends the dead letters of a topic again to where they came from; a dry run, unless `dry_run` is false."""
    from ticdc_bridge.schemas.inputs.replay import LetterFilter
    from ticdc_bridge.service.api.decoded_messages import replay_letters

    body = call.body
    most = body.get("max_attempts")
    if most is not None and most < 1:
        raise RegistryError("UNPROCESSABLE", details="max_attempts: at least 1 is needed")
    letters = LetterFilter(frozenset(body.get("reasons") or ()), body.get("since"), most or 3, needs_origin=True)
    topic, ends, dry_run = call.segment("topic"), _ends(body.get("ends")), body.get("dry_run") is not False
    action = partial(replay_letters, topic=topic, letters=letters, ends=ends, dry_run=dry_run)
    return call.answer(await _ask_kafka(call, action, _REPLAY_SECONDS, _REPLAYING))


def _ends(value: Any) -> dict[int, int] | None:
    """Partition → offset before which it is read."""
    if value is None:
        return None
    if not isinstance(value, dict) or not all(_NUMBERS.fullmatch(f"{name}:{end}") for name, end in value.items()):
        raise RegistryError("UNPROCESSABLE", details="partition and offset: numbers are needed")
    return {int(name): int(end) for name, end in value.items()}
