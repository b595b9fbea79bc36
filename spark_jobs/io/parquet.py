"""Messages and change events as Parquet files, by pyarrow."""

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from ticdc_bridge.schemas.model.event import Message
from ticdc_bridge.schemas.model.reasons import usage_errors
from ticdc_bridge.schemas.plain.reader import read_headers
from ticdc_bridge.spark_jobs.io.message_files import AtomicFile

_BATCH = 4096
HEADER: Any = pa.struct([("key", pa.string()), ("value", pa.binary())])
HEADERS: Any = pa.list_(HEADER)
_MESSAGES: list[tuple[str, Any]] = [
    ("topic", pa.string()), ("partition", pa.int32()), ("offset", pa.int64()), ("timestamp", pa.int64()),
    ("key", pa.binary()), ("value", pa.binary()), ("headers", HEADERS),
]  # fmt: skip
_ROW = pa.map_(pa.string(), pa.string())
_EVENTS: list[tuple[str, Any]] = [
    ("kind", pa.string()), ("format", pa.string()), ("topic", pa.string()), ("partition", pa.int32()),
    ("offset", pa.int64()), ("db", pa.string()), ("table", pa.string()), ("op", pa.string()),
    ("commit_ts", pa.int64()), ("schema_id", pa.int32()), ("table_version", pa.int64()),
    ("key", pa.list_(pa.string())), ("before", _ROW), ("after", _ROW), ("flags", pa.list_(pa.string())),
    ("ddl_type", pa.int32()), ("query", pa.string()), ("code", pa.string()), ("detail", pa.string()),
    ("key_b64", pa.string()), ("value_b64", pa.string()), ("headers", HEADERS),
]  # fmt: skip


class ParquetFile(AtomicFile):
    """Rows to a file in batches; the file appears under its name when it is complete."""

    def __init__(self, path: Path, columns: list[tuple[str, Any]], metadata: dict[bytes, bytes] | None = None) -> None:
        self._schema = pa.schema(columns, metadata)  # type: ignore[arg-type]  # the stubs know less
        super().__init__(path, "Parquet")
        self._rows: list[dict[str, Any]] = []
        with usage_errors(path):
            self._file = pq.ParquetWriter(self._partial, self._schema)

    def add(self, row: dict[str, Any]) -> None:
        self._rows.append(row)
        if len(self._rows) >= _BATCH:
            self._flush()

    def add_batch(self, rows: Any) -> None:
        """Rows as a table of the file's schema."""
        if self._rows:
            self._flush()
        self._file.write_table(rows)

    def _flush(self) -> None:
        self._file.write_table(pa.Table.from_pylist(self._rows, self._schema))
        self._rows.clear()

    def close(self) -> None:
        """Complete: the file gets its name."""
        self._flush()
        super().close()


class ParquetWriter(ParquetFile):
    """Writes messages with Kafka's columns."""

    def __init__(self, path: Path) -> None:
        super().__init__(path, _MESSAGES)

    def write(self, message: Message) -> None:
        headers = [{"key": name, "value": value} for name, value in message.headers]
        self.add(
            {
                "topic": message.topic, "partition": message.partition, "offset": message.offset,
                "timestamp": message.timestamp, "key": message.key, "value": message.value, "headers": headers,
            }
        )  # fmt: skip


class EventParquet(ParquetFile):
    """Writes plain-form events: before and after as maps of text, bytes as `{"hex":"…"}`."""

    def __init__(self, path: Path) -> None:
        super().__init__(path, _EVENTS)

    def write(self, value: dict[str, Any]) -> None:
        images = {image: _entries(value.get(image)) for image in ("before", "after")}
        self.add({**value, **images, "headers": header_structs(value)})

    def write_text(self, line: str) -> None:
        self.write(json.loads(line))


def header_structs(line: dict[str, Any]) -> list[dict[str, Any]] | None:
    """The record headers that a plain-form line has, as HEADERS; None where it has none."""
    return [{"key": name, "value": value} for name, value in read_headers(line.get("headers"))] or None


def _entries(row: dict[str, Any] | None) -> list[tuple[str, str | None]] | None:
    if row is None:
        return None
    return [(k, json.dumps(v, separators=(",", ":")) if isinstance(v, dict) else v) for k, v in row.items()]
