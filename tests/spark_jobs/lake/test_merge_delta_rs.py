"""`merge` by deltalake: the tables are those that delta-spark makes; and what is deltalake's own."""

from __future__ import annotations

import inspect
import json
import os
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake

from tests.spark_jobs.lake import test_merge, test_merge_schema_changes
from tests.spark_jobs.lake.test_merge import rows
from tests.spark_jobs.lake.test_merge_schema_changes import messages
from tests.ticdc_bridge.cli.test_encode import written
from ticdc_bridge.cli import main
from ticdc_bridge.schemas.model.errors import SetupError
from ticdc_bridge.spark_jobs.lake import tables
from ticdc_bridge.spark_jobs.lake.engines.delta_rs import Deltalake
from ticdc_bridge.spark_jobs.runtime import jars
from ticdc_bridge.spark_jobs.runtime.cache import cache_dir
from ticdc_bridge.spark_jobs.runtime.spark_settings import DEFAULT

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ROOT = Path(__file__).parents[3]
ENGINE = ("--engine", "deltalake")
SAME = (
    test_merge.test_columns_follow_the_history_and_the_newest_change_wins,
    test_merge_schema_changes.test_rows_get_the_values_of_their_columns_new_types,
    test_merge_schema_changes.test_names_in_other_letters,
    test_merge_schema_changes.test_a_table_that_is_dropped_and_brought_back,
)
"""Tests of merge that delta-spark alone runs in steps: here by deltalake. The others have the engine as a parameter."""


@pytest.mark.slow
@pytest.mark.parametrize("test", SAME, ids=lambda test: test.__name__.removeprefix("test_"))
def test_as_by_delta_spark(
    test: Callable[..., None], request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> None:
    merged = []

    def by_deltalake(argv: Sequence[str]) -> int:
        merged.append(argv[0])
        return main([*argv, *ENGINE] if argv[0] == "merge" else [*argv])  # the last --engine wins

    monkeypatch.setattr(sys.modules[test.__module__], "main", by_deltalake)
    names = inspect.signature(test).parameters
    test(**{name: "stepwise" if name == "how" else request.getfixturevalue(name) for name in names})
    assert "merge" in merged
    logs = list(Path().rglob("_delta_log/*.json"))
    assert logs
    assert all('"engineInfo":"delta-rs' in log.read_text() for log in logs)


TABLE = "CREATE TABLE t (`the id` int primary key, v varchar(9), w int)"


def _job(location: str, changes: list[dict[str, Any]], ddl: Sequence[str]) -> list[str]:
    """A merge of changes at commit_ts 5, 15, …; DDL at 1, 11, …"""
    key = [*(changes[0]["after"])][:1]
    made = messages(
        [(10 * n + 1, text) for n, text in enumerate(ddl)],
        [{"commit_ts": 10 * n + 5, "key": key, **change} for n, change in enumerate(changes)],
    )
    argv = ["merge", "--format", "open", "--table", "d.t", "--out", f"delta:{location}", "--ddl", "ddl"]
    return [*argv, "--in", written(made)]


def _merge(location: str, changes: list[dict[str, Any]], ddl: Sequence[str], *more: str) -> int:
    return main([*_job(location, changes, ddl), *more])


@pytest.mark.slow
def test_folders_and_columns_of_any_name(spark: SparkSession) -> None:
    """Letters that are patterns to Spark, blanks, and no file that is no table's left behind."""
    changes: list[dict[str, Any]] = [
        {"after": {"the id": "1", "v": "a", "w": None}},
        {"after": {"the id": "2", "v": "b", "w": None}},
    ]
    changes += [{"op": "d", "before": {"the id": "1"}, "after": None}]
    for _ in range(2):
        assert _merge("a b/{c}*?#ä", changes, [TABLE], *ENGINE) == 0
        known = DeltaTable("a b/{c}*?#ä")
        assert known.to_pyarrow_table(columns=["the id", "v", "w"]).to_pylist() == [{"the id": 2, "v": "b", "w": None}]
    fields = {f["name"]: f["metadata"].get("comment") for f in json.loads(known.schema().to_json())["fields"]}
    assert fields == {"the id": "int", "v": "varchar(9)", "w": "int", "_commit_ts": None}
    assert not list(Path().rglob("_bridge_rows*"))
    assert spark.read.format("delta").load(str(Path("a b/{c}*?#ä").absolute())).count() == 1


@pytest.mark.slow
def test_who_made_the_table_and_who_goes_on(spark: SparkSession, capsys: pytest.CaptureFixture[str]) -> None:
    """delta-spark goes on with what deltalake made; not the other way round, as deltalake knows no column mapping."""
    ddl = [TABLE.replace("the id", "id"), "ALTER TABLE t RENAME COLUMN v TO vv, MODIFY w BIGINT"]
    changes = [{"after": {"id": "1", "v": "a", "w": "1"}}, {"after": {"id": "2", "vv": "b", "w": str(1 << 40)}}]
    assert _merge("t", changes[:1], ddl[:1], *ENGINE) == 0
    assert _merge("t", changes, ddl, "--engine", "delta-spark") == 0
    assert rows(spark, "t") == [{"id": 1, "vv": "a", "w": 1}, {"id": 2, "vv": "b", "w": 1 << 40}]
    capsys.readouterr()
    assert _merge("t", changes, ddl, *ENGINE) == 2
    assert "columnMapping" in (output := capsys.readouterr().err)
    assert "--engine delta-spark" in output


def test_a_table_with_vectors_is_not_read_by_its_files_alone() -> None:
    """The rows that a vector marks as gone would be there again: in reconcile, and where maintain writes what stays."""
    write_deltalake("t", pa.table({"id": [1]}), configuration={"delta.enableDeletionVectors": "true"})
    no_session: Any = None
    with pytest.raises(SetupError, match="deletionVectors, which deltalake can't write, nor read"):
        Deltalake(no_session, "t").read()


def test_what_only_delta_spark_can_do(capsys: pytest.CaptureFixture[str]) -> None:
    wrong = (
        (("--out", "delta:hdfs://lake/t", "--on-error", "drop"), "folders"),
        (("--out", "delta:a%20b"), "can't write to a folder with %"),
        (("--dead-letter", "delta:dead"), "only delta-spark writes there"),
    )
    for more, why in wrong:
        assert _merge("t", [{"after": {"the id": "1", "v": "a", "w": None}}], [TABLE], *ENGINE, *more) == 2, why
        assert why in capsys.readouterr().err


def test_what_writes_where_deltas_jars_are_missing(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Without a real session, as this process has one with Delta's jars; test_no_jars_of_deltas has one."""

    def missing(_formats: list[str], _brought: frozenset[str]) -> dict[str, str]:
        raise SetupError("JAR_MISSING", details="could not fetch delta-spark. Is there a network?")

    def session(_app: str, *, master: str | None, config: dict[str, str], packages: tuple[str, ...]) -> SparkSession:
        del master, packages
        begun.append(config)
        return spark

    begun: list[dict[str, str]] = []
    monkeypatch.setattr("pyspark.sql.SparkSession.getActiveSession", lambda: None)
    monkeypatch.setattr(tables, "lake_config", missing)
    monkeypatch.setattr(tables, "spark_session", session)
    assert tables.session(DEFAULT, ["delta"], by="auto") is spark
    assert capsys.readouterr().err == (
        "deltalake writes the table, as delta-spark is not available: could not fetch delta-spark\n"
    )
    assert tables.session(DEFAULT, ["delta"], by="deltalake") is spark
    assert (capsys.readouterr().err, begun) == ("", [{}, {}])
    for by in ("auto", "delta-spark"):
        monkeypatch.setattr(tables, "find_spec", lambda _: None)
        with pytest.raises(SetupError, match="could not fetch"):
            tables.session(DEFAULT, ["delta"], by=by)


@pytest.mark.slow
def test_no_jars_of_deltas(tmp_path: Path) -> None:
    """Spark's own jars are there and Delta's can't be fetched: deltalake writes, and the job says so."""
    argv, own = _job("t", [{"after": {"the id": "1", "v": "a", "w": None}}], [TABLE]), tmp_path / "own"
    own.mkdir()
    for jar in jars.jars("spark"):
        (own / jar.name).symlink_to(jar)
    nothing = '<ivysettings><settings defaultResolver="x"/><resolvers><filesystem name="x"/></resolvers></ivysettings>'
    Path("ivy.xml").write_text(nothing)
    kernels = os.environ.get("NUMBA_CACHE_DIR") or str(cache_dir() / "numba")
    cache = {"BRIDGE_CACHE": str(tmp_path / "cache"), "NUMBA_CACHE_DIR": kernels}
    jarless = {"BRIDGE_JARS": str(own), "BRIDGE_IVY_SETTINGS": str(tmp_path / "ivy.xml")}
    job = [sys.executable, "-m", "spark_jobs", *argv]
    done = subprocess.run(
        job,
        env={**os.environ, **cache, **jarless, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr
    assert "deltalake writes the table, as delta-spark is not available" in done.stderr
    assert DeltaTable("t").to_pyarrow_table(columns=["the id"]).to_pylist() == [{"the id": 1}]
