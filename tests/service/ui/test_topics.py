"""Pages of topics and dead letters, with a real broker: messages decoded or why not, letters sent again once asked."""

import html
import json
import re
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlencode

import pytest
from confluent_kafka import Producer
from playwright.sync_api import Browser as Chromium

from tests.service.ui.test_layout import unnamed
from tests.support.access import ADMIN, bearer, files, rule
from tests.support.each import each
from tests.support.history_events import T0, ddl, framed
from tests.support.kafka import Kafka
from tests.support.service import Client
from ticdc_bridge.schemas.inputs.dead_letters import ATTEMPT, ORIGIN, dead_letter_of
from ticdc_bridge.schemas.model.event import Message
from ticdc_bridge.service.api.kafka_topics import KafkaTopics
from ticdc_bridge.service.testing import running_service

EVIL = '<script>alert("x")</script>'


class Browser:
    """Pages as one user sees them."""

    def __init__(self, url: str, user: str | None = None, headers: dict[str, str] | None = None) -> None:
        self._client = Client(url)
        self._headers = {**({"Authorization": bearer(user)} if user else {}), **(headers or {})}

    def get(self, path: str) -> tuple[int, str]:
        return self._ask("GET", path, None)

    def post(self, path: str, *fields: tuple[str, str]) -> tuple[int, str]:
        """The page that the form leads to, also by a redirect."""
        return self._ask("POST", path, urlencode(fields))

    def _ask(self, method: str, path: str, body: str | None) -> tuple[int, str]:
        kind = {} if body is None else {"Content-Type": "application/x-www-form-urlencoded"}
        answer = self._client.send(method, path, None if body is None else body.encode(), {**self._headers, **kind})
        return self.get(answer.headers["location"]) if answer.status == 303 else (answer.status, answer.body.decode())


def send(kafka: Kafka, messages: list[Message]) -> None:
    producer = Producer({"bootstrap.servers": kafka.bootstrap_servers})
    for message in messages:
        assert message.topic is not None
        of, time_ = {"partition": message.partition or 0, "headers": list(message.headers)}, message.timestamp or 0
        producer.produce(message.topic, message.value, message.key, timestamp=time_, **of)  # type: ignore[arg-type]
    assert producer.flush(60) == 0


@pytest.fixture(scope="module")
def topic(kafka: Kafka) -> str:
    """Two partitions, three statements in the second one, then what no format reads, of a later time."""
    name = kafka.create_topic(kafka.topic_name("explained"), partitions=2)
    messages = []
    for number in range(3):
        entry = ddl(T0 + number, "d", f"t{number}", f"CREATE TABLE `d`.`t{number}` (`a` INT)")
        messages.append(Message(entry.key, entry.value, name, 1, timestamp=1_700_000_000_000 + number))
    send(kafka, [*messages, Message(b"k", EVIL.encode(), name, 0, timestamp=1_700_000_001_000)])
    return name


@pytest.fixture(scope="module")
def url(kafka: Kafka) -> Iterator[str]:
    with running_service(bootstrap_servers=kafka.bootstrap_servers) as url:
        yield url


def test_a_topic_of_dead_letters_that_a_job_reported(kafka: Kafka, url: str) -> None:
    """Whatever its name."""
    topic = kafka.create_topic(kafka.topic_name("leftovers"))
    assert f"/ui/dead-letters/{topic}" not in Browser(url).get("/ui/dead-letters")[1]
    run = dict.fromkeys(("job", "command", "from", "to", "source", "target"), "x")
    edge = {"topic": None, "db": "", "table": "", "rows": 0}
    reported = {**run, "failed": 1, "dead_letter": f"kafka:{topic}", "tables": [edge]}
    assert Client(url).send("POST", "/lineage", reported).status == 200
    assert f"/ui/dead-letters/{topic}" in Browser(url).get("/ui/dead-letters")[1]


def test_the_last_messages_of_a_topic(url: str, topic: str) -> None:
    browser = Browser(url)
    status, listed = browser.get(f"/ui/topics?q={topic.upper()}")
    assert (status, f'href="/ui/topics/{topic}"' in listed) == (200, True)
    shown = browser.get(f"/ui/topics/{topic}")[1]
    assert re.findall(r'explain\?place=[^"]*%40(\d)%3A(\d)', shown) == [("0", "0"), ("1", "2"), ("1", "1"), ("1", "0")]
    assert ("UNKNOWN_FORMAT" in shown, EVIL in shown, html.escape(EVIL, quote=False) in shown) == (True, False, False)
    assert "CREATE TABLE `d`.`t2` (`a` INT)" in shown
    last = browser.get(f"/ui/topics/{topic}?last=2&partition=1")[1]
    assert re.findall(r'explain\?place=[^"]*%40(\d)%3A(\d)', last) == [("1", "2"), ("1", "1")]
    wrong = {"no-such-topic": (404, "there is no such topic"), "%3Cb%3E": (404, "a topic&#39;s name"),
             f"{topic}?partition=7": (404, "has no partition 7"), f"{topic}?format=yaml": (422, "is not known"),
             f"{topic}?changefeed=nope": (404, "nope")}  # fmt: skip
    for path, (code, said) in wrong.items():
        status, shown = browser.get(f"/ui/topics/{path}")
        assert (status, said in shown, "<b>" in shown) == (code, True, False), path


def test_the_message_that_was_named(url: str, kafka: Kafka, topic: str) -> None:
    browser = Browser(url)
    for number in range(3):
        status, page = browser.post("/ui/explain", ("place", f" {topic}@1:{number} "))
        assert status == 200
        assert f"CREATE TABLE `d`.`t{number}` (`a` INT)" in page
        assert str(T0 + number) in page
    for position, said in (
        (f"{topic}@1:3", "has no message 3; it has those from 0 to before 3"),
        (f"{topic}@0:7", "has no message 7"),
        (f"{topic}@2:0", "has no partition 2; it has 2"),
        ("no-such-topic@0:0", "Topic no-such-topic"),
        ("<b>", "is not a message&#39;s place"),
    ):
        status, page = browser.post("/ui/explain", ("place", position))
        assert status == 400
        assert said in page
    assert "no-such-topic" not in kafka.admin.list_topics(timeout=30).topics


def test_a_message_without_a_time(url: str, kafka: Kafka) -> None:
    """Kafka has -1 for it, which a message file can't."""
    name = kafka.create_topic(kafka.topic_name("timeless"))
    entry = ddl(T0, "d", "t", "CREATE TABLE `d`.`t` (`a` INT)")
    send(kafka, [Message(entry.key, entry.value, name, timestamp=-1)])
    status, page = Browser(url).post("/ui/explain", ("place", f"{name}@0:0"))
    assert (status, "CREATE TABLE `d`.`t` (`a` INT)" in page) == (200, True)


def test_links_explain_at_once_and_fill_in_the_place_and_the_format_alone(url: str, topic: str) -> None:
    others = dict.fromkeys(("key", "value", "topic", "zone", "context"), "zq7")
    for place, status, said in ((f"{topic}@1:0", 200, "CREATE TABLE `d`.`t0`"), ("t@0:7", 400, "Topic t: ")):
        code, page = Browser(url).get(f"/ui/explain?{urlencode({'place': place, 'format': 'open', **others})}")
        assert (code, f'value="{place}"' in page, "<option selected>open" in page) == (status, True, True)
        assert (said in page, "zq7" in page) == (True, False)


def places(page: str) -> list[str]:
    return [f"{partition}:{offset}" for partition, offset in re.findall(r'explain\?place=[^"]*%40(\d)%3A(\d+)', page)]


def linked(page: str, text: str) -> str | None:
    """The query of a link of the topic's page."""
    found = re.search(rf'href="/ui/topics/[^"?]*\?([^"]*)">{text}</a>', page)
    return html.unescape(found[1]) if found else None


def test_a_topic_page_by_page(url: str, topic: str) -> None:
    """Backwards from the newest message, from an offset, before a time, and by key; no message twice, none left out."""
    browser, path = Browser(url), f"/ui/topics/{topic}"
    pages, query = [], "last=1"
    while query:
        page = browser.get(f"{path}?{query}")[1]
        pages += places(page)
        query = linked(page, "Older") or ""
    assert pages == ["0:0", "1:2", "1:1", "1:0"]
    page = browser.get(f"{path}?partition=1&offset=1&last=1")[1]
    assert places(page) == ["1:1"]
    assert places(browser.get(f"{path}?{linked(page, 'Newer')}")[1]) == ["1:2"]
    assert places(browser.get(f"{path}?{linked(page, 'Older')}")[1]) == ["1:0"]
    assert places(browser.get(f"{path}?time=2023-11-14T22:13:20.001Z")[1]) == ["1:0"]
    assert places(browser.get(f"{path}?key=k&last=1")[1]) == ["0:0"]
    assert "No message has this key." in browser.get(f"{path}?key=nobody")[1]
    for query in ("before=x", "before=0:-1", "time=yesterday"):
        assert browser.get(f"{path}?{query}")[0] == 422, query


def test_key_value_and_headers_are_in_the_list(url: str, kafka: Kafka) -> None:
    name, table = kafka.create_topic(kafka.topic_name("listed")), {"ts": T0, "scm": "d", "tbl": "t", "t": 1}
    columns: dict[str, dict[str, object]] = {
        "id": {"t": 3, "h": True, "f": 11, "v": 41},
        "name": {"t": 15, "f": 64, "v": EVIL},
    }
    row = Message(*framed(table, json.dumps({"u": columns}).encode()), name, headers=(("traced", EVIL.encode()),))
    other = Message(*framed(table, json.dumps({"u": {**columns, "id": {**columns["id"], "v": 4}}}).encode()), name)
    send(kafka, [row, other])
    page = Browser(url).get(f"/ui/topics/{name}?key=41&format=open")[1]
    assert (places(page), EVIL in page, page.count("&lt;script&gt;")) == (["0:0"], False, 2)
    assert ("<b>id</b>=41" in page, "traced" in page) == (True, True)


def test_a_lake_table_is_up_to_date_when_its_topic_is_read(url: str, topic: str) -> None:
    client, path = Client(url), "/ui/lake/shop/lake"
    head = {"job": "m", "command": "merge", "from": "open", "to": "plain", "source": f"kafka:{topic}", "target": "x"}
    rows = {"topic": topic, "db": "shop", "table": "lake", "rows": 4}
    for read, more, said in (
        (None, {}, "Up to date? Not known."),
        ({"0": 1}, {}, "Up to date? Not known."),
        ({"0": 1, "1": 2}, {}, "Up to date? Not yet."),
        ({"0": 1, "1": 3}, {}, "Up to date? Yes."),
        ({"0": 1, "1": 3}, {"failed": 2, "errors": {"LOSSY_VALUE": 2}}, "LOSSY_VALUE 2"),
        ({"0": 1, "1": 3}, {"stopped": "STOPPED: <b>"}, "was stopped by an error: STOPPED: &lt;b&gt;"),
    ):
        beside = {"topic": topic, "db": "", "table": "", "rows": 0, "positions": read}
        assert client.send("POST", "/lineage", {**head, **more, "tables": [rows, beside]}).status == 200
        assert said in client.get(path).body.decode(), said
    assert client.get("/ui/lake/shop/nope").status == 404


def test_for_those_who_may_see_messages(kafka: Kafka, topic: str, tmp_path: Path) -> None:
    rules = ADMIN + rule(["u"], ["messages"]) + rule(["ticdc"], ["history", "metrics"])
    statuses = {"root": 200, "u": 200, "ticdc": 403, None: 401}
    with running_service(bootstrap_servers=kafka.bootstrap_servers, **files(tmp_path, rules)) as url:
        for user, status in statuses.items():
            browser = Browser(url, user)
            for code, page in (
                browser.post("/ui/explain", ("place", f"{topic}@1:0")), browser.get(f"/ui/topics/{topic}"),
            ):  # fmt: skip
                assert (code, "CREATE TABLE" in page) == (status, status == 200), user
            for path in ("/ui/topics", "/ui/dead-letters", f"/ui/dead-letters/{topic}"):
                assert browser.get(path)[0] == status


def letters(origin: str, count: int, reason: str) -> list[Message]:
    failed = (Message(b"k%d" % n, b"v%d" % n, origin, n % 2, n, headers=(("h", None),)) for n in range(count))
    return [dead_letter_of(reason, f"{EVIL} {entry.offset}", entry) for entry in failed]


def test_dead_letters_are_sent_again_once_confirmed(url: str, kafka: Kafka) -> None:
    origin = kafka.create_topic(kafka.topic_name("origin"), partitions=2)
    dead = kafka.create_topic(kafka.topic_name("dead"), partitions=2)
    nowhere = dead_letter_of("MALFORMED", "", Message(b"k", b"v"))
    gone = dead_letter_of("TRUNCATED", "", Message(b"k", b"v", "gone-topic", 0, 0))
    every = [*letters(origin, 4, "UNKNOWN_SCHEMA_ID"), nowhere, gone, Message(b"k", b"no letter")]
    send(kafka, [Message(entry.key, entry.value, dead, n % 2, headers=entry.headers) for n, entry in enumerate(every)])
    browser, path = Browser(url), f"/ui/dead-letters/{dead}"
    assert dead in browser.get("/ui/dead-letters")[1]
    assert "bridge.reason" in browser.get(f"/ui/topics/{dead}")[1]
    shown = browser.get(path)[1]
    counts = re.findall(r'name="reason" value="(\w+)"[^|]*?data-label="Letters" class="number">(\d+)<', shown)
    assert dict(counts) == {"UNKNOWN_SCHEMA_ID": "4", "MALFORMED": "1", "TRUNCATED": "1"}
    assert (EVIL in shown, "1 of them is not a dead letter" in shown) == (False, True)
    ends = ("ends", html.unescape(next(re.finditer(r'name="ends" value="([^"]*)"', shown))[1]))
    # What comes later is not what was asked about.
    send(
        kafka,
        [
            Message(letter.key, letter.value, dead, 0, headers=letter.headers)
            for letter in letters(origin, 1, "MALFORMED")
        ],
    )
    chosen = [("reason", "UNKNOWN_SCHEMA_ID"), ("reason", "MALFORMED"), ends]
    plan = browser.post(f"{path}/replay", *chosen, ("max_attempts", "3"))[1]
    assert ("Send 4 messages" in plan, "the topic that it came from is not known" in plan) == (True, True)
    topics = KafkaTopics(kafka.bootstrap_servers, "")
    assert topics.last_messages(origin, 10).messages == []
    status, done = browser.post(f"{path}/replay", *chosen, ("confirmed", "1"))
    assert (status, "4 messages sent." in done) == (200, True)
    sent = topics.last_messages(origin, 10).messages
    assert [(entry.key, entry.value, entry.partition) for entry in sent] == [
        (b"k0", b"v0", 0), (b"k2", b"v2", 0), (b"k1", b"v1", 1), (b"k3", b"v3", 1),
    ]  # fmt: skip
    assert [dict(entry.headers) for entry in sent[:1]] == [{"h": None, ORIGIN: f"{origin}/0/0".encode(), ATTEMPT: b"1"}]
    status, refused = browser.post(f"{path}/replay", ("reason", "TRUNCATED"), ("confirmed", "1"))
    assert (status, "gone-topic" in refused, "Nothing was sent" in refused) == (422, True, True)
    for fields, said in ((ends, "at least one reason"), (("reason", "x"), "number from 1 on")):
        status, page = browser.post(f"{path}/replay", fields, ("max_attempts", "0"))
        assert (status, said in page) == (400, True)
    foreign = Browser(url, headers={"Sec-Fetch-Site": "cross-site"})
    assert foreign.post(f"{path}/replay", *chosen, ("confirmed", "1"))[0] == 400
    assert len(topics.last_messages(origin, 10).messages) == 4


def test_only_when_configured() -> None:
    with running_service() as url:
        browser = Browser(url)
        status, page = browser.post("/ui/explain", ("place", "t@0:0"))
        assert (status, "no --bootstrap-servers" in page, 'name="place"' in page) == (400, True, False)


def test_kafka_that_is_away_is_said() -> None:
    with running_service(bootstrap_servers="127.0.0.1:1") as url:
        for path in ("/ui/topics", "/ui/topics/t", "/ui/dead-letters", "/ui/dead-letters/t"):
            status, page = Browser(url).get(path)
            assert (status, "Kafka at 127.0.0.1:1: it can&#39;t be reached" in page) == (503, True)


def test_settings_of_the_client(kafka: Kafka, topic: str, tmp_path: Path) -> None:
    """A properties file alone names the broker; a file that is not there is said to be missing."""
    file = tmp_path / "client.properties"
    file.write_text(f"# ours\nbootstrap.servers={kafka.bootstrap_servers}\nclient.id=page\ngroup.id=ignored\n")
    with running_service(kafka_config=str(file)) as url:
        position = ("place", f"{topic}@1:1")
        status, page = Browser(url).post("/ui/explain", position)
        assert status == 200
        assert "CREATE TABLE `d`.`t1` (`a` INT)" in page
        file.write_text(f"bootstrap.servers={kafka.bootstrap_servers}\nno.such.setting=1\n")
        status, page = Browser(url).post("/ui/explain", position)
        assert status == 400
        assert "no.such.setting" in page
        file.unlink()
        assert Browser(url).post("/ui/explain", position)[0] == 400


@each("text", ["t", "t@0", "t:0", "t@-1:0", "t@0:-1", "a/b@0:0", "t@0:1:2"])
def test_what_is_no_place(url: str, text: str) -> None:
    status, page = Browser(url).post("/ui/explain", ("place", text))
    assert (status, "write TOPIC@PARTITION:OFFSET" in page) == (400, True)


@pytest.mark.slow
def test_topics_on_narrow_and_wide_screens(browser: Chromium, url: str, kafka: Kafka, topic: str) -> None:
    """With long names nothing runs off the side, and letters are sent by the keyboard alone."""
    origin = kafka.create_topic(kafka.topic_name("origin" + "x" * 150), partitions=2)
    dead = kafka.create_topic(kafka.topic_name("dead" + "x" * 150))
    failed = letters(origin, 2, "MALFORMED")
    send(kafka, [Message(entry.key, entry.value, dead, 0, headers=entry.headers) for entry in failed])
    for width in (380, 1600):
        size = {"width": width, "height": 900}
        with browser.new_context(base_url=url, viewport=size) as context:  # type: ignore[arg-type]
            page = context.new_page()
            paths = ("/ui", "/ui/topics", f"/ui/topics/{topic}", "/ui/dead-letters", f"/ui/topics/{dead}")
            for path in (*paths, f"/ui/dead-letters/{dead}"):
                page.goto(path)
                assert page.evaluate("document.documentElement.scrollWidth") <= width, path
                assert not unnamed(page), path
            for name in ("Preview", "Send 2 messages"):
                page.get_by_role("button", name=name).focus()
                with page.expect_navigation():
                    page.keyboard.press("Enter")
                assert page.evaluate("document.documentElement.scrollWidth") <= width, name
            page.get_by_text("2 messages sent.").wait_for()
