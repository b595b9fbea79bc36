"""--verify-checksum and explain by command line; formats that Spark must not split."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.support.golden import Golden
from ticdc_bridge.cli import main

if TYPE_CHECKING:
    from tests.support.kafka import Kafka

AVRO = Golden("avro", "checksum.checksum")
MISMATCH = "message 6, tidb_test_ck/-/- test.ck: checksum of after: the message says 1774657757"


def _verify(golden: Golden, out: Path, *more: str) -> list[str]:
    return ["decode", "--format", golden.format, "--in", str(golden.messages_file), "--out", str(out),
            "--schemas", str(golden.meta_file), "--verify-checksum", *more]  # fmt: skip


def test_mismatch_is_a_flag_a_line_a_count_and_exit_code_1(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The golden's last row was summed in table order, which its Avro schema does not tell."""
    assert main(_verify(AVRO, tmp_path / "out.jsonl")) == 1
    err = capsys.readouterr().err
    assert MISMATCH in err
    assert "checksums 6 (absent 1, id 4, mismatch 1)" in err
    lines = [json.loads(x) for x in (tmp_path / "out.jsonl").read_text().splitlines()]
    assert [x["flags"] for x in lines] == [[], [], [], [], [], ["checksum_mismatch:after"]]
    assert lines[0]["extra"]["checksum"]["current"] == 2696961623


def test_the_order_that_matched_is_counted(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    simple = Golden("simple", "checksum.json.checksum")
    assert main(_verify(AVRO, tmp_path / "out", "--ddl", str(simple.meta_file))) == 0
    assert "checksums 6 (absent 1, id 4, table 1)" in capsys.readouterr().err
    assert main(_verify(simple, tmp_path / "out")) == 0
    assert "checksums 9 (table 9)" in capsys.readouterr().err
    canal = Golden("canal-json", "pk_int.ext")
    assert main(_verify(canal, tmp_path / "out")) == 0
    assert "checksums 7 (absent 7)" in capsys.readouterr().err


def test_not_asked_for_is_not_checked(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    argv = [x for x in _verify(AVRO, tmp_path / "out") if x != "--verify-checksum"]
    assert main(argv) == 0
    assert "checksum" not in capsys.readouterr().err


def test_a_zone_that_is_not_given_is_reported(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A TIMESTAMP is summed in UTC, and Avro does not say which zone its text is in."""
    (tmp_path / "schemas.jsonl").write_text("\n".join(map(json.dumps, AVRO.meta["registered_schemas"])))
    argv = _verify(AVRO, tmp_path / "out")
    argv[argv.index("--schemas") + 1] = str(tmp_path / "schemas.jsonl")
    assert main(argv) == 1
    err = capsys.readouterr().err
    assert "--time-zone is not given" in err
    assert "mismatch 4" in err
    assert main([*argv, "--time-zone", AVRO.zone]) == 1
    err = capsys.readouterr().err
    assert "--time-zone" not in err
    assert "mismatch 1" in err


@pytest.mark.usefixtures("spark")
def test_spark_verifies_too(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(_verify(AVRO, tmp_path / "out", "--spark")) == 1
    err = capsys.readouterr().err
    assert MISMATCH in err
    assert "checksums 6 (absent 1, id 4, mismatch 1)" in err
    assert main(_verify(AVRO, tmp_path / "plain")) == 1
    assert (tmp_path / "out").read_bytes() == (tmp_path / "plain").read_bytes()


@pytest.mark.parametrize("format_", ["simple", "auto"])
def test_spark_does_not_split_what_must_be_read_in_order(
    format_: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    golden = Golden("simple", "pk_int.json")
    argv = ["decode", "--spark", "--format", format_, "--in", str(golden.messages_file), "--out", str(tmp_path / "out")]
    assert main(argv) == 2
    assert "may need earlier messages" in capsys.readouterr().err
    assert not (tmp_path / "out").exists()


# ---- explain
@pytest.mark.slow
def test_explain_of_a_kafka_message(kafka: Kafka, capsys: pytest.CaptureFixture[str]) -> None:
    from confluent_kafka import Producer

    golden = Golden("canal-json", "pk_int.ext")
    topic = kafka.create_topic(partitions=2)
    producer = Producer({"bootstrap.servers": kafka.bootstrap_servers})
    for message in golden.messages():
        producer.produce(topic, message.value, partition=1)
    assert producer.flush(60) == 0
    servers = ["--bootstrap-servers", kafka.bootstrap_servers, "--format-out", "json"]
    answers: list[dict[str, Any]] = []
    for location in (f"{topic}@1:4", f"kafka:{topic}@1:4"):
        assert main(["explain", location, *servers]) == 0
        answers.append(json.loads(capsys.readouterr().out))
    assert answers[0] == answers[1]
    assert (answers[0]["message"]["partition"], answers[0]["message"]["offset"]) == (1, 4)
    assert answers[0]["events"][0]["op"] == "u"
    for position, reported in ((f"{topic}@1:99", "offsets 0 to 8, not 99"), (f"{topic}@7:0", "no partition 7")):
        assert main(["explain", position, *servers]) == 2
        assert reported in capsys.readouterr().err
