"""The explain page fetches a message from a real broker: just that one, for those who may see histories."""

from __future__ import annotations

import http.client
from pathlib import Path
from urllib.parse import urlencode, urlsplit

import pytest
from confluent_kafka import Producer

from service.kafka_client import FetchError, fetch, place_of
from service.testing import running_service
from tests.support.access import ADMIN, bearer, files, rule
from tests.support.history_events import T0, ddl
from tests.support.kafka import Kafka
from tests.support.table import check_rows


def explained(url: str, place: str, user: str | None = None) -> tuple[int, str]:
    connection = http.client.HTTPConnection(urlsplit(url).netloc, timeout=60)
    headers = {"Content-Type": "application/x-www-form-urlencoded"}
    if user is not None:
        headers["Authorization"] = bearer(user)
    try:
        connection.request("POST", "/ui/explain", urlencode({"place": place}), headers)
        answer = connection.getresponse()
        return answer.status, answer.read().decode()
    finally:
        connection.close()


@pytest.fixture(scope="module")
def topic(kafka: Kafka) -> str:
    """Two partitions, three statements in the second one."""
    name = kafka.create_topic(kafka.topic_name("explained"), partitions=2)
    producer = Producer({"bootstrap.servers": kafka.bootstrap_servers})
    for number in range(3):
        one = ddl(T0 + number, "d", f"t{number}", f"CREATE TABLE `d`.`t{number}` (`a` INT)")
        producer.produce(name, one.value, one.key, partition=1)
    assert producer.flush(60) == 0
    return name


def test_the_message_that_was_named(kafka: Kafka, topic: str) -> None:
    message = fetch(kafka.bootstrap_servers, f"{topic}@1:2")
    assert (message.topic, message.partition, message.offset) == (topic, 1, 2)
    with running_service(bootstrap_servers=kafka.bootstrap_servers) as url:
        for number in range(3):
            status, page = explained(url, f" {topic}@1:{number} ")
            assert status == 200
            assert f"CREATE TABLE `d`.`t{number}` (`a` INT)" in page
            assert str(T0 + number) in page
        for place, said in (
            (f"{topic}@1:3", "has no message 3; it has those from 0 to before 3"),
            (f"{topic}@0:0", "has no message 0"),
            (f"{topic}@2:0", "has no partition 2; it has 2"),
            ("no-such-topic@0:0", "Topic no-such-topic"),
            ("<b>", "is no message&#39;s place"),
        ):
            status, page = explained(url, place)
            assert status == 400
            assert said in page
        assert "no-such-topic" not in kafka.admin.list_topics(timeout=30).topics


def test_for_those_who_may_see_histories(kafka: Kafka, topic: str, tmp_path: Path) -> None:
    rules = ADMIN + rule(["u"], ["history"]) + rule(["ticdc"], ["read", "write"], subjects=["*"])
    settings = files(tmp_path, rules)
    with running_service(bootstrap_servers=kafka.bootstrap_servers, **settings) as url:
        answers = {user: explained(url, f"{topic}@1:0", user) for user in ("root", "u", "ticdc", None)}
    assert {user: status for user, (status, _) in answers.items()} == {"root": 200, "u": 200, "ticdc": 403, None: 401}
    assert {user for user, (_, page) in answers.items() if "CREATE TABLE" in page} == {"root", "u"}


def test_only_when_configured() -> None:
    with running_service() as url:
        status, page = explained(url, "t@0:0")
    assert status == 400
    assert "no --bootstrap-servers" in page
    assert 'name="place"' not in page


def test_settings_of_the_client(kafka: Kafka, topic: str, tmp_path: Path) -> None:
    """A properties file alone names the broker; a file that is not there is said to be missing."""
    file = tmp_path / "client.properties"
    file.write_text(f"# ours\nbootstrap.servers={kafka.bootstrap_servers}\nclient.id=page\ngroup.id=ignored\n")
    with running_service(kafka_config=str(file)) as url:
        status, page = explained(url, f"{topic}@1:1")
        assert status == 200
        assert "CREATE TABLE `d`.`t1` (`a` INT)" in page
        file.write_text(f"bootstrap.servers={kafka.bootstrap_servers}\nno.such.setting=1\n")
        status, page = explained(url, f"{topic}@1:1")
        assert status == 400
        assert "no.such.setting" in page
        file.unlink()
        assert explained(url, f"{topic}@1:1")[0] == 400


def test_no_broker() -> None:
    with pytest.raises(FetchError, match=r"Kafka at 127\.0\.0\.1:1: "):
        fetch("127.0.0.1:1", "t@0:0", seconds=0.5)


WHAT_IS_NO_PLACE: list[str] = ["", "t", "t@0", "t:0", "t@-1:0", "t@0:-1", "a/b@0:0", "t@2147483648:0", "t@0:1:2"]


def test_what_is_no_place() -> None:
    def check(text: str) -> None:
        with pytest.raises(FetchError, match="write TOPIC@PARTITION:OFFSET"):
            place_of(text)

    check_rows(WHAT_IS_NO_PLACE, check)
