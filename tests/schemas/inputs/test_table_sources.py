"""Folders of dumps and a live TiDB as sources of table definitions; what is wrong with them, without any password."""

from __future__ import annotations

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
from tests.support.mysql_server import PlayedTidb, serving
from tests.support.table import check_rows
from ticdc_bridge.schemas.ddl.executor.versions import versions
from ticdc_bridge.schemas.inputs.live_tables import live_tables, server_address
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
    ("mysql://root:nope@127.0.0.1:{port}/shop", "Access denied for user 'root'"),
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
    monkeypatch.delenv("BRIDGE_TABLES_PASSWORD", raising=False)
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
