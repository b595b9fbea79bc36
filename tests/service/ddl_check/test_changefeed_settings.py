"""What a statement means under a changefeed's settings: dispatchers, selectors, handling modes; and tried advice."""

from typing import Any

from tests.support.dry_runs import nothing_registered
from tests.support.each import each
from tests.support.table import check_rows
from ticdc_bridge.schemas.ddl.executor.catalog import Catalog, new_catalog
from ticdc_bridge.service.changefeed.reader import read
from ticdc_bridge.service.ddl_check.check import CheckInput, check, with_snapshots
from ticdc_bridge.service.ddl_check.report import SAFE, STOP, UNKNOWN

ORDERS = (
    "CREATE TABLE `orders` (`id` bigint NOT NULL, `customer_id` int NOT NULL, `code` varchar(20) NOT NULL, `total` int "
    "DEFAULT NULL, `d` date DEFAULT NULL, `secret` int DEFAULT NULL, PRIMARY KEY (`id`), UNIQUE KEY `u` (`code`))"
)
AVRO = "kafka://k:9092/orders?protocol=avro&schema-registry=http://r"
OPEN = "kafka://k:9092/orders?protocol=open-protocol"
DEBEZIUM = "kafka://k:9092/orders?protocol=debezium"
CHECKED = AVRO + (
    "&enable-tidb-extension=true&avro-decimal-handling-mode=string&avro-bigint-unsigned-handling-mode=string"
)
BY_COLUMNS = "[sink]\ndispatchers=[{matcher=['shop.orders'],partition='columns',columns=['Customer_ID']}]\n"
BY_INDEX = (
    "[sink]\ndispatchers=[{matcher=['shop.orders'],partition='index-value',index='U'},"
    "{matcher=['shop.o2'],partition='columns',columns=['nope']}]\n"
)
INTEGRITY = "[integrity]\nintegrity-check-level='correctness'\n"
SELECTED = "[sink]\ncolumn-selectors=[{matcher=['shop.*'],columns=['*','!secret','!hidden']}]\n"


def tables() -> Catalog:
    return with_snapshots(new_catalog(), (ORDERS,), "shop")


def ask(uri: str, config: str, sql: str) -> dict[str, Any]:
    return check(CheckInput(sql, "shop", tables(), read(uri, config), assume=True), nothing_registered()).form()


# (URI, file, statement, verdict, what the reason names)
@each(("uri", "config", "sql", "verdict", "word"), (
    (OPEN, BY_COLUMNS, "ALTER TABLE orders DROP COLUMN customer_id", STOP, "Customer_ID"),
    (OPEN, BY_COLUMNS, "ALTER TABLE orders RENAME COLUMN customer_id TO cid", STOP, "Customer_ID"),
    (DEBEZIUM, BY_COLUMNS, "ALTER TABLE orders CHANGE customer_id cid INT NOT NULL", STOP, "Customer_ID"),
    (OPEN, BY_COLUMNS, "DROP TABLE orders; CREATE TABLE orders (id INT PRIMARY KEY)", STOP, "Customer_ID"),
    (OPEN, BY_COLUMNS, "DROP TABLE orders; CREATE TABLE orders (id INT PRIMARY KEY, customer_id INT AS (id + 1))",
     STOP, "virtual"),
    (OPEN, BY_COLUMNS, "ALTER TABLE orders DROP COLUMN total", SAFE, ""),
    (OPEN, BY_COLUMNS, "ALTER TABLE orders RENAME TO o3", SAFE, ""),
    (AVRO, BY_INDEX, "ALTER TABLE orders DROP INDEX u", STOP, "index `U`"),
    (OPEN, BY_INDEX, "ALTER TABLE orders RENAME INDEX u TO u2", STOP, "index `U`"),
    (OPEN, BY_INDEX, "ALTER TABLE orders DROP COLUMN code", STOP, "index `U`"),
    (OPEN, BY_INDEX, "RENAME TABLE orders TO o2", STOP, "nope"),
    (OPEN, BY_INDEX, "ALTER TABLE orders ADD INDEX x (total)", SAFE, ""),
    (OPEN, BY_INDEX, "DROP TABLE orders", SAFE, ""),
    (DEBEZIUM, "", "ALTER TABLE orders ADD COLUMN x DATE DEFAULT '2020-01-01'", UNKNOWN, "`x`"),
    (DEBEZIUM, "", "ALTER TABLE orders MODIFY total DATE DEFAULT '2020-01-01'", UNKNOWN, "`total`"),
    (DEBEZIUM, "", "ALTER TABLE orders ALTER d SET DEFAULT '2020-01-01'", UNKNOWN, "`d`"),
    (DEBEZIUM, "", "ALTER TABLE orders ADD COLUMN x DATE NOT NULL DEFAULT '2020-01-01'", SAFE, ""),
    (DEBEZIUM, "", "ALTER TABLE orders ADD COLUMN v INT AS (total+1)", UNKNOWN, "Kafka Connect"),
    (DEBEZIUM, SELECTED, "ALTER TABLE orders ADD COLUMN hidden INT AS (total+1)", SAFE, ""),
    (CHECKED, INTEGRITY, "ALTER TABLE orders ADD COLUMN x INT FIRST", STOP, "row checksums"),
    (CHECKED, INTEGRITY, "ALTER TABLE orders ADD COLUMN x INT", SAFE, ""),
))  # fmt: skip
def test_verdicts_under_settings(uri: str, config: str, sql: str, verdict: str, word: str) -> None:
    form = ask(uri, config, sql)
    assert (form["verdict"], word in form["reason"]) == (verdict, True), form["reason"]


# (URI, file, ALTER TABLE orders …, risks that there must be, risks that there must not)
@each(("uri", "config", "clause", "there", "absent"), (
    (DEBEZIUM, "", "MODIFY total DECIMAL(30,10)", {"decimal-double"}, set[str]()),
    (DEBEZIUM, "", "MODIFY total BIGINT UNSIGNED", {"unsigned-long"}, set[str]()),
    (DEBEZIUM + "&debezium-decimal-handling-mode=string", "", "ADD COLUMN p DECIMAL(30,10)", set[str](),
     {"decimal-double"}),
    (DEBEZIUM + "&debezium-bigint-unsigned-handling-mode=string", "", "ADD COLUMN p BIGINT UNSIGNED", set[str](),
     {"unsigned-long"}),
    (AVRO, "", "MODIFY total DECIMAL(60,2)", {"spark-precision"}, set[str]()),
    (AVRO, "", "MODIFY total BIGINT UNSIGNED", {"unsigned-long"}, set[str]()),
    (AVRO, "", "MODIFY total TIMESTAMP NULL", {"timestamp-zone"}, set[str]()),
    (AVRO, "", "MODIFY d DATE DEFAULT '2020-01-01' COMMENT 'x'", set[str](), {"timestamp-zone", "bytes-default"}),
    (AVRO, "", "ADD COLUMN x DATETIME NOT NULL DEFAULT CURRENT_TIMESTAMP", {"clock-default"}, set[str]()),
    (AVRO, "", "ADD COLUMN x DATETIME", set[str](), {"clock-default"}),
    (AVRO, SELECTED, "ADD COLUMN hidden DECIMAL(60,2) NOT NULL", set[str](), {"spark-precision"}),
    (AVRO, SELECTED, "DROP COLUMN secret", set[str](), {"dropped"}),
    (AVRO, SELECTED, "DROP COLUMN total", {"dropped"}, set[str]()),
))  # fmt: skip
def test_risks_under_settings(uri: str, config: str, clause: str, there: set[str], absent: set[str]) -> None:
    found = {r["id"] for r in ask(uri, config, f"ALTER TABLE orders {clause}")["risks"]}
    assert there <= found
    assert not absent & found


# What is added, and the statements that are printed: the person's own with one word changed.
@each(("clause", "tried"), (
    ("ADD COLUMN x VARCHAR(10) CHARACTER SET latin1 COLLATE latin1_bin NOT NULL COMMENT 'why' AFTER id",
     ["ADD COLUMN x VARCHAR(10) CHARACTER SET latin1 COLLATE latin1_bin NULL COMMENT 'why' AFTER id",
      "ADD COLUMN x VARCHAR(10) CHARACTER SET latin1 COLLATE latin1_bin NOT NULL DEFAULT '' COMMENT 'why' AFTER id"]),
    ("ADD COLUMN ts TIMESTAMP NOT NULL ON UPDATE CURRENT_TIMESTAMP",
     ["ADD COLUMN ts TIMESTAMP NULL ON UPDATE CURRENT_TIMESTAMP",
      "ADD COLUMN ts TIMESTAMP NOT NULL DEFAULT '2000-01-01 00:00:00' ON UPDATE CURRENT_TIMESTAMP"]),
    ("ADD COLUMN x INT NOT NULL, DROP COLUMN total",
     ["ADD COLUMN x INT NULL, DROP COLUMN total", "ADD COLUMN x INT NOT NULL DEFAULT 0, DROP COLUMN total"]),
    ("ADD (`not` INT not  null, b TEXT COMMENT 'b NOT NULL' NOT NULL)",
     ["ADD (`not` INT NULL, b TEXT COMMENT 'b NOT NULL' NULL)"]),
    ("ADD COLUMN x DATE NOT /* c */ NULL -- why",
     ["ADD COLUMN x DATE NULL /* c */  -- why\n", "ADD COLUMN x DATE NOT NULL DEFAULT '2000-01-01' /* c */  -- why\n"]),
    ("ADD COLUMN x DECIMAL(5,2) NOT NULL", ["ADD COLUMN x DECIMAL(5,2) NULL"]),
    ("ADD (x INT CHECK (y IS NOT NULL) NOT NULL, y BLOB NOT NULL CHECK (x IS NOT NULL))",
     ["ADD (x INT CHECK (y IS NOT NULL) NULL, y BLOB NULL CHECK (x IS NOT NULL))"]),
    ("ADD COLUMN x INT CHECK (x IS NOT NULL) NOT NULL, ALGORITHM = INPLACE",
     ["ADD COLUMN x INT CHECK (x IS NOT NULL) NULL, ALGORITHM = INPLACE",
      "ADD COLUMN x INT CHECK (x IS NOT NULL) NOT NULL DEFAULT 0, ALGORITHM = INPLACE"]),
))  # fmt: skip
def test_advice_is_the_statement_with_one_word_changed_and_safe(clause: str, tried: list[str]) -> None:
    form = ask(AVRO, "", f"ALTER TABLE orders {clause}")
    assert form["verdict"] == STOP
    commands = [c for a in form["advice"] if a["checked"] for c in a["commands"]]
    assert commands == [f"ALTER TABLE orders {entry};" for entry in tried]
    assert [ask(AVRO, "", c)["verdict"] for c in commands] == [SAFE] * len(commands)


def test_advice_leaves_columns_alone_that_are_not_sent() -> None:
    form = ask(AVRO, SELECTED, "ALTER TABLE orders ADD COLUMN hidden INT NOT NULL, ADD COLUMN x BLOB NOT NULL")
    commands = [c for a in form["advice"] if a["checked"] for c in a["commands"]]
    assert commands == ["ALTER TABLE orders ADD COLUMN hidden INT NOT NULL, ADD COLUMN x BLOB NULL;"]


def test_advice_about_a_dispatcher() -> None:
    by_column = "[sink]\ndispatchers=[{matcher=['*.*'],partition='columns',columns=['total']}]\n"
    for clause, existing in (("DROP COLUMN total", True), ("RENAME COLUMN total TO t", True), ("DROP COLUMN d", False)):
        found = {a["id"] for a in ask(OPEN, by_column, f"ALTER TABLE orders {clause}")["advice"]}
        assert ("other-dispatcher" in found) is existing


# An event filter's expression, a clause → does the filter ask for a column that is not there then?
@each("row", (
    ("ignore-insert-value-expr = 'total > 1'", "DROP COLUMN total", STOP),
    ("ignore-insert-value-expr = 'TOTAL > 1'", "RENAME COLUMN total TO t", STOP),
    ("ignore-delete-value-expr = \"orders.total = 1 or d is null\"", "CHANGE d e DATE", STOP),
    ("ignore-update-new-value-expr = \"id in (1, 2) and 'total' = 'x'\"", "DROP COLUMN total", SAFE),
    ("ignore-update-old-value-expr = 'total > 1'", "MODIFY total DECIMAL(12,2)", SAFE),
    ("ignore-update-old-value-expr = 'total > 1'", "ADD COLUMN x INT", SAFE),
    ("ignore-event = ['insert']", "DROP COLUMN total", SAFE),
))  # fmt: skip
def test_expressions_of_event_filters(row: tuple[str, str, str]) -> None:
    for matcher, verdict in (("*.*", row[2]), ("shop.orders", row[2]), ("other.*", SAFE)):
        config = f"[[filter.event-filters]]\nmatcher = ['{matcher}']\n{row[0]}"
        form = ask(OPEN, config, f"ALTER TABLE orders {row[1]}")
        assert form["verdict"] == verdict
        assert ("other-filter" in {a["id"] for a in form["advice"]}) is (verdict == STOP)


# A rename, of one table or of several → does it bring one into the filter `shop.*, !shop.tmp*`?
RENAMES = (
    ("RENAME TABLE shop.orders TO shop.sales", SAFE), ("RENAME TABLE shop.orders TO shop.tmp_orders", SAFE),
    ("RENAME TABLE shop.tmp_a TO shop.sales", STOP), ("ALTER TABLE tmp_a RENAME TO sales", STOP),
    ("ALTER TABLE tmp_a RENAME TO tmp_b", SAFE), ("RENAME TABLE other.x TO shop.x", STOP),
    ("RENAME TABLE shop.orders TO other.orders", SAFE),
    ("RENAME TABLE orders TO tmp, sales TO orders, tmp TO sales", STOP),
    ("RENAME TABLE orders TO mid, sales TO orders, mid TO sales", SAFE),
)  # fmt: skip


def test_renames_into_the_filter() -> None:
    settings = read("kafka://k/t?protocol=open-protocol", "[filter]\nrules = ['shop.*', '!shop.tmp*']")
    made = "; ".join(f"CREATE TABLE {name} (id INT PRIMARY KEY)" for name in (
        "shop.orders", "shop.tmp_a", "other.x",
    ))  # fmt: skip

    def check_row(row: tuple[str, str]) -> None:
        sql = "CREATE DATABASE shop; CREATE DATABASE other; " + made
        sql += "; CREATE TABLE shop.sales (id INT PRIMARY KEY)" if ", sales TO" in row[0] else ""
        form = check(CheckInput(f"{sql}; {row[0]}", "shop", new_catalog(), settings), nothing_registered()).form()
        last = form["statements"][-1]
        assert last["verdict"] == row[1]
        assert ("rename-within-filter" in {a["id"] for a in last["advice"]}) is (row[1] == STOP)

    check_rows(RENAMES, check_row)


def test_a_dispatcher_by_the_key_that_is_the_row_id() -> None:
    by_key = "[sink]\ndispatchers=[{matcher=['*.*'],partition='index-value',index='PRIMARY'}]\n"
    for key, verdict in (("INT PRIMARY KEY CLUSTERED", STOP), ("INT PRIMARY KEY NONCLUSTERED", SAFE),
                         ("VARCHAR(9) PRIMARY KEY CLUSTERED", SAFE)):  # fmt: skip
        assert ask(OPEN, by_key, f"CREATE TABLE fresh (id {key}, v INT)")["verdict"] == verdict


def test_advice_that_can_not_be_followed_is_not_given() -> None:
    renamed = {a["id"] for a in ask(OPEN, "", "RENAME TABLE orders TO archive")["advice"]}
    assert renamed == set()
    moving = "[sink]\ndispatchers=[{matcher=['*.*'],topic='{schema}_{table}'}]\n"
    assert "renamed-table" in {a["id"] for a in ask(OPEN, moving, "RENAME TABLE orders TO archive")["advice"]}
    virtual = ask(DEBEZIUM, "", "ALTER TABLE orders ADD COLUMN v INT AS (total+1)")["advice"]
    assert all("Make the column STORED" not in a["text"] for a in virtual)
