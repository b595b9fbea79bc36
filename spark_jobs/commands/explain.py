"""`explain`: show one message field by field: bytes, types, values."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from ticdc_bridge.command_table import COMMANDS
from ticdc_bridge.schemas.formats.format_table import format_name
from ticdc_bridge.schemas.model.errors import SetupError
from ticdc_bridge.spark_jobs.commands import options

_DESCRIPTION = """\
Shows one message from its bytes to its values: how it is framed, which schema it names and where
that is registered, the table's version at its commit_ts, and for each field where it stands, its
bytes, its type on the wire, its TiDB type, its value, and what each other format would carry for
it (or why it can't)."""
_EPILOG = """\
which message
  FILE             the first message of a message file;  FILE#7  the message on line 7
  TOPIC@2:1041     offset 1041 of partition 2 of a Kafka topic (also kafka:TOPIC@2:1041)

examples
  ticdc-bridge explain messages.jsonl#3 --registry http://localhost:8081
  ticdc-bridge explain shop_orders@0:1041 --bootstrap-servers localhost:9092 --ddl history.jsonl
  ticdc-bridge explain --in messages.jsonl --format-out json | jq '.events[0].fields[] | {column, wire, value}'

output
  after.price    the column `price` of the new row; `before.` is the old row
  bytes          position of the field: value @41 +7 is seven bytes from offset 41 of the value
  wire           its type in the message;  type  its TiDB type;  value  as decode prints it
  debezium, …    what that format would carry; `-` where that is not known

exit codes
  0 explained   1 the message can't be read (its bytes and the reason are shown)   2 wrong usage, or no such message
"""


def add(commands: Any) -> None:
    p = commands.add_parser(
        "explain",
        help=COMMANDS["explain"].text,
        description=_DESCRIPTION,
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    p.add_argument("place", nargs="?", metavar="FILE[#LINE] | TOPIC@PARTITION:OFFSET", help="which message")
    p.add_argument("--in", dest="source", metavar="FILE[#LINE]|kafka:TOPIC@PARTITION:OFFSET", help="the same")
    p.add_argument("--format-out", choices=("text", "json"), default="text", help="for people (text) or programs")
    p.add_argument("--format", default="auto", type=format_name, choices=options.READ, help="format (detected)")
    options.add_reading(p)
    p.add_argument("--to-options", type=Path, metavar="FILE", help="options of the formats compared with (JSON)")


def run(args: argparse.Namespace) -> int:
    from ticdc_bridge.schemas.model.options import Options
    from ticdc_bridge.spark_jobs.commands.codec_arguments import kafka_of, options_file, read_side
    from ticdc_bridge.spark_jobs.jobs import explain

    place = args.source or args.place
    if place is None or (args.source and args.place):
        raise SetupError("USAGE", details="which message? FILE#LINE or TOPIC@PARTITION:OFFSET, once")
    read = read_side(args, "flag")
    to_options = {"enable_tidb_extension": True, **options_file(args.to_options)}
    to_options.setdefault("time_zone", read.options.time_zone)
    text, code = explain.run(place, read, Options.of(to_options), kafka_of(args), args.format_out == "json")
    print(text)
    return code
