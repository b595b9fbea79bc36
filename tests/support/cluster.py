"""The real spark-submit with our zip on a cluster of two workers, each with an executor in a process of its own."""

from __future__ import annotations

import sys
from pathlib import Path

import psutil

from spark_jobs.cli import main
from spark_jobs.jars import jars
from spark_jobs.java import spark_java_home
from tests.support.running import Job

EXECUTOR, PYTHON = "CoarseGrainedExecutorBackend", "pyspark.daemon"


def packaged(folder: Path) -> Path:
    """The folder with ticdc_bridge.zip and bridge.py in it."""
    assert main(["package", "--dir", str(folder)]) == 0
    return folder


def submitted(words: list[str], folder: Path, package: Path) -> Job:
    """`spark-submit … bridge.py words`. Neither the driver nor the workers find our packages but in the zip."""
    import pyspark

    env = {"JAVA_HOME": str(spark_java_home()), "PYSPARK_PYTHON": sys.executable, "SPARK_LOCAL_IP": "127.0.0.1"}
    submit = [
        str(Path(pyspark.__file__).parent / "bin" / "spark-submit"), "--master", "local-cluster[2,1,1024]", "--jars",
        ",".join(map(str, jars("spark"))), "--conf", "spark.ui.enabled=false", "--conf",
        "spark.driver.host=127.0.0.1", "--conf", "spark.executor.memory=512m", "--py-files",
        str(package / "ticdc_bridge.zip"), str(package / "bridge.py"),
    ]  # fmt: skip
    return Job(words, folder, submit, drop=("PYTHONPATH", "SPARK_HOME"), **env)


def busy(job: Job, word: str, seen: dict[int, float]) -> psutil.Process | None:
    """A Python worker of the job's executors that is computing now, or (EXECUTOR) the executor that it works for.

    seen: the CPU seconds that each worker had used when it was seen first.
    """
    for executor in job.processes(EXECUTOR):
        try:
            for worker in executor.children(recursive=True):
                used = worker.cpu_times().user
                # A worker is forked by the daemon, which the executor started: it is a grandchild.
                if used - seen.setdefault(worker.pid, used) > 0.2 and worker.ppid() != executor.pid:
                    return executor if word == EXECUTOR else worker
        except psutil.Error:
            continue
    return None
