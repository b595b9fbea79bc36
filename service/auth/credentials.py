"""The auth file: names with hashes of passwords (as `htpasswd -B` writes them) or of tokens, a line each.

    # comment
    alice:$2y$12$…                 a password's bcrypt hash
    ticdc:$sha256$<64 hex digits>  a token's SHA-256; `ticdc-bridge new-token ticdc` makes both

A name may have several lines, so that a password or a token can be changed without an outage. A token is as good as
any password in Basic authentication, and needs no name as a bearer token.

A password's hash takes a tenth of a second to check. `Authenticator` remembers what it found, under a keyed hash of the
header, until the files change; unknown headers are checked by a few threads, and too many are refused at once.
"""

import asyncio
import base64
import binascii
import hashlib
import os
import re
import secrets
import time
from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Final

import bcrypt

from ticdc_bridge.schemas.model.errors import SetupError
from ticdc_bridge.service.errors import RegistryError

ANONYMOUS: Final = "anonymous"
CERTIFICATE: Final = "cert:"
"""Begins the names of those who show a client certificate."""

MIN_TOKEN: Final = 32
"""Characters of a token: its hash is a quick one, so it must not be guessable."""

COST: Final = 12
_COSTS: Final = range(8, 15)
_LONGEST_PASSWORD: Final = 72
_MOST_LINES: Final = 10_000
_BCRYPT: Final = re.compile(r"\$2[aby]\$(\d\d)\$[./A-Za-z0-9]{53}")
_TOKEN: Final = re.compile(r"\$sha256\$([0-9a-f]{64})")
_NAME: Final = re.compile(r"[^\s:\x00-\x1f\x7f]{1,255}")

# How a line's hash begins → what it is. All of these can be guessed too fast, or can't be read any more.
_UNSAFE: Final = {
    "{SHA}": "unsalted SHA-1", "{SSHA}": "SHA-1", "$apr1$": "Apache's MD5", "$1$": "MD5", "$5$": "SHA-256-crypt",
    "$6$": "SHA-512-crypt", "{PLAIN}": "a password as it is",
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Credentials:
    """The users of an auth file. `passwords`: the bcrypt hashes of a name. `tokens`: the name of a token's SHA-256."""

    passwords: Mapping[str, tuple[bytes, ...]] = field(default_factory=dict)
    tokens: Mapping[bytes, str] = field(default_factory=dict)
    dummy: bytes = b""
    """A hash that fits nothing, as slow as the slowest of the file: for names that are not there."""

    @property
    def names(self) -> set[str]:
        return {*self.passwords, *self.tokens.values()}

    def name_of_token(self, token: str) -> str | None:
        """Whose token it is. Quick; the digest is looked up, so time tells nothing about tokens."""
        return self.tokens.get(_digest(token)) if len(token) >= MIN_TOKEN else None

    def has_password(self, name: str, password: str) -> bool:
        """True if it is one of the passwords of `name`. Slow on purpose, and as slow for a name that is not there."""
        secret = password.encode("utf-8", "surrogateescape")
        fits = len(secret) <= _LONGEST_PASSWORD and b"\0" not in secret
        secret = secret if fits else b""
        matches = [bcrypt.checkpw(secret, entry) for entry in self.passwords.get(name, (self.dummy,))]
        return fits and any(matches)


def read(text: str, source: str) -> Credentials:
    """The credentials of an auth file's text. Raises SetupError that names the line, never what is in it."""
    passwords: dict[str, tuple[bytes, ...]] = {}
    tokens: dict[bytes, str] = {}
    cost = min(_COSTS)
    for number, name, hashed in _lines(text, source):
        where = f"{source} line {number}"
        token = _TOKEN.fullmatch(hashed)
        if token is not None:
            if tokens.setdefault(bytes.fromhex(token[1]), name) != name:
                raise SetupError("USAGE", details=f"{where}: another name has the same token")
            continue
        match = _BCRYPT.fullmatch(hashed)
        if match is None:
            # The hash is not shown: it may be a password that somebody wrote down as it is.
            unsafe = next((what for start, what in _UNSAFE.items() if hashed.startswith(start)), "")
            advice = "is not safe here; write the line again with htpasswd -B or ticdc-bridge hash-password"
            unknown = "no bcrypt hash of a password ($2y$…) and no SHA-256 of a token ($sha256$…)"
            raise SetupError("USAGE", details=f"{where}: {f'{unsafe} {advice}' if unsafe else unknown}")
        if int(match[1]) not in _COSTS:
            raise SetupError("USAGE", details=f"{where}: bcrypt's cost must be {_COSTS[0]} to {_COSTS[-1]}")
        cost = max(cost, int(match[1]))
        passwords[name] = (*passwords.get(name, ()), hashed.encode())
    return Credentials(passwords, tokens, hash_of(secrets.token_hex(16), cost).encode())


def _lines(text: str, source: str) -> Iterator[tuple[int, str, str]]:
    lines = text.splitlines()
    if len(lines) > _MOST_LINES:
        raise SetupError("USAGE", details=f"{source}: more than {_MOST_LINES} lines")
    for number, line in enumerate(lines, 1):
        line = line.strip()
        if not line or line.startswith("#"):
            continue
        name, colon, hashed = line.partition(":")
        if not colon:
            raise SetupError("USAGE", details=f"{source} line {number}: not NAME:HASH")
        check_name(name, f"{source} line {number}: ")
        yield number, name, hashed


def check_name(name: str, where: str = "") -> None:
    """SetupError USAGE for what can't be a user's name."""
    if not _NAME.fullmatch(name) or name == ANONYMOUS:
        what = f"a user has 1 to 255 characters, no colon and no blank, and is not called {ANONYMOUS}"
        raise SetupError("USAGE", details=f"{where}this name can't be used: {what}")


def hash_of(password: str, cost: int = COST) -> str:
    """The bcrypt hash of a password. Raises ValueError for one that bcrypt would not take whole."""
    secret = password.encode()
    if not secret or len(secret) > _LONGEST_PASSWORD or b"\0" in secret:
        raise ValueError(f"a password has 1 to {_LONGEST_PASSWORD} bytes and no NUL")
    return bcrypt.hashpw(secret, bcrypt.gensalt(cost)).decode()


def new_token() -> tuple[str, str]:
    """A token, and its hash for the auth file."""
    token = secrets.token_urlsafe(32)
    return token, f"$sha256${_digest(token).hex()}"


def _digest(token: str) -> bytes:
    return hashlib.sha256(token.encode("utf-8", "surrogateescape")).digest()


_REMEMBERED: Final = 10_000
_FAILURE_SECONDS: Final = 30.0
_LONGEST: Final = 8192
_WAITING: Final = 32


class Authenticator:
    """Finds the name behind a header. Used by one event loop; `credentials` gives what is in force now."""

    def __init__(self, credentials: Callable[[], Credentials]) -> None:
        self._credentials = credentials
        self._key = secrets.token_bytes(32)
        self._threads = ThreadPoolExecutor(max((os.cpu_count() or 1) // 2, 1), thread_name_prefix="password")
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
                    self._known[digest] = (name if fits else None, time.monotonic() + _FAILURE_SECONDS)
                    if len(self._known) > _REMEMBERED:
                        self._known.popitem(last=False)
                return name if fits else None
            finally:
                del checking[digest]

        task = checking[digest] = loop.create_task(check())
        return task

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
