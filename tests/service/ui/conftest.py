"""A real service with hostile names in it, and a headless Chromium in front of it."""

import json
import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import quote

import pytest
from playwright.sync_api import Browser, Page, sync_playwright

from tests.support.service import Client
from ticdc_bridge.service.testing import running_service

ROOT = Path(__file__).resolve().parents[3]
SHOP = ROOT / "schemas" / "files"
EVIL = '<script>document.title="x"</script>/"&\''
_CHROMIUM = ("chromium", "chromium-browser", "google-chrome")
_ARGUMENTS = ("--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking",
              "--disable-component-update", "--disable-sync")  # fmt: skip


def path_parameter(text: str) -> str:
    return quote(text, safe="")


def fill(client: Client) -> None:
    """The shop's subjects, one whose name and schema are hostile, one in another context."""
    for line in (SHOP / "shop.schemas.jsonl").read_text(encoding="utf-8").splitlines():
        entry = json.loads(line)
        client.send("POST", f"/subjects/{path_parameter(entry['subject'])}/versions", {"schema": entry["schema"]})
    field = {"name": "a", "type": "int", "doc": "</pre><script>document.title='x'</script>", "default": 1}
    record = {"type": "record", "name": "r", "doc": EVIL, "fields": [field]}
    client.send("POST", f"/subjects/{path_parameter(EVIL)}/versions", {"schema": json.dumps(record)})
    client.send("POST", f"/subjects/{path_parameter(':.eu:orders')}/versions", {"schema": '"string"'})


DDL = (
    (100, "CREATE TABLE orders (id BIGINT UNSIGNED PRIMARY KEY, price DECIMAL(12,2) NOT NULL, note TEXT)"),
    (200, "ALTER TABLE orders ADD COLUMN paid TINYINT NULL, MODIFY COLUMN price DECIMAL(14,2) NOT NULL"),
    (300, "RENAME TABLE orders TO bills"),
    (400, f"CREATE TABLE `{EVIL[:20]}` (id INT PRIMARY KEY COMMENT '<script>')"),
)


def tell(client: Client) -> None:
    """The history of a table that is renamed, and of one with a hostile name (times are milliseconds since 1970).

    Also jobs with their lineage. The shop's subject of `orders` has a schema that this table never had.
    """
    for milliseconds, query in DDL:
        body = {"commit_ts": milliseconds << 18, "db": "shop", "query": query}
        assert client.send("POST", "/history/ddl", body).status == 200
    table = {"topic": "tidb_shop_orders", "db": "shop", "table": "orders", "table_version": 200 << 18, "schema_id": 4}
    for job in ("shop-to-lake", EVIL):
        head = {"job": job, "command": "decode", "from": "avro", "to": "delta", "source": "kafka", "target": "lake"}
        edge = {**table, "rows": 10**12, "newest_commit_ts": 463316727805509642, "waiting": 10**9}
        answer = client.send("POST", "/lineage", {**head, "failed": 10**9, "tables": [edge]})
        assert answer.status == 200
    merged = {**table, "rows": 7, "newest_commit_ts": 463316727805509642}
    beside = {"topic": "tidb_shop_orders", "db": "", "table": "", "rows": 0, "positions": {"0": 17, "10": 3}}
    head |= {"job": "orders-merge", "command": "merge", "target": "delta:/lake/{schema}/{table}"}
    failed = {"failed": 3, "errors": {"LOSSY_VALUE": 2, EVIL: 1}, "dead_letter": "kafka:orders_dead"}
    assert client.send("POST", "/lineage", {**head, **failed, "tables": [merged, beside]}).status == 200
    compared = {**table, "topic": None, "rows": 7, "reconciled": 463316727805509642, "different": 2}
    head |= {"job": "reconcile", "command": "reconcile", "source": "mysql://tidb:4000"}
    assert client.send("POST", "/lineage", {**head, "tables": [compared]}).status == 200


@pytest.fixture(scope="module")
def served() -> Iterator[Client]:
    with running_service() as url:
        client = Client(url)
        fill(client)
        tell(client)
        yield client


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    """Ends with its module: as long as it is there, an event loop runs in this thread, which others would trip over."""
    path = os.environ.get("CHROMIUM") or next(filter(None, map(shutil.which, _CHROMIUM)), None)
    if path is None:
        pytest.skip("no Chromium here (Debian's package is `chromium`; CHROMIUM=/path names another)")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path, args=list(_ARGUMENTS))
        yield browser
        browser.close()


@pytest.fixture
def page(browser: Browser, served: Client) -> Iterator[Page]:
    """A tab. Afterwards: nothing was asked of another host, and nothing broke the page's policy."""
    with browser.new_context(base_url=served.url, viewport={"width": 1600, "height": 1000}) as context:
        context.set_default_timeout(10_000)
        page = context.new_page()
        complaints: list[str] = []
        page.on("console", lambda said: complaints.append(said.text) if said.type == "error" else None)
        page.on("pageerror", lambda error: complaints.append(str(error)))
        asked: list[str] = []
        page.on("request", lambda request: asked.append(request.url))
        yield page
        assert not [url for url in asked if not url.startswith((served.url, "data:"))]
        assert not [complaint for complaint in complaints if "Failed to load resource" not in complaint]
