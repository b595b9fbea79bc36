"""`check-ddl --try`: a real TiDB refuses, says what each table is after, and keeps nothing of it."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pymysql
import pytest

from tests.support.service import command, until
from tests.support.table import check_rows
from tests.support.tidb import needs_tidb, running_tidb
from ticdc_bridge.service.history.model import Batch, DdlRecord
from ticdc_bridge.service.store import open_store
from ticdc_bridge.service.store.history_store import HistoryStore

pytestmark = needs_tidb
ROOT = Path(__file__).parents[3]
TABLES = """
CREATE DATABASE shop; CREATE DATABASE crm CHARACTER SET utf8mb4 COLLATE utf8mb4_general_ci;
CREATE TABLE shop.orders (id BIGINT PRIMARY KEY, note TEXT, total DECIMAL(10,2), KEY n (note(20)), KEY e ((total + 1)));
CREATE TABLE shop.boss (id INT PRIMARY KEY);
CREATE TABLE shop.child (id INT PRIMARY KEY, b INT, CONSTRAINT f FOREIGN KEY (b) REFERENCES boss (id));
CREATE TABLE shop.parts (a INT, d DATE) PARTITION BY RANGE (a) (PARTITION p VALUES LESS THAN (9));
CREATE TABLE crm.old_people (id INT PRIMARY KEY, name VARCHAR(20));
CREATE TABLE crm.gone (id INT); DROP TABLE crm.gone; CREATE TABLE crm.gone (other INT PRIMARY KEY);
RENAME TABLE crm.old_people TO crm.people; ALTER TABLE crm.people ADD COLUMN born DATE;
"""
# Statements; the verdict of the last one; TiDB's errors of it.
ROWS: tuple[tuple[str, str, list[int]], ...] = (
    ("ALTER TABLE orders ADD c INT", "safe", []),
    ("ALTER TABLE orders ADD c INT NOT NULL", "would stop", []),
    ("ALTER TABLE shop.orders ADD c INT; ALTER TABLE `shop` . orders ADD C INT", "refused", [1060]),
    ("ALTER TABLE orders DROP COLUMN total", "refused", [3837]),
    ("ALTER TABLE orders ADD UNIQUE (note)", "refused", [1170]),
    ("ALTER TABLE child DROP INDEX f", "refused", [1553]),
    ("DROP TABLE boss", "refused", [3730]),
    ("SET foreign_key_checks = 0; DROP TABLE boss", "safe", []),
    ("DROP TABLE child, boss", "safe", []),
    ("ALTER TABLE parts ADD PARTITION (PARTITION q VALUES LESS THAN (5))", "refused", [1493]),
    ("ALTER TABLE parts ADD UNIQUE (d)", "refused", [8264]),
    ("CREATE TABLE x (a INT, c VARCHAR(2) DEFAULT 'abc')", "refused", [1067]),
    ("SET sql_mode = ''; CREATE TABLE x (a INT PRIMARY KEY, c TEXT DEFAULT '')", "safe", []),
    ("CREATE TABLE x (a INT, CHECK (a > NOW()), b INT AS (a + UUID_SHORT()))", "refused", [3102]),
    ("ALTER TABLE crm.people DROP COLUMN born; ALTER TABLE crm.people DROP COLUMN born", "refused", [1091]),
    ("ALTER TABLE crm.gone DROP COLUMN id", "refused", [1091]),
    ("USE crm; RENAME TABLE people TO shop.p, gone TO people; ALTER TABLE people ADD other INT", "refused", [1060]),
    ("CREATE TABLE crm.copy LIKE shop.orders; ALTER TABLE crm.copy DROP COLUMN total", "refused", [3837]),
    ("TRUNCATE TABLE boss", "refused", [1701]),
    ("CREATE TABLE shop.shop (a INT)", "cannot judge", []),
    ("CREATE TABLE x (a BIGINT DEFAULT (nextval(crm.s)))", "cannot judge", []),
    ("CREATE VIEW v AS SELECT * FROM mysql.user; DROP DATABASE crm; CREATE DATABASE shop", "refused", [1007]),
    ("ALTER TABLE orders ADD c INT DEFAULT b'1'", "safe", []),
)  # fmt: skip


@pytest.fixture(scope="module")
def port(tmp_path_factory: pytest.TempPathFactory) -> Iterator[int]:
    with running_tidb(tmp_path_factory.mktemp("tidb")) as port:
        yield port


def query(port: int, *statements: str) -> list[tuple[Any, ...]]:
    connection = pymysql.connect(host="127.0.0.1", port=port, user="root", autocommit=True)
    with connection, connection.cursor() as cursor:
        for sql in statements:
            cursor.execute(sql)
        return list(cursor.fetchall())


def databases(port: int) -> set[str]:
    return {name.lower() for (name,) in query(port, "SHOW DATABASES")}


def ask(folder: Path, port: int, sql: str, *more: str, user: str = "root", **variables: str) -> Any:
    (folder / "tables.sql").write_text(TABLES)
    words = ("--db", "shop", *(more or ("--ddl", "tables.sql")), "--try", f"mysql://{user}@127.0.0.1:{port}")
    settings = ("--sink-uri", "kafka://k/t?protocol=avro&schema-registry=http://r", "--format", "json")
    done = command("check-ddl", *words, *settings, sql, cwd=folder, **variables)
    return json.loads(done.stdout) if done.stdout.startswith("{") else done


def test_verdicts(port: int, tmp_path: Path) -> None:
    query(port, "CREATE DATABASE IF NOT EXISTS shop", "CREATE TABLE IF NOT EXISTS shop.orders (mine INT)")
    before = databases(port)

    def check(row: tuple[str, str, list[int]]) -> None:
        form = ask(tmp_path, port, row[0])
        last = form.get("statements", [form])[-1]
        assert (last["verdict"], [r["number"] for r in last["refusals"]]) == row[1:], last["reason"]
        assert "ticdc_bridge_try" not in json.dumps(form)

    check_rows(ROWS, check)
    assert databases(port) == before
    assert "`mine` int" in query(port, "SHOW CREATE TABLE shop.orders")[0][1]


def test_the_table_after_is_tidbs(port: int, tmp_path: Path) -> None:
    """A constant default that TiDB computes once: what it is can't be known here."""
    sql = "ALTER TABLE orders ADD c CHAR(36); ALTER TABLE orders ALTER COLUMN c SET DEFAULT ((uuid()))"
    last = ask(tmp_path, port, sql)["statements"][-1]
    theirs = last["after"][0]["columns"][-1]["default"]
    if theirs is not None and len(theirs) == 36:
        assert any("TiDB's table after the statement is taken, as ours is not known" in n for n in last["notes"])


def test_what_tidb_does_not_show_or_quotes_in_another_way_is_no_other_table(port: int, tmp_path: Path) -> None:
    form = ask(tmp_path, port, "ALTER TABLE orders ADD r DOUBLE(20,0) DEFAULT 1.5, ADD f FLOAT(7,2), ADD g FLOAT(5,0)")
    assert (form["verdict"], [n for n in form["notes"] if "is not ours" in n]) == ("safe", [])
    sql = "SET sql_mode = 'ANSI_QUOTES'; ALTER TABLE orders ADD c CHAR(36); "
    last = ask(tmp_path, port, sql + """ALTER TABLE "orders" ALTER c SET DEFAULT ((uuid()))""")["statements"][-1]
    assert last["verdict"] == "safe", last["reason"]


def test_tables_of_a_stored_history(port: int, tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path / 'h.db'}"
    opened = open_store(url)
    created = DdlRecord("cf", 100, "shop", "t", "CREATE TABLE t (id INT PRIMARY KEY, a INT, KEY k (a))", mode="typed")
    HistoryStore(opened).track("cf", Batch(records=[created], watermarks={("t", 0): 400}, partitions={("t", 0)}))
    opened.close()
    form = ask(tmp_path, port, "ALTER TABLE t ADD INDEX K (id)", "--store", url)
    assert [r["number"] for r in form["refusals"]] == [1061]
    assert ask(tmp_path, port, "ALTER TABLE t ADD b INT", "--store", url)["verdict"] == "safe"


def test_a_user_without_the_right_and_one_with_a_password(port: int, tmp_path: Path) -> None:
    query(
        port,
        "CREATE USER IF NOT EXISTS weak",
        "CREATE USER IF NOT EXISTS known IDENTIFIED BY 'geheim'",
        "GRANT CREATE, DROP, ALTER, INDEX, REFERENCES, SELECT ON `ticdc\\_bridge\\_try\\_%`.* TO known",
    )
    done = ask(tmp_path, port, "DROP TABLE boss", user="weak")
    assert done.exit_code == 2
    assert "no scratch database could be made" in done.stderr
    assert "User weak needs CREATE" in done.stderr
    done = ask(tmp_path, port, "DROP TABLE boss", user="known", BRIDGE_TIDB_PASSWORD="wrong")
    assert done.exit_code == 2
    assert "1045" in done.stderr
    form = ask(tmp_path, port, "DROP TABLE boss", user="known", BRIDGE_TIDB_PASSWORD="geheim")
    assert form["verdict"] == "refused"
    assert not [name for name in databases(port) if name.startswith("ticdc_bridge_try")]


def test_wrong_usage(tmp_path: Path, port: int) -> None:
    done = ask(tmp_path, port, "DROP TABLE boss", "--registry", "http://127.0.0.1:1")
    assert (done.exit_code, "--try needs the tables here" in done.stderr) == (2, True)
    done = ask(tmp_path, 1, "DROP TABLE boss")
    assert (done.exit_code, "--try 127.0.0.1:1" in done.stderr) == (2, True)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_run_that_is_stopped_leaves_nothing(port: int, tmp_path: Path, number: signal.Signals) -> None:
    (tmp_path / "many.sql").write_text("".join(f"ALTER TABLE shop.boss ADD c{n} INT;\n" for n in range(300)))
    (tmp_path / "tables.sql").write_text(TABLES)
    words = ("--ddl", str(tmp_path / "tables.sql"), "--in", str(tmp_path / "many.sql"))
    run = [sys.executable, "-m", "service", "check-ddl", *words, "--try", f"mysql://root@127.0.0.1:{port}"]
    process = subprocess.Popen(run, cwd=ROOT, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, env=dict(os.environ))
    until(lambda: any(name.startswith("ticdc_bridge_try") for name in databases(port)))
    process.send_signal(number)
    process.communicate(timeout=60)
    assert process.returncode not in (0, 1, 3)
    assert not [name for name in databases(port) if name.startswith("ticdc_bridge_try")]
