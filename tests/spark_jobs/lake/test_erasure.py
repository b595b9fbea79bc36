"""`erase`: a key's rows are gone from current tables, changelogs, row versions and deleted keys, and their files."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote, urlsplit

import pyarrow.parquet
import pytest
from deltalake.exceptions import CommitFailedError

from tests.spark_jobs.lake.test_merge_iceberg import new_catalog
from tests.spark_jobs.lake.test_merge_schema_changes import messages
from tests.ticdc_bridge.cli.test_encode import written
from ticdc_bridge.cli import main
from ticdc_bridge.spark_jobs.lake.engines.delta_features import FULL
from ticdc_bridge.spark_jobs.lake.engines.delta_rs import Deltalake

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_DDL = [(1, "CREATE TABLE t (id BIGINT, k VARCHAR(9), v VARCHAR(40), PRIMARY KEY (id, k))")]
_SECRET = "of-the-person"


def _changes() -> list[dict[str, Any]]:
    """Key (1, a) is inserted and changed, gets another k, and comes again; (2, a) is deleted; 400 others stay."""
    row = {"id": "1", "k": "a", "v": _SECRET}
    other = {"id": "1", "k": "b", "v": "moved"}
    steps: list[dict[str, Any]] = [
        {"after": row},
        {"op": "u", "before": row, "after": row | {"v": _SECRET + "2"}},
        {"op": "u", "before": row | {"v": _SECRET + "2"}, "after": other},
        {"after": row},
        {"after": {"id": "2", "k": "a", "v": "x"}},
        {"op": "d", "before": {"id": "2", "k": "a", "v": "x"}, "after": None},
        *({"after": {"id": str(n), "k": "a", "v": f"v{n}"}} for n in range(3, 403)),
    ]
    return [{"commit_ts": 10 + n, "key": ["id", "k"], **step} for n, step in enumerate(steps)]


def _erase(capsys: pytest.CaptureFixture[str], places: list[str], *more: str) -> tuple[int, dict[str, int]]:
    """The exit code, and the rows that were removed, by table."""
    capsys.readouterr()
    code = main(["erase", *(word for place in places for word in ("--table-at", place)), *more])
    receipt = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    return code, {line["table"]: line["rows"] for line in receipt}


def _merge(places: list[str], *more: str) -> list[str]:
    current, log, past = places
    argv = ["merge", "--format", "open", "--table", "d.t", "--out", current, "--changelog", log, "--versions", past]
    made = written(messages(_DDL, _changes()))
    assert main([*argv, "--ddl", "ddl", "--in", made, *more]) == 0
    return places


@pytest.fixture(params=["delta", "iceberg"])
def places(spark: SparkSession, request: pytest.FixtureRequest) -> Any:
    """A current table, a changelog and row versions, whose rows that are gone stay in files until these are written."""
    conf = dict(FULL)
    prefix = "delta:"
    if request.param == "iceberg":
        catalog = new_catalog(spark)
        prefix = f"iceberg:{catalog}.db."
        defaults = {f"write.{what}.mode": "merge-on-read" for what in ("delete", "update", "merge")}
        defaults["format-version"] = "3"
        conf = {f"spark.sql.catalog.{catalog}.table-default.{name}": value for name, value in defaults.items()}
    for name, value in conf.items():
        spark.conf.set(name, value)
    yield [prefix + name for name in ("t", "log", "past")]
    for name in conf:
        spark.conf.unset(name)


@pytest.mark.slow
def test_a_key_is_gone(spark: SparkSession, places: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    """Also from changes to another key, and from the files of the newest version; the others' rows stay."""
    _merge(places)
    names = [place.removeprefix("iceberg:").replace("delta:", "delta.`" + str(Path.cwd()) + "/") for place in places]
    names = [name + "`" * name.startswith("delta.") for name in names]
    before = [spark.table(name).count() for name in names]
    code, rows = _erase(capsys, places, "--key", "id=1", "--key", "K=a")
    assert code == 0
    assert [rows[place] for place in places] == [1, 4, 3]
    assert [spark.table(name).count() for name in names] == [before[0] - 1, before[1] - 4, before[2] - 3]
    for place, name in zip(places, names, strict=True):
        if place.startswith("iceberg:"):
            files = [row["file_path"] for row in spark.table(f"{name}.data_files").collect()]
        else:
            files = [unquote(urlsplit(file).path) for file in spark.table(name).inputFiles()]
        kept = [pyarrow.parquet.read_table(file).to_pylist() for file in files]
        assert len(kept) > 0
        assert _SECRET not in str(kept), "the files have it still"
    deleted = ("--key", "id=2", "--key", "k=a")
    assert _erase(capsys, places[:1], *deleted) == (0, {places[0]: 0, f"{places[0]}__tombstones": 1})
    assert _erase(capsys, places[:1], *deleted)[0] == 1
    for keys, reported in (
        (["id=x", "k=a"], "has bigint"), (["id"], "COLUMN=VALUE"),
        (["id=1"], "is id, k: give each"), (["id=1", "k=a", "v=x"], "is id, k: give each"),
    ):  # fmt: skip
        assert main(["erase", "--table-at", places[0], *(word for key in keys for word in ("--key", key))]) == 2
        assert reported in capsys.readouterr().err


def test_a_key_that_is_hashed(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The value is given as TiDB has it; another key of hmac is refused. By deltalake.

    A stream that commits after the rows are gone makes the rest be done again, and the receipt has the rows.
    """
    del spark
    tries = list[str]()

    def purge(table: Deltalake) -> None:
        tries.append(table.location)
        if tries.count(table.location) == 1:
            raise CommitFailedError("a concurrent transaction")

    monkeypatch.setattr(Deltalake, "purge", purge)
    monkeypatch.setenv("BRIDGE_MASK_KEY", "a secret of sixteen")
    places = _merge(["delta:t", "delta:log", "delta:past"], "--mask", "k=hmac", "--engine", "deltalake")
    options = ("--key", "id=1", "--key", "k=a", "--engine", "deltalake")
    code, rows = _erase(capsys, places, *options)
    assert (code, [rows[place] for place in places]) == (0, [1, 4, 3])
    assert {tries.count(place) for place in places} == {2}
    monkeypatch.setenv("BRIDGE_MASK_KEY", "another secret of mine")
    assert main(["erase", "--table-at", places[0], *options]) == 2
    assert "another BRIDGE_MASK_KEY" in capsys.readouterr().err
