"""The pictures in docs/images, taken of a real service:   python -m tests.service.ui.pictures docs/images"""

import base64
import json
import re
import shutil
import sys
import time
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

from confluent_kafka import Producer
from playwright.sync_api import Page, sync_playwright

from tests.service.ui.conftest import _ARGUMENTS, _CHROMIUM, SHOP, path_parameter
from tests.support.kafka import Kafka
from tests.support.service import Client
from ticdc_bridge.schemas.inputs.dead_letters import dead_letter_of
from ticdc_bridge.schemas.model.event import Message
from ticdc_bridge.service.testing import running_service

_START: Final = 1_767_607_800_000  # 2026-01-05
_HOUR: Final = 3_600_000
DDL: Final = (
    (0, "CREATE TABLE bills (id BIGINT UNSIGNED PRIMARY KEY, price DECIMAL(12,2) NOT NULL, note TEXT)"),
    (76, "ALTER TABLE bills ADD COLUMN paid TINYINT NULL, ADD COLUMN due DATE NULL"),
    (217, "ALTER TABLE bills ADD COLUMN channel VARCHAR(20) NOT NULL DEFAULT 'web'"),
)
JOBS: Final = (("bills-to-lake", "merge", "delta", "delta:/lake/bills"),
               ("bills-to-debezium", "transcode", "debezium", "kafka:shop_bills_debezium"))  # fmt: skip


def fill(client: Client) -> None:
    """The shop's subjects, and a table with a history whose schemas are registered as TiCDC would."""
    for line in (SHOP / "shop.schemas.jsonl").read_text(encoding="utf-8").splitlines():
        entry = json.loads(line)
        client.send("POST", f"/subjects/{path_parameter(entry['subject'])}/versions", {"schema": entry["schema"]})
    for hours, query in DDL:
        commit_ts = (_START + hours * _HOUR) << 18
        body = {"commit_ts": commit_ts, "db": "shop", "query": query}
        assert client.send("POST", "/history/ddl", body).status == 200
        table = client.get(f"/history/shop/bills/at/{commit_ts}?inclusive=true").json
        mode = next(item for item in table["avro"] if item["decimal"] == "string" and item["extension"])
        ids = []
        for image in ("key", "value"):
            answer = client.send("POST", f"/subjects/tidb_shop_bills-{image}/versions", {"schema": mode[image]})
            assert answer.status == 200
            ids.append(answer.json["id"])
        for job, command, to, target in JOBS:
            reported = {"topic": "tidb_shop_bills", "db": "shop", "table": "bills", "table_version": commit_ts,
                    "schema_id": ids[1], "rows": 1000 + hours * 731}  # fmt: skip
            reported["newest_commit_ts"] = int((time.time() - 40) * 1000) << 18
            beside = {"topic": "tidb_shop_bills", "db": "", "table": "", "rows": 0, "positions": {"0": 20, "1": 17}}
            head = {"job": job, "command": command, "from": "avro", "to": to, "source": "kafka", "target": target}
            assert client.send("POST", "/lineage", {**head, "tables": [reported, beside]}).status == 200
    compared = {"topic": None, "db": "shop", "table": "bills", "rows": 4123, "different": 0,
                "reconciled": int((time.time() - 3000) * 1000) << 18}  # fmt: skip
    head |= {"job": "reconcile", "command": "reconcile", "from": "tidb", "to": "delta"}
    head |= {"source": "mysql://tidb:4000", "target": JOBS[0][3]}
    assert client.send("POST", "/lineage", {**head, "tables": [compared]}).status == 200


def send(kafka: Kafka) -> None:
    """The shop's messages, one that no format reads, and dead letters of two reasons."""
    producer = Producer({"bootstrap.servers": kafka.bootstrap_servers})
    merged = kafka.create_topic("tidb_shop_bills", partitions=2)
    topic, dead = kafka.create_topic("shop", partitions=2), kafka.create_topic("shop_dead", partitions=2)

    def produce(name: str, message: Message, minute: int) -> None:
        headers: list[tuple[str, str | bytes | None]] = list(message.headers)
        time_ = _START + minute * 60_000
        producer.produce(name, message.value, message.key, message.partition or 0, timestamp=time_, headers=headers)

    lines = (SHOP / "shop.messages.jsonl").read_text(encoding="utf-8").splitlines()
    read = [[json.loads(line)[name] for name in ("key_b64", "value_b64")] for line in lines]
    sent = [[text and base64.b64decode(text) for text in entry] for entry in read]
    latin = [entry for entry in sent if not re.search(rb"[\xe3-\xf0][\x80-\xbf]", entry[1] or b"")]  # any font has it
    for minute, (key, value) in enumerate(latin[:40]):
        for name in (topic, merged):
            produce(name, Message(key, value, partition=minute % 2), minute)
    broken = Message(b"17", b'{"order": 17}', topic, 1, 20)
    produce(topic, broken, 39)
    for number in range(9):
        failed = Message(b"%d" % number, broken.value, topic, number % 2, number)
        reason, detail = ("UNKNOWN_FORMAT", "the format can't be detected: a JSON object of no format that is known")
        if number % 3 == 0:
            reason, detail = "UNKNOWN_SCHEMA_ID", "value: schema id 99 is not known to http://registry:8081"
        produce(dead, dead_letter_of(reason, detail, failed), number)
    assert producer.flush(60) == 0


def track_file(kafka: Kafka, folder: Path) -> Path:
    """A changefeed with its settings, which a doctor finds fault with."""
    file = folder / "track.toml"
    file.write_text(
        f'[[changefeed]]\nname = "shop"\nin = "kafka:shop"\nbootstrap-servers = "{kafka.bootstrap_servers}"\n'
        'sink-uri = "kafka://kafka:9092/shop?protocol=avro&enable-tidb-extension=true"\n'
        'schema-registry = "http://registry:8081"\n'
    )
    return file


def home(page: Page) -> None:
    page.goto("/ui")


def topic(page: Page) -> None:
    page.goto("/ui/topics/shop?last=10")


def dead_letters(page: Page) -> None:
    page.goto("/ui/dead-letters/shop_dead")


def subjects(page: Page) -> None:
    page.goto("/ui/subjects")


def table(page: Page) -> None:
    page.goto("/ui/tables/shop/bills")


def dry_run(page: Page) -> None:
    page.goto("/ui/dry-run?db=shop")
    page.get_by_label("DDL", exact=True).fill("ALTER TABLE bills ADD COLUMN branch INT NOT NULL")
    page.get_by_role("button", name="Check").click()
    page.get_by_role("status").wait_for()


def lake(page: Page) -> None:
    page.goto("/ui/lake/shop/bills")


def subject(page: Page) -> None:
    page.goto("/ui/subjects/tidb_shop_bills-value")


def lineage(page: Page) -> None:
    page.goto("/ui/lineage")


def diff(page: Page) -> None:
    page.goto("/ui/subjects/tidb_shop_customers-value/diff")


def explain(page: Page) -> None:
    lines = (SHOP / "shop.messages.jsonl").read_text(encoding="utf-8").splitlines()
    sent = ((json.loads(line)["key_b64"], json.loads(line)["value_b64"] or "") for line in lines)
    key, value = next(entry for entry in sent if base64.b64decode(entry[1]).startswith(b"\0\0\0\0\4"))
    page.goto("/ui/explain")
    page.get_by_label("Key (empty = null)").fill(key)
    page.get_by_label("Value (empty = tombstone)").fill(value)
    page.get_by_label("Changefeed's time zone").fill("Asia/Shanghai")
    page.get_by_role("button", name="Explain").click()
    price = page.get_by_role("row", name="after.price")
    price.locator("summary").click()
    price.scroll_into_view_if_needed()


PICTURES: Final[tuple[tuple[str, Callable[[Page], None], int, int, str], ...]] = (
    ("home", home, 1600, 900, "light"), ("topic", topic, 1600, 900, "light"),
    ("dead-letters", dead_letters, 1600, 560, "dark"), ("subjects", subjects, 1600, 620, "light"),
    ("table", table, 1600, 860, "light"), ("dry-run", dry_run, 1600, 1000, "light"),
    ("diff", diff, 1600, 700, "dark"), ("lineage", lineage, 1600, 660, "light"),
    ("lake", lake, 1600, 900, "light"), ("subject", subject, 1600, 900, "light"),
    ("explain", explain, 380, 800, "dark"),
)  # fmt: skip


def describe(client: Client) -> None:
    """What the changefeed's tables are, as their registered schemas say."""
    for table in ("customers", "orders"):
        body = {"commit_ts": 463316700000000000, "subject": f"tidb_shop_{table}-value", "version": 1,
                "db": "shop", "table": table}  # fmt: skip
        assert client.send("POST", "/history/snapshot?changefeed=shop", body).status == 200


def wait_until_read(client: Client) -> None:
    """Until the tracker has read the topic."""
    deadline = time.monotonic() + 60
    while client.get("/history/trackers").json[0]["messages"] < 41 and time.monotonic() < deadline:
        time.sleep(0.2)


def main(folder: Path) -> None:
    path = next(filter(None, map(shutil.which, _CHROMIUM)))
    with (
        Kafka() as kafka,
        TemporaryDirectory() as position,
        running_service(track=str(track_file(kafka, Path(position))), bootstrap_servers=kafka.bootstrap_servers) as url,
        sync_playwright() as playwright,
    ):
        fill(Client(url))
        send(kafka)
        describe(Client(url))
        wait_until_read(Client(url))
        browser = playwright.chromium.launch(executable_path=path, args=list(_ARGUMENTS))
        for name, show, width, height, scheme in PICTURES:
            size = {"width": width, "height": height}
            with browser.new_context(base_url=url, viewport=size, color_scheme=scheme) as context:  # type: ignore[arg-type]
                page = context.new_page()
                show(page)
                page.screenshot(path=folder / f"{name}.png")
        browser.close()


if __name__ == "__main__":
    main(Path(sys.argv[1]))
