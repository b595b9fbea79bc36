"""`--ddl FILE`: SQL and JSON lines, and what is wrong with them in words that people use."""

from __future__ import annotations

import pytest

from schemas.ddl.executor.versions import versions
from schemas.inputs.definition_files import statements
from tests.support.each import each

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
    ("DELIMITER ;;\nCREATE TABLE a.t (x INT);;", ["line 1", "DELIMITER"]),
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
