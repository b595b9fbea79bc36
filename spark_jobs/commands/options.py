"""What several commands take: places, schemas, options, Kafka, what to do with messages that fail."""

from __future__ import annotations

import argparse
import os
import re
from pathlib import Path
from typing import Any, NoReturn
from urllib.parse import quote

from ticdc_bridge.command_table import COMMANDS
from ticdc_bridge.schemas.formats.format_table import FORMATS
from ticdc_bridge.schemas.inputs.kafka_settings import TOPIC
from ticdc_bridge.schemas.inputs.subject_names import STRATEGIES
from ticdc_bridge.schemas.inputs.table_sources import definition_source
from ticdc_bridge.schemas.model.errors import SetupError
from ticdc_bridge.spark_jobs.commands import job_file
from ticdc_bridge.spark_jobs.pipeline.table_choice import means_definitions

READ = [*sorted(FORMATS), "auto"]
EPILOG = """\
places
  FILE            message file: JSON lines {"topic","partition","offset","timestamp","key_b64","value_b64","headers"},
                  only key_b64 and value_b64 are needed; FILE.parquet: the same columns, in binary;
                  FILE.avro, or a folder of such: values that Kafka Connect's S3 or HDFS sink archived
  s3://BUCKET/…   an object or a folder of them in place of a file (also gs://, abfs://, hdfs://; docs/lake.md)
  -               standard output
  kafka:TOPIC     a Kafka topic, read up to its high watermark at the start; as a target, `kafka:` alone means
                  each message's own topic (or the one that --topic names)
  delta:PATH      a Delta table, written by Spark; with {schema} and {table} in PATH one for each table
  iceberg:CATALOG.DB.TABLE   an Iceberg table; the catalog is configured by --conf spark.sql.catalog.…
  --ddl SOURCE    JSON lines {"commit_ts","db","query"}, as TiCDC sends DDL; "typed":true for SQL as typed (with its
                  "sql_mode"), "mode":"show" for the output of SHOW CREATE TABLE; or SQL (CREATE TABLE, USE …), which
                  holds from the beginning
  --history URL   the table histories that the service tracks, instead of --ddl FILE (docs/history.md)
  --ddl stream    DDL events define the tables of the rows after them (transcode does that anyway, where it is in order)

exit codes
  0 done   1 done, with messages in the dead letter   2 wrong usage, or something needed can't be reached
"""


class Parser(argparse.ArgumentParser):
    """Wrong usage ends with exit code 2 and a hint where the help is."""

    def error(self, message: str) -> NoReturn:
        self.exit(2, f"{self.prog}: {message}\nTry: {self.prog} --help\n")


def command(commands: Any, name: str, examples: str, epilog: str = EPILOG) -> argparse.ArgumentParser:
    """A command's parser, with its examples. Its description is command_table.py's."""
    text = COMMANDS[name].text
    parser: argparse.ArgumentParser = commands.add_parser(
        name,
        help=text,
        description=f"{text[0].upper()}{text[1:]}.",
        epilog=examples + "\n" + epilog,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    return parser


def job(p: argparse.ArgumentParser, merges: bool = False, chooses: bool = True) -> None:
    """What decode, encode, transcode and merge share. merges: each key's newest change is applied to a Delta table.
    chooses: only some tables' messages may be taken.
    """
    source = p.add_mutually_exclusive_group(required=True) if chooses else p
    more: dict[str, Any] = {} if chooses else {"required": True}
    source.add_argument("--in", dest="source", metavar="FILE|kafka:TOPIC,…", help="where messages come from", **more)
    if chooses:
        source.add_argument(
            "--topics",
            dest="source",
            type=lambda text: f"{TOPIC}/{text}/",
            metavar="REGEX",
            help="Kafka topics by a regular expression, such as 'tidb_.*'; a stream finds new ones",
        )
    if merges:
        p.add_argument(
            "--out",
            metavar="TABLE",
            help="the table as TiDB has it now: delta:PATH or iceberg:CATALOG.DB.TABLE; of several tables with"
            " {schema} and {table}, such as delta:/lake/{schema}/{table}",
        )
    else:
        p.add_argument("--out", default="-", metavar="FILE|-|kafka:TOPIC|TABLE", help="where the result goes (-)")
    p.add_argument(
        "--on-error",
        choices=("fail", "dead-letter", "drop"),
        default="dead-letter",
        help="what to do with a message that fails",
    )
    p.add_argument("--dead-letter", metavar="FILE|kafka:TOPIC", help="messages that fail, with the reason")
    if merges:
        p.set_defaults(dedupe=False, until_resolved=False, topic=None)
    else:
        p.add_argument(
            "--dedupe",
            action="store_true",
            help="leave out changes that came before (same db, table, key, commit_ts and op)",
        )
        p.add_argument(
            "--until-resolved",
            action="store_true",
            help="only rows up to the resolved ts: no earlier change can follow",
        )
        p.add_argument("--topic", metavar="RULE", help="target topic, such as tidb_{schema}_{table} (the source's)")
    if chooses:
        job_file.add(p)
    add_reading(p, chooses)
    p.add_argument("--from-offset", default="earliest", metavar="earliest|N", help="first offset in each partition")
    spark(p)


def spark(p: argparse.ArgumentParser) -> None:
    p.add_argument("--spark", action="store_true", help="run in Spark, with the same result")
    p.add_argument("--master", metavar="URL", type=with_retries, help="Spark master (local[*]); with --spark")
    spark_conf(p)
    p.add_argument(
        "--reader-features", choices=("minimal", "full"), default="minimal",
        help="Delta features of new tables: only when a change needs them (minimal), or all at once (full)",
    )  # fmt: skip
    p.add_argument("--stream", action="store_true", help="keep running (Structured Streaming); needs --checkpoint")
    p.add_argument("--checkpoint", metavar="DIR", help="the stream's checkpoint folder")
    p.add_argument(
        "--trigger",
        default="10s",
        metavar="T",
        help="interval of micro-batches (10s); `now`: process what is there and end",
    )
    p.add_argument("--max-per-batch", type=int, metavar="N", help="most messages in a micro-batch")
    p.add_argument(
        "--patience", metavar="T",
        help="how long a stream retries while the registry or Kafka is down (10m); if given, at the start too",
    )  # fmt: skip
    p.add_argument("--metrics", metavar="FILE|:PORT", help="Prometheus metrics: a text file, or served on a port")
    p.add_argument(
        "--metrics-host", metavar="HOST", default="127.0.0.1",
        help="the address that --metrics :PORT listens on (127.0.0.1); 0.0.0.0: every address",
    )  # fmt: skip
    lineage(p)


def spark_conf(p: argparse.ArgumentParser) -> None:
    """What goes to Spark as it is."""
    p.add_argument("--conf", action="append", default=[], metavar="KEY=VALUE", help="a Spark setting (repeatable)")
    p.add_argument("--packages", action="append", default=[], metavar="G:A:V,…", help="jars that Spark fetches (Maven)")


def lineage(p: argparse.ArgumentParser) -> None:
    p.add_argument(
        "--lineage", metavar="URL", type=with_login,
        help="report the topics, table versions and subjects used to this service",
    )  # fmt: skip
    p.add_argument("--job", metavar="NAME", help="the job's name in metrics and lineage (the command)")


_NO_FILE = re.compile(r"[^/\\.:]+")


class _TablesAction(argparse.Action):
    """--tables: patterns of tables, or a source of definitions, which --ddl is too."""

    def __call__(
        self, _p: argparse.ArgumentParser, args: argparse.Namespace, value: Any, _o: str | None = None
    ) -> None:
        if means_definitions(value):
            if _NO_FILE.fullmatch(value) and value != "stream" and not Path(value).exists():
                details = f"--tables {value}: no file or folder has this name; a table is DB.{value}"
                raise SetupError("USAGE", details=details)
            args.ddl = definition_source(value)
        else:
            args.tables = [*(args.tables or ()), value]


def add_reading(p: argparse.ArgumentParser, chooses: bool = False) -> None:
    """How messages are read. chooses: only some tables' may be taken."""
    registry(p)
    both = () if chooses else ("--tables",)
    p.add_argument(
        "--ddl",
        *both,
        type=definition_source,
        metavar="SOURCE",
        help="table definitions: a FILE (JSON lines of DDL, or SQL), a folder (dumpling's), a live TiDB"
        " (mysql://USER@HOST:4000/DB), or `stream`: from what is read",
    )
    if chooses:
        p.add_argument(
            "--tables",
            action=_TablesAction,
            metavar="PATTERNS|SOURCE",
            help="tables to read, by TiDB's table filter: 'shop.*,!shop.tmp_*'; or definitions, as --ddl",
        )
    p.add_argument(
        "--history", metavar="URL", type=with_login,
        help="table definitions from this service's history, instead of a file",
    )  # fmt: skip
    p.add_argument("--changefeed", metavar="NAME", help="whose history, where the service has several")
    p.add_argument("--ddl-time-zone", metavar="ZONE", help="time zone of literal TIMESTAMP defaults in DDL")
    p.add_argument(
        "--time-zone", metavar="ZONE", help="time zone of TIMESTAMP text: the changefeed's (UTC, with a warning)"
    )
    p.add_argument("--from-options", type=Path, metavar="FILE", help="options of the format read (JSON)")
    p.add_argument(
        "--claim-check-dir", type=Path, metavar="DIR", help="folder of the files that claim-check messages point to"
    )
    p.add_argument(
        "--on-lossy", choices=("error", "flag"), help="a value that can't be kept exactly (transcode: error)"
    )
    p.add_argument(
        "--craft-float", choices=("auto", "damaged", "sound"),
        help="Craft's FLOATs: damaged by TiCDC, sound, or as the messages show (auto)",
    )  # fmt: skip
    kafka(p)


def count(text: str) -> int:
    """A number from 0 on."""
    if not text.isascii() or not text.isdigit() or len(text) > 9:
        raise argparse.ArgumentTypeError(f"{text!r}: a number from 0 on is needed")
    return int(text)


def number(text: str) -> int:
    """A number from 1 on."""
    value = count(text)
    if not value:
        raise argparse.ArgumentTypeError(f"{text!r}: a number from 1 on is needed")
    return value


def with_retries(master: str) -> str:
    """A local master that tries a task four times if it fails (its Python worker was killed), as a cluster does.

    One that says itself how often, and any other master, is as it was.
    """
    match = re.fullmatch(r"local(?:\[(\d+|\*)\])?", master)
    return master if match is None else f"local[{match[1] or 1},4]"


def types(p: argparse.ArgumentParser) -> None:
    """How the columns of one table are typed."""
    p.add_argument(
        "--types", choices=("exact", "typed"), default="exact",
        help="temporal columns as text, which holds every value, or as date, timestamp_ntz and timestamp (exact)",
    )  # fmt: skip


def with_login(url: str, variable: str = "BRIDGE_REGISTRY_USER") -> str:
    """A URL with the NAME:PASSWORD of an environment variable, where it has none: many may read a command line."""
    scheme, mark, rest = url.partition("://")
    user, _, password = os.environ.get(variable, "").partition(":")
    if not (user and mark) or "@" in rest.partition("/")[0]:
        return url
    return f"{scheme}://{quote(user, safe='')}:{quote(password, safe='')}@{rest}"


def with_target_login(url: str) -> str:
    return with_login(url, "BRIDGE_TO_USER")


def registry(p: argparse.ArgumentParser) -> None:
    p.add_argument(
        "--registry", metavar="URL", type=with_login, default=os.environ.get("BRIDGE_REGISTRY"),
        help="schema registry (BRIDGE_REGISTRY; its NAME:PASSWORD: BRIDGE_REGISTRY_USER)",
    )  # fmt: skip
    p.add_argument("--schemas", type=Path, metavar="FILE", help="schemas in a file, instead of a registry")
    p.add_argument(
        "--registry-wait",
        metavar="SECONDS",
        help="how long to retry a registry that is down at the start (5s; a stream: --patience, if given)",
    )


def kafka(p: argparse.ArgumentParser) -> None:
    p.add_argument("--bootstrap-servers", metavar="HOST:PORT", help="Kafka (BRIDGE_BOOTSTRAP_SERVERS)")
    p.add_argument(
        "--kafka-config",
        type=Path,
        metavar="FILE",
        help="any client setting, name=value a line, as librdkafka or Java names it",
    )


def target(p: argparse.ArgumentParser) -> None:
    """How messages are written."""
    p.add_argument(
        "--to-registry", metavar="URL", type=with_target_login,
        help="registry of the format written (default: --registry; its NAME:PASSWORD: BRIDGE_TO_USER)",
    )  # fmt: skip
    p.add_argument("--to-schemas", type=Path, metavar="FILE", help="schemas of the format written (default: --schemas)")
    p.add_argument("--to-options", "--options", type=Path, metavar="FILE", help="options of the format written (JSON)")
    p.add_argument(
        "--subject-strategy", choices=STRATEGIES, default="topic",
        help="subjects of the schemas registered: by topic (as TiCDC), record name, or both",
    )  # fmt: skip
