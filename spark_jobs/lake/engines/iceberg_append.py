"""Rows appended to an Iceberg table, each batch once: who appended it, and its number, stand in the snapshot's summary.

Expired snapshots are forgotten: a batch comes again soon after a kill or never, so Iceberg's five days are enough.
"""

import re

from pyspark.sql import DataFrame

from ticdc_bridge.spark_jobs.lake.engines.base import types_error
from ticdc_bridge.spark_jobs.lake.engines.iceberg_spark import ACCEPTS_ROWS, APPLICATION, BATCH, SparkIceberg

_OPTION = "snapshot-property."
_OTHER_TYPE = re.compile(r"Cannot change column type: [^\n]+")


def append(table: SparkIceberg, frame: DataFrame, once: tuple[str, int] | None) -> None:
    """As spark_jobs.lake.tables.append. SetupError STOPPED for a column whose type the rows' can't become."""
    if "interval" in frame.schema.simpleString():
        table.column_type("interval")
    if not table.exists():
        table.create_for(frame, dict([ACCEPTS_ROWS]))
    else:
        if once is not None:
            batches = (int(c.facts.get(BATCH, -1)) for c in table.commits() if c.facts.get(APPLICATION) == once[0])
            if max(batches, default=-1) >= once[1]:
                return
        if ACCEPTS_ROWS[1] != table.prepare().get(ACCEPTS_ROWS[0]):
            table.set_properties(dict([ACCEPTS_ROWS]))
    summary = {} if once is None else {APPLICATION: once[0], BATCH: str(once[1])}
    try:
        table.append(frame, {_OPTION + name: value for name, value in summary.items()})
    except Exception as error:  # Java's as they are, or as pyspark's own
        if (match := _OTHER_TYPE.search(str(error))) is None:
            raise
        raise types_error(table.location, match[0]) from error
