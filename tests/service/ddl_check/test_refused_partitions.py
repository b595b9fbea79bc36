"""Partitions, tables with AFFINITY and foreign keys of a table to itself, as TiDB's own tests answer them."""

from __future__ import annotations

from tests.support.table import check_rows
from ticdc_bridge.schemas.ddl.executor.apply import apply
from ticdc_bridge.schemas.ddl.executor.catalog import Catalog, new_catalog
from ticdc_bridge.schemas.ddl.parser.lexer import LexicalMode
from ticdc_bridge.schemas.ddl.parser.statement_parser import parse
from ticdc_bridge.schemas.model.errors import DdlError
from ticdc_bridge.service.ddl_check.refusals.columns import SqlModes
from ticdc_bridge.service.ddl_check.refusals.statements import refusals

BY_TENS = "PARTITION BY RANGE (a) INTERVAL (10)"
FROM_0_TO = "FIRST PARTITION LESS THAN (0) LAST PARTITION LESS THAN ({})"
BY_MONTHS = (
    "PARTITION BY RANGE COLUMNS (d) INTERVAL (1 {}) FIRST PARTITION LESS THAN ('2022-01-31') LAST PARTITION LESS THAN "
    "('{}')"
)
TABLES = (
    f"CREATE TABLE tens (a INT) {BY_TENS} FIRST PARTITION LESS THAN (10) LAST PARTITION LESS THAN (30)",
    f"CREATE TABLE months (d DATE) {BY_MONTHS.format('MONTH', '2022-05-31')}",
    "CREATE TABLE r (a INT) PARTITION BY RANGE (a) (PARTITION p0 VALUES LESS THAN (10), PARTITION p1 VALUES LESS THAN "
    "(20), PARTITION p2 VALUES LESS THAN (30))",
    "CREATE TABLE pair (d DATE, b CHAR(3)) PARTITION BY RANGE COLUMNS (d, b) (PARTITION p0 VALUES LESS THAN "
    "('2020-05-05', 'gg'), PARTITION p1 VALUES LESS THAN ('2022-05-05', 'gg'), PARTITION pm VALUES LESS THAN "
    "(MAXVALUE, MAXVALUE))",
    "CREATE TABLE l (a INT) PARTITION BY LIST (a) (PARTITION p0 VALUES IN (1, NULL), PARTITION p1 VALUES IN (2))",
    "CREATE TABLE rest (a INT) PARTITION BY LIST (a) (PARTITION p0 VALUES IN (1), PARTITION pd VALUES IN (2, DEFAULT))",
    "CREATE TABLE bare (a INT) PARTITION BY LIST (a) (PARTITION p0 VALUES IN (1), PARTITION pd DEFAULT)",
    "CREATE TABLE two (a INT, b CHAR(3)) PARTITION BY LIST COLUMNS (a, b) (PARTITION p0 VALUES IN ((1, 'a'), (5, "
    "NULL)))",
    "CREATE TABLE bin (b CHAR(3)) PARTITION BY RANGE COLUMNS (b) (PARTITION p0 VALUES LESS THAN ('Z'))",
    "CREATE TABLE ci (b CHAR(3) COLLATE utf8mb4_general_ci) PARTITION BY RANGE COLUMNS (b) (PARTITION p0 VALUES LESS "
    "THAN ('Z'))",
    "CREATE TABLE near (a INT) AFFINITY = 'partition' PARTITION BY RANGE (a) (PARTITION p0 VALUES LESS THAN (10), "
    "PARTITION p1 VALUES LESS THAN (20))",
    "CREATE TABLE whole (a INT) AFFINITY 'table'",
    "CREATE TABLE plain (a INT)",
    "CREATE TABLE like_spread (a VARCHAR(9), b INT)",
    "CREATE TABLE hidden (a INT NOT NULL, b INT NOT NULL, UNIQUE u (a), UNIQUE v (b) INVISIBLE)",
    "CREATE TABLE open_one (a INT, UNIQUE u (a) INVISIBLE)",
    "CREATE TABLE must (a INT NOT NULL)",
    "CREATE TABLE keyed_too (a INT NOT NULL, b INT, UNIQUE (a) INVISIBLE, PRIMARY KEY (b) NONCLUSTERED)",
    "CREATE TABLE counted (a INT AUTO_INCREMENT PRIMARY KEY, b INT, g INT AS (b + 1))",
    "CREATE TABLE h (a INT, s VARCHAR(9)) PARTITION BY HASH (a) PARTITIONS 4",
    "CREATE TABLE named (a INT) PARTITION BY HASH (a) (PARTITION p0, PARTITION p2)",
    "CREATE TABLE spread (a VARCHAR(9), b INT) PARTITION BY KEY (a)",
    "CREATE TABLE keyed (a INT, b INT, UNIQUE u (a), UNIQUE v (b))",
    "CREATE GLOBAL TEMPORARY TABLE temp (a INT, d DATE) ON COMMIT DELETE ROWS",
    "CREATE VIEW v AS SELECT a FROM plain",
    "CREATE TABLE auto (a INT NOT NULL AUTO_INCREMENT PRIMARY KEY) PARTITION BY HASH (a)",
    "CREATE TABLE manual (a INT NOT NULL PRIMARY KEY)",
    "CREATE TABLE kept (a INT) PLACEMENT POLICY p PARTITION BY HASH (a) (PARTITION p0, PARTITION p1 "
    "PLACEMENT POLICY q)",
    "CREATE TABLE kept_p (a INT) PLACEMENT POLICY p",
    "CREATE TABLE sums (a INT, b INT, c INT, KEY i ((a + b))) PARTITION BY HASH (a)",
    "CREATE TABLE other_sum (a INT, b INT, c INT, KEY i ((a + c)))",
    "CREATE TABLE like_sum (a INT, b INT, c INT, KEY i ((a + b)))",
    "CREATE TABLE tree (id INT PRIMARY KEY, up INT, code INT, KEY (code), CONSTRAINT fk FOREIGN KEY (up) REFERENCES "
    "tree (code))",
)  # fmt: skip
NEAR = ("ALTER TABLE near AFFINITY = ''", "ALTER TABLE whole AFFINITY = 'none'")

# Statement, and TiDB's error; 0 where it takes it.
ROWS: tuple[tuple[str, int], ...] = (
    # NULL and DEFAULT in lists
    ("ALTER TABLE l ADD PARTITION (PARTITION p VALUES IN (NULL, 6))", 1495),
    ("ALTER TABLE l ADD PARTITION (PARTITION p VALUES IN (NULL))", 1495),
    ("ALTER TABLE two ADD PARTITION (PARTITION p VALUES IN ((5, NULL)))", 1495),
    ("ALTER TABLE two ADD PARTITION (PARTITION p VALUES IN ((6, NULL), DEFAULT))", 0),
    ("ALTER TABLE l REORGANIZE PARTITION p0 INTO (PARTITION p VALUES IN (1), PARTITION q VALUES IN (NULL))", 0),
    ("ALTER TABLE l ADD PARTITION (PARTITION p VALUES IN (DEFAULT, 6))", 0),
    ("ALTER TABLE l ADD PARTITION (PARTITION p DEFAULT)", 0),
    ("ALTER TABLE rest ADD PARTITION (PARTITION p VALUES IN (10))", 8200),
    ("ALTER TABLE rest ADD PARTITION (PARTITION p VALUES IN (10, DEFAULT))", 8200),
    ("ALTER TABLE bare ADD PARTITION (PARTITION p VALUES IN (10))", 8200),
    ("ALTER TABLE rest REORGANIZE PARTITION pd INTO (PARTITION pd VALUES IN (2), PARTITION q DEFAULT)", 0),
    ("CREATE TABLE x (a INT) PARTITION BY LIST (a) (PARTITION p DEFAULT, PARTITION q VALUES IN (DEFAULT))", 1495),
    ("ALTER TABLE two ADD PARTITION (PARTITION p VALUES IN ((10, DEFAULT)))", 1064),
    ("ALTER TABLE two ADD PARTITION (PARTITION p VALUES IN ((9, 'c'), (DEFAULT)))", 1064),
    ("CREATE TABLE x (a INT) PARTITION BY RANGE (a) (PARTITION p DEFAULT)", 1480),
    # the order of texts is that of their collation
    ("ALTER TABLE bin ADD PARTITION (PARTITION p VALUES LESS THAN ('A'))", 1493),
    ("ALTER TABLE bin ADD PARTITION (PARTITION p VALUES LESS THAN ('a'))", 0),
    ("ALTER TABLE ci ADD PARTITION (PARTITION p VALUES LESS THAN ('a'))", 1493),
    ("ALTER TABLE ci ADD PARTITION (PARTITION p VALUES LESS THAN ('zz'))", 0),
    ("CREATE TABLE x (a CHAR(3) COLLATE utf8mb4_general_ci) PARTITION BY LIST COLUMNS (a) (PARTITION p VALUES IN ('a', "
     "'A'))", 1495),
    ("CREATE TABLE x (a CHAR(3)) PARTITION BY LIST COLUMNS (a) (PARTITION p VALUES IN ('a', 'A'))", 0),
    # only the last partitions may end elsewhere than before
    ("ALTER TABLE r REORGANIZE PARTITION p0, p1 INTO (PARTITION p VALUES LESS THAN (21))", 1493),
    ("ALTER TABLE r REORGANIZE PARTITION p1 INTO (PARTITION p VALUES LESS THAN (19))", 1493),
    ("ALTER TABLE r REORGANIZE PARTITION p2 INTO (PARTITION p VALUES LESS THAN (25))", 0),
    ("ALTER TABLE r REORGANIZE PARTITION p0, p1 INTO (PARTITION p VALUES LESS THAN (20))", 0),
    ("ALTER TABLE pair REORGANIZE PARTITION p0, p1 INTO (PARTITION p VALUES LESS THAN ('2022-05-05', 'gh'))", 1493),
    ("ALTER TABLE pair REORGANIZE PARTITION p0, p1 INTO (PARTITION p VALUES LESS THAN ('2022-05-05', 'gg'))", 0),
    ("ALTER TABLE pair REORGANIZE PARTITION pm INTO (PARTITION p VALUES LESS THAN ('2023-05-05', 'a'))", 0),
    # AFFINITY
    ("ALTER TABLE near ADD PARTITION (PARTITION p2 VALUES LESS THAN (30))", 8200),
    ("ALTER TABLE near DROP PARTITION p1", 8200), ("ALTER TABLE near REMOVE PARTITIONING", 8200),
    ("ALTER TABLE near REORGANIZE PARTITION p0, p1 INTO (PARTITION p VALUES LESS THAN (20))", 8200),
    ("ALTER TABLE near EXCHANGE PARTITION p0 WITH TABLE plain", 8200),
    ("ALTER TABLE r EXCHANGE PARTITION p0 WITH TABLE whole", 8200), ("ALTER TABLE whole PARTITION BY HASH (a)", 8200),
    ("ALTER TABLE near TRUNCATE PARTITION p1", 0), ("ALTER TABLE whole ADD COLUMN b INT", 0),
    # partitions that are numbered
    ("ALTER TABLE h ADD PARTITION (PARTITION p VALUES IN (22))", 1480),
    ("ALTER TABLE h ADD PARTITION (PARTITION p VALUES LESS THAN (22))", 1480),
    ("ALTER TABLE h ADD PARTITION (PARTITION p HISTORY)", 1480), ("ALTER TABLE h ADD PARTITION (PARTITION p4)", 0),
    ("ALTER TABLE h ADD PARTITION (PARTITION p3)", 1517), ("ALTER TABLE h ADD PARTITION PARTITIONS 2", 0),
    ("ALTER TABLE named ADD PARTITION PARTITIONS 1", 1517), ("ALTER TABLE named COALESCE PARTITION 2", 1508),
    ("ALTER TABLE h REORGANIZE PARTITION p0 INTO (PARTITION q)", 8200),
    # names that stand twice, or are not there
    ("ALTER TABLE r DROP PARTITION p1, p1", 1507), ("ALTER TABLE r DROP PARTITION p1, P1, p1", 1508),
    ("ALTER TABLE r TRUNCATE PARTITION p1, p1", 0),
    ("ALTER TABLE r REORGANIZE PARTITION p1, p1 INTO (PARTITION p VALUES LESS THAN (20))", 1517),
    ("ALTER TABLE r REORGANIZE PARTITION p9 INTO (PARTITION p VALUES LESS THAN (20))", 1567),
    ("ALTER TABLE r REORGANIZE PARTITION p0, p2 INTO (PARTITION p VALUES LESS THAN (30))", 8200),
    # values and expressions
    ("CREATE TABLE x (a INT) PARTITION BY RANGE (a) (PARTITION p VALUES LESS THAN (DEFAULT))", 1064),
    ("CREATE TABLE x (a INT) PARTITION BY LIST (a) (PARTITION p VALUES IN ())", 1064),
    ("CREATE TABLE x (t TIMESTAMP) PARTITION BY HASH (ABS(t))", 1486),
    ("CREATE TABLE x (t TIMESTAMP, a INT) PARTITION BY HASH (t + a)", 1486),
    ("CREATE TABLE x (t TIMESTAMP) PARTITION BY HASH (FLOOR(UNIX_TIMESTAMP(t) / 2))", 1564),
    ("CREATE TABLE x (t TIMESTAMP) PARTITION BY HASH (ABS(UNIX_TIMESTAMP(t)))", 0),
    ("CREATE TABLE x (t TIMESTAMP) PARTITION BY RANGE (TO_SECONDS(t)) INTERVAL (3600) FIRST PARTITION LESS THAN (0) "
     "LAST PARTITION LESS THAN (3600)", 1486),
    # unique keys: a prefix is not the column, a clustered key can't be global, and each counts for itself
    ("CREATE TABLE x (a VARCHAR(9), UNIQUE (a(5))) PARTITION BY KEY (a)", 8264),
    ("CREATE TABLE x (a VARCHAR(9), UNIQUE (a(9))) PARTITION BY KEY (a)", 0),
    ("CREATE TABLE x (a VARCHAR(9), b INT, UNIQUE (a(5), b)) PARTITION BY HASH (b)", 0),
    ("ALTER TABLE spread ADD UNIQUE (a(5))", 8264), ("ALTER TABLE spread ADD UNIQUE (b) GLOBAL", 0),
    ("CREATE TABLE x (a INT, b INT, UNIQUE (a) GLOBAL, UNIQUE c (a)) PARTITION BY HASH (b)", 8264),
    ("CREATE TABLE x (a INT, b INT, PRIMARY KEY (a) CLUSTERED) PARTITION BY HASH (b)", 1503),
    ("CREATE TABLE x (a INT, b INT, PRIMARY KEY (a) NONCLUSTERED GLOBAL) PARTITION BY HASH (b)", 0),
    ("ALTER TABLE keyed PARTITION BY HASH (a) UPDATE INDEXES (u GLOBAL)", 8264),
    ("ALTER TABLE keyed PARTITION BY HASH (a) UPDATE INDEXES (v GLOBAL)", 0),
    ("ALTER TABLE keyed PARTITION BY HASH (a) UPDATE INDEXES (u GLOBAL, V LOCAL)", 8264),
    # tables to exchange a partition with
    ("ALTER TABLE h EXCHANGE PARTITION p0 WITH TABLE v", 1177),
    ("ALTER TABLE h EXCHANGE PARTITION p0 WITH TABLE temp", 1733),
    ("ALTER TABLE auto EXCHANGE PARTITION p0 WITH TABLE manual", 1736),
    ("ALTER TABLE kept EXCHANGE PARTITION p0 WITH TABLE plain", 1736),
    ("ALTER TABLE kept EXCHANGE PARTITION p0 WITH TABLE kept_p", 0),
    ("ALTER TABLE kept EXCHANGE PARTITION p1 WITH TABLE kept_p", 1736),
    ("ALTER TABLE sums EXCHANGE PARTITION p0 WITH TABLE other_sum", 1736),
    ("ALTER TABLE sums EXCHANGE PARTITION p0 WITH TABLE like_sum", 0),
    # temporary tables
    ("ALTER TABLE temp ADD FOREIGN KEY (a) REFERENCES tree (id)", 1215), ("ALTER TABLE temp AFFINITY = 'table'", 8266),
    ("ALTER TABLE temp PARTITION BY HASH (a)", 1562), ("ALTER TABLE temp CACHE", 8006),
    ("ALTER TABLE temp TTL = d + INTERVAL 1 DAY", 8151), ("ALTER TABLE temp SHARD_ROW_ID_BITS = 4", 8006),
    ("ALTER TABLE temp SET TIFLASH REPLICA 1", 8006), ("ALTER TABLE temp ADD COLUMN b INT", 0),
    ("CREATE TABLE x LIKE temp", 8006), ("CREATE TABLE x (a INT, FOREIGN KEY (a) REFERENCES temp (a))", 1215),
    # types and options that TiDB has not
    ("CREATE TABLE x (a POINT)", 1064), ("ALTER TABLE plain ADD COLUMN g GEOMETRY SRID 0", 1064),
    ("CREATE TABLE x (a INT SRID 0)", 1064),
    # INTERVAL
    (f"CREATE TABLE x (a INT) {BY_TENS} {FROM_0_TO.format(90)} MAXVALUE PARTITION", 0),
    (f"CREATE TABLE x (a INT) {BY_TENS} {FROM_0_TO.format(95)}", 8200),
    (f"CREATE TABLE x (a INT) {BY_TENS} {FROM_0_TO.format(-10)}", 8200),
    (f"CREATE TABLE x (a INT) {BY_TENS} {FROM_0_TO.format('NULL')}", 8200), (f"CREATE TABLE x (a INT) {BY_TENS}", 8200),
    (f"CREATE TABLE x (a INT) {BY_TENS} {FROM_0_TO.format(90)} NULL PARTITION", 0),
    (f"CREATE TABLE x (a INT UNSIGNED) {BY_TENS} {FROM_0_TO.format(90)} NULL PARTITION", 1493),
    (f"CREATE TABLE x (a INT) PARTITION BY RANGE (a) INTERVAL (0) {FROM_0_TO.format(90)}", 8200),
    (f"CREATE TABLE x (a INT) PARTITION BY RANGE (a) INTERVAL (-1 * 5) {FROM_0_TO.format(90)}", 8200),
    (f"CREATE TABLE x (a INT) PARTITION BY RANGE (a) INTERVAL ('10') {FROM_0_TO.format(90)}", 8200),
    (f"CREATE TABLE x (a INT) PARTITION BY RANGE (a) INTERVAL (5 * 6) {FROM_0_TO.format(90)}", 0),
    (f"CREATE TABLE x (a INT) PARTITION BY LIST (a) INTERVAL (10) {FROM_0_TO.format(90)}", 8200),
    ("CREATE TABLE x (a VARCHAR(9)) PARTITION BY RANGE COLUMNS (a) INTERVAL (1) FIRST PARTITION LESS THAN ('0') LAST "
     "PARTITION LESS THAN ('9')", 8200),
    (f"CREATE TABLE x (d DATE) {BY_MONTHS.format('MONTH', '2022-05-31')}", 0),
    (f"CREATE TABLE x (d DATE) {BY_MONTHS.format('MONTH', '2022-05-30')}", 8200),
    (f"CREATE TABLE x (d DATE) {BY_MONTHS.format('WEEK', '2022-02-14')}", 0),
    (f"CREATE TABLE x (d DATE) {BY_MONTHS.format('DAY_HOUR', '2022-02-14')}", 8200),
    ("ALTER TABLE tens LAST PARTITION LESS THAN (40)", 0), ("ALTER TABLE tens LAST PARTITION LESS THAN (45)", 8200),
    ("ALTER TABLE tens LAST PARTITION LESS THAN (30)", 8200), ("ALTER TABLE tens FIRST PARTITION LESS THAN (20)", 0),
    ("ALTER TABLE tens FIRST PARTITION LESS THAN (10)", 8200), ("ALTER TABLE tens FIRST PARTITION LESS THAN (0)", 8200),
    ("ALTER TABLE tens DROP PARTITION P_LT_20", 0), ("ALTER TABLE tens DROP PARTITION P_LT_25", 1507),
    ("ALTER TABLE months TRUNCATE PARTITION `P_LT_2022-02-28`", 0),
    ("ALTER TABLE months TRUNCATE PARTITION `P_LT_2022-02-27`", 1735),
    # subpartitions, and a method that can't be exchanged
    ("CREATE TABLE x (a INT, b INT) PARTITION BY KEY (a) SUBPARTITION BY KEY (b) SUBPARTITIONS 2", 1500),
    ("CREATE TABLE x (a INT, b INT) PARTITION BY RANGE (a) SUBPARTITION BY KEY (b) SUBPARTITIONS 2 (PARTITION p VALUES "
     "LESS THAN (8))", 0),
    ("CREATE TABLE x (a INT) PARTITION BY KEY ALGORITHM = 3 (a)", 1064),
    ("ALTER TABLE spread EXCHANGE PARTITION p0 WITH TABLE like_spread", 8200),
    ("ALTER TABLE spread EXCHANGE PARTITION p0 WITH TABLE like_spread WITHOUT VALIDATION", 0),
    # the index that is a primary key, or stands in for one, is not invisible
    ("ALTER TABLE hidden DROP INDEX u", 3522), ("ALTER TABLE hidden MODIFY a INT NULL", 3522),
    ("ALTER TABLE hidden ALTER INDEX v VISIBLE, DROP INDEX u", 0), ("ALTER TABLE hidden DROP INDEX v", 0),
    ("ALTER TABLE open_one MODIFY a INT NOT NULL", 3522), ("ALTER TABLE plain ADD UNIQUE (a) INVISIBLE", 0),
    ("ALTER TABLE must ADD UNIQUE (a) INVISIBLE", 3522), ("ALTER TABLE keyed_too DROP PRIMARY KEY", 3522),
    # AUTO_RANDOM
    ("CREATE TABLE x (a BIGINT AUTO_RANDOM(15, 32) PRIMARY KEY)", 8216),
    ("CREATE TABLE x (a BIGINT UNSIGNED AUTO_RANDOM(5, 32) PRIMARY KEY)", 0),
    ("CREATE TABLE x (a BIGINT AUTO_RANDOM(4, 32) PRIMARY KEY)", 0),
    ("ALTER TABLE counted MODIFY a BIGINT AUTO_RANDOM", 8216),
    ("ALTER TABLE counted MODIFY g INT AS (a + 1)", 3109),
    # a foreign key to the table itself
    ("ALTER TABLE tree DROP COLUMN code", 1829), ("ALTER TABLE tree DROP COLUMN up", 1828),
    ("ALTER TABLE tree DROP INDEX code", 1553), ("ALTER TABLE tree MODIFY code BIGINT", 3780),
    ("TRUNCATE TABLE tree", 0), ("DROP TABLE tree", 0),
)  # fmt: skip


def run(catalog: Catalog, sql: str) -> Catalog:
    return apply(catalog, parse(sql, LexicalMode.of_sql_mode(), "shop"), "shop")


def tables() -> Catalog:
    catalog = run(new_catalog(), "CREATE DATABASE shop")
    for sql in TABLES:
        catalog = run(catalog, sql)
    return catalog


def number(catalog: Catalog, sql: str) -> int:
    """TiDB's error, 0 for none; -1 where the statement is not understood."""
    try:
        statement = parse(sql, LexicalMode.of_sql_mode(), "shop")
    except DdlError as error:
        return 1064 if error.code == "DDL_REFUSED" else -1
    return next((r.number for r in refusals(catalog, statement, "shop", SqlModes())), 0)


def test_tidb_refuses_these_and_takes_those() -> None:
    catalog = tables()

    def check_row(row: tuple[str, int]) -> None:
        sql, refused = row
        assert number(catalog, sql) == refused

    check_rows(ROWS, check_row)


def test_partitions_change_again_without_affinity() -> None:
    catalog = tables()
    for sql in NEAR:
        catalog = run(catalog, sql)

    def check_row(row: tuple[str, int]) -> None:
        assert number(catalog, row[0]) == 0

    check_rows([row for row in ROWS if row[1] == 8200 and ("near" in row[0] or "whole" in row[0])], check_row)
