"""The pages of docs/ that are made from tables say what the tables say."""

from __future__ import annotations

from tests.matrix import compatibility_page, types_page
from tests.service.api.test_replay import COUNTS


def test_types_are_up_to_date() -> None:
    assert types_page.PART.read() == types_page.section(), "run `make docs`"


def test_compatibility_has_the_counts_that_the_replay_is_held_to() -> None:
    text = compatibility_page.PAGE.read_text(encoding="utf-8")
    for counts in COUNTS.values():
        row = " | ".join(f"{counts[profile]} of {counts[profile]}" for profile in (8, 7))
        assert f"| {row} |" in text, "run `make docs`"
