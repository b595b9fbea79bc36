"""`backup` and `restore`: between both kinds of store, whole or not at all."""

import gzip
import json
import sqlite3
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import insert, select

from tests.service.api.test_store_outage import Load
from tests.support.forked_service import services
from tests.support.postgres import Postgres
from tests.support.service import GOLDEN, column, empty_store, ended, record, warnings_of
from tests.support.table import check_rows
from ticdc_bridge.schemas.model.errors import SetupError
from ticdc_bridge.service.registry import config, subjects
from ticdc_bridge.service.registry.model import NewSchema, Reference
from ticdc_bridge.service.registry.register import register
from ticdc_bridge.service.registry.registry import Registry
from ticdc_bridge.service.store import SqlStore, dialect_of, open_store
from ticdc_bridge.service.store.backup import backup, check, is_binary, restore
from ticdc_bridge.service.store.tables import facts, metadata

Url = str


@pytest.fixture(params=["sqlite", "postgresql"])
def other_url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """A second store, of each kind."""
    return empty_store(request.param, request, tmp_path / "other.db")


def fill(url: Url) -> None:
    """Something of everything: kinds, contexts, references, metadata, deletes, ids that are gone, configs, modes."""
    store = open_store(url)
    registry = Registry(store)
    register(registry, "gone", NewSchema('"bytes"'))
    for permanent in (False, True):
        subjects.delete_subject(registry, "gone", permanent=permanent)
    register(registry, "inner", NewSchema(record("In", column("a"), doc="naïve 表 \u0000\U0001f600")))
    outer = NewSchema(record("Out", column("i", "In")), references=(Reference("In", "inner", 1),))
    register(registry, "outer", outer)
    register(registry, ":.c:s", NewSchema('"int"', metadata={"properties": {"a": "ö"}}))
    register(registry, "j", NewSchema('{"type":"object"}', "JSON"))
    register(registry, "p", NewSchema('syntax = "proto3"; message M { string a = 1; }', "PROTOBUF"))
    config.update(registry, None, {"compatibility": "NONE"})
    for scale in (2, 4):
        decimal = {"type": "bytes", "logicalType": "decimal", "precision": 10, "scale": scale}
        register(registry, "d", NewSchema(record("D", column("x", decimal))))
    register(registry, "d", NewSchema('"string"'))
    subjects.delete_version(registry, "d", 3)
    config.update_mode(registry, "p", "READONLY")
    assert warnings_of(registry)
    store.close()


def everything(url: Url) -> dict[str, list[Any]]:
    """All rows of all tables."""
    dialect = dialect_of(url, 25, 1)
    with dialect.engine.connect() as connection:
        found = {
            table.name: sorted(map(tuple, connection.execute(select(table)).all()), key=repr)
            for table in metadata.sorted_tables
        }
    dialect.engine.dispose()
    found[facts.name] = [row for row in found[facts.name] if not dialect.is_local_fact(row[0])]
    return found


def backed_up(url: Url, target: Path) -> Path:
    dialect = dialect_of(url, 25, 1)
    backup(dialect, target)
    dialect.engine.dispose()
    return target


def restored(url: Url, source: Path) -> bool:
    """True if the store had it already."""
    dialect = dialect_of(url, 25, 1)
    store = SqlStore(dialect, 25)
    try:
        return restore(store, dialect, source)[1]
    finally:
        store.close()


def test_there_and_back(store_url: Url, other_url: Url, tmp_path: Path) -> None:
    fill(store_url)
    file = backed_up(store_url, tmp_path / "file")
    assert not restored(other_url, file)
    assert everything(other_url) == everything(store_url)
    assert restored(other_url, file), "the same again changes nothing"
    again = backed_up(other_url, tmp_path / "again")
    assert gzip.decompress(again.read_bytes()) == gzip.decompress(file.read_bytes())
    opened = open_store(other_url)
    registry = Registry(opened)
    assert register(registry, "new", NewSchema('"bytes"')).stored.id == 9, "the id of what is gone is not used again"
    with opened.read() as reader:
        assert [holder.subject for holder in reader.holders(".", 9)] == ["new"]
    opened.close()
    with pytest.raises(SetupError, match="is not empty"):
        restored(other_url, file)


def test_a_backup_of_a_store_in_use_is_one_state_of_it(store_url: Url, tmp_path: Path) -> None:
    with services(1, store_url, compatibility="NONE") as [(_, client)]:
        load = Load(client)
        files = []
        for number in range(3):
            load.wait_for(20)
            files.append(backed_up(store_url, tmp_path / str(number)))
        load.end()
    sizes = []
    for number, file in enumerate(files):
        target = f"sqlite:///{tmp_path / f'{number}.db'}"
        restored(target, file)
        held = everything(target)
        sizes.append(len(held["versions"]))
        shared = sorted(row[2] for row in held["versions"] if row[1] == "shared")
        assert shared == list(range(1, len(shared) + 1))
        ids = {(row[0], row[1]) for row in held["schemas"]}
        assert ids == {(row[3], row[4]) for row in held["versions"]}
        assert held["id_counters"] == [(".", len(ids))]
    assert sizes == sorted(set(sizes))


def test_a_damaged_file_is_refused(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path / 'a.db'}"
    fill(url)
    whole = backed_up(url, tmp_path / "whole").read_bytes()
    target, file = f"sqlite:///{tmp_path / 'b.db'}", tmp_path / "file"
    plain = gzip.decompress(whole)
    rows = plain.splitlines(keepends=True)
    damaged = [
        *(whole[:size] for size in range(0, len(whole), len(whole) // 40)),
        *(whole[:index] + bytes([whole[index] ^ 1]) + whole[index + 1 :] for index in range(10, len(whole), 97)), b"",
        b"no backup", plain,
        *map(gzip.compress, (b"", b"[]\n", b"{}\n", rows[0], b"".join(rows[:-1]), b"".join(rows[1:]), plain + b"{}\n")),
        gzip.compress(b"".join([*rows[:5], *rows[6:]])), gzip.compress(plain.replace("naïve".encode(), b"naive")),
        gzip.compress(plain.replace(b'"contexts"', b'"others"')),
        gzip.compress(plain.replace(b'"tables":{', b'"tables":{"x":[],', 1)),
    ]  # fmt: skip
    for content in damaged:
        file.write_bytes(content)
        with pytest.raises(SetupError):
            restored(target, file)
    file.write_bytes(whole)
    assert not restored(target, file)


def test_another_version_of_the_file(tmp_path: Path) -> None:
    url, file = f"sqlite:///{tmp_path / 'a.db'}", tmp_path / "file"
    open_store(url).close()
    header, *rest = gzip.decompress(backed_up(url, file).read_bytes()).splitlines(keepends=True)

    def refused(row: tuple[str, Any]) -> None:
        name, value = row
        changed = json.dumps({**json.loads(header), name: value}).encode() + b"\n"
        file.write_bytes(gzip.compress(b"".join([changed, *rest])))
        with pytest.raises(SetupError, match=r"layout 999.*newer|version 2|layout 0|no backup"):
            check(file)

    check_rows([("layout", 999), ("version", 2), ("layout", 0), ("layout", "x")], refused)


def test_what_is_no_store(tmp_path: Path) -> None:
    with pytest.raises(SetupError, match="does not exist"):
        backed_up(f"sqlite:///{tmp_path / 'none.db'}", tmp_path / "file")
    assert not (tmp_path / "none.db").exists()
    sqlite3.connect(tmp_path / "empty.db").close()
    with pytest.raises(SetupError, match="holds no registry"):
        backed_up(f"sqlite:///{tmp_path / 'empty.db'}", tmp_path / "file")
    open_store(f"sqlite:///{tmp_path / 'a.db'}").close()
    with pytest.raises(SetupError, match="can't write"):
        backed_up(f"sqlite:///{tmp_path / 'a.db'}", tmp_path / "no folder" / "file")
    with pytest.raises(SetupError, match="can't read"):
        check(tmp_path / "none")


def test_a_store_of_an_older_layout(other_url: Url, tmp_path: Path) -> None:
    """It is backed up as it is; what is restored goes through the same steps as a store that is opened."""
    old, upgraded = tmp_path / "old.db", tmp_path / "upgraded.db"
    for path in (old, upgraded):
        database = sqlite3.connect(path)
        database.executescript((GOLDEN / "layout1.sql").read_text(encoding="utf-8"))
        database.close()
    file = backed_up(f"sqlite:///{old}", tmp_path / "file")
    assert check(file)[0]["layout"] == 1
    open_store(f"sqlite:///{upgraded}").close()
    assert not restored(other_url, file)
    assert everything(other_url) == everything(f"sqlite:///{upgraded}")


def test_every_column_can_be_backed_up() -> None:
    for table in metadata.sorted_tables:
        assert table.primary_key.columns, table.name
        for entry in table.columns:
            is_binary(entry)


def test_large_tables_and_values(store_url: Url, tmp_path: Path) -> None:
    """More rows than a batch, and numbers and texts at their limits."""
    store = open_store(store_url)
    with store.write() as tx:
        warned = {"subject": "s", "version": 2**31 - 1, "kind": "k", "message": "m" * 100_000, "ts": 2**63 - 1}
        tx._sql.execute(insert(metadata.tables["warnings"]), [{**warned, "message": str(n)} for n in range(1700)])
        tx._sql.execute(insert(metadata.tables["warnings"]), [warned])
        tx.use_id(".", 2**31 - 1)
    store.close()
    target = f"sqlite:///{tmp_path / 'target.db'}"
    assert not restored(target, backed_up(store_url, tmp_path / "file"))
    assert everything(target) == everything(store_url)


def run(*arguments: str, cwd: Path, **variables: str) -> tuple[int, str]:
    done = ended(*arguments, cwd=cwd, **variables)
    assert done.stdout == ""
    return done.returncode, done.stderr


def test_the_commands(tmp_path: Path, postgres: Postgres) -> None:
    url = postgres.database().replace("postgres@", "postgres:secret@")
    fill(f"sqlite:///{tmp_path / 'registry.db'}")
    code, said = run("backup", "--out", "b", cwd=tmp_path, BRIDGE_STORE="sqlite:///registry.db")
    assert (code, said[:20]) == (0, "ticdc-bridge: backup"), said
    assert "8 schemas" in said
    assert "8 versions" in said
    code, said = run("restore", "--store", url, "--in", "b", cwd=tmp_path)
    assert code == 0, said
    assert "now holds " in said
    assert "8 schemas" in said
    assert "secret" not in said
    code, said = run("restore", "--store", url, "--in", "b", cwd=tmp_path)
    assert code == 0
    assert "already holds" in said
    assert run("restore", "--store", "sqlite:///registry.db", "--in", "b", cwd=tmp_path)[0] == 0
    code, said = run("restore", "--store", url, "--in", "none", cwd=tmp_path)
    assert (code, "can't read none" in said) == (2, True)
    code, said = run("backup", "--store", url.replace("/bridge", "/none"), "--out", "c", cwd=tmp_path)
    assert (code, 'database "none' in said, "secret" in said) == (2, True, False), said
