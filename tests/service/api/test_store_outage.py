"""A store that is busy or away: requests are held, and succeed when it is back; after the wait it is 500/50002.

`make soak` (BRIDGE_SOAK=N restarts) is the long form.
"""

import os
import signal
import sqlite3
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.support.postgres import Postgres, PostgresMissing
from tests.support.service import Answer, Client, column, record, short_and_long
from ticdc_bridge.schemas.model.errors import SetupError
from ticdc_bridge.service.store import open_store
from ticdc_bridge.service.store.dialects import driver
from ticdc_bridge.service.store.dialects.postgres import Postgres as PostgresDialect
from ticdc_bridge.service.testing import running_service

# Read on import: the tests of the service take the settings BRIDGE_… out of their environment later.
SOAK = int(os.environ.get("BRIDGE_SOAK", "0"))
WRITERS = 4
SHORT = 0.6
TIMED_OUT = (500, 50002)


@pytest.fixture(scope="module")
def server() -> Iterator[Postgres]:
    """A server of this module's own, to stop and to pause."""
    try:
        server = Postgres()
    except PostgresMissing as missing:
        pytest.skip(str(missing))
    with server:
        yield server


def schema(name: str) -> str:
    return record("R", column(name.replace("-", "_")))


class Load:
    """Clients that register one schema after the other, each in its own subject and in one of all, and look it up."""

    def __init__(self, client: Client) -> None:
        self.client = client
        self.answers: list[tuple[str, Answer]] = []
        self._done = threading.Event()
        self._pool = ThreadPoolExecutor(WRITERS)
        self._running = [self._pool.submit(self._work, index) for index in range(WRITERS)]

    def _work(self, pos: int) -> None:
        number = 0
        while not self._done.is_set():
            text = schema(f"c{pos}-{number}")
            for subject in (f"own-{pos}", "shared"):
                self.answers.append((subject, self.client.register(subject, text)))
                self.answers.append((subject, self.client.send("POST", f"/subjects/{subject}", {"schema": text})))
            number += 1

    def wait_for(self, more: int) -> None:
        """Until so many more requests have been answered."""
        goal, until = len(self.answers) + more, time.monotonic() + 60
        while len(self.answers) < goal and time.monotonic() < until:
            time.sleep(0.01)
        assert len(self.answers) >= goal, "the load stands still"

    def end(self) -> None:
        self._done.set()
        self._pool.shutdown()
        for entry in self._running:
            entry.result()

    def check(self) -> None:
        """All were answered with 200, and versions and ids are without holes and without doubles."""
        assert {(entry.status, entry.body if entry.status != 200 else b"") for _, entry in self.answers} == {(200, b"")}
        ids = {entry.json["id"] for _, entry in self.answers}
        assert ids == set(range(1, len(ids) + 1))
        for subject in {subject for subject, _ in self.answers}:
            said = {(entry.json["id"], entry.json["version"]) for name, entry in self.answers if name == subject}
            assert sorted(version for _, version in said) == list(range(1, len(said) + 1))
            assert self.client.get(f"/subjects/{subject}/versions").json == list(range(1, len(said) + 1))


@contextmanager
def load(store: str) -> Iterator[Load]:
    with running_service(store, compatibility="NONE") as url:
        running = Load(Client(url))
        try:
            running.wait_for(WRITERS * 4)
            yield running
            running.wait_for(WRITERS * 4)
        finally:
            running.end()
        running.check()


@short_and_long(1, max(SOAK, 3))
@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGQUIT], ids=["restart", "crash"])
def test_postgresql_restarts_under_load(server: Postgres, how: signal.Signals, examples: int) -> None:
    with load(server.database()) as running:
        for _ in range(examples):
            server.restart(how)
            running.wait_for(WRITERS * 2)


@short_and_long(5, max(SOAK * 4, 30))
def test_postgresql_loses_its_connections_under_load(server: Postgres, examples: int) -> None:
    """Each session is ended at some moment, also in the middle of a COMMIT."""
    url = server.database()
    with load(url) as running:
        for _ in range(examples):
            server.end_sessions(url)
            running.wait_for(1)


def test_an_sqlite_file_is_locked_under_load(tmp_path: Path) -> None:
    path = tmp_path / "registry.db"
    with load(f"sqlite:///{path}") as running:
        holder = sqlite3.connect(path, isolation_level=None, timeout=30)
        holder.execute("BEGIN IMMEDIATE")
        holder.execute("UPDATE bridge_facts SET value = value")
        threading.Event().wait(0.3)
        holder.execute("COMMIT")
        holder.close()
        running.wait_for(WRITERS)


def requests(client: Client) -> list[Callable[[], Answer]]:
    """What clients ask: a new schema, a known one, a look-up, reads; two of them were asked before."""
    body = {"schema": '"int"'}
    return [
        lambda: client.register("s", schema("new")), lambda: client.register("s", '"int"'),
        lambda: client.send("POST", "/subjects/s", body), lambda: client.get("/schemas/ids/1"),
        lambda: client.get("/subjects/s/versions/latest"),
        lambda: client.send("PUT", "/config/s", {"compatibility": "FULL"}),
        lambda: client.send("DELETE", "/subjects/t"), lambda: client.get("/mode"),
    ]  # fmt: skip


def check_timed_out(client: Client) -> None:
    with ThreadPoolExecutor(16) as pool:
        answers = list(pool.map(lambda ask: ask(), requests(client) * 2))
        assert client.get("/").body == b"{}"
    assert {answer.error for answer in answers} == {TIMED_OUT}


def recovered(ask: Callable[[], Answer]) -> Answer:
    """The answer once the store is used again; a busy machine may need longer for that than a request is held here."""
    until = time.monotonic() + 60
    while True:
        answer = ask()
        if answer.status != 500 or time.monotonic() > until:
            return answer
        assert answer.error == TIMED_OUT


def test_an_outage_that_lasts(server: Postgres) -> None:
    """Away, or there and silent: the same answer, in time, whatever was asked; afterwards everything works again."""
    with running_service(server.database(), store_wait_seconds=SHORT) as url:
        client = Client(url)
        for ask in requests(client)[1:4]:
            assert recovered(ask).status == 200
        server.down()
        try:
            check_timed_out(client)
            assert client.get("/health/ready").error == TIMED_OUT
            assert client.get("/health/live").status == 200
            away = client.get("/metrics")
            assert (away.status, b"bridge_store_up 0.0" in away.body) == (200, True)
            assert b"schema_registry_requests_total" in away.body
        finally:
            server.up()
        assert recovered(lambda: client.register("s", '"long"')).json["version"] == 2
        assert client.get("/subjects/s/versions").json == [1, 2]
        server.pause()
        try:
            check_timed_out(client)
            assert client.get("/health/ready").error == TIMED_OUT
        finally:
            server.resume()
        assert recovered(lambda: client.register("u", '"double"')).status == 200


def test_a_lock_that_lasts(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    path = tmp_path / "registry.db"
    with running_service(f"sqlite:///{path}", store_wait_seconds=SHORT) as url:
        client = Client(url)
        assert client.register("s", '"int"').status == 200
        holder = sqlite3.connect(path, isolation_level=None)
        holder.execute("BEGIN IMMEDIATE")
        with ThreadPoolExecutor(8) as pool:
            answers = list(pool.map(lambda n: client.register("s", schema(f"c{n}")), range(8)))
        assert {answer.error for answer in answers} == {TIMED_OUT}
        reported = [record.getMessage() for record in caplog.records if record.levelname == "ERROR"]
        # On a busy machine SQLite's own wait may end after the request's: then the request says why it gave up.
        reasons = (
            "Write operation timed out: database is locked",
            "Write operation timed out: the writers before it were not done",
            "Store operation timed out: the database takes requests and does not answer",
        )
        lines = {f"POST /subjects/s/versions: 500 (50002) {reason}" for reason in reasons}
        assert len(reported) == 8
        assert set(reported) <= lines
        assert client.register("s", '"int"').status == 200, "what is known is read"
        holder.close()
        assert recovered(lambda: client.register("s", '"long"')).json["version"] == 2


def test_a_file_that_was_taken_away(tmp_path: Path) -> None:
    """What is written into it is lost: the service is not ready, and TiCDC's question before it starts says why."""
    path = tmp_path / "registry.db"
    with running_service(f"sqlite:///{path}", store_wait_seconds=SHORT) as url:
        client = Client(url)
        assert client.get("/health/ready").status == 200
        path.rename(tmp_path / "elsewhere")
        for asked in ("/health/ready", "/", "/contexts/.x"):
            answer = client.get(asked)
            assert (answer.error, "registry.db is gone" in answer.json["message"]) == ((500, 50001), True)
        assert client.get("/health/live").status == 200
        assert "bridge_store_writable 0.0" in client.get("/metrics").body.decode()
        path.write_bytes(b"")
        assert "is another file" in client.get("/health/ready").json["message"]
        path.unlink()
        (tmp_path / "elsewhere").rename(path)
        assert client.get("/health/ready").status == 200
        assert client.get("/").body == b"{}"


def test_a_database_that_is_read_only(server: Postgres) -> None:
    url = server.database()
    open_store(url, wait_seconds=30).close()
    dialect = PostgresDialect(url, 5, 1)
    connection = dialect.engine.connect()
    try:
        driver(connection).execute("SET default_transaction_read_only = on")
        dialect.begin_read(connection)
        assert dialect.write_problem(connection) == "transactions are read-only (default_transaction_read_only)"
        driver(connection).execute("ROLLBACK; SET default_transaction_read_only = off")
        dialect.begin_read(connection)
        assert dialect.write_problem(connection) is None
    finally:
        connection.invalidate()
        dialect.engine.dispose()


def test_a_database_that_comes_later(server: Postgres) -> None:
    url = server.database()
    server.down()
    with pytest.raises(SetupError, match=r"can't be used: .*refused"):
        open_store(url, wait_seconds=0.1)
    later = threading.Timer(0.3, server.up)
    later.start()
    open_store(url, wait_seconds=30).close()
    later.join()
