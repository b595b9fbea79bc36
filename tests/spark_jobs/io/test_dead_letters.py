"""Dead letters keep the message, say why it is here, and can be read again."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.spark_jobs.io.test_message_files import messages
from ticdc_bridge.schemas.inputs.dead_letters import ATTEMPT, DETAIL, ORIGIN, REASON, dead_letter
from ticdc_bridge.schemas.inputs.replay import original_message
from ticdc_bridge.schemas.model.errors import WireError
from ticdc_bridge.schemas.model.event import Message
from ticdc_bridge.schemas.plain.writer import json_line
from ticdc_bridge.spark_jobs.io.dead_letters import dead_letter_line
from ticdc_bridge.spark_jobs.io.message_files import parse_line

ERROR = WireError("MALFORMED", where="value", details="nope 订单")


@given(messages, st.text(max_size=2000))
def test_bytes_headers_and_place_are_kept(message: Message, text: str) -> None:
    error = WireError("MALFORMED", where="value", details=text)
    made = dead_letter(error, message)
    assert (made.key, made.value, made.topic, made.partition, made.offset, made.timestamp) == (
        message.key,
        message.value,
        message.topic,
        message.partition,
        message.offset,
        message.timestamp,
    )
    assert made.headers[: len(message.headers)] == message.headers
    line = json_line(dead_letter_line(error, message))
    assert parse_line(line.encode(), "x") == made
    assert (json.loads(line)["code"], json.loads(line)["detail"]) == ("MALFORMED", error.detail)
    assert len(dict(made.headers)[DETAIL] or b"") <= 4000


def test_headers_say_why_and_where() -> None:
    made = dead_letter(ERROR, Message(b"k", None, "t", 1, 7, None, (("x", b"1"),)))
    assert made.headers == (
        ("x", b"1"),
        (REASON, b"MALFORMED"),
        (DETAIL, "value: nope 订单".encode()),
        (ORIGIN, b"t/1/7"),
        (ATTEMPT, b"1"),
    )
    assert dict(dead_letter(ERROR, Message(None, b"")).headers)[ORIGIN] == b"-/-/-"


def test_attempts_are_counted_and_told_once() -> None:
    message = Message(b"k", b"v", "t", 0, 0, None, (("x", b"1"),))
    for attempt in range(1, 12):
        message = dead_letter(ERROR, message)
        assert dict(message.headers)[ATTEMPT] == str(attempt).encode()
        assert len(message.headers) == 5


def test_headers_of_others_that_are_called_alike_stay() -> None:
    """A stream's own messages have the header bridge.id: a job that reads them keeps it in dead letters and replays."""
    message = Message(b"k", b"v", "t", 0, 4, None, (("bridge.id", b"0/1/0/0"), ("bridge", None)))
    letter = dead_letter(ERROR, message)
    assert letter.headers[:2] == message.headers
    assert original_message(letter).headers == (*message.headers, (ORIGIN, b"t/0/4"), (ATTEMPT, b"1"))


def test_the_origin_of_a_replayed_message_is_its_first() -> None:
    first = dead_letter(ERROR, Message(b"k", b"v", "t", 0, 3))
    told = tuple(h for h in first.headers if h[0] in (ATTEMPT, ORIGIN))
    assert dict(dead_letter(ERROR, Message(b"k", b"v", "t", 1, 99, headers=told)).headers)[ORIGIN] == b"t/0/3"
    foreign = Message(b"k", b"v", "t", 1, 99, headers=((ORIGIN, b"somebody's own"),))
    assert dict(dead_letter(ERROR, foreign).headers)[ORIGIN] == b"t/1/99"


@pytest.mark.parametrize("attempt", [b"", b"x", b"-1", b"9" * 50, b"\xff", None])
def test_an_attempt_of_somebody_else(attempt: bytes | None) -> None:
    made = dead_letter(ERROR, Message(None, b"", headers=((ATTEMPT, attempt),)))
    assert dict(made.headers)[ATTEMPT] == b"1"
