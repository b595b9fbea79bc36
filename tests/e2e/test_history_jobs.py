"""`--history URL` in every job, with a real service: encode, verify and explain; merge and decode as streams."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.support.golden import Golden
from tests.support.history_events import T0, framed, record
from tests.support.processes import until
from tests.support.streams import delta_rows, lines, run_while, send
from tests.ticdc_bridge.cli.test_encode import found, numbered, written
from tests.ticdc_bridge.clients.test_history import CREATE, STEP, _given, _row, _track
from ticdc_bridge.cli import main
from ticdc_bridge.schemas.model.event import Message
from ticdc_bridge.service.testing import running_service

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from tests.support.kafka import Kafka

OPEN = Golden("open", "evolution.default")
ZONE = ["--time-zone", "Asia/Shanghai", "--ddl-time-zone", "Asia/Shanghai"]


@pytest.fixture
def url(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    monkeypatch.chdir(tmp_path)
    with running_service(f"sqlite:///{tmp_path / 'registry.db'}") as url:
        yield url


@pytest.fixture
def file(url: str) -> str:
    """The golden's DDL as a file for --ddl; the service has it too."""
    _given(url, OPEN)
    steps = [s for s in OPEN.meta["steps"] if s["kind"] == "ddl"]
    reported = [{"commit_ts": s["commit_ts"], "db": s["schema"], "query": s["sql"], "typed": True} for s in steps]
    Path("ddl.jsonl").write_text("".join(json.dumps(entry) + "\n" for entry in reported))
    return "ddl.jsonl"


def only_rows() -> list[Message]:
    """Rows alone: no DDL in the stream defines their tables."""
    decoder = OPEN.side(ddl=True).decoder()
    return [m for m in numbered(OPEN) if [e for e in decoder.decode(m) if hasattr(e, "op")]]


def test_encode_and_verify(url: str, file: str, capsys: pytest.CaptureFixture[str]) -> None:
    """The same messages as with the DDL in a file, on both sides of each ALTER; verify sees them, and sees a change."""
    given, asked = ["--ddl", file], ["--history", url]
    source = written(only_rows())
    assert main(["decode", "--format", "open", "--in", source, *given, *ZONE, "--out", "rows.jsonl"]) == 0
    for name, tables in (("given", given), ("asked", asked)):
        argv = ["encode", "--to", "debezium", "--in", "rows.jsonl", *tables, *ZONE, "--out", f"{name}.jsonl"]
        assert main(argv) == 0
    # ts_ms is the time of writing
    assert [_timeless(m) for m in found("asked.jsonl")] == [_timeless(m) for m in found("given.jsonl")] != []
    argv = ["verify", "--from", "open", "--in", source, "--to", "debezium", *asked, *ZONE, "--format-out", "json"]
    capsys.readouterr()
    assert main([*argv, "--against", "asked.jsonl", "--lineage", url, "--job", "check"]) == 0
    report = json.loads(capsys.readouterr().out)
    assert report["rows"] == [len(found("asked.jsonl"))] * 2
    edges = _lineage(url, "check")
    assert {(e["db"], e["command"], e["target"]) for e in edges} == {("test", "verify", "asked.jsonl")}
    assert sum(e["rows"] for e in edges) == 2 * report["rows"][0]
    assert all(e["table_version"] for e in edges)
    assert main([*argv, "--against", written(found("asked.jsonl")[1:], "cut.jsonl")]) == 1
    assert json.loads(capsys.readouterr().out)["differences"] == {"missing": 1}


def _timeless(message: Message) -> bytes:
    return re.sub(rb'"ts_ms":\d+', b"", message.value or b"")


def _lineage(url: str, job: str) -> Any:
    from urllib.request import urlopen

    with urlopen(f"{url}/lineage?job={job}", timeout=30) as answer:
        return json.loads(answer.read())


def test_explain(url: str, file: str, capsys: pytest.CaptureFixture[str]) -> None:
    source = written(only_rows())
    reported = []
    for tables in (["--ddl", file], ["--history", url]):
        assert main(["explain", f"{source}#3", *tables, *ZONE, "--format-out", "json"]) == 0
        reported.append(json.loads(capsys.readouterr().out))
    assert reported[0] == reported[1]
    assert main(["explain", f"{source}#3", *ZONE, "--format-out", "json"]) == 0
    assert json.loads(capsys.readouterr().out) != reported[0]


def test_replay_tells_its_lineage(url: str) -> None:
    letter = Message(b"k", b"v", "dead", 0, 0, 1, (("bridge.reason", b"MALFORMED"), ("bridge.origin", b"orders/0/7")))
    argv = ["replay", "--in", written([letter]), "--out", "again.jsonl", "--lineage", url, "--job", "again"]
    assert main(argv) == 0
    (edge,) = _lineage(url, "again")
    assert (edge["topic"], edge["rows"], edge["command"], edge["target"]) == ("orders", 1, "replay", "again.jsonl")


@pytest.fixture
def bootstrap(kafka: Kafka, spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("BRIDGE_BOOTSTRAP_SERVERS", kafka.bootstrap_servers)
    yield
    spark.catalog.clearCache()


def _renamed(ts: int, id_: int, total: str) -> Message:
    """A row of the table after its column `total` became `sum`."""
    row = {"id": {"t": 8, "h": True, "f": 139, "v": id_}, "sum": {"t": 246, "f": 65, "v": total}}
    row["at"] = {"t": 7, "f": 65, "v": "2026-01-02 03:04:05"}
    return Message(*framed({"ts": ts, "scm": "shop", "tbl": "orders", "t": 1}, json.dumps({"u": row}).encode()), "t", 0)


@pytest.mark.usefixtures("bootstrap")
@pytest.mark.parametrize("command", ["decode", pytest.param("merge", marks=pytest.mark.slow)])
def test_a_stream_waits_for_the_tracker(
    url: str, command: str, kafka: Kafka, spark: SparkSession, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A row above the sealed history is not guessed: with little patience the stream ends, later it goes on."""
    source = kafka.create_topic()
    _track(tmp_path, [record(T0, "shop", "orders", CREATE)], T0 + STEP)
    first, second = _row(T0 + STEP, 1, "1.50"), _renamed(T0 + 3 * STEP, 2, "2.50")
    send(kafka, source, [replace(first, topic=None), replace(second, topic=None)])
    target = {"decode": ["--out", "out"], "merge": ["--table", "shop.orders", "--out", "delta:orders"]}[command]
    argv = [command, "--format", "open", "--history", url, "--ddl-time-zone", "UTC", "--time-zone", "UTC", "--in",
            f"kafka:{source}", "--stream", "--checkpoint", "c", "--max-per-batch", "1", *target]  # fmt: skip
    assert main([*argv, "--trigger", "now", "--patience", "500ms"]) == 2
    assert "HISTORY_BEHIND" in capsys.readouterr().err
    assert [p.name for p in sorted(Path("c/spark/commits").glob("[0-9]*"))] == ["0"]

    def written_rows() -> list[tuple[int, str]]:
        if command == "decode":
            return [(int(x["after"]["id"]), str(x["table_version"])) for x in lines("out")]
        with suppress(Exception):  # a version of the table between two
            return sorted((int(r["id"]), str(r["sum"])) for r in delta_rows(spark, tmp_path / "orders"))
        return []

    def seal() -> None:
        rename = record(T0 + 2 * STEP, "shop", "orders", "ALTER TABLE orders RENAME COLUMN total TO sum")
        _track(tmp_path, [rename], T0 + 5 * STEP)
        until(lambda: len(written_rows()) == 2, "both rows are written")

    assert run_while([*argv, "--trigger", "200ms"], seal) == 0
    expected = [str(T0), str(T0 + 2 * STEP)] if command == "decode" else ["1.50", "2.50"]
    assert written_rows() == [(1, expected[0]), (2, expected[1])]
