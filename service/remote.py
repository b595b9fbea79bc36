"""A registry asked over HTTP by the commands: GET and POST of JSON with Python's own urllib."""

from __future__ import annotations

import base64
import json
from typing import Any, Final
from urllib.error import HTTPError, URLError
from urllib.parse import unquote, urlsplit
from urllib.request import Request, urlopen

from schemas.errors import SetupError
from service.history.changefeed.read import masked

_TIMEOUT: Final = 60
_LARGEST: Final = 64 << 20
_JSON: Final = "application/vnd.schemaregistry.v1+json"


class Remote:
    """A service by its URL. Credentials in the URL are sent as Basic authentication, and never shown."""

    def __init__(self, url: str) -> None:
        parts = urlsplit(url)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise SetupError("USAGE", details=f"--service {masked(url)[:200]}: write http://HOST:PORT")
        self.shown = masked(url).rstrip("/")
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
