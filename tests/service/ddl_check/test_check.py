"""Dry runs: verdicts are those of registering, tables those of a real TiDB."""

import json
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.support.dry_runs import ORDERS, ORDERS_ID, PER_TABLE, feed, nothing_registered, one, register_all, shop
from tests.support.each import each
from tests.support.golden import GOLDEN
from tests.support.service import short_and_long
from tests.support.table import check_rows
from ticdc_bridge.schemas.ddl.executor.apply import apply
from ticdc_bridge.schemas.ddl.executor.catalog import new_catalog
from ticdc_bridge.schemas.ddl.parser.lexer import LexicalMode
from ticdc_bridge.schemas.ddl.parser.statement_parser import parse
from ticdc_bridge.service.changefeed.reader import read
from ticdc_bridge.service.changefeed.settings import ChangefeedSettings
from ticdc_bridge.service.ddl_check.check import CheckInput, check, with_snapshots
from ticdc_bridge.service.ddl_check.report import REFUSED, SAFE, STOP, UNKNOWN
from ticdc_bridge.service.ddl_check.statements import split
from ticdc_bridge.service.ddl_check.subjects import publish, targets
from ticdc_bridge.service.errors import RegistryError
from ticdc_bridge.service.history.table_json import replay
from ticdc_bridge.service.registry import config, register
from ticdc_bridge.service.registry.model import NewSchema
from ticdc_bridge.service.registry.registry import Registry
from ticdc_bridge.service.registry.view import RegistryView
from ticdc_bridge.service.store import open_store


def test_the_case_of_the_documents(fresh: Registry) -> None:
    """A NOT NULL column without a default under BACKWARD, in plain words, with ways out that were tried."""
    register_all(fresh, shop(), feed())
    form = one("ALTER TABLE orders ADD COLUMN c INT NOT NULL", fresh)
    assert form["verdict"] == STOP
    for words in ("would stop at the first row after the DDL", "`c` is NOT NULL and has no default", "BACKWARD"):
        assert words in form["reason"]
    value = next(s for s in form["subjects"] if s["part"] == "value")
    assert (value["level"], value["against"]["version"], value["against"]["assumed"]) == ("BACKWARD", 1, False)
    assert any("READER_FIELD_MISSING_DEFAULT_VALUE" in m for m in value["messages"])
    tried = [a for a in form["advice"] if a["checked"]]
    assert {a["id"] for a in tried} == {"allow-null", "give-default"}
    for advice in tried:
        assert one(advice["commands"][0], fresh)["verdict"] == SAFE
    window = next(a for a in form["advice"] if a["id"] == "compatibility-window")
    assert [c.split()[2] for c in window["commands"]] == ["PUT", "POST", "DELETE"]


def test_a_virtual_column_may_get_null(fresh: Registry) -> None:
    register_all(fresh, shop(), feed())
    form = one("ALTER TABLE orders ADD COLUMN v INT AS (n + 1) NOT NULL COMMENT 'NOT NULL'", fresh)
    (advice,) = (a for a in form["advice"] if a["checked"])
    assert advice["commands"] == ["ALTER TABLE orders ADD COLUMN v INT AS (n + 1) NULL COMMENT 'NOT NULL';"]
    assert one(advice["commands"][0], fresh)["verdict"] == SAFE


VERDICTS: list[tuple[str, str, str, str]] = [
    ("ALTER TABLE orders ADD c INT", "avro", "BACKWARD", SAFE),
    ("ALTER TABLE orders ADD c INT NOT NULL DEFAULT 1", "avro", "BACKWARD", SAFE),
    ("ALTER TABLE orders ADD c DECIMAL(9,2) NOT NULL DEFAULT 1", "avro", "BACKWARD", STOP),
    (
        "ALTER TABLE orders ADD c DECIMAL(9,2) NOT NULL DEFAULT 1",
        "avro&avro-decimal-handling-mode=string", "BACKWARD", SAFE,
    ),
    ("ALTER TABLE orders ADD c INT NOT NULL", "debezium-avro", "BACKWARD", SAFE),
    ("ALTER TABLE orders ADD c INT NOT NULL", "avro", "NONE", SAFE),
    ("ALTER TABLE orders ADD c INT NOT NULL", "avro", "FORWARD", SAFE),
    ("ALTER TABLE orders DROP COLUMN n", "avro", "BACKWARD", SAFE),
    ("ALTER TABLE orders DROP COLUMN n", "avro", "FORWARD", STOP),
    ("ALTER TABLE orders DROP COLUMN n", "avro", "FULL_TRANSITIVE", STOP),
    ("ALTER TABLE orders MODIFY n BIGINT NOT NULL", "avro", "BACKWARD", SAFE),
    ("ALTER TABLE orders MODIFY n BIGINT NOT NULL", "avro", "FORWARD", STOP),
    ("ALTER TABLE orders MODIFY n VARCHAR(9) NOT NULL", "avro", "BACKWARD", STOP),
    ("ALTER TABLE orders MODIFY note VARCHAR(20) NOT NULL", "avro", "BACKWARD", STOP),
    ("ALTER TABLE orders MODIFY total DECIMAL(12,4)", "avro", "BACKWARD", SAFE),
    ("ALTER TABLE orders RENAME COLUMN n TO m", "avro", "BACKWARD", STOP),
    ("ALTER TABLE orders RENAME COLUMN note TO remark", "avro", "BACKWARD", SAFE),
    ("ALTER TABLE orders ALTER note DROP DEFAULT", "avro", "BACKWARD", SAFE),
    ("ALTER TABLE orders ADD INDEX (n)", "avro", "BACKWARD", SAFE),
    ("ALTER TABLE orders COMMENT 'x'", "avro", "FULL", SAFE),
    ("ALTER TABLE orders DROP PRIMARY KEY, ADD PRIMARY KEY (n)", "avro", "BACKWARD", REFUSED),
    ("RENAME TABLE orders TO orders2", "avro", "BACKWARD", SAFE),
    ("TRUNCATE TABLE orders", "avro", "BACKWARD", SAFE),
    ("DROP TABLE orders", "avro", "BACKWARD", SAFE),
    ("DROP TABLE nobody", "avro", "BACKWARD", UNKNOWN),
    ("CREATE TABLE fresh (id INT PRIMARY KEY)", "avro", "BACKWARD", SAFE),
    ("ALTER TABLE nobody ADD c INT", "avro", "BACKWARD", UNKNOWN),
    ("ALTER TABLE orders ADD COLUMN id INT", "avro", "BACKWARD", REFUSED),
    ("ALTER TABLE orders FROBNICATE", "avro", "BACKWARD", UNKNOWN),
    ("FLASHBACK CLUSTER TO TIMESTAMP '2026-01-01 00:00:00'", "avro", "BACKWARD", UNKNOWN),
    ("CREATE SEQUENCE s", "avro", "BACKWARD", SAFE),
    ("ALTER TABLE orders SET TIFLASH REPLICA 1", "avro", "BACKWARD", SAFE),
    ("CREATE VIEW v AS SELECT 1", "avro", "BACKWARD", SAFE),
    ("INSERT INTO orders VALUES (1)", "avro", "BACKWARD", SAFE),
    ("ALTER TABLE orders ADD c INT NOT NULL", "open-protocol", "BACKWARD", SAFE),
    ("ALTER TABLE orders ADD v INT AS (n + 1) VIRTUAL", "debezium-avro", "BACKWARD", STOP),
    ("ALTER TABLE orders ADD `st!` INT, ADD `st?` INT", "avro", "NONE", STOP),
]  # fmt: skip


def test_verdicts(tmp_path: Path) -> None:
    registries: dict[str, Registry] = {}  # by the changefeed's URI: a dry run leaves nothing in one

    def check(row: tuple[str, str, str, str]) -> None:
        sql, query, level, verdict = row
        if query not in registries:
            registries[query] = Registry(open_store(f"sqlite:///{tmp_path / str(len(registries))}.db"))
            register_all(registries[query], shop(), feed(query))
        registry = registries[query]
        config.update(registry, None, {"compatibility": level})
        form = one(sql, registry, feed(query))
        assert (form["verdict"], bool(form["reason"])) == (verdict, True), form["reason"]

    try:
        check_rows(VERDICTS, check)
    finally:
        for registry in registries.values():
            registry.store.close()


def test_a_masking_policy_masks_queries_alone(fresh: Registry) -> None:
    """Which no event of a changefeed says, and its values don't."""
    for sql in ("CREATE MASKING POLICY p ON orders (n) AS 0", "ALTER TABLE orders ADD MASKING POLICY p ON (n) AS 0"):
        form = one(sql, fresh)
        assert form["verdict"] == SAFE
        assert "changefeed sends clear values" in json.dumps(form), form


def test_two_tables_in_one_subject(fresh: Registry) -> None:
    """The sink URI's own topic for all tables: the second table's record has another name."""
    shared = feed("avro", "")
    form = one("CREATE TABLE a (id INT PRIMARY KEY)", fresh, shared)
    assert form["verdict"] == SAFE
    orders = shop().table(ORDERS_ID)
    assert orders is not None
    (target,) = targets(shared, None, orders, nothing_registered())
    made = publish(orders, target, None)
    register.register(fresh, "t-value", NewSchema(text=made.value or ""))
    form = one("CREATE TABLE a (id INT PRIMARY KEY)", fresh, shared)
    assert form["verdict"] == STOP
    assert "two tables share one topic" in form["reason"]
    renamed = one("RENAME TABLE orders TO o2", fresh, shared)
    assert renamed["verdict"] == STOP
    assert "default.shop.orders becomes default.shop.o2" in renamed["reason"]


def test_a_readonly_subject_stops_new_schemas_only(fresh: Registry) -> None:
    register_all(fresh, shop(), feed())
    config.update_mode(fresh, "tidb_shop_orders-value", "READONLY")
    assert one("ALTER TABLE orders ADD c INT", fresh)["verdict"] == STOP
    assert one("ALTER TABLE orders ADD INDEX (n)", fresh)["verdict"] == SAFE


def test_back_to_an_earlier_schema_is_never_refused(fresh: Registry) -> None:
    register_all(fresh, shop(), feed())
    config.update(fresh, None, {"compatibility": "NONE"})
    added = with_snapshots(shop(), (ORDERS.replace("`n` int", "`more` int NOT NULL, `n` int"),), "shop")
    register_all(fresh, added, feed())
    config.update(fresh, None, {"compatibility": "FULL"})
    form = check(CheckInput("ALTER TABLE orders DROP COLUMN more", "shop", added, feed()), RegistryView(fresh)).form()
    assert form["verdict"] == SAFE
    assert "registered already, as version 1" in form["reason"]


# ---- without settings
def test_the_mode_is_read_from_what_is_registered(fresh: Registry) -> None:
    string = feed("avro&avro-decimal-handling-mode=string&enable-tidb-extension=true")
    register_all(fresh, shop(), string)
    form = one("ALTER TABLE orders ADD c DECIMAL(9,2) NOT NULL DEFAULT 1", fresh, read())
    judged = [s for s in form["schemas"] if s["judged"]]
    assert [s["mode"]["avro-decimal-handling-mode"] for s in judged] == ["string"]
    assert [s["mode"]["enable-tidb-extension"] for s in judged] == [True]
    assert judged[0]["value_subject"] == "tidb_shop_orders-value"
    assert form["verdict"] == SAFE
    assert {s["mode"]["avro-decimal-handling-mode"] for s in form["schemas"]} == {"precise", "string"}


def test_every_mode_is_shown_where_nothing_is_known() -> None:
    form = one("ALTER TABLE orders ADD u BIGINT UNSIGNED", None, read())
    modes = {(s["mode"]["avro-decimal-handling-mode"], s["mode"]["avro-bigint-unsigned-handling-mode"],
              s["mode"]["enable-tidb-extension"]) for s in form["schemas"]}  # fmt: skip
    assert len(modes) == len({s["value"] for s in form["schemas"]}) == 8
    assert form["verdict"] == SAFE
    assert "nothing is there to break" in form["reason"]


def test_tables_before_are_taken_as_registered_when_nothing_else_is_given(fresh: Registry) -> None:
    form = one("ALTER TABLE orders ADD c INT NOT NULL", fresh, read(), assume=True)
    assert form["verdict"] == STOP
    assert all(s["against"]["assumed"] for s in form["subjects"])
    assert any("--schemas" in note for note in form["notes"])


def test_settings_of_another_changefeed_are_noticed(fresh: Registry) -> None:
    register_all(fresh, shop(), feed())
    form = one("ALTER TABLE orders ADD c INT NOT NULL", fresh, feed("avro", PER_TABLE.replace("tidb_", "x_")))
    assert form["verdict"] == SAFE
    assert any("tidb_shop_orders-value holds rows of shop.orders" in note for note in form["notes"])


def test_a_protocol_without_registry_shows_what_its_messages_carry() -> None:
    form = one("ALTER TABLE orders ADD c INT NOT NULL", None, read("kafka://k/t?protocol=debezium"))
    (view,) = form["schemas"]
    assert json.loads(view["value"])["name"] == "default.shop.orders.Envelope"
    assert (view["key_subject"], form["subjects"], form["verdict"]) == (None, [], SAFE)


# ---- several statements
def test_each_statement_sees_what_the_former_ones_did(fresh: Registry) -> None:
    register_all(fresh, shop(), feed())
    form = one(
        "ALTER TABLE orders ADD c INT;\n-- and\nALTER TABLE orders MODIFY c INT NOT NULL; USE x; SELECT 1;", fresh
    )
    assert [s["verdict"] for s in form["statements"]] == [SAFE, STOP, SAFE, SAFE]
    assert [s["statement"]["line"] for s in form["statements"]] == [1, 3, 3, 3]
    again = one("ALTER TABLE orders ADD c INT NOT NULL; ALTER TABLE orders ADD d INT", fresh)
    assert [s["verdict"] for s in again["statements"]] == [STOP, STOP]
    assert "even before the statement" in again["statements"][1]["reason"]
    assert form["verdict"] == STOP
    assert form["statement"]["decided_by"] == 2


def test_a_row_between_two_statements_counts(fresh: Registry) -> None:
    """Together they change nothing, but a row between them brings the schema in the middle into the registry."""
    register_all(fresh, shop(), feed())
    form = one(
        "ALTER TABLE orders MODIFY n BIGINT NOT NULL; ALTER TABLE orders MODIFY n INT NOT NULL, ADD z INT", fresh
    )
    assert [s["verdict"] for s in form["statements"]] == [SAFE, STOP]
    assert "comes between" in form["statements"][1]["reason"]


def test_a_statement_that_is_not_read_leaves_its_table_unknown() -> None:
    form = one("ALTER TABLE orders FROB; ALTER TABLE orders ADD c INT; ALTER TABLE items ADD c INT")
    assert [s["verdict"] for s in form["statements"]] == [UNKNOWN, UNKNOWN, SAFE]
    for sql, after in (
        ("FOO BAR", SAFE),
        ("CREATE FOO f", SAFE),
        ("ALTER orders ADD d INT", SAFE),
        ("DROP DATABASE IF FOO x", UNKNOWN),
        ("TRUNCATE orders foo", UNKNOWN),
        ("RENAME a b", UNKNOWN),
    ):
        form = one(f"{sql}; ALTER TABLE items ADD c INT")
        assert [s["verdict"] for s in form["statements"]] == [UNKNOWN, after], sql


@each(("text", "pieces"), [
    ("a;b", ["a", "b"]), (";;a;", ["a"]), ("a ';' b; c", ["a ';' b", "c"]),
    ("/* x; */ a -- y;\n; b", ["a -- y;", "b"]),
    ("/*!40101 a */; b", ["/*!40101 a */", "b"]), ("", []), ("  \n ", []), ("a 'open", ["a 'open"]),
    ("`x;y`;z", ["`x;y`", "z"]),
])  # fmt: skip
def test_split(text: str, pieces: list[str]) -> None:
    assert [p.sql for p in split(text, LexicalMode.of_sql_mode())] == pieces


# ---- the registry is the judge
_TYPES = st.sampled_from(
    ("INT", "BIGINT", "BIGINT UNSIGNED", "VARCHAR(9)", "DECIMAL(9,2)", "DATETIME", "BLOB", "ENUM('a','c')", "DOUBLE")
)
_NULLS = st.sampled_from(("", "NULL", "NOT NULL", "DEFAULT NULL"))
_COLUMNS = st.sampled_from(("total", "st", "note", "at", "n", "new"))


@st.composite
def alters(draw: st.DrawFn) -> str:
    def clause() -> str:
        what, name = draw(st.sampled_from(("ADD", "MODIFY", "DROP", "RENAME"))), draw(_COLUMNS)
        match what:
            case "DROP":
                return f"DROP COLUMN {name}"
            case "RENAME":
                return f"RENAME COLUMN {name} TO {name}2"
        return f"{what} {name} {draw(_TYPES)} {draw(_NULLS)}"

    return "ALTER TABLE orders " + ", ".join(clause() for _ in range(draw(st.integers(1, 3))))


@short_and_long(15, 60)
def test_it_would_stop_if_and_only_if_registering_is_refused(
    tmp_path_factory: pytest.TempPathFactory, examples: int
) -> None:
    @settings(max_examples=examples, deadline=None)
    @given(
        sql=alters(),
        level=st.sampled_from(("BACKWARD", "FORWARD", "FULL", "NONE", "BACKWARD_TRANSITIVE")),
        query=st.sampled_from(("avro", "avro&avro-decimal-handling-mode=string", "debezium-avro")),
    )
    def holds(sql: str, level: str, query: str) -> None:
        store = open_store(f"sqlite:///{tmp_path_factory.mktemp('r') / 'r.db'}")
        try:
            registry, chosen = Registry(store, level), feed(query)
            register_all(registry, shop(), chosen)
            form = one(sql, registry, chosen)
            if form["verdict"] in (UNKNOWN, REFUSED):
                return  # TiDB does not take it
            refused = False
            for view in form["schemas"]:
                for field in ("key", "value"):
                    try:
                        register.register(registry, view[f"{field}_subject"], NewSchema(text=view[field]))
                    except RegistryError as error:
                        refused = refused or error.code == "INCOMPATIBLE_SCHEMA"
            assert (form["verdict"] == STOP) == refused
        finally:
            store.close()

    holds()


# ---- TiDB is the judge of tables
@pytest.mark.parametrize(("name", "every"), [("own", 1), ("ticdc", 10)])
def test_tables_after_are_those_of_a_real_tidb(name: str, every: int) -> None:
    """`after` is what replaying gives, which other tests compare with TiDB's answers column by column."""
    lines = (GOLDEN / "ddl" / f"{name}.jsonl").read_text(encoding="utf-8").splitlines()
    catalog, script, compared = new_catalog(), None, 0
    for number, (text, expected) in enumerate(zip(lines, replay(lines, "typed"), strict=True)):
        line = json.loads(text)
        catalog, script = (catalog if script == line["script"] else new_catalog()), line["script"]
        if not (line["ok"] and expected["ok"]):
            continue
        mode_, db = LexicalMode.of_sql_mode(line["sql_mode"]), line["db"]
        if number % every == 0:
            last = check(CheckInput(line["ddl"], db, catalog, zone="UTC", mode=mode_), nothing_registered()).each[-1]
            shown = {(t["db"].lower(), t["table"].lower()): t for t in last.form()["after"]}
            for table in expected["tables"]:
                key = (table["db"].lower(), table["table"].lower())
                # What is not in the report was not changed: a statement about partitions, IF NOT EXISTS …
                assert shown.get(key) == table, line["ddl"]
                compared += 1
        catalog = apply(catalog, parse(line["ddl"], mode_, db), db)
    assert compared > 80


# ---- filters and renames
def test_what_the_changefeed_leaves_out_is_safe(fresh: Registry) -> None:
    some = feed("avro", "[filter]\nrules=['shop.items']\n" + PER_TABLE)
    register_all(fresh, shop(), feed())
    form = one("ALTER TABLE orders ADD c INT NOT NULL", fresh, some)
    assert form["verdict"] == SAFE
    assert "filter leaves shop.orders out" in form["reason"]
    routed = feed("avro", "[[sink.dispatchers]]\nmatcher=['*.*']\ntarget-schema='x'\n")
    assert one("ALTER TABLE orders ADD c INT", fresh, routed)["verdict"] == UNKNOWN


def test_a_swap_shows_each_table_under_its_new_name() -> None:
    form = one("RENAME TABLE orders TO tmp, items TO orders, tmp TO items")
    before = {t["table"]: len(t["columns"]) for t in form["before"]}
    after = {t["table"]: len(t["columns"]) for t in form["after"]}
    assert before == {"orders": 6, "items": 2}
    assert after == {"orders": 2, "items": 6}
    assert sum(r["id"] == "renamed-table" for r in form["risks"]) == 2


def test_a_partly_known_table_is_not_judged(fresh: Registry) -> None:
    form = one("ALTER TABLE orders ADD c INT", fresh, unsure=lambda _: "only a part of it is known")
    assert form["verdict"] == UNKNOWN
    assert "only a part of it is known" in form["reason"]


@each("row", (
    ("RENAME TABLE orders TO archive", SAFE),
    ("RENAME TABLE orders TO archive; CREATE TABLE orders (id BIGINT PRIMARY KEY, z INT NOT NULL)", STOP),
    ("DROP TABLE orders; CREATE TABLE orders (id BIGINT PRIMARY KEY, z INT NOT NULL)", STOP),
    ("DROP TABLE orders; CREATE TABLE orders (id BIGINT PRIMARY KEY, z INT)", SAFE),
    # The swaps of gh-ost and pt-osc, in any order of the pairs and as statements of their own.
    *(
        ("CREATE TABLE ghost (id BIGINT PRIMARY KEY, z INT" + null + "); " + swap, verdict)
        for null, verdict in ((" NOT NULL", STOP), ("", SAFE))
        for swap in (
            "RENAME TABLE orders TO old, ghost TO orders", "RENAME TABLE orders TO old; RENAME TABLE ghost TO orders",
            "RENAME TABLE orders TO old; ALTER TABLE ghost RENAME orders",
            "RENAME TABLE orders TO old, ghost TO orders, old TO ghost2",
            "DROP TABLE orders; RENAME TABLE ghost TO orders",
        )
    ),
))  # fmt: skip
def test_what_is_assumed_is_registered_under_the_name_before_the_statement(row: tuple[str, str]) -> None:
    form = one(row[0], assume=True)
    assert form["verdict"] == row[1]
    assert "even before" not in form["reason"]
    assert one(row[0], settings_=ChangefeedSettings(), assume=True)["verdict"] == row[1]
