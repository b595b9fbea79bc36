"""An event → a form of a format → the event that a reader gets of it, and what is different then."""

import json
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from functools import cache
from typing import Any

from tests.support.golden import CONNECTORS, Golden, Registry
from ticdc_bridge.schemas.formats.base import Decoder
from ticdc_bridge.schemas.inspect.losses import (
    LOSSES,
    EventDifference,
    Loss,
    ValuePair,
    WrittenValue,
    differences,
    explains,
    makes,
)
from ticdc_bridge.schemas.model.errors import LossyError, WireError
from ticdc_bridge.schemas.model.event import DdlEvent, Event, Message, RowChange, Watermark, tso_physical_ms
from ticdc_bridge.schemas.model.options import Options
from ticdc_bridge.spark_jobs.pipeline.codec_config import CodecConfig
from ticdc_bridge.spark_jobs.pipeline.message_codec import decode_message, transcode_message

_EXT = {"enable_tidb_extension": True}
_STRINGS = {"avro_decimal_handling_mode": "string", "avro_bigint_unsigned_handling_mode": "string"}
_PRECISE = {"bigint_unsigned_handling_mode": "precise"}
FORMS: dict[str, dict[str, Any]] = {
    "avro": _EXT, "avro/before": {**_EXT, "avro_include_before_value": True}, "craft": {}, "open": {},
    "open-tiflow": {}, "debezium": {}, "debezium/ext": _EXT,
    "debezium-avro": {"avro_bigint_unsigned_handling_mode": "string"}, "debezium-mysql": _PRECISE,
    "debezium-tidb": _PRECISE,
}  # fmt: skip
MORE_FORMS: dict[str, dict[str, Any]] = {
    "avro/strings": {**_EXT, **_STRINGS}, "debezium/noschema": {"debezium_disable_schema": True},
    "debezium-avro/long": {}, "debezium-avro/strings": {**_EXT, **_STRINGS},
    "debezium-mysql/avro": {**_PRECISE, "encoding_format": "avro"}, "debezium-mysql/long": {},
    "debezium-mysql/double": {**_PRECISE, "decimal_handling_mode": "double"},
    "debezium-mysql/connect": {**_PRECISE, "time_precision_mode": "connect"},
    "debezium-mysql/isostring": {**_PRECISE, "time_precision_mode": "isostring"},
    "debezium-mysql/nanoseconds": {**_PRECISE, "time_precision_mode": "nanoseconds"},
    "debezium-mysql/noschema": {
        "debezium_disable_schema": True, "decimal_handling_mode": "string", "bigint_unsigned_handling_mode": "precise",
        "time_precision_mode": "adaptive_time_microseconds", "binary_handling_mode": "hex",
    },
}  # fmt: skip
# What the reader of a form has to be told, as its messages do not say it.
_TOLD = ("time_precision_mode", "decimal_handling_mode", "binary_handling_mode")


@dataclass
class Tally:
    """What happened on a way: events that came back, differences and refusals by loss, and what nothing explains."""

    same: int = 0
    used: Counter[tuple[int, str]] = field(default_factory=Counter)
    refused: Counter[str] = field(default_factory=Counter)
    unexplained: list[str] = field(default_factory=list)


class Given:
    """A decoder that has its events already."""

    def __init__(self, event: Event) -> None:
        self.event = event

    def decode(self, message: Message) -> list[Event]:
        return [self.event]


class Passage:
    """One form, with a registry and definitions (None: without)."""

    def __init__(self, form: str, zone: str, tables: Any, options: dict[str, Any] | None = None) -> None:
        self.form, self.format = form, form.partition("/")[0]
        self.defined = tables is not None
        chosen = {**FORMS, **MORE_FORMS}[form] if options is None else options
        registry: Any = Registry()
        self._writers = [
            CodecConfig(
                self.format, registry, Options.of({**chosen, "time_zone": zone, "on_lossy": mode}), tables
            ).encoder()
            for mode in ("error", "flag")
        ]
        reported = {k: v for k, v in chosen.items() if k in _TOLD and self.format in CONNECTORS}
        self._reader = CodecConfig(self.format, registry, Options.of({**reported, "time_zone": zone}), tables).decoder()

    def send(self, event: RowChange, origin: Message, lossy: bool = False) -> tuple[RowChange, RowChange | WireError]:
        """(the event with the flags it got, what comes back of it). WireError where it is not written."""
        event = replace(event, flags=list(event.flags))
        origin = replace(origin, topic=f"t.{event.db}.{event.table_name}")
        result = transcode_message(Given(event), self._writers[lossy], origin)
        if result.error is not None:
            raise result.error
        return event, self._read(result.out)

    def _read(self, messages: list[Message]) -> RowChange | WireError:
        """What a reader gets: one row (a tombstone is none), or the error that the message is to it."""
        try:
            events = [e for message in messages for e in self._reader.decode(message)]
        except WireError as error:
            return error
        *deleted, last = events
        assert isinstance(last, RowChange)
        if not deleted:
            return last
        # The connectors have an update of the key as a delete and an insert.
        [old] = deleted
        assert isinstance(old, RowChange)
        assert (old.op, last.op) == ("d", "c")
        return replace(last, op="u", before=old.before, flags=[*dict.fromkeys((*old.flags, *last.flags))])

    def check(self, event: RowChange, origin: Message, tally: Tally) -> None:
        """Sends the event, strictly and (where that is refused) with losses flagged; tallies what happened."""
        for lossy in (False, True):
            try:
                sent, seen = self.send(event, origin, lossy)
            except WireError as error:
                self._refused(event, error, tally)
                if isinstance(error, LossyError) and not lossy:
                    continue
                return
            if isinstance(seen, WireError):
                self._explain(EventDifference("unread", None, event.op, str(seen)), sent, sent, tally)
                return
            found = list(differences(sent, seen, self.defined, self.format))
            for entry in found:
                self._explain(entry, sent, seen, tally)
            tally.same += not found
            return

    def _refused(self, event: RowChange, error: WireError, tally: Tally) -> None:
        tally.refused[error.code] += 1
        cells = [None, *self._cells(event, error.fields.get("column", ""))]
        for loss in LOSSES:
            about = any(explains(loss, cell) for cell in cells if cell or len(cells) == 1)
            if about and loss.error == error.code and applies(loss, self.form, self.defined):
                tally.used[loss.row, loss.what] += 1
                return
        tally.unexplained.append(f"{event.table.id} {event.op} refused: {error.code} {error.detail}"[:300])

    def _cells(self, event: RowChange, name: str) -> Iterator[WrittenValue]:
        column = event.table.by_name.get(name)
        if column is not None:
            for row in (event.before, event.after):
                yield WrittenValue(column, (row or {}).get(name), event, self.defined)

    def _explain(self, found: EventDifference, sent: RowChange, seen: RowChange, tally: Tally) -> None:
        column = found.cell.column.name if found.cell else ""
        flags = {*sent.flags, *seen.flags}
        pair = ValuePair(found.cell.column if found.cell else None, found.first, found.second, sent, seen)
        for loss in LOSSES:
            reported = not loss.flag or {loss.flag, f"{loss.flag}:{column}"} & flags
            about = loss.where == found.where and applies(loss, self.form, self.defined)
            if reported and about and explains(loss, found.cell) and makes(loss, pair):
                tally.used[loss.row, loss.what] += 1
                return
        tally.unexplained.append(f"{found} {sorted(flags)}"[:400])


# ---------------------------------------------------------------------------------- sources
@cache
def _source(golden: Golden, defined: bool) -> tuple[tuple[Event, Message], ...]:
    return tuple(read_all(golden, golden.side(defined).decoder()))


def read_all(golden: Golden, decoder: Decoder) -> list[tuple[Event, Message]]:
    """What a decoder reads of a golden case, with the messages it came in."""
    moments = _moments(golden)
    out: list[tuple[Event, Message]] = []
    for index, message in enumerate(golden.messages()):
        origin = replace(message, timestamp=moments[index], offset=index)
        out += [(event, origin) for event in decode_message(decoder, origin).events]
    return out


def source_rows(golden: Golden, defined: bool) -> list[tuple[RowChange, Message]]:
    """The rows of a golden case with the messages they came in.

    A message's timestamp is the millisecond after the commit's, as Kafka's would be; the formats without commit_ts
    need one. Messages that can't be read (a record without key and value) are other tests' business.
    """
    return [(event, origin) for event, origin in _source(golden, defined) if isinstance(event, RowChange)]


def source_others(golden: Golden) -> list[tuple[DdlEvent | Watermark, Message]]:
    """The statements and watermarks of a golden case with the messages they came in."""
    return [(event, origin) for event, origin in _source(golden, True) if not isinstance(event, RowChange)]


def _moments(golden: Golden) -> list[int]:
    """Milliseconds of each message: of its step in the meta; of the last step where it tells none."""
    steps = {step["step"]: step.get("commit_ts") or 0 for step in golden.meta["steps"]}
    last = max(steps.values(), default=0)
    lines = golden.messages_file.read_text(encoding="utf-8").splitlines()
    return [tso_physical_ms(steps.get(json.loads(line).get("step"), last) or last) + 1 for line in lines if line]


def applies(loss: Loss, to: str, defined: bool) -> bool:
    """True if a loss can happen in a form of a format."""
    return (to in loss.to or to.partition("/")[0] in loss.to) and not (loss.undefined and defined)
