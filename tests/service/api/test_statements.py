"""How often a request asks the store: in one transaction, and no oftener where there are many tables and subjects."""

import json
from collections.abc import Iterator
from contextlib import closing
from typing import Any

import pytest
from sqlalchemy import event

from tests.support.access import InProcess
from tests.support.each import each
from ticdc_bridge.service.server.app import create_app
from ticdc_bridge.service.server.settings import Settings
from ticdc_bridge.service.store import open_store

TABLES, STEP = 60, 1 << 18
SINK = "kafka://k/t?protocol=avro&schema-registry=http://r"
PER_TABLE = "[[sink.dispatchers]]\nmatcher=['*.*']\ntopic='{schema}_{table}'\n"
ALTER = "ALTER TABLE t7 ADD COLUMN more INT NULL"
LAST = TABLES * 4 * STEP


class CountedService:
    """A service in this process, and the statements that its store has run."""

    def __init__(self, url: str) -> None:
        self.statements: list[str] = []
        self._store = open_store(url)
        event.listen(self._store._dialect.engine, "checkout", self._watch)
        self._app = InProcess(create_app(Settings(), self._store))

    def _watch(self, connection: Any, _record: Any, _proxy: Any) -> None:
        connection.set_trace_callback(self.statements.append)

    def send(self, method: str, path: str, body: Any = None) -> Any:
        self.statements.clear()
        answer = self._app.send(method, path, body)
        assert answer.status == 200, answer
        return answer.json

    def close(self) -> None:
        self._app.close()
        self._store.close()


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[CountedService]:
    """Many tables of three versions, one with as many; the subjects of their newest versions, half of them drifted."""
    with closing(CountedService(f"sqlite:///{tmp_path_factory.mktemp('counted') / 'registry.db'}")) as counted:
        for number in range(TABLES):
            fill(counted, number)
        for number in range(TABLES):
            body = {"commit_ts": (TABLES * 3 + number) * STEP, "db": "d", "query": f"ALTER TABLE t0 ADD c{number} INT"}
            counted.send("POST", "/history/ddl", body)
        yield counted


def fill(service: CountedService, number: int) -> None:
    name, ts = f"t{number}", number * 3 * STEP + 1
    for clause in (
        f"CREATE TABLE {name} (id INT PRIMARY KEY)",
        f"ALTER TABLE {name} ADD a INT",
        f"ALTER TABLE {name} ADD b INT",
    ):
        service.send("POST", "/history/ddl", {"commit_ts": ts, "db": "d", "query": clause})
        ts += STEP
    shown = service.send("GET", f"/history/d/{name}/at/{ts}")
    schema = json.loads(shown["avro"][0]["value"])
    if number % 2:
        schema["fields"][-1]["name"] = "other"
    service.send("POST", f"/subjects/d_{name}-value/versions", {"schema": json.dumps(schema)})
    head = {"job": "j", "command": "decode", "from": "avro", "to": "delta", "source": "kafka", "target": "lake"}
    edge = {"topic": f"d_{name}", "db": "d", "table": name, "table_version": ts, "schema_id": number + 1, "rows": 1}
    service.send("POST", "/lineage", {**head, "tables": [edge]})


# Method, path, body; the most queries.
@each(("method", "path", "body", "most"), [
    ("GET", "/history/changefeeds", None, 5), ("GET", "/history/tables", None, 5), ("GET", "/history/ddl", None, 3),
    ("GET", "/history/drift", None, 11), ("GET", "/history/drift?registry=false", None, 3),
    ("GET", "/history/d/t0/versions", None, 10), ("GET", f"/history/d/t7/at/{LAST}", None, 8),
    ("GET", "/lineage", None, 2), ("GET", "/lineage?subject=d_t7-value", None, 2),
    ("POST", "/history/dry-run", {"db": "d", "sql": ALTER}, 27),
    ("POST", "/history/dry-run", {"db": "d", "sql": ALTER, "changefeed": {"sink_uri": SINK, "config": PER_TABLE}}, 25),
])  # fmt: skip
def test_a_request_reads_in_one_transaction(
    service: CountedService, method: str, path: str, body: Any, most: int
) -> None:
    service.send(method, path, body)
    begun = [statement for statement in service.statements if statement.startswith("BEGIN")]
    assert len(begun) == 1, begun
    queries = [statement for statement in service.statements if statement.startswith("SELECT")]
    assert len(queries) <= most, (len(queries), queries)


@each("row", [
    ("/history/ddl", {"commit_ts": LAST + 9, "db": "d", "query": "ALTER TABLE t9 ADD late INT"}),
    ("/history/snapshot", {"commit_ts": LAST + 9, "db": "d", "table": "t8", "subject": "d_t8-value"}),
], ids=lambda row: row[0])  # fmt: skip
def test_a_statement_reads_writes_and_reads(service: CountedService, row: tuple[str, dict[str, Any]]) -> None:
    """What it is about, what is kept, and what it became: one transaction each, with many tables there."""
    service.send("POST", *row)
    begun = [statement for statement in service.statements if statement.startswith("BEGIN")]
    assert len(begun) == 3, begun
    assert len([statement for statement in service.statements if statement.startswith("SELECT")]) <= 25


def test_what_is_asked_tells_of_all(service: CountedService) -> None:
    """The requests above have many rows to tell of."""
    assert len(service.send("GET", "/history/drift")["registry"]) == TABLES // 2
    assert len(service.send("GET", "/history/d/t0/versions")["versions"]) == TABLES + 3
    assert all(len(edge["subjects"]) == 1 for edge in service.send("GET", "/lineage"))
    assert len(service.send("GET", "/history/tables")["tables"]) == TABLES


def test_telling_an_edge_reads_no_other(service: CountedService) -> None:
    table = {"topic": "d_t1", "db": "d", "table": "t1", "table_version": None, "schema_id": 2, "rows": 1}
    head = {"job": "j", "command": "decode", "from": "avro", "to": "delta", "source": "kafka", "target": "lake"}
    service.send("POST", "/lineage", {**head, "tables": [{**table, "rows": n} for n in range(TABLES)]})
    reads = [statement for statement in service.statements if statement.startswith("SELECT") and "lineage" in statement]
    assert len(reads) == 1
    assert " IN (" in reads[0]
