"""JSON formats, 20-column rows with old and new values: typed batches against `json.loads` and Python conversions.

Both read the same messages into the same typed values; that is checked before anything counts. CPU time of one process.
"""

import time
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from benchmarks.craft import changes, check_read, timed
from benchmarks.figures import Figure, Run
from benchmarks.json_python import PythonDebezium, PythonOpen
from ticdc_bridge.schemas.formats.base import Context, SingleTable
from ticdc_bridge.schemas.inspect import format_lookup
from ticdc_bridge.schemas.model import values
from ticdc_bridge.schemas.model.event import Message, Row, RowChange
from ticdc_bridge.schemas.model.options import Options
from ticdc_bridge.schemas.model.table import Table, TableVersion

ROWS, QUICK_ROWS = 50_000, 10_000
_ROUNDS = 5
_TARGET = 3.0
CASES: tuple[tuple[str, str, dict[str, Any]], ...] = (
    ("debezium-schema", "debezium", {"on_lossy": "flag"}),
    ("debezium-noschema", "debezium", {"on_lossy": "flag", "debezium_disable_schema": True}),
    ("open", "open", {"max_batch_size": 16}),
    ("open-tiflow", "open-tiflow", {"max_batch_size": 16}),
)


def short(row: Row | None, table: Table) -> Row | None:
    """A row whose DECIMALs have 15 digits at most: Debezium carries no more, others are left to the plain decoder."""
    if row is None:
        return None
    out = dict(row)
    for column in table.columns:
        text = out.get(column.name)
        if column.type.name == "decimal" and isinstance(text, str):
            unscaled = int(text.replace(".", ""))
            out[column.name] = values.decimal_text(
                abs(unscaled) % 10**15 * (-1 if unscaled < 0 else 1), column.scale or 0
            )
    return out


def encoded(format_: str, options: dict[str, Any], events: Sequence[RowChange], table: Table) -> list[Message]:
    """The messages of some changes."""
    context = Context(SingleTable(TableVersion(0, table)), None, Options.of(options))
    encoder = format_lookup.format_named(format_).encoder(context)
    if "max_batch_size" in options:
        return encoder.encode_rows(events, Message(None, None))  # type: ignore[attr-defined, no-any-return]
    return [m for event in events for m in encoder.encode(event, Message(None, None))]


def run(run: Run) -> Iterator[Figure]:
    """Figures of decoding. RuntimeError without numba, or when the two sides differ."""
    import pyarrow as pa

    from tests.support.table_decoders import ArrowJsonDecoder, warm_json
    from ticdc_bridge.schemas.columnar.kernels.jit import COMPILED

    if not COMPILED:
        raise RuntimeError("numba is not installed")
    count = run.rows or (QUICK_ROWS if run.quick else ROWS)
    rounds = 3 if run.quick else _ROUNDS
    table, found = changes(count)
    events = [replace(e, format="made", before=short(e.before, table), after=short(e.after, table)) for e in found]
    run.say("compiling the kernels, or loading them")
    started = time.process_time()
    warm_json()
    yield Figure("json.warm", time.process_time() - started, "s", "less", note="compiled, or from the cache")
    for name, format_, options in CASES:
        run.say(f"{name}: {count:,} updates of 20 columns")
        messages = encoded(format_, options, events, table)
        keys, texts = [m.key or b"" for m in messages], [m.value or b"" for m in messages]
        arrays: tuple[Any, Any] = (pa.array(texts, pa.binary()), pa.array(keys, pa.binary()))
        fast = ArrowJsonDecoder(format_, table)
        plain = (PythonDebezium if format_ == "debezium" else PythonOpen)(table)
        batches, left = fast.decode(*arrays)
        check_read(pa.Table.from_batches(batches), plain.decode(keys, texts), left)
        ours = timed(partial(fast.decode, *arrays), rounds) / count * 1e6
        theirs = timed(partial(plain.decode, keys, texts), rounds) / count * 1e6
        yield Figure(f"json.{name}.cpu-vs-python", ours, "us/row", "less", theirs, _TARGET, f"{count} rows")
        part = messages[: max(1, len(messages) // 10)]
        source = SingleTable(TableVersion(0, table))
        reader = format_lookup.format_named(format_).decoder(Context(source, source))
        cost = timed(partial(list, map(reader.decode, part)), 1) / (count * len(part) / len(messages)) * 1e6
        yield Figure(f"json.{name}.cpu-vs-events", ours, "us/row", "less", cost, None, "events in plain form")
