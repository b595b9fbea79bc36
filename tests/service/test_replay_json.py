"""Captured exchanges about JSON Schema with a real Confluent server, sent again: every answer is the same."""

from __future__ import annotations

import re
import subprocess
import sys

import pytest

from service.testing import running_service
from tests.service.support import GOLDEN, ROOT

TOOL = ROOT / "tests" / "tools" / "registry_replay.py"
CAPTURE = GOLDEN / "json-protobuf.jsonl"

# exchanges of each group; all agree in status, error code, body and key order
GROUPS = {"json-compatibility": 315, "json-basics": 58, "json-references": 26}

TRANSITIVE, EXCHANGES = "json-protobuf-transitive", 62

# A difference as the tool prints it: the exchange, and what is not the same.
DIFFERENCE = re.compile(r"^  #\d+ .*\n(?:      .*\n)*", re.MULTILINE)


@pytest.mark.parametrize("profile", [8, 7])
def test_replay(profile: int) -> None:
    groups = [argument for group in (*GROUPS, TRANSITIVE) for argument in ("--group", group)]
    with running_service(profile=profile) as url:
        command = [sys.executable, str(TOOL), "--base-url", url, "--profile", str(profile), "--show", "100", *groups]
        output = subprocess.run([*command, str(CAPTURE)], capture_output=True, text=True, check=False).stdout
    rows = {
        name: tuple(map(int, numbers.split()))
        for name, numbers in re.findall(r"^(\S+)((?: +\d+){6})$", output, re.MULTILINE)
    }
    for group, exchanges in GROUPS.items():
        assert rows[group] == (exchanges,) * 5 + (0,), f"{group}\n{output}"
    # Half of the last group is about Protobuf; nothing else in it may differ.
    total, *_, body, _, _ = rows[TRANSITIVE]
    differences = DIFFERENCE.findall(output)
    assert (total, len(differences)) == (EXCHANGES, EXCHANGES - body), output
    assert all("proto" in difference.lower() for difference in differences), output
