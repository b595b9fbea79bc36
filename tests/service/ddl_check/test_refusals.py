"""What TiDB itself refuses is told with its error number, and nothing that a real TiDB accepted is called refused."""

from dataclasses import replace

import pytest

from tests.support.ddl_histories import FILES, recorded
from tests.support.dry_runs import feed, nothing_registered
from tests.support.table import check_rows
from ticdc_bridge.schemas.ddl.executor.apply import apply
from ticdc_bridge.schemas.ddl.executor.catalog import Catalog, new_catalog
from ticdc_bridge.schemas.ddl.parser.lexer import LexicalMode
from ticdc_bridge.schemas.ddl.parser.statement_parser import parse
from ticdc_bridge.schemas.model.errors import DdlError, SetupError
from ticdc_bridge.service.ddl_check.check import CheckInput, check, with_snapshots
from ticdc_bridge.service.ddl_check.refusals.definitions import SqlModes
from ticdc_bridge.service.ddl_check.refusals.statements import refusals
from ticdc_bridge.service.ddl_check.report import REFUSED as REFUSED_VERDICT
from ticdc_bridge.service.ddl_check.request import CheckRequest, run_check

ORDERS = (
    "CREATE TABLE `orders` (`id` bigint NOT NULL, `customer_id` int NOT NULL, `status` enum('new','paid') NOT NULL "
    "DEFAULT 'new', `total` decimal(10,2) NOT NULL, `note` varchar(200) DEFAULT NULL, `created` timestamp NOT NULL "
    "DEFAULT CURRENT_TIMESTAMP, `qty` int unsigned DEFAULT NULL, `tags` set('a','b') DEFAULT NULL, `doc` json DEFAULT "
    "NULL, `ratio` float DEFAULT '1.5', `g` int GENERATED ALWAYS AS (`qty` + 1) VIRTUAL, `body` text DEFAULT NULL, "
    "PRIMARY KEY (`id`), UNIQUE KEY `u` (`customer_id`,`created`), KEY `n` (`note`)) ENGINE=InnoDB DEFAULT "
    "CHARSET=utf8mb4 COLLATE=utf8mb4_bin",
    "CREATE TABLE `parent` (`id` bigint NOT NULL, `code` int NOT NULL, PRIMARY KEY (`id`)) ENGINE=InnoDB DEFAULT "
    "CHARSET=utf8mb4 COLLATE=utf8mb4_bin",
    "CREATE TABLE `auto` (`id` bigint NOT NULL AUTO_INCREMENT, `v` int, PRIMARY KEY (`id`)) ENGINE=InnoDB DEFAULT "
    "CHARSET=utf8mb4 COLLATE=utf8mb4_bin",
    "CREATE TABLE `one` (`c` int) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin",
)
SPREAD = (
    "CREATE TABLE `r` (`a` int) PARTITION BY RANGE (`a`) (PARTITION `p0` VALUES LESS THAN (10), PARTITION `p1` VALUES "
    "LESS THAN (20), PARTITION `p2` VALUES LESS THAN (30))",
    "CREATE TABLE `m` (`a` int) PARTITION BY RANGE (`a`) (PARTITION `p0` VALUES LESS THAN (10), PARTITION `pm` VALUES "
    "LESS THAN (MAXVALUE))",
    "CREATE TABLE `l` (`a` int) PARTITION BY LIST (`a`) (PARTITION `p0` VALUES IN (1,2), PARTITION `p1` VALUES IN "
    "(3,NULL))",
    "CREATE TABLE `c` (`d` date, `a` int) PARTITION BY RANGE COLUMNS(`d`) (PARTITION `p0` VALUES LESS THAN "
    "('2024-01-01'))",
    "CREATE TABLE `h` (`a` int) PARTITION BY HASH (`a`) PARTITIONS 4",
    "CREATE TABLE `k` (`a` int NOT NULL, UNIQUE KEY `u` (`a`))",
    "CREATE TABLE `pair` (`a` int, `b` int)",
    "CREATE TABLE `child` (`p` bigint, KEY `p` (`p`), FOREIGN KEY (`p`) REFERENCES `boss` (`id`))",
    "CREATE TABLE `later` (`a` int, `b` int GENERATED ALWAYS AS (`a` + 1) VIRTUAL, `c` int GENERATED ALWAYS AS "
    "(`b` + 1) VIRTUAL)",
    "CREATE TABLE `wide` (`a` varchar(1000), KEY `a` (`a`)) CHARSET=utf8",
    "CREATE TABLE `text_boss` (`id` varchar(20) NOT NULL, PRIMARY KEY (`id`))",
    "CREATE TABLE `text_child` (`p` varchar(20), KEY `p` (`p`), FOREIGN KEY (`p`) REFERENCES `text_boss` (`id`))",
    "CREATE TABLE `boss` (`id` bigint NOT NULL, PRIMARY KEY (`id`))",
    "CREATE TABLE `prefix` (`b` varchar(9), KEY `b` (`b`(3)))",
)
LONG = "a" * 65
# TiDB's error number, and a statement that gives it.
REFUSED = r"""
1007 CREATE DATABASE shop
1050 ALTER TABLE orders RENAME TO parent
1050 CREATE TABLE orders (a INT)
1050 RENAME TABLE orders TO parent
1050 CREATE VIEW orders AS SELECT 1
1054 ALTER TABLE orders MODIFY nope INT
1054 ALTER TABLE orders RENAME COLUMN nope TO q
1054 ALTER TABLE orders ALTER nope SET DEFAULT 1
1054 ALTER TABLE orders ADD COLUMN x INT AFTER nope
1054 ALTER TABLE orders ADD COLUMN x INT AS (nope+1)
1054 ALTER TABLE orders MODIFY note VARCHAR(200) AFTER note
1054 ALTER TABLE orders MODIFY note VARCHAR(200) AFTER nope
1054 ALTER TABLE orders CHANGE note x VARCHAR(200) AFTER x
1059 ALTER TABLE orders ADD COLUMN `{LONG}` INT
1059 ALTER TABLE orders ADD INDEX `{LONG}` (qty)
1059 ALTER TABLE orders RENAME COLUMN qty TO `{LONG}`
1059 ALTER TABLE orders RENAME TO `{LONG}`
1059 CREATE TABLE `{LONG}` (a INT)
1059 CREATE DATABASE `{LONG}`
1060 ALTER TABLE orders CHANGE note total VARCHAR(200)
1060 ALTER TABLE orders ADD COLUMN id INT
1060 ALTER TABLE orders ADD COLUMN (a INT, A INT)
1060 ALTER TABLE orders ADD INDEX i (qty, qty)
1060 CREATE TABLE x (a INT, b INT, A INT)
1061 ALTER TABLE orders ADD INDEX n (qty)
1061 ALTER TABLE orders RENAME INDEX n TO u
1061 CREATE UNIQUE INDEX n ON orders (qty)
1067 ALTER TABLE orders ADD COLUMN x INT DEFAULT 99999999999
1067 ALTER TABLE orders ADD COLUMN x TINYINT DEFAULT 128
1067 ALTER TABLE orders ADD COLUMN x INT UNSIGNED DEFAULT -1
1067 ALTER TABLE orders ADD COLUMN x INT DEFAULT 'abc'
1067 ALTER TABLE orders ADD COLUMN x DECIMAL(4,2) DEFAULT 100
1067 ALTER TABLE orders ADD COLUMN x VARCHAR(2) DEFAULT 'abc'
1067 ALTER TABLE orders ADD COLUMN x VARBINARY(2) DEFAULT 'abc'
1067 ALTER TABLE orders ADD COLUMN x DATE DEFAULT '2021-02-30'
1067 ALTER TABLE orders ADD COLUMN x DATE DEFAULT '0000-00-00'
1067 ALTER TABLE orders ADD COLUMN x DATETIME DEFAULT '2021-00-01'
1067 ALTER TABLE orders ADD COLUMN x TIMESTAMP DEFAULT '2040-01-01'
1067 ALTER TABLE orders ADD COLUMN x DECIMAL(3,1) DEFAULT -99.95
1067 ALTER TABLE orders ADD COLUMN x TINYINT DEFAULT '127.5'
1067 ALTER TABLE orders ADD COLUMN x DECIMAL(9) DEFAULT 1e99999
1067 ALTER TABLE orders ADD COLUMN x ENUM('a') DEFAULT 'b'
1067 ALTER TABLE orders ADD COLUMN x BIT(2) DEFAULT 9
1067 ALTER TABLE orders ADD COLUMN x INT NOT NULL DEFAULT NULL
1067 ALTER TABLE orders ALTER total SET DEFAULT NULL
1067 ALTER TABLE orders ALTER qty SET DEFAULT -5
1067 ALTER TABLE orders ADD COLUMN x INT DEFAULT CURRENT_TIMESTAMP
1067 ALTER TABLE orders ADD COLUMN x DATETIME(3) DEFAULT CURRENT_TIMESTAMP
1067 ALTER TABLE orders ADD COLUMN x VARCHAR(5) CHARSET gbk DEFAULT '😀'
1067 ALTER TABLE orders ADD COLUMN x CHAR(5) CHARSET ascii DEFAULT 'é'
1067 ALTER TABLE orders ADD COLUMN x VARCHAR(5) CHARSET utf8 DEFAULT '😀'
1067 CREATE TABLE x (a INT DEFAULT NULL PRIMARY KEY)
1068 ALTER TABLE orders ADD PRIMARY KEY (qty)
1068 CREATE TABLE x (a INT PRIMARY KEY, b INT, PRIMARY KEY (b))
1071 ALTER TABLE orders ADD INDEX i (body(800))
1071 CREATE TABLE x (a VARCHAR(800), KEY (a))
1071 CREATE TABLE x (a VARCHAR(3068) CHARSET ascii, b BIT(33), KEY (a, b))
1071 CREATE TABLE x (a BLOB, b DECIMAL(17), KEY (a(3065), b))
1071 ALTER TABLE wide CONVERT TO CHARACTER SET utf8mb4
1072 ALTER TABLE orders ADD INDEX i (nope)
1072 ALTER TABLE orders ADD COLUMN x INT, ADD INDEX i (x)
1072 ALTER TABLE orders ADD FOREIGN KEY (nope) REFERENCES parent(id)
1072 CREATE TABLE x (a INT, KEY (a, b))
1074 ALTER TABLE orders ADD COLUMN x VARCHAR(70000)
1074 ALTER TABLE orders ADD COLUMN x VARCHAR(16384)
1074 ALTER TABLE orders ADD COLUMN x VARCHAR(21846) CHARSET utf8
1074 ALTER TABLE orders ADD COLUMN x VARBINARY(65536)
1074 ALTER TABLE orders ADD COLUMN x CHAR(256)
1074 ALTER TABLE orders ADD COLUMN x BINARY(256)
1074 ALTER TABLE orders MODIFY note VARCHAR(16384)
1075 CREATE TABLE x (a INT AUTO_INCREMENT, b INT)
1075 CREATE TABLE x (a INT AUTO_INCREMENT KEY, b INT AUTO_INCREMENT UNIQUE)
1089 ALTER TABLE orders ADD INDEX i (qty(3))
1089 ALTER TABLE orders ADD INDEX i (note(201))
1090 ALTER TABLE one DROP COLUMN c
1090 ALTER TABLE pair DROP COLUMN a, DROP COLUMN b
1091 ALTER TABLE orders DROP COLUMN nope
1091 ALTER TABLE orders DROP INDEX nope
1091 ALTER TABLE child DROP FOREIGN KEY nope
1091 DROP INDEX nope ON orders
1101 ALTER TABLE orders ADD COLUMN x TEXT NOT NULL DEFAULT 'a'
1101 ALTER TABLE orders ADD COLUMN x BLOB DEFAULT x'61'
1101 ALTER TABLE orders ADD COLUMN x JSON DEFAULT '{}'
1101 ALTER TABLE orders MODIFY body TEXT DEFAULT 'a'
1101 ALTER TABLE orders ALTER body SET DEFAULT 'a'
1103 ALTER TABLE orders RENAME TO `x `
1105 ALTER TABLE orders ADD COLUMN x INT DEFAULT (qty)
1115 ALTER TABLE orders ADD COLUMN x CHAR(5) CHARSET koi8r
1115 CREATE DATABASE d CHARSET koi8r
1115 ALTER DATABASE shop CHARSET koi8r
1115 ALTER DATABASE shop CHARSET utf9
1146 CREATE TABLE x LIKE nope
1166 ALTER TABLE orders ADD COLUMN `x ` INT
1166 ALTER TABLE orders RENAME COLUMN note TO _tidb_rowid
1167 CREATE TABLE x (a CHAR(0), KEY (a))
1170 ALTER TABLE orders ADD INDEX i (body)
1170 CREATE TABLE x (a TEXT PRIMARY KEY)
1176 ALTER TABLE orders RENAME INDEX nope TO x
1176 ALTER TABLE orders ALTER INDEX nope INVISIBLE
1221 ALTER TABLE orders ADD COLUMN x INT AS (qty) DEFAULT 1
1221 ALTER TABLE orders ADD COLUMN x DATETIME AS (created) ON UPDATE NOW()
1239 ALTER TABLE orders ADD FOREIGN KEY (id) REFERENCES parent(id, code)
1253 ALTER TABLE orders ADD COLUMN x CHAR(5) CHARSET latin1 COLLATE utf8mb4_bin
1253 CREATE TABLE x (a INT) CHARSET=utf8mb4 COLLATE=latin1_bin
1253 ALTER DATABASE shop CHARSET utf8mb4 COLLATE latin1_bin
1273 ALTER TABLE orders ADD COLUMN x CHAR(5) COLLATE utf8mb4_german2_ci
1280 ALTER TABLE orders ADD UNIQUE `primary` (qty)
1286 ALTER TABLE orders ENGINE = Falcon
1286 CREATE TABLE x (a INT) ENGINE=Falcon
1291 ALTER TABLE orders ADD COLUMN x ENUM('a','A','a')
1291 ALTER TABLE orders ADD COLUMN x ENUM('a','A') COLLATE utf8mb4_general_ci
1291 ALTER TABLE orders ADD COLUMN x SET('a','a ')
1294 ALTER TABLE orders ADD COLUMN x INT ON UPDATE CURRENT_TIMESTAMP
1294 ALTER TABLE orders ADD COLUMN x DATETIME(3) ON UPDATE CURRENT_TIMESTAMP
1294 ALTER TABLE orders ADD COLUMN x TIMESTAMP ON UPDATE NOW(6)
1367 ALTER TABLE orders ADD COLUMN x SET('a,b')
1391 ALTER TABLE orders ADD INDEX i (note(0))
1425 ALTER TABLE orders ADD COLUMN x DECIMAL(40,31)
1426 ALTER TABLE orders ADD COLUMN x DECIMAL(66,2)
1426 ALTER TABLE orders ADD COLUMN x DATETIME(7)
1427 ALTER TABLE orders ADD COLUMN x DECIMAL(5,6)
1427 ALTER TABLE orders ADD COLUMN x FLOAT(3,4)
1439 ALTER TABLE orders ADD COLUMN x BIT(65)
1553 ALTER TABLE child DROP INDEX p
1674 ALTER TABLE orders ADD COLUMN x CHAR(36) DEFAULT (UUID())
1674 ALTER TABLE orders ADD COLUMN x DOUBLE DEFAULT (RAND())
1674 ALTER TABLE orders ADD COLUMN x JSON NOT NULL DEFAULT (JSON_ARRAY())
1822 ALTER TABLE orders ADD FOREIGN KEY (customer_id) REFERENCES parent(code)
1824 ALTER TABLE orders ADD CONSTRAINT fk FOREIGN KEY (customer_id) REFERENCES nope(id)
1826 ALTER TABLE child ADD CONSTRAINT fk_1 FOREIGN KEY (p) REFERENCES parent(id)
3013 ALTER TABLE orders ADD COLUMN x BIT(0)
3102 ALTER TABLE orders ADD COLUMN x DOUBLE AS (RAND())
3102 ALTER TABLE orders ADD COLUMN x DATETIME AS (NOW())
3106 ALTER TABLE orders MODIFY qty INT AS (total) VIRTUAL
3106 ALTER TABLE orders MODIFY g INT
3106 ALTER TABLE orders ADD COLUMN x INT AS (qty+1) STORED NOT NULL
3106 ALTER TABLE orders MODIFY qty BIGINT UNSIGNED
3106 ALTER TABLE orders MODIFY qty INT UNSIGNED COMMENT 'x'
3106 CREATE TABLE x (a INT, b INT AS (a) VIRTUAL PRIMARY KEY)
3107 ALTER TABLE orders ADD COLUMN x INT AS (x+1)
3107 CREATE TABLE x (a INT AS (b + 1), b INT AS (1))
3107 ALTER TABLE later MODIFY b INT AS (c + 1)
3108 ALTER TABLE orders CHANGE qty q INT UNSIGNED
3108 ALTER TABLE orders RENAME COLUMN qty TO q
3108 ALTER TABLE orders DROP COLUMN qty
3109 ALTER TABLE auto ADD COLUMN x BIGINT AS (id + 1)
3152 ALTER TABLE orders ADD INDEX i (doc)
3152 CREATE INDEX i ON orders (doc)
3730 DROP TABLE boss
3734 ALTER TABLE orders ADD FOREIGN KEY (id) REFERENCES parent(nope)
3734 CREATE TABLE x (a INT, FOREIGN KEY (a) REFERENCES parent(nope))
3756 ALTER TABLE one ADD PRIMARY KEY ((c + 1))
3770 ALTER TABLE orders ADD COLUMN x CHAR(5) DEFAULT (LOWER('A'))
3770 ALTER TABLE orders ALTER note SET DEFAULT (MD5('a'))
3770 CREATE TABLE x (a BIGINT DEFAULT (UNIX_TIMESTAMP()))
3780 ALTER TABLE orders ADD FOREIGN KEY (customer_id) REFERENCES parent(id)
8200 ALTER TABLE orders CONVERT TO CHARACTER SET latin1
8200 ALTER TABLE orders CHARSET latin1
8200 ALTER TABLE orders CONVERT TO CHARACTER SET utf8
8200 ALTER TABLE orders MODIFY note VARBINARY(200)
8200 ALTER TABLE orders MODIFY note VARCHAR(200) CHARSET latin1
8200 ALTER TABLE orders MODIFY body BLOB
8200 ALTER TABLE orders MODIFY note VARCHAR(200) COLLATE utf8mb4_general_ci
8200 ALTER TABLE orders CONVERT TO CHARACTER SET utf8mb4 COLLATE utf8mb4_general_ci
8200 ALTER TABLE orders MODIFY id BIGINT UNSIGNED NOT NULL
8200 ALTER TABLE orders MODIFY id INT NOT NULL
8200 ALTER TABLE orders MODIFY id BIGINT NOT NULL PRIMARY KEY
8200 ALTER TABLE orders MODIFY id VARCHAR(20)
8200 ALTER TABLE orders MODIFY note BIT(8)
8200 ALTER TABLE orders MODIFY total ENUM('a')
8200 ALTER TABLE orders MODIFY total DATETIME
8200 ALTER TABLE orders MODIFY status TIME
8200 ALTER TABLE orders MODIFY doc VECTOR(3)
8200 ALTER TABLE orders MODIFY qty INT UNSIGNED AUTO_INCREMENT
8200 ALTER TABLE orders MODIFY qty INT UNSIGNED UNIQUE
8200 ALTER TABLE orders ADD COLUMN x INT AUTO_INCREMENT
8200 ALTER TABLE orders ADD COLUMN x INT UNIQUE
8200 ALTER TABLE orders ADD COLUMN x INT PRIMARY KEY
8200 ALTER TABLE orders DROP COLUMN customer_id
8200 ALTER TABLE orders DROP COLUMN id
8200 ALTER TABLE orders ADD COLUMN x INT, RENAME TO o2
8200 ALTER TABLE orders DROP COLUMN note, MODIFY note INT
8200 ALTER TABLE orders RENAME COLUMN qty TO q, ADD COLUMN x INT AFTER qty
8200 ALTER TABLE orders RENAME COLUMN note TO x, ADD INDEX i (note)
8200 ALTER TABLE orders ALTER ratio SET DEFAULT 3, RENAME COLUMN ratio TO r
8200 ALTER TABLE orders CHANGE body b LONGTEXT, ADD INDEX i (body(5))
8200 ALTER TABLE orders MODIFY ratio DOUBLE, ADD INDEX i (ratio)
8200 ALTER TABLE orders ALTER ratio SET DEFAULT 3, ADD INDEX i (ratio)
8200 ALTER TABLE orders ADD INDEX i (ratio), DROP COLUMN ratio
8200 ALTER TABLE orders DROP COLUMN note, MODIFY ratio DOUBLE AFTER note
8200 ALTER TABLE orders RENAME COLUMN ratio TO body, RENAME COLUMN body TO ratio
8200 ALTER TABLE orders ADD INDEX z (body(5)), ADD INDEX Z (tags)
8200 ALTER TABLE orders RENAME INDEX n TO m, ALTER INDEX n INVISIBLE
8200 ALTER TABLE orders DROP INDEX n, ALTER INDEX n INVISIBLE
8200 ALTER TABLE orders RENAME INDEX n TO m, DROP INDEX n
8200 ALTER TABLE orders RENAME TO o2, ENABLE KEYS
8200 ALTER TABLE orders MODIFY g TINYINT AS (qty + 1)
8200 ALTER TABLE auto MODIFY id BIGINT
"""
# What depends on rows, on settings of the server or on nothing at all is not refused.
ACCEPTED = r"""
ALTER TABLE orders ADD COLUMN x INT NOT NULL
ALTER TABLE orders ADD COLUMN x VARCHAR(16383)
ALTER TABLE orders ADD COLUMN x VARCHAR(65535) CHARSET latin1
ALTER TABLE orders ADD COLUMN x ENUM('a','A')
ALTER TABLE orders ADD COLUMN x DATETIME(3) DEFAULT CURRENT_TIMESTAMP(3) ON UPDATE CURRENT_TIMESTAMP(3)
ALTER TABLE orders ADD COLUMN x DATE DEFAULT (CURRENT_DATE)
ALTER TABLE orders ADD COLUMN x DATETIME(0) ON UPDATE LOCALTIME(0)
ALTER TABLE orders ADD COLUMN x CHAR(20) DEFAULT (DATE_FORMAT(NOW(), '%Y-%m-%d'))
ALTER TABLE orders ALTER note SET DEFAULT (UUID())
CREATE TABLE x (a JSON DEFAULT (JSON_OBJECT('a', 1)), b CHAR(36) DEFAULT (UUID()))
CREATE TABLE x (a CHAR(32) DEFAULT (REPLACE(UPPER(UUID()), '-', '')))
ALTER TABLE orders ADD COLUMN x BINARY(2) DEFAULT 0xFF
ALTER TABLE orders ADD COLUMN x VARCHAR(5) CHARSET gbk DEFAULT '你'
ALTER TABLE orders ADD COLUMN x VARCHAR(5) CHARSET latin1 DEFAULT 'é'
ALTER TABLE orders ADD COLUMN x TINYINT UNSIGNED DEFAULT 255
ALTER TABLE orders ADD COLUMN x DECIMAL(4,2) DEFAULT 99.994
ALTER TABLE orders ADD COLUMN x TINYINT UNSIGNED DEFAULT 255.4
ALTER TABLE orders ADD COLUMN x DECIMAL(65,0) DEFAULT 99999999999999999999999999999999999999999999999999999999999999999
ALTER TABLE orders ADD COLUMN x DATE DEFAULT '2024-02-29'
ALTER TABLE orders ADD COLUMN x BIT(2) DEFAULT 3
ALTER TABLE orders ADD COLUMN IF NOT EXISTS id INT
ALTER TABLE orders ADD COLUMN x INT AS (`qty` + `customer_id`)
ALTER TABLE orders ADD COLUMN x VARCHAR(20) AS (CONCAT(note, 'now()`nope`'))
CREATE TABLE x (`d'achat` INT, `l'été` INT AS (`d'achat` + IF(`d'achat` = ' it''s ', 1, 2)))
ALTER TABLE orders MODIFY id BIGINT NOT NULL COMMENT 'x'
ALTER TABLE one MODIFY c BIGINT UNSIGNED NOT NULL
ALTER TABLE pair MODIFY a TINYINT, MODIFY b BIGINT AFTER a
ALTER TABLE orders RENAME COLUMN ratio TO r, ALTER tags SET DEFAULT 'b', ADD INDEX i (status)
ALTER TABLE orders MODIFY note VARCHAR(10) NOT NULL
ALTER TABLE orders MODIFY note VARCHAR(600)
ALTER TABLE orders MODIFY note VARCHAR(100) COLLATE utf8mb4_general_ci
ALTER TABLE orders MODIFY note CHAR(200) CHARSET latin1
ALTER TABLE child DROP FOREIGN KEY FK_1
ALTER TABLE orders MODIFY note INT
ALTER TABLE orders MODIFY status ENUM('new')
ALTER TABLE orders MODIFY total DECIMAL(4,1)
ALTER TABLE orders MODIFY COLUMN IF EXISTS nope INT
ALTER TABLE orders CHANGE total sum DECIMAL(10,2) NOT NULL
ALTER TABLE orders DROP COLUMN note
ALTER TABLE orders DROP COLUMN g
ALTER TABLE orders DROP COLUMN IF EXISTS nope
ALTER TABLE orders ADD INDEX i (body(700))
ALTER TABLE orders ADD INDEX IF NOT EXISTS n (qty)
ALTER TABLE orders ADD COLUMN x INT, ADD COLUMN y INT AFTER note, DROP INDEX n
ALTER TABLE orders ADD FOREIGN KEY (id) REFERENCES parent(id)
ALTER TABLE orders CONVERT TO CHARACTER SET utf8mb4
ALTER TABLE orders RENAME TO o2
ALTER TABLE orders ADD COLUMN x CHAR(5) COLLATE utf8mb4_0900_ai_ci
CREATE TABLE IF NOT EXISTS orders (a INT)
ALTER TABLE later MODIFY c INT AS (b + 2)
ALTER TABLE text_child MODIFY p VARCHAR(30)
CREATE TABLE x (id FLOAT PRIMARY KEY NONCLUSTERED, t TIMESTAMP) TTL = t + INTERVAL 1 DAY
CREATE TABLE x (a INT AUTO_INCREMENT, KEY (a))
CREATE TABLE x (a INT, p INT, FOREIGN KEY (p) REFERENCES x(a), KEY (a))
RENAME TABLE orders TO parent2, parent TO orders
"""


def tables() -> Catalog:
    return with_snapshots(new_catalog(), (*ORDERS, *SPREAD), "shop")


def numbers(sql: str, sql_mode: str | None = None) -> list[int]:
    statement = parse(sql.replace("{LONG}", LONG), db="shop")
    return [r.number for r in refusals(tables(), statement, "shop", SqlModes.of(sql_mode))]


def test_statements_that_tidb_refuses_and_takes() -> None:
    def check_row(row: str) -> None:
        number, sql = row.split(" ", 1)
        assert int(number) in numbers(sql)

    check_rows(REFUSED.strip().split("\n"), check_row)

    def check_accepted(sql: str) -> None:
        assert numbers(sql) == []

    check_rows(ACCEPTED.strip().split("\n"), check_accepted)


def test_what_tidb_says_first_of_clauses_that_do_not_go_together() -> None:
    """It looks at the columns before the indexes, as refusals() does: the first one is the reason that is shown."""
    sql = "ALTER TABLE orders ADD INDEX z (tags), ADD INDEX z (qty), DROP COLUMN note, DROP COLUMN note"
    texts = [r.text for r in refusals(tables(), parse(sql, db="shop"), "shop", SqlModes.of(None)) if r.number == 8200]
    assert [text.rpartition("operate ")[2] for text in texts] == ["same column 'note'", "same index 'z'"]


# sql_mode '' takes what strict mode refuses.
LENIENT = ("x TEXT DEFAULT ''", "x VARCHAR(2) DEFAULT 'abc'", "x VARCHAR(70000)", "x DATE DEFAULT '0000-00-00'")


def test_the_sql_mode_decides() -> None:
    def check_row(definition: str) -> None:
        sql = f"ALTER TABLE orders ADD COLUMN {definition}"
        assert numbers(sql) != []
        assert numbers(sql, "ANSI") == []
        both = f"{sql}; SET sql_mode = 'ANSI'; {sql}"
        form = check(CheckInput(both, "shop", tables(), feed()), nothing_registered()).form()
        assert form["statements"][0]["verdict"] == REFUSED_VERDICT
        assert form["statements"][2]["verdict"] != REFUSED_VERDICT

    check_rows(LENIENT, check_row)


def why_not_judged(sql: str) -> str:
    form = check(CheckInput(sql, "shop", tables(), feed()), nothing_registered()).form()
    assert (form["verdict"], form["refusals"]) == ("cannot judge", []), sql
    return str(form["reason"])


def test_what_is_not_known_is_not_judged() -> None:
    """A primary key may be clustered, a table may be there, and versions and settings of TiDB differ."""
    for sql in (
        "ALTER TABLE parent DROP PRIMARY KEY",
        "DROP TABLE nope",
        "CREATE TABLE x (a INT AUTO_INCREMENT, b INT)",
        "CREATE TABLE x (a INT, FOREIGN KEY (a) REFERENCES no(a))",
        "ALTER TABLE orders ADD COLUMN x VARCHAR(9) DEFAULT _gbk'a'",
        "ALTER TABLE orders ADD COLUMN x VARCHAR(9) AS (concat(note, _ucs2'a'))",
        "ALTER TABLE orders ADD INDEX i ((sin(qty)))",
        "CREATE TABLE x (a VARCHAR(9), KEY i ((substr(a, 1, 2))))",
    ):
        assert "(error " in why_not_judged(sql)


def test_a_default_that_tidb_computes_is_not_taken_for_a_literal() -> None:
    for sql in (
        "ALTER TABLE orders ADD COLUMN x VARCHAR(36) DEFAULT ((uuid()))",
        "ALTER TABLE orders ALTER COLUMN note SET DEFAULT ((uuid()))",
        "ALTER TABLE orders ALTER COLUMN note SET DEFAULT (1 + 1)",
        "ALTER TABLE orders ALTER COLUMN note SET DEFAULT (cast(5 as char))",
        "ALTER TABLE orders ALTER COLUMN note SET DEFAULT (uuid() = uuid())",
        "CREATE TABLE x (id INT PRIMARY KEY, v VECTOR(3) DEFAULT ((vec_from_text('[1,2,3]'))))",
        "CREATE TABLE x (id INT PRIMARY KEY, j JSON DEFAULT ((json_array(1))))",
    ):
        assert "give the table's SHOW CREATE TABLE" in why_not_judged(sql)


def test_what_is_like_it_and_known_is_safe() -> None:
    for sql in (
        "ALTER TABLE orders ADD COLUMN x VARCHAR(9) DEFAULT _utf8mb4'a'",
        "ALTER TABLE orders ADD INDEX i ((lower(note)))",
    ):
        form = check(CheckInput(sql, "shop", tables(), feed()), nothing_registered()).form()
        assert form["verdict"] == "safe", sql


def test_foreign_keys_that_are_not_checked() -> None:
    drop = "ALTER TABLE child DROP INDEX p"
    gone = "DROP TABLE boss"
    sql = f"{gone}; SET foreign_key_checks = 0; {drop}; {gone}; SET SESSION foreign_key_checks = ON; {drop}"
    form = check(CheckInput(sql, "shop", tables(), feed()), nothing_registered()).form()
    assert [statement["verdict"] for statement in form["statements"]] == [
        "refused",
        "safe",
        "refused",
        "safe",
        "safe",
        "refused",
    ]


def test_nothing_that_a_real_tidb_accepted_is_refused() -> None:
    wrong, reported = [], 0
    for name in FILES:
        script, catalog = None, new_catalog()
        for line in recorded(name):
            if line["script"] != script:
                catalog, script = new_catalog(), line["script"]
            try:
                statement = parse(line["ddl"], LexicalMode.of_sql_mode(line["sql_mode"]), line["db"])
            except DdlError:
                continue
            refused = refusals(catalog, statement, line["db"], SqlModes.of(line["sql_mode"]))
            if line["ok"]:
                catalog = apply(catalog, statement, line["db"])
                wrong += [(line["ddl"], refused)] if refused else []
            else:
                reported += line["errno"] in [r.number for r in refused]
    assert wrong == []
    assert reported >= 11


def test_a_text_without_charset_does_not_tell_what_a_change_of_charset_is() -> None:
    bare = with_snapshots(new_catalog(), ("CREATE TABLE `t` (`id` int, `a` varchar(9), KEY `k` (`a`))",), "shop")
    sql = "ALTER TABLE t MODIFY a VARCHAR(9) CHARACTER SET utf8mb4"
    assert check(CheckInput(sql, "shop", bare, feed()), nothing_registered()).form()["verdict"] != REFUSED_VERDICT


def test_unknown_modes_are_refused() -> None:
    question = CheckRequest("ALTER TABLE orders ADD COLUMN x INT", "shop", "ANSI, NONSENSE", changefeed=feed())
    with pytest.raises(SetupError, match=r"'NONSENSE' is not one of TiDB's: ALLOW_INVALID_DATES, ANSI,"):
        run_check(question, tables(), nothing_registered(), lambda _: "")
    run_check(replace(question, sql_mode="ansi, no_zero_date,"), tables(), nothing_registered(), lambda _: "")
    sql = 'SET sql_mode = "NOPE"; SET LOCAL sql_mode = "ANSI"; ALTER TABLE orders ADD COLUMN "x" INT'
    form = check(CheckInput(sql, "shop", tables(), feed()), nothing_registered()).form()
    assert [statement["verdict"] for statement in form["statements"]] == [REFUSED_VERDICT, "safe", "safe"]
    assert [r["number"] for r in form["statements"][0]["refusals"]] == [1231]


def test_a_refused_statement_changes_nothing_and_is_never_safe() -> None:
    sql = "ALTER TABLE orders DROP COLUMN customer_id; ALTER TABLE orders ADD INDEX i (customer_id)"
    report = check(CheckInput(sql, "shop", tables(), feed()), nothing_registered())
    form = report.form()
    assert form["verdict"] == REFUSED_VERDICT
    assert "TiDB refuses it" in form["reason"]
    assert [r["number"] for r in form["refusals"]] == [8200]
    assert form["statements"][1]["verdict"] == "safe"
