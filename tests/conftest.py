"""Fixtures for all tests: a real Kafka broker, a real PostgreSQL and a Spark session, each started when a test asks.

Broker and server are one for the whole run, whatever the number of its workers; the session is one for each worker.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
from collections import Counter
from collections.abc import Generator, Iterator
from typing import TYPE_CHECKING, Any

import pytest

from tests.support import class_archive
from tests.support.sharing import Run

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from tests.support.kafka import Broker, Kafka
    from tests.support.postgres import DatabaseServer

_OWN_OPTIONS = "SPARK_SUBMIT_OPTS" not in os.environ
if _OWN_OPTIONS:
    os.environ["SPARK_SUBMIT_OPTS"] = class_archive.java_options()
os.environ.setdefault("SPARK_LAUNCHER_OPTS", class_archive.SHORT_LIVED)

if signal.getsignal(signal.SIGINT) is signal.SIG_IGN and threading.current_thread() is threading.main_thread():
    # A shell starts what runs in its background so; processes that tests send a Ctrl-C to would inherit it.
    signal.signal(signal.SIGINT, signal.default_int_handler)

# Files of few tests that take half a minute to two of CPU, the longest first.
_LONG = (
    "tests/e2e/test_kills.py",
    "tests/e2e/test_evolution.py",
    "tests/spark_jobs/test_merge_history.py",
    "tests/spark_jobs/test_merge.py",
    "tests/e2e/test_streams.py",
    "tests/e2e/test_workers_killed.py",
    "tests/e2e/test_kafka_pipeline.py",
    "tests/spark_jobs/test_spark_decode.py",
    "tests/survival/test_service_survives.py",
    "tests/spark_jobs/test_avro_rows.py",
    "tests/spark_jobs/test_same_as_codec.py",
    "tests/docs/test_commands.py",
    "tests/e2e/test_poison.py",
    "tests/e2e/test_secured_kafka.py",
    "tests/e2e/test_stream_ends.py",
    "tests/spark_jobs/test_session.py",
    "tests/e2e/test_outages.py",
    "tests/service/history/test_broker.py",
    "tests/e2e/test_history_jobs.py",
    "tests/spark_jobs/test_datasource.py",
    "tests/spark_jobs/test_options.py",
    "tests/service/test_go_client.py",
    "tests/e2e/test_submit.py",
    "tests/service/access/test_worlds.py",
)
_MANY = 25  # tests: a file of more is no long one
RUN = pytest.StashKey[Run]()
_QUICK = {
    "spark.sql.shuffle.partitions": "2",
    "spark.default.parallelism": "2",
    "spark.sql.adaptive.enabled": "false",
    "spark.driver.memory": "1g",
    "spark.databricks.delta.snapshotPartitions": "1",
    "spark.databricks.delta.stats.collect": "false",
}


def pytest_configure(config: pytest.Config) -> None:
    """Warnings are errors, but for one: pyspark drops the sockets of its results without closing them.

    Their last reference goes inside the module `socket`, so this filter hides no leak of ours.
    """
    config.addinivalue_line("filterwarnings", "ignore:unclosed <socket:ResourceWarning:socket")
    config.pluginmanager.register(Counting())
    config.stash[RUN] = Run.of(config)
    config.pluginmanager.register(config.stash[RUN])


@pytest.hookimpl(tryfirst=True)
def pytest_runtestloop(session: pytest.Session) -> None:
    """With several workers, and many tests to come: kernels are compiled, and classes archived, once for all."""
    run = os.environ.get("PYTEST_XDIST_TESTRUNUID")
    if run is not None and session.testscollected > 5000:
        from tests.support.warming import warm

        warm(run)
        if _OWN_OPTIONS:
            os.environ["SPARK_SUBMIT_OPTS"] = class_archive.java_options()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Files of many tests, then the long ones, then the rest: no worker is left with a long file at the end.

    The order is for workers that take file by file (`--dist loadfile --no-loadscope-reorder`).
    """
    sizes = Counter(item.location[0] for item in items)
    long = {file: place for place, file in enumerate(_LONG)}

    def place(item: pytest.Item) -> tuple[bool, int, int]:
        file = item.location[0]
        return sizes[file] <= _MANY, long.get(file, len(long)), -sizes[file]

    items.sort(key=place)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """A failed test that uses the broker shows the end of the broker's log."""
    report = yield
    used = getattr(item, "funcargs", {})
    broker = used.get("own_kafka") or used.get("kafka")
    if report.failed and broker is not None:
        report.sections.append(("Kafka broker's log", broker.log[-4000:]))
    return report


@pytest.fixture(scope="session")
def kafka(request: pytest.FixtureRequest) -> Broker:
    """The run's broker: `.bootstrap_servers`, `.create_topic(name, partitions)`, `.topic_name(prefix)`.

    Other tests use it at the same time: whoever stops a broker takes `own_kafka`.
    """
    return request.config.stash[RUN].kafka()


@pytest.fixture
def own_kafka() -> Iterator[Kafka]:
    """A broker of the test's own, to be stopped and started."""
    from tests.support.kafka import Kafka

    with Kafka() as broker:
        yield broker


@pytest.fixture(scope="session")
def postgres(request: pytest.FixtureRequest) -> DatabaseServer:
    """The run's server; `.database()` makes a database and gives its URL. Tests that stop a server start their own."""
    from tests.support.postgres import PostgresMissing

    try:
        return request.config.stash[RUN].postgres()
    except PostgresMissing as missing:
        pytest.skip(str(missing))


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    """A local session on two cores with the Avro, Kafka and Delta jars."""
    from spark_jobs.lake import delta_config
    from spark_jobs.session import spark_session

    session = spark_session("tests", master="local[2]", config={**_QUICK, **delta_config()})
    yield session
    session.stop()


class Counting:
    """With several workers, each tells at its end how many damaged messages it ran, and the sum is shown."""

    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        fuzz = sys.modules.get("tests.support.fuzz")
        output = getattr(session.config, "workeroutput", None)
        if output is not None and fuzz is not None:
            output["damaged"] = dict(fuzz.RAN)

    @pytest.hookimpl(optionalhook=True)
    def pytest_testnodedown(self, node: Any) -> None:
        from tests.support import fuzz

        fuzz.RAN.update(getattr(node, "workeroutput", {}).get("damaged", {}))


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """How many damaged messages ran, where any did."""
    fuzz = sys.modules.get("tests.support.fuzz")
    ran = sorted(fuzz.RAN.items()) if fuzz else []
    if ran:
        terminalreporter.section("damaged messages")
        for name, count in ran:
            terminalreporter.line(f"{count:>12,}  {name}")
        terminalreporter.line(f"{sum(count for _, count in ran):>12,}  in all")
