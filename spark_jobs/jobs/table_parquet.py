"""`decode --table DB.TABLE --out FILE.parquet`: one table's changes, its columns typed as Spark reads them back."""

import base64
import json
from collections import Counter
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute

from ticdc_bridge.schemas.model.event import tso_physical_ms
from ticdc_bridge.schemas.model.spark_types import struct
from ticdc_bridge.schemas.model.table import TableId, Value
from ticdc_bridge.spark_jobs.arrow.arrow_types import arrow_type_of, json_of
from ticdc_bridge.spark_jobs.arrow.change_schema import change_schema
from ticdc_bridge.spark_jobs.io.parquet import ParquetFile, header_structs
from ticdc_bridge.spark_jobs.pipeline.codec_config import CodecConfig
from ticdc_bridge.spark_jobs.pipeline.newest_columns import zone_of
from ticdc_bridge.spark_jobs.pipeline.result import OTHER_TABLE, Summary

pc: Any = pyarrow.compute  # the stubs know less than the library
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_UNTOLD = ("ddl_type", "query", "row")
"""Columns of a change event that a line does not tell of a row."""
# Spark reads the columns' types and metadata from here (upstream ParquetReadSupport.SPARK_METADATA_KEY).
_SPARK = b"org.apache.spark.sql.parquet.row.metadata"


class TableParquet(ParquetFile):
    """Takes plain-form lines (io.endpoints.LineSink): the view's rows and errors, as the columns of CHANGES.

    No line tells the message's timestamp and the row's number in it. What else there is is left out and counted.
    """

    def __init__(self, path: Path, config: CodecConfig) -> None:
        assert config.view is not None
        self._view, self._zone = config.view, zone_of(config)
        self._id = self._view.table.id.folded
        self._left: Counter[str] = Counter()
        row = struct(self._view.table, self._view.types, certain=config.tables is not None)
        kinds = arrow_type_of(row)
        self._intervals = {field.name for field in kinds if pa.types.is_duration(field.type)}
        stored = pa.struct([(f.name, pa.int64() if f.name in self._intervals else f.type) for f in kinds])
        self._changes: Any = change_schema(stored)
        columns = [(f.name, f.type) for f in self._changes if f.name not in _UNTOLD]
        # What a line tells of its message's place.
        position = pa.struct([field for field in dict(columns)["source"] if field.name != "timestamp"])
        columns = [(name, position if name == "source" else kind) for name, kind in columns]
        kind = json_of(pa.struct(columns))
        for field in kind["fields"]:
            field["type"] = row if field["name"] in ("before", "after") else field["type"]
        super().__init__(path, columns, {_SPARK: json.dumps(kind).encode()})

    @property
    def changes(self) -> Any:
        """The change events that `write_batch` takes; None where only lines are taken."""
        return None if self._intervals else self._changes

    def write_batch(self, changes: Any) -> None:
        """Rows of the table, and of others, which are left out and counted."""
        is_row = pc.equal(changes.column("kind"), "row")
        if others := len(changes) - pc.sum(is_row).as_py():
            self._left[OTHER_TABLE] += others
            changes = changes.filter(is_row)
        source = changes.column("source")
        fields = list(self._schema.field("source").type)
        position = pa.StructArray.from_arrays([source.field(f.name) for f in fields], fields=fields)
        columns = [position if f.name == "source" else changes.column(f.name) for f in self._schema]
        self.add_batch(pa.Table.from_arrays(columns, schema=self._schema))

    def report(self, summary: Summary) -> None:
        """Adds what was left out."""
        summary.skipped.update(self._left)
        summary.out -= self._left.total()

    def write(self, value: dict[str, Any]) -> None:
        source = {name: value.get(name) for name in ("topic", "partition", "offset")}
        position = {"source": source, "headers": header_structs(value)}
        if value["kind"] == "error":
            texts = {name: value[f"{name}_b64"] for name in ("key", "value")}
            pair = {name: None if text is None else base64.b64decode(text) for name, text in texts.items()}
            error = {"code": value["code"], "detail": value["detail"], **pair}
            self.add({"kind": "error", **position, "error": error})
            return
        if value["kind"] != "row" or TableId(value["db"], value["table"]).folded != self._id:
            self._left[OTHER_TABLE if value["kind"] == "row" else value["kind"]] += 1
            return
        ts = value["commit_ts"]
        time = None if ts is None else _EPOCH + timedelta(milliseconds=tso_physical_ms(ts))
        images = {image: self._row(value[image]) for image in ("before", "after")}
        self.add({**value, **images, "commit_time": time, **position})

    def write_text(self, line: str) -> None:
        self.write(json.loads(line))

    def _row(self, row: dict[str, Any] | None) -> dict[str, Any] | None:
        if row is None:
            return None
        values: dict[str, Value] = {k: bytes.fromhex(v["hex"]) if isinstance(v, dict) else v for k, v in row.items()}
        cells = self._view.row(values, self._zone) or {}
        for name in self._intervals & cells.keys():
            cells[name] = None if cells[name] is None else cells[name] // timedelta(microseconds=1)
        return cells
