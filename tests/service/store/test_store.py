"""The promises of `service.registry.ports`, checked on the real store."""

import threading
from dataclasses import replace

import pytest
from sqlalchemy import text

from tests.support.each import each
from ticdc_bridge.schemas.model.errors import SetupError
from ticdc_bridge.service.errors import RegistryError
from ticdc_bridge.service.registry.model import Content, Counts, Lineage, Reference, StoredWarning
from ticdc_bridge.service.registry.ports import StoreWriter
from ticdc_bridge.service.registry.references import identity
from ticdc_bridge.service.store import SqlStore, open_store

INT = Content(identity('"int"'), '"int"')
LONG = Content(identity('"long"'), '"long"')


def add(tx: StoreWriter, subject: str, version: int, content: Content, context: str = ".") -> int:
    schema_id = tx.id_of(context, content)
    if schema_id is None:
        schema_id = tx.new_id(context)
        tx.put_schema(context, schema_id, content)
    tx.put_version(context, subject, version, schema_id, content, ts=1000 + version)
    return schema_id


def test_versions_and_what_they_hold(store: SqlStore) -> None:
    metadata = {"properties": {"a": "ä"}}
    rich = replace(LONG, metadata=metadata, references=(Reference("n.T", "t", 1),))
    with store.write() as tx:
        assert add(tx, "t", 1, INT) == 1
        assert add(tx, "s", 1, INT) == 1
        assert add(tx, "s", 2, rich) == 2
    with store.read() as tx2:
        second = tx2.version("s", 2)
        assert second is not None
        assert second.content == rich
        assert (second.subject, second.version, second.id, second.ts, second.deleted) == ("s", 2, 2, 1002, False)
        assert tx2.latest("s") == second
        assert tx2.by_content("s", INT) == tx2.version("s", 1)
        assert [holder.subject for holder in tx2.holders(".", 1)] == ["t", "s"]
        assert [(row.subject, row.version) for row in tx2.referrers("t", 1)] == [("s", 2)]
        assert tx2.lookalikes("s", b"none") == [second]
        assert tx2.lookalikes("t", b"none") == []
        assert tx2.schema(".", 2) == rich
        assert tx2.subjects() == [("s", True), ("t", True)]
        assert [(entry.subject, entry.version) for entry in tx2.search("s")] == [("s", 1), ("s", 2)]
        assert tx2.ids_of(INT.identity) == [(".", 1)]


def test_soft_deleted_versions_count_only_when_asked(store: SqlStore) -> None:
    with store.write() as tx:
        add(tx, "s", 1, INT)
        add(tx, "s", 2, LONG)
        tx.soft_delete("s", [2])
        assert [(row.version, row.deleted) for row in tx.versions("s")] == [(1, False), (2, True)]
        assert [version.version for version in tx.live_versions("s")] == [1]
        latest, with_deleted = tx.latest("s"), tx.latest("s", deleted=True)
        assert latest is not None
        assert with_deleted is not None
        assert (latest.version, with_deleted.version) == (1, 2)
        assert tx.by_content("s", LONG) is None
        assert tx.by_content("s", LONG, deleted=True) == with_deleted
        tx.soft_delete("s", [1])
        assert tx.subjects() == [("s", False)]


def test_many_at_once(store: SqlStore) -> None:
    with store.write() as tx:
        for subject, version, content in (
            ("T_a", 1, INT),
            ("T_a", 2, LONG),
            ("u", 1, LONG),
            ("u", 2, INT),
            ("v", 1, INT),
        ):
            add(tx, subject, version, content)
        add(tx, ":.c:x", 1, LONG, ".c")
        tx.soft_delete("u", [2])
        tx.add_lineage([Lineage("k", "{}", 5, 1, 1), Lineage("l", "{}", 1, 1, 1)])
        tx.add_lineage([Lineage("k", "{}", 2, 9, 9), Lineage("m", "{}", 3, 9, 9)])
    with store.read() as reader:
        assert [(entry.subject, entry.version) for entry in reader.newest("", "")] == [
            (":.c:x", 1), ("T_a", 2), ("u", 1), ("v", 1),
        ]  # fmt: skip
        assert [entry.subject for entry in reader.newest("T_A", "")] == ["T_a"]
        assert [entry.subject for entry in reader.newest("", "int")] == ["v"]
        assert reader.newest("%", "_") == reader.newest("a\0b", "") == []
        assert [(row.subject, row.version) for row in reader.holders_of(".", {1, 2, 7})] == [
            ("T_a", 1), ("T_a", 2), ("u", 1), ("v", 1),
        ]  # fmt: skip
        holding = [
            (entry, row.subject, row.version, row.id) for entry, row in reader.holding({INT.identity, LONG.identity})
        ]
        assert holding == [
            (INT.identity, "T_a", 1, 1), (INT.identity, "v", 1, 1), (LONG.identity, "T_a", 2, 2),
            (LONG.identity, "u", 1, 2), (LONG.identity, ":.c:x", 1, 1),
        ]  # fmt: skip
        assert {(entry.key, entry.rows, entry.first, entry.last) for entry in reader.lineage()} == {
            ("k", 7, 1, 9), ("l", 1, 1, 1), ("m", 3, 9, 9),
        }  # fmt: skip
        listed = [
            (row.subject, row.version, row.id, row.deleted, row.kind, row.ts) for row in reader.versions_of(["u", "v"])
        ]
        assert sorted(listed) == [
            ("u", 1, 2, False, "AVRO", 1001), ("u", 2, 1, True, "AVRO", 1002), ("v", 1, 1, False, "AVRO", 1001),
        ]  # fmt: skip
        assert [entry.version for entry in reader.newest("U", "", deleted=True)] == [2]
        assert [row.version for row in reader.holders_of(None, [1], deleted=True)] == [1, 2, 1, 1]
        assert reader.configs([f"s{n}" for n in range(300)]) == {}
        with store.read() as inner:
            assert inner is reader


def test_a_schema_stays_while_somebody_holds_it(store: SqlStore) -> None:
    with store.write() as tx:
        add(tx, "a", 1, INT)
        add(tx, "b", 1, INT)
        tx.remove("a", [1])
        assert [holder.subject for holder in tx.holders(".", 1)] == ["b"]


def test_configs(store: SqlStore) -> None:
    with store.write() as tx:
        tx.put_config("s", {"compatibilityLevel": "FULL"})
        tx.put_config("s", {"compatibilityLevel": "NONE"})
        tx.put_config(":.:", {"normalize": True})
    with store.read() as tx2:
        assert tx2.configs(["s", "x", ":.:"]) == {"s": {"compatibilityLevel": "NONE"}, ":.:": {"normalize": True}}
    with store.write() as tx:
        tx.drop_config("s")
        assert tx.configs(["s"]) == {}


def test_a_failed_write_leaves_nothing(store: SqlStore) -> None:
    def fail() -> None:
        with store.write() as tx:
            add(tx, "s", 1, INT)
            tx.put_config("s", {})
            raise KeyError("a defect")

    with pytest.raises(KeyError):
        fail()
    with store.read() as tx2:
        assert tx2.subjects() == []
        assert tx2.configs(["s"]) == {}
        assert tx2.max_id(".") == 0


def test_readers_are_not_stopped_by_a_writer(store: SqlStore) -> None:
    with store.write() as tx:
        add(tx, "s", 1, INT)
        with store.read() as other:
            assert other.subjects() == []
    with store.read() as after:
        assert after.subjects() == [("s", True)]


def test_writers_wait_for_each_other(store: SqlStore) -> None:
    inside: list[int] = []

    def write(number: int) -> None:
        with store.write() as tx:
            inside.append(number)
            add(tx, f"s{number}", 1, INT)
            assert inside == [number], "another writer is inside"
            inside.clear()

    threads = [threading.Thread(target=write, args=(number,)) for number in range(16)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    with store.read() as tx2:
        assert len(tx2.subjects()) == len(threads)


def test_a_store_that_is_gone_is_not_healthy(store: SqlStore) -> None:
    store.check()
    with store.write() as tx:
        tx._sql.execute(text("DROP TABLE bridge_facts"))
    with pytest.raises(RegistryError) as gone:
        store.check()
    assert gone.value.row.error_code == 50001


@each("url", [
    "", "registry.db", "sqlite://", "sqlite:///:memory:", "mysql:///x", "postgresql://", "postgres://h",
    "postgresql:///",
])  # fmt: skip
def test_urls_that_are_no_store(url: str) -> None:
    with pytest.raises(SetupError):
        open_store(url)


def test_modes_contexts_warnings_and_counts(store: SqlStore) -> None:
    warned = StoredWarning("s", 1, "KIND", "what", 5)
    with store.write() as tx:
        add(tx, "s", 1, INT)
        add(tx, ":.c:s", 1, LONG, ".c")
        tx.use_id(".", 50)
        tx.use_id(".", 7)
        assert add(tx, "s", 2, LONG) == 51
        tx.soft_delete("s", [2])
        tx.put_mode("s", "IMPORT")
        tx.put_mode("s", "READONLY")
        tx.put_mode("t", "IMPORT")
        tx.put_mode("t", None)
        tx.put_warning(warned)
        tx.put_config("s", {"alias": "t"})
    with store.read() as reader:
        assert reader.modes(["s", "t"]) == {"s": "READONLY"}
        assert reader.contexts() == [".c"]
        assert reader.warnings() == [warned]
        assert reader.all_configs() == {"s": {"alias": "t"}}
        assert reader.counts() == Counts(schemas=3, subjects=2, live={"AVRO": 2}, deleted={"AVRO": 1})
    with store.write() as tx:
        tx.remove("s", [1])
        tx.drop_context(".c")
        assert (tx.warnings(), tx.contexts()) == ([], [])
