"""New schemas that go round the router: answered as the router would, each for itself, and never before the commit."""

import asyncio
import json
import sqlite3
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from starlette.types import ASGIApp

from tests.service.api.test_answer_cache import JSON, Headers, alike, ask
from tests.support.service import column, record
from ticdc_bridge.service.api.fast_path.answer_cache import CachedAnswers
from ticdc_bridge.service.api.fast_path.registration_batches import (
    PendingRegistration,
    RegistrationBatcher,
)
from ticdc_bridge.service.registry.ports import ReadKey
from ticdc_bridge.service.server.app import create_app
from ticdc_bridge.service.server.settings import Settings

INT = '"int"'
A, B, C = record("R", column("a")), record("R", column("b")), record("R", column("a"), column("c", default=1))
D = record("R", column("a"), column("c", default=1), column("d", ["null", "int"], default=None))
RESERVED = {"properties": {"owner": "x"}}
LONG_NAME = "x" * 70_000


def decimal(scale: int, **precision: int) -> str:
    """A decimal of 9 digits, whose precision stands before its scale if it is given."""
    kind = {"type": "bytes", "logicalType": "decimal", **precision, "scale": scale, "precision": 9}
    return record("W", column("a", kind))


class Counted(RegistrationBatcher):
    """Says what it answered."""

    def __init__(self, *given: Any) -> None:
        super().__init__(*given)
        self.answered: list[str] = []

    async def register(self, wanted: PendingRegistration) -> bytes | None:
        answer = await super().register(wanted)
        if answer is not None:
            self.answered.append(wanted.subject)
        return answer


def hot(folder: Path, name: str = "hot", **more: Any) -> tuple[CachedAnswers, Counted]:
    app = create_app(Settings(store=f"sqlite:///{folder / name}.db", **more))
    lane = Counted(app.state.services)
    return CachedAnswers(app, lane, log=False, most_bytes=1 << 20), lane


@pytest.fixture
def pair(tmp_path: Path) -> Iterator[tuple[CachedAnswers, Counted, ASGIApp]]:
    """The lane in front of an app, and another app."""
    entry, lane = hot(tmp_path)
    app = create_app(Settings(store=f"sqlite:///{tmp_path / 'app'}.db"))
    yield entry, lane, app
    entry.store.close()
    app.state.services.registry.store.close()


async def send(
    app: ASGIApp, method: str, path: str, sent: Any, *more: tuple[bytes, bytes]
) -> tuple[int, Headers, bytes]:
    body = sent if isinstance(sent, bytes) else json.dumps(sent).encode()
    return await ask(app, method, path, [JSON, (b"content-length", str(len(body)).encode()), *more], body)


# What is asked, one after the other, and whether the lane answers it.
ASKED: list[tuple[str, str, Any, bool]] = [
    ("POST", "/subjects/s/versions", {"schema": A}, True),
    ("POST", "/subjects/s/versions", {"schema": A}, False),
    ("POST", "/subjects/s/versions", {"schema": B}, False),  # not compatible
    ("POST", "/subjects/s/versions?normalize=TRUE", {"schema": C, "schemaType": "AVRO", "references": []}, True),
    ("POST", "/subjects/s/versions?force=true", {"schema": B}, False),
    ("POST", "/subjects/t/versions", {"schema": A, "version": None, "metadata": None, "more": 1}, True),  # a known id
    ("POST", "/subjects/t/versions", {"schema": C, "version": 2}, False),
    ("POST", "/subjects/t/versions", {"schema": C, "id": 7}, False),
    ("POST", "/subjects/m/versions", {"schema": A, "metadata": RESERVED}, False),
    ("POST", "/subjects/m/versions", {"schema": C}, False),  # takes over the metadata
    ("POST", "/subjects/j/versions", {"schema": '{"type":"object"}', "schemaType": "JSON"}, True),
    ("POST", "/subjects/p/versions", {"schema": 'syntax = "proto3"; message M {}', "schemaType": "PROTOBUF"}, True),
    ("PUT", "/config/tr", {"compatibility": "FULL_TRANSITIVE"}, False),
    *(("POST", "/subjects/tr/versions", {"schema": entry}, True) for entry in (A, C, D)),
    ("POST", "/subjects/tr/versions", {"schema": B}, False),
    *(("POST", "/subjects/w/versions", {"schema": decimal(scale)}, True) for scale in (2, 3)),  # with a warning
    ("POST", "/subjects/w/versions", {"schema": decimal(3, precision=9)}, False),  # the same in another order
    ("POST", "/subjects/u/versions", {"schema": INT, "schemaType": "XML"}, False),
    ("POST", "/subjects/u/versions", {"schema": "nope"}, False),
    ("POST", "/subjects/u/versions", {"schema": " "}, False),
    ("POST", "/subjects/u/versions", b"[", False),
    ("POST", "/subjects/u/versions", b"[]", False),
    ("POST", "/subjects/u/versions", b"", False),
    ("POST", "/subjects/u/versions", {"schema": record(LONG_NAME, column("a"))}, False),
    ("POST", "/subjects/__EMPTY/versions", {"schema": A}, False),
    ("POST", "/subjects/a%2Fb/versions", {"schema": A}, False),
    ("POST", "/subjects/%3A.c%3As/versions", {"schema": A}, False),
    ("POST", "/subjects/../versions", {"schema": A}, False),
    ("PUT", "/config/x", {"alias": "y"}, False),
    ("POST", "/subjects/x/versions", {"schema": INT}, False),
    ("PUT", "/config/d", {"defaultMetadata": RESERVED}, False),
    ("POST", "/subjects/d/versions", {"schema": INT}, False),
    ("PUT", "/config", {"normalize": True}, False),
    ("POST", "/subjects/n/versions", {"schema": record("N", column("a", {"type": "int", "b": 1, "a": 2}))}, True),
    ("PUT", "/mode/r", {"mode": "READONLY"}, False),
    ("POST", "/subjects/r/versions", {"schema": INT}, False),
    ("DELETE", "/subjects/s/versions/3", b"", False),
    ("DELETE", "/subjects/s/versions/2", b"", False),
    ("POST", "/subjects/s/versions", {"schema": C}, True),  # takes the place of a deleted one
    ("GET", "/subjects/s/versions?deleted=true", b"", False),
]


def test_both_ways_answer_alike(pair: tuple[CachedAnswers, Counted, ASGIApp]) -> None:
    entry, lane, app = pair

    async def compare() -> None:
        for method, path, sent, taken in ASKED:
            before = len(lane.answered)
            assert alike(await send(entry, method, path, sent)) == alike(await send(app, method, path, sent)), path
            assert len(lane.answered) - before == taken, (path, sent)
        named = (b"x-request-id", b" mine ")
        for sent, header in (({"schema": C}, (b"accept", b"application/json")), ({"schema": A}, named)):
            path = f"/subjects/{header[0].decode()}/versions"
            assert alike(await send(entry, "POST", path, sent, header)) == alike(
                await send(app, "POST", path, sent, header)
            )

    asyncio.run(compare())
    counted = (registrations(entry), registrations(app))
    assert counted[0] == counted[1]


def registrations(app: ASGIApp) -> list[str]:
    """How many registrations were counted, by status."""
    _, _, body = asyncio.run(ask(app, "GET", "/metrics", [], b""))
    wanted = 'schema_registry_requests_total{method="POST",path="/subjects/{subject}/versions"'
    return [line for line in body.decode().splitlines() if line.startswith(wanted)]


def test_many_at_once_share_commits_and_errors_stay_their_own(pair: tuple[CachedAnswers, Counted, ASGIApp]) -> None:
    entry, lane, _ = pair
    commits: list[set[ReadKey]] = []

    class Listening:
        def before_change(self, parts: Any) -> None: ...
        def after_change(self, parts: Any) -> None:
            commits.append(set(parts))

        def forget(self) -> None: ...

    entry.store.listen(Listening())
    number = 150

    async def together() -> list[tuple[int, Headers, bytes]]:
        return await asyncio.gather(
            *(
                send(
                    entry,
                    "POST",
                    f"/subjects/s-{n}/versions",
                    {"schema": record("R", column(f"c{n}" if n % 10 else "-"))},
                )
                for n in range(number)
            )
        )

    answers = asyncio.run(together())
    good = [json.loads(body)["id"] for status, _, body in answers if status == 200]
    bad = [json.loads(body)["error_code"] for status, _, body in answers if status != 200]
    assert (sorted(good), set(bad)) == (list(range(1, len(good) + 1)), {42201})
    assert (len(good), len(bad)) == (135, 15)
    assert len(lane.answered) == len(good)
    assert len(commits) < number / 10


def test_the_same_schema_from_everybody_is_one_version_and_others_follow_at_once(
    pair: tuple[CachedAnswers, Counted, ASGIApp],
) -> None:
    entry, _, _ = pair

    async def together() -> set[tuple[int, bytes]]:
        answers = await asyncio.gather(*(send(entry, "POST", "/subjects/s/versions", {"schema": A}) for _ in range(40)))
        return {(status, body) for status, _, body in answers}

    async def more() -> list[int]:
        sent = [{"schema": schema} for schema in (C, D)]
        answers = await asyncio.gather(*(send(entry, "POST", "/subjects/s/versions", body) for body in sent))
        return [status for status, _, _ in answers]

    assert len(asyncio.run(together())) == 1
    assert asyncio.run(more()) == [200] * 2
    with entry.store.read() as tx:
        assert [(row.version, row.id) for row in tx.versions("s")] == [(1, 1), (2, 2), (3, 3)]


def test_a_busy_store_is_the_error_that_the_app_gives(tmp_path: Path) -> None:
    entry, lane = hot(tmp_path, store_wait_seconds=0.2)
    for subject, schema in (("known", A), ("other", INT)):
        assert asyncio.run(send(entry, "POST", f"/subjects/{subject}/versions", {"schema": schema}))[0] == 200
    asyncio.run(send(entry, "PUT", "/config/alias", {"alias": "known"}))
    lane.answered.clear()
    holder = sqlite3.connect(tmp_path / "hot.db", isolation_level=None)
    holder.execute("BEGIN IMMEDIATE")

    async def both() -> list[Any]:
        named = [(b"x-request-id", b"mine")]
        through_the_lane = await send(entry, "POST", "/subjects/s/versions", {"schema": A}, *named)
        through_the_app = await send(entry, "POST", "/subjects/s/versions?normalize=x", {"schema": A}, *named)
        return [alike(through_the_lane), alike(through_the_app)]

    first, second = asyncio.run(both())
    assert lane.answered == []
    assert first == second
    assert (first[0], json.loads(first[2])["error_code"]) == (500, 50002)
    for subject in ("known", "alias"):  # what is there needs no writing
        assert asyncio.run(send(entry, "POST", f"/subjects/{subject}/versions", {"schema": A}))[0] == 200
    holder.execute("ROLLBACK")
    assert asyncio.run(send(entry, "POST", "/subjects/s/versions", {"schema": A}))[0] == 200
    holder.close()
    entry.store.close()


def test_a_request_that_is_given_up_harms_no_other(pair: tuple[CachedAnswers, Counted, ASGIApp]) -> None:
    entry, _, _ = pair

    async def some() -> list[int]:
        asked = [
            asyncio.ensure_future(send(entry, "POST", f"/subjects/s{n}/versions", {"schema": A})) for n in range(8)
        ]
        await asyncio.sleep(0)
        for task in asked[::2]:
            task.cancel()
        answers = await asyncio.gather(*asked, return_exceptions=True)
        return [answer[0] for answer in answers if not isinstance(answer, BaseException)]

    assert asyncio.run(some()) == [200] * 4
    assert asyncio.run(some()) == [200] * 4


def test_nobody_waits_for_a_thread_that_hangs(
    pair: tuple[CachedAnswers, Counted, ASGIApp], monkeypatch: pytest.MonkeyPatch
) -> None:
    entry, lane, _ = pair
    back, work = threading.Event(), lane._answers

    def hanging(*given: Any) -> Any:
        back.wait(60)
        return work(*given)

    monkeypatch.setattr("ticdc_bridge.service.api.fast_path.registration_batches._PATIENCE", 0.05)
    monkeypatch.setattr(lane, "_answers", hanging)

    async def some() -> list[list[str]]:
        answered = []
        for subject in ("a", "b", "c"):
            if subject == "c":
                monkeypatch.setattr("ticdc_bridge.service.api.fast_path.registration_batches._PATIENCE", 60)
                back.set()
                while lane._stuck:
                    await asyncio.sleep(0.01)
            assert (await send(entry, "POST", f"/subjects/{subject}/versions", {"schema": A}))[0] == 200
            answered.append(list(lane.answered))
        return answered

    assert asyncio.run(some()) == [[], [], ["c"]]


def test_who_comes_while_others_wait_for_their_turn_goes_with_them(
    pair: tuple[CachedAnswers, Counted, ASGIApp], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also what is read beside the loop, what fails and what is sent twice."""
    entry, lane, _ = pair
    write_each, calls = entry.store.write_each, list[float]()
    waits = threading.Event()

    def counted(collect: Any, wait_seconds: float) -> Any:
        calls.append(wait_seconds)
        waits.set()
        return write_each(collect, 60)

    monkeypatch.setattr(entry.store, "write_each", counted)
    more = [("b", {"schema": A}), ("j", {"schema": "{}", "schemaType": "JSON"}), ("b", {"schema": C})]

    async def some() -> list[int]:
        with entry.store.write():
            asked = [asyncio.ensure_future(send(entry, "POST", "/subjects/a/versions", {"schema": A}))]
            await asyncio.to_thread(waits.wait, 60)
            asked += [
                asyncio.ensure_future(send(entry, "POST", f"/subjects/{name}/versions", body)) for name, body in more
            ]
            while len(lane._waiting) < len(more):
                await asyncio.sleep(0.001)
        return [status for status, _, _ in await asyncio.gather(*asked)]

    assert asyncio.run(some()) == [200] * 4
    assert (sorted(lane.answered), len(calls)) == (["a", "b", "j"], 1)


def test_repeats_are_looked_for_while_there_are_some(
    pair: tuple[CachedAnswers, Counted, ASGIApp], monkeypatch: pytest.MonkeyPatch
) -> None:
    entry, lane, _ = pair
    drop_repeats, write_each = lane._drop_repeats, entry.store.write_each
    steps = list[str]()

    def looked(*given: Any) -> Any:
        steps.append("look")
        return drop_repeats(*given)

    def written(*given: Any) -> Any:
        steps.append("write")
        return write_each(*given)

    monkeypatch.setattr(lane, "_drop_repeats", looked)
    monkeypatch.setattr(entry.store, "write_each", written)

    def after(subject: str, **more: Any) -> list[str]:
        steps.clear()
        assert asyncio.run(send(entry, "POST", f"/subjects/{subject}/versions", {"schema": A, **more}))[0] == 200
        return list(steps)

    assert after("a") == ["look", "write"]
    assert after("b") == ["write"]
    assert after("a") == ["write"]  # the app answers, and keeps its answer
    assert after("b") == ["look"]
    assert after("a", schemaType="AVRO") == ["look"]
    assert after("c") == ["look", "write"]
    assert after("d") == ["write"]
