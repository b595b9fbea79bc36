"""From the command line to the sides of a job: formats, schemas, options, tables."""

from __future__ import annotations

import json
import os
import re
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ticdc_bridge.cli import options as cli_options
from ticdc_bridge.cli.job_options import JobOptions, Reading, SchemaOptions, SnapshotOptions, SparkConf, with_login
from ticdc_bridge.cli.options import KafkaOptions
from ticdc_bridge.clients.registry import Schemas
from ticdc_bridge.schemas.formats.base import Format
from ticdc_bridge.schemas.formats.format_table import FORMATS
from ticdc_bridge.schemas.inputs.claim_check_folder import ClaimFolder
from ticdc_bridge.schemas.inputs.schema_files import FileSchemas, RegisteredSchema
from ticdc_bridge.schemas.inspect.format_lookup import format_named
from ticdc_bridge.schemas.model.credentials import mask_url
from ticdc_bridge.schemas.model.errors import Hint, SetupError, hints_as
from ticdc_bridge.schemas.model.options import Options
from ticdc_bridge.schemas.model.ports import TableSource
from ticdc_bridge.schemas.model.reasons import reason_of
from ticdc_bridge.schemas.model.spark_types import EXACT, SparkTypes
from ticdc_bridge.schemas.model.table import Table
from ticdc_bridge.spark_jobs.io.archive_files import archive_files
from ticdc_bridge.spark_jobs.io.locations import (
    TABLE_PREFIXES,
    KafkaClient,
    TableLocation,
    check_different,
    table_location_of,
)
from ticdc_bridge.spark_jobs.io.storage_sink import schema_files
from ticdc_bridge.spark_jobs.pipeline import arguments
from ticdc_bridge.spark_jobs.pipeline.codec_config import PLAIN, CodecConfig
from ticdc_bridge.spark_jobs.pipeline.storage_definitions import StorageDefinitions
from ticdc_bridge.spark_jobs.pipeline.table_choice import DEFINITION_FILE, TableChoice, check_rule, is_rule
from ticdc_bridge.spark_jobs.pipeline.table_view import ANY_TABLE, TableView, table_id, table_of
from ticdc_bridge.spark_jobs.runtime.spark_settings import SparkSettings

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from ticdc_bridge.cli.jobs.decode import Decode
    from ticdc_bridge.cli.jobs.encode import Encode
    from ticdc_bridge.cli.jobs.merge import Merge
    from ticdc_bridge.cli.jobs.transcode import Transcode

# These learn tables from the DDL they read; decode does with --ddl stream.
_LEARN = ("transcode", "encode", "explain", "verify", "merge")


def read_config(args: Reading, on_lossy: str, warn: bool = False) -> CodecConfig:
    """The side read. SetupError USAGE, REGISTRY_UNREACHABLE. warn: where the zone matters and is not given."""
    format_ = format_named(args.format)
    schemas = _schemas_read(args, format_)
    file_options = options_file(args.from_options, "--from-options")
    zone = cli_options.check_zone("--time-zone", args.time_zone) or file_options.pop("time_zone", None)
    zone = zone or zone_of_meta(args.schemas, args.ddl, args.from_options, getattr(args, "to_options", None))
    verify = getattr(args, "verify_checksum", False)
    matters = warn or (verify and args.format in ("avro", "auto"))  # the sum is over UTC
    if zone is None and matters:
        print("warning: --time-zone is not given; TIMESTAMP text without a zone is taken as UTC", file=sys.stderr)
    if args.craft_float:
        file_options["craft_float"] = args.craft_float
    options = Options.of(file_options, time_zone=zone or "UTC", on_lossy=args.on_lossy or on_lossy)
    claims = ClaimFolder.of(args.claim_check_dir) if args.claim_check_dir else None
    from_stream = args.ddl == Path("stream")
    tables = tables_of(args)
    learn = from_stream or args.command in _LEARN
    return CodecConfig(args.format, schemas, options, tables, claims, verify, learn)


def _schemas_read(args: Reading, format_: Format) -> Schemas:
    """Those of the registry or the file given, and of the Avro files that are read."""
    location = re.sub(r"#\d+\Z", "", args.source or "")
    files = archive_files(location)
    if not files:
        return schemas_of(args.registry, args.schemas, registry_wait(args), format_)
    from ticdc_bridge.spark_jobs.io.avro_files import archived_schemas

    headers = archived_schemas(files)
    if not all(header.has_deletes for header in headers):
        then = f": {_NO_DELETES}" if args.command == "merge" else ""
        print(f"warning: {location}: deletes are null values, which these files lack{then}", file=sys.stderr)
    archived = [RegisteredSchema(header.subject, header.version, header.id, header.schema) for header in headers]
    if not (args.registry or args.schemas):
        return FileSchemas(archived)
    schemas = schemas_of(args.registry, args.schemas, registry_wait(args), format_)
    schemas.add_known(archived)
    return schemas


_NO_DELETES = "rows that were deleted stay in the table; merge the topic, or files with the old row"


def view_of(args: Decode | Merge) -> TableView | None:
    """How the rows of --table are typed; its columns come later (newest_columns.with_newest). SetupError USAGE."""
    types, missing = SparkTypes(args.types, args.time), args.missing
    id_ = table_of(args.table)
    if id_ is None and is_rule(args.out):
        id_ = ANY_TABLE
    if id_ is None:
        if types != EXACT or missing != "null":
            details = "--types, --time and --missing go with --table DB.TABLE, or --out delta:PATH with {table} in PATH"
            raise SetupError("USAGE", details=details)
        return None
    if types != EXACT and args.out.endswith(".avro"):
        raise SetupError("USAGE", details="--types and --time: an Avro file has the types of TiCDC's schema")
    if types.time == "interval" and not args.out.endswith(".parquet"):
        raise SetupError("USAGE", details="--time interval: Delta tables have no intervals; choose FILE.parquet")
    return TableView(Table(id_, ()), types, missing, args.on_lossy or "error")


def write_config(args: Encode | Transcode, read: CodecConfig) -> CodecConfig:
    """The side written. Without --to-registry or --to-schemas it is that of the side read."""
    schemas = read.schemas
    if args.to_registry or args.to_schemas:
        with hints_as({Hint.REGISTRY: "--to-registry", Hint.SCHEMAS: "--to-schemas"}):
            schemas = schemas_of(args.to_registry, args.to_schemas, registry_wait(args), FORMATS[args.to])
    elif read.format == PLAIN or not format_named(read.format).needs_schemas:
        schemas = schemas_of(args.registry, args.schemas, registry_wait(args), FORMATS[args.to])
    given = options_file(args.to_options, "--to-options")
    zone = given.pop("time_zone", None) or zone_of_meta(args.to_options, args.to_schemas) or read.options.time_zone
    on_lossy = given.pop("on_lossy", "error")
    options = Options.of(given, time_zone=zone, on_lossy=args.on_lossy or on_lossy)
    return CodecConfig(args.to, schemas, options, strategy=args.subject_strategy)


def choose_tables(args: Decode | Merge | Transcode) -> TableChoice | None:
    """The tables of --table or --tables; None: all. One for one place becomes --table. SetupError USAGE."""
    table, many = args.table, is_rule(args.out)
    if table is not None and args.tables:
        raise SetupError("USAGE", details="--table DB.TABLE and --tables both choose tables: give one")
    if table is not None and re.search(r"[*?,]", table):
        raise SetupError("USAGE", details=f"--table {table}: one table is needed; --tables takes patterns and lists")
    if args.outputs and not many and args.command != "transcode":
        details = "[[table]] of --file gives single tables places; --out names the others' with {schema} and {table}"
        raise SetupError("USAGE", details=details)
    if many:
        check_rule(args.out)
    if table is not None:
        args.table, args.tables = (None, [table]) if many else (table, [])
        return TableChoice.of_table(table_id(table)) if many else None
    choice = TableChoice.of(args.tables) if args.tables else None
    if files := [pattern for pattern in args.tables if DEFINITION_FILE.search(pattern)]:
        print(f"warning: --tables {files[0]} is a filter of tables; definitions are given by --ddl", file=sys.stderr)
    takes_one = args.out.startswith(TABLE_PREFIXES) or args.out.endswith((".parquet", ".avro"))
    typed = args.command == "merge" or (args.command == "decode" and takes_one)
    if choice is not None and choice.only and typed and not many:
        args.table = choice.only
        return None
    if args.command == "merge" and not many:
        if choice is None:
            raise SetupError("USAGE", details="merge: which tables? Give --table DB.TABLE, or --tables PATTERNS")
        details = f"--tables {choice} may be several tables: name their places with {{schema}} and {{table}} in --out"
        raise SetupError("USAGE", details=details)
    return choice


def default_database(args: Reading) -> str:
    """The database of names in definitions that have none: that of the table asked for, where it is one."""
    table, tables = getattr(args, "table", None), getattr(args, "tables", None)
    patterns = TableChoice.of(tables).patterns if tables else ()
    names = {pattern.partition(".")[0] for pattern in (*patterns, table or "") if not pattern.startswith("!")} - {""}
    name = names.pop() if len(names) == 1 else ""
    return name if re.fullmatch(r"[\w$-]*", name) else ""


def tables_of(args: Reading) -> TableSource | None:
    """From --ddl, --history, or the schema files of the folder that is read. SetupError USAGE, REGISTRY_UNREACHABLE."""
    file = None if args.ddl == Path("stream") else args.ddl
    if args.changefeed and not args.history:
        raise SetupError("USAGE", details="--changefeed NAME goes with --history URL")
    if args.history is None and file is None and (files := schema_files(args.source or "")):
        return StorageDefinitions(files)
    wait, db = registry_wait(args), default_database(args)
    return arguments.definitions(file, args.history, args.changefeed, args.ddl_time_zone, db, wait)


def schemas_of(registry: str | None, file: Path | None, wait: float, of: Format) -> Schemas:
    """Where schemas come from. SetupError USAGE, REGISTRY_UNREACHABLE."""
    if file is not None and registry and registry != with_login(os.environ.get("BRIDGE_REGISTRY", "")):
        print(f"warning: {Hint.SCHEMAS} {file} is used, {Hint.REGISTRY} {mask_url(registry)} is not", file=sys.stderr)
    return arguments.schemas_at(of, registry or None, file, of.name, wait)


def registry_wait(args: SchemaOptions) -> float:
    """Seconds to wait at the start for a registry or history that is down; of a stream --patience. SetupError USAGE."""
    if args.registry_wait is None and isinstance(args, JobOptions) and args.stream and args.patience is not None:
        return seconds(args.patience, "--patience")
    return seconds("5s" if args.registry_wait is None else args.registry_wait, "--registry-wait")


def kafka_of(args: KafkaOptions) -> KafkaClient:
    return KafkaClient(args.bootstrap_servers, args.kafka_config, offset(args.from_offset))


def spark_settings(args: SparkConf, used: bool, *locations: str | None) -> SparkSettings:
    """--master, --conf, --packages. used: the job runs in Spark. locations: its input and outputs. SetupError USAGE."""
    master = getattr(args, "master", None)
    of_spark = {"--conf": args.conf, "--packages": args.packages, "--master": master}
    if not used and (unused := next((name for name, value in of_spark.items() if value), "")):
        details = f"{unused} goes with Spark (--spark, --stream, a table), and this job runs without it"
        raise SetupError("USAGE", details=details)
    settings = SparkSettings.of(master, args.conf, args.packages)
    if getattr(args, "reader_features", "minimal") == "full":
        from ticdc_bridge.spark_jobs.lake.engines.delta_features import FULL

        if (
            not any(location.startswith("delta:") for location in locations if location)
            or getattr(args, "engine", "") == "deltalake"
        ):
            raise SetupError("USAGE", details="--reader-features full goes with delta:PATH, written by delta-spark")
        settings = settings.over(FULL)
    return replace(settings, locations=tuple(filter(None, locations)))


def tables_at(args: SparkConf, texts: Sequence[str], engine: str) -> tuple[SparkSession, dict[str, TableLocation]]:
    """The session, and the places of --table-at, at each of which there is a table. SetupError USAGE."""
    from ticdc_bridge.spark_jobs.lake import tables

    locations = dict[str, TableLocation]()
    for text in texts:
        if (location := table_location_of(text)) is None:
            raise SetupError("USAGE", details=f"--table-at {text}: write delta:PATH or iceberg:CATALOG.DB.TABLE")
        tables.check_engine(engine, location.format)  # before Spark starts
        locations[text] = location
    formats = sorted({location.format for location in locations.values()})
    spark = tables.session(spark_settings(args, True, *locations), formats, by=engine)
    for text, location in locations.items():
        if not tables.engine_of(spark, engine, location.format)(spark, location.name).exists():
            raise SetupError("USAGE", details=f"--table-at {text}: there is no table")
    return spark, locations


def offset(text: str) -> int:
    if text == "earliest":
        return 0
    if not text.isdigit() or len(text) > 18:
        raise SetupError("USAGE", details=f"--from-offset {text}: earliest or an offset is needed")
    return int(text)


def seconds(text: str, option: str) -> float:
    """5s, 500ms, 10m → seconds. SetupError USAGE."""
    try:
        return cli_options.seconds(text)
    except ValueError as error:
        raise SetupError("USAGE", details=f"{option} {error}") from None


def options_file(path: Path | None, option: str) -> dict[str, Any]:
    """Options as JSON: the object itself, or the `options` of a golden's meta.json."""
    if path is None:
        return {}
    document = _json_file(path, f"{option} ")
    options = document.get("options", document)
    if not isinstance(options, dict):
        raise SetupError("USAGE", details=f"{option} {path}: a JSON object of options is needed")
    return dict(options)


def zone_of_meta(*paths: Path | str | None) -> str | None:
    """The changefeed's zone, where one of the files is a golden's meta.json."""
    for path in paths:
        if isinstance(path, Path) and path.name.endswith(".meta.json"):
            meta = _json_file(path)
            zone = meta.get("changefeed_tz") or meta.get("tz")  # classic TiCDC's metas have the short name
            if isinstance(zone, str):
                return zone
    return None


def _json_file(path: Path, option: str = "") -> dict[str, Any]:
    try:
        document = json.loads(path.read_text(encoding="utf-8-sig"))
    except (OSError, ValueError, RecursionError) as error:
        what = "" if isinstance(error, OSError) else "not JSON: "
        raise SetupError("USAGE", details=f"{option}{path}: {what}{reason_of(error)}") from error
    if not isinstance(document, dict):
        raise SetupError("USAGE", details=f"{option}{path}: a JSON object is needed")
    return document


def chosen_tables(args: SnapshotOptions, locations: dict[str, str | None]) -> tuple[TableChoice, dict[str, str]]:
    """--table or --tables, and the tables of the lake as `table_outputs` has them. SetupError USAGE."""
    if (args.table is None) is (not args.tables):
        details = f"{args.command}: which tables? Give --table DB.TABLE or --tables PATTERNS, one of them"
        raise SetupError("USAGE", details=details)
    choice = TableChoice.of(args.tables) if args.table is None else TableChoice.of_table(table_id(args.table))
    outputs = table_outputs(args.command, args.table, locations)
    if args.table is None and choice.only is None and not all(map(is_rule, outputs.values())):
        details = f"{' and '.join(outputs)}: there may be several tables: name {{schema}} and {{table}}"
        raise SetupError("USAGE", details=details)
    return choice, outputs


def table_outputs(command: str, table: str | None, locations: dict[str, str | None]) -> dict[str, str]:
    """The tables of the lake that a command writes, by option. SetupError USAGE without any, and for no such place."""
    outputs = {option: output for option, output in locations.items() if output is not None}
    if not outputs:
        lake = "lake/{schema}/{table}" if table is None else f"lake/{table.rpartition('.')[2]}"
        details = f"Add --out 'delta:{lake}' (or iceberg:CATALOG.DB.TABLE); --changelog and --versions take the same"
        raise SetupError("USAGE", details=f"{command}: where to? {details}")
    for name, location in outputs.items():
        if table_location_of(location) is None:
            raise SetupError("USAGE", details=f"{name} {location}: delta:PATH or iceberg:CATALOG.DB.TABLE is needed")
        if is_rule(location):
            check_rule(location, name)
    check_different(locations)
    return outputs
