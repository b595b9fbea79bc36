"""All Avro that is written is read by fastavro as it is meant, for every golden, by whatever path it is written.

The paths: the codec's encoders, and what jobs call for batches, here and in Spark's workers (the compiled writers).
Rows in containers: tests/spark_jobs/jobs/test_table_avro.py. Simple's Avro is only read.
"""

import io
import json
from types import SimpleNamespace
from typing import Any

import fastavro

from tests.schemas.codec.test_avro import same_value
from tests.support.each import each
from tests.support.golden import READ, Golden, Registry, cases, sampled
from tests.support.record_outputs import MESSAGES, kafka_table
from ticdc_bridge.schemas.codec.avro_schema import parse_schema, reader
from ticdc_bridge.schemas.formats.framing import unframe
from ticdc_bridge.schemas.model import values
from ticdc_bridge.schemas.model.event import RowChange
from ticdc_bridge.schemas.model.names import sanitise_name
from ticdc_bridge.schemas.model.options import Options
from ticdc_bridge.schemas.model.types import Kind
from ticdc_bridge.spark_jobs.arrow.worker_functions import TranscodeBatches
from ticdc_bridge.spark_jobs.pipeline.codec_config import CodecConfig
from ticdc_bridge.spark_jobs.pipeline.message_codec import transcode_message

TARGETS: list[tuple[str, dict[str, Any]]] = [
    ("avro", {"enable_tidb_extension": True, "avro_include_before_value": True}),
    ("avro", {"avro_decimal_handling_mode": "string", "avro_bigint_unsigned_handling_mode": "string"}),
    ("debezium-avro", {"enable_tidb_extension": True, "avro_enable_watermark": True}),
    ("debezium-mysql", {"encoding_format": "avro"}),
    ("debezium-tidb", {"encoding_format": "avro", "bigint_unsigned_handling_mode": "precise"}),
]


class _Records:
    """Framed records, read by fastavro with the schema that was registered, and by our reader."""

    def __init__(self, registry: Registry) -> None:
        self._registry, self._parsed = registry, dict[Any, tuple[Any, Any]]()

    def read(self, data: bytes) -> dict[str, Any]:
        """The record as fastavro has it, texts as bytes. AssertionError where ours is another."""
        schema_id, pos = unframe(data, "value")
        if schema_id not in self._parsed:
            text = self._registry.by_id(schema_id, "value")
            self._parsed[schema_id] = (
                fastavro.parse_schema(_bare(json.loads(text))), reader(parse_schema(text), lambda number: number),
            )  # fmt: skip
        schema, ours = self._parsed[schema_id]
        stream = io.BytesIO(data[pos:])
        theirs: Any = fastavro.schemaless_reader(stream, schema, None)
        assert stream.read() == b""
        value, end = ours(data, pos)
        assert end == len(data)
        assert _listed(theirs) == _listed(value)
        return dict(theirs)


def _bare(schema: Any) -> Any:
    """A schema's kinds and names: fastavro checks defaults that goavro lets pass, and latin1 is no string of Avro's."""
    if isinstance(schema, list):
        return [_bare(branch) for branch in schema]
    if not isinstance(schema, dict):
        return "bytes" if schema == "string" else schema
    kept = {k: schema[k] for k in ("name", "namespace") if k in schema}
    if "fields" in schema:
        return {
            **kept,
            "type": "record",
            "fields": [{"name": f["name"], "type": _bare(f["type"])} for f in schema["fields"]],
        }
    return {"type": "array", "items": _bare(schema["items"])} if schema["type"] == "array" else _bare(schema["type"])


def _listed(value: Any) -> Any:
    """A record's values in order, whatever its fields are called; texts as bytes, floats by their digits."""
    if isinstance(value, dict):
        return [_listed(entry) for entry in value.values()]
    if isinstance(value, list):
        return [_listed(entry) for entry in value]
    if isinstance(value, str):
        return value.encode("utf-8", "surrogateescape")
    return repr(value) if isinstance(value, float) else value


@each("golden", **sampled(golden for format_ in READ for golden in cases(format_)))
def test_fastavro_reads_what_is_written(golden: Golden) -> None:
    for target, options in TARGETS:
        chosen = Options.of({**options, "time_zone": golden.zone, "on_lossy": "flag"})
        codec, batches = (CodecConfig(target, Registry(), chosen) for _ in range(2))  # type: ignore[arg-type]
        image = golden.side(ddl=True)
        decoder, encoder = image.decoder(), codec.encoder()
        records, written = _Records(codec.schemas), list[tuple[bytes | None, bytes | None]]()  # type: ignore[arg-type]
        for message in golden.messages():
            result = transcode_message(decoder, encoder, message)
            rows = [e for e in result.events if isinstance(e, RowChange)]
            for number, out in enumerate(result.out):
                written.append((out.key, out.value))
                for field in (out.key, out.value):
                    if field is not None and field[:1] == b"\x00":
                        record = records.read(field)
                        if target == "avro" and field is out.value and len(rows) == len(result.out):
                            _check_row(rows[number], record, golden.zone)
        if golden.format == "auto" or image.tables is None:
            continue
        table: Any = kafka_table(SimpleNamespace(messages=golden.messages()))  # type: ignore[arg-type]
        found = [
            row for b in TranscodeBatches(image, batches, None, MESSAGES)(table.to_batches()) for row in b.to_pylist()
        ]
        assert [(r["key"], r["value"]) for r in found if not r["error"]] == written, target


def _check_row(event: RowChange, record: dict[str, Any], zone: str) -> None:
    row = (event.before if event.op == "d" else event.after) or {}
    for column in event.table.columns:
        name = sanitise_name(column.name)
        value = row.get(column.name)
        if column.type.kind is Kind.TIMESTAMP and isinstance(value, str):
            value = values.shift_zone(value, event.zone, zone)[0]
        theirs = record[name]
        if isinstance(theirs, bytes) and isinstance(value, str):
            if column.type.kind is Kind.DECIMAL and not theirs.replace(b".", b"").replace(b"-", b"").isdigit():
                assert column.scale is not None
                theirs = values.decimal_text(int.from_bytes(theirs, "big", signed=True), column.scale).encode()
                value = values.plain_decimal(value, column.scale)
            value = value.encode()
        assert same_value(column, value, theirs), (column.name, value, theirs)
