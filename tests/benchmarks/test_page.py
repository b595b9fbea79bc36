"""The page that a run writes."""

import json
from pathlib import Path

from benchmarks import page
from benchmarks.figures import Figure


def test_a_run_replaces_its_own_figures_only(tmp_path: Path) -> None:
    (tmp_path / "benchmarks.md").write_text(f"# B\n\n{page.BEGIN}{page.END}\nrest\n")
    page.write({"one": [Figure("registry.by-id", 10.0, "requests/s", "more", 20.0, 1.5)]}, quick=True, docs=tmp_path)
    page.write({"two": [Figure("history.at.p50", 5.0, "ms", "less", 1.0)]}, quick=False, rows=7, docs=tmp_path)
    text = (tmp_path / "benchmarks.md").read_text()
    assert text.startswith("# B\n")
    assert text.endswith("\nrest\n")
    assert "| schema by id, one process | 10 requests/s | a bare ASGI app, one process | 20 requests/s | 0.5 |" in text
    assert "| table at a commit_ts, median | 5 ms |  |  |  |" in text
    assert "`python -m benchmarks one --quick`" in text
    assert "`python -m benchmarks two --rows 7`" in text
    assert json.loads((tmp_path / "benchmarks.json").read_text()).keys() == {"one", "two"}


def test_the_page_says_what_the_figures_say() -> None:
    kept = page.DOCS / "benchmarks.json"
    text = (page.DOCS / "benchmarks.md").read_text(encoding="utf-8")
    runs = json.loads(kept.read_text(encoding="utf-8")) if kept.exists() else {}
    assert page.filled(text, runs) == text, "run `make bench` for one benchmark at least"


def test_every_page_says_what_the_figures_say() -> None:
    runs = json.loads((page.DOCS / "benchmarks.json").read_text(encoding="utf-8"))
    texts = {
        path: path.read_text(encoding="utf-8") for path in (page.DOCS.parent / "README.md", *page.DOCS.glob("*.md"))
    }
    assert {path.name for path, text in texts.items() if page.with_figures(text, runs) != text} == set(), (
        "run `make docs`"
    )
    assert page.with_figures("3<!-- figure: registry.by-id value --> a second", runs).startswith("48,4")
    named = {path.name for path, text in texts.items() if "<!-- figure: " in text}
    assert named >= {"README.md", "operate.md"}
