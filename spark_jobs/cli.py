"""The command line: decode and transcode, in-process or in Spark, and the demo.

stdout holds data only; progress and summary go to stderr. Exit codes: 0 done, 1 done with rows in the dead letter,
2 wrong usage or cannot start, 130 interrupted.
"""

from __future__ import annotations

import argparse
import io
import json
import os
import re
import sys
import traceback
from pathlib import Path
from typing import Any, NoReturn

from schemas.errors import BridgeError, SetupError
from schemas.options import Options
from schemas.wire import FORMATS, format_named
from schemas.wire.base import Format
from spark_jobs import explain, jobs
from spark_jobs.claim_check import ClaimFolder
from spark_jobs.codec import Side
from spark_jobs.definitions import Definitions
from spark_jobs.endpoints import DeadLetters, KafkaClient, different_files, line_sink, message_sink, source
from spark_jobs.lookup import FileSchemas, HttpSchemas, Schemas
from spark_jobs.progress import tracked
from spark_jobs.summary import Summary

_EPILOG = """\
places
  FILE            message file: JSON lines {"topic","partition","offset","timestamp","key_b64","value_b64","headers"},
                  only key_b64 and value_b64 are needed; FILE.parquet: the same columns, in binary
  -               standard output
  kafka:TOPIC     a Kafka topic, read up to the high watermark seen at the start
  --ddl FILE      JSON lines {"commit_ts","db","query"}, as TiCDC sends DDL; "typed":true for SQL as typed (with its
                  "sql_mode"), "mode":"show" for the output of SHOW CREATE TABLE

exit codes
  0 done   1 done, with messages in the dead letter   2 wrong usage, or something needed can't be reached
"""
_EXAMPLES = {
    "decode": """\
examples
  python -m spark_jobs decode --format avro --registry http://localhost:8081 --in kafka:shop_orders --out -
  python -m spark_jobs decode --format debezium --in messages.jsonl --out rows.jsonl
  python -m spark_jobs decode --format auto --in messages.jsonl --schemas schemas.jsonl
  python -m spark_jobs decode --format simple --verify-checksum --in messages.jsonl --out rows.jsonl
""",
    "transcode": """\
examples
  python -m spark_jobs transcode --from avro --to debezium --registry http://localhost:8081 \\
      --time-zone Asia/Shanghai --in kafka:shop_orders --out kafka:shop_orders_debezium
""",
}


class _Parser(argparse.ArgumentParser):
    """Wrong usage ends with exit code 2 and a hint where the help is."""

    def error(self, message: str) -> NoReturn:
        self.exit(2, f"{self.prog}: {message}\nTry: {self.prog} --help\n")


def parser() -> argparse.ArgumentParser:
    """The command line's grammar."""
    top = _Parser(prog="python -m spark_jobs", description="Reads, explains and rewrites TiCDC's messages, exactly.")
    commands = top.add_subparsers(dest="command", required=True, metavar="COMMAND")
    decode = _command(commands, "decode", "messages → change events in plain form, a JSON line each")
    decode.add_argument(
        "--format", required=True, choices=[*sorted(FORMATS), "auto"], help="format of the messages; auto: each its own"
    )
    transcode = _command(commands, "transcode", "messages of one format → messages of another")
    transcode.add_argument(
        "--from", dest="format", required=True, choices=[*sorted(FORMATS), "auto"], help="format read"
    )
    transcode.add_argument("--to", required=True, choices=sorted(FORMATS), help="format written")
    decode.add_argument(
        "--verify-checksum", action="store_true", help="compare each row with the row checksum it came with (exit 1)"
    )
    _common(decode)
    _common(transcode)
    _target(transcode)
    _explain_grammar(commands)
    demo = commands.add_parser("demo", help="real TiCDC messages: registry, Spark, Debezium, on this machine")
    demo.add_argument("--dir", type=Path, default=Path(".demo"), help="where the demo leaves its files (.demo)")
    return top


def _explain_grammar(commands: Any) -> None:
    p = commands.add_parser(
        "explain",
        help="one message, from its bytes to its values",
        description=explain.DESCRIPTION,
        epilog=explain.EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    explain.add_arguments(p)
    p.add_argument("--format", default="auto", choices=[*sorted(FORMATS), "auto"], help="format (told by the message)")
    _reading(p)
    p.add_argument("--to-options", type=Path, metavar="FILE", help="options of the formats compared with (JSON)")


def _command(commands: Any, name: str, text: str) -> argparse.ArgumentParser:
    made: argparse.ArgumentParser = commands.add_parser(
        name,
        help=text,
        description=text[0].upper() + text[1:] + ".",
        epilog=_EXAMPLES[name] + "\n" + _EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    return made


def _common(p: argparse.ArgumentParser) -> None:
    p.add_argument("--in", dest="source", required=True, metavar="FILE|kafka:TOPIC", help="where messages come from")
    p.add_argument("--out", default="-", metavar="FILE|-|kafka:TOPIC", help="where the result goes (-)")
    _reading(p)
    p.add_argument("--dead-letter", metavar="FILE|kafka:TOPIC", help="messages that fail, with the reason")
    p.add_argument("--from-offset", default="earliest", metavar="earliest|N", help="where to begin in each partition")
    p.add_argument("--spark", action="store_true", help="run in Spark, with the same result")
    p.add_argument("--master", metavar="URL", help="Spark master (local[*]); with --spark")


def _reading(p: argparse.ArgumentParser) -> None:
    """How messages are read."""
    p.add_argument("--registry", metavar="URL", default=os.environ.get("BRIDGE_REGISTRY"), help="schema registry")
    p.add_argument("--schemas", type=Path, metavar="FILE", help="schemas in a file, instead of a registry")
    p.add_argument(
        "--registry-wait", metavar="SECONDS", default="5s", help="how long to try a registry that is down (5s)"
    )
    p.add_argument("--ddl", type=Path, metavar="FILE", help="table definitions: DDL in JSON lines (see below)")
    p.add_argument("--ddl-time-zone", metavar="ZONE", help="zone of literal TIMESTAMP defaults in --ddl")
    p.add_argument("--time-zone", metavar="ZONE", help="zone of TIMESTAMP text: the changefeed's (UTC, warned)")
    p.add_argument("--from-options", type=Path, metavar="FILE", help="options of the format read (JSON)")
    p.add_argument("--claim-check-dir", type=Path, metavar="DIR", help="files that claim-check messages point to")
    p.add_argument(
        "--on-lossy", choices=("error", "flag"), help="a value that can't be kept exactly (transcode: error)"
    )
    p.add_argument("--bootstrap-servers", metavar="HOST:PORT", help="Kafka (BRIDGE_BOOTSTRAP_SERVERS)")
    p.add_argument("--kafka-config", type=Path, metavar="FILE", help="any client setting, name=value a line")


def _target(p: argparse.ArgumentParser) -> None:
    p.add_argument("--to-registry", metavar="URL", help="registry of the format written (default: --registry)")
    p.add_argument("--to-schemas", type=Path, metavar="FILE", help="schemas of the format written (default: --schemas)")
    p.add_argument("--to-options", "--options", type=Path, metavar="FILE", help="options of the format written (JSON)")
    p.add_argument(
        "--topic", metavar="RULE", help="topic written, such as tidb_{schema}_{table} (default: the source's)"
    )


def main(argv: list[str] | None = None) -> int:
    """Runs a command; returns its exit code."""
    args = parser().parse_args(argv)
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(encoding="utf-8", errors="backslashreplace" if stream is sys.stderr else "strict")
    try:
        if args.command == "demo":
            from spark_jobs.demo import run

            return run(args.dir)
        if args.command == "explain":
            return _explain(args)
        summary = _decode(args) if args.command == "decode" else _transcode(args)
    except BridgeError as error:
        print(f"error {error.code}: {error.detail}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print("interrupted: the output is not complete", file=sys.stderr)
        return 130
    except BrokenPipeError:
        # The reader of our output went away (| head): nothing more to say, and Python must not say it either.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    except Exception:
        # Exit code 1 means "done": a defect of ours must not look like that.
        traceback.print_exc()
        print("internal error: please report it with the text above; the output is not complete", file=sys.stderr)
        return 2
    print("\n".join(f"{args.command}: {line}" for line in summary.lines()), file=sys.stderr)
    return summary.exit_code


def _decode(args: argparse.Namespace) -> Summary:
    read = read_side(args, "flag")
    kafka = KafkaClient(args.bootstrap_servers, args.kafka_config, _offset(args.from_offset))
    different_files({"--in": args.source, "--out": args.out, "--dead-letter": args.dead_letter})
    dead = DeadLetters(args.dead_letter, kafka) if args.dead_letter else None
    out = line_sink(args.out, kafka)
    if args.spark:
        from spark_jobs import spark_run

        return spark_run.decode(args.source, read, out, dead, kafka, args.master)
    return jobs.decode(tracked(source(args.source, kafka), "decode"), read, out, dead)


def _explain(args: argparse.Namespace) -> int:
    place = args.source or args.place
    if place is None or (args.source and args.place):
        raise SetupError("USAGE", details="which message? FILE#LINE or TOPIC@PARTITION:OFFSET, once")
    read = read_side(args, "flag")
    given = {"enable_tidb_extension": True, **_options_file(args.to_options)}
    given.setdefault("time_zone", read.options.time_zone)
    kafka = KafkaClient(args.bootstrap_servers, args.kafka_config)
    text, code = explain.run(place, read, Options.of(given), kafka, args.format_out == "json")
    print(text)
    return code


def _transcode(args: argparse.Namespace) -> Summary:
    read = read_side(args, "error")
    write = write_side(args, read)
    kafka = KafkaClient(args.bootstrap_servers, args.kafka_config, _offset(args.from_offset))
    if not args.dead_letter and args.out == "-":
        place = "transcode.dead.jsonl"
    else:
        place = args.dead_letter or f"{args.out.removeprefix('kafka:')}.dead.jsonl"
    different_files({"--in": args.source, "--out": args.out, "--dead-letter": place})
    dead, out = DeadLetters(place, kafka), message_sink(args.out, kafka)
    if args.spark:
        from spark_jobs import spark_run

        return spark_run.transcode(args.source, read, write, out, dead, kafka, args.master, args.topic)
    return jobs.transcode(tracked(source(args.source, kafka), "transcode"), read, write, out, dead, args.topic)


def read_side(args: argparse.Namespace, on_lossy: str) -> Side:
    """The side read, from the command line. SetupError USAGE, REGISTRY_UNREACHABLE."""
    known = format_named(args.format)
    schemas = _schemas(args.registry, args.schemas, args.registry_wait, known)
    given = _options_file(args.from_options)
    zone = args.time_zone or given.pop("time_zone", None)
    zone = zone or _zone_of_meta(args.schemas, args.ddl, args.from_options, getattr(args, "to_options", None))
    verify = getattr(args, "verify_checksum", False)
    matters = verify and args.format in ("avro", "auto")  # the sum is over UTC
    if args.command == "transcode":
        matters = None in (known.zone, FORMATS[args.to].zone)
    if zone is None and matters:
        print("warning: --time-zone is not given; TIMESTAMP text without a zone is taken as UTC", file=sys.stderr)
    options = Options.of(given, time_zone=zone or "UTC", on_lossy=args.on_lossy or on_lossy)
    claims = ClaimFolder.of(args.claim_check_dir) if args.claim_check_dir else None
    tables = Definitions.read(args.ddl, args.ddl_time_zone) if args.ddl else None
    return Side(args.format, schemas, options, tables, claims, verify)


def write_side(args: argparse.Namespace, read: Side) -> Side:
    """The side written. Without --to-registry or --to-schemas it is that of the side read."""
    schemas = read.schemas
    if args.to_registry or args.to_schemas:
        schemas = _schemas(args.to_registry, args.to_schemas, args.registry_wait, FORMATS[args.to])
    elif not format_named(args.format).needs_schemas:
        schemas = _schemas(args.registry, args.schemas, args.registry_wait, FORMATS[args.to])
    given = _options_file(args.to_options)
    zone = given.pop("time_zone", None) or _zone_of_meta(args.to_options, args.to_schemas) or read.options.time_zone
    on_lossy = args.on_lossy or given.pop("on_lossy", "error")
    return Side(args.to, schemas, Options.of(given, time_zone=zone, on_lossy=on_lossy))


def _schemas(registry: str | None, file: Path | None, wait: str, of: Format) -> Schemas:
    if file is not None:
        return FileSchemas.read(file)
    if registry and (of.needs_schemas or of.uses_schemas):
        return HttpSchemas(registry, _seconds(wait)).check()
    if of.needs_schemas:
        raise SetupError("USAGE", details="this format needs schemas: give --registry URL or --schemas FILE")
    return FileSchemas([])


def _offset(text: str) -> int:
    if text == "earliest":
        return 0
    if not text.isdigit() or len(text) > 18:
        raise SetupError("USAGE", details=f"--from-offset {text}: earliest or an offset is needed")
    return int(text)


def _seconds(text: str) -> float:
    found = re.fullmatch(r"(\d{1,6}(?:\.\d+)?)(ms|s|m)?", text)
    if not found:
        raise SetupError("USAGE", details=f"--registry-wait {text}: 5s, 500ms or 10m is needed")
    return float(found[1]) * {"ms": 0.001, "s": 1.0, "m": 60.0, None: 1.0}[found[2]]


def _options_file(path: Path | None) -> dict[str, Any]:
    """Options as JSON: the object itself, or the `options` of a golden's meta.json."""
    if path is None:
        return {}
    found = _json_file(path)
    options = found.get("options", found)
    if not isinstance(options, dict):
        raise SetupError("USAGE", details=f"{path}: a JSON object of options is needed")
    return dict(options)


def _zone_of_meta(*paths: Path | None) -> str | None:
    """The changefeed's zone, where one of the files is a golden's meta.json."""
    for path in paths:
        if path is not None and path.name.endswith(".meta.json"):
            meta = _json_file(path)
            zone = meta.get("changefeed_tz", meta.get("tz"))
            if isinstance(zone, str):
                return zone
    return None


def _json_file(path: Path) -> dict[str, Any]:
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise SetupError("USAGE", details=f"{path}: {error.strerror or error}") from error
    except ValueError as error:
        raise SetupError("USAGE", details=f"{path}: not JSON: {error}") from error
    if not isinstance(found, dict):
        raise SetupError("USAGE", details=f"{path}: a JSON object is needed")
    return found
