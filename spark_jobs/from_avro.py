"""Spark's from_avro, in processes that plan it again and again.

Avro 1.12 reads with its fast reader, which keeps what it made of a schema for as long as the JVM lives (AVRO-4253). As
Spark parses a schema anew in each task, memory grows with each run of a plan: 0.1 MB for two schemas of 20 columns and
two tasks, until the JVM has none left. So the fast reader, which takes a tenth less CPU, is given up where that would
become much: in a stream, and after many plans. Executors of a cluster, which only their Java options reach, never use
it (spark_jobs.session).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyspark.sql import Column, SparkSession

OPTION = "-Dorg.apache.avro.fastread=false"
MOST = 4 << 20  # characters of schemas planned; a task that has read with all of them has left 25 MB


class _Planned:
    """Characters of the schemas that this process has planned to read with."""

    characters = 0


def from_avro(data: Column | str, text: str, reader: str | None = None) -> Column:
    """Records in Avro's binary form → Spark's struct of `reader`'s fields, by default those of `text`.

    text: the writer's schema. Of a record that Spark can't read: a struct of NULLs.
    """
    from pyspark.sql import SparkSession
    from pyspark.sql.avro import functions as avro

    _Planned.characters += len(text) + len(reader or text)
    session = SparkSession.getActiveSession()
    if session is not None and _Planned.characters > MOST:
        keep_no_readers(session)
    more = {} if reader is None else {"avroSchema": reader}
    return avro.from_avro(data, text, {"mode": "PERMISSIVE", **more})


def keep_no_readers(session: SparkSession) -> None:
    """From now on the driver's JVM, which has the tasks too under a local master, reads without the fast reader."""
    jvm: Any = getattr(session, "_jvm", None)  # Spark Connect has none
    if jvm is not None:
        jvm.org.apache.avro.generic.GenericData.get().setFastReaderEnabled(False)
