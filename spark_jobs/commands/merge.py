"""`merge`: keep a lake table equal to TiDB's (CDC merge: upsert, delete, DDL)."""

from __future__ import annotations

import argparse
from dataclasses import replace
from typing import Any

from ticdc_bridge.schemas.formats.format_table import format_name
from ticdc_bridge.schemas.model.errors import SetupError
from ticdc_bridge.spark_jobs.commands import options
from ticdc_bridge.spark_jobs.lake.engines.base import AUTO, ENGINES

_EXAMPLES = """\
examples
  ticdc-bridge merge --format avro --registry http://localhost:8081 --ddl history.jsonl \\
      --in kafka:shop_orders --table shop.orders --out delta:/lake/orders
  ticdc-bridge merge --format debezium --in kafka:shop --table shop.orders --out delta:/lake/orders \\
      --stream --checkpoint /lake/_checkpoints/orders --trigger 30s
  ticdc-bridge merge --format canal-json --topics 'tidb_.*' --tables 'shop.*' --out 'delta:/lake/{schema}/{table}' \\
      --stream --checkpoint /lake/_checkpoints/shop

For each key the change with the highest commit_ts wins; the column `_commit_ts` has it. The columns follow the
table's DDL: from --ddl, from --history, or from DDL in the topic. Without them (Avro) they follow the registered
schemas, in which a rename looks like a drop plus an add: columns are added, never removed.

delta:PATH is written by delta-spark, or by deltalake (pip install deltalake) where Delta's jars can't be fetched:
deltalake writes local folders only, and rewrites the table when a column is renamed, dropped or retyped.

iceberg:CATALOG.DB.TABLE is written by Iceberg's Spark runtime. The catalog is configured in Spark:
  --conf spark.sql.catalog.lake=org.apache.iceberg.spark.SparkCatalog --conf spark.sql.catalog.lake.type=rest \\
  --conf spark.sql.catalog.lake.uri=http://localhost:8181 --out iceberg:lake.shop.orders
"""


def add(commands: Any) -> None:
    p = options.command(commands, "merge", _EXAMPLES)
    p.add_argument("--format", required=True, type=format_name, choices=options.READ, help="format of the messages")
    p.add_argument("--table", metavar="DB.TABLE", help="the table; --tables takes several")
    p.add_argument(
        "--at-once",
        type=options.number,
        default=4,
        metavar="N",
        help="how many tables are written at the same time (4)",
    )
    p.add_argument(
        "--engine",
        choices=(AUTO, *ENGINES),
        default=AUTO,
        help="the writer (delta-spark, else deltalake; of iceberg:… iceberg-spark)",
    )
    p.add_argument("--partition-by", metavar="COLUMNS", help="partition columns of a new table")
    p.add_argument("--cluster-by", metavar="COLUMNS", help="clustering columns of a new table")
    p.add_argument("--changelog", metavar="TABLE", help="a table of all changes, appended exactly once")
    p.add_argument("--versions", metavar="TABLE", help="a table of all row versions with their validity (SCD type 2)")
    p.add_argument(
        "--order",
        choices=("commit_ts", "offset"),
        default="commit_ts",
        help="which of a key's changes wins: by commit_ts, or, for messages without one, the last in Kafka (commit_ts)",
    )
    p.add_argument(
        "--without-key",
        choices=("refuse", "append"),
        default="refuse",
        help="tables without a key: refuse, or append inserts and count updates and deletes (refuse)",
    )
    options.types(p)
    options.job(p, merges=True)


def run(args: argparse.Namespace) -> int:
    from ticdc_bridge.schemas.inputs.table_definitions import statements_of
    from ticdc_bridge.schemas.inspect.format_lookup import format_named
    from ticdc_bridge.spark_jobs.commands.codec_arguments import choose_tables, default_database, read_side, view_of
    from ticdc_bridge.spark_jobs.commands.job_runner import run_job
    from ticdc_bridge.spark_jobs.io.locations import check_different, table_location_of
    from ticdc_bridge.spark_jobs.pipeline.job import Job
    from ticdc_bridge.spark_jobs.pipeline.table_choice import TableLayout, check_rule, is_rule

    places = {"--out": args.out, "--changelog": args.changelog, "--versions": args.versions}
    given = {option: place for option, place in places.items() if place is not None}
    if not given:
        lake = "lake/{schema}/{table}" if args.table is None else f"lake/{args.table.rpartition('.')[2]}"
        details = (
            f"merge: where to? Add --out 'delta:{lake}' (or iceberg:CATALOG.DB.TABLE); --changelog and --versions take"
            " the same"
        )
        raise SetupError("USAGE", details=details)
    for option, place in given.items():
        if table_location_of(place) is None:
            raise SetupError("USAGE", details=f"merge writes {option} delta:PATH or iceberg:CATALOG.DB.TABLE")
        if is_rule(place):
            check_rule(place, option)
    if len({is_rule(place) for place in given.values()}) > 1:
        raise SetupError("USAGE", details=f"{' and '.join(given)}: all of them name {{schema}} and {{table}}, or none")
    check_different(places)
    if args.out is None and any(one.location for one in args.places):
        details = "[[table]]: target is a place of current tables, and this job has none: give --out, or leave it out"
        raise SetupError("USAGE", details=details)
    if args.order == "offset" and (args.versions or any(one.versions for one in args.places)):
        details = "--versions needs the changes' commit_ts: it can't be given with --order offset"
        raise SetupError("USAGE", details=details)
    has_current, args.out = args.out is not None, next(iter(given.values()))
    chosen = choose_tables(args)
    zoned = args.types == "typed" and format_named(args.format).zone is None
    read = replace(read_side(args, "error", warn=zoned), view=view_of(args), chosen=chosen)
    work = Job(
        read, None, None, args.on_error, merge=args.engine, at_once=args.at_once, current=has_current,
        changelog=args.changelog, versions=args.versions, without_key=args.without_key, places=args.places,
        order=args.order, layout=TableLayout.of(args.partition_by, args.cluster_by),
    )  # fmt: skip
    return run_job(args, work, statements_of(args.ddl, default_database(args)))
