"""A mirror of one of our own services: followed, compared, refused writes, and trouble with the upstream."""

from __future__ import annotations

import json
import re
import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.service.migration.test_import_export import command, filled, held
from tests.support.access import auth_lines
from tests.support.command_process import Command
from tests.support.service import Client, environment
from tests.support.table import check_rows
from ticdc_bridge.clients.http import V1, HttpClient, HttpLogin, HttpResponse
from ticdc_bridge.schemas.model.errors import SetupError
from ticdc_bridge.service.app import create_app
from ticdc_bridge.service.migration.mirror import Mirror, RestMirrorSource
from ticdc_bridge.service.migration.mirror_app import ReadOnlyStore, SubjectOfRequest, WriteForwarder, subject_of
from ticdc_bridge.service.migration.mirror_service import AppRegistry, MirrorOptions, open_mirror
from ticdc_bridge.service.migration.plan import fingerprint
from ticdc_bridge.service.migration.snapshot import snapshot_of
from ticdc_bridge.service.settings import Settings
from ticdc_bridge.service.store import SqlStore, open_store
from ticdc_bridge.service.testing import running_service

if TYPE_CHECKING:
    from tests.support.kafka import Kafka


class Switched(HttpClient):
    """An asker that can be down."""

    def __init__(self, asker: HttpClient) -> None:
        super().__init__("http://localhost")
        self.name, self.down, self._asker = asker.name, False, asker

    def ask(self, method: str, target: str, body: Any = None) -> HttpResponse:
        if self.down:
            raise SetupError("REGISTRY_UNREACHABLE", url=self.name, details="down")
        return self._asker.ask(method, target, body)


class Pair:
    """An upstream, and a mirror of it."""

    def __init__(self, upstream: str, folder: Path, stack: ExitStack, **settings: Any) -> None:
        self.upstream = Client(upstream)
        self.store: SqlStore = stack.enter_context(closing(open_store(f"sqlite:///{folder / 'mirror.db'}")))
        app = create_app(Settings(store="sqlite:///unused", **settings), self.store, ReadOnlyStore)
        self.own = stack.enter_context(closing(AppRegistry(SubjectOfRequest(app))))
        self.switch = Switched(HttpClient(upstream))
        self.report = folder / "report.jsonl"
        self.mirror = self.made()

    def made(self, **options: Any) -> Mirror:
        return Mirror(self.store, RestMirrorSource(self.switch), self.own, self.switch, report=self.report, **options)

    def lines(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self.report.read_text().splitlines()] if self.report.exists() else []

    def state(self) -> str:
        with self.store.read() as tx:
            return fingerprint(snapshot_of(tx))


@contextmanager
def pair(folder: Path, **settings: Any) -> Iterator[Pair]:
    with running_service() as url, ExitStack() as stack:
        filled(Client(url))
        yield Pair(url, folder, stack, **settings)


@pytest.fixture
def two(tmp_path: Path) -> Iterator[Pair]:
    with pair(tmp_path) as both:
        yield both


def until(true: Callable[[], Any]) -> None:
    deadline = time.monotonic() + 60
    while not true():
        assert time.monotonic() < deadline, "it never came to that"
        time.sleep(0.02)


def test_every_answer_is_the_same(two: Pair) -> None:
    assert two.mirror.sync().changes["versions"] == 8
    assert two.mirror.compare() == 0
    status = two.mirror.status()
    assert (status["state"], status["differences"], status["not_carried_over"]) == ("in step", 0, [])
    assert status["compared"] > 150
    assert two.lines() == []
    assert two.mirror.sync(whole=True).changes == {}


def test_what_happens_upstream_is_followed(two: Pair) -> None:
    two.mirror.sync()
    send = two.upstream.send
    assert send("DELETE", "/subjects/s").status == 200
    assert send("DELETE", "/subjects/gone1?permanent=true").status == 200
    assert two.upstream.register("new", '"int"').status == 200
    assert send("PUT", "/config", {"compatibility": "NONE"}).status == 200
    assert send("DELETE", "/config/s").status == 200
    assert send("DELETE", "/mode/j").status == 200
    assert send("PUT", "/mode/p", {"mode": "READONLY"}).status == 200
    plan = two.mirror.sync()
    assert plan.changes == {
        "versions": 1,
        "soft deletes": 2,
        "removed versions": 1,
        "configs": 1,
        "removed configs": 1,
        "modes": 1,
        "removed modes": 1,
        "id marks": 1,
    }
    assert two.mirror.compare() == 0


def test_a_version_that_became_another_one_is_seen(two: Pair) -> None:
    """Deleted for good and registered again under the same number: the lists are the same as before."""
    assert two.upstream.register("again", '"int"').status == 200
    two.mirror.sync()
    for query in ("", "?permanent=true"):
        assert two.upstream.send("DELETE", f"/subjects/again{query}").status == 200
    assert two.upstream.register("again", '"double"').status == 200
    assert two.mirror.sync().changes == {}  # quick
    assert two.mirror.compare() == 0  # asked, seen to differ, read as a whole, asked again
    assert two.lines() == []
    assert two.own.ask("GET", "/subjects/again/versions/1").json["schema"] == '"double"'


@pytest.mark.slow
def test_differences_are_reported_when_they_begin_and_end(tmp_path: Path) -> None:
    with pair(tmp_path, profile=7) as two:
        two.mirror.sync()
        differing = two.mirror.compare()
        assert differing > 50
        lines = two.lines()
        assert len(lines) == differing
        one = next(line for line in lines if line["path"] == "/schemas/ids/1")
        assert one["differs"] == ["body"]
        assert one["upstream"]["body"]["guid"]
        assert "guid" not in one["own"]["body"]
        assert two.mirror.compare() == differing
        assert len(two.lines()) == differing  # not told again
        assert two.mirror.status()["differences"] == differing
        assert two.upstream.send("DELETE", "/subjects/j").status == 422  # READONLY
        assert two.upstream.send("DELETE", "/mode/j").status == 200
        for query in ("", "?permanent=true"):
            assert two.upstream.send("DELETE", f"/subjects/j{query}").status == 200
        two.mirror.sync()
        two.mirror.compare()
        over = [line for line in two.lines() if not line["differs"]]
        assert {"GET /subjects/j/versions/1"} <= {f"{line['method']} {line['path']}" for line in over}
        fields = ("guid", "ts", "deleted", "schemaType", "subject", "version")
        assert two.made(ignored=fields).compare() == 0


def test_compared_in_turn(two: Pair) -> None:
    two.mirror.sync()
    asked: set[str] = set()
    ask = two.own.ask

    def noted(method: str, target: str, body: Any = None) -> HttpResponse:
        asked.add(f"{method} {target} {body}")
        return ask(method, target, body)

    two.own.ask = noted  # type: ignore[method-assign]
    sizes = []
    for _ in range(4):
        two.mirror.compare(60)
        sizes.append(len(asked))
    assert sizes[:2] == [60, 120]
    assert sizes[2] > 120


def test_the_upstream_goes_away_and_comes_back(two: Pair) -> None:
    stop = threading.Event()
    thread = threading.Thread(target=two.mirror.run, args=(stop, 0.01, 10))
    thread.start()
    try:
        until(lambda: two.mirror.status()["state"] == "in step")
        two.switch.down = True
        until(lambda: two.mirror.status()["failures"] >= 2)
        status = two.mirror.status()
        assert status["state"] == "stale"
        assert status["stale_since"] >= status["last_sync"]
        assert "can't be reached: down" in status["error"]
        assert two.own.ask("GET", "/subjects/s/versions").json == [1, 3]
        two.switch.down = False
        until(lambda: two.mirror.status()["state"] == "in step")
        assert two.mirror.status()["error"] is None
    finally:
        stop.set()
        thread.join()


def test_half_an_answer_changes_nothing(two: Pair) -> None:
    two.mirror.sync()
    before = two.state()
    ask = two.switch.ask

    def torn(method: str, target: str, body: Any = None) -> HttpResponse:
        answer = ask(method, target, body)
        return HttpResponse(200, b"<html>", "text/html") if "/subjects/s/versions" in target else answer

    two.switch.ask = torn  # type: ignore[method-assign]
    with pytest.raises(SetupError):
        two.mirror.sync(whole=True)
    assert two.state() == before


def test_a_store_with_other_schemas_is_not_overwritten(two: Pair) -> None:
    two.mirror.sync()
    assert two.made().sync().changes == {}  # a restart: the store is as a mirror left it
    with two.store.write() as tx:
        tx.put_mode("s", "READWRITE")  # what a switch-over brings: somebody else writes
    with pytest.raises(SetupError, match="the store holds schemas that no mirror wrote"):
        two.made().sync()
    assert two.made(overwrite=True).sync().changes == {"removed modes": 1}


def test_writes_are_refused_and_what_is_known_is_answered(two: Pair) -> None:
    two.mirror.sync()
    ask = two.own.ask
    known = ask("POST", "/subjects/s/versions", {"schema": '"long"'})
    assert (known.status, known.json["id"]) == (200, two.upstream.get("/subjects/s/versions/3").json["id"])
    refused = [
        ("POST", "/subjects/s/versions", {"schema": '"bytes"'}, "s in context "),
        ("POST", "/contexts/.ctx/subjects/s/versions", {"schema": '"bytes"'}, ":.ctx:s in context :.ctx:"),
        ("DELETE", "/subjects/a%2Fb%20.", None, "a/b . in context "),
        ("DELETE", "/subjects/s/versions/1", None, "s in context "),
        ("PUT", "/config", {"compatibility": "NONE"}, "null in context "),
        ("PUT", "/config/s", {"compatibility": "NONE"}, "s in context "),
        ("PUT", "/mode", {"mode": "IMPORT"}, "null in context "),
        ("DELETE", "/contexts/.ctx", None, "null in context "),
    ]
    before = two.state()
    for method, target, body, what in refused:
        answer = ask(method, target, body)
        assert (answer.status, answer.json) == (
            422,
            {"error_code": 42205, "message": f"Subject {what} is in read-only mode"},
        )
    assert two.state() == before


def test_writes_can_be_sent_on(two: Pair) -> None:
    """A registration goes to the upstream, and its schema is here before the client hears of it."""
    two.mirror.sync()
    with closing(AppRegistry(WriteForwarder(two.own.app, two.switch, two.mirror))) as own:
        made = own.ask("POST", "/subjects/new/versions", {"schema": '"bytes"'})
        assert (made.status, made.media) == (200, V1)
        assert two.own.ask("GET", f"/schemas/ids/{made.json['id']}").json["schema"] == '"bytes"'
        assert two.upstream.get("/subjects/new/versions").json == [1]
        assert own.ask("DELETE", "/subjects/new").json == [1]
        assert two.own.ask("GET", "/subjects/new/versions").status == 404
        assert own.ask("PUT", "/config", {"compatibility": "FULL"}).status == 200
        assert two.own.ask("GET", "/config").json == {"compatibilityLevel": "FULL"}
        assert own.ask("POST", "/subjects/j/versions", {"schema": '{"type":"string"}', "schemaType": "JSON"}).json == {
            "error_code": 42205,
            "message": "Subject j in context  is in read-only mode",  # the upstream's own word
        }
        assert own.ask("POST", "/subjects/new/versions", {"schema": "{"}).status == 422
        two.switch.down = True
        refused = own.ask("POST", "/subjects/new/versions", {"schema": '"float"'})
        assert (refused.status, refused.json["error_code"]) == (500, 50003)
        assert own.ask("POST", "/subjects/s/versions", {"schema": '"long"'}).status == 200  # known
    two.switch.down = False
    assert two.mirror.compare() == 0


SUBJECTS_OF_PATHS: list[tuple[bytes, str | None]] = [
    (b"/", None),
    (b"/subjects", None),
    (b"/subjects/a%2Fb/versions?x=/y", "a/b"),
    (b"/contexts/.c/subjects/s", ":.c:s"),
    (b"/contexts/:.c:/mode/:.d:s", ":.d:s"),
    (b"/contexts/.c/subjects", None),
    (b"/config/s/", "s"),
    (b"/schemas/ids/1", None),
]


def test_the_subject_of_a_path() -> None:
    def check(row: tuple[bytes, str | None]) -> None:
        path, subject = row
        assert subject_of(path) == subject

    check_rows(SUBJECTS_OF_PATHS, check)


def test_once(tmp_path: Path) -> None:
    with running_service() as url:
        filled(Client(url))
        once = ("mirror", "--from", url, "--store", f"sqlite:///{tmp_path / 'mirror.db'}", "--once")
        code, _, told = command(*once, cwd=tmp_path)
        assert code == 0, told
        assert re.search(r"mirror: \d+ answers compared, 0 differ", told)
        code, _, told = command(*once, "--profile", "7", "--report", "report.jsonl", cwd=tmp_path)
        assert (code, "  GET /schemas/ids/1\n" in told) == (1, True)
        assert (tmp_path / "report.jsonl").read_text().count("\n") > 50
        target = f"sqlite:///{tmp_path / 'registry.db'}"
        with running_service(store=target) as other:
            Client(other).register("mine", '"int"')
        code, _, told = command("mirror", "--from", url, "--store", target, "--once", cwd=tmp_path)
        assert (code, "Name an empty store, or say --overwrite" in told) == (2, True)
        assert [subject for subject, _ in held(target).versions] == ["mine"]


@pytest.mark.slow
def test_as_a_service(tmp_path: Path) -> None:
    """As a process; after it has ended, its store is that of an ordinary registry."""
    store = f"sqlite:///{tmp_path / 'mirror.db'}"
    with running_service() as url:
        filled(Client(url))
        arguments = ("--from", url, "--store", store, "--port", "0", "--interval", "0.1", "--sample", "20")
        with Command(("mirror", *arguments), tmp_path, environment()) as process:
            assert process.stderr is not None
            found = re.search(r"listening on (\S+) .* mirror of http", process.stderr.readline())
            assert found is not None
            client = Client(found[1])
            until(lambda: client.get("/mirror").json["state"] == "in step")
            assert client.get("/subjects/s/versions").json == [1, 3]
            assert Client(url).register("later", '"int"').status == 200
            until(lambda: client.get("/subjects/later/versions").status == 200)
            assert client.register("no", '"bytes"').error == (422, 42205)
            metrics = client.get("/metrics").body.decode()
            assert "mirror_differences 0.0" in metrics
            assert "mirror_stale 0.0" in metrics
            process.send_signal(signal.SIGTERM)
            _, told = process.communicate(timeout=60)
        assert (process.returncode, told.splitlines()[-1]) == (0, "ticdc-bridge: stopped")
        number = Client(url).register("after", '"double"', "?force=true").json["id"]
    with running_service(store=store) as url:
        assert Client(url).register("after", '"double"', "?force=true").json["id"] == number


@pytest.mark.slow
def test_following_a_topic(kafka: Kafka, tmp_path: Path) -> None:
    topic, brokers = kafka.topic_name(), ("--bootstrap-servers", kafka.bootstrap_servers)
    upstream, store = f"sqlite:///{tmp_path / 'up.db'}", f"sqlite:///{tmp_path / 'mirror.db'}"
    with running_service(store=upstream) as url:
        filled(Client(url))
        once = ("mirror", "--from", f"kafka:{topic}", "--compare-with", url, "--store", store, "--once", *brokers)
        for expected in ("8 versions, 2 soft-deleted versions", "1 soft deletes"):
            assert command("export", f"kafka:{topic}", "--store", upstream, *brokers, cwd=tmp_path)[0] == 0
            code, _, told = command(*once, cwd=tmp_path)
            assert code == 0, told
            assert expected in told
            Client(url).send("DELETE", "/subjects/a%2Fb%20.")
    assert command("mirror", "--from", "kafka:absent", "--once", *brokers, cwd=tmp_path)[0] == 2


@pytest.mark.slow
def test_a_mirror_that_asks_for_credentials(tmp_path: Path) -> None:
    """Its clients have to name themselves; the mirror itself asks its own answers without."""
    (tmp_path / "auth").write_text(auth_lines())
    store = f"sqlite:///{tmp_path / 'mirror.db'}"
    with running_service() as url:
        filled(Client(url))
        once = ("mirror", "--from", url, "--store", store, "--once")
        code, _, told = command(*once, cwd=tmp_path, BRIDGE_AUTH_FILE=str(tmp_path / "auth"))
        assert code == 0, told
        wish = MirrorOptions(url, url, HttpLogin(), None, None, None, (), False, forward_writes=True)
        settings = Settings(store=store, auth_file=str(tmp_path / "auth"))
        with open_mirror(wish, settings) as (one, app), closing(AppRegistry(app)) as served:
            one.sync()
            assert served.ask("GET", "/subjects").status == 401
            assert served.ask("POST", "/subjects/new/versions", {"schema": '"int"'}).status == 401
            assert one.compare() == 0
        assert Client(url).get("/subjects/new/versions").status == 404
