"""`--metrics FILE|:PORT`: a job's counts in Prometheus' text form, by `pipeline`, its name (docs/decisions/0037)."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from ticdc_bridge.schemas.model.errors import SetupError
from ticdc_bridge.schemas.model.event import tso_physical_ms
from ticdc_bridge.schemas.model.reasons import reason_of
from ticdc_bridge.spark_jobs.pipeline.result import Summary

if TYPE_CHECKING:
    from prometheus_client import CollectorRegistry

LOOPBACK, _LAST_PORT = "127.0.0.1", 65535
PIPELINE, TABLE, TOPIC = "pipeline", "table", "topic"
_NO_LAG: Mapping[str, int] = MappingProxyType({})


class JobMetrics:
    """Counters of one job; `update` takes a run's or a micro-batch's. destination: a file, :PORT of `host`, or None."""

    def __init__(self, destination: str | None, pipeline: str, host: str = LOOPBACK) -> None:
        """SetupError USAGE where the port can't be had, or the file's folder is not there."""
        if destination is not None and not destination.startswith(":"):
            check(destination)
        self._destination, self._pipeline = destination, pipeline
        self._series: dict[str, Any] = {}
        self._registry: CollectorRegistry | None = None
        if destination is None:
            return
        from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, start_http_server

        self._registry = registry = CollectorRegistry()
        for kind, rows in ((Counter, COUNTERS), (Gauge, GAUGES), (partial(Histogram, buckets=_SECONDS), TIMES)):
            for name, text, more in rows:
                self._series[name] = kind(f"bridge_job_{name}", text, [PIPELINE, *more], registry=registry)
        if destination.startswith(":"):
            if not destination[1:].isdigit() or int(destination[1:]) > _LAST_PORT:
                raise SetupError("USAGE", details=f"--metrics {destination}: a file or :PORT (0 to 65535) is needed")
            try:
                start_http_server(int(destination[1:]), host, registry)
            except OSError as error:
                where = destination if host == LOOPBACK else f"{destination} --metrics-host {host}"
                details = f"--metrics {where}: {reason_of(error)}: give another port"
                raise SetupError("USAGE", details=details) from error

    def update(self, summary: Summary, rate: float | None = None, lag: Mapping[str, int] = _NO_LAG) -> None:
        """Adds counts. rate: messages a second. lag: by topic, messages from the last one read to the newest."""
        if self._registry is None:
            return
        single = {"messages_in": summary.messages, "messages_out": summary.out, "dropped": summary.dropped}
        counters = {"rows": summary.rows, "failed": summary.errors, "skipped": summary.skipped, "flags": summary.flags}
        for name, count in single.items():
            self._of(name).inc(count)
        for name, counts in counters.items():
            for key, count in counts.items():
                self._of(name, key).inc(count)
        for (_, db, table, *_), count in summary.used.items():
            self._of("table_rows", f"{db}.{table}").inc(count)
        for (table, why), count in summary.ways.items():
            self._of("table_batches", table, "spark" if why else "direct").inc(count)
        for table, merge in summary.merges.items():
            self._of("table_merge_seconds", table).observe(merge.seconds)
            if merge.newest_ts is not None:
                self._of("table_commit_seconds", table).set(tso_physical_ms(merge.newest_ts) / 1000)
        self._series["table_set_aside"].clear()
        for table, (rows, reason) in summary.set_aside.items():
            self._of("table_set_aside", table, reason).set(rows)
        self._of("held").set(summary.held)
        if rate is not None:
            self._of("rate").set(rate)
        for topic, messages in lag.items():
            self._of("lag", topic).set(messages)
        if self._destination and not self._destination.startswith(":"):
            from prometheus_client import write_to_textfile

            try:
                write_to_textfile(str(Path(self._destination)), self._registry)
            except OSError as error:
                details = f"--metrics {self._destination}: {error.strerror or error}"
                raise SetupError("USAGE", details=details) from error

    def show(self, name: str, value: float, *labels: str) -> None:
        """Sets one of GAUGES, for the next `update` to show."""
        if self._registry is not None:
            self._of(name, *labels).set(value)

    def _of(self, name: str, *labels: str) -> Any:
        return self._series[name].labels(self._pipeline, *labels)


_Series = tuple[tuple[str, str, list[str]], ...]
COUNTERS: _Series = (
    ("messages_in", "Messages read.", []),
    ("messages_out", "Messages or lines written.", []),
    ("dropped", "Messages left out as --on-error drop says.", []),
    ("rows", "Row changes read, by operation.", ["op"]),
    ("table_rows", "Row changes read, by table.", [TABLE]),
    ("table_batches", "Batches of tables with deletion vectors: direct, or by Spark's MERGE.", [TABLE, "way"]),
    ("failed", "Messages that failed, by reason.", ["reason"]),
    ("skipped", "Events left out on purpose, by kind.", ["kind"]),
    ("flags", "Flags of row changes.", ["flag"]),
)
GAUGES: _Series = (
    ("held", "Rows held back until the watermark covers them.", []),
    ("lag", "Messages in the topic that were not read yet.", [TOPIC]),
    ("rate", "Messages a second in the last micro-batch.", []),
    ("table_set_aside", "Changes that wait of a table that can't go on while the others do.", [TABLE, "reason"]),
    ("table_commit_seconds", "When TiDB committed the newest change merged, in seconds since 1970.", [TABLE]),
    ("reconciled_rows", "Rows that reconcile found equal to TiDB's the last time.", [TABLE]),
    ("reconciled_seconds", "As of when reconcile compared the last time, in seconds since 1970.", [TABLE]),
    ("differences", "Rows that are not as TiDB's, found by reconcile the last time, by kind.", [TABLE, "kind"]),
)
TIMES: _Series = (("table_merge_seconds", "How long merging a batch's changes into a table took.", [TABLE]),)
_SECONDS = (0.5, 1, 2.5, 5, 10, 30, 60, 120, 300, 600)


def check(destination: str | None) -> None:
    """SetupError USAGE for a place that a run that ends can't write: a port would end with it."""
    if destination is not None and destination.startswith(":"):
        raise SetupError("USAGE", details="--metrics :PORT goes with --stream or --every: give a file")
    if destination is not None and (Path(destination).is_dir() or not Path(destination).absolute().parent.is_dir()):
        raise SetupError("USAGE", details=f"--metrics {destination}: it is a folder, or in a folder that is not there")
