"""Messages of one changefeed → a batch for its history."""

import logging
from dataclasses import replace

from ticdc_bridge.schemas.formats.base import Context, Decoder
from ticdc_bridge.schemas.inspect.format_lookup import format_named
from ticdc_bridge.schemas.model.errors import WireError
from ticdc_bridge.schemas.model.event import Bootstrap, DdlEvent, Message, RowChange, Watermark
from ticdc_bridge.service.history.model import Batch, Drift, PartitionKey, clean
from ticdc_bridge.service.tracker.events import MAY_LACK_WATERMARKS, UnusableEvent, record_of, records_of_line
from ticdc_bridge.service.tracker.progress import Progress
from ticdc_bridge.service.tracker.row_validation import RowValidator
from ticdc_bridge.service.tracker.sources import SourceBatch

_LOG = logging.getLogger("service")
_LOGGED, _EVERY = 20, 1000


class EventReader:
    """Reads in order; unreadable messages are counted. positions: where partitions were read to, to count once."""

    def __init__(
        self,
        changefeed: str,
        format_: str,
        context: Context,
        observer: RowValidator,
        progress: Progress,
        offsets: dict[PartitionKey, tuple[int | None, int | None]],
    ) -> None:
        self._changefeed = changefeed
        self._decoder: Decoder = format_named(format_).decoder(context)
        self._observer, self._progress = observer, progress
        self._positions: dict[PartitionKey, int | None] = {
            partition: offset for partition, (offset, _) in offsets.items()
        }
        self._partitions: set[PartitionKey] = set(offsets)
        self.watermarked = any(watermark is not None for _, watermark in offsets.values())

    def batch(self, read: SourceBatch) -> Batch:
        """The events to keep. Offsets behind messages without any use are in it too."""
        batch = Batch(partitions=set(read.partitions))
        self._partitions |= read.partitions
        for code, detail in read.bad:
            self._note_failure(code, detail)
        for gap in read.gaps:
            batch.drift.append(Drift(self._changefeed, "gap", "", "", 0, gap))
        for message in read.messages:
            self._message(message, batch)
        for line in read.ddl:
            self._line(line, batch)
        if batch.watermarks:
            self.watermarked = True
        elif not self.watermarked:
            # No partition has ever had a watermark, and the format may have none: waiting for one is no use.
            batch.records = [
                replace(record, unsealed_source=record.unsealed_source or record.format in MAY_LACK_WATERMARKS)
                for record in batch.records
            ]
        return batch

    def _message(self, message: Message, batch: Batch) -> None:
        partition = (clean(message.topic or ""), message.partition or 0)
        if message.offset is not None:
            position = self._positions.get(partition)
            if position is not None and message.offset < position:
                self._progress.skipped["read before"] += 1
                return
            batch.expected.setdefault(partition, position or 0)
            batch.offsets[partition] = message.offset + 1
            self._positions[partition] = message.offset + 1
        if partition not in self._partitions:
            self._partitions.add(partition)
            batch.partitions.add(partition)
        self._progress.messages += 1
        try:
            for event in self._decoder.decode(message):
                self._event(event, message, partition, batch)
        except WireError as error:
            self._note_failure(error.code, f"{partition[0]}/{partition[1]}/{message.offset}: {error.detail}")
        except UnusableEvent as error:
            self._progress.skipped[str(error)] += 1
        except RecursionError:
            self._note_failure("MALFORMED", f"{partition[0]}/{partition[1]}/{message.offset}: nested too deep")
        except Exception:
            # A defect of ours must not stop the following of everything else.
            _LOG.exception("track %s: %s/%s/%s can't be read", self._changefeed, *partition, message.offset)
            self._note_failure("INTERNAL", f"{partition[0]}/{partition[1]}/{message.offset}")

    def _event(
        self, event: RowChange | DdlEvent | Watermark, message: Message, partition: PartitionKey, batch: Batch
    ) -> None:
        if isinstance(event, RowChange):
            self._progress.events["rows"] += 1
            reason = self._observer.take_row(event)
            if reason:
                self._progress.skipped[reason] += 1
        elif isinstance(event, Watermark):
            self._progress.events["watermarks"] += 1
            if 0 <= event.commit_ts < 1 << 63:
                # In a file, one that does not say which topic it is of, is of all that stand before it.
                for location in (partition,) if partition[0] else self._partitions:
                    batch.watermarks[location] = max(batch.watermarks.get(location, 0), event.commit_ts)
        else:
            self._progress.events["bootstraps" if isinstance(event, Bootstrap) else "DDL"] += 1
            batch.records.append(record_of(self._changefeed, event, message))

    def _line(self, line: dict[str, object], batch: Batch) -> None:
        try:
            records = records_of_line(self._changefeed, line)
        except UnusableEvent as error:
            self._note_failure("BAD_LINE", f"{line.get('where')}: {error}")
            return
        self._progress.events["DDL"] += len(records)
        batch.records += records

    def _note_failure(self, code: str, detail: str) -> None:
        self._progress.errors[code] += 1
        count = self._progress.errors[code]
        if count <= _LOGGED or count % _EVERY == 0:
            more = f" (of {code}, only every {_EVERY}th is logged from here on)" if count == _LOGGED else ""
            _LOG.warning("track %s: %s %s%s", self._changefeed, code, detail[:500], more)
