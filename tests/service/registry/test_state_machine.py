"""The registry against a model made of dicts: any order of registering, importing, deleting and restarting."""

import tempfile
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psycopg
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from tests.support.postgres import Postgres
from tests.support.service import short_and_long
from ticdc_bridge.service.errors import RegistryError
from ticdc_bridge.service.registry import config, schemas, subjects
from ticdc_bridge.service.registry.model import NewSchema
from ticdc_bridge.service.registry.names import context_of
from ticdc_bridge.service.registry.register import lookup, register
from ticdc_bridge.service.registry.registry import Registry
from ticdc_bridge.service.store import open_store

TEXTS = ('"int"', '"long"', '"string"', '{"type":"array","items":"int"}')
SUBJECTS = ("a", "b", ":.c:a")
a_subject = st.sampled_from(SUBJECTS)
a_text = st.sampled_from(TEXTS)


@dataclass
class Version:
    text: str
    id: int
    deleted: bool = False


@dataclass
class Model:
    """subject → number → version, and per context the ids in use and the highest ever used."""

    versions: dict[str, dict[int, Version]] = field(default_factory=lambda: {name: {} for name in SUBJECTS})
    highest: dict[str, int] = field(default_factory=dict)
    importing: bool = False

    def live(self, subject: str) -> dict[int, Version]:
        return {number: version for number, version in self.versions[subject].items() if not version.deleted}

    def ids(self, context: str) -> dict[int, str]:
        """What the ids of a context stand for."""
        return {
            version.id: version.text
            for subject, versions in self.versions.items()
            if context_of(subject) == context
            for version in versions.values()
        }

    def put(self, subject: str, number: int, version: Version) -> None:
        for old, entry in list(self.versions[subject].items()):
            if entry.deleted and entry.id == version.id and old < number:
                del self.versions[subject][old]
        self.versions[subject][number] = version
        context = context_of(subject)
        self.highest[context] = max(self.highest.get(context, 0), version.id)


class RegistryMachine(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.folder = tempfile.TemporaryDirectory()
        self.model = Model()
        self.open()

    def open(self) -> None:
        self.registry = Registry(open_store(self.url()))

    def url(self) -> str:
        return f"sqlite:///{Path(self.folder.name) / 'registry.db'}"

    def teardown(self) -> None:
        self.registry.store.close()
        self.folder.cleanup()

    def code(self, call: Callable[[], Any]) -> str | None:
        """The error of a call, None if it worked."""
        try:
            call()
        except RegistryError as error:
            return error.code
        return None

    @initialize()
    def no_compatibility(self) -> None:
        config.update(self.registry, ":.__GLOBAL:", {"compatibility": "NONE"})

    @rule()
    def restart(self) -> None:
        self.registry.store.close()
        self.open()

    @precondition(lambda self: not self.model.importing)
    @rule(subject=a_subject, text=a_text)
    def register(self, subject: str, text: str) -> None:
        found = register(self.registry, subject, NewSchema(text)).stored
        known = [number for number, value in self.model.live(subject).items() if value.text == text]
        if known:
            assert found.version == max(known)
            return
        context = context_of(subject)
        same = [number for number, held in self.model.ids(context).items() if held == text]
        expected = min(same) if same else self.model.highest.get(context, 0) + 1
        assert (found.id, found.version) == (expected, max(self.model.versions[subject], default=0) + 1)
        self.model.put(subject, found.version, Version(text, found.id))

    @rule(on=st.booleans())
    def switch_mode(self, on: bool) -> None:
        config.update_mode(self.registry, ":.__GLOBAL:", "IMPORT" if on else None, force=True)
        self.model.importing = on

    @precondition(lambda self: self.model.importing)
    @rule(subject=a_subject, text=a_text, schema_id=st.integers(1, 12), number=st.integers(1, 6))
    def bring(self, subject: str, text: str, schema_id: int, number: int) -> None:
        new = NewSchema(text, id=schema_id, version=number)
        error = self.code(lambda: register(self.registry, subject, new))
        existing = self.model.live(subject).get(number)
        held = self.model.ids(context_of(subject)).get(schema_id, text)
        if existing is not None and (existing.text, existing.id) == (text, schema_id):
            assert error is None
        elif held != text:  # also where soft-deleted versions alone have the id
            assert error == "ID_TAKEN"
        elif existing is not None:
            assert error == "VERSION_TAKEN"
        else:
            assert error is None
            self.model.put(subject, number, Version(text, schema_id))

    @rule(subject=a_subject, permanent=st.booleans())
    def delete_subject(self, subject: str, permanent: bool) -> None:
        error = self.code(lambda: subjects.delete_subject(self.registry, subject, permanent=permanent))
        all_, live = self.model.versions[subject], self.model.live(subject)
        if not all_:
            assert error == "SUBJECT_NOT_FOUND"
        elif permanent:
            assert error == ("SUBJECT_NOT_SOFT_DELETED" if live else None)
            self.model.versions[subject] = live and all_
        else:
            assert error == (None if live else "SUBJECT_SOFT_DELETED")
            for value in live.values():
                value.deleted = True

    @rule(subject=a_subject, number=st.integers(1, 6), permanent=st.booleans())
    def delete_version(self, subject: str, number: int, permanent: bool) -> None:
        error = self.code(lambda: subjects.delete_version(self.registry, subject, number, permanent=permanent))
        all_ = self.model.versions[subject]
        if number not in all_:
            assert error == ("VERSION_NOT_FOUND" if all_ else "SUBJECT_NOT_FOUND")
        elif permanent:
            assert error == (None if all_[number].deleted else "VERSION_NOT_SOFT_DELETED")
            if all_[number].deleted:
                del all_[number]
        else:
            assert error == ("VERSION_SOFT_DELETED" if all_[number].deleted else None)
            all_[number].deleted = True

    @rule(subject=a_subject, text=a_text)
    def look_up(self, subject: str, text: str) -> None:
        known = [number for number, value in self.model.live(subject).items() if value.text == text]
        if known:
            assert lookup(self.registry, subject, NewSchema(text)).stored.version == max(known)
        elif subject != "a":  # an unqualified subject is looked for in the other context too
            why = "SCHEMA_NOT_FOUND" if self.model.live(subject) else "SUBJECT_NOT_FOUND"
            assert self.code(lambda: lookup(self.registry, subject, NewSchema(text))) == why

    @invariant()
    def the_same_subjects_and_versions(self) -> None:
        expected = {name: versions for name, versions in self.model.versions.items() if versions}
        assert subjects.list_subjects(self.registry, deleted=True) == sorted(expected)
        for name, versions in expected.items():
            numbers = [-number if versions[number].deleted else number for number in sorted(versions)]
            assert subjects.list_versions(self.registry, name, deleted=True, negative=True) == numbers

    @invariant()
    def the_same_ids(self) -> None:
        for context in (".", ".c"):
            prefix = "" if context == "." else f":{context}:"
            for schema_id, text in self.model.ids(context).items():
                assert schemas.get(self.registry, schema_id, subject=prefix).content.text == text


@short_and_long(6, 25)
def test_on_sqlite(examples: int) -> None:
    some = settings(max_examples=examples, stateful_step_count=30, deadline=None)
    run_state_machine_as_test(RegistryMachine, settings=some)


@short_and_long(2, 10)
def test_on_postgresql(postgres: Postgres, examples: int) -> None:
    """The same machine; one database, emptied before each run."""
    url = postgres.database()

    class Machine(RegistryMachine):
        def __init__(self) -> None:
            with psycopg.connect(url) as connection:
                connection.execute("DROP SCHEMA public CASCADE; CREATE SCHEMA public")
            super().__init__()

        def url(self) -> str:
            return url

    few = settings(max_examples=examples, stateful_step_count=25, deadline=None)
    run_state_machine_as_test(Machine, settings=few)
