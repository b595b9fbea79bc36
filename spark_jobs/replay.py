"""`replay`: dead letters go again to where they came from, or elsewhere: key, value and headers byte for byte.

What the dead letter added to the headers (spark_jobs.dead_letter) goes, but for the count of attempts: a message that
fails again is a dead letter with one more, and after --max-attempts it is left out: nothing goes round for ever.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field, replace

from schemas.errors import WireError
from schemas.event import Message
from spark_jobs.dead_letter import ATTEMPT, ORIGIN, REASON, attempts
from spark_jobs.endpoints import Sink


@dataclass(frozen=True)
class Choice:
    """Which dead letters: reasons (none: any), from a time on (ms, of the message in the dead letter place)."""

    reasons: frozenset[str] = frozenset()
    since: int | None = None
    max_attempts: int = 3
    to_origin: bool = True


@dataclass
class Replayed:
    """Counts of one run."""

    read: int = 0
    sent: int = 0
    left: Counter[str] = field(default_factory=Counter)
    tired: int = 0
    unread: int = 0

    @property
    def exit_code(self) -> int:
        return 1 if self.tired or self.unread else 0

    def lines(self) -> list[str]:
        out = [f"dead letters read {self.read}", f"sent again {self.sent}"]
        out += [f"left out, {why} {count}" for why, count in sorted(self.left.items())]
        if self.tired:
            out.append(f"left out, failed too often {self.tired}")
        if self.unread:
            out.append(f"no dead letters (lines that are no messages) {self.unread}")
        return out


def replay(incoming: Iterable[Message | tuple[WireError, Message]], choice: Choice, out: Sink) -> Replayed:
    """Sends the chosen dead letters; `out` is completed, or abandoned where the run fails."""
    done = Replayed()
    try:
        for item in incoming:
            if not isinstance(item, Message):
                done.unread += 1
                continue
            done.read += 1
            if (why := _left_out(item, choice)) is not None:
                done.left[why] += 1
            elif attempts(item) >= choice.max_attempts:
                done.tired += 1
            else:
                out.write(original(item, choice.to_origin))
                done.sent += 1
    except BaseException:
        out.abandon()
        raise
    out.close()
    return done


def _left_out(message: Message, choice: Choice) -> str | None:
    told = dict(message.headers)
    reason = (told.get(REASON) or b"").decode("utf-8", "replace")
    if not reason:
        return "no dead letter (no header bridge.reason)"
    if choice.reasons and reason not in choice.reasons:
        return f"other reason {reason}"
    if choice.since is not None and (message.timestamp is None or message.timestamp < choice.since):
        return "older, or without a time"
    return None


def original(letter: Message, to_origin: bool = True) -> Message:
    """A dead letter → the message that failed; of ours only the header with the attempts stays.

    to_origin: with the topic and partition that it came from, else as the dead letter has them.
    """
    kept = tuple(h for h in letter.headers if not h[0].startswith("bridge.") or h[0] == ATTEMPT)
    found = replace(letter, headers=kept, offset=None)
    where = (dict(letter.headers).get(ORIGIN) or b"").decode("utf-8", "replace").rsplit("/", 2)
    if not to_origin or len(where) != 3:
        return found
    topic, partition, offset = (None if part == "-" else part for part in where)
    number = int(partition) if partition and partition.isdigit() and len(partition) < 10 else None
    at = int(offset) if offset and offset.isdigit() and len(offset) < 19 else None
    return replace(found, topic=topic, partition=number, offset=at)
