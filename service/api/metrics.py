"""`/metrics` for Prometheus: counts and latencies per route, and what the store holds.

The names are those that dashboards for Confluent's, Karapace's and axonops' registries know (registry-api.md §10).
Numbers of schemas and versions are read from the store when they are asked for, so they are right in every process.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Final

from fastapi import APIRouter, FastAPI, Request, Response
from prometheus_client import (
    CollectorRegistry,
    Counter,
    Gauge,
    Histogram,
    ProcessCollector,
    disable_created_metrics,
    generate_latest,
)
from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.exposition import CONTENT_TYPE_LATEST
from prometheus_client.registry import Collector
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from service import logs
from service.registry.core import Registry
from service.registry.model import Counts

router = APIRouter()

_FAILED: Final = 400
_CONFLICT: Final = 409
_ERROR: Final = 500
_METHODS: Final = frozenset({"GET", "POST", "PUT", "DELETE", "OPTIONS"})
_NO_ROUTE: Final = "none"
_BUCKETS: Final = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 25)
_REGISTER: Final = ("POST", "/subjects/{subject}/versions")
_COMPATIBILITY: Final = "/compatibility/"


class Metrics:
    """The instruments of one app."""

    def __init__(self, registry: Registry) -> None:
        disable_created_metrics()  # type: ignore[no-untyped-call]  # when a series began is of no use here and doubles their number
        self.collectors = CollectorRegistry()
        known = self.collectors
        labels = ("method", "path", "status")
        self._requests = Counter("schema_registry_requests", "Requests answered", labels, registry=known)
        self._http = Counter("http_requests", "Requests answered (Karapace's name)", labels, registry=known)
        self._seconds = Histogram(
            "schema_registry_request_duration_seconds",
            "Time from request to answer",
            ("method", "path"),
            buckets=_BUCKETS,
            registry=known,
        )
        self.in_flight = Gauge("schema_registry_requests_in_flight", "Requests being answered", registry=known)
        self._registrations = Counter(
            "schema_registry_registrations", "Requests to register a schema", ("status",), registry=known
        )
        self._checks = Counter("schema_registry_compatibility_checks", "Requests to check a schema", registry=known)
        self._refused = Counter(
            "schema_registry_compatibility_errors", "Schemas refused as incompatible", registry=known
        )
        self._successes = Gauge("kafka_schema_registry_api_success_count", "Requests that succeeded", registry=known)
        self._failures = Gauge("kafka_schema_registry_api_failure_count", "Requests that failed", registry=known)
        known.register(Holdings(registry))
        ProcessCollector(registry=known)

    def answered(self, method: str, route: str, status: int, seconds: float) -> None:
        """Count one request; `route` is the path with the names of its parts, e.g. `/subjects/{subject}`."""
        self._requests.labels(method, route, status).inc()
        self._http.labels(method, route, status).inc()
        self._seconds.labels(method, route).observe(seconds)
        (self._failures if status >= _FAILED else self._successes).inc()
        if (method, route) == _REGISTER:
            self._registrations.labels("failure" if status >= _FAILED else "success").inc()
            if status == 409:
                self._refused.inc()
        elif route.startswith(_COMPATIBILITY):
            self._checks.inc()


class Holdings(Collector):
    """What the store holds, counted when Prometheus asks."""

    def __init__(self, registry: Registry) -> None:
        self._registry = registry

    def describe(self) -> list[Metric]:
        return []  # so that nothing is counted before somebody asks

    def collect(self) -> Iterator[Metric]:
        with self._registry.store.read() as tx:
            counts = tx.counts()
        for name, what, value in gauges(counts):
            yield GaugeMetricFamily(name, what, value)
        versions = GaugeMetricFamily(
            "karapace_schema_reader_subject_data_schema_versions", "Versions by state", labels=("state",)
        )
        versions.add_metric(["live"], sum(counts.live.values()))
        versions.add_metric(["soft_deleted"], sum(counts.deleted.values()))
        yield versions
        for name, by_kind in (("created", counts.live), ("deleted", counts.deleted)):
            family = GaugeMetricFamily(
                f"kafka_schema_registry_schemas_{name}", f"Versions {name}, by schema type", labels=("schema_type",)
            )
            for kind, number in by_kind.items():
                family.add_metric([kind.lower()], number)
            yield family


def gauges(counts: Counts) -> list[tuple[str, str, int]]:
    """(name, meaning, value) of the gauges without labels."""
    live, deleted = sum(counts.live.values()), sum(counts.deleted.values())
    return [
        ("schema_registry_schemas_total", "Different schemas", counts.schemas),
        ("schema_registry_subjects_total", "Subjects with an undeleted version", counts.subjects),
        ("schema_registry_schema_versions", "Undeleted versions", live),
        ("karapace_schema_reader_schemas", "Different schemas (Karapace's name)", counts.schemas),
        ("karapace_schema_reader_subjects", "Subjects (Karapace's name)", counts.subjects),
        ("kafka_schema_registry_registered_count", "Versions that are there, soft-deleted ones too", live + deleted),
        ("kafka_schema_registry_deleted_count", "Versions that are soft-deleted", deleted),
        ("kafka_schema_registry_master_slave_role", "1: this process takes writes", 1),
        ("kafka_schema_registry_node_count", "Processes known", 1),
    ]


class Measured:
    """ASGI middleware: counts and times every request, and logs it if asked to."""

    def __init__(self, app: ASGIApp, metrics: Metrics, log: bool) -> None:
        self._app, self._metrics, self._log = app, metrics, log

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        status, start = _ERROR, time.perf_counter()

        async def counted(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
            await send(message)

        self._metrics.in_flight.inc()
        try:
            await self._app(scope, receive, counted)
        finally:
            self._metrics.in_flight.dec()
            seconds = time.perf_counter() - start
            method = scope["method"] if scope["method"] in _METHODS else _NO_ROUTE
            self._metrics.answered(method, route_of(scope), status, seconds)
            if self._log:
                logs.access(scope["method"], scope["path"], status, seconds)


def route_of(scope: Scope) -> str:
    """The path of the route that answered, never the path that was sent: labels must stay few."""
    return str(getattr(scope.get("route"), "path", _NO_ROUTE))


@router.get("/metrics")
def metrics(request: Request) -> Response:
    """Everything in Prometheus' text format."""
    found = request.app.state.metrics
    assert isinstance(found, Metrics)
    return Response(generate_latest(found.collectors), headers={"Content-Type": CONTENT_TYPE_LATEST})


def install(app: FastAPI, registry: Registry, *, access_log: bool) -> None:
    """Measure every request of the app."""
    app.state.metrics = Metrics(registry)
    app.add_middleware(Measured, metrics=app.state.metrics, log=access_log)
