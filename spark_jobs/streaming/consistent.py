"""`merge --consistent PLACE`: a row for each table at each resolved ts, with the version that the table was then.

A micro-batch ends at a resolved ts that all its topics' partitions have passed: rows and statements above it wait
(spark_jobs.streaming.stages.release). So each table that it wrote is TiDB's at that ts, and so is each that it did not
write, at the version that an earlier batch left. Only what brought a table further is waited for: a merge from before
--consistent, a load.
"""

import sys
from collections.abc import Collection
from dataclasses import dataclass, field
from itertools import islice
from typing import Any

from pyspark.sql import SparkSession

from ticdc_bridge.schemas.model.event import ms_to_tso
from ticdc_bridge.spark_jobs.io.locations import TableLocation, table_location_of
from ticdc_bridge.spark_jobs.lake import tables
from ticdc_bridge.spark_jobs.lake.engines.base import LakeTable
from ticdc_bridge.spark_jobs.lake.engines.delta_files import absolute_path
from ticdc_bridge.spark_jobs.lake.points_in_time import TablePoint, add_points, point_of
from ticdc_bridge.spark_jobs.streaming.checkpoint import Checkpoint

_FILE = "points.json"
"""Of the checkpoint: the choice of tables, their points, the newest resolved ts."""
_DAY = ms_to_tso(86_400_000)
_OLD_A_BATCH = 20
"""So many tables that no change came to are looked at again in a batch, each once a day: somebody may have compacted
them, and removed the files of the version that is known.
"""


@dataclass
class ConsistentPoints:
    """location: of the table of points. engine: of spark_jobs.lake.engines.base.ENGINES. choice: which tables the job
    takes; what is known of tables is forgotten with it. points: of the batch's tables, by their location.
    """

    location: TableLocation
    engine: str
    checkpoint: Checkpoint
    choice: str
    points: dict[str, TablePoint] = field(default_factory=dict)

    def note(self, session: SparkSession, table: str, location: TableLocation, resolved: int) -> None:
        """Keeps which version a table (DB.TABLE) is, which the batch has written up to `resolved`."""
        tombstones = self._table(session, location.tombstones)
        point = point_of(table, self._table(session, location), tombstones, resolved)
        if point is not None:
            name = absolute_path(location.name) if location.format == "delta" else location.name
            self.points[f"{location.format}:{name}"] = point

    def keep(self) -> dict[str, Any]:
        """Keeps what was noted, and returns all that is kept: if this batch comes again, it may not write a table that
        followed DDL alone, or that was set aside until now.
        """
        kept = self.checkpoint.read(_FILE, dict[str, Any]())
        kept = kept if kept.get("choice") == self.choice else {}
        kept |= {"choice": self.choice, "tables": {**kept.get("tables", {}), **self.points}}
        self.checkpoint.keep(_FILE, kept)
        return kept

    def record(self, session: SparkSession, resolved: int, set_aside: Collection[str]) -> None:
        """Adds the rows of a resolved ts if it is new, no table is further, and none set aside. A repeat finds them."""
        kept = self.keep()
        points = {location: TablePoint(*point) for location, point in kept["tables"].items()}
        old = (n for n, point in points.items() if n not in self.points and resolved - point.noted_ts > _DAY)
        for name in islice(old, _OLD_A_BATCH):
            if (location := table_location_of(name)) is not None:
                self.note(session, points[name].table, location, resolved)
        points |= self.points
        self.points = {}
        newest = max(points.values(), key=lambda point: point.newest_ts, default=None)
        if set_aside:
            print(f"merge: no row in {self.location} yet: {min(set_aside)} is set aside", file=sys.stderr)
        elif newest is not None and newest.newest_ts > resolved:
            text = f"no row in {self.location} yet: {newest.table} has changes up to {newest.newest_ts}"
            print(f"merge: {text}, above the resolved ts {resolved}", file=sys.stderr)
        elif points and resolved > kept.get("resolved_ts", -1):
            add_points(session, self._table(session, self.location), resolved, points)
            kept["resolved_ts"] = resolved
        self.checkpoint.keep(_FILE, {**kept, "tables": points})

    def _table(self, session: SparkSession, location: TableLocation) -> LakeTable:
        return tables.engine_of(session, self.engine, location.format)(session, location.name)
