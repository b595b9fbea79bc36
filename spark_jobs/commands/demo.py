"""`demo`: the whole thing at work on this machine."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from ticdc_bridge.command_table import COMMANDS


def add(commands: Any) -> None:
    p = commands.add_parser("demo", help=COMMANDS["demo"].text)
    p.add_argument(
        "--out", "--dir", dest="dir", type=Path, default=Path(".demo"), help="folder of the demo's files (.demo)"
    )


def run(args: argparse.Namespace) -> int:
    from ticdc_bridge.spark_jobs.jobs import demo

    return demo.run(args.dir)
