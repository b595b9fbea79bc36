"""`--metrics FILE|:PORT`: a job's counts in Prometheus' text form, written to a file or served on a port."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from schemas.model.errors import SetupError
from schemas.model.reasons import reason_of
from spark_jobs.pipeline.result import Summary

if TYPE_CHECKING:
    from prometheus_client import CollectorRegistry


class JobMetrics:
    """Counters of one job. `update` takes the counts of a run, or of a micro-batch; `publish` shows them.

    lag is in messages (Kafka's newest offset less the last read), rate in messages a second.
    """

    def __init__(self, place: str | None, job: str) -> None:
        """SetupError USAGE where the port can't be had, or the file's folder is not there."""
        if place is not None and not place.startswith(":"):
            check(place)
        self._place, self._job = place, job
        self._gauges: dict[str, Any] = {}
        self._registry: CollectorRegistry | None = None
        if place is None:
            return
        from prometheus_client import CollectorRegistry, Counter, Gauge, start_http_server

        self._registry = registry = CollectorRegistry()
        for name, text, more in _COUNTERS:
            self._gauges[name] = Counter(f"bridge_job_{name}", text, ["job", *more], registry=registry)
        for name, text in _GAUGES:
            self._gauges[name] = Gauge(f"bridge_job_{name}", text, ["job"], registry=registry)
        if place.startswith(":"):
            if not place[1:].isdigit():
                raise SetupError("USAGE", details=f"--metrics {place}: a file or :PORT is needed")
            try:
                start_http_server(int(place[1:]), "127.0.0.1", registry)
            except (OSError, OverflowError) as error:
                raise SetupError("USAGE", details=f"--metrics {place}: {reason_of(error)}") from error

    def update(self, summary: Summary, **gauges: float) -> None:
        """Adds the counts of `summary`; gauges: lag, rate."""
        if self._registry is None:
            return
        add = self._gauges
        add["messages_in"].labels(self._job).inc(summary.messages)
        add["messages_out"].labels(self._job).inc(summary.out)
        add["dropped"].labels(self._job).inc(summary.dropped)
        for name, counts in (
            ("rows", summary.rows), ("failed", summary.errors), ("skipped", summary.skipped), ("flags", summary.flags)
        ):  # fmt: skip
            for key, count in counts.items():
                add[name].labels(self._job, key).inc(count)
        for name, value in {"held": float(summary.held), **gauges}.items():
            add[name].labels(self._job).set(value)
        self._publish()

    def _publish(self) -> None:
        if self._place and self._registry and not self._place.startswith(":"):
            from prometheus_client import write_to_textfile

            try:
                write_to_textfile(str(Path(self._place)), self._registry)
            except OSError as error:
                raise SetupError("USAGE", details=f"--metrics {self._place}: {error.strerror or error}") from error


_COUNTERS: tuple[tuple[str, str, list[str]], ...] = (
    ("messages_in", "Messages read.", []),
    ("messages_out", "Messages or lines written.", []),
    ("dropped", "Messages left out as --on-error drop says.", []),
    ("rows", "Row changes read, by operation.", ["op"]),
    ("failed", "Messages that failed, by reason.", ["reason"]),
    ("skipped", "Events left out on purpose, by kind.", ["kind"]),
    ("flags", "Flags of row changes.", ["flag"]),
)
_GAUGES = (
    ("held", "Rows held back until the watermark covers them."),
    ("lag", "Messages in the topic that were not read yet."),
    ("rate", "Messages a second in the last micro-batch."),
)


def check(place: str | None) -> None:
    """SetupError USAGE for a place that a run that ends can't write: a port would end with it."""
    if place is not None and place.startswith(":"):
        raise SetupError("USAGE", details="--metrics :PORT goes with --stream; a run that ends writes a file")
    if place is not None and (Path(place).is_dir() or not Path(place).absolute().parent.is_dir()):
        raise SetupError("USAGE", details=f"--metrics {place}: it is a folder, or in a folder that is not there")


def write(place: str | None, job: str, summary: Summary) -> None:
    """The counts of a run that ended, to a file."""
    JobMetrics(place, job).update(summary)
