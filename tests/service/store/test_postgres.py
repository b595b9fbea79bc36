"""What is special about a store in PostgreSQL."""

import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any

import psycopg
import pytest

from tests.support.postgres import Postgres
from tests.support.service import Client, column, record
from ticdc_bridge.schemas.model.errors import SetupError
from ticdc_bridge.service.errors import RegistryError
from ticdc_bridge.service.registry.deadline import Outage
from ticdc_bridge.service.registry.model import NewSchema, StoredWarning
from ticdc_bridge.service.registry.ports import ReadKey
from ticdc_bridge.service.registry.register import register
from ticdc_bridge.service.registry.registry import Registry
from ticdc_bridge.service.store import SqlStore, open_store
from ticdc_bridge.service.store.dialects import driver
from ticdc_bridge.service.store.dialects.postgres import ChangeCounter, ChangePoller
from ticdc_bridge.service.testing import running_service


@contextmanager
def opened(url: str, **more: Any) -> Iterator[SqlStore]:
    store = open_store(url, **more)
    try:
        yield store
    finally:
        store.close()


@contextmanager
def beside(url: str) -> Iterator[psycopg.Connection[Any]]:
    """A connection of somebody else."""
    with psycopg.connect(url, autocommit=True) as connection:
        yield connection


def test_an_answer_waits_for_the_disk_whatever_the_database_says(postgres: Postgres) -> None:
    url = postgres.database()
    with beside(url) as admin:
        admin.execute(f"ALTER DATABASE {url.rpartition('/')[2]} SET synchronous_commit = off".encode())
    with opened(url) as store, store.write() as tx:
        assert driver(tx._sql).execute("SHOW synchronous_commit").fetchone() == ("on",)
        assert driver(tx._sql).execute("SHOW transaction_isolation").fetchone() == ("read committed",)


def test_another_writer_that_does_not_end_is_an_outage(postgres: Postgres) -> None:
    url = postgres.database()
    with opened(url, wait_seconds=0.2) as store, beside(url) as holder, holder.transaction():
        holder.execute("SELECT * FROM bridge_facts WHERE name = 'changes' FOR UPDATE")
        with pytest.raises(Outage) as late, store.write():
            pass
        assert (late.value.row.http, late.value.row.error_code) == (500, 50002)
        with store.read() as reader:
            assert reader.subjects() == []
    with opened(url) as store, store.write() as tx:
        tx.put_config("s", {})


def test_a_statement_that_failed_unseen_undoes_its_part(postgres: Postgres) -> None:
    """PostgreSQL goes on with nothing after it, and answers even COMMIT with ROLLBACK, which is no error to psycopg."""

    def fail(store: SqlStore) -> None:
        with store.write() as tx:
            tx.put_config("s", {})
            with pytest.raises(psycopg.errors.DivisionByZero):
                driver(tx._sql).execute("SELECT 1/0")

    def end_it(store: SqlStore) -> None:
        with store.write() as tx:
            tx.put_config("s", {})
            driver(tx._sql).execute("ROLLBACK")

    with opened(postgres.database()) as store:
        for entry in (fail, end_it):
            with pytest.raises(RegistryError):
                entry(store)
        with store.write() as tx:
            assert tx.configs(["s"]) == {}
            tx.put_config("t", {})
        with store.read() as reader:
            assert reader.all_configs().keys() == {"t"}


@pytest.mark.parametrize("landed", [True, False])
def test_a_commit_without_an_answer(postgres: Postgres, monkeypatch: pytest.MonkeyPatch, landed: bool) -> None:
    """The connection is lost in the middle of COMMIT: what happened is found out, and nothing is done twice."""
    url = postgres.database()
    with opened(url) as store, opened(url) as other:
        session: Any = store._commits._session
        with store.write() as tx:
            tx.put_config("before", {})

        class Cut:
            """The driver's connection, with a network that breaks at COMMIT."""

            def __init__(self, own: Any) -> None:
                self._own = own

            def __getattr__(self, name: str) -> Any:
                return getattr(self._own, name)

            def execute(self, statement: str, *more: Any) -> Any:
                if statement != "COMMIT":
                    return self._own.execute(statement, *more)
                if landed:
                    self._own.execute(statement)
                self._own.close()
                with other.write() as tx:  # others go on meanwhile
                    tx.put_config("other", {})
                raise psycopg.OperationalError("the connection is lost")

        def write() -> None:
            with store.write() as tx:
                session._raw = Cut(session._raw)
                tx.put_config("mine", {})

        if landed:
            write()
        else:
            with pytest.raises(Outage):
                write()
        with store.read() as reader:
            assert reader.all_configs().keys() == {"before", "other"} | ({"mine"} if landed else set())


def test_names_in_any_language_and_of_any_length(postgres: Postgres) -> None:
    with running_service(postgres.database(), compatibility="NONE") as url:
        client = Client(url)
        names = ["b", "B", "a-b", "a b", "ä", "Z", "表", "\U0001f600", "a_b", "_"]
        for name in names:
            assert client.register(name, '"int"').status == 200
        assert client.get("/subjects").json == sorted(names)
        assert [entry["subject"] for entry in client.get("/schemas").json] == sorted(names)
        too_long = client.register("".join(map(chr, range(0x4E00, 0x4E00 + 3000))), '"int"')
        assert (too_long.error, b"longer than the store can hold" in too_long.body) == ((422, 422), True)


def test_nul_in_a_request(store_url: str) -> None:
    """PostgreSQL's text can't hold it, and no schema and no name can either: both stores answer the same."""
    with running_service(store_url, compatibility="NONE") as url:
        client = Client(url)
        assert client.register("\x20", '"int"').status == 200
        assert client.get("/subjects?subjectPrefix=%00").json == []
        assert client.get("/schemas?subjectPrefix=a%00b").json == []
        assert client.get("/schemas?subjectPrefix=a%00b&latestOnly=true").json == []
        for query in ("name=a%00b", "column=a%00b", "subject=a%00b"):
            assert client.get(f"/overview?{query}").status == 200
        assert client.get("/schemas/ids/1?subject=a%00b").status == 200
        assert client.get("/schemas/ids/1?subject=%3A.c%00%3A").error == (404, 40403)
        references = [{"name": "n\0", "subject": "s\0", "version": 1}]
        refused = client.register("t", record("R", column("a", "int")), references=references)
        assert refused.error == (422, 42201)
        for kind, text in (
            ("PROTOBUF", 'syntax = "proto3"; // \0\nmessage M { string a = 1 [json_name = "\0"]; }'),
            ("PROTOBUF", 'syntax = "proto3"; option java_package = "a\\000b"; message M {}'),
            ("JSON", '{"title":"\0"}'),
            ("JSON", '{"title":"\\u0000"}'),
            ("AVRO", '"int\0"'),
        ):
            answer = client.register("u", text, schemaType=kind)
            assert answer.status in (200, 422), answer.body
            if answer.status == 200:
                assert "\0" not in answer.json["schema"]
        metadata = {"properties": {"a\0": "b\0"}}
        assert client.register("v", '"int"', metadata=metadata).json["metadata"] == metadata
        assert client.send("PUT", "/config/v", {"alias": "w\0", "compatibility": "NONE"}).status in (200, 422)
        assert client.send("POST", "/subjects/v", {"schema": '"int"'}).status in (404, 422)


def test_a_text_that_can_not_be_held_is_refused_and_never_changed(postgres: Postgres) -> None:
    with opened(postgres.database()) as store:
        with pytest.raises(RegistryError, match="NUL") as refused, store.write() as tx:
            tx.put_warning(StoredWarning("s", 1, "KIND", "a\0b", 5))
        assert refused.value.row.http == 422
        with store.read() as reader:
            assert reader.warnings() == []
            assert reader.versions("a\0b") == []


def test_texts_with_escapes_come_back(store: SqlStore) -> None:
    registry = Registry(store)
    for number, doc in enumerate(("\0", "a\0b", "\x01", "\U0001f600", "\\u0000", "%s %% %(x)s")):
        new = NewSchema(record("R", column(f"c{number}"), doc=doc))
        stored = register(registry, f"s{number}", new).stored
        with store.read() as reader:
            assert reader.version(f"s{number}", 1) == stored


def test_databases_that_will_not_do(postgres: Postgres) -> None:
    url = postgres.database()
    with beside(url) as admin:
        admin.execute("CREATE TABLE theirs (x int)")
        admin.execute("CREATE DATABASE latin TEMPLATE template0 ENCODING 'LATIN1' LOCALE 'C'")
    with pytest.raises(SetupError, match="another program"):
        open_store(url)
    base = url.rpartition("/")[0]
    with pytest.raises(SetupError, match="LATIN1"):
        open_store(f"{base}/latin")
    with pytest.raises(SetupError, match=r"none.* does not exist"):
        open_store(f"{base}/none")
    own = f"{url}?options=-csearch_path%3Downed"
    with beside(url) as admin:
        admin.execute("CREATE SCHEMA owned")
    with opened(own) as store, store.write() as tx:  # beside them, in a schema of its own
        tx.put_config("s", {})


def test_all_at_once_on_an_empty_database(postgres: Postgres) -> None:
    url = postgres.database()
    with ThreadPoolExecutor(6) as pool:
        for store in pool.map(lambda _: open_store(url), range(6)):
            store.close()


class Told:
    def __init__(self) -> None:
        self.times = 0

    def before_change(self, parts: Any) -> None: ...
    def after_change(self, parts: Any) -> None: ...

    def forget(self) -> None:
        self.times += 1


def test_own_writes_are_not_taken_for_others(postgres: Postgres) -> None:
    url = postgres.database()
    with opened(url) as store, opened(url) as other:

        def look(at: SqlStore) -> None:
            looking = at.refresh(0)
            assert looking is not None
            looking.result(10)

        reported = Told()
        store.listen(reported)
        look(store)
        reported.times = 0
        for _ in range(3):
            with store.write() as tx:
                tx.put_config("s", {})
                look(store)
            look(store)
        assert reported.times == 0
        with other.write() as tx:
            tx.put_config("t", {})
        look(store)
        look(store)
        assert reported.times == 1
        with other.write() as tx:
            tx.put_config("t", {})
        with store.write() as tx:
            tx.put_config("s", {})
        look(store)
        assert reported.times == 2


def test_who_waits_to_read_gets_the_next_free_connection(postgres: Postgres) -> None:
    """Those that were given back are kept at hand, past the pool: nobody may wait for them there."""
    with opened(postgres.database(), wait_seconds=5, connections=2) as store:

        def read(_: int) -> int:
            with store.read() as tx:
                return len(tx.subjects())

        with ThreadPoolExecutor(16) as pool:
            assert sum(pool.map(read, range(400))) == 0


def test_numbers() -> None:
    reported: list[ReadKey] = []
    numbers = ChangeCounter(lambda: reported.append(("forget",)))
    assert numbers.note_begin(5)
    numbers.note_committing(5)
    numbers.note_seen(5, 5, numbers.last_seen)
    numbers.note_committed(5)
    assert not numbers.note_begin(6)
    assert reported == []
    numbers.note_seen(4, 4, 4)  # a late answer
    assert reported == []
    numbers.note_committing(6)
    numbers.note_doubt()
    numbers.note_seen(6, 6, numbers.last_seen)  # it did count
    assert len(reported) == 1
    numbers.note_seen(3, 0, numbers.last_seen)  # the database lost writes
    assert len(reported) == 2
    assert numbers.last_seen == 3


def test_a_look_that_is_asked_for_begins_afterwards() -> None:
    began: list[float] = []

    def look() -> None:
        began.append(time.monotonic())
        time.sleep(0.01)

    looks = ChangePoller(look)

    def ask(_: int) -> bool:
        asked = time.monotonic()
        future = looks.request_look(0)
        assert future is not None
        future.result(10)
        return any(asked <= entry for entry in began)

    with ThreadPoolExecutor(8) as pool:
        assert all(pool.map(ask, range(60)))
    assert len(began) < 60, "those who wait share one"
    assert looks.request_look(60) is None, "a recent one is enough"
    looks.close()
    assert looks.request_look(0) is None
