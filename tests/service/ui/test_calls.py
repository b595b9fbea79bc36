"""Each page asks the API a few times, however many rows it shows."""

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from urllib.parse import urlencode

import pytest
from starlette.types import Receive, Scope, Send

from tests.support.access import InProcess
from tests.support.each import each
from tests.support.service import column, record
from ticdc_bridge.service.server.app import create_app
from ticdc_bridge.service.server.settings import Settings

ROWS, STEP = 60, 1 << 18
SHOWN = 50  # rows of a page


class CountedPages:
    """Pages in this process, and what they have asked the API for."""

    def __init__(self, folder: Path) -> None:
        self.asked: list[str] = []
        self._app = create_app(Settings(store=f"sqlite:///{folder / 'registry.db'}"))
        self._app.state.served = self._serve
        self._client = InProcess(self._app)

    async def _serve(self, scope: Scope, receive: Receive, send: Send) -> None:
        self.asked.append(f"{scope['method']} {scope['path']}?{scope['query_string'].decode()}")
        await self._app(scope, receive, send)

    def send(self, method: str, path: str, body: object = None) -> str:
        self.asked.clear()
        answer = self._client.send(method, path, body)
        assert answer.status == 200, answer
        return answer.body.decode()

    def close(self) -> None:
        self._client.close()
        self._app.state.services.registry.store.close()


@pytest.fixture(scope="module")
def pages(tmp_path_factory: pytest.TempPathFactory) -> Iterator[CountedPages]:
    """Many subjects, contexts, tables and edges; a subject and a table of many versions; rows in two changefeeds."""
    with closing(CountedPages(tmp_path_factory.mktemp("pages"))) as pages:
        pages.send("PUT", "/config", {"compatibility": "NONE"})
        for number in range(ROWS):
            fill(pages, number)
        pages.send("POST", "/history/ddl?changefeed=b", {"commit_ts": 9, "db": "d", "query": "CREATE TABLE u (a INT)"})
        yield pages


def fill(pages: CountedPages, number: int) -> None:
    text = record("r", column(f"c{number}"))
    for subject in ("many", f"s{number}-value", f":.x{number}:s"):
        pages.send("POST", f"/subjects/{subject}/versions", {"schema": text})
    for ts, query in (
        (1 + number, f"CREATE TABLE t{number} (id INT PRIMARY KEY)"),
        ((1 + number) * STEP, f"ALTER TABLE t0 ADD c{number} INT"),
    ):
        pages.send("POST", "/history/ddl?changefeed=a", {"commit_ts": ts, "db": "d", "query": query})
    head = {
        "job": f"j{number}", "command": "decode", "from": "avro", "to": "delta", "source": "kafka", "target": "lake",
    }  # fmt: skip
    edge = {"topic": "t", "db": "d", "table": f"t{number}", "table_version": 1, "schema_id": number + 1, "rows": 1}
    pages.send("POST", "/lineage", {**head, "tables": [edge]})
    merged = {**edge, "table": "lake", "table_version": number + 1}
    pages.send("POST", "/lineage", {**head, "job": "merge", "command": "merge", "tables": [merged]})


# Method, path, form; the most calls; what of each row is in the page, and how many rows.
@each(("method", "path", "form", "most", "mark", "rows"), [
    ("GET", "/ui", {}, 5, 'data-label="Last seen"', SHOWN),
    ("GET", "/ui/topics", {}, 1, "BRIDGE_BOOTSTRAP_SERVERS", 1),
    ("GET", "/ui/topics/t", {}, 2, "BRIDGE_BOOTSTRAP_SERVERS", 1),
    ("GET", "/ui/dead-letters/t", {}, 1, "BRIDGE_BOOTSTRAP_SERVERS", 1),
    ("GET", "/ui/subjects", {}, 3, 'scope="row"', SHOWN),
    ("GET", "/ui/subjects?from=50", {}, 3, 'scope="row"', SHOWN),
    ("GET", "/ui/subjects?deleted=1", {}, 3, 'scope="row"', SHOWN),
    ("GET", "/ui/subjects?by=id&q=1", {}, 3, 'scope="row"', SHOWN),
    ("GET", "/ui/subjects?by=column&q=c5", {}, 3, 'scope="row"', 22),
    ("GET", "/ui/subjects/many", {}, 7, 'scope="row"', SHOWN),
    ("GET", "/ui/subjects/many/versions/7", {}, 7, "s6-value version", 1),
    ("GET", "/ui/subjects/many/diff", {}, 3, "<mark>", 1),
    ("GET", "/ui/subjects/many/delete", {}, 2, "many", 1),
    ("POST", "/ui/subjects/many/check", {"schema": '"int"', "kind": "AVRO"}, 8, 'role="status"', 1),
    ("GET", "/ui/tables?changefeed=a", {}, 3, 'scope="row"', SHOWN),
    ("GET", "/ui/tables?changefeed=a&q=T5", {}, 3, 'scope="row"', 11),
    ("GET", "/ui/tables/d/t0?changefeed=a", {}, 3, "<li>", SHOWN),
    ("GET", f"/ui/tables/d/t0?changefeed=a&when={9 * STEP}", {}, 3, "c7", 1),
    ("GET", f"/ui/tables/diff?changefeed=a&from=1&to={99 * STEP}", {}, 2, "<h2>", SHOWN),
    ("GET", f"/ui/tables/diff?changefeed=a&db=d&table=t0&from=1&to={99 * STEP}", {}, 3, "<option", SHOWN),
    ("GET", "/ui/dry-run", {}, 1, 'name="changefeed"', 2),
    ("POST", "/ui/dry-run", {"db": "d", "sql": "DROP TABLE t1"}, 3, 'href="#feed-', 2),
    ("POST", "/ui/dry-run", {"db": "d", "sql": "DROP TABLE t1", "changefeed": "a"}, 2, 'role="status"', 1),
    ("POST", "/ui/dry-run", {"db": "d", "sql": "ALTER TABLE t2 ADD d DATE; ALTER TABLE t2 DROP x; SELECT 1",
                             "changefeed": "a", "sink_uri": "kafka://k/t?protocol=avro", "ticdc_version": "v8.5.0",
                             "schema_registry": "http://r:8081"}, 2, 'data-label="Why"', 3),
    ("GET", "/ui/lineage", {}, 2, 'scope="row"', ROWS),
    ("GET", "/ui/lake/d/lake", {}, 4, 'scope="row"', 1),
    ("GET", "/ui/explain", {}, 0, "<form", 1),
])  # fmt: skip
def test_calls_of_a_page_do_not_grow_with_its_rows(
    pages: CountedPages, method: str, path: str, form: dict[str, str], most: int, mark: str, rows: int
) -> None:
    shown = pages.send(method, path, urlencode(form).encode() if form else None)
    assert len(pages.asked) <= most, pages.asked
    assert shown.count(mark) >= rows, (shown.count(mark), shown)
