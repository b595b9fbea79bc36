"""Streams in this process: a script that makes trouble while one runs, and what is in its sink."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from spark_jobs.cli import main
from spark_jobs.kafka import TopicWriter, read_topic

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from schemas.event import Message
    from tests.support.kafka import Kafka


def send(kafka: Kafka, topic: str, messages: list[Message]) -> None:
    """Writes messages to a topic, each to its partition; returns when the broker has them."""
    writer = TopicWriter(topic, {"bootstrap.servers": kafka.bootstrap_servers})
    for message in messages:
        writer.write(message)
    writer.close()


def received(kafka: Kafka, topic: str) -> list[Message]:
    return list(read_topic(topic, {"bootstrap.servers": kafka.bootstrap_servers}))


def lines(folder: str | Path) -> list[dict[str, Any]]:
    """The lines of a stream's folder, in the order of its micro-batches."""
    return list(_lines(Path(folder)))


def _lines(folder: Path) -> Iterator[dict[str, Any]]:
    for path in sorted(folder.glob("*.jsonl")):
        yield from map(json.loads, path.read_text(encoding="utf-8").splitlines())


def run_while(spark: SparkSession, argv: list[str], script: Callable[[], None]) -> int:
    """The exit code of a stream's command line, which is stopped when `script`, in another thread, has ended.

    What the script raises is raised here.
    """
    failed: list[BaseException] = []
    ended = threading.Event()

    def run() -> None:
        try:
            script()
        except BaseException as error:
            failed.append(error)
        while not ended.is_set():  # between two lives of the query there is none to stop
            for query in spark.streams.active:
                query.stop()
            time.sleep(0.1)

    thread = threading.Thread(target=run)
    thread.start()
    try:
        code = main(argv)
    finally:
        ended.set()
        thread.join()
    if failed:
        raise failed[0]
    return code
