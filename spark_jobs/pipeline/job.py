"""What a job is given: its two sides, what its events may be, and what is done with errors."""

from dataclasses import dataclass
from typing import Literal

from ticdc_bridge.spark_jobs.pipeline.codec_config import CodecConfig
from ticdc_bridge.spark_jobs.pipeline.private_columns import NOT_PRIVATE, PrivateColumns
from ticdc_bridge.spark_jobs.pipeline.table_choice import NO_LAYOUT, TableLayout, TableOutput

WithoutKey = Literal["refuse", "append"]
Order = Literal["commit_ts", "offset"]
OnPartitionDrop = Literal["remove", "keep"]
OnError = Literal["fail", "dead-letter", "drop"]


@dataclass(frozen=True)
class Job:
    """A job: what is read, what is written (None: plain form), and the stages between.

    topic: the rule that names the topics written. on_error: what becomes of a message that fails. merge: changes are
    applied to tables instead of written, by this one of spark_jobs.lake.engines.base.ENGINES ("auto": which there is).
    current: one of them is the table as TiDB has it now, at the job's output. changelog, versions: where the changelog
    and the row versions are, None for neither. at_once: how many tables of the lake are written at a time. outputs: of
    tables that do not go where the others do. layout: of tables that are made. without_key: what the current
    table does about a table without a key (spark_jobs.lake.keyless). order: what tells which of a key's changes is the
    last one that merge applies. on_partition_drop: what becomes of the rows of dropped partitions. ddl_zone: of the
    sessions that ran DDL, "" where it is not known. consistent: the table that says
    which version each table was at a resolved ts; merged tables then go from one resolved ts to the next. private: the
    columns that do not reach the lake as they are.
    """

    read: CodecConfig
    write: CodecConfig | None = None
    topic: str | None = None
    on_error: OnError = "dead-letter"
    dedupe: bool = False
    until_resolved: bool = False
    merge: str | None = None
    at_once: int = 4
    current: bool = True
    changelog: str | None = None
    versions: str | None = None
    outputs: tuple[TableOutput, ...] = ()
    layout: TableLayout = NO_LAYOUT
    without_key: WithoutKey = "refuse"
    order: Order = "commit_ts"
    on_partition_drop: OnPartitionDrop = "remove"
    ddl_zone: str = ""
    consistent: str | None = None
    private: PrivateColumns = NOT_PRIVATE

    @property
    def is_lossy(self) -> bool:
        """True if values that can't be held exactly are flagged."""
        return self.read.view is not None and self.read.view.on_lossy == "flag"

    @property
    def needs_order(self) -> bool:
        """True if the stages need the marks of events."""
        return self.dedupe or self.until_resolved

    @property
    def held_by(self) -> str | None:
        """The option by which rows wait until watermarks cover them; None: none wait."""
        return "--until-resolved" if self.until_resolved else "--consistent" if self.consistent else None

    @property
    def more_locations(self) -> list[str]:
        """Places in the lake, or rules that name them, beside the job's output."""
        table_locations = (
            output for location in self.outputs for output in (location.location, location.changelog, location.versions)
        )
        locations = (self.changelog, self.versions, self.consistent, *table_locations)
        return [location for location in locations if location is not None]
