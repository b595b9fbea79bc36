"""The table of docs/registry.md on agreement with Confluent's registry, from the replay."""

from collections import Counter

from tests.service.api.test_replay import COUNTS, NOT_COUNTED, NOT_JUDGED_IN_7, replayed, tool
from tests.support.service import GOLDEN, ROOT
from ticdc_bridge.service.testing import running_service

PAGE = ROOT / "docs" / "registry.md"
BEGIN, END = "<!-- compatibility: made by `make docs` -->\n", "<!-- end of the compatibility -->\n"
_TITLES = {
    "confluent-8.5.0.jsonl": "Avro and the API at large",
    "confluent-8.5.0.part2.jsonl": "Further paths",
    "json-protobuf.jsonl": "JSON Schema and Protobuf",
    "confluent-8.5.0.part3.jsonl": "JSON Schema's unevaluated keywords, Protobuf's names and rules, null defaults",
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


def section() -> str:
    """The text between the markers; takes half a minute."""
    lines = ["| exchanges about | same answer, profile 8 | profile 7 |", "|---|---|---|"]
    counts = replays()
    for capture, title in _TITLES.items():
        scores = (f"{total['same']} of {total['all']}" for total in (counts[capture, 8], counts[capture, 7]))
        lines.append(f"| {title} | {' | '.join(scores)} |")
    return "\n" + "\n".join(lines) + "\n\n"


def write() -> None:
    before, _, rest = PAGE.read_text(encoding="utf-8").partition(BEGIN)
    PAGE.write_text(before + BEGIN + section() + END + rest.partition(END)[2], encoding="utf-8")
