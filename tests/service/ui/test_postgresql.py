"""Pages on PostgreSQL: the same as on SQLite, with messages and dead letters from a real broker."""

from __future__ import annotations

import re

import pytest

from tests.service.ui.conftest import fill, tell
from tests.service.ui.test_topics import Browser, send
from tests.support.history_events import T0, ddl
from tests.support.kafka import Kafka
from tests.support.postgres import Postgres
from tests.support.service import Client
from ticdc_bridge.schemas.inputs.dead_letters import dead_letter_of
from ticdc_bridge.schemas.model.event import Message
from ticdc_bridge.service.testing import running_service

_TIMES = re.compile(r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d(:\d\d(\.\d+)?)?|\b\d+(\.\d+)? (?:m?s|seconds?)\b")


@pytest.mark.slow
def test_pages_are_those_on_sqlite(kafka: Kafka, postgres: Postgres) -> None:
    topic, dead = (kafka.create_topic(kafka.topic_name(name)) for name in ("shown", "dead"))
    one = ddl(T0, "d", "t", "CREATE TABLE `d`.`t` (`a` INT)")
    letter = dead_letter_of("MALFORMED", "cut off", Message(b"k", b"v", topic, 0, 0))
    send(kafka, [Message(one.key, one.value, topic, 0), Message(b"k", b"no message", topic, 0)])
    send(kafka, [Message(letter.key, letter.value, dead, 0, headers=letter.headers)])
    pages = {
        "/ui": f'href="/ui/dead-letters/{dead}"',
        f"/ui/topics?q={topic}": f'href="/ui/topics/{topic}"',
        f"/ui/topics/{topic}": "UNKNOWN_FORMAT",
        "/ui/dead-letters": dead,
        f"/ui/dead-letters/{dead}": "cut off",
        "/ui/lineage": "shop-to-lake",
        "/ui/tables": "bills",
        "/ui/tables/shop/orders": "paid",
        "/ui/tables/diff?from=26214400&to=78643200": "paid",
        "/ui/subjects": "tidb_shop_orders-value",
        "/ui/subjects/tidb_shop_orders-value": "AVRO",
    }
    shown: list[dict[str, str]] = []
    for store in (None, postgres.database()):
        with running_service(store, bootstrap_servers=kafka.bootstrap_servers) as url:
            fill(Client(url))
            tell(Client(url))
            browser = Browser(url)
            answers = {path: browser.get(path) for path in pages}
            plan = browser.post(f"/ui/dead-letters/{dead}/replay", ("reason", "MALFORMED"))
            checked = browser.post("/ui/dry-run", ("db", "shop"), ("sql", "ALTER TABLE bills DROP COLUMN note"))
        assert {status for status, _ in (*answers.values(), plan, checked)} == {200}
        assert [path for path, text in pages.items() if text not in answers[path][1]] == []
        texts = {path: page for path, (_, page) in answers.items()} | {"replay": plan[1], "dry run": checked[1]}
        shown.append({path: _TIMES.sub("TIME", page).replace(url, "URL") for path, page in texts.items()})
    on_sqlite, on_postgresql = shown
    assert [path for path, page in on_sqlite.items() if page != on_postgresql[path]] == []
