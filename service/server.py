"""Running the app with uvicorn on a socket that we bound ourselves, so that port 0 works and failures are clear."""

from __future__ import annotations

import socket
import ssl
from collections.abc import Callable

import uvicorn
from starlette.types import ASGIApp

from schemas.errors import SetupError
from service.connections import Connection, Slow
from service.settings import Settings

_GRACE_SECONDS = 25
_BACKLOG = 2048
_TICKS_A_SECOND = 10


class Server(uvicorn.Server):
    """Calls `on_ready` once requests are served, and ends connections that are too slow."""

    def __init__(self, config: uvicorn.Config, on_ready: Callable[[], None], read_seconds: float) -> None:
        super().__init__(config)
        self._on_ready = on_ready
        self._slow = Slow(read_seconds)

    async def on_tick(self, counter: int) -> bool:
        if counter % _TICKS_A_SECOND == 0:
            self._slow.look(self.server_state.connections)
        return await super().on_tick(counter)

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets=sockets)
        if self.started:
            self._on_ready()


def bind(host: str, port: int) -> socket.socket:
    """A listening socket; port 0 picks a free one. Raises SetupError, e.g. when the port is in use."""
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(
            host, port, type=socket.SOCK_STREAM, proto=socket.IPPROTO_TCP, flags=socket.AI_PASSIVE
        )[0]
        # The protocol is named, because asyncio switches Nagle's delay off (40 ms an answer) only where it sees TCP.
        listening = socket.socket(family, kind, protocol)
    except OSError as error:
        raise SetupError("USAGE", details=f"can't listen on {host}:{port}: {error.strerror or error}") from None
    try:
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listening.bind(address)
        listening.listen(_BACKLOG)
        return listening
    except OSError as error:
        listening.close()
        raise SetupError("USAGE", details=f"can't listen on {host}:{port}: {error.strerror or error}") from None


def base_url(listening: socket.socket, scheme: str = "http") -> str:
    """Where clients reach a bound socket."""
    host, port = listening.getsockname()[:2]
    return f"{scheme}://[{host}]:{port}" if ":" in host else f"{scheme}://{host}:{port}"


def server(app: ASGIApp, settings: Settings, on_ready: Callable[[], None], tls: ssl.SSLContext | None = None) -> Server:
    """`tls` None: plain HTTP. Of the settings, those about logs and connections count."""
    level = settings.log_level
    config = uvicorn.Config(
        app,
        log_level="warning" if level == "info" else level,  # its start-up lines are not ours
        log_config=None,  # what uvicorn logs goes where everything goes
        access_log=False,
        server_header=False,
        timeout_graceful_shutdown=_GRACE_SECONDS,
        timeout_keep_alive=settings.keep_alive_seconds,
        limit_concurrency=settings.max_connections or None,
        lifespan="on",
        backlog=_BACKLOG,
        http=Connection,
        ws="none",
        ssl_context_factory=None if tls is None else lambda _config, _default: tls,
    )
    return Server(config, on_ready, settings.read_seconds)
