"""What a run made of its tables, for people: how many rows they have, where they are, and how to read one."""

from collections.abc import Sequence

from pyspark.sql import SparkSession

from ticdc_bridge.schemas.model.reasons import counted
from ticdc_bridge.schemas.model.table import TableId
from ticdc_bridge.spark_jobs.io.locations import lake_location
from ticdc_bridge.spark_jobs.lake import tables
from ticdc_bridge.spark_jobs.lake.engines.base import AUTO
from ticdc_bridge.spark_jobs.lake.engines.delta_files import sql_name
from ticdc_bridge.spark_jobs.pipeline.job import Job
from ticdc_bridge.spark_jobs.pipeline.progress import print_lines
from ticdc_bridge.spark_jobs.pipeline.table_choice import location_by_rule

_MOST = 20


def print_tables(command: str, spark: SparkSession, job: Job, out: str, ids: Sequence[TableId]) -> None:
    """On stderr, a line for each of the first tables that were written. out: the location, or the rule of locations."""
    lines = []
    for id_ in ids[:_MOST]:
        given = next((entry.location for entry in job.outputs if entry.tables.takes(id_)), None)
        location = lake_location(location_by_rule(given or out, id_))
        table = tables.engine_of(spark, job.merge or AUTO, location.format)(spark, location.name)
        if table.exists():
            lines.append(f"{id_}: {counted(table.read().count(), 'row')} in {location}")
            name = sql_name(location.name) if location.format == "delta" else location.name
            example = f"Spark reads it by SELECT * FROM {name}"
    print_lines(command, [*lines, example] if lines else [])
