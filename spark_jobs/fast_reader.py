"""Avro's fast reader, given up before it fills the memory of a process that plans from_avro again and again.

Avro 1.12 reads with its fast reader, which keeps what it made of a schema for as long as the JVM lives (AVRO-4253). As
Spark parses a schema anew in each task, memory grows with each run of a plan: 0.1 MB for two schemas of 20 columns and
two tasks, until the JVM has none left. So the fast reader, which takes a tenth less CPU, is given up where that would
become much: in a stream, and after many plans. Executors of a cluster, which only their Java options reach, never use
it (spark_jobs.session).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

OPTION = "-Dorg.apache.avro.fastread=false"
MOST = 4 << 20  # characters of schemas planned; a task that has read with all of them has left some 25 MB


class _Planned:
    """Characters of the schemas that this process has planned to read with."""

    characters = 0


def spare_memory(frame: DataFrame, characters: int) -> None:
    """Before from_avro reads `frame` with schemas of so many characters: gives the fast reader up where it must be.

    In the driver's JVM, which has the tasks too under a local master.
    """
    _Planned.characters += characters
    jvm: Any = getattr(frame.sparkSession, "_jvm", None)  # Spark Connect has none
    # A stream's plan is made in Spark, again for each micro-batch.
    if jvm is not None and (frame.isStreaming or _Planned.characters > MOST):
        jvm.org.apache.avro.generic.GenericData.get().setFastReaderEnabled(False)
