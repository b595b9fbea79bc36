"""Service and PostgreSQL with a proxy between them that cuts, delays and garbles."""

import os
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

import pytest

from tests.support.postgres import Postgres
from tests.support.proxy import Trouble, proxied
from tests.support.service import Answer, Client
from tests.survival.acknowledged_writes import Told, schema
from ticdc_bridge.service.testing import running_service

WRITES = 80
# Read on import: the tests of the service take the settings BRIDGE_… out of their environment later.
SOAK = int(os.environ.get("BRIDGE_SOAK", "0"))
TIMED_OUT = (500, 50002)


@contextmanager
def troubled(postgres: Postgres, trouble: Trouble, wait: float = 20.0) -> Iterator[tuple[Client, Client]]:
    """Clients of a service whose store is behind the proxy, and of one that reads the same store directly."""
    url = postgres.database()
    calm = Trouble(seed=trouble.seed)
    with (
        running_service(url, compatibility="NONE") as direct,
        proxied(url, calm) as through,
        running_service(through, compatibility="NONE", store_wait_seconds=wait, log_level="error") as bad,
    ):
        # The service starts without trouble; the Trouble that the proxy goes by becomes the wanted one, and ends again.
        calm.cut, calm.delay, calm.garble, calm.seconds = trouble.cut, trouble.delay, trouble.garble, trouble.seconds
        trouble.counts = calm.counts
        try:
            yield Client(bad), Client(direct)
        finally:
            calm.cut = calm.delay = calm.garble = 0.0
        healthy(Client(bad))


def write(client: Client, reported: Told, number: int) -> Answer:
    subject, text = f"s{number % 4}", schema(0, number)
    answer = client.register(subject, text)
    reported.add(subject, text, answer.status, answer.body)
    return answer


def healthy(client: Client) -> None:
    """Within a minute: what the service was in the middle of when the trouble ended may take its time."""
    until = time.monotonic() + 60
    while {client.register("after", '"string"').status, client.get("/health/ready").status} != {200}:
        assert time.monotonic() < until
        time.sleep(0.05)


@pytest.mark.slow
@pytest.mark.parametrize("trouble", [Trouble(cut=0.02), Trouble(delay=0.1, seconds=0.02)], ids=["cut", "delay"])
def test_requests_are_held_and_answered(postgres: Postgres, trouble: Trouble) -> None:
    """Cut connections and slow ones: 200, or 500/50002 after the wait; nothing that was acknowledged is lost."""
    reported = Told()
    with troubled(postgres, trouble) as (bad, direct):
        with ThreadPoolExecutor(8) as pool:
            answers = list(pool.map(lambda number: write(bad, reported, number), range(WRITES)))
        assert {answer.error for answer in answers if answer.status != 200} <= {TIMED_OUT}
        assert trouble.counts["cut"] + trouble.counts["delay"] > 10
        assert len(reported.ids) > WRITES // 2
        reported.check(direct)


@pytest.mark.skipif(not SOAK, reason="the service is back only after up to half a minute; make soak")
def test_garbled(postgres: Postgres) -> None:
    """Nothing but TLS tells a garbled byte from a right one: it damages one write at most; the service recovers."""
    reported, trouble = Told(), Trouble(garble=0.004)
    with troubled(postgres, trouble, 1.0) as (bad, direct):
        with ThreadPoolExecutor(8) as pool:
            answers = list(pool.map(lambda number: write(bad, reported, number), range(WRITES)))
        assert trouble.counts["garble"] > 0
        assert len(reported.ids) > 0
        assert {answer.status for answer in answers} <= {200, 422, 500}
        wrong = reported.wrong(direct)
        print(
            f"{trouble.counts['garble']} bytes garbled, {wrong} of {len(reported.ids)} acknowledged writes are others"
        )
        assert wrong <= trouble.counts["garble"]
