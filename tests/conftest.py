"""Fixtures for all tests: a real Kafka broker, a real PostgreSQL and a Spark session, each started when a test asks.

Broker and server are one for the whole run, whatever the number of its workers; the session is one for each worker.
"""

from __future__ import annotations

import gc
import os
import signal
import sys
import threading
from collections.abc import Generator, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.support import class_archive
from tests.support.costs import Measuring
from tests.support.order import SlowUntil, SparkTogether, longest_first
from tests.support.sharing import Run
from tests.support.spark_settings import INTERPRETED, QUICK, SHORT_LIVED

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from xdist.remote import Producer

    from tests.support.kafka import Broker, Kafka
    from tests.support.postgres import DatabaseServer

_OWN_OPTIONS = "SPARK_SUBMIT_OPTS" not in os.environ
if _OWN_OPTIONS:
    os.environ["SPARK_SUBMIT_OPTS"] = class_archive.java_options()
os.environ.setdefault("SPARK_LAUNCHER_OPTS", SHORT_LIVED)

if signal.getsignal(signal.SIGINT) is signal.SIG_IGN and threading.current_thread() is threading.main_thread():
    # A shell starts what runs in its background so; processes that tests send a Ctrl-C to would inherit it.
    signal.signal(signal.SIGINT, signal.default_int_handler)

_MANY = 5  # files with Spark, from which on it is worth it to warm up together
_MANY_HELD = 2_000
"""Objects of the JVM that Python has; a session and what imports make are some hundred."""
RUN = pytest.StashKey[Run]()


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("ticdc-bridge")
    group.addoption("--costs", metavar="FILE", type=Path, help="write what each test file costs into this table")
    text = "only slow tests, today's first, as many as are done by then (seconds since 1970)"
    group.addoption("--slow-until", metavar="TIME", type=float, help=text)


@pytest.hookimpl(tryfirst=True)
def pytest_configure(config: pytest.Config) -> None:
    """Warnings are errors, but for one: pyspark drops the sockets of its results without closing them.

    Their last reference goes inside the module `socket`, so this filter hides no leak of ours.
    """
    config.addinivalue_line("filterwarnings", "ignore:unclosed <socket:ResourceWarning:socket")
    if config.getoption("--hypothesis-profile", None) == "quick":
        from hypothesis import settings

        settings.register_profile("quick", max_examples=25, deadline=None)
    config.pluginmanager.register(Counting())
    config.stash[RUN] = Run.of(config)
    config.pluginmanager.register(config.stash[RUN])
    if (table := config.getoption("--costs")) is not None:
        config.pluginmanager.register(Measuring(table))
    if (end := config.getoption("--slow-until")) is not None:
        config.pluginmanager.register(SlowUntil(end, worker=hasattr(config, "workerinput")))


@pytest.hookimpl(tryfirst=True)
def pytest_runtestloop(session: pytest.Session) -> None:
    """With several workers, and many files with Spark to come: kernels and classes are made ready once for all."""
    run = os.environ.get("PYTEST_XDIST_TESTRUNUID")
    with_spark = {item.location[0] for item in session.items if "spark" in getattr(item, "fixturenames", ())}
    if run is not None and len(with_spark) > _MANY:
        from tests.support.warm_up import warm

        warm(run)
        if _OWN_OPTIONS:
            os.environ["SPARK_SUBMIT_OPTS"] = class_archive.java_options()


def pytest_xdist_make_scheduler(config: pytest.Config, log: Producer) -> SparkTogether:
    return SparkTogether(config, log)


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if config.getoption("--slow-until") is None:
        longest_first(items)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """A failed test that uses the broker shows the end of the broker's log.

    One that ran into its limit of time may have been waiting for the JVM, whose answer would be taken for the next
    question's: the next test has a new connection.
    """
    report = yield
    pyspark = sys.modules.get("pyspark")
    gateway: Any = pyspark and pyspark.SparkContext._gateway
    if report.failed and gateway is not None:
        connection = gateway._gateway_client.get_thread_connection()
        if connection is not None:
            connection.close()
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
def spark(request: pytest.FixtureRequest) -> Iterator[SparkSession]:
    """A local session on two cores with the jars for Avro, Kafka and tables of the lake.

    Quick runs interpret expressions; runs of all tests compile them, as jobs do.
    """
    from ticdc_bridge.spark_jobs.lake.tables import lake_config
    from ticdc_bridge.spark_jobs.runtime.jars import jars
    from ticdc_bridge.spark_jobs.spark.session import spark_session

    lake = lake_config(("delta", "iceberg"))
    quick = request.config.getoption("--hypothesis-profile", None) == "quick"
    if not quick:
        lake["spark.jars"] += "," + ",".join(map(str, jars("sqlite")))
    expressions = INTERPRETED if quick else {}
    session = spark_session("tests", master="local[2]", config={**QUICK, **expressions, **lake})
    yield session
    session.stop()


@pytest.hookimpl(trylast=True)
def pytest_collection_finish() -> None:
    """What is there stays: nobody looks through it for garbage."""
    gc.collect()
    gc.freeze()


@pytest.hookimpl(trylast=True)
def pytest_runtest_teardown() -> None:
    """Frames and streams that only cycles of Python's hold would stay in the JVM, until its heap is full of them."""
    py4j = sys.modules.get("py4j.finalizer")
    if py4j is not None and len(py4j.ThreadSafeFinalizer.finalizers) > _MANY_HELD:
        gc.collect()


@pytest.fixture(autouse=True)
def _active_session(request: pytest.FixtureRequest) -> Iterator[None]:
    """The session of `spark` is the active one, which jobs take; a test may have left another one there."""
    spark = request.getfixturevalue("spark") if "spark" in request.fixturenames else None
    if spark is not None:
        spark.createDataFrame([], "a int")  # pyspark makes its session active, in both VMs
    yield
    if spark is not None and request.node.get_closest_marker("slow"):  # Delta keeps plans of each table for an hour
        spark._jvm.org.apache.spark.sql.delta.DeltaLog.clearCache()


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
