"""Craft, 20-column rows with old and new values: the compiled kernels against plain Python, in CPU time of one process.

Both read the same messages into the same typed values and write the same bytes; that is checked before anything counts.
"""

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from statistics import median
from typing import Any

from benchmarks import rows as made
from benchmarks.craft_python import PythonDecoder, PythonEncoder
from benchmarks.figures import Figure, Run
from ticdc_bridge.schemas.formats.base import Context, SingleTable
from ticdc_bridge.schemas.formats.craft.decoder import CraftDecoder
from ticdc_bridge.schemas.formats.craft.encoder import CraftEncoder
from ticdc_bridge.schemas.inspect.format_lookup import format_named
from ticdc_bridge.schemas.model.event import Message, Row, RowChange
from ticdc_bridge.schemas.model.options import Options
from ticdc_bridge.schemas.model.table import Table, TableVersion

ROWS, QUICK_ROWS = 100_000, 20_000
_ROUNDS = 5
_DISTINCT = 20_000  # rows made; more rows are these again
_READ, _WRITE, _TRANSCODE = 12.0, 10.0, 5.0


def changes(count: int) -> tuple[Table, list[RowChange]]:
    """Updates of the 20-column table `wide` with old and new values."""
    source = made.wide().only_newest()
    table = source.versions[0]
    found: list[RowChange] = []
    last: Row | None = None
    for row in made.changes(source, range(min(count, _DISTINCT) * 2 + 16)):
        if row.after is not None:
            if last is not None:
                found.append(replace(row, op="u", before=last))
            last = row.after
        if len(found) == min(count, _DISTINCT):
            break
    return table, (found * -(-count // len(found)))[:count]


def timed(function: Callable[[], Any], rounds: int) -> float:
    """CPU seconds of a run, the median."""
    spent = []
    for _ in range(rounds):
        started = time.process_time()
        function()
        spent.append(time.process_time() - started)
    return median(spent)


def run(run: Run) -> Iterator[Figure]:
    """Figures of decoding and encoding. RuntimeError without numba, or when the two sides differ."""
    import pyarrow as pa

    from tests.support.table_decoders import ArrowDecoder, warm_craft
    from ticdc_bridge.schemas.columnar.kernels.jit import COMPILED

    if not COMPILED:
        raise RuntimeError("numba is not installed")
    count = run.rows or (QUICK_ROWS if run.quick else ROWS)
    rounds = 3 if run.quick else _ROUNDS
    run.say(f"{count:,} updates of 20 columns, 16 in a message")
    table, events = changes(count)
    origin = Message(None, None)
    reference = CraftEncoder(Context(made.wide().schemas, None, Options()))
    messages = [m.value or b"" for m in reference.encode_rows(events, origin)]
    run.say("compiling the kernels, or loading them")
    started = time.process_time()
    warm_craft()
    yield Figure("craft.warm", time.process_time() - started, "s", "less", note="compiled, or from the cache")
    array = pa.array(messages, pa.binary())
    fast, plain = ArrowDecoder(table), PythonDecoder(table)
    batches, left = fast.decode(array)
    check_read(pa.Table.from_batches(batches), plain.decode(messages), left)
    run.say("decoding")
    ours = timed(lambda: fast.decode(array), rounds) / count * 1e6
    theirs = timed(lambda: plain.decode(messages), rounds) / count * 1e6
    yield Figure("craft.decode.cpu-vs-python", ours, "us/row", "less", theirs, _READ, f"{count} rows")
    exact = CraftDecoder(Context(made.wide().schemas, SingleTable(TableVersion(0, table)), Options()))
    events_ = timed(lambda: [exact.decode(Message(None, m)) for m in messages], 1) / count * 1e6
    yield Figure("craft.decode.cpu-vs-events", ours, "us/row", "less", events_, None, "events in plain form")
    yield from _encoding(table, pa.Table.from_batches(batches), messages, rounds, run)
    cost = timed(lambda: reference.encode_rows(events, origin), 1) / count * 1e6
    yield Figure("craft.encode.events.cpu", cost, "us/row", "less", note="from events in plain form")
    for format_ in ("avro", "debezium", "open"):
        yield _transcoding(format_, table, events, rounds, run)


def _transcoding(format_: str, table: Table, events: Sequence[RowChange], rounds: int, run: Run) -> Figure:
    """Messages of another format → Craft, in batches and one by one."""
    import pyarrow as pa

    from benchmarks.json_formats import short
    from ticdc_bridge.spark_jobs.arrow.messages import Transcoder
    from ticdc_bridge.spark_jobs.pipeline.codec_config import CodecConfig

    run.say(f"transcoding {format_}")
    schemas, source = made.wide().schemas, SingleTable(TableVersion(0, table))
    options = Options.of({"enable_tidb_extension": True, "on_lossy": "flag"})
    encoder = format_named(format_).encoder(Context(schemas, source, options))
    part = events[: max(1000, len(events) // 4)]
    part = [replace(e, format="made", before=short(e.before, table), after=short(e.after, table)) for e in part]
    messages = [m for e in part for m in encoder.encode(e, Message(None, None, "t"))]
    arrays: dict[str, Any] = {
        name: pa.array([getattr(m, name) for m in messages], pa.binary()) for name in ("key", "value")
    }
    arrays["topic"] = pa.array(["t"] * len(messages), pa.string())
    arrays["timestamp"] = pa.array([0] * len(messages), pa.timestamp("us", "UTC"))
    batch = pa.RecordBatch.from_pydict(arrays)
    read = CodecConfig(format_, schemas, Options.of({"on_lossy": "flag"}), source if format_ != "avro" else None)
    codecs = Transcoder(read, CodecConfig("craft", schemas, Options.of({"on_lossy": "flag"})))

    def write() -> list[bytes]:
        out: list[bytes] = []
        for _, fast, rest in codecs.process_batch(batch):
            if len(rest) > len(messages) // 100:
                raise RuntimeError(f"{len(rest)} messages were left to Python")
            out += fast.values.to_pylist() if fast is not None else []
        return out

    one_by_one = [m.value for message in messages for m in codecs.process_message(message).out]
    if not set(write()) <= set(one_by_one):
        raise RuntimeError("the kernels write other bytes")
    ours = timed(lambda: list(codecs.process_batch(batch)), rounds) / len(messages) * 1e6
    theirs = timed(lambda: [codecs.process_message(message) for message in messages], 1) / len(messages) * 1e6
    return Figure(f"craft.transcode.{format_}.cpu-vs-messages", ours, "us/row", "less", theirs, _TRANSCODE, "to craft")


def check_read(found: Any, wanted: dict[str, Any], left: Sequence[int]) -> None:
    if left:
        raise RuntimeError(f"{len(left)} messages were left to Python")
    for name in ("op", "commit_ts"):
        if found[name].to_pylist() != wanted[name]:
            raise RuntimeError(f"{name} differs")
    for image in ("before", "after"):
        struct = found[image].combine_chunks()
        for number, field in enumerate(struct.type):
            if struct.field(number).to_pylist() != wanted[image][field.name]:
                raise RuntimeError(f"{image}.{field.name} differs")


def _encoding(table: Table, whole: Any, messages: Sequence[bytes], rounds: int, run: Run) -> Iterator[Figure]:
    import numpy as np

    from ticdc_bridge.schemas.columnar.craft_writer import CraftWriter
    from ticdc_bridge.schemas.columnar.rows import Topics

    plain = PythonEncoder(table)
    images = [[tuple(row.values()) for row in whole[image].to_pylist()] for image in ("after", "before")]
    typed = list(zip(whole["commit_ts"].to_pylist(), *images, strict=True))
    batches = [typed[at : at + 16] for at in range(0, len(typed), 16)]
    if [plain.encode(batch) for batch in batches] != messages:
        raise RuntimeError("the rival writes other bytes")
    rows, writer = rows_of(table, messages), CraftWriter(Context(made.wide().schemas))
    none = np.zeros(len(rows.message), np.int64)

    def write() -> Any:
        return writer.write(rows, Topics(["t"], none), none)

    written = write()
    ends = written.values.offsets.tolist()
    data = written.values.data.tobytes()
    if [data[ends[n] : ends[n + 1]] for n in np.flatnonzero(written.values.valid)] != messages:
        raise RuntimeError("the kernels write other bytes")
    run.say("encoding")
    ours = timed(write, rounds) / len(typed) * 1e6
    theirs = timed(lambda: [plain.encode(batch) for batch in batches], rounds) / len(typed) * 1e6
    note = "from rows, beside typed values"
    yield Figure("craft.encode.cpu-vs-python", ours, "us/row", "less", theirs, _WRITE, note)


def rows_of(table: Table, messages: Sequence[bytes]) -> Any:
    """The rows of Craft messages, all of which are taken."""
    import numpy as np

    from ticdc_bridge.schemas.columnar.rows import Binaries, Topics
    from ticdc_bridge.schemas.columnar.table_dispatch import CraftReader

    ends = np.cumsum([0, *map(len, messages)])
    values = Binaries(np.frombuffer(b"".join(messages), np.uint8), ends, np.ones(len(messages), np.bool_))
    topics = Topics(["t"], np.zeros(len(messages), np.int64))
    context = Context(made.wide().schemas, SingleTable(TableVersion(0, table)))
    rows, left = CraftReader(context).read(values, values, topics)
    if len(left):
        raise RuntimeError(f"{len(left)} messages were left to Python")
    return rows
