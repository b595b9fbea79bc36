"""Sequences, placement policies, AUTO_RANDOM, renames and types of partition expressions: what TiDB refuses of them."""

from __future__ import annotations

from tests.support.dry_runs import feed, nothing_registered
from tests.support.table import check_rows
from ticdc_bridge.schemas.ddl.executor.catalog import new_catalog
from ticdc_bridge.service.ddl_check.check import check
from ticdc_bridge.service.ddl_check.check_input import CheckInput, with_snapshots

TABLES = (
    "CREATE TABLE `t` (`id` bigint NOT NULL, `a` int, PRIMARY KEY (`id`) /*T![clustered_index] CLUSTERED */)",
    "CREATE TABLE `n` (`id` int NOT NULL, `b` int)",
    "CREATE TABLE `random` (`id` bigint NOT NULL /*T![auto_rand] AUTO_RANDOM(5) */, PRIMARY KEY (`id`) "
    "/*T![clustered_index] CLUSTERED */)",
    "CREATE TABLE `counted` (`id` bigint NOT NULL AUTO_INCREMENT, PRIMARY KEY (`id`) "
    "/*T![clustered_index] CLUSTERED */)",
    "CREATE TABLE `apart` (`id` bigint NOT NULL AUTO_INCREMENT, PRIMARY KEY (`id`) "
    "/*T![clustered_index] NONCLUSTERED */)",
    "CREATE TABLE `placed` (`id` int) /*T![placement] PLACEMENT POLICY=`p1` */ PARTITION BY RANGE (`id`) "
    "(PARTITION `a` VALUES LESS THAN (9), "
    "PARTITION `b` VALUES LESS THAN (99) /*T![placement] PLACEMENT POLICY=`p2` */)",
)
BEFORE = "CREATE SEQUENCE s; CREATE VIEW v AS SELECT id FROM t; CREATE DATABASE other;"
HASH = "CREATE TABLE x (a INT, d DECIMAL(9,0), f DOUBLE, c VARCHAR(9), y YEAR) PARTITION BY HASH (%s)"
ENDS = "CREATE TABLE x (a INT, b INT, c VARCHAR(9), d DATETIME) PARTITION BY RANGE COLUMNS (%s)"
LISTS = "CREATE TABLE x (a INT, b INT, c VARCHAR(9)) PARTITION BY LIST COLUMNS (%s)"
# Statements, and TiDB's error for the last one: 0 where it takes it, negative where what is known does not tell.
ROWS: tuple[tuple[str, int], ...] = (
    *((f"CREATE SEQUENCE x {options}", 4136) for options in (
        "MINVALUE 5 MAXVALUE 3", "MINVALUE 3 MAXVALUE = 3", "INCREMENT 0", "START 0", "START 5 MAXVALUE 4", "CACHE 0",
        "INCREMENT BY -1 START 5", "CACHE 9223372036854775807", "MAXVALUE 9223372036854775807",
        "MINVALUE -9223372036854775808", "INCREMENT 10000000000000000", "INCREMENT -2 MINVALUE -1",
    )),
    *((f"CREATE SEQUENCE x {options}", 0) for options in (
        "", "INCREMENT BY -1", "MINVALUE 1 MAXVALUE 10 CACHE 20 CYCLE", "NOCACHE", "START WITH 7 NOMAXVALUE",
        "INCREMENT -2 MAXVALUE 5 MINVALUE -5 START 5", "MINVALUE -9", "INCREMENT 10000000000000000 NOCACHE",
    )),
    ("CREATE SEQUENCE t", 1050), ("ALTER SEQUENCE s INCREMENT BY 2 RESTART", 0), ("ALTER SEQUENCE s START 9", 0),
    ("ALTER SEQUENCE s MINVALUE 5 MAXVALUE 3", 4136), ("ALTER SEQUENCE s CACHE 0", 4136),
    ("ALTER SEQUENCE t INCREMENT 2", 1347), ("ALTER SEQUENCE v INCREMENT 2", 1347),
    ("ALTER SEQUENCE no START 2", -1146),
    ("ALTER SEQUENCE IF EXISTS no START 2", 0), ("DROP SEQUENCE no", -4139), ("DROP VIEW no", -1051),
    ("DROP VIEW s", 1347), ("DROP SEQUENCE v", 1347), ("DROP TABLE v", 1051), ("DROP VIEW v; DROP SEQUENCE s", 0),
    ("DROP TABLE n; DROP TABLE n", 1051), ("DROP TABLE n; DROP TABLE IF EXISTS n", 0),
    ("DROP TABLE n; FLASHBACK TABLE n; DROP TABLE n", 0), ("DROP GLOBAL TEMPORARY TABLE n", 8007),
    ("CREATE GLOBAL TEMPORARY TABLE x (a INT) ON COMMIT DELETE ROWS; DROP GLOBAL TEMPORARY TABLE x", 0),
    # names before a column's
    ("CREATE TABLE x (x.a INT, shop.X.b INT, c INT)", 0), ("CREATE TABLE x (n.a INT)", 1103),
    ("ALTER TABLE n MODIFY other.n.b INT", 1102), ("ALTER TABLE n ADD shop.n.c INT", 0),
    ("ALTER TABLE n ADD t.c INT", 1103),
    # keys that are no primary key, or serve as one
    ("CREATE TABLE x (id INT DEFAULT NULL, PRIMARY KEY (id))", 1171), ("ALTER TABLE n ADD UNIQUE (id) INVISIBLE", 3522),
    ("ALTER TABLE n ADD UNIQUE (b) INVISIBLE", 0), ("ALTER TABLE t ADD UNIQUE (id) INVISIBLE", 0),
    # foreign keys beside stored columns
    *((f"CREATE TABLE x (a BIGINT, b BIGINT AS (a + 1) STORED, FOREIGN KEY (a) REFERENCES t (id) {action})", 1215)
      for action in ("ON UPDATE SET NULL", "ON DELETE CASCADE", "ON DELETE SET DEFAULT")),
    ("CREATE TABLE x (a BIGINT, b BIGINT AS (a + 1) VIRTUAL, FOREIGN KEY (a) REFERENCES t (id) ON DELETE CASCADE)", 0),
    ("CREATE TABLE x (a BIGINT, b BIGINT AS (a + 1) STORED, FOREIGN KEY (a) REFERENCES t (id) ON DELETE RESTRICT)", 0),
    ("CREATE TABLE x (a BIGINT, b BIGINT AS (a + 1) STORED, FOREIGN KEY (b) REFERENCES t (id) ON DELETE CASCADE)", 0),
    ("CREATE TABLE x (b BIGINT AS (1) STORED, FOREIGN KEY (b) REFERENCES t (id) ON UPDATE SET DEFAULT)", 3104),
    # partitions of texts, by numbers
    (ENDS % "c" + " (PARTITION p VALUES LESS THAN (5), PARTITION q VALUES LESS THAN (10))", 1493),
    (ENDS % "c" + " (PARTITION p VALUES LESS THAN (10), PARTITION q VALUES LESS THAN (5))", 0),
    (LISTS % "c" + " (PARTITION p VALUES IN (1), PARTITION q VALUES IN ('1'))", 1495),
    (ENDS % "d" + " (PARTITION p VALUES LESS THAN (x'41'))", 1654),
    (LISTS % "a" + " (PARTITION `` VALUES IN (1))", 1567),
    # renames
    ("RENAME TABLE t TO t", 1050), ("RENAME TABLE t TO T", 1050), ("ALTER TABLE t RENAME TO T", 0),
    ("RENAME TABLE t TO no.t", -1025), ("ALTER TABLE t RENAME TO no.t", -1025), ("RENAME TABLE t TO other.t", 0),
    ("RENAME TABLE v TO w", 0), ("RENAME TABLE v TO other.v", 1450), ("RENAME TABLE t TO x, n TO t, x TO n", 0),
    ("RENAME TABLE t TO x, x TO x", 1050),
    # views
    ("CREATE VIEW w AS SELECT id FROM t, n", 1052), ("CREATE VIEW w AS SELECT t.id, b FROM t, n", 0),
    # policies
    ("CREATE PLACEMENT POLICY p FOLLOWERS=2; CREATE PLACEMENT POLICY P FOLLOWERS=2", 8238),
    ("CREATE PLACEMENT POLICY p FOLLOWERS=2; CREATE PLACEMENT POLICY IF NOT EXISTS p FOLLOWERS=2", 0),
    ("CREATE PLACEMENT POLICY p FOLLOWERS=2; CREATE OR REPLACE PLACEMENT POLICY p FOLLOWERS=2", 0),
    ("DROP PLACEMENT POLICY p; DROP PLACEMENT POLICY p", 8239),
    ("DROP PLACEMENT POLICY p; ALTER PLACEMENT POLICY p FOLLOWERS=2", 8239),
    ("DROP PLACEMENT POLICY p; CREATE PLACEMENT POLICY p FOLLOWERS=2; DROP PLACEMENT POLICY p", 0),
    ("DROP PLACEMENT POLICY P1", 8241), ("DROP PLACEMENT POLICY IF EXISTS p2", 8241), ("DROP PLACEMENT POLICY p3", 0),
    ("ALTER TABLE placed PLACEMENT POLICY = DEFAULT; DROP PLACEMENT POLICY p1", 0),
    ("ALTER TABLE placed PARTITION b PLACEMENT POLICY = p1; DROP PLACEMENT POLICY p2", 0),
    ("ALTER TABLE placed DROP PARTITION b; DROP PLACEMENT POLICY p2", 0),
    ("DROP TABLE placed; DROP PLACEMENT POLICY p1", 0), ("CREATE TABLE x LIKE placed; DROP PLACEMENT POLICY p1", 8241),
    ("ALTER TABLE t PLACEMENT POLICY p3; DROP PLACEMENT POLICY p3", 8241),
    ("CREATE PLACEMENT POLICY p1 FOLLOWERS=2", 8238), ("ALTER TABLE t PLACEMENT POLICY p3", 0),
    *((f"DROP PLACEMENT POLICY p; {sql}", 8239) for sql in (
        "CREATE TABLE x (a INT) PLACEMENT POLICY = P", "ALTER TABLE t PLACEMENT POLICY p", "CREATE DATABASE x "
        "PLACEMENT POLICY = 'p'", "ALTER DATABASE shop PLACEMENT POLICY p", "ALTER TABLE placed ADD PARTITION "
        "(PARTITION c VALUES LESS THAN (999) PLACEMENT POLICY p)", "CREATE TABLE x (a INT) PARTITION BY LIST (a) "
        "(PARTITION a VALUES IN (1) PLACEMENT POLICY p)",
    )),
    ("DROP PLACEMENT POLICY p; ALTER TABLE t PLACEMENT POLICY SET DEFAULT", 0),
    # databases that are not known
    ("CREATE TABLE no.x (a INT)", -1049), ("CREATE VIEW no.x AS SELECT 1", -1049), ("CREATE SEQUENCE no.x", -1049),
    ("CREATE TABLE shop.x (a INT)", 0), ("CREATE TABLE Other.x (a INT)", 0),
    # algorithms
    *((f"ALTER TABLE t {clauses}", 1846) for clauses in (
        "ADD INDEX (a), ALGORITHM=INSTANT", "ALGORITHM = COPY, ADD UNIQUE (a), ALGORITHM INSTANT",
    )),
    *((f"ALTER TABLE t {clauses}", 0) for clauses in (
        "ADD INDEX (a), ALGORITHM=INPLACE", "ADD INDEX (a), ALGORITHM=COPY, LOCK=NONE", "ADD x INT, ALGORITHM=INSTANT",
        "ALGORITHM=INSTANT, ADD INDEX (a), ALGORITHM=DEFAULT", "ADD x INT, ALGORITHM=COPY",
    )),
    # AUTO_RANDOM
    *((f"ALTER TABLE random MODIFY id BIGINT {word}", 8216) for word in (
        "AUTO_RANDOM(3)", "AUTO_RANDOM(5, 54)", "AUTO_RANDOM(16)", "AUTO_RANDOM(0)", "AUTO_RANDOM DEFAULT 5", "",
        "AUTO_RANDOM(5) AUTO_INCREMENT",
    )),
    ("ALTER TABLE random MODIFY id BIGINT AUTO_RANDOM", 0),
    ("ALTER TABLE random MODIFY id BIGINT AUTO_RANDOM(6, 64)", 0),
    ("ALTER TABLE random MODIFY id BIGINT AUTO_RANDOM(6); ALTER TABLE random MODIFY id BIGINT AUTO_RANDOM(5)", 8216),
    ("CREATE TABLE x (id BIGINT AUTO_RANDOM(15, 32) PRIMARY KEY)", 8216),
    ("CREATE TABLE x (id BIGINT UNSIGNED AUTO_RANDOM(5, 32) PRIMARY KEY)", 0),
    ("CREATE TABLE x (id BIGINT AUTO_INCREMENT UNIQUE); ALTER TABLE x MODIFY id BIGINT AUTO_RANDOM", 8216),
    ("CREATE TABLE x (id INT AUTO_INCREMENT PRIMARY KEY CLUSTERED); ALTER TABLE x MODIFY id BIGINT AUTO_RANDOM", 8216),
    ("ALTER TABLE random ALTER id SET DEFAULT 5", 8216), ("ALTER TABLE random ALTER id DROP DEFAULT", 0),
    ("ALTER TABLE counted MODIFY id BIGINT AUTO_RANDOM(4)", 0),
    ("ALTER TABLE apart MODIFY id BIGINT AUTO_RANDOM(4)", 8216), ("ALTER TABLE t MODIFY id BIGINT AUTO_RANDOM", 8216),
    ("CREATE TABLE x (a BIGINT AUTO_RANDOM(0) PRIMARY KEY)", 8216), ("CREATE TABLE x (a BIGINT AUTO_RANDOM KEY)", 0),
    # ends of RANGE COLUMNS, and lists
    *((ENDS % columns + f" (PARTITION p VALUES LESS THAN ({first}), PARTITION q VALUES LESS THAN ({second}))", number)
      for columns, first, second, number in (
        ("c", "'m'", "'c'", 1493), ("c", "'10'", "'9'", 0), ("c", "'B'", "'a'", 0), ("c", "'a'", "'a'", 1493),
        ("a, b", "5, 1", "4, 9", 1493), ("a, b", "5, 1", "5, 1", 1493), ("a, b", "5, MAXVALUE", "5, 9", 1493),
        ("a, b", "5, 1", "5, MAXVALUE", 0), ("a, b", "5, 1", "MAXVALUE, MAXVALUE", 0), ("a, b", "5, 1", "5, 1 + 1", 0),
        ("d", "'2026-03-01 00:00:00'", "'2026-02-01 00:00:00'", 1493), ("d", "'2026-02-01'", "'2026-03-01'", 0),
    )),
    *((LISTS % columns + f" (PARTITION p VALUES IN ({first}), PARTITION q VALUES IN ({second}))", number)
      for columns, first, second, number in (
        ("c", "'de', 'fr'", "'us', 'de'", 1495), ("c", "'de'", "'DE'", 0), ("a, b", "(1, 2), (3, 4)", "(3, 4)", 1495),
        ("a, b", "(1, 2), (3, 4)", "(3, 5)", 0), ("a", "1, 2", "02", 1495),
    )),
    (LISTS % "c" + " (PARTITION p VALUES IN ('de')); ALTER TABLE x ADD PARTITION (PARTITION q VALUES IN ('de'))", 1495),
    # a foreign key to a text, where the new table's character set is not known
    ("CREATE TABLE y (k VARCHAR(9) CHARSET utf8mb4 PRIMARY KEY); "
     "CREATE TABLE x (a INT, c VARCHAR(9), FOREIGN KEY (c) REFERENCES y (k))", 0),
    # what an expression of partitions gives
    *((HASH % text, 1491) for text in ("ABS(d)", "d + 1", "c * 2", "a * 1.5", "a + d", "-f", "MOD(d, 3)", "f % 2")),
    *((HASH % text, 1564) for text in ("a / 2", "a & 1", "a << 1", "1 ^ a")),
    *((HASH % text, 0) for text in ("a DIV 2", "MOD(a, 3)", "-a", "a + y", "f DIV 2", "FLOOR(d)", "a % 7", "(a * 3)")),
)  # fmt: skip


def test_what_tidb_refuses() -> None:
    def check_row(row: tuple[str, int]) -> None:
        sql, number = row
        catalog = with_snapshots(new_catalog(), TABLES, "shop")
        last = check(CheckInput(BEFORE + sql, "shop", catalog, feed()), nothing_registered()).form()["statements"][-1]
        told = [refusal["number"] for refusal in last["refusals"]]
        verdict = "refused" if number > 0 else "cannot judge" if number else "safe"
        assert (last["verdict"], bool(told)) == (verdict, number > 0), last["reason"]
        assert number <= 0 or number in told
        assert number >= 0 or f"(error {-number})" in last["reason"]

    check_rows(ROWS, check_row)
