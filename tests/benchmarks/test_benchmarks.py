"""The harness: its figures, its CPU clock, its rows and its command line, with tiny sizes. Nothing is timed."""

import json
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from benchmarks import craft, json_formats, rows, sizes, spark_avro, spark_cases, spark_transcode
from benchmarks.__main__ import BENCHMARKS, main
from benchmarks.cpu import Stopwatch, tree_seconds
from benchmarks.figures import HEADER, Figure, Run
from ticdc_bridge.schemas.model.event import RowChange
from ticdc_bridge.spark_jobs.pipeline.codec_config import CodecConfig
from ticdc_bridge.spark_jobs.pipeline.message_codec import decode_message

SOURCES = (rows.customers(), rows.wide())


def test_ratio_says_how_many_times_better() -> None:
    assert Figure("cpu", 2.0, "us/row", "less", rival=8.0).ratio == 4
    assert Figure("rate", 2.0, "rows/s", "more", rival=8.0).ratio == 0.25
    assert Figure("alone", 2.0, "us/row", "less").ratio is None


def test_verdict_and_line() -> None:
    met, missed = (Figure("f", value, "us/row", "less", rival=20.0, target=10.0) for value in (2.0, 2.5))
    assert (met.verdict, missed.verdict) == ("ok", "short")
    assert met.line() == "f\t2\tus/row\t20\t10\t10\tok"
    assert Figure("f", 123456.7, "rows/s", "more").line() == "f\t123457\trows/s\t-\t-\t-\tok"
    assert len(met.line().split("\t")) == len(HEADER)


def test_cpu_counts_children_that_have_ended() -> None:
    burn = "import time\nwhile time.process_time() < 0.3: pass"
    with Stopwatch() as watch:
        subprocess.run([sys.executable, "-c", burn], check=True)
    assert watch.spent.cpu >= 0.25
    assert watch.spent.wall > 0
    assert tree_seconds() > 0


@pytest.mark.parametrize("source", SOURCES, ids=lambda s: s.name)
def test_rows_are_what_the_decoder_reads(source: rows.Source) -> None:
    decoder = CodecConfig("avro", source.schemas, rows.OPTIONS).decoder()
    ops, ids = set(), set()
    for made in rows.messages(source, range(300)):
        found = decode_message(decoder, made.message)
        assert found.error is None
        (event,) = found.events
        assert isinstance(event, RowChange)
        assert (event.op, event.before, event.after) == (made.event.op, made.event.before, made.event.after)
        ops.add(event.op)
        ids.add(event.schema_id)
    assert ops == {"c", "u", "d"}
    assert ids >= set(source.value_ids())
    assert list(rows.changes(source, range(7, 9))) == list(rows.changes(source, range(9)))[7:]


@pytest.mark.slow
@pytest.mark.parametrize("source", SOURCES, ids=lambda s: s.name)
def test_spark_avro(source: rows.Source, spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BRIDGE_CACHE", str(tmp_path))
    monkeypatch.setattr(spark_cases, "_WARM_UPS", 0)
    monkeypatch.setattr(spark_cases, "_QUICK_ROUNDS", 1)
    said: list[str] = []
    figures = list(spark_avro.run(source, Run(True, 200, said.append)))
    assert len({f.name for f in figures}) == len(figures)
    assert {f.target for f in figures} == {None, 10.0, 0.85}
    assert any("round 1 of 1: header" in line for line in said)


@pytest.mark.slow
def test_spark_transcodes(spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Ours and the rivals' give the same rows: the run checks it."""
    monkeypatch.setenv("BRIDGE_CACHE", str(tmp_path))
    monkeypatch.setattr(spark_cases, "_WARM_UPS", 0)
    monkeypatch.setattr(spark_cases, "_QUICK_ROUNDS", 1)
    for benchmark, targets in ((spark_transcode.avro_debezium, [0.8, 3.0]), (spark_transcode.debezium_avro, [1.2])):
        assert [f.target for f in benchmark(Run(True, 400, lambda _: None)) if f.target] == targets


def test_wrong_results_are_no_figures(spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The check compares with the generator: rows of another table's generator do not pass."""
    source = SOURCES[0]
    monkeypatch.setenv("BRIDGE_CACHE", str(tmp_path))
    cases = spark_avro._cases(spark, source, 200, lambda _: None, ("header",))
    right = rows.changes

    def shifted(of: rows.Source, numbers: range) -> object:
        return right(of, range(numbers.start + 1, numbers.stop + 1))

    monkeypatch.setattr(spark_avro, "changes", shifted)
    with pytest.raises(RuntimeError, match="the generator made"):
        spark_avro._check(source, cases)


def test_command_line(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    assert main(["--list"]) == 0
    assert [line.split("\t")[0] for line in capsys.readouterr().out.splitlines()] == [b.name for b in BENCHMARKS]
    for wrong in (["nothing"], ["--rows", "x"], ["--rows", "0"], ["--json", str(tmp_path / "no" / "f.json")]):
        with pytest.raises(SystemExit) as stopped:
            main(wrong)
        assert stopped.value.code == 2
    capsys.readouterr()
    short = Figure("one", 3.0, "us/row", "less", rival=6.0, target=10.0)
    fake = replace(BENCHMARKS[0], run=lambda run: iter([short]))
    monkeypatch.setattr("benchmarks.__main__.BENCHMARKS", (fake,))
    target = tmp_path / "figures.json"
    assert main([fake.name, "--quick", "--json", str(target)]) == 0  # a target that is missed is no failure
    out, err = capsys.readouterr()
    assert out == "one\t3\tus/row\t6\t2\t10\tshort\n"
    assert err.startswith("name\tvalue\tunit\t")
    assert json.loads(target.read_text())["figures"][0]["verdict"] == "short"


def test_craft_rival_and_kernels_give_the_same() -> None:
    """The run checks it: values and bytes are compared before anything counts."""
    figures = list(craft.run(Run(True, 300, lambda _: None)))
    rows = ["craft.decode.cpu-vs-python", "craft.encode.cpu-vs-python"]
    transcoded = [f"craft.transcode.{format_}.cpu-vs-messages" for format_ in ("avro", "debezium", "open")]
    assert [f.name for f in figures if f.target] == rows + transcoded


@pytest.mark.slow  # as Craft's, of more formats
def test_json_rival_and_kernels_give_the_same() -> None:
    figures = list(json_formats.run(Run(True, 200, lambda _: None)))
    assert [f.name for f in figures if f.target] == [f"json.{name}.cpu-vs-python" for name, *_ in json_formats.CASES]


def test_craft_has_the_classic_encoders_sizes() -> None:
    cases = sizes.cases()
    assert sizes.sizes("craft", cases["documents-1-row"])[0] == 301
    assert sizes.sizes("craft", cases["documents-4-rows"])[0] == 997
    assert all(f.verdict == "ok" for f in sizes.run(Run(True, None, lambda _: None)))
