"""`make demo`: the registry, real TiCDC Avro messages, Spark, Debezium — on this machine, from start to end."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import AbstractContextManager, contextmanager
from importlib.resources import as_file, files
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ticdc_bridge.clients.registry import HttpSchemas
from ticdc_bridge.schemas.inputs.schema_files import FileSchemas
from ticdc_bridge.schemas.model.errors import SetupError
from ticdc_bridge.schemas.model.reasons import usage_errors
from ticdc_bridge.schemas.plain.writer import b64
from ticdc_bridge.spark_jobs.io.message_files import LineWriter
from ticdc_bridge.spark_jobs.pipeline.progress import step
from ticdc_bridge.spark_jobs.pipeline.result import Summary

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_ZONE = "Asia/Shanghai"
_OPTIONS = {"enable_tidb_extension": True}
_LISTENING = re.compile(r"listening on (http://\S+)")
# For a JVM that lives for seconds: the compiler for long runs would take more of them than it gives back, and so would
# expressions that are compiled.
_SPARK = {
    "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
    "spark.sql.shuffle.partitions": "1",
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
}


def run(folder: Path) -> int:
    """Runs the demo and leaves its files in `folder`; 0 when nothing failed."""
    began = time.monotonic()
    os.environ.setdefault("NUMBA_DISABLE_JIT", "1")  # to compile kernels takes half a minute, 273 messages a moment
    with usage_errors(f"--out {folder}"):
        folder.mkdir(parents=True, exist_ok=True)
    with sample_files() as samples, _spark() as starting, service(folder) as url:
        say(f"registry on {url}, store {folder / 'registry.db'}")
        register(samples / "shop.schemas.jsonl", url)
        with step("demo", "starting Spark"):
            spark = starting.result()
        code = _pipeline(spark, samples / "shop.messages.jsonl", url, folder)
    say(f"done in {time.monotonic() - began:.1f} s")
    return code


@contextmanager
def _spark() -> Iterator[Future[SparkSession]]:
    """A session that starts while something else is done; stopped at the end."""

    def start() -> SparkSession:
        from ticdc_bridge.spark_jobs.spark.session import spark_session

        return spark_session("ticdc-bridge demo", master="local[2]", config=_SPARK)

    with ThreadPoolExecutor(1) as pool:
        starting = pool.submit(start)
        try:
            yield starting
        finally:
            if starting.exception() is None:
                starting.result().stop()


def sample_files() -> AbstractContextManager[Path]:
    """The folder of the sample messages (schemas/files)."""
    return as_file(files("ticdc_bridge.schemas") / "files")


@contextmanager
def service(folder: Path, port: int = 0, options: Sequence[str] = ()) -> Iterator[str]:
    """The service as a process of its own, on an empty store; its URL. Ends with the demo. port: 0 takes a free one."""
    store = folder / "registry.db"
    for old in folder.glob("registry.db*"):
        old.unlink()
    words = ["serve", "--port", str(port), "--store", f"sqlite:///{store.resolve()}", *options]
    command = [sys.executable, "-P", "-m", "ticdc_bridge", *words]
    paths = os.pathsep.join(path for path in sys.path if path)  # -P: and no others, such as the current folder
    with (
        (folder / "registry.log").open("w", encoding="utf-8") as log,
        subprocess.Popen(
            command, stderr=subprocess.PIPE, stdout=log, text=True, env={**os.environ, "PYTHONPATH": paths}
        ) as process,
    ):
        try:
            with step("demo", "starting the registry"):
                url = _address(process, log)
            yield url
        finally:
            process.terminate()
            try:
                process.wait(10)
            except subprocess.TimeoutExpired:
                process.kill()


def _address(process: subprocess.Popen[str], log: Any) -> str:
    """Waits for the ready line; what comes after it goes to the log."""
    assert process.stderr is not None
    lines = []
    for line in process.stderr:
        lines.append(line)
        log.write(line)
        match = _LISTENING.search(line)
        if match:
            threading.Thread(target=lambda: log.writelines(process.stderr or ()), daemon=True).start()
            return match[1]
    raise SetupError("USAGE", details=f"the registry did not start: {''.join(lines[-5:]).strip()}")


def register(path: Path, url: str) -> None:
    """Registers TiCDC's schemas in its order: in an empty registry they get the ids that the messages carry."""
    registry, entries = HttpSchemas(url, wait=15).check(), list(FileSchemas.read(path).all())
    for entry in entries:
        id_ = registry.id_of(entry.subject, entry.schema)
        if id_ != entry.id:
            raise SetupError("USAGE", details=f"{entry.subject}: registered as id {id_}, the messages say {entry.id}")
    say(f"registered {len(entries)} schemas of TiCDC, ids {', '.join(str(entry.id) for entry in entries)}")


def _pipeline(spark: SparkSession, messages: Path, url: str, folder: Path) -> int:
    from ticdc_bridge.spark_jobs.spark.api import decode, transcode
    from ticdc_bridge.spark_jobs.spark.frames import read_files

    with step("demo", "decoding TiCDC's Avro messages in Spark"):
        incoming = read_files(spark, str(messages))
        changes = decode(incoming, format="avro", registry=url, time_zone=_ZONE)
        summary, samples = _read(changes)
    _table(samples)
    with step("demo", "transcoding them to Debezium"):
        out = transcode(
            incoming, from_format="avro", to_format="debezium", registry=url, time_zone=_ZONE, options=_OPTIONS
        )
        target = folder / "debezium.jsonl"
        _write(out, target, summary)
    print("", *summary.lines(), f"Debezium messages: {target}", "Next: ticdc-bridge demo --kafka", sep="\n")
    return summary.exit_code


def _read(changes: DataFrame) -> tuple[Summary, list[dict[str, Any]]]:
    """Counts the decoded changes, and picks the first of each table, operation and schema id to show."""
    summary, samples, kinds = Summary(), [], set[tuple[Any, ...]]()
    # As lists of entries: a map comes to Python without the order of its columns.
    entries = {image: f"map_entries({image})" for image in ("before", "after")}
    listed = changes.selectExpr(*(f"{entries.get(c, f'`{c}`')} as `{c}`" for c in changes.columns))
    for row in listed.orderBy("source.offset", "row").collect():
        change = row.asDict(recursive=True)
        summary.messages += 1
        if change["error"] is not None:
            summary.errors[change["error"]["code"]] += 1
            continue
        summary.rows[change["op"]] += 1
        summary.flags.update(flag.partition(":")[0] for flag in change["flags"])
        # A BIGINT UNSIGNED above 2^63-1 is a negative number on the wire.
        cells = (entry["value"] or "" for entry in change["after"] or ())
        is_beyond_long = any(len(v) == 19 and v.isdigit() and int(v) >= 1 << 63 for v in cells)
        kind = (change["table"], change["op"], change["schema_id"], is_beyond_long)
        if kind not in kinds:
            kinds.add(kind)
            samples.append(change)
    return summary, samples


def _table(changes: list[dict[str, Any]]) -> None:
    from rich.console import Console
    from rich.table import Table

    table = Table(title="changes decoded in Spark (a few of each kind)", show_lines=True, title_justify="left")
    for heading in ("table", "op", "schema", "commit", "before", "after"):
        table.add_column(heading, overflow="fold")
    for change in changes:
        time_ = "(not in a tombstone)" if change["commit_time"] is None else f"{change['commit_time']:%H:%M:%S.%f}"[:-3]
        table.add_row(
            change["table"], change["op"], str(change["schema_id"]), time_,
            _row_text(change["before"], "(not sent)" if change["op"] == "u" else "–"), _row_text(change["after"], "–"),
        )  # fmt: skip
    Console(width=118, highlight=False).print(table)


def _row_text(row: list[dict[str, Any]] | None, missing: str) -> str:
    """A row as text; long values are cut, NULL is spelled out."""
    if row is None:
        return missing
    pieces = []
    for entry in row:
        name, value = entry["key"], entry["value"]
        text = "NULL" if value is None else value if len(value) <= 22 else value[:21] + "…"
        pieces.append(f"{name}={text}".replace("[", r"\["))
    return "  ".join(pieces)


def _write(messages: DataFrame, target: Path, summary: Summary) -> None:
    """The transcoded messages as a message file; what could not be written is counted as an error."""
    out = LineWriter(target)
    for row in messages.collect():
        if row["error"] is not None:
            summary.errors[row["error"]["code"]] += 1
            continue
        binaries = {"key_b64": b64(row["key"]), "value_b64": b64(row["value"])}
        out.write({"topic": row["topic"], **binaries, "payload": json.loads(row["value"])["payload"]})
        summary.out += 1
    out.close()


def say(text: str) -> None:
    print(f"demo: {text}", file=sys.stderr, flush=True)
