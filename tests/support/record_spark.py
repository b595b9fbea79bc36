"""What Spark gives out for the recorded messages, as digests: maps, one table's structs, streams, files, Delta."""

from __future__ import annotations

import contextlib
import json
import tempfile
from collections.abc import Callable, Iterator
from functools import reduce
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any
from unittest.mock import patch

import pyarrow.parquet as pq

from tests.support.golden import ALL, EVOLUTION, Registry
from tests.support.output_cases import OutputCase, output_cases
from tests.support.record_outputs import Row, digest, kafka_table, run_quietly
from ticdc_bridge import decode, transcode
from ticdc_bridge.schemas.formats.format_table import WRITTEN
from ticdc_bridge.schemas.inputs.schema_files import FileSchemas
from ticdc_bridge.schemas.model.errors import BridgeError
from ticdc_bridge.schemas.model.event import RowChange
from ticdc_bridge.schemas.model.table import TableId
from ticdc_bridge.spark_jobs.pipeline.message_codec import decode_message
from ticdc_bridge.spark_jobs.spark import avro_jvm
from ticdc_bridge.spark_jobs.spark.data_source import register

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_TOGETHER = 12  # cases in one query
_AS_TEXT = {"ignoreNullFields": "false"}


def session() -> SparkSession:
    """A session as that of quick tests, for the command: what expressions give is the same, compiled or interpreted."""
    from tests.support.spark_settings import INTERPRETED, QUICK
    from ticdc_bridge.spark_jobs.lake.tables import lake_config
    from ticdc_bridge.spark_jobs.spark.session import spark_session

    return spark_session("recorder", master="local[2]", config={**QUICK, **INTERPRETED, **lake_config()})


def _chosen() -> Iterator[OutputCase]:
    """A case a format that has some, of several tables and schema versions: for paths with files or streams around."""
    for format_ in ALL:
        begin = f"{format_}/{EVOLUTION.get(format_, '')}"
        yield from islice((c for c in output_cases(format_) if c.name.startswith(begin)), 1)


def _arguments(case: OutputCase, defined: bool) -> dict[str, Any]:
    image = case.defined if defined else case.side
    claims = image.claims.folder if image.claims else None
    return {
        "format": image.format, "schemas": image.schemas, "ddl": image.tables, "time_zone": image.options.time_zone,
        "on_lossy": "flag", "claim_checks": claims,
    }  # fmt: skip


def _frame(spark: SparkSession, case: OutputCase) -> DataFrame:
    return spark.createDataFrame(kafka_table(case)).coalesce(1)


def _decoded(frame: DataFrame, **how: Any) -> DataFrame:
    """What decode() gives, but for the messages' headers: tests of their own hold these."""
    return decode(frame, **how).drop("headers")


def _together(frames: Iterator[tuple[str, str, DataFrame]]) -> Iterator[Row]:
    """(case, path, frame) → rows: one query for several; each row of a frame as JSON, in the order of its messages."""
    from pyspark.sql import functions as F

    while some := list(islice(frames, _TOGETHER)):
        texts = [
            frame.select(F.lit(n).alias("n"), F.to_json(F.struct(*frame.columns), _AS_TEXT).alias("row"))
            for n, (_, _, frame) in enumerate(some)
        ]
        rows: dict[int, list[str]] = {}
        for row in reduce(lambda a, b: a.unionAll(b), texts).collect():
            rows.setdefault(row["n"], []).append(row["row"])
        for n, (case, path, frame) in enumerate(some):
            yield case, path, digest(frame.schema.jsonValue(), *sorted(rows.get(n, [])))


def record_maps(spark: SparkSession) -> Iterator[Row]:
    """decode() without `table`: every case, with its definitions where it has some."""
    yield from _together(
        (case.name, "decode()", _decoded(_frame(spark, case), **_arguments(case, defined=case.ddl_file is not None)))
        for format_ in ALL
        for case in output_cases(format_)
    )


def _tables(case: OutputCase) -> list[TableId]:
    decoder = case.defined.decoder()
    events = [e for message in case.messages for e in decode_message(decoder, message).events]
    return list(dict.fromkeys(e.table.id for e in events if isinstance(e, RowChange)))


def _of_tables(spark: SparkSession, formats: tuple[str, ...], defined: bool, **how: Any) -> Iterator[Row]:
    """decode(table=) of every table; a refusal counts as an output too. A table is once in a query, for its metric."""
    waves: list[dict[TableId, tuple[str, str, DataFrame]]] = []
    for case in (case for format_ in formats for case in output_cases(format_)):
        if defined and case.ddl_file is None:
            continue
        for id_ in _tables(case):
            path = f"table {id_} {' '.join(map(str, how.values()))}"
            try:
                made = _decoded(_frame(spark, case), table=str(id_), **{**_arguments(case, defined), **how})
            except BridgeError as error:
                yield case.name, path, digest(error.code, error.detail)
                continue
            free = next((w for w in waves if id_ not in w), None)
            if free is None:
                waves.append(free := {})
            free[id_] = (case.name, path, made)
            if len(free) == _TOGETHER:
                waves.remove(free)
                yield from _together(iter(free.values()))
    for wave in waves:
        yield from _together(iter(wave.values()))


def record_table(spark: SparkSession, defined: bool, types: str) -> Iterator[Row]:
    """One table's structs, of every format, in exact or typed columns."""
    formats = tuple(f for f in ALL if defined or f != "simple")
    yield from _of_tables(spark, formats, defined, types=types)


def record_without_classes(spark: SparkSession) -> Iterator[Row]:
    """One table of Avro where the JVM takes no classes of ours."""
    with patch.dict(avro_jvm._loaders, {str(spark.sparkContext.applicationId): None}):
        yield from _of_tables(spark, ("avro",), False, check="exact")
        yield from _of_tables(spark, ("avro",), False, check="header")


class _NewIds(FileSchemas):
    """A registry that gives out ids, as transcode() takes one."""

    def __init__(self) -> None:
        super().__init__([])
        self._registry = Registry()
        self.by_id = self._registry.by_id  # type: ignore[method-assign]
        self.newest = self._registry.newest  # type: ignore[method-assign]
        self.id_of = self._registry.id_of  # type: ignore[method-assign]


def record_transcode(spark: SparkSession) -> Iterator[Row]:
    """transcode() of all pairs, a case a format."""

    def frames() -> Iterator[tuple[str, str, DataFrame]]:
        for case in _chosen():
            image = case.defined
            for target in WRITTEN:
                made = transcode(
                    _frame(spark, case), from_format=case.format, to_format=target, schemas=image.schemas,
                    to_schemas=_NewIds(), ddl=image.tables, time_zone=image.options.time_zone,
                    options={"on_lossy": "flag"},
                )  # fmt: skip
                yield case.name, f"transcode() to {target}", made

    yield from _together(frames())


def record_commands(spark: SparkSession) -> Iterator[Row]:
    """`decode --spark` and `transcode --spark` to files, `merge` to Delta, the data source: a case a format."""
    register(spark)
    with tempfile.TemporaryDirectory() as folder, contextlib.chdir(folder):
        for case in _chosen():
            format_ = case.format
            case.write_messages(Path("in.jsonl"))
            Path("schemas.json").write_text(case.schema_lines, encoding="utf-8")
            zone = case.side.options.time_zone
            ddl = ["--ddl", str(case.ddl_file)] if case.ddl_file else []
            common = ["--in", "in.jsonl", "--schemas", "schemas.json", "--time-zone", zone, *ddl, "--spark"]
            code, _ = run_quietly(["decode", "--format", format_, *common, "--out", "rows.jsonl"])
            yield case.name, "decode --spark", digest(code, Path("rows.jsonl").read_bytes())
            target = "craft" if format_ != "craft" else "debezium"
            words = ["transcode", "--from", format_, "--to", target, *common, "--on-lossy", "flag"]
            code, _ = run_quietly([*words, "--out", "out.jsonl"])
            yield case.name, f"transcode --spark to {target}", digest(code, Path("out.jsonl").read_bytes())
            yield case.name, "data source", _source_digest(spark, case)


def _source_digest(spark: SparkSession, case: OutputCase) -> str:
    options = {"format": case.format, "schemas": "schemas.json", "time_zone": case.side.options.time_zone}
    if case.ddl_file:
        options["ddl"] = str(case.ddl_file)
    frame = spark.read.format("ticdc").options(**{k: _absolute(v) for k, v in options.items()})
    return digest(*sorted(map(repr, frame.load(str(Path("in.jsonl").resolve())).drop("headers").collect())))


def _absolute(text: str) -> str:
    return str(Path(text).resolve()) if Path(text).is_file() else text


def record_streams(spark: SparkSession) -> Iterator[Row]:
    """decode() of a streaming DataFrame, as maps and one table: a case a format."""
    with tempfile.TemporaryDirectory() as folder:
        for case in _chosen():
            format_ = case.format
            source = Path(folder) / format_
            source.mkdir()
            table = kafka_table(case)
            pq.write_table(table, source / "messages.parquet")
            frame = spark.readStream.schema(spark.createDataFrame(table.slice(0, 1)).schema).parquet(str(source))
            arguments = _arguments(case, defined=case.ddl_file is not None)
            yield case.name, "stream", _streamed(_decoded(frame, **arguments), Path(folder) / f"{format_}-maps")
            id_ = _tables(case)[0]
            if format_ == "debezium-mysql":
                continue  # it has no definitions here
            made = _decoded(frame, table=str(id_), **arguments)
            yield case.name, f"stream of {id_}", _streamed(made, Path(folder) / f"{format_}-table")


def _streamed(made: DataFrame, checkpoint: Path) -> str:
    from pyspark.sql import functions as F

    rows: list[str] = []

    def take(batch: DataFrame, _: int) -> None:
        rows.extend(row["row"] for row in batch.select(F.to_json(F.struct("*"), _AS_TEXT).alias("row")).collect())

    query = made.writeStream.foreachBatch(take).trigger(availableNow=True)
    query.option("checkpointLocation", str(checkpoint)).start().awaitTermination()
    return digest(json.dumps(made.schema.jsonValue()), *sorted(rows))


GROUPS: dict[str, Callable[[Any], Iterator[Row]]] = {
    "spark maps": record_maps, "spark table": lambda spark: record_table(spark, False, "exact"),
    "spark table with definitions": lambda spark: record_table(spark, True, "exact"),
    "spark table typed": lambda spark: record_table(spark, True, "typed"),
    "spark avro typed": lambda spark: _of_tables(spark, ("avro",), False, types="typed"),
    "spark avro header": lambda spark: _of_tables(spark, ("avro",), False, check="header"),
    "spark avro without classes": record_without_classes, "spark transcode": record_transcode,
    "spark commands": record_commands, "spark streams": record_streams,
}  # fmt: skip
