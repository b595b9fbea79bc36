"""The declarative pipeline, by the newest Spark's own `spark-pipelines run`."""

import os
import random
import re
import shutil
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow.parquet
import pytest
import yaml

from tests.support.changes import CREATE, Changes
from tests.support.history_events import T0, ddl, resolved, write
from tests.support.kafka import Kafka
from tests.support.service import ROOT, command
from tests.support.spark_settings import INTERPRETED, QUICK, SHORT_LIVED
from tests.support.streams import send
from tests.support.table import check_rows
from tests.support.toolchains import ToolchainMissing, python_packages
from ticdc_bridge.schemas.model.event import Message
from ticdc_bridge.service.testing import running_service
from ticdc_bridge.spark_jobs.io.message_files import read_messages
from ticdc_bridge.spark_jobs.runtime.jars import jars
from ticdc_bridge.spark_jobs.runtime.java import spark_java_home
from ticdc_bridge.spark_jobs.runtime.spark_version import TRIED

FOLDER = ROOT / "examples" / "pipelines"
SAMPLE = ROOT / "schemas" / "files" / "shop.invoices.open.jsonl"
_PINS = ROOT / "tests" / "spark_jobs" / "versions"


def test_its_files_and_settings_are_there() -> None:
    spec = yaml.safe_load((FOLDER / "spark-pipeline.yml").read_text(encoding="utf-8"))

    def check(library: dict[str, dict[str, str]]) -> None:
        text = (FOLDER / library["glob"]["include"]).read_text(encoding="utf-8")
        compile(text, "library", "exec")
        assert all(f'"{name}"' in text for name in spec["configuration"])

    check_rows(spec["libraries"], check)
    compile((FOLDER / "auto_cdc.py").read_text(encoding="utf-8"), "auto_cdc", "exec")


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_two_runs(kafka: Kafka, tmp_path: Path) -> None:
    packages = spark_packages()
    store, topic = f"sqlite:///{tmp_path / 'history.db'}", kafka.create_topic()
    tracked = command("track", "--in", str(SAMPLE), "--changefeed", "shop", "--store", store, cwd=tmp_path)
    assert tracked.exit_code == 0, tracked.stderr
    messages = [message for message in read_messages(SAMPLE) if isinstance(message, Message)]
    with running_service(store) as url:
        spec = own_specification(tmp_path, kafka, topic, url)
        changes_of = spec.parent / "transformations" / "orders.py"
        changes_of.write_text(changes_of.read_text(encoding="utf-8").replace("= 'orders'", "= 'invoices'"))
        for some in (messages[:4], [*messages[4:], Message(b"?", b"?")]):
            send(kafka, topic, some)
            run_pipeline(packages, spec, tmp_path)
    changes = [
        (row["op"], dict(row["row"]), dict(row["before"] or ())) for row in sorted_rows(tmp_path, "order_changes")
    ]
    assert [op for op, _, _ in changes] == ["c", "c", "u", "d"]
    assert changes[0][1] == {"id": "18446744073709551615", "price": "12.30", "note": None}
    assert changes[3][1] == {"id": "2", "price": "89.00", "remark": "gift", "paid": "0"}
    assert changes[2][2]["price"] == "99.00"
    assert [row["error"]["code"] for row in sorted_rows(tmp_path, "unreadable")] == ["NOT_FRAMED"]


_LOOK = """\
from pyspark import pipelines as dp
from pyspark.sql import DataFrame, SparkSession

@dp.materialized_view
def current_orders() -> DataFrame:
    return SparkSession.active().read.table("lake.shop.orders")
"""
_CATALOG = "org.apache.spark.sql.connector.catalog.SharedTablesInMemoryRowLevelOperationTableCatalog"


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_current_rows_by_an_auto_cdc_flow(kafka: Kafka, tmp_path: Path) -> None:
    """Changes in any order, over three batches. The catalog of Spark's own tests ends with its JVM, so a view of the
    same run writes the rows to files.
    """
    packages = spark_packages()
    store, topic = f"sqlite:///{tmp_path / 'history.db'}", kafka.create_topic(partitions=3)
    changes = Changes(again=20)
    messages = changes.lot(200)[: -changes.partitions]  # without the watermarks
    random.Random("auto cdc").shuffle(messages)
    created = [ddl(T0, "shop", "orders", CREATE.format("orders")), resolved(changes.made[-1][0])]
    history = str(write(tmp_path / "ddl.jsonl", created))
    tracked = command("track", "--in", history, "--changefeed", "shop", "--store", store, cwd=tmp_path)
    assert tracked.exit_code == 0, tracked.stderr
    with running_service(store) as url:
        spec = own_specification(tmp_path, kafka, topic, url)
        with spec.open("a", encoding="utf-8") as libraries:
            libraries.writelines(f"  - glob:\n      include: {name}.py\n" for name in ("auto_cdc", "look"))
        spec.with_name("look.py").write_text(_LOOK, encoding="utf-8")
        flow = spec.with_name("auto_cdc.py")
        text = flow.read_text(encoding="utf-8").replace("price", "total")
        text = text.replace("spark.readStream.table", "spark.readStream.option('maxFilesPerTrigger', 1).table")
        flow.write_text(text, encoding="utf-8")
        send(kafka, topic, [replace(message, partition=n % 3) for n, message in enumerate(messages)])
        (jar,) = jars("merge-catalog")
        settings = {"spark.driver.extraClassPath": str(jar), "spark.sql.catalog.lake": _CATALOG,
                    "spark.sql.warehouse.dir": str(tmp_path / "tables")}  # fmt: skip
        run_pipeline(packages, spec, tmp_path, {**QUICK, **INTERPRETED, **settings})
    rows = [(int(row["id"]), str(row["total"])) for row in all_rows(tmp_path, "current_orders")]
    assert dict(rows) == changes.table
    assert len(rows) == len(changes.table) > 50
    assert len(list((tmp_path / "tables" / "order_changes").glob("*.parquet"))) == 3


def spark_packages() -> list[Path]:
    """The newest Spark, and what its Connect client needs."""
    try:
        return [python_packages(_PINS / f"{name}.txt") for name in (f"pyspark-{TRIED[-1]}", "connect")]
    except ToolchainMissing as missing:
        pytest.skip(str(missing))


def own_specification(folder: Path, kafka: Kafka, topic: str, history: str) -> Path:
    """The example in a folder of the test's own, for its topic and service."""
    shutil.copytree(FOLDER, folder / "pipelines")
    replaced = {"localhost:9092": kafka.bootstrap_servers, "http://localhost:8081": history, "shop-history": topic,
                "/tmp/ticdc-bridge-pipeline": str(folder)}  # fmt: skip
    spec = folder / "pipelines" / "spark-pipeline.yml"
    text = spec.read_text(encoding="utf-8")
    for old, new in replaced.items():
        text = text.replace(old, new)
    spec.write_text(text, encoding="utf-8")
    return spec


def run_pipeline(packages: list[Path], spec: Path, folder: Path, settings: Mapping[str, str] | None = None) -> None:
    """As the head of the specification says it. settings: others, as an installation's file has them."""
    confs = re.findall(r"--conf (\S+)", spec.read_text(encoding="utf-8")) if settings is None else []
    own = folder / "conf" / "spark-defaults.conf"
    own.parent.mkdir(exist_ok=True)
    lines = (f"{name} {value}\n" for name, value in (settings or {}).items())
    own.write_text("".join(lines), encoding="utf-8")
    home = packages[0] / "pyspark"
    environment = {name: value for name, value in os.environ.items() if not name.startswith("SPARK_")}
    environment |= {
        "PYTHONPATH": os.pathsep.join(map(str, [*packages, ROOT])), "PYSPARK_PYTHON": sys.executable,
        "JAVA_HOME": str(spark_java_home()), "SPARK_HOME": str(home), "SPARK_LOCAL_IP": "127.0.0.1",
        "SPARK_CONF_DIR": str(own.parent), "JDK_JAVA_OPTIONS": SHORT_LIVED,
    }  # fmt: skip
    words = [word for conf in confs for word in ("--conf", conf)]
    done = subprocess.run(
        [home / "bin" / "spark-pipelines", "run", "--spec", spec, *words],
        cwd=folder, env=environment, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert "Run is COMPLETED" in done.stdout + done.stderr, done.stderr[-4000:]
    assert done.returncode == 0, done.stderr[-4000:]


def all_rows(folder: Path, table: str) -> list[dict[str, Any]]:
    files = (folder / "tables" / table).glob("*.parquet")
    return [row for file in files for row in pyarrow.parquet.read_table(file).to_pylist()]


def sorted_rows(folder: Path, table: str) -> list[dict[str, Any]]:
    """The rows of a table in the order of their messages."""
    return sorted(all_rows(folder, table), key=lambda row: row["source"]["offset"])
