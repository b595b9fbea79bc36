"""docs/compatibility.md: how far the registry agrees with Confluent's, from the replay and the clients' tests."""

from __future__ import annotations

import re
import subprocess
import sys
import tempfile
from collections import Counter
from pathlib import Path
from xml.etree import ElementTree

from service.testing import running_service
from tests.service.api.test_replay import COUNTS, NOT_COUNTED, NOT_JUDGED_IN_7, replayed, tool
from tests.support.service import GOLDEN, ROOT

PAGE = ROOT / "docs" / "compatibility.md"
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
_HEAD = """\
# How far the registry agrees with Confluent's

Made by `make docs`: exchanges captured at a real Confluent server 8.5.0 are sent again, and the clients' tests are run. An exchange counts as the same when status, error code, body and the order of keys are.

"""  # noqa: E501
_TAIL = """
Not counted: `/metrics`, which Confluent's community server does not have and we do; in profile 7 what only 8.x has, and two exchanges whose schema has an empty text, which the tool can't judge there. Where Confluent's answer was an error of its own (a 500 with a stack trace), any sane answer counts.

What is different on purpose is in [registry.md](registry.md).
"""  # noqa: E501


def replays() -> dict[tuple[str, int], dict[str, Counter[str]]]:
    """(capture, profile) → group of exchanges → how many are the same, and how many there are."""
    found: dict[tuple[str, int], dict[str, Counter[str]]] = {}
    for capture in COUNTS:
        for profile in (8, 7):
            left_out = NOT_COUNTED | (NOT_JUDGED_IN_7 if profile == tool.SEVEN else set())
            groups = found[capture, profile] = {}
            with running_service(profile=profile) as url:
                for exchange, same, _ in replayed(GOLDEN / capture, url, profile):
                    if (capture, exchange["n"]) not in left_out:
                        group = re.split(r"[-:/.]", exchange["group"])[0]
                        groups.setdefault(group, Counter()).update(same=int(same), all=1)
    return found


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


def page() -> str:
    """The whole page; takes about a minute."""
    lines = ["| exchanges about | profile 8 | profile 7 |", "|---|---|---|"]
    found = replays()
    for capture, title in _TITLES.items():
        eight, seven = found[capture, 8], found[capture, 7]
        lines.append(f"| **{title}** | **{_score(eight.values())}** | **{_score(seven.values())}** |")
        for group in sorted(eight | seven):
            lines.append(
                f"| {group} | {_score([eight.get(group, Counter())])} | {_score([seven.get(group, Counter())])} |"
            )
    lines += ["", "| client | checks passed | failed | skipped |", "|---|---|---|---|"]
    for path, counts in clients().items():
        lines.append(
            f"| {CLIENTS[path]} | {counts['passed']} | {counts['failure'] + counts['error']} | {counts['skipped']} |"
        )
    return _HEAD + "\n".join(lines) + "\n" + _TAIL


def _score(groups: object) -> str:
    total = sum(groups, Counter())  # type: ignore[call-overload]
    return f"{total['same']} of {total['all']}" if total["all"] else "–"


def write() -> None:
    PAGE.write_text(page(), encoding="utf-8")
