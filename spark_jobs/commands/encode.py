"""`encode`: encode JSON rows as messages of a format."""

from __future__ import annotations

import argparse
from typing import Any

from ticdc_bridge.schemas.formats.format_table import FORMATS, format_name
from ticdc_bridge.spark_jobs.commands import options

_EXAMPLES = """\
examples
  ticdc-bridge encode --to open --in rows.jsonl --ddl history.jsonl --out messages.jsonl
  ticdc-bridge encode --to avro --in rows.jsonl --registry http://localhost:8081 --out kafka: \\
      --topic '{schema}_{table}'

The lines are what decode prints. A table's columns come from --ddl, from the DDL lines before its rows, or (lines of
Avro messages) from the schema that `schema_id` names. Events that the format has no message for (DDL, watermark) are
skipped and counted by kind.
"""


def add(commands: Any) -> None:
    p = options.command(commands, "encode", _EXAMPLES)
    p.add_argument(
        "--to", "--format", dest="to", required=True, type=format_name, choices=sorted(FORMATS), help="format written"
    )
    options.job(p, chooses=False)
    options.target(p)


def run(args: argparse.Namespace) -> int:
    from ticdc_bridge.spark_jobs.commands.codec_arguments import read_side, write_side
    from ticdc_bridge.spark_jobs.commands.job_runner import run_job
    from ticdc_bridge.spark_jobs.pipeline.codec_config import PLAIN
    from ticdc_bridge.spark_jobs.pipeline.job import Job

    args.format = PLAIN
    read = read_side(args, "error", warn=FORMATS[args.to].zone is not None and args.to_options is None)
    write = write_side(args, read)
    return run_job(args, Job(read, write, args.topic, args.on_error, args.dedupe, args.until_resolved))
