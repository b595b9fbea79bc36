"""What is special about a store in an SQLite file."""

from __future__ import annotations

import sqlite3
from pathlib import Path

import pytest

from schemas.model.errors import RegistryError, SetupError
from service.registry.deadline import Outage
from service.store import open_store
from service.store.dialects import driver


def test_a_write_is_durable_by_settings(tmp_path: Path) -> None:
    store = open_store(f"sqlite:///{tmp_path / 'registry.db'}")
    with store.write() as tx:
        own = driver(tx._sql)
        modes = [own.execute(f"PRAGMA {name}").fetchone()[0] for name in ("journal_mode", "synchronous")]
    assert modes == ["wal", 2]
    store.close()


def test_another_process_that_holds_the_lock_is_an_outage(tmp_path: Path) -> None:
    path = tmp_path / "registry.db"
    impatient = open_store(f"sqlite:///{path}", wait_seconds=0.05)
    holder = sqlite3.connect(path, isolation_level=None)
    holder.execute("BEGIN IMMEDIATE")
    with pytest.raises(Outage) as late, impatient.write():
        pass
    assert (late.value.row.http, late.value.row.error_code) == (500, 50002)
    holder.close()
    with impatient.write() as tx:
        tx.put_config("s", {})
    impatient.close()


def test_a_file_that_is_damaged_is_no_outage(tmp_path: Path) -> None:
    path = tmp_path / "registry.db"
    store = open_store(f"sqlite:///{path}")
    with store.write() as tx:
        tx.put_config("s", {})
    store.close()
    content = bytearray(path.read_bytes())
    content[4096:] = b"\xff" * (len(content) - 4096)
    path.write_bytes(content)
    with pytest.raises((SetupError, RegistryError), match="malformed"):
        open_store(f"sqlite:///{path}")


def test_files_that_are_no_store(tmp_path: Path) -> None:
    with pytest.raises(SetupError, match="does not exist"):
        open_store(f"sqlite:///{tmp_path}/none/registry.db")
    (tmp_path / "text.db").write_text("not a database, but long enough to look like a header of one " * 20)
    with pytest.raises(SetupError, match="not a database"):
        open_store(f"sqlite:///{tmp_path / 'text.db'}")
    foreign = sqlite3.connect(tmp_path / "foreign.db")
    foreign.execute("CREATE TABLE theirs (x)")
    foreign.close()
    with pytest.raises(SetupError, match="another program"):
        open_store(f"sqlite:///{tmp_path / 'foreign.db'}")
