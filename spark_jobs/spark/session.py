"""One way to get a Spark session: on the Java that fits, with the pinned jars, quiet, and the same everywhere.

Three cases. A session is active (a notebook, a test): it is used, with the settings that can change at run time.
Under spark-submit: the JVM and its jars are the user's, the same settings are added. Else a JVM is started here.
"""

from __future__ import annotations

import atexit
import logging
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from socketserver import BaseServer
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, cast

from ticdc_bridge.schemas.model.errors import SetupError
from ticdc_bridge.spark_jobs.pipeline.arguments import with_parameter_names
from ticdc_bridge.spark_jobs.pipeline.progress import report_slow_steps
from ticdc_bridge.spark_jobs.runtime.jars import jars
from ticdc_bridge.spark_jobs.runtime.java import spark_java_home
from ticdc_bridge.spark_jobs.runtime.spark_settings import PACKAGES, SparkSettings, join_lists
from ticdc_bridge.spark_jobs.runtime.spark_version import check_spark_version
from ticdc_bridge.spark_jobs.runtime.user_name import variables_for_nameless_user

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

# What our jobs rely on; can be set on a running session.
RUNTIME: Mapping[str, str] = {
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.caseSensitive": "true",
    "spark.sql.execution.arrow.pyspark.enabled": "true",
    "spark.sql.execution.arrow.pyspark.fallback.enabled": "false",
    "spark.sql.execution.arrow.maxRecordsPerBatch": "10000",
}
# For a JVM that we start ourselves.
_START: Mapping[str, str] = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.sql.catalogImplementation": "in-memory",
    # A merged batch has about 150 pieces of code of Spark's; of the 100 that Spark keeps, none would be there when the
    # next batch asks for it, and all be compiled again.
    "spark.sql.codegen.cache.maxEntries": "1000",
}
_LOCAL: Mapping[str, str] = {
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.python.daemon.module": "ticdc_bridge.spark_jobs.spark.worker_daemon",
}
_LONGEST_SOCKET = 103  # bytes in a socket's name, on the system that allows least
_NO_CONFIG: Mapping[str, str] = {}
_JVM_OPTIONS = "spark.driver.extraJavaOptions"
_EXECUTOR_OPTIONS = "spark.executor.extraJavaOptions"
# HotSpot compiles no method beyond 8,000 bytes of bytecode unless told to, and what Spark makes of a stage that builds
# our rows may have more. Where HotSpot was not told, Spark shall evaluate such a stage's expressions one by one.
_HUGE, _LIMIT = "-XX:-DontCompileHugeMethods", "spark.sql.codegen.hugeMethodLimit"
# Rows are many small objects that live for one row. The collector for throughput takes a tenth less of a task's CPU for
# them than G1, whose pauses are shorter (docs/decisions). A JVM that is told of two collectors does not start.
_COLLECTOR, _CHOSEN = "-XX:+UseParallelGC", re.compile(r"-XX:\+Use\w+GC\b")
_JAVA_READS = ("JAVA_TOOL_OPTIONS", "JDK_JAVA_OPTIONS", "_JAVA_OPTIONS", "SPARK_SUBMIT_OPTS")

# Spark's own profile prints WARN and a banner to stderr; failures reach the user as exceptions anyway.
# The gateway's logger has the root's level, or Spark announces on stderr that it sets its own.
# Delta logs an error for each filter on its own deletion-vector column, which Parquet can not push down. On a machine
# that is busy Spark's start is slow, and an executor that registers too early is logged as an error that is ignored.
# After Ctrl-C the scheduler logs an error for each task that ends, as Python takes no accumulators any more. What tasks
# or a MERGE raise comes to us as an exception, and would be logged with its stack.
_LOG4J = """\
status = off
rootLogger.level = {level}
logger.gateway.name = org.apache.spark.api.python.PythonGatewayServer
logger.gateway.level = {level}
logger.stream.name = org.apache.spark.sql.execution.streaming
logger.stream.level = {quiet}
logger.delta.name = org.apache.spark.sql.delta.DeltaParquetFileFormat
logger.delta.level = fatal
logger.inbox.name = org.apache.spark.rpc.netty.Inbox
logger.inbox.level = fatal
logger.scheduler.name = org.apache.spark.scheduler.DAGScheduler
logger.scheduler.level = {quiet}
logger.executor.name = org.apache.spark.executor.Executor
logger.executor.level = {quiet}
logger.merge.name = org.apache.spark.sql.delta.commands.MergeIntoCommand
logger.merge.level = {quiet}
rootLogger.appenderRef.stderr.ref = stderr
appender.stderr.type = Console
appender.stderr.name = stderr
appender.stderr.target = SYSTEM_ERR
appender.stderr.layout.type = PatternLayout
appender.stderr.layout.pattern = %d{{HH:mm:ss}} %p %c{{1}}: %m%n%ex
"""


@with_parameter_names
def spark_session(
    app: str, *, master: str | None = None, config: Mapping[str, str] = _NO_CONFIG, packages: Sequence[str] = ()
) -> SparkSession:
    """The session for a job.

    `BRIDGE_SPARK_LOG` sets the JVM's log level (default `error`).

    Args:
        app: the application's name.
        master: by default `local[*,4]`; left to spark-submit under it.
        config: settings that win over ours (`spark.jars` and the driver's Java options are added to ours; with
            `spark.jars.packages` the caller brings all jars).
        packages: G:A:V that a new JVM fetches beside our jars.

    Returns:
        The active session if there is one, else a new one; with SPARK_REMOTE one of that Spark Connect server.

    Raises:
        SetupError: USAGE for Spark 3; JAVA_MISSING, JAR_MISSING. Whatever Spark raises where it can't start comes too.
    """
    check_spark_version()
    from pyspark.sql import SparkSession

    # pyspark logs every failed query to stderr as one long JSON line, besides raising it; py4j what a micro-batch
    # raises, and tracebacks where Ctrl-C cut a connection off
    for name in ("SQLQueryContextLogger", "py4j"):
        logging.getLogger(name).setLevel(logging.CRITICAL)
    active = SparkSession.getActiveSession()
    if active is not None:
        return _adjust_session(active, {**RUNTIME, **config})
    if remote := os.environ.get("SPARK_REMOTE"):
        if master is not None:
            details = f"--master {master}: SPARK_REMOTE names a Spark Connect server ({remote}): give one of them"
            raise SetupError("USAGE", details=details)
        return _adjust_session(SparkSession.builder.remote(remote).getOrCreate(), {**RUNTIME, **config})
    _expect_lost_connections()
    if "PYSPARK_GATEWAY_PORT" in os.environ:
        from pyspark import SparkConf, SparkContext

        SparkContext._ensure_initialized()
        submitted = dict(SparkConf().getAll())
        conf = {**submitted, **({"spark.master": master} if master else {}), **config}
        builder = SparkSession.builder.appName(app).config(map={**RUNTIME, **config, **submitted_options(conf)})
        return (builder.master(master) if master else builder).getOrCreate()
    # As on a cluster, a task that fails (its Python worker was killed) is tried four times.
    master = master or config.get("spark.master") or "local[*,4]"
    settings = _settings(master, config, packages)
    with _environment(_variables(local=_is_local(master))), report_slow_steps("starting Spark"), _no_orphan():
        return SparkSession.builder.appName(app).master(master).config(map={**settings}).getOrCreate()


@contextmanager
def _no_orphan() -> Iterator[None]:
    """Ctrl-C while the JVM starts ends it too: pyspark removes the folder in which it is to tell its port, and a JVM
    that can't prints a stack trace and stays for ever. Ctrl-C stays the caller's: pyspark's own handler asks the JVM on
    the connection that is waiting for an answer, and what comes of that is a Py4JError.
    """
    from pyspark import java_gateway
    from pyspark.core import context

    module, contexts = cast("Any", java_gateway), cast("Any", context)
    started, popen, signals = list[subprocess.Popen[bytes]](), module.Popen, contexts.signal

    def start(*args: Any, **kwargs: Any) -> subprocess.Popen[bytes]:
        started.append(popen(*args, **{"stdout": 2, **kwargs}))  # what Delta prints of a VACUUM is no data of ours
        return started[-1]

    module.Popen = start
    contexts.signal = SimpleNamespace(SIGINT=signal.SIGINT, signal=lambda *_: None)
    try:
        yield
    except KeyboardInterrupt:
        for process in started:
            process.kill()
        raise
    finally:
        module.Popen = popen
        contexts.signal = signals


def _expect_lost_connections() -> None:
    """No tracebacks and warnings of Spark's own where the JVM has ended, which the job says by itself: the server that
    takes accumulators prints one, and py4j logs what it raises too, by the root logger, which then has a handler.
    """
    from pyspark import accumulators

    warnings.filterwarnings("ignore", "Unable to cleanly shutdown Spark JVM", RuntimeWarning)
    logging.getLogger().addFilter(_is_not_of_py4j)
    for kind in ("AccumulatorTCPServer", "AccumulatorUnixServer", "AccumulatorServer"):
        server = getattr(accumulators, kind, None)
        if server is not None:
            server.handle_error = _report_unless_lost


def _is_not_of_py4j(record: logging.LogRecord) -> bool:
    return record.module != "java_gateway"


def _report_unless_lost(server: BaseServer, request: Any, address: Any) -> None:
    if not isinstance(sys.exception(), (ConnectionError, EOFError)):
        BaseServer.handle_error(server, request, address)


def submitted_options(settings: Mapping[str, str]) -> dict[str, str]:
    """Under spark-submit: Java's options for executors, which are yet to start; Spark's limit where it is too late.

    settings: those that are set already. The driver runs already; with a local master it is the executor too.
    """
    if _is_local(settings.get("spark.master", "local[*]")):
        late = _HUGE not in settings.get(_JVM_OPTIONS, "") and _LIMIT not in settings
        return {_LIMIT: "8000"} if late else {}
    return {_EXECUTOR_OPTIONS: _executor_options(settings)}


def _executor_options(settings: Mapping[str, str]) -> str:
    """Java's options for executors of a cluster: ours, after which the caller's win."""
    options = settings.get(_EXECUTOR_OPTIONS, "")
    return options if _HUGE in options else " ".join(filter(None, [_HUGE, options]))


def is_connect(session: SparkSession) -> bool:
    """True if the session is of Spark Connect: the JVM, `sparkContext` and what is made of them are elsewhere."""
    return type(session).__module__.startswith("pyspark.sql.connect")


def session_id(session: Any) -> str:
    """The same for each Python object of one session: a frame's session may be another object than the caller's."""
    return str(session.session_id if is_connect(session) else session._jsparkSession.sessionUUID())


def running_tasks(session: SparkSession) -> str:
    """How far Spark's running stages are, "stage 14: 3 of 8 tasks"; "" between stages, and where they are not known."""
    if is_connect(session):
        return ""
    tracker = session.sparkContext.statusTracker()
    stages = (tracker.getStageInfo(stage_id) for stage_id in tracker.getActiveStageIds())
    return ", ".join(f"stage {s.stageId}: {s.numCompletedTasks} of {s.numTasks} tasks" for s in stages if s is not None)


def check_running(session: SparkSession, settings: SparkSettings) -> None:
    """SetupError USAGE for what a session that runs already can't take of --conf and --packages."""
    if settings.packages:
        details = f"--packages {','.join(settings.packages)}: the Spark session runs already: give them where it starts"
        raise SetupError("USAGE", details=details)
    for name, value in settings.conf.items():
        if not _can_set(session, name) and session.conf.get(name, None) != value:
            details = f"--conf {name}: the Spark session runs already, and can't change it: give it where it starts"
            raise SetupError("USAGE", details=details)


def _can_set(session: SparkSession, name: str) -> bool:
    """True if a session takes a setting at run time; Spark does not know Delta's."""
    return name.startswith("spark.databricks.delta.") or bool(session.conf.isModifiable(name))


def _adjust_session(session: SparkSession, settings: Mapping[str, str]) -> SparkSession:
    if _LIMIT not in settings and _HUGE not in str(session.conf.get(_JVM_OPTIONS, "")):
        settings = {**settings, _LIMIT: "8000"}
    for name, value in settings.items():
        if _can_set(session, name):
            session.conf.set(name, value)
    return session


def _settings(master: str, config: Mapping[str, str], packages: Sequence[str] = ()) -> dict[str, str]:
    scratch = _scratch()
    log4j = scratch / "log4j2.properties"
    level = os.environ.get("BRIDGE_SPARK_LOG", "error")
    quiet = "off" if level == "error" else level  # who runs a query says why it ended
    log4j.write_text(_LOG4J.format(level=level, quiet=quiet), encoding="utf-8")
    options, more = config.get(_JVM_OPTIONS, ""), (os.environ.get(name, "") for name in _JAVA_READS)
    # Where no collector is chosen, and the driver runs tasks.
    collector = _COLLECTOR if _is_local(master) and not any(map(_CHOSEN.search, (options, *more))) else ""
    settings = {
        **RUNTIME,
        **_START,
        **(_local_settings(scratch) if _is_local(master) else {}),
        "spark.sql.warehouse.dir": str(scratch / "warehouse"),
        **config,
        _JVM_OPTIONS: " ".join(filter(None, [_HUGE, f"-Dlog4j2.configurationFile={log4j}", collector, options])),
        _EXECUTOR_OPTIONS: _executor_options(config),
    }
    if PACKAGES not in config:
        brought = SparkSettings(packages=tuple(packages)).artifacts
        settings["spark.jars"] = join_lists(*map(str, jars("spark", brought)), config.get("spark.jars", ""))
    if packages:
        settings[PACKAGES] = join_lists(config.get(PACKAGES, ""), *packages)
        if settings_file := os.environ.get("BRIDGE_IVY_SETTINGS"):
            settings.setdefault("spark.jars.ivySettings", settings_file)
    if _is_local(master):  # workers must find `ticdc_bridge` from wherever the job was started
        folders = filter(None, [str(Path(__file__).absolute().parents[3]), os.environ.get("PYTHONPATH")])
        settings.setdefault("spark.executorEnv.PYTHONPATH", os.pathsep.join(folders))
    return settings


def _local_settings(folder: Path) -> dict[str, str]:
    """Spark's settings where its tasks run on this machine. folder: for sockets."""
    # 200 and 50 parts of a shuffle, as Spark and Delta have it, are a cluster's, and cost each small query a second or
    # more. A part of many rows spills to the disk.
    pieces, name = str(max(8, 4 * (os.cpu_count() or 1))), "spark.python.unix.domain.socket"
    shuffles = {"spark.sql.shuffle.partitions": pieces, "spark.databricks.delta.snapshotPartitions": pieces}
    # Python's workers are reached through sockets in the file system, which cost less than TCP's on loopback. Not where
    # their names, of 42 characters in the folder, would be too long for one.
    if len(str(folder).encode()) > _LONGEST_SOCKET - 43:
        return {**_LOCAL, **shuffles}
    return {**_LOCAL, **shuffles, f"{name}.enabled": "true", f"{name}.dir": str(folder)}


def _variables(*, local: bool) -> dict[str, str]:
    """What pyspark and the JVM read from the environment while they start."""
    python = sys.executable if local else os.environ.get("PYSPARK_PYTHON", sys.executable)
    variables = {"JAVA_HOME": str(spark_java_home()), "PYSPARK_PYTHON": python}
    return {**variables, **variables_for_nameless_user(_scratch), **({"SPARK_LOCAL_IP": "127.0.0.1"} if local else {})}


@contextmanager
def _environment(variables: Mapping[str, str]) -> Iterator[None]:
    before = {name: os.environ.get(name) for name in variables}
    os.environ.update(variables)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value


def _is_local(master: str) -> bool:
    return master.startswith("local") and not master.startswith("local-cluster")


def _scratch() -> Path:
    folder = Path(tempfile.mkdtemp(prefix="ticdc-bridge-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return folder
