"""The examples for Prometheus and Grafana, against what `/metrics` and the jobs really expose."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.parser import text_string_to_metric_families

from tests.support.promql import TARGET, Labels, Series, labels_of
from tests.support.service import ROOT, Client
from tests.support.table import check_rows
from ticdc_bridge.service.store import open_store
from ticdc_bridge.service.store.history_reader import HistoryStore
from ticdc_bridge.service.testing import running_service
from ticdc_bridge.service.tracker.metrics import TrackerMetrics
from ticdc_bridge.service.tracker.progress import Progress
from ticdc_bridge.spark_jobs.pipeline.result import Summary, TableMerge, Used
from ticdc_bridge.spark_jobs.streaming.metrics import JobMetrics

PROMETHEUS = ROOT / "examples" / "prometheus"
DASHBOARD = json.loads((ROOT / "examples" / "grafana" / "ticdc-bridge.json").read_text(encoding="utf-8"))
CONFIG: dict[str, Any] = yaml.safe_load((PROMETHEUS / "prometheus.yml").read_text(encoding="utf-8"))
GROUPS = yaml.safe_load((PROMETHEUS / "alerts.yml").read_text(encoding="utf-8"))["groups"]
_OF_RULES = re.compile(r"\{\{[^}]*\$labels\.(\w+)[^}]*\}\}")
_OF_LEGENDS = re.compile(r"\{\{\s*(\w+)\s*\}\}")
_FROM_ZERO = "schema_registry_registrations_total"  # exposed before anything fails
_DURATION = re.compile(r"\d+(ms|[smhdwy])")


@pytest.fixture(scope="module")
def series(tmp_path_factory: pytest.TempPathFactory) -> Series:
    """Each series that is exposed, with its labels."""
    folder = tmp_path_factory.mktemp("metrics")
    store = f"sqlite:///{folder / 'registry.db'}"
    with running_service(store) as url:
        client = Client(url)
        client.register("s", '"int"')
        table = {"changefeed": "shop", "commit_ts": 1, "db": "shop", "query": "create table t (id int primary key)"}
        assert client.send("POST", "/history/snapshot", table).status == 200
        texts = [client.get("/metrics").body.decode()]
    opened, trackers = open_store(store), CollectorRegistry()
    one = Counter({"x": 1})
    progress = Progress("shop", 1, events=one, errors=one, skipped=one, lag={("topic", 0): 1})
    trackers.register(TrackerMetrics(HistoryStore(opened), lambda: [(progress, 1.0)]))
    texts += [generate_latest(trackers).decode(), jobs_text(folder / "jobs.prom")]
    opened.close()
    found: dict[str, set[str]] = {"up": set()}  # Prometheus' own
    for family in (family for text in texts for family in text_string_to_metric_families(text)):
        for sample in family.samples:
            found.setdefault(sample.name, set()).update(sample.labels)
    return {name: frozenset(labels) for name, labels in found.items()}


def jobs_text(place: Path) -> str:
    one = Counter({"x": 1})
    used = Counter[Used]({("topic", "shop", "t", None, None): 1})
    summary = Summary(1, rows=one, errors=one, skipped=one, flags=one, used=used, merges={"shop.t": TableMerge(1.0, 1)})
    JobMetrics(str(place), "orders").update(summary, 1.0, {"topic": 1})
    return place.read_text(encoding="utf-8")


def rules() -> Iterator[dict[str, Any]]:
    for group in GROUPS:
        yield from group["rules"]


def targets() -> Iterator[tuple[str, dict[str, Any]]]:
    for panel in DASHBOARD["panels"]:
        for target in panel.get("targets", ()):
            yield panel["title"], target


def check_labels(text: str, pattern: re.Pattern[str], labels: Labels) -> None:
    assert set(pattern.findall(text)) <= labels, text


def test_alerts_can_fire(series: Series) -> None:
    """Their expressions ask for series and labels that there are, and their texts name labels of the result."""

    def check(rule: dict[str, Any]) -> None:
        assert {"alert", "expr", "labels", "annotations"} <= rule.keys() <= {*rule.keys(), "for"}
        assert _DURATION.fullmatch(rule.get("for", "0s"))
        labels = labels_of(rule["expr"], series)
        for text in rule["annotations"].values():
            check_labels(text, _OF_RULES, labels)
        assert rule["labels"]["severity"] in ("warning", "critical")

    check_rows(rules(), check, lambda rule: rule["alert"])
    names = Counter(rule["alert"] for rule in rules())
    assert set(names.values()) == {1}
    assert {"ChangefeedAtRisk", "TableDrift", "JobLag", "DeadLetters"} <= names.keys()


def test_the_first_error_is_told() -> None:
    """A counter by reason begins with its first error: increase() and rate() see no growth there."""

    def check(rule: dict[str, Any]) -> None:
        for name in re.findall(r"(?:increase|rate)\((\w+_total)", rule["expr"]):
            assert name == _FROM_ZERO or re.search(rf"\({name}\S* unless {name}\S* offset ", rule["expr"])

    check_rows(rules(), check, lambda rule: rule["alert"])


def test_panels_show_something(series: Series) -> None:
    def check(row: tuple[str, dict[str, Any]]) -> None:
        labels = labels_of(row[1]["expr"], series)
        check_labels(row[1]["legendFormat"], _OF_LEGENDS, labels)

    check_rows(targets(), check, lambda row: row[0])
    panels = DASHBOARD["panels"]
    assert len({panel["id"] for panel in panels}) == len(panels)
    places = [(panel["gridPos"]["x"], panel["gridPos"]["y"]) for panel in panels]
    assert len(set(places)) == len(places)
    variables = {one["name"] for one in DASHBOARD["templating"]["list"]} | {"__rate_interval", "__range"}
    assert set(re.findall(r"\$\{?(\w+)", json.dumps(panels))) <= variables


def test_no_series_has_a_label_of_prometheus_itself(series: Series) -> None:
    """Prometheus would rename it `exported_…`, and each query by it would miss."""
    assert {name: labels & TARGET for name, labels in series.items() if labels & TARGET} == {}


def test_the_configuration_scrapes_what_rules_and_panels_name() -> None:
    assert CONFIG["rule_files"] == ["alerts.yml"]
    jobs = {scrape["job_name"]: scrape for scrape in CONFIG["scrape_configs"]}
    expressions = [rule["expr"] for rule in rules()] + [target["expr"] for _, target in targets()]
    assert set(re.findall(r'\bjob="([^"]+)"', " ".join(expressions))) <= jobs.keys()
    for scrape in jobs.values():
        assert scrape.keys() <= {"job_name", "static_configs", "metrics_path", "scheme", "basic_auth"}
        assert all(re.fullmatch(r"[\w.]+:\d+", target) for one in scrape["static_configs"] for target in one["targets"])
    assert all(_DURATION.fullmatch(time) for time in CONFIG["global"].values())


_GOOD = (
    ('sum by (a) (rate(x_total{b="1"}[5m])) / 2', "a"),
    ("sum(x_total) without (a)", "b instance job"),
    ("histogram_quantile(0.9, sum by (le) (rate(t_bucket[$__rate_interval])))", ""),
    ("time() - max by (a) (x_total) > 5 and on (a) x_total", "a b instance job"),
    ("x_total offset 5m == bool 0", "a b instance job"),
)
_BAD = (
    "y", 'x_total{c="1"}', "sum by (c) (x_total)", "rate(x_total)", "sum(x_total[5m])", "x_total > ", "x_total[5m]",
    "x_total x_total", "sum by (a) (x_total", "histogram_quantile(0.9, rate(x_total[5m]))", 'x_total{a=~"("}',
    "x_total{a=b}",
)  # fmt: skip


def test_expressions_are_read_as_prometheus_reads_them() -> None:
    known = {"x_total": frozenset("ab"), "t_bucket": frozenset(("le",))}

    def check_good(row: tuple[str, str]) -> None:
        assert " ".join(sorted(labels_of(row[0], known))) == row[1]

    def check_bad(expression: str) -> None:
        with pytest.raises((ValueError, re.error)):
            labels_of(expression, known)

    check_rows(_GOOD, check_good)
    check_rows(_BAD, check_bad)
