"""Client and service, Spark's look-ups and service, with a proxy between them that cuts, delays and garbles."""

import json
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from http.client import HTTPException
from typing import TypeVar

import pytest
from confluent_kafka.schema_registry import Schema, SchemaRegistryClient

from tests.support.proxy import Trouble, proxied
from tests.support.service import Client
from tests.survival.acknowledged_writes import Told, schema
from ticdc_bridge.clients.registry import HttpSchemas
from ticdc_bridge.schemas.model.errors import BridgeError

WRITES = 200
T = TypeVar("T")


@pytest.mark.parametrize(
    "trouble",
    [
        Trouble(cut=0.15),
        Trouble(delay=0.5),
        pytest.param(Trouble(garble=0.1), marks=pytest.mark.slow),
        Trouble(cut=0.05, delay=0.3, garble=0.05),
    ],
    ids=["cut", "delay", "garble", "all"],
)
def test_nothing_acknowledged_is_lost(client: Client, trouble: Trouble) -> None:
    """Who is told 200 is right; what was garbled on its way in is another schema, or refused."""
    client.level("NONE")
    reported = Told()

    def write(url: str, number: int) -> None:
        bad = Client(url)
        try:
            answer = bad.register(f"s{number % 4}", schema(0, number))
            json.loads(answer.body)
        except (OSError, HTTPException, ValueError):
            return  # no answer, or half of one: not acknowledged
        reported.add(f"s{number % 4}", schema(0, number), answer.status, answer.body)
        assert answer.status < 500 or trouble.garble, answer.body

    with proxied(client.url, trouble) as url, ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda number: write(url, number), range(WRITES)))
    assert sum(trouble.counts[kind] for kind in ("cut", "delay", "garble")) > 10
    if not trouble.garble:
        assert len(reported.ids) > WRITES // 4
        reported.check(client)
    for subject in client.get("/subjects").json:
        versions = client.get(f"/subjects/{subject}/versions").json
        assert versions == list(range(1, len(versions) + 1))
        ids = [client.get(f"/subjects/{subject}/versions/{version}").json["id"] for version in versions]
        assert len(set(ids)) == len(ids)
    assert client.get("/health/ready").status == 200


@pytest.mark.filterwarnings("ignore:unclosed <socket:ResourceWarning")  # the client drops cut connections unclosed
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_a_client_that_tries_again_gets_through(client: Client) -> None:
    client.level("NONE")
    with proxied(client.url, Trouble(cut=0.1, delay=0.2)) as url:
        patient = SchemaRegistryClient({"url": url, "max.retries": 30, "retries.wait.ms": 1, "retries.max.wait.ms": 5})
        ids = [_until(lambda n=n: patient.register_schema("patient", Schema(schema(0, n), "AVRO"))) for n in range(30)]
    assert len(set(ids)) == 30
    assert client.get("/subjects/patient/versions").json == list(range(1, 31))


def _until(register: object, tries: int = 50) -> int:
    assert callable(register)
    for _ in range(tries):
        try:
            return int(register())
        except Exception as error:  # the client has a name of its own for each way to fail
            last = error
    raise AssertionError(f"never got through: {last}")


@pytest.mark.parametrize(
    "wanted",
    [
        pytest.param(Trouble(cut=0.2, delay=0.2), marks=pytest.mark.slow),
        Trouble(garble=0.3),
        Trouble(cut=0.05, delay=0.1, garble=0.1),
    ],
    ids=["cut", "garble", "all"],
)
def test_schemas_come_whole_or_not_at_all(client: Client, wanted: Trouble) -> None:
    """Spark's look-ups and registrations through a proxy: what is right, or an error that says why.

    A garbled question or answer may be a valid one, for another id, and TLS is the answer to that: here it is an
    answer, or an error with a code.
    """
    client.level("NONE")
    texts = {client.register("spark", schema(0, n)).json["id"]: schema(0, n) for n in range(25)}
    trouble, right = Trouble(), 0
    with proxied(client.url, trouble) as url:
        source = HttpSchemas(url, wait=2.0).check()  # as every job does, at its start
        trouble.cut, trouble.delay, trouble.garble = wanted.cut, wanted.delay, wanted.garble
        for number, text in texts.items():
            found = attempt(partial(source.by_id, number, "value"), wanted)
            given = attempt(partial(source.id_of, "made", schema(1, number)), wanted)
            if not wanted.garble:
                assert found is None or json.loads(found) == json.loads(text)
                kept = client.get(f"/schemas/ids/{given}").json
                assert given is None or json.loads(kept["schema"]) == json.loads(schema(1, number))
            right += found is not None
    assert trouble.counts["cut"] + trouble.counts["garble"] > 3
    assert right > len(texts) // 2


def attempt(ask: Callable[[], T], trouble: Trouble) -> T | None:
    """The answer; None for an error that says what the trouble was, and where bytes are garbled for any with a code."""
    try:
        return ask()
    except BridgeError as error:
        if not trouble.garble and error.code not in ("REGISTRY_UNREACHABLE", "REGISTRY_REFUSED"):
            raise
        return None
