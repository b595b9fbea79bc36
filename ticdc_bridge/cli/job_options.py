"""The options that several commands of the jobs take, by groups: a command inherits those it has."""

import os
import re
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar, Final, Literal
from urllib.parse import quote

import typer

from ticdc_bridge.cli.job_command import JobCommand
from ticdc_bridge.cli.job_file import table_outputs_of
from ticdc_bridge.cli.options import (
    AS_JSON,
    CLAIM_CHECKS,
    DDL_ZONE,
    DEFINITIONS,
    ERRORS,
    INPUT,
    OUTPUT,
    REPORTS,
    SPARK,
    STREAM,
    KafkaOptions,
    choice,
    flag,
    option,
    tso,
)
from ticdc_bridge.schemas.formats.format_table import FORMATS, format_name
from ticdc_bridge.schemas.inputs.kafka_settings import TOPIC
from ticdc_bridge.schemas.inputs.subject_names import Strategy
from ticdc_bridge.schemas.inputs.table_sources import definition_source
from ticdc_bridge.spark_jobs.lake.engines.base import AUTO, ENGINES

READ: Final = (*sorted(FORMATS), "auto")
WRITTEN: Final = tuple(sorted(FORMATS))
OUTPUT_KEYS: Final = """\
Places:
  FILE            message file: JSON lines {"topic","partition","offset","timestamp","key_b64","value_b64","headers"},
                  only key_b64 and value_b64 are needed; FILE.parquet: the same columns, in binary;
                  FILE.avro, or a folder of such: values that Kafka Connect's S3 or HDFS sink archived
  s3://BUCKET/…   an object or a folder of them in place of a file (also gs://, abfs://, hdfs://; docs/lake.md)
  -               standard output
  kafka:TOPIC     a Kafka topic, read up to its high watermark at the start; as a target, `kafka:` alone means
                  each message's own topic (or the one that --topic names)
  delta:PATH      a Delta table, written by Spark; with {schema} and {table} in PATH one for each table
  delta:CATALOG.SCHEMA.TABLE, iceberg:CATALOG.DB.TABLE
                  a table by its name; the catalog is configured by --conf spark.sql.catalog.…

Exit codes:
  0 done   1 done, but some messages failed and are in the dead-letter queue
  2 wrong usage, something needed can't be reached, or the job can't go on (STOPPED)
"""


def formats(known: tuple[str, ...], text: str, *names: str, panel: str = INPUT, default: Any = ...) -> Any:
    """An option that takes a format, by our name or TiCDC's. Of WRITTEN, the help leaves out what is read only."""
    listed = ", ".join(name for name in known if known is not WRITTEN or FORMATS[name].writes)
    return choice(panel, known, "FORMAT", f"{text} {listed}.", *names, read=format_name, default=default)


def with_login(url: str, variable: str = "BRIDGE_REGISTRY_USER") -> str:
    """A URL with the NAME:PASSWORD of an environment variable, where it has none: many may read a command line."""
    scheme, mark, rest = url.partition("://")
    user, _, password = os.environ.get(variable, "").partition(":")
    if not (user and mark) or "@" in rest.partition("/")[0]:
        return url
    return f"{scheme}://{quote(user, safe='')}:{quote(password, safe='')}@{rest}"


def with_retries(master: str) -> str:
    """A local master that tries a failed task four times, as a cluster does; others, or one that says it: as is."""
    match = re.fullmatch(r"local(?:\[(\d+|\*)\])?", master)
    return master if match is None else f"local[{match[1] or 1},4]"


def _url(panel: str, text: str, parser: Callable[[str], str] = with_login, **more: Any) -> Any:
    return option(panel, "URL", text, parser=parser, **more)


TYPES: Final[Any] = option(
    OUTPUT, None, "Temporal columns as text, which holds every value, or as date, timestamp_ntz and timestamp.",
    default="exact",
)  # fmt: skip
ON_PARTITION_DROP: Final[Any] = option(
    OUTPUT, None, "Rows of partitions that TiDB drops or truncates: remove them, or keep them (for an archive).",
    default="remove",
)  # fmt: skip
READER_FEATURES: Final[Any] = option(
    SPARK, None, "Delta features of new tables: only when a change needs them, or all at once.", default="minimal"
)
MASTER: Final[Any] = option(SPARK, "URL", "Spark master. Default: local[*].", parser=with_retries)
METRICS_HOST: Final[Any] = option(
    REPORTS, "HOST", "The address that --metrics :PORT listens on; 0.0.0.0: every address.", default="127.0.0.1"
)
JOB_FILE: Final[Any] = option(
    INPUT, "JOB.toml", "Read these options from a file (docs/lake.md); the command line wins.", "--file",
    callback=table_outputs_of, default=(),
)  # fmt: skip
FROM_OFFSET: Final[Any] = option(INPUT, "earliest|N", "First offset in each partition.", default="earliest")


def engines(text: str) -> Any:
    """An option that takes the library for a table of the lake."""
    return choice(OUTPUT, (AUTO, *ENGINES), f"{AUTO}|{'|'.join(ENGINES)}", text, default=AUTO)


def on_lossy(default: str) -> Any:
    """The option of a command that has this default."""
    text = f"A value that can't be kept exactly is an error, or is kept with a flag. Default: {default}."
    return option(ERRORS, None, text)


@dataclass(kw_only=True)
class SchemaOptions(JobCommand):
    """Where the schemas of messages are."""

    registry: str | None = _url(
        DEFINITIONS,
        "Schema registry; its NAME:PASSWORD may come from BRIDGE_REGISTRY_USER.",
        envvar="BRIDGE_REGISTRY", show_envvar=True
    )  # fmt: skip
    schemas: Path | None = option(DEFINITIONS, "FILE", "Schemas in a file, instead of a registry.")
    registry_wait: str | None = option(
        DEFINITIONS, "TIME",
        "How long to retry a registry that is down at the start. Default: 5s; a stream: --patience, if given.",
    )  # fmt: skip


@dataclass(kw_only=True)
class Reading(SchemaOptions, KafkaOptions):
    """How messages are read."""

    format: str = field(init=False)
    source: str = field(init=False)
    ddl: Any = option(
        DEFINITIONS, "SOURCE",
        "Table definitions: a FILE (JSON lines of DDL, or SQL), a folder (dumpling's), a live TiDB "
        "(mysql://USER@HOST:4000/DB), or `stream`: from the messages read.",
        parser=definition_source
    )  # fmt: skip
    history: str | None = _url(DEFINITIONS, "Table definitions from the history of this service, instead of a file.")
    changefeed: str | None = option(DEFINITIONS, "NAME", "The history's changefeed, if the service has several.")
    ddl_time_zone: str | None = DDL_ZONE
    time_zone: str | None = option(INPUT, "ZONE", "Time zone of the changefeed. Default: UTC, with a warning.")
    from_options: Path | None = option(INPUT, "FILE", "Options of the format read, as JSON.")
    claim_check_dir: Path | None = CLAIM_CHECKS
    on_lossy: Literal["error", "flag"] | None = on_lossy("flag")
    craft_float: Literal["auto", "damaged", "sound"] | None = option(
        INPUT, None, "Craft's FLOATs: damaged by TiCDC, sound, or as the messages show. Default: auto."
    )


@dataclass(kw_only=True)
class TargetRegistry(JobCommand):
    """Schemas and options of the second format."""

    to_registry: str | None = _url(
        DEFINITIONS,
        "Registry of the format --to. Default: --registry. Its NAME:PASSWORD may come from BRIDGE_TO_USER.",
        lambda url: with_login(url, "BRIDGE_TO_USER")
    )  # fmt: skip
    to_schemas: Path | None = option(DEFINITIONS, "FILE", "Schemas of the format --to. Default: --schemas.")
    to_options: Path | None = option(
        OUTPUT, "FILE", "Options of the format --to, as JSON.", "--to-options", "--options"
    )


@dataclass(kw_only=True)
class Writing(TargetRegistry):
    """How messages are written."""

    subject_strategy: Strategy = option(
        OUTPUT, None, "Subjects of the schemas registered: by topic (as TiCDC), record name, or both.", default="topic"
    )


@dataclass(kw_only=True)
class SparkConf(JobCommand):
    """What goes to Spark as it is."""

    conf: list[str] = option(SPARK, "KEY=VALUE", "A Spark setting (repeatable).", default=[])
    packages: list[str] = option(SPARK, "G:A:V,…", "Jars that Spark fetches (Maven).", default=[])


@dataclass(kw_only=True)
class PrivacyOptions(JobCommand):
    """Which columns do not reach the lake as they are."""

    exclude: list[str] = option(
        OUTPUT, "COLUMNS", "Columns that the lake does not get, by names or patterns: 'email,*_token' (repeatable).",
        default=[]
    )  # fmt: skip
    mask: list[str] = option(
        OUTPUT, "COLUMN=METHOD,…",
        "Columns that the lake gets masked: by hmac (with the key BRIDGE_MASK_KEY), sha256 or null (repeatable).",
        default=[]
    )  # fmt: skip

    def private_columns(self, tables: Any, outputs: Any) -> Any:
        """The rules (PrivateColumns) for chosen tables (a TableChoice). SetupError USAGE."""
        from ticdc_bridge.spark_jobs.pipeline.private_columns import PrivateColumns

        exclude, mask = ([word for text in texts for word in text.split(",")] for texts in (self.exclude, self.mask))
        return PrivateColumns.of(exclude, mask, tables, outputs)


@dataclass(kw_only=True)
class SnapshotOptions(PrivacyOptions, SparkConf):
    """What load and reconcile share: tables at one TSO, and their places in the lake."""

    table: str | None = option(INPUT, "DB.TABLE", "The table; --tables takes several.")
    tables: list[str] = option(
        INPUT, "PATTERNS", "Tables, by TiDB's table filter: 'shop.*,!shop.tmp_*' (repeatable).", default=[]
    )
    at: int | None = option(
        INPUT, "TSO|TIME", "The TSO or time to read at. Default: that of the dump, or the newest.", parser=tso
    )
    dump_options: str | None = option(
        INPUT, "TEXT", "Options that Dumpling ran with, if its files do not show them; '' for its defaults."
    )
    source_time_zone: str | None = option(
        INPUT, "ZONE", "Time zone of TIMESTAMP text in the dump, which names none. Default: --time-zone."
    )
    outputs: Any = JOB_FILE
    time_zone: str | None = option(
        DEFINITIONS, "ZONE", "Time zone of TIMESTAMP text in the lake table: the changefeed's. Default: UTC."
    )
    changelog: str | None = option(OUTPUT, "TABLE", "A changelog, which gets a row (op R) for each row that is loaded.")
    versions: str | None = option(OUTPUT, "TABLE", "A table of row versions.")
    engine: str = engines("Library that writes the table, as for merge.")
    on_lossy: Literal["error", "flag"] = option(
        ERRORS, None, "What the source does not hold exactly stops the job, or is counted.", default="error"
    )
    master: str | None = MASTER


@dataclass(kw_only=True)
class Lineage(JobCommand):
    """To which service the job reports what it used."""

    lineage: str | None = _url(REPORTS, "Report the topics, table versions and subjects used to this service.")
    job: str | None = option(REPORTS, "NAME", "The job's name in metrics and lineage. Default: the command.")


@dataclass(kw_only=True)
class JobOptions(Lineage, SparkConf, Reading):
    """What decode, encode, transcode and merge share."""

    notes: ClassVar[str] = OUTPUT_KEYS
    from_offset: str = FROM_OFFSET
    out: str = option(OUTPUT, "FILE|-|kafka:TOPIC|TABLE", "Where the result goes.", default="-")
    topic: str | None = field(default=None, init=False)
    dedupe: bool = field(default=False, init=False)
    until_resolved: bool = field(default=False, init=False)
    on_error: Literal["fail", "dead-letter", "drop"] = option(
        ERRORS, None, "What to do with a message that fails.", default="dead-letter"
    )
    on_lossy: Literal["error", "flag"] | None = on_lossy("error")
    dead_letter: str | None = option(
        ERRORS, "FILE|kafka:TOPIC",
        "Where failed messages go, with the reason. Default: OUT.dead.jsonl; stream: OUT.dead; decode to lines: none.",
    )  # fmt: skip
    spark: bool = flag(SPARK, "--spark", "Run in Spark, with the same result.")
    master: str | None = option(SPARK, "URL", "Spark master, with --spark. Default: local[*].", parser=with_retries)
    reader_features: Literal["minimal", "full"] = READER_FEATURES
    stream: bool = flag(STREAM, "--stream", "Keep running (Structured Streaming); needs --checkpoint.")
    checkpoint: str | None = option(STREAM, "DIR", "The stream's checkpoint folder.")
    trigger: str = option(
        STREAM, "T", "Interval of micro-batches; `now`: process what there is and end.", default="10s"
    )
    max_per_batch: int | None = option(STREAM, "N", "Most messages in a micro-batch.")
    patience: str | None = option(
        STREAM, "T",
        "How long a stream retries while the registry or Kafka is down; if given, at the start too. Default: 10m.",
    )  # fmt: skip
    json: bool = AS_JSON
    metrics: str | None = option(REPORTS, "FILE|:PORT", "Prometheus metrics: a text file, or served on a port.")
    metrics_host: str = METRICS_HOST


@dataclass(kw_only=True)
class MessageJobOptions(JobOptions):
    """What decode, encode and transcode have before merge: they write events, one by one."""

    topic: str | None = option(OUTPUT, "RULE", "Target topic, such as tidb_{schema}_{table}. Default: the source's.")
    dedupe: bool = flag(
        OUTPUT, "--dedupe", "Leave out changes that came before (same db, table, key, commit_ts and op)."
    )
    until_resolved: bool = flag(
        OUTPUT, "--until-resolved", "Only rows up to the resolved ts: no earlier change can follow."
    )


@dataclass(kw_only=True)
class TableSelection(JobCommand):
    """Which topics and tables decode, transcode and merge read; their options may come from a file."""

    in_: str | None = option(INPUT, "FILE|kafka:TOPIC,…", "Where messages come from (or --topics).", "--in")
    topics: str | None = option(
        INPUT, "REGEX", "Kafka topics by a regular expression, such as 'tidb_.*'; a stream finds new ones."
    )
    tables: list[str] = option(
        INPUT, "PATTERNS", "Tables to read, by TiDB's table filter: 'shop.*,!shop.tmp_*' (repeatable).", default=[]
    )
    outputs: Any = JOB_FILE

    source: str = field(init=False)
    table: str | None = field(default=None, init=False)
    types: Literal["exact", "typed"] = field(default="exact", init=False)
    time: Literal["text", "interval"] = field(default="text", init=False)
    missing: Literal["null", "default"] = field(default="null", init=False)

    def __post_init__(self) -> None:
        if (self.in_ is None) is (self.topics is None):
            raise typer.BadParameter("where do messages come from? Give --in FILE|kafka:TOPIC or --topics REGEX, once")
        self.source = self.in_ if self.in_ is not None else f"{TOPIC}/{self.topics}/"
