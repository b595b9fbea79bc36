"""Captured exchanges with a real Confluent server, sent again: how many of our answers are the same.

`FULL` groups must be the same to the last key. The other groups need what is not there yet; their floors only rise.
"""

from __future__ import annotations

import re
import subprocess
import sys

import pytest

from service.testing import running_service
from tests.service.support import GOLDEN, ROOT

TOOL = ROOT / "tests" / "tools" / "registry_replay.py"

FULL = {
    "root",
    "content-type",
    "bad-body",
    "register-basic",
    "canonical",
    "transitive",
    "delete-lifecycle",
    "softdel-id-lookup",
    "references",
    "version-field",
    "force",
    "normalize-dup",
    "avro-pairs-prim",
    "metrics",
    "json",
}

# (exchanges, same status, same error code, same body) over a whole capture, at least
FLOORS = {
    ("confluent-8.5.0.jsonl", 8): (839, 780, 777, 747),
    ("confluent-8.5.0.jsonl", 7): (825, 769, 766, 738),
    ("confluent-8.5.0.part2.jsonl", 8): (79, 79, 79, 79),
    ("confluent-8.5.0.part2.jsonl", 7): (79, 79, 79, 79),
}

# Groups where a few exchanges need aliases or modes: bodies that agree, at least
PARTS = {"avro-compat-verbose": 265, "config": 40, "subject-names": 33}


@pytest.mark.parametrize(("capture", "profile"), FLOORS)
def test_replay(capture: str, profile: int) -> None:
    with running_service(profile=profile) as url:
        command = [sys.executable, str(TOOL), "--base-url", url, "--profile", str(profile), str(GOLDEN / capture)]
        output = subprocess.run(command, capture_output=True, text=True, check=False).stdout
    rows = {
        name: tuple(map(int, numbers.split()))
        for name, numbers in re.findall(r"^(\S+)((?: +\d+){6})$", output, re.MULTILINE)
    }
    total, *reached = rows.pop("all")[:4]
    assert (total, *(min(pair) for pair in zip(reached, FLOORS[capture, profile][1:], strict=True))) == FLOORS[
        capture, profile
    ], output
    for name in FULL & rows.keys():
        exchanges, status, code, body, key_order, _ = rows[name]
        assert status == code == body == key_order == exchanges, f"{name}\n{output}"
    for name, floor in PARTS.items():
        assert name not in rows or rows[name][3] >= floor, f"{name}\n{output}"
