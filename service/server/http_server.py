"""The app run by uvicorn on a socket that we bound ourselves, so that port 0 works and failures are clear.

What uvicorn leaves open is here too: the client's certificate, offered upgrades, long heads, slow clients (uvicorn ends
only connections that are idle after an answer), and renewed TLS files (`auth.file_watcher`).
"""

import asyncio
import logging
import signal
import socket
import ssl
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from errno import EADDRINUSE
from ipaddress import ip_address
from typing import Any, Final

import httptools
import uvicorn
from starlette.types import ASGIApp
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from ticdc_bridge.schemas.model.credentials import mask_url
from ticdc_bridge.schemas.model.errors import SetupError
from ticdc_bridge.schemas.model.reasons import reason_of
from ticdc_bridge.service.api.authentication import CERTIFICATE_STATE
from ticdc_bridge.service.auth.file_watcher import FileWatcher
from ticdc_bridge.service.server.logs import print_line
from ticdc_bridge.service.server.settings import Settings

REQUIRED: Final = "required"
OPTIONAL: Final = "optional"


@dataclass(frozen=True, slots=True)
class Tls:
    """`key` "": the key is in the file of the certificate. `client_ca` "": no client certificates are asked for."""

    certificate: str
    key: str = ""
    password: str = ""
    client_ca: str = ""
    client_auth: str = REQUIRED

    def context(self) -> ssl.SSLContext:
        """TLS 1.2 and later. Raises SetupError for files that can't be used; the password is not in its text."""
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        context.options |= ssl.OP_NO_RENEGOTIATION
        if self.client_ca:
            context.verify_mode = ssl.CERT_OPTIONAL if self.client_auth == OPTIONAL else ssl.CERT_REQUIRED
        what, path = "TLS certificate", self.certificate
        try:
            context.load_cert_chain(self.certificate, self.key or None, lambda: self.password)
            if self.client_ca:
                what, path = "TLS client CA", self.client_ca
                context.load_verify_locations(self.client_ca)
        except OSError as error:  # ssl.SSLError is one
            reason = reason_of(error)
            if isinstance(error, ssl.SSLError):
                damaged = "it is not PEM, or its certificate or key is missing or damaged"
                reason = _TLS_REASONS.get(error.reason or "", damaged)
            raise SetupError("USAGE", details=f"{what} {path} (key {self.key or 'in it'}): {reason}") from None
        return context

    def load(self, context: ssl.SSLContext) -> None:
        """Reads the files; a context's connections use them from then on. Raises SetupError, and leaves it as it is."""
        # Into a context of their own: one that is in use would have a certificate without its key if that comes later.
        renewed = self.context()
        context.sni_callback = lambda connection, _name, _context: setattr(connection, "context", renewed)


_TLS_REASONS: Final = {
    "KEY_VALUES_MISMATCH": "the key is of another certificate",
    "BAD_DECRYPT": "the key's password (BRIDGE_TLS_KEY_PASSWORD) is missing or wrong",
    "BAD_PASSWORD_READ": "the key's password (BRIDGE_TLS_KEY_PASSWORD) is missing or wrong",
}


def name_in(certificate: dict[str, Any] | None) -> str | None:
    """The name in a client's certificate (as `SSLObject.getpeercert` gives it): its CN, else its first SAN."""
    if not certificate:
        return None
    for piece in certificate.get("subject", ()):
        for key, value in piece:
            if key == "commonName" and value:
                return str(value)
    alt_names = dict(reversed(certificate.get("subjectAltName", ())))
    return next((str(alt_names[kind]) for kind in ("URI", "DNS", "email", "IP Address") if alt_names.get(kind)), None)


def watched_context(settings: Settings) -> tuple[ssl.SSLContext | None, FileWatcher]:
    """The TLS context of the settings (None: plain HTTP), and its files, still to be started. Raises SetupError."""
    files = FileWatcher()
    if not settings.tls_cert:
        return None, files
    password = settings.tls_key_password.get_secret_value()
    tls = Tls(settings.tls_cert, settings.tls_key, password, settings.tls_client_ca, settings.tls_client_auth)
    context = tls.context()
    for path in filter(None, (settings.tls_cert, settings.tls_key, settings.tls_client_ca)):
        files.watch(path, lambda _text: tls.load(context))
    return context, files


_LOG = logging.getLogger("service")
LARGEST_HEAD: Final = 64 * 1024
_OK_LINE: Final = b"HTTP/1.1 200 OK\r\n"
_TOO_LARGE: Final = b"HTTP/1.1 431 Request Header Fields Too Large\r\ncontent-length: 0\r\nconnection: close\r\n\r\n"

FindAnswer = Callable[[bytes, Sequence[tuple[bytes, bytes]]], list[bytes] | None]


@dataclass(slots=True)
class AnsweredRequest:
    """Placeholder for a request that was answered from the cache."""

    scope: object = None
    message_event: asyncio.Event = field(default_factory=asyncio.Event)
    response_complete: Final = True
    more_body: Final = False


class Connection(HttpToolsProtocol):
    """Uvicorn's own protocol; the name in a client's certificate goes into the `state` of its requests.

    An offered upgrade is ignored (RFC 9110, 7.8). The parser takes the bytes after such a head for another protocol's,
    and uvicorn would read them as the next request. So the head is parsed again, without its Upgrade header.

    A GET whose answer the app has at hand (`find_answer`, of apps that have it) is answered where its head ends,
    without a task: half of what uvicorn takes for a request is that.
    """

    _head = 0
    _head_begins = False
    cycle: Any

    def __init__(self, config: uvicorn.Config, *arguments: Any, **named: Any) -> None:
        super().__init__(config, *arguments, **named)
        self._find_answer: FindAnswer | None = getattr(config.app, "find_answer", None)
        self._answered = AnsweredRequest()

    def on_headers_complete(self) -> None:
        if self.parser.should_upgrade():
            return
        hosts = sum(name == b"host" for name, _ in self.headers)
        version = self.parser.get_http_version()
        self.expect_100_continue &= version != "1.0"  # RFC 9110, 10.1.1
        if hosts > 1 or (not hosts and version == "1.1"):
            raise httptools.HttpParserError("HTTP/1.1 needs one Host header")
        if self._find_answer is None or not self._answer_at_once(self._find_answer):
            if any(name == b"transfer-encoding" and value.lower() != b"chunked" for name, value in self.headers):
                raise httptools.HttpParserError("the only transfer coding is chunked")
            super().on_headers_complete()

    def on_chunk_header(self) -> None:
        self.headers = []  # those of trailers are not the request's

    def on_message_complete(self) -> None:
        if not self.parser.should_upgrade():
            super().on_message_complete()

    def _answer_at_once(self, find_answer: FindAnswer) -> bool:
        """Answers the request if that can be; whether it was. All that is not plain is left to uvicorn."""
        parser, cycle, limit = self.parser, self.cycle, self.limit_concurrency
        if (
            parser.get_method() != b"GET"
            or (cycle is not None and not cycle.response_complete)
            or self.flow.write_paused
            or parser.get_http_version() != "1.1"
            or not parser.should_keep_alive()
            or (limit is not None and max(len(self.connections), len(self.tasks)) >= limit)
        ):
            return False
        answer = find_answer(self.url, self.headers)
        if answer is None:
            return False
        headers = (b"%b: %b\r\n" % header for header in self.server_state.default_headers)
        self._answered.scope, self.cycle = self.scope, self._answered
        self.transport.write(b"".join((_OK_LINE, *headers, *answer)))
        self.on_response_complete()
        return True

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        tls = transport.get_extra_info("ssl_object")
        name = name_in(tls.getpeercert()) if tls is not None else None
        if name is not None:
            self.app_state: dict[str, Any] = {**self.app_state, CERTIFICATE_STATE: name}

    def on_message_begin(self) -> None:
        super().on_message_begin()
        self._head_begins = True

    def data_received(self, data: bytes) -> None:
        self._head_begins = False
        self._unset_keepalive_if_required()
        try:
            self._parse(data)
        except httptools.HttpParserError:
            text = "Invalid HTTP request received."
            self.logger.warning(text)
            self.send_400_response(text)
        if self._head_begins or not in_head(self):  # nobody says how much of the data is of a head that begins in it
            self._head = 0
            return
        self._head += len(data)
        if self._head > LARGEST_HEAD and not self.transport.is_closing():
            self.transport.write(_TOO_LARGE)
            self.transport.close()

    def _parse(self, data: bytes) -> None:
        rest: bytes | memoryview = data
        while True:
            try:
                self.parser.feed_data(rest)
                return
            except httptools.HttpParserUpgrade as offered:
                rest = memoryview(rest)[offered.args[0] :]
                method = self.parser.get_method()
                if method == b"CONNECT":  # an upgrade by itself
                    raise httptools.HttpParserError("no tunnels") from None
                start = b"%b %b HTTP/%b\r\n" % (method, self.url, self.parser.get_http_version().encode())
                kept = [header for header in self.headers if header[0] != b"upgrade"]
                self.parser = httptools.HttpRequestParser(self)
                self.parser.set_dangerous_leniencies(lenient_data_after_close=True)  # as uvicorn sets it
                self.parser.feed_data(start + b"".join(b"%b: %b\r\n" % header for header in kept) + b"\r\n")


def in_head(connection: Any) -> bool:
    """True if a request was begun whose head is not there yet, or none was begun at all."""
    return connection.cycle is None or connection.scope is not connection.cycle.scope


def waiting_for(connection: Any) -> object | None:
    """The exchange that a client has to go on with: a request to send or an answer to take; None for none."""
    exchange: object = connection.scope or connection
    if in_head(connection):
        return exchange
    exchange, cycle = connection.cycle, connection.cycle
    return exchange if not cycle.response_complete and (cycle.more_body or connection.flow.write_paused) else None


class SlowClients:
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


_GRACE_SECONDS = 25
BACKLOG: Final = 2048
_TICKS_A_SECOND = 10


class Server(uvicorn.Server):
    def __init__(self, config: uvicorn.Config, on_ready: Callable[[], None], read_seconds: float) -> None:
        super().__init__(config)
        self._on_ready = on_ready
        self._slow = SlowClients(read_seconds)

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
        try:
            listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            listening.bind(address)
            listening.listen(BACKLOG)
            return listening
        except OSError:
            listening.close()
            raise
    except OSError as error:
        reason = f"{error.strerror or error}" + (": give another --port" if error.errno == EADDRINUSE else "")
        raise SetupError("USAGE", details=f"can't listen on {host}:{port}: {reason}") from None


def base_url(listening: socket.socket, scheme: str = "http") -> str:
    """The URL at which clients reach a bound socket."""
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
        backlog=BACKLOG,
        http=Connection,
        ws="none",
        ssl_context_factory=None if tls is None else lambda _config, _default: tls,
    )
    return Server(config, on_ready, settings.read_seconds)


def serve_on(listening: socket.socket, service: ASGIApp, settings: Settings) -> None:
    tls, tls_files = watched_context(settings)
    if warning := exposure_warning(settings, listening.getsockname()[0]):
        _LOG.warning(warning)
    tls_files.start()

    def ready() -> None:
        url = base_url(listening, "https" if settings.tls_cert else "http")
        print_line(f"listening on {url} store={mask_url(settings.store)} profile={settings.profile}")

    # uvicorn raises the signal again when it has stopped; stopping when asked to is no failure.
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda _number, _frame: None)
    server(service, settings, ready, tls).run(sockets=[listening])
    tls_files.close()


def exposure_warning(settings: Settings, address: str) -> str:
    """Who can reach the service, where an operator has to know it; "" on loopback."""
    if ip_address(address.partition("%")[0]).is_loopback:
        return ""
    if not settings.controls_access:
        return (
            f"ANYBODY who can reach {address} can read, change and delete every schema: set --auth-file "
            "(and --acl-file), or --tls-client-ca, or listen on 127.0.0.1 only"
        )
    if settings.auth_file and not settings.tls_cert:
        return "passwords and tokens are sent unencrypted: set --tls-cert and --tls-key, or put TLS in front"
    return ""
