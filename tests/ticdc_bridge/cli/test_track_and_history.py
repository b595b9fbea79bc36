"""`track`, `history snapshot` and `history rebuild` as processes: what they say, and their exit codes."""

import json
import subprocess
from pathlib import Path

import pytest

from tests.support.history_events import T0, ddl, resolved, write
from tests.support.mysql_server import PlayedTidb, serving
from tests.support.service import ended
from tests.support.table import check_rows
from ticdc_bridge.cli.app import load
from ticdc_bridge.schemas.model.errors import BridgeError
from ticdc_bridge.service.store import open_store
from ticdc_bridge.service.store.history_store import HistoryStore
from ticdc_bridge.service.tracker.config import TrackedChangefeed, parse_tracked

STEP = 1 << 18


def run(*arguments: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    return ended(*arguments, cwd=cwd, BRIDGE_STORE=f"sqlite:///{cwd / 'registry.db'}")


def test_what_it_says_and_how_it_ends(tmp_path: Path) -> None:
    alter = ddl(T0 + STEP, "d", "t", "ALTER TABLE `d`.`t` ADD COLUMN `b` INT", 5)
    file = write(tmp_path / "m.jsonl", [alter, resolved(T0 + 2 * STEP)])
    done = run("track", "--in", str(file), "--until-resolved", cwd=tmp_path)
    assert done.returncode == 1  # the table's CREATE was not seen
    assert "new DDL 1, copies 0, sealed 1, pending 0; not understood 1" in done.stderr
    snapshot = ("history", "snapshot", "CREATE TABLE `t` (`a` int)", "--db", "d", "--at", str(T0))
    done = run(*snapshot, cwd=tmp_path)
    assert (done.returncode, "d.t since commit_ts" in done.stderr) == (0, True)
    done = run("history", "rebuild", cwd=tmp_path)
    assert (done.returncode, "0 not understood" in done.stderr) == (0, True)
    store = open_store(f"sqlite:///{tmp_path / 'registry.db'}")
    row = HistoryStore(store).version_at("default", "d", "t")
    store.close()
    assert row is not None
    assert row.table is not None
    assert [c.name for c in row.table.columns] == ["a", "b"]


def test_lines_of_ddl_are_never_resolved(tmp_path: Path) -> None:
    (tmp_path / "d.jsonl").write_text(
        '{"commit_ts":5,"db":"d","query":"CREATE TABLE t (a INT)"}\n'
        '{"commit_ts":7,"db":"d","query":"alter table t add b varchar(9) default \'it\\\\\'s\'","typed":true}\n'
    )
    done = run("track", "--in", str(tmp_path / "d.jsonl"), cwd=tmp_path)
    assert (done.returncode, "sealed 2" in done.stderr) == (0, True), done.stderr
    done = run("track", "--in", str(tmp_path / "d.jsonl"), "--until-resolved", cwd=tmp_path)
    assert (done.returncode, "no watermark" in done.stderr) == (2, True), done.stderr


WRONG_USAGE: list[tuple[str, ...]] = [
    ("--in", "missing.jsonl"),
    ("--in", "kafka:"),
    ("--in", "a", "--in", "b"),
    ("--in", "a", "--format", "x"),
]


def test_wrong_usage(tmp_path: Path) -> None:
    def check(arguments: tuple[str, ...]) -> None:
        done = run("track", *arguments, cwd=tmp_path)
        assert done.returncode == 2
        assert done.stderr.startswith("ticdc-bridge: can't start: ")

    check_rows(WRONG_USAGE, check)


def test_a_flag_without_value() -> None:
    for words, until in (("--in x --until-resolved", "end"), ("--until-resolved --in x", "end"),
                         ("--in x --until-resolved 55", "55")):  # fmt: skip
        assert load("track").make_context("track", words.split()).params["until_resolved"] == until


def test_what_serve_is_given(tmp_path: Path) -> None:
    assert parse_tracked("") == []
    assert parse_tracked("kafka:a,b", "h:1") == [TrackedChangefeed("default", ("a", "b"), bootstrap_servers="h:1")]
    (properties := tmp_path / "c.properties").write_text("bootstrap.servers = h:1\n")
    assert parse_tracked("kafka:a", "", str(properties)) == [
        TrackedChangefeed("default", ("a",), kafka_config=properties)
    ]
    assert parse_tracked("shop=kafka:a", "h:1") == [TrackedChangefeed("shop", ("a",), bootstrap_servers="h:1")]
    config = tmp_path / "t.toml"
    config.write_text(
        '[[changefeed]]\nname="a"\nin=["kafka:x","kafka:y"]\nformat="craft"\nbootstrap-servers="h:1"\n[[changefeed]]\nname="b"\nin="m"\n'
    )
    assert parse_tracked(str(config)) == [
        TrackedChangefeed("a", ("x", "y"), format="craft", bootstrap_servers="h:1"),
        TrackedChangefeed("b", (), tmp_path / "m"),
    ]
    for text in ('[[changefeed]]\nname="a"\n', "x = 1", "[", '[[changefeed]]\nname="a"\nin="kafka:t"\ncolour="red"\n'):
        config.write_text(text)
        with pytest.raises(BridgeError):
            parse_tracked(str(config))


def test_diff_ends_as_diff_does(tmp_path: Path) -> None:
    (tmp_path / "d.jsonl").write_text(
        '{"commit_ts":5,"db":"d","query":"CREATE TABLE t (a INT)"}\n'
        '{"commit_ts":7,"db":"d","query":"ALTER TABLE t DROP COLUMN nope"}\n'
        '{"commit_ts":8,"db":"d","query":"CREATE TABLE u (a INT)"}\n'
    )
    none = run("history", "diff", "1", "2", cwd=tmp_path)
    assert (none.returncode, "there is no such file" in none.stderr) == (2, True)
    run("track", "--in", str(tmp_path / "d.jsonl"), cwd=tmp_path)
    ends = {
        times: run("history", "diff", *times, cwd=tmp_path).returncode
        for times in (("6", "7"), ("6", "8"), ("6", "9"), ("9", "6"), ("x", "6"))
    }
    assert ends == {("6", "7"): 0, ("6", "8"): 3, ("6", "9"): 1, ("9", "6"): 2, ("x", "6"): 2}
    done = run("history", "diff", "6", "8", "--inclusive", "--format", "json", cwd=tmp_path)
    assert (done.returncode, json.loads(done.stdout)["counts"]) == (1, {"created": 1, "unknown": 1})
    sql = run("history", "export", "--db", "d", cwd=tmp_path)
    assert (sql.returncode, "CREATE TABLE `u`" in sql.stdout, "tables 1, versions 1, left out 1" in sql.stderr) == (
        1,
        True,
        True,
    )
    (tmp_path / "u.jsonl").write_text(
        run("history", "export", "--format", "jsonl", "--table", "u", "--db", "d", cwd=tmp_path).stdout
    )
    again = run("track", "--in", str(tmp_path / "u.jsonl"), "--changefeed", "again", cwd=tmp_path)
    assert (again.returncode, "new DDL 1" in again.stderr) == (0, True), again.stderr
    checked = run("check-ddl", "ALTER TABLE d.u ADD b INT", "--ddl", str(tmp_path / "u.jsonl"), cwd=tmp_path)
    assert (checked.returncode, "b" in checked.stdout) == (0, True)


def test_many_tables_at_once(tmp_path: Path) -> None:
    """From a live TiDB they count from the moment of which they are; from a dump from --at."""
    show = "CREATE TABLE `t` (`a` timestamp NOT NULL DEFAULT '2026-01-01 00:00:00', `b` enum('x\\y'))"
    with serving(PlayedTidb({("d", "t"): show, ("d", "u"): "CREATE TABLE `u` (`a` int)"}, "secret", tso=T0)) as tidb:
        url = f"mysql://root:secret@127.0.0.1:{tidb.port}/d"
        done = run("history", "snapshot", "--ddl", url, cwd=tmp_path)
        assert (done.returncode, f"2 tables since commit_ts {T0} kept, 0 known" in done.stderr) == (0, True), (
            done.stderr
        )
        checked = run("check-ddl", "ALTER TABLE d.t ADD c INT", "--ddl", url, cwd=tmp_path)
        assert (checked.returncode, "SAFE" in checked.stdout) == (0, True), checked.stderr
    (tmp_path / "dump.sql").write_text("USE d;CREATE TABLE v (a INT);")
    for expected in ("d.v since commit_ts 9: kept", "d.v since commit_ts 9: known already"):
        done = run("history", "snapshot", "--ddl", "dump.sql", "--at", "9", cwd=tmp_path)
        assert (done.returncode, expected in done.stderr) == (0, True), done.stderr
    sql = run("history", "export", cwd=tmp_path).stdout
    assert "DEFAULT '2026-01-01 00:00:00'" in sql
    assert sql.count("CREATE TABLE") == 3
    for wrong, said in (
        (("--ddl", "dump.sql", "--table", "w"), "it has no table w"),
        (("--ddl", "dump.sql", "--subject", "s"), "stands alone"),
        (("--ddl", "nothing.sql"), "nothing.sql: No such file"),
        (("--ddl", url), "mysql://***@127.0.0.1"),
    ):
        done = run("history", "snapshot", *wrong, cwd=tmp_path)
        assert (done.returncode, said in done.stderr, "secret" in done.stderr) == (2, True, False), done.stderr
