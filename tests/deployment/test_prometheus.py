"""The examples for Prometheus and Grafana, against what `/metrics` and the jobs really expose."""

import json
import re
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml
from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.parser import text_string_to_metric_families

from tests.support.service import ROOT, Client
from tests.support.table import check_rows
from ticdc_bridge.service.store import open_store
from ticdc_bridge.service.store.history_store import HistoryStore
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
_GROUPS = re.compile(r"\b(?:by|on|without|ignoring) \(([\w, ]*)\)")
_WORDS = frozenset("sum min max avg count and or unless offset bool rate increase histogram_quantile time".split())
_TARGET = frozenset(("job", "instance"))  # labels that Prometheus itself gives to each series it scrapes
Labels = frozenset[str]
Series = Mapping[str, Labels]


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
    entry = Counter({"x": 1})
    progress = Progress("shop", 1, events=entry, errors=entry, skipped=entry, lag={("topic", 0): 1})
    trackers.register(TrackerMetrics(HistoryStore(opened), lambda: [(progress, 1.0)]))
    texts += [generate_latest(trackers).decode(), jobs_text(folder / "jobs.prom")]
    opened.close()
    found: dict[str, set[str]] = {"up": set()}  # Prometheus' own
    for family in (family for text in texts for family in text_string_to_metric_families(text)):
        for sample in family.samples:
            found.setdefault(sample.name, set()).update(sample.labels)
    return {name: frozenset(labels) for name, labels in found.items()}


def jobs_text(path: Path) -> str:
    entry = Counter({"x": 1})
    used = Counter[Used]({("topic", "shop", "t", None, None): 1})
    merges, aside = {"shop.t": TableMerge(1.0, 1)}, {"shop.u": (1, "why")}
    summary = Summary(
        1, rows=entry, errors=entry, skipped=entry, flags=entry, used=used, merges=merges, set_aside=aside
    )
    metrics = JobMetrics(str(path), "orders")
    metrics.show("reconciled_rows", 1, "shop.t")
    metrics.show("reconciled_seconds", 1, "shop.t")
    metrics.show("differences", 1, "shop.t", "missing")
    metrics.update(summary, 1.0, {"topic": 1})
    return path.read_text(encoding="utf-8")


def rules() -> Iterator[dict[str, Any]]:
    for group in GROUPS:
        yield from group["rules"]


def targets() -> Iterator[tuple[str, dict[str, Any]]]:
    for panel in DASHBOARD["panels"]:
        for target in panel.get("targets", ()):
            yield panel["title"], target


def labels_of(expression: str, series: Series) -> Labels:
    """The labels of the result; what the expression names has to be exposed."""
    text = re.sub(r'"(?:\\.|[^"\\])*"|\[[^]]*\]', "", expression)
    names = {*re.findall(r"\b[a-z]\w*", re.sub(r"\{[^}]*\}", "", _GROUPS.sub("", text)))} - _WORDS
    assert names <= series.keys(), "nothing exposes it"
    labels = _TARGET.union(*(series[name] for name in names))
    asked = ",".join((*_GROUPS.findall(text), *re.findall(r"\{([^}]*)\}", text)))
    assert {*re.findall(r"\w+", asked)} <= labels, expression
    first = re.search(r"\bby \(([\w, ]*)\)", text)
    return (frozenset(re.findall(r"\w+", first[1])) if first else labels) - {"le"}


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


def test_the_first_error_is_reported() -> None:
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
    positions = [(panel["gridPos"]["x"], panel["gridPos"]["y"]) for panel in panels]
    assert len(set(positions)) == len(positions)
    variables = {entry["name"] for entry in DASHBOARD["templating"]["list"]} | {"__rate_interval", "__range"}
    assert set(re.findall(r"\$\{?(\w+)", json.dumps(panels))) <= variables


def test_no_series_has_a_label_of_prometheus_itself(series: Series) -> None:
    """Prometheus would rename it `exported_…`, and each query by it would miss."""
    assert {name: labels & _TARGET for name, labels in series.items() if labels & _TARGET} == {}


def test_the_configuration_scrapes_what_rules_and_panels_name() -> None:
    assert CONFIG["rule_files"] == ["alerts.yml"]
    jobs = {scrape["job_name"]: scrape for scrape in CONFIG["scrape_configs"]}
    expressions = [rule["expr"] for rule in rules()] + [target["expr"] for _, target in targets()]
    assert set(re.findall(r'\bjob="([^"]+)"', " ".join(expressions))) <= jobs.keys()
    for scrape in jobs.values():
        assert scrape.keys() <= {"job_name", "static_configs", "metrics_path", "scheme", "basic_auth"}
        assert all(
            re.fullmatch(r"[\w.]+:\d+", target) for config in scrape["static_configs"] for target in config["targets"]
        )
    assert all(_DURATION.fullmatch(time) for time in CONFIG["global"].values())
