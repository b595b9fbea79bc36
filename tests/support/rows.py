"""Tables and changes made by hand, and one way through both formats."""

import json
from dataclasses import replace
from typing import Any

from tests.support.golden import Registry
from ticdc_bridge.schemas.formats.base import Context, Decoder, Encoder
from ticdc_bridge.schemas.inspect.format_lookup import format_named
from ticdc_bridge.schemas.model.errors import WireError
from ticdc_bridge.schemas.model.event import Event, Message, Op, Row, RowChange
from ticdc_bridge.schemas.model.options import Options
from ticdc_bridge.schemas.model.table import Column, Table, TableId, TableVersion
from ticdc_bridge.schemas.model.types import BY_NAME

COMMIT_TS = 463299738777157634
ORIGIN = Message(None, None, "shop.t", 0, 7, 1_767_348_246_678)
ID = Column("id", BY_NAME["int"], nullable=False, handle_key=True, primary_key=True)


def column(name: str, kind: str, **more: Any) -> Column:
    return Column(name, BY_NAME[kind], **more)


def table(*columns: Column, db: str = "shop", name: str = "t") -> Table:
    return Table(TableId(db, name), (ID, *columns))


def change(
    of: Table, after: Row | None, before: Row | None = None, op: Op | None = None, format_: str = "made", **more: Any
) -> RowChange:
    """A row change; `id` is 1 where the row does not say."""
    rows = [None if row is None else {"id": "1", **row} for row in (before, after)]
    guess: Op = "c" if before is None else "d" if after is None else "u"
    keys = tuple(c.name for c in of.columns if c.handle_key)
    settings = {"commit_ts": COMMIT_TS, "zone": "UTC", **more}
    return RowChange(format_, of, op or guess, before=rows[0], after=rows[1], key=keys, **settings)


class Tables:
    """A TableSource that always has the same table."""

    def __init__(self, table_: Table) -> None:
        self.version = TableVersion(1, table_)

    def at(self, table: TableId, commit_ts: int | None) -> TableVersion | None:
        return self.version if table.folded == self.version.table.id.folded else None

    def sanitised(self, table: TableId, columns: tuple[str, ...], commit_ts: int | None) -> TableVersion | None:
        return self.version


class Pair:
    """Encoder and decoder of a format that share a registry."""

    def __init__(self, name: str, tables: Tables | None = None, **options: Any) -> None:
        self.options, self.registry = Options.of(options), Registry()
        row = format_named(name)
        self.encoder: Encoder = row.encoder(Context(self.registry, None, self.options))
        # A reader knows its zone and definitions, nothing of the writer's options.
        read = Options.of({"time_zone": self.options.time_zone})
        self.decoder: Decoder = row.decoder(Context(self.registry, tables, read))

    def write(self, event: Event) -> Message:
        [message] = self.encoder.encode(event, ORIGIN)
        return message

    def through(self, event: Event) -> RowChange:
        """What a reader gets of the event."""
        [again] = self.decoder.decode(self.write(event))
        assert isinstance(again, RowChange)
        return again

    def refusal(self, event: Event) -> WireError:
        """The error with which the event is not written."""
        try:
            written = self.write(event)
        except WireError as error:
            return error
        raise AssertionError(f"it was written: {written}")


def payload(message: Message) -> dict[str, Any]:
    """The payload of a Debezium message."""
    assert message.value is not None
    return dict(json.loads(message.value)["payload"])


def field(message: Message, name: str) -> dict[str, Any]:
    """A column's schema in a Debezium message."""
    assert message.value is not None
    images = json.loads(message.value)["schema"]["fields"]
    [found] = [f for f in images[1]["fields"] if f["field"] == name]
    return dict(found)


def fresh(event: RowChange) -> RowChange:
    """The event without the flags it collected."""
    return replace(event, flags=[])
