"""Who sends an `Authorization` header: Basic with a password or a token, or Bearer with a token.

A password's hash takes a tenth of a second to check. So what was found is remembered, under a keyed hash of the header,
until the files change; headers that are not known are checked by a few threads, the same header once; and when too many
wait, the rest is refused at once instead of taking the processor from those who are known.
"""

from __future__ import annotations

import asyncio
import base64
import binascii
import hashlib
import os
import secrets
import time
from collections import OrderedDict
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Final

from ticdc_bridge.service.auth.credentials import Credentials
from ticdc_bridge.service.errors import RegistryError

_REMEMBERED: Final = 10_000
_FAILURE_SECONDS: Final = 30.0
_LONGEST: Final = 8192
_WAITING: Final = 32
_THREADS: Final = max((os.cpu_count() or 1) // 2, 1)


class Authenticator:
    """Finds the name behind a header. Used by one event loop; `credentials` gives what is in force now."""

    def __init__(self, credentials: Callable[[], Credentials]) -> None:
        self._credentials = credentials
        self._key = secrets.token_bytes(32)
        self._threads = ThreadPoolExecutor(_THREADS, thread_name_prefix="password")
        self._of: Credentials | None = None
        self._known: OrderedDict[bytes, tuple[str | None, float]] = OrderedDict()
        self._checking: dict[bytes, asyncio.Task[str | None]] = {}

    async def name(self, header: bytes) -> str | None:
        """The name that the header proves, or None. Raises RegistryError TOO_MANY_LOGINS."""
        if len(header) > _LONGEST:
            return None
        credentials = self._credentials()
        if credentials is not self._of:
            self._of = credentials
            self._known.clear()
            self._checking = {}
        digest = hashlib.blake2b(header, key=self._key, digest_size=32).digest()
        entry = self._known.get(digest)
        if entry is not None and (entry[0] is not None or time.monotonic() < entry[1]):
            self._known.move_to_end(digest)
            return entry[0]
        quick, slow = claims(header, credentials)
        if slow is None:
            return quick
        checking = self._checking.get(digest)
        if checking is None:
            if len(self._checking) >= _WAITING:
                raise RegistryError("TOO_MANY_LOGINS")
            checking = self._start(digest, credentials, *slow)
        return await asyncio.shield(checking)

    def _start(self, digest: bytes, credentials: Credentials, name: str, password: str) -> asyncio.Task[str | None]:
        loop, checking = asyncio.get_running_loop(), self._checking

        async def check() -> str | None:
            try:
                fits = await loop.run_in_executor(self._threads, credentials.has_password, name, password)
                if self._of is credentials:
                    self._remember(digest, name if fits else None)
                return name if fits else None
            finally:
                del checking[digest]

        task = checking[digest] = loop.create_task(check())
        return task

    def _remember(self, digest: bytes, name: str | None) -> None:
        self._known[digest] = (name, time.monotonic() + _FAILURE_SECONDS)
        if len(self._known) > _REMEMBERED:
            self._known.popitem(last=False)

    def close(self) -> None:
        self._threads.shutdown(wait=False, cancel_futures=True)


def claims(header: bytes, credentials: Credentials) -> tuple[str | None, tuple[str, str] | None]:
    """The claim of a header: the name of a token that is known, or else a name and a password to be checked slowly."""
    scheme, _, rest = header.strip().partition(b" ")
    rest = rest.strip()
    if scheme.lower() == b"bearer":
        return credentials.name_of_token(rest.decode("latin-1")), None
    if scheme.lower() != b"basic":
        return None, None
    try:
        text = base64.b64decode(rest, validate=True).decode("utf-8", "surrogateescape")
    except binascii.Error:
        return None, None
    name, colon, secret = text.partition(":")
    if not colon:
        return None, None
    if credentials.name_of_token(secret) == name:
        return name, None
    return None, (name, secret)
