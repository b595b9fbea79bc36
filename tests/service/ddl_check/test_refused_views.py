"""What TiDB refuses of views over known tables, of cached tables, of AFFINITY, and of what the check has dropped."""

from __future__ import annotations

from tests.support.dry_runs import nothing_registered
from tests.support.table import check_rows
from ticdc_bridge.schemas.ddl.executor.catalog import new_catalog
from ticdc_bridge.service.changefeed.reader import read
from ticdc_bridge.service.ddl_check.check import check
from ticdc_bridge.service.ddl_check.check_input import CheckInput, with_snapshots

TABLES = (
    "CREATE TABLE `t` (`id` int NOT NULL, `a` int DEFAULT NULL, `b` varchar(9) DEFAULT NULL, PRIMARY KEY (`id`))",
    "CREATE TABLE `u` (`id` int NOT NULL, `c` int DEFAULT NULL, PRIMARY KEY (`id`), KEY `k` (`c`))",
    "CREATE TABLE `p` (`id` int NOT NULL, `v` int) PARTITION BY HASH (`id`) PARTITIONS 2",
    "CREATE TABLE `held` (`id` int NOT NULL, `v` int) COMMENT='/* CACHED OFF */' /* CACHED ON */",
    "CREATE TABLE `free` (`id` int NOT NULL, `v` int) COMMENT=' /* CACHED ON */'",
)
# statements, and of the last one TiDB's error, or 0, or -1 where it is not known whether TiDB takes it
STATEMENTS = (
    # views
    ("CREATE VIEW v (x) AS SELECT id, a FROM t", 1353), ("CREATE VIEW v (x, y) AS SELECT * FROM t", 1353),
    ("CREATE VIEW v (x, y, z) AS SELECT * FROM t", 0), ("CREATE VIEW v (x, X) AS SELECT id, a FROM t", 1060),
    ("CREATE VIEW v AS SELECT id, ID FROM t", 1060), ("CREATE VIEW v AS SELECT a, b AS A FROM t", 1060),
    ("CREATE VIEW v AS SELECT * FROM t JOIN u ON t.id = u.id", 1060),
    ("CREATE VIEW v AS SELECT t.*, c FROM t LEFT JOIN u ON t.id = u.id WHERE c > 1", 0),
    ("CREATE VIEW v AS SELECT nope FROM t", 1054), ("CREATE VIEW v AS SELECT t.c FROM t, u", 1054),
    ("CREATE VIEW v AS SELECT x.id FROM t AS y", 1054), ("CREATE VIEW v AS SELECT y.id i FROM t AS y", 0),
    ("CREATE VIEW v AS SELECT _tidb_rowid AS r, a + nope AS s FROM t", 1054),
    ("CREATE VIEW v AS SELECT _tidb_rowid AS r, a + nope s FROM t", 0), ("CREATE VIEW v AS SELECT id FROM nope", -1),
    ("CREATE VIEW v AS SELECT nope FROM t, other", -1), ("CREATE VIEW v AS SELECT user FROM mysql.user", 0),
    ("CREATE VIEW v AS SELECT 1, CURRENT_DATE, NULL, 'x' AS y", 0),
    (f"CREATE VIEW v ({'x' * 65}) AS SELECT id FROM t", 1059),
    (f"CREATE DEFINER = '{'u' * 33}'@'h' VIEW v AS SELECT id FROM t", 1470),
    (f"CREATE DEFINER = {'u' * 32}@h VIEW v AS SELECT id FROM t", 0),
    ("CREATE VIEW v AS SELECT id FROM t UNION SELECT 1", 0),
    ("CREATE VIEW v (x, y) AS SELECT id FROM t UNION SELECT 1", 1353),
    ("CREATE VIEW v AS SELECT id FROM t UNION ALL SELECT * FROM t", 1222),
    ("CREATE VIEW v AS SELECT id, a, b FROM t WHERE id > 1 UNION DISTINCT SELECT * FROM t ORDER BY id LIMIT 1", 0),
    ("CREATE VIEW v AS SELECT 1 EXCEPT SELECT nope FROM t", 1054), ("CREATE VIEW v AS SELECT 1 INTERSECT SELECT 2", 0),
    ("CREATE VIEW v AS SELECT id FROM t UNION SELECT * FROM nope", -1),
    ("CREATE VIEW v AS SELECT id FROM t UNION (SELECT 1, 2)", 0), ("CREATE VIEW v AS (SELECT nope FROM t)", 0),
    ("CREATE VIEW v (x, x) AS SELECT id, a FROM t UNION SELECT 1, 2", 1060),
    ("CREATE VIEW v AS SELECT COUNT(*) AS n, a FROM t GROUP BY a ORDER BY n LIMIT 3", 0),
    ("CREATE VIEW w AS SELECT id AS i FROM t; CREATE OR REPLACE VIEW v AS SELECT i, nope FROM w", 1054),
    ("CREATE VIEW w AS SELECT id AS i, a + 1 FROM t; CREATE VIEW v AS SELECT i, nope FROM w", 0),
    ("CREATE VIEW w AS SELECT * FROM t; CREATE VIEW v (x) AS SELECT * FROM w", 1353),
    ("CREATE VIEW w AS SELECT * FROM t; CREATE VIEW v AS SELECT id FROM w JOIN t ON w.id = t.id", 1052),
    ("CREATE VIEW w (x, y) AS SELECT id, a FROM t; ALTER TABLE t DROP COLUMN a; CREATE VIEW v AS SELECT y FROM w", 0),
    ("CREATE VIEW w (x) AS SELECT id FROM t; RENAME TABLE w TO z; CREATE VIEW v AS SELECT id FROM z", 1054),
    ("CREATE VIEW w AS SELECT user FROM mysql.user; CREATE VIEW v AS SELECT nope FROM w, t", 1054),
    ("CREATE VIEW w AS SELECT * FROM mysql.user; CREATE VIEW v AS SELECT nope FROM w, t", 0),
    ("CREATE VIEW v AS SELECT SQL_NO_CACHE id FROM t", 0), ("CREATE VIEW v AS SELECT a * 2, id b FROM t", 0),
    # tables of a SELECT, indexes of other kinds
    ("CREATE VIEW v AS SELECT a FROM t, T", 1066), ("CREATE VIEW v AS SELECT x.id FROM t x JOIN u x ON 1", 1066),
    ("CREATE VIEW v AS SELECT x.a FROM t x, t y, d.u z", 0), ("CREATE VIEW v AS SELECT t.* FROM u", 1051),
    ("CREATE VIEW v AS SELECT x.*, c FROM t AS X, u AS y WHERE x.id = y.id", 0),
    ("CREATE FULLTEXT INDEX i ON t (b)", -1), ("ALTER TABLE t ADD FULLTEXT INDEX i (b)", 0),
    ("CREATE SPATIAL INDEX i ON t (a)", 8200),
    # tables of which something was not understood
    *((f"ALTER TABLE u FROBNICATE nope; {sql}", -1) for sql in (
        "CREATE VIEW v AS SELECT nope FROM u", "CREATE TABLE x (a INT, FOREIGN KEY (a) REFERENCES u (nope))",
        "ALTER TABLE t ADD FOREIGN KEY (a) REFERENCES u (nope)", "CREATE TABLE x LIKE u",
        "CREATE TABLE x LIKE u; ALTER TABLE x DROP COLUMN nope",
    )),
    ("ALTER TABLE u FROBNICATE nope; CREATE VIEW v AS SELECT nope FROM t", 1054),
    # columns in expressions
    *((f"CREATE VIEW v AS SELECT t.a AS x, SUM(u.c) AS s FROM t JOIN u ON {on} WHERE {where} GROUP BY x", number)
      for on, where, number in (
        ("t.id = u.id", "b LIKE '%`nope`%' AND c > 1", 0), ("t.id = u.nope", "c > 1", 1054),
        ("t.id = u.id", "nope > 1", 1054), ("t.id = u.id", "id > 1", 1052), ("t.id = u.id", "x > 1", 1054),
        ("t.id = u.id AND u.c IN (1, 2)", "d.t.b = 'x' OR t._tidb_rowid > CAST(a AS SIGNED) + INTERVAL 1 DAY", 0),
    )),
    ("CREATE VIEW v AS SELECT SUM(nope) FROM t", 1054), ("CREATE VIEW v AS SELECT a FROM t AS y WHERE t.a > 1", 1054),
    ("CREATE VIEW v AS SELECT a FROM t, other WHERE nope > 1", -1),
    ("CREATE VIEW v AS SELECT CASE a WHEN 1 THEN b ELSE 'x' END AS y FROM t WHERE DATE(b) = DATE '2020-01-01'", 0),
    ("ALTER VIEW v AS SELECT 1", 1064), ("CREATE OR REPLACE TABLE t (a INT)", 1064), ("CREATE TABLE x (a INT,)", 1064),
    ("CREATE TABLE x (a VARCHAR)", 1064), ("CREATE TABLE x (a DATETIME DEFAULT (NOW() + INTERVAL 1 DAY))", 1064),
    # functions
    ("CREATE VIEW v AS SELECT nvl(a, 1) FROM t", 1305), ("CREATE VIEW v AS SELECT d.nope(a) x FROM t", 1305),
    ("CREATE VIEW v AS SELECT 1 FROM (SELECT f() FROM t) x", 1305), ("CREATE VIEW v AS SELECT COUNT (a) FROM t", 1305),
    ("SET sql_mode = 'IGNORE_SPACE'; CREATE VIEW v AS SELECT COUNT (a) FROM t", 0),
    ("CREATE VIEW v AS SELECT IF(a, b) FROM t", 1582), ("CREATE VIEW v AS SELECT a FROM t WHERE ABS(a, 1) > 2", 1582),
    ("CREATE VIEW v AS SELECT SUM(a, 1) FROM t", 1064), ("CREATE VIEW v AS SELECT CURDATE(6) FROM t", 1064),
    ("CREATE VIEW v AS SELECT SUM(a), AVG (a), LEFT(b, 2), CONVERT(a, DATETIME(6)), UUID_V7(), SOUNDEX(b) FROM t", 0),
    ("CREATE VIEW v AS WITH c (x, y) AS (SELECT 1, 2), e(q) AS (SELECT 3) SELECT x FROM c JOIN e USING (q)", 0),
    ("CREATE VIEW v AS SELECT GROUP_CONCAT(a, b ORDER BY a), LAG(a, 1) OVER (ORDER BY a), TRIM(BOTH 'x' FROM b) FROM t",
     0),
    ("CREATE VIEW v AS SELECT x.a FROM t AS x (a) JOIN t USE INDEX (k) ON x.a IN (1, 2) AND x.a > ANY (SELECT 1)", 0),
    ("ALTER TABLE t ADD COLUMN x INT AS (nope(a))", 3102), ("ALTER TABLE t ADD COLUMN x INT AS (ABS(a, 1))", 1582),
    ("ALTER TABLE t ADD COLUMN x INT AS (NULLIF(a, 1))", -1), ("ALTER TABLE t ADD COLUMN x INT AS (STD(a))", 1111),
    ("ALTER TABLE t ADD COLUMN x INT AS ((a, 1) = (1, 2))", 3764), ("ALTER TABLE t ADD INDEX i ((nope(a)))", 3758),
    ("ALTER TABLE t ADD INDEX i ((LOWER(b, 1)))", 1582), ("ALTER TABLE t ADD INDEX i (((a, 1) = (1, 2)))", 3800),
    ("ALTER TABLE t ADD INDEX i ((CONCAT(b, 1)))", -1), ("ALTER TABLE t ADD INDEX i ((CAST(b AS CHAR(5))))", 0),
    ("CREATE TABLE x (a CHAR(36) DEFAULT (UUID(1)))", 1582), ("CREATE TABLE x (a JSON DEFAULT (JSON_QUOTE(f(1))))", -1),
    ("CREATE TABLE x (a DATE) PARTITION BY HASH (YEAR(a, 1))", 1582),
    ("CREATE TABLE x (a DATE) PARTITION BY LINEAR HASH (YEAR(a) + MONTH(a)) PARTITIONS 2", 0),
    ("CREATE TABLE x (a DATE) TTL = a + INTERVAL (1 + 1) DAY", 1064),
    ("CREATE TABLE x (a DATE) TTL = a + INTERVAL '1:1' DAY_HOUR", 0),
    # sequences of ALTER TABLE; CREATE TABLE takes any
    ("ALTER TABLE t MODIFY a INT DEFAULT NEXT VALUE FOR s", -1), ("ALTER TABLE t ALTER a SET DEFAULT (NEXTVAL(s))", -1),
    ("CREATE SEQUENCE s; ALTER TABLE t ALTER a SET DEFAULT (NEXTVAL(s))", 0),
    ("CREATE SEQUENCE s; ALTER TABLE t ALTER a SET DEFAULT NEXT VALUE FOR s, ALTER b SET DEFAULT '1'", 0),
    ("CREATE TABLE x (a INT DEFAULT NEXT VALUE FOR no)", 0),
    # CHECKs, which a server may keep
    *((f"ALTER TABLE t ADD CHECK ({text})", -1) for text in (
        "d < NOW()", "a > LENGTH(CURRENT_USER)", "a > nope(1)", "a > @x", "a > @@sql_mode", "a IN (SELECT 1)",
        "ABS(a, 1) > 2",
    )),
    ("CREATE TABLE x (a INT CONSTRAINT c CHECK (a > RAND()), b INT)", -1),
    ("CREATE TABLE x (a INT CHECK (a > 1), `check` INT, CHECK (ABS(`check`) IN (1, 2)) NOT ENFORCED)", 0),
    ("CREATE TABLE x (a INT COMMENT 'check (now())')", 0),
    # values that are taken at once, indexed columns, words of indexes
    ("ALTER TABLE t ADD x DATE DEFAULT (DATE_FORMAT(NOW(), '%Y-%m'))", 1292),
    ("ALTER TABLE t ADD x SET('a') DEFAULT (DATE_FORMAT(NOW(), '%Y-%m-%d'))", 1265),
    ("ALTER TABLE t ADD x DATE DEFAULT (DATE_FORMAT(NOW(), '%Y-%m-%d'))", 0),
    ("CREATE TABLE x (a INT, b INT AS (a + 1), KEY (b)); ALTER TABLE x MODIFY b BIGINT AS (a + 1)", -1),
    ("CREATE TABLE x (a INT, b INT AS (a + 1), KEY (b)); ALTER TABLE x MODIFY b INT AS (a + 1) COMMENT 'x'", 0),
    ("ALTER TABLE t ALTER INDEX PRIMARY INVISIBLE", 1064), ("ALTER TABLE t ADD INDEX i ((CAST(a AS JSON)))", 3753),
    ("SET tidb_enable_strict_double_type_check = 0; CREATE TABLE x (a DOUBLE(9))", 0),
    # character sets before texts
    ("ALTER TABLE t ADD COLUMN x VARCHAR(9) DEFAULT _gbk'x'", 1115),
    ("ALTER TABLE t ALTER b SET DEFAULT _ucs2 0x41", 1115),
    ("ALTER TABLE t ADD COLUMN x VARCHAR(9) AS (CONCAT(b, _latin1'x', N'y', _binary 0x41))", 0),
    ("ALTER TABLE t ADD COLUMN x DATE DEFAULT DATE'2020-01-02'", 1064),
    ("ALTER TABLE t ADD COLUMN x DATE DEFAULT {d '2020-01-02'}", 1064),
    # an index's options after its WHERE
    ("CREATE UNIQUE INDEX i ON p (v) WHERE v > 1 GLOBAL", 0), ("CREATE UNIQUE INDEX i ON p (v) WHERE v > 1", 8264),
    ("REFRESH STATS s.t", 0), ("CREATE TABLE x (a INT) ENGINE_ATTRIBUTE = '{}'", -1),
    # cached tables
    ("ALTER TABLE held ADD COLUMN x INT", 8242), ("CREATE INDEX i ON held (v)", 8242), ("DROP TABLE held", 8242),
    ("TRUNCATE TABLE held", 8242), ("RENAME TABLE held TO h", 8242), ("ALTER TABLE held NOCACHE", 0),
    ("ALTER TABLE held NOCACHE; ALTER TABLE held ADD COLUMN x INT", 0), ("ALTER TABLE free ADD COLUMN x INT", 0),
    ("ALTER TABLE t CACHE; ALTER TABLE t COMMENT 'x'", 8242), ("ALTER TABLE t CACHE; ALTER TABLE t CACHE", 0),
    ("DROP DATABASE d", 0),
    # AFFINITY
    ("ALTER TABLE t AFFINITY = 'partition'", 8266), ("ALTER TABLE p AFFINITY = 'Table'", 8266),
    ("ALTER TABLE t AFFINITY = 'rack'", 8266), ("ALTER TABLE t AFFINITY = 'TABLE'", 0),
    ("ALTER TABLE p AFFINITY = 'partition'", 0), ("ALTER TABLE t AFFINITY = ''", 0),
    ("CREATE TABLE x (a INT) AFFINITY = 'partition'", 8266), ("CREATE TABLE x (a INT) AFFINITY = none", 0),
    ("CREATE TEMPORARY TABLE x (a INT) AFFINITY = 'table'", 8266),
    # what an earlier statement has dropped
    ("DROP DATABASE d; CREATE TABLE d.x (a INT)", 1049), ("DROP DATABASE d; ALTER DATABASE d CHARSET utf8mb4", 1049),
    ("DROP DATABASE d; CREATE DATABASE d; CREATE TABLE d.x (a INT)", 0), ("CREATE TABLE new.x (a INT)", -1),
    ("DROP TABLE t; ALTER TABLE t ADD COLUMN x INT", 1146), ("RENAME TABLE t TO s; TRUNCATE TABLE t", 1146),
    ("DROP TABLE t; CREATE TABLE t (a INT); ALTER TABLE t ADD COLUMN x INT", 0),
    ("DROP TABLE t; FLASHBACK TABLE t; ALTER TABLE t ADD COLUMN x INT", 0), ("ALTER TABLE nope ADD COLUMN x INT", -1),
)  # fmt: skip


def test_views_cached_tables_affinity_and_dropped_tables() -> None:
    def check_row(row: tuple[str, int]) -> None:
        sql, number = row
        catalog = with_snapshots(new_catalog(), TABLES, "d")
        question = CheckInput(sql, "d", catalog, read("kafka://k:9092/t?protocol=open-protocol"))
        report = check(question, nothing_registered()).each[-1]
        assert [r.number for r in report.refusals[:1]] == ([number] if number > 0 else [])
        assert (report.verdict == "cannot judge") == (number < 0)

    check_rows(STATEMENTS, check_row)


def test_a_sequence_without_a_database() -> None:
    catalog = with_snapshots(new_catalog(), TABLES, "d")
    sql = "ALTER TABLE d.t ALTER a SET DEFAULT (NEXTVAL(s))"
    question = CheckInput(sql, "", catalog, read("kafka://k:9092/t?protocol=open-protocol"))
    assert check(question, nothing_registered()).each[0].verdict == "safe"
