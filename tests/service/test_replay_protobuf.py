"""The captured exchanges about Protobuf, sent again: all of them must be answered alike, to the last key."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from service.testing import running_service
from tests.service.support import GOLDEN, ROOT, Client

TOOL = ROOT / "tests" / "tools" / "registry_replay.py"
CAPTURE = GOLDEN / "json-protobuf.jsonl"

GROUPS = {"protobuf-compatibility": 277, "protobuf-basics": 65, "protobuf-references": 26}
SUBJECT = "st-protobuf"
"""Its exchanges stand among JSON ones in the group json-protobuf-transitive."""

# Bodies that differ, by profile and group. Exchanges 709 and 711 have a schema whose text is empty; the tool knows a
# body with a schema by its text, and so expects the fields of 8.x in the answers of profile 7.
MISSES = {8: dict[str, int](), 7: {"protobuf-basics": 2}}


def exchanges() -> Iterator[dict[str, Any]]:
    with CAPTURE.open(encoding="utf-8") as lines:
        next(lines)
        for line in lines:
            exchange = json.loads(line)
            if exchange["group"] in GROUPS or SUBJECT in exchange["path"]:
                yield exchange


def replayed(url: str, capture: Path, *arguments: str) -> tuple[dict[str, list[int]], str]:
    """For each group: exchanges, same status, same code, same body, same key order, skipped; and the tool's output."""
    command = [sys.executable, str(TOOL), "--base-url", url, *arguments, str(capture)]
    output = subprocess.run(command, capture_output=True, text=True, check=False).stdout
    rows = re.findall(r"^(\S+)((?: +\d+){6})$", output, re.MULTILINE)
    return {name: list(map(int, numbers.split())) for name, numbers in rows}, output


@pytest.mark.parametrize("profile", [8, 7])
def test_replay(profile: int, tmp_path: Path) -> None:
    capture = tmp_path / "protobuf.jsonl"
    capture.write_text("".join(json.dumps(one) + "\n" for one in exchanges()), "utf-8")
    with running_service(profile=profile) as url:
        rows, output = replayed(url, capture, "--profile", str(profile))
    counts = GROUPS | {"json-protobuf-transitive": 31}
    misses = MISSES[profile]
    counts["all"], misses = sum(counts.values()), {**misses, "all": sum(misses.values())}
    same = {name: count - misses.get(name, 0) for name, count in counts.items()}
    assert rows == {name: [count] * 3 + [same[name]] * 2 + [0] for name, count in counts.items()}, output


def test_replay_of_the_first_capture() -> None:
    with running_service() as url:
        rows, output = replayed(url, GOLDEN / "confluent-8.5.0.jsonl", "--group", "protobuf")
    assert rows["protobuf"] == [16] * 5 + [0], output


def test_texts_of_errors(client: Client) -> None:
    """The tool does not compare what a parser says; here it is Confluent's to the letter."""
    seen = 0
    for one in exchanges():
        body = one["req_body"].encode() if one["req_body"] else None
        answer = client.send(one["method"], one["path"], body, one["req_headers"])
        if one["status"] in (409, 422):
            seen += 1
            assert answer.body.decode() == one["resp_body"]
    assert seen == 21
