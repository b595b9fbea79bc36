"""Stores of older layouts are brought up to date when they are opened, all or nothing; newer ones are refused.

The files are dumps of what released versions wrote: layout 1 (SQLite only) and layout 2, PostgreSQL's first.
"""

import sqlite3
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

import psycopg
import pytest
from sqlalchemy import Connection, create_engine, inspect, make_url, text

from tests.support.forked_service import services
from tests.support.postgres import DatabaseServer
from tests.support.service import GOLDEN, Client, until
from ticdc_bridge.schemas.model.errors import SetupError
from ticdc_bridge.service.registry.model import NewSchema
from ticdc_bridge.service.registry.references import stored_schema
from ticdc_bridge.service.registry.register import register
from ticdc_bridge.service.registry.registry import Registry
from ticdc_bridge.service.schema_types.base import Formats
from ticdc_bridge.service.store import open_store
from ticdc_bridge.service.store.migrations import STEPS
from ticdc_bridge.service.store.tables import LAYOUT
from ticdc_bridge.service.testing import running_service

DUMPS = {"layout1": "sqlite", "layout2": "sqlite", "layout2-postgresql": "postgresql"}
SQLITE = [name for name, kind in DUMPS.items() if kind == "sqlite"]


@pytest.fixture(params=DUMPS)
def old(request: pytest.FixtureRequest, tmp_path: Path) -> tuple[str, str]:
    """The name of a dump, and the URL of a store made from it."""
    name = request.param
    if DUMPS[name] == "sqlite":
        return name, from_dump(name, tmp_path / "old.db")
    server = request.getfixturevalue("postgres")
    assert isinstance(server, DatabaseServer)
    url = server.database()
    with psycopg.connect(url) as connection:
        connection.execute((GOLDEN / f"{name}.sql").read_bytes())
    return name, url


def from_dump(name: str, path: Path) -> str:
    database = sqlite3.connect(path)
    database.executescript((GOLDEN / f"{name}.sql").read_text(encoding="utf-8"))
    database.close()
    return f"sqlite:///{path}"


def asked(url: str, ask: Callable[[Connection], Any]) -> Any:
    """Past the store."""
    parsed = make_url(url)
    engine = create_engine(parsed if parsed.drivername == "sqlite" else parsed.set(drivername="postgresql+psycopg"))
    with engine.begin() as connection:
        found = ask(connection)
    engine.dispose()
    return found


def layout_of(url: str) -> int:
    query = text("SELECT value FROM bridge_facts WHERE name = 'layout'")
    return int(asked(url, lambda connection: connection.execute(query).scalar_one()))


def tables_of(url: str) -> dict[str, Any]:
    """Tables, columns, keys and indexes."""

    def found(connection: Connection) -> dict[str, Any]:
        look = inspect(connection)
        return {
            name: (
                sorted((column["name"], column["nullable"]) for column in look.get_columns(name)),
                look.get_pk_constraint(name)["constrained_columns"],
                sorted(str(index["name"]) for index in look.get_indexes(name)),
            )
            for name in look.get_table_names()
        }

    tables = asked(url, found)
    assert isinstance(tables, dict)
    return tables


def test_an_older_store_is_brought_up_to_date(old: tuple[str, str]) -> None:
    name, url = old
    for _ in range(2):
        opened = open_store(url)
        registry = Registry(opened)
        with opened.write() as tx:
            assert tx.contexts() == [".c"]
            assert tx.configs(["s"]) == {"s": {"compatibilityLevel": "FULL"}}
            assert [(row.version, row.deleted) for row in tx.versions("s")] == [(1, False), (2, True)]
            assert [row.subject for row in tx.referrers("inner", 1)] == [":.c:outer"]
            outer = tx.version(":.c:outer", 1)
            assert outer is not None
            parsed = stored_schema(registry, tx, outer)
            assert isinstance(parsed, Formats)
            assert parsed.format_text("resolved").count('"name":"In"') == 1
            first = name == "layout1"
            assert [tx.max_id("."), tx.max_id(".c")] == [3 if first else 6, 2]
            assert tx.modes([":.:", "d"]) == ({} if first else {"d": "READONLY"})
            assert len(tx.warnings()) == (0 if first else 1)
        opened.close()
    assert layout_of(url) == LAYOUT
    opened = open_store(url)
    assert register(Registry(opened), "new", NewSchema('"bytes"')).stored.id == (4 if name == "layout1" else 7)
    opened.close()


def test_it_is_then_like_a_new_one(old: tuple[str, str], tmp_path: Path, request: pytest.FixtureRequest) -> None:
    name, url = old
    new = f"sqlite:///{tmp_path / 'new.db'}"
    if DUMPS[name] == "postgresql":
        new = request.getfixturevalue("postgres").database()
    for entry in (url, new):
        open_store(entry).close()
    assert tables_of(url) == tables_of(new)


def test_every_layout_has_its_step() -> None:
    assert sorted(STEPS) == list(range(1, LAYOUT))


@pytest.mark.parametrize("name", SQLITE)
def test_all_at_once(name: str, tmp_path: Path) -> None:
    """Several processes start after an upgrade: one of them does it."""
    url = from_dump(name, tmp_path / "old.db")
    with ThreadPoolExecutor(6) as pool:
        for store in pool.map(lambda _: open_store(url), range(6)):
            store.close()
    assert layout_of(url) == LAYOUT


def test_a_step_that_fails_leaves_the_store_as_it_was(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    url = from_dump("layout1", tmp_path / "old.db")
    before = tables_of(url)
    step = STEPS[1]

    def fail(connection: Connection) -> None:
        step(connection)
        raise SetupError("USAGE", details="no")

    monkeypatch.setitem(STEPS, 1, fail)
    with pytest.raises(SetupError, match="no"):
        open_store(url)
    assert (tables_of(url), layout_of(url)) == (before, 1)
    monkeypatch.undo()
    open_store(url).close()
    assert layout_of(url) == LAYOUT


def test_a_newer_layout_is_refused(store_url: str) -> None:
    open_store(store_url).close()
    newer = text(f"UPDATE bridge_facts SET value = '{LAYOUT + 1}' WHERE name = 'layout'")
    asked(store_url, lambda connection: connection.execute(newer))
    with pytest.raises(SetupError, match=f"layout {LAYOUT + 1}, and this version knows layouts 1 to {LAYOUT}"):
        open_store(store_url)
    assert layout_of(store_url) == LAYOUT + 1


def is_known(client: Client, subject: str) -> bool:
    return bool(client.get(f"/subjects/{subject}/versions").json == [1])


def test_a_rolling_upgrade_of_two_replicas(store_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """One replica is of the next version already: the other one answers reads, refuses every write and says why."""

    def next_step(connection: Connection) -> None:
        connection.execute(text("ALTER TABLE schemas ADD COLUMN of_the_next_layout INTEGER"))

    with services(1, store_url) as [(_, old)]:
        known = old.register("s", '"int"').json
        for module in ("migrations", "write_queue"):
            monkeypatch.setattr(f"ticdc_bridge.service.store.{module}.LAYOUT", LAYOUT + 1)
        monkeypatch.setitem(STEPS, LAYOUT, next_step)
        with running_service(store_url) as url:
            new = Client(url)
            for number in range(3):
                subject = f"new{number}"
                assert new.register(subject, f'{{"type":"fixed","name":"F{number}","size":1}}').status == 200
                for answer in (
                    old.register("t", '"long"'),
                    old.send("PUT", "/config/s", {"compatibility": "NONE"}),
                    old.send("DELETE", "/subjects/s"),
                ):
                    assert (answer.status, answer.json["error_code"]) == (500, 50001)
                    assert (
                        f"the store has layout {LAYOUT + 1} now, and this process knows {LAYOUT}: it answers reads"
                        in (answer.json["message"])
                    )
                assert old.register("s", '"int"').json["id"] == known["id"]  # nothing has to be written for it
                until(partial(is_known, old, subject))
                assert old.get("/schemas/ids/1").json["schema"] == '"int"'
    assert layout_of(store_url) == LAYOUT + 1
