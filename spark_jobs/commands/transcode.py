"""`transcode`: convert messages from one format to another."""

from __future__ import annotations

import argparse
from dataclasses import replace
from typing import Any

from ticdc_bridge.schemas.formats.format_table import FORMATS, format_name
from ticdc_bridge.spark_jobs.commands import options

_EXAMPLES = """\
examples
  ticdc-bridge transcode --from avro --to debezium --registry http://localhost:8081 \\
      --time-zone Asia/Shanghai --in kafka:shop_orders --out kafka:shop_orders_debezium
  ticdc-bridge transcode --from open --to avro --ddl history.jsonl --to-registry http://localhost:8081 \\
      --subject-strategy topic-record --in kafka:shop --out kafka: --topic '{schema}_{table}' \\
      --stream --checkpoint /var/lib/bridge/shop
"""


def add(commands: Any) -> None:
    p = options.command(commands, "transcode", _EXAMPLES)
    p.add_argument("--from", dest="format", required=True, type=format_name, choices=options.READ, help="format read")
    p.add_argument("--to", required=True, type=format_name, choices=sorted(FORMATS), help="format written")
    options.job(p)
    options.target(p)


def run(args: argparse.Namespace) -> int:
    from ticdc_bridge.schemas.inspect.format_lookup import format_named
    from ticdc_bridge.spark_jobs.commands.codec_arguments import choose_tables, read_side, write_side
    from ticdc_bridge.spark_jobs.commands.job_runner import run_job
    from ticdc_bridge.spark_jobs.pipeline.job import Job

    chosen = choose_tables(args)
    read = read_side(args, "error", warn=None in (format_named(args.format).zone, FORMATS[args.to].zone))
    read = replace(read, chosen=chosen)
    write = write_side(args, read)
    return run_job(args, Job(read, write, args.topic, args.on_error, args.dedupe, args.until_resolved))
