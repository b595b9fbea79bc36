"""`check-ddl` and `POST /history/dry-run`: sources, formats and exit codes."""

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from typer.testing import Result

from tests.support.service import GOLDEN, Client, command
from tests.support.table import check_rows
from ticdc_bridge.service.ddl_check import report
from ticdc_bridge.service.history.model import Batch, DdlRecord
from ticdc_bridge.service.store import open_store
from ticdc_bridge.service.store.history_store import HistoryStore
from ticdc_bridge.service.testing import running_service

ORDERS = "CREATE TABLE `orders` (`id` bigint NOT NULL, `total` decimal(10,2) DEFAULT NULL, PRIMARY KEY (`id`))"
SHOWN = {"verdict", "statement", "before", "after", "subjects", "risks", "advice"}
BAD, GOOD = "ALTER TABLE orders ADD c INT NOT NULL", "ALTER TABLE orders ADD c INT"
META = GOLDEN.parent / "avro" / "evolution.ext1.meta.json"
URI = "kafka://k/t?protocol=avro&schema-registry=http://r&enable-tidb-extension=true"
CONFIG = "[[sink.dispatchers]]\nmatcher=['*.*']\ntopic='tidb_{schema}_{table}'\n"


def run(*arguments: str, cwd: Path, stdin: str = "", **variables: str) -> Result:
    return command("check-ddl", *arguments, cwd=cwd, stdin=stdin, **variables)


@pytest.fixture
def ddl(tmp_path: Path) -> Path:
    path = tmp_path / "shop.ddl"
    path.write_text(json.dumps({"commit_ts": 5, "db": "shop", "query": ORDERS, "mode": "show"}))
    return path


EXIT_CODES: list[tuple[str, int]] = [
    (GOOD, 0), (BAD, 1), ("ALTER TABLE nobody ADD c INT", 3), (f"{BAD}; ALTER TABLE nobody ADD c INT; {GOOD}", 1),
    (f"{GOOD}; ALTER TABLE nobody ADD c INT", 3), ("FROBNICATE", 3), ("SELECT 1", 0),
]  # fmt: skip


def test_exit_codes(ddl: Path) -> None:
    def check(row: tuple[str, int]) -> None:
        sql, code = row
        done = run("--db", "shop", "--ddl", ddl.name, "--format", "json", sql, cwd=ddl.parent)
        assert (done.exit_code, done.stderr) == (code, "")
        form = json.loads(done.stdout)
        assert form.keys() >= SHOWN
        assert {0: "safe", 1: "would stop", 3: "cannot judge"}[code] == form["verdict"]

    check_rows(EXIT_CODES, check)


WHICH = "Which database is orders in? None is chosen; {} a table of that name. Write {}.orders, or choose the "
UNNAMED: list[tuple[str, str, str, str]] = [  # definitions, the statement, how the reason begins, the command's words
    ("", GOOD, WHICH.format("no database that is known has", "DATABASE"), ""),
    ("CREATE TABLE crm.Orders (id INT PRIMARY KEY);", GOOD, WHICH.format("crm has", "crm"), ""),
    ("CREATE TABLE b.orders (id INT PRIMARY KEY); CREATE TABLE a.orders (id INT PRIMARY KEY);", "DROP TABLE orders",
     WHICH.format("a and b have", "a"), ""),
    ("CREATE TABLE b.orders (id INT PRIMARY KEY);", "RENAME TABLE orders TO b.x", WHICH.format("b has", "b"), ""),
    ("CREATE TABLE b.orders (id INT PRIMARY KEY);", "TRUNCATE orders", WHICH.format("b has", "b"), ""),
    ("CREATE TABLE b.orders (id INT PRIMARY KEY);", "USE b; TRUNCATE orders", "", ""),
    ("CREATE TABLE b.orders (id INT PRIMARY KEY);", "TRUNCATE orders", "", "--db b"),
]  # fmt: skip


def test_a_table_without_its_database(tmp_path: Path) -> None:
    def check(row: tuple[str, str, str, str]) -> None:
        definitions, sql, reason, words = row
        (tmp_path / "t.sql").write_text("CREATE DATABASE other;" + definitions)
        done = run("--ddl", "t.sql", sql, *words.split(), "--format-out", "json", cwd=tmp_path)
        assert done.exit_code == (3 if reason else 0), done.output
        assert json.loads(done.stdout)["reason"].startswith(reason)

    check_rows(UNNAMED, check)


NO_START: list[tuple[tuple[str, ...], str]] = [
    (("ALTER", "TABLE", "orders", "ADD", "c", "INT"), "ticdc-bridge check-ddl 'ALTER TABLE orders ADD c INT'\n"),
    (("--ddl", "shop.ddl", "--store", "sqlite:///x.db", GOOD), "not --store and --ddl"),
    (("--ddl", "shop.ddl"), 'ticdc-bridge check-ddl "ALTER TABLE shop.orders ADD note TEXT", or'),
    (("--ddl", "shop.ddl", "--in", "x.sql", GOOD), "ticdc-bridge check-ddl --in migration.sql"),
    (("--ddl", "shop.ddl", ""), "no statement"),
    (("--ddl", "shop.ddl", "--file", "none.sql"), "No such file"),
    (("--ddl", "none.ddl", GOOD), "No such file"),
    (("--store", "sqlite:///none.db", GOOD), "there is no such file"),
    (("--ddl", "shop.ddl", "--schemas", "shop.ddl", GOOD), "--schemas"),
    (("--ddl", "shop.ddl", "--at", "soon", GOOD), "neither a commit_ts"),
    (("--ddl", "shop.ddl", "--ddl-time-zone", "Mars", GOOD), "--ddl-time-zone"),
    (("--ddl", "shop.ddl", "--compatibility", "SOME", GOOD), "one of NONE"),
    (("--ddl", "shop.ddl", "--sink-uri", "kafka://k/t?protocol=thrift", GOOD), "is not known"),
    (("--service", "http://127.0.0.1:1", GOOD), "can't be reached"),
    (("--registry", "http://127.0.0.1:1", GOOD), f"  ticdc-bridge check-ddl --ddl tables.sql '{GOOD}'\n"),
    (("--registry", "http://127.0.0.1:1", GOOD * 9), "  ticdc-bridge check-ddl --ddl tables.sql 'ALTER TABLE shop.or"),
    (("--service", "ftp://u:geheim@x", GOOD), "http://host:port or https"),
]


def test_it_can_not_start(ddl: Path) -> None:
    def check(row: tuple[tuple[str, ...], str]) -> None:
        arguments, message = row
        done = run("--db", "shop", *arguments, cwd=ddl.parent)
        assert done.exit_code == 2, done.stdout
        assert message in done.stderr
        assert "Traceback" not in done.stderr
        assert "geheim" not in done.stderr
        assert not (ddl.parent / "none.db").exists()

    check_rows(NO_START, check)


HOSTILE_LINES: list[str] = [
    "{", "[]", "5", '{"subject":1}', '{"subject":"s","version":"1","id":1,"schema":"\\"int\\""}', "[" * 9000,
    '{"subject":"s","version":1,"id":1,"schema":"no schema"}', '{"subject":"","version":1,"id":1,"schema":"{}"}',
    '{"subject":"s","version":0,"id":-1,"schema":"\\"int\\""}',
]  # fmt: skip


def test_hostile_files_are_wrong_usage(ddl: Path) -> None:
    def check(line: str) -> None:
        (ddl.parent / "s.json").write_text(line + "\n" + line)
        done = run("--db", "shop", "--ddl", ddl.name, "--schemas", "s.json", GOOD, cwd=ddl.parent)
        assert done.exit_code == 2, done.output
        assert done.stderr.startswith("ticdc-bridge: ")
        (ddl.parent / "d.json").write_text(line)
        assert run("--db", "shop", "--ddl", "d.json", GOOD, cwd=ddl.parent).exit_code == 2

    check_rows(HOSTILE_LINES, check, name=lambda row: repr(row)[:80])


def test_standard_input_files_and_github(ddl: Path) -> None:
    text = f"-- first\n{GOOD};\n\n{BAD.replace(' c ', ' d ')};\n"
    done = run("--db", "shop", "--ddl", ddl.name, "-", cwd=ddl.parent, stdin=text)
    assert done.exit_code == 1
    assert "WOULD STOP" in done.stdout
    (ddl.parent / "m.sql").write_text(text)
    summary = ddl.parent / "summary.md"
    done = run("--db", "shop", "--ddl", ddl.name, "--file", "m.sql", "--format", "github", cwd=ddl.parent,
               GITHUB_STEP_SUMMARY=str(summary))  # fmt: skip
    lines = done.stdout.splitlines()
    assert lines[0].startswith("::notice file=m.sql,line=2,title=check-ddl%3A safe::")
    assert lines[1].startswith("::error file=m.sql,line=4,title=check-ddl%3A would stop::")
    assert all(line.startswith("::") for line in lines)
    assert "| 4 | ALTER TABLE | shop.orders | ❌ would stop |" in summary.read_text()


def test_annotations_escape_what_github_reads() -> None:
    assert report.annotation("error", "a,b:c", 3, "t", "x\ny%") == "::error file=a%2Cb%3Ac,line=3,title=t::x%0Ay%25"


def test_golden_metas_stand_in_for_history_and_registry(tmp_path: Path) -> None:
    """As of a DDL in the middle of a real history, with the schemas that TiCDC registered up to its end."""
    at = next(s["commit_ts"] for s in json.loads(META.read_text())["steps"] if "ADD INDEX" in s["sql"])
    common = ("--db", "test", "--ddl", str(META), "--schemas", str(META), "--at", str(at), "--format", "json")
    done = run(*common, "ALTER TABLE evo ADD n INT NOT NULL", cwd=tmp_path)
    form = json.loads(done.stdout)
    assert done.exit_code == 1
    value = next(s for s in form["subjects"] if s["part"] == "value")
    assert (value["subject"], value["against"]["version"], value["against"]["id"]) == ("tidb_test_evo-value", 6, 7)
    done = run(*common, "--compatibility", "NONE", "ALTER TABLE evo ADD n INT NOT NULL", cwd=tmp_path)
    assert done.exit_code == 0


# ---- a service, and its store
@pytest.fixture
def store(tmp_path: Path) -> str:
    url = f"sqlite:///{tmp_path / 'registry.db'}"
    opened = open_store(url)
    records = [DdlRecord("cf", 100, "shop", "orders", ORDERS, mode="typed"),
               DdlRecord("cf", 200, "shop", "orders", "ALTER TABLE orders ADD late INT", mode="typed"),
               DdlRecord("cf", 300, "shop", "broken", "CREATE TABLE broken FROB", mode="typed")]  # fmt: skip
    batch = Batch(records=records, watermarks={("t", 0): 400}, partitions={("t", 0)})
    HistoryStore(opened).track("cf", batch)
    opened.close()
    return url


@pytest.fixture
def served(store: str) -> Iterator[Client]:
    with running_service(store) as url:
        yield Client(url)


def ask(client: Client, sql: str, **more: Any) -> dict[str, Any]:
    answer = client.send(
        "POST", "/history/dry-run", {"db": "shop", "sql": sql, **more}, {"Content-Type": "application/json"}
    )
    assert answer.status == 200, answer.body
    found: dict[str, Any] = answer.json
    assert found.keys() >= SHOWN
    return found


def test_the_route_uses_history_and_registry(served: Client) -> None:
    changefeed = {"sink_uri": URI, "config": CONFIG}
    before = ask(served, "ALTER TABLE orders COMMENT 'x'", changefeed=changefeed)
    for view in before["schemas"]:
        assert served.register(view["key_subject"], view["key"]).status == 200
        assert served.register(view["value_subject"], view["value"]).status == 200
    stopped = ask(served, BAD, changefeed=changefeed)
    assert stopped["verdict"] == "would stop"
    refused = served.register(stopped["schemas"][0]["value_subject"], stopped["schemas"][0]["value"])
    assert refused.status == 409
    served.level("NONE", "tidb_shop_orders-value")
    assert ask(served, BAD, changefeed=changefeed)["verdict"] == "safe"
    names = [c["name"] for c in ask(served, GOOD, at=150)["before"][0]["columns"]]
    assert names == ["id", "total"]
    assert ask(served, GOOD, changefeed="cf")["verdict"] == "safe"
    assert ask(served, "ALTER TABLE broken ADD x INT")["verdict"] == "cannot judge"
    assert ask(served, GOOD, changefeed={"config": {"sink": {"protocol": "open-protocol"}}})["verdict"] == "safe"


def test_tables_can_be_given_instead(client: Client) -> None:
    found = ask(client, GOOD, tables=[ORDERS])
    assert [c["name"] for c in found["after"][0]["columns"]] == ["id", "total", "c"]


BAD_BODIES: list[Any] = [
    {}, {"sql": ""}, {"sql": 5, "db": {}}, {"sql": GOOD, "at": "soon"}, {"sql": GOOD, "tables": ["nonsense"]},
    {"sql": GOOD, "changefeed": {"sink_uri": "x"}}, {"sql": GOOD, "changefeed": {"name": "nobody"}},
    {"sql": GOOD, "ddl_time_zone": "Mars"}, {"sql": GOOD, "changefeed": []}, {"sql": "SELECT 1;" * 2000}, [], None,
]  # fmt: skip


def test_bad_bodies_are_refused(served: Client) -> None:
    def check(body: Any) -> None:
        answer = served.send("POST", "/history/dry-run", body, {"Content-Type": "application/json"})
        assert answer.status in (400, 404, 422), answer.body
        assert answer.json["message"]

    check_rows(BAD_BODIES, check, name=lambda row: repr(row)[:80])


def test_the_command_asks_a_service_or_its_store(served: Client, store: str, tmp_path: Path) -> None:
    (tmp_path / "cf.toml").write_text(CONFIG)
    settings = ("--sink-uri", URI, "--config", "cf.toml", "--format", "json")
    by_service = run("--db", "shop", "--service", served.url, *settings, GOOD, cwd=tmp_path)
    by_store = run("--db", "shop", "--store", store, *settings, GOOD, cwd=tmp_path)
    assert (by_service.exit_code, by_store.exit_code) == (0, 0), by_service.stderr + by_store.stderr
    assert json.loads(by_service.stdout) == json.loads(by_store.stdout)
    assert "late" in by_service.stdout
    for view in json.loads(by_service.stdout)["schemas"]:
        served.register(view["value_subject"], view["value"])
    stopped = run("--db", "shop", "--service", served.url, *settings, BAD.replace(" c ", " e "), cwd=tmp_path)
    assert stopped.exit_code == 1
    assert f" {served.url}/config/tidb_shop_orders-value" in stopped.stdout
    known = run("ALTER TABLE shop.orders ADD c INT", *settings, cwd=tmp_path, BRIDGE_REGISTRY=served.url)
    assert json.loads(known.stdout)["after"] == json.loads(by_service.stdout)["after"]
    for source in (("--registry", served.url), ("--store", store)):
        unnamed = run(GOOD, *source, cwd=tmp_path)
        assert unnamed.exit_code == 3
        assert unnamed.stdout.startswith(f"CANNOT JUDGE: {WHICH.format('shop has', 'shop')}")
    assert os.path.getsize(tmp_path / "registry.db") > 0
