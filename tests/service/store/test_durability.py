"""What was answered with 200 is there after kill -9, and ids go on where they were.

`make soak` (BRIDGE_SOAK=N rounds) is the long form.
"""

import http.client
import os
import threading
from concurrent.futures import ThreadPoolExecutor
from multiprocessing.process import BaseProcess

from tests.support.forked_service import services
from tests.support.service import Client, column, record, short_and_long

# Read on import: the tests of the service take the settings BRIDGE_… out of their environment later.
ROUNDS = int(os.environ.get("BRIDGE_SOAK", "20"))
SHORT = 2
WRITERS = 3
BEFORE_THE_KILL = 25


def write_until_killed(client: Client, prefix: str, answered: dict[str, int], enough: threading.Event) -> None:
    """Register schema after schema, each in a subject of its own, until the server is gone."""
    for number in range(100_000):
        subject = f"{prefix}-{number}"
        try:
            answer = client.register(subject, record("R", column(subject.replace("-", "_"))))
        except (OSError, http.client.HTTPException):
            return
        assert answer.status == 200, answer.body
        answered[subject] = answer.json["id"]
        if len(answered) >= BEFORE_THE_KILL:
            enough.set()


def killed_under_load(process: BaseProcess, client: Client, prefix: str) -> dict[str, int]:
    """Kill the process while its clients write; out: what was answered, by subject."""
    fresh: dict[str, int] = {}
    enough = threading.Event()
    with ThreadPoolExecutor(WRITERS) as pool:
        writing = [
            pool.submit(write_until_killed, client, f"{prefix}-{index}", fresh, enough) for index in range(WRITERS)
        ]
        assert enough.wait(60)
        process.kill()
        process.join(60)
        for entry in writing:
            entry.result()
    return fresh


def check(client: Client, answered: dict[str, int]) -> None:
    """Everything that was answered is there, no id stands for two schemas, and none is missing."""
    held = {entry["subject"]: entry for entry in client.get("/schemas").json}
    found = len(held)
    while found == 1000:  # the largest page
        page = client.get(f"/schemas?offset={len(held)}").json
        held |= {entry["subject"]: entry for entry in page}
        found = len(page)
    assert {subject: held[subject]["id"] for subject in answered} == answered
    assert {value["version"] for value in held.values()} <= {1}
    assert sorted(value["id"] for value in held.values()) == list(range(1, len(held) + 1)), "an id twice, or a hole"


@short_and_long(SHORT, ROUNDS)
def test_answered_writes_survive_a_kill(store_url: str, examples: int) -> None:
    answered: dict[str, int] = {}
    for round_ in range(examples):
        with services(1, store_url) as [(process, client)]:
            check(client, answered)
            fresh = killed_under_load(process, client, f"r{round_}")
        assert len(fresh) >= BEFORE_THE_KILL
        answered |= fresh
    with services(1, store_url) as [(_, client)]:
        check(client, answered)


@short_and_long(1, max(ROUNDS // 4, 1))
def test_a_killed_process_does_not_stop_the_others(store_url: str, examples: int) -> None:
    """It may be killed while it is alone with the store: its lock goes with it."""
    with services(1, store_url) as [(_, client)], ThreadPoolExecutor(WRITERS) as pool:
        answered: dict[str, int] = {}
        done = threading.Event()

        def write(pos: int) -> dict[str, int]:
            said: dict[str, int] = {}
            while not done.is_set():
                subject = f"other-{pos}-{len(said)}"
                answer = client.register(subject, record("R", column(subject.replace("-", "_"))))
                assert answer.status == 200, answer.body
                said[subject] = answer.json["id"]
            return said

        writing = [pool.submit(write, index) for index in range(WRITERS)]
        try:
            for round_ in range(examples):
                with services(1, store_url) as [(process, killed)]:
                    answered |= killed_under_load(process, killed, f"r{round_}")
        finally:
            done.set()
        for entry in writing:
            answered |= entry.result()
        check(client, answered)
