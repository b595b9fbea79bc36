"""`python -m benchmarks`: runs benchmarks and prints a line a figure."""

import argparse
import json
import signal
import sys
import time
import traceback
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

from benchmarks import (
    apart,
    craft,
    ddl,
    history,
    hostile,
    json_formats,
    lake_merge,
    lake_tables,
    load,
    page,
    reconcile,
    registry,
    registry_burst,
    registry_postgres,
    rows,
    sizes,
    spark_avro,
    spark_formats,
    spark_kafka,
    spark_scale,
    spark_transcode,
    start,
)
from benchmarks.figures import HEADER, Benchmark, Figure, Run

BENCHMARKS: tuple[Benchmark, ...] = (
    Benchmark(
        "spark-avro-customers",
        "Spark: TiCDC Avro of shop.customers (10 columns, two schema ids) to typed change events",
        partial(spark_avro.run, rows.customers()),
    ),
    Benchmark(
        "spark-avro-wide",
        "Spark: the same for a table of 20 columns, one of nearly every type",
        partial(spark_avro.run, rows.wide()),
    ),
    *(
        Benchmark(f"spark-{name}", f"Spark: {name} to typed change events", partial(spark_formats.run, name))
        for name in ("craft", "open", "debezium")
    ),
    Benchmark(
        "spark-avro-debezium",
        "Spark: TiCDC Avro to Debezium JSON, beside from_avro and to_json, and fastavro with orjson",
        spark_transcode.avro_debezium,
    ),
    Benchmark(
        "spark-debezium-avro",
        "Spark: Debezium JSON to TiCDC Avro, beside from_json and to_avro",
        spark_transcode.debezium_avro,
    ),
    Benchmark(
        "spark-kafka",
        "Spark: Kafka to Avro to Kafka on a real broker, beside a job that only copies",
        spark_kafka.run,
    ),
    Benchmark("spark-scale", "Spark: 10 times the rows, 50 schema ids, 200 tables in a topic", spark_scale.run),
    Benchmark("lake-merge", "merge of 10,000 changes into 10 million rows, beside MERGE INTO by hand", lake_merge.run),
    Benchmark("lake-merge-full", "lake-merge, our table with --reader-features full", lake_merge.run_full),
    Benchmark("lake-merge-iceberg", "lake-merge, both tables Iceberg's", lake_merge.run_iceberg),
    Benchmark("lake-tables", "merge of many tables: 500 defined, 20 with rows, beside 20 alone", lake_tables.run),
    Benchmark(
        "load", "load of Dumpling's Parquet, SQL and CSV to Delta, beside Spark's own Parquet to Delta", load.run
    ),
    Benchmark("load-tidb", "load's reading of a live TiDB, beside one unbuffered cursor in one task", load.run_live),
    Benchmark("reconcile", "checksums of a lake table, beside scans with a hash of all columns", reconcile.run),
    Benchmark("reconcile-tidb", "what reconcile asks a live TiDB for one wrong row", reconcile.run_live),
    Benchmark("ddl", "TiDB's DDL: statements parsed, and a catalog of 10,000 tables", ddl.run),
    Benchmark("craft", "Craft, 20 columns, old and new values: compiled kernels against plain Python", craft.run),
    Benchmark("hostile", "Hostile messages of 1 MiB: the slowest of each decoder", hostile.run),
    Benchmark("json", "JSON formats, 20 columns: typed batches against json.loads and Python", json_formats.run),
    Benchmark("sizes", "Message sizes of all formats, raw and zlib", sizes.run),
    Benchmark("registry", "The registry over HTTP, beside a bare ASGI app, and new schemas that last", registry.run),
    Benchmark("registry-postgresql", "The registry with its store in PostgreSQL, beside SQLite", registry_postgres.run),
    Benchmark("registry-burst", "The registry when 30,000 tables register at once", registry_burst.run),
    Benchmark("start", "CPU of a start: help, one message, a service that answers", start.run),
    Benchmark("history", "Table histories: 100,000 DDL events of 10,000 tables, and lookups over REST", history.run),
)
_EPILOG = """\
output
  A line a figure on stdout, tab-separated: name, value, unit, rival's value, ratio, target, ok or short.
  The ratio says how many times better than the rival: 2 is half the CPU, or twice the rows a second. `-` is nothing
  to compare with, or no target. `short` is a missed target. Progress goes to stderr.

reading the figures
  CPU per row is of the JVM and all Python workers together, and includes planning the query. It compares well within
  one run; rows a second depend on what else the machine does. docs/benchmarks.md tells how to read them.

examples
  python -m benchmarks                                    all of them, full size
  python -m benchmarks spark-avro-wide --quick            one, in under two minutes
  python -m benchmarks --quick --json figures.json        also as JSON
  python -m benchmarks --rows 2000 --page                 all of them, as small as can be, into the page

exit status
  0 all ran, whatever the figures; 1 one failed (wrong results, something missing, too long): the others' figures are
  there all the same, and what failed is named at the end; 2 wrong usage
"""


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs what is asked for. Out: the exit status."""
    parser = _parser()
    asked = parser.parse_args(arguments)
    by_name = {b.name: b for b in BENCHMARKS}
    if "spark" in asked.names:  # all of them
        others = [n for n in asked.names if n != "spark"]
        asked.names = [*others, *(n for n in by_name if n.startswith("spark-") and n not in others)]
    for name in asked.names:
        if name not in by_name:
            parser.error(f"no benchmark {name!r}; there are: {', '.join(by_name)}")
    if asked.json and not asked.json.absolute().parent.is_dir():
        parser.error(f"--json {asked.json}: its folder is not there")
    if asked.list:
        for benchmark in BENCHMARKS:
            print(benchmark.name, benchmark.what, sep="\t")
        return 0
    if not asked.one_of_several:
        print(*HEADER, sep="\t", file=sys.stderr)
    names = asked.names or list(by_name)
    figures, failed = _one(by_name[names[0]], asked) if len(names) == 1 else _several(names, asked)
    if asked.json:
        text = json.dumps({"quick": asked.quick, "figures": figures}, indent=1)
        asked.json.write_text(text + "\n", encoding="utf-8")
    return 1 if failed else 0


def _one(benchmark: Benchmark, asked: argparse.Namespace) -> tuple[list[dict[str, Any]], list[str]]:
    """Figures (none of a benchmark that failed on the way: they may be as wrong as the rest), and what failed."""
    started = time.monotonic()

    def say(text: str) -> None:
        print(f"[{benchmark.name} {time.monotonic() - started:.0f} s] {text}", file=sys.stderr, flush=True)

    figures: list[Figure] = []
    try:
        for figure in benchmark.run(Run(asked.quick, asked.rows, say)):
            figures.append(figure)
            print(figure.line(), flush=True)
    except Exception as error:  # whatever it was, it is said in the one way
        if not isinstance(error, RuntimeError):
            traceback.print_exc()
        print(f"error: {benchmark.name}: {' '.join(str(error).split())[:2000]}", file=sys.stderr)
        return [], [benchmark.name]
    if asked.page and figures:
        order = [entry.name for entry in BENCHMARKS]
        page.write({benchmark.name: figures}, quick=asked.quick, rows=asked.rows, order=order)
    return [entry.as_json() for entry in figures], []


def _several(names: Sequence[str], asked: argparse.Namespace) -> tuple[list[dict[str, Any]], list[str]]:
    """One after the other, each in a process of its own, whatever becomes of the others."""
    options = [*(["--quick"] if asked.quick else []), *(["--page"] if asked.page else [])]
    options += ["--rows", str(asked.rows)] if asked.rows else []
    figures: list[dict[str, Any]] = []
    failed: list[str] = []
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # with what the running one has started
    for index, name in enumerate(names):
        print(f"# {name} ({index + 1} of {len(names)})", file=sys.stderr, flush=True)
        try:
            figures += apart.run(name, options, asked.minutes)
        except apart.Failed as error:
            print(f"error: {name}: {error}", file=sys.stderr, flush=True)
            failed.append(name)
    print(f"# {len(names) - len(failed)} of {len(names)} benchmarks measured", file=sys.stderr)
    if failed:
        print(f"# failed: {', '.join(failed)}", file=sys.stderr)
    return figures, failed


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks",
        description="Measure the project's own figures, beside a rival's where there is one, on this machine.",
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    names = [b.name for b in BENCHMARKS]
    parser.add_argument(
        "names", nargs="*", metavar="NAME", help=f"which to run (default: all): {', '.join(names)}; spark: all spark-…"
    )
    parser.add_argument("--list", action="store_true", help="print the names and what each measures, and stop")
    parser.add_argument("--quick", action="store_true", help="fewer rows and rounds: under two minutes each, noisier")
    parser.add_argument("--rows", type=_count, metavar="N", help="rows of the input, instead of the benchmark's own")
    parser.add_argument("--page", action="store_true", help="write docs/benchmarks.md, as `make bench`")
    parser.add_argument(
        "--minutes", type=float, default=90, metavar="N", help="of several, end one that takes longer (default: 90)"
    )
    parser.add_argument("--one-of-several", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("--json", type=Path, metavar="FILE", help="also write the figures there, as JSON")
    return parser


def _count(text: str) -> int:
    if not text.isdigit() or int(text) < 100:
        raise argparse.ArgumentTypeError(f"{text!r}: a number from 100 is needed")
    return int(text)


if __name__ == "__main__":
    sys.exit(main())
