"""JSON over HTTP from a service that may be away for a while: retries, credentials in the URL, careful redirects."""

from __future__ import annotations

import base64
import json
import sys
import threading
import time
from copy import copy
from http.client import HTTPException, IncompleteRead
from typing import Any, Self, TypeVar
from urllib.error import HTTPError, URLError
from urllib.parse import unquote, urlsplit, urlunsplit
from urllib.request import HTTPRedirectHandler, Request, build_opener

from ticdc_bridge.schemas.model.credentials import mask_url
from ticdc_bridge.schemas.model.errors import SetupError
from ticdc_bridge.schemas.model.reasons import without_number

T = TypeVar("T")
stop_requested = threading.Event()
"""Set, it ends the waiting of this process for any service (Interrupted)."""
_MEDIA = "application/vnd.schemaregistry.v1+json"
_MOST_TOLD = 500
SILENT = 2.0
"""Seconds of waiting after which a line says what is waited for."""
_RETRIED = (408, 429, 500, 502, 503, 504)


class _Redirects(HTTPRedirectHandler):
    """Follows redirects, but takes no credentials to another host or from https to http."""

    def redirect_request(self, req: Request, fp: Any, code: int, msg: str, headers: Any, newurl: str) -> Request | None:
        if req.get_method() not in ("GET", "HEAD"):
            return None  # urllib would make a GET of a POST: the redirect is the answer
        if not newurl.lower().startswith(("http:", "https:")):
            return None  # urllib would follow to ftp, too
        followed = super().redirect_request(req, fp, code, msg, headers, newurl)
        if followed is not None and (followed.type, followed.host) != (req.type, req.host):
            followed.remove_header("Authorization")
        return followed


_OPENER = build_opener(_Redirects)


class WaitInterrupted(Exception):
    """The process was stopped while it waited."""


class JsonClient:
    """A base URL that is asked for JSON. option: what the URL was given by, for messages.

    wait: seconds to go on trying while the service can't be reached or answers with a passing error.
    """

    def __init__(self, url: str, option: str, wait: float = 5.0, timeout: float = 10.0) -> None:
        try:
            parts = urlsplit(url)
            port = f":{parts.port}" if parts.port else ""
        except ValueError:
            parts, port = urlsplit(""), ""
        if parts.scheme not in ("http", "https") or not parts.hostname or "@" in parts.path:
            details = (
                f"{option} {mask_url(url)!r}: http://host:port or https://… is needed (escape / and @ in a password)"
            )
            raise SetupError("USAGE", details=details)
        host = parts.hostname if ":" not in parts.hostname else f"[{parts.hostname}]"
        self.name = urlunsplit((parts.scheme, host + port, parts.path.rstrip("/"), "", ""))
        self._headers = {"Accept": f"{_MEDIA}, application/json", "Content-Type": _MEDIA}
        if parts.username is not None:
            credentials = f"{unquote(parts.username)}:{unquote(parts.password or '')}".encode()
            self._headers["Authorization"] = "Basic " + base64.b64encode(credentials).decode()
        self._wait, self._timeout = wait, timeout

    def with_wait(self, seconds: float) -> Self:
        """The same service, with more patience."""
        patient = copy(self)
        patient._wait = seconds
        return patient

    def refusal_error(self, what: str, status: int, answer: Any) -> SetupError:
        details = f"HTTP {status}: {message_of(answer)}"
        if status == 401 and "Authorization" not in self._headers:
            details += " (set BRIDGE_REGISTRY_USER=NAME:PASSWORD, or write http://NAME:PASSWORD@HOST)"
        return SetupError("REGISTRY_REFUSED", url=self.name, what=what, details=details)

    def read_field(self, answer: Any, name: str, kind: type[T]) -> T:
        """A field of a good answer. SetupError REGISTRY_REFUSED when it is not what a registry answers."""
        value = answer.get(name) if isinstance(answer, dict) else None
        if not isinstance(value, kind):
            details = f"an answer without {name!r}: {json.dumps(answer)[:200]}; is this a schema registry?"
            raise SetupError("REGISTRY_REFUSED", url=self.name, what="the question", details=details)
        return value

    def at_root(self, url: str) -> Self:
        """The same service under another URL, where answers may have any type."""
        other = copy(self)
        other.name, other._headers = url, {**self._headers, "Accept": "*/*"}
        return other

    def call(self, method: str, path: str, body: dict[str, Any] | None = None) -> tuple[int, Any]:
        """One exchange → (status, decoded body). Passing errors are tried again until `wait` is over."""
        data = None if body is None else json.dumps(body).encode()
        request = Request(self.name + path, data, self._headers, method=method)
        began, pause, is_told = time.monotonic(), 0.1, False
        end = began + self._wait
        while True:
            try:
                until = max(time.monotonic() + 0.5, min(time.monotonic() + self._timeout, end))
                status, text = self._send_once(request, until)
                if status not in _RETRIED:
                    return status, _json(text)
                reason = f"HTTP {status}: {text[:200].decode(errors='replace')}"
            except (URLError, OSError, ValueError, HTTPException) as error:
                reason = without_number(str(getattr(error, "reason", error)))
            if time.monotonic() + pause > end:
                raise SetupError(
                    "REGISTRY_UNREACHABLE", url=self.name, details=f"{reason} (tried for {self._wait:g} s)"
                )
            if not is_told and time.monotonic() + pause - began > SILENT:
                print(f"waiting up to {self._wait:g} s for {self.name}: {reason}", file=sys.stderr, flush=True)
                is_told = True
            if stop_requested.wait(pause):
                raise WaitInterrupted(f"stopped while {self.name} was away: {reason}")
            pause = min(pause * 2, 10.0)

    @staticmethod
    def _send_once(request: Request, end: float) -> tuple[int, bytes]:
        """One exchange, whole until `end`: a server that trickles its answer is no better than one that is down."""
        try:
            with _OPENER.open(request, timeout=end - time.monotonic()) as response:
                return response.status, _read_until(response, end)
        except HTTPError as error:
            with error:
                return error.code, _read_until(error, end)


def _read_until(response: Any, end: float) -> bytes:
    parts = []
    while part := response.read1(65536):
        parts.append(part)
        if time.monotonic() > end:
            raise TimeoutError("the answer takes too long")
    if response.length:
        raise IncompleteRead(b"", response.length)
    return b"".join(parts)


def message_of(answer: Any) -> str:
    """What a refusal says, at most 500 characters: a registry repeats the schema first, and ends with the reason."""
    text = str(answer.get("message") if isinstance(answer, dict) else answer)
    return text if len(text) <= _MOST_TOLD else f"{text[:150]} … {text[3 + 150 - _MOST_TOLD :]}"


def _json(text: bytes) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        if text.lstrip()[:1] == b"<":
            return {"message": "the answer is an HTML page, not JSON: is this the URL of the service?"}
        return {"message": text[:200].decode(errors="replace")}
