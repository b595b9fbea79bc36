"""Says at the end of a run how many blocks of commands in README.md and docs/ ran, and why the others did not."""

from __future__ import annotations

from collections import Counter

import pytest

from tests.docs.pages import pages


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    blocks = [block for page in pages() for block in page.blocks]
    reasons = Counter(block.not_run for block in blocks if block.not_run)
    terminalreporter.section("commands in README.md and docs/")
    terminalreporter.line(f"{len(blocks) - reasons.total():>4}  blocks that are run")
    for reason, count in reasons.most_common():
        terminalreporter.line(f"{count:>4}  not run: {reason}")
