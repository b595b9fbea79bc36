"""The pages about tables: timeline, as-of, the dry run."""

import re
from dataclasses import replace
from pathlib import Path
from urllib.parse import urlencode

from playwright.sync_api import Page, expect

from tests.service.ui.conftest import EVIL, path_parameter
from tests.support.history_events import T0, ddl, resolved, write
from tests.support.service import Client, ended
from ticdc_bridge.service.testing import running_service


def test_the_timeline_says_what_each_ddl_changed(page: Page) -> None:
    page.goto("/ui/tables")
    page.get_by_role("link", name="shop.orders", exact=True).click()
    expect(page.get_by_text("3 versions")).to_be_visible()
    altered = page.get_by_role("listitem").filter(has_text="ALTER TABLE orders")
    expect(altered).to_contain_text("paid tinyint NULL")
    expect(altered).to_contain_text("price: decimal(12,2) NOT NULL → decimal(14,2) NOT NULL")
    expect(page.get_by_role("listitem").filter(has_text="RENAME TABLE")).to_contain_text("GONE")


def test_as_of_follows_the_rule_of_rows(page: Page) -> None:
    """A row at the DDL's own commit_ts has the table from before it."""
    page.goto("/ui/tables/shop/orders")
    page.get_by_label("As of").fill(str(200 << 18))
    page.get_by_role("button", name="Look").click()
    expect(page.get_by_role("row", name="price")).to_contain_text("decimal(12,2)")
    page.get_by_label("Include a DDL statement").check()
    page.get_by_role("button", name="Look").click()
    expect(page.get_by_role("row", name="price")).to_contain_text("decimal(14,2)")
    page.get_by_label("As of").fill("tomorrow")
    page.get_by_role("button", name="Look").click()
    expect(page.get_by_role("alert")).to_contain_text("tomorrow")


def test_two_times_are_compared(page: Page) -> None:
    page.goto("/ui/tables/shop/orders")
    page.get_by_role("link", name="Compare two times").click()
    page.get_by_label("From (commit_ts").fill(str(150 << 18))
    page.get_by_label("To", exact=True).fill(str(350 << 18))
    page.get_by_role("button", name="Compare").click()
    expect(page.get_by_role("heading", name="shop.orders → shop.bills")).to_contain_text("renamed")
    expect(page.get_by_role("listitem").filter(has_text="price")).to_contain_text("decimal(14,2) NOT NULL")
    expect(page.get_by_label("Changefeed")).not_to_have_value("")
    page.get_by_role("link", name="shop.bills").click()
    expect(page.get_by_role("heading", level=1)).to_have_text("shop.bills")
    page.goto(f"/ui/tables/diff?from={9 << 18}&to=1")
    expect(page.get_by_role("alert")).to_contain_text("give the earlier time first")


def test_tables_are_exported(page: Page) -> None:
    for path, link, holds in (
        ("/ui/tables", "SQL", "CREATE TABLE `bills`"),
        ("/ui/tables/shop/orders", "JSON lines of all versions", '"mode": "show"'),
        (f"/ui/tables/shop/orders?when={150 << 18}", "This version as SQL", "`price` decimal(12,2)"),
    ):
        page.goto(path)
        with page.expect_download() as download:
            page.get_by_role("link", name=link).click()
        assert holds in Path(download.value.path()).read_text(encoding="utf-8")


def test_versions_can_be_picked_and_walked_through(page: Page) -> None:
    page.goto("/ui/tables/shop/orders")
    offered = page.locator("#versions option")
    expect(offered).to_have_count(3)
    expect(offered.nth(1)).to_have_attribute("value", str(200 << 18))
    page.get_by_role("link", name=str(200 << 18)).click()
    expect(page.get_by_role("row", name="price")).to_contain_text("decimal(14,2)")
    page.get_by_role("link", name=str(100 << 18)).click()
    expect(page.get_by_role("row", name="price")).to_contain_text("decimal(12,2)")
    page.get_by_role("link", name=str(300 << 18)).click()
    expect(page.get_by_role("alert")).to_contain_text("gone")


def test_a_table_as_it_is_now(page: Page) -> None:
    page.goto("/ui/tables/shop/bills")
    expect(page.get_by_role("heading", name="The table now")).to_be_visible()
    expect(page.get_by_role("row", name="price")).to_contain_text("decimal(14,2)")
    page.get_by_text("SHOW CREATE TABLE").click()
    expect(page.locator("pre.wrap").filter(has_text="CREATE TABLE `bills`").first).to_be_visible()


def test_a_lake_table_without_kafka(page: Page) -> None:
    """What its jobs reported; that nobody here can know what waits in Kafka is said."""
    page.goto("/ui/lineage")
    page.get_by_role("row", name="orders-merge").get_by_role("link", name="lake table").click()
    expect(page.get_by_role("status")).to_contain_text("Up to date? Not with all rows.")
    expect(page.get_by_text("delta:/lake/shop/orders")).to_be_visible()
    expect(page.get_by_text("2 rows differ")).to_be_visible()
    expect(page.get_by_role("row", name="orders-merge (merge)")).to_contain_text(f"3: {EVIL} 1, LOSSY_VALUE 2")
    expect(page.get_by_role("row", name="tidb_shop_orders@10")).to_contain_text("unknown")
    expect(page.get_by_text("This service is not connected to Kafka")).to_be_visible()
    page.get_by_role("link", name="tidb_shop_orders-value").click()
    page.get_by_role("link", name="shop.orders").last.click()
    expect(page.get_by_role("heading", level=1)).to_have_text("shop.orders in the lake")


def test_drift_is_shown_with_its_table(page: Page) -> None:
    """The newest schema of a subject is that of no version of its table."""
    page.goto("/ui/tables")
    drift = page.get_by_role("listitem").filter(has_text="the newest schema is that of no known version")
    drift.get_by_role("link", name="tidb_shop_orders-value version 1").click()
    expect(page.get_by_role("heading", level=1)).to_contain_text("tidb_shop_orders-value")


def test_lineage_from_topic_to_job(page: Page) -> None:
    page.goto("/ui/lineage")
    expect(page.get_by_role("heading", name="Topic tidb_shop_orders")).to_be_visible()
    row = page.get_by_role("row", name="shop-to-lake")
    expect(row).to_contain_text("shop-to-lake (decode)")
    expect(row).to_contain_text("1,000,000,000,000")
    expect(row.get_by_role("link", name="tidb_shop_orders-value version 1")).to_be_visible()
    row.get_by_role("link", name=str(200 << 18)).click()
    expect(page.get_by_role("row", name="price")).to_contain_text("decimal(14,2)")
    page.goto("/ui/lineage")
    expect(page.get_by_role("cell", name=EVIL).first).to_be_visible()
    page.get_by_label("Job").fill("nobody")
    page.get_by_role("button", name="Show").click()
    expect(page.get_by_text("Nothing matches.")).to_be_visible()


def test_one_of_several_changefeeds() -> None:
    """Nobody said which: the one that has the table, or a choice."""
    with running_service() as url:
        client = Client(url)
        for feed, table in (("a", "twice"), ("b", "twice"), ("b", "one")):
            body = {"commit_ts": 100 << 18, "db": "d", "query": f"CREATE TABLE {table} (id INT PRIMARY KEY)"}
            assert client.send("POST", f"/history/ddl?changefeed={feed}", body).status == 200
        moved = client.send("GET", "/ui/tables/d/one")
        assert (moved.status, moved.headers["location"]) == (303, "/ui/tables/d/one?changefeed=b")
        choice = client.send("GET", "/ui/tables/d/twice")
        assert choice.status == 200
        assert all(f"/ui/tables/d/twice?changefeed={feed}".encode() in choice.body for feed in "ab")
        assert client.send("GET", "/ui/tables/d/none").status == 422
        moved = client.send("GET", f"/ui/tables/d/one?when={200 << 18}")
        assert (moved.status, moved.headers["location"]) == (303, f"/ui/tables/d/one?changefeed=b&when={200 << 18}")
        form = client.send("GET", "/ui/dry-run?db=d").body.decode()
        assert [f'value="{feed}" checked' in form for feed in "ab"] == [True, True]


STATEMENTS = "ALTER TABLE twice ADD COLUMN x INT NULL;\nDROP TABLE `<b>`;\nALTER TABLE one ADD COLUMN y INT NULL"


def test_each_statement_is_judged_for_each_changefeed() -> None:
    """Each statement has its own verdict; a table that a changefeed does not know is not `safe` there."""
    with running_service() as url:
        client = Client(url)
        for feed, table in (("a", "twice"), ("<i>", "twice"), ("<i>", "one")):
            body = {"commit_ts": 100 << 18, "db": "d", "query": f"CREATE TABLE {table} (id INT PRIMARY KEY)"}
            assert client.send("POST", f"/history/ddl?changefeed={path_parameter(feed)}", body).status == 200
        for chosen, shown in (([], 2), (["a"], 1), (["a", "<i>"], 2)):
            fields = [("sql", STATEMENTS), ("db", "d"), *(("changefeed", feed) for feed in chosen)]
            answer = client.send("POST", "/ui/dry-run", urlencode(fields).encode())
            text = answer.body.decode()
            assert answer.status == 200
            assert text.count('<article class="statement"') == 3 * shown
            assert text.count("Statement 2 of 3") == shown
            assert ("&lt;i&gt;" in text, "<i>" in text, "<b>`" in text) == (True, False, False)
            known = text.count("<p>No subject of the registry holds rows of d.one")
            assert (text.count("<p>Table d.one is not known here"), known) == (1, shown - 1)
        unknown = [("sql", STATEMENTS), ("db", "d"), ("changefeed", "nope")]
        answer = client.send("POST", "/ui/dry-run", urlencode(unknown).encode())
        assert (answer.status, b"nope" in answer.body) == (404, True)
        partly = client.send("POST", "/ui/dry-run", urlencode([*unknown, ("changefeed", "a")]).encode())
        assert (partly.status, b"It can&#39;t be judged for every changefeed" in partly.body) == (200, True)


def test_lineage_keeps_the_changefeed(tmp_path: Path) -> None:
    """Two changefeeds have the table: the one that reads the row's topic is in its links."""
    store = f"sqlite:///{tmp_path / 'r.db'}"
    for feed in ("x&y", "z"):
        create = replace(ddl(T0, "d", "t", "CREATE TABLE `d`.`t` (`a` INT PRIMARY KEY)"), topic=f"topic-{feed[0]}")
        file = write(tmp_path / f"{feed[0]}.jsonl", [create, replace(resolved(T0 + 1), topic=create.topic)])
        ended("track", "--in", str(file), "--store", store, "--changefeed", feed, cwd=tmp_path).check_returncode()
    with running_service(store) as url:
        client = Client(url)
        head = {"job": "j", "command": "decode", "from": "open", "to": "delta", "source": "kafka", "target": "lake"}
        for topic in ("topic-x", "topic-z"):
            reported = {"topic": topic, "db": "d", "table": "t", "table_version": T0, "schema_id": None, "rows": 1}
            assert client.send("POST", "/lineage", {**head, "tables": [reported]}).status == 200
        for rows in (2, 3):
            more = {**reported, "table": f"of{rows}", "rows": rows}
            assert client.send("POST", "/lineage", {**head, "tables": [more]}).status == 200
        for order in ("-rows", "rows"):
            text = client.send("GET", f"/ui/lineage?topic=topic-z&sort={order}").body.decode()
            counts = re.findall(r'data-label="Rows" class="number">(\d+)', text)
            assert counts == sorted("123", reverse=order == "-rows")
            assert f"?topic=topic-z&amp;sort={'rows' if order == '-rows' else '-rows'}" in text
        for query, feeds in (("", ["x%26y", "z"]), ("?changefeed=x%26y", ["x%26y"]), ("?changefeed=z", ["z"])):
            text = client.send("GET", f"/ui/lineage{query}").body.decode()
            assert re.findall(r'href="/ui/tables/d/t\?changefeed=([^"]*)"', text) == feeds
            assert re.findall(r'href="/ui/tables/d/t\?when=\d+&amp;inclusive=1&amp;changefeed=([^"]*)"', text) == feeds


def test_the_dry_run_of_the_documents_case(page: Page) -> None:
    page.goto("/ui/tables")
    page.get_by_role("link", name="DDL check").click()
    page.get_by_label("DDL", exact=True).fill("ALTER TABLE bills ADD COLUMN x INT NOT NULL")
    page.get_by_label("Database").fill("shop")
    page.get_by_text("The changefeed's settings").click()
    page.get_by_label("Sink URI").fill("kafka://127.0.0.1:9092/t?protocol=avro&topic={schema}_{table}")
    page.get_by_role("button", name="Check").click()
    expect(page.get_by_role("status")).to_be_visible()
    expect(page.get_by_text("add column `x` INT, NOT NULL, no default").first).to_be_visible()


def test_a_hostile_table_is_text(page: Page) -> None:
    page.goto(f"/ui/tables/shop/{path_parameter(EVIL[:20])}")
    expect(page.get_by_role("heading", level=1)).to_have_text(f"shop.{EVIL[:20]}")
    page.get_by_role("link", name=str(400 << 18)).click()
    expect(page.get_by_role("row", name="id")).to_contain_text("<script>")  # the column's comment
    assert "ticdc-bridge" in page.title()


def test_a_table_nobody_saw_says_what_to_do(served: Client) -> None:
    answer = served.send("GET", "/ui/tables/shop/nope")
    assert answer.status == 404
    assert b"POST /history/snapshot" in answer.body
