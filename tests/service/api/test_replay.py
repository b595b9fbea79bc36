"""Captured exchanges with a real Confluent server, sent again: every answer must be the same, to the last key."""

import argparse
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

from tests.support.postgres import Postgres
from tests.support.service import GOLDEN, Client
from ticdc_bridge.service.testing import running_service

tool: Any = import_module("tests.tools.registry_replay")

FIRST, SECOND, FOURTH = (f"confluent-8.5.0{part}.jsonl" for part in ("", ".part2", ".part3"))
THIRD = "json-protobuf.jsonl"
COUNTS = {FIRST: {8: 839, 7: 825}, SECOND: {8: 187, 7: 179}, THIRD: {8: 827, 7: 825}, FOURTH: {8: 92, 7: 92}}

# `/metrics` is ours; Confluent's community server has none.
NOT_COUNTED = {(SECOND, 79)}
# The schema of these has no text; the tool knows an answer with a schema by its text, and expects fields of 8.x here.
NOT_JUDGED_IN_7 = {(THIRD, 709), (THIRD, 711)}


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


def check(capture: str, profile: int, store: str | None = None) -> None:
    with running_service(store, profile=profile) as url:
        answers = list(replayed(GOLDEN / capture, url, profile))
    left_out = NOT_COUNTED | (NOT_JUDGED_IN_7 if profile == tool.SEVEN else set())
    counted = [answer for answer in answers if (capture, answer[0]["n"]) not in left_out]
    missed = {exchange["n"]: found for exchange, same, found in counted if not same}
    assert not missed
    assert len(counted) == COUNTS[capture][profile]


@pytest.mark.parametrize(
    ("capture", "profile"),
    [
        (FIRST, 8),
        (SECOND, 8),
        (THIRD, 8),
        (FOURTH, 8),
        (SECOND, 7),
        (FOURTH, 7),
        *(pytest.param(entry, 7, marks=pytest.mark.slow) for entry in (FIRST, THIRD)),
    ],
)
def test_replay(capture: str, profile: int) -> None:
    check(capture, profile)


@pytest.mark.parametrize(
    "capture", [pytest.param(FIRST, marks=pytest.mark.slow), SECOND, pytest.param(THIRD, marks=pytest.mark.slow)]
)
def test_replay_on_postgresql(capture: str, postgres: Postgres) -> None:
    check(capture, 8, postgres.database())


def test_texts_of_errors_about_protobuf(client: Client) -> None:
    """The tool does not compare what a parser says; here it is Confluent's to the letter."""
    _, exchanges = tool.read_capture(GOLDEN / THIRD)
    seen = 0
    for exchange in exchanges:
        if not (exchange["group"].startswith("protobuf-") or "st-protobuf" in exchange["path"]):
            continue
        body = exchange["req_body"].encode() if exchange["req_body"] else None
        answer = client.send(exchange["method"], exchange["path"], body, exchange["req_headers"])
        if exchange["status"] in (409, 422):
            seen += 1
            assert answer.body.decode() == exchange["resp_body"]
    assert seen == 21
