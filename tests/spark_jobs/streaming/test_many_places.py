"""Many tables in one job, of which some can have no place."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from ticdc_bridge.schemas.model.errors import SetupError
from ticdc_bridge.spark_jobs.arrow.change_schema import CHANGES
from ticdc_bridge.spark_jobs.pipeline.result import Summary
from ticdc_bridge.spark_jobs.pipeline.table_choice import TableChoice, TableOutput
from ticdc_bridge.spark_jobs.streaming import many_tables
from ticdc_bridge.spark_jobs.streaming.checkpoint import Checkpoint
from ticdc_bridge.spark_jobs.streaming.many_tables import ManyTables, TableTask

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_PLACES = [TableOutput(TableChoice(("shop.items",)), "iceberg:lake.shop.orders")]
_RULES = {"location": "iceberg:lake.{schema}.{table}", "changelog": None, "versions": None}
_EVERY, _WITHOUT = TableChoice(("*.*",)), TableChoice(("*.*", "!crm.left"))
_TABLES = ["shop.orders", "shop.items", "shop.my table", "crm.left", "crm.other"]


def _write(
    spark: SparkSession, folder: Path, choice: TableChoice, tables: list[str], meanwhile: Callable[[], object] = list
) -> list[str]:
    """A run with a row of each; the tables that it wrote. The last one is the error that it ended with, if it did."""
    names = [dict(zip(("db", "table"), id_.split("."), strict=True)) for id_ in tables]
    made = [{"kind": "row", "position": n, **name} for n, name in enumerate(names)]
    changes, written = spark.createDataFrame(made, CHANGES + ", position bigint").coalesce(1), list[str]()

    def write_table(task: TableTask) -> int:
        written.append(str(task.id))
        meanwhile()
        return task.rows

    job = ManyTables(choice, _RULES, _PLACES, 1, True, Checkpoint(folder, {}))
    try:
        job.write(changes, 0, (), Summary(), write_table, lambda task: -1, spark)
    except SetupError as error:
        written.append(error.code)
    except KeyboardInterrupt:
        written.append("interrupted")
    return written


def test_tables_that_can_have_no_place(spark: SparkSession, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """By its name, where another one goes, and since it was left out for a while: the other tables are written."""
    assert _write(spark, tmp_path, _EVERY, ["crm.left"]) == ["crm.left"]
    assert _write(spark, tmp_path, _WITHOUT, ["crm.left"]) == []
    assert _write(spark, tmp_path, _EVERY, _TABLES) == ["crm.other", "STOPPED"]
    output = capsys.readouterr().err
    assert "error table shop.my table: --out iceberg:lake.{schema}.{table}: 'my table' can't be a name there" in output
    assert "error table crm.left: stopped at crm.left: an earlier run of this --checkpoint took other" in output
    assert output.count("would go to iceberg:lake.shop.orders too") == 2
    assert "1 of 5 tables of the batch are written; they are not written twice, 4 failed" in output


def test_after_ctrl_c_no_other_table_begins(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is being written ends, and then the job."""
    left = threading.Event()

    class Pool(ThreadPoolExecutor):
        def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
            left.set()
            super().shutdown(wait, cancel_futures=cancel_futures)

    def press() -> None:
        os.kill(os.getpid(), signal.SIGINT)
        assert left.wait(60)

    monkeypatch.setattr(many_tables, "ThreadPoolExecutor", Pool)
    assert _write(spark, tmp_path, _WITHOUT, ["crm.a", "crm.b", "crm.c"], press)[1:] == ["interrupted"]
