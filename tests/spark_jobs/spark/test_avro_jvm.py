"""The reader of ours in Spark's JVM: damaged messages, and versions of a table."""

from __future__ import annotations

import random
import struct
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Literal

import pytest

from tests.spark_jobs.spark.test_avro_header import ID, NAME, OPTIONS
from tests.spark_jobs.spark.test_same_as_codec import _compare, _frame, _shown
from tests.support.each import each
from tests.support.fuzz import mutate
from tests.support.golden import Golden, cases
from ticdc_bridge import decode
from ticdc_bridge.schemas.codec import avro as binary
from ticdc_bridge.schemas.formats.avro import schema as publish
from ticdc_bridge.schemas.formats.base import Context
from ticdc_bridge.schemas.formats.framing import frame
from ticdc_bridge.schemas.inputs.schema_files import FileSchemas, RegisteredSchema
from ticdc_bridge.schemas.inspect import format_lookup
from ticdc_bridge.schemas.model.event import Message, Op, Row, RowChange
from ticdc_bridge.schemas.model.options import Options
from ticdc_bridge.schemas.model.ports import SchemaId
from ticdc_bridge.schemas.model.table import Column, Table, TableId, Value
from ticdc_bridge.schemas.model.types import BY_NAME, Kind
from ticdc_bridge.spark_jobs.pipeline.message_codec import decode_message
from ticdc_bridge.spark_jobs.pipeline.result import MessageResult
from ticdc_bridge.spark_jobs.spark import avro_jvm
from ticdc_bridge.spark_jobs.spark.avro_jvm.plan import AvroPlan

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_CASES = list(cases("avro"))


def _damaged(golden: Golden, most: int) -> Iterator[Message]:
    """The case's messages with key or value cut and changed."""
    rng = random.Random(str(golden))
    messages = [m for m in golden.messages() if m.value or m.key]
    pieces = [message_field for m in messages for message_field in (m.key, m.value) if message_field]
    for _ in range(most if messages else 0):
        message = rng.choice(messages)
        of_value = bool(message.value) and rng.random() < 0.8
        field = (message.value if of_value else message.key) or b""
        made = field[: rng.randrange(len(field) + 1)] if rng.random() < 0.3 else mutate(rng, field, pieces)
        yield replace(message, value=made) if of_value else replace(message, key=made)


@pytest.mark.slow
@pytest.mark.parametrize("step", range(4))
def test_damaged_messages_of_many_cases(spark: SparkSession, step: int) -> None:
    _damage(spark, _CASES[step :: len(_CASES) // 12])


@pytest.mark.parametrize(
    "names", [["evolution.ext1", "wide.before.ext1"], pytest.param(["bulk.ext1"], marks=pytest.mark.slow)]
)
def test_damaged_messages(spark: SparkSession, names: list[str]) -> None:
    _damage(spark, [Golden("avro", name) for name in names])


def _damage(spark: SparkSession, some: Sequence[Golden]) -> None:
    """What the codec gives a row of is that row, what it refuses is refused, for the same reason."""
    rows = refused = 0
    for golden in some:
        decoder = golden.side().decoder()
        found = [(m, decode_message(decoder, m)) for m in _damaged(golden, 400)]
        for id_ in {e.table.id for _, r in found for e in r.events if isinstance(e, RowChange)}:
            plan = AvroPlan.of(golden.side(), id_, exact=False)
            if plan is None:
                continue
            ids = {w.entry.id for w in (*plan.keys, *plan.values)}
            asked = {n: m for n, (m, r) in enumerate(found) if _is_ours(r, ids)}
            for row in _shown(plan, _frame(spark, [(m, n) for n, m in asked.items()]), golden, id_).collect():
                message, result = asked.pop(row["offset"]), found[row["offset"]][1]
                if row["code"] not in _other_reasons(message, plan):
                    _compare(row, result, plan)
                rows += result.error is None
                refused += result.error is not None
            assert all(_header(m) in plan.others for m in asked.values()), "messages of the table were left out"
    assert rows * 12 > 100 * len(some)
    assert refused * 12 > 1000 * len(some)


def _header(message: Message) -> bytes:
    """Of the record that says whose the message is; that of avro-enable-watermark's deletes is the key's."""
    value = None if len(message.value or b"") == 9 and (message.value or b"")[0] == 3 else message.value
    return ((message.key if value is None else value) or b"")[:5]


def _other_reasons(message: Message, plan: AvroPlan) -> set[str]:
    """Why the reader may refuse what the codec refuses for another reason."""
    found = set()
    if (message.value or b"")[:1] in (b"\1", b"\2"):
        found.add("NOT_FRAMED")  # DDL and watermarks, which are not for it
    if (message.key or b"")[:5] in plan.others:
        found.add("MALFORMED")  # another table's key, which only the codec reads
    if bytes(5) in ((message.key or b"")[:5], (message.value or b"")[:5]):
        found.add("UNKNOWN_SCHEMA_ID")  # an id of 8 bytes, which only the codec reads
    if any(c.type.kind is Kind.YEAR for c in plan.table.columns):
        found.add("MALFORMED")  # a number that no smallint holds, which the codec goes past
    return found


def _is_ours(result: MessageResult, ids: set[SchemaId]) -> bool:
    """A row of one of the schemas, or a message that is refused."""
    return result.error is not None or any(isinstance(e, RowChange) and e.schema_id in ids for e in result.events)


def _c(name: str, kind: str, **more: Any) -> Column:
    return Column(name, BY_NAME[kind], **more)


_OLD = (
    ID, _c("a", "int"), _c("b", "int"), _c("c", "bigint"), _c("d", "decimal", length=10, scale=2),
    _c("e", "decimal", length=10, scale=2), _c("f", "decimal", length=20, scale=0), _c("g", "float"), _c("h", "year"),
    _c("i", "bit", length=3), _c("gone", "varchar"), _c("j", "decimal", length=38, scale=9), _c("k", "blob"),
    _c("l", "bigint", unsigned=True),
)  # fmt: skip
_DEFAULTS: list[tuple[str, Value, dict[str, Any]]] = [
    ("int", "-7", {}), ("bigint", str(2**64 - 1), {"unsigned": True}), ("float", "0.1", {}), ("double", "1e+300", {}),
    ("decimal", "1.50", {"length": 5, "scale": 2}), ("decimal", "-" + "9" * 29 + ".9", {"length": 30, "scale": 1}),
    ("varchar", "Ñandú", {}), ("binary", b"\0\xff", {}), ("bit", b"\1", {"length": 12}), ("year", "2024", {}),
    ("date", "0000-00-00", {}), ("datetime", "CURRENT_TIMESTAMP", {"default_is_expr": True}),
    ("timestamp", "2024-01-02 03:04:05", {}), ("enum", "b", {"elements": ("a", "b")}),
]  # fmt: skip
_ADDED = [
    _c(f"new_{n}", kind, has_default=True, default=default, **more) for n, (kind, default, more) in enumerate(_DEFAULTS)
]
_NEW = (
    ID, _c("a", "bigint"), _c("b", "bigint", unsigned=True), _c("c", "bigint", unsigned=True),
    _c("d", "decimal", length=18, scale=4), _c("e", "decimal", length=30, scale=5),
    _c("f", "decimal", length=38, scale=10), _c("g", "double"), _c("h", "year"), _c("i", "bit", length=9),
    _c("j", "decimal", length=38, scale=9), _c("k", "blob"), _c("l", "bigint", unsigned=True),
    *_ADDED,
    _c("plain", "varchar"),
)  # fmt: skip
_ROWS: list[Row] = [
    {"id": "1", "a": "-2147483648", "b": "2147483647", "c": str(-(2**63)), "d": "-99999999.99", "e": "99999999.99",
     "f": "-" + "9" * 20, "g": "0.1", "h": "2155", "i": b"\7", "gone": "x", "j": "-" + "9" * 29 + "." + "9" * 9,
     "k": b"\xff\0", "l": str(2**64 - 1)},
    {"id": str(2**63 - 1), "a": "0", "b": "-1", "c": str(2**63 - 1), "d": "0.01", "e": "-0.01", "f": "0",
     "g": "3.4028235e+38", "h": "0", "i": b"\0", "gone": None, "j": "0.000000001", "k": b"", "l": str(2**63)},
    {"id": str(-(2**63)), **dict.fromkeys((c.name for c in _OLD[1:]), None)},
    {"id": "0", "a": "127", "b": "128", "c": "-128", "d": "-0.64", "e": "1.28", "f": str(2**63), "g": "-1e-45",
     "h": "1901", "i": b"\1", "gone": "", "j": str(2**63 - 1) + ".000000000", "k": b"\x80", "l": "255"},
]  # fmt: skip


_STRING = {"avro_bigint_unsigned_handling_mode": "string"}


@pytest.mark.parametrize(
    ("missing", "modes"),
    [
        pytest.param("default", {}, id="default-long"),
        *(
            pytest.param(m, o, marks=pytest.mark.slow)
            for m, o in (("null", {}), ("null", _STRING), ("default", _STRING))
        ),
    ],
)
def test_older_versions_as_the_kernels_read_them(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch, missing: Literal["null", "default"], modes: dict[str, str]
) -> None:
    """Rows of an older version in the newest one's types, with old rows beside them, and deletes by the key alone."""
    options = Options.of({"enable_tidb_extension": True, "avro_include_before_value": True, **modes})
    without = tuple(c for c in _OLD if c.name != "gone")
    old, between, new = (Table(TableId("d", "t"), columns) for columns in (_OLD, without, _NEW))
    key = publish.key_schema(old, options)
    assert key is not None
    entries = [RegisteredSchema("t-key", 1, 1, key)]
    entries += [
        RegisteredSchema("t-value", n, n + 1, publish.value_schema(t, options))
        for n, t in enumerate((old, between, new), 1)
    ]
    schemas = FileSchemas(entries)
    encoder = format_lookup.format_named("avro").encoder(Context(schemas, options=options))
    made = []
    for number, row in enumerate(_ROWS):
        changes: list[tuple[Op, Row | None, Row | None]] = [("c", None, row), ("u", _ROWS[number - 1], row)]
        for op, before, after in (*changes, ("d", row, None)):
            event = RowChange("avro", old, op, 5 << 18, before, after, ("id",), "UTC")
            (message,) = encoder.encode(event, Message(None, None, "t"))
            made.append((message.key, message.value))
        made.append((made[-1][0], None))
    messages = spark.createDataFrame(made, "key binary, value binary")

    def read(check: Literal["exact", "header"]) -> list[str]:
        found = decode(messages, format="avro", schemas=schemas, table="d.t", check=check, missing=missing)
        return [repr(r) for r in found.drop("commit_time").collect()]

    ours = read("exact")
    assert read("header") == ours
    monkeypatch.setattr(avro_jvm, "class_of", lambda *_, **__: None)
    assert read("exact") == ours
    assert sum("kind='row'" in row for row in ours) == len(made)


@each("check", ["header", "exact"])
def test_numbers_that_their_type_does_not_hold(spark: SparkSession, check: Literal["exact", "header"]) -> None:
    columns = (ID, _c("u", "int", unsigned=True), _c("m", "mediumint", unsigned=True), _c("y", "year"))
    table = Table(TableId("d", "t"), columns)
    key = publish.key_schema(table, OPTIONS)
    assert key is not None
    value = RegisteredSchema("t-value", 1, 2, publish.value_schema(table, OPTIONS))
    schemas = FileSchemas([RegisteredSchema("t-key", 1, 1, key), value])
    rows = [(2**32 - 1, 2**24 - 1, 2155), (0, 0, 0), (-1, 0, 0), (2**32, 0, 0), (0, 2**24, 0), (0, -1, 0), (0, 0, 1900)]
    reported = b"\2c" + binary.write_long(5 << 18) + binary.write_long(5)
    bodies = [b"\2" + b"".join(b"\2" + binary.write_long(number) for number in row) + reported for row in rows]
    given = spark.createDataFrame([(frame(1, b"\2"), frame(2, body)) for body in bodies], "key binary, value binary")
    found = decode(given, format="avro", schemas=schemas, table="d.t", check=check).collect()
    taken = [tuple(r.after)[1:] for r in found if r.kind == "row"]
    assert sorted(taken, reverse=True) == rows[:2]
    assert [r.error.code for r in found if r.kind == "error"] == ["MALFORMED"] * 5


@pytest.mark.slow
def test_what_else_a_registry_may_hold(spark: SparkSession) -> None:
    """Keys of other tables and types, defaults that are none, a FLOAT as double, ids that no message has."""
    f = _c("f", "float")
    old, new = (Table(TableId("d", "t"), columns) for columns in ((ID, f), (ID, f, _c("n", "int", nullable=False))))
    key = publish.key_schema(old, OPTIONS)
    assert key is not None
    other = key.replace('"name":"t"', '"name":"u"')
    text = key.replace('"BIGINT"', '"TEXT"').replace('"long"', '"string"')
    single = publish.value_schema(old, OPTIONS).replace('"type":"float"', '"type":"double"')
    broken = publish.value_schema(new, OPTIONS).replace('"name":"n"', '"default":"abc","name":"n"')
    assert len({key, other, text, single, broken}) == 5
    schemas = FileSchemas(
        [
            RegisteredSchema("t-key", 1, 1, key), RegisteredSchema("u-key", 1, 2, other),
            RegisteredSchema("old-key", 1, 3, text),
            RegisteredSchema("t-value", 1, 4, single), RegisteredSchema("t-value", 2, 5, broken),
            RegisteredSchema("u-value", 1, 1 << 33, other), RegisteredSchema("v-value", 1, -1, other),
        ]
    )  # fmt: skip
    reported = b"\2c" + binary.write_long(5 << 18) + binary.write_long(5)
    row = b"\2\2" + struct.pack("<d", 0.1) + reported
    messages = [
        (frame(1, b"\2"), frame(4, row)),
        (frame(2, b"\2"), frame(4, row)),  # a key that says another table
        (frame(3, b"\2a"), frame(4, row)),  # of another type
        (frame(3, b"\2a"), None),  # which is no row here
        (frame(1, b"\2"), frame(5, b"\2\2" + struct.pack("<f", 0.1) + b"\x0e" + reported)),
    ]
    given = spark.createDataFrame(messages, "key binary, value binary").coalesce(1)

    def read(check: Literal["exact", "header"], missing: Literal["null", "default"] = "null") -> list[Any]:
        found = decode(given, format="avro", schemas=schemas, table="d.t", check=check, missing=missing)
        return [(r.kind, r.key, r.after and tuple(r.after), r.error and r.error.code) for r in found.collect()]

    single_row = (1, struct.unpack("<f", struct.pack("<f", 0.1))[0], None)
    whole = ("row", ["id"], (*single_row[:2], 7), None)
    first = [("row", ["id"], single_row, None)]
    refused = ("error", None, None, "MALFORMED")
    assert read("header") == [*first, refused, *first, refused, whole]
    exact = read("exact")
    assert exact == [*first, *first, whole, *first, exact[4]]  # what is refused comes last
    assert exact[4][3] in ("INVALID_VALUE", "MALFORMED")
    assert read("header", "default") == [refused] * 4 + [whole]
    defaults = read("exact", "default")
    assert defaults[0] == whole
    assert [r[3] for r in defaults[1:4]] == ["INVALID_VALUE"] * 3


@pytest.mark.parametrize("check", ["header", pytest.param("exact", marks=pytest.mark.slow)])
def test_equal_rows_are_one_group(spark: SparkSession, check: Literal["exact", "header"]) -> None:
    """Spark compares structs by their bytes: whatever the version, they are laid out as Spark does it."""
    wide = _c("w", "decimal", length=30, scale=2)
    late = _c("late", "varchar", has_default=True, default="x")
    big = _c("big", "bigint", unsigned=True)
    versions = [(ID, NAME), (ID, wide, NAME), (ID, big, NAME, wide), (ID, late, big, wide, _c("b", "blob"), NAME)]
    tables = [Table(TableId("d", "t"), columns) for columns in versions]
    schemas = FileSchemas(
        [
            RegisteredSchema("t-key", 1, 9, str(publish.key_schema(tables[0], OPTIONS))),
            *(RegisteredSchema("t-value", n, n, publish.value_schema(t, OPTIONS)) for n, t in enumerate(tables, 1)),
        ]
    )
    encoder = format_lookup.format_named("avro").encoder(Context(schemas, options=OPTIONS))
    made = []
    for table in tables:
        row: Row = {"id": "1", "name": "a name", "w": None, "big": None, "late": "x", "b": None}
        event = RowChange(
            "avro", table, "c", 5 << 18, None, {c.name: row[c.name] for c in table.columns}, ("id",), "UTC"
        )
        made += [(m.key, m.value) for m in encoder.encode(event, Message(None, None, "t"))]
    given = spark.createDataFrame(made, "key binary, value binary")
    found = decode(given, format="avro", schemas=schemas, table="d.t", check=check, missing="default")
    assert [r["count"] for r in found.groupBy("after").count().collect()] == [4]
    assert found.select("after").distinct().count() == 1
    rows = found.select("after")
    assert rows.exceptAll(spark.createDataFrame(rows.collect(), rows.schema)).count() == 0
