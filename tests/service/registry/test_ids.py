"""Which ids new schemas get: above the imported ones, and no import can use them up."""

import itertools

import pytest
from sqlalchemy import text

from tests.support.each import each
from tests.support.service import record
from tests.support.table import check_rows
from ticdc_bridge.service.auth.acl import read
from ticdc_bridge.service.auth.filtered_store import FilteredStore, ListenerGroup
from ticdc_bridge.service.errors import RegistryError
from ticdc_bridge.service.registry import config, schemas, subjects
from ticdc_bridge.service.registry.model import LAST_COUNTED, NewSchema
from ticdc_bridge.service.registry.names import MAX_VERSION
from ticdc_bridge.service.registry.register import register
from ticdc_bridge.service.registry.registry import Registry
from ticdc_bridge.service.store import SqlStore, open_store

_NAMES = map(str, itertools.count())


def new_id(registry: Registry, context: str = "") -> int:
    """Of a schema that is nowhere yet."""
    return register(registry, f"{context}s{next(_NAMES)}", NewSchema(record(f"R{next(_NAMES)}"))).stored.id


def import_id(registry: Registry, number: int) -> str:
    subject = f"i{number}"
    config.update_mode(registry, subject, "IMPORT")
    register(registry, subject, NewSchema(record(f"I{number}"), id=number, version=1))
    return subject


@each(("numbers", "following"), [
    ((7000, 12, 6999), 7001),
    ((LAST_COUNTED - 1,), LAST_COUNTED),
    ((MAX_VERSION,), 2),
    ((MAX_VERSION, MAX_VERSION - 1, LAST_COUNTED + 1), 2),
    ((LAST_COUNTED, LAST_COUNTED + 1, LAST_COUNTED + 3, MAX_VERSION), LAST_COUNTED + 2),
])  # fmt: skip
def test_after_imports(store_url: str, registry: Registry, numbers: tuple[int, ...], following: int) -> None:
    """Also when what was imported is gone for good, and after a restart."""
    with registry.store.write() as tx:
        for table in ("versions", "schemas", "id_counters"):
            tx.connection.execute(text(f"DELETE FROM {table}"))  # type: ignore[attr-defined]
        tx.connection.execute(text("DELETE FROM bridge_facts WHERE name LIKE 'imported%'"))  # type: ignore[attr-defined]
    assert new_id(registry) == 1
    for number in numbers:
        subject = import_id(registry, number)
        subjects.delete_subject(registry, subject)
        subjects.delete_subject(registry, subject, permanent=True)
    assert new_id(registry) == following
    again = open_store(store_url)
    expected = following + 1 + (following + 1 in numbers)
    assert new_id(Registry(again)) == expected
    again.close()


def test_only_an_admin_crosses_the_line(store: SqlStore) -> None:
    rules = '[[rules]]\nwho = ["alice"]\nprefixes = ["i"]\nmay = ["read", "write", "config"]\n'
    alice = Registry(FilteredStore(store, read(rules, "acl").access("alice"), ListenerGroup()))
    import_id(alice, LAST_COUNTED)
    for number in (LAST_COUNTED + 1, MAX_VERSION):
        with pytest.raises(RegistryError, match=f"Only an admin .* above {LAST_COUNTED}; this one is {number}"):
            import_id(alice, number)
    import_id(Registry(store), MAX_VERSION)
    assert new_id(Registry(store)) == LAST_COUNTED + 1


def test_a_store_whose_ids_were_used_up_counts_again(store: SqlStore, store_url: str) -> None:
    """What layout 4 left behind: the count at its end."""
    registry = Registry(store)
    assert new_id(registry) == 1
    import_id(registry, MAX_VERSION)
    with store.write() as tx:
        tx.connection.execute(text(f"UPDATE id_counters SET last = {MAX_VERSION}"))
        tx.connection.execute(text("DELETE FROM bridge_facts WHERE name LIKE 'imported%'"))
        tx.connection.execute(text("UPDATE bridge_facts SET value = '4' WHERE name = 'layout'"))
    again = open_store(store_url)
    assert new_id(Registry(again)) == LAST_COUNTED + 1
    assert new_id(Registry(again), ":.c:") == 1
    again.close()


def test_subjects_of_an_id_stand_as_in_confluents_map(registry: Registry) -> None:
    """Its server's own answer; the first is the one shown with the schema."""
    names = "d-2a 1.20xb AaeCc..aaezC0z _01b3y1aB_g yygz-e--ygbyf f_zge eBxAfA cab.y cf0Bd ef.dxc 1a ayy"
    subjects_there = [f":.r78614612:{name}" for name in names.split()]
    for subject in sorted(subjects_there):
        register(registry, subject, NewSchema('"int"'))
    assert schemas.versions(registry, 1, subject=":.r78614612:") == [(subject, 1) for subject in subjects_there]
    assert schemas.get(registry, 1, subject=":.r78614612:").subject == subjects_there[0]
    assert schemas.by_guid(registry, "ef524ea1-b91e-7317-3d93-8ade36c1db32").subject == subjects_there[0]


def test_by_id_and_subject(registry: Registry) -> None:
    """A subject that names its context has to have the id; of its versions the one registered last is shown."""
    for subject in (":.c:a", ":.c:b", "a"):
        assert register(registry, subject, NewSchema('"int"')).stored.id == 1
    assert register(registry, ":.c:other", NewSchema('"long"')).stored.id == 2
    config.update_mode(registry, "i", "IMPORT")
    for version in (4, 7):
        register(registry, "i", NewSchema('"string"', id=50, version=version))

    def check(row: tuple[int, str, str]) -> None:
        schema_id, asked, shown = row
        if not shown:
            with pytest.raises(RegistryError, match=f"Schema {schema_id} not found"):
                schemas.get(registry, schema_id, subject=asked)
        else:
            stored = schemas.get(registry, schema_id, subject=asked)
            assert f"{stored.subject} {stored.version}" == shown

    rows = [
        (1, ":.c:b", ":.c:b 1"), (2, ":.c:b", ""), (1, ":.c:none", ""), (1, ":.none:a", ""),
        (2, ":.c:", ":.c:other 1"), (2, "other", ":.c:other 1"), (1, "none", "a 1"), (2, "none", ""),
        (50, "i", "i 7"), (50, "", "i 7"),
    ]  # fmt: skip
    check_rows(rows, check)
