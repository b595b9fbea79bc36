"""`write_each`: several works in one turn to write, each apart."""

from typing import Any

import pytest
from sqlalchemy import text

from ticdc_bridge.service.errors import RegistryError
from ticdc_bridge.service.registry.model import Content
from ticdc_bridge.service.registry.ports import ReadAhead, StoreWriter
from ticdc_bridge.service.registry.references import identity
from ticdc_bridge.service.store import SqlStore

INT = '"int"'


def put(subject: str, schema: str) -> Any:
    def work(tx: StoreWriter) -> int:
        content = Content(identity(schema), schema)
        number = tx.new_id(".")
        tx.put_schema(".", number, content)
        tx.put_version(".", subject, 1, number, content, ts=1)
        return number

    return work


def failing(tx: StoreWriter) -> int:
    put("f", '"long"')(tx)
    raise ValueError("mine")


def test_works_are_apart(store: SqlStore) -> None:
    works = [put("s", INT), failing, put("s", '"bytes"'), put("t", '"string"')]
    first, failed, clash, last = store.write_each(lambda: (works, ReadAhead()), 1)
    assert (first, last) == (1, 2)
    assert isinstance(failed, ValueError)
    assert isinstance(clash, Exception)  # version 1 is there; the database said so
    with store.read() as tx:
        assert tx.subjects() == [("s", True), ("t", True)]
        assert tx.max_id(".") == 2


def test_nobody_has_written_when_the_commit_fails(store: SqlStore) -> None:
    def spoil(tx: Any) -> None:
        """Leave something that only the commit finds wrong."""
        tx._sql.execute(text("CREATE TABLE one (id INTEGER PRIMARY KEY)"))
        tx._sql.execute(text("CREATE TABLE two (id INTEGER REFERENCES one (id) DEFERRABLE INITIALLY DEFERRED)"))
        tx._sql.execute(text("INSERT INTO two VALUES (1)"))

    with pytest.raises(RegistryError) as caught:
        store.write_each(lambda: ([put("s", INT), spoil, put("t", '"string"')], ReadAhead()), 1)
    assert caught.value.code == "STORE_FAILED"
    with store.read() as tx:
        assert tx.subjects() == []
    assert store.write_each(lambda: ([put("s", INT)], ReadAhead()), 1) == [1]
