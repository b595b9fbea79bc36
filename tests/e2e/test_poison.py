"""Poison of every format among good messages: each a dead letter, whole and with its reason; replay comes to an end."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.support.changes import Changes, change_of
from tests.support.poison import GOOD, poison, rows
from tests.support.streams import lines, received, send
from tests.ticdc_bridge.cli.test_encode import found, written
from ticdc_bridge.cli import main
from ticdc_bridge.clients.registry import HttpSchemas
from ticdc_bridge.schemas.inputs.dead_letters import ATTEMPT, DETAIL, ORIGIN, REASON
from ticdc_bridge.schemas.model.event import Message
from ticdc_bridge.service.testing import running_service

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from tests.support.kafka import Kafka

ERROR_HEADERS = (REASON, DETAIL, ORIGIN, ATTEMPT)


@pytest.fixture(autouse=True)
def _elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


@pytest.fixture
def servers(kafka: Kafka, spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("BRIDGE_BOOTSTRAP_SERVERS", kafka.bootstrap_servers)
    yield
    spark.catalog.clearCache()


def _headers_of(letter: Message) -> dict[str, str]:
    return {name: (value or b"").decode() for name, value in letter.headers if name in ERROR_HEADERS}


@pytest.mark.parametrize("format_", GOOD)
def test_of_one_format(format_: str) -> None:
    """By the decoder of the format: the expected reason, and the good messages as without it."""
    golden, bad = GOOD[format_], poison(format_)
    good = golden.messages()
    argv = ["decode", "--format", format_, "--schemas", str(golden.meta_file), "--ddl", str(golden.meta_file)]
    assert main([*argv, "--in", written(good), "--out", "good.jsonl"]) == 0
    marked = [replace(m, headers=((name, b"\x00\xff"), ("n", None))) for name, (m, _) in bad.items()]
    mixed = [*good[:2], *marked, *good[2:]]
    assert main([*argv, "--in", written(mixed), "--out", "rows.jsonl", "--dead-letter", "dead.jsonl"]) == 1
    out = [json.loads(line) for line in Path("rows.jsonl").read_text().splitlines()]
    assert [x for x in out if x["kind"] != "error"] == [
        json.loads(x) for x in Path("good.jsonl").read_text().splitlines()
    ]
    letters = found("dead.jsonl")
    assert [(m.key, m.value, m.headers[:2]) for m in letters] == [(m.key, m.value, m.headers) for m in marked]
    for letter, (name, (_, codes)) in zip(letters, bad.items(), strict=True):
        assert _headers_of(letter)[REASON] in codes, f"{name}: {_headers_of(letter)}"


@pytest.mark.usefixtures("servers")
@pytest.mark.slow
@pytest.mark.parametrize("attempts", [2, 3])
def test_of_every_format_in_one_stream(attempts: int, kafka: Kafka, capsys: pytest.CaptureFixture[str]) -> None:
    """And replayed until nothing goes any more: each message failed --max-attempts times, and none is lost."""
    source, dead = kafka.create_topic(partitions=2), kafka.create_topic()
    golden = GOOD["avro"]
    good = [m for format_ in ("avro", "open", "debezium") for m in rows(format_)[:3]]
    bad = {f"{f} {name}": entry for f in GOOD for name, (entry, _) in poison(f).items()}
    marked = [replace(m, headers=(("what", name.encode()), ("x", b"\x00\xff"))) for name, m in bad.items()]
    sent = [replace(m, partition=n % 2, timestamp=None) for n, m in enumerate([*good, *marked])]
    send(kafka, source, sent)
    argv = ["decode", "--format", "auto", "--schemas", str(golden.meta_file), "--ddl", str(golden.meta_file), "--in",
            f"kafka:{source}", "--out", "out", "--dead-letter", f"kafka:{dead}", "--stream", "--checkpoint", "c",
            "--trigger", "now"]  # fmt: skip
    assert main(argv) == 1
    letters = received(kafka, dead)
    failed = {dict(m.headers)["what"] for m in letters}
    in_topic = {dict(m.headers).get("what"): m for m in received(kafka, source)}
    assert len(letters) == len(failed) == sum(_counts(capsys.readouterr().err).values())
    assert len(lines("out")) >= len(good)
    read = {(x["partition"], x["offset"]) for x in lines("out")}
    for letter in letters:
        reported, before = _headers_of(letter), in_topic[dict(letter.headers)["what"]]
        assert (letter.key, letter.value, letter.headers[:2]) == (before.key, before.value, before.headers)
        assert reported[ORIGIN] == f"{source}/{before.partition}/{before.offset}"
        assert (reported[ATTEMPT], bool(reported[DETAIL])) == ("1", True)
        assert (before.partition, before.offset) not in read
    assert len(read) + len(letters) == len(sent)

    again = ["replay", "--in", f"kafka:{dead}", "--out", "kafka:", "--since", "2020-01-01", "--max-attempts"]
    codes = []
    for attempt in (*range(1, attempts + 1), attempts):
        codes.append(main([*again, str(attempts)]))
        err = capsys.readouterr().err
        assert f"replay: sent again {len(failed) if attempt < attempts else 0}\n" in err
        if attempt < attempts:
            assert main(argv) == 1
            assert sum(_counts(capsys.readouterr().err).values()) == len(failed)
    assert codes == [*[0] * (attempts - 1), 1, 1]
    assert f"failed too often {len(failed)}\n" in err
    assert "TOO_MANY_ATTEMPTS" in err
    tries = Counter(
        (dict(m.headers)["what"], dict(m.headers)[ATTEMPT], _headers_of(m)[ORIGIN]) for m in received(kafka, dead)
    )
    assert set(tries.values()) == {1}
    assert len(tries) == attempts * len(failed)


def _counts(err: str) -> dict[str, int]:
    """The reasons in the summary."""
    (line,) = [x for x in err.splitlines() if x.startswith("decode: errors ")]
    listed = line.partition("(")[2].rstrip(")")
    return {code: int(n) for code, _, n in (word.partition(" ") for word in listed.split(", "))}


def test_what_can_be_read_since_goes_through(capsys: pytest.CaptureFixture[str]) -> None:
    """A schema that was registered too late: its messages are replayed, once, however often; others stay."""
    golden = GOOD["avro"]
    good = [m for m in rows("avro") if m.value][:2]
    other = replace(good[0], value=b"\x07nope", offset=9)
    with running_service() as url:
        known, registered = HttpSchemas(url), golden.meta["registered_schemas"]
        argv = ["decode", "--format", "avro", "--registry", url, "--dead-letter", "dead.jsonl"]
        sent = [replace(m, partition=0, offset=n) for n, m in enumerate(good)]
        assert main([*argv, "--in", written([*sent, other]), "--out", "rows.jsonl"]) == 1
        assert [_headers_of(m)[REASON] for m in found("dead.jsonl")] == ["UNKNOWN_SCHEMA_ID"] * 2 + ["NOT_FRAMED"]
        for entry in sorted(registered, key=lambda item: int(item["id"])):
            assert known.id_of(entry["subject"], entry["schema"]) == entry["id"]
        letters = found("dead.jsonl")
        twice = written([*letters, *letters], "twice.jsonl")
        assert main(["replay", "--in", twice, "--out", "again.jsonl", "--reason", "UNKNOWN_SCHEMA_ID"]) == 0
        err = capsys.readouterr().err
        assert "sent again 2\n" in err
        assert "other reason NOT_FRAMED 2\n" in err
        assert "the same letter again 2\n" in err
        assert main([*argv, "--in", "again.jsonl", "--out", "rows.jsonl"]) == 0
    out = [json.loads(line) for line in Path("rows.jsonl").read_text().splitlines()]
    assert [(x["kind"], x["offset"]) for x in out] == [("row", 0), ("row", 1)]


MODES = {
    "here": ["--out", "out.jsonl"], "spark": ["--spark", "--master", "local[2]", "--out", "out.jsonl"],
    "delta": ["--out", "delta:out"], "stream": ["--out", "out", "--stream", "--checkpoint", "c", "--trigger", "now"],
}  # fmt: skip
_SLOW = ("spark", "delta")  # as the stream, which runs in Spark too


@pytest.mark.usefixtures("servers")
@pytest.mark.parametrize("mode", [pytest.param(m, marks=pytest.mark.slow) if m in _SLOW else m for m in MODES])
def test_on_error(mode: str, kafka: Kafka, spark: SparkSession, capsys: pytest.CaptureFixture[str]) -> None:
    """fail: nothing is written, nothing committed, exit code 2. drop: counted, 0. dead-letter: kept, 1."""
    source, changes = kafka.create_topic(partitions=2), Changes(poison=3)
    send(kafka, source, changes.lot(10))
    argv = ["decode", "--format", "open", "--ddl", str(changes.ddl(Path("ddl.jsonl"))), "--in", f"kafka:{source}"]
    argv += MODES[mode]
    out = Path(argv[argv.index("--out") + 1].removeprefix("delta:"))
    assert main([*argv, "--on-error", "fail"]) == 2
    err = capsys.readouterr().err
    assert "error STOPPED: stopped at " in err
    assert "NOT_FRAMED" in err
    assert not out.exists()
    assert list(Path().glob("c/spark/commits/[0-9]*")) == []
    if mode == "stream":
        argv[argv.index("c")] = "c2"
    assert main([*argv, "--on-error", "drop"]) == 0
    err = capsys.readouterr().err
    assert "decode: errors 3 (NOT_FRAMED 3)\n" in err
    assert "decode: dropped 3 of the messages with errors" in err
    assert list(Path().glob("*dead*")) == []
    assert _rows(mode, out, spark) == Counter(changes.made)
    if mode == "stream":
        argv[argv.index("c2")] = "c3"
    argv[argv.index("--out") + 1] += "2"
    assert main([*argv, "--on-error", "dead-letter", "--dead-letter", f"kafka:{kafka.topic_name('dead')}"]) == 1
    assert "decode: errors 3 (NOT_FRAMED 3)\n" in capsys.readouterr().err
    assert _rows(mode, out.with_name(out.name + "2"), spark) == Counter(changes.made)


def _rows(mode: str, out: Path, spark: SparkSession) -> Counter[tuple[int, str, int, str | None]]:
    if mode == "stream":
        found = lines(out)
    elif mode == "delta":
        rows = spark.read.format("delta").load(str(out.absolute())).collect()
        found = [row.asDict(recursive=True) for row in rows]
    else:
        found = [json.loads(line) for line in out.read_text().splitlines()]
    return Counter(change_of(line) for line in found if line["kind"] == "row")
