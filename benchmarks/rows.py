"""Rows to measure with: real and made-up tables, deterministic values, written as TiCDC's Avro writes them.

`customers` has the schemas of schemas/files, two versions of the value schema among them. `wide` is a table of 20
columns with one of nearly every type, also in two versions. Row n is always the same, whatever else is generated.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from importlib.resources import files
from pathlib import Path
from random import Random
from typing import Any

from ticdc_bridge.schemas.formats.avro import schema as publish
from ticdc_bridge.schemas.formats.avro.values import compile_record
from ticdc_bridge.schemas.formats.base import Context
from ticdc_bridge.schemas.inputs.schema_files import FileSchemas, RegisteredSchema
from ticdc_bridge.schemas.inspect import format_lookup
from ticdc_bridge.schemas.model import values
from ticdc_bridge.schemas.model.event import Message, Op, RowChange, ms_to_tso
from ticdc_bridge.schemas.model.names import avro_subject
from ticdc_bridge.schemas.model.options import Options
from ticdc_bridge.schemas.model.table import Column, Table, TableId, Value
from ticdc_bridge.schemas.model.types import BY_NAME, Kind
from ticdc_bridge.schemas.model.values import bit_size

OPTIONS = Options.of({"enable_tidb_extension": True})
DELETES, INSERTS = 0.05, 0.45  # the rest are updates
PARTITIONS = 2
_START = 1_767_225_600_000  # 2026-01-01, ms


@dataclass(frozen=True, slots=True)
class Source:
    """A table to generate messages of: its versions, oldest first, and the registered schemas."""

    name: str
    topic: str
    versions: tuple[Table, ...]
    schemas: FileSchemas

    @property
    def id(self) -> TableId:
        return self.versions[0].id

    @property
    def table(self) -> str:
        """ "db.table", as decode() takes it."""
        return str(self.id)

    def value_ids(self) -> tuple[int, ...]:
        """Schema ids of the versions' values."""
        subject = avro_subject(self.topic, "value")
        found = (self.schemas.id_of(subject, publish.value_schema(v, OPTIONS)) for v in self.versions)
        return tuple(i for i in found if isinstance(i, int))

    def only_newest(self) -> Source:
        """The same table with its newest version alone: messages of one schema id."""
        return replace(self, name=f"{self.name}-one-id", versions=self.versions[-1:])


# ---------------------------------------------------------------------------------------------- tables
def customers() -> Source:
    """shop.customers of the samples: value schemas 2 (9 columns) and 6 (10 columns), key schema 1."""
    schemas = FileSchemas.read(Path(str(files("ticdc_bridge.schemas") / "files" / "shop.schemas.jsonl")))
    topic = "tidb_shop_customers"
    found = [e for e in schemas.all() if e.subject == avro_subject(topic, "value")]
    versions = []
    for entry in sorted(found, key=lambda e: e.version):
        record = compile_record(entry.schema, entry.subject)
        versions.append(Table(record.id, tuple(_key(c) if c.name == "id" else c for c in record.columns)))
    return Source("customers", topic, tuple(versions), schemas)


def wide() -> Source:
    """bench.wide: 19 columns in the first version, 20 in the second; schema ids 8 and 9, the key's is 7."""
    topic = "tidb_bench_wide"
    whole = Table(TableId("bench", "wide"), _WIDE)
    versions = (Table(whole.id, _WIDE[:-1]), whole)
    key = publish.key_schema(whole, OPTIONS)
    assert key is not None
    entries = [RegisteredSchema(avro_subject(topic, "key"), 1, 7, key)]
    for number, version in enumerate(versions):
        subject = avro_subject(topic, "value")
        entries.append(RegisteredSchema(subject, number + 1, 8 + number, publish.value_schema(version, OPTIONS)))
    return Source("wide", topic, versions, FileSchemas(entries))


def _key(column: Column) -> Column:
    return replace(column, handle_key=True, primary_key=True, nullable=False)


def _column(name: str, kind: str, **more: Any) -> Column:
    return Column(name, BY_NAME[kind], **more)


_WIDE: tuple[Column, ...] = (
    _key(_column("id", "bigint")),
    _column("tenant", "int", unsigned=True, nullable=False),
    _column("visits", "int", nullable=False, has_default=True, default="0"),
    _column("score", "bigint", unsigned=True),
    _column("ratio", "double"),
    _column("heat", "float"),
    _column("price", "decimal", length=12, scale=2, nullable=False),
    _column("total", "decimal", length=30, scale=6),
    _column("name", "varchar", nullable=False),
    _column("city", "varchar"),
    _column("street", "varchar"),
    _column("remark", "varchar"),
    _column("state", "enum", elements=("new", "paid", "done"), nullable=False, has_default=True, default="new"),
    _column("tags", "set", elements=("a", "b", "c", "d")),
    _column("born", "date"),
    _column("made", "datetime", nullable=False),
    _column("seen", "timestamp"),
    _column("bits", "bit", length=16),
    _column("photo", "blob"),
    _column("profile", "json"),
)


# ---------------------------------------------------------------------------------------------- rows
@dataclass(frozen=True, slots=True)
class Made:
    """A generated change and the message it came to be."""

    event: RowChange
    message: Message


def changes(source: Source, numbers: range) -> Iterator[RowChange]:
    """Row changes of the table, by number: versions and ops mixed at random, the same for the same number."""
    for number in numbers:
        random = Random(f"{source.topic}:{number}")
        version = source.versions[int(random.random() * len(source.versions))]
        chance = random.random()
        op: Op = "d" if chance < DELETES else "c" if chance < DELETES + INSERTS else "u"
        row = {c.name: _value(c, random, number) for c in version.columns}
        if op == "d":
            row = {c.name: row[c.name] for c in version.columns if c.primary_key}
        yield RowChange(
            "avro", version, op, ms_to_tso(_START + number) + number % 1000, row if op == "d" else None,
            None if op == "d" else row, version.primary_key, "UTC",
        )  # fmt: skip


def messages(source: Source, numbers: range) -> Iterator[Made]:
    """Changes as TiCDC's Avro: Confluent-framed key and value; a delete has no value."""
    encoder = format_lookup.format_named("avro").encoder(Context(source.schemas, options=OPTIONS))
    for number, event in zip(numbers, changes(source, numbers), strict=True):
        origin = Message(None, None, source.topic, number % PARTITIONS, number // PARTITIONS, _START + number)
        yield Made(event, encoder.encode(event, origin)[0])


def kafka_schema() -> Any:
    """Arrow schema of the columns of Spark's Kafka source, headers left out."""
    import pyarrow as pa

    return pa.schema(
        [
            ("key", pa.binary()), ("value", pa.binary()), ("topic", pa.string()), ("partition", pa.int32()),
            ("offset", pa.int64()), ("timestamp", pa.timestamp("us", "UTC")),
        ]  # type: ignore[arg-type]
    )  # fmt: skip


# ---------------------------------------------------------------------------------------------- values
_NULLS = 0.1
_WORDS = ("Émile", "O'Neil", "東京", "river", "north", "gate", "amber", "Ñandú", "张伟", "quiet", "seven", "stone")


def _value(column: Column, random: Random, number: int) -> Value:
    if column.primary_key:
        return str(number)
    if column.nullable and random.random() < _NULLS:
        return None
    return _MAKE[column.type.kind](column, random)


def _integer(column: Column, random: Random) -> str:
    bits = column.type.bits
    top = random.randrange(1, bits + 1 if column.unsigned else bits)  # numbers of all sizes, not only large ones
    number = random.getrandbits(top)
    return str(number if column.unsigned or random.random() < 0.7 else -number)


def _decimal(column: Column, random: Random) -> str:
    assert column.length is not None
    digits = random.randrange(1, column.length + 1)
    unscaled = random.randrange(10**digits) * random.choice((1, 1, -1))
    return values.decimal_text(unscaled, column.scale or 0)


def _float(_column: Column, random: Random) -> str:
    return values.float_text(values.as_float32(random.uniform(-1e6, 1e6)))


def _double(_column: Column, random: Random) -> str:
    return values.double_text(random.uniform(-1e12, 1e12))


def _bits(column: Column, random: Random) -> bytes:
    length = column.length or 1
    return random.getrandbits(length).to_bytes(bit_size(length), "big")


def _text(_column: Column, random: Random) -> str:
    return " ".join(random.choices(_WORDS, k=random.randrange(1, 5)))


def _blob(_column: Column, random: Random) -> bytes:
    return random.randbytes(random.randrange(33))


def _json(_column: Column, random: Random) -> str:
    shown = {"age": random.randrange(100), "city": random.choice(_WORDS), "s": [round(random.random(), 4), None, True]}
    return json.dumps(shown, ensure_ascii=False)


def _enum(column: Column, random: Random) -> str:
    return random.choice(column.elements)


def _set(column: Column, random: Random) -> str:
    return ",".join(e for e in column.elements if random.random() < 0.5)


def _time(shape: str, _column: Column, random: Random) -> str:
    pieces = {"M": random.randrange(1, 13), "D": random.randrange(1, 29), "h": random.randrange(24)}
    return shape.format(y=random.randrange(1990, 2030), **pieces, m=random.randrange(60), f=random.randrange(1000))


_MAKE: dict[Kind, Callable[[Column, Random], Value]] = {
    Kind.INTEGER: _integer,
    Kind.FLOAT: _float,
    Kind.DOUBLE: _double,
    Kind.DECIMAL: _decimal,
    Kind.BIT: _bits,
    Kind.TEXT: _text,
    Kind.BINARY: _blob,
    Kind.ENUM: _enum,
    Kind.SET: _set,
    Kind.DATE: partial(_time, "{y}-{M:02}-{D:02}"),
    Kind.DATETIME: partial(_time, "{y}-{M:02}-{D:02} {h:02}:{m:02}:30"),
    Kind.TIMESTAMP: partial(_time, "{y}-{M:02}-{D:02} {h:02}:{m:02}:30.{f:03}"),
    Kind.TIME: partial(_time, "{h:02}:{m:02}:30"),
    Kind.YEAR: partial(_time, "{y}"),
    Kind.JSON: _json,
}
