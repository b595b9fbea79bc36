"""The example for spark-submit: what it gives to spark-submit and to the job, and a run on this machine."""

import os
import subprocess
import sys
from itertools import pairwise
from pathlib import Path

import pyspark
import pytest
from deltalake import DeltaTable

from tests.support import shop
from tests.support.cluster import packaged
from tests.support.command_line import parse_job
from tests.support.kafka import Kafka
from tests.support.service import ROOT
from tests.support.streams import send
from ticdc_bridge.schemas.inputs.kafka_settings import client_settings, settings_for_java
from ticdc_bridge.service.testing import running_service
from ticdc_bridge.spark_jobs.runtime.jars import jars, table
from ticdc_bridge.spark_jobs.runtime.java import spark_java_home

FOLDER = ROOT / "examples" / "spark-submit"


_PRINT = "print(*words, sep='\\n')"
_SUBMIT = """\
at = words.index("--packages")  # the same jars, from the cache
words[at : at + 2] = ["--jars", os.environ["PINNED"], "--conf", "spark.ui.enabled=false"]
os.execv(os.environ["REAL"], [os.environ["REAL"], *words])"""


def run(folder: Path, spark_submit: str, **settings: str) -> subprocess.CompletedProcess[str]:
    """The script with a spark-submit that does this with its words."""
    command = folder / "spark-submit"
    command.write_text(f"#!{sys.executable}\nimport os, sys\nwords = sys.argv[1:]\n{spark_submit}\n")
    command.chmod(0o755)
    environment = {**os.environ, "PATH": f"{folder}{os.pathsep}{os.environ['PATH']}", **settings}
    environment.pop("PYTHONPATH", None)
    return subprocess.run(
        [FOLDER / "merge.sh"], cwd=folder, env=environment, capture_output=True, text=True, check=False
    )


@pytest.mark.parametrize("master", ["yarn", "local[2]"])
def test_what_it_gives_to_spark_submit(master: str, tmp_path: Path) -> None:
    done = run(tmp_path, _PRINT, MASTER=master)
    assert done.returncode == 0, done.stderr
    words = done.stdout.splitlines()
    script = words.index("dist/bridge.py")
    job = parse_job(words[script + 1 :])
    assert (job.command, job.stream, job.current) == ("merge", True, "delta:hdfs:///lake/{schema}/{table}")
    submit = dict(pairwise(words[:script]))
    assert submit["--master"] == master
    assert ("--archives" in submit) == (master == "yarn")
    pinned = {jar.coordinates for jar in table() if jar.sets & {"spark", "delta"}}
    assert set(submit["--packages"].split(",")) <= pinned


def test_its_settings_of_kafka_are_for_both_clients() -> None:
    settings = client_settings("kafka:9093", FOLDER / "kafka.properties")
    assert settings["sasl.username"] == "spark"
    assert "ScramLoginModule" in settings_for_java({**settings, "ssl.ca.location": __file__})["sasl.jaas.config"]


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_on_this_machine(kafka: Kafka, tmp_path: Path) -> None:
    """With the zip and the script alone: all tables of two topics, and the same again, which changes nothing."""
    prefix = kafka.topic_name()
    messages = shop.messages()
    for topic in {message.topic for message in messages}:
        send(kafka, f"{prefix}_{topic}", [message for message in messages if message.topic == topic])
    config = tmp_path / "kafka.properties"
    config.write_text("security.protocol=PLAINTEXT\n")
    with running_service() as url:
        shop.register(url)
        for time in ("first", "second"):
            done = run(
                tmp_path, _SUBMIT, MASTER="local[2]", DIST=str(packaged(tmp_path)), KAFKA_CONFIG=str(config),
                BROKERS=kafka.bootstrap_servers, REGISTRY=url, TOPICS=f"{prefix}_.*", LAKE=str(tmp_path / "lake"),
                TIME_ZONE=shop.ZONE, TRIGGER="now", REAL=str(Path(pyspark.__file__).parent / "bin" / "spark-submit"),
                PINNED=",".join(map(str, [*jars("spark"), *jars("delta")])), PYSPARK_PYTHON=sys.executable,
                JAVA_HOME=str(spark_java_home()), SPARK_LOCAL_IP="127.0.0.1",
            )  # fmt: skip
            assert done.returncode == 0, done.stderr[-4000:]
            orders = DeltaTable(str(tmp_path / "lake" / "shop" / "orders"))
            assert orders.to_pyarrow_table().num_rows == 150 - 28, time
    assert DeltaTable(str(tmp_path / "lake" / "shop" / "customers")).to_pyarrow_table().num_rows == 48
