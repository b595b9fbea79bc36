"""Schema ids elsewhere through Spark: by maps, by kernels, by the JVM's reader; as the codec has it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.schemas.formats.test_schema_ids import _name_with, _split
from tests.support import shop
from tests.support.golden import Golden
from tests.support.schema_ids import WAYS, with_guids
from tests.support.service import Client
from tests.support.table import check_rows
from ticdc_bridge import decode, transcode
from ticdc_bridge.clients.registry import HttpSchemas
from ticdc_bridge.schemas.inputs.schema_files import FileSchemas
from ticdc_bridge.schemas.model.event import Message, RowChange
from ticdc_bridge.schemas.model.options import Options
from ticdc_bridge.service.testing import running_service
from ticdc_bridge.spark_jobs.pipeline.codec_config import CodecConfig
from ticdc_bridge.spark_jobs.pipeline.message_codec import decode_message

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_COLUMNS = "key binary, value binary, topic string, offset bigint, headers array<struct<key:string,value:binary>>"


def _frame(spark: SparkSession, messages: list[Message]) -> DataFrame:
    rows = [(m.key, m.value, m.topic, n, list(m.headers) or None) for n, m in enumerate(messages)]
    return spark.createDataFrame(rows, _COLUMNS)


def _messages() -> list[Message]:
    """The messages of a table, each with its ids elsewhere, in turn; one whose bare body begins like a framed one."""
    ways = list(WAYS.values())
    of = [m for m in shop.messages() if m.topic and "customers" in m.topic][:60]
    messages = [ways[n % 6](m) if n % 6 < 5 else m for n, m in enumerate(of)]
    whole = next(m for m in of if m.value)
    return [*messages, replace(whole, headers=(("__value_schema_id", b"\0\0\0\0\1"), ("__key_schema_id", b"\0")))]


def _rows(frame: DataFrame) -> list[dict[str, Any]]:
    rows = (row.asDict(recursive=True) for row in frame.collect())
    return sorted(rows, key=lambda row: int(row["source"]["offset"]))


def test_every_way_of_spark_gives_the_codecs_rows(spark: SparkSession) -> None:
    schemas, messages = with_guids(shop.schemas()), _messages()
    decoder = replace(shop.avro_side(), schemas=schemas).decoder()
    results = [decode_message(decoder, m) for m in messages]
    errors = [None if r.error is None else (r.error.code, r.error.detail) for r in results]
    after = [next((e.after for e in r.events if isinstance(e, RowChange)), None) for r in results]
    assert errors[:-1] == [None] * (len(messages) - 1)
    given = _frame(spark, messages)
    common: dict[str, Any] = {"format": "avro", "schemas": schemas, "time_zone": shop.ZONE}
    found = {
        "maps": _rows(decode(given, **common)),
        "exact": _rows(decode(given, **common, table="shop.customers")),
        "typed": _rows(decode(given, **common, table="shop.customers", types="typed", on_lossy="flag")),
    }

    def check(name: str) -> None:
        rows = found[name]
        assert [r["error"] and (r["error"]["code"], r["error"]["detail"]) for r in rows] == errors
        ids = [r["after"] and str(r["after"]["id"]) for r in rows]
        assert ids == [row and row["id"] for row in after]
        assert [r["after"] and r["after"]["email"] for r in rows] == [row and row["email"] for row in after]

    check_rows(found, check)
    header = _rows(decode(given, **common, table="shop.customers", check="header"))
    plain = [n for n, m in enumerate(messages) if not m.headers and n % 6 != 4]
    assert [n for n, row in enumerate(header) if row["error"] is None] == plain
    refused = {(r["error"]["code"], r["error"]["detail"].partition(",")[0]) for r in header if r["error"]}
    assert refused == {
        ("NOT_FRAMED", "the record headers name the schema"), ("UNKNOWN_SCHEMA_ID", "the schema id has 8 bytes"),
    }  # fmt: skip
    assert all('check="exact" reads it' in r["error"]["detail"] for r in header if r["error"])
    found["header"] = header
    ours = [[{"key": key, "value": value} for key, value in m.headers] or None for m in messages]

    def check_headers(name: str) -> None:
        assert [r["headers"] for r in found[name]] == ours

    check_rows(found, check_headers)
    written = transcode(
        given, from_format="avro", to_format="debezium", schemas=schemas, time_zone=shop.ZONE,
        options={"on_lossy": "flag"},
    )  # fmt: skip
    assert [row.error is None for row in written.orderBy("partition").collect()].count(False) == 1


def test_a_connectors_ids_in_headers(spark: SparkSession) -> None:
    golden = Golden("debezium-avro", "wide.str.ext")
    messages = [WAYS["id"](m) for m in golden.messages()]
    given = _frame(spark, messages)
    plain = golden.side().decoder()
    wanted = [[e.op for e in decode_message(plain, m).events if isinstance(e, RowChange)] for m in golden.messages()]
    for format_ in ("debezium-avro", "auto"):
        rows = _rows(decode(given, format=format_, schemas=golden.schemas, ddl=golden.definitions))
        assert [row["op"] for row in rows if row["kind"] == "row"] == [op for ops in wanted for op in ops]
        assert not [row for row in rows if row["error"]]


# ---- contexts
@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    folder: Path = tmp_path_factory.mktemp("registry")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        with running_service(f"sqlite:///{folder / 'registry.db'}") as address:
            for subject, table in (("items-value", "items"), ("news-value", "news"), (":.dev:orders-value", "orders")):
                assert Client(address).register(subject, _table(table)).status == 200
            yield address


def _table(name: str) -> str:
    kind = {"type": "int", "connect.parameters": {"tidb_type": "INT"}}
    fields = [{"name": n, "type": kind} for n in ("id", name[0])]
    return json.dumps({"type": "record", "name": name, "namespace": "default.shop", "fields": fields})


@pytest.mark.slow
def test_the_topic_says_whose_id_it_is(spark: SparkSession, url: str) -> None:
    """Id 1 is items in the default context, and orders in .dev; a topic that has other schemas is refused."""
    topics = ["items", "orders", "mirror.items", "news", "orders", "items"]
    messages = [Message(None, b"\0\0\0\0\1\2\4", topic) for topic in topics]
    given = _frame(spark, messages)
    decoder = CodecConfig("avro", HttpSchemas(url), Options.of({})).decoder()
    results = [decode_message(decoder, m) for m in messages]
    tables = [next((e.table.id.table for e in r.events if isinstance(e, RowChange)), None) for r in results]
    assert tables == ["items", "orders", "items", None, "orders", "items"]
    every = _rows(decode(given, format="avro", registry=url))
    assert [row["table"] for row in every] == tables
    for table in ("items", "orders"):
        rows = _rows(decode(given, format="avro", registry=url, table=f"shop.{table}"))
        assert [row["source"]["topic"] for row in rows if row["kind"] == "row"] == [
            topic for topic, entry in zip(topics, tables, strict=True) if entry == table
        ]
        assert [row["error"]["code"] for row in rows if row["error"]] == ["UNSUPPORTED_SCHEMA"]
    dev = _rows(decode(given, format="avro", registry=f"{url}/contexts/.dev", table="shop.orders"))
    assert [row["source"]["topic"] for row in dev if row["kind"] == "row"][:2] == topics[:2]


def test_a_topic_that_only_the_other_registry_knows(spark: SparkSession, url: str) -> None:
    """Ids that one context alone has: the JVM's reader asks for the topic all the same."""
    given = _frame(spark, [Message(None, b"\0\0\0\0\2\2\4", topic) for topic in ("news", "items", "news")])
    rows = _rows(decode(given, format="avro", registry=url, table="shop.news"))
    assert [(row["kind"], (row["error"] or {}).get("code")) for row in rows] == [
        ("row", None), ("error", "UNSUPPORTED_SCHEMA"), ("row", None),
    ]  # fmt: skip


def test_references_through_every_way_of_spark(spark: SparkSession) -> None:
    """The old row's record is another subject's."""
    golden = Golden("avro", "wide.before.ext1")
    entries = []
    for entry in golden.schemas.all():
        name = _name_with(entry.schema, "_before")
        entries += _split(entry, name) if name else [entry]
    schemas, messages = FileSchemas(entries), golden.messages()
    decoder = golden.side().decoder()
    events = [e for m in messages for e in decode_message(decoder, m).events]
    rows = [e for e in events if isinstance(e, RowChange)]
    id_ = rows[0].table.id
    given = _frame(spark, messages)
    common: dict[str, Any] = {"format": "avro", "schemas": schemas, "time_zone": golden.zone}
    every = _rows(decode(given, **common))
    plain = _rows(decode(given, **{**common, "schemas": golden.schemas}))
    assert [row["before"] for row in every] == [row["before"] for row in plain]
    assert sum(row["before"] is not None for row in every) > 3
    typed = _rows(decode(given, **common, table=str(id_)))
    assert [row["op"] for row in typed if row["kind"] == "row"] == [e.op for e in rows if e.table.id == id_]
    assert not [row for row in typed if row["error"]]
