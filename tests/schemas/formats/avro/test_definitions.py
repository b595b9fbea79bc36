"""Definitions of Avro records, whose names TiCDC sanitised, in other letters."""

from __future__ import annotations

import json

from tests.support.golden import Registry
from tests.support.rows import ORIGIN, Tables, change, column, table
from tests.support.table import check_rows
from ticdc_bridge.schemas.formats.avro.values import compile_record
from ticdc_bridge.schemas.formats.base import Context
from ticdc_bridge.schemas.inputs.schema_files import name_of
from ticdc_bridge.schemas.inspect.format_lookup import format_named
from ticdc_bridge.schemas.model.event import RowChange

ROWS = [
    # the database's names, the definition's, and how rows call them
    ("the same letters", "a-b", "a-b", "a-b"),
    ("sanitised", "a-b", "A-B", "a-b"),
    ("sanitised, mixed", "Net price", "NET PRICE", "Net price"),
    ("a digit first", "1st", "1ST", "1st"),
    ("not ASCII", "naïve", "NAïVE", "naïve"),
    ("nothing to sanitise", "state", "State", "state"),
]


def test_names_in_other_letters() -> None:
    def check(row: tuple[str, str, str, str]) -> None:
        _, own, defined, wanted = row
        registry = Registry()
        of, known = (table(column(name, "varchar", length=20)) for name in (own, defined))
        events = (change(of, {own: "x"}), change(of, None, {own: "x"}))
        encoder = format_named("avro").encoder(Context(registry, Tables(of)))
        decoder = format_named("avro").decoder(Context(registry, Tables(known)))
        [read, deleted] = [decoder.decode(encoder.encode(event, ORIGIN)[0])[0] for event in events]
        assert isinstance(read, RowChange)
        assert isinstance(deleted, RowChange)
        assert (read.after, read.table_version) == ({"id": "1", wanted: "x"}, 1)
        assert deleted.table_version == 1
        assert [f for f in read.flags if "definition" in f] == []

    check_rows(ROWS, check, lambda row: row[0])


def test_names_of_records() -> None:
    """A name with dots is whole, as Avro's canonical form has it."""

    def check(row: tuple[dict[str, str], str, str]) -> None:
        names, keyspace, id_ = row
        kind = {"type": "int", "connect.parameters": {"tidb_type": "INT"}}
        text = json.dumps({"type": "record", **names, "fields": [{"name": "id", "type": kind}]})
        record = compile_record(text, "")
        assert (record.keyspace, str(record.id)) == (keyspace, id_)
        assert name_of(text) == tuple(id_.lower().split("."))

    rows = [
        ({"name": "T", "namespace": "default.shop"}, "default", "shop.T"),
        ({"name": "default.shop.T"}, "default", "shop.T"),
        ({"name": "default.shop.T", "namespace": "other.x"}, "default", "shop.T"),
        ({"name": "T", "namespace": "shop"}, "", "shop.T"),
    ]
    check_rows(rows, check)
