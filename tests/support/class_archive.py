"""Spark's classes as HotSpot maps them (class data sharing): a JVM with Spark in it starts for half of the CPU.

`make_archive` is for runs of all tests, which start dozens of JVMs; with an archive that does not fit the Java or the
jars at hand, HotSpot does without. `python -m tests.support.class_archive` is what the archive is made of.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from tests.support.spark_settings import SHORT_LIVED

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

ROOT = Path(__file__).resolve().parents[2]
ARCHIVE = ROOT / ".cache" / "spark-classes.jsa"


def java_options() -> str:
    """The options of tests' JVMs. HotSpot's warnings are off: it prints to stdout that an archive does not fit."""
    return f"{SHORT_LIVED} -Xlog:disable -XX:SharedArchiveFile={ARCHIVE}" if ARCHIVE.is_file() else SHORT_LIVED


def make_archive() -> None:
    """Makes the archive, unless there is one that is newer than Spark. Without one the tests run, too."""
    import pyspark

    jars = Path(pyspark.__file__).parent / "jars"
    if ARCHIVE.is_file() and ARCHIVE.stat().st_mtime > jars.stat().st_mtime:
        return
    ARCHIVE.parent.mkdir(exist_ok=True)
    made = ARCHIVE.with_suffix(".new")
    with_archive = {**os.environ, "SPARK_SUBMIT_OPTS": f"{SHORT_LIVED} -Xlog:disable -XX:ArchiveClassesAtExit={made}"}
    command = [sys.executable, "-m", "tests.support.class_archive"]
    made.unlink(missing_ok=True)
    with suppress(subprocess.TimeoutExpired):
        # The JVM writes it when it ends, after Python: then its end of the pipe is closed.
        subprocess.run(command, cwd=ROOT, env=with_archive, capture_output=True, timeout=240, check=False)
        if made.is_file():
            made.replace(ARCHIVE)


def main() -> None:
    """What most jobs of the tests do: SQL, files in and out, a micro-batch, Python.

    Classes of jars that are not Spark's own can't be archived.
    """
    from ticdc_bridge.spark_jobs.spark.session import spark_session

    spark = spark_session("archive", master="local[2]", config={"spark.sql.shuffle.partitions": "1"})
    rows = spark.range(100).selectExpr("id", "cast(id as string) as text", "named_struct('a', id) as s")
    with tempfile.TemporaryDirectory() as folder:
        rows.write.parquet(f"{folder}/parquet")
        rows.select("text").write.text(f"{folder}/text")

        def batch(frame: DataFrame, number: int) -> None:
            frame.groupBy("value").count().write.json(f"{folder}/json/{number}")

        stream = spark.readStream.text(f"{folder}/text").writeStream.foreachBatch(batch).trigger(availableNow=True)
        stream.option("checkpointLocation", f"{folder}/checkpoint").start().awaitTermination()
        read = spark.read.parquet(f"{folder}/parquet")
        read.mapInArrow(lambda batches: batches, read.schema).collect()
    spark.stop()


if __name__ == "__main__":
    main()
