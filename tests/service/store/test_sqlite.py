"""What is special about a store in an SQLite file."""

import os
import sqlite3
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from ticdc_bridge.schemas.model.errors import SetupError
from ticdc_bridge.service.errors import RegistryError
from ticdc_bridge.service.registry.deadline import Outage
from ticdc_bridge.service.store import dialect_of, open_store, store_exists
from ticdc_bridge.service.store.dialects import driver


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


_OF_NOBODY = 54321


@contextmanager
def user_without_rights() -> Iterator[None]:
    """What is done here is done as a user who owns nothing: root may enter and write every folder."""
    own = os.geteuid()
    if own == 0:
        os.seteuid(_OF_NOBODY)
    try:
        yield
    finally:
        os.seteuid(own)


@pytest.mark.parametrize(
    ("closed", "store", "reason"),
    [
        ("outer", "outer/inner/registry.db", r"can't be read: this user may not enter the folder \S+outer,"),
        ("inner", "inner/registry.db", r"can't be written: this user may not write the folder \S+inner \("),
    ],
)
def test_a_folder_that_this_user_may_not_enter(closed: str, store: str, reason: str) -> None:
    """It is said at start, and by what looks at a store that is open."""
    with tempfile.TemporaryDirectory() as top:  # pytest's own folders are closed to others
        file = Path(top, store)
        file.parent.mkdir(parents=True)
        Path(top).chmod(0o755)
        opened = dialect_of(f"sqlite:///{file}", 1.0, 1)
        Path(top, closed).chmod(0o000)
        with user_without_rights():
            assert store_exists(f"sqlite:///{file}")
            with pytest.raises(SetupError, match=reason):
                open_store(f"sqlite:///{file}")
            assert "this user may not" in str(opened.write_problem(None))
        Path(top, closed).chmod(0o700)
        opened.engine.dispose()
