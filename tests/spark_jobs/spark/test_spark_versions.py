"""The core paths of the Spark API on the oldest and the newest Spark, and over Spark Connect.

Each Spark is installed once, into the cache folder; where it can't be fetched, the test is skipped with the reason.
"""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support import core_paths
from tests.support.changes import Changes
from tests.support.golden import ROOT
from tests.support.kafka import Kafka
from tests.support.streams import send
from tests.support.toolchains import ToolchainMissing, python_packages
from ticdc_bridge.spark_jobs.runtime.java import spark_java_home
from ticdc_bridge.spark_jobs.runtime.spark_version import OLDEST, TRIED, major_minor

_PINS = ROOT / "tests" / "spark_jobs" / "versions"
_PATHS = [name for name in vars(core_paths.Paths) if not name.startswith("_")]


def _packages(name: str) -> str:
    try:
        return str(python_packages(_PINS / f"{name}.txt"))
    except ToolchainMissing as missing:
        pytest.skip(f"{name}: {missing}")


def _environment(packages: list[str]) -> dict[str, str]:
    """With these folders of packages before our own."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith("SPARK_")}
    environment |= {"PYTHONPATH": os.pathsep.join([*packages, str(ROOT)]), "PYSPARK_PYTHON": sys.executable,
                    "JAVA_HOME": str(spark_java_home())}  # fmt: skip
    return environment


def _run(folder: Path, packages: list[str], *arguments: str) -> list[str]:
    """What the core paths print."""
    command = [sys.executable, "-m", "tests.support.core_paths", str(folder), *arguments]
    done = subprocess.run(command, env=_environment(packages), cwd=folder, capture_output=True, text=True, timeout=600)
    output = [line for line in done.stdout.splitlines() if line.startswith(("Spark ", *_PATHS))]
    assert done.returncode == 0, "\n".join([*output, done.stderr[-3000:]])
    return output


def test_the_oldest_and_the_newest_are_run() -> None:
    pinned = {path.stem.removeprefix("pyspark-") for path in _PINS.glob("pyspark-*.txt")}
    assert pinned == {TRIED[0], TRIED[-1]}
    assert major_minor(TRIED[0]) == OLDEST


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.parametrize("version", [TRIED[0], TRIED[-1]])
def test_core_paths(version: str, tmp_path: Path) -> None:
    reported = _run(tmp_path, [_packages(f"pyspark-{version}")])
    assert reported == [f"Spark {version}, pyspark.sql.session", *(f"{name} ok" for name in _PATHS)]


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_spark_connect(tmp_path: Path) -> None:
    """With the Spark of `make setup`, whose server pyspark starts."""
    reported = _run(tmp_path, [_packages("connect")], "connect")
    assert reported[0].endswith(", pyspark.sql.connect.session")
    assert reported[1:] == [f"{name} ok" for name in _PATHS]


_LIMITED = """
import sys
from ticdc_bridge import datasource, spark_session
spark = spark_session("limited", master="local[1]")
datasource.register(spark)
options = {"format": "open", "ddl": "ddl.jsonl", "table": "shop.orders", "topic": sys.argv[1], "max_per_batch": "4",
           "kafka.bootstrap.servers": sys.argv[2]}
stream = spark.readStream.format("ticdc").options(**options).load().writeStream
stream = stream.foreachBatch(lambda batch, number: print("batch", number, batch.count(), flush=True))
stream.option("checkpointLocation", "checkpoint").trigger(availableNow=True).start().awaitTermination()
"""


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_limits_of_a_stream(kafka: Kafka, tmp_path: Path) -> None:
    """As of Spark 4.2: what waits in two partitions comes in micro-batches of at most so many messages."""
    changes, topic = Changes(partitions=2), kafka.create_topic(partitions=2)
    changes.ddl(tmp_path / "ddl.jsonl")
    send(kafka, topic, changes.lot(17))
    command = [sys.executable, "-c", _LIMITED, topic, kafka.bootstrap_servers]
    packages = [_packages(f"pyspark-{TRIED[-1]}")]
    done = subprocess.run(
        command, env=_environment(packages), cwd=tmp_path, capture_output=True, text=True, timeout=500
    )
    counts = [int(line.split()[2]) for line in done.stdout.splitlines() if line.startswith("batch ")]
    assert counts == [4, 4, 4, 4, 3], done.stderr[-3000:]  # with two watermarks
