"""`--file JOB.toml` and `--topics`: what they stand for on the command line."""

import re
from pathlib import Path
from typing import Any

import pytest

from tests.support.command_line import parse_job
from tests.support.table import check_rows
from ticdc_bridge.cli import main
from ticdc_bridge.clients.kafka import TopicChoice, number_sources
from ticdc_bridge.schemas.model.errors import SetupError
from ticdc_bridge.spark_jobs.io.locations import topics_of_location
from ticdc_bridge.spark_jobs.pipeline.table_choice import TableChoice, TableLayout, TableOutput

JOB = """\
source = "kafka:shop"
format = "simple"
tables = ["shop.*", "!shop.tmp_*"]
target = "delta:/lake/{schema}/{table}"
trigger = "30s"
conf = ["spark.a=1", "spark.b=2"]
[merge]
at_once = 8
stream = true
checkpoint = "cp"
[transcode]
to = "avro"
topic = "t_{schema}"
[[table]]
name = "shop.orders"
target = "delta:/lake/orders"
[[table]]
name = "shop.a*"
partition_by = ["region", "day"]
"""
_COMMON = {"source": "kafka:shop", "tables": ["shop.*", "!shop.tmp_*"], "trigger": "30s"}
# command line → what it gives
COMMANDS: list[tuple[str, dict[str, Any]]] = [
    ("merge --file job.toml", {**_COMMON, "format": "simple", "at_once": 8, "stream": True, "checkpoint": "cp"}),
    ("merge --file=job.toml --trigger 5s --at-once=2", {"trigger": "5s", "at_once": 2, "source": "kafka:shop"}),
    ("merge --file job.toml --topics a", {"source": "kafka:/a/"}),
    ("merge --file job.toml --tables a.b", {"tables": ["a.b"]}),
    ("merge --file job.toml --table shop.items", {"table": "shop.items", "tables": []}),
    ("decode --file job.toml", {**_COMMON, "format": "simple", "out": "delta:/lake/{schema}/{table}"}),
    (
        "transcode --file job.toml --out kafka:",
        {"format": "simple", "to": "avro", "topic": "t_{schema}", "out": "kafka:"},
    ),
]
# TOML → what the error says
WRONG = [
    ("sourse = 'x'", "did you mean source"),
    ("formatt = 'open'", "did you mean format"),
    ("[mergee]\nstream = true", r"did you mean \[merge\]"),
    ("stream = 'yes'", "stream is true or false"),
    ("tables = [1, true]", "a text, a number or a list"),
    ("tables = {a = 1}", "a text, a number or a list"),
    ("a = 1\nb = =", "line 2"),
    ("merge = 1", r"\[merge\]"),
    ("[table]\nname = 'a.b'", r"\[\[table\]\]"),
    ("[[table]]\nname = 'a.b'", "needs a name"),
    ("[[table]]\nname = 'a'\ntarget = 'delta:x'", "a dot is missing"),
    ("[[table]]\nname = 'a.b'\ntarget = 'x'", "delta:PATH is needed"),
    ("[[table]]\nname = 'a.b'\ncluster_by = 7", "a list of columns"),
    ("[[table]]\nname = 'a.b'\ntarget = 'delta:x'\ncolour = 1", "colour"),
]


def test_job_files() -> None:
    Path("job.toml").write_text(JOB)

    def check(entry: tuple[str, dict[str, Any]]) -> None:
        args = vars(parse_job(entry[0].split()))
        assert {name: args[name] for name in entry[1]} == entry[1]
        assert args["outputs"] == (
            TableOutput(TableChoice(("shop.orders",)), "delta:/lake/orders"),
            TableOutput(TableChoice(("shop.a*",)), None, TableLayout(("region", "day"), ())),
        )

    check_rows(COMMANDS, check)


def test_job_files_that_are_wrong(capsys: pytest.CaptureFixture[str]) -> None:
    def check(entry: tuple[str, str]) -> None:
        Path("bad.toml").write_text(entry[0])
        assert main("merge --format open --in x --out delta:y --file bad.toml".split()) == 2
        assert re.search(f"error USAGE: .*{entry[1]}", capsys.readouterr().err)

    check_rows(WRONG, check)
    assert main(["merge", "--file", "none.toml"]) == 2
    assert capsys.readouterr().err == "error USAGE: --file none.toml: No such file or directory\n"


# location → (named, taken, not taken)
TOPICS: list[tuple[str, tuple[str, ...], list[str], list[str]]] = [
    ("kafka:a", ("a",), ["a"], ["b", "aa"]),
    ("kafka:b,a,b", ("a", "b"), ["a", "b"], ["c", "a,b"]),
    ("kafka:/tidb_.*/", (), ["tidb_a", "tidb_"], ["xtidb_a", "__tidb_a"]),
    ("kafka:/(a|b)[0-9]{1,2}/", (), ["a1", "b22"], ["a", "c1", "a1x"]),
    ("kafka:/.*/", (), ["x"], ["__consumer_offsets"]),
]


def test_topics() -> None:
    def check(entry: tuple[str, tuple[str, ...], list[str], list[str]]) -> None:
        topics = topics_of_location(entry[0])
        assert topics is not None
        assert topics.names == entry[1]
        assert [name for name in entry[2] + entry[3] if topics.takes(name)] == entry[2]

    check_rows(TOPICS, check)
    assert topics_of_location("some/file") is None
    with pytest.raises(SetupError, match="not a regular expression"):
        TopicChoice("/(/")
    args = parse_job(["decode", "--format", "open", "--topics", "tidb_.*"])
    assert args.source == "kafka:/tidb_.*/"


def test_sources_keep_their_numbers() -> None:
    first = number_sources({"b": 2, "a": 1}, [])
    assert first == [("a", 0), ("b", 0), ("b", 1)]
    assert number_sources({"a": 2, "aa": 1, "b": 2}, first) == [*first, ("a", 1), ("aa", 0)]
    with pytest.raises(SetupError, match="32768 at most"):
        number_sources({"a": 40_000}, [])
