"""What TiDB takes, or what nobody here can know, is not refused."""

from __future__ import annotations

from tests.service.ddl_check.test_refusals import numbers, tables
from tests.support.ddl_histories import FILES, recorded
from tests.support.dry_runs import feed, nothing_registered
from tests.support.table import check_rows
from ticdc_bridge.schemas.ddl.executor.apply import apply
from ticdc_bridge.schemas.ddl.executor.catalog import new_catalog
from ticdc_bridge.schemas.ddl.parser.lexer import LexicalMode
from ticdc_bridge.schemas.ddl.parser.statement_parser import parse
from ticdc_bridge.schemas.model.errors import DdlError
from ticdc_bridge.service.ddl_check.check import check
from ticdc_bridge.service.ddl_check.check_input import CheckInput
from ticdc_bridge.service.ddl_check.refusals.columns import SqlModes
from ticdc_bridge.service.ddl_check.refusals.statements import refusals

# What depends on rows, on settings of the server or on nothing at all is not refused.
ACCEPTED = r"""
ALTER TABLE orders ADD COLUMN x INT NOT NULL
ALTER TABLE orders ADD INDEX i (id, (CAST(doc->'$.a' AS CHAR(9) ARRAY)))
ALTER TABLE orders ADD INDEX i (((CAST(doc AS DATETIME(3) ARRAY)))), ADD INDEX k ((CAST(doc AS UNSIGNED ARRAY)))
ALTER TABLE orders ADD COLUMN x VARCHAR(16383)
ALTER TABLE orders ADD COLUMN x VARCHAR(65535) CHARSET latin1
ALTER TABLE orders ADD COLUMN x ENUM('a','A')
ALTER TABLE orders ADD COLUMN x TEXT DEFAULT (JSON_QUOTE('a'))
ALTER TABLE orders ADD COLUMN x VECTOR(3) DEFAULT (VEC_FROM_TEXT('[1,2,3]'))
ALTER TABLE orders ADD COLUMN x DATETIME(3) DEFAULT CURRENT_TIMESTAMP(3) ON UPDATE CURRENT_TIMESTAMP(3)
ALTER TABLE orders ADD COLUMN x DATE DEFAULT (CURRENT_DATE)
ALTER TABLE orders ADD COLUMN x DATETIME(0) ON UPDATE LOCALTIME(0)
CREATE TABLE x (a INT KEY NONCLUSTERED) SHARD_ROW_ID_BITS = 4
ALTER TABLE orders ADD COLUMN x VARCHAR(5) CHARSET gbk DEFAULT '你'
ALTER TABLE orders ADD COLUMN x VARCHAR(5) CHARSET latin1 DEFAULT 'é'
ALTER TABLE orders ADD COLUMN x TINYINT UNSIGNED DEFAULT 255
ALTER TABLE orders ADD COLUMN x DECIMAL(4,2) DEFAULT 99.994
ALTER TABLE orders ADD COLUMN x TINYINT UNSIGNED DEFAULT 255.4
ALTER TABLE orders ADD COLUMN x DECIMAL(65,0) DEFAULT 99999999999999999999999999999999999999999999999999999999999999999
ALTER TABLE h ADD PARTITION PARTITIONS 2
ALTER TABLE orders ADD COLUMN x DATE DEFAULT '2024-02-29'
ALTER TABLE orders ADD COLUMN x BIT(2) DEFAULT 3
ALTER TABLE orders ADD COLUMN IF NOT EXISTS id INT
ALTER TABLE orders ADD COLUMN x INT AS (`qty` + `customer_id`)
ALTER TABLE orders ADD COLUMN x VARCHAR(20) AS (CONCAT(note, 'now()`nope`'))
ALTER TABLE orders MODIFY id BIGINT NOT NULL COMMENT 'x'
ALTER TABLE one MODIFY c BIGINT UNSIGNED NOT NULL
ALTER TABLE pair MODIFY a TINYINT, MODIFY b BIGINT AFTER a
ALTER TABLE orders COMMENT = 'x', ALTER INDEX n INVISIBLE, ADD COLUMN x INT AFTER note
ALTER TABLE orders RENAME COLUMN ratio TO r, ALTER tags SET DEFAULT 'b', ADD INDEX i (status)
ALTER TABLE orders MODIFY note VARCHAR(10) NOT NULL
ALTER TABLE orders MODIFY note VARCHAR(600)
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
ALTER TABLE orders PARTITION BY HASH(customer_id) PARTITIONS 4 UPDATE INDEXES (`PRIMARY` GLOBAL)
ALTER TABLE parent PARTITION BY HASH(id) PARTITIONS 4
ALTER TABLE orders CONVERT TO CHARACTER SET utf8mb4
ALTER TABLE orders RENAME TO o2
ALTER TABLE orders ADD COLUMN x CHAR(5) COLLATE utf8mb4_0900_ai_ci
CREATE TABLE IF NOT EXISTS orders (a INT)
CREATE TABLE x (a INT) PARTITION BY RANGE (a) (PARTITION p VALUES LESS THAN (-9), PARTITION q VALUES LESS THAN (9))
CREATE TABLE x (a INT, b INT) PARTITION BY RANGE COLUMNS (a, b) (PARTITION p VALUES LESS THAN (1, MAXVALUE))
CREATE TABLE x (a INT) PARTITION BY RANGE (a) (PARTITION p VALUES LESS THAN (9 - 8), PARTITION q VALUES LESS THAN (5))
CREATE TABLE x (a INT, b INT) PARTITION BY LIST COLUMNS (a, b) (PARTITION p VALUES IN ((1, 2), (2, 1)))
CREATE TABLE x (a DATE, b INT) PARTITION BY HASH (EXTRACT(DAY FROM (a)) DIV (b) + ABS(b) - (b))
ALTER TABLE r ADD PARTITION (PARTITION p VALUES LESS THAN (40))
ALTER TABLE c ADD PARTITION (PARTITION p VALUES LESS THAN ('2024-02-02'))
ALTER TABLE l ADD PARTITION (PARTITION p VALUES IN (4, 5))
CREATE TABLE x (a INT, b INT) PARTITION BY LIST COLUMNS (a, b) (PARTITION p VALUES IN ((NULL, 1), (NULL, 2)))
ALTER TABLE r REORGANIZE PARTITION p0, p1 INTO (PARTITION p VALUES LESS THAN (5), PARTITION q VALUES LESS THAN (20))
ALTER TABLE r REORGANIZE PARTITION p2 INTO (PARTITION p VALUES LESS THAN (50))
ALTER TABLE l REORGANIZE PARTITION p0 INTO (PARTITION p VALUES IN (1, 2), PARTITION q VALUES IN (7))
ALTER TABLE h COALESCE PARTITION 3
ALTER TABLE later MODIFY c INT AS (b + 2)
ALTER TABLE text_child MODIFY p VARCHAR(30)
CREATE TABLE x (id FLOAT PRIMARY KEY NONCLUSTERED, t TIMESTAMP) TTL = t + INTERVAL 1 DAY
CREATE TABLE x (a BIGINT PRIMARY KEY AUTO_RANDOM(5, 54))
CREATE OR REPLACE VIEW x AS SELECT '@a'
CREATE TABLE x (a VARCHAR(9)) PARTITION BY LIST COLUMNS (a) (PARTITION p VALUES IN (0, 4))
CREATE TABLE x (a INT, b INT) PARTITION BY LIST COLUMNS (a, b) (PARTITION p VALUES IN ((1, 2), DEFAULT))
CREATE OR REPLACE MASKING POLICY p ON orders (note) AS note
CREATE PLACEMENT POLICY IF NOT EXISTS p FOLLOWERS = 2
CREATE TABLE x (a BIT(8)) PARTITION BY HASH (a)
CREATE TABLE x (t TIMESTAMP) PARTITION BY RANGE (UNIX_TIMESTAMP(t)) (PARTITION p VALUES LESS THAN (2000))
CREATE TABLE x (d DATETIME, a INT) PARTITION BY HASH (a + MINUTE(d)) PARTITIONS 3
CREATE TABLE x (d DATE) PARTITION BY RANGE (TO_DAYS(d)) (PARTITION p VALUES LESS THAN (TO_DAYS('2020-01-01')))
CREATE TABLE x (a INT, y YEAR) PARTITION BY LIST (1 + y - 1) (PARTITION p VALUES IN (1))
CREATE TABLE x (a INT) ENGINE = Aria COLLATE utf8mb4_zh_pinyin_tidb_as_cs
CREATE TABLE x (id INT PRIMARY KEY, v BINARY(16) DEFAULT (UUID_TO_BIN(UUID_V7())))
ALTER TABLE auto MODIFY id BIGINT AUTO_RANDOM(5)
ALTER TABLE orders ALTER INDEX u INVISIBLE
ALTER TABLE h TRUNCATE PARTITION p3
CREATE TABLE x (id INT PRIMARY KEY, v VARCHAR(36) DEFAULT (UUID()))
CREATE TABLE x (a INT AUTO_INCREMENT, KEY (a))
CREATE TABLE x (a INT, p INT, FOREIGN KEY (p) REFERENCES x(a), KEY (a))
CREATE TABLE x (a INT, UNIQUE (a) GLOBAL, b INT) PARTITION BY HASH (b)
RENAME TABLE orders TO parent2, parent TO orders
"""


def test_statements_that_tidb_takes() -> None:
    def check_row(sql: str) -> None:
        assert numbers(sql) == []

    check_rows(ACCEPTED.strip().split("\n"), check_row)


def test_what_is_not_known_is_not_judged() -> None:
    """A primary key may be clustered, a table may be there, a prefix may be as long as its column."""
    by_prefix = "CREATE TABLE x (b VARCHAR(9), FOREIGN KEY (b) REFERENCES prefix (b))"
    for sql in ("ALTER TABLE parent DROP PRIMARY KEY", "DROP TABLE nope", by_prefix):
        form = check(CheckInput(sql, "shop", tables(), feed()), nothing_registered()).form()
        assert (form["verdict"], form["refusals"]) == ("cannot judge", []), sql
        assert "(error " in form["reason"]
        assert form["statement"]["tables"] == [form["statement"]["db"] + "." + sql.split()[2]]


def test_what_older_versions_refuse_is_not_judged() -> None:
    for sql in (
        "CREATE TABLE x (a INT AUTO_INCREMENT, b INT)",
        "CREATE TABLE x (a INT, FOREIGN KEY (a) REFERENCES no(a))",
    ):
        form = check(CheckInput(sql, "shop", tables(), feed()), nothing_registered()).form()
        assert (form["verdict"], form["refusals"]) == ("cannot judge", []), sql


def test_foreign_keys_that_are_not_checked() -> None:
    drop = "ALTER TABLE child DROP INDEX p"
    gone = "DROP TABLE boss"
    sql = f"{gone}; SET foreign_key_checks = 0; {drop}; {gone}; SET SESSION foreign_key_checks = ON; {drop}"
    form = check(CheckInput(sql, "shop", tables(), feed()), nothing_registered()).form()
    assert [one["verdict"] for one in form["statements"]] == ["refused", "safe", "refused", "safe", "safe", "refused"]


def test_nothing_that_a_real_tidb_accepted_is_refused() -> None:
    wrong, told = [], 0
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
                told += line["errno"] in [r.number for r in refused]
    assert wrong == []
    assert told >= 11
