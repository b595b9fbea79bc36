"""Partitions, tables with AFFINITY and foreign keys of a table to itself, as TiDB's own tests answer them."""

from __future__ import annotations

from schemas.ddl.executor.apply import apply
from schemas.ddl.executor.catalog import Catalog, new_catalog
from schemas.ddl.parser.lexer import LexicalMode
from schemas.ddl.parser.statement_parser import parse
from schemas.model.errors import DdlError
from service.ddl_check.refusals.columns import SqlModes
from service.ddl_check.refusals.statements import refusals
from tests.support.table import check_rows

TABLES = (
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
