"""Every schema that TiCDC's own encoders registered, in order, on an empty store per case."""

from __future__ import annotations

import json
from typing import Any

import pytest

from service.testing import running_service
from tests.service.support import GOLDEN, V1, Client

_LINES = (GOLDEN / "ticdc-registered.jsonl").read_text(encoding="utf-8").splitlines()
CASES = {case["case"]: case["registered"] for case in map(json.loads, _LINES)}

# What TiCDC's encoder sends (registry-api.md §11)
HEADERS = {"Content-Type": V1, "Accept": f"{V1}, application/vnd.schemaregistry+json, application/json"}


@pytest.mark.parametrize("case", CASES)
def test_ids_and_versions(case: str) -> None:
    registered: list[dict[str, Any]] = CASES[case]
    with running_service() as url:
        client = Client(url)
        for _ in range(2):  # TiCDC registers everything again after a restart
            for one in registered:
                path = f"/subjects/{one['subject']}/versions"
                answer = client.send("POST", path, {"schema": one["schema"]}, HEADERS)
                assert (answer.status, answer.json["id"], answer.json["version"]) == (200, one["id"], one["version"])
        for one in registered:
            found = client.get(f"/schemas/ids/{one['id']}").json["schema"]
            assert json.loads(found).keys() == json.loads(one["schema"]).keys()


def test_all_cases_are_here() -> None:
    assert len(CASES) == 119
