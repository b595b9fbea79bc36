"""`merge --openlineage`: events as OpenLineage's own schemas have them, with topics, tables, columns and DDL."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from jsonschema import Draft202012Validator  # type: ignore[import-untyped]
from referencing import Registry, Resource

from tests.spark_jobs.lake.test_consistent import Feed
from tests.spark_jobs.lake.test_merge_schema_changes import messages
from tests.support.changes import POISON
from tests.support.golden import GOLDEN, ROOT
from tests.support.kafka import Kafka
from tests.support.lake_readers import delta_by_duckdb
from tests.support.streams import send
from ticdc_bridge.cli import main
from ticdc_bridge.spark_jobs.streaming.openlineage import LineageRun, _dataset_name

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_OURS = json.loads((ROOT / "docs" / "openlineage.json").read_text())
_SCHEMAS = [_OURS, *(json.loads(path.read_text()) for path in sorted((GOLDEN / "openlineage").glob("*.json")))]
_REGISTRY: Registry[Any] = Registry().with_resources((s["$id"], Resource.from_contents(s)) for s in _SCHEMAS)


@pytest.fixture(name="sent", autouse=True)
def _sent(monkeypatch: pytest.MonkeyPatch, spark: SparkSession, tmp_path: Path) -> Path:
    """The file that OpenLineage's client appends its events to."""
    del spark
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("OPENLINEAGE__TRANSPORT__TYPE", "file")
    monkeypatch.setenv("OPENLINEAGE__TRANSPORT__LOG_FILE_PATH", str(Path("events").absolute()))
    monkeypatch.setenv("OPENLINEAGE__TRANSPORT__APPEND", "true")
    return Path("events")


def _take(sent: Path) -> list[dict[str, Any]]:
    """The events since the last call, each held against the schemas that it and its facets name."""
    events = [json.loads(line) for line in sent.read_text().splitlines()]
    sent.unlink()
    for event in events:
        _check(event, event["schemaURL"])
        for owner in (event["run"], event["job"], *event["inputs"], *event["outputs"]):
            for facet in [*owner.get("facets", {}).values(), *owner.get("outputFacets", {}).values()]:
                _check(facet, facet["_schemaURL"])
    assert len({event["run"]["runId"] for event in events}) == 1
    return events


def _check(document: Any, url: str) -> None:
    Draft202012Validator({"$ref": url}, registry=_REGISTRY).validate(document)


def test_columns_of_a_renamed_and_a_masked_one(kafka: Kafka, sent: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Both names of a column are its sources, a masked one is said to be, DDL comes with the changes after it."""
    ddl = [(5, "CREATE TABLE t (id INT PRIMARY KEY, v VARCHAR(9), w VARCHAR(9))"),
           (12, "CREATE TABLE salaries (id INT PRIMARY KEY)"),
           (15, "ALTER TABLE t RENAME COLUMN v TO vv")]  # fmt: skip
    rows: list[dict[str, Any]] = [
        {"commit_ts": 10, "after": {"id": "1", "v": "a", "w": "x"}},
        {"commit_ts": 20, "after": {"id": "2", "vv": "b", "w": "y"}},
    ]
    made, topic = messages(ddl, rows), kafka.create_topic()
    argv = ["merge", "--format", "open", "--ddl", "ddl", "--in", f"kafka:{topic}", "--table", "d.t", "--stream"]
    argv += ["--out", "delta:t", "--changelog", "delta:log", "--mask", "w=sha256", "--checkpoint", "cp"]
    argv += ["--bootstrap-servers", kafka.bootstrap_servers, "--trigger", "now", "--job", "orders"]
    send(kafka, topic, made)
    assert main([*argv, "--openlineage", "lakes"]) == 0
    begin, batch, end = _take(sent)
    assert [event["eventType"] for event in (begin, batch, end)] == ["START", "RUNNING", "COMPLETE"]
    assert (batch["job"]["namespace"], batch["job"]["name"]) == ("lakes", "orders")
    broker = f"kafka://{kafka.bootstrap_servers}"
    assert [(entry["namespace"], entry["name"]) for entry in batch["inputs"]] == [(broker, topic)]
    facet = batch["run"]["facets"]["ticdcBridge_microBatch"]
    assert (facet["messages"], facet["failed"], facet["oldestCommitTs"], facet["newestCommitTs"]) == (2, 0, "10", "20")
    assert [statement["query"] for statement in facet["statements"]] == [ddl[2][1]]
    current, log = batch["outputs"]
    assert (current["namespace"], current["name"]) == ("file", str(Path("t").absolute()))
    assert log["name"] == str(Path("log").absolute())
    assert current["outputFacets"]["outputStatistics"]["rowCount"] == 2
    types = {entry["name"]: entry["type"] for entry in current["facets"]["schema"]["fields"]}
    assert types == {"id": "int", "vv": "string", "w": "string", "_commit_ts": "bigint"}
    sources = current["facets"]["columnLineage"]["fields"]
    found = {name: [entry["field"] for entry in fields["inputFields"]] for name, fields in sources.items()}
    assert found == {"id": ["id"], "vv": ["vv", "v"], "w": ["w"]}
    assert {n: f["inputFields"][0]["transformations"][0]["masking"] for n, f in sources.items()} == {
        "id": False, "vv": False, "w": True
    }  # fmt: skip
    assert {"vv", "w"} <= log["facets"]["columnLineage"]["fields"].keys()
    send(kafka, topic, [POISON])
    assert main([*argv, "--openlineage", "lakes", "--on-error", "fail"]) == 2
    begin, end = _take(sent)
    assert (begin["eventType"], end["eventType"]) == ("START", "FAIL")
    assert "micro-batch 1" in end["run"]["facets"]["errorMessage"]["message"]
    assert main(["merge", *argv[1:7], "--table", "d.t", "--out", "delta:t", "--openlineage", "lakes"]) == 2
    assert "--openlineage NAMESPACE goes with --stream" in capsys.readouterr().err


@pytest.mark.slow
def test_many_tables(kafka: Kafka, sent: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Each with its own topic, by Spark's MERGE and directly."""
    feed = Feed(kafka, "delta:lake/{schema}/{table}", "--reader-features", "full", "--openlineage", "lakes")
    for number in range(2):
        feed.send(9)
        assert feed.merge() == 0
        assert capsys.readouterr().err.count("merged directly") == 2 * number
        _, batch, _ = _take(sent)
        assert {entry["name"].rsplit("/", 1)[1] for entry in batch["outputs"]} == {"orders", "items"}
        for entry in batch["outputs"]:
            name = entry["name"].rsplit("/", 1)[1]
            fields = entry["facets"]["columnLineage"]["fields"]
            assert {source["name"] for field in fields.values() for source in field["inputFields"]} == {
                feed.topics[name]
            }
            assert entry["outputFacets"]["outputStatistics"]["rowCount"] > 0


@pytest.mark.slow
def test_what_can_not_be_sent(
    kafka: Kafka, sent: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The rows are written, once: no catalog, and no transport, ends the job. One that is configured wrongly does."""
    feed = Feed(kafka, "delta:lake/{schema}/{table}", "--openlineage", "lakes")
    feed.send(9)
    monkeypatch.setattr(LineageRun, "_datasets_of", _fail)
    assert feed.merge() == 0
    assert "OpenLineage was not sent: OSError: at http://***@h" in capsys.readouterr().err
    assert [event["eventType"] for event in _take(sent)] == ["START", "COMPLETE"]
    Path("events").mkdir()
    feed.send(9)
    assert feed.merge() == 0
    assert capsys.readouterr().err.count("warning: an event of OpenLineage was not sent") == 3
    for name, changes in feed.tables.items():
        rows = delta_by_duckdb(Path("lake/shop", name).absolute())
        assert {row["id"]: str(row["total"]) for row in rows} == changes.table
    monkeypatch.setenv("OPENLINEAGE__TRANSPORT__TYPE", "nosuch")
    assert feed.merge() == 2
    assert "error USAGE: --openlineage: its client" in capsys.readouterr().err


def _fail(*_: object) -> Any:
    raise OSError("at http://u:secret@h")


@pytest.mark.parametrize(
    ("folder", "name"),
    [
        ("/lake/a#b/t?/", ("file", "/lake/a#b/t?")), ("file:/lake/t", ("file", "/lake/t")),
        ("s3a://KEY:SECRET@bucket/lake/t", ("s3://bucket", "lake/t")),
        ("hdfs://h:8020/lake", ("hdfs://h:8020", "/lake")),
        ("abfs://c@a.dfs.core.windows.net/t", ("abfs://c@a.dfs.core.windows.net", "t")),
    ],
)  # fmt: skip
def test_names_of_datasets(folder: str, name: tuple[str, str]) -> None:
    assert _dataset_name(folder) == name


def test_the_extra_is_not_installed(
    kafka: Kafka, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.delitem(sys.modules, "ticdc_bridge.spark_jobs.streaming.openlineage", raising=False)
    monkeypatch.setitem(sys.modules, "openlineage.client", None)
    feed = Feed(kafka, "delta:lake/{schema}/{table}", "--openlineage", "lakes")
    assert feed.merge() == 2
    assert "pip install '.[openlineage]'" in capsys.readouterr().err
