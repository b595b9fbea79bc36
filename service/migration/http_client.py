"""Asking a registry: one over HTTP, or an app in this process. Both send paths as they are given.

A registry asked over HTTP by the commands: GET and POST of JSON with Python's own urllib.
"""

from __future__ import annotations

import asyncio
import base64
import json
import ssl
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, Protocol
from urllib.error import HTTPError, URLError
from urllib.parse import unquote, urlsplit, urlunsplit
from urllib.request import Request, urlopen

from starlette.types import ASGIApp, Message

from schemas.model.errors import SetupError
from service.logs import mask_url

V1: Final = "application/vnd.schemaregistry.v1+json"
PASSING: Final = (408, 429, 500, 502, 503, 504)
GATEWAY: Final = (502, 503, 504)
_FIRST_PAUSE: Final = 0.2
_LONGEST_PAUSE: Final = 5.0
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

    user: str | None = None
    token: str | None = field(default=None, repr=False)
    ca: Path | None = None
    wait: float = 30.0
    timeout: float = 30.0
    passing: tuple[int, ...] = PASSING


class HttpRegistry:
    """A registry at a URL. Transport errors and passing statuses are tried again for `wait` seconds."""

    def __init__(self, url: str, access: RegistryLogin = RegistryLogin()) -> None:  # frozen
        try:
            import httpx2
        except ImportError:
            raise SetupError(
                "USAGE", details="moving over HTTP needs httpx2: pip install 'ticdc-bridge[service]'"
            ) from None
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
        data = None if body is None else json.dumps(body, ensure_ascii=False).encode("utf-8", "replace")
        end, pause = time.monotonic() + self._wait, _FIRST_PAUSE
        while True:
            try:
                answer = self._send_once(method, target, data)
                if answer.status not in self._passing:
                    return answer
                reason = answer.error_text
            except self._errors as error:
                answer, reason = None, f"{error or type(error).__name__}"
            if time.monotonic() + pause > end:
                if answer is not None:
                    return answer
                details = f"{reason} (tried for {self._wait:g} s)"
                raise SetupError("REGISTRY_UNREACHABLE", url=self.name, details=details)
            time.sleep(pause)
            pause = min(pause * 2, _LONGEST_PAUSE)

    def _send_once(self, method: str, target: str, data: bytes | None) -> RegistryResponse:
        # The target goes out as it is: a client that tidies paths would make another subject of "." or "a%2Fb".
        request = self._client.build_request(
            method, self._base, content=data, extensions={"target": (self._path + target).encode("ascii")}
        )
        response = self._client.send(request)
        return RegistryResponse(
            response.status_code, response.content, _media_type(response.headers.get("content-type", ""))
        )

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
        data = b"" if body is None else json.dumps(body, ensure_ascii=False).encode("utf-8", "replace")
        return asyncio.run_coroutine_threadsafe(self._ask(method, target, data), self._loop).result()

    async def _ask(self, method: str, target: str, data: bytes) -> RegistryResponse:
        path, _, query = target.partition("?")
        headers = {"host": "localhost", "accept": f"{V1}, application/json", "content-type": V1}
        scope = {
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
        incoming: list[Message] = [{"type": "http.request", "body": data, "more_body": False}]
        never: asyncio.Future[Message] = self._loop.create_future()
        sent: list[Message] = []

        async def receive() -> Message:
            return incoming.pop() if incoming else await never

        async def send(message: Message) -> None:
            sent.append(message)

        await self.app(scope, receive, send)
        start = next(message for message in sent if message["type"] == "http.response.start")
        media = {name.lower(): value for name, value in start.get("headers", ())}.get(b"content-type", b"").decode()
        whole = b"".join(message.get("body", b"") for message in sent if message["type"] == "http.response.body")
        return RegistryResponse(start["status"], whole, _media_type(media))

    def close(self) -> None:
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()


def get_list(asker: RegistryClient, target: str) -> list[Any]:
    """A list that must be there. Raises SetupError."""
    answer = asker.ask("GET", target)
    if answer.status != 200 or not isinstance(answer.json, list):
        raise refusal_error(asker, f"GET {target}", answer)
    return list(answer.json)


def refusal_error(asker: RegistryClient, what: str, answer: RegistryResponse) -> SetupError:
    return SetupError("REGISTRY_REFUSED", url=asker.name, what=what, details=answer.error_text)


def mask_login(url: str) -> str:
    """A URL without what stands before its last @."""
    scheme, separator, rest = url.partition("://")
    before, at, after = rest.rpartition("@")
    return f"{scheme}{separator}***@{after}" if before or at else url


def _parts(url: str) -> Any:
    try:
        parts = urlsplit(url)
        good = parts.scheme in ("http", "https") and parts.hostname and "@" not in parts.path and (parts.port or 1)
    except ValueError:
        good = False
    if not good:
        details = f"{mask_login(url)!r} is no URL of a registry; write http://host:port (escape / and @ in a password)"
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
        raise SetupError("USAGE", details=f"the certificates in {ca} can't be read: {error}") from None


def _media_type(content_type: str) -> str:
    return content_type.partition(";")[0].strip().lower()


Told = Callable[[str, int, int | None], None]
"""Progress: what is being done, how much of it is done, of how much (None: not known)."""


def ignore_progress(_what: str, _done: int, _total: int | None) -> None:
    """No progress."""


_TIMEOUT: Final = 60
_LARGEST: Final = 64 << 20
_JSON: Final = "application/vnd.schemaregistry.v1+json"


class RemoteService:
    """A service by its URL. Credentials in the URL are sent as Basic authentication, and never shown."""

    def __init__(self, url: str) -> None:
        parts = urlsplit(url)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise SetupError("USAGE", details=f"--service {mask_url(url)[:200]}: write http://HOST:PORT")
        self.shown = mask_url(url).rstrip("/")
        self._base = parts._replace(netloc=parts.netloc.rpartition("@")[2], query="", fragment="").geturl().rstrip("/")
        self._headers = {"Content-Type": _JSON, "Accept": "application/json, */*;q=0.1"}
        if parts.username is not None:
            pair = f"{unquote(parts.username)}:{unquote(parts.password or '')}"
            self._headers["Authorization"] = "Basic " + base64.b64encode(pair.encode()).decode()

    def get(self, path: str) -> Any:
        """The answer's JSON. SetupError as `post`."""
        return self._send("GET", path, None)

    def post(self, path: str, body: Any) -> Any:
        """The answer's JSON. SetupError REGISTRY_UNREACHABLE; REGISTRY_REFUSED for any status but 200."""
        return self._send("POST", path, json.dumps(body).encode())

    def _send(self, method: str, path: str, body: bytes | None) -> Any:
        request = Request(self._base + path, body, self._headers, method=method)
        try:
            with urlopen(request, timeout=_TIMEOUT) as answer:
                return json.loads(answer.read(_LARGEST))
        except HTTPError as error:
            with error:
                details = f"{error.code} {error.read(2000).decode(errors='replace')}"
            raise SetupError("REGISTRY_REFUSED", url=self.shown, what=f"{method} {path}", details=details) from None
        except (URLError, OSError, ValueError) as error:
            reason = getattr(error, "reason", error)
            raise SetupError("REGISTRY_UNREACHABLE", url=self.shown, details=reason) from None
