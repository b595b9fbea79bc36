"""A server that speaks MySQL's protocol as TiDB does, as far as reading table definitions needs it.

Protocol: handshake 10, mysql_native_password, TLS, text results (MySQL's internals manual, "Client/Server Protocol").
"""

import hashlib
import re
import socket
import socketserver
import ssl
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

_SALT = b"12345678abcdefghijkl"
# PROTOCOL_41, LONG_PASSWORD, CONNECT_WITH_DB, TRANSACTIONS, SECURE_CONNECTION, PLUGIN_AUTH; SSL is added
_CAPABILITIES = 0x200 | 0x1 | 0x8 | 0x2000 | 0x8000 | 0x80000
_SSL = 0x800
_TABLES = re.compile(r"FROM information_schema\.tables .*AND \('(.*)' = '' OR")


@dataclass
class PlayedTidb:
    """tables: (database, table) → what SHOW CREATE TABLE prints. tso: None for a server that is no TiDB.

    queries: what was asked, in order.
    """

    tables: dict[tuple[str, str], str]
    password: str = ""
    tso: int | None = 463_293_132_486_213_632
    tls: ssl.SSLContext | None = None
    queries: list[str] = field(default_factory=list)
    port: int = 0

    def answer(self, query: str) -> list[tuple[str, ...]] | tuple[int, str] | None:
        """Rows, an error, or nothing."""
        self.queries.append(query)
        if query == "SELECT @@tidb_current_ts":
            return (1193, "Unknown system variable 'tidb_current_ts'") if self.tso is None else [(str(self.tso),)]
        if match := _TABLES.search(query):
            return [name for name in self.tables if match[1] in ("", name[0])]
        if "information_schema.schemata" in query:
            return [(db, "utf8mb4", "utf8mb4_bin") for db in {db: 1 for db, _ in self.tables}]
        if query.startswith("SHOW CREATE TABLE "):
            db, table = re.findall(r"`((?:[^`]|``)+)`", query)
            return [(table, self.tables[db.replace("``", "`"), table.replace("``", "`")])]
        return None


@contextmanager
def serving(server: PlayedTidb) -> Iterator[PlayedTidb]:
    """The server at 127.0.0.1, its port in `port`."""

    class Handler(socketserver.BaseRequestHandler):
        def handle(self) -> None:
            _Session(self.request, server).run()

    with socketserver.ThreadingTCPServer(("127.0.0.1", 0), Handler) as listening:
        listening.daemon_threads = True
        server.port = listening.server_address[1]
        thread = threading.Thread(target=listening.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            yield server
        finally:
            listening.shutdown()
            thread.join()


class _Session:
    def __init__(self, connection: socket.socket, server: PlayedTidb) -> None:
        self._socket, self._server, self._number = connection, server, 0

    def run(self) -> None:
        try:
            self._serve()
        except (ConnectionError, ssl.SSLError):
            return  # the client went away, or does not trust the certificate
        finally:
            self._socket.close()

    def _serve(self) -> None:
        able = _CAPABILITIES | (_SSL if self._server.tls else 0)
        halves = able.to_bytes(4, "little")
        self._send(
            b"\x0a8.0.11-TiDB-v8.5.0\0" + (7).to_bytes(4, "little") + _SALT[:8] + b"\0" + halves[:2] + b"\x2d\x02\0"
            + halves[2:] + b"\x15" + bytes(10) + _SALT[8:] + b"\0mysql_native_password\0"
        )  # fmt: skip
        login = self._receive()
        if self._server.tls and len(login) == 32:
            self._socket = self._server.tls.wrap_socket(self._socket, server_side=True)
            login = self._receive()
        user, _, rest = login[32:].partition(b"\0")
        if rest[1 : 1 + rest[0]] != self._proof():
            self._error(1045, f"Access denied for user '{user.decode()}'@'127.0.0.1' (using password: YES)")
            return
        self._ok()
        while True:
            self._number = 0
            command = self._receive()
            if command[:1] == b"\x01":
                return
            answer = self._server.answer(command[1:].decode()) if command[:1] == b"\x03" else None
            if answer is None:
                self._ok()
            elif isinstance(answer, tuple):
                self._error(*answer)
            else:
                self._rows(answer)

    def _proof(self) -> bytes:
        if not self._server.password:
            return b""
        once = hashlib.sha1(self._server.password.encode()).digest()
        mask = hashlib.sha1(_SALT + hashlib.sha1(once).digest()).digest()
        return bytes(a ^ b for a, b in zip(once, mask, strict=True))

    # ---- packets
    def _receive(self) -> bytes:
        head = self._exactly(4)
        self._number = head[3] + 1
        return self._exactly(int.from_bytes(head[:3], "little"))

    def _exactly(self, size: int) -> bytes:
        data = b""
        while len(data) < size:
            some = self._socket.recv(size - len(data))
            if not some:
                raise ConnectionError
            data += some
        return data

    def _send(self, body: bytes) -> None:
        self._socket.sendall(len(body).to_bytes(3, "little") + bytes([self._number]) + body)
        self._number = (self._number + 1) % 256

    def _ok(self) -> None:
        self._send(b"\0\0\0\x02\0\0\0")

    def _error(self, code: int, text: str) -> None:
        self._send(b"\xff" + code.to_bytes(2, "little") + b"#HY000" + text.encode())

    def _rows(self, rows: list[tuple[Any, ...]]) -> None:
        width = len(rows[0]) if rows else 1
        self._send(bytes([width]))
        for number in range(width):
            names = (b"def", b"", b"", b"", f"c{number}".encode(), b"")
            self._send(b"".join(map(_text, names)) + b"\x0c\x2d\0" + (1024).to_bytes(4, "little") + b"\xfd\0\0\0\0\0")
        self._send(b"\xfe\0\0\x02\0")
        for row in rows:
            self._send(b"".join(_text(str(value).encode()) for value in row))
        self._send(b"\xfe\0\0\x02\0")


def _text(data: bytes) -> bytes:
    size = len(data)
    return (bytes([size]) if size < 251 else b"\xfc" + size.to_bytes(2, "little")) + data
