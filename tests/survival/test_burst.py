"""The start of a changefeed over many tables: every registration is answered 200, soon, and each id is given once."""

from pathlib import Path

import pytest

from benchmarks.registry_burst import private_mb
from tests.support import registration_burst
from tests.support.registration_burst import Burst
from tests.support.service import column, listening_at, record, serve

TABLES, CONNECTIONS = 1500, 64


def schema(name: str) -> str:
    return record(name, *(column(f"column_{number}", ["null", "long"], default=None) for number in range(20)))


@pytest.mark.slow
def test_a_burst_of_registrations(tmp_path: Path, store_url: str) -> None:
    with serve("--port", "0", "--store", store_url, cwd=tmp_path) as process:
        try:
            url = listening_at(process)
            bursts = [
                registration_burst.run(url, TABLES, CONNECTIONS, schema, lambda: private_mb(process.pid))
                for _ in range(4)
            ]
        finally:
            process.kill()
    for burst in bursts:
        check(burst)
        assert set(burst.ids) == set(bursts[0].ids)
    # Caches of answers fill in the first three bursts: 82 MB.
    assert bursts[-1].samples[-1] - bursts[0].samples[10] < 120, [burst.samples for burst in bursts]


def check(burst: Burst) -> None:
    assert burst.statuses == {200: 2 * TABLES}, burst.failures[:3]
    assert burst.holes == 0
    assert burst.longest < 10
