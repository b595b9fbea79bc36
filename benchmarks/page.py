"""The tables of docs/benchmarks.md, from docs/benchmarks.json: the figures of each benchmark's last written run."""

import json
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple

from benchmarks.figures import Figure

DOCS = Path(__file__).resolve().parents[1] / "docs"
BEGIN, END = "<!-- figures: made by `make bench` -->\n", "<!-- end of the figures -->\n"


class _Row(NamedTuple):
    """A row of a table: its figure, what it is to a reader, and what it is compared with ("": nothing)."""

    figure: str
    what: str
    beside: str = ""


_TABLES: Mapping[str, tuple[_Row, ...]] = {
    "Spark: CPU per row": (
        _Row("spark-avro-wide.exact.cpu-vs-from_avro", "`decode(check=\"exact\")`, Avro to columns",
             "Spark's `from_avro` of one fixed schema"),
        _Row("spark-avro-wide.header.cpu-vs-from_avro", "`decode(check=\"header\")`, Avro to columns", "the same"),
        _Row("spark-avro-wide.header.cpu-vs-fastavro-udf", "the same", "a Python UDF with fastavro"),
        _Row("spark-avro-wide.generic.cpu-vs-fastavro-udf", "`decode()` of all tables, Avro to maps", "the same"),
        _Row("spark-craft.ours.cpu-vs-python", "Craft to columns", "plain Python in `mapInArrow`"),
        _Row("spark-open.ours.cpu-vs-from_json", "Open Protocol to columns", "Spark's `from_json`, no conversions"),
        _Row("spark-debezium.ours.cpu-vs-from_json", "Debezium JSON to columns", "the same"),
        _Row("spark-avro-debezium.ours.cpu-vs-from_avro-to_json", "`transcode`, Avro to Debezium JSON",
             "`from_avro` and `to_json`, the row alone"),
        _Row("spark-debezium-avro.ours.cpu-vs-from_json-to_avro", "`transcode`, Debezium JSON to Avro",
             "`from_json` and `to_avro`, the row alone"),
        _Row("spark-kafka.stream.cpu-vs-passthrough", "`transcode --stream`, Kafka to Kafka",
             "a stream that only copies"),
        _Row("spark-scale.exact-1000000-rows.cpu-vs-exact-100000-rows", "`exact`, 1,000,000 rows", "100,000 rows"),
        _Row("spark-scale.exact-50-ids.cpu-vs-exact-2-ids", "`exact`, 50 schema ids", "2 schema ids"),
        _Row("spark-scale.transcode-200-tables.cpu-vs-transcode-1-tables", "`transcode`, 200 tables in a topic",
             "1 table"),
    ),
    "Lake tables": (
        _Row("load-parquet", "`load` of a Parquet dump into Delta", "`spark.read.parquet(…).write` to Delta"),
        _Row("load-sql", "`load` of an SQL dump into Delta"),
        _Row("load-csv", "`load` of a CSV dump into Delta"),
        _Row("reconcile-lake", "`reconcile`: checksums of a lake table", "a scan with `md5(concat_ws(…))`"),
        _Row("lake-merge.10000-into-10000000", "`merge`, 10,000 changes into 10 million rows", "`MERGE INTO` by hand"),
        _Row("lake-merge-full.10000-into-5000000", "`merge` with deletion vectors, 10,000 changes into 5 million rows",
             "`MERGE INTO` by hand"),
        _Row("lake-merge-full.100000-into-5000000", "the same, 100,000 changes", "the same"),
        _Row("lake-merge-full.1000000-into-5000000", "the same, a million changes", "the same"),
        _Row("lake-merge-full.avro-10000", "the same, 10,000 changes by Avro", "by Open Protocol"),
        _Row("merge-20-of-500-tables", "`merge`, 20 of 500 tables have changes", "20 tables alone"),
    ),
    "One process, without Spark": (
        _Row("craft.decode.cpu-vs-python", "Craft to Arrow", "plain Python"),
        _Row("craft.encode.cpu-vs-python", "rows to Craft", "plain Python"),
        _Row("json.debezium-schema.cpu-vs-python", "Debezium JSON with schema to Arrow", "`json.loads` and Python"),
        _Row("json.debezium-noschema.cpu-vs-python", "Debezium JSON without schema to Arrow", "the same"),
        _Row("json.open.cpu-vs-python", "Open Protocol to Arrow", "the same"),
        _Row("ddl.parse.against-sqlglot", "TiDB's DDL parsed", "sqlglot"),
        _Row("ddl.apply.10000-tables-against-a-tenth", "DDL parsed and applied, 10,000 tables", "1,000 tables"),
        _Row("ddl.apply.2500-tables-against-a-tenth", "DDL parsed and applied, 2,500 tables", "250 tables"),
    ),
    "Registry and history": (
        _Row("registry.by-id", "schema by id, one process", "a bare ASGI app, one process"),
        _Row("registry.latest", "latest version", "the same"),
        _Row("registry.look-up", "look-up of a schema of 60 columns", "the same"),
        _Row("registry.register-known", "registration of a known schema", "the same"),
        _Row("registry.by-id.20000-there", "schema by id, 20,000 schemas stored", "the same"),
        _Row("registry.new.sequential", "new schemas, one writer, SQLite"),
        _Row("registry.new.16-writers", "new schemas, 16 writers, SQLite"),
        _Row("registry.start", "start with 20,000 schemas, to the first answer"),
        _Row("registry.rss", "memory with 20,000 schemas"),
        _Row("history.sealed", "`track`, 10,000 tables"),
        _Row("history.at.p50", "table at a commit_ts, median"),
        _Row("history.at.p99", "table at a commit_ts, 99th percentile"),
        _Row("history.serve.rss", "memory of the service with this history"),
    ),
}  # fmt: skip
_FIGURE = re.compile(r"[\d.,]+(?=<!-- figure: (\S+) (value|rival|ratio|cores) -->)")
"""A number in a page that is one of a figure. cores: what 100,000 rows a second need, at three times that and 60 % of a
core's time, of a figure in µs of CPU a row.
"""
_FORMATS = ("avro", "debezium-avro", "craft", "open", "debezium", "debezium-mysql")


def number(value: float | None) -> str:
    """As the command line prints it."""
    if value is None:
        return ""
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.3g}"


def write(
    figures: Mapping[str, Sequence[Figure]],
    *,
    quick: bool,
    rows: int | None = None,
    order: Sequence[str] = (),
    docs: Path = DOCS,
) -> None:
    """Keeps the figures of each benchmark that ran, and makes the page's part again.

    order: of the benchmarks on the page; others come after them.
    """
    kept = docs / "benchmarks.json"
    runs: dict[str, Any] = json.loads(kept.read_text(encoding="utf-8")) if kept.exists() else {}
    for name, found in figures.items():
        runs[name] = {
            "when": datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC"),
            "load": f"{os.getloadavg()[0]:.1f}",
            "cores": os.cpu_count(),
            "quick": quick,
            "rows": rows,
            "figures": [entry.as_json() for entry in found],
        }
    runs = {
        name: runs[name]
        for name in (*(entry for entry in order if entry in runs), *(run for run in runs if run not in order))
    }
    kept.write_text(json.dumps(runs, indent=1) + "\n", encoding="utf-8")
    page = docs / "benchmarks.md"
    page.write_text(filled(page.read_text(encoding="utf-8"), runs), encoding="utf-8")
    write_figures(docs)


def write_figures(docs: Path = DOCS) -> None:
    """Writes the figures of README.md and docs/ anew, where a page names them."""
    runs = json.loads((docs / "benchmarks.json").read_text(encoding="utf-8"))
    for page in (docs.parent / "README.md", *docs.glob("*.md")):
        if page.exists():
            page.write_text(with_figures(page.read_text(encoding="utf-8"), runs), encoding="utf-8")


def with_figures(text: str, runs: Mapping[str, Any]) -> str:
    """A page's text, each number that a comment names as one of a figure made of `runs`. KeyError: there is no such
    figure.
    """
    by_name = {figure["name"]: figure for run in runs.values() for figure in run["figures"]}

    def write_number(found: re.Match[str]) -> str:
        figure = by_name[found[1]]
        return f"{figure['value'] * 3 / 0.6 / 10:.2g}" if found[2] == "cores" else number(figure[found[2]])

    return _FIGURE.sub(write_number, text)


def filled(page: str, runs: Mapping[str, Any]) -> str:
    """The page with the part between the markers made of `runs`."""
    head, _, rest = page.partition(BEGIN)
    _, _, tail = rest.partition(END)
    return head + BEGIN + "\n" + "".join(line + "\n" for line in _lines(runs)) + END + tail


def _lines(runs: Mapping[str, Any]) -> Iterator[str]:
    by_name = {figure["name"]: figure for run in runs.values() for figure in run["figures"]}
    for title, rows in _TABLES.items():
        if existing := [row for row in rows if row.figure in by_name]:
            yield from (f"### {title}", "", "| | measured | beside | measured | ratio |", "|---|---|---|---|---|")
            yield from (_line(row, by_name[row.figure]) for row in existing)
            yield ""
    if "size.wide-1-row.avro" in by_name:
        yield from (
            "### Bytes of a message, key and value",
            "",
            "| | 1 row | zlib | 16 rows | zlib |",
            "|---|---|---|---|---|",
        )
        yield from (_sizes(name, by_name) for name in _FORMATS)
        yield ""
    yield from ("### Runs", "", "| command | when | load average |", "|---|---|---|")
    for name, run in runs.items():
        command = f"python -m benchmarks {name}{' --quick' if run['quick'] else ''}"
        command += f" --rows {run['rows']}" if run.get("rows") else ""
        yield f"| `{command}` | {run['when']} | {run['load']} |"
    yield ""


def _line(row: _Row, figure: Mapping[str, Any]) -> str:
    unit = figure["unit"].replace("us/", "µs/")
    measured, beside = (
        f"{number(figure[key])} {unit}" if row.beside or key == "value" else "" for key in ("value", "rival")
    )
    return f"| {row.what} | {measured} | {row.beside} | {beside} | {number(figure['ratio']) if row.beside else ''} |"


def _sizes(name: str, figures: Mapping[str, Mapping[str, Any]]) -> str:
    keys = [f"size.wide-{rows}.{name}{zlib}" for rows in ("1-row", "16-rows") for zlib in ("", ".zlib")]
    return f"| `{name}` | {' | '.join(number(figures[key]['value']) for key in keys)} |"
