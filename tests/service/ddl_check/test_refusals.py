"""What TiDB itself refuses is told with its error number, and nothing that a real TiDB accepted is called refused."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.support.dry_runs import feed, nothing_registered
from tests.support.table import check_rows
from ticdc_bridge.schemas.ddl.executor.apply import apply
from ticdc_bridge.schemas.ddl.executor.catalog import Catalog, new_catalog
from ticdc_bridge.schemas.ddl.parser.lexer import LexicalMode
from ticdc_bridge.schemas.ddl.parser.statement_parser import parse
from ticdc_bridge.schemas.model.errors import SetupError
from ticdc_bridge.service.ddl_check.check import check
from ticdc_bridge.service.ddl_check.check_input import CheckInput, with_snapshots
from ticdc_bridge.service.ddl_check.refusals.columns import SqlModes
from ticdc_bridge.service.ddl_check.refusals.statements import refusals
from ticdc_bridge.service.ddl_check.report import REFUSED
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

# ALTER TABLE orders …, and TiDB's error.
CLAUSES = (
    # names and sizes
    (f"ADD COLUMN `{LONG}` INT", 1059), (f"ADD INDEX `{LONG}` (qty)", 1059), (f"RENAME COLUMN qty TO `{LONG}`", 1059),
    (f"RENAME TO `{LONG}`", 1059), (f"RENAME INDEX n TO `{LONG}`", 1059), ("ADD COLUMN `x ` INT", 1166),
    ("RENAME TO `x `", 1103), ("ADD COLUMN x VARCHAR(70000)", 1074), ("ADD COLUMN x VARCHAR(16384)", 1074),
    ("ADD COLUMN x VARCHAR(21846) CHARSET utf8", 1074), ("ADD COLUMN x VARBINARY(65536)", 1074),
    ("ADD COLUMN x CHAR(256)", 1074), ("ADD COLUMN x BINARY(256)", 1074), ("ADD COLUMN x DECIMAL(66,2)", 1426),
    ("ADD COLUMN x DECIMAL(40,31)", 1425), ("ADD COLUMN x DECIMAL(5,6)", 1427), ("ADD COLUMN x FLOAT(3,4)", 1427),
    ("ADD COLUMN x FLOAT(54)", 1063), ("ADD COLUMN x DOUBLE(256,2)", 1439), ("ADD COLUMN x BIT(0)", 3013),
    ("ADD COLUMN x BIT(65)", 1439), ("ADD COLUMN x DATETIME(7)", 1426), ("ADD COLUMN x VECTOR(16384)", 1105),
    ("MODIFY note VARCHAR(16384)", 1074), ("MODIFY qty INT UNSIGNED COMMENT '" + "c" * 1025 + "'", 1629),
    # elements
    ("ADD COLUMN x ENUM('a','A','a')", 1291), ("ADD COLUMN x ENUM('a','A') COLLATE utf8mb4_general_ci", 1291),
    ("ADD COLUMN x SET('a','a ')", 1291), ("ADD COLUMN x SET('a,b')", 1367),
    ("ADD COLUMN x SET(" + ",".join(f"'{n}'" for n in range(65)) + ")", 1097),
    ("ADD COLUMN x ENUM('" + "e" * 256 + "')", 3505),
    # defaults
    ("ADD COLUMN x TEXT NOT NULL DEFAULT 'a'", 1101), ("ADD COLUMN x BLOB DEFAULT x'61'", 1101),
    ("ADD COLUMN x JSON DEFAULT '{}'", 1101), ("MODIFY body TEXT DEFAULT 'a'", 1101),
    ("ALTER body SET DEFAULT 'a'", 1101), ("ADD COLUMN x VECTOR(3) NOT NULL DEFAULT '[1,2,3]'", 1105),
    ("ADD COLUMN x INT DEFAULT 99999999999", 1067), ("ADD COLUMN x TINYINT DEFAULT 128", 1067),
    ("ADD COLUMN x INT UNSIGNED DEFAULT -1", 1067), ("ADD COLUMN x INT DEFAULT 'abc'", 1067),
    ("ADD COLUMN x DECIMAL(4,2) DEFAULT 100", 1067), ("ADD COLUMN x VARCHAR(2) DEFAULT 'abc'", 1067),
    ("ADD COLUMN x VARBINARY(2) DEFAULT 'abc'", 1067), ("ADD COLUMN x DATE DEFAULT '2021-02-30'", 1067),
    ("ADD COLUMN x DATE DEFAULT '0000-00-00'", 1067), ("ADD COLUMN x DATETIME DEFAULT '2021-00-01'", 1067),
    ("ADD COLUMN x TIMESTAMP DEFAULT '2040-01-01'", 1067), ("ADD COLUMN x YEAR DEFAULT 3000", 1067),
    ("ADD COLUMN x DECIMAL(3,1) DEFAULT -99.95", 1067), ("ADD COLUMN x TINYINT DEFAULT '127.5'", 1067),
    ("ADD COLUMN x DECIMAL(9) DEFAULT 1e99999", 1067), ("ADD COLUMN x ENUM('a') DEFAULT 'b'", 1067),
    ("ADD COLUMN x BIT(2) DEFAULT 9", 1067),
    ("ADD COLUMN x INT NOT NULL DEFAULT NULL", 1067), ("ALTER total SET DEFAULT NULL", 1067),
    ("ALTER qty SET DEFAULT -5", 1067), ("ADD COLUMN x INT DEFAULT CURRENT_TIMESTAMP", 1067),
    ("ADD COLUMN x DATETIME(3) DEFAULT CURRENT_TIMESTAMP", 1067),
    ("ADD COLUMN x INT ON UPDATE CURRENT_TIMESTAMP", 1294),
    ("ADD COLUMN x DATETIME(3) ON UPDATE CURRENT_TIMESTAMP", 1294),
    ("ADD COLUMN x TIMESTAMP ON UPDATE NOW(6)", 1294),
    ("ADD COLUMN x VARCHAR(5) CHARSET gbk DEFAULT '😀'", 1067),
    ("ADD COLUMN x CHAR(5) CHARSET ascii DEFAULT 'é'", 1067),
    ("ADD COLUMN x VARCHAR(5) CHARSET utf8 DEFAULT '😀'", 1067), ("ADD COLUMN x CHAR(36) DEFAULT (UUID())", 1674),
    ("ADD COLUMN x DOUBLE DEFAULT (RAND())", 1674), ("ADD COLUMN x BIGINT DEFAULT (NEXTVAL(s))", 8230),
    ("ADD COLUMN x VARCHAR(50) DEFAULT (CONCAT('a','b'))", 3770),
    # character sets
    ("ADD COLUMN x CHAR(5) CHARSET koi8r", 1115), ("ADD COLUMN x CHAR(5) COLLATE utf8mb4_german2_ci", 1273),
    ("ADD COLUMN x CHAR(5) CHARSET latin1 COLLATE utf8mb4_bin", 1253), ("CONVERT TO CHARACTER SET latin1", 8200),
    ("CHARSET latin1", 8200), ("CONVERT TO CHARACTER SET utf8", 8200), ("MODIFY note VARBINARY(200)", 8200),
    ("MODIFY note VARCHAR(200) CHARSET latin1", 8200), ("MODIFY body BLOB", 8200),
    ("MODIFY note VARCHAR(200) COLLATE utf8mb4_general_ci", 8200),
    ("CONVERT TO CHARACTER SET utf8mb4 COLLATE utf8mb4_general_ci", 8200),
    # changes of a column
    ("MODIFY id BIGINT UNSIGNED NOT NULL", 8200), ("MODIFY id INT NOT NULL", 8200), ("MODIFY id VARCHAR(20)", 8200),
    ("MODIFY note BIT(8)", 8200), ("MODIFY total ENUM('a')", 8200), ("MODIFY total DATETIME", 8200),
    ("MODIFY status TIME", 8200), ("MODIFY doc VECTOR(3)", 8200), ("MODIFY qty INT UNSIGNED AUTO_INCREMENT", 8200),
    ("MODIFY qty INT AS (total) VIRTUAL", 3106), ("MODIFY g INT", 3106), ("MODIFY qty INT UNSIGNED UNIQUE", 8200),
    ("CHANGE qty q INT UNSIGNED", 3108), ("RENAME COLUMN qty TO q", 3108), ("MODIFY nope INT", 1054),
    ("CHANGE note total VARCHAR(200)", 1060), ("RENAME COLUMN nope TO q", 1054), ("ALTER nope SET DEFAULT 1", 1054),
    # columns that come and go
    ("ADD COLUMN id INT", 1060), ("ADD COLUMN (a INT, A INT)", 1060), ("ADD COLUMN x INT AFTER nope", 1054),
    ("ADD COLUMN x INT AUTO_INCREMENT", 8200), ("ADD COLUMN x INT UNIQUE", 8200),
    ("ADD COLUMN x INT PRIMARY KEY", 8200),
    ("ADD COLUMN x INT AS (qty+1) STORED NOT NULL", 3106), ("ADD COLUMN x INT AS (nope+1)", 1054),
    ("ADD COLUMN x INT AS (x+1)", 3107), ("ADD COLUMN x INT AS (qty) DEFAULT 1", 1221),
    ("ADD COLUMN x DOUBLE AS (RAND())", 3102), ("ADD COLUMN x DATETIME AS (NOW())", 3102),
    ("DROP COLUMN customer_id", 8200), ("DROP COLUMN id", 8200), ("DROP COLUMN qty", 3108), ("DROP COLUMN nope", 1091),
    # keys
    ("ADD INDEX i (nope)", 1072), ("ADD COLUMN x INT, ADD INDEX i (x)", 1072), ("ADD INDEX n (qty)", 1061),
    ("ADD INDEX i (qty, qty)", 1060), ("ADD INDEX i (body)", 1170), ("ADD INDEX i (doc)", 3152),
    ("ADD INDEX i (qty(3))", 1089), ("ADD INDEX i (note(201))", 1089), ("ADD INDEX i (note(0))", 1391),
    ("ADD INDEX i (body(800))", 1071), ("ADD PRIMARY KEY (qty)", 1068), ("DROP INDEX nope", 1091),
    ("RENAME INDEX nope TO x", 1176), ("RENAME INDEX n TO u", 1061), ("ADD UNIQUE `primary` (qty)", 1280),
    ("PARTITION BY HASH(customer_id) PARTITIONS 4", 8264),
    ("PARTITION BY KEY (created) PARTITIONS 2", 8264),
    ("ADD CONSTRAINT fk FOREIGN KEY (customer_id) REFERENCES nope(id)", 1824),
    ("ADD FOREIGN KEY (nope) REFERENCES parent(id)", 1072), ("ADD FOREIGN KEY (id) REFERENCES parent(nope)", 3734),
    ("ADD FOREIGN KEY (customer_id) REFERENCES parent(id)", 3780),
    ("ADD FOREIGN KEY (id) REFERENCES parent(id, code)", 1239),
    ("ADD FOREIGN KEY (customer_id) REFERENCES parent(code)", 1822),
    # the table
    ("LAST PARTITION LESS THAN (9)", 1505),
    ("RENAME TO parent", 1050), ("ENGINE = Falcon", 1286), ("EXCHANGE PARTITION p WITH TABLE parent", 1736),
    ("ADD COLUMN x INT, RENAME TO o2", 8200), ("ADD COLUMN x INT, TRUNCATE PARTITION p", 8200),
    ("DROP COLUMN note, MODIFY note INT", 8200),
    # what one statement touches twice, and clauses that stand alone
    ("RENAME COLUMN qty TO q, ADD COLUMN x INT AFTER qty", 8200), ("RENAME COLUMN note TO x, ADD INDEX i (note)", 8200),
    ("ALTER ratio SET DEFAULT 3, RENAME COLUMN ratio TO r", 8200),
    ("CHANGE body b LONGTEXT, ADD INDEX i (body(5))", 8200),
    ("MODIFY ratio DOUBLE, ADD INDEX i (ratio)", 8200), ("ALTER ratio SET DEFAULT 3, ADD INDEX i (ratio)", 8200),
    ("MODIFY ratio DOUBLE, ADD COLUMN x INT AS (ratio + 1)", 8200), ("ADD INDEX i (ratio), DROP COLUMN ratio", 8200),
    ("MODIFY ratio DOUBLE, ADD INDEX i ((ratio + 1))", 8200),
    ("DROP COLUMN note, MODIFY ratio DOUBLE AFTER note", 8200),
    ("RENAME COLUMN ratio TO body, RENAME COLUMN body TO ratio", 8200),
    ("ADD INDEX z (body(5)), ADD INDEX Z (tags)", 8200),
    ("RENAME INDEX n TO m, ALTER INDEX n INVISIBLE", 8200), ("DROP INDEX n, ALTER INDEX n INVISIBLE", 8200),
    ("ALTER INDEX n VISIBLE, ALTER INDEX n INVISIBLE", 8200), ("RENAME INDEX n TO m, DROP INDEX n", 8200),
    ("RENAME TO o2, ENABLE KEYS", 8200), ("AUTO_ID_CACHE = 9, ADD COLUMN x INT", 8200),
    ("CACHE, DROP COLUMN note", 8200),
    ("TTL = created + INTERVAL 1 DAY, ADD COLUMN x INT", 8200), ("ATTRIBUTES = 'a', ADD COLUMN x INT", 8200),
    ("PLACEMENT POLICY = DEFAULT, ADD COLUMN x INT", 8200),
    ("ADD COLUMN x INT, EXCHANGE PARTITION p WITH TABLE one", 8200),
    # columns that expressions name, and places
    ("MODIFY qty BIGINT UNSIGNED", 3106), ("MODIFY qty INT UNSIGNED COMMENT 'x'", 3106),
    ("MODIFY g TINYINT AS (qty + 1)", 8200), ("MODIFY note VARCHAR(200) AFTER note", 1054),
    ("MODIFY note VARCHAR(200) AFTER nope", 1054), ("CHANGE note x VARCHAR(200) AFTER x", 1054),
)  # fmt: skip
STATEMENTS = (
    ("ALTER TABLE one DROP COLUMN c", 1090), ("ALTER TABLE auto MODIFY id BIGINT", 8200),
    ("ALTER TABLE auto ADD COLUMN x BIGINT AS (id + 1)", 3109), ("CREATE TABLE orders (a INT)", 1050),
    ("CREATE TABLE x (a INT, b INT, A INT)", 1060), ("CREATE TABLE x (a INT AUTO_INCREMENT, b INT)", 1075),
    ("CREATE TABLE x (a INT AUTO_INCREMENT KEY, b INT AUTO_INCREMENT UNIQUE)", 1075),
    ("CREATE TABLE x (a INT PRIMARY KEY, b INT, PRIMARY KEY (b))", 1068), ("CREATE TABLE x (a TEXT PRIMARY KEY)", 1170),
    ("CREATE TABLE x (a INT, b INT AS (a) VIRTUAL PRIMARY KEY)", 3106),
    ("CREATE TABLE x (a INT AS (b + 1), b INT AS (1))", 3107),
    ("CREATE TABLE x (a INT DEFAULT NULL PRIMARY KEY)", 1067),
    ("CREATE TABLE x (id INT AUTO_RANDOM PRIMARY KEY)", 8216), ("CREATE TABLE x (a INT) ENGINE=Falcon", 1286),
    ("CREATE TABLE x (a INT, UNIQUE (a), b INT) PARTITION BY HASH (b)", 8264),
    ("CREATE TABLE x (a INT, KEY (a, b))", 1072), ("CREATE TABLE x (a VARCHAR(800), KEY (a))", 1071),
    ("CREATE TABLE x (a INT, FOREIGN KEY (a) REFERENCES parent(nope))", 3734),
    ("CREATE TABLE x (a INT) CHARSET=utf8mb4 COLLATE=latin1_bin", 1253), (f"CREATE TABLE `{LONG}` (a INT)", 1059),
    ("CREATE TABLE x (" + ",".join(f"c{n} INT" for n in range(1018)) + ")", 1117),
    ("CREATE TABLE x (a VARCHAR(5) COMMENT 'c') COMMENT '" + "c" * 2049 + "'", 1628),
    ("CREATE DATABASE shop", 1007), (f"CREATE DATABASE `{LONG}`", 1059), ("CREATE DATABASE d CHARSET koi8r", 1115),
    ("RENAME TABLE orders TO parent", 1050), ("CREATE VIEW orders AS SELECT 1", 1050),
    ("CREATE UNIQUE INDEX n ON orders (qty)", 1061), ("CREATE INDEX i ON orders (doc)", 3152),
    ("DROP INDEX nope ON orders", 1091), ("ALTER DATABASE shop CHARSET koi8r", 1115),
    ("ALTER DATABASE shop CHARSET utf8mb4 COLLATE latin1_bin", 1253),
    ("ALTER TABLE orders RENAME COLUMN note TO _tidb_rowid", 1166),
    # values of partitions, as far as they are whole numbers
    ("CREATE TABLE x (a INT) PARTITION BY RANGE (a) (PARTITION p VALUES LESS THAN (9), PARTITION q VALUES LESS THAN "
     "(-9))", 1493),
    ("CREATE TABLE x (a INT) PARTITION BY RANGE COLUMNS (a) (PARTITION p VALUES LESS THAN (9), PARTITION q VALUES LESS "
     "THAN (9))", 1493),
    ("CREATE TABLE x (a INT) PARTITION BY RANGE (a) (PARTITION p VALUES LESS THAN MAXVALUE, PARTITION q VALUES LESS "
     "THAN (9))", 1481),
    ("CREATE TABLE x (a INT) PARTITION BY LIST (a) (PARTITION p VALUES IN (1, 2), PARTITION q VALUES IN (3, 2))", 1495),
    ("ALTER TABLE one PARTITION BY RANGE (c) (PARTITION p VALUES LESS THAN (9), PARTITION q VALUES LESS THAN (8))",
     1493),
    # values of partitions by their type, and against those that are there
    ("CREATE TABLE x (a INT) PARTITION BY LIST (a) (PARTITION p VALUES IN ('a'))", 1697),
    ("CREATE TABLE x (a INT) PARTITION BY RANGE (a) (PARTITION p VALUES LESS THAN (1.5))", 1697),
    ("CREATE TABLE x (a INT) PARTITION BY RANGE (a) (PARTITION p VALUES LESS THAN (NULL))", 1566),
    ("CREATE TABLE x (a INT UNSIGNED) PARTITION BY RANGE (a) (PARTITION p VALUES LESS THAN (-1))", 1563),
    ("CREATE TABLE x (a INT) PARTITION BY RANGE COLUMNS (a) (PARTITION p VALUES LESS THAN ('1'))", 1654),
    ("CREATE TABLE x (a CHAR(3)) PARTITION BY LIST COLUMNS (a) (PARTITION p VALUES IN (1))", 1654),
    ("ALTER TABLE c ADD PARTITION (PARTITION p VALUES LESS THAN (20240202))", 1654),
    ("CREATE TABLE x (a INT) PARTITION BY LIST (a) (PARTITION p VALUES IN (NULL, 1), PARTITION q VALUES IN (NULL))",
     1495),
    ("CREATE TABLE x (a INT, b INT) PARTITION BY LIST COLUMNS (a, A) (PARTITION p VALUES IN ((1, 2)))", 1652),
    ("CREATE TABLE x (a INT) PARTITION BY KEY (a, a)", 1652),
    ("ALTER TABLE r EXCHANGE PARTITION p0 WITH TABLE nope", 1146),
    ("ALTER TABLE r ADD PARTITION (PARTITION p VALUES LESS THAN (25))", 1493),
    ("ALTER TABLE r ADD PARTITION (PARTITION p VALUES LESS THAN ('x'))", 1697),
    ("ALTER TABLE m ADD PARTITION (PARTITION p VALUES LESS THAN (25))", 1481),
    ("ALTER TABLE l ADD PARTITION (PARTITION p VALUES IN (4, 2))", 1495),
    ("ALTER TABLE r REORGANIZE PARTITION p0, p2 INTO (PARTITION p VALUES LESS THAN (30))", 8200),
    ("ALTER TABLE l REORGANIZE PARTITION p0 INTO (PARTITION p VALUES IN (1, 3))", 1495),
    ("ALTER TABLE r ADD PARTITION PARTITIONS 2", 1492), ("ALTER TABLE h COALESCE PARTITION 4", 1508),
    ("ALTER TABLE h COALESCE PARTITION 0", 1515),
    ("ALTER TABLE h TRUNCATE PARTITION p4", 1735), ("ALTER TABLE h FIRST PARTITION LESS THAN (9)", 8200),
    ("ALTER TABLE l LAST PARTITION LESS THAN (9)", 1492), ("ALTER TABLE m LAST PARTITION LESS THAN (90)", 8200),
    ("ALTER TABLE r CACHE", 8242), ("CREATE TABLE x (a INT) PARTITION BY HASH (b)", 1054),
    ("CREATE TABLE x (a VARCHAR(9)) PARTITION BY HASH (LENGTH(a))", 1564),
    ("CREATE TABLE x (a INT) PARTITION BY RANGE (MOD(IFNULL(a, 1), 3)) (PARTITION p VALUES LESS THAN (1))", 1564),
    ("ALTER TABLE pair PARTITION BY LIST (CAST(a AS SIGNED)) (PARTITION p VALUES IN (1))", 1564),
    ("CREATE TABLE x (a INT) PARTITION BY HASH (5) PARTITIONS 2", 1486),
    ("CREATE TABLE x (t TIMESTAMP) PARTITION BY RANGE (YEAR(t)) (PARTITION p VALUES LESS THAN (2000))", 1486),
    ("CREATE TABLE x (a INT) PARTITION BY LIST (TO_DAYS(a)) (PARTITION p VALUES IN (1))", 1486),
    ("CREATE TABLE x (d DATE) PARTITION BY HASH (HOUR(d))", 1486),
    ("CREATE TABLE x (d DATETIME) PARTITION BY RANGE (UNIX_TIMESTAMP(d)) (PARTITION p VALUES LESS THAN (1))", 1486),
    ("CREATE OR REPLACE MASKING POLICY IF NOT EXISTS p ON orders (note) AS note", 1221),
    ("CREATE OR REPLACE PLACEMENT POLICY IF NOT EXISTS p FOLLOWERS = 2", 1221),
    ("ALTER DATABASE nope CHARSET utf8mb4", 1049),
    ("ALTER DATABASE shop CHARSET utf9", 1115),
    ("CREATE TABLE x LIKE nope", 1146), (f"CREATE INDEX i ON orders (qty) COMMENT '{'c' * 1025}'", 1688),
    ("ALTER TABLE orders ADD COLUMN x DATETIME AS (created) ON UPDATE NOW()", 1221),
    # what TiDB's own integration tests show
    ("CREATE TABLE x (a INT NOT NULL, PRIMARY KEY (a) INVISIBLE)", 3522),
    ("ALTER TABLE k ALTER INDEX u INVISIBLE", 3522),
    ("ALTER TABLE one ADD PRIMARY KEY ((c + 1))", 3756), ("ALTER TABLE orders COMMENT '" + "c" * 2049 + "'", 1628),
    ("ALTER TABLE orders ADD INDEX i ((doc->'$.a'))", 3753), ("CREATE INDEX i ON orders ((doc->>'$.a'))", 3757),
    ("CREATE INDEX i ON orders ((JSON_SET(doc, '$.a', 1)))", 3753), ("ALTER TABLE auto ADD INDEX i ((id + 1))", 3754),
    ("CREATE TABLE x (a CHAR(0), KEY (a))", 1167), ("CREATE TABLE x (a DOUBLE(10))", 1149),
    ("CREATE TABLE x (a VARCHAR(3068) CHARSET ascii, b BIT(33), KEY (a, b))", 1071),
    ("CREATE TABLE x (a BLOB, b DECIMAL(17), KEY (a(3065), b))", 1071),
    ("ALTER TABLE pair DROP COLUMN a, DROP COLUMN b", 1090),
    ("ALTER TABLE orders ADD COLUMN x INT DEFAULT (qty)", 1105),
    ("ALTER TABLE child ADD CONSTRAINT fk_1 FOREIGN KEY (p) REFERENCES parent(id)", 1826),
    ("ALTER TABLE child DROP INDEX p", 1553), ("DROP TABLE boss", 3730),
    ("CREATE TABLE x (a BIGINT AS (1) VIRTUAL, FOREIGN KEY (a) REFERENCES parent(id))", 3733),
    ("CREATE TABLE x (a BIGINT AS (1) STORED, FOREIGN KEY (a) REFERENCES parent(id) ON UPDATE CASCADE)", 3104),
    ("CREATE TEMPORARY TABLE x (a INT) PARTITION BY HASH (a)", 1562),
    ("CREATE TEMPORARY TABLE x (a BIGINT, FOREIGN KEY (a) REFERENCES parent(id))", 1215),
    ("CREATE TEMPORARY TABLE x (a DATETIME) TTL = a + INTERVAL 1 DAY", 8151),
    ("CREATE TEMPORARY TABLE x (a INT) SHARD_ROW_ID_BITS = 4", 8006),
    ("CREATE TABLE x (a INT) TTL_ENABLE = 'ON'", 8150),
    ("CREATE TABLE x (a INT) UNION = (one)", 8232), ("CREATE TABLE x (a INT) INSERT_METHOD = LAST", 8233),
    ("CREATE TABLE x (id FLOAT PRIMARY KEY CLUSTERED, t TIMESTAMP) TTL = t + INTERVAL 1 DAY", 8153),
    ("CREATE TABLE x (a INT NOT NULL, UNIQUE (a) INVISIBLE)", 3522),
    ("CREATE TABLE x (a INT KEY CLUSTERED) SHARD_ROW_ID_BITS = 4", 8200),
    ("ALTER TABLE later MODIFY b INT AS (c + 1)", 3107), ("ALTER TABLE later MODIFY c INT AS (b + 1) FIRST", 3107),
    ("CREATE TABLE x (j JSON, g JSON AS (CAST(j->'$[*]' AS UNSIGNED ARRAY)))", 1235),
    *((f"ALTER TABLE orders ADD INDEX i ({part})", number) for part, number in (
        ("(1 AND CAST(doc AS SIGNED ARRAY))", 1235), ("(CAST(CAST(doc AS SIGNED ARRAY) AS SIGNED ARRAY))", 1235),
        ("(CAST(doc AS YEAR ARRAY))", 1235), ("(CAST(doc AS CHAR ARRAY))", 1235), ("(CAST(doc AS FLOAT ARRAY))", 1235),
        ("(CAST(doc AS CHAR(9) CHARSET gbk ARRAY))", 1235), ("(CAST(doc->>'$.a' AS SIGNED ARRAY))", 3146),
        ("(CAST(doc AS SIGNED ARRAY)), (CAST(doc AS SIGNED ARRAY))", 1235),
    )),
    ("CREATE TABLE x (a CHAR(9) DEFAULT NEXT VALUE FOR s)", 8228),
    ("ALTER TABLE wide CONVERT TO CHARACTER SET utf8mb4", 1071),
    ("CREATE TABLE x (a BIGINT PRIMARY KEY AUTO_RANDOM(5, 31))", 8216),
    ("ALTER TABLE c ADD PARTITION (PARTITION p VALUES LESS THAN ('2023-02-02'))", 1493),
    ("CREATE VIEW x AS SELECT @@sql_mode", 1351), ("CREATE OR REPLACE VIEW one AS SELECT 1", 1347),
    ("ALTER TABLE text_child MODIFY p VARCHAR(5)", 1832), ("ALTER TABLE text_boss MODIFY id VARCHAR(5) NOT NULL", 1833),
    ("DROP DATABASE nope", 1008), ("CREATE TABLE x (a JSON) PARTITION BY KEY (a)", 1659),
    ("CREATE TABLE x (a INT) PARTITION BY RANGE (a) (PARTITION `p ` VALUES LESS THAN (1))", 1567),
)  # fmt: skip


def tables() -> Catalog:
    return with_snapshots(new_catalog(), (*ORDERS, *SPREAD), "shop")


def numbers(sql: str, sql_mode: str | None = None) -> list[int]:
    return [r.number for r in refusals(tables(), parse(sql, db="shop"), "shop", SqlModes.of(sql_mode))]


def test_statements_that_tidb_refuses() -> None:
    def check_row(row: tuple[str, int]) -> None:
        sql, number = row
        assert number in numbers(sql)

    check_rows([*((f"ALTER TABLE orders {clause}", n) for clause, n in CLAUSES), *STATEMENTS], check_row)


# sql_mode '' takes what strict mode refuses.
LENIENT = ("x TEXT DEFAULT ''", "x VARCHAR(2) DEFAULT 'abc'", "x VARCHAR(70000)", "x DATE DEFAULT '0000-00-00'")


def test_the_sql_mode_decides() -> None:
    def check_row(definition: str) -> None:
        sql = f"ALTER TABLE orders ADD COLUMN {definition}"
        assert numbers(sql) != []
        assert numbers(sql, "ANSI") == []
        both = f"{sql}; SET sql_mode = 'ANSI'; {sql}"
        form = check(CheckInput(both, "shop", tables(), feed()), nothing_registered()).form()
        assert form["statements"][0]["verdict"] == REFUSED
        assert form["statements"][2]["verdict"] != REFUSED

    check_rows(LENIENT, check_row)


EXCHANGED = "id INT PRIMARY KEY, a INT, b VARCHAR(20) CHARSET utf8mb4, KEY k (a)"
EXCHANGING = f"CREATE TABLE p ({EXCHANGED}) PARTITION BY RANGE (id) (PARTITION p0 VALUES LESS THAN (10))"
# What the table that takes the partition's place has otherwise, and what TiDB says of it.
EXCHANGES: tuple[tuple[str, str, list[int]], ...] = (
    ("", "", []), ("KEY k", "KEY K", []), ("a INT", "A INT(5)", []), ("PRIMARY KEY", "PRIMARY KEY NONCLUSTERED", []),
    ("KEY k (a)", "KEY k (b)", [1736]), ("KEY k", "KEY other", [1736]), ("KEY k", "UNIQUE k", [1736]),
    (", KEY k (a)", "", [1736]), ("KEY k (a)", "KEY k (a), KEY more (b)", [1736]), (" PRIMARY KEY", "", [1736]),
    ("utf8mb4", "latin1", [1736]), ("utf8mb4", "utf8mb4 COLLATE utf8mb4_general_ci", [1736]), ("(20)", "(21)", [1736]),
    ("a INT", "a INT NOT NULL", [1736]), ("a INT", "a INT UNSIGNED", [1736]),
    ("KEY k (a)", "KEY k (a), FOREIGN KEY k (a) REFERENCES parent (id)", [1740]),
)  # fmt: skip


def test_exchange_partition_compares_the_tables() -> None:
    def check_row(row: tuple[str, str, list[int]]) -> None:
        catalog = tables()
        for sql in (EXCHANGING, f"CREATE TABLE x ({EXCHANGED.replace(row[0], row[1]) if row[0] else EXCHANGED})"):
            catalog = apply(catalog, parse(sql, LexicalMode.of_sql_mode(), "shop"), "shop")
        swap = parse("ALTER TABLE p EXCHANGE PARTITION p0 WITH TABLE x", LexicalMode.of_sql_mode(), "shop")
        assert [r.number for r in refusals(catalog, swap, "shop", SqlModes())] == row[2]

    check_rows(EXCHANGES, check_row)


# Defaults that are calls of functions: what CREATE TABLE takes, and the errors of what it does not.
CALLS: tuple[tuple[str, int], ...] = (
    ("(UUID())", 0), ("((RAND()))", 0), ("(UUID_TO_BIN(UUID()))", 0), ("(JSON_QUOTE(CONCAT('a', 'b')))", 0),
    ("(REPLACE(CONVERT(UPPER(UUID()) USING UTF8MB4), '-', ''))", 0), ("(REPLACE(UPPER(UUID()), '-', ''))", 0),
    ("(DATE_FORMAT(NOW(), '%Y-%m-%d %H.%i.%s'))", 0), ("(UPPER(SUBSTRING_INDEX(USER(), '@', 1)))", 0),
    ("(STR_TO_DATE('1980-01-01', '%Y-%m-%d'))", 0), ("(1)", 0), ("(-1)", 0), ("(CURRENT_DATE)", 0),
    ("(UPPER('a'))", 3770), ("(UPPER(UUID()))", 3770), ("(REPLACE('a', 'b', 'c'))", 3770), ("(USER())", 3770),
    ("(DATE_FORMAT(NOW(), '%Y'))", 3770), ("(DATE_FORMAT(CURRENT_TIMESTAMP, '%Y-%m'))", 3770),
    ("(LOWER(UUID()))", 3770),
    ("(STR_TO_DATE(USER(), '%Y'))", 3770), ("(UPPER(SUBSTRING_INDEX(USER(), '.', 1)))", 3770),
    ("(1 + 1)", 1064), ("(a + 1)", 1064), ("(RAND() + RAND())", 1064), ("(NOT RAND())", 1064), ("(a)", 1105),
)  # fmt: skip


def test_functions_as_defaults() -> None:
    def check_row(row: tuple[str, int]) -> None:
        assert numbers(f"CREATE TABLE x (a INT, b VARCHAR(99) DEFAULT {row[0]})") == ([row[1]] if row[1] else [])

    check_rows(CALLS, check_row)


def test_a_text_without_charset_does_not_tell_what_a_change_of_charset_is() -> None:
    bare = with_snapshots(new_catalog(), ("CREATE TABLE `t` (`id` int, `a` varchar(9), KEY `k` (`a`))",), "shop")
    sql = "ALTER TABLE t MODIFY a VARCHAR(9) CHARACTER SET utf8mb4"
    assert check(CheckInput(sql, "shop", bare, feed()), nothing_registered()).form()["verdict"] != REFUSED


def test_unknown_modes_are_refused() -> None:
    question = CheckRequest("ALTER TABLE orders ADD COLUMN x INT", "shop", "ANSI, NONSENSE", changefeed=feed())
    with pytest.raises(SetupError, match=r"'NONSENSE' is none of TiDB's: ALLOW_INVALID_DATES, ANSI,"):
        run_check(question, tables(), nothing_registered(), lambda _: "")
    run_check(replace(question, sql_mode="ansi, no_zero_date,"), tables(), nothing_registered(), lambda _: "")
    sql = 'SET sql_mode = "NOPE"; SET LOCAL sql_mode = "ANSI"; ALTER TABLE orders ADD COLUMN "x" INT'
    form = check(CheckInput(sql, "shop", tables(), feed()), nothing_registered()).form()
    assert [one["verdict"] for one in form["statements"]] == [REFUSED, "safe", "safe"]
    assert [r["number"] for r in form["statements"][0]["refusals"]] == [1231]


def test_a_refused_statement_changes_nothing_and_is_never_safe() -> None:
    sql = "ALTER TABLE orders DROP COLUMN customer_id; ALTER TABLE orders ADD INDEX i (customer_id)"
    report = check(CheckInput(sql, "shop", tables(), feed()), nothing_registered())
    form = report.form()
    assert form["verdict"] == REFUSED
    assert "TiDB refuses it" in form["reason"]
    assert [r["number"] for r in form["refusals"]] == [8200]
    assert form["statements"][1]["verdict"] == "safe"
