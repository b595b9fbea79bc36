"""Questions of both Delta engines about a table's place: a folder, or a name in a catalog."""

import json
import os
import re
import time
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from typing import Any

from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame, DataFrameWriter, SparkSession

from ticdc_bridge.schemas.model.errors import SetupError
from ticdc_bridge.schemas.model.names import quote_name
from ticdc_bridge.spark_jobs.io.locations import is_catalog_name
from ticdc_bridge.spark_jobs.io.object_paths import ObjectPath, copy_file, path_of
from ticdc_bridge.spark_jobs.io.stores import spark_location
from ticdc_bridge.spark_jobs.lake.engines.base import RowFile
from ticdc_bridge.spark_jobs.lake.engines.delta_features import NTZ, need
from ticdc_bridge.spark_jobs.spark.session import is_connect

_NO_TABLE = frozenset(("DELTA_PATH_DOES_NOT_EXIST", "DELTA_TABLE_NOT_FOUND", "DELTA_MISSING_DELTA_TABLE",
                       "DELTA_SCHEMA_NOT_SET", "PATH_NOT_FOUND", "TABLE_OR_VIEW_NOT_FOUND"))  # fmt: skip
"""Errors for a place without a table: nothing is there, other files, a log without a commit."""


def sql_name(path: str) -> str:
    """A table's name in SQL. path: a path, or CATALOG.SCHEMA.TABLE."""
    if is_catalog_name(path):
        return ".".join(map(quote_name, path.split(".")))
    return "delta.`" + absolute_path(path).replace("`", "``") + "`"


def absolute_path(path: str) -> str:
    """A path of this machine in full; one with a scheme as Spark calls it (s3a:// for s3://); a name as it is."""
    if "://" in path:
        return spark_location(path)
    return path if is_catalog_name(path) else str(Path(path).absolute())


def read(spark: SparkSession, path: str) -> DataFrame:
    """The table at a path, or of a name. pyspark's AnalysisException where there is none."""
    if is_catalog_name(path):
        return spark.table(sql_name(path))
    return spark.read.format("delta").load(absolute_path(path))


def create_schema(spark: SparkSession, path: str) -> None:
    """Before a table is made: the schema of its name, where that is not there."""
    if is_catalog_name(path):
        if path.startswith("spark_catalog.") and not re.fullmatch(r"\w+\.\w+\.\w+", path, re.ASCII):
            details = "spark_catalog takes names of letters, digits and _ alone: give the table a place of its own"
            raise SetupError("STOPPED", where=f"delta:{path}", details=details)  # Delta would write its folder first
        spark.sql(f"CREATE SCHEMA IF NOT EXISTS {sql_name(path).rpartition('.')[0]}")


def save(writer: DataFrameWriter, path: str) -> None:
    """Ends a write to the table at a path, or of a name."""
    if is_catalog_name(path):
        writer.format("delta").saveAsTable(sql_name(path))
    else:
        writer.format("delta").save(absolute_path(path))


def check_folder(path: str) -> None:
    """SetupError USAGE for a path of this machine that no table can be at."""
    if "://" in path or is_catalog_name(path):
        return
    folder = Path(path).absolute()
    nearest = next(p for p in (folder, *folder.parents) if p.exists())
    if not nearest.is_dir():
        raise SetupError("USAGE", details=f"delta:{path}: {nearest} is no folder")
    if not os.access(nearest, os.W_OK):
        raise SetupError("USAGE", details=f"delta:{path}: {nearest} can't be written")


def exists(spark: SparkSession, path: str) -> bool:
    """True if there is a table at the path, or of the name."""
    try:
        _ = read(spark, path).schema
    except AnalysisException as error:
        if (error.getCondition() or "").partition(".")[0] in _NO_TABLE:
            return False
        raise
    return True


def facts_in(text: str | None) -> dict[str, str]:
    """What a commit says of its changes, by the `userMetadata` of its log entry; {} for anybody else's text."""
    with suppress(ValueError):
        if isinstance(facts := json.loads(text or "{}"), dict):
            return facts
    return {}


def clear_uncreated(spark: SparkSession, path: str) -> None:
    """Removes the log of a table that was never made (CREATE TABLE was killed), where there is nothing else."""
    if is_connect(spark) or is_catalog_name(path):  # Delta says then that the place is not empty
        return
    jvm: Any = spark._jvm
    folder = jvm.org.apache.hadoop.fs.Path(absolute_path(path))
    log = jvm.org.apache.hadoop.fs.Path(folder, "_delta_log")
    files = folder.getFileSystem(spark._jsparkSession.sessionState().newHadoopConf())
    if not files.exists(log):
        return
    entries = files.listFiles(folder, True)
    while entries.hasNext():
        if not entries.next().getPath().getName().startswith("."):  # of a commit that was not finished
            return
    files.delete(log, True)


def copy_into(path: str, files: Iterable[RowFile]) -> list[dict[str, Any]] | None:
    """Files under other names in a table's folder; what its log says of them. None: they can't be there."""
    folder, added = path_of(path), list[dict[str, Any]]()
    if "://" in path and not isinstance(folder, ObjectPath):
        return None
    for file in files:
        source = path_of(file.path)
        name = f"{source.parent.name}-{source.name}"
        if not copy_file(source, folder / name):
            return None
        added.append({
            "path": name, "partitionValues": {}, "size": file.size, "modificationTime": int(time.time() * 1000),
            "dataChange": True, "stats": file.stats,
        })  # fmt: skip
    return added


def allow_ntz(spark: SparkSession, path: str, kinds: Iterable[str], have: Iterable[str]) -> None:
    """Lets a table have its first timestamp_ntz: Delta does that by itself only for a new one. Types by their text."""
    if any("timestamp_ntz" in kind for kind in kinds) and not any("timestamp_ntz" in kind for kind in have):
        need(spark, path, sql_name(path), NTZ, "a column without a time zone (timestamp_ntz)")
