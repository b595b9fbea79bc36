"""`/lineage`: what jobs tell is kept, added up, and found by job, topic, table and subject."""

from typing import Any

from tests.support.each import each
from tests.support.service import Client, column, record

EDGE = {"topic": "t", "db": "shop", "table": "orders", "table_version": 7, "schema_id": 1, "rows": 5}
TOLD = {"job": "j", "command": "decode", "from": "avro", "to": "plain", "source": "kafka:t", "target": "delta:x"}


def test_edges_are_added_up_and_name_their_subjects(client: Client) -> None:
    assert client.register("t-value", record("orders", column("id"))).json["id"] == 1
    for _ in range(2):
        assert client.send("POST", "/lineage", {**TOLD, "tables": [EDGE]}).json == {"edges": 1}
    other = {**EDGE, "table": "items", "schema_id": None, "table_version": None, "topic": None}
    assert client.send("POST", "/lineage", {**TOLD, "job": "k", "tables": [other]}).status == 200
    (left,) = client.get("/lineage?subject=t-value").json
    assert (left["rows"], left["subjects"]) == (10, [{"subject": "t-value", "version": 1}])
    assert left["first"] <= left["last"]
    assert [e["table"] for e in client.get("/lineage").json] == ["orders", "items"]
    for query, found in (("job=k", ["items"]), ("topic=t", ["orders"]), ("table=shop.items", ["items"]), ("job=x", [])):
        assert [e["table"] for e in client.get(f"/lineage?{query}").json] == found


def test_progress_is_that_of_the_newest_call(client: Client) -> None:
    for commit_ts, waiting in ((400 << 18, 7), (500 << 18, 0)):
        reported = {**EDGE, "newest_commit_ts": commit_ts, "waiting": waiting}
        assert client.send("POST", "/lineage", {**TOLD, "tables": [reported]}).status == 200
    assert client.send("POST", "/lineage", {**TOLD, "job": "old", "tables": [EDGE]}).status == 200
    edges = client.get("/lineage").json
    assert [(e["job"], e["rows"], e["newest_commit_ts"], e["waiting"]) for e in edges] == [
        ("j", 10, 500 << 18, 0), ("old", 5, None, None),
    ]  # fmt: skip
    page = client.get("/ui/lineage").body.decode()
    assert "Messages waiting" in page
    stopped = {**EDGE, "set_aside": "stopped at shop.orders: why"}
    assert client.send("POST", "/lineage", {**TOLD, "tables": [stopped]}).status == 200
    assert "set aside:</strong> stopped at shop.orders: why" in client.get("/ui/lineage").body.decode()


def test_a_table_that_is_set_aside_is_not_up_to_date(client: Client) -> None:
    """Until the job's newest call, which may have no row of the table, names it no more."""
    told = {**TOLD, "command": "merge"}
    topic = {**EDGE, "db": "", "table": "", "table_version": None, "schema_id": None, "rows": 0, "positions": {"0": 7}}
    for tables, found in (
        ([{**EDGE, "set_aside": "why it stopped"}, {**topic, "set_aside": "a.b, shop.orders"}], (1, 1, 1)),
        ([{**topic, "set_aside": "a.b, shop.orders"}], (1, 1, 1)),
        ([{**topic, "set_aside": "a.b"}], (0, 1, 0)),
        ([topic], (0, 0, 0)),
    ):
        assert client.send("POST", "/lineage", {**told, "tables": tables}).status == 200
        home, lake = (client.get(path).body.decode() for path in ("/ui", "/ui/lake/shop/orders"))
        said = "It is set aside, and its changes wait: why it stopped", "tables are set aside", "a.b, shop.orders"
        assert (said[0] in lake, said[1] in home, said[2] in home) == found


def test_the_failed_messages_of_the_newest_run(client: Client) -> None:
    for failed, position in ((7, "kafka:elsewhere"), (2, "kafka:letters"), (1, None)):
        reported = {
            **TOLD,
            "job": "a" if position else "b",
            "failed": failed,
            "dead_letter": position,
            "tables": [EDGE],
        }
        assert client.send("POST", "/lineage", reported).status == 200
    assert client.send("POST", "/lineage", {**TOLD, "job": "old", "tables": [EDGE]}).status == 200
    edges = {e["job"]: (e["rows"], e["failed"], e["dead_letter"]) for e in client.get("/lineage").json}
    assert edges == {"a": (10, 2, "kafka:letters"), "b": (5, 1, None), "old": (5, None, None)}
    page = client.get("/ui").body.decode()
    for text in ("2 messages failed in its newest run; they are in kafka:letters", "/ui/dead-letters/letters",
                 "1 message failed in its newest run</td>"):  # fmt: skip
        assert text in page


@each("body", [
    b"{", [], {}, TOLD, {**TOLD, "tables": [7]}, {**TOLD, "tables": [{**EDGE, "rows": "5"}]},
    {**TOLD, "tables": [{**EDGE, "rows": -1}]},
    {**TOLD, "tables": [{**EDGE, "rows": 10**400}]}, {**TOLD, "tables": [{**EDGE, "rows": True}]},
    {**TOLD, "tables": [{**EDGE, "db": None}]}, {**TOLD, "job": "j" * 1001, "tables": []},
    {**TOLD, "tables": [EDGE] * 10_001}, {**TOLD, "failed": -1, "tables": []}, {**TOLD, "failed": "2", "tables": []},
    {**TOLD, "errors": {"A": -1}, "tables": []}, {**TOLD, "errors": {"A": "1"}, "tables": []},
    {**TOLD, "errors": [1], "tables": []}, {**TOLD, "tables": [{**EDGE, "positions": {"0": True}}]},
    {**TOLD, "dead_letter": 5, "tables": []}, {**TOLD, "dead_letter": "x" * 1001, "tables": []},
])  # fmt: skip
def test_bad_bodies_are_refused(shared_client: Client, body: Any) -> None:
    assert shared_client.send("POST", "/lineage", body).status == 400
