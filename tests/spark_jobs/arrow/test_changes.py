"""Batches of messages through the compiled readers: the change events that `message_codec.decode_one` gives."""

from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeGuard

import numpy as np
import pyarrow as pa
import pytest

from tests.spark_jobs.arrow.test_messages import PIECES, STEPS, _batch, _mixed, _pieces
from tests.spark_jobs.spark.test_temporal_sql import strange
from tests.support.golden import Golden, cases
from tests.support.table import check_rows
from ticdc_bridge.schemas import columnar
from ticdc_bridge.schemas.columnar.kernels.jit import COMPILED
from ticdc_bridge.schemas.columnar.kernels.text import fill_decimals
from ticdc_bridge.schemas.columnar.plain_lines import EXTRA_FIELDS
from ticdc_bridge.schemas.columnar.rows import freeze
from ticdc_bridge.schemas.formats.base import BatchEncoder
from ticdc_bridge.schemas.inputs.schema_files import FileSchemas
from ticdc_bridge.schemas.inputs.table_definitions import TableDefinitions
from ticdc_bridge.schemas.model.errors import WireError
from ticdc_bridge.schemas.model.event import Event, Message, RowChange
from ticdc_bridge.schemas.model.options import Options
from ticdc_bridge.schemas.model.spark_types import EXACT, SparkTypes
from ticdc_bridge.schemas.model.table import Column, Table, TableId, Value
from ticdc_bridge.schemas.model.types import BY_NAME
from ticdc_bridge.schemas.plain.writer import json_line
from ticdc_bridge.spark_jobs.arrow import batches
from ticdc_bridge.spark_jobs.arrow.arrow_types import arrow_schema_of
from ticdc_bridge.spark_jobs.arrow.change_schema import change_type, tidb_row
from ticdc_bridge.spark_jobs.arrow.changes import ChangeReader
from ticdc_bridge.spark_jobs.arrow.event_rows import all_rows
from ticdc_bridge.spark_jobs.arrow.lines import LineReader
from ticdc_bridge.spark_jobs.arrow.worker_functions import DecodeBatches
from ticdc_bridge.spark_jobs.io.message_files import message_of_row
from ticdc_bridge.spark_jobs.io.parquet import HEADERS
from ticdc_bridge.spark_jobs.pipeline.arguments import hints_in_python
from ticdc_bridge.spark_jobs.pipeline.codec_config import CodecConfig
from ticdc_bridge.spark_jobs.pipeline.job import Job
from ticdc_bridge.spark_jobs.pipeline.message_codec import decode_message, plain_lines
from ticdc_bridge.spark_jobs.pipeline.newest_columns import newest_table
from ticdc_bridge.spark_jobs.pipeline.result import Summary
from ticdc_bridge.spark_jobs.pipeline.table_choice import TableChoice
from ticdc_bridge.spark_jobs.pipeline.table_view import TableView, check_number
from ticdc_bridge.spark_jobs.spark import data_source
from ticdc_bridge.spark_jobs.streaming.pieces import Form, PieceBatches

pytestmark = pytest.mark.skipif(not COMPILED, reason="numba is not installed")
_TEXTS = pa.map_(pa.string(), pa.string())
_STAMP = pa.timestamp("us", "UTC")
_SOURCE: Any = [("topic", pa.string()), ("partition", pa.int32()), ("offset", pa.int64()), ("timestamp", _STAMP)]
_ERROR: Any = [("code", pa.string()), ("detail", pa.string()), ("key", pa.binary()), ("value", pa.binary())]
_CHANGES = pa.schema(
    [
        ("kind", pa.string()), ("op", pa.string()), ("commit_ts", pa.int64()), ("commit_time", _STAMP),
        ("db", pa.string()), ("table", pa.string()), ("schema_id", pa.int32()), ("table_version", pa.int64()),
        ("key", pa.list_(pa.string())), ("before", _TEXTS), ("after", _TEXTS), ("flags", pa.list_(pa.string())),
        ("ddl_type", pa.int32()), ("query", pa.string()), ("row", pa.int32()), ("source", pa.struct(_SOURCE)),
        ("error", pa.struct(_ERROR)), ("headers", HEADERS),
    ]
)  # fmt: skip


@pytest.fixture(autouse=True)
def _every_batch(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(batches, "FEW", 1)


def _same(batch: Any, config: CodecConfig) -> int:
    """One batch both ways; how many of the messages the kernels took."""
    decoder, summary, want = config.decoder(), Summary(), list[dict[str, Any]]()
    for found in batch.to_pylist():
        message = message_of_row(found)
        with hints_in_python("decode"):
            result = decode_message(decoder, message)
        summary.count(result, message.topic)
        want += all_rows(result, message)
    wanted = _sorted(pa.RecordBatch.from_pylist(want, schema=_CHANGES).to_pylist())
    got = _sorted([row for made in DecodeBatches(config, _CHANGES)([batch]) for row in made.to_pylist()])
    assert len(got) == len(wanted)
    for number, (mine, theirs) in enumerate(zip(got, wanted, strict=True)):
        assert mine == theirs, f"{number}"
    reader, reported, rest = ChangeReader(config, _CHANGES), Summary(), 0
    for piece, _, others in reader.process_batch(batch, reported):
        for row in piece.take(pa.array(others)).to_pylist():
            message = message_of_row(row)
            reported.count(reader.process_message(message), message.topic)
            rest += 1
    for name in ("messages", "rows", "other", "errors", "flags", "skipped", "used"):
        assert getattr(reported, name) == getattr(summary, name), name
    return int(batch.num_rows - rest)


def _sorted(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """A map's entries have no order: classic Open messages have theirs by name, the kernels the table's."""
    return [{**row, **{s: row[s] and sorted(row[s]) for s in ("before", "after")}} for row in rows]


@pytest.mark.parametrize("step", STEPS)
@pytest.mark.parametrize("format_", list(columnar.READERS))
def test_golden_cases(format_: str, step: int) -> None:
    taken = 0
    for golden in cases(format_)[::step]:
        messages = _mixed(golden)
        if format_ != "avro":  # its readers learn from what they read, and want more than a few messages of a table
            messages = messages * (12 if len(messages) < 20 else 2 if len(messages) < 100 else 1)
        taken += _same(_batch(messages), golden.side(ddl=True))
    assert taken > 100, "the kernels took next to nothing"


# ---------------------------------------------------------------------------------------------- lines
def _same_lines(messages: list[Message], config: CodecConfig) -> int:
    """One batch as lines, both ways; how many of the messages the kernels took."""
    decoder, summary, want = config.decoder(), Summary(), list[list[str]]()
    for message in messages:
        with hints_in_python("decode"):
            result = decode_message(decoder, message)
        summary.count(result, message.topic)
        want.append([json_line(line) for line in plain_lines(result, message)])
    reader, reported, got, taken = (
        LineReader(config),
        Summary(),
        [list[str]() for _ in messages],
        0,
    )
    start = 0
    for piece, fast, rest in reader.process_batch(_batch(messages), reported):
        if fast is not None:
            for at, number, line in zip(fast.origin, fast.number, fast.lines.to_pylist(), strict=True):
                assert number == len(got[start + at])
                got[start + at].append(line)
            taken += len(set(fast.origin.tolist()))
        for at in rest.tolist():
            result = reader.process_message(messages[start + at])
            reported.count(result, messages[start + at].topic)
            got[start + at] = [json_line(line) for line in plain_lines(result, messages[start + at])]
        start += piece.num_rows
    for mine, theirs in zip(got, want, strict=True):
        assert mine == theirs
    for name in ("messages", "rows", "other", "errors", "flags", "skipped", "used"):
        assert getattr(reported, name) == getattr(summary, name), name
    return taken


@pytest.mark.parametrize("step", STEPS)
@pytest.mark.parametrize("format_", sorted(EXTRA_FIELDS))
def test_lines_of_golden_cases(format_: str, step: int) -> None:
    """Byte for byte: the order of the columns, and what a message has beside its row."""
    taken = 0
    for golden in cases(format_)[::step]:
        messages = _mixed(golden)
        if format_ != "avro":
            messages = messages * (12 if len(messages) < 20 else 2 if len(messages) < 100 else 1)
        taken += _same_lines(messages, golden.side(ddl=True))
    assert taken > 100 // step, "the kernels took next to nothing"


# ---------------------------------------------------------------------------------------------- some tables alone
_DEFINED = (
    ("shop", "CREATE TABLE orders (id INT PRIMARY KEY, note TEXT)"),
    ("shop", "CREATE TABLE items (sku VARCHAR(9) PRIMARY KEY, n INT)"),
    ("crm", "CREATE TABLE orders (id INT PRIMARY KEY)"),
)


_FORMS: tuple[tuple[Form, str | None], ...] = (
    ("line", None), ("change", None), ("text", None), ("text", "craft"), ("text", "debezium"),
)  # fmt: skip


@pytest.mark.parametrize("format_", ["open", "craft", "debezium"])
def test_chosen_tables(format_: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Kernels take and count what the codec does, of messages with one row and of those with rows of several tables."""
    (tmp_path / "d").write_text("".join(json_line({"commit_ts": 1, "db": d, "query": q}) + "\n" for d, q in _DEFINED))
    config = CodecConfig(format_, FileSchemas([]), Options(), TableDefinitions.read(tmp_path / "d"))
    encoder, events = config.encoder(), list[RowChange]()
    for n in range(72):
        db, query = _DEFINED[n % 3]
        version = config.tables.at(TableId(db, query.split()[2]), 9) if config.tables else None
        assert version is not None
        row: dict[str, Any] = {c.name: str(n) for c in version.table.columns}
        events.append(RowChange(format_, version.table, "c", 100, None, row, tuple(version.table.handle_key), "UTC"))
    origin = Message(None, None, "t", 0, 0)
    messages = [m for event in events for m in encoder.encode(event, origin)]
    if isinstance(encoder, BatchEncoder):
        messages += encoder.encode_rows(events[:6], origin)
    batch = _batch(messages).append_column("position", pa.array(range(len(messages)), pa.int64()))
    schema = PIECES.append(pa.field("change", pa.struct(list(_CHANGES))))
    for patterns in ("shop.*", "shop.items", "none.*", "*.*", "*.*,!*.orders"):
        read = replace(config, chosen=TableChoice.of([patterns]))
        for form, to in _FORMS:
            job, made = Job(read, replace(config, format=to) if to else None), []
            for few in (1, 1 << 20):
                monkeypatch.setattr(batches, "FEW", few)
                pieces = PieceBatches(job, form, schema)([batch])
                made.append([row for piece in pieces for row in piece.to_pylist()])
            for row in (*made[0], *made[1]):
                row["tally"] = sorted(row["tally"] or ())
            assert made[0] == made[1]


# ---------------------------------------------------------------------------------------------- one table in view
_VIEWS: tuple[tuple[str, str, dict[str, Any]], ...] = (
    ("avro", "wide.before.ext1", {}),
    ("avro", "evolution.ext1", {"missing": "default"}),
    ("craft", "evolution.default", {"on_lossy": "flag"}),
    ("debezium", "evolution.ext.schema", {}),
    ("open", "wide_novec.nooldvalue", {"on_lossy": "flag"}),
    ("debezium", "wide.ext.schema", {"on_lossy": "flag"}),
    ("open", "wide.default", {"on_lossy": "flag"}),
    ("open-tiflow", "wide.default", {"on_lossy": "flag"}),
)


@pytest.mark.parametrize("types", [EXACT, SparkTypes("typed", "interval")], ids=["exact", "typed"])
@pytest.mark.parametrize(("format_", "name", "more"), _VIEWS, ids=[f"{v[0]}-{v[1]}" for v in _VIEWS])
def test_rows_of_a_table_in_view(format_: str, name: str, more: dict[str, Any], types: SparkTypes) -> None:
    """Structs, and maps of what the view's types can hold: those that the codec gives with the same view."""
    golden = Golden(format_, name)
    image = golden.side(ddl=True)
    messages = [replace(m, offset=n, timestamp=n) for n, m in enumerate(golden.messages() * 6)]
    tables = {e.table.id for m in golden.messages() for e in decode_message(image.decoder(), m).events if _is_row(e)}
    taken = 0
    for id_ in sorted(tables):
        view = TableView(newest_table(image, id_), types, **more)
        seen = replace(image, view=view)
        taken += _same(_batch(messages), seen)
        kind = change_type(tidb_row(view.table, view.types))
        schema, entry = arrow_schema_of(kind), _Source(seen, kind)
        want = [row for m in messages for row in entry._rows(ChangeReader(seen, schema), m)]
        made = list(_Source(seen, kind, messages).read(data_source.FilePartition("")))
        got = [row for batch in made for row in batch.to_pylist()]
        assert got == pa.RecordBatch.from_pylist(want, schema=schema).to_pylist()
    assert taken > 15, "the kernels took next to nothing"
    assert len(tables) > 0


_ALTERED = (
    "CREATE TABLE Orders (id INT PRIMARY KEY, n SMALLINT UNSIGNED, d DECIMAL(5,2), f FLOAT, t TIMESTAMP, day DATE,"
    " at DATETIME(3), took TIME, big BIGINT UNSIGNED, b BIT(9), note VARCHAR(9))",
    "ALTER TABLE Orders MODIFY n BIGINT, MODIFY d DECIMAL(12,4)",
    "ALTER TABLE Orders ADD COLUMN since TIMESTAMP DEFAULT '2024-05-06 07:08:09', ADD COLUMN x INT DEFAULT 7",
    "ALTER TABLE Orders MODIFY x BIGINT",
    "ALTER TABLE Orders DROP COLUMN note",
)
_VALUES: dict[str, tuple[Value, ...]] = {
    "n": ("7", None, "65535"), "d": ("1.50", "-999.99", None), "f": ("0.1", None, "1.5"),
    "t": ("2024-10-27 02:30:00", "0000-00-00 00:00:00", "1999-12-31 23:59:59"),
    "day": ("1500-02-28", "2024-02-29", None), "at": ("0000-00-00 00:00:00.000", "2024-01-01 00:00:00.001", None),
    "took": ("-838:59:59", "00:00:01", None), "big": ("18446744073709551615", "0", None),
    "b": (b"\x01\xff", None, b"\x00\x00"), "note": ("a", "", None),
    "since": (None, "2020-01-01 00:00:00"), "x": ("-1",),
}  # fmt: skip
_VIEW_OPTIONS: tuple[dict[str, Any], ...] = (
    {},
    {"missing": "default"},
    {"types": SparkTypes("typed", "interval"), "missing": "default", "on_lossy": "flag"},
    {"types": SparkTypes("typed")},
)


@pytest.mark.parametrize("format_", ["craft", "debezium", "open"])
def test_rows_of_altered_tables_in_view(format_: str, tmp_path: Path) -> None:
    """Wider types, defaults, times that are none, rows of another table between: structs and maps are the codec's."""
    ddl = [{"commit_ts": n * 10, "db": "shop", "query": q} for n, q in enumerate(_ALTERED, 1)]
    ddl.append({"commit_ts": 15, "db": "shop", "query": "CREATE TABLE other (id INT PRIMARY KEY)"})
    (tmp_path / "d").write_text("".join(json_line(entry) + "\n" for entry in ddl))
    tables = TableDefinitions.read(tmp_path / "d")
    options = Options.of({"time_zone": "Europe/Berlin", "on_lossy": "flag", "craft_float": "sound"})
    config = CodecConfig(format_, FileSchemas([]), options, tables)
    encoder, messages = config.encoder(), list[Message]()
    for n in range(60):
        name, ts = ("Orders", 10 * (n % 5) + 15) if n % 7 else ("other", 99)
        version = tables.at(TableId("shop", name), ts)
        assert version is not None
        row = {c.name: (v := _VALUES.get(c.name, (str(n),)))[n % len(v)] for c in version.table.columns}
        before = {**row, "id": str(n)} if n % 3 else None
        event = RowChange(format_, version.table, "u" if before else "c", ts, before, row, ("id",), "Europe/Berlin")
        messages += encoder.encode(event, Message(None, None, "t", 0, n, timestamp=n))
    newest = newest_table(config, TableId("shop", "orders"))

    def check(options: dict[str, Any]) -> None:
        seen = replace(config, view=TableView(newest, **options))
        assert _same(_batch(messages), seen) > 3
        assert seen.view is not None
        kind = change_type(tidb_row(newest, seen.view.types))
        schema, entry = arrow_schema_of(kind), _Source(seen, kind)
        want = [row for m in messages for row in entry._rows(ChangeReader(seen, schema), m)]
        got = [
            row
            for made in _Source(seen, kind, messages).read(data_source.FilePartition(""))
            for row in made.to_pylist()
        ]
        assert got == pa.RecordBatch.from_pylist(want, schema=schema).to_pylist()

    check_rows(_VIEW_OPTIONS, check)


@pytest.mark.parametrize("format_", ["avro", "craft", "open", "debezium"])
def test_columns_of_no_definition(format_: str) -> None:
    image, messages = strange(format_)
    many = [replace(m, offset=n, timestamp=n) for n, m in enumerate(messages * 12)]
    id_ = TableId("shop", "t")
    for table in (newest_table(image, id_), Table(id_, ())):  # merge's view has no columns: definitions have them
        seen = replace(image, view=TableView(table))
        assert isinstance(decode_message(seen.decoder(), messages[0]).error, WireError)
        assert _same(_batch(many), seen) >= 12


def _is_row(event: Event) -> TypeGuard[RowChange]:
    return isinstance(event, RowChange)


class _Source(data_source._PartitionDecoder):
    def __init__(self, config: CodecConfig, schema: Any, messages: Iterable[Message] = ()) -> None:
        self._config, self._schema, self._messages = config, schema, messages

    def _items(self, part: Any) -> Any:
        return iter(self._messages)


@pytest.mark.parametrize("format_", ["avro", "open"])
def test_a_timestamp_that_is_none_is_null(format_: str) -> None:
    """Kafka's -1, which Spark and Arrow hold as a time, the last millisecond of 1969."""
    golden = Golden(format_, "bulk.ext1" if format_ == "avro" else "bulk.batch1")
    messages = [replace(m, offset=n, timestamp=-1 if n % 3 else n) for n, m in enumerate(golden.messages())]
    image, batch = golden.side(ddl=True), _batch(messages)
    assert batch.column("timestamp")[1].as_py().year == 1969
    assert _same(batch, image) > 10
    rows = [row for made in DecodeBatches(image, _CHANGES)([batch]) for row in made.to_pylist()]
    assert all((row["source"]["timestamp"] is None) == bool(row["source"]["offset"] % 3) for row in rows)
    assert _same_lines(messages, image) > 10


def test_decimals_of_a_view() -> None:
    """More digits than Python's arithmetic has by default are a value like any other."""
    many = ["9" * 32 + ".999999", "-" + "9" * 32 + ".1", "0.000000", "1.5000000"]
    _check_decimals(38, 6, many, ["1" + "0" * 32, "0.0000001"])
    _check_decimals(30, 0, ["9" * 30, "-1", "0"], ["1" + "0" * 30, "0.5"])
    _check_decimals(5, 5, ["0.99999", "-0.00000"], ["1.00000", "0.000001"])


def _check_decimals(length: int, scale: int, fits: list[str], not_: list[str]) -> None:
    column = Column("d", BY_NAME["decimal"], length=length, scale=scale)
    for text in fits:
        check_number(column, text, column.type.kind)
    for text in not_:
        with pytest.raises((ValueError, ArithmeticError)):
            check_number(column, text, column.type.kind)
    texts = [entry.encode() for entry in (*fits, *not_)]
    lengths = np.array([*map(len, texts), -1])
    positions, data = np.cumsum([0, *lengths[:-1]]), np.frombuffer(b"".join(texts), np.uint8)
    out, bad = np.zeros((len(lengths), 2), np.uint64), np.zeros(len(lengths), np.uint8)
    fill_decimals(freeze(data), freeze(positions), freeze(lengths), len(lengths), length, scale, out, bad)
    assert bad.tolist() == [0] * len(fits) + [1] * len(not_) + [0]


@pytest.mark.parametrize("format_", ["avro", "debezium"])
def test_lines_of_the_command_with_spark(format_: str) -> None:
    """Lines, errors and counts of many messages at once are those of one after another; lines go many in one piece."""
    golden = Golden(format_, "bulk.ext1" if format_ == "avro" else "evolution.ext.schema")
    messages = _mixed(golden) * (1 if format_ == "avro" else 24)
    job, batch = Job(golden.side(ddl=True)), _batch(messages)
    batch = batch.append_column("position", pa.array(range(7, 7 + len(messages)), pa.int64()))
    pieces, summary = _pieces(job, batch)
    assert (pieces, summary) == _pieces(job, batch, kernels=False)
    assert summary.messages == len(messages)
    made = PieceBatches(job, "text", PIECES)([batch])
    assert sum(rows.num_rows for rows in made) < len(pieces) // 2
