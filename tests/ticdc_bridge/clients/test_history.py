"""`--history URL`: tables from a real service's history, at commit_ts on both sides of a change."""

from __future__ import annotations

import json
import pickle
import socket
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.support.each import each
from tests.support.golden import Golden
from tests.support.history_events import T0, framed, record, write
from tests.support.registries import Server, answer, serving
from tests.support.rows import change
from tests.support.service import Client
from tests.support.table import check_rows
from ticdc_bridge.cli import main
from ticdc_bridge.clients.history import HistoryTables
from ticdc_bridge.schemas.inputs.schema_files import FileSchemas
from ticdc_bridge.schemas.model.errors import SetupError, WireError
from ticdc_bridge.schemas.model.event import Message
from ticdc_bridge.schemas.model.options import Options
from ticdc_bridge.schemas.model.table import TableId, Value
from ticdc_bridge.service.history.model import Batch, DdlRecord
from ticdc_bridge.service.store import open_store
from ticdc_bridge.service.store.history_store import HistoryStore
from ticdc_bridge.service.testing import running_service
from ticdc_bridge.spark_jobs.pipeline.codec_config import CodecConfig
from ticdc_bridge.spark_jobs.pipeline.newest_columns import newest_table
from ticdc_bridge.spark_jobs.pipeline.table_view import TableView

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

OPEN, AVRO = Golden("open", "evolution.default"), Golden("avro", "evolution.ext1")
STEP = 1 << 18
ORDERS = TableId("shop", "orders")
CREATE = "CREATE TABLE orders (id bigint unsigned PRIMARY KEY, total decimal(10,2), at timestamp DEFAULT '2020-01-02')"


@pytest.fixture
def url(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    monkeypatch.chdir(tmp_path)
    with running_service(f"sqlite:///{tmp_path / 'registry.db'}") as url:
        yield url


def _give(url: str, ts: int, query: str, db: str = "shop", what: str = "ddl", **more: Any) -> None:
    body = {"commit_ts": ts, "db": db, "query": query, **more}
    answer = Client(url).send("POST", f"/history/{what}", body, {"Content-Type": "application/json"})
    assert answer.status == 200, answer.body


def _given(url: str, golden: Golden) -> None:
    for step in golden.meta["steps"]:
        if step["kind"] == "ddl":
            _give(url, step["commit_ts"], step["sql"], step["schema"])


def _row(ts: int, id_: int, total: str) -> Message:
    row = {"id": {"t": 8, "h": True, "f": 139, "v": id_}, "total": {"t": 246, "f": 65, "v": total}}
    row["at"] = {"t": 7, "f": 65, "v": "2026-01-02 03:04:05"}
    return Message(*framed({"ts": ts, "scm": "shop", "tbl": "orders", "t": 1}, json.dumps({"u": row}).encode()), "t", 0)


def _names(found: Any) -> list[str]:
    return [c.name for c in found.table.columns]


@pytest.mark.parametrize("golden", [OPEN, AVRO], ids=str)
def test_the_same_lines_as_with_the_ddl_in_a_file(
    url: str, golden: Golden, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    _given(url, golden)
    lines = [{"commit_ts": s["commit_ts"], "db": s["schema"], "query": s["sql"], "typed": True}
             for s in golden.meta["steps"] if s["kind"] == "ddl"]  # fmt: skip
    (tmp_path / "ddl.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    argv = ["decode", "--format", golden.format, "--in", str(golden.messages_file), "--schemas", str(golden.meta_file)]
    assert main([*argv, "--ddl", "ddl.jsonl"]) == main([*argv, "--history", url, "--out", "out.jsonl"]) == 0
    out, err = capsys.readouterr()
    assert (tmp_path / "out.jsonl").read_text() == out
    assert '"table_version"' in out
    assert "has no watermarks" in err


def test_types_on_both_sides_of_an_alter(url: str, tmp_path: Path) -> None:
    _give(url, T0, CREATE)
    _give(url, T0 + 2 * STEP, "ALTER TABLE orders MODIFY total decimal(12,3)")
    rows = [_row(T0 + STEP, 1, "1.50"), _row(T0 + 2 * STEP, 1 << 63, "2.50"), _row(T0 + 2 * STEP + 1, 3, "3.500")]
    write(tmp_path / "rows.jsonl", rows)
    argv = ["transcode", "--from", "open", "--to", "avro", "--in", "rows.jsonl", "--out", "avro.jsonl"]
    assert main([*argv, "--registry", url, "--history", url, "--ddl-time-zone", "UTC", "--time-zone", "UTC"]) == 0
    values = [json.loads(Client(url).get(f"/subjects/t-value/versions/{n}").json["schema"]) for n in (1, 2)]
    totals = [next(f["type"][1] for f in v["fields"] if f["name"] == "total") for v in values]
    assert [(t["precision"], t["scale"]) for t in totals] == [(10, 2), (12, 3)]
    assert main(["decode", "--format", "avro", "--in", "avro.jsonl", "--registry", url, "--out", "back.jsonl"]) == 0
    after = [json.loads(line)["after"] for line in (tmp_path / "back.jsonl").read_text().splitlines()]
    assert [(a["id"], a["total"]) for a in after] == [("1", "1.50"), (str(1 << 63), "2.50"), ("3", "3.500")]


def test_each_version_is_asked_for_once_and_by_any_commit_ts(url: str) -> None:
    _give(url, T0, CREATE)
    _give(url, T0 + STEP, "ALTER TABLE orders ADD COLUMN note varchar(9)")
    _give(url, T0 + 3 * STEP, "DROP TABLE orders")
    calls: list[str] = []

    class Counted(HistoryTables):
        def call(self, method: str, path: str, body: dict[str, Any] | None = None) -> tuple[int, Any]:
            calls.append(path)
            return super().call(method, path, body)

    found = Counted(url).check()
    assert found.at(ORDERS, T0) is None
    for _ in range(100):
        old, new = found.at(ORDERS, T0 + STEP), found.at(ORDERS, T0 + STEP + 1)
        assert old is found.at(ORDERS, T0 + 1)
        assert new is found.at(ORDERS, T0 + 3 * STEP)
    assert old is not None
    assert new is not None
    assert (old.commit_ts, _names(old)) == (T0, ["id", "total", "at"])
    assert (new.commit_ts, _names(new)) == (T0 + STEP, ["id", "total", "at", "note"])
    assert old.table.by_name["id"].unsigned
    assert found.at(ORDERS, None) == new  # the last that it was
    asked = len(calls)
    for later in range(1, 20):
        with pytest.raises(WireError, match=r"is gone since commit_ts.*DROP TABLE orders"):
            found.at(ORDERS, T0 + 3 * STEP + later)
        assert found.at(TableId("shop", "nobody"), T0 + later) is None
    assert len(calls) - asked < 12
    assert found.sanitised(ORDERS, ("id", "total", "at"), T0 + STEP) is old
    assert found.sanitised(ORDERS, ("id", "total", "at", "note"), None) == new
    assert found.sanitised(ORDERS, ("id", "x"), T0 + STEP) is None
    for name in ("", ".", "..", "a/b?c#d", "\ud800", "x" * 100_000, "a\0b", "%2F", "名"):
        assert found.at(TableId("shop", name), T0 + 1) is None
        assert found.at(TableId(name, "orders"), T0 + 1) is None


def test_a_sanitised_name_finds_its_table(url: str) -> None:
    _give(url, T0, "CREATE TABLE `1 t` (`n o` int PRIMARY KEY, b int)", "名")
    found = HistoryTables(url).check().sanitised(TableId("_", "_1_t"), ("n_o", "b"), T0 + 1)
    assert found is not None
    assert found.table.id == TableId("名", "1 t")


def test_what_is_known_in_part_or_not_any_more_is_refused(url: str, tmp_path: Path) -> None:
    schema = {"type": "record", "name": "orders", "namespace": "default.shop", "fields": [
        {"name": "id", "type": {"type": "long", "connect.parameters": {"tidb_type": "BIGINT"}}},
    ]}  # fmt: skip
    client, kind = Client(url), {"Content-Type": "application/json"}
    assert client.send("POST", "/subjects/s-value/versions", {"schema": json.dumps(schema)}, kind).status == 200
    snapshot = {"commit_ts": T0, "subject": "s-value"}
    assert client.send("POST", "/history/snapshot", snapshot, kind).status == 200
    found = HistoryTables(url).check()
    with pytest.raises(
        WireError, match=r"shop.orders is known in part since commit_ts \d+: .*; give a snapshot"
    ) as caught:
        found.at(ORDERS, T0 + 1)
    assert caught.value.code == "TYPE_UNKNOWN"
    _track(tmp_path, [record(T0 + STEP, "shop", "sold", "ALTER TABLE sold ADD COLUMN a int")], T0 + STEP, "default")
    _track(tmp_path, [], T0 + 9 * STEP, "default")
    for later in (2, 3):
        with pytest.raises(WireError, match=r"shop.sold is unknown since commit_ts \d+: .*history snapshot"):
            found.at(TableId("shop", "sold"), T0 + later * STEP)


def _track(folder: Path, records: list[DdlRecord], watermark: int, changefeed: str = "c") -> None:
    """What a tracker, another process, writes into the service's store."""
    store = open_store(f"sqlite:///{folder / 'registry.db'}")
    batch = Batch(records=records, watermarks={("t", 0): watermark}, partitions={("t", 0)})
    HistoryStore(store).track(changefeed, batch)
    store.close()


def test_rows_above_the_sealed_history_are_not_guessed(
    url: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    _track(tmp_path, [record(T0, "shop", "orders", CREATE)], T0 + STEP)
    argv = ["decode", "--format", "open", "--in", "rows.jsonl", "--registry-wait", "200ms", "--history", url]
    write(tmp_path / "rows.jsonl", [_row(T0 + STEP, 1, "1.50")])
    assert main([*argv, "--changefeed", "c"]) == 0
    out, err = capsys.readouterr()
    assert json.loads(out.splitlines()[-1])["table_version"] == T0
    assert "watermarks" not in err
    for table in ("orders", "other"):
        with pytest.raises(SetupError, match=r"is behind.*not resolved") as caught:
            HistoryTables(url, wait=0.1).check().at(TableId("shop", table), T0 + STEP + 1)
        assert caught.value.code == "HISTORY_BEHIND"
    write(tmp_path / "rows.jsonl", [_row(T0 + STEP + 1, 1, "1.50")])
    assert main(argv) == 2
    assert "is behind" in capsys.readouterr().err


def test_a_row_waits_for_the_tracker(url: str, tmp_path: Path) -> None:
    _track(tmp_path, [record(T0, "shop", "orders", CREATE)], T0 + STEP)
    behind = threading.Event()

    class Waiting(HistoryTables):
        def call(self, method: str, path: str, body: dict[str, Any] | None = None) -> tuple[int, Any]:
            status, answer = super().call(method, path, body)
            if "/at/" in path and not answer.get("resolved"):
                behind.set()
            return status, answer

    found = Waiting(url, wait=30.0).check()
    with ThreadPoolExecutor() as pool:
        waiting = pool.submit(found.at, ORDERS, T0 + 3 * STEP)
        assert behind.wait(30)
        _track(tmp_path, [record(T0 + 2 * STEP, "shop", "orders", "ALTER TABLE orders ADD b int")], T0 + 3 * STEP)
        version = waiting.result(30)
    assert version is not None
    assert (version.commit_ts, _names(version)[-1]) == (T0 + 2 * STEP, "b")


def test_wrong_usage(url: str, capsys: pytest.CaptureFixture[str]) -> None:
    _give(url, T0, CREATE)
    argv = ["decode", "--format", "open", "--in", str(OPEN.messages_file)]

    def check(wrong: tuple[list[str], str]) -> None:
        more, says = wrong
        assert main([*argv, *more]) == 2
        err = capsys.readouterr().err
        assert says in err
        assert "secret" not in err

    wrong = [
        (["--history", url, "--changefeed", "x"], "--changefeed NAME; there are: default"),
        (["--history", url, "--ddl", "f.jsonl"], "give one"),
        (["--changefeed", "x"], "goes with --history"),
        (["--history", "ftp://me:secret@h"], "--history 'ftp://***@h'"),
    ]
    check_rows(wrong, check)


def test_a_service_that_is_down_or_is_none(capsys: pytest.CaptureFixture[str]) -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        nobody = f"http://me:secret@127.0.0.1:{free.getsockname()[1]}"
    argv = ["decode", "--format", "open", "--in", str(OPEN.messages_file), "--registry-wait", "200ms"]
    assert main([*argv, "--history", nobody]) == 2
    err = capsys.readouterr().err
    assert "error REGISTRY_UNREACHABLE: history service http://127.0.0.1:" in err
    assert "can't be reached" in err
    assert "tried for 0.2 s" in err
    assert "secret" not in err
    with serving(lambda method, path, body: answer(404, {"error_code": 404, "message": "HTTP 404 Not Found"})) as other:
        assert isinstance(other, Server)
        assert main([*argv, "--history", other.url]) == 2
    assert f"history service {other.url} refused GET /history/changefeeds" in capsys.readouterr().err


def test_it_goes_to_workers(url: str) -> None:
    _give(url, T0, CREATE)
    here = HistoryTables(url).check()
    version = here.at(ORDERS, T0 + 1)
    entry, two = (pickle.loads(pickle.dumps(here)) for _ in range(2))
    assert entry.at(ORDERS, T0 + 1) == version
    assert two.at(ORDERS, T0 + 1) is entry.at(ORDERS, T0 + 1)
    assert [s.query for s in entry.statements()] == [CREATE]


# Statements after CREATE, or SHOW CREATE TABLE; what an older row is in the newest columns, or the error.
OF_OLDER: list[tuple[list[str], dict[str, Value] | str]] = [
    (["ALTER TABLE orders RENAME COLUMN total TO amount", "ALTER TABLE orders ADD x INT"], {"amount": "1.00"}),
    (["ALTER TABLE orders DROP COLUMN total", "ALTER TABLE orders ADD total decimal(10,2)"], {}),
    (["ALTER TABLE orders DROP COLUMN total", "ALTER TABLE orders ADD amount decimal(10,2)"], {}),
    (["CREATE TABLE `orders` (`id` bigint unsigned PRIMARY KEY, `amount` decimal(10,2))"], "renamed to amount, or"),
    (["CREATE TABLE `orders` (`id` bigint unsigned PRIMARY KEY)"], {}),
    (["DROP TABLE orders", "CREATE TABLE orders (id bigint PRIMARY KEY, total int, x int)"], {"total": "1"}),
]


@each(("given", "expected"), OF_OLDER)
def test_columns_of_an_older_version(url: str, given: list[str], expected: dict[str, Value] | str) -> None:
    """By SHOW CREATE TABLE alone a rename looks like a drop plus an add: the history's DDL tells which it was."""
    db = f"d{OF_OLDER.index((given, expected))}"
    for n, query in enumerate((CREATE, *given)):
        snapshot = {"what": "snapshot"} if "`" in query else {}
        _give(url, T0 + n * STEP, query, db, **snapshot)
    tables, id_ = HistoryTables(url).check(), TableId(db, "orders")
    old, new = tables.at(id_, T0 + 1), tables.at(id_, None)
    assert old is not None
    assert new is not None
    event = change(old.table, {"total": "1.00"}, commit_ts=T0 + 1, table_version=old.commit_ts)
    if isinstance(expected, str):
        with pytest.raises(WireError, match=expected):
            TableView(new.table).apply(event, tables)
        return
    TableView(new.table).apply(event, tables)
    assert event.after is not None
    assert {k: v for k, v in event.after.items() if k in new.table.by_name} == {"id": "1", **expected}


def test_older_rows_have_the_default_that_a_column_came_with(url: str) -> None:
    added = ["ALTER TABLE orders ADD x INT DEFAULT 5", "ALTER TABLE orders ALTER x SET DEFAULT 7"]
    for n, query in enumerate((CREATE, *added, "ALTER TABLE orders RENAME COLUMN total TO amount")):
        _give(url, T0 + n * STEP, query)
    tables = HistoryTables(url).check()
    old, config = tables.at(ORDERS, T0 + 1), CodecConfig("open", FileSchemas([]), Options(), tables)
    assert old is not None
    event = change(old.table, {"total": "1.00"}, commit_ts=T0 + 1, table_version=old.commit_ts)
    TableView(newest_table(config, ORDERS, "default"), missing="default").apply(event, tables)
    assert event.after == {"id": "1", "amount": "1.00", "x": "5"}


def test_in_spark(url: str, tmp_path: Path, spark: SparkSession) -> None:
    from pyspark.sql.types import StructType

    from ticdc_bridge import decode

    _track(tmp_path, [record(T0, "shop", "orders", CREATE)], T0 + 5 * STEP)
    alter = record(T0 + 2 * STEP, "shop", "orders", "ALTER TABLE orders MODIFY total decimal(12,3)")
    _track(tmp_path, [alter], T0 + 5 * STEP)
    messages = [_row(T0 + STEP, 1, "1.50"), _row(T0 + 2 * STEP, 1 << 63, "2.50"), _row(T0 + 2 * STEP + 1, 3, "3.500")]
    later = _row(T0 + 6 * STEP, 4, "4.500")
    rows = [(m.key, m.value, m.topic) for m in (*messages, later)]
    frame = spark.createDataFrame(rows, "key binary, value binary, topic string")
    changes = decode(frame, format="open", history=url, table="shop.orders", time_zone="UTC")
    struct = changes.schema["after"].dataType
    assert isinstance(struct, StructType)
    reported = {f.name: (f.dataType.simpleString(), f.metadata["tidb_type"]) for f in struct}
    assert reported["id"] == ("decimal(20,0)", "bigint unsigned")
    assert reported["total"] == ("decimal(12,3)", "decimal(12,3)")
    # What is sealed after the plan was made is asked for by the workers.
    added = record(T0 + 5 * STEP + 1, "shop", "orders", "ALTER TABLE orders COMMENT 'x'")
    _track(tmp_path, [added], T0 + 6 * STEP)
    found = sorted((r["after"]["id"], r["after"]["total"], r["table_version"]) for r in changes.collect())
    assert found == [
        (1, Decimal("1.500"), T0),
        (3, Decimal("3.500"), T0 + 2 * STEP),
        (4, Decimal("4.500"), T0 + 5 * STEP + 1),
        (1 << 63, Decimal("2.500"), T0),
    ]
    write(tmp_path / "rows.jsonl", messages[::2])
    argv = ["transcode", "--from", "open", "--to", "debezium", "--in", "rows.jsonl", "--time-zone", "UTC"]
    argv += ["--history", url, "--ddl-time-zone", "UTC"]
    assert main([*argv, "--out", "here.jsonl"]) == main([*argv, "--out", "spark.jsonl", "--spark"]) == 0
    assert (tmp_path / "here.jsonl").read_text() == (tmp_path / "spark.jsonl").read_text() != ""
