"""Dead letters: the message byte for byte, and in headers why it is here. Read again like any other message."""

from dataclasses import replace

from ticdc_bridge.schemas.model.errors import WireError
from ticdc_bridge.schemas.model.event import Message

REASON, DETAIL, ORIGIN, ATTEMPT = "bridge.reason", "bridge.detail", "bridge.origin", "bridge.attempt"
ERROR_HEADERS = frozenset((REASON, DETAIL, ORIGIN, ATTEMPT))


def dead_letter(error: WireError, origin: Message) -> Message:
    """The message with reason, detail, origin (topic/partition/offset) and attempt added to its headers.

    Of a message that failed before and was replayed the origin is where it came from at first.
    """
    return dead_letter_of(error.code, error.detail, origin)


def dead_letter_of(code: str, detail: str, origin: Message) -> Message:
    """The message as the dead letter of an error with this code and detail."""
    headers = tuple(h for h in origin.headers if h[0] not in ERROR_HEADERS)
    tries = attempts(origin)
    here = "/".join("-" if piece is None else str(piece) for piece in (origin.topic, origin.partition, origin.offset))
    where = (dict(origin.headers).get(ORIGIN) if tries else None) or here.encode("utf-8", "replace")
    error_headers = (
        (REASON, code.encode()), (DETAIL, detail[:1000].encode("utf-8", "replace")), (ORIGIN, where),
        (ATTEMPT, b"%d" % (tries + 1)),
    )  # fmt: skip
    return replace(origin, headers=headers + error_headers)


def attempts(message: Message) -> int:
    """How often a message has failed, by its header; 0 without one."""
    tries = next((v for k, v in reversed(message.headers) if k == ATTEMPT and v), b"0")
    return int(tries) if tries.isdigit() and len(tries) < 10 else 0
