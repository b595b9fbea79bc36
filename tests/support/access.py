"""Users, rules and requests for the tests of access."""

import asyncio
import json
from base64 import b64encode
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from starlette.types import ASGIApp, Message

from ticdc_bridge.service.auth import credentials

TOKENS = {
    name: f"{name}-" + "x" * 40 for name in ("root", "u", "ticdc", "nobody", "metrics", "history", "others", "keeper")
}
"""A token of each user; quick to check."""

PASSWORD = "pa:ss wörd"


def basic(name: str, secret: str) -> str:
    return "Basic " + b64encode(f"{name}:{secret}".encode()).decode()


def bearer(name: str) -> str:
    return f"Bearer {TOKENS[name]}"


def auth_lines() -> str:
    """Users with a token each, and `alice` with a password."""
    lines = [f"{name}:$sha256${credentials._digest(token).hex()}" for name, token in TOKENS.items()]
    return "\n".join(["# users", "", *lines, f"alice:{credentials.hash_of(PASSWORD, 8)}"]) + "\n"


def rule(who: list[str], may: list[str], **where: list[str]) -> str:
    pieces = {"who": who, "may": may, **where}
    return "[[rules]]\n" + "\n".join(f"{name} = {json.dumps(value)}" for name, value in pieces.items()) + "\n"


ADMIN = rule(["root"], ["admin"])


def files(folder: Path, acl: str | None = None) -> dict[str, Any]:
    """The settings of a service with these users and, if given, these rules."""
    (folder / "auth").write_text(auth_lines())
    if acl is None:
        return {"auth_file": str(folder / "auth")}
    (folder / "acl.toml").write_text(acl)
    return {"auth_file": str(folder / "auth"), "acl_file": str(folder / "acl.toml")}


@dataclass(frozen=True)
class Reply:
    status: int
    body: bytes
    headers: dict[str, str]

    @property
    def json(self) -> Any:
        return json.loads(self.body)


class InProcess:
    """Sends requests to an ASGI app without a server."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app
        self._loop = asyncio.new_event_loop()

    def send(self, method: str, path: str, body: Any = None, authorization: str | None = None) -> Reply:
        return self._loop.run_until_complete(self._send(method, path, body, authorization))

    async def _send(self, method: str, path: str, body: Any, authorization: str | None) -> Reply:
        data = b"" if body is None else body if isinstance(body, bytes) else json.dumps(body).encode()
        raw, _, query = path.partition("?")
        headers = [(b"content-length", str(len(data)).encode())]
        if authorization is not None:
            headers.append((b"authorization", authorization.encode("latin-1")))
        scope = {
            "type": "http", "method": method, "path": raw, "raw_path": raw.encode(), "query_string": query.encode(),
            "headers": headers, "state": {}, "asgi": {"version": "3.0"}, "http_version": "1.1", "scheme": "http",
            "server": ("127.0.0.1", 1), "client": ("127.0.0.1", 2), "root_path": "",
        }  # fmt: skip
        messages: list[Message] = []
        given = [{"type": "http.request", "body": data, "more_body": False}]

        async def receive() -> Message:
            return given.pop() if given else {"type": "http.disconnect"}

        async def send(message: Message) -> None:
            messages.append(message)

        await self._app(scope, receive, send)
        start, *rest = messages
        named = {name.decode().lower(): value.decode() for name, value in start["headers"]}
        return Reply(start["status"], b"".join(message.get("body", b"") for message in rest), named)

    def close(self) -> None:
        self._loop.close()
