"""HTTP to a service that may be away: retries, credentials, TLS, careful redirects. One pool of connections."""

import base64
import json
import os
import random
import ssl
import string
import sys
import threading
import time
from collections.abc import Mapping
from contextlib import closing
from copy import copy
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path
from typing import Any, Final, Self, TypeVar, cast
from urllib.parse import quote, unquote, urljoin, urlsplit, urlunsplit

from ticdc_bridge.schemas.model.credentials import mask_credentials, mask_url
from ticdc_bridge.schemas.model.errors import Hint, SetupError
from ticdc_bridge.schemas.model.reasons import reason_of, without_number

T = TypeVar("T")
V1: Final = "application/vnd.schemaregistry.v1+json"
GATEWAY: Final = (502, 503, 504)
RETRIED: Final = (408, 429, 500, *GATEWAY)
CONNECTIONS: Final = 8
"""Requests that a command has under way at once."""
SILENT: Final = 2.0
"""Seconds of waiting after which a line says what is waited for."""
stop_requested = threading.Event()
"""Set, it ends the waiting of this process for any service (WaitInterrupted)."""
_PAUSES: Final = (0.1, 10.0)
_MAX_MESSAGE: Final = 500
_MAX_BODY: Final = 512 << 20
_MAX_REDIRECTS: Final = 10
_REDIRECTS: Final = (301, 302, 303, 307, 308)
_LOGIN_HINT: Final = "set BRIDGE_REGISTRY_USER=NAME:PASSWORD, or write http://NAME:PASSWORD@HOST"


class WaitInterrupted(Exception):
    """The process was stopped while it waited."""


@dataclass(frozen=True, slots=True)
class HttpLogin:
    """How a service lets us in, and how long it is waited for.

    Args:
        user: NAME:PASSWORD; wins over what stands in the URL. token: a bearer token; wins over both.
        ca: a PEM file of certificates to trust instead of the system's.
        wait: seconds to go on trying while the service can't be reached or answers with a status in RETRIED.
        timeout: seconds that one try may take, to the last byte of its answer.
    """

    user: str | None = field(default=None, repr=False)
    token: str | None = field(default=None, repr=False)
    ca: Path | None = None
    wait: float = 30.0
    timeout: float = 60.0


@dataclass(frozen=True, slots=True)
class HttpResponse:
    """An answer. media: its content type without parameters. retry_after: seconds that it asks to wait."""

    status: int
    body: bytes
    media: str = ""
    retry_after: float = 0.0

    @property
    def json(self) -> Any:
        """The body; a text where it is no JSON."""
        try:
            return json.loads(self.body)
        except (ValueError, RecursionError):
            if self.body.lstrip()[:1] == b"<":
                return "the answer is an HTML page, not JSON: is this the URL of the service?"
            return self.body.decode("utf-8", "replace")

    @property
    def error_text(self) -> str:
        """The error in a few words."""
        return f"HTTP {self.status}: {message_of(self.json)}"


class HttpClient:
    """A base URL, perhaps with NAME:PASSWORD@, given by `option`; pickles. SetupError USAGE for what is none."""

    service = "schema registry"  # what errors call it

    def __init__(self, url: str, option: Hint | str = "registry", login: HttpLogin = HttpLogin()) -> None:
        try:
            split_url = urlsplit(url)
            has_host = split_url.scheme in ("http", "https") and split_url.hostname and (split_url.port or 1)
            good = has_host and "@" not in split_url.path
        except ValueError:
            good = False
        if not good:
            needed = "http://host:port or https://… is needed (escape / and @ in a password)"
            where = option.of(repr(mask_url(url))) if isinstance(option, Hint) else f"{option} {mask_url(url)!r}"
            raise SetupError("USAGE", details=f"{where}: {needed}")
        self.name = urlunsplit(
            (split_url.scheme, split_url.netloc.rpartition("@")[2], split_url.path.rstrip("/"), "", "")
        )
        self.login = login
        self._headers = {"Accept": f"{V1}, application/json", "Accept-Encoding": "identity", "Content-Type": V1}
        user = login.user
        if user is None and split_url.username is not None:
            user = f"{unquote(split_url.username)}:{unquote(split_url.password or '')}"
        if login.token:
            self._headers["Authorization"] = f"Bearer {login.token}"
        elif user is not None:
            self._headers["Authorization"] = "Basic " + base64.b64encode(user.encode()).decode()
        if login.ca is not None:
            _trust(login.ca)

    def with_wait(self, seconds: float) -> Self:
        """The same service, with more patience."""
        patient = copy(self)
        patient.login = replace(self.login, wait=seconds)
        return patient

    def at_root(self, url: str) -> Self:
        """The same service under another URL, where answers may have any type."""
        other = copy(self)
        other.name, other._headers = url, {**self._headers, "Accept": "*/*"}
        return other

    # ---- requests
    def ask(self, method: str, target: str, body: Any = None) -> HttpResponse:
        """One request, tried again while that may help.

        Args:
            target: path below the URL and query, escaped; sent as it is.
            body: what is sent as JSON; None: nothing.

        Returns:
            The answer, also one with a status that was tried again until the time was over.

        Raises:
            SetupError: REGISTRY_UNREACHABLE; REGISTRY_REFUSED for an answer without end. WaitInterrupted.
        """
        data = b"" if body is None else json.dumps(body).encode()
        began, pause, announced = time.monotonic(), _PAUSES[0], False
        while True:
            tried = self._try(method, target, data)
            if isinstance(tried, HttpResponse):
                if tried.status not in RETRIED:
                    return tried
                reason, pause = tried.error_text, max(pause, tried.retry_after)
            else:
                reason = tried
            waited = time.monotonic() + pause - began
            if waited > self.login.wait:
                if isinstance(tried, HttpResponse):
                    return tried
                raise self._unreachable(reason)
            if not announced and waited > SILENT:
                print(f"waiting up to {self.login.wait:g} s for {self.name}: {reason}", file=sys.stderr, flush=True)
                announced = True
            if stop_requested.wait(pause * random.uniform(0.5, 1.0)):
                raise WaitInterrupted(f"stopped while {self.name} was away: {reason}")
            pause = min(pause * 2, _PAUSES[1])

    def call(self, method: str, path: str, body: Any = None) -> tuple[int, Any]:
        """As `ask`: (status, JSON). A status that would be tried again is SetupError REGISTRY_UNREACHABLE, too."""
        answer = self.ask(method, path, body)
        if answer.status in RETRIED:
            raise self._unreachable(answer.error_text)
        return answer.status, answer.json

    def need(self, kind: type[T], target: str, method: str = "GET", body: Any = None) -> T:
        """The JSON of an answer, which has to be 200 and of that kind. Raises SetupError."""
        status, value = self.call(method, target, body)
        if status != 200 or not isinstance(value, kind):
            raise self.refusal_error(f"{method} {target}", status, value)
        return value

    def find(self, kind: type[T], target: str) -> T | None:
        """As `need` of a GET; None where the answer is 404."""
        status, value = self.call("GET", target)
        if status != 404 and (status != 200 or not isinstance(value, kind)):
            raise self.refusal_error(f"GET {target}", status, value)
        return None if status == 404 else cast(T, value)

    def read_field(self, answer: Any, name: str, kind: type[T]) -> T:
        """A field of a good answer. SetupError REGISTRY_REFUSED when it is not what a registry answers."""
        value = answer.get(name) if isinstance(answer, dict) else None
        if not isinstance(value, kind):
            details = f"an answer without {name!r}: {json.dumps(answer)[:200]}; is this a {self.service}?"
            raise self.refused("the question", details)
        return value

    def refusal_error(self, what: str, status: int, answer: Any) -> SetupError:
        """The error for an answer (its JSON) that is no good one."""
        details = f"HTTP {status}: {message_of(answer)}"
        if status == 401 and "Authorization" not in self._headers:
            details += f" ({_LOGIN_HINT})"
        return self.refused(what, details)

    def _unreachable(self, reason: str) -> SetupError:
        details = f"{reason} (tried for {self.login.wait:g} s)" if self.login.wait else reason
        return SetupError("REGISTRY_UNREACHABLE", service=self.service, url=self.name, details=details)

    def refused(self, what: str, details: str) -> SetupError:
        """The error of a question that the service does not answer as it should."""
        return SetupError("REGISTRY_REFUSED", service=self.service, url=self.name, what=what, details=details)

    # ---- one try
    def _try(self, method: str, target: str, data: bytes) -> HttpResponse | str:
        """An answer, redirects followed for reading; or why there is none."""
        import httpx2

        until = time.monotonic() + self.login.timeout
        url, headers = self.name + target, self._headers
        try:
            for _ in range(_MAX_REDIRECTS + 1):
                answer, location = self._exchange(method, url, headers, data, until)
                followed = urljoin(url, location)
                if not location or method != "GET" or not followed.lower().startswith(("http:", "https:")):
                    return answer
                if urlsplit(followed)[:2] != urlsplit(url)[:2]:  # credentials go to no other host
                    headers = {name: value for name, value in headers.items() if name != "Authorization"}
                url = followed
            return "too many redirects"
        except (httpx2.HTTPError, httpx2.InvalidURL, OSError, ValueError) as error:
            return mask_credentials(without_number(str(error)) or "no answer")

    def _exchange(
        self, method: str, url: str, headers: Mapping[str, str], data: bytes, until: float
    ) -> tuple[HttpResponse, str]:
        """An answer and where it redirects to, "" if it does not."""
        split_url = urlsplit(url)
        with _first_use:
            client = _connections(split_url.scheme == "https", self.login.ca)
        # The target goes out as it is: a client that tidies paths would make another subject of "." or "a%2Fb".
        target = quote(
            (split_url.path or "/") + (f"?{split_url.query}" if split_url.query else ""), safe=string.punctuation
        )
        request = client.build_request(
            method, urlunsplit((*split_url[:2], "/", "", "")), headers=headers, content=data or None,
            timeout=max(until - time.monotonic(), 0.05), extensions={"target": target.encode()},
        )  # fmt: skip
        with closing(client.send(request, stream=True)) as response:
            body = bytearray()
            for piece in response.iter_bytes():
                body += piece
                if time.monotonic() > until:  # a server that trickles its answer is no better than one that is down
                    raise TimeoutError("the answer takes too long")
                if len(body) > _MAX_BODY:
                    raise self.refused(f"{method} {url}", f"its answer has more than {_MAX_BODY >> 20} MiB")
        media = response.headers.get("content-type", "").partition(";")[0].strip().lower()
        seconds = response.headers.get("retry-after", "")
        wait = float(seconds) if seconds.isascii() and seconds.isdecimal() else 0.0
        location = response.headers.get("location", "") if response.status_code in _REDIRECTS else ""
        return HttpResponse(response.status_code, bytes(body), media, wait), location


def message_of(answer: Any) -> str:
    """What a refusal says, at most 500 characters: a registry repeats the schema first, and ends with the reason."""
    text = str(answer.get("message") if isinstance(answer, dict) else answer)
    return text if len(text) <= _MAX_MESSAGE else f"{text[:150]} … {text[3 + 150 - _MAX_MESSAGE :]}"


def escape_name(name: str) -> str:
    """A name as a part of a path. Dots too: "." alone would be taken for the folder."""
    return quote(name, safe="").replace(".", "%2E") if name in (".", "..") else quote(name, safe="")


@cache
def _connections(encrypted: bool, ca: Path | None) -> Any:
    """A pool of connections. Without TLS no certificates are read, which takes longer than a request."""
    import httpx2

    return httpx2.Client(verify=encrypted if ca is None else _trust(ca))


_first_use = threading.Lock()
"""Held while a pool is looked up: threads that ask first at the same time would make one each, and lose sockets."""


def _forget_connections() -> None:
    """In a forked child: a socket has one process, and whoever held the lock is not there."""
    global _first_use
    _first_use = threading.Lock()
    _connections.cache_clear()


os.register_at_fork(after_in_child=_forget_connections)


def _trust(ca: Path) -> ssl.SSLContext:
    try:
        return ssl.create_default_context(cafile=str(ca))
    except (OSError, ssl.SSLError) as error:
        reason = "it has no PEM certificate" if isinstance(error, ssl.SSLError) else reason_of(error)
        raise SetupError("USAGE", details=f"--ca {ca}: {reason}") from None
