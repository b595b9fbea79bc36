"""Every schema that TiCDC's own encoders registered, in order, in an empty context per case."""

import json
from typing import Any

from tests.support.service import GOLDEN, V1, Client
from tests.support.table import check_rows

_LINES = (GOLDEN / "ticdc-registered.jsonl").read_text(encoding="utf-8").splitlines()
CASES = {case["case"]: case["registered"] for case in map(json.loads, _LINES)}

# What TiCDC's encoder sends (upstream `codec/avro/confluent_schema_registry.go`)
HEADERS = {"Content-Type": V1, "Accept": f"{V1}, application/vnd.schemaregistry+json, application/json"}


def ids_and_versions(client: Client, registered: list[dict[str, Any]], context: str = "") -> None:
    """context: the start of all paths, as TiCDC is given it in the registry's URL; "" for the registry itself."""
    for _ in range(2):  # TiCDC registers everything again after a restart
        for entry in registered:
            path = f"{context}/subjects/{entry['subject']}/versions"
            answer = client.send("POST", path, {"schema": entry["schema"]}, HEADERS)
            assert (answer.status, answer.json["id"], answer.json["version"]) == (200, entry["id"], entry["version"])
    for entry in registered:
        found = client.get(f"{context}/schemas/ids/{entry['id']}").json["schema"]
        assert json.loads(found).keys() == json.loads(entry["schema"]).keys()


def test_ids_and_versions(client: Client) -> None:
    """Each context counts its own ids, so one service stands for a registry per case."""
    positions = {case: f"/contexts/.c{number}" for number, case in enumerate(CASES)}
    check_rows(CASES, lambda case: ids_and_versions(client, CASES[case], positions[case]))


def test_without_a_context(client: Client) -> None:
    """The case with the most schemas, by the paths of the registry itself."""
    ids_and_versions(client, max(CASES.values(), key=len))


def test_all_cases_are_here() -> None:
    assert len(CASES) == 119
