"""Every page at 380, 970 and 1600 pixels, light and dark: nothing runs off the side, and all text can be read.

BRIDGE_SCREENSHOTS=FOLDER keeps the pictures.
"""

import json
import os
import re
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page

from tests.service.ui.conftest import EVIL, ROOT, path_parameter
from tests.service.ui.pictures import explain
from tests.support.service import Client

PAGES = {
    "home": "/ui", "topics": "/ui/topics", "dead letters": "/ui/dead-letters", "subjects": "/ui/subjects",
    "subject": "/ui/subjects/tidb_shop_customers-value",
    "version": "/ui/subjects/tidb_shop_customers-value/versions/2",
    "diff": "/ui/subjects/tidb_shop_customers-value/diff", "delete": "/ui/subjects/tidb_shop_customers-value/delete",
    "hostile": f"/ui/subjects/{path_parameter(EVIL)}", "explain": "/ui/explain", "tables": "/ui/tables",
    "table": "/ui/tables/shop/orders", "at": f"/ui/tables/shop/orders?when={250 << 18}",
    "two times": f"/ui/tables/diff?from={150 << 18}&to={350 << 18}", "dry-run": "/ui/dry-run",
    "lineage": "/ui/lineage", "lake table": "/ui/lake/shop/orders", "nothing": "/ui/subjects/nope",
}  # fmt: skip
CONTRAST = 4.5


@pytest.mark.parametrize("width", [380, *(pytest.param(n, marks=pytest.mark.slow) for n in (970, 1600))])
@pytest.mark.parametrize("scheme", ["light", pytest.param("dark", marks=pytest.mark.slow)])
def test_nothing_runs_off_the_side(browser: Browser, served: Client, width: int, scheme: str) -> None:
    size = {"width": width, "height": 900}
    with browser.new_context(base_url=served.url, viewport=size, color_scheme=scheme) as context:  # type: ignore[arg-type]
        page = context.new_page()
        for name, path in PAGES.items():
            page.goto(path)
            assert page.evaluate("document.documentElement.scrollWidth") <= width, name
            assert not unnamed(page), name
            if folder := os.environ.get("BRIDGE_SCREENSHOTS"):
                page.screenshot(path=str(Path(folder) / f"{name}-{width}-{scheme}.png"), full_page=width == 1600)
        for fill_in in (explained, judged, checked):
            fill_in(page)
            assert page.evaluate("document.documentElement.scrollWidth") <= width, fill_in.__name__
            assert not unnamed(page), fill_in.__name__


def explained(page: Page) -> None:
    explain(page)
    page.get_by_role("heading", name="In other formats").wait_for()


def judged(page: Page) -> None:
    page.goto("/ui/dry-run?db=shop")
    page.get_by_label("DDL", exact=True).fill(f"ALTER TABLE bills ADD COLUMN {'x' * 64} INT NOT NULL")
    page.get_by_role("button", name="Check").click()
    page.get_by_role("status").wait_for()


def checked(page: Page) -> None:
    page.goto("/ui/subjects/tidb_shop_customers-value")
    page.get_by_label("Schema", exact=True).fill(json.dumps({"type": "enum", "name": "x" * 200, "symbols": ["A"]}))
    page.get_by_role("button", name="Check").click()
    page.get_by_role("status").wait_for()
    page.get_by_text("What it was compared with").click()


def unnamed(page: Page) -> list[str]:
    """Fields and buttons without a name that is read out."""
    found: list[str] = page.evaluate(
        """[...document.querySelectorAll("input:not([type=hidden]), select, textarea, button")]
           .filter(it => !(it.labels && it.labels.length) && !it.textContent.trim() && !it.getAttribute("aria-label"))
           .map(it => it.outerHTML)"""
    )
    return found


def test_text_stands_out() -> None:
    """The contrast of WCAG 2.1, level AA, of each pair of colours that text is set in."""
    css = (ROOT / "service" / "ui" / "static" / "style.css").read_text(encoding="utf-8")
    light, dark = re.findall(r":root \{(.*?)\}", css, re.DOTALL)
    pairs = [("text", "back"), ("quiet", "back"), ("quiet", "soft"), ("link", "back"), ("link", "soft"),
             ("good", "good-back"), ("bad", "bad-back"), ("text", "changed"), ("text", "bad-back"),
             ("text", "good-back"), ("bad", "back"), ("bad", "soft"), ("good", "back"), ("text", "mark"),
             ("quiet", "bad-back"), ("on-accent", "accent"), ("text", "soft")]  # fmt: skip
    for theme in (light, dark):
        colours = dict(re.findall(r"--([a-z-]+): (#[0-9a-f]{6})", theme))
        for front, back in pairs:
            assert contrast(colours[front], colours[back]) >= CONTRAST, (front, back, colours[front])


def contrast(text: str, other: str) -> float:
    dark, light = sorted((luminance(text), luminance(other)))
    return (light + 0.05) / (dark + 0.05)


def luminance(colour: str) -> float:
    pieces = [int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)]
    linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in pieces]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]
