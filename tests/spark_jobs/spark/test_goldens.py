"""golden_check with Spark: `decode` in Spark makes of every golden case what the in-process codec makes of it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import reduce
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

from tests.support import connector
from tests.support.golden import ALL, EVOLUTION, FORMATS, Golden, case_check, cases
from tests.support.tidb_connector import tidb_messages
from ticdc_bridge import decode
from ticdc_bridge.schemas.inputs.schema_files import FileSchemas
from ticdc_bridge.schemas.model.event import Message
from ticdc_bridge.schemas.model.options import Options
from ticdc_bridge.spark_jobs.arrow.change_schema import SKIPPED, change_schema
from ticdc_bridge.spark_jobs.arrow.worker_functions import DecodeBatches
from ticdc_bridge.spark_jobs.pipeline.arguments import hints_in_python
from ticdc_bridge.spark_jobs.pipeline.codec_config import CodecConfig
from ticdc_bridge.spark_jobs.pipeline.message_codec import decode_message, plain_lines

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_KAFKA = pa.schema([("key", pa.binary()), ("value", pa.binary()), ("topic", pa.string()), ("offset", pa.int64())])  # type: ignore[arg-type]


@dataclass(frozen=True)
class _Case:
    name: str
    side: CodecConfig
    messages: tuple[Message, ...]
    golden: Golden | None = None

    @property
    def table(self) -> Any:
        rows = [{"key": m.key, "value": m.value, "topic": m.topic, "offset": m.offset} for m in self.messages]
        return pa.Table.from_pylist(rows, schema=_KAFKA)

    def by_workers(self) -> list[dict[str, Any]]:
        """The rows that `decode` gives, made as Spark's workers make them, in this process."""
        schema = change_schema()
        found = [
            row for batch in DecodeBatches(self.side, schema)(self.table.to_batches()) for row in batch.to_pylist()
        ]
        return [{**r, **{s: dict(r[s]) for s in ("before", "after") if r[s] is not None}} for r in found]

    def by_spark(self, spark: SparkSession, number: int) -> DataFrame:
        from pyspark.sql import functions as F

        image = self.side
        frame = decode(
            spark.createDataFrame(self.table).coalesce(1), format=image.format, schemas=image.schemas, ddl=image.tables,
            time_zone=image.options.time_zone, claim_checks=image.claims.folder if image.claims else None,
        )  # fmt: skip
        return frame.withColumn("case", F.lit(number))

    def plain(self) -> Iterator[dict[str, Any]]:
        decoder = self.side.decoder()
        for message in self.messages:
            with hints_in_python("decode"):
                result = decode_message(decoder, message)
            yield from json.loads(json.dumps(plain_lines(result, replace(message, headers=()))))


def _goldens(format_: str) -> list[_Case]:
    if format_ == "debezium-mysql":
        return list(_connectors())
    if format_ == "debezium-tidb":
        config = CodecConfig(format_, FileSchemas([]), Options.of({"on_lossy": "flag"}))
        with_schema = (g for g in cases("debezium") if g.name.endswith(".schema"))
        return [_Case(str(g), config, tuple(tidb_messages(g))) for g in with_schema]
    out = []
    for golden in cases(format_):
        messages = tuple(replace(m, offset=n) for n, m in enumerate(golden.messages()))
        config = golden.side(ddl=format_ == "simple")  # its messages need what earlier ones told, or definitions
        out.append(
            _Case(str(golden), replace(config, options=replace(config.options, on_lossy="flag")), messages, golden)
        )
    return out


def _connectors() -> Iterator[_Case]:
    options = Options.of({"on_lossy": "flag"})
    for name in connector.settings():
        yield _Case(name, CodecConfig("debezium-mysql", FileSchemas([]), options), tuple(connector.json_messages(name)))
    for name in connector.settings(".avro_confluent"):
        config = CodecConfig("debezium-mysql", connector.avro_schemas(name), options)
        yield _Case(f"{name} in Avro", config, tuple(connector.avro_messages(name)))


def _line(row: Any, format_: str) -> dict[str, Any]:
    """A row of `decode` in plain form; bytes stay as maps have them, `{"hex":"…"}` as text."""
    source = {"topic": row["source"]["topic"], "partition": None, "offset": row["source"]["offset"]}
    if row["error"] is not None:
        code, detail = row["error"]["code"], row["error"]["detail"]
        pair = {f"{name}_b64": row["error"][name] for name in ("key", "value")}
        return {"kind": "error", "code": code, "detail": detail, **source, **pair}
    names = {
        "row": ("db", "table", "op", "commit_ts", "schema_id", "table_version", "key", "before", "after", "flags"),
        "ddl": ("db", "table", "commit_ts", "ddl_type", "query"),
        "watermark": ("commit_ts",),
        "bootstrap": ("db", "table", "commit_ts"),
    }[row["kind"]]
    return {"kind": row["kind"], "format": format_, **source, **{name: row[name] for name in names}}


def _as_maps(line: dict[str, Any]) -> dict[str, Any]:
    """A plain line as `_line` has it."""
    out = dict(line)
    if out["kind"] == "error":
        import base64

        for name in ("key_b64", "value_b64"):
            out[name] = None if out[name] is None else bytearray(base64.b64decode(out[name]))
    for image in ("before", "after"):
        if out.get(image) is not None:
            texts = {
                n: json.dumps(v, separators=(",", ":")) if isinstance(v, dict) else v for n, v in out[image].items()
            }
            out[image] = texts
    return out


def _same(got: dict[str, Any], want: dict[str, Any]) -> bool:
    return all(
        got.get(name) == value
        for name, value in want.items()
        if name not in ("partition", "format", "extra", "schema_version", "columns")
    )


def _compare(case: _Case, rows: list[Any]) -> None:
    format_ = case.side.format
    shown = sorted((r for r in rows if r["kind"] not in SKIPPED), key=lambda r: (r["source"]["offset"], r["row"]))
    got, want = [_line(r, format_) for r in shown], list(case.plain())
    assert len(got) == len(want), case.name
    for entry, other in zip(got, map(_as_maps, want), strict=True):
        assert _same(entry, other), f"{case.name}: {entry} is not {other}"
    if case.golden is not None and format_ in FORMATS:
        assert not case_check(case.golden).check(want).differences


@pytest.mark.parametrize("format_", ALL)
def test_every_case(format_: str) -> None:
    found = _goldens(format_)
    assert len(found) > 10
    for case in found:
        _compare(case, case.by_workers())


def test_one_case_a_format_in_spark(spark: SparkSession) -> None:
    """One query with all formats, tombstones and claim-checks among them."""
    names = {**EVOLUTION, "debezium-mysql": "default", "debezium-tidb": EVOLUTION["debezium"]}
    chosen = [next(c for c in _goldens(f) if names[f] in c.name) for f in ALL]
    chosen.append(next(c for c in _goldens("open") if c.name == "open/large.claimcheck"))
    frames = [case.by_spark(spark, n) for n, case in enumerate(chosen)]
    rows: dict[int, list[Any]] = {}
    for row in reduce(lambda a, b: a.unionAll(b), frames).collect():
        rows.setdefault(row["case"], []).append(row)
    for number, case in enumerate(chosen):
        _compare(case, rows.get(number, []))
