"""Compiles the kernels between two formats before workers need them, by a sample that goes through."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import cache, wraps
from io import BytesIO
from typing import Any, ParamSpec

from ticdc_bridge.schemas.formats.base import SingleTable
from ticdc_bridge.schemas.inputs.schema_files import FileSchemas, RegisteredSchema
from ticdc_bridge.schemas.model.event import Message, RowChange
from ticdc_bridge.schemas.model.options import Options
from ticdc_bridge.schemas.model.ports import SchemaId
from ticdc_bridge.schemas.model.table import Column, Table, TableId, TableVersion, Value
from ticdc_bridge.schemas.model.types import BY_NAME, Kind
from ticdc_bridge.schemas.model.values import bit_size
from ticdc_bridge.spark_jobs.pipeline.codec_config import CodecConfig
from ticdc_bridge.spark_jobs.pipeline.newest_columns import newest_table
from ticdc_bridge.spark_jobs.pipeline.progress import report_slow_steps
from ticdc_bridge.spark_jobs.pipeline.table_view import TableView

_Arguments = ParamSpec("_Arguments")


# ---- a table of one column of each type and a row of it
_TEXTS: dict[Kind, str | bytes] = {
    Kind.BINARY: b"1", Kind.ENUM: "a", Kind.SET: "a", Kind.YEAR: "2000", Kind.DATE: "2000-01-01",
    Kind.DATETIME: "2000-01-01 00:00:00", Kind.TIMESTAMP: "2000-01-01 00:00:00", Kind.TIME: "00:00:00",
}  # fmt: skip


def sample_columns() -> tuple[Column, ...]:
    """One of each type, named by it; DECIMAL(9,2), BIT(9)."""
    return tuple(
        Column(type_.name, type_, length=9, scale=2 if type_.kind is Kind.DECIMAL else None, elements=("a",))
        for type_ in BY_NAME.values()
    )


def sample_row(columns: Sequence[Column]) -> dict[str, Value]:
    """A value of each column in plain form."""
    bits = {c.name: (1).to_bytes(bit_size(c.length or 1), "big") for c in columns if c.type.kind is Kind.BIT}
    return {c.name: bits.get(c.name) or _TEXTS.get(c.type.kind, "1") for c in columns}


_OPTIONS = Options.of({"enable_tidb_extension": True, "on_lossy": "flag"})
_COPIES = 64  # kernels that learn what they read want more than a few messages of a table
_ID = Column("id", BY_NAME["int"], unsigned=True, handle_key=True, primary_key=True)
_MORE = (
    Column("bit1", BY_NAME["bit"], length=1),
    Column("preset", BY_NAME["int"], has_default=True, default="7"),
    Column("decimal as text", BY_NAME["decimal"], length=65, scale=2),
)
_COLUMNS = (_ID, *(c for c in sample_columns() if c.type.kind is not Kind.VECTOR), *_MORE)
_TABLE = Table(TableId("a", "b"), _COLUMNS)
# Debezium's kernels leave messages with a DECIMAL of so many digits, which no double holds, to the codec.
_TABLES = {"debezium": Table(TableId("a", "b"), tuple(c for c in _COLUMNS if c.name != "decimal as text"))}


def _reports_slow_steps(warm: Callable[_Arguments, bool]) -> Callable[_Arguments, bool]:
    @wraps(warm)
    def warm_and_report(*arguments: _Arguments.args, **named: _Arguments.kwargs) -> bool:
        names = " to ".join(str(name) for name in arguments if isinstance(name, str)) or "dumps"
        with report_slow_steps(f"compiling kernels for {names}, once for this machine: 20 to 80 s of CPU"):
            return warm(*arguments, **named)

    return warm_and_report


class _Schemas(FileSchemas):
    """Schemas that have an id as soon as they are asked for."""

    def __init__(self) -> None:
        super().__init__([])
        self.texts: list[str] = []

    def id_of(self, subject: str, schema: str) -> SchemaId:
        if schema not in self.texts:
            self.texts.append(schema)
        return self.texts.index(schema) + 1


@cache
@_reports_slow_steps
def warm_transcode(read: str, write: str) -> bool:
    """Compiles what transcodes between two formats, or loads it; workers find it in the cache. False: no kernels."""
    from ticdc_bridge.spark_jobs.arrow.messages import Transcoder, can_transcode

    if not can_transcode(read, write):
        return False
    reading, batch = _sample(read)
    for _ in Transcoder(reading, CodecConfig(write, _Schemas(), _OPTIONS)).process_batch(batch):
        pass
    return True


@cache
@_reports_slow_steps
def warm_changes(read: str, in_view: bool = False) -> bool:
    """As `warm_transcode`, what decodes to change events with plain maps. in_view: a table's, held to its columns."""
    from ticdc_bridge.schemas import columnar
    from ticdc_bridge.schemas.columnar.kernels.jit import COMPILED
    from ticdc_bridge.schemas.columnar.plain_lines import plain_texts
    from ticdc_bridge.spark_jobs.arrow import batches as cells

    if not (COMPILED and read in columnar.READERS):
        return False
    reading, batch = _sample(read)
    rows, _, _ = cells.read_rows(cells.reader_of(reading, without_extra=True), batch)
    plain_texts(rows)
    return not in_view or warm_table_rows(read)


@cache
@_reports_slow_steps
def warm_lines(read: str) -> bool:
    """As `warm_transcode`, what decodes a format to lines of the plain form."""
    from ticdc_bridge.schemas.columnar.kernels.jit import COMPILED
    from ticdc_bridge.schemas.columnar.plain_lines import EXTRA_FIELDS

    if not (COMPILED and read in EXTRA_FIELDS):
        return False
    from ticdc_bridge.spark_jobs.arrow.lines import LineReader

    reading, batch = _sample(read, with_positions=True)
    for _ in LineReader(reading).process_batch(batch):
        pass
    return True


@cache
@_reports_slow_steps
def warm_table_rows(read: str) -> bool:
    """As `warm_transcode`, what decodes a format to typed rows of one table."""
    from ticdc_bridge.schemas.columnar import READERS
    from ticdc_bridge.schemas.columnar.kernels.jit import COMPILED

    if not (COMPILED and read in READERS):
        return False
    for binary in (False, True):
        for _ in read_sample_rows(read, binary):
            pass
    return True


@cache
@_reports_slow_steps
def warm_dump_texts() -> bool:
    """As `warm_transcode`, what reads the rows of Dumpling's SQL and CSV."""
    from ticdc_bridge.schemas.columnar.dump_reader import TextForm, dump_rows

    for text in (b"INSERT INTO `a` VALUES (1);", b'"id"\r\n1\r\n'):
        for _ in dump_rows(BytesIO(text).read, [_ID], TextForm(is_csv=text[:1] == b'"')):
            pass
    return True


def read_sample_rows(read: str, binary: bool = False) -> Iterator[tuple[Any, Any, Any]]:
    """The sample's messages as typed rows of its table (`ChangeReader.process_batch`). binary: as Spark's own rows."""
    import pyarrow

    from ticdc_bridge.spark_jobs.arrow.change_schema import change_schema
    from ticdc_bridge.spark_jobs.arrow.changes import BINARY, ChangeReader
    from ticdc_bridge.spark_jobs.arrow.table_columns import row_type

    reading, batch = _sample(read, with_positions=True)
    # By its schemas alone a table has other types: rows that its columns do not hold would be left to the codec.
    view = TableView(newest_table(reading, _TABLE.id))
    schema = change_schema(row_type(view.visible_columns))
    for name in BINARY.values() if binary else ():
        schema = schema.append(pyarrow.field(name, pyarrow.binary()))
    return ChangeReader(replace(reading, view=view), schema, ("id",)).process_batch(batch)


def _sample(read: str, with_positions: bool = False) -> tuple[CodecConfig, Any]:
    """A side, and inserts, updates, deletes of all types in its format. with_positions: with partition and offset."""
    import pyarrow as pa

    schemas = _Schemas()
    table = _TABLES.get(read, _TABLE)
    row = sample_row(table.columns)
    encoder = CodecConfig(read, schemas, _OPTIONS, SingleTable(TableVersion(0, table))).encoder()
    messages: list[Message] = []
    for op, before, after in (("c", None, row), ("u", row, row), ("d", row, None)):
        change = RowChange("made", table, op, 1 << 60, before, after, ("id",), "UTC")  # type: ignore[arg-type]
        messages += encoder.encode(change, Message(None, None, "a")) * _COPIES
    batch = pa.RecordBatch.from_pydict(
        {
            "key": pa.array([m.key for m in messages], pa.binary()),
            "value": pa.array([m.value for m in messages], pa.binary()),
            "topic": pa.array(["a"] * len(messages), pa.string()),
            "timestamp": pa.array([0] * len(messages), pa.timestamp("us", "UTC")),
        }
    )
    if with_positions:
        numbers = list(range(batch.num_rows))
        batch = batch.append_column("partition", pa.array([0] * len(numbers), pa.int32()))
        batch = batch.append_column("offset", pa.array(numbers, pa.int64()))
    source = SingleTable(TableVersion(0, table)) if read != "avro" else None
    registry = FileSchemas([RegisteredSchema("a-value", n, n, text) for n, text in enumerate(schemas.texts, 1)])
    return CodecConfig(read, registry, Options.of({"on_lossy": "flag"}), source), batch
