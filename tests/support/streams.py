"""Streams in this process: a script that makes trouble while one runs, and what is in its sink."""

from __future__ import annotations

import json
import os
import signal
import threading
from collections.abc import Callable, Iterator
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote

import pyarrow.parquet as pq

from ticdc_bridge.cli import main
from ticdc_bridge.clients.kafka import TopicWriter, read_topic
from ticdc_bridge.schemas.model.event import Message
from ticdc_bridge.spark_jobs.io.message_files import read_messages

if TYPE_CHECKING:
    from pyspark.sql import Row, SparkSession

    from tests.support.kafka import Kafka


def send(kafka: Kafka, topic: str, messages: list[Message]) -> None:
    """Writes messages to a topic, each to its partition; returns when the broker has them."""
    writer = TopicWriter(topic, {"bootstrap.servers": kafka.bootstrap_servers, **kafka.client})
    for message in messages:
        writer.write(message)
    writer.close()


def received(kafka: Kafka, topic: str) -> list[Message]:
    return list(read_topic(topic, {"bootstrap.servers": kafka.bootstrap_servers, **kafka.client}))


def lines(folder: str | Path) -> list[dict[str, Any]]:
    """The lines of a stream's folder, in the order of its micro-batches."""
    return list(_lines(Path(folder)))


def _lines(folder: Path) -> Iterator[dict[str, Any]]:
    for path in sorted(folder.glob("*.jsonl")):
        yield from map(json.loads, path.read_text(encoding="utf-8").splitlines())


def letters(folder: str | Path) -> list[Message]:
    """The dead letters in a stream's folder, in the order of its micro-batches."""
    return [m for p in sorted(Path(folder).glob("*.jsonl")) for m in read_messages(p) if isinstance(m, Message)]


def delta_rows(spark: SparkSession, folder: str | Path) -> list[Row]:
    """The rows of a Delta table, [] where it is not there yet. Who asks again before its log grows asks no Spark."""
    path = Path(folder).absolute()
    log = tuple(sorted(p.name for p in (path / "_delta_log").glob("*.json")))
    return list(_read(spark, path, log)) if log else []


def delta_count(folder: str | Path) -> int:
    """How many rows a Delta table has, by its log and its files, 0 where it is not there yet: for those who wait."""
    files = set[str]()
    for commit in sorted(Path(folder, "_delta_log").glob("*.json")):
        for action in map(json.loads, commit.read_text(encoding="utf-8").splitlines()):
            files.update([action["add"]["path"]] if "add" in action else [])
            files.difference_update([action["remove"]["path"]] if "remove" in action else [])
    return sum(pq.read_metadata(Path(folder, unquote(file))).num_rows for file in files)


@lru_cache(maxsize=4)
def _read(spark: SparkSession, path: Path, _log: tuple[str, ...]) -> list[Row]:
    return spark.read.format("delta").load(str(path)).collect()


def run_while(argv: list[str], script: Callable[[], None], command: Callable[[list[str]], int] = main) -> int:
    """The exit code of a stream's command line; SIGTERM stops it when `script`, in another thread, has ended.

    What the script raises is raised here.
    """
    failed: list[BaseException] = []
    ended = threading.Event()
    before = signal.signal(signal.SIGTERM, lambda *_: None)  # of the moments when the stream does not listen

    def run() -> None:
        try:
            script()
        except BaseException as error:
            failed.append(error)
        while not ended.wait(0.5):
            os.kill(os.getpid(), signal.SIGTERM)

    thread = threading.Thread(target=run)
    thread.start()
    try:
        code = command(argv)
    finally:
        ended.set()
        thread.join()
        signal.signal(signal.SIGTERM, before)
    if failed:
        raise failed[0]
    return code
