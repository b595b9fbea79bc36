"""`/metrics` for Prometheus: counts and latencies per route, and what the store holds.

The names are those that dashboards for Confluent's, Karapace's and axonops' registries know.
"""

import time
from bisect import bisect_left
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import accumulate
from typing import Final

from fastapi import FastAPI, Request, Response
from prometheus_client import CollectorRegistry, ProcessCollector, disable_created_metrics, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, Metric
from prometheus_client.exposition import CONTENT_TYPE_LATEST
from prometheus_client.registry import Collector
from prometheus_client.utils import floatToGoString
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from ticdc_bridge.service.api.routing import Router
from ticdc_bridge.service.auth.acl import METRICS
from ticdc_bridge.service.errors import RegistryError
from ticdc_bridge.service.registry.deadline import Outage
from ticdc_bridge.service.registry.registry import Registry
from ticdc_bridge.service.server import logs

router = Router("/metrics", needs=METRICS, retry_on_outage=False)

_FAILED: Final = 400
_METHODS: Final = frozenset({"GET", "POST", "PUT", "DELETE", "OPTIONS"})
_NO_ROUTE: Final = "none"
_BUCKETS: Final = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 25)
_REGISTER: Final = ("POST", "/subjects/{subject}/versions")


@dataclass(slots=True)
class Tally:
    """Answers of one method, route and status: how many, and how long they took."""

    buckets: list[int] = field(default_factory=lambda: [0] * (len(_BUCKETS) + 1))
    seconds: float = 0.0

    def add(self, seconds: float) -> None:
        self.buckets[bisect_left(_BUCKETS, seconds)] += 1
        self.seconds += seconds

    @property
    def count(self) -> int:
        return sum(self.buckets)


class ServiceMetrics(Collector):
    """The instruments of one app. Requests are counted in the event loop's thread only, so no lock is needed."""

    def __init__(self, registry: Registry) -> None:
        disable_created_metrics()  # type: ignore[no-untyped-call]  # when a series began is of no use here and doubles their number
        self.collectors = CollectorRegistry()
        self.in_flight = 0
        self._tallies: dict[tuple[str, str, int], Tally] = {}
        self.collectors.register(self)
        self.collectors.register(StoreCounts(registry))
        ProcessCollector(registry=self.collectors)

    def tally(self, method: str, route: str, status: int) -> Tally:
        """The counter of such answers; `route` is the path with the names of its parts (`/subjects/{subject}`)."""
        key = (method, route, status)
        tally = self._tallies.get(key)
        if tally is None:
            tally = self._tallies[key] = Tally()
        return tally

    def collect(self) -> Iterator[Metric]:
        tallies = sorted(self._tallies.items())
        for name, what in (
            ("schema_registry_requests", "Requests answered"),
            ("http_requests", "Requests answered (Karapace's name)"),
        ):
            family = CounterMetricFamily(name, what, labels=("method", "path", "status"))
            for (method, route, status), tally in tallies:
                family.add_metric([method, route, str(status)], tally.count)
            yield family
        yield durations(tallies)
        yield GaugeMetricFamily("schema_registry_requests_in_flight", "Requests being answered", self.in_flight)
        registrations = CounterMetricFamily(
            "schema_registry_registrations", "Requests to register a schema", labels=("status",)
        )
        registered = [(status, tally.count) for (*route, status), tally in tallies if tuple(route) == _REGISTER]
        for word, failed in (("success", False), ("failure", True)):
            registrations.add_metric([word], sum(n for status, n in registered if (status >= _FAILED) is failed))
        yield registrations
        yield GaugeMetricFamily("kafka_schema_registry_node_count", "Processes known", 1)
        checks = sum(tally.count for (_, route, _), tally in tallies if route.startswith("/compatibility/"))
        yield CounterMetricFamily("schema_registry_compatibility_checks", "Requests to check a schema", checks)
        refused = sum(number for status, number in registered if status == 409)
        yield CounterMetricFamily("schema_registry_compatibility_errors", "Schemas refused as incompatible", refused)
        good = sum(tally.count for (_, _, status), tally in tallies if status < _FAILED)
        bad = sum(tally.count for (_, _, status), tally in tallies if status >= _FAILED)
        yield GaugeMetricFamily("kafka_schema_registry_api_success_count", "Requests that succeeded", good)
        yield GaugeMetricFamily("kafka_schema_registry_api_failure_count", "Requests that failed", bad)


def durations(tallies: list[tuple[tuple[str, str, int], Tally]]) -> HistogramMetricFamily:
    """Times by method and route."""
    name, what = "schema_registry_request_duration_seconds", "Time from request to answer"
    family = HistogramMetricFamily(name, what, labels=("method", "path"))
    by_route: dict[tuple[str, str], list[Tally]] = {}
    for (method, route, _), tally in tallies:
        by_route.setdefault((method, route), []).append(tally)
    bounds = [*map(floatToGoString, _BUCKETS), "+Inf"]
    for labels, some in by_route.items():
        counts = accumulate(map(sum, zip(*(tally.buckets for tally in some), strict=True)))
        family.add_metric(labels, list(zip(bounds, counts, strict=True)), sum(tally.seconds for tally in some))
    return family


class StoreCounts(Collector):
    """Counts of the store, made when Prometheus asks; while the store is away, only that it is."""

    def __init__(self, registry: Registry) -> None:
        self._registry = registry

    def collect(self) -> Iterator[Metric]:
        is_up = GaugeMetricFamily("bridge_store_up", "1: the store can be read")
        try:
            with self._registry.store.read() as tx:
                counts = tx.counts()
        except Outage:
            is_up.add_metric([], 0)
            yield is_up
            return
        is_up.add_metric([], 1)
        yield is_up
        writable = 1
        try:
            self._registry.store.check()
        except RegistryError:
            writable = 0
        yield GaugeMetricFamily("bridge_store_writable", "1: the store can be written", writable)
        live, deleted = sum(counts.live.values()), sum(counts.deleted.values())
        for name, what, value in (
            ("schema_registry_schemas_total", "Different schemas", counts.schemas),
            ("schema_registry_subjects_total", "Subjects with an undeleted version", counts.subjects),
            ("schema_registry_schema_versions", "Undeleted versions", live),
            ("karapace_schema_reader_schemas", "Different schemas (Karapace's name)", counts.schemas),
            ("karapace_schema_reader_subjects", "Subjects (Karapace's name)", counts.subjects),
            ("kafka_schema_registry_registered_count", "Versions, soft-deleted ones too", live + deleted),
            ("kafka_schema_registry_deleted_count", "Versions that are soft-deleted", deleted),
            ("kafka_schema_registry_master_slave_role", "1: this process takes writes", 1),
        ):
            yield GaugeMetricFamily(name, what, value)
        versions = GaugeMetricFamily(
            "karapace_schema_reader_subject_data_schema_versions", "Versions by state", labels=("state",)
        )
        versions.add_metric(["live"], live)
        versions.add_metric(["soft_deleted"], deleted)
        yield versions
        for name, by_kind in (("created", counts.live), ("deleted", counts.deleted)):
            family = GaugeMetricFamily(
                f"kafka_schema_registry_schemas_{name}", f"Versions {name}, by schema type", labels=("schema_type",)
            )
            for kind, number in by_kind.items():
                family.add_metric([kind.lower()], number)
            yield family


class RequestMetrics:
    """ASGI middleware: counts and times every request, and logs it if asked to."""

    def __init__(self, app: ASGIApp, metrics: ServiceMetrics, log: bool) -> None:
        self._app, self._metrics, self._log = app, metrics, log

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        status, start = 500, time.perf_counter()

        async def count_response(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
            await send(message)

        self._metrics.in_flight += 1
        try:
            await self._app(scope, receive, count_response)
        finally:
            self._metrics.in_flight -= 1
            seconds = time.perf_counter() - start
            method = scope["method"] if scope["method"] in _METHODS else _NO_ROUTE
            # The path of the route that answered, never the path that was sent: labels must stay few.
            route = str(getattr(scope.get("route"), "path", _NO_ROUTE))
            self._metrics.tally(method, route, status).add(seconds)
            if self._log:
                logs.log_access(scope["method"], scope["path"], status, seconds)


@router.declare("GET")
def metrics(request: Request) -> Response:
    """Everything in Prometheus' text format."""
    service_metrics = request.app.state.metrics
    assert isinstance(service_metrics, ServiceMetrics)
    return Response(generate_latest(service_metrics.collectors), headers={"Content-Type": CONTENT_TYPE_LATEST})


def install(app: FastAPI, registry: Registry, *, access_log: bool) -> None:
    app.state.metrics = ServiceMetrics(registry)
    app.add_middleware(RequestMetrics, metrics=app.state.metrics, log=access_log)
