"""Tables written as SHOW CREATE TABLE, and read from Debezium's tableChanges, against TiDB's and TiCDC's own texts."""

import base64
import json
import re

import pytest

from tests.support.ddl_histories import FILES, recorded
from tests.support.each import each
from tests.support.golden import GOLDEN
from tests.support.table import check_rows
from ticdc_bridge.schemas.ddl.executor.apply import apply
from ticdc_bridge.schemas.ddl.executor.catalog import Catalog, Database, new_catalog
from ticdc_bridge.schemas.ddl.executor.show_create import show_create
from ticdc_bridge.schemas.ddl.parser.lexer import SHOW, TYPED, WIRE
from ticdc_bridge.schemas.ddl.parser.statement_parser import parse
from ticdc_bridge.schemas.formats.debezium.schema_changes import table_after
from ticdc_bridge.schemas.model.table import Table, TableId
from ticdc_bridge.service.history import table_codec
from ticdc_bridge.service.history.changes import difference


def shown(name: str) -> list[tuple[str, str]]:
    """(database, text) of every table that TiDB showed."""
    found = {
        (table["db"], table["show_create"]): None
        for line in recorded(name)
        for table in line["tables_after"]
        if table["kind"] == "table"
    }
    return list(found)


def read(db: str, text: str) -> Table:
    catalog = apply(Catalog().with_database(Database(db)), parse(text, SHOW, db), db)
    database = catalog.databases.get(db)
    assert database is not None
    return next(iter(database.tables))


LETTERS = {"own": 0.65, "ticdc": 0.9}
"""How many are the same to the letter: TiDB's own cases go through every option, those of TiCDC's tests use few."""


@pytest.mark.parametrize("name", FILES)
def test_what_is_written_is_read_again(name: str) -> None:
    same = letters = 0
    texts = shown(name)
    for db, text in texts:
        table = read(db, text)
        again = show_create(table)
        assert [c.name for c in read(db, again).columns] == [c.name for c in table.columns]
        same += read(db, again) == table
        plain = re.sub(r" /\*T!\[clustered_index\] \w+ \*/", "", text).split("\nPARTITION BY")[0]
        letters += again == plain
    # Expression indexes, prefix lengths and options that no row can feel (TTL, AUTO_RANDOM, SHARD …) are not kept.
    assert same >= len(texts) * 0.96
    assert letters >= len(texts) * LETTERS[name]


@pytest.mark.parametrize("name", FILES)
def test_stored_forms(name: str) -> None:
    for db, text in shown(name):
        table = read(db, text)
        form = table_codec.encode(table)
        again = table_codec.decode(form, table.id)
        assert again == table
        assert [c.id for c in again.columns] == [c.id for c in table.columns]
        assert again.foreign_keys == table.foreign_keys
        assert table_codec.encode(again) == form


def test_columns_of_stored_forms_are_shared() -> None:
    """Versions of a table that are decoded one after the other have the same objects for the same columns."""
    before = read("shop", "CREATE TABLE `t` (`id` int NOT NULL, `note` varchar(20) DEFAULT 'x', PRIMARY KEY (`id`))")
    form = table_codec.encode(before)
    first, second = (table_codec.decode(form, TableId("shop", name)) for name in ("t", "u"))
    assert all(old is new for old, new in zip(first.columns, second.columns, strict=True))


@each("case", ["ddl_kinds", "wide", "defaults", "evolution", "names", "pk_composite"])
def test_table_changes_are_what_the_statements_give(case: str) -> None:
    catalog, compared = new_catalog(), 0
    for line in (GOLDEN / "debezium" / f"{case}.schema.jsonl").read_text(encoding="utf-8").splitlines():
        message = json.loads(line)
        if message["kind"] != "ddl":
            continue
        payload = json.loads(base64.b64decode(message["value_b64"]))["payload"]
        db, id_ = payload["databaseName"], TableId(payload["databaseName"], payload["source"]["table"])
        catalog = apply(catalog, parse(payload["ddl"], WIRE, db), db)
        reported, known = table_after(payload["tableChanges"], id_), catalog.table(id_)
        if reported is not None and known is not None:
            assert difference(known, reported) == "", payload["ddl"]
            compared += 1
    assert compared >= 1


@each("changes", [None, 5, [], [{}], [{"id": '"d"."t"', "table": {"columns": "x"}}], [[]]])
def test_other_table_changes_tell_nothing(changes: object) -> None:
    assert table_after(changes, TableId("d", "t")) is None


# Statements after `CREATE TABLE t (id INT, c …)` → the line of `c` that TiDB shows (upstream `pkg/executor/show.go`).
DROPPED_DEFAULTS = [
    ("VARCHAR(9) DEFAULT 'x'", [], "varchar(9) DEFAULT 'x'"),
    ("VARCHAR(9) DEFAULT 'x'", ["ALTER c DROP DEFAULT"], "varchar(9)"),
    ("VARCHAR(9)", ["ALTER c DROP DEFAULT"], "varchar(9)"),
    ("TIMESTAMP NULL DEFAULT CURRENT_TIMESTAMP", ["ALTER c DROP DEFAULT"], "timestamp"),
    ("VARCHAR(9) NOT NULL DEFAULT 'x'", ["ALTER c DROP DEFAULT"], "varchar(9) NOT NULL"),
    ("INT DEFAULT 1", ["ALTER c DROP DEFAULT", "ALTER c SET DEFAULT NULL"], "int DEFAULT NULL"),
    ("INT DEFAULT 1", ["ALTER c DROP DEFAULT", "ALTER c SET DEFAULT 2"], "int DEFAULT '2'"),
    ("INT DEFAULT 1", ["ALTER c DROP DEFAULT", "MODIFY c BIGINT"], "bigint DEFAULT NULL"),
    ("INT DEFAULT 1", ["ALTER c DROP DEFAULT", "ADD d INT", "CONVERT TO CHARACTER SET utf8mb4"], "int"),
    ("INT AS (id + 1)", [], "int GENERATED ALWAYS AS (`id` + 1) VIRTUAL"),
]


def test_a_dropped_default() -> None:
    """It is shown as TiDB shows it, and a snapshot of the text is the same table."""

    def check(row: tuple[str, list[str], str]) -> None:
        definition, clauses, expected = row
        statements = [f"CREATE TABLE t (id INT, c {definition})", *(f"ALTER TABLE t {clause}" for clause in clauses)]
        catalog = new_catalog()
        for text in statements:
            catalog = apply(catalog, parse(text, TYPED, "test"), "test")
        table = catalog.table(TableId("test", "t"))
        assert table is not None
        assert next(line for line in show_create(table).splitlines() if "`c`" in line).strip(" ,") == f"`c` {expected}"
        again = read("test", show_create(table))
        assert (again, show_create(again), difference(table, again)) == (table, show_create(table), "")
        stored = table_codec.decode(table_codec.encode(table), table.id)
        assert show_create(stored) == show_create(table)

    check_rows(DROPPED_DEFAULTS, check)
