"""Many tables in one merge: a batch with rows of 20 tables, where 500 are defined and where 20 are.

The figure is the CPU of one batch, the rival that of the smaller job; 1 is no difference. A batch before it makes the
tables. Each job is a session's second, so that no figure has Spark's start or the first compilation in it.
"""

import json
import tempfile
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from benchmarks.cpu import Stopwatch
from benchmarks.figures import Figure, Run
from ticdc_bridge.spark_jobs.io.locations import KafkaClient
from ticdc_bridge.spark_jobs.io.message_files import message_line
from ticdc_bridge.spark_jobs.pipeline.codec_config import CodecConfig
from ticdc_bridge.spark_jobs.pipeline.job import Job
from ticdc_bridge.spark_jobs.pipeline.table_choice import TableChoice
from ticdc_bridge.spark_jobs.pipeline.table_view import ANY_TABLE, TableView

_TABLES, _ACTIVE, _ROWS = 500, 20, 500
_QUICK_TABLES, _QUICK_ACTIVE, _QUICK_ROWS = 100, 5, 50
_TARGET = 1 / 1.25


def run(run: Run) -> Iterator[Figure]:
    """CPU seconds of a batch. RuntimeError where rows are missing."""
    many, active, rows = (
        (_QUICK_TABLES, _QUICK_ACTIVE, _QUICK_ROWS) if run.quick else (_TABLES, _ACTIVE, run.rows or _ROWS)
    )
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        few_cpu = _measure(run, root / "few", active, active, rows)
        many_cpu = _measure(run, root / "many", many, active, rows)
    yield Figure(f"merge-{active}-of-{many}-tables", many_cpu, "s CPU a batch", "less", few_cpu, _TARGET)


def _measure(run: Run, root: Path, tables: int, active: int, rows: int) -> float:
    from ticdc_bridge.schemas.inputs.schema_files import FileSchemas
    from ticdc_bridge.schemas.inputs.table_definitions import TableDefinitions, statements_of
    from ticdc_bridge.schemas.model.event import Message, RowChange
    from ticdc_bridge.schemas.model.options import Options
    from ticdc_bridge.schemas.model.table import Table, TableId
    from ticdc_bridge.spark_jobs.runtime.spark_settings import SparkSettings
    from ticdc_bridge.spark_jobs.streaming.batch import run_to_table

    root.mkdir()
    ddl = root / "ddl.jsonl"
    query = "CREATE TABLE t{} (id BIGINT PRIMARY KEY, name VARCHAR(40), amount DECIMAL(12,2), at DATETIME)"
    lines = [json.dumps({"commit_ts": n + 1, "db": "shop", "query": query.format(n)}) for n in range(tables)]
    ddl.write_text("\n".join(lines) + "\n")
    definitions = TableDefinitions.read(ddl)
    config = CodecConfig("open", FileSchemas([]), Options(), definitions)
    encoder, spent = config.encoder(), 0.0
    read = replace(config, chosen=TableChoice.of(["shop.*"]), view=TableView(Table(ANY_TABLE, ())))
    job = Job(read, None, None, "fail", merge="auto")
    for batch in range(2):
        path, offset = root / f"{batch}.jsonl", 0
        with path.open("w") as out:
            for n in range(rows):
                for t in range(active):
                    version = definitions.at(TableId("shop", f"t{t}"), None)
                    if version is None:
                        raise RuntimeError("a table has no definition")
                    row = {"id": str(n), "name": f"name {n} {batch}", "amount": "1.50", "at": "2026-01-01 00:00:00"}
                    change = RowChange("open", version.table, "c", 10_000 + batch, None, {**row}, ("id",), "UTC")
                    for message in encoder.encode(change, Message(None, None, "shop", 0, offset)):
                        out.write(json.dumps(message_line(message)) + "\n")
                        offset += 1
        run.say(f"batch {batch + 1} of {active} tables, {tables} defined: {rows * active:,} rows")
        with Stopwatch() as watch:
            position = f"delta:{root}/lake/{{schema}}/{{table}}"
            settings = SparkSettings("local[2]")
            summary = run_to_table(job, str(path), position, None, KafkaClient(), settings, None, statements_of(ddl))
        if summary.out != rows * active:
            raise RuntimeError(f"{summary.out} of {rows * active} rows were merged")
        spent = watch.spent.cpu
    return spent
