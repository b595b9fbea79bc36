"""`decode`: messages → change events in plain form."""

from __future__ import annotations

import argparse
from dataclasses import replace
from typing import Any

from ticdc_bridge.schemas.formats.format_table import format_name
from ticdc_bridge.spark_jobs.commands import options

_EXAMPLES = """\
examples
  ticdc-bridge decode --format avro --registry http://localhost:8081 --in kafka:shop_orders --out -
  ticdc-bridge decode --format debezium --in messages.jsonl --out rows.jsonl
  ticdc-bridge decode --format auto --in messages.jsonl --schemas schemas.jsonl
  ticdc-bridge decode --format simple --verify-checksum --in messages.jsonl --out rows.jsonl
  ticdc-bridge decode --format open --ddl history.jsonl --in messages.jsonl \\
      --table shop.orders --types typed --out orders.parquet
  ticdc-bridge decode --format auto --in topics/shop_orders/ --table shop.orders --out orders.avro
  ticdc-bridge decode --format avro --registry http://localhost:8081 --in kafka:shop_orders \\
      --table shop.orders --out delta:/lake/orders_changes --stream --checkpoint /lake/_checkpoints/orders
"""


def add(commands: Any) -> None:
    p = options.command(commands, "decode", _EXAMPLES)
    p.add_argument(
        "--format",
        required=True,
        type=format_name,
        choices=options.READ,
        help="format of the messages; auto: detect it for each message",
    )
    p.add_argument(
        "--verify-checksum", action="store_true", help="compare each row with the row checksum it came with (exit 1)"
    )
    p.add_argument(
        "--table", metavar="DB.TABLE", help="one table, its columns typed (to delta:PATH, FILE.parquet or FILE.avro)"
    )
    options.types(p)
    p.add_argument("--time", choices=("text", "interval"), default="text", help="TIME as text or as an interval (text)")
    p.add_argument(
        "--missing",
        choices=("null", "default"),
        default="null",
        help="the value of a column that was added after the row (null)",
    )
    options.job(p)


def run(args: argparse.Namespace) -> int:
    from ticdc_bridge.schemas.inspect.format_lookup import format_named
    from ticdc_bridge.spark_jobs.commands.codec_arguments import choose_tables, read_side, view_of
    from ticdc_bridge.spark_jobs.commands.job_runner import run_job
    from ticdc_bridge.spark_jobs.pipeline.job import Job

    chosen = choose_tables(args)
    zoned = args.types == "typed" and format_named(args.format).zone is None  # TIMESTAMP text becomes a time
    read = replace(read_side(args, "flag", warn=zoned), view=view_of(args), chosen=chosen)
    work = Job(read, None, args.topic, args.on_error, args.dedupe, args.until_resolved, places=args.places)
    return run_job(args, work)
