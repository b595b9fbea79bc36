"""Metrics and logs: what somebody who runs the service sees of it."""

import asyncio
import json
import re
import signal
from pathlib import Path

import pytest
from prometheus_client.parser import text_string_to_metric_families
from starlette.requests import ClientDisconnect

from tests.support.service import Client, listening_at, serve
from ticdc_bridge.service.errors import RegistryError
from ticdc_bridge.service.server.app import create_app
from ticdc_bridge.service.server.settings import Settings
from ticdc_bridge.service.ui.pages import ask_app


def samples(client: Client) -> dict[str, float]:
    """Every sample of /metrics by its name and labels."""
    answer = client.get("/metrics")
    assert answer.headers["content-type"].startswith("text/plain")
    return {
        f"{sample.name}{sorted(sample.labels.items()) or ''}": sample.value
        for family in text_string_to_metric_families(answer.body.decode())
        for sample in family.samples
    }


def test_metrics(client: Client) -> None:
    client.register("s", '"int"')
    client.register("s", '"long"')
    client.register("s", '"string"')
    client.register("gone", '"int"')
    client.send("DELETE", "/subjects/gone")
    client.get("/contexts/.c/subjects/s/versions/1")
    client.get("/no/such/path")
    client.send("POST", "/compatibility/subjects/s/versions", {"schema": '"int"'})
    found = samples(client)
    register = "[('method', 'POST'), ('path', '/subjects/{subject}/versions')"
    for name, value in {
        f"schema_registry_requests_total{register}, ('status', '200')]": 3,
        f"schema_registry_requests_total{register}, ('status', '409')]": 1,
        f"schema_registry_request_duration_seconds_count{register}]": 4,
        "schema_registry_requests_total[('method', 'GET'), ('path', 'none'), ('status', '404')]": 1,
        "schema_registry_registrations_total[('status', 'success')]": 3,
        "schema_registry_compatibility_checks_total": 1,
        "schema_registry_compatibility_errors_total": 1,
        "schema_registry_requests_in_flight": 1,
        "schema_registry_schemas_total": 2,
        "schema_registry_subjects_total": 1,
        "schema_registry_schema_versions": 2,
        "kafka_schema_registry_registered_count": 3,
        "kafka_schema_registry_deleted_count": 1,
        "kafka_schema_registry_api_failure_count": 3,
        "kafka_schema_registry_schemas_created[('schema_type', 'avro')]": 2,
        "karapace_schema_reader_subject_data_schema_versions[('state', 'soft_deleted')]": 1,
    }.items():
        assert found.get(name) == value, name
    assert not any("subjects/s" in name for name in found), "no label holds what a client sent"


def test_logs_as_json(tmp_path: Path) -> None:
    arguments = ("--port", "0", "--log-format", "json", "--access-log")
    with serve(*arguments, cwd=tmp_path, BRIDGE_STORE=f"sqlite:///{tmp_path / 'r.db'}") as process:
        client = Client(listening_at(process))
        decimal = {"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 1}
        client.register("s", json.dumps(decimal))
        body = {"schema": json.dumps({**decimal, "scale": 2})}
        client.send("POST", "/subjects/s/versions?normalize=false", body, {"X-Request-ID": "mine\u00e4"})
        process.send_signal(signal.SIGTERM)
        _, stderr = process.communicate(timeout=60)
    lines = [json.loads(line) for line in stderr.splitlines()]
    assert all(re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z", line["ts"]) for line in lines)
    [warned] = [line for line in lines if line["level"] == "warning"]
    assert "decimal(9,1)" in warned["message"]
    assert warned["request_id"] == "mine\u00e4"
    access = [line for line in lines if line["logger"] == "service.access"]
    assert (access[-1]["method"], access[-1]["path"], access[-1]["status"]) == ("POST", "/subjects/s/versions", 200)
    assert access[-1]["request_id"] == "mine\u00e4"
    assert lines[-1]["message"] == "stopped"
    assert "request_id" not in lines[-1]


def test_only_failures_of_the_server_are_logged(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    raised: list[Exception] = []

    def fail() -> None:
        raise raised.pop()

    app = create_app(Settings(store=f"sqlite:///{tmp_path / 'r.db'}"))
    app.add_api_route("/fail", fail)
    for error, code, text, logged in (
        (RegistryError("STORE_TIMEOUT", operation="Read", reason="away"), 50002, "Read operation timed out", ": away"),
        (KeyError(), 500, "Internal Server Error", "a defect of this service: the traceback follows"),
        (RecursionError(), 42201, "Schema is nested too deeply", ""),
        (ClientDisconnect(), 400, "the client hung up", ""),
    ):
        caplog.clear()
        raised.append(error)
        answer = asyncio.run(ask_app(app, "GET", "/fail", b"", {}))
        assert answer.json == {"error_code": code, "message": text}
        lines = [record.getMessage() for record in caplog.records if record.levelname == "ERROR"]
        assert [line.endswith(logged) for line in lines] == [True] * bool(logged), lines
    app.state.services.registry.store.close()
