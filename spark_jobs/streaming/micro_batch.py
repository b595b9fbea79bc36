"""One micro-batch, or a whole batch: input → pieces → duplicates out, rows held → sinks, with every message counted."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import dataclass, field, replace

from pyspark.sql import DataFrame, SparkSession, Window
from pyspark.sql import functions as F

from ticdc_bridge.clients.history import HistoryTables
from ticdc_bridge.schemas.ddl.executor.versions import DdlText
from ticdc_bridge.schemas.model.errors import SetupError, WireError
from ticdc_bridge.schemas.model.event import DdlEvent
from ticdc_bridge.schemas.model.table import TableId
from ticdc_bridge.spark_jobs.arrow import lines
from ticdc_bridge.spark_jobs.arrow.arrow_types import arrow_schema_of
from ticdc_bridge.spark_jobs.arrow.warm_up import warm_changes, warm_lines, warm_transcode
from ticdc_bridge.spark_jobs.io.locations import KafkaClient, table_location_of
from ticdc_bridge.spark_jobs.lake.column_history import statements_of_events
from ticdc_bridge.spark_jobs.lake.commit_summary import CommitFacts, told_in_commits
from ticdc_bridge.spark_jobs.pipeline.job import Job
from ticdc_bridge.spark_jobs.pipeline.newest_columns import with_newest
from ticdc_bridge.spark_jobs.pipeline.result import Summary, TableProgress
from ticdc_bridge.spark_jobs.pipeline.stream_definitions import StreamDefinitions
from ticdc_bridge.spark_jobs.pipeline.table_choice import TableChoice, is_rule
from ticdc_bridge.spark_jobs.pipeline.watermark_buffer import no_watermark_error
from ticdc_bridge.spark_jobs.spark.session import is_connect
from ticdc_bridge.spark_jobs.spark.transport import map_messages
from ticdc_bridge.spark_jobs.streaming.checkpoint import Checkpoint
from ticdc_bridge.spark_jobs.streaming.ddl_events import collect_ddl
from ticdc_bridge.spark_jobs.streaming.kafka_sender import KafkaSender, dead_letters
from ticdc_bridge.spark_jobs.streaming.many_tables import ManyTables, TableWork
from ticdc_bridge.spark_jobs.streaming.merge_batch import merge_table, take_table
from ticdc_bridge.spark_jobs.streaming.pieces import Form, PieceBatches, error_of_row, pieces_type
from ticdc_bridge.spark_jobs.streaming.row_owners import RowOwners
from ticdc_bridge.spark_jobs.streaming.sinks import BatchSink, OrderedSink, TableSink, TopicSink, sink_for
from ticdc_bridge.spark_jobs.streaming.typed_batch import typed_rows

_PLACE = ("position", "number", "part")
_COMMIT_TS: Mapping[Form, str] = {
    "message": "commit_ts",
    "line": "commit_ts",
    "text": "commit_ts",
    "change": "change.commit_ts",
}
"""The column of pieces that has the commit_ts of a change, by what they carry."""


@dataclass
class BatchResult:
    """What one micro-batch did: its counts, and the newest offset read of each partition."""

    summary: Summary = field(default_factory=Summary)
    offsets: dict[int, int] = field(default_factory=dict)
    watermarks: dict[int, int] = field(default_factory=dict)
    resolved: int | None = None


class MicroBatchRunner:
    """Runs micro-batches of one job. `checkpoint`: of a stream; None for a batch job, which keeps nothing.

    out: a place, or what takes all pieces of a batch job in their order.
    """

    def __init__(
        self, spark: SparkSession, work: Job, out: str | OrderedSink, dead: str | None, kafka: KafkaClient,
        checkpoint: Checkpoint | None, table: TableId | None = None, statements: Sequence[DdlText] = (),
    ) -> None:  # fmt: skip
        self._spark, self._work, self._table = spark, work, table
        self._checkpoint, self._kafka = checkpoint, kafka
        self._statements, self._learned_ddl = tuple(statements), list[DdlEvent]()
        self._target = table_location_of(out) if isinstance(out, str) else None
        self._tables: ManyTables | None = None
        if isinstance(out, str) and self._target and is_rule(out):
            chosen = work.read.chosen or TableChoice()
            rules = {"location": out, "changelog": work.changelog, "versions": work.versions}
            self._tables = ManyTables(chosen, rules, work.places, work.at_once, work.merge is not None, checkpoint)
            self._work = replace(work, read=replace(work.read, chosen=None))  # renames may bring others in
        places = (*([out] if isinstance(out, str) else []), *work.more_places)
        self._tells = any(place.startswith("iceberg:") for place in places)
        self._form: Form = "message" if work.write else "change" if self._target or table else "line"
        self._out: BatchSink | OrderedSink
        if isinstance(out, OrderedSink):
            self._form, self._out = "text", out
        else:
            self._out = sink_for(out, kafka, self._form, work.topic, checkpoint)
        self._dead: BatchSink | None = sink_for(dead, kafka, "message", None, checkpoint, dead=True) if dead else None
        if work.write is not None and not (work.needs_order or self._form == "text"):
            warm_transcode(work.read.format, work.write.format)
        elif self._form == "change" and not work.needs_order:
            warm_changes(work.read.format, work.read.view is not None and work.merge is None)
        elif self._form == "line" and lines.can_write_lines(work.read, work.needs_order):
            warm_lines(work.read.format)
        self._sender: KafkaSender | None = None
        if (
            isinstance(self._out, TopicSink)
            and self._form == "message"
            and not work.needs_order
            and work.on_error != "fail"
            and not is_connect(spark)  # no accumulators: counts come with the rows
        ):
            place = self._out
            self._sender = KafkaSender(spark.sparkContext, place.fixed, checkpoint is not None, place.counts)

    @property
    def asks_partitions(self) -> bool:
        """Whether `process` needs the partitions of the topic."""
        return self._work.until_resolved or self._tells

    def cut_off(self) -> None:
        """From another thread: no other table of the micro-batch at hand begins."""
        if self._tables is not None:
            self._tables.cut_off.set()

    def process(self, frame: DataFrame, number: int, partitions: frozenset[int] = frozenset()) -> BatchResult:
        """The rows of `frame` (spark_jobs.spark.frames, with `position`) through the job. SetupError when it can't go
        on.
        """
        work, kind = self._learn(frame, number), pieces_type()
        held_path = self._held_rows(number)
        if self._sender is not None and held_path is None:
            return self._send(self._sender, frame, number, work)
        pieces = map_messages(frame, PieceBatches(work, self._form, arrow_schema_of(kind)), kind)
        with _persist(pieces) as pieces:
            sink, ordered = self._out, self._form == "text"
            outcome = _outcome(pieces, ordered)
            summary = outcome.summary
            dead = pieces.where("kind = 'dead'")
            failed = summary.errors.total()
            if failed and work.on_error == "fail" and not ordered:
                first = dead.select("error").first()
                error = error_of_row(WireError, first["error"]) if first else None
                details = f"{error.code}: {error.detail}" if error else ""
                raise SetupError("STOPPED", where=f"micro-batch {number}", details=details)
            out = pieces if ordered else pieces.where("kind = 'out'")
            if work.dedupe:
                out = self._drop_repeats(out, number, summary)
            if work.until_resolved:
                out = self._release(out, number, outcome, partitions)
            elif held_path is not None:
                out = self._spark.read.schema(out.schema).parquet(held_path).unionByName(out)
            if isinstance(sink, OrderedSink):
                summary.out = sink.write_pieces(out, summary)
                return outcome
            # Dead letters first: a Delta table takes a batch once, and what failed may be a row when it comes again.
            if failed and work.on_error == "drop":
                summary.dropped = failed
            elif self._dead is not None:
                self._write_dead(dead.select(F.col("message.*"), F.col("position")) if failed else None, number)
            # As they came they are kept among the pieces already.
            is_kept = not (work.dedupe or work.until_resolved or held_path is not None)
            with nullcontext(out) if is_kept else _persist(out) as out:
                newest = out.agg(F.count(F.lit(1)), F.max(_COMMIT_TS[self._form])).collect()[0]
                facts = self._facts(outcome, number, partitions, newest[1])
                with told_in_commits(out.sparkSession, facts) if self._tells else nullcontext():
                    in_order = work.needs_order or held_path is not None
                    summary.out = self._write(sink, out, newest[0], number, work, summary, in_order)
        return outcome

    def _send(self, sender: KafkaSender, frame: DataFrame, number: int, work: Job) -> BatchResult:
        """The way to Kafka where nothing has to be known of all messages before the first is written."""
        assert isinstance(self._out, TopicSink)
        account = sender.send(frame, work, self._out.save)
        outcome = BatchResult(account.summary(), account.offsets)
        if isinstance(self._work.read.tables, HistoryTables):
            self._work.read.tables.forget_newest()  # the batch's rows may have had a newer version
        failed = outcome.summary.errors.total()
        if failed and work.on_error == "drop":
            outcome.summary.dropped = failed
        elif failed and self._dead is not None:
            with _persist(dead_letters(frame, work, account.failures())) as dead:
                self._write_dead(dead, number)
        elif self._dead is not None:
            self._write_dead(None, number)
        return outcome

    def _write_dead(self, letters: DataFrame | None, number: int) -> None:
        assert self._dead is not None
        if letters is None:
            self._dead.write_nothing(number)
        else:
            self._dead.write(letters, number, False)

    def _held_rows(self, number: int) -> str | None:
        """Rows that --until-resolved held back in the batch before this one, where this run does without it."""
        if self._checkpoint is None or self._work.until_resolved:
            return None
        self._checkpoint.forget("held", number)  # of a try with it
        return self._checkpoint.rows("held", number - 1)

    def _write(
        self, sink: BatchSink, out: DataFrame, count: int, number: int, work: Job, summary: Summary, in_order: bool
    ) -> int:
        """count: of the rows."""
        if self._tables is not None:
            changes = out.select("change.*", "position") if count else None
            return self._write_tables(self._tables, changes, number, work, summary)
        if not count:
            sink.write_nothing(number)
            return self._merge(None, number, work, summary) if self._work.merge else 0
        if isinstance(self._work.read.tables, HistoryTables):
            self._work.read.tables.forget_newest()  # the batch's rows may have a newer version
        if self._work.merge:
            return self._merge(out.select("change.*", "position"), number, work, summary)
        by_time = self._work.until_resolved
        if in_order:
            # All rows of a key come from one partition of the source: there they get their order back.
            order = ("commit_ts", "rank", *_PLACE) if by_time else _PLACE
            out = out.repartition(F.expr("shiftright(position, 48)")).sortWithinPartitions(*order)
        if self._form == "message":
            columns = ["message.*", "position", "number", "part", "id", "commit_ts", "rank"]
            sink.write(out.select(*columns), number, by_time)
        elif self._form == "line":
            sink.write(out.select("line", "position", "number", "part", "commit_ts", "rank"), number, by_time)
        else:
            changes = out.select("change.*")
            if self._table is not None:
                changes, count = self._apply_view(changes, number, work, summary)
            sink.write(changes.drop("error"), number, by_time)
        return count

    def _facts(
        self, outcome: BatchResult, number: int, partitions: frozenset[int], commit_ts: int | None
    ) -> CommitFacts:
        """What a commit says of this batch. Watermarks go on from batch to batch in the checkpoint.

        Of a file or several topics nothing tells which partitions there are.
        """
        if not self._tells:
            return CommitFacts()
        checkpoint, resolved = self._checkpoint, outcome.resolved
        topic = self._kafka.read.only if self._kafka.read else None
        if not self._work.until_resolved and topic is not None:
            marks = self._watermarks(number, outcome)
            if checkpoint is not None:
                checkpoint.keep_watermarks(number, marks)
            everywhere = [marks.get(one, -1) for one in partitions | outcome.offsets.keys() | marks.keys()]
            resolved = min(everywhere, default=-1)
        whole = topic is not None and resolved is not None and resolved >= 0 and not self._kafka.from_offset
        return CommitFacts(
            checkpoint.id if checkpoint else None, number if checkpoint else None, topic, outcome.offsets,
            commit_ts, resolved if whole else None,
        )  # fmt: skip

    def _apply_view(self, changes: DataFrame, number: int, work: Job, summary: Summary) -> tuple[DataFrame, int]:
        """The changes of one table, its columns as they are now."""
        assert self._table is not None
        ours = take_table(changes, [(0, self._table)], summary, RowOwners(self._checkpoint, number))
        frame = typed_rows(ours, self._table, work.read)
        return frame, frame.count()

    def _merge(self, changes: DataFrame | None, number: int, work: Job, summary: Summary) -> int:
        """The changes (None: there are none) applied to the Delta table; how many keys were written."""
        assert self._table is not None
        assert self._target is not None
        # A micro-batch has a session of its own: its views are not seen from another.
        session = self._spark if changes is None else changes.sparkSession
        owners = RowOwners(self._checkpoint, number)
        return merge_table(session, work, self._table, self._target, changes, self._history(), summary, owners)

    def _history(self) -> list[DdlText]:
        """All DDL that is known."""
        statements = [*self._statements, *statements_of_events(self._learned_ddl)]
        if isinstance(self._work.read.tables, HistoryTables):
            statements += self._work.read.tables.statements()
        return statements

    def _write_tables(
        self, tables: ManyTables, changes: DataFrame | None, number: int, work: Job, summary: Summary
    ) -> int:
        """The changes (None: there are none) to their tables; how many keys or rows were written."""
        if isinstance(self._work.read.tables, HistoryTables):
            self._work.read.tables.forget_newest()
        session = self._spark if changes is None else changes.sparkSession

        def write_table(one: TableWork) -> int:
            location = table_location_of(one.location)
            assert location is not None
            if work.merge:
                own = replace(work, changelog=one.changelog, versions=one.versions, layout=one.layout or work.layout)
                return merge_table(
                    session, own, one.id, location, one.changes, one.statements, one.summary, None
                )  # fmt: skip
            assert one.changes is not None
            rows = typed_rows(one.changes.drop("position"), one.id, work.read)
            TableSink(location, self._checkpoint, dead=False).write(rows.drop("error"), number, False)
            return one.rows

        done = tables.write(changes, number, self._history() if work.merge else (), summary, write_table, session)
        summary.tables = [TableProgress(str(one.id), one.rows, one.out, one.newest) for one in done]
        return sum(one.out for one in done)

    def _learn(self, frame: DataFrame, number: int) -> Job:
        """The work, its sides knowing the tables that DDL of this batch and of those before defines."""
        read, tables = self._work.read, self._work.read.tables
        if read.learn:
            before = self._checkpoint.ddl_before(number) if self._checkpoint else []
            events = collect_ddl(frame, self._work)
            self._learned_ddl = [*before, *events]
            tables = learned = StreamDefinitions(tables)
            for event in self._learned_ddl:
                learned.learn(event)
            if self._checkpoint is not None:
                self._checkpoint.keep_ddl(number, events)
        write = replace(self._work.write, tables=tables) if self._work.write else None
        read = replace(read, tables=tables)
        if read.view is not None and self._table is not None and not self._work.merge:
            with suppress(SetupError):  # a table that nobody knows yet has no rows yet
                read = with_newest(read)
        return replace(self._work, read=read, write=write)

    def _drop_repeats(self, out: DataFrame, number: int, summary: Summary) -> DataFrame:
        """Without changes that were there before, in this batch or an earlier one."""
        same = Window.partitionBy("id", "part").orderBy("position", "number")
        first = out.withColumn("_turn", F.row_number().over(same)).where("id is null or _turn = 1").drop("_turn")
        before = out.where("part = 0").count()
        if self._checkpoint is not None:
            earlier = self._checkpoint.rows_before("seen", number)
            if earlier:
                seen_ids = self._spark.read.schema("id binary").parquet(*earlier)
                first = first.join(seen_ids, "id", "left_anti")
            ids = first.where("id is not null and part = 0").select("id")
            ids.coalesce(1).write.mode("overwrite").parquet(self._checkpoint.rows_at("seen", number))
        repeated = before - first.where("part = 0").count()
        summary.skipped.update({"duplicate": repeated} if repeated else {})
        return first

    def _watermarks(self, number: int, outcome: BatchResult) -> dict[int, int]:
        """The highest of each partition, in this batch and those before."""
        marks = self._checkpoint.watermarks_before(number) if self._checkpoint else {}
        for partition, mark in outcome.watermarks.items():
            marks[partition] = max(mark, marks.get(partition, -1))
        return marks

    def _release(self, out: DataFrame, number: int, outcome: BatchResult, partitions: frozenset[int]) -> DataFrame:
        """What the watermarks of all partitions cover; the rest is kept for later batches.

        partitions: of the topic; of a batch job those whose messages could be read.
        """
        checkpoint, marks = self._checkpoint, self._watermarks(number, outcome)
        partitions |= marks.keys()
        marks = {partition: mark for partition, mark in marks.items() if mark >= 0}
        covered = bool(marks) and partitions <= marks.keys()
        resolved = min(marks.values()) if covered else -1
        outcome.resolved = resolved if covered else None
        if out.where("commit_ts is null and `rank` <= 1").limit(1).count():
            details = "--until-resolved: a change without commit_ts has no place before or after a watermark"
            raise SetupError("USAGE", details=details)
        if checkpoint is not None and (path := checkpoint.rows("held", number - 1)):
            out = self._spark.read.schema(out.schema).parquet(path).unionByName(out)
        rest = out.where(f"commit_ts > {resolved}")
        if checkpoint is None:
            outcome.summary.held = rest.where("part = 0").count()
            if not marks and outcome.summary.held:
                raise no_watermark_error()
        else:
            # Written, then read again: what is released is taken from what was decided, not decided twice.
            rest.write.mode("overwrite").parquet(checkpoint.rows_at("held", number))
            held = self._spark.read.parquet(checkpoint.rows_at("held", number))
            outcome.summary.held = held.where("part = 0").count()
            checkpoint.keep_watermarks(number, marks)
            checkpoint.forget("held", number - 2)
        return out.where(f"commit_ts is null or commit_ts <= {resolved}")


def _outcome(pieces: DataFrame, ordered: bool) -> BatchResult:
    """The counts. SetupError where a worker could not go on (ordered: who takes the pieces in their order says so)."""
    outcome = BatchResult()
    told = pieces.where("kind in ('told', 'fatal')").select("tally", "messages", "watermarks", "offsets", "error")
    for row in told.collect():
        if row["error"] is not None:
            if ordered:
                continue
            raise error_of_row(SetupError, row["error"])
        outcome.summary.add(row["tally"])
        outcome.summary.messages += row["messages"]
        for name, newest in (("watermarks", outcome.watermarks), ("offsets", outcome.offsets)):
            for partition, value in row[name].items():
                newest[partition] = max(value, newest.get(partition, value))
    return outcome


@contextmanager
def _persist(frame: DataFrame) -> Iterator[DataFrame]:
    """Computed once: what is counted is what is written."""
    cached_frame = frame.persist()
    try:
        yield cached_frame
    finally:
        cached_frame.unpersist()
