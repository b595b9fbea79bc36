"""What a job does with what the codec made: duplicates left out, rows held until nothing can come before them."""

from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from typing import Generic, TypeVar

from ticdc_bridge.schemas.model.errors import SetupError, WireError
from ticdc_bridge.schemas.model.event import Message
from ticdc_bridge.spark_jobs.io.endpoints import DeadLetters
from ticdc_bridge.spark_jobs.pipeline.event_order import EventOrder
from ticdc_bridge.spark_jobs.pipeline.job import Job
from ticdc_bridge.spark_jobs.pipeline.message_codec import position_text
from ticdc_bridge.spark_jobs.pipeline.result import Summary

T = TypeVar("T")


class WatermarkBuffer(Generic[T]):
    """The stages of one run over all of its input. What passes is counted in `summary`.

    Held rows are kept in memory: a run to the end of a topic needs room for what is above its last watermark and, as a
    topic is read partition by partition, for all but the last partition.
    """

    def __init__(self, job: Job, summary: Summary) -> None:
        self._job, self._summary = job, summary
        self._seen: set[bytes] = set()
        self._held: list[tuple[int, int, int, list[T]]] = []
        self._resolved: dict[int | None, int] = {}
        self._partitions: set[int | None] = set()

    def take(
        self, items: Iterable[T], marks: Sequence[EventOrder], partition: int | None, resolved: int | None
    ) -> Iterator[T]:
        """What is to be written now of the items of one message."""
        if not self._job.needs_order:
            yield from items
            return
        self._partitions.add(partition)
        if resolved is not None:
            self._resolved[partition] = max(resolved, self._resolved.get(partition, 0))
        following = iter(items)
        for mark in marks:
            entry = list(islice(following, mark.count))
            if self._job.dedupe and mark.id:
                if mark.id in self._seen:
                    self._summary.skipped["duplicate"] += 1
                    continue
                self._seen.add(mark.id)
            if mark.commit_ts is None or not self._job.until_resolved:
                if mark.is_row and self._job.until_resolved:
                    details = "--until-resolved: a change has no commit_ts to compare with the watermark"
                    raise SetupError("USAGE", details=details)
                yield from entry
                continue
            self._held.append((mark.commit_ts, mark.rank, len(self._held), entry))

    def rest(self) -> Iterator[T]:
        """At the end: what all partitions' watermarks cover, by commit_ts. SetupError USAGE where none came."""
        if not self._job.until_resolved:
            return
        if self._held and not self._resolved:
            raise no_watermark_error()
        covered = self._partitions <= self._resolved.keys()
        resolved = min(self._resolved.values(), default=0) if covered else -1
        for commit_ts, _, _, item in sorted(self._held, key=lambda entry: entry[:3]):
            if commit_ts <= resolved:
                yield from item
            else:
                self._summary.held += 1


def no_watermark_error() -> SetupError:
    details = "--until-resolved: the source sends no watermark (enable it in the changefeed, or leave this out)"
    return SetupError("USAGE", details=details)


def handle_failure(job: Job, error: WireError, message: Message, dead: DeadLetters | None, summary: Summary) -> None:
    """A message that failed goes where the job sends it. SetupError STOPPED with on_error=fail."""
    if job.on_error == "fail":
        raise SetupError("STOPPED", where=position_text(message), details=f"{error.code}: {error.detail}")
    if job.on_error == "drop":
        summary.dropped += 1
    elif dead is not None:
        dead.write(error, message)
