"""Workers of one service tell one another what they change; whoever else writes makes them forget everything."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

import pytest

from ticdc_bridge.service.registry.read_set import ANYTHING, Part, config_part
from ticdc_bridge.service.store import SqlStore, open_store
from ticdc_bridge.service.store.sibling_changes import SiblingChanges
from ticdc_bridge.service.worker_memory import KEPT_CHANGES, CommitNumbers, WorkerMemory

A, B = config_part("a"), config_part("b")


@dataclass
class Heard:
    """A listener that notes what it is told."""

    told: list[str | tuple[str, frozenset[Part]]] = field(default_factory=list)

    def before_change(self, parts: Collection[Part]) -> None:
        self.told.append(("before", frozenset(parts)))

    def after_change(self, parts: Collection[Part]) -> None:
        self.told.append(("after", frozenset(parts)))

    def forget(self) -> None:
        self.told.append("forget")

    def take(self) -> list[str | tuple[str, frozenset[Part]]]:
        told, self.told = self.told, []
        return told


def change(*parts: Part) -> list[str | tuple[str, frozenset[Part]]]:
    return [("before", frozenset(parts)), ("after", frozenset(parts))]


@contextmanager
def workers(url: str, count: int = 2) -> Iterator[list[tuple[SqlStore, Heard]]]:
    """The stores of a service's workers, each with a listener; each has written and looked before."""
    memory = WorkerMemory(count)
    opened = [(open_store(url, memory=memory, worker=number), Heard()) for number in range(count)]
    for store, heard in opened:
        put(store, "first")
        store.listen(heard)
    for store, heard in opened:
        look(store)
        heard.take()
    yield opened
    for store, _ in opened:
        store.close()


def look(store: SqlStore) -> None:
    looking = store.refresh(0.0)
    if looking is not None:
        looking.result(timeout=10)
    store.follow()


def put(store: SqlStore, scope: str, number: int = 0) -> None:
    with store.write() as tx:
        tx.put_config(scope, {"n": number})


def test_a_sibling_hears_of_the_parts_and_forgets_nothing(store_url: str) -> None:
    with workers(store_url) as ((first, _), (second, heard)):
        for number in range(3):
            put(first, "a", number)
            second.follow()
            assert heard.take() == change(A, ANYTHING)
            look(second)  # it sees that the database has changed, and knows who did it
            assert heard.take() == []
        put(second, "b")
        assert heard.take() == change(B, ANYTHING)
        put(first, "a", 9)
        put(second, "b", 9)  # a turn after a sibling's
        look(second)
        assert Counter(heard.take()) == Counter(change(A, ANYTHING) + change(B, ANYTHING))


def test_another_process_is_noticed_among_siblings(store_url: str) -> None:
    stranger = open_store(store_url)
    with workers(store_url) as ((first, _), (second, heard)):
        for _ in range(3):
            put(first, "a", 1)
            put(stranger, "b", 1)
            put(first, "a", 2)
            look(second)
            assert "forget" in heard.take()
            look(second)
            assert heard.take() == []
        put(stranger, "b", 2)
        put(second, "a", 3)
        assert heard.take()[0] == "forget"
    stranger.close()


def test_a_write_that_fails_tells_of_nothing_more(store_url: str) -> None:
    def fail(store: SqlStore) -> None:
        with store.write() as tx:
            tx.put_config("a", {})
            raise LookupError

    with workers(store_url) as ((first, _), (second, heard)):
        with pytest.raises(LookupError):
            fail(first)
        look(second)
        assert "forget" not in heard.take()
        put(first, "b")
        look(second)
        assert heard.take() == change(B, ANYTHING)


def test_a_change_is_open_until_its_worker_ends_it_or_is_replaced() -> None:
    memory, heard = WorkerMemory(3), Heard()
    second = SiblingChanges(memory, 1, [heard])
    memory.logs[0].begin([A])
    second.follow()
    second.follow()
    assert heard.take() == [("before", frozenset({A}))]
    memory.logs[2].begin([B])
    memory.logs[2].end()
    second.follow()
    assert heard.take() == change(B)
    memory.start(0, 1)  # it died; nobody knows whether its change is there
    second.follow()
    assert heard.take() == [("after", frozenset({A})), "forget"]
    second.follow()
    assert heard.take() == []


def test_what_is_too_much_to_tell_may_be_anything() -> None:
    memory, heard = WorkerMemory(2), Heard()
    second, log = SiblingChanges(memory, 1, [heard]), memory.logs[0]
    log.begin([config_part("x" * 20_000)])
    for _ in range(3):  # what is read meanwhile is not kept either
        second.follow()
        assert heard.take() == ["forget"]
    log.end()
    second.follow()
    assert heard.take() == ["forget"]
    for _ in range(KEPT_CHANGES + 5):
        log.begin([A])
        log.end()
    second.follow()
    told = heard.take()
    assert told[0] == "forget"
    assert told[1:] == change(A) * KEPT_CHANGES
    log.begin([("subject", 'a "name" \N{SNOWMAN}')])
    log.end()
    second.follow()
    assert heard.take() == change(("subject", 'a "name" \N{SNOWMAN}'))


def test_numbers_of_commits() -> None:
    numbers: CommitNumbers = WorkerMemory().numbers
    for number in (5, 6, 7, 9):
        numbers.add(number)
    for after, last, covered in (
        (4, 7, True),
        (4, 5, True),
        (3, 5, False),
        (7, 9, False),
        (7, 7, False),
        (9, 5, False),
    ):
        assert numbers.cover(after, last) is covered, (after, last)
    numbers.remove(6)
    assert not numbers.cover(4, 7)
    assert not numbers.cover(0, 10_000)
