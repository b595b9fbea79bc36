"""Writer: to come."""

from __future__ import annotations

from schemas.event import Event, Message
from schemas.wire.base import Context


class MysqlEncoder:
    def __init__(self, context: Context) -> None:
        pass

    def encode(self, event: Event, origin: Message) -> list[Message]:
        return []
