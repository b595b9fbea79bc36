"""Steps of changelogs and tables of row versions: columns stay, and statements that took rows away are recorded."""

from pyspark.sql import DataFrame

from ticdc_bridge.schemas.model.table import Table
from ticdc_bridge.spark_jobs.lake.column_history import SchemaChange
from ticdc_bridge.spark_jobs.lake.dropped_columns import ClearingStatement, FullHistory, full_history
from ticdc_bridge.spark_jobs.lake.row_values import RowValues
from ticdc_bridge.spark_jobs.lake.table_columns import TableColumns

CLEARED = "bridge.clearing_ts"
"""Table property: the newest statement that took rows away and was applied."""
COMMIT_TIME = "CAST(timestamp_millis(shiftright({0}, 18)) AS timestamp)"
"""SQL: the time of a commit_ts."""


def past_history(
    columns: TableColumns, changes: DataFrame, table: Table, steps: list[SchemaChange]
) -> tuple[FullHistory, RowValues]:
    """The history with all columns that the table ever had, and values by it. SetupError USAGE for a table with a
    column that is called as one of ours, STOPPED for changes with other columns where no commit_ts orders them.
    """
    if columns.settings.by_offset:  # no offset is before or after a statement
        RowValues(columns.values, table, []).refuse_other_columns(changes, bool(steps))
        steps = []
    history = full_history(table, steps)
    columns.refuse_names(history.table)
    return history, RowValues(columns.values, history.table, history.steps, history.dropped)


def new_clearing(columns: TableColumns, history: FullHistory) -> list[ClearingStatement]:
    """The statements that are not applied yet and took rows away."""
    until = columns.time_of(CLEARED)
    return [
        statement
        for statement in history.clearing
        if statement.commit_ts > until
        and not (
            statement.is_first
            and columns.lake_table.read().where(f"{columns.kind.time_column} <= {statement.commit_ts}").isEmpty()
        )
    ]


def record_cleared(columns: TableColumns, history: FullHistory) -> None:
    """Keeps that the statements are applied."""
    cleared = max((statement.commit_ts for statement in history.clearing), default=-1)
    if history.clearing and columns.time_of(CLEARED) < cleared:
        columns.lake_table.set_properties({CLEARED: str(cleared)})
