"""What uvicorn leaves open about connections: the client's certificate, long heads, and clients that are too slow.

Uvicorn ends only connections that are idle after an answer. Here a head has a largest size, and a look at all
connections, once a second, ends those that send one request, or take one answer, for longer than they may.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Iterable
from typing import Any, Final

from uvicorn.protocols.http.auto import AutoHTTPProtocol

from service.api.auth import CERTIFICATE_STATE
from service.tls import name_in

_LOG = logging.getLogger("service")
LARGEST_HEAD: Final = 64 * 1024
_TOO_LARGE: Final = b"HTTP/1.1 431 Request Header Fields Too Large\r\ncontent-length: 0\r\nconnection: close\r\n\r\n"


class Connection(AutoHTTPProtocol):  # type: ignore[misc, valid-type]
    """Uvicorn's own protocol; the name in a client's certificate goes into the `state` of its requests."""

    _head = 0

    def connection_made(self, transport: asyncio.Transport) -> None:
        super().connection_made(transport)
        tls = transport.get_extra_info("ssl_object")
        name = name_in(tls.getpeercert()) if tls is not None else None
        if name is not None:
            self.app_state: dict[str, Any] = {**self.app_state, CERTIFICATE_STATE: name}

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        if not in_head(self):
            self._head = 0
            return
        self._head += len(data)
        if self._head > LARGEST_HEAD and not self.transport.is_closing():
            self.transport.write(_TOO_LARGE)
            self.transport.close()


def in_head(connection: Any) -> bool:
    """Whether a request was begun whose head is not there yet, or none was begun at all."""
    return connection.cycle is None or connection.scope is not connection.cycle.scope


def waiting_for(connection: Any) -> object | None:
    """What a client has to go on with: a request to send or an answer to take; None while it owes nothing."""
    found: object = connection.scope or connection
    if in_head(connection):
        return found
    found, cycle = connection.cycle, connection.cycle
    return found if not cycle.response_complete and (cycle.more_body or connection.flow.write_paused) else None


class Slow:
    """Finds the connections that have been waiting for the same thing for too long."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._since: dict[Any, tuple[object, float]] = {}

    def look(self, connections: Iterable[Any], now: float | None = None) -> None:
        """End those that are too slow. `now` in seconds of time.monotonic()."""
        now = time.monotonic() if now is None else now
        before, self._since = self._since, {}
        ended = 0
        for connection in list(connections):
            waits = waiting_for(connection)
            if waits is None:
                continue
            was, since = before.get(connection, (None, now))
            since = since if was is waits else now
            self._since[connection] = (waits, since)
            if now - since > self._seconds:
                connection.transport.abort()
                ended += 1
        if ended:
            _LOG.warning(
                "%d connections ended: no whole request, or an answer not taken, in %g s", ended, self._seconds
            )
