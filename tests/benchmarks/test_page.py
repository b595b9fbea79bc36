"""The page that a run writes."""

from __future__ import annotations

import json
from pathlib import Path
from xml.etree import ElementTree

from benchmarks import page
from benchmarks.figures import Figure


def test_a_run_replaces_its_own_figures_only(tmp_path: Path) -> None:
    (tmp_path / "benchmarks.md").write_text(f"# B\n\n{page.BEGIN}{page.END}\nrest\n")
    page.write({"one": [Figure("one.a", 10.0, "us", "less", 20.0, 1.5)]}, quick=True, docs=tmp_path)
    page.write({"two": [Figure("two.<b>", 5.0, "bytes", "less")]}, quick=False, docs=tmp_path)
    text = (tmp_path / "benchmarks.md").read_text()
    assert text.startswith("# B\n")
    assert text.endswith("\nrest\n")
    assert "| one.a | 10 us | 20 | 2 | 1.5 | ok |" in text
    assert "python -m benchmarks one --quick" in text
    assert "two.&lt;b&gt;" in text
    assert json.loads((tmp_path / "benchmarks.json").read_text()).keys() == {"one", "two"}
    ElementTree.parse(tmp_path / "images" / "benchmarks-one.svg")
    assert not (tmp_path / "images" / "benchmarks-two.svg").exists()


def test_the_page_says_what_the_figures_say() -> None:
    kept = page.DOCS / "benchmarks.json"
    text = (page.DOCS / "benchmarks.md").read_text(encoding="utf-8")
    runs = json.loads(kept.read_text(encoding="utf-8")) if kept.exists() else {}
    assert page.filled(text, runs) == text, "run `make bench` for one benchmark at least"
