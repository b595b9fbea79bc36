"""Many clients at once: every one is answered, nothing is lost and nothing is there twice."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

from tests.support.service import Answer, Client, column, record

THREADS = 12


def wide(number: int) -> str:
    return record("R", *(column(f"c{one}", default=0) for one in range(number)))


def test_everybody_registers_something_else(client: Client) -> None:
    client.level("NONE")
    numbers = list(range(THREADS * 3)) * 2  # each twice
    with ThreadPoolExecutor(THREADS) as pool:
        answers = list(pool.map(lambda number: client.register("s", wide(number)), numbers))
    assert {one.status for one in answers} == {200}
    by_number: dict[int, set[tuple[int, int]]] = {}
    for number, one in zip(numbers, answers, strict=True):
        by_number.setdefault(number, set()).add((one.json["id"], one.json["version"]))
    assert all(len(given) == 1 for given in by_number.values()), "a schema got two versions"
    assert client.get("/subjects/s/versions").json == list(range(1, THREADS * 3 + 1))
    assert {given for (given,) in by_number.values()} == {(one, one) for one in range(1, THREADS * 3 + 1)}


def test_one_schema_in_many_subjects_has_one_id(client: Client) -> None:
    with ThreadPoolExecutor(THREADS) as pool:
        answers = list(pool.map(lambda number: client.register(f"s{number}", wide(2)), range(THREADS * 3)))
    assert {(one.status, one.json["id"], one.json["version"]) for one in answers} == {(200, 1, 1)}
    assert len(client.get("/schemas/ids/1/subjects").json) == THREADS * 3


def test_registering_deleting_reading_and_configuring_at_once(client: Client) -> None:
    client.level("NONE")

    def work(number: int) -> list[Answer]:
        subject = f"s{number % 3}"
        return [
            client.register(subject, wide(number % 7)),
            client.get("/subjects?deleted=true"),
            client.send("DELETE", f"/subjects/{subject}"),
            client.send("PUT", f"/config/{subject}", {"compatibility": "NONE"}),
            client.send("DELETE", f"/subjects/{subject}?permanent=true"),
            client.get(f"/subjects/{subject}/versions/latest"),
        ]

    with ThreadPoolExecutor(THREADS) as pool:
        answers = [one for some in pool.map(work, range(THREADS * 4)) for one in some]
    assert {one.status for one in answers} <= {200, 404}
    for number in range(3):
        held = client.get(f"/subjects/s{number}/versions?deleted=true")
        assert held.status == 404 or held.json == sorted(set(held.json))
