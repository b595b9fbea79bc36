"""Works that share reads and writes: each sees and leaves what it would alone, whatever was read ahead."""

import random
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import event

from ticdc_bridge.service.errors import RegistryError
from ticdc_bridge.service.registry.model import Content, Reference, StoredWarning
from ticdc_bridge.service.registry.names import chain
from ticdc_bridge.service.registry.ports import ReadAhead, StoreReader, StoreWriter
from ticdc_bridge.service.registry.references import identity, likeness
from ticdc_bridge.service.store import SqlStore, open_store

Work = Callable[[StoreWriter], Any]

SUBJECTS = ["a", "b", "c"]
SCOPES = list(dict.fromkeys(scope for subject in SUBJECTS for scope in chain(subject)))


def content(text: str, kind: str = "AVRO") -> Content:
    return Content(identity(text), text, kind, likeness=likeness(text.lower()))


CONTENTS = [content(text) for text in ('"int"', '"INT"', '"long"', '"bytes"')]
CONTENTS += [
    content('"int"', "JSON"),
    replace(CONTENTS[0], identity=b"m" * 16, metadata={"properties": {"confluent:version": "1"}}),
    replace(CONTENTS[2], identity=b"r" * 16, references=(Reference("n", "a", 1),)),
]
NUL = content('"\0"')


def seen(tx: StoreReader, subject: str, entry: Content) -> Any:
    """All that may be read ahead."""
    return (
        tx.versions(subject), tx.latest(subject), tx.latest(subject, deleted=True), tx.by_content(subject, entry),
        [stored.version for stored in tx.lookalikes(subject, entry.likeness)], tx.live_versions(subject),
        tx.configs(chain(subject)), tx.modes(chain(subject)), tx.id_of(".", entry), tx.max_id("."),
        tx.referrers("a", 1),
    )  # fmt: skip


def add(tx: StoreWriter, subject: str, entry: Content, version: int = 0) -> int:
    schema_id = tx.id_of(".", entry)
    if schema_id is None:
        schema_id = tx.new_id(".")
        tx.put_schema(".", schema_id, entry)
    rows = tx.versions(subject)
    tx.put_version(".", subject, version or (rows[-1].version + 1 if rows else 1), schema_id, entry, ts=1)
    return schema_id


def make_work(chance: random.Random) -> Work:
    subject, entry, what = chance.choice(SUBJECTS), chance.choice(CONTENTS), chance.randrange(16)
    looks, fails = chance.random() < 0.4, chance.random() < 0.2

    def work(tx: StoreWriter) -> Any:
        before = seen(tx, subject, entry) if looks else None
        rows = tx.versions(subject)
        result: Any = None
        if what < 8:
            result = add(tx, subject, entry)
        elif what == 8:
            result = add(tx, subject, entry, version=1)  # which may be there
        elif what == 9:
            result = add(tx, subject, NUL)
        elif what == 10:
            tx.put_warning(StoredWarning(subject, add(tx, subject, entry), "K", "m", 1))
        elif what == 11:
            tx.soft_delete(subject, [row.version for row in rows[-1:]])
        elif what == 12:
            tx.remove(subject, [row.version for row in rows[:1]])
        elif what == 13:
            tx.put_config(subject, {"compatibilityLevel": "FULL"})
        elif what == 14:
            tx.put_mode(subject, "READONLY")
        else:
            tx.use_id(".", tx.max_id(".") + 3)
        if fails:
            raise ValueError("a rule refused it")
        return before, result, seen(tx, subject, entry) if looks else None

    return work


def run_alone(store: SqlStore, works: list[Work]) -> list[Any]:
    outcomes: list[Any] = []
    for function in works:
        try:
            with store.write() as tx:
                outcomes.append(function(tx))
        except Exception as error:
            outcomes.append(error)
    return outcomes


def shown(outcomes: list[Any]) -> list[Any]:
    """Outcomes that can be compared: what a database says differs."""
    return [
        (
            outcome.code
            if isinstance(outcome, RegistryError) and outcome.code != "STORE_FAILED"
            else isinstance(outcome, ValueError)
        )
        if isinstance(outcome, Exception)
        else outcome
        for outcome in outcomes
    ]


def run_jointly(store: SqlStore, works: list[Work], ahead: ReadAhead) -> list[Any]:
    return store.write_each(lambda: (works, ahead), 5)


def held(store: SqlStore) -> Any:
    with store.read() as tx:
        stored = [(entry, tx.schema(".", entry.id)) for entry in tx.search("", deleted=True)]
        return stored, tx.marks(), tx.all_configs(), tx.all_modes(), tx.warnings(), tx.counts()


@pytest.fixture
def judge(tmp_path: Path) -> Iterator[SqlStore]:
    opened = open_store(f"sqlite:///{tmp_path / 'judge.db'}")
    yield opened
    opened.close()


def test_works_see_and_leave_what_they_would_alone(store: SqlStore, judge: SqlStore) -> None:
    chance = random.Random(35)
    for number in range(10):
        works = [make_work(chance) for _ in range(chance.randrange(1, 9))]
        some = chance.random()
        ahead = ReadAhead(
            [subject for subject in SUBJECTS if chance.random() < some],
            [scope for scope in SCOPES if chance.random() < some],
            [entry for entry in CONTENTS if chance.random() < some],
        )
        joint = shown(run_jointly(store, works, SUBJECTS_AHEAD if number % 3 == 0 else ahead))
        assert joint == shown(run_alone(judge, works)), number
        assert held(store) == held(judge), number


SUBJECTS_AHEAD = ReadAhead(SUBJECTS, SCOPES, CONTENTS)


def test_statements_do_not_grow_with_the_works(judge: SqlStore) -> None:
    """Eight new schemas take as many statements as one: reads, three kinds of rows, and the transaction."""
    statements: list[str] = []
    event.listen(judge._dialect.engine, "checkout", lambda raw, *_: raw.set_trace_callback(statements.append))

    def write(first: int, number: int) -> list[str]:
        statements.clear()
        contents = [content(f'"x{n}"') for n in range(first, first + number)]
        subjects = [entry.text for entry in contents]
        scopes = list(dict.fromkeys(scope for subject in subjects for scope in chain(subject)))
        works: list[Work] = [
            lambda tx, item=entry: (seen_before(tx, item.text), add(tx, item.text, item))  # type: ignore[misc]
            for entry in contents
        ]
        outcomes = run_jointly(judge, works, ReadAhead(subjects, scopes, contents))
        assert [outcome[1] for outcome in outcomes if isinstance(outcome, tuple)] == list(range(first, first + number))
        return [word for statement in statements if (word := statement.split()[0]) != "PRAGMA"]

    write(1, 1)  # the first one makes the counter
    alone = write(2, 1)
    assert write(3, 8) == alone
    assert len(alone) <= 13


def seen_before(tx: StoreReader, subject: str) -> Any:
    """What a registration asks of a subject."""
    return tx.configs(chain(subject)), tx.modes(chain(subject)), tx.versions(subject)


def test_an_ahead_of_hidden_things_is_no_way_to_see_them(judge: SqlStore) -> None:
    """`repeats` names only what was asked for, subject by subject."""
    with judge.write() as tx:
        add(tx, "a", CONTENTS[0])
        add(tx, "b", CONTENTS[2])
        add(tx, "c", CONTENTS[3])
        tx.soft_delete("c", [1])
    ids = [entry.identity for entry in CONTENTS]
    with judge.read() as reader:
        asked = [("a", ids[0]), ("a", ids[2]), ("b", ids[2]), ("c", ids[3]), ("d", ids[0]), ("a\0", ids[0])]
        assert reader.repeats(asked) == {("a", ids[0]), ("b", ids[2])}
        assert reader.repeats([]) == set()
