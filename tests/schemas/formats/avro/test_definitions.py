"""Definitions of Avro records, whose names TiCDC sanitised, in other letters."""

import json
from typing import Any

import pytest

from tests.support.golden import Registry
from tests.support.rows import ORIGIN, Tables, change, column, table
from tests.support.table import check_rows
from ticdc_bridge.schemas.ddl.executor.versions import DdlText, versions
from ticdc_bridge.schemas.formats.avro.values import compile_record
from ticdc_bridge.schemas.formats.base import Context
from ticdc_bridge.schemas.inputs.schema_files import name_of
from ticdc_bridge.schemas.inputs.table_definitions import TableDefinitions
from ticdc_bridge.schemas.inspect.format_lookup import format_named
from ticdc_bridge.schemas.model.errors import WireError
from ticdc_bridge.schemas.model.event import RowChange
from ticdc_bridge.schemas.model.table import Table, TableId
from ticdc_bridge.spark_jobs.pipeline.table_view import TableView, ViewDecoder

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


def test_names_of_tables_beyond_ascii() -> None:
    """A table keeps its own letters, those of the message where the definition has others, and goes back to Avro."""
    rows = [
        # db and table, as the definition has them, and as rows call them
        (("Países", "2ª"), ("Países", "2ª"), "Países.2ª"), (("Países", "2ª"), ("países", "2ª"), "Países.2ª"),
        (("Países", "2ª"), ("PAÍSES", "2ª"), "PaÍses.2ª"), (("İst", "Kİ"), ("İst", "Kİ"), "İst.Kİ"),
        (("a.B", "Ärger"), ("A.b", "ÄRGER"), "a.B.Ärger"),
    ]  # fmt: skip

    def check(row: tuple[tuple[str, str], tuple[str, str], str]) -> None:
        created, defined, wanted = row
        statement = "CREATE TABLE `{}`.`{}` (`İd` INT PRIMARY KEY, `Élan` INT)".format
        of, known = (TableDefinitions(versions([DdlText(1, "", statement(*n))])) for n in (created, defined))
        version = of.at(TableId(*created), 5)
        assert version is not None
        registry, values = Registry(), dict[str, Any](İd="1", Élan="2")
        encoder = format_named("avro").encoder(Context(registry, of))
        decoder = format_named("avro").decoder(Context(registry, known))
        for before, after in ((None, values), (values, None)):
            op: Any = "c" if before is None else "d"
            event = RowChange("made", version.table, op, 5, before, after, ("İd",), "UTC")
            [written] = encoder.encode(event, ORIGIN)
            [read] = decoder.decode(written)
            assert isinstance(read, RowChange)
            assert (str(read.table.id), (read.after or read.before or {}).keys() <= values.keys()) == (wanted, True)
            assert encoder.encode(read, ORIGIN) == [written]

    check_rows(rows, check)


def test_deletes_from_before_the_key_got_another_name() -> None:
    """The key alone says which column of which versions it is, unless these were of two tables."""
    add, rename = "ALTER TABLE t ADD COLUMN n INT", "ALTER TABLE t RENAME COLUMN id TO r"
    create, drop = "CREATE TABLE t (id INT PRIMARY KEY, v INT)", "DROP TABLE t"
    of = versions([DdlText(1, "shop", create)])[0].table
    rows = [([create, add, rename], 1), ([create, rename, add], 1), ([create, add, drop, create, rename], 0)]

    def check(row: tuple[list[str], int]) -> None:
        known = TableDefinitions(versions([DdlText(n, "shop", query) for n, query in enumerate(row[0], 1)]))
        registry = Registry()
        event = RowChange("made", of, "d", 1, {"id": "1", "v": "2"}, None, ("id",), "UTC")
        [written] = format_named("avro").encoder(Context(registry, Tables(of))).encode(event, ORIGIN)
        view = TableView(Table(TableId("shop", "t"), ()))
        decoder = ViewDecoder(format_named("avro").decoder(Context(registry, known)), view, known)
        if row[1]:
            [read] = decoder.decode(written)
            assert isinstance(read, RowChange)
            assert (read.before, read.key) == ({"r": "1"}, ("r",))
        else:
            with pytest.raises(WireError, match="column 'id' is not in the table's definition"):
                decoder.decode(written)

    check_rows(rows, check)


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
