"""The real spark-submit with our zip: in one JVM, or with two workers that have executors in processes of their own."""

import os
import sys
from pathlib import Path

from tests.support.processes import Job
from ticdc_bridge.cli import main
from ticdc_bridge.spark_jobs.runtime.jars import jars
from ticdc_bridge.spark_jobs.runtime.java import spark_java_home

TWO_WORKERS = "local-cluster[2,1,1024]"


def packaged(folder: Path) -> Path:
    """The folder with ticdc_bridge.zip and bridge.py in it."""
    assert main(["package", "--dir", str(folder)]) == 0
    return folder


def submitted(words: list[str], folder: Path, package: Path, master: str = TWO_WORKERS) -> Job:
    """`spark-submit … bridge.py words`. Neither the driver nor the workers find our packages but in the zip."""
    import pyspark

    env = {"JAVA_HOME": str(spark_java_home()), "PYSPARK_PYTHON": sys.executable, "SPARK_LOCAL_IP": "127.0.0.1"}
    java = os.environ.get("SPARK_SUBMIT_OPTS", "")  # of the executors too (tests/conftest.py)
    submit = [
        str(Path(pyspark.__file__).parent / "bin" / "spark-submit"), "--master", master, "--jars",
        ",".join(map(str, jars("spark"))), "--conf", "spark.ui.enabled=false", "--conf",
        "spark.driver.host=127.0.0.1", "--conf", "spark.executor.memory=512m", "--conf",
        "spark.sql.shuffle.partitions=4", "--conf", f"spark.executor.extraJavaOptions={java}", "--py-files",
        str(package / "ticdc_bridge.zip"), str(package / "bridge.py"),
    ]  # fmt: skip
    return Job(words, folder, submit, drop=("PYTHONPATH", "SPARK_HOME"), **env)
