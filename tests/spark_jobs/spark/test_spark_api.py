"""What of pyspark the jobs use: its public modules, and inner names in few places, each of which says when it may."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow
import pytest
from pyspark.sql import types as T

from tests.support.golden import ROOT
from tests.support.python_words import assert_no_python_words
from tests.support.table import check_rows
from ticdc_bridge.schemas.model.errors import SetupError
from ticdc_bridge.spark_jobs.arrow.arrow_types import arrow_schema_of, spark_schema_of
from ticdc_bridge.spark_jobs.lake.engines import delta_files
from ticdc_bridge.spark_jobs.pipeline.arguments import check_frame
from ticdc_bridge.spark_jobs.runtime import jars, spark_version
from ticdc_bridge.spark_jobs.runtime.spark_version import check_spark_version, installed_version, major_minor
from ticdc_bridge.spark_jobs.spark import avro_jvm, session
from ticdc_bridge.spark_jobs.spark.errors import error_of
from ticdc_bridge.spark_jobs.streaming import stream

pa: Any = pyarrow  # the stubs know less than the library

_PUBLIC = {"pyspark", "pyspark.sql", "pyspark.sql.functions", "pyspark.sql.types", "pyspark.sql.datasource",
           "pyspark.errors"}  # fmt: skip
_INNER = re.compile(r"_(jvm|jdf|jc|jsc|jcols|jschema|jreader|jwrite|jconf|jsparkSession|gateway|ensure_initialized|sc)")
_ALLOWED = {
    "spark/avro_jvm/__init__.py": "the JVM reader: versions in avro_jvm.VERSIONS, else Python's workers read",
    "spark/avro_jvm/plan.py": "the JVM reader",
    "spark/left_out_rows.py": "observed metrics of a frame, but not over Spark Connect",
    "spark/worker_daemon.py": "of local sessions of ours; run on every version by test_spark_versions",
    "spark/decode_plan.py": "rows in Spark's own layout: where the JVM reader's classes may be used",
    "spark/errors.py": "whether the JVM has ended, which its errors do not say",
    "spark/data_source.py": "empty profiles of a worker that plans a read; a pipeline on 4.3.0 runs by tests/examples",
    "spark/session.py": "spark-submit's settings before there is a session; which session an object stands for",
    "lake/tables.py": "spark-submit's jars before there is a session",
    "lake/engines/delta_files.py": "Hadoop's file system; not over Spark Connect",
    "lake/engines/delta_spark.py": "Delta's transaction, which takes files; not over Spark Connect",
    "streaming/direct_batch.py": "how many tasks a frame has; not over Spark Connect",
    "lake/engines/iceberg_defaults.py": "Iceberg's Java API; not over Spark Connect",
}
"""Files of spark_jobs that use inner names of pyspark or of Spark's JVM, and why they may."""


def _uses(file: Path) -> Iterator[str]:
    for node in ast.walk(ast.parse(file.read_bytes())):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names if _is_inner(alias.name))
        elif isinstance(node, ast.ImportFrom) and (node.module or "").partition(".")[0] in ("pyspark", "py4j"):
            inner = _is_inner(node.module or "") or any(
                f"{node.module}.{a.name}" == "pyspark.daemon" for a in node.names
            )
            if inner or any(alias.name.startswith("_") for alias in node.names):
                yield f"{node.module}: {', '.join(alias.name for alias in node.names)}"
        elif isinstance(node, ast.Attribute) and _INNER.fullmatch(node.attr):
            yield node.attr


def _is_inner(module: str) -> bool:
    return module.partition(".")[0] in ("pyspark", "py4j") and module not in _PUBLIC


def test_inner_names_of_pyspark_stand_in_few_places() -> None:
    """Spark changes them between versions without a word: `to_arrow_schema` wanted a time zone from 4.2 on."""
    uses = {str(f.relative_to(ROOT / "spark_jobs")): sorted(_uses(f)) for f in (ROOT / "spark_jobs").rglob("*.py")}
    assert {file: names for file, names in uses.items() if names and file not in _ALLOWED} == {}
    assert [file for file in _ALLOWED if not uses[file]] == [], "no longer needed in the table"


def test_types_in_arrow_and_back() -> None:
    texts, time = T.ArrayType(T.StringType()), T.StructType([T.StructField("at", T.TimestampType())])
    types: list[tuple[T.DataType, Any]] = [
        (T.BooleanType(), pa.bool_()), (T.ShortType(), pa.int16()), (T.IntegerType(), pa.int32()),
        (T.LongType(), pa.int64()), (T.FloatType(), pa.float32()), (T.DoubleType(), pa.float64()),
        (T.DecimalType(38, 30), pa.decimal128(38, 30)), (T.StringType(), pa.string()), (T.BinaryType(), pa.binary()),
        (T.DateType(), pa.date32()), (T.TimestampType(), pa.timestamp("us", "UTC")),
        (T.TimestampNTZType(), pa.timestamp("us")), (T.DayTimeIntervalType(0, 3), pa.duration("us")),
        (texts, pa.list_(pa.field("element", pa.string()))), (time, pa.struct([("at", pa.timestamp("us", "UTC"))])),
    ]  # fmt: skip

    def check(row: tuple[T.DataType, Any]) -> None:
        schema = T.StructType([T.StructField("c", row[0], True, {"tidb_type": "x"})])
        assert arrow_schema_of(schema) == pa.schema([pa.field("c", row[1])])
        assert spark_schema_of(pa.schema([pa.field("c", row[1])])) == T.StructType([T.StructField("c", row[0])])

    check_rows(types, check)
    kind = T.MapType(T.StringType(), T.StringType(), False)
    (field,) = arrow_schema_of(T.StructType([T.StructField("m", kind, False)]))
    assert field == pa.field("m", pa.map_(pa.string(), pa.field("value", pa.string(), False)), False)


class _Session:
    """As much of a session as is asked for its version and its kind."""

    def __init__(self, version: str) -> None:
        self.version, self.sparkContext = version, self
        self.applicationId = f"app of {version}"
        self.sparkSession, self.dtypes = self, list[Any]()


class _RemoteSession(_Session):
    __module__ = "pyspark.sql.connect.session"


def test_spark_3_is_refused_in_a_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    def check(version: str) -> None:
        with pytest.raises(SetupError) as caught:
            check_frame(_Session(version), "messages")
        assert f"this session is of Spark {version}: Spark 3 is not supported" in caught.value.detail
        assert_no_python_words(caught.value.detail)
        monkeypatch.setattr(spark_version, "installed_version", lambda: version)
        for use in (check_spark_version, lambda: session.spark_session("x")):
            with pytest.raises(SetupError, match=f"pyspark {version} is installed: Spark 3 is not"):
                use()
        with pytest.raises(SetupError, match="Spark 3 is not supported"):
            from ticdc_bridge import datasource  # noqa: F401

    check_rows(("3.5.9", "3.5.0-amzn-1", "3.4.1", "2.4.8"), check)
    for version in (*spark_version.TRIED, "4.0.0.dev1", "4.1.0-SNAPSHOT", "5.0.0", "unknown"):
        check_spark_version(version)


def test_the_version_is_read_without_importing_pyspark() -> None:
    import pyspark

    assert installed_version() == pyspark.__version__
    assert pyspark.__version__ in spark_version.TRIED
    assert major_minor(pyspark.__version__) == spark_version.PINNED


def test_where_the_reader_in_the_jvm_is_used(caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch) -> None:
    """By Spark's version; what reads instead is one line of the log for each application that reads Avro."""
    sessions: tuple[tuple[Any, str], ...] = (
        (_Session("4.0.5"), "this is Spark 4.0.5, and the JVM reader is tested on 4.1"),
        (_Session("4.2.1"), "this is Spark 4.2.1"),
        (_Session("4.3.0"), "this is Spark 4.3.0"),
        (_Session("5.0.0"), "this is Spark 5.0.0"),
        (_RemoteSession("4.1.4"), "this is a Spark Connect session"),
    )

    def check(row: tuple[Any, str]) -> None:
        caplog.clear()
        avro_jvm.plan_operators(row[0])
        assert not avro_jvm.send_with_ids(row[0], {}, "id")
        assert not caplog.messages
        assert avro_jvm.class_of(row[0], "AvroRows") is avro_jvm.class_of(row[0], "RefusedRows") is None
        (line,) = caplog.messages
        assert "Avro is read in Python's workers" in line
        assert row[1] in line

    monkeypatch.setattr(avro_jvm, "_loaders", {})
    check_rows(sessions, check, lambda row: row[1])


def test_jars_are_those_of_the_spark_that_is_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(jars, "_fetch", lambda rows: {row: Path(row.file_name) for row in rows})
    monkeypatch.delenv("BRIDGE_JARS", raising=False)

    def check(row: tuple[str | None, str, str]) -> None:
        monkeypatch.setattr(jars, "installed_version", lambda: row[0])
        names = [path.name for path in jars.jars("spark")]
        assert f"spark-sql-kafka-0-10_2.13-{row[1]}.jar" in names
        assert len(names) == 5
        assert {path.name.split("_")[1] for path in jars.jars("delta") if "spark" in path.name} == {row[2]}

    check_rows((("4.1.4", "4.1.1", "4.1"), (None, "4.1.1", "4.1"), ("4.0.5", "4.0.2", "4.0"),
                ("4.2.1", "4.2.0", "4.2")), check)  # fmt: skip
    monkeypatch.setattr(jars, "installed_version", lambda: "4.3.0")
    assert jars.jars("spark") == []
    with pytest.raises(SetupError, match=r"no jars of Delta's are pinned for Spark 4\.3\.0.*--engine deltalake"):
        jars.jars("delta")
    away = RuntimeError("Failed to find data source: kafka. Please deploy the application as …")
    error_text = error_of(away)
    assert error_text is not None
    assert "no Kafka connector" in error_text.detail
    assert str(stream._lasting_error(away, "t")) == str(error_text)


def test_spark_remote_and_a_master_are_not_both_given(monkeypatch: pytest.MonkeyPatch) -> None:
    from pyspark.sql import SparkSession

    monkeypatch.setenv("SPARK_REMOTE", "sc://127.0.0.1:1")
    monkeypatch.setattr(SparkSession, "getActiveSession", lambda: None)
    with pytest.raises(SetupError, match=r"--master local: SPARK_REMOTE names a Spark Connect server"):
        session.spark_session("x", master="local")
    assert session.is_connect(_RemoteSession("4.1.4"))  # type: ignore[arg-type]
    assert not session.is_connect(_Session("4.1.4"))  # type: ignore[arg-type]


def test_a_table_left_by_a_kill_is_no_clients_to_remove(tmp_path: Path) -> None:
    """Over Spark Connect a path is the server's: the client touches nothing."""
    (tmp_path / "t" / "_delta_log").mkdir(parents=True)
    delta_files.clear_uncreated(_RemoteSession("4.1.4"), str(tmp_path / "t"))  # type: ignore[arg-type]
    assert (tmp_path / "t" / "_delta_log").is_dir()
