"""`load` as a function of Python programs."""

from typing import Literal

from ticdc_bridge.schemas.inputs.table_definitions import statements_of
from ticdc_bridge.schemas.inputs.table_sources import definition_source
from ticdc_bridge.schemas.model.spark_types import SparkTypes
from ticdc_bridge.spark_jobs.lake.engines.base import AUTO, ENGINES
from ticdc_bridge.spark_jobs.pipeline.arguments import File, check_choices, with_parameter_names
from ticdc_bridge.spark_jobs.pipeline.job import Job, WithoutKey
from ticdc_bridge.spark_jobs.pipeline.table_choice import TableChoice
from ticdc_bridge.spark_jobs.pipeline.table_view import OnLossy
from ticdc_bridge.spark_jobs.runtime.spark_settings import SparkSettings
from ticdc_bridge.spark_jobs.snapshots.load_job import LoadJob, run_load, snapshot_config
from ticdc_bridge.spark_jobs.streaming.sinks import session_of


@with_parameter_names
def load(
    source: str,
    *,
    into: str,
    table: str,
    at: int | None = None,
    changelog: str | None = None,
    versions: str | None = None,
    time_zone: str = "UTC",
    source_time_zone: str | None = None,
    types: Literal["exact", "typed"] = "exact",
    on_lossy: OnLossy = "error",
    engine: str = AUTO,
    without_key: WithoutKey = "refuse",
    replace: bool = False,
    ddl: File | None = None,
    dump_options: str | None = None,
    dead_letter: str | None = None,
) -> dict[str, int]:
    """Loads the rows that tables had at one TSO into lake tables. The command `load`.

    Args:
        source: `dumpling:DIR-OR-URL`, or `mysql://USER@HOST:PORT` (password in BRIDGE_TIDB_PASSWORD).
        into: `delta:PATH` or `iceberg:CATALOG.DB.TABLE`, with {schema} and {table} for several tables.
        table: "db.table", or patterns of TiDB's table filter.
        at: the TSO to read at (physical ms << 18 | logical). None: that of the dump, or the newest.
        changelog, versions: where these go, None for neither.
        time_zone, source_time_zone: of TIMESTAMP text in the table, and in the source (None: the same).
        types, on_lossy, engine, without_key, replace, dump_options: as the command has them.
        dead_letter: a file for rows with a value that does not fit its column's type, which end the load otherwise.
        ddl: statements of the table, where the place follows later ones than the snapshot.
    Returns:
        The counts that the command prints: `tso`, `rows`, `written`, `newer`, `removed`, `errors`.
    Raises:
        SetupError: for wrong arguments, and where the rows can't be loaded exactly.
    """
    check_choices(
        types=(types, ("exact", "typed")), on_lossy=(on_lossy, ("error", "flag")), engine=(engine, (AUTO, *ENGINES)),
        without_key=(without_key, ("refuse", "append")),
    )  # fmt: skip
    read = snapshot_config(time_zone, SparkTypes(types), on_lossy)
    job = Job(read, merge=engine, changelog=changelog, versions=versions, without_key=without_key)
    statements = statements_of(None if ddl is None else definition_source(str(ddl)))
    load_job = LoadJob.of(
        job, source, into, TableChoice.of([table]), at, dump_options, source_time_zone or time_zone, replace,
        statements, dead_letter, {},
    )  # fmt: skip
    done = run_load(load_job, lambda: session_of(job, SparkSettings(), into, None))
    return {"tso": load_job.tso, **done._asdict()}
