"""TiCDC Avro of one table by the compiled reader, as Spark's workers have it: what the in-process decoder gives."""

from __future__ import annotations

import json
import random
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pyarrow
import pytest

from tests.support.binary_rows import binary_schema, unpack_sides
from tests.support.fuzz import SEED, damaged
from tests.support.golden import Golden, cases
from tests.support.rows import change
from ticdc_bridge import decode
from ticdc_bridge.schemas.columnar.kernels.jit import COMPILED
from ticdc_bridge.schemas.formats.avro import schema as publish
from ticdc_bridge.schemas.formats.avro.encoder import AvroEncoder
from ticdc_bridge.schemas.formats.base import Context
from ticdc_bridge.schemas.inputs.schema_files import FileSchemas, RegisteredSchema
from ticdc_bridge.schemas.model.event import Message
from ticdc_bridge.schemas.model.options import Options
from ticdc_bridge.schemas.model.table import Column, Table, TableId
from ticdc_bridge.schemas.model.types import BY_NAME
from ticdc_bridge.spark_jobs.arrow.batches import FEW
from ticdc_bridge.spark_jobs.arrow.worker_functions import DecodeBatches
from ticdc_bridge.spark_jobs.pipeline.avro_versions import newest_of
from ticdc_bridge.spark_jobs.pipeline.avro_versions import registered_versions as registered
from ticdc_bridge.spark_jobs.pipeline.codec_config import CodecConfig
from ticdc_bridge.spark_jobs.pipeline.table_view import Missing, TableView

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pa: Any = pyarrow
pytestmark = pytest.mark.skipif(not COMPILED, reason="numba is not installed")


def _kafka(messages: Sequence[Message]) -> Any:
    rows = [
        {"key": m.key, "value": m.value, "topic": m.topic, "partition": m.partition, "offset": n}
        for n, m in enumerate(messages)
    ]
    kinds = [("key", pa.binary()), ("value", pa.binary()), ("topic", pa.string()), ("partition", pa.int32())]
    kinds += [("offset", pa.int64()), ("timestamp", pa.timestamp("us", "UTC"))]
    return pa.RecordBatch.from_pylist(rows, schema=pa.schema(kinds))


def _batches(config: CodecConfig, id_: TableId, missing: Missing) -> DecodeBatches | None:
    """As the plans of the table make them; None where they have none."""
    if config.tables is not None:
        version = config.tables.at(id_, None)
        table = version.table if version else None
        key = [c.name for c in table.columns if c.handle_key] if table else []
    else:
        ours = registered(config.schemas, id_)
        table = newest_of(ours.values) if ours.values else None
        key = [c.name for c in ours.keys[-1].record.columns] if ours.keys else []
    if table is None:
        return None
    return DecodeBatches(replace(config, view=TableView(table, missing=missing)), binary_schema(table), tuple(key))


def _rows(batches: DecodeBatches, given: Iterable[Any]) -> tuple[list[dict[str, Any]], int]:
    """(rows, of the kernel or not in one form, how many are the kernel's). Other tables' have nothing to compare."""
    assert batches.config.view is not None
    shown, kernel, id_ = [], 0, batches.config.view.table.id
    for batch in batches(given):
        for row in batch.to_pylist():
            unpack_sides(row, batches.schema)
            if row["kind"] is None:
                kernel += 1
                flags = row["flags"] or []
                row |= {"kind": "row", "db": id_.db, "table": id_.table, "key": list(batches.key or ()), "flags": flags}
            shown.append(row if row["kind"] != "other" else {name: row[name] for name in ("kind", "db", "source")})
    return shown, kernel


def _same(batches: DecodeBatches, messages: Sequence[Message]) -> int:
    """Kernels want some messages, the codec reads those that come one by one."""
    if not messages:
        return 0
    batch = _kafka(messages)
    times = -(-FEW // len(messages))
    found, kernel = _rows(batches, [pa.Table.from_batches([batch] * times).combine_chunks().to_batches()[0]])
    wanted, none = _rows(batches, (batch.slice(n, 1) for n in range(len(messages))))
    assert none == 0
    for entry, other in zip(found, wanted * times, strict=True):
        assert repr(entry) == repr(other)
    return kernel // times


def _tables(golden: Golden) -> list[TableId]:
    found = [(s["schema"], s["table"]) for s in golden.meta.get("steps", ()) if s["table"]]
    texts = [json.loads(e.schema) for e in golden.schemas.all()]
    found += [(str(t["namespace"]).rpartition(".")[2], t["name"]) for t in texts]
    return [TableId(*names) for names in sorted(set(found))]


@pytest.mark.parametrize(("ddl", "missing"), [(False, "default"), (True, "null"), (True, "default")])
def test_goldens(ddl: bool, missing: Missing) -> None:
    taken = 0
    for golden in cases("avro"):
        for id_ in _tables(golden):
            batches = _batches(golden.side(ddl), id_, missing)
            if batches is not None:
                taken += _same(batches, golden.messages())
    assert taken > 500, "the kernel took next to nothing"


def test_damaged_messages() -> None:
    golden = next(g for g in cases("avro") if g.name == "bulk.ext1")
    messages, rng = golden.messages(), random.Random(SEED)
    values, keys = [m.value for m in messages if m.value], [m.key for m in messages if m.key]
    mixed = [damaged(rng, m, values, keys) if rng.random() < 0.3 else m for m in messages for _ in range(3)]
    batches = _batches(golden.side(), _tables(golden)[0], "null")
    assert batches is not None
    assert _same(batches, mixed) > 100


_ID = Column("id", BY_NAME["int"], nullable=False, handle_key=True, primary_key=True)


def _versions(*sets: Sequence[Column], table: str = "t") -> tuple[FileSchemas, list[Table], Options]:
    """A table's value schemas, ids from 2 on, and its key schema, 1."""
    options = Options.of({"enable_tidb_extension": True})
    tables = [Table(TableId("d", table), (_ID, *columns)) for columns in sets]
    key = publish.key_schema(tables[0], options)
    entries = [RegisteredSchema("t-key", 1, 1, str(key))]
    entries += [
        RegisteredSchema("t-value", n, n + 1, publish.value_schema(t, options)) for n, t in enumerate(tables, 1)
    ]
    return FileSchemas(entries), tables, options


def test_versions_become_the_newest_ones_columns() -> None:
    """Wider integers and decimals, a column that is new, one that is gone; values that do not fit are errors."""
    old = (
        Column("n", BY_NAME["int"]),
        Column("d", BY_NAME["decimal"], length=10, scale=2),
        Column("g", BY_NAME["int"]),
    )
    new = (
        Column("n", BY_NAME["bigint"], unsigned=True),
        Column("d", BY_NAME["decimal"], length=20, scale=4),
        Column("f", BY_NAME["text"], has_default=True, default="x"),
        Column("y", BY_NAME["year"]),
    )
    schemas, tables, options = _versions(old, old[:2], new)
    encoder = AvroEncoder(Context(schemas, None, options))
    rows: list[tuple[Table, dict[str, Any]]] = [
        (tables[0], {"n": "7", "d": "12345678.90", "g": "1"}),
        (tables[0], {"n": "-7", "d": "-0.01", "g": None}),
        (tables[2], {"n": str((1 << 64) - 1), "d": "-1.2345", "f": None, "y": "2155"}),
        (tables[2], {"n": None, "d": None, "f": "é", "y": None}),
    ]
    messages = [encoder.encode(change(of, row), Message(None, None, "t"))[0] for of, row in rows]
    messages.append(encoder.encode(change(tables[2], None, rows[2][1]), Message(None, None, "t"))[0])
    late = messages[2]
    assert late.value is not None
    messages.append(replace(late, value=late.value.replace(b"\xd6\x21", b"\xfe\xff\x07")))  # YEAR 65535: no smallint
    for missing in ("null", "default"):
        batches = _batches(CodecConfig("avro", schemas, options), TableId("d", "t"), missing)
        assert batches is not None
        assert _same(batches, messages) == 4
        found = _rows(batches, [_kafka(messages * FEW)])[0]
        assert found[0]["after"]["f"] == ("x" if missing == "default" else None)
        assert found[1]["after"]["n"] == -7
        assert found[4]["before"] == {"id": 1, "n": None, "d": None, "f": None, "y": None}
        assert found[5]["error"]["code"] == "MALFORMED"


def test_another_table_and_a_message_of_no_topic() -> None:
    schemas, tables, options = _versions((Column("n", BY_NAME["int"]),))
    others, strange, _ = _versions((Column("n", BY_NAME["int"]),), table="u")
    moved = [replace(e, id=10 + int(e.id), subject=f"u-{e.subject}") for e in others.all()]
    both = FileSchemas([*schemas.all(), *moved])
    made = []
    for source, table, topic in ((schemas, tables[0], "t"), (FileSchemas(moved), strange[0], "u-t")):
        made += AvroEncoder(Context(source, None, options)).encode(
            change(table, {"n": "5"}), Message(None, None, topic)
        )
    batches = _batches(CodecConfig("avro", both, options), TableId("d", "t"), "null")
    assert batches is not None
    assert _same(batches, [made[1], replace(made[0], topic=None), made[0], made[1], Message(None, None)]) == 2


def test_decode_uses_it(spark: SparkSession) -> None:
    schemas, tables, options = _versions((Column("n", BY_NAME["int"]),))
    message = AvroEncoder(Context(schemas, None, options)).encode(
        change(tables[0], {"n": "5"}), Message(None, None, "t")
    )
    frame = spark.createDataFrame([(message[0].key, message[0].value, "t")], "key binary, value binary, topic string")
    for types, by in (("exact", "AvroRows"), ("typed", "MapInArrow")):
        changes = decode(frame, format="avro", schemas=schemas, table="d.t", types=types)  # type: ignore[arg-type]
        (row,) = changes.collect()
        assert (row["schema_id"], row["key"], row["flags"]) == (2, ["id"], [])
        assert row["after"].asDict() == {"id": 1, "n": 5}
        assert by in changes._jdf.queryExecution().toString()
