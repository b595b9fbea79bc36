"""Every command in README.md and docs/ is run here as it stands, or says why not; see tests/docs/pages.py.

The addresses localhost:8081 and localhost:9092 become those of this test's service and broker. Commands of the service
and the jobs run in this process (tests/docs/shell.py), but for those that go on until Ctrl-C.
"""

from __future__ import annotations

import base64
import json
import os
import re
import signal
import subprocess
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote

import pytest
from confluent_kafka import Producer

from tests.docs.pages import ROOT, Block, DocPage, pages
from tests.docs.shell import SECONDS, ended, in_bash, run_here
from tests.support.kafka import Kafka
from tests.support.service import Client
from ticdc_bridge.service.testing import running_service

LINKED = ("service", "schemas", "spark_jobs", "ticdc_bridge", "tests", "benchmarks", "examples", "docs", "scripts",
          "requirements", ".venv", "Makefile", "pyproject.toml", "README.md", "Dockerfile", "compose.yaml")  # fmt: skip
SHOP = ROOT / "schemas" / "files"
ORDERS = b"\0\0\0\0\3"  # how the keys of shop.orders begin: schema id 3


@dataclass
class Place:
    """Where a page's commands run. replaced: texts of the page and what stands for them here."""

    folder: Path
    stack: ExitStack
    replaced: dict[str, str]
    broker: Callable[[], Kafka]
    database: Callable[[], str]  # the URL of an empty one


def files(position: Place) -> None:
    """messages.jsonl, schemas.jsonl: TiCDC's messages of the shop, and their schemas."""
    for name in ("messages", "schemas"):
        (position.folder / f"{name}.jsonl").write_bytes((SHOP / f"shop.{name}.jsonl").read_bytes())


def service(position: Place) -> None:
    """A service at localhost:8081 that has the shop's schemas under the ids of its messages."""
    url = position.stack.enter_context(running_service(f"sqlite:///{position.folder / 'running.db'}"))
    fill(Client(url))
    position.replaced |= {"localhost:8081": url.removeprefix("http://"), "127.0.0.1:8081": url.removeprefix("http://")}


def fill(client: Client) -> None:
    for line in (SHOP / "shop.schemas.jsonl").read_text(encoding="utf-8").splitlines():
        entry = json.loads(line)
        answer = client.send(
            "POST", f"/subjects/{quote(entry['subject'], safe='')}/versions", {"schema": entry["schema"]}
        )
        assert answer.json["id"] == entry["id"]


def kafka(position: Place) -> None:
    """A broker at localhost:9092 with the messages of the shop in the topic tidb_shop_orders."""
    broker = position.broker()
    position.replaced["localhost:9092"] = broker.bootstrap_servers
    position.replaced["tidb_shop_orders"] = topic = broker.create_topic()
    producer = Producer({"bootstrap.servers": broker.bootstrap_servers, "linger.ms": 5})
    for line in (SHOP / "shop.messages.jsonl").read_text(encoding="utf-8").splitlines():
        entry = json.loads(line)
        key, value = (entry[name] and base64.b64decode(entry[name]) for name in ("key_b64", "value_b64"))
        if key.startswith(ORDERS):
            producer.produce(topic, key=key, value=value)
    assert producer.flush(60) == 0


def old(position: Place) -> None:
    """A registry at old:8081 that has the shop's schemas, and the same as a topic `_schemas`."""
    store = f"sqlite:///{position.folder / 'old.db'}"
    url = position.stack.enter_context(running_service(store))
    fill(Client(url))
    broker = position.broker()
    topic = broker.create_topic(partitions=1)
    exported = Block(0, f"python -m service export {url} kafka:{topic} --bootstrap-servers {broker.bootstrap_servers}")
    run(exported, position, DocPage(ROOT))
    position.replaced |= {"old:8081": url.removeprefix("http://"), "kafka:_schemas": f"kafka:{topic}"}
    position.replaced["localhost:9092"] = broker.bootstrap_servers


def postgres(position: Place) -> None:
    """A store at postgresql://registry@db/registry that has the shop's schemas."""
    url = position.database()
    with running_service(url) as served:
        fill(Client(served))
    position.replaced["postgresql://registry@db/registry"] = url


def tables(position: Place) -> None:
    """shop.ddl: how the table of the examples was made. changefeed.toml: a topic for each table."""
    orders = {"commit_ts": 1, "db": "shop", "query": "CREATE TABLE orders (id BIGINT PRIMARY KEY, price DECIMAL(12,2))"}
    (position.folder / "shop.ddl").write_text(json.dumps(orders) + "\n", encoding="utf-8")
    topics = "[sink]\ndispatchers = [{matcher = ['*.*'], topic = 'tidb_{schema}_{table}'}]\n"
    (position.folder / "changefeed.toml").write_text(topics, encoding="utf-8")


def access(position: Place) -> None:
    """acl.toml: the example of docs/registry.md."""
    text = (ROOT / "docs" / "registry.md").read_text(encoding="utf-8")
    example = re.search(r"```toml\n(\[roles\].*?)```", text, re.DOTALL)
    assert example
    (position.folder / "acl.toml").write_text(example[1], encoding="utf-8")


def jobs(position: Place) -> None:
    """open.jsonl, debezium.jsonl: the same rows in two formats, and their DDL; out.jsonl.dead.jsonl: a dead letter."""
    for format_, case in (("open", "wide.default"), ("debezium", "wide.ext.schema")):
        for suffix in (".jsonl", ".meta.json"):
            data = (ROOT / "tests" / "golden" / format_ / f"{case}{suffix}").read_bytes()
            (position.folder / f"{format_}{suffix}").write_bytes(data)
    reported = {"reason": "NOT_FRAMED", "detail": "no header", "origin": "shop/0/7", "attempt": "1"}
    headers = [[f"bridge.{name}", base64.b64encode(text.encode()).decode()] for name, text in reported.items()]
    dead = {"topic": "shop", "partition": 0, "offset": 7, "timestamp": 1_767_607_800_000, "key_b64": None,
            "value_b64": base64.b64encode(b"?").decode(), "headers": headers}  # fmt: skip
    (position.folder / "out.jsonl.dead.jsonl").write_text(json.dumps(dead) + "\n", encoding="utf-8")


NEEDS: dict[str, Callable[[Place], None]] = {
    "files": files, "service": service, "kafka": kafka, "old": old, "postgres": postgres, "tables": tables,
    "access": access, "jobs": jobs,
}  # fmt: skip


@pytest.fixture
def place(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Place]:
    for name in LINKED:
        if (ROOT / name).exists():
            (tmp_path / name).symlink_to(ROOT / name)
    with ExitStack() as stack:
        yield Place(
            tmp_path,
            stack,
            {},
            lambda: request.getfixturevalue("kafka"),
            lambda: request.getfixturevalue("postgres").database(),
        )


RUN = [
    pytest.param(page, marks=[pytest.mark.slow] if page.slow else [], id=str(page))
    for page in pages()
    if any(not block.not_run for block in page.blocks)
]


@pytest.mark.parametrize("page", RUN)
def test_commands_do_what_the_page_says(page: DocPage, place: Place) -> None:
    for need in page.needs:
        NEEDS[need](place)
    for block in page.blocks:
        if not block.not_run:
            run(block, place, page)


def run(block: Block, position: Place, page: DocPage) -> None:
    text = block.text
    for old, new in position.replaced.items():
        text = text.replace(old, new)
    code, said = _interrupted(text, block.until, position.folder) if block.until else run_here(text, position.folder)
    assert code == block.exit, f"{page} line {block.line}: exit {code}\n{text}\n{said}"
    lost = [word for line in block.said.splitlines() for word in line.split("…") if word.strip() not in said]
    assert not lost, f"{page} line {block.line} does not say {lost}\n{said}"


def _interrupted(text: str, until: str, folder: Path) -> tuple[int, str]:
    """The exit code, and what was said in all."""
    with in_bash(text, folder, subprocess.PIPE) as process:
        said = _until(process, until)
        try:
            said += process.communicate(timeout=SECONDS)[0]
        finally:
            ended(process)
    return process.returncode, said


def _until(process: subprocess.Popen[str], words: str) -> str:
    """What was said up to these words; then comes Ctrl-C."""
    said = ""
    assert process.stdout is not None
    for line in process.stdout:
        said += line
        if words in line:
            os.killpg(process.pid, signal.SIGINT)
            return said
    return said


def test_every_command_is_marked() -> None:
    unmarked = {str(page): page.unmarked for page in pages() if page.unmarked}
    assert not unmarked, f"commands that are not fenced as sh, by line: {unmarked}"
    unknown = {need for page in pages() for need in page.needs} - NEEDS.keys()
    assert not unknown


def test_most_are_run() -> None:
    """How many, and why the others are not: the end of the run says it (conftest.py)."""
    blocks = [block for page in pages() for block in page.blocks]
    left_out = [block for block in blocks if block.not_run]
    assert 2 * len(left_out) < len(blocks)
