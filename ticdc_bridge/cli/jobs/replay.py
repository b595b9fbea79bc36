"""`replay`: dead letters go through again."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from difflib import get_close_matches
from typing import TYPE_CHECKING, ClassVar

from ticdc_bridge.cli.job_options import FROM_OFFSET, Lineage, SparkConf
from ticdc_bridge.cli.options import AS_JSON, INPUT, OUTPUT, KafkaOptions, milliseconds, option
from ticdc_bridge.schemas.model.errors import ERRORS, SetupError

if TYPE_CHECKING:
    from ticdc_bridge.schemas.inputs.replay import Incoming
    from ticdc_bridge.schemas.model.event import Message
    from ticdc_bridge.spark_jobs.io.locations import KafkaClient, TableLocation
    from ticdc_bridge.spark_jobs.runtime.spark_settings import SparkSettings


@dataclass(kw_only=True)
class Replay(Lineage, SparkConf, KafkaOptions):
    """Send messages from a dead letter queue again.

    `--out kafka:` sends each message to the topic and partition it came from, where its job reads it again. The headers
    `bridge.reason` and `bridge.detail` are removed; `bridge.attempt` and `bridge.origin` stay. A message with several
    dead letters is sent once. One that failed --max-attempts times is left out and counted (exit code 1).

    Examples:
      ticdc-bridge replay --in kafka:shop_dead --out kafka: --reason UNKNOWN_SCHEMA_ID --since 2026-11-20T08:00:00Z
      ticdc-bridge replay --in out.jsonl.dead.jsonl --out again.jsonl
    """

    notes: ClassVar[str] = """\
Exit codes:
  0 done   1 done, and some failed too often   2 wrong usage, or something needed can't be reached
"""
    source: str = option(INPUT, "FILE|kafka:TOPIC|TABLE", "Dead letters.", "--in", default=...)
    out: str = option(OUTPUT, "FILE|-|kafka:TOPIC|kafka:", "Where to send the messages.", default=...)
    reason: list[str] = option(INPUT, "CODE", "Only dead letters with this reason (repeatable).", default=[])
    since: int | None = option(
        INPUT, "TIME", "Only from this time on: 2026-11-20T08:00:00Z, or ms since 1970.", parser=milliseconds
    )
    max_attempts: int = option(INPUT, "N", "Leave out messages that failed this often.", min=1, default=3)
    from_offset: str = FROM_OFFSET
    json: bool = AS_JSON

    def run(self) -> int:
        from ticdc_bridge.cli.codec_arguments import kafka_of, spark_settings
        from ticdc_bridge.schemas.inputs.replay import LetterFilter, replay
        from ticdc_bridge.spark_jobs.io.endpoints import message_sink
        from ticdc_bridge.spark_jobs.io.locations import check_different, table_location_of
        from ticdc_bridge.spark_jobs.pipeline.progress import print_counts, print_lines
        from ticdc_bridge.spark_jobs.streaming import lineage

        for code in self.reason:
            if code not in ERRORS:
                nearest = get_close_matches(code.upper(), ERRORS, n=1)
                meant = f": did you mean {nearest[0]}?" if nearest else "."
                details = f"--reason {code} is not known{meant} Known: {', '.join(sorted(ERRORS))}"
                raise SetupError("USAGE", details=details)
        kafka, settings = kafka_of(self), spark_settings(self, table_location_of(self.source) is not None, self.source)
        check_different({"--in": self.source, "--out": self.out})
        choice = LetterFilter(frozenset(self.reason), self.since, self.max_attempts)
        done = replay(_letters(self.source, kafka, settings), choice, message_sink(self.out, kafka))
        edges = [lineage.edge(topic, rows) for topic, rows in sorted(done.topics.items(), key=repr)]
        lineage.send(
            self.lineage,
            {"job": self.job or "replay", "command": "replay", "from": "dead-letter", "to": "message",
             "source": self.source, "target": self.out, "tables": edges, "messages": done.read, "written": done.sent,
             "failed": done.tired + done.unread},
        )  # fmt: skip
        if self.json:
            counts = {"read": done.read, "sent": done.sent, "left_out": done.left, "too_many_attempts": done.tired}
            print_counts("replay", counts | {"unreadable": done.unread}, True, done.exit_code)
        else:
            print_lines("replay", done.lines())
        return done.exit_code


def _letters(location: str, kafka: KafkaClient, settings: SparkSettings) -> Callable[[], Incoming]:
    """Reads the place, and once more when it is called again; what can be read only once (a pipe) is kept in memory."""
    from ticdc_bridge.spark_jobs.io.endpoints import read_source
    from ticdc_bridge.spark_jobs.io.locations import table_location_of, topic_of_location
    from ticdc_bridge.spark_jobs.io.object_paths import path_of
    from ticdc_bridge.spark_jobs.pipeline.progress import show_progress

    if (table := table_location_of(location)) is not None:
        return lambda: show_progress(_of_table(table, settings), "replay")
    if topic_of_location(location) is None and not (path_of(location).is_file() or path_of(location).is_dir()):
        letters = list(read_source(location, kafka))
        return lambda: letters
    return lambda: show_progress(read_source(location, kafka), "replay")


def _of_table(location: TableLocation, settings: SparkSettings) -> Iterator[Message]:
    """The rows of a table of the lake with Kafka's columns. SetupError USAGE for any other place."""
    from ticdc_bridge.spark_jobs.io.message_files import message_of_row
    from ticdc_bridge.spark_jobs.lake import tables
    from ticdc_bridge.spark_jobs.lake.engines.base import AUTO

    spark = tables.session(settings, [location.format])
    table = tables.engine_of(spark, AUTO, location.format)(spark, location.name)
    frame = table.read() if table.exists() else None
    if frame is None or not {"key", "value", "headers"} <= set(frame.columns):
        raise SetupError("USAGE", details=f"--in {location}: no table of dead letters")
    for row in frame.toLocalIterator():
        yield message_of_row(row.asDict(recursive=True))
