"""The real spark-submit with our zip on a cluster of two workers, each with an executor in a process of its own."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import psutil

from spark_jobs.cli import main
from spark_jobs.jars import jars
from spark_jobs.java import spark_java_home
from tests.support.running import Job

EXECUTOR, PYTHON = "CoarseGrainedExecutorBackend", "python"
_DAEMONS = frozenset(("pyspark.daemon", "spark_jobs.worker_daemon"))


def packaged(folder: Path) -> Path:
    """The folder with ticdc_bridge.zip and bridge.py in it."""
    assert main(["package", "--dir", str(folder)]) == 0
    return folder


def submitted(words: list[str], folder: Path, package: Path) -> Job:
    """`spark-submit … bridge.py words`. Neither the driver nor the workers find our packages but in the zip."""
    import pyspark

    env = {"JAVA_HOME": str(spark_java_home()), "PYSPARK_PYTHON": sys.executable, "SPARK_LOCAL_IP": "127.0.0.1"}
    java = os.environ.get("SPARK_SUBMIT_OPTS", "")  # of the executors too (tests/conftest.py)
    submit = [
        str(Path(pyspark.__file__).parent / "bin" / "spark-submit"), "--master", "local-cluster[2,1,1024]", "--jars",
        ",".join(map(str, jars("spark"))), "--conf", "spark.ui.enabled=false", "--conf",
        "spark.driver.host=127.0.0.1", "--conf", "spark.executor.memory=512m", "--conf",
        "spark.sql.shuffle.partitions=4", "--conf", f"spark.executor.extraJavaOptions={java}", "--py-files",
        str(package / "ticdc_bridge.zip"), str(package / "bridge.py"),
    ]  # fmt: skip
    return Job(words, folder, submit, drop=("PYTHONPATH", "SPARK_HOME"), **env)


def busy(job: Job, word: str, seen: dict[int, float]) -> psutil.Process | None:
    """A Python worker of the job's executors that is computing now, or (EXECUTOR) the executor that it works for.

    seen: the CPU seconds that each worker had used when it was seen first.
    """
    for executor in job.processes(EXECUTOR):
        worker = busy_worker(executor, seen)
        if worker is not None:
            return executor if word == EXECUTOR else worker
    return None


def busy_worker(above: psutil.Process, seen: dict[int, float]) -> psutil.Process | None:
    """A Python worker below a process that is computing now."""
    try:
        for one in above.children(recursive=True):
            if not _forks(one):
                continue
            used = one.cpu_times().user
            # A worker is forked by the daemon and has its command line.
            if used - seen.setdefault(one.pid, used) > 0.2 and _forks(one.parent()):
                return one
    except psutil.Error:  # gone meanwhile
        return None
    return None


def _forks(process: psutil.Process | None) -> bool:
    """Whether it is Spark's daemon, or was forked by it."""
    return process is not None and not _DAEMONS.isdisjoint(process.cmdline())
