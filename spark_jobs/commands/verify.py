"""`verify`: two topics, or a topic and what was made of it: the same events?"""

from __future__ import annotations

import argparse
import sys
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ticdc_bridge.schemas.formats.format_table import format_name
from ticdc_bridge.spark_jobs.commands import options

if TYPE_CHECKING:
    from ticdc_bridge.spark_jobs.io.locations import KafkaClient
    from ticdc_bridge.spark_jobs.pipeline.codec_config import CodecConfig

_EXAMPLES = """\
examples
  ticdc-bridge verify --from avro --in kafka:shop_orders --registry http://localhost:8081 \\
      --to debezium --against kafka:shop_orders_debezium --ddl history.jsonl
  ticdc-bridge verify --from open --in a.jsonl --to plain --against rows.jsonl --format-out json

what is compared
  Rows meet by table, key and commit_ts, whatever their order; the order of each key's rows is compared too. A row that
  is there twice (TiCDC sends at least once) counts once. What a format is known to lose (docs/reference.md) is
  counted as an expected loss, all else is a difference. Row checksums are checked where messages have them. DDL is
  compared where both sides have some.

exit codes
  0 the same   1 they differ   2 wrong usage, or something needed can't be reached
"""


_FORMATS = [*options.READ, "plain"]


def add(commands: Any) -> None:
    p = options.command(commands, "verify", _EXAMPLES, "")
    p.add_argument("--from", dest="format", required=True, type=format_name, choices=_FORMATS, help="format of --in")
    p.add_argument("--in", dest="source", required=True, metavar="FILE|kafka:TOPIC", help="one side")
    p.add_argument("--to", required=True, type=format_name, choices=_FORMATS, help="format of --against")
    p.add_argument("--against", required=True, metavar="FILE|kafka:TOPIC", help="the other side")
    options.add_reading(p)
    p.add_argument(
        "--to-registry", metavar="URL", type=options.with_target_login,
        help="registry of --against (default: --registry; its NAME:PASSWORD: BRIDGE_TO_USER)",
    )  # fmt: skip
    p.add_argument("--to-schemas", type=Path, metavar="FILE", help="schemas of --against (default: --schemas)")
    p.add_argument("--to-options", type=Path, metavar="FILE", help="options of the format of --against (JSON)")
    p.add_argument("--from-offset", default="earliest", metavar="earliest|N", help="first offset in each partition")
    p.add_argument("--format-out", choices=("text", "json"), default="text", help="form of the report (text)")
    options.lineage(p)
    p.add_argument("--most", type=options.count, default=1000, metavar="N", help="most differences listed (1000)")


def run(args: argparse.Namespace) -> int:
    from ticdc_bridge.schemas.plain.writer import json_line
    from ticdc_bridge.spark_jobs.commands.codec_arguments import kafka_of, read_side
    from ticdc_bridge.spark_jobs.jobs.verify import ComparedInput, VerifyReport, compare
    from ticdc_bridge.spark_jobs.streaming import lineage

    kafka = kafka_of(args)
    first = replace(read_side(args, "flag"), verify_checksum=True)
    other = argparse.Namespace(**{**vars(args), "format": args.to, "source": args.against})
    if args.to_registry or args.to_schemas:
        other.registry, other.schemas = args.to_registry, args.to_schemas
    if args.to_options:
        other.from_options = args.to_options
    second = replace(read_side(other, "flag"), verify_checksum=True)
    report = compare(
        ComparedInput(_read_incoming(args.source, kafka, first), first, "in"),
        ComparedInput(_read_incoming(args.against, kafka, second), second, "against"),
        VerifyReport(most=args.most),
    )
    lineage.tell(
        args.lineage,
        {"job": args.job or "verify", "command": "verify", "from": args.format, "to": args.to, "source": args.source,
         "target": args.against, "tables": lineage.tables_of(report.used), "messages": report.messages, "written": 0,
         "failed": report.kinds.total()},
    )  # fmt: skip
    for text in report.warnings():
        print(f"warning: {text}", file=sys.stderr)
    if args.format_out == "json":
        print(json_line(report.as_json()))
    else:
        print("\n".join(report.lines()))
    print(f"verify: {'different' if report.exit_code else 'the same'}", file=sys.stderr)
    return report.exit_code


def _read_incoming(place: str, kafka: KafkaClient, side: CodecConfig) -> Any:
    from ticdc_bridge.spark_jobs.io.endpoints import plain_source, read_source
    from ticdc_bridge.spark_jobs.pipeline.codec_config import PLAIN
    from ticdc_bridge.spark_jobs.pipeline.progress import show_progress
    from ticdc_bridge.spark_jobs.pipeline.storage_definitions import stated_tables

    if side.format == PLAIN:
        incoming = plain_source(place, kafka)
    else:
        incoming = read_source(place, kafka, side.options, stated_tables(side.tables))
    return show_progress(incoming, f"verify {place}")
