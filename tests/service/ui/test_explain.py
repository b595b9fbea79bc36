"""The page that explains a message, with messages that TiCDC wrote."""

import base64
import json

from playwright.sync_api import Page, expect

from tests.service.ui.conftest import SHOP


def test_avro_with_its_schema(page: Page) -> None:
    """The key in base64, the value in hex; and once more the value as 0x…"""
    shop = map(json.loads, (SHOP / "shop.messages.jsonl").read_text(encoding="utf-8").splitlines())
    entry = next(m for m in shop if base64.b64decode(m["value_b64"] or "").startswith(b"\0\0\0\0\4"))
    key, data = entry["key_b64"], base64.b64decode(entry["value_b64"])
    page.goto("/ui/explain")
    page.get_by_label("Value").fill("0x" + data.hex())
    page.get_by_role("button", name="Explain").click()
    expect(page.get_by_text("Confluent: 0x00, schema id 4")).to_be_visible()
    value = data.hex(" ")
    page.goto("/ui/explain")
    page.get_by_label("Key").fill(key)
    page.get_by_label("Value").fill(value)
    page.get_by_label("Changefeed's time zone").fill("Asia/Shanghai")
    page.get_by_role("button", name="Explain").click()
    expect(page.get_by_role("heading", name="avro")).to_be_visible()
    expect(page.get_by_text("Confluent: 0x00, schema id 4")).to_be_visible()
    expect(page.get_by_role("link", name="tidb_shop_orders-value version 1")).to_be_visible()
    row = page.get_by_role("row", name="after.price")
    expect(row).to_contain_text("decimal")
    row.locator("summary").click()
    expect(row).to_contain_text("debezium-mysql")


def test_what_cannot_be_read_is_said_and_stays(page: Page) -> None:
    text = json.dumps({"payload": 1})
    for fields, said in (
        ({}, "Paste the key or the value"), ({"Value": "!!!"}, "The value is neither hex nor base64"),
        ({"Value": "0001", "Changefeed's time zone": "Mars/Olympus"}, "Mars/Olympus"), ({"Value": text}, ""),
    ):  # fmt: skip
        page.goto("/ui/explain")
        for label, filled in fields.items():
            page.get_by_label(label).fill(filled)
        page.get_by_role("button", name="Explain").click()
        expect(page.get_by_role("alert")).to_contain_text(said)
    expect(page.get_by_label("Value")).to_have_value(text)
