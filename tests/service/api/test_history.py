"""`/history` over HTTP: what is answered, what is refused, and what links to the registry."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest

from tests.support.each import each
from tests.support.golden import GOLDEN
from tests.support.history_events import T0, ddl, resolved, write
from tests.support.service import Answer, Client
from ticdc_bridge.schemas.formats.avro import schema
from ticdc_bridge.schemas.model.options import Options
from ticdc_bridge.service.testing import running_service

STEP = 1 << 18


@pytest.fixture
def client(tmp_path: Path) -> Iterator[Client]:
    with running_service(f"sqlite:///{tmp_path / 'registry.db'}") as url:
        yield Client(url)


def give(client: Client, what: str, **body: Any) -> Answer:
    return client.send("POST", f"/history/{what}", body, {"Content-Type": "application/json"})


def statement(client: Client, ts: int, query: str, **more: Any) -> Any:
    answer = give(client, "ddl", commit_ts=ts, db="shop", query=query, **more)
    assert answer.status == 200, answer.body
    return answer.json


def test_a_table_at_every_time(client: Client) -> None:
    statement(client, T0, "CREATE TABLE orders (id bigint unsigned PRIMARY KEY, total decimal(10,2), at datetime(3))")
    statement(client, T0 + STEP, "ALTER TABLE orders ADD COLUMN note varchar(20) NOT NULL DEFAULT 'it''s'")
    statement(client, T0 + 2 * STEP, "RENAME TABLE orders TO sold")
    at = f"/history/shop/orders/at/{T0 + STEP}"
    before, after = client.get(at).json, client.get(f"{at}?inclusive=true").json
    assert (before["columns"], after["columns"]) == (3, 4)
    assert [c["type"] for c in before["table"]["columns"]] == ["bigint unsigned", "decimal(10,2)", "datetime(3)"]
    assert (before["commit_ts"], before["to_ts"], before["state"]) == (T0, T0 + STEP, "KNOWN")
    assert "DEFAULT 'it''s'" in after["show_create"]
    assert len(before["avro"]) == 8
    modes = {(m["decimal"], m["bigint_unsigned"], m["extension"]): json.loads(m["value"]) for m in before["avro"]}
    assert modes["precise", "long", False]["fields"][1]["type"][1]["precision"] == 10
    assert modes["string", "string", True]["fields"][0]["type"]["type"] == "string"
    assert modes["string", "long", True]["fields"][-1]["name"] == "_tidb_commit_physical_time"
    assert before["spark"]["ddl"] == "`id` DECIMAL(20,0),`total` DECIMAL(10,2),`at` STRING"
    assert [f["name"] for f in before["spark"]["struct"]["fields"]] == ["id", "total", "at"]
    assert before["debezium"]["value"]["name"] == "default.shop.orders.Envelope"
    gone = client.get(f"/history/shop/orders/at/{T0 + 9 * STEP}")
    assert gone.error == (404, 40453)
    assert "RENAME TABLE orders TO sold" in gone.json["message"]
    sold = client.get(f"/history/shop/sold/at/{T0 + 9 * STEP}").json
    assert sold["table_id"] == before["table_id"]


def test_a_time_is_the_last_tso_of_its_millisecond(client: Client) -> None:
    statement(client, T0 + 5, "CREATE TABLE t (a int)")
    ms = "2026-01-02T03:03:24.063Z"
    shown = client.get(f"/history/shop/t/at/{T0 + 6}").json
    assert shown["time"].endswith("Z")
    found = client.get(f"/history/shop/t/at/{shown['time']}").json
    assert found["at"] == T0 + STEP - 1
    assert client.get(f"/history/shop/t/at/{ms}").error == (404, 40452)
    for text in ("now", "-1", "99999999999999999999", "2026-13-01T00:00:00Z", "2026-01-01T00:00:00"):
        assert client.get(f"/history/shop/t/at/{text}").error == (422, 42251), text


def test_what_is_not_known_says_what_to_do(client: Client) -> None:
    assert client.get(f"/history/shop/t/at/{T0}").error == (404, 40450)
    statement(client, T0, "CREATE TABLE t (a int)")
    assert client.get(f"/history/shop/nope/at/{T0}").error == (404, 40451)
    assert client.get(f"/history/shop/t/at/{T0}").error == (404, 40452)
    refused = give(client, "ddl", commit_ts=T0 + 1, db="shop", query="ALTER TABLE nope ADD COLUMN x int")
    assert refused.error == (422, 42263)
    assert "snapshot" in refused.json["message"]
    assert give(client, "ddl", commit_ts=T0 + 1, db="shop", query="ALTER TABLE t ADD").error == (422, 42261)
    assert len(client.get("/history/ddl").json["ddl"]) == 1  # what was refused left nothing
    for body in (
        {},
        {"query": "x"},
        {"commit_ts": "x", "query": "DROP TABLE t"},
        {"commit_ts": T0, "query": 5},
        {"commit_ts": T0, "db": "shop", "query": "DROP TABLE t", "sql_mode": "ANSI,NONSENSE"},
        {"a": 1},
    ):
        assert give(client, "ddl", **body).status == 422, body
    statement(client, T0, "CREATE TABLE t (a int)", changefeed="other")
    assert client.get(f"/history/shop/t/at/{T0 + 1}").error == (422, 42250)
    assert client.get(f"/history/shop/t/at/{T0 + 1}?changefeed=other").status == 200
    drop = {"commit_ts": T0 + STEP, "db": "shop", "query": "DROP TABLE t"}
    assert give(client, "ddl", **drop).error == (422, 42250)
    assert give(client, "ddl?changefeed=other", **drop).json["changefeed"] == "other"


def test_snapshots_end_the_unknown(client: Client, tmp_path: Path) -> None:
    config = tmp_path / "t.toml"
    file = write(
        tmp_path / "m.jsonl",
        [ddl(T0 + STEP, "shop", "t", "ALTER TABLE `shop`.`t` ADD COLUMN `b` INT", 5), resolved(T0 + 2 * STEP)],
    )
    config.write_text(f'[[changefeed]]\nname = "default"\nin = "{file}"\n')
    with running_service(f"sqlite:///{tmp_path / 'two.db'}", track=str(config)) as url:
        two = Client(url)
        while not two.get("/history/changefeeds").json or not two.get("/history/changefeeds").json[0]["sealed_ts"]:
            pass
        unknown = two.get(f"/history/shop/t/at/{T0 + 2 * STEP}")
        assert unknown.error == (409, 40951)
        assert f"unknown since commit_ts {T0 + STEP}" in unknown.json["message"]
        assert two.get("/history/tables").json["tables"][0]["state"] == "PARTIAL"
        show = "CREATE TABLE `t` (\n  `a` int NOT NULL,\n  PRIMARY KEY (`a`)\n) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4"
        assert give(two, "snapshot", db="shop", query=show, commit_ts=T0).json["late"] == 1
        found = two.get(f"/history/shop/t/at/{T0 + 2 * STEP}").json
        assert [c["name"] for c in found["table"]["columns"]] == ["a", "b"]
        assert found["state"] == "KNOWN"


def test_a_registered_subject_and_a_message_as_snapshots(client: Client) -> None:
    meta = json.loads((GOLDEN / "avro" / "pk_int.ext1.meta.json").read_text(encoding="utf-8"))
    for entry in meta["registered_schemas"]:
        assert client.register(entry["subject"], entry["schema"]).status == 200
    subject = next(s["subject"] for s in meta["registered_schemas"] if s["subject"].endswith("-value"))
    assert give(client, "snapshot", subject=subject, commit_ts=T0).status == 200
    row = client.get(f"/history/test/pk_int/at/{T0 + 1}").json
    assert row["state"] == "PARTIAL"
    assert "registered schema" in row["reason"]
    assert subject not in row["reason"]  # who sees the table may not see the subject
    assert row["table"]["primary_key"] == ["id"]
    assert {link["subject"] for link in row["subjects"]} == {s["subject"] for s in meta["registered_schemas"]}
    lines = (GOLDEN / "simple" / "wide.json.jsonl").read_text(encoding="utf-8").splitlines()
    line = next(item for item in lines if '"bootstrap"' in item)
    message = {name: json.loads(line)[name] for name in ("key_b64", "value_b64")}
    assert give(client, "snapshot", message=message, commit_ts=T0).status == 200
    assert client.get(f"/history/test/wide/at/{T0 + 1}").json["state"] == "KNOWN"
    assert give(client, "snapshot", subject="nope", commit_ts=T0).error == (404, 40401)
    assert give(client, "snapshot", query="DROP TABLE x", db="d", commit_ts=T0).status == 422
    assert give(client, "snapshot", message={"value_b64": "e30="}, commit_ts=T0).status == 422


def test_versions_link_to_the_subjects_they_were_registered_as(client: Client) -> None:
    statement(client, T0, "CREATE TABLE t (id int PRIMARY KEY, v varchar(9))")
    statement(client, T0 + STEP, "ALTER TABLE t ADD COLUMN n int")
    first = client.get(f"/history/shop/t/at/{T0 + 1}").json
    second = client.get(f"/history/shop/t/at/{T0 + 2 * STEP}").json
    value = [m["value"] for m in first["avro"]]
    client.register("tidb_shop_t-value", value[1])
    client.register("tidb_shop_t-key", first["avro"][0]["key"])
    client.register("other-value", value[0])
    shown = client.get("/history/shop/t/versions").json["versions"]
    links = {(link["subject"], link["part"]) for link in shown[0]["subjects"]}
    assert links == {("tidb_shop_t-value", "value"), ("tidb_shop_t-key", "key"), ("other-value", "value")}
    extension = next(link for link in shown[0]["subjects"] if link["subject"] == "tidb_shop_t-value")
    assert {mode["extension"] for mode in extension["modes"]} == {True}
    assert {link["part"] for link in shown[1]["subjects"]} == {"key"}
    assert [entry["ddl"]["query"][:6] for entry in shown] == ["CREATE", "ALTER "]
    # the registry is one version behind: that is no drift; a schema of no version is
    assert client.get("/history/drift").json["registry"] == []
    client.level("NONE")
    foreign = json.loads(second["avro"][0]["value"])
    foreign["fields"][1]["name"] = "renamed"
    client.register("tidb_shop_t-value", json.dumps(foreign))
    (found,) = client.get("/history/drift").json["registry"]
    assert (found["subject"], found["version"]) == ("tidb_shop_t-value", 2)
    assert client.get("/history/drift?registry=false").json.get("registry") is None


def test_tables_that_avro_names_alike_are_distinguished_by_the_topic(client: Client) -> None:
    for name in ("a-b", "a_b", "a$b"):
        statement(client, T0, f"CREATE TABLE `{name}` (id int PRIMARY KEY, v varchar(9))")
    schema = client.get(f"/history/shop/a_b/at/{T0 + 1}").json["avro"][0]["value"]
    for subject in ("shop_a-b-value", "shop_a_b-value", "every-value"):
        client.register(subject, schema)

    def linked(table: str) -> set[str]:
        [shown] = client.get(f"/history/shop/{table}/versions").json["versions"]
        at = client.get(f"/history/shop/{table}/at/{T0 + 1}").json
        assert at["subjects"] == shown["subjects"]
        return {link["subject"] for link in shown["subjects"]}

    assert linked("a-b") == {"shop_a-b-value", "every-value"}
    # of these two not even the topic tells which
    assert linked("a_b") == linked("a%24b") == {"shop_a_b-value", "every-value"}
    # what one table has become is no version of the other's
    statement(client, T0 + STEP, "ALTER TABLE `a-b` ADD COLUMN n int")
    newer = client.get(f"/history/shop/a-b/at/{T0 + 2 * STEP}").json["avro"][0]["value"]
    client.register("shop_a_b-value", newer)
    (found,) = client.get("/history/drift").json["registry"]
    assert (found["subject"], found["table"]) == ("shop_a_b-value", "a$b")
    assert found["detail"].endswith("of the table, nor of shop.a_b, which Avro names alike")
    client.register("shop_a-b-value", newer)
    assert len(client.get("/history/drift").json["registry"]) == 1


def test_modes_beyond_the_eight_are_no_drift(client: Client) -> None:
    from ticdc_bridge.schemas.ddl.executor.apply import apply
    from ticdc_bridge.schemas.ddl.executor.catalog import new_catalog
    from ticdc_bridge.schemas.ddl.parser.lexer import TYPED
    from ticdc_bridge.schemas.ddl.parser.statement_parser import parse
    from ticdc_bridge.schemas.model.table import TableId

    sql = "CREATE TABLE t (id int PRIMARY KEY, v varchar(9))"
    statement(client, T0, sql)
    found = apply(new_catalog(), parse(sql, TYPED, "shop"), "shop").table(TableId("shop", "t"))
    assert found is not None
    options = Options(avro_include_before_value=True, enable_tidb_extension=True, keyspace="ks")
    client.register("t-value", schema.value_schema(found, options))
    assert client.get("/history/drift").json["registry"] == []


def test_an_unzoned_default_says_why(client: Client) -> None:
    statement(client, T0, "CREATE TABLE t (a int, ts timestamp default '2020-01-01 00:00:00')")
    at = f"/history/shop/t/at/{T0 + 1}"
    shown = client.get(at).json
    assert shown["avro"][0]["value"] is None
    assert "zone" in shown["avro"][0]["value_problem"]
    assert "zone" in shown["debezium"]["problem"]
    zoned = client.get(f"{at}?ddl_time_zone=Asia/Shanghai").json
    assert '"2019-12-31 16:00:00"' in zoned["avro"][0]["value"]
    assert client.get(f"{at}?ddl_time_zone=Nowhere").status == 422


def test_pages(client: Client) -> None:
    for n in range(5):
        statement(client, T0 + n * STEP, f"CREATE TABLE t{n} (a int)")
    page = client.get("/history/tables?limit=2").json
    assert ([t["table"] for t in page["tables"]], page["next_offset"]) == (["t0", "t1"], 2)
    page = client.get("/history/tables?limit=2&offset=4").json
    assert ([t["table"] for t in page["tables"]], page["next_offset"]) == (["t4"], None)
    page = client.get(f"/history/ddl?from={T0 + STEP}&to={T0 + 3 * STEP}&limit=2").json
    assert (len(page["ddl"]), page["next_offset"]) == (2, 2)
    assert len(client.get("/history/ddl?db=shop&table=T3").json["ddl"]) == 1
    assert client.get("/history/ddl?from=x").error == (422, 42251)
    assert client.get("/history/tables?limit=x").status == 404


EVENTS: list[tuple[str, dict[str, list[int]]]] = [
    ("CREATE TABLE a (id INT); CREATE TABLE b (id INT, x INT); RENAME TABLE a TO t, b TO a, t TO b",
     {"a": [0, 2], "b": [1, 2]}),
    ("CREATE TABLE a (id INT); RENAME TABLE a TO b, b TO c", {"a": [0, 1], "c": [1]}),
    ("CREATE DATABASE {db}2; CREATE TABLE a (id INT); RENAME TABLE a TO {db}2.m; ALTER TABLE {db}2.m ADD x INT",
     {"a": [1, 2], "{db}2.m": [2, 3]}),
    ("CREATE TABLE a (id INT); ALTER TABLE a RENAME TO b; CREATE TABLE a LIKE b", {"a": [0, 1, 2], "b": [1]}),
    ("CREATE TABLE p (id INT) PARTITION BY HASH(id) PARTITIONS 2; CREATE TABLE t (id INT); "
     "ALTER TABLE p EXCHANGE PARTITION p0 WITH TABLE t", {"p": [0, 2], "t": [1, 2]}),
    ("CREATE TABLE a (id INT); DROP TABLE a; RECOVER TABLE a", {"a": [0, 1, 2]}),
    ("CREATE TABLE a (id INT); TRUNCATE TABLE a; FLASHBACK TABLE a TO b", {"a": [0, 1, 2], "b": [2]}),
    ("CREATE TABLE a (id INT); CREATE TABLE b (id INT); DROP TABLE a, b; CREATE TABLE a (id INT, b INT)",
     {"a": [0, 2, 3], "b": [1, 2]}),
    ("CREATE TABLE a (id INT); DROP DATABASE {db}; CREATE DATABASE {db}; CREATE TABLE a (id INT)", {"a": [0, 1, 3]}),
    ("CREATE TABLE ÄB (id INT); ALTER TABLE äb ADD x INT; DROP TABLE äB", {"Äb": [0, 1, 2]}),
    ("CREATE TABLE a (id INT); CREATE VIEW v AS SELECT * FROM a; DROP VIEW v", {"a": [0], "v": [1, 2]}),
    ("CREATE DATABASE {db}; CREATE TABLE o (id INT); ALTER TABLE o ADD a INT; RENAME TABLE o TO old; CREATE TABLE o "
     "(id INT); CREATE TABLE n LIKE o; DROP DATABASE {db}", {"o": [1, 2, 3, 4, 6], "OLD": [3, 6], "n": [5, 6]}),
]  # fmt: skip


@each("row", EVENTS, ids=lambda row: row[0])
def test_the_events_of_renamed_exchanged_and_recovered_tables(
    client: Client, row: tuple[str, dict[str, list[int]]]
) -> None:
    """Each row in a database of its own: statements in order, and which of them a name's list has."""
    text, names = row
    db = f"d{EVENTS.index(row)}"
    start = T0 + EVENTS.index(row) * 100 * STEP
    for step, query in enumerate(text.replace("{db}", db).split("; ")):
        assert give(client, "ddl", commit_ts=start + step * STEP, db=db, query=query).status == 200, query
    for name, steps in names.items():
        own, _, table = name.replace("{db}", db).rpartition(".")
        events = client.get(f"/history/ddl?db={own or db}&table={quote(table)}").json["ddl"]
        assert [(event["commit_ts"] - start) // STEP for event in events] == steps, name


def test_what_changed_between_two_times(client: Client) -> None:
    for number in range(3):
        statement(client, T0 + number, f"CREATE TABLE t{number} (a int)")
    statement(client, T0 + STEP, "ALTER TABLE t1 CHANGE a b bigint")
    form = client.get(f"/history/diff?from={T0 + 3}&to={T0 + STEP + 1}").json
    [entry] = form["tables"]
    assert (form["counts"], form["resolved"], form["databases"]) == ({"changed": 1}, False, [])
    assert [(c["kind"], c["part"], c["name"], c.get("old_name")) for c in entry["changes"]] == [
        ("renamed", "column", "b", "a"), ("changed", "column", "b", None)]  # fmt: skip
    assert (entry["before"]["show_create"].count("`a`"), entry["after"]["show_create"].count("`b` bigint")) == (1, 1)
    assert [s["query"] for s in entry["statements"]] == ["ALTER TABLE t1 CHANGE a b bigint"]
    both = "/history/diff?from=0&to=2026-12-31T00:00:00Z&limit=2"
    first, second = (client.get(f"{both}&offset={offset}").json for offset in (0, 2))
    assert [len(page["tables"]) for page in (first, second)] == [2, 1]
    assert (first["next_offset"], second["next_offset"], second["counts"]) == (2, None, {"created": 3})
    for query, error in (
        ("from=1", (422, 422)), ("from=1&to=x", (422, 42251)), ("to=x", (422, 422)), ("from=2&to=1", (422, 422)),
        (f"from=0&to={T0}&db=shop&table=nope", (404, 40451)), ("from=0&to=1&table=t", (422, 422)),
    ):  # fmt: skip
        assert client.get(f"/history/diff?{query}").error == error, query


def test_tables_as_files(client: Client) -> None:
    statement(client, T0, "CREATE TABLE t (a int)")
    statement(client, T0 + STEP, "ALTER TABLE t ADD b int")
    sql = client.get("/history/export?db=shop&table=t")
    assert (sql.status, sql.headers["content-type"]) == (200, "application/sql; charset=utf-8")
    assert b"`b` int" in sql.body
    assert b"`b`" not in client.get(f"/history/export?at={T0 + STEP}").body
    lines = client.get("/history/export?format=jsonl").body.decode().splitlines()
    assert [json.loads(line)["commit_ts"] for line in lines] == [T0, T0 + STEP]
    for query, error in (
        ("format=csv", (422, 422)), ("at=now", (422, 42251)), ("db=nope", (404, 40451)), ("table=t", (422, 422)),
        ("ddl_time_zone=Mars", (422, 422)),
    ):  # fmt: skip
        assert client.get(f"/history/export?{query}").error == error, query
