"""A TCP proxy on loopback that treats connections badly: cuts them, delays them, garbles bytes. By a seed, so again."""

import random
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlsplit

_PIECE = 1024


@dataclass
class Trouble:
    """Chances for each piece of up to 1 KiB that passes, and what came of them."""

    seed: str = "proxy"
    cut: float = 0.0
    delay: float = 0.0
    garble: float = 0.0
    seconds: float = 0.02
    refuse: bool = False
    counts: dict[str, int] = field(default_factory=lambda: {"cut": 0, "delay": 0, "garble": 0, "refuse": 0, "piece": 0})


class Proxy:
    """Passes on to (host, port) what arrives at `port`; `trouble` may be changed at any time."""

    def __init__(self, host: str, port: int, trouble: Trouble) -> None:
        self.trouble = trouble
        self._to = (host, port)
        self._random = random.Random(trouble.seed)
        self._lock = threading.Lock()
        self._open: set[socket.socket] = set()
        self._threads: list[threading.Thread] = []
        self._listening = socket.create_server(("127.0.0.1", 0), backlog=1024)
        self.port = int(self._listening.getsockname()[1])
        self._start(self._accept)

    def stop(self) -> None:
        with suppress(OSError):
            self._listening.shutdown(socket.SHUT_RDWR)
        self._listening.close()
        with self._lock:
            for entry in self._open:
                with suppress(OSError):
                    entry.shutdown(socket.SHUT_RDWR)
        for thread in self._threads:
            thread.join(10)

    def _start(self, function: Callable[..., None], *arguments: Any) -> None:
        thread = threading.Thread(target=function, args=arguments, daemon=True)
        self._threads.append(thread)
        thread.start()

    def _accept(self) -> None:
        while True:
            try:
                near, _ = self._listening.accept()
            except OSError:
                return
            self._start(self._serve, near)

    def _serve(self, near: socket.socket) -> None:
        with near:
            if self.trouble.refuse:
                self._count("refuse")
                return
            try:
                far = socket.create_connection(self._to, timeout=30)
            except OSError:
                return
            with far:
                both = {near, far}
                with self._lock:
                    self._open |= both
                back = threading.Thread(target=self._pass_on, args=(far, near), daemon=True)
                back.start()
                self._pass_on(near, far)
                back.join()
                with self._lock:
                    self._open -= both

    def _pass_on(self, source: socket.socket, target: socket.socket) -> None:
        try:
            while piece := source.recv(_PIECE):
                self._count("piece")
                if self._happens("delay"):
                    time.sleep(self.trouble.seconds)
                if self._happens("garble"):
                    at = self._below(len(piece))
                    piece = piece[:at] + bytes([piece[at] ^ (1 << self._below(8))]) + piece[at + 1 :]
                if self._happens("cut"):
                    target.sendall(piece[: self._below(len(piece))])
                    break
                target.sendall(piece)
            else:
                target.shutdown(socket.SHUT_WR)
                return
        except OSError:
            pass
        for entry in (source, target):
            with suppress(OSError):
                entry.shutdown(socket.SHUT_RDWR)

    def _happens(self, kind: str) -> bool:
        with self._lock:
            happens = self._random.random() < getattr(self.trouble, kind)
        if happens:
            self._count(kind)
        return bool(happens)

    def _below(self, number: int) -> int:
        with self._lock:
            return self._random.randrange(number)

    def _count(self, kind: str) -> None:
        with self._lock:
            self.trouble.counts[kind] += 1


@contextmanager
def proxied(url: str, trouble: Trouble) -> Iterator[str]:
    """A URL that leads to `url` through a proxy."""
    split_url = urlsplit(url)
    assert split_url.hostname is not None
    assert split_url.port is not None
    proxy = Proxy(split_url.hostname, split_url.port, trouble)
    try:
        user = f"{split_url.username}@" if split_url.username else ""
        yield split_url._replace(netloc=f"{user}127.0.0.1:{proxy.port}").geturl()
    finally:
        proxy.stop()
