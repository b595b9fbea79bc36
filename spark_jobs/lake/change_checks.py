"""Checks of a run's changes before a table of the lake is written: counts, and values that can't be written exactly."""

from dataclasses import dataclass

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from ticdc_bridge.schemas.model.errors import Hint, SetupError
from ticdc_bridge.schemas.model.event import MAX_TSO
from ticdc_bridge.schemas.model.reasons import counted
from ticdc_bridge.schemas.model.types import Kind
from ticdc_bridge.spark_jobs.lake.row_values import RowValues
from ticdc_bridge.spark_jobs.lake.table_columns import TableSettings, load_into_new
from ticdc_bridge.spark_jobs.lake.untimed_deletes import CLOCKS_AGREE, is_since
from ticdc_bridge.spark_jobs.pipeline.result import Summary
from ticdc_bridge.spark_jobs.pipeline.table_view import FOLD, NOT_TYPED, transition_dates
from ticdc_bridge.spark_jobs.spark.temporal_sql import folds

_WITH_OLDEST = ("unfit", "key_only", "rows")
"""Kinds of changes of which an error names the oldest."""
_MAX_DRIVER_ROWS, _MAX_DRIVER_BYTES = 20_000, 1 << 24
INEXACT_FLAGS = (
    "lossy_decimal", "float_damaged", "temporal_zero_ambiguous", "boolean_number", "fraction_cut", "replaced_utf8",
)  # fmt: skip
"""Flags of values that other values are written as, too."""
_INEXACT_KEY = "get(filter(flags, f -> exists(`key`, k -> f IN ({}))), 0)".format(
    ", ".join(f"concat('{flag}:', k)" for flag in INEXACT_FLAGS)
)
"""SQL: one of these flags of a column of a change's key; NULL for none."""


@dataclass(frozen=True, slots=True)
class ChangeCounts:
    """The result of one pass over a run's changes, so that Spark plans and runs one job for all of it.

    since: up to which commit_ts changes do not count; emptied: how many these are; the others are not. unfit: with a
    value that its column's type can't hold. unsure: rows older than a statement after which it is not known which
    rows are there. untimed: neither a delete nor with a commit_ts. untimed_deletes: deletes without one (Avro);
    unknown_times: those of them of which Kafka's time is not known. key_only: without their values. rows: all others
    but deletes. first_…: the oldest commit_ts of these. bad: {commit_ts, column} of a value that can't become one of
    its column's type; lacking: of one that was not sent. newest_ts: the newest of all. clocks_agree: see
    CLOCKS_AGREE. changes, size: how many there are, and the bytes of their values. inexact_key: a flag of a key.
    """

    since: int
    emptied: int
    unfit: int
    unsure: int
    untimed: int
    untimed_deletes: int
    unknown_times: int
    key_only: int
    rows: int
    first_unfit: int | None
    first_key_only: int | None
    first_rows: int | None
    bad: dict[str, str | int] | None
    lacking: dict[str, str | int] | None
    newest_ts: int | None
    clocks_agree: bool
    changes: int
    size: int | None
    inexact_key: str | None

    @property
    def are_few(self) -> bool:
        """True if they may be brought to the driver: Spark plans and runs less for rows that it has there."""
        return self.changes <= _MAX_DRIVER_ROWS and (self.size or 0) <= _MAX_DRIVER_BYTES


def count_changes(
    changes: DataFrame, values: RowValues, since: int, unsure: tuple[int, int], keeps_past: bool
) -> ChangeCounts:
    """since: the commit_ts of the last TRUNCATE, or of a snapshot; the changes up to it do not count. unsure: the
    commit_ts after which rows were there, and that of the statement. keeps_past: deletes have the values of their
    rows, and each value of a change is written.
    """
    stays, is_delete = is_since(since), F.col("op") == "d"
    defined = values.steps[0].commit_ts if values.steps else MAX_TSO
    row = stays & ~is_delete
    no_ts = F.col("commit_ts").isNull()
    conditions = {
        "emptied": ~stays,
        "unfit": stays & values.is_unfit(),
        "unsure": row & (F.col("commit_ts") > unsure[0]) & (F.col("commit_ts") <= unsure[1]),
        "untimed": row & no_ts,
        "untimed_deletes": stays & is_delete & no_ts,
        "unknown_times": is_delete & no_ts & F.col("source.timestamp").isNull(),
        "key_only": (~no_ts if keeps_past else row) & F.array_contains("flags", "handle_key_only"),
        "rows": row,
    }
    inexact = [F.expr(_INEXACT_KEY)]
    for column in values.keys if transition_dates(zone := values.of_column.zone) else ():
        if column.type.kind is Kind.TIMESTAMP:  # two rows of the hour that the zone's clocks show twice
            text = F.coalesce(*(F.element_at(image, column.name) for image in ("after", "before")))
            inexact.append(F.when(folds(text, zone), F.lit(f"{FOLD}:{column.name}")))
    size = F.expr("aggregate(map_values(after), 0L, (sum, value) -> sum + coalesce(octet_length(value), 0))")
    kinds = changes.select(
        "commit_ts", "source", *(condition.alias(name) for name, condition in conditions.items()), size.alias("size"),
        F.when(stays, F.coalesce(*inexact)).alias("inexact_key"),
        (values.bad_column() if keeps_past else F.lit(None).cast("string")).alias("bad"),
        # Of registered schemas an older one need not have all columns, nor a row from before all definitions. What a
        # snapshot (op s) lacks was looked for before.
        F.when(row & (F.col("op") != "s") & (F.col("commit_ts") > defined), values.lacking_column()).alias("lacking"),
    )  # fmt: skip
    row_of_counts = kinds.agg(
        *(F.count_if(name).alias(name) for name in conditions),
        *(F.min(F.when(F.col(name), F.col("commit_ts"))).alias(f"first_{name}") for name in _WITH_OLDEST),
        *(
            F.min(F.when(F.col(name).isNotNull(), F.struct("commit_ts", F.col(name).alias("column")))).alias(name)
            for name in ("bad", "lacking")
        ),
        F.max("commit_ts").alias("newest_ts"),
        F.count(F.lit(1)).alias("changes"),
        F.sum("size").alias("size"),
        F.expr(CLOCKS_AGREE).alias("clocks_agree"),
        F.max("inexact_key").alias("inexact_key"),
    )
    return ChangeCounts(since, **row_of_counts.collect()[0].asDict(recursive=True))


def check_counts(counts: ChangeCounts, settings: TableSettings, summary: Summary) -> None:
    """SetupError STOPPED for changes that can't be written exactly, that nothing orders, or that lack their values."""
    details = None
    if counts.inexact_key is not None and settings.on_lossy == "error":
        name, _, column = counts.inexact_key.partition(":")
        details = (
            f"column {column} is in the key, and a message does not hold its value exactly ({name}): two rows of TiDB"
            " could become one. Use a protocol that keeps it, leave the table out, or accept that with"
            f" {Hint.ON_LOSSY_FLAG}"
        )
    elif counts.unfit and settings.on_lossy == "error":
        details = (
            f"the change at commit_ts {counts.first_unfit} has a date or time that Spark's types can't hold:"
            f" {Hint.TYPES.of('exact')} keeps it as text, {Hint.ON_LOSSY_FLAG} writes NULL"
        )
    elif counts.untimed and not settings.by_offset:
        untimed = counted(counts.untimed, "change")
        details = f"{untimed} without a commit_ts, so that nothing orders them: {settings.untimed_hint}"
    elif counts.key_only:
        details = f"a change at commit_ts {counts.first_key_only} carries only its key (a large message)"
    elif counts.lacking is not None:
        details = (
            f"column {counts.lacking['column']}: the change at commit_ts {counts.lacking['commit_ts']} does not have it"
            " (column selectors of the changefeed, or a value that the binlog left out), and NULL in its place would be"
            f" a guess. Let it be sent, or give the definitions that the changes have ({Hint.DDL})."
            f" {load_into_new(settings.id)}"
        )
    elif counts.bad is not None:
        reason = describe_unfit(str(counts.bad["column"]), int(counts.bad["commit_ts"]))
        details = f"{reason}. Start with the changes after it. {load_into_new(settings.id)}"
    if details is not None:
        raise SetupError("STOPPED", where=str(settings.id), details=details)
    if counts.unfit:
        summary.flags[NOT_TYPED] += counts.unfit


def describe_unfit(column: str, commit_ts: int) -> str:
    """Why the value that a change has for a column can't be written."""
    return (
        f"column {column}: the value in the change at commit_ts {commit_ts} does not fit the column's current type,"
        " and the conversion that TiDB made is not known"
    )
