"""Tables of the lake from Spark: the session that can write them, what writes them, appends that happen once."""

import os
import sys
from collections.abc import Collection, Iterable, Mapping
from functools import reduce
from importlib.util import find_spec
from typing import Any

from pyspark import SparkContext
from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame, SparkSession

from ticdc_bridge.schemas.model.errors import Hint, SetupError
from ticdc_bridge.spark_jobs.io.locations import TableLocation, is_catalog_name
from ticdc_bridge.spark_jobs.io.stores import spark_settings_of
from ticdc_bridge.spark_jobs.lake.engines import delta_features, delta_files, iceberg_append
from ticdc_bridge.spark_jobs.lake.engines.base import AUTO, ENGINES, Engine, engine, types_error
from ticdc_bridge.spark_jobs.lake.engines.iceberg_spark import SparkIceberg
from ticdc_bridge.spark_jobs.runtime.spark_settings import SparkSettings
from ticdc_bridge.spark_jobs.spark.session import check_running, spark_session

SETTINGS: Mapping[str, Mapping[str, str]] = {
    "delta": {
        "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
        "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
    },
    "iceberg": {"spark.sql.extensions": "org.apache.iceberg.spark.extensions.IcebergSparkSessionExtensions"},
}
"""Settings of a session for tables of a format, beside its jars. Iceberg's catalogs are the user's to configure."""
_NAMES = {"delta": "Delta", "iceberg": "Iceberg"}
_OTHER_TYPES = ("DELTA_FAILED_TO_MERGE", "DELTA_MERGE_INCOMPATIBLE", "DELTA_SCHEMA_CHANGED", "INCOMPATIBLE_DATA")


def session(
    settings: SparkSettings, formats: Collection[str] = (), by: str = "delta-spark", shared: bool = False
) -> SparkSession:
    """A session with what the user gives Spark, and with the jars and extensions of the tables' formats.

    formats: of spark_jobs.io.locations.TableLocation. by: what writes Delta tables, of ENGINES, or "auto": delta-spark,
    or deltalake where that is not available, with a message. SetupError JAR_MISSING, JAVA_MISSING; USAGE where a
    session runs already, without Delta or with settings that can't change any more. shared: several tables are written
    at a time, each with a share of the cores.
    """
    active = SparkSession.getActiveSession()
    if active is None and "SPARK_REMOTE" in os.environ:  # a server that runs already, with Delta or without
        active = spark_session("ticdc-bridge", master=settings.master)
    if shared and active is None and "PYSPARK_GATEWAY_PORT" not in os.environ:
        settings = settings.over({"spark.scheduler.mode": "FAIR"})
    if active is None:
        settings = spark_settings_of(settings, submitted="PYSPARK_GATEWAY_PORT" in os.environ)
    if active is not None:
        check_running(active, settings)
    elif settings.packages and "PYSPARK_GATEWAY_PORT" in os.environ:
        raise SetupError("USAGE", details="--packages: Spark's JVM runs already: give them to spark-submit")
    for table_format in formats:
        if table_format == "delta" and by == "deltalake":
            continue
        try:
            settings = settings.over(_settings_of(active, settings, table_format))
        except SetupError as error:
            full = delta_features.FULL.keys() <= settings.conf.keys()
            if table_format != "delta" or by != AUTO or full or find_spec("deltalake") is None:
                raise
            why = str(error).split(". ")[0]
            print(f"deltalake writes the table, as delta-spark is not available: {why}", file=sys.stderr)
    if formats and active is not None and not settings.conf:
        return active
    return spark_session("ticdc-bridge", master=settings.master, config=settings.conf, packages=settings.packages)


def _settings_of(active: SparkSession | None, settings: SparkSettings, table_format: str) -> Mapping[str, str]:
    """A format's settings of a session that is to start. SetupError USAGE without Delta or its jars; JAR_MISSING."""
    if active is not None:
        if table_format == "delta" and not has_delta(active):
            details = "this Spark session has no Delta: start it with spark.sql.extensions and Delta's jars"
            raise SetupError("USAGE", details=details)
        return {}
    if "PYSPARK_GATEWAY_PORT" not in os.environ:
        return lake_config([table_format], settings.artifacts)
    # Under spark-submit the jars are the user's (--packages, --jars).
    SparkContext._ensure_initialized()
    jvm: Any = SparkContext._jvm
    extension = reduce(getattr, SETTINGS[table_format]["spark.sql.extensions"].split("."), jvm)
    if type(extension).__name__ != "JavaClass":  # a JavaPackage: the class is not there
        details = f"spark-submit was given no jars of {_NAMES[table_format]}'s: --packages, --jars"
        raise SetupError("USAGE", details=details)
    return SETTINGS[table_format]


def engine_of(spark: SparkSession, name: str, table_format: str = "delta") -> Engine:
    """The engine `name`, or for "auto" the format's. SetupError USAGE for an engine that writes another format."""
    if name == AUTO:
        delta = "delta-spark" if has_delta(spark) else "deltalake"
        name = {"delta": delta, "iceberg": "iceberg-spark"}[table_format]
    check_engine(name, table_format)
    return engine(name)


def check_engine(name: str, table_format: str) -> None:
    """SetupError USAGE for an engine that writes tables of another format."""
    if name != AUTO and ENGINES[name].table_format != table_format:
        details = f"{Hint.ENGINE} {name} does not write {_NAMES[table_format]} tables ({table_format}:…): leave it out"
        raise SetupError("USAGE", details=details)


def has_delta(spark: SparkSession) -> bool:
    """True if a session that runs has Delta's extension."""
    return SETTINGS["delta"]["spark.sql.extensions"] in (spark.conf.get("spark.sql.extensions", "") or "")


def lake_config(formats: Iterable[str] = ("delta",), brought: frozenset[str] = frozenset()) -> dict[str, str]:
    """Settings of a session for tables of these formats, with pinned jars but for `brought`. SetupError JAR_MISSING."""
    from ticdc_bridge.spark_jobs.runtime.jars import jars

    settings = SparkSettings()
    for table_format in formats:
        files = ",".join(map(str, jars(table_format, brought)))
        settings = settings.over({**SETTINGS[table_format], "spark.jars": files})
    return dict(settings.conf)


def append(frame: DataFrame, location: TableLocation, once: tuple[str, int] | None) -> None:
    """Appends rows; new columns and wider types widen the table. once: (application, number): a number at or below the
    table's newest of this application was appended already, and is not again.

    SetupError STOPPED where the table has a column of a type that the rows' can't become.
    """
    if location.format == "iceberg":
        iceberg_append.append(SparkIceberg(frame.sparkSession, location.name), frame, once)
        return
    path, spark = location.name, frame.sparkSession
    writer = frame.write.mode("append").option("mergeSchema", "true")
    if once is not None:
        writer = writer.option("txnAppId", once[0]).option("txnVersion", once[1])
    if not delta_files.exists(spark, path):
        delta_files.create_schema(spark, path)
        names = delta_features.field_names(frame.schema)
        writer = writer.options(**delta_features.properties_for(spark, path, names))
    else:
        have = delta_files.read(spark, path).schema
        if is_catalog_name(path) and (other := delta_features.other_type(have, frame.schema)):  # Spark would cast it
            raise types_error(f"delta:{path}", other)
        delta_files.allow_ntz(spark, path, [frame.schema.simpleString()], [have.simpleString()])
        delta_features.need_for_rows(spark, path, delta_files.sql_name(path), have, frame.schema)
    try:
        delta_files.save(writer, path)
    except AnalysisException as error:
        if (error.getCondition() or "").startswith(_OTHER_TYPES):
            raise types_error(f"delta:{path}", str(error)) from error
        raise
