"""Every command in README.md and docs/ is run here as it stands, or says why not; see tests/docs/pages.py.

The addresses localhost:8081 and localhost:9092 become those of this test's service and broker. Commands of the service
and the jobs run in this process (tests/docs/shell.py), but for those that go on until Ctrl-C.
"""

import json
import os
import re
import signal
import subprocess
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from urllib.parse import quote

import pymysql
import pytest

from tests.docs.pages import ROOT, Block, DocPage, pages
from tests.docs.shell import SECONDS, ended, in_bash, run_here
from tests.support.kafka import Kafka
from tests.support.progress_lines import without_progress
from tests.support.service import Client
from tests.support.tidb import IS_BUILT, running_tidb
from ticdc_bridge.clients.kafka import TopicWriter
from ticdc_bridge.schemas.model.event import Message
from ticdc_bridge.service.testing import running_service
from ticdc_bridge.spark_jobs.io.message_files import read_messages

LINKED = ("service", "schemas", "spark_jobs", "ticdc_bridge", "tests", "benchmarks", "examples", "docs", "scripts",
          "requirements", ".venv", "Makefile", "pyproject.toml", "README.md", "Dockerfile", "compose.yaml")  # fmt: skip
SHOP = ROOT / "schemas" / "files"


@dataclass
class Place:
    """Where a page's commands run. replaced: texts of the page and what stands for them here."""

    folder: Path
    stack: ExitStack
    replaced: dict[str, str]
    broker: Callable[[], Kafka]
    database: Callable[[], str]  # the URL of an empty one


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
    """A broker at localhost:9092 with the topics of `demo --kafka`; `_schemas` is a topic that is not there."""
    broker = position.broker()
    position.replaced["localhost:9092"] = broker.bootstrap_servers
    topics = {name: broker.topic_name() for name in ("tidb_shop_orders", "shop-history", "_schemas")}
    sink = TopicWriter(None, {"bootstrap.servers": broker.bootstrap_servers})
    for file in ("shop.messages.jsonl", "shop.invoices.open.jsonl"):
        for message in read_messages(SHOP / file):
            assert isinstance(message, Message)
            if message.topic in topics:
                sink.write(replace(message, topic=topics[message.topic]))
    sink.close()
    position.replaced |= {f"kafka:{name}": f"kafka:{topic}" for name, topic in topics.items()}
    position.replaced |= {f'"{name}"': f'"{topic}"' for name, topic in topics.items()}


def postgres(position: Place) -> None:
    """A store at postgresql://registry@db/registry that has the shop's schemas."""
    url = position.database()
    with running_service(url) as served:
        fill(Client(served))
    position.replaced["postgresql://registry@db/registry"] = url


def tidb(position: Place) -> None:
    """A TiDB at tidb:4000 with shop.orders of three rows, a table that is left out, and the user reader."""
    if not IS_BUILT:
        pytest.skip("no TiDB in the cache")
    port = position.stack.enter_context(running_tidb(position.folder / "tidb"))
    with pymysql.connect(host="127.0.0.1", port=port, user="root", autocommit=True) as connection:
        cursor = connection.cursor()
        for statement in (
            "CREATE DATABASE shop",
            "CREATE TABLE shop.orders (id BIGINT UNSIGNED PRIMARY KEY, price DECIMAL(12,2) NOT NULL, note VARCHAR(80))",
            "INSERT INTO shop.orders VALUES (1, 12.30, NULL), (2, 99.00, 'gift'), (18446744073709551615, 0.10, '')",
            "CREATE TABLE shop.tmp_orders (id BIGINT)",
            "CREATE USER reader",
            "GRANT SELECT ON shop.* TO reader",
        ):
            cursor.execute(statement)
    position.replaced["tidb:4000"] = f"127.0.0.1:{port}"


NEEDS: dict[str, Callable[[Place], None]] = {
    "service": service, "kafka": kafka, "postgres": postgres, "tidb": tidb,
}  # fmt: skip


@pytest.fixture
def place(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Place]:
    for name in LINKED:
        if (ROOT / name).exists():
            (tmp_path / name).symlink_to(ROOT / name)
    if request.node.get_closest_marker("slow"):  # a session that its jobs made would lack the jars of later tests
        request.getfixturevalue("spark")
    with ExitStack() as stack:
        yield Place(
            tmp_path,
            stack,
            {"--port 8082": "--port 0"},
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
        if not (block.not_run or block.is_python):
            run(block, place, page)


@pytest.mark.slow
@pytest.mark.parametrize("page", [page for page in pages() if any(b.is_python for b in page.blocks)], ids=str)
def test_python_prints_what_the_page_says(page: DocPage, place: Place) -> None:
    for need in page.needs:
        NEEDS[need](place)
    for block in page.blocks:
        if block.is_python:
            run(replace(block, text=f"python - <<'END'\n{block.text}END\n"), place, page)


def run(block: Block, position: Place, page: DocPage) -> None:
    text = block.text
    for old, new in position.replaced.items():
        text = text.replace(old, new)
    code, said = _interrupted(text, block.until, position.folder) if block.until else run_here(text, position.folder)
    assert code == block.exit, f"{page} line {block.line}: exit {code}\n{text}\n{said}"
    if block.said:
        expected = block.said
        for old, new in position.replaced.items():
            expected = expected.replace(old, new)
        # The topic has another name here than its subjects: of that it is warned.
        lines = without_progress(said).rstrip().splitlines()
        printed = "".join(f"{line}\n" for line in lines if "whose subject would be" not in line)
        is_as_said = _pattern(expected).fullmatch(printed) is not None
        assert is_as_said, f"{page} line {block.line} prints\n{printed}\nnot\n{expected}"


def _pattern(said: str) -> re.Pattern[str]:
    """What a page says that is printed: a line `…` stands for any lines, `…` in a line for any text."""
    lines = (
        r"(?:.*\n)*?" if line.strip() == "…" else "[^\n]*?".join(map(re.escape, line.split("…"))) + r"\s*\n"
        for line in said.splitlines()
    )
    return re.compile("".join(lines))


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
