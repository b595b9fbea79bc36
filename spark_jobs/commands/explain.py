"""`explain`: one message, from its bytes to its values."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from schemas.model.errors import SetupError
from schemas.model.options import Options
from spark_jobs.commands import options
from spark_jobs.commands.codec_arguments import kafka_of, options_file, read_side
from spark_jobs.jobs import explain


def add(commands: Any) -> None:
    p = commands.add_parser(
        "explain",
        help="one message, from its bytes to its values",
        description=explain.DESCRIPTION,
        epilog=explain.EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    explain.add_arguments(p)
    p.add_argument("--format", default="auto", choices=options.READ, help="format (told by the message)")
    options.add_reading(p)
    p.add_argument("--to-options", type=Path, metavar="FILE", help="options of the formats compared with (JSON)")


def run(args: argparse.Namespace) -> int:
    place = args.source or args.place
    if place is None or (args.source and args.place):
        raise SetupError("USAGE", details="which message? FILE#LINE or TOPIC@PARTITION:OFFSET, once")
    read = read_side(args, "flag")
    to_options = {"enable_tidb_extension": True, **options_file(args.to_options)}
    to_options.setdefault("time_zone", read.options.time_zone)
    text, code = explain.run(place, read, Options.of(to_options), kafka_of(args), args.format_out == "json")
    print(text)
    return code
