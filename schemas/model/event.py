"""Change events: what every wire format decodes to and encodes from.

commit_ts is a TSO: physical milliseconds << 18 | logical counter.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from ticdc_bridge.schemas.model.table import DefinitionMismatch, Table, Value
from ticdc_bridge.schemas.model.values import shift_zone

Row = Mapping[str, Value]
Op = Literal["c", "u", "d", "r"]

_LOGICAL_BITS = 18
_NO_TIMESTAMP = 0  # confluent_kafka.TIMESTAMP_NOT_AVAILABLE
_MOST_COLUMNS = 5  # that a row's flags name


MAX_TSO = (1 << 63) - 1
TRUNCATE_TABLE = 11
"""TiDB's ActionType of TRUNCATE TABLE."""


def tso_physical_ms(tso: int) -> int:
    """Milliseconds since the Unix epoch of a TSO."""
    return tso >> _LOGICAL_BITS


def ms_to_tso(milliseconds: int) -> int:
    """The first TSO of a millisecond since the Unix epoch."""
    return milliseconds << _LOGICAL_BITS


_YEAR_2015, _YEAR_2100 = ms_to_tso(1_420_070_400_000), ms_to_tso(4_102_444_800_000)


def is_likely_tso(number: int) -> bool:
    """True if a number is a TSO of TiDB's time: from 2015 to 2099."""
    return _YEAR_2015 <= number < _YEAR_2100


@dataclass(frozen=True, slots=True)
class Message:
    """One Kafka record, or one line of a message file. timestamp is in ms; headers keep order and duplicates."""

    key: bytes | None
    value: bytes | None
    topic: str | None = None
    partition: int | None = None
    offset: int | None = None
    timestamp: int | None = None
    headers: tuple[tuple[str, bytes | None], ...] = ()

    @classmethod
    def of_record(cls, record: Any) -> Message:
        """A record that confluent-kafka has read, as a message."""
        kind, timestamp = record.timestamp()
        headers = tuple((name, value) for name, value in record.headers() or ())
        stamped = None if kind == _NO_TIMESTAMP else timestamp
        return cls(record.key(), record.value(), record.topic(), record.partition(), record.offset(), stamped, headers)


@dataclass(slots=True)
class RowChange:
    """One changed row.

    before/after hold the columns that the message carries, and only these. `table` describes their types: a table
    version where one is known (then `table_version` is its commit_ts), else what the message or its schema tells.
    zone: time zone of TIMESTAMP text in this event. flags: what could not be known.
    extra: what one format carries beyond the row, used only to write that format again. key_only: a row of which the
    message has nothing but the key (a delete, or a large row that was cut). mismatch: why the definition that there is
    was not used (flags `definition_mismatch:<column>`). number: which event of its message it is, from 0. untimed: no
    row of its topic says when it was committed, so that Kafka's order is all there is.
    """

    format: str
    table: Table
    op: Op
    commit_ts: int | None
    before: Row | None
    after: Row | None
    key: tuple[str, ...]
    zone: str
    schema_id: int | None = None
    table_version: int | None = None
    flags: list[str] = field(default_factory=list)
    extra: dict[str, Any] = field(default_factory=dict)
    key_only: bool = False
    mismatch: DefinitionMismatch | None = None
    number: int = field(default=0, compare=False)
    untimed: bool = field(default=False, compare=False)

    def flag(self, name: str) -> None:
        """Adds a flag, once."""
        if name not in self.flags:
            self.flags.append(name)

    def note_mismatch(self, mismatch: DefinitionMismatch | None) -> None:
        """Says that the row was read without its table's definition; None: there was none, or it was used."""
        self.mismatch = mismatch
        for column in mismatch.columns[:_MOST_COLUMNS] if mismatch else ():
            self.flag(f"definition_mismatch:{column.name}")

    def in_zone(self, column: str, text: Value, zone: str) -> Value:
        """TIMESTAMP text of this row in another zone; flagged where either is ambiguous. ValueError."""
        if zone == self.zone:
            return text
        shifted, twice = shift_zone(str(text), self.zone, zone)
        if twice:
            self.flag(f"timestamp_fold:{column}")
        return shifted

    @property
    def db(self) -> str:
        return self.table.id.db

    @property
    def table_name(self) -> str:
        return self.table.id.table


@dataclass(slots=True)
class DdlEvent:
    """A DDL statement as received. ddl_type is TiDB's ActionType, None where the format has none (Debezium).

    schema: the table after the statement, where the message describes it (Simple).
    """

    format: str
    db: str
    table: str
    commit_ts: int | None
    ddl_type: int | None
    query: str
    extra: dict[str, Any] = field(default_factory=dict)
    schema: Table | None = field(default=None, compare=False)

    @property
    def table_name(self) -> str:
        return self.table


@dataclass(slots=True)
class Bootstrap(DdlEvent):
    """A table as a changefeed starts to send it (Simple's BOOTSTRAP): its columns, and no statement (query is "").

    schema: the table; schema_version: what rows call it by; commit_ts: of the DDL message that told this version, if
    one did. Other formats have nothing like it: it is not written.
    """

    schema_version: int = 0


@dataclass(slots=True)
class Watermark:
    """A resolved ts: no row or DDL with a commit_ts at or below it comes after it on this partition."""

    format: str
    commit_ts: int
    extra: dict[str, Any] = field(default_factory=dict)


Event = RowChange | DdlEvent | Watermark
