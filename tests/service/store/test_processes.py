"""Several service processes on one store: nothing lost, nothing twice, nothing stale, and no 5xx.

`make soak` (BRIDGE_SOAK=N) is the long form.
"""

import os
import random
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from urllib.parse import quote

from tests.support.forked_service import services
from tests.support.service import Client, column, record, short_and_long

# Read on import: the tests of the service take the settings BRIDGE_… out of their environment later.
SOAK = int(os.environ.get("BRIDGE_SOAK", "0"))
PROCESSES = 4
THREADS = 2


def schema(number: int) -> str:
    return record("R", column(f"c{number}", default=0))


@short_and_long(6, max(SOAK, 24))
def test_four_writers(store_url: str, examples: int) -> None:
    """Every client registers every schema, in an order of its own, by turns in a subject of all and in its own."""
    numbers = list(range(examples))
    with services(PROCESSES, store_url, compatibility="NONE") as running:
        clients = [client for _, client in running for _ in range(THREADS)]

        def write(pos: int) -> list[tuple[str, int, int, int]]:
            order = random.Random(pos).sample(numbers, len(numbers))
            said = []
            for number in order:
                for subject in ("shared", f"own-{pos}"):
                    answer = clients[pos].register(subject, schema(number))
                    assert answer.status == 200, answer.body
                    said.append((subject, number, answer.json["id"], answer.json["version"]))
            return said

        with ThreadPoolExecutor(len(clients)) as pool:
            said = [entry for some in pool.map(write, range(len(clients))) for entry in some]
        ids = {(number, schema_id) for _, number, schema_id, _ in said}
        assert len(ids) == len(numbers), "a schema got two ids"
        assert sorted(schema_id for _, schema_id in ids) == list(range(1, len(numbers) + 1)), "an id twice, or a hole"
        versions = {(subject, number, version) for subject, number, _, version in said}
        assert len(versions) == len(numbers) * (len(clients) + 1), "a schema got two versions"
        for subject in ("shared", *(f"own-{index}" for index in range(len(clients)))):
            held = sorted(version for name, _, version in versions if name == subject)
            for _, client in running:
                assert client.get(f"/subjects/{subject}/versions").json == held == list(range(1, len(numbers) + 1))


@short_and_long(7, max(SOAK, 30))
def test_register_and_look_up_are_never_stale(store_url: str, examples: int) -> None:
    """What one process has answered, every other knows at once, also where it had kept another answer."""
    with services(2, store_url, compatibility="NONE") as running:
        first, second = (client for _, client in running)
        for number in range(examples):
            body = {"schema": schema(number)}
            for client in (first, second):
                assert client.send("POST", "/subjects/s", body).status == 404
            version = first.register("s", schema(number)).json["version"]
            for client in (second, first, second):
                assert client.send("POST", "/subjects/s", body).json["version"] == version
                assert client.register("s", schema(number)).json["version"] == version
            if number % 3 == 0:
                assert second.send("DELETE", f"/subjects/s/versions/{version}").status == 200
                for client in (first, second):
                    assert client.send("POST", "/subjects/s", body).status == 404
                assert first.register("s", schema(number)).json["version"] == version + 1


def test_all_kinds_of_writes_at_once(store_url: str) -> None:
    """Deletes, configs and modes in between: only answers that the rules give, and a store that fits together."""
    with services(PROCESSES, store_url, compatibility="NONE") as running:
        clients = [client for _, client in running]

        def work(pos: int) -> Counter[int]:
            chance, seen = random.Random(pos), Counter[int]()
            client = clients[pos % len(clients)]
            for _ in range(max(SOAK, 25)):
                subject = f"s{chance.randrange(3)}"
                seen[mixed(client, subject, chance)] += 1
            return seen

        with ThreadPoolExecutor(PROCESSES * THREADS) as pool:
            seen = sum(pool.map(work, range(PROCESSES * THREADS)), Counter[int]())
        assert not {status for status in seen if status not in (200, 404, 422)}, seen
        texts: dict[int, str] = {}
        for subject in clients[0].get("/subjects?deleted=true").json:
            for client in clients:
                held = client.get(f"/subjects/{quote(subject)}/versions?deleted=true").json
                assert held == sorted(set(held))
            for version in held:
                entry = clients[0].get(f"/subjects/{quote(subject)}/versions/{version}?deleted=true").json
                assert texts.setdefault(entry["id"], entry["schema"]) == entry["schema"], "one id for two schemas"
        assert len(set(texts.values())) == len(texts), "two ids for one schema"


def mixed(client: Client, subject: str, chance: random.Random) -> int:
    """One random request."""
    kind = chance.choice(["register"] * 4 + ["soft", "hard", "config", "mode", "version"])
    if kind == "register":
        return client.register(subject, schema(chance.randrange(6))).status
    if kind == "config":
        return client.send("PUT", f"/config/{subject}", {"compatibility": "NONE"}).status
    if kind == "mode":
        return client.send("PUT", f"/mode/{subject}", {"mode": "READWRITE"}).status
    if kind == "version":
        return client.send("DELETE", f"/subjects/{subject}/versions/{chance.randrange(1, 5)}").status
    return client.send("DELETE", f"/subjects/{subject}{'?permanent=true' if kind == 'hard' else ''}").status
