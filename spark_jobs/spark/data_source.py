"""`spark.read.format("ticdc")` and `spark.readStream`: Spark's Python data source API, in batches of messages.

    from ticdc_bridge import datasource
    datasource.register(spark)
    spark.read.format("ticdc").option("format", "open").option("ddl", "history.jsonl").load("messages.jsonl")

For convenience: `ticdc_bridge.decode` on Spark's own sources is faster still, as the source's messages need not become
Python's first. Options are those of `decode` (format, registry, schemas, ddl, history, table, time_zone, missing,
types, time, on_lossy, claim_checks), and `path` (a message file or a folder of them) or `topic` with
`kafka.bootstrap.servers` (any `kafka.NAME` is a client's setting), `from_offset` and, of a stream as of Spark 4.2,
`max_per_batch`: most messages of a micro-batch. A Python data source has no metrics: what `decode` leaves out and
counts are rows of the kinds `other` (a change of another table than `table`) and `tombstone`.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from importlib import import_module
from importlib.util import find_spec
from itertools import islice
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyspark.accumulators import _accumulatorRegistry
from pyspark.sql import SparkSession
from pyspark.sql.datasource import DataSource, DataSourceReader, DataSourceStreamReader, InputPartition
from pyspark.sql.types import StructType

from ticdc_bridge.schemas.inputs.kafka_settings import client_settings, settings_for_librdkafka
from ticdc_bridge.schemas.inspect.format_lookup import format_named
from ticdc_bridge.schemas.model.errors import SetupError, WireError
from ticdc_bridge.schemas.model.event import Message
from ticdc_bridge.schemas.model.options import Options
from ticdc_bridge.schemas.model.spark_types import SparkTypes
from ticdc_bridge.spark_jobs.arrow.arrow_types import arrow_schema_of
from ticdc_bridge.spark_jobs.arrow.batches import merge_rows
from ticdc_bridge.spark_jobs.arrow.change_schema import change_type, tidb_row
from ticdc_bridge.spark_jobs.arrow.changes import ChangeReader
from ticdc_bridge.spark_jobs.arrow.event_rows import all_rows
from ticdc_bridge.spark_jobs.arrow.input_batches import batch_items, batch_of_messages
from ticdc_bridge.spark_jobs.arrow.warm_up import warm_changes, warm_table_rows
from ticdc_bridge.spark_jobs.io.endpoints import read_source
from ticdc_bridge.spark_jobs.io.locations import KafkaClient
from ticdc_bridge.spark_jobs.io.message_files import MAX_LINE, is_plain_lines, parse_line
from ticdc_bridge.spark_jobs.io.object_paths import path_of
from ticdc_bridge.spark_jobs.io.storage_sink import is_storage_folder
from ticdc_bridge.spark_jobs.pipeline import arguments
from ticdc_bridge.spark_jobs.pipeline.arguments import check_choices, with_parameter_names
from ticdc_bridge.spark_jobs.pipeline.codec_config import CodecConfig, check_any_order
from ticdc_bridge.spark_jobs.pipeline.newest_columns import newest_table, zone_of
from ticdc_bridge.spark_jobs.pipeline.result import MessageResult
from ticdc_bridge.spark_jobs.pipeline.table_view import TableView, table_id

_ROWS, _RANGE = 2000, 64 << 20  # rows of an Arrow batch that are made one by one; bytes of a file's partition
_KNOWN = (
    "format", "registry", "schemas", "ddl", "history", "table", "time_zone", "missing", "types", "time", "on_lossy",
    "claim_checks", "craft_float", "path", "topic", "from_offset", "max_per_batch",
)  # fmt: skip
_CHOICES = {
    "missing": ("null", "default"), "types": ("exact", "typed"), "time": ("text", "interval"),
    "on_lossy": ("error", "flag"), "craft_float": ("auto", "damaged", "sound"),
}  # fmt: skip
_NO_KAFKA = KafkaClient()
Read = Message | tuple[WireError, Message]


def register(spark: SparkSession) -> None:
    """Makes the format `ticdc` known to a session."""
    spark.dataSource.register(TicdcDataSource)


@dataclass(frozen=True)
class FilePartition(InputPartition):
    """The messages of a file; of JSON lines those that begin in [start, end)."""

    path: str
    start: int = 0
    end: int | None = None


@dataclass(frozen=True)
class TopicRange(InputPartition):
    """The messages of a partition with offsets in [start, end)."""

    partition: int
    start: int
    end: int


class SourceOptions:
    """What the options say. SetupError USAGE."""

    def __init__(self, options: Mapping[str, str]) -> None:
        self.values = {k.lower(): v for k, v in options.items() if not k.lower().startswith("kafka.")}
        self.kafka = {k[6:]: v for k, v in options.items() if k.lower().startswith("kafka.")}
        unknown = sorted(self.values.keys() - set(_KNOWN))
        if unknown or "format" not in self.values:
            what = f"option {unknown[0]!r} is not known" if unknown else "option 'format' is missing"
            raise SetupError("USAGE", details=f"ticdc: {what}; there are {', '.join(_KNOWN)}, kafka.NAME")
        check_choices(**{name: (self.values.get(name, choices[0]), choices) for name, choices in _CHOICES.items()})
        if ("path" in self.values) == ("topic" in self.values):
            raise SetupError("USAGE", details="ticdc: give a path (load(PATH)), or the option topic")
        for name, least in (("from_offset", 0), ("max_per_batch", 1)):
            if name in self.values and not (self.values[name].isdigit() and int(self.values[name]) >= least):
                raise SetupError("USAGE", details=f"{name}={self.values[name]!r}: a number is needed, at least {least}")

    @cached_property
    @with_parameter_names
    def config(self) -> CodecConfig:
        """The side read; with a table, its rows in the table's columns. SetupError USAGE names the source's options."""
        options = self.values
        chosen = {"time_zone": "UTC", "on_lossy": "flag", "craft_float": "auto"}
        config = CodecConfig(
            format_named(options["format"]).name,
            arguments.schemas_of(options["format"], options.get("registry"), options.get("schemas")),
            Options.of({name: options.get(name, default) for name, default in chosen.items()}),
            arguments.tables_of(options.get("ddl"), options.get("history"), options.get("table")),
            arguments.claims_of(options.get("claim_checks")),
        )
        check_any_order(config)
        if "table" not in options:
            if options.keys() & {"missing", "types", "time"}:
                raise SetupError("USAGE", details="types, time and missing go with table")
            return config
        types = SparkTypes(options.get("types", "exact"), options.get("time", "text"))  # type: ignore[arg-type]
        missing: Any = options.get("missing", "null")
        table = newest_table(config, table_id(options["table"]), missing)
        view = TableView(table, types, missing, options.get("on_lossy", "error"))  # type: ignore[arg-type]
        config = replace(config, view=view)
        zone_of(config)  # says so where there is none
        return config

    @cached_property
    def schema(self) -> StructType:
        """A change event's; with a table, before and after as structs."""
        view = self.config.view
        if view is None:
            return change_type()
        return change_type(tidb_row(view.table, view.types, certain=self.config.tables is not None))

    @property
    def settings(self) -> dict[str, str]:
        servers = self.kafka.get("bootstrap.servers")
        return {**client_settings(servers, None), **settings_for_librdkafka(self.kafka)}

    def extents(self) -> dict[int, tuple[int, int]]:
        from ticdc_bridge.clients.kafka import extents

        return extents(self.values["topic"], self.settings)


def _drop_empty_profiles() -> None:
    """In a worker of Spark's that plans a read: it would send two profiles although nothing is profiled, which
    `spark-pipelines` of Spark 4.2.1 and 4.3.0 takes for an error after a run that is complete (SPARK-59135).
    """
    for number in [number for number, value in _accumulatorRegistry.items() if number < 0 and not value._value]:
        del _accumulatorRegistry[number]


class TicdcDataSource(DataSource):
    """The format `ticdc`."""

    @classmethod
    def name(cls) -> str:
        return "ticdc"

    def schema(self) -> StructType:
        _drop_empty_profiles()
        return SourceOptions(self.options).schema

    def reader(self, schema: StructType) -> DataSourceReader:
        _drop_empty_profiles()
        return _Reader(SourceOptions(self.options), schema)

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # Spark's name
        _drop_empty_profiles()
        options = SourceOptions(self.options)
        if "topic" not in options.values:
            raise SetupError("USAGE", details="ticdc: a stream reads a topic")
        if "max_per_batch" in options.values and _LIMITS is None:
            raise SetupError("USAGE", details="max_per_batch: Spark has limits for a Python source as of 4.2")
        return _StreamReader(options, schema)


class _PartitionDecoder:
    """Reads partitions; in a Python worker."""

    def __init__(self, options: SourceOptions, schema: StructType) -> None:
        self._topic, self._kafka = options.values.get("topic"), options.settings if "topic" in options.values else {}
        self._config, self._schema = options.config, schema
        if self._config.tables is not None or self._config.format == "avro":
            (warm_changes if self._config.view is None else warm_table_rows)(self._config.format)

    def read(self, partition: InputPartition) -> Iterator[Any]:
        return arguments.rows_with_parameter_names("decode", self._read(partition))

    def _read(self, partition: InputPartition) -> Iterator[Any]:
        schema = arrow_schema_of(self._schema)
        reader, items = ChangeReader(self._config, schema), self._items(partition)
        while chunk := list(batch_items(items)):
            batch, start = batch_of_messages(chunk, timed=True), 0
            if batch is None:
                yield from self._read_slowly(reader, chunk, schema)
                continue
            for selected, fast, rest in reader.process_batch(batch):
                some = [chunk[start + at] for at in rest.tolist()]
                start += selected.num_rows
                if fast is None:
                    yield from self._read_slowly(reader, some, schema)
                else:
                    slow = (self._rows(reader, item) for item in some)
                    yield merge_rows(rest, slow, schema, fast.rows, fast.origin) if some else fast.rows

    def _read_slowly(self, reader: ChangeReader, items: list[Read], schema: Any) -> Iterator[Any]:
        rows = (row for item in items for row in self._rows(reader, item))
        while some := list(islice(rows, _ROWS)):
            yield pa.RecordBatch.from_pylist(some, schema=schema)

    def _items(self, partition: InputPartition) -> Iterator[Read]:
        if isinstance(partition, TopicRange):
            from ticdc_bridge.clients.kafka import read_range

            assert self._topic is not None
            return read_range(self._topic, partition.partition, partition.start, partition.end, self._kafka)
        assert isinstance(partition, FilePartition)
        if partition.end is None:
            return read_source(partition.path, _NO_KAFKA, self._config.options)
        return _lines(partition, partition.end)

    def _rows(self, reader: ChangeReader, item: Read) -> Iterator[dict[str, Any]]:
        message = item if isinstance(item, Message) else item[1]
        result = reader.process_message(item) if isinstance(item, Message) else MessageResult(error=item[0])
        return all_rows(result, message, self._config.view)


class _Reader(_PartitionDecoder, DataSourceReader):
    def __init__(self, options: SourceOptions, schema: StructType) -> None:
        super().__init__(options, schema)
        if "topic" in options.values:
            first = int(options.values.get("from_offset", "0"))
            ranges = ((p, max(low, first), high) for p, (low, high) in options.extents().items())
            self._partitions: list[InputPartition] = [
                TopicRange(*partition) for partition in ranges if partition[1] < partition[2]
            ]
        else:
            self._partitions = list(_file_partitions(path_of(options.values["path"])))

    def partitions(self) -> list[InputPartition]:
        return self._partitions or [FilePartition("/dev/null")]  # Spark needs one


_LIMITS: Any = find_spec("pyspark.sql.streaming.datasource") and import_module("pyspark.sql.streaming.datasource")
_AvailableNow: Any = _LIMITS.SupportsTriggerAvailableNow if _LIMITS else object


class _StreamReader(_PartitionDecoder, DataSourceStreamReader, _AvailableNow):  # type: ignore[misc]  # as of Spark 4.2
    """An offset is {partition: the offset that comes next}."""

    def __init__(self, options: SourceOptions, schema: StructType) -> None:
        super().__init__(options, schema)
        self._asked = options
        self._last: dict[str, int] | None = None

    def initialOffset(self) -> dict[str, int]:
        first = int(self._asked.values.get("from_offset", "0"))
        return {str(p): max(low, min(first, high)) for p, (low, high) in self._asked.extents().items()}

    def getDefaultReadLimit(self) -> Any:
        most = self._asked.values.get("max_per_batch")
        return _LIMITS.ReadAllAvailable() if most is None else _LIMITS.ReadMaxRows(int(most))

    def prepareForTriggerAvailableNow(self) -> None:
        self._last = self.latestOffset()

    def latestOffset(self, start: dict[str, int] | None = None, limit: Any = None) -> dict[str, int]:
        """limit: ReadMaxRows: so many messages, of each partition the same part of those that wait."""
        ends = self._last or {str(p): high for p, (_, high) in self._asked.extents().items()}
        most = getattr(limit, "max_rows", None)
        if start is None or most is None:
            return ends
        waiting = {p: max(0, high - start.get(p, 0)) for p, high in ends.items()}
        if (total := sum(waiting.values())) <= most:
            return ends
        parts = {p: count * most // total for p, count in waiting.items()}
        rest = most - sum(parts.values())
        for partition in sorted(waiting, key=lambda p: parts[p] - waiting[p])[:rest]:
            parts[partition] += 1
        return {p: start.get(p, 0) + part for p, part in parts.items()}

    def partitions(self, start: dict[str, int], end: dict[str, int]) -> list[InputPartition]:
        """SetupError STOPPED where messages between the offsets are gone: nothing is skipped."""
        lows = {str(p): low for p, (low, _) in self._asked.extents().items()}
        for partition, begin in start.items():
            if partition not in lows or lows[partition] > begin or end.get(partition, -1) < begin:
                details = f"offsets from {begin} are gone (the topic was deleted or truncated); nothing was skipped"
                raise SetupError("STOPPED", where=f"topic {self._topic} partition {partition}", details=details)
        ranges = ((int(p), start.get(p, lows.get(p, 0)), high) for p, high in end.items())
        return [TopicRange(*extent) for extent in ranges if extent[1] < extent[2]]


def _file_partitions(path: Path) -> Iterator[FilePartition]:
    """A file in ranges, a folder's files, a storage sink's folder as it is. SetupError USAGE when there is none."""
    if is_storage_folder(str(path)):
        yield FilePartition(str(path.absolute()))
        return
    files = [path]
    if path.is_dir():
        files = sorted(p for p in path.iterdir() if p.is_file() and not p.name.startswith((".", "_")))
        if not files:
            details = f"{path}: this folder has no message files (what is in folders below it is not read)"
            raise SetupError("USAGE", details=details)
    for file in files:
        if not file.is_file():
            raise SetupError("USAGE", details=f"{file}: No such file")
        size = file.stat().st_size
        if file.suffix == ".parquet" or not is_plain_lines(file):
            yield FilePartition(str(file.absolute()))
            continue
        for start in range(0, size, _RANGE):
            yield FilePartition(str(file.absolute()), start, min(start + _RANGE, size))


def _lines(partition: FilePartition, end: int) -> Iterator[Read]:
    """The lines that begin in the range; one that is no message comes with its error."""
    with path_of(partition.path).open("rb") as file:
        if partition.start:
            file.seek(partition.start - 1)
            while (skipped := file.readline(MAX_LINE)) and not skipped.endswith(b"\n"):
                pass
        while file.tell() < end and (line := file.readline(MAX_LINE)):
            if line.strip():
                try:
                    yield parse_line(line, path_of(partition.path).name)
                except WireError as error:
                    yield error, Message(None, line.rstrip(b"\r\n"))
