"""Folders of dumps and a live TiDB as sources of table definitions; what is wrong with them, without any password."""

import bz2
import gzip
import lzma
import ssl
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import cramjam
import pymysql
import pytest

from tests.support.certificates import Authority
from tests.support.each import each
from tests.support.mysql_server import PlayedTidb, serving
from tests.support.table import check_rows
from ticdc_bridge.schemas.ddl.executor.versions import versions
from ticdc_bridge.schemas.inputs.definition_files import statements
from ticdc_bridge.schemas.inputs.live_tables import live_tables, server_address
from ticdc_bridge.schemas.inputs.sql_files import sql_statements
from ticdc_bridge.schemas.inputs.table_sources import definition_source, definition_text, source_statements
from ticdc_bridge.schemas.model.table import Table

ORDERS = """CREATE TABLE `orders` (
  `id` bigint unsigned NOT NULL /*T![auto_rand] AUTO_RANDOM(5) */,
  `kind` enum('a\\b','c') DEFAULT NULL,
  `at` timestamp NOT NULL DEFAULT '2026-01-01 00:00:00',
  PRIMARY KEY (`id`) /*T![clustered_index] CLUSTERED */
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin"""
EVENTS = "CREATE TABLE `ev``ents` (\n  `n` int DEFAULT NULL\n) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4"


def tables(statements: Any) -> dict[str, Table]:
    return {str(version.table.id): version.table for version in versions(statements)}


# ---- files and folders
DUMPLING = {
    "metadata": b"Started dump at: 2026-01-01 00:00:00\n",
    "shop-schema-create.sql": b"/*!40101 SET NAMES binary*/;\nCREATE DATABASE `shop` /*!40100 DEFAULT CHARACTER "
    b"SET latin1 */;",
    "shop.orders-schema.sql": b"/*!40014 SET FOREIGN_KEY_CHECKS=0*/;\n/*!40101 SET NAMES binary*/;\nCREATE TABLE"
    b" `orders` (`a` int);",
    "shop.orders.0000000010000.sql": b"INSERT INTO `orders` VALUES\n(1),\n(broken",
    "shop.v-schema-view.sql": b"nothing that can be read",
    "shop.s-schema-sequence.sql": b"nothing that can be read",
    "a%2Eb.c%25d-schema.sql": b"CREATE TABLE `c%d` (`b` int);",
}
FOLDERS: list[tuple[str, dict[str, bytes], dict[str, list[str]]]] = [
    ("dumpling", DUMPLING, {"shop.orders": ["a"], "a.b.c%d": ["b"]}),
    ("compressed", {
        "x.a-schema.sql.gz": gzip.compress(b"CREATE TABLE a (b int);"),
        "x.c-schema.sql.zst": bytes(cramjam.zstd.compress(b"CREATE TABLE c (d int);")),
    }, {"x.a": ["b"], "x.c": ["d"]}),
    ("files that people wrote", {"1.sql": b"CREATE TABLE t (a INT);", "2.sql": b"USE y;\nCREATE TABLE t (b INT);",
        "3.txt":
        b"?"},
     {"given.t": ["a"], "y.t": ["b"]}),
]  # fmt: skip


def test_folders(tmp_path: Path) -> None:
    def check(row: tuple[str, dict[str, bytes], dict[str, list[str]]]) -> None:
        name, files, expected = row
        (folder := tmp_path / name).mkdir()
        for path, data in files.items():
            (folder / path).write_bytes(data)
        made = tables(source_statements(folder, "given").statements)
        assert {id_: [c.name for c in table.columns] for id_, table in made.items()} == expected

    check_rows(FOLDERS, check, name=lambda row: row[0])
    (tmp_path / "empty").mkdir()
    with pytest.raises(ValueError, match=r"no .sql file.*orders-schema.sql"):
        source_statements(tmp_path / "empty", "")
    (tmp_path / "compressed" / "x.e-schema.sql").write_text("CREATE TABEL x (a int)")
    with pytest.raises(ValueError, match=r"^x.e-schema.sql: the statement of line 1"):
        source_statements(tmp_path / "compressed", "")


def test_compressed_files(tmp_path: Path) -> None:
    text = b"\xef\xbb\xbfCREATE TABLE d.t (a INT);\r\n"
    whole = [gzip.compress(text), bz2.compress(text), lzma.compress(text), bytes(cramjam.zstd.compress(text)), text]
    path = tmp_path / "t.sql"
    for data in whole:
        path.write_bytes(data)
        assert list(tables(source_statements(definition_source(str(path)), "").statements)) == ["d.t"]
    for data in whole[:4]:
        path.write_bytes(data[:-3] if data[:3] != b"BZh" else data[:20])
        with pytest.raises(ValueError, match=r"cut, or damaged|or a damaged one"):
            source_statements(path, "")
    path.write_bytes(b"CREATE TABLE d.t (a INT COMMENT '\xff');")
    with pytest.raises(ValueError, match="it is neither UTF-8 nor UTF-16 text"):
        source_statements(path, "")


def test_text_in_utf_16(tmp_path: Path) -> None:
    path = tmp_path / "shop.sql"
    for encoding in ("utf-16-le", "utf-16-be"):
        path.write_bytes("\ufeffCREATE TABLE `é` (id INT);\r\n".encode(encoding))
        assert definition_text(path) == "CREATE TABLE `é` (id INT);\n"


# ---- a live TiDB
@pytest.fixture(scope="module")
def tidb() -> Iterator[PlayedTidb]:
    with serving(
        PlayedTidb({("shop", "orders"): ORDERS, ("l`g", "ev`ents"): EVENTS, ("mysql", "user"): "?"}, "it's")
    ) as server:
        yield server


def test_a_live_tidb(tidb: PlayedTidb, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BRIDGE_TABLES_PASSWORD", "it's")
    read = live_tables(f"mysql://root@127.0.0.1:{tidb.port}", pymysql)
    assert read.commit_ts == tidb.tso
    made = tables(read.statements)
    assert list(made) == ["shop.orders", "l`g.ev`ents"]
    _, kind, at = made["shop.orders"].columns
    assert (kind.elements, at.default, at.default_unzoned) == (("a\\b", "c"), "2026-01-01 00:00:00", False)
    assert all(query.split()[0] in ("SET", "BEGIN", "SELECT", "SHOW") for query in tidb.queries), "only reading"
    asked = tidb.queries.index("SET SESSION time_zone = '+00:00', sql_mode = ''")
    assert tidb.queries.index("BEGIN") > asked
    shop = source_statements(f"tidb://root@127.0.0.1:{tidb.port}/shop", "")
    [orders] = {v.table.id: v for v in versions(shop.statements)}
    assert str(orders) == "shop.orders"


def test_no_tidb_tells_no_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("BRIDGE_TABLES_PASSWORD", raising=False)
    with serving(PlayedTidb({("d", "t"): "CREATE TABLE `t` (`a` int)"}, tso=None)) as mysql:
        read = live_tables(f"mysql://root@127.0.0.1:{mysql.port}/d", pymysql)
        assert (read.commit_ts, list(tables(read.statements))) == (None, ["d.t"])


def test_tls(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("BRIDGE_TABLES_PASSWORD", raising=False)
    authority = Authority(tmp_path)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    issued = authority.issue("server")
    context.load_cert_chain(issued.certificate, issued.key)
    with serving(PlayedTidb({("d", "t"): "CREATE TABLE `t` (`a` int)"}, tls=context)) as tidb:
        url = f"mysql://root@127.0.0.1:{tidb.port}/d"
        for parameters in (
            f"ssl-ca={authority.file}",
            f"ssl-ca={authority.file}&ssl-mode=VERIFY_CA",
            "ssl-mode=REQUIRED",
        ):
            assert live_tables(f"{url}?{parameters}", pymysql).commit_ts == tidb.tso
        with pytest.raises(ValueError, match="certificate verify failed"):
            live_tables(f"{url}?ssl-mode=VERIFY_IDENTITY", pymysql)


REFUSED = [
    ("mysql://root:nope@127.0.0.1:{port}/shop", "(error 1045): give its password in BRIDGE_TABLES_PASSWORD"),
    ("mysql://root:it%27s@127.0.0.1:{port}/nope", "database nope has no table that user root may see"),
    ("mysql://root:secret@127.0.0.1:1/shop", "127.0.0.1:1: Can't connect to MySQL server"),
    ("mysql://", "mysql://USER@HOST:PORT/DATABASE is needed"),
    ("mysql://root@h?ssl-mode=SOME", "ssl-mode SOME: DISABLED, REQUIRED, VERIFY_CA, VERIFY_IDENTITY are known"),
    ("mysql://root@h?ssl-ca=/no/file", "ssl-ca: there is no file /no/file"),
    ("mysql://root@h?password-file=/no/file", "password-file /no/file: "),
    ("mysql://root@h?tls=1", "tls is no parameter of it; known: ssl-ca"),
    ("mysql://root:it%27s@127.0.0.1:{port}/shop?ssl-mode=REQUIRED", "SSL is required but the server"),
]


def test_what_is_wrong_is_said_without_passwords(tidb: PlayedTidb, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("BRIDGE_TABLES_PASSWORD", raising=False)

    def check(row: tuple[str, str]) -> None:
        with pytest.raises(ValueError, match=r".") as caught:
            live_tables(row[0].format(port=tidb.port), pymysql)
        assert row[1] in str(caught.value)
        assert not any(word in str(caught.value) for word in ("secret", "nope@", "it%27s", "Errno"))

    check_rows(REFUSED, check)


def test_addresses(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("BRIDGE_TIDB_PASSWORD", raising=False)
    (secret := tmp_path / "secret").write_text("from a file\n")
    rows = {
        "mysql://h": ("h", 4000, "root", "", ""),
        "tidb://u%40x:p%2Fw@h:3306/d%2Db": ("h", 3306, "u@x", "d-b", "p/w"),
        "mysql://u@[::1]:4000/d": ("::1", 4000, "u", "d", ""),
        f"mysql://u:other@h/d?password-file={secret}": ("h", 4000, "u", "d", "from a file"),
    }
    for url, expected in rows.items():
        address = server_address(url)
        assert (address.host, address.port, address.user, address.database, address.password) == expected
        assert "from a file" not in repr(address)
    assert isinstance(definition_source("mysql://h/d"), str)
    assert isinstance(definition_source("d/mysql.sql"), Path)


# ---- `--ddl FILE`: SQL and JSON lines, and what is wrong with them in words that people use.

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
        assert {entry.commit_ts for entry in made} == {0}


@each(("text", "words"), [
    ("", ["it is empty"]),
    ("hello", ["line 1", "'hello' begins no SQL statement"]),
    ("id,name\n1,2\n", ["line 1", "begins no SQL statement"]),
    ("SET NAMES utf8;", ["it has no CREATE TABLE"]),
    ("\n\nCREATE TABLE orders (id INT);", ["line 3", "orders has no database", "USE db"]),
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
    error_text = str(caught.value)
    assert [word for word in words if word not in error_text] == [], error_text
    assert not any(python in error_text for python in ("Error", "Expecting", "object has no", "NoneType"))


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


UNREADABLE = (
    "CREATE TABLE IF NOT EXISTS `Geo``x` (id INT PRIMARY KEY, h INT INVISIBLE)",
    "CREATE TABLE shop.`Geo``x` (id INT PRIMARY KEY, p POINT NOT NULL, SPATIAL KEY (p))",
    "CREATE TABLE `Geo``x` (id INT, d DATETIME DEFAULT (now() + interval 1 day))",
    "CREATE TABLE `Geo``x` (id INT) DEFAULT CHARSET=ucs2",
    "CREATE TABLE `Geo``x` (id INT, c CHAR(9) CHARACTER SET utf16)",
    "CREATE TABLE `Geo``x` (id UUID, a INET6)",
)


def test_such_a_table_leaves_the_others_of_a_folder_and_of_what_the_client_prints(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    good, odd = "CREATE TABLE `t` (`id` int)", "CREATE TABLE `w` (`g` geometry)"
    row = "*************************** {}. row ***************************\n       Table: {}\nCreate Table: {}\n"
    batch = f"Table\tCreate Table\nw\t{odd}\nt\t{good}\n"
    for printed in (row.format(1, "w", odd) + row.format(2, "t", good), batch):
        assert tables(sql_statements(printed, "shop")).keys() == {"shop.t"}
    for name, text in (("t", good), ("w", odd)):
        (tmp_path / f"shop.{name}-schema.sql").write_text(f"{text};\n")
    assert tables(source_statements(tmp_path, "").statements).keys() == {"shop.t"}
    assert len(caplog.records) == 3
    (tmp_path / "shop.t-schema.sql").unlink()
    with pytest.raises(ValueError, match=r"shop\.w-schema\.sql: the statement of line 1"):
        source_statements(tmp_path, "")


@each("unreadable", UNREADABLE)
def test_a_table_that_tidb_cannot_have_leaves_the_others(unreadable: str, caplog: pytest.LogCaptureFixture) -> None:
    """It is named, and what is said of it later is passed over; a table that was known before is not forgotten so."""
    others = (
        "USE shop; CREATE TABLE a (id INT); {}; ALTER TABLE `geo``x` ADD COLUMN y INT INVISIBLE; ALTER TABLE `Geo``X` "
        "ADD KEY (id); CREATE INDEX i ON `Geo``x` (id); DROP TABLE IF EXISTS b; CREATE TABLE b (id INT);"
    )
    caplog.clear()
    texts = sql_statements(others.format(unreadable))
    assert [text.query.split()[:3] for text in texts] == [
        ["CREATE", "TABLE", "a"], ["DROP", "TABLE", "IF"], ["CREATE", "TABLE", "b"],
    ]  # fmt: skip
    assert {str(version.table.id) for version in versions(texts)} == {"shop.a", "shop.b"}
    (record,) = caplog.records
    assert record.getMessage().startswith(
        "table shop.geo`x is left out, as it can't be one of TiDB's: the statement of line 1"
    )
    again = others.format(unreadable) + "CREATE TABLE `Geo``x` (id INT);"
    assert len(versions(sql_statements(again))) == 3
    dump = f"USE shop; DROP TABLE IF EXISTS `Geo``x`; {unreadable}; DROP TABLE IF EXISTS a; CREATE TABLE a (id INT);"
    assert [str(version.table.id) for version in versions(sql_statements(dump))] == ["shop.a"]
    with pytest.raises(ValueError, match="the statement of line 1"):
        sql_statements(f"USE shop; CREATE TABLE `Geo``x` (id INT); DROP TABLE `Geo``x`; {unreadable}")
    with pytest.raises(ValueError, match="the statement of line 1"):
        sql_statements(f"USE shop; {unreadable}")
