"""The auth file, the ACL file and those of TLS as they are now: looked at every second.

A file that can't be used any more changes nothing: what was in force stays, and an error is logged once.
"""

import hashlib
import logging
import os
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Final

from ticdc_bridge.schemas.model.errors import SetupError
from ticdc_bridge.service.auth import acl, credentials
from ticdc_bridge.service.auth.acl import ALL, Access, Acl
from ticdc_bridge.service.auth.credentials import Credentials

_LOG = logging.getLogger("ticdc_bridge.service.auth")
_EVERY: Final = 1.0
_SETTLED: Final = 2.0
_LARGEST: Final = 4 * 1024 * 1024

Stamp = tuple[int, int, int]


@dataclass(frozen=True, slots=True)
class AccessRules:
    """The credentials and rules in force. `acl` None: whoever is known may do everything."""

    credentials: Credentials = field(default_factory=Credentials)
    acl: Acl | None = None

    def access(self, name: str) -> Access:
        return ALL if self.acl is None else self.acl.access(name)


@dataclass(slots=True)
class WatchedFile:
    """A file, and what it looked like when it was read last."""

    path: str
    use: Callable[[str], None]
    stamp: Stamp | None
    digest: bytes
    problem: str | None = None

    def has_changed(self) -> bool:
        """True if it may hold something new: another stamp, or one so young that a write may have followed it."""
        stamp = stamp_of(self.path)
        if stamp == self.stamp:
            return stamp is not None and abs(time.time_ns() - stamp[0]) < _SETTLED * 1e9
        self.stamp = stamp
        return True


class FileWatcher:
    """Keeps `rules` up to date; `problem` says what is wrong with the files as they are now, or is None."""

    def __init__(self, auth_file: str = "", acl_file: str = "") -> None:
        """Raises SetupError for a file that can't be used."""
        self.rules = AccessRules()
        self._watched: list[WatchedFile] = []
        self._stop = threading.Event()
        self._thread: threading.Thread | None = None
        if auth_file:
            self.watch(auth_file, lambda text: self._use_credentials(text, auth_file))
        if acl_file:
            self.watch(acl_file, lambda text: self._set(acl=acl.read(text, acl_file)))

    def _use_credentials(self, text: str, path: str) -> None:
        """Nobody may be in it at first, as in a secret that is yet to be filled; a file that had somebody was cut."""
        new = credentials.read(text, path)
        if not new.names:
            if self.rules.credentials.names:
                raise SetupError("USAGE", details=f"{path}: nobody is in it")
            _LOG.warning(
                "%s: nobody is in it, so every request that needs a user is answered 401. Add a line NAME:HASH "
                "(htpasswd -nB NAME); the file is read again when it changes",
                path,
            )
        self._set(credentials=new)

    def _set(self, **pieces: Credentials | Acl) -> None:
        self.rules = replace(self.rules, **pieces)  # type: ignore[arg-type]

    def watch(self, path: str, use: Callable[[str], None]) -> None:
        """Call `use` with the text of a file now, and whenever it changes. Raises what `use` raises, now."""
        stamp, text = stamp_of(path), read_text(path)
        use(text)
        self._watched.append(WatchedFile(path, use, stamp, digest_of(text)))

    @property
    def problem(self) -> str | None:
        return "; ".join(watched.problem for watched in self._watched if watched.problem) or None

    def look(self) -> None:
        for watched in self._watched:
            if watched.has_changed() or watched.problem is not None:
                self._read(watched)

    def _read(self, watched: WatchedFile) -> None:
        try:
            text = read_text(watched.path)
            digest = digest_of(text)
            if digest == watched.digest:  # nothing new, or as it was before somebody broke it
                watched.problem = None
                return
            watched.use(text)
            watched.digest, problem = digest, None
            _LOG.info("%s: read again", watched.path)
        except SetupError as error:
            problem = error.detail
            if problem != watched.problem:
                _LOG.error("%s. What was in force before stays in force", problem)
        watched.problem = problem

    def start(self) -> None:
        """Look every second from now on, in a thread."""
        if self._watched and self._thread is None:
            self._thread = threading.Thread(target=self._run, name="access files", daemon=True)
            self._thread.start()

    def _run(self) -> None:
        while not self._stop.wait(_EVERY):
            try:
                self.look()
            except Exception:
                _LOG.exception("looking at the files for access failed")

    def close(self) -> None:
        self._stop.set()
        if self._thread is not None:
            self._thread.join(_SETTLED)


def stamp_of(path: str) -> Stamp | None:
    try:
        stat = os.stat(path)
    except OSError:
        return None
    return stat.st_mtime_ns, stat.st_size, stat.st_ino


def digest_of(text: str) -> bytes:
    return hashlib.sha256(text.encode()).digest()


def read_text(path: str) -> str:
    """A small UTF-8 file. Raises SetupError."""
    try:
        with Path(path).open("rb") as file:
            content = file.read(_LARGEST + 1)
        if len(content) > _LARGEST:
            raise SetupError("USAGE", details=f"{path}: larger than {_LARGEST} bytes")
        return content.decode("utf-8-sig")
    except UnicodeDecodeError:
        raise SetupError("USAGE", details=f"{path}: not UTF-8") from None
    except OSError as error:
        raise SetupError("USAGE", details=f"{path}: {error.strerror or error}") from None
