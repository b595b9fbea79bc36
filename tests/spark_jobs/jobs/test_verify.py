"""`verify`: a topic and its transcode are the same but for the known losses; anything else is told."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.support.golden import Golden
from tests.support.table import check_rows
from tests.ticdc_bridge.cli.test_encode import found, numbered, row, written
from ticdc_bridge.cli import main
from ticdc_bridge.schemas.model.event import Message

WIDE = Golden("open", "wide.default")
META = str(WIDE.meta_file)
ZONE = ["--time-zone", "Asia/Shanghai"]


@pytest.fixture(autouse=True)
def _elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def transcoded(to: str) -> list[Message]:
    argv = ["transcode", "--from", "open", "--to", to, "--in", written(numbered(WIDE)), "--ddl", META, *ZONE]
    assert main([*argv, "--on-lossy", "flag", "--out", "m.jsonl"]) == 0
    return found("m.jsonl")


def verified(to: str, messages: list[Message], capsys: pytest.CaptureFixture[str]) -> tuple[int, dict[str, Any]]:
    capsys.readouterr()
    argv = ["verify", "--from", "open", "--in", written(numbered(WIDE)), "--to", to, "--ddl", META, *ZONE]
    code = main([*argv, "--against", written(messages, "against.jsonl"), "--format-out", "json"])
    return code, json.loads(capsys.readouterr().out)


@pytest.mark.parametrize("to", ["open", "craft", "debezium", "debezium-mysql"])
def test_a_transcode_is_the_same(to: str, capsys: pytest.CaptureFixture[str]) -> None:
    code, report = verified(to, transcoded(to), capsys)
    assert (code, report["verdict"], report["listed"]) == (0, "same", [])
    assert report["rows"][0] == report["rows"][1] == report["equal"] + report["with_expected_losses"]
    lossy = {
        "debezium": "debezium: DECIMAL that a double can't hold exactly",
        "debezium-mysql": "debezium-mysql: years below 100",
    }
    assert bool(report["expected_losses"]) == (to in lossy)
    assert to not in lossy or lossy[to] in report["expected_losses"]


def test_every_kind_of_difference_is_reported(capsys: pytest.CaptureFixture[str]) -> None:
    messages = transcoded("debezium")
    rows = [n for n, m in enumerate(messages) if b'"op":"c"' in (m.value or b"")]

    def kinds(changed: list[Message]) -> dict[str, int]:
        code, report = verified("debezium", changed, capsys)
        assert code == 1
        counted: dict[str, int] = report["differences"]
        return counted

    cut = replace(messages[rows[0]], value=b"{")
    assert kinds([*messages[: rows[0]], cut, *messages[rows[0] + 1 :]]) == {"error": 1, "missing": 1}
    assert kinds([m for n, m in enumerate(messages) if n != rows[1]]) == {"missing": 1}
    value = json.loads(messages[rows[0]].value or b"")
    text = next(k for k, v in value["payload"]["after"].items() if isinstance(v, str) and "varchar" in k)
    value["payload"]["after"][text] = "changed"
    damaged = replace(messages[rows[0]], value=json.dumps(value).encode())
    assert kinds([*messages[: rows[0]], damaged, *messages[rows[0] + 1 :]])["value"] == 1
    assert verified("debezium", [*messages, messages[rows[0]]], capsys)[1]["repeated"] == [0, 1]


def test_the_order_of_a_key_is_compared(capsys: pytest.CaptureFixture[str]) -> None:
    messages = transcoded("debezium")
    code, report = verified("debezium", list(reversed(messages)), capsys)
    assert code == 1
    assert set(report["differences"]) == {"order"}


def test_a_row_checksum_that_differs_is_reported(capsys: pytest.CaptureFixture[str]) -> None:
    golden = Golden("avro", "checksum.checksum")
    common = ["--schemas", str(golden.meta_file), "--ddl", str(golden.meta_file), *ZONE]
    argv = ["verify", "--from", "avro", "--to", "avro", *common, "--in", str(golden.messages_file)]
    assert main([*argv, "--against", str(golden.messages_file)]) in (0, 1)
    assert "checksums" in capsys.readouterr().out


def test_what_cannot_be_read_is_wrong_usage() -> None:
    argv = ["verify", "--from", "open", "--to", "open", "--in", "no.jsonl"]
    assert main([*argv, "--against", str(WIDE.messages_file)]) == 2


def test_rows_without_a_key_meet_by_their_values(capsys: pytest.CaptureFixture[str]) -> None:
    """Equal rows are rows of their own, and those of one transaction have no order."""
    Path("ddl").write_text(json.dumps({"commit_ts": 1, "db": "d", "query": "CREATE TABLE t (v varchar(9))"}))
    rows = [row(offset=n, key=[], after={"v": v}) for n, v in enumerate(("a", "b", "a"))]

    def encoded(lines: list[dict[str, Any]], name: str) -> str:
        Path("l").write_text("".join(json.dumps(line) + "\n" for line in lines))
        assert main(["encode", "--to", "open", "--in", "l", "--out", name, "--ddl", "ddl"]) == 0
        return name

    argv = ["verify", "--from", "open", "--to", "open", "--ddl", "ddl", "--in", encoded(rows, "one.jsonl")]
    assert main([*argv, "--against", encoded(rows[::-1], "two.jsonl")]) == 0
    assert main([*argv, "--against", encoded(rows[1:], "two.jsonl")]) == 1
    assert "differences 1 (missing 1)" in capsys.readouterr().out


COLUMNS = (
    "c timestamp NULL, u bigint unsigned, d decimal(65,30), day date, s varchar(9), f float, y date, e enum('a','b')"
)
FAITHFUL = {
    "id": "1", "c": "2020-05-05 00:00:00", "u": "18446744073709551615", "d": f"0.1{'0' * 28}1",
    "day": "0000-00-00", "s": {"hex": "e9"}, "f": "1.5", "y": "0069-01-01", "e": "b",
}  # fmt: skip


_NOT_EXCUSED: list[tuple[str, dict[str, Any]]] = [
    ("debezium", {"c": "2021-06-06 00:00:00"}), ("open", {"c": "2020-05-05 01:00:00"}), ("avro", {"c": None}),
    ("debezium", {"u": None}), ("debezium", {"u": "1"}), ("debezium", {"d": None}),
    ("debezium", {"d": f"0.2{'0' * 29}"}),
    ("debezium", {"day": "2024-01-01"}), ("debezium", {"s": None}), ("debezium", {"s": "x"}),
    ("craft", {"f": None}), ("craft", {"f": "2.5"}), ("debezium", {"y": "2070-01-01"}), ("open", {"e": "a"}),
]  # fmt: skip


def test_a_loss_excuses_only_what_it_makes_of_a_value(capsys: pytest.CaptureFixture[str]) -> None:
    """What a format is known to change is no licence for any other value in its place."""

    def check(case: tuple[str, dict[str, Any]]) -> None:
        format_, changed = case
        code, report = _two_rows(row(after=FAITHFUL), row(format=format_, after={**FAITHFUL, **changed}), capsys)
        assert (code, report["differences"]) == (1, {"value": 1})
        assert [found["column"] for found in report["listed"]] == list(changed)
        code, report = _two_rows(row(format=format_, after={**FAITHFUL, **changed}), row(after=FAITHFUL), capsys)
        assert (code, report["differences"]) == (1, {"value": 1})

    check_rows(_NOT_EXCUSED, check)


_EXPECTED: list[tuple[str, dict[str, Any]]] = [
    ("debezium", {"u": "-1"}), ("debezium", {"d": f"0.1{'0' * 29}"}), ("debezium", {"day": None}),
    ("debezium", {"s": "\ufffd"}), ("debezium", {"day": "1970-01-01"}), ("debezium", {"y": "2069-01-01"}),
]  # fmt: skip


def test_what_a_loss_makes_of_a_value_is_expected(capsys: pytest.CaptureFixture[str]) -> None:
    def check(case: tuple[str, dict[str, Any]]) -> None:
        format_, changed = case
        code, report = _two_rows(row(after=FAITHFUL), row(format=format_, after={**FAITHFUL, **changed}), capsys)
        assert (code, report["differences"], report["with_expected_losses"]) == (0, {}, 1)
        assert sum(report["expected_losses"].values()) == 1

    check_rows(_EXPECTED, check)


_OF_EVENTS: list[tuple[str, dict[str, Any], dict[str, Any], dict[str, int]]] = [
    ("open", {}, {"op": "u", "before": FAITHFUL}, {"op": 1, "before": 1}), ("open", {}, {"op": "u"}, {}),
    ("avro", {}, {"after": {"id": "1"}}, {"value": 8}), ("open", {"op": "r"}, {"op": "u"}, {"op": 1}),
    ("open", {"op": "u"}, {}, {}), ("avro", {"op": "r"}, {}, {}),
    ("avro", {"op": "u", "before": FAITHFUL}, {"op": "u"}, {}),
    ("open", {"op": "u", "before": FAITHFUL}, {"op": "u"}, {"before": 1}),
    ("avro", {"op": "d", "before": FAITHFUL, "after": None}, {"op": "d", "before": {"id": "1"}, "after": None}, {}),
]  # fmt: skip


def test_a_loss_of_an_event_is_of_that_event_only(capsys: pytest.CaptureFixture[str]) -> None:
    def check(case: tuple[str, dict[str, Any], dict[str, Any], dict[str, int]]) -> None:
        format_, entry, two, kinds = case
        first = {"after": FAITHFUL, **entry}
        code, report = _two_rows(row(**first), row(format=format_, **{"after": first["after"], **two}), capsys)
        assert (code, report["differences"]) == (int(bool(kinds)), kinds)

    check_rows(_OF_EVENTS, check)


def _two_rows(
    entry: dict[str, Any], two: dict[str, Any], capsys: pytest.CaptureFixture[str]
) -> tuple[int, dict[str, Any]]:
    Path("ddl").write_text(json.dumps({"commit_ts": 1, "db": "d", "query": f"CREATE TABLE t (id int KEY, {COLUMNS})"}))
    for name, line in (("one", entry), ("two", two)):
        Path(name).write_text(json.dumps(line) + "\n")
    capsys.readouterr()
    argv = ["verify", "--from", "plain", "--to", "plain", "--in", "one", "--against", "two", "--ddl", "ddl"]
    code = main([*argv, "--format-out", "json"])
    return code, json.loads(capsys.readouterr().out)
