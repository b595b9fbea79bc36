"""What the program gives out, as digests: a change that is to change nothing leaves `tests/outputs.tsv` as it is.

    python -m tests.support.record_outputs            writes the file anew, and says what differs
    python -m tests.support.record_outputs --check    only says what differs (exit code 1)
    … avro craft "spark maps" …                       these groups only

A row of the file: group, case, path, digest. A group is a format (its messages through every path in this process),
`spark …` (through Spark) or `program` (help, routes, rights, errors). tests/support/test_recorded_outputs.py compares.
"""

from __future__ import annotations

import argparse
import contextlib
import hashlib
import io
import os
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq

from tests.support.golden import CONNECTOR, READ, ROOT, Registry
from tests.support.output_cases import OutputCase, output_cases
from ticdc_bridge.cli import main as run_command
from ticdc_bridge.schemas.formats.format_table import WRITTEN
from ticdc_bridge.schemas.plain.writer import json_line
from ticdc_bridge.spark_jobs.arrow.change_schema import change_schema
from ticdc_bridge.spark_jobs.arrow.worker_functions import DecodeBatches, TranscodeBatches
from ticdc_bridge.spark_jobs.io.message_files import message_line
from ticdc_bridge.spark_jobs.pipeline.codec_config import CodecConfig
from ticdc_bridge.spark_jobs.pipeline.message_codec import decode_message, plain_lines, transcode_message

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

FILE = ROOT / "tests" / "outputs.tsv"
Row = tuple[str, str, str]
"""(case, path, digest)"""

_HEADERS = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))
KAFKA = pa.schema(
    [
        ("key", pa.binary()), ("value", pa.binary()), ("topic", pa.string()), ("partition", pa.int32()),
        ("offset", pa.int64()), ("timestamp", pa.timestamp("us", "UTC")), ("headers", _HEADERS),
    ]  # type: ignore[arg-type]
)  # fmt: skip
# What transcoding gives, as Spark's workers must yield it; Spark's own text of it would need a session.
MESSAGES = pa.schema(
    [
        ("topic", pa.string()), ("partition", pa.int32()), ("key", pa.binary()), ("value", pa.binary()),
        ("timestamp", pa.timestamp("us", "UTC")),
        ("headers", _HEADERS),
        ("error", pa.struct([("code", pa.string()), ("detail", pa.string())])),
    ]  # type: ignore[arg-type]
)  # fmt: skip


def digest(*pieces: object) -> str:
    """A short digest of texts and bytes, or of what `repr` makes of other values."""
    found = hashlib.blake2b(digest_size=8)
    for piece in pieces:
        data = piece if isinstance(piece, bytes) else str(piece).encode("utf-8", "backslashreplace")
        found.update(len(data).to_bytes(8, "big") + data)
    return found.hexdigest()


def writing_side(format_: str, zone: str) -> CodecConfig:
    """The side written: a registry in memory that gives out ids, and what can't be kept exactly is flagged."""
    from ticdc_bridge.schemas.model.options import Options

    return CodecConfig(format_, Registry(), Options.of({"time_zone": zone, "on_lossy": "flag"}))  # type: ignore[arg-type]


# ---- one format's messages, in this process
def _events(config: CodecConfig, case: OutputCase) -> str:
    decoder = config.decoder()
    return "\n".join(json_line(line) for m in case.messages for line in plain_lines(decode_message(decoder, m), m))


def _transcoded(case: OutputCase, target: str) -> str:
    decoder, encoder = case.defined.decoder(), writing_side(target, case.side.options.time_zone).encoder()
    lines: list[str] = []
    for message in case.messages:
        result = transcode_message(decoder, encoder, message)
        lines += [json_line(message_line(out)) for out in result.out]
        lines.append(f"{result.skipped} {result.error.code + result.error.detail if result.error else None}")
    return "\n".join(lines)


def kafka_table(case: OutputCase) -> pa.Table:
    """The messages as Spark's Kafka source has them."""
    rows = [
        {
            "key": m.key, "value": m.value, "topic": m.topic, "partition": m.partition, "offset": m.offset,
            "timestamp": None if m.timestamp is None else m.timestamp * 1000,
            "headers": [{"key": key, "value": value} for key, value in m.headers],
        }
        for m in case.messages
    ]  # fmt: skip
    return pa.Table.from_pylist(rows, schema=KAFKA)


def _rows_of(rows: Iterator[dict[str, Any]]) -> str:
    return "\n".join(repr({k: v for k, v in row.items() if k != "headers" or v is not None}) for row in rows)


def _decoded_batches(config: CodecConfig, case: OutputCase) -> str:
    schema = change_schema()
    batches = DecodeBatches(config, schema)(kafka_table(case).to_batches())
    return _rows_of(row for batch in batches for row in batch.to_pylist())


def _transcoded_batches(case: OutputCase, target: str) -> str:
    write = writing_side(target, case.side.options.time_zone)
    batches = TranscodeBatches(case.defined, write, None, MESSAGES)
    return _rows_of(_reported(row) for batch in batches(kafka_table(case).to_batches()) for row in batch.to_pylist())


def _reported(row: dict[str, Any]) -> dict[str, Any]:
    """A row of a worker; what is not written has its kind as the detail of an error without a code."""
    error = row.pop("error")
    skipped = error["detail"] if error and error["code"] is None else None
    return {**row, "error": None if skipped else error, "skipped": skipped}


def run_quietly(words: list[str]) -> tuple[int, str]:
    """A command of `spark_jobs` in this process. Out: (exit code, stdout)."""
    out = io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(io.StringIO()):
        code = run_command(words)
    return code, out.getvalue()


def _commands(case: OutputCase) -> Iterator[tuple[str, str]]:
    """(path, digest) of what the commands make of the messages as a file, in the folder at hand."""
    for leftover in Path.cwd().iterdir():
        leftover.unlink()
    case.write_messages(Path("in.jsonl"))
    Path("schemas.json").write_text(case.schema_lines, encoding="utf-8")
    claims = ["--claim-check-dir", str(case.side.claims.folder)] if case.side.claims else []
    common = ["--schemas", "schemas.json", "--time-zone", case.side.options.time_zone, *claims]
    ddl = ["--ddl", str(case.ddl_file)] if case.ddl_file else []
    decode = ["decode", "--format", case.format, "--in", "in.jsonl", *common]
    yield "command decode", digest(*run_quietly([*decode, "--out", "-"]))
    code, _ = run_quietly([*decode, *ddl, "--out", "rows.jsonl"])
    yield "command decode --ddl", digest(code, Path("rows.jsonl").read_bytes())
    code, _ = run_quietly([*decode, *ddl, "--out", "rows.parquet"])
    rows = pq.read_table("rows.parquet").drop_columns(["headers"]).to_pylist()
    yield "command decode parquet", digest(code, *map(repr, rows))
    explain = ["explain", "--format", case.format, *common, *ddl, "--format-out", "json", "--in"]
    chosen = sorted({1, len(case.messages) // 2 + 1, len(case.messages)})
    yield "command explain", digest(*[piece for n in chosen for piece in run_quietly([*explain, f"in.jsonl#{n}"])])
    if case.format in WRITTEN:
        encode = ["encode", "--format", case.format, "--in", "rows.jsonl", "--schemas", "schemas.json", *ddl]
        code, _ = run_quietly([*encode, "--on-lossy", "flag", "--out", "out.jsonl"])
        pieces = [path.read_bytes() for path in map(Path, ("out.jsonl", "out.jsonl.dead.jsonl")) if path.exists()]
        yield "command encode", digest(code, *pieces)
        images = ["--from", case.format, "--in", "in.jsonl", "--to", case.format, "--against", "in.jsonl"]
        verify = ["verify", *images, "--schemas", "schemas.json", *ddl, *claims]
        yield "command verify", digest(*run_quietly(verify))


def record_format(format_: str) -> Iterator[Row]:
    """Every message of a format through every path in this process."""
    with tempfile.TemporaryDirectory() as folder, contextlib.chdir(folder):
        for case in output_cases(format_):
            yield case.name, "events", digest(_events(case.side, case))
            yield case.name, "maps", digest(_decoded_batches(case.side, case))
            if case.ddl_file is not None:
                yield case.name, "events with definitions", digest(_events(case.defined, case))
                yield case.name, "maps with definitions", digest(_decoded_batches(case.defined, case))
            for target in WRITTEN:
                yield case.name, f"to {target}", digest(_transcoded(case, target))
                yield case.name, f"batches to {target}", digest(_transcoded_batches(case, target))
            for path, found in _commands(case):
                yield case.name, path, found


# ---- all groups
def groups() -> dict[str, Callable[[SparkSession | None], Iterator[Row]]]:
    """Name → what gives its rows; the groups of Spark need a session."""
    from tests.support import record_program, record_spark

    found: dict[str, Callable[[SparkSession | None], Iterator[Row]]] = {
        "program": lambda _: record_program.record_program(),
        **{name: lambda _, name=name: record_format(name) for name in (*READ, CONNECTOR)},  # type: ignore[misc]
    }
    for name, record in record_spark.GROUPS.items():
        found[name] = lambda spark, record=record: record(spark)  # type: ignore[misc]
    return found


def outputs_of(rows: Iterator[Row]) -> dict[tuple[str, str], str]:
    """(case, path) → digest. The many small cases of the corpus are one row a path."""
    found: dict[tuple[str, str], str] = {}
    corpus: dict[str, list[str]] = {}
    for case, path, value in rows:
        if case.startswith("corpus "):
            corpus.setdefault(path, []).append(f"{case} {value}")
        else:
            assert (case, path) not in found, f"{case}, {path}: twice"
            found[case, path] = value
    return found | {("corpus", path): digest(*sorted(values)) for path, values in corpus.items()}


def read_file() -> dict[str, dict[tuple[str, str], str]]:
    """The recorded digests: group → (case, path) → digest."""
    found: dict[str, dict[tuple[str, str], str]] = {}
    for line in FILE.read_text(encoding="utf-8").splitlines() if FILE.exists() else ():
        group, case, path, recorded = line.split("\t")
        found.setdefault(group, {})[case, path] = recorded
    return found


def differences(recorded: dict[tuple[str, str], str], now: dict[tuple[str, str], str]) -> list[str]:
    """A line for every row that is new, gone or another."""
    out = []
    for case, path in sorted(recorded.keys() | now.keys()):
        before, after = recorded.get((case, path)), now.get((case, path))
        if before != after:
            what = "new" if before is None else "gone" if after is None else "another"
            out.append(f"{case}, {path}: {what}")
    return out


def main(arguments: list[str] | None = None) -> int:
    """Out: the exit code, 1 where --check finds a difference."""
    parser = argparse.ArgumentParser(prog="python -m tests.support.record_outputs", description=__doc__.split("\n")[0])
    parser.add_argument("groups", nargs="*", help="these only (default: all)")
    parser.add_argument("--check", action="store_true", help="write nothing; exit code 1 where something differs")
    asked = parser.parse_args(arguments)
    known, recorded = groups(), read_file()
    spark, found = None, 0
    os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    for name in asked.groups or known:
        if name.startswith("spark") and spark is None:
            from tests.support.record_spark import session

            spark = session()
        now = outputs_of(known[name](spark))
        lines = differences(recorded.get(name, {}), now)
        found += len(lines)
        print(f"{name}: {len(now)} outputs, {len(lines)} differ", file=sys.stderr)
        for line in lines[:50]:
            print(f"  {line}", file=sys.stderr)
        recorded[name] = now
        if asked.check:
            continue
        rows = [f"{name}\t{case}\t{path}\t{value}\n" for name in known if name in recorded
                for (case, path), value in sorted(recorded[name].items())]  # fmt: skip
        FILE.write_text("".join(rows), encoding="utf-8")
    return 1 if asked.check and found else 0


if __name__ == "__main__":
    sys.exit(main())
