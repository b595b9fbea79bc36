"""What the timeline says of a DDL, by the API's own answers."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.support.service import Client
from tests.support.table import check_rows
from ticdc_bridge.service.testing import running_service

CREATE = "CREATE TABLE t (id INT PRIMARY KEY, a INT COMMENT 'x', b VARCHAR(10) DEFAULT 'q', UNIQUE KEY u (b))"


@pytest.fixture(scope="module")
def client() -> Iterator[Client]:
    with running_service() as url:
        yield Client(url)


KINDS: list[tuple[str, list[tuple[str, str]] | None]] = [
    ("ADD INDEX `i``x` (a, b)", [("new", "KEY `i``x` (`a`,`b`)")]),
    ("DROP INDEX u", [("gone", "UNIQUE KEY `u` (`b`)")]),
    ("RENAME COLUMN a TO z", [("changed", "a is renamed to z")]),
    ("CHANGE a z BIGINT", [("changed", "a is renamed to z"), ("changed", "z: int NULL COMMENT 'x' → bigint NULL")]),
    ("MODIFY COLUMN a BIGINT NOT NULL", [("changed", "a: int NULL COMMENT 'x' → bigint NOT NULL")]),
    ("ALTER COLUMN b SET DEFAULT 'r'", [("changed", "b: varchar(10) NULL DEFAULT 'q' → varchar(10) NULL DEFAULT 'r'")]),
    ("MODIFY COLUMN b VARCHAR(10) DEFAULT 'q' AFTER id", [("changed", "the order of the columns: id, b, a")]),
    ("ADD COLUMN g INT AS (a + 1) STORED FIRST", [("new", "g int AS (`a` + 1) STORED NULL")]),
    ("DROP COLUMN a, ADD COLUMN c INT COMMENT 'x'", None),
    ("COMMENT 'hello'", [("changed", "comment none → 'hello'")]),
]


def test_each_kind_of_change(client: Client) -> None:
    def check(row: tuple[str, list[tuple[str, str]] | None]) -> None:
        statement, said = row
        db = f"d{abs(hash(statement))}"
        for ts, query in ((100 << 18, CREATE), (200 << 18, f"ALTER TABLE t {statement}")):
            assert client.send("POST", "/history/ddl", {"commit_ts": ts, "db": db, "query": query}).status == 200
        answer = client.get(f"/history/{db}/t/versions?newest=true").json
        newest, oldest = answer["versions"]
        assert (answer["total"], oldest["changes"]) == (2, [])
        assert client.get(f"/history/{db}/t/versions?newest=true&limit=1").json["versions"] == [newest]
        found = [(one["kind"], one["text"]) for one in newest["changes"]]
        if said is None:  # another column in its place: told as what it is, never as a rename
            assert {kind for kind, _ in found} == {"gone", "new"}
        else:
            assert found == said

    check_rows(KINDS, check)
