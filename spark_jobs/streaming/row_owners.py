"""Which table a row is of, where a name was another table's before: by its commit_ts, or where it came to Kafka."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from operator import or_

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from ticdc_bridge.schemas.model.table import TableId
from ticdc_bridge.spark_jobs.lake.name_history import NEVER_ENDS, NameOwner
from ticdc_bridge.spark_jobs.spark.sql_expressions import is_of
from ticdc_bridge.spark_jobs.streaming.checkpoint import Checkpoint

Names = Sequence[tuple[int, TableId | None]]
"""A table's names by time: spark_jobs.lake.name_history.RenameChain.names."""
SharedNames = Mapping[TableId, Sequence[NameOwner]]
"""The tables that had a name: spark_jobs.lake.name_history.shared_names."""
NOT_SHARED: SharedNames = {}
OWNED_AT = "_owned_at"
"""Column: the commit_ts at which a row's table has its name."""
IS_ESTIMATED = "_is_estimated"
"""Column: whether the row may be of another table that had the name."""
TABLE_ESTIMATED = "table_estimated"
"""The flag that such rows are counted as."""
_OWNERS = "array<struct<table:int,after:bigint,until:bigint>>"
_LAST_ROWS = "map<string,struct<commit_ts:bigint,ms:bigint>>"
_MS = "unix_millis(source.timestamp)"
_LATE = "coalesce({0}.ms - shiftright({0}.commit_ts, 18), 0)"
_NEAREST = (
    f"CASE WHEN _after IS NULL THEN {_LATE.format('_before')} WHEN _before IS NULL THEN {_LATE.format('_after')}"
    f" WHEN {_MS} * 2 <= _before.ms + _after.ms THEN {_LATE.format('_before')} ELSE {_LATE.format('_after')} END"
)
"""SQL: how many ms after its commit the nearest row came to Kafka; 0 where there is none."""
_AT, _ABOUT = f"(shiftleft({_MS} + 1, 18) - 1)", f"(shiftleft({_MS} - _late + 1, 18) - 1)"
_IN_ORDER = "_before.commit_ts < _after.commit_ts"
_SPAN = {
    "_late": _NEAREST,
    "_first": f"if({_IN_ORDER}, _before.commit_ts, -1)",
    "_last": f"coalesce(least(if({_IN_ORDER}, _after.commit_ts, NULL), if(_late >= 0, {_AT}, NULL)), {NEVER_ENDS})",
    "_about": f"if(coalesce({_IN_ORDER}, true), least(greatest({_ABOUT}, _before.commit_ts), _after.commit_ts),"
    f" coalesce({_ABOUT}, _before.commit_ts))",
}
"""SQL: from when to when a row without a commit_ts was committed, and about when. A changefeed sends a table's rows in
the order of their commits, but where it begins again, which only the rows on both sides tell; a row is not in Kafka
before its commit, if the nearest is not.
"""


@dataclass(frozen=True)
class RowOwners:
    """Those of one micro-batch. checkpoint: keeps the last rows of each partition for the next one, if there is one."""

    checkpoint: Checkpoint | None
    number: int

    def mark(self, changes: DataFrame, shared: SharedNames) -> DataFrame:
        """The changes with OWNED_AT: the commit_ts. A row without one (a delete from Avro, a null value) of a name that
        several tables had has about the one it must have had: it came to Kafka as long after its commit as the nearest
        row of its name and partition, and between the rows before and after it. IS_ESTIMATED, where the name was
        several tables' in that span. Of any other name it has none: it is of any time. Where no row has one (--order
        offset), rows are taken for the table that has the name at the end, an estimate too.
        """
        commit_ts = F.col("commit_ts")
        if not shared:
            return changes.withColumns({OWNED_AT: commit_ts, IS_ESTIMATED: F.lit(False)})
        partition = F.concat_ws("\n", F.lower("db"), F.lower("table"), "source.topic", "source.partition")
        ordered = Window.partitionBy(partition).orderBy("source.offset", "position", "row")
        timed = F.struct(commit_ts.alias("commit_ts"), F.expr(_MS).alias("ms"))
        timed = F.when(F.expr("kind = 'row' AND commit_ts IS NOT NULL"), timed)
        before = F.last(timed, ignorenulls=True).over(ordered.rowsBetween(Window.unboundedPreceding, -1))
        after = F.first(timed, ignorenulls=True).over(ordered.rowsBetween(1, Window.unboundedFollowing))
        is_shared = reduce(or_, map(is_of_name, shared))
        last_rows = self._last_rows(changes.where(is_shared), partition, timed)
        if last_rows:
            before = F.coalesce(before, F.from_json(F.lit(json.dumps(last_rows)), _LAST_ROWS)[partition])
        marked = changes.withColumns({"_before": before, "_after": after})
        for name, sql in _SPAN.items():
            marked = marked.withColumn(name, F.expr(sql))
        owners, about = _owners_of_name(shared), F.coalesce("_about", F.lit(NEVER_ENDS))
        likely = F.filter(owners, lambda owner: (owner["after"] < F.col("_last")) & (owner["until"] >= F.col("_first")))
        likely = F.when(F.size(likely) > 0, likely).otherwise(owners)

        def nearest(owner: Column) -> Column:
            at = F.greatest(owner["after"] + 1, F.least(owner["until"], about))
            return F.struct(F.abs(at - about).alias("distance"), at.alias("at"))

        is_untimed = is_shared & F.expr("kind = 'row' AND commit_ts IS NULL")
        owned_at = F.coalesce(commit_ts, F.when(is_untimed, F.array_min(F.transform(likely, nearest))["at"]))
        several = F.size(F.array_distinct(F.transform(likely, lambda owner: owner["table"]))) > 1
        is_estimated = F.coalesce(is_untimed & several, F.lit(False))
        marked = marked.withColumns({OWNED_AT: owned_at, IS_ESTIMATED: is_estimated})
        return marked.drop("_before", "_after", *_SPAN)

    def _last_rows(self, rows: DataFrame, partition: Column, timed: Column) -> dict[str, dict[str, int | None]]:
        """By partition of a name: the last row with a commit_ts before this batch; its own are kept for the next."""
        if self.checkpoint is None:
            return {}
        earlier = self.checkpoint.last_rows_before(self.number)
        last = F.max_by(timed, F.when(timed.isNotNull(), F.struct("source.offset", "position", "row")))
        groups = rows.groupBy(partition.alias("partition")).agg(last.alias("last")).where("last IS NOT NULL").collect()
        now = {group["partition"]: group["last"].asDict() for group in groups}
        self.checkpoint.keep_last_rows(self.number, earlier | now)
        return earlier


def _owners_of_name(shared: SharedNames) -> Column:
    """The tables that had a row's name; NULL for names that are not shared."""
    owners = F.lit(None).cast(_OWNERS)
    for id_, had in shared.items():
        literal = F.from_json(F.lit(json.dumps([owner._asdict() for owner in had])), _OWNERS)
        owners = F.when(is_of_name(id_), literal).otherwise(owners)
    return owners


def is_of_names(names: Names) -> Column:
    """Whether a row, with OWNED_AT, is of the table that had these names."""
    at, is_owned = F.col(OWNED_AT), is_of_name(names[-1][1])
    for _, id_ in names[:-1]:
        is_owned = is_owned | (at.isNull() & is_of_name(id_))
    for until, id_ in reversed(names[:-1]):
        is_owned = F.when(at <= until, is_of_name(id_)).otherwise(is_owned)
    return is_owned


def is_of_name(id_: TableId | None) -> Column:
    """Whether an event's table is called so; None: no one's is. TiDB takes names in any letters."""
    return F.lit(False) if id_ is None else is_of(id_, F.col("db"), F.col("table"))
