"""Typed batches from JSON held to the formats' own decoders, and rows to do it with."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pyarrow

from benchmarks.json_formats import short
from tests.spark_jobs.arrow.test_table_rows_craft import COLUMNS, wide_rows
from tests.support.arrow_rows import check_rows
from tests.support.rows import column, table
from tests.support.table_decoders import ArrowJsonDecoder
from ticdc_bridge.schemas.formats.base import Context, Decoder, SingleTable
from ticdc_bridge.schemas.inspect.format_lookup import format_named
from ticdc_bridge.schemas.model.errors import WireError
from ticdc_bridge.schemas.model.event import MAX_TSO, Message, RowChange
from ticdc_bridge.schemas.model.table import Table, TableVersion

pa: Any = pyarrow


def by_python(reader: Decoder, of: Table, message: Message) -> list[RowChange] | None:
    """The rows, where the format's decoder finds nothing but sound rows of this table; else None."""
    try:
        events = reader.decode(message)
    except WireError:
        return None
    rows = [e for e in events if isinstance(e, RowChange) and e.table.id == of.id and not e.flags]
    return rows if len(rows) == len(events) else None


def check(
    format_: str,
    of: Table,
    messages: Sequence[Message],
    low: int = 0,
    high: int = MAX_TSO,
    decoder: ArrowJsonDecoder | None = None,
) -> int:
    """Decodes all at once: what is taken is what Python says, in order. Out: how many messages were taken."""
    decoder = decoder or ArrowJsonDecoder(format_, of, None, low, high)
    arrays = [pa.array([getattr(m, field) for m in messages], pa.binary()) for field in ("value", "key")]
    batches, left = decoder.decode(*arrays)
    taken = sorted(set(range(len(messages))) - set(left))
    source = SingleTable(TableVersion(0, of))
    reader = format_named(format_).decoder(Context(source, source))
    wanted: list[tuple[int, RowChange]] = []
    for index in taken:
        rows = by_python(reader, of, messages[index])
        assert rows, f"message {index} was taken: {messages[index]}"
        assert all(row.commit_ts is not None and low <= row.commit_ts <= high for row in rows)
        wanted += [(index, row) for row in rows]
    check_rows(batches, wanted, decoder.columns)
    return len(taken)


SETTINGS: dict[str, tuple[dict[str, Any], ...]] = {
    "debezium": tuple(
        {"on_lossy": "flag", **more}
        for more in (
            {},
            {"debezium_disable_schema": True, "no_old_value": True},
            {"enable_tidb_extension": True, "cluster_id": 'é"x'},
        )
    ),
    "open": ({"max_batch_size": 1}, {"max_batch_size": 16}),
    "open-tiflow": ({"max_batch_size": 5},),
}


def wide(count: int) -> tuple[Table, list[RowChange]]:
    """Rows of 20 columns with old and new values, inserts and deletes among them."""
    of, rows = wide_rows(count)
    for row in rows[::7]:
        if row.after is not None:
            row.op, row.before = "c", None
    return of, [replace(r, format="made", before=short(r.before, of), after=short(r.after, of)) for r in rows]


SPAN = table(
    *(c for c, _ in COLUMNS),
    column("float", "float"),
    column("bit1", "bit", length=1),
    column("varbinary", "varbinary"),
    column("micros", "datetime", scale=6),
    column("preset", "int", has_default=True, default="7"),
    column("word", "varchar", has_default=True, default="a"),
    column("must", "date", nullable=False),
)
