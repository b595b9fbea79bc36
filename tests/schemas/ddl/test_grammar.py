"""TiDB's DDL grammar (8.5 to 9, upstream `pkg/parser/parser.y`) as data: a statement for each production that is known,
and what TiDB itself refuses to parse. What is in neither list is not understood, and is never called safe.
"""

import pytest

from tests.support.dry_runs import feed, nothing_registered, shop
from tests.support.table import check_rows
from ticdc_bridge.schemas.ddl.parser.lexer import TYPED
from ticdc_bridge.schemas.ddl.parser.statement_parser import parse
from ticdc_bridge.schemas.model.errors import DdlError
from ticdc_bridge.service.ddl_check.check import CheckInput, check

_COLUMN = "CREATE TABLE t (c {})"
_ALTER = "ALTER TABLE t {}"
_TABLE = "CREATE TABLE t (a INT) {}"
_PARTITIONS = "CREATE TABLE t (a INT, b INT) PARTITION BY {}"
# Production → its statements, or what stands in a statement.
KNOWN: dict[str, tuple[str, list[str]]] = {
    "statements": ("{}", [
        "CREATE DATABASE d CHARACTER SET utf8mb4 COLLATE utf8mb4_bin ENCRYPTION = 'N' PLACEMENT POLICY = p",
        "CREATE SCHEMA IF NOT EXISTS d", "ALTER DATABASE d CHARSET utf8", "ALTER DATABASE SET TIFLASH REPLICA 1",
        "DROP DATABASE IF EXISTS d", "CREATE TABLE IF NOT EXISTS t LIKE u", "CREATE TABLE t (LIKE u)",
        "CREATE TEMPORARY TABLE t (a INT)", "CREATE GLOBAL TEMPORARY TABLE t (a INT) ON COMMIT DELETE ROWS",
        "CREATE TABLE t (a INT) AS SELECT 1", "DROP TABLE IF EXISTS t, u CASCADE", "DROP GLOBAL TEMPORARY TABLE t",
        "TRUNCATE t", "RENAME TABLE a TO b, c TO d.e", "RECOVER TABLE t 3", "RECOVER TABLE BY JOB 9",
        "FLASHBACK TABLE t TO u", "FLASHBACK DATABASE d TO e", "FLASHBACK CLUSTER TO TIMESTAMP '2026-01-01'",
        "FLASHBACK TABLE t, u TO TSO 99", "CREATE OR REPLACE VIEW v (a, b) AS SELECT 1, 2 WITH LOCAL CHECK OPTION",
        "CREATE ALGORITHM = MERGE DEFINER = u@h SQL SECURITY INVOKER VIEW v AS SELECT 1", "DROP VIEW IF EXISTS v",
        "CREATE SEQUENCE s START 5 INCREMENT BY 2 CACHE 9", "ALTER SEQUENCE s RESTART", "DROP SEQUENCE s",
        "CREATE PLACEMENT POLICY p FOLLOWERS=4", "CREATE RESOURCE GROUP g RU_PER_SEC = 9",
        "CREATE MASKING POLICY p ON t (c) AS c", "CREATE USER u IDENTIFIED BY 'x'", "CREATE ROLE r",
        "CREATE BINDING FOR SELECT 1 USING SELECT 1", "CREATE STATISTICS s (CARDINALITY) ON t (a, b)",
        "ALTER INSTANCE RELOAD TLS", "ALTER RANGE global PLACEMENT POLICY p", "RENAME USER a TO b",
        "LOCK TABLES t READ", "UNLOCK TABLES", "LOCK STATS t", "ADMIN CHECK TABLE t", "ALTER TABLE t COMPACT",
        "ALTER TABLE t ANALYZE PARTITION p", "CREATE HYBRID INDEX i ON t (b, c) PARAMETER '{{}}'",
    ]),
    "CREATE INDEX": ("CREATE {}", [
        "UNIQUE INDEX i USING BTREE ON t (a DESC, (b + 1), c(3)) COMMENT 'x' INVISIBLE ALGORITHM = INPLACE LOCK = NONE",
        "INDEX IF NOT EXISTS i ON t (a) KEY_BLOCK_SIZE = 4 GLOBAL", "FULLTEXT INDEX i ON t (a) WITH PARSER standard",
        "SPATIAL INDEX i ON t (a)", "VECTOR INDEX i ON t ((VEC_COSINE_DISTANCE(a))) USING HNSW",
        "COLUMNAR INDEX i ON t (a) USING INVERTED", "INDEX i ON t (a) WHERE b > 1",
        "INDEX i ON t (a) PRE_SPLIT_REGIONS = (BETWEEN (1) AND (2) REGIONS 3)",
    ]),
    "types": (_COLUMN, [
        "BOOL", "BIT(3)", "TINYINT(1) UNSIGNED", "INT3", "BIGINT(20) ZEROFILL", "DOUBLE PRECISION(5,2)", "FLOAT(53)",
        "FIXED(5,2)", "NCHAR(5)", "NATIONAL CHARACTER VARYING(5)", "LONG VARCHAR", "LONG",
        "TEXT(20) BINARY CHARSET gbk",
        "BLOB(20)", "ENUM('a','b') COLLATE utf8mb4_bin", "SET(x'61', 'b')", "JSON", "VECTOR(3)", "VECTOR<FLOAT>(3)",
        "SQL_TSI_YEAR", "DATETIME(6)", "SERIAL", "CHAR BYTE", "CHAR UNICODE",
    ]),
    "options of columns": (_COLUMN, [
        "INT NOT NULL DEFAULT 1 COMMENT 'x'", "INT PRIMARY KEY CLUSTERED", "INT UNIQUE KEY GLOBAL", "BIGINT KEY",
        "BIGINT PRIMARY KEY AUTO_RANDOM(5, 54)", "INT AUTO_INCREMENT UNIQUE", "DATETIME DEFAULT NOW() ON UPDATE NOW()",
        "DATETIME DEFAULT CURRENT_TIMESTAMP(3)", "INT DEFAULT NEXT VALUE FOR s", "CHAR(36) DEFAULT (UUID())",
        "INT AS (1 + 1) STORED", "INT GENERATED ALWAYS AS (1) VIRTUAL", "INT CONSTRAINT x CHECK (c > 0) NOT ENFORCED",
        "INT REFERENCES u (a) ON DELETE CASCADE", "INT COLUMN_FORMAT FIXED STORAGE DISK", "INT SERIAL DEFAULT VALUE",
        "INT SECONDARY_ENGINE_ATTRIBUTE = '{{}}'",
    ]),
    "constraints": ("CREATE TABLE t (a INT, {})", [
        "CONSTRAINT p PRIMARY KEY USING BTREE (a) NONCLUSTERED", "UNIQUE INDEX u (a) GLOBAL", "FULLTEXT KEY f (a)",
        "CONSTRAINT f FOREIGN KEY IF NOT EXISTS i (a) REFERENCES u (b) MATCH FULL ON DELETE SET NULL ON UPDATE CASCADE",
        "CONSTRAINT CHECK (a > 0)", "VECTOR INDEX v ((VEC_L2_DISTANCE(a)))", "COLUMNAR INDEX c (a)",
    ]),
    "options of tables": (_TABLE, [
        "ENGINE = InnoDB DEFAULT CHARSET utf8mb4 COLLATE utf8mb4_bin COMMENT 'x'", "AUTO_INCREMENT 5 AUTO_ID_CACHE 1",
        "AUTO_RANDOM_BASE = 5", "SHARD_ROW_ID_BITS = 4 PRE_SPLIT_REGIONS = 3", "ROW_FORMAT = DYNAMIC CHECKSUM = 1",
        "TTL = a + INTERVAL 1 DAY TTL_ENABLE = 'ON' TTL_JOB_INTERVAL = '1h'", "PLACEMENT POLICY = p",
        "STATS_BUCKETS 9 STATS_TOPN 9 STATS_SAMPLE_RATE 0.1 STATS_COL_CHOICE = 'ALL'", "UNION = (u, v)",
        "INSERT_METHOD FIRST DATA DIRECTORY 'x' INDEX DIRECTORY 'y'", "AFFINITY = 'table'",
        "STORAGE_CLASS = 'STANDARD'",
        "COMPRESSION 'zlib' CONNECTION 'x' PASSWORD 'p' ENCRYPTION 'N'", "SECONDARY_ENGINE NULL ENGINE_ATTRIBUTE = 'x'",
    ]),
    "partitions": (_PARTITIONS, [
        "HASH (a) PARTITIONS 4", "LINEAR KEY ALGORITHM = 2 (a) PARTITIONS 3", "KEY ()",
        "RANGE (a) (PARTITION p VALUES LESS THAN (1) COMMENT 'x' ENGINE = InnoDB, PARTITION q VALUES LESS THAN (2))",
        "RANGE COLUMNS (a, b) (PARTITION p VALUES LESS THAN (1, MAXVALUE) PLACEMENT POLICY = x)",
        "LIST (a) (PARTITION p VALUES IN (1, NULL), PARTITION q DEFAULT)",
        "LIST COLUMNS (a, b) (PARTITION p VALUES IN ((1, 2), (3, 4)))",
        "RANGE (a) INTERVAL (10) FIRST PARTITION LESS THAN (0) LAST PARTITION LESS THAN (90) NULL PARTITION",
        "RANGE (a) SUBPARTITION BY HASH (b) SUBPARTITIONS 2 (PARTITION p VALUES LESS THAN (1))",
        "HASH (a) UPDATE INDEXES (i GLOBAL)",
    ]),
    "ALTER TABLE": (_ALTER, [
        "ADD COLUMN IF NOT EXISTS a INT FIRST", "ADD (a INT, b INT, INDEX i (a))", "ADD INDEX IF NOT EXISTS i (a)",
        "ADD CONSTRAINT f FOREIGN KEY (a) REFERENCES u (a)", "ADD CHECK (a > (SELECT 1))",
        "ADD VECTOR INDEX v ((f(a)))",
        "ADD PARTITION IF NOT EXISTS (PARTITION p VALUES LESS THAN MAXVALUE)", "ADD PARTITION PARTITIONS 2",
        "ADD STATS_EXTENDED s CORRELATION (a, b)", "ADD MASKING POLICY p ON (c) AS c RESTRICT ON (CTAS) ENABLE",
        "DROP COLUMN IF EXISTS a RESTRICT", "DROP PRIMARY KEY", "DROP INDEX IF EXISTS i", "DROP FOREIGN KEY f",
        "DROP CONSTRAINT x", "DROP PARTITION p, q", "DROP STATS_EXTENDED s", "DROP MASKING POLICY p",
        "MODIFY COLUMN IF EXISTS a INT AFTER b", "MODIFY MASKING POLICY p SET EXPRESSION = c", "CHANGE a b INT",
        "RENAME COLUMN a TO b", "RENAME INDEX a TO b", "RENAME TO u", "RENAME = d.u", "ALTER a SET DEFAULT (NOW())",
        "ALTER a DROP DEFAULT", "ALTER INDEX i INVISIBLE", "ALTER CHECK x NOT ENFORCED", "ORDER BY a DESC, b",
        "CONVERT TO CHARACTER SET DEFAULT COLLATE utf8mb4_bin", "COMMENT = 'x', AUTO_INCREMENT = 5",
        "FORCE AUTO_INCREMENT 5",
        "SET TIFLASH REPLICA 2 LOCATION LABELS 'a', 'b'", "SET HYPO TIFLASH REPLICA 1", "ATTRIBUTES = 'x'",
        "STATS_OPTIONS = DEFAULT", "LOCK = SHARED, ALGORITHM = INSTANT, ADD a INT", "FORCE", "WITH VALIDATION", "CACHE",
        "NOCACHE", "SECONDARY_LOAD", "READ ONLY", "ENABLE KEYS", "DISABLE MASKING POLICY p", "IMPORT TABLESPACE",
        "DISCARD PARTITION p TABLESPACE", "EXCHANGE PARTITION p WITH TABLE u WITHOUT VALIDATION",
        "TRUNCATE PARTITION ALL",
        "REBUILD PARTITION p", "CHECK PARTITION ALL", "OPTIMIZE PARTITION LOCAL p", "REPAIR PARTITION p",
        "COALESCE PARTITION 2", "REORGANIZE PARTITION",
        "REORGANIZE PARTITION p INTO (PARTITION q VALUES LESS THAN (9))",
        "FIRST PARTITION LESS THAN (9) IF EXISTS", "LAST PARTITION LESS THAN (9)",
        "MERGE FIRST PARTITION LESS THAN (9)",
        "SPLIT MAXVALUE PARTITION LESS THAN (9)", "REMOVE PARTITIONING", "REMOVE TTL", "PARTITION p ATTRIBUTES = 'x'",
        "PARTITION p PLACEMENT POLICY = x", "PARTITION BY HASH (a) PARTITIONS 3 UPDATE INDEXES (i LOCAL)",
        "ADD a INT REMOVE TTL",
    ]),
}  # fmt: skip
# What TiDB's parser refuses, or no version knows: not understood here either.
NOT_GRAMMAR = """
CREATE DATABASE d ENCRYPTION = N
CREATE TABLE t (a INT) ON COMMIT DELETE ROWS
CREATE GLOBAL TEMPORARY TABLE t (a INT)
CREATE TABLE t (a TIMESTAMP DEFAULT NOW)
CREATE TABLE t (a INT, VECTOR KEY v ((f(a))))
CREATE INDEX i ON t (a) ALGORITHM = FAST
DROP INDEX i ON t LOCK = lock_type
ALTER TABLE t RENAME COLUMN t.a TO b
ALTER TABLE t ALTER a SET DEFAULT CURRENT_TIMESTAMP
ALTER TABLE t ADD a INT, REMOVE PARTITIONING
ALTER TABLE t REMOVE PARTITIONING, ADD a INT
ALTER TABLE t ADD a INT, PARTITION BY HASH (a)
ALTER TABLE t LOCK = SOMETIMES
ALTER TABLE t DROP FIRST PARTITION LESS THAN (9)
ALTER TABLE t ADD PERIOD FOR SYSTEM_TIME (a, b)
ALTER TABLE t FUTURE OPTION = 1
CREATE TABLE t (a INT) FUTURE_OPTION = 1
CREATE MATERIALIZED VIEW v AS SELECT 1
CALL procedure_of_somebody()
EXECUTE prepared
CREATE TABLE t (a INT COMMENT _utf8mb4'x')
CREATE TABLE t (a INT) COMMENT = 'x' 'y'
CREATE TABLE t (a INT, KEY (a) COMMENT N'x')
CREATE TABLE t (a ENUM('x' 'y'))
CREATE TABLE t (a SET(_utf8'x'))
CREATE TABLE t (a VARCHAR(9) DEFAULT _nothing'x')
CREATE TABLE t (a VARCHAR(9) DEFAULT _utf8'x' 'y')
CREATE TABLE t (a INT DEFAULT 0X41)
CREATE TABLE t (a INT DEFAULT 0B1)
CREATE TABLE t (a INT DEFAULT b)
CREATE INDEX i ON t (a) WHERE a > 1 LOCK = masking
REFRESH MATERIALIZED VIEW v
ALTER TABLE t COMPACT TIFLASH = REPLICA
ALTER TABLE t ANALYZE IF EXISTS PARTITION p
CREATE TABLE t (c CHAR(5) CHARSET utf8 BINARY CHARSET utf8)
CREATE TABLE t (c TEXT BYTE ASCII)
"""
# What is read in full here, so that TiDB is known to refuse it.
REFUSED_GRAMMAR = """
CREATE TABLE t (a INT) CHARACTER SET DEFAULT
CREATE TRIGGER x BEFORE INSERT ON t FOR EACH ROW SET @a = 1
CREATE EVENT e ON SCHEDULE EVERY 1 DAY DO SELECT 1
CREATE DEFINER = 'a'@'%' TRIGGER x AFTER DELETE ON t FOR EACH ROW SET @a = 1
CREATE FUNCTION f RETURNS INT SONAME 'x.so'
DROP TRIGGER IF EXISTS x
CREATE TABLE t (a VARBINARY(9) DEFAULT x'4')
CREATE TABLE t (a VARCHAR(9), b INT AS (a LIKE 'x' ESCAPE 'yz'))
CREATE TABLE t (c CHAR(5) COLLATE utf8mb4_bin COLLATE utf8mb4_bin)
FLASHBACK DATABASE d TO TSO 0
"""


def test_every_production_is_known() -> None:
    rows = [form.format(text.replace("{{", "{").replace("}}", "}")) for form, texts in KNOWN.values() for text in texts]
    check_rows(rows, lambda sql: parse(sql, TYPED, "test"))


def test_what_is_no_grammar_is_never_safe() -> None:
    def check_row(row: tuple[str, str]) -> None:
        sql, verdict = row
        with pytest.raises(DdlError):
            parse(sql, TYPED, "test")
        form = check(CheckInput(sql, "shop", shop(), feed()), nothing_registered()).form()
        assert form["verdict"] == verdict
        assert sql.startswith(("CALL", "EXECUTE")) or "(error 1064)" in form["reason"]

    unknown = [(sql, "cannot judge") for sql in NOT_GRAMMAR.strip().split("\n")]
    check_rows([*unknown, *((sql, "refused") for sql in REFUSED_GRAMMAR.strip().split("\n"))], check_row)


def test_what_is_refused_changes_no_table() -> None:
    sql = "DROP TRIGGER t; ALTER TABLE orders ADD COLUMN x INT"
    form = check(CheckInput(sql, "shop", shop(), feed()), nothing_registered()).form()
    assert [statement["verdict"] for statement in form["statements"]] == ["refused", "safe"]
