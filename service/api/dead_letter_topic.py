"""Dead letters in a topic: how many by which reason, and sent again to where they came from.

What a dead letter is, and which of them are sent again, is shared with `ticdc-bridge replay`
(schemas.inputs.dead_letters, schemas.inputs.replay).
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from ticdc_bridge.schemas.inputs.dead_letters import attempts
from ticdc_bridge.schemas.inputs.replay import LetterFilter, ReplayCounts, replay
from ticdc_bridge.schemas.model.event import Message
from ticdc_bridge.service.api.decoded_messages import letter_form, time_of
from ticdc_bridge.service.api.kafka_topics import KafkaTopics
from ticdc_bridge.service.errors import RegistryError

MOST_LETTERS: Final = 50_000
_LOOK_SECONDS: Final = 8.0
_REPLAY_SECONDS: Final = 25.0
_SHOWN_ORIGINS: Final = 5
_MAYBE: Final = re.compile(r"dead|dlq", re.IGNORECASE)


def is_likely_name(topic: str) -> bool:
    """Whether a topic's name says that it holds dead letters: jobs may call it anything."""
    return _MAYBE.search(topic) is not None


@dataclass(slots=True)
class _Reason:
    """The letters of one reason. example: the newest."""

    count: int = 0
    first: int | None = None
    last: int | None = None
    attempts: int = 0
    origins: Counter[str] = field(default_factory=Counter)
    example: Message | None = None

    def add(self, letter: Message, form: Mapping[str, Any]) -> None:
        self.count += 1
        self.attempts = max(self.attempts, attempts(letter))
        topic = (form["origin"] or "").rsplit("/", 2)
        self.origins[topic[0] if len(topic) == 3 and topic[0] != "-" else "unknown"] += 1
        if letter.timestamp is not None:
            self.first = min(letter.timestamp, letter.timestamp if self.first is None else self.first)
        if self.last is None or (letter.timestamp or 0) >= self.last:
            self.last, self.example = letter.timestamp, letter

    def form(self, reason: str) -> dict[str, Any]:
        assert self.example is not None
        example = letter_form(self.example) or {}
        return {
            "reason": reason, "count": self.count, "attempts": self.attempts,
            "first": None if self.first is None else time_of(self.first),
            "last": None if self.last is None else time_of(self.last),
            "origins": [{"topic": topic, "count": n} for topic, n in self.origins.most_common(_SHOWN_ORIGINS)],
            "example": {"partition": self.example.partition, "offset": self.example.offset,
                        "detail": example.get("detail"), "origin": example.get("origin")},
        }  # fmt: skip


def count_reasons(kafka: KafkaTopics, topic: str) -> dict[str, Any]:
    """The dead letters of a topic by reason, the most frequent first. whole: whether all of the topic was read."""
    messages, extents, whole = kafka.read_range(topic, None, MOST_LETTERS, _LOOK_SECONDS)
    reasons, others = dict[str, _Reason](), 0
    for message in messages:
        form = letter_form(message)
        if form is None:
            others += 1
        else:
            reasons.setdefault(form["reason"], _Reason()).add(message, form)
    ordered = sorted(reasons.items(), key=lambda one: (-one[1].count, one[0]))
    return {
        "topic": topic,
        "messages": sum(high - low for low, high in extents.values()),
        "read": len(messages),
        "whole": whole,
        "reasons": [one.form(reason) for reason, one in ordered],
        "no_dead_letters": others,
        "ends": {str(partition): high for partition, (_, high) in extents.items()},
    }


@dataclass(frozen=True, slots=True)
class ReplayRequest:
    """Which letters of a topic: `letters`, in the messages before `ends` (None: all there are now)."""

    topic: str
    letters: LetterFilter
    ends: Mapping[int, int] | None = None
    dry_run: bool = True


class _NoSender:
    """Where a dry run sends to."""

    def write(self, message: Message) -> None:
        """Counted by the caller."""

    def close(self) -> None:
        """Nothing was opened."""

    def abandon(self) -> None:
        """Nothing was sent."""


def replay_letters(kafka: KafkaTopics, request: ReplayRequest) -> dict[str, Any]:
    """Sends the chosen letters to the topics they came from; a dry run counts only.

    RegistryError UNPROCESSABLE, with nothing sent, for a topic that can't be read whole here, and where a topic that
    letters came from is not there. SetupError KAFKA_UNREACHABLE says how many were sent before.
    """
    messages, extents, whole = kafka.read_range(request.topic, request.ends, MOST_LETTERS, _REPLAY_SECONDS)
    if not whole:
        details = (
            f"Topic {request.topic} can't be read whole in {_REPLAY_SECONDS:g} s ({MOST_LETTERS} letters and 32 MiB at "
            f"most), and nothing was sent: use ticdc-bridge replay --in kafka:{request.topic} --out kafka:"
        )
        raise RegistryError("UNPROCESSABLE", details=details)
    planned = replay(lambda: messages, request.letters, _NoSender())
    missing = _find_missing(kafka, planned)
    if missing and not request.dry_run:
        details = f"Topics that letters came from are not there: {', '.join(missing)}. Nothing was sent."
        raise RegistryError("UNPROCESSABLE", details=details)
    counts = planned if request.dry_run else replay(lambda: messages, request.letters, kafka.sender())
    return {
        "topic": request.topic,
        "dry_run": request.dry_run,
        "read": counts.read,
        "sent": counts.sent,
        "topics": [{"topic": topic, "count": n} for topic, n in sorted(counts.topics.items(), key=repr)],
        "left_out": [{"why": why, "count": n} for why, n in sorted(counts.left.items())],
        "too_many_attempts": counts.tired,
        "missing_topics": missing,
        "ends": {str(partition): end for partition, (_, end) in extents.items()},
    }


def _find_missing(kafka: KafkaTopics, planned: ReplayCounts) -> list[str]:
    """Topics that letters are to be sent to and that are not there."""
    wanted: Iterable[str] = (topic for topic in planned.topics if topic is not None)
    return sorted(set(wanted) - kafka.names()) if planned.topics else []
