"""The messages that fuzzing kept (tests/fuzzing.py): each still comes to what it came to."""

from pathlib import Path

import pytest

from tests import fuzzing


@pytest.mark.parametrize("path", fuzzing.files(), ids=lambda path: str(path.name))
def test_the_corpus_comes_to_the_same(path: Path) -> None:
    if ".broken" in path.name:
        pytest.fail(f"{path.name} holds messages that break the rule: mend the decoder, move them to the other file")
    changed = []
    for golden, message, found in fuzzing.read(path):
        now = fuzzing.outcome(golden, message)
        if now != found:
            changed.append(f"{golden}: was {found!r}, is {now!r}")
    assert not changed


def test_there_is_a_corpus() -> None:
    assert sum(len(fuzzing.read(path)) for path in fuzzing.files()) > 100
