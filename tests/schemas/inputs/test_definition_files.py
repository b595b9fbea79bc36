"""`--ddl FILE`: SQL and JSON lines, and what is wrong with them in words that people use."""

from __future__ import annotations

import pytest

from tests.support.each import each
from ticdc_bridge.schemas.ddl.executor.versions import versions
from ticdc_bridge.schemas.inputs.definition_files import statements

DUMP = """-- MySQL dump 10.13  Distrib 8.0.36, for Linux (x86_64)
--
-- Host: localhost    Database: shop
/*!40101 SET @OLD_CHARACTER_SET_CLIENT=@@CHARACTER_SET_CLIENT */;
/*!50503 SET NAMES utf8mb4 */;

CREATE DATABASE /*!32312 IF NOT EXISTS*/ `shop` /*!40100 DEFAULT CHARACTER SET utf8mb4 */;
USE `shop`;

--
-- Table structure for table `orders`; and a quote '
--
DROP TABLE IF EXISTS `orders`;
/*!40101 SET @saved_cs_client     = @@character_set_client */;
CREATE TABLE `orders` (
  `id` int NOT NULL AUTO_INCREMENT,
  `note` varchar(20) DEFAULT 'a;b' COMMENT 'it''s; --',
  PRIMARY KEY (`id`)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4;
LOCK TABLES `orders` WRITE;
INSERT INTO `orders` VALUES (1,'x;y'),(2,'it\\'s');
UNLOCK TABLES;
/*!50001 CREATE VIEW `v` AS SELECT 1 AS `id`*/;
"""

# name → (file, database given beside it, the tables and their columns)
FILES: dict[str, tuple[str, str, dict[str, str]]] = {
    "a name with its database": ("CREATE TABLE shop.orders (id INT PRIMARY KEY);", "", {"shop.orders": "id"}),
    "no semicolon": ("create table `shop`.`orders` (id int)", "", {"shop.orders": "id"}),
    "the database beside it": ("CREATE TABLE orders (id INT);\n", "shop", {"shop.orders": "id"}),
    "use": ("USE a;\nCREATE TABLE t (x INT);\nuse `b-c`;\nCREATE TABLE t (y INT);", "", {"a.t": "x", "b-c.t": "y"}),
    "comments": ("# one\n-- two;\n/* three; */ CREATE TABLE a.t (x INT /* four */, y INT) -- five", "", {"a.t": "x,y"}),
    "a byte order mark": ("\ufeffCREATE TABLE a.t (x INT);", "", {"a.t": "x"}),
    "later statements": (
        "CREATE TABLE a.t (x INT);\nALTER TABLE a.t ADD y INT;\nCREATE INDEX i ON a.t (y);\nRENAME TABLE a.t TO a.u;",
        "", {"a.u": "x,y"},
    ),
    "a dump": (DUMP, "", {"shop.orders": "id,note"}),
    "a dump of one database": (DUMP.replace("USE `shop`;", ""), "shop", {"shop.orders": "id,note"}),
    "DELIMITER": (
        "CREATE TABLE a.t (x INT);\nDELIMITER ;;\nCREATE TRIGGER r BEFORE INSERT ON a.t FOR EACH ROW BEGIN SET @"
        "a=1; SET @b=2; END ;;\n"
        "delimiter ;\nCREATE TABLE a.u (y INT);", "", {"a.t": "x", "a.u": "y"}),
    "another delimiter throughout": ("DELIMITER $$\nCREATE TABLE a.t (x INT)$$\nCREATE TABLE a.u (y INT)$$", "", {"a.u":
        "y"}),
    "a dumped trigger and routine": (
        DUMP + "DELIMITER ;;\n/*!50003 CREATE*/ /*!50017 DEFINER=`root`@`%`*/ /*!50003 TRIGGER `r` BEFORE INSERT"
        " ON `orders`\n"
        "FOR EACH ROW BEGIN SET @a = 'x;y'; END */;;\nDELIMITER ;\n/*!50003 SET sql_mode = @saved_sql_mode */ ;\n"
        "/*!50001 CREATE ALGORITHM=UNDEFINED */\n/*!50013 DEFINER=`root`@`%` SQL SECURITY DEFINER */\n/*!50001 V"
        "IEW `v` AS SELECT 1 */;",
        "", {"shop.orders": "id,note"}),
    "features of TiDB": (
        "CREATE TABLE a.t (x BIGINT NOT NULL /*T![auto_rand] AUTO_RANDOM(5) */, PRIMARY KEY (x) /*T![clustered_i"
        "ndex] CLUSTERED */)"
        " /*T![ttl] TTL=`y` + INTERVAL 1 DAY */;", "", {"a.t": "x"}),
    "the database of a new cluster": ("CREATE DATABASE `test` /*!40100 DEFAULT CHARACTER SET latin1 */;USE test;"
        "CREATE TABLE t (x INT);",
        "", {"test.t": "x"}),
    "a backslash that means the same in both": (
        "CREATE TABLE a.t (x INT NOT NULL, y CHAR(9) DEFAULT 'a\\\\b' COMMENT 'c\\\\', CHECK (x > 0));", "", {"a.t":
        "x,y"}),
    "names in double quotes": ('SET SESSION sql_mode = "ANSI_QUOTES";\nCREATE TABLE "a"."t" ("x" INT);', "", {"a.t":
        "x"}),
    "a quote behind a backslash": ("SET sql_mode='NO_BACKSLASH_ESCAPES';CREATE TABLE a.t (x CHAR(9) DEFAULT 'a"
        "\\');CREATE TABLE a.u (y INT);",
        "", {"a.t": "x", "a.u": "y"}),
    "what \\G prints": ("*************************** 1. row ***************************\n       Table: t\nCreate"
        " Table: CREATE TABLE `t` (\n"
        "  `x` enum('a\\b') DEFAULT NULL\n) ENGINE=InnoDB\n*************************** 2. row ******************"
        "*********\n"
        "       Table: u\nCreate Table: CREATE TABLE `u` (\n  `y` int\n)\n2 rows in set (0.00 sec)\n", "a", {"a.t": "x",
        "a.u":
        "y"}),
    "what batch mode prints": ("t\tCREATE TABLE `t` (\\n  `x` int DEFAULT NULL COMMENT 'it\\\\\\\\s',\\n  `y` in"
        "t\\n)\nu\tCREATE TABLE `u` (\\n `z` int)\n",
        "a", {"a.t": "x,y", "a.u": "z"}),
    "batch mode with a head, raw": ("Table\tCreate Table\nt\tCREATE TABLE `t` (\n  `x` int,\n  `y` int\n)\nu\tCR"
        "EATE TABLE `u` (\n `z` int)\n",
        "a", {"a.t": "x,y", "a.u": "z"}),
    "the client's box": ("+-------+---------+\n| Table | Create Table |\n+-------+---------+\n| t     | CREATE T"
        "ABLE `t` (\n  `x` int\n) |\n+-------+---------+\n"
        "1 row in set (0.01 sec)\n", "a", {"a.t": "x"}),
    "lines of JSON": ('{"commit_ts":1,"db":"a","query":"CREATE TABLE t (x INT)"}', "", {"a.t": "x"}),
}  # fmt: skip


@each(("text", "db", "tables"), FILES.values(), ids=FILES)
def test_files_of_definitions(text: str, db: str, tables: dict[str, str]) -> None:
    made = statements(text, db)
    newest = {str(v.table.id): ",".join(c.name for c in v.table.columns) for v in versions(made)}
    assert {name: newest[name] for name in tables} == tables
    if not text.startswith("{"):
        assert {one.commit_ts for one in made} == {0}


@each(("text", "words"), [
    ("", ["it is empty"]),
    ("hello", ["line 1", "'hello' begins no SQL statement"]),
    ("id,name\n1,2\n", ["line 1", "begins no SQL statement"]),
    ("SET NAMES utf8;", ["it has no CREATE TABLE"]),
    ("\n\nCREATE TABLE orders (id INT);", ["line 3", "orders has no database", "USE db", "--table"]),
    ("CREATE TABLE a.t (x INT;", ["the statement of line 1"]),
    ("USE ;CREATE TABLE t (x INT)", ["line 1", "USE wants"]),
    ("CREATE TABLE a.t (x INT);\nSOURCE other.sql", ["line 2", "'SOURCE other.sql' begins no SQL statement"]),
    ("SET sql_mode=CONCAT(@@sql_mode, ',ANSI');", ["line 1", "sql_mode is set to an expression"]),
    ("\nSET time_zone='Mars';", ["line 2", "no time zone 'Mars'"]),
    ("*************************** 1. row ***************************\n       Table: t\nCreate Table: CREATE TABL"
        "E `t` (`a` int)\n",
     ["row 1", "has no database"]),
    (r"CREATE TABLE a.t (x ENUM('a\\b'))", ["line 1", "backslash", '"mode":"show"']),
    ('{"db":"a","query":"CREATE TABLE t (x INT)"}', ["line 1", "it has no commit_ts", "FILE.sql"]),
    ('{"commit_ts":1,"db":"a"}', ["line 1", "it has no query"]),
    ('{"commit_ts":"1","db":"a","query":"x"}', ["line 1", "commit_ts must be a whole number"]),
    ('{"commit_ts":1,"db":"a","query":"x","mode":[]}', ["line 1", "mode", "wire, typed or show"]),
    ('{"commit_ts":1,"db":"a","query":"x","typed":true,"sql_mode":1}', ["line 1", "sql_mode must be text"]),
    ('{"commit_ts":1\n', ["line 1 is not JSON", "FILE.sql"]),
    ("[1]", ["line 1", "an object with commit_ts"]),
])  # fmt: skip
def test_what_is_wrong_is_said_in_plain_words(text: str, words: list[str]) -> None:
    with pytest.raises(ValueError, match=r".") as caught:
        statements(text)
    told = str(caught.value)
    assert [word for word in words if word not in told] == [], told
    assert not any(python in told for python in ("Error", "Expecting", "object has no", "NoneType"))


def test_what_set_says_of_the_statements_after_it() -> None:
    create = "CREATE TABLE a.t (x TIMESTAMP DEFAULT '2026-01-01 08:00:00', y ENUM(x'615c62'));"
    defaults = {
        before: (column.default, column.default_unzoned)
        for before in (
            "", "/*!40103 SET TIME_ZONE='+00:00' */;", "SET @@session.time_zone := '+08:00';", "SET GLOBAL time_"
            "zone='+08:00';",
            "SET time_zone='+08:00';SET TIME_ZONE=@OLD_TIME_ZONE;",
            "SET @OLD_SQL_MODE=@@SQL_MODE, SQL_MODE='', TIME_ZONE='Asia/Shanghai';",
        )
        for column in [versions(statements(before + create))[0].table.columns[0]]
    }  # fmt: skip
    written, utc = ("2026-01-01 08:00:00", True), ("2026-01-01 00:00:00", False)
    assert list(defaults.values()) == [written, ("2026-01-01 08:00:00", False), utc, written, written, utc]


def test_lines_say_their_zone_and_what_is_left_out() -> None:
    line = (
        '{"commit_ts":1,"db":"a","query":"CREATE TABLE `t` (`x` timestamp NULL DEFAULT \'2026-01-01 08:00:00\')"'
        ',"mode":"show","zone":"%s"}'
    )
    left_out = '{"left_out":"a.u","state":"ERROR","reason":"it is not known"}\n'
    [version] = versions(statements(left_out + line % "+08:00"), "UTC")
    assert version.table.columns[0].default == "2026-01-01 00:00:00"
    with pytest.raises(ValueError, match="line 1: zone 'Mars': an IANA name"):
        statements(line % "Mars")
