"""Rows beside the history: which version each is counted for, and who is told that rows contradict a version."""

import json
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any, NamedTuple

from tests.support.access import InProcess
from tests.support.each import each
from tests.support.history_events import T0, ddl, framed, resolved, write
from ticdc_bridge.schemas.model.event import Message
from ticdc_bridge.service.changefeed.reader import read
from ticdc_bridge.service.changefeed.settings import ChangefeedSettings
from ticdc_bridge.service.server.app import create_app
from ticdc_bridge.service.server.settings import Settings
from ticdc_bridge.service.store import open_store
from ticdc_bridge.service.store.history_store import HistoryStore
from ticdc_bridge.service.tracker.config import TrackedChangefeed
from ticdc_bridge.service.tracker.progress import Progress
from ticdc_bridge.service.tracker.tracker import tracker_of

CREATE = "CREATE TABLE orders (id INT PRIMARY KEY, v VARCHAR(20))"
_COLUMNS = {"id": {"t": 3, "h": True, "f": 11, "v": 1}, "v": {"t": 15, "f": 64, "v": "a"}}
NOTE = {"note": {"t": 15, "f": 64, "v": "b"}}


def row(ts: int, more: dict[str, Any] | None = None) -> Message:
    """An insert into shop.orders, in Open Protocol."""
    value = json.dumps({"u": {**_COLUMNS, **(more or {})}}).encode()
    return Message(*framed({"ts": T0 + ts, "scm": "shop", "tbl": "orders", "t": 1}, value))


def alter(ts: int, query: str, table: str = "orders") -> Message:
    return ddl(T0 + ts, "shop", table, query)


def tracked(
    path: Path, messages: list[Message], *, most: int = 1000, settings: ChangefeedSettings | None = None
) -> Progress:
    with closing(open_store(f"sqlite:///{path / 'x.db'}")) as store:
        history = HistoryStore(store)
        feed = TrackedChangefeed("shop", (), write(path / "messages.jsonl", messages), settings=settings)
        tracker = tracker_of(feed, history, store, most=most)
        tracker.run()
    return tracker.progress


@contextmanager
def serving(path: Path) -> Iterator[InProcess]:
    app = create_app(Settings(store=f"sqlite:///{path / 'x.db'}"))
    with closing(app.state.services.registry.store), closing(InProcess(app)) as client:
        yield client


def get(client: InProcess, path: str) -> Any:
    return json.loads(client.send("GET", path).body)


class Counted(NamedTuple):
    """rows: their commit_ts. ddl: commit_ts → statement. fitting: version's commit_ts → rows."""

    name: str
    rows: list[int]
    ddl: dict[int, str]
    fitting: dict[int, int]


COUNTED = [
    Counted("a comment between", [20, 30, 50, 60, 70], {40: "ALTER TABLE orders COMMENT = 'x'"}, {10: 2, 40: 3}),
    Counted("three versions of one form", [20, 50, 55, 80], {
        40: "ALTER TABLE orders COMMENT = 'x'", 60: "ALTER TABLE orders COMMENT = 'y'",
        70: "ALTER TABLE orders ADD INDEX i (v)"}, {10: 1, 40: 2, 60: 0, 70: 1}),
    Counted("a row at the very commit_ts has the table from before", [40, 41], {40: "ALTER TABLE orders COMMENT = 'x'"},
            {10: 1, 40: 1}),
    Counted("rows of one transaction", [50, 50, 50, 20], {40: "ALTER TABLE orders COMMENT = 'x'"}, {10: 1, 40: 3}),
    Counted("rows out of order", [70, 20, 60, 30], {40: "ALTER TABLE orders COMMENT = 'x'"}, {10: 2, 40: 2}),
    Counted("rows before the table is known are of no version", [5, 20], {}, {10: 1}),
    Counted("a column comes and goes", [20, 80], {
        40: "ALTER TABLE orders ADD COLUMN w INT", 60: "ALTER TABLE orders DROP COLUMN w"}, {10: 1, 40: 0, 60: 1}),
    Counted("a rename away and back", [20, 80], {
        40: "RENAME TABLE orders TO o2", 60: "RENAME TABLE o2 TO orders"}, {10: 1, 40: 0, 60: 1}),
]  # fmt: skip


@each("case", COUNTED, ids=lambda case: case.name)
def test_each_row_is_counted_for_the_version_that_it_has(tmp_path: Path, case: Counted) -> None:
    for most in (1, 1000):  # message by message, and all at once
        path = tmp_path / f"{COUNTED.index(case)}-{most}"
        path.mkdir()
        statements = [alter(10, CREATE), *(alter(ts, query) for ts, query in case.ddl.items())]
        tracked(path, [*statements, *map(row, case.rows), resolved(T0 + 100)], most=most)
        with serving(path) as client:
            versions = get(client, "/history/shop/orders/versions")["versions"]
        assert {version["commit_ts"] - T0: version["rows_fitting"] for version in versions} == case.fitting


def test_before_a_watermark_nothing_is_judged(tmp_path: Path) -> None:
    """DDL that is not sealed can still say what a row is."""
    progress = tracked(tmp_path, [alter(10, CREATE), row(20), row(30, NOTE)])
    assert (progress.drift, progress.skipped) == (0, {"row after the last watermark": 2})
    half = tmp_path / "half"
    half.mkdir()
    progress = tracked(half, [alter(10, CREATE), row(20), resolved(T0 + 25), row(30, NOTE)])
    assert (progress.drift, progress.skipped) == (0, {"row after the last watermark": 1})


def test_what_column_selectors_leave_out_is_no_drift(tmp_path: Path) -> None:
    """A column that they keep, and rows lack, is."""
    create = "CREATE TABLE orders (id INT PRIMARY KEY, v VARCHAR(20), secret INT)"
    for columns, drift in (('["*", "!secret"]', 0), ('["*"]', 1), ('["secret", "id", "v"]', 1)):
        path = tmp_path / str(len(columns))
        path.mkdir()
        config = f'[[sink.column-selectors]]\nmatcher = ["shop.*"]\ncolumns = {columns}'
        settings = read("kafka://k:9092/t?protocol=open-protocol", config)
        seen = tracked(path, [alter(10, create), row(20), resolved(T0 + 100)], settings=settings)
        assert seen.drift == drift, columns


def test_a_lost_alter_is_reported_to_whoever_asks_for_the_version(tmp_path: Path) -> None:
    seen = tracked(tmp_path, [alter(10, CREATE), row(20), row(50, NOTE), row(60, NOTE), resolved(T0 + 100)])
    assert seen.drift == 1
    question = {"db": "shop", "sql": "ALTER TABLE orders ADD COLUMN x INT NULL",
                "changefeed": {"sink_uri": "kafka://k:9092/t?protocol=avro"}}  # fmt: skip

    def dry_run(client: InProcess) -> str:
        report = json.loads(client.send("POST", "/history/dry-run", question).body)
        return f"{report['verdict']}: {report['reason']}"

    with serving(tmp_path) as client:
        at = get(client, f"/history/shop/orders/at/{T0 + 60}")
        assert (at["state"], at["contradicted"]["since"], at["contradicted"]["count"]) == ("KNOWN", T0 + 50, 2)
        assert at["contradicted"]["detail"] == "rows with note"
        assert "snapshot" in at["contradicted"]["what_to_do"]
        assert get(client, "/history/tables")["tables"][0]["contradicted"]["count"] == 2
        assert get(client, "/history/shop/orders/versions")["versions"][0]["contradicted"]["kinds"] == ["columns"]
        assert dry_run(client).startswith(
            "cannot judge: Table shop.orders is not fully known: 2 rows or messages since"
        )
        for page in ("/ui/tables/shop/orders", f"/ui/tables/shop/orders?when={T0 + 60}"):
            assert f"since commit_ts {T0 + 50}".encode() in client.send("GET", page).body, page
        snapshot = {"commit_ts": T0 + 45, "db": "shop",
                    "query": "CREATE TABLE orders (id INT PRIMARY KEY, v VARCHAR(20), note VARCHAR(9))"}  # fmt: skip
        assert client.send("POST", "/history/snapshot", snapshot).status == 200
        assert get(client, f"/history/shop/orders/at/{T0 + 60}")["contradicted"] is None
        assert get(client, f"/history/shop/orders/at/{T0 + 30}")["contradicted"] is None
        assert all(
            version["contradicted"] is None for version in get(client, "/history/shop/orders/versions")["versions"]
        )
        assert "contradicted" not in get(client, "/history/tables")["tables"][0]
        assert dry_run(client).startswith("safe:")
