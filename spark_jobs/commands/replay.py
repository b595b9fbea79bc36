"""`replay`: dead letters go through again."""

from __future__ import annotations

import argparse
import re
from datetime import UTC, datetime
from typing import Any

from schemas.errors import ERRORS, SetupError
from spark_jobs.commands import grammar
from spark_jobs.commands.sides import kafka_of
from spark_jobs.endpoints import different_files, message_sink, source
from spark_jobs.progress import tell_lines, tracked
from spark_jobs.replay import Choice, replay

_EXAMPLES = """\
examples
  python -m spark_jobs replay --in kafka:shop_dead --out kafka: --reason UNKNOWN_SCHEMA_ID --since 2026-11-20T08:00:00Z
  python -m spark_jobs replay --in out.jsonl.dead.jsonl --out again.jsonl

  `--out kafka:` sends each message to the topic and partition it came from; the job that reads that topic sees it
  again. Headers `bridge.reason`, `.detail`, `.origin` go, `bridge.attempt` stays: a message that failed --max-attempts
  times is left out and counted (exit code 1).

exit codes
  0 done   1 done, and some failed too often   2 wrong usage, or something needed can't be reached
"""


def add(commands: Any) -> None:
    p = grammar.command(commands, "replay", "dead letters → the messages that failed, once more", _EXAMPLES, "")
    p.add_argument("--in", dest="source", required=True, metavar="FILE|kafka:TOPIC", help="dead letters")
    p.add_argument("--out", required=True, metavar="FILE|-|kafka:TOPIC|kafka:", help="where the messages go")
    p.add_argument("--reason", action="append", default=[], metavar="CODE", help="only these (again for more)")
    p.add_argument("--since", metavar="TIME", help="only from this time on: 2026-11-20T08:00:00Z, or ms since 1970")
    p.add_argument("--max-attempts", type=int, default=3, metavar="N", help="failures after which it ends (3)")
    p.add_argument("--from-offset", default="earliest", metavar="earliest|N", help="where to begin in each partition")
    grammar.kafka(p)


def run(args: argparse.Namespace) -> int:
    for code in args.reason:
        if code not in ERRORS:
            raise SetupError("USAGE", details=f"--reason {code} is not known; known: {', '.join(sorted(ERRORS))}")
    if args.max_attempts < 1:
        raise SetupError("USAGE", details="--max-attempts: at least 1")
    kafka = kafka_of(args)
    different_files({"--in": args.source, "--out": args.out})
    choice = Choice(frozenset(args.reason), _time(args.since), args.max_attempts)
    done = replay(tracked(source(args.source, kafka), "replay"), choice, message_sink(args.out, kafka))
    tell_lines("replay", done.lines())
    return done.exit_code


def _time(text: str | None) -> int | None:
    """A time as ms since 1970. SetupError USAGE."""
    if text is None:
        return None
    if re.fullmatch(r"\d{1,15}", text):
        return int(text)
    try:
        found = datetime.fromisoformat(text)
    except ValueError as error:
        raise SetupError("USAGE", details=f"--since {text}: {error}") from error
    return round((found if found.tzinfo else found.replace(tzinfo=UTC)).timestamp() * 1000)
