"""Asking a registry: one over HTTP, or an app in this process. Both send paths as they are given."""

from __future__ import annotations

import asyncio
import base64
import json
import ssl
import threading
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, Protocol, TypeVar
from urllib.parse import unquote, urlsplit, urlunsplit

from starlette.types import ASGIApp, Message

from ticdc_bridge.schemas.model.credentials import mask_credentials, mask_url
from ticdc_bridge.schemas.model.errors import SetupError
from ticdc_bridge.schemas.model.reasons import reason_of, without_number
from ticdc_bridge.service.registry.deadline import retry_until

T = TypeVar("T")
V1: Final = "application/vnd.schemaregistry.v1+json"
PASSING: Final = (408, 429, 500, 502, 503, 504)
GATEWAY: Final = (502, 503, 504)
_PAUSES: Final = (0.2, 5.0)
_CREDENTIALS: Final = (
    "set BRIDGE_REGISTRY_USER=NAME:PASSWORD or BRIDGE_REGISTRY_TOKEN, or write http://NAME:PASSWORD@HOST"
)
CONNECTIONS: Final = 8


@dataclass(frozen=True, slots=True)
class RegistryResponse:
    """What came back; `media` is the content type without its parameters."""

    status: int
    body: bytes
    media: str = ""

    @property
    def json(self) -> Any:
        """The body; a text where it is no JSON."""
        try:
            return json.loads(self.body)
        except (ValueError, RecursionError):
            return self.body.decode("utf-8", "replace")

    @property
    def error_text(self) -> str:
        """The error in a few words."""
        body = self.json
        text = body.get("message") if isinstance(body, dict) else body
        return f"HTTP {self.status}: {str(text)[:300]}"


class RegistryClient(Protocol):
    name: str

    def ask(self, method: str, target: str, body: Any = None) -> RegistryResponse:
        """One request. `target` is path and query, escaped. Raises SetupError REGISTRY_UNREACHABLE."""


@dataclass(frozen=True, slots=True)
class RegistryLogin:
    """How one gets into a registry. `user` is NAME:PASSWORD; it wins over what stands in the URL.

    `passing` are the statuses that are tried again, for `wait` seconds.
    """

    user: str | None = field(default=None, repr=False)
    token: str | None = field(default=None, repr=False)
    ca: Path | None = None
    wait: float = 30.0
    timeout: float = 60.0
    passing: tuple[int, ...] = PASSING


class _Passing(Exception):
    """What is tried again: the answer that came, or None and why none did."""

    def __init__(self, answer: RegistryResponse | None, reason: str) -> None:
        super().__init__(reason)
        self.answer = answer


class HttpRegistry:
    """A registry at a URL. Transport errors and passing statuses are tried again for `wait` seconds."""

    def __init__(self, url: str, access: RegistryLogin = RegistryLogin()) -> None:
        import httpx2

        parts = _parts(url)
        host = parts.netloc.rpartition("@")[2]
        self.name = urlunsplit((parts.scheme, host, parts.path.rstrip("/"), "", ""))
        self._path = parts.path.rstrip("/")
        headers = {"Accept": f"{V1}, application/json", "Accept-Encoding": "identity", "Content-Type": V1}
        headers |= _authorization(parts.username, parts.password, access)
        self._wait, self._passing = access.wait, access.passing
        self._errors = (httpx2.TransportError, httpx2.DecodingError)
        self._client = httpx2.Client(
            headers=headers,
            timeout=access.timeout,
            verify=_tls(access.ca),
            limits=httpx2.Limits(max_connections=CONNECTIONS, max_keepalive_connections=CONNECTIONS),
        )
        self._base = urlunsplit((parts.scheme, host, "/", "", ""))

    def ask(self, method: str, target: str, body: Any = None) -> RegistryResponse:
        data = json_body(body)
        try:
            return retry_until(lambda: self._send_once(method, target, data), self._wait, _Passing, _PAUSES)
        except _Passing as passing:
            if passing.answer is not None:
                return passing.answer
            details = f"{passing} (tried for {self._wait:g} s)"
            raise SetupError("REGISTRY_UNREACHABLE", url=self.name, details=details) from None

    def _send_once(self, method: str, target: str, data: bytes) -> RegistryResponse:
        # The target goes out as it is: a client that tidies paths would make another subject of "." or "a%2Fb".
        extensions = {"target": (self._path + target).encode("ascii")}
        try:
            request = self._client.build_request(method, self._base, content=data or None, extensions=extensions)
            response = self._client.send(request)
        except self._errors as error:
            raise _Passing(None, mask_credentials(without_number(str(error)) or "no answer")) from error
        media = _media_type(response.headers.get("content-type", ""))
        answer = RegistryResponse(response.status_code, response.content, media)
        if answer.status in self._passing:
            raise _Passing(answer, answer.error_text)
        return answer

    def close(self) -> None:
        self._client.close()


class AppRegistry:
    """An ASGI app of this process, asked without a socket. Safe to use from many threads."""

    def __init__(self, app: ASGIApp, name: str = "this service") -> None:
        self.name = name
        self.app = app
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="asking", daemon=True)
        self._thread.start()

    def ask(self, method: str, target: str, body: Any = None) -> RegistryResponse:
        headers = {"host": "localhost", "accept": f"{V1}, application/json", "content-type": V1}
        coroutine = ask_app(self.app, method, target, json_body(body), headers)
        return asyncio.run_coroutine_threadsafe(coroutine, self._loop).result()

    def close(self) -> None:
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()


async def ask_app(
    app: ASGIApp, method: str, target: str, body: bytes, headers: Mapping[str, str], scope: Mapping[str, Any] = {}
) -> RegistryResponse:
    """Ask an ASGI app without a socket. target: path and query, escaped. scope: what else its scope has."""
    path, _, query = target.partition("?")
    incoming: list[Message] = [{"type": "http.request", "body": body, "more_body": False}]
    never: asyncio.Future[Message] = asyncio.get_running_loop().create_future()
    sent: list[Message] = []

    async def receive() -> Message:
        return incoming.pop() if incoming else await never

    async def send(message: Message) -> None:
        sent.append(message)

    asked = {
        "type": "http",
        "asgi": {"version": "3.0", "spec_version": "2.4"},
        "http_version": "1.1",
        "method": method,
        "scheme": "http",
        "path": unquote(path),
        "raw_path": path.encode("ascii"),
        "query_string": query.encode("ascii"),
        "root_path": "",
        "headers": [(name.encode(), value.encode()) for name, value in headers.items()],
        "client": ("127.0.0.1", 0),
        "server": ("127.0.0.1", 0),
        "state": {},
    }
    try:
        await app({**asked, **scope}, receive, send)
    except Exception:
        if not sent:
            raise  # else it has answered 500, and raised for the log of a server
    start = next(message for message in sent if message["type"] == "http.response.start")
    media = {name.lower(): value for name, value in start.get("headers", ())}.get(b"content-type", b"").decode()
    whole = b"".join(message.get("body", b"") for message in sent if message["type"] == "http.response.body")
    return RegistryResponse(start["status"], whole, _media_type(media))


def need_json(asker: RegistryClient, kind: type[T], target: str, method: str = "GET", body: Any = None) -> T:
    """The JSON of an answer, which has to be 200 and of that kind. Raises SetupError."""
    return _check_answer(asker, kind, f"{method} {target}", asker.ask(method, target, body))


def find_json(asker: RegistryClient, kind: type[T], target: str) -> T | None:
    """As `need_json` of a GET; None where the answer is 404."""
    answer = asker.ask("GET", target)
    return None if answer.status == 404 else _check_answer(asker, kind, f"GET {target}", answer)


def _check_answer(asker: RegistryClient, kind: type[T], what: str, answer: RegistryResponse) -> T:
    value = answer.json
    if answer.status != 200 or not isinstance(value, kind):
        raise refusal_error(asker, what, answer)
    return value


def refusal_error(asker: RegistryClient, what: str, answer: RegistryResponse) -> SetupError:
    way = f" ({_CREDENTIALS})" if answer.status == 401 else ""
    return SetupError("REGISTRY_REFUSED", url=asker.name, what=what, details=answer.error_text + way)


def _parts(url: str) -> Any:
    try:
        parts = urlsplit(url)
        good = parts.scheme in ("http", "https") and parts.hostname and "@" not in parts.path and (parts.port or 1)
    except ValueError:
        good = False
    if not good:
        details = f"{mask_url(url)!r} is no URL of a registry; write http://host:port (escape / and @ in a password)"
        raise SetupError("USAGE", details=details)
    return parts


def _authorization(user: str | None, password: str | None, access: RegistryLogin) -> Mapping[str, str]:
    if access.token:
        return {"Authorization": f"Bearer {access.token}"}
    pair = access.user
    if pair is None and user is not None:
        pair = f"{unquote(user)}:{unquote(password or '')}"
    return {} if pair is None else {"Authorization": "Basic " + base64.b64encode(pair.encode()).decode()}


def _tls(ca: Path | None) -> ssl.SSLContext | bool:
    if ca is None:
        return True
    try:
        return ssl.create_default_context(cafile=str(ca))
    except (OSError, ssl.SSLError) as error:
        reason = "it has no PEM certificate" if isinstance(error, ssl.SSLError) else reason_of(error)
        raise SetupError("USAGE", details=f"--ca {ca}: {reason}") from None


def json_body(value: Any) -> bytes:
    """The body of a request; b"" for None."""
    return b"" if value is None else json.dumps(value, ensure_ascii=False).encode("utf-8", "replace")


def _media_type(content_type: str) -> str:
    return content_type.partition(";")[0].strip().lower()
