"""The tables of docs/registry.md on agreement with Confluent's registry, from the replay and the clients' tests."""

from __future__ import annotations

import subprocess
import sys
import tempfile
from collections import Counter
from pathlib import Path
from xml.etree import ElementTree

from tests.service.api.test_replay import COUNTS, NOT_COUNTED, NOT_JUDGED_IN_7, replayed, tool
from tests.support.service import GOLDEN, ROOT
from ticdc_bridge.service.testing import running_service

PAGE = ROOT / "docs" / "registry.md"
BEGIN, END = "<!-- compatibility: made by `make docs` -->\n", "<!-- end of the compatibility -->\n"
CLIENTS = {
    "tests/service/clients/test_python_client_methods.py": (
        "confluent-kafka for Python: every method, with every parameter"
    ),
    "tests/service/clients/test_python_client.py": (
        "confluent-kafka for Python: Avro, JSON Schema and Protobuf serializers"
    ),
    "tests/service/clients/test_node_client.py": "`@kafkajs/confluent-schema-registry` for Node",
    "tests/service/clients/test_go_client.py": "franz-go's `sr` for Go",
    "tests/service/api/test_ticdc.py": "TiCDC's own requests, as its source sends them",
}
_TITLES = {
    "confluent-8.5.0.jsonl": "Avro and the API at large",
    "confluent-8.5.0.part2.jsonl": "Further paths",
    "json-protobuf.jsonl": "JSON Schema and Protobuf",
}


def replays() -> dict[tuple[str, int], Counter[str]]:
    """(capture, profile) → how many exchanges are answered alike, and how many there are."""
    counts: dict[tuple[str, int], Counter[str]] = {}
    for capture in COUNTS:
        for profile in (8, 7):
            left_out = NOT_COUNTED | (NOT_JUDGED_IN_7 if profile == tool.SEVEN else set())
            total = counts[capture, profile] = Counter()
            with running_service(profile=profile) as url:
                for exchange, same, _ in replayed(GOLDEN / capture, url, profile):
                    if (capture, exchange["n"]) not in left_out:
                        total.update(same=int(same), all=1)
    return counts


_OUTCOMES = ("skipped", "failure", "error")  # elements of a report


def clients() -> dict[str, Counter[str]]:
    """Client → checks that passed, failed and were skipped: a test is one, or each row of its table."""
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder) / "report.xml"
        command = [sys.executable, "-m", "pytest", "-q", f"--junitxml={report}", "-o", "junit_family=xunit1", *CLIENTS]
        subprocess.run(command, cwd=ROOT, check=False, stdout=subprocess.DEVNULL)
        found = {path: Counter[str]() for path in CLIENTS}
        for case in ElementTree.parse(report).getroot().iter("testcase"):
            outcome = next((name for name in _OUTCOMES if case.find(name) is not None), "passed")
            rows = case.find("properties/property[@name='rows']")
            found[case.attrib["file"]][outcome] += 1 if rows is None else int(rows.attrib["value"])
    return found


def section() -> str:
    """The text between the markers; takes about a minute."""
    lines = ["| exchanges about | same answer, profile 8 | profile 7 |", "|---|---|---|"]
    counts = replays()
    for capture, title in _TITLES.items():
        scores = (f"{total['same']} of {total['all']}" for total in (counts[capture, 8], counts[capture, 7]))
        lines.append(f"| {title} | {' | '.join(scores)} |")
    lines += ["", "| client | checks passed | failed | skipped |", "|---|---|---|---|"]
    for path, checks in clients().items():
        lines.append(
            f"| {CLIENTS[path]} | {checks['passed']} | {checks['failure'] + checks['error']} | {checks['skipped']} |"
        )
    return "\n" + "\n".join(lines) + "\n\n"


def write() -> None:
    before, _, rest = PAGE.read_text(encoding="utf-8").partition(BEGIN)
    PAGE.write_text(before + BEGIN + section() + END + rest.partition(END)[2], encoding="utf-8")
