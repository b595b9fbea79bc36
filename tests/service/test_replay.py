"""Captured exchanges with a real Confluent server, sent again: every answer must be the same, to the last key.

What differs is listed one by one; a list that no longer tells the truth, in either direction, fails.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

from service.testing import running_service
from tests.service.support import GOLDEN, ROOT

tool: Any = import_module("tests.tools.registry_replay")

FIRST, SECOND = "confluent-8.5.0.jsonl", "confluent-8.5.0.part2.jsonl"

# JSON Schema and Protobuf are not there yet: of their groups nothing is expected …
WITHOUT_TYPES = {"json", "protobuf"}
# … and these exchanges of other groups need them too: the list of types, and an Avro subject asked about a JSON schema.
MISSES = {
    (FIRST, 8): {41, 386},
    (FIRST, 7): {41, 386},
    (SECOND, 8): set[int](),
    (SECOND, 7): set[int](),
}
# `/metrics` is ours; Confluent's community server has none.
NOT_COUNTED = {(SECOND, 79)}


def replayed(path: Path, url: str, profile: int) -> Iterator[tuple[dict[str, Any], bool, list[str]]]:
    """Every exchange that counts for the profile, whether the answer was the same, and the differences."""
    header, exchanges = tool.read_capture(path)
    options = argparse.Namespace(group=[], no_needs=False, reverse=False)
    server, names = tool.Server(url, [], 30.0), tool.Names()
    for exchange, _ in tool.plan(header, exchanges, options):
        if profile == tool.SEVEN and (exchange.get("since") == tool.EIGHT or tool.ONLY_IN_8.search(exchange["path"])):
            continue
        context = tool.context_of_request(exchange["path"], tool.Answer(0, None, exchange["resp_body"]).json)
        actual = server.send(exchange, names.translate_path(exchange["path"], context))
        passed, ordered, found = tool.judge(exchange, actual, names, profile)
        yield exchange, passed == tool.BODY and ordered, found


@pytest.mark.parametrize(("capture", "profile"), MISSES)
def test_replay(capture: str, profile: int) -> None:
    with running_service(profile=profile) as url:
        answers = list(replayed(GOLDEN / capture, url, profile))
    counted = [
        (exchange, same, found)
        for exchange, same, found in answers
        if exchange["group"] not in WITHOUT_TYPES and (capture, exchange["n"]) not in NOT_COUNTED
    ]
    missed = {exchange["n"]: found for exchange, same, found in counted if not same}
    assert missed.keys() == MISSES[capture, profile], missed
    assert len(counted) >= {FIRST: 786, SECOND: 78}[capture]


def test_the_tool_agrees() -> None:
    """The same by command line, for one group: it says what this file says."""
    with running_service() as url:
        command = [sys.executable, str(ROOT / "tests" / "tools" / "registry_replay.py"), "--base-url", url]
        answer = subprocess.run(
            [*command, "--group", "root", str(GOLDEN / FIRST)], capture_output=True, text=True, check=False
        )
    assert answer.returncode == 0, answer.stdout
    assert "body 10/10" in answer.stdout
