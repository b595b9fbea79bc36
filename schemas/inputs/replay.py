"""`replay`: dead letters go again to where they came from, or elsewhere: key, value and headers byte for byte.

What the dead letter added to the headers (schemas.inputs.dead_letters) goes, but for the count of attempts and the
origin: a message that fails again is a dead letter of the same origin with one more attempt. Of the letters of one
message only the one with the most attempts is sent, and none after --max-attempts: however often a place with dead
letters is replayed, a message goes round at most so often.
"""

from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from hashlib import blake2b
from typing import Protocol

from ticdc_bridge.schemas.inputs.dead_letters import ATTEMPT, ERROR_HEADERS, ORIGIN, REASON, attempts
from ticdc_bridge.schemas.model.errors import WireError
from ticdc_bridge.schemas.model.event import Message

Incoming = Iterable[Message | tuple[WireError, Message]]
_MAX_REPORTED = 10


class MessageSink(Protocol):
    """Where messages go. `close` when all was written, `abandon` when the run failed."""

    def write(self, message: Message) -> None: ...

    def close(self) -> None: ...

    def abandon(self) -> None: ...


@dataclass(frozen=True)
class LetterFilter:
    """Which dead letters: reasons (none: any), from a time on (ms, of the message in the dead letter place).

    needs_origin: letters that do not say which topic they came from, or came from the one that they are in, are left
    out.
    """

    reasons: frozenset[str] = frozenset()
    since: int | None = None
    max_attempts: int = 3
    needs_origin: bool = False


@dataclass
class ReplayCounts:
    """Counts of one run. topics: of what was sent. reported: the first letters that failed too often, for people."""

    read: int = 0
    sent: int = 0
    left: Counter[str] = field(default_factory=Counter)
    tired: int = 0
    unread: int = 0
    topics: Counter[str | None] = field(default_factory=Counter)
    reported: list[WireError] = field(default_factory=list)

    @property
    def exit_code(self) -> int:
        return 1 if self.tired or self.unread else 0

    def lines(self) -> list[str]:
        out = [f"dead letters read {self.read}", f"sent again {self.sent}"]
        out += [f"left out, {why} {count}" for why, count in sorted(self.left.items())]
        if self.tired:
            out += [f"{error.code}: {error.detail}" for error in self.reported]
            out.append(f"left out, failed too often {self.tired}")
        if self.unread:
            out.append(f"no dead letters (lines that are no messages) {self.unread}")
        return out


def replay(incoming: Callable[[], Incoming], choice: LetterFilter, out: MessageSink) -> ReplayCounts:
    """Sends the chosen dead letters; `out` is completed, or abandoned where the run fails.

    incoming: gives the letters, and again when it is called again: first it is found which of them failed once more.
    """
    done = ReplayCounts()
    try:
        newest = _repeated_failures(incoming())
        sent: set[bytes] = set()
        for letter in incoming():
            if not isinstance(letter, Message):
                done.unread += 1
                continue
            done.read += 1
            if (message := _choose_message(letter, choice, newest, sent, done)) is not None:
                out.write(message)
                done.sent += 1
                done.topics[message.topic] += 1
    except BaseException:
        out.abandon()
        raise
    out.close()
    return done


def _repeated_failures(incoming: Incoming) -> dict[bytes, int]:
    """The attempts of messages that failed more than once."""
    newest: dict[bytes, int] = {}
    for item in incoming:
        if isinstance(item, Message) and (tries := attempts(item)) > 1 and (identity := _identity(item)) is not None:
            newest[identity] = max(tries, newest.get(identity, 0))
    return newest


def _identity(letter: Message) -> bytes | None:
    """A key that all letters of one message share; None where it is not known where the message came from."""
    origin = dict(letter.headers).get(ORIGIN) or b""
    where = origin.rsplit(b"/", 2)
    if len(where) != 3 or b"-" in where:
        return None
    return blake2b(repr((origin, letter.key, letter.value)).encode(), digest_size=16).digest()


def _choose_message(
    letter: Message, choice: LetterFilter, newest: dict[bytes, int], sent: set[bytes], done: ReplayCounts
) -> Message | None:
    """The message to send for a letter; None where the letter is left out, which is counted."""
    tries, identity = attempts(letter), _identity(letter)
    why = _reason_to_skip(letter, choice)
    if identity is not None and newest.get(identity, 0) > tries:
        why = "it failed again since (a later letter is here)"
    elif why is None and tries >= choice.max_attempts:
        done.tired += 1
        if len(done.reported) < _MAX_REPORTED:
            headers = dict(letter.headers)
            where, reason = ((headers.get(name) or b"-").decode("utf-8", "replace") for name in (ORIGIN, REASON))
            details = f"{where} failed {tries} times (--max-attempts {choice.max_attempts}), the last time by {reason}"
            done.reported.append(WireError("TOO_MANY_ATTEMPTS", details=details))
        return None
    elif why is None and identity is not None and identity in sent:
        why = "the same letter again"
    if why is not None:
        done.left[why] += 1
        return None
    if identity is not None:
        sent.add(identity)
    return original_message(letter)


def _reason_to_skip(message: Message, choice: LetterFilter) -> str | None:
    reason = (dict(message.headers).get(REASON) or b"").decode("utf-8", "replace")
    if not reason:
        return "no dead letter (no header bridge.reason)"
    if choice.reasons and reason not in choice.reasons:
        return f"other reason {reason}"
    if choice.since is not None and (message.timestamp is None or message.timestamp < choice.since):
        return "older, or without a time"
    if choice.needs_origin and original_message(message).topic in (None, "", message.topic):
        return "the topic that it came from is not known"
    return None


def original_message(letter: Message) -> Message:
    """A dead letter → the message that failed, with the topic and partition that it came from, where they are known.

    Of our headers those with the attempts and the origin stay.
    """
    headers = tuple(h for h in letter.headers if h[0] not in ERROR_HEADERS or h[0] in (ATTEMPT, ORIGIN))
    message = replace(letter, headers=headers, offset=None)
    where = (dict(letter.headers).get(ORIGIN) or b"").decode("utf-8", "replace").rsplit("/", 2)
    if len(where) != 3:
        return message
    topic, partition, offset = (None if piece == "-" else piece for piece in where)
    number = int(partition) if partition and partition.isdigit() and len(partition) < 10 else None
    at = int(offset) if offset and offset.isdigit() and len(offset) < 19 else None
    return replace(message, topic=topic, partition=number, offset=at)
