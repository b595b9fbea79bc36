"""decode and transcode in this process, with no JVM: for small files, and the truth that Spark's plans are held to."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Protocol

from schemas.errors import WireError
from schemas.event import Message
from spark_jobs.codec import Result, Side, decode_one, plain_lines, transcode_one
from spark_jobs.endpoints import DeadLetters, LineSink, Sink
from spark_jobs.learned import Learning
from spark_jobs.summary import Summary

Incoming = Iterable[Message | tuple[WireError, Message]]


class _Closable(Protocol):
    def close(self) -> None: ...

    def abandon(self) -> None: ...


@contextmanager
def all_or_abandoned(*outputs: _Closable | None) -> Iterator[None]:
    """Outputs are completed together when the job ends well, and abandoned when it doesn't."""
    try:
        yield
    except BaseException:
        for output in outputs:
            if output is not None:
                output.abandon()
        raise
    for output in outputs:
        if output is not None:
            output.close()


def decode(incoming: Incoming, side: Side, out: LineSink, dead: DeadLetters | None) -> Summary:
    """Messages → plain-form lines in order; a message that fails becomes one error line (and a dead letter)."""
    summary, decoder = Summary(), Learning(side).decoder
    with all_or_abandoned(out, dead):
        for item in incoming:
            message, result = _result(item, lambda m: decode_one(decoder, m, side.verify_checksum))
            summary.count(result)
            tell(result.notes, summary.messages)
            for line in plain_lines(result, message):
                out.write(line)
                summary.out += 1
            if result.error is not None and dead is not None:
                dead.write(result.error, message)
    return summary


def tell(notes: list[str], number: int) -> None:
    """Notes on the message of this number, counted from 1, to stderr."""
    for note in notes:
        print(f"message {number}, {note}", file=sys.stderr)


def transcode(
    incoming: Incoming, read: Side, write: Side, out: Sink, dead: DeadLetters, topic: str | None = None
) -> Summary:
    """Messages → messages of another format, in order; what fails goes to the dead letters.

    topic: the topic written to, and the one its subjects are named by; None: each message's own.
    """
    learning, summary = Learning(read), Summary()
    decoder, encoder = learning.decoder, replace(write, tables=learning.tables).encoder()
    with all_or_abandoned(out, dead):
        for item in incoming:
            message, result = _result(item, lambda m: transcode_one(decoder, encoder, m, topic))
            summary.count(result)
            for written in result.out:
                out.write(written)
                summary.out += 1
            if result.error is not None:
                dead.write(result.error, message)
    return summary


def _result(item: Message | tuple[WireError, Message], one: _One) -> tuple[Message, Result]:
    if isinstance(item, Message):
        return item, one(item)
    error, message = item
    return message, Result(error=error)


class _One(Protocol):
    def __call__(self, message: Message, /) -> Result: ...
