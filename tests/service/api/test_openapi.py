"""The OpenAPI description holds: schemathesis finds no 5xx and no status that it does not name."""

from collections.abc import Iterator
from typing import Any

import pytest
import schemathesis
from hypothesis import HealthCheck, Phase, given, settings
from schemathesis.checks import not_a_server_error
from schemathesis.specs.openapi.checks import status_code_conformance

from tests.support.service import Client, column, record, short_and_long
from ticdc_bridge.service.testing import running_service


@pytest.fixture(scope="module")
def api() -> Iterator[Any]:
    with running_service() as url:
        client = Client(url)
        client.level("NONE")
        for subject in ("0", ":.c:0"):
            client.register(subject, record("R", column("a")))
            client.register(subject, record("R", column("b")))
        yield schemathesis.openapi.from_url(f"{url}/openapi.json")


@short_and_long(2, 8)
def test_the_description_holds(api: Any, examples: int) -> None:
    operations = [result.ok() for result in api.get_all_operations()]
    assert len(operations) > 40
    for operation in operations:

        @settings(
            max_examples=examples, deadline=None, phases=[Phase.generate], suppress_health_check=list(HealthCheck)
        )
        @given(case=operation.as_strategy())
        def holds(case: Any) -> None:
            case.call_and_validate(checks=[not_a_server_error, status_code_conformance])

        holds()


def test_a_client_generator_finds_what_it_needs(api: Any) -> None:
    """By hand: openapi-spec-validator 0.9.0 accepts the document, openapi-python-client makes a client of it."""
    operations = [operation for path in api.raw_schema["paths"].values() for operation in path.values()]
    names = [operation["operationId"] for operation in operations]
    assert len(names) == len(set(names)) > 40
    done = [operation["responses"].get("200", {}).get("content", {}) for operation in operations]
    assert all("schema" in content for answer in done for content in answer.values())
