"""The page that explains a message, with messages that TiCDC wrote."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable
from typing import Any

import pytest
from playwright.sync_api import Page, expect

from tests.service.ui.conftest import ROOT, SHOP


def messages(path: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (ROOT / path).read_text(encoding="utf-8").splitlines()]


WRITINGS: dict[str, Callable[[bytes], str]] = {
    "base64": lambda data: base64.b64encode(data).decode(),
    "hex": lambda data: data.hex(" "),
    "0x": lambda data: "0x" + data.hex(),
}


@pytest.mark.parametrize("writing", ["base64", "hex", "0x"])
def test_avro_with_its_schema(page: Page, writing: str) -> None:
    shop = messages(str(SHOP.relative_to(ROOT) / "shop.messages.jsonl"))
    one = next(m for m in shop if base64.b64decode(m["value_b64"] or "").startswith(b"\0\0\0\0\4"))
    key, value = (WRITINGS[writing](base64.b64decode(one[name])) for name in ("key_b64", "value_b64"))
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


def test_json_as_it_is(page: Page) -> None:
    text = json.dumps({"payload": 1})
    page.goto("/ui/explain")
    page.get_by_label("Value").fill(text)
    page.get_by_role("button", name="Explain").click()
    expect(page.get_by_role("alert")).to_be_visible()
    expect(page.get_by_label("Value")).to_have_value(text)


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({}, "Paste the key or the value"),
        ({"Value": "!!!"}, "The value is neither hex nor base64"),
        ({"Value": "0001", "Changefeed's time zone": "Mars/Olympus"}, "Mars/Olympus"),
    ],
)
def test_what_cannot_be_read_is_said(page: Page, fields: dict[str, str], said: str) -> None:
    page.goto("/ui/explain")
    for label, text in fields.items():
        page.get_by_label(label).fill(text)
    page.get_by_role("button", name="Explain").click()
    expect(page.get_by_role("alert")).to_contain_text(said)
