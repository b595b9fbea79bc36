"""What trackers and histories tell Prometheus."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from ticdc_bridge.schemas.model.event import tso_physical_ms
from ticdc_bridge.service.registry.deadline import Outage
from ticdc_bridge.service.store.history_store import HistoryStore
from ticdc_bridge.service.tracker.progress import Progress

if TYPE_CHECKING:
    # With all formats, which a registry alone does not need.
    from ticdc_bridge.service.tracker.config import TrackedChangefeed

_COUNTED = (
    ("new", "DDL events and snapshots that were not known"), ("copies", "Copies of known events"),
    ("sealed", "Events sealed"), ("failed", "Events sealed that were not understood"),
    ("late", "Events sealed behind later ones"), ("drift", "Contradictions seen"),
)  # fmt: skip

Reports = list[tuple[Progress, float | None]]
"""What each tracker has done, and by how many seconds what is sealed lies behind."""


def tracker_forms(changefeeds: Iterable[TrackedChangefeed], reports: Reports) -> list[dict[str, Any]]:
    """What the service follows, as JSON. running is null until its tracker has begun."""
    by_name = {progress.changefeed: (progress, seconds) for progress, seconds in reports}
    forms = []
    for feed in changefeeds:
        progress, seconds = by_name.get(feed.name, (Progress(feed.name), None))
        forms.append(
            {
                "changefeed": feed.name, "topics": list(feed.topics), "file": str(feed.file) if feed.file else None,
                "format": feed.format, "running": not progress.stopped if feed.name in by_name else None,
                "stopped": progress.stopped or None, "behind_seconds": seconds, "lag": progress.lag_by_topic(),
                "messages": progress.messages, "errors": dict(progress.errors), "skipped": dict(progress.skipped),
            }
        )  # fmt: skip
    return forms


class TrackerMetrics(Collector):
    """Per changefeed: what its tracker in this service has done, and what its history holds."""

    def __init__(self, history: HistoryStore, reports: Callable[[], Reports]) -> None:
        self._history, self._reports = history, reports

    def collect(self) -> Iterator[Metric]:
        yield from self._of_trackers()
        with suppress(Outage):  # `bridge_store_up` says that the store is away
            yield from self._of_histories()

    def _of_histories(self) -> list[Metric]:
        events = GaugeMetricFamily("bridge_history_events", "Events by state", labels=("changefeed", "state"))
        drift = GaugeMetricFamily("bridge_history_drift", "Different contradictions", labels=("changefeed",))
        text = "Time up to which the DDL is complete, Unix seconds"
        sealed = GaugeMetricFamily("bridge_history_sealed_seconds", text, labels=("changefeed",))
        for name, numbers in self._history.numbers().items():
            for state in ("sealed", "pending", "failed"):
                events.add_metric([name, state], numbers.get(state, 0))
            drift.add_metric([name], numbers.get("drift", 0))
        for followed in self._history.changefeeds():
            sealed.add_metric([followed.name], tso_physical_ms(followed.sealed_ts) / 1000)
        return [events, drift, sealed]

    def _of_trackers(self) -> Iterator[Metric]:
        def counter(name: str, text: str, *labels: str) -> CounterMetricFamily:
            return CounterMetricFamily(f"bridge_tracker_{name}", text, labels=("changefeed", *labels))

        def gauge(name: str, text: str, *labels: str) -> GaugeMetricFamily:
            return GaugeMetricFamily(f"bridge_tracker_{name}", text, labels=("changefeed", *labels))

        messages = counter("messages", "Messages read")
        events = counter("events", "Events read, by kind", "kind")
        errors = counter("errors", "Messages that can't be read, by code", "code")
        skipped = counter("skipped", "Events of no use, by reason", "reason")
        lag = gauge("lag_messages", "Messages not read yet", "topic")
        behind = gauge("behind_seconds", "How far what is sealed lies behind the clock")
        running = gauge("running", "1: it follows")
        numbers = {field: counter(field, text) for field, text in _COUNTED}
        for progress, seconds in self._reports():
            name = progress.changefeed
            messages.add_metric([name], progress.messages)
            for family, counts in ((events, progress.events), (errors, progress.errors), (skipped, progress.skipped)):
                for key, count in sorted(counts.items()):
                    family.add_metric([name, key], count)
            for topic, count in progress.lag_by_topic().items():
                lag.add_metric([name, topic], count)
            if seconds is not None:
                behind.add_metric([name], seconds)
            running.add_metric([name], 0 if progress.stopped else 1)
            for field, family in numbers.items():
                family.add_metric([name], getattr(progress, field))
        yield from (messages, events, errors, skipped, lag, behind, running, *numbers.values())
