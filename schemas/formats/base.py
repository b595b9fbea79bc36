"""What every wire format is: a decoder from messages to events, and an encoder back."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Protocol, runtime_checkable

from ticdc_bridge.schemas.model.errors import Hint, LossyError, SetupError, WireError
from ticdc_bridge.schemas.model.event import MAX_TSO, DdlEvent, Event, Message, Row, RowChange, ms_to_tso
from ticdc_bridge.schemas.model.options import Options
from ticdc_bridge.schemas.model.ports import ClaimChecks, SchemaId, SchemaSource, TableSource
from ticdc_bridge.schemas.model.table import TableId, TableVersion


@dataclass(frozen=True, slots=True)
class Context:
    """What a codec works with: schemas by id, tables by time (None: types come from the message), options.

    claims: contents of claim-check messages; without it such a message is an error. table: the one table whose rows are
    asked for, if it is one: rows that do not say theirs are taken for its.
    """

    schemas: SchemaSource
    tables: TableSource | None = None
    options: Options = field(default_factory=Options)
    claims: ClaimChecks | None = None
    table: TableId | None = None

    def table_by_option(self, topic: str | None) -> TableId | None:
        """The table of a row that does not say whose it is, by the options; None where they do not say."""
        if self.options.table:
            return TableId(*self.options.table.partition(".")[::2])
        return table_of_name(topic) if self.options.table_from_topic and topic else None


def table_of_name(name: str) -> TableId | None:
    """`prefix.db.table` → the table; None for a name of fewer parts."""
    names = name.split(".")
    return TableId(names[-2], names[-1]) if len(names) >= 3 and all(names) else None


class Decoder(Protocol):
    def decode(self, message: Message) -> list[Event]:
        """One message → its events in order. WireError when it can't be read; then none of its events counts."""


class Encoder(Protocol):
    """Writes one format. `topic_of`, if it has that method, names the topic of an event where the user names none."""

    def encode(self, event: Event, origin: Message) -> list[Message]:
        """One event → its messages, on the topic of `origin`. Empty: the format can't carry this kind of event.

        WireError (LossyError) when a value can't be written. A row is never left out.
        """


@dataclass(frozen=True, slots=True)
class FieldPosition:
    """Where one field of a message stands: `raw` is at `offset` of `part` ("key" or "value").

    row: the event it is of, counted from 0. image: "before", "after", "key", or "" for what is no column. name: the
    column's, as the message has it. wire: the field's type on the wire. value: what it says, where it is no column.
    """

    part: str
    offset: int
    raw: bytes
    wire: str
    image: str
    name: str
    row: int = 0
    value: str = ""


class SchemasInMemory:
    """A registry in memory, for what a message would be in another format: nothing is registered anywhere."""

    def __init__(self) -> None:
        self._texts: list[str] = []

    def by_id(self, schema_id: SchemaId, where: str, subject: str | None = None) -> str:
        if not isinstance(schema_id, int) or not 0 < schema_id <= len(self._texts):
            raise WireError("UNKNOWN_SCHEMA_ID", where=where, id=schema_id, source="explain")
        return self._texts[schema_id - 1]

    def newest(self, subject: str) -> str | None:
        return None

    def id_of(self, subject: str, schema: str) -> SchemaId:
        self._texts.append(schema)
        return len(self._texts)


class SingleTable(SchemasInMemory):
    """A TableSource of one version; as a SchemaSource it begins with none (formats in JSON need none to be read)."""

    def __init__(self, version: TableVersion) -> None:
        super().__init__()
        self._version = version

    def at(self, table: TableId, commit_ts: int | None) -> TableVersion | None:
        return self._version if table.folded == self._version.table.id.folded else None

    def sanitised(self, table: TableId, columns: tuple[str, ...], commit_ts: int | None) -> TableVersion | None:
        return None


@runtime_checkable
class FieldLocator(Protocol):
    """A decoder that can say where each field of a message stands (`explain`)."""

    def trace(self, message: Message) -> list[FieldPosition]:
        """The fields of a message that it decodes. WireError as `decode`."""


@runtime_checkable
class BatchEncoder(Encoder, Protocol):
    """An encoder of a format whose messages hold several rows."""

    def encode_rows(self, rows: Sequence[RowChange], origin: Message) -> list[Message]:
        """The rows of one source message → messages with as many rows each as the options allow, in order."""


@dataclass(frozen=True, slots=True)
class Format:
    """A row of FORMATS. `zone` is the zone of TIMESTAMP text it decodes to, None: the changefeed's (an option).

    carries_ddl: DDL events stand between its rows, and their tables can be learned from them.
    needs_schemas: no message can be read without a registry; uses_schemas: some can't, those in JSON can.
    writes: it has an encoder.
    protocols: what TiCDC calls it in `protocol=` of a sink URI; none where TiCDC does not write it, or calls it by
    another format's name.
    names_topics: its encoder has `topic_of`.
    in_order: a message may need what an earlier one told, so that one decoder must read all of a stream.
    """

    name: str
    decoder: Callable[[Context], Decoder]
    encoder: Callable[[Context], Encoder]
    zone: str | None = None
    needs_schemas: bool = False
    carries_ddl: bool = False
    uses_schemas: bool = False
    in_order: bool = False
    writes: bool = True
    protocols: tuple[str, ...] = ()
    names_topics: bool = False


def refuse_encoder(name: str) -> Callable[[Context], Encoder]:
    """The encoder of a format that is read and not written: SetupError USAGE says so."""

    def refuse(_context: Context) -> Encoder:
        raise SetupError("USAGE", details=f"{name} is read, not written: choose another format to write")

    return refuse


_CHANGED = {
    "lossy_decimal": "the message has it as a double, rounded; {} writes the digits that are left",
    "float_damaged": "TiCDC damaged this FLOAT in the Craft message; {} writes the number that is there",
}


def says_changed(flag: str) -> bool:
    """True if a row's flag says that its message had changed a value: what `refuse_changed` refuses."""
    return flag.partition(":")[0] in _CHANGED


def refuse_changed(event: RowChange, options: Options, keeps: str = "") -> None:
    """LossyError for a value that its message had changed already: written again, it would look exact.

    keeps: the flag of what the target holds just as the message did.
    """
    if options.on_lossy != "error":
        return
    for flag in event.flags:
        name, _, column = flag.partition(":")
        if name in _CHANGED and name != keeps:
            raise LossyError("LOSSY_VALUE", column=column, details=_CHANGED[name].format(Hint.ON_LOSSY_FLAG))


def complete_before(event: RowChange) -> Row | None:
    """An event's old row. Of an update it is whole: a column that the message left out has not changed (TiCDC's
    only-output-updated-columns; Canal's `old`), unless a flag says that its old value is not known.
    """
    before, after = event.before, event.after
    if event.op != "u" or before is None or after is None or before.keys() >= after.keys():
        return before
    unknown = {f.partition(":")[2] for f in event.flags if f.startswith(("value_not_sent:", "old_value_unnamed:"))}
    return {**{name: value for name, value in after.items() if name not in unknown}, **before}


def commit_ts_of(event: RowChange | DdlEvent) -> int | None:
    """The event's commit_ts, or one made from the commit's time that its message has (flagged); None without both.

    A made one keeps the order of changes: the time in ms (of a connector's source block, or Canal's `es`), then the
    position in the binlog where there is one. WireError INVALID_VALUE for one that no TiDB gives.
    """
    if event.commit_ts is not None:
        return checked_commit_ts(event.commit_ts)
    source = event.extra.get("source", {"ts_ms": event.extra.get("es")})
    if isinstance(source, dict):
        ms, pos, row = (source.get(name) for name in ("ts_ms", "pos", "row"))
        if isinstance(ms, int) and 0 < ms_to_tso(ms) <= MAX_TSO:
            offset = sum(n for n in (pos, row) if isinstance(n, int)) % ms_to_tso(1)
            return _made_commit_ts(event, ms_to_tso(ms) | offset)
    return None


def required_commit_ts(event: RowChange | DdlEvent, origin: Message, options: Options) -> int | None:
    """As `commit_ts_of`, for a format that has no null there: else it is made from Kafka's timestamp.

    None without a timestamp. LossyError for a row's delete with on_lossy=error: rows beside it may have commit_ts of
    their own (TiCDC's Avro), and Kafka's time can lie after that of an insert which follows. Not where it is `untimed`.
    """
    if (commit_ts := commit_ts_of(event)) is not None:
        return commit_ts
    if isinstance(event, RowChange) and event.op == "d" and not event.untimed and options.on_lossy == "error":
        details = (
            f"this delete came without one; {Hint.ON_LOSSY_FLAG} writes the time of Kafka's record, "
            "which can be later than the commit_ts of an insert that follows"
        )
        raise LossyError("LOSSY_VALUE", column="commit_ts", details=details)
    ms = record_time(origin)
    return None if ms is None else _made_commit_ts(event, ms_to_tso(ms))


def record_time(origin: Message) -> int | None:
    """Kafka's timestamp of a message in ms, None where it has none."""
    return origin.timestamp if origin.timestamp is not None and origin.timestamp > 0 else None


def _made_commit_ts(event: RowChange | DdlEvent, commit_ts: int) -> int:
    if isinstance(event, RowChange):
        event.flag("synthetic_commit_ts")
    return checked_commit_ts(commit_ts)


def checked_commit_ts(commit_ts: int) -> int:
    """WireError INVALID_VALUE for one that no TiDB gives."""
    if not 0 <= commit_ts <= MAX_TSO:
        raise WireError("INVALID_VALUE", column="commit_ts", details=f"{commit_ts} is no TSO (physical ms << 18)")
    return commit_ts
