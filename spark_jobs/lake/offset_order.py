"""`merge --order offset`: changes without a commit_ts in the order in which Kafka has them (docs/decisions/0019).

Of a key's changes the last one by offset counts, within a partition; between two partitions, by Kafka's timestamp. No
offset is before or after a statement, so all changes must have the columns of the one definition.
"""

from pyspark.sql import Column as SparkColumn
from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F

from ticdc_bridge.schemas.model.errors import SetupError
from ticdc_bridge.schemas.model.table import TableId
from ticdc_bridge.spark_jobs.lake.change_checks import ChangeCounts
from ticdc_bridge.spark_jobs.lake.engines.base import TableColumn, Upsert
from ticdc_bridge.spark_jobs.lake.engines.spark_sql import keep_rows
from ticdc_bridge.spark_jobs.lake.merge import count_newest
from ticdc_bridge.spark_jobs.lake.row_values import RowValues
from ticdc_bridge.spark_jobs.lake.table_columns import TableColumns, TableKind
from ticdc_bridge.spark_jobs.lake.untimed_deletes import KAFKA_POSITION, kafka_position
from ticdc_bridge.spark_jobs.pipeline.result import Summary

_TRUNCATE = 11  # TiDB's ActionType
_COLUMNS = {
    "_kafka_topic": ("topic", "string"), "_kafka_partition": ("partition", "int"),
    "_kafka_offset": ("offset", "bigint"), "_kafka_timestamp": ("time", "timestamp"),
}  # fmt: skip
"""Columns of a row's newest change: the field of its KAFKA_POSITION, and the type."""


def refuse_truncate(changes: DataFrame, is_of_table: SparkColumn, id_: TableId) -> None:
    """SetupError STOPPED for a TRUNCATE among the changes. is_of_table: events of the table."""
    if not changes.where(is_of_table).where(f"kind = 'ddl' AND ddl_type = {_TRUNCATE}").isEmpty():
        details = (
            "a TRUNCATE TABLE without a commit_ts: which changes come before it is not known. Start in a new place,"
            " with the changes after it"
        )
        raise SetupError("STOPPED", where=str(id_), details=details)


KIND = TableKind(tuple(TableColumn(name, kind) for name, (_, kind) in _COLUMNS.items()))


def write_by_offset(
    columns: TableColumns, changes: DataFrame, rows: RowValues, counts: ChangeCounts, forgotten_ts: int,
    summary: Summary,
) -> int:  # fmt: skip
    """A spark_jobs.lake.merge.WriteRows: of a key's changes the last one in Kafka counts."""
    del forgotten_ts, summary
    tombstones, names = columns.tombstones(rows.keys), rows.key_names
    changes = changes.coalesce(1) if counts.are_few else changes
    both = rows.changes_of_keys(changes, [F.col("commit_ts"), F.col("row"), kafka_position()])
    both = both.withColumn("is_deleted", F.col("turn") == 0)
    in_partition = Window.partitionBy(*names, "kafka_position.topic", "kafka_position.partition")
    last = in_partition.orderBy(F.desc("kafka_position.offset"), F.desc("row"), F.desc("turn"))
    both = both.withColumn("_n", F.row_number().over(last)).where("_n = 1")
    by_time = Window.partitionBy(*names).orderBy(F.desc_nulls_last("kafka_position.time"))
    both = both.withColumns({"_n": F.row_number().over(by_time), "_next": F.lead("kafka_position").over(by_time)})
    stored = columns.lake_table.read().select(
        *rows.stored_keys(),
        F.struct(*(F.col(name).alias(field) for name, (field, _) in _COLUMNS.items())).alias("_row"),
    )
    newest = both.where("_n = 1").join(stored, names, "left")
    newest = newest.join(tombstones.by_key(names).select(*names, "_delete_position"), names, "left")
    unclear = " OR ".join(_is_unclear("kafka_position", other) for other in ("_next", "_row", "_delete_position"))
    is_newer_delete = _is_after("kafka_position", "_delete_position")
    newest = newest.withColumns({
        "unclear": F.expr(f"kafka_position.offset IS NULL OR {unclear}"),
        # Its delete is remembered before the row goes: where a job was killed between, the row is still to go.
        "late": F.expr(f"NOT coalesce({_is_after('kafka_position', '_row')}, true)"
                       f" OR coalesce({_is_after('_delete_position', 'kafka_position')}, false)"),
        "delete_position": F.when(F.expr(f"is_deleted AND coalesce({is_newer_delete}, true)"),
                                  F.col("kafka_position")).cast(KAFKA_POSITION),
        "deleted_until_ts": F.lit(None).cast("bigint"),
    })  # fmt: skip
    newest = newest.drop("_n", "_next", "_row", "_delete_position", "row", "turn")
    newest = keep_rows(newest, counts.are_few)
    row = newest.where("unclear").select("kafka_position").first()
    if row is not None:
        position = row["kafka_position"]
        details = "a change has no offset: read it from Kafka, or from a message file that has offsets"
        if position["offset"] is not None:
            details = (
                f"the change at {position['topic']}, partition {position['partition']}, offset {position['offset']},"
                " and one of the same key in another partition have the same timestamp: which is newer is not known."
                " Merge the whole topic into a new place, after the key's changes are in one partition"
            )
        raise columns.stopped(details)
    found = count_newest(newest, rows, columns, -1)
    # Before the rows go (docs/decisions/0042): a job that is killed between the two finds them again.
    if found["deleted"]:
        tombstones.add_deleted(newest.where("delete_position IS NOT NULL"))
    upserted = newest.where("NOT late").withColumns(
        {name: F.col(f"kafka_position.{field}") for name, (field, _) in _COLUMNS.items()}
    )
    upserted = upserted.drop(
        "bad", "deleted_until_ts", "late", "unclear", "kafka_position", "delete_position", "commit_ts"
    )
    values = [*rows.value_pairs, *((name, name) for name in _COLUMNS)]
    upsert = Upsert(rows.key_pairs, values, "NOT s.is_deleted", "NOT s.is_deleted", "s.is_deleted")
    columns.lake_table.merge(upserted, upsert)
    return int(found["keys"])


def _same_partition(position: str, other: str) -> str:
    return f"{position}.topic <=> {other}.topic AND {position}.partition <=> {other}.partition"


def _is_after(position: str, other: str) -> str:
    """SQL: whether a place (a column's name) comes after another; NULL where there is no other one."""
    same = _same_partition(position, other)
    return (
        f"if({position} IS NULL OR {other} IS NULL, NULL, if({same}, {position}.offset > {other}.offset,"
        f" {position}.time > {other}.time))"
    )


def _is_unclear(position: str, other: str) -> str:
    """SQL: whether nothing tells which of two places comes first."""
    same = _same_partition(position, other)
    return f"({other} IS NOT NULL AND NOT ({same}) AND coalesce({position}.time = {other}.time, true))"
