"""`decode --table DB.TABLE --out FILE.parquet`: one table's changes, its columns typed as Spark reads them back."""

from __future__ import annotations

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
from ticdc_bridge.spark_jobs.arrow.columns import arrow_type
from ticdc_bridge.spark_jobs.io.parquet import HEADERS, ParquetFile, header_structs
from ticdc_bridge.spark_jobs.pipeline.codec_config import CodecConfig
from ticdc_bridge.spark_jobs.pipeline.newest_columns import zone_of
from ticdc_bridge.spark_jobs.pipeline.result import OTHER_TABLE, Summary

pc: Any = pyarrow.compute  # the stubs know less than the library
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_TIME, _BYTES = pa.timestamp("us", "UTC"), pa.binary()
_SOURCE = pa.struct([("topic", pa.string()), ("partition", pa.int32()), ("offset", pa.int64())])
_PLACED = pa.struct([*_SOURCE, pa.field("timestamp", _TIME)])
_ERROR = pa.struct([("code", pa.string()), ("detail", pa.string()), ("key", _BYTES), ("value", _BYTES)])
# Spark reads the columns' types and metadata from here (upstream ParquetReadSupport.SPARK_METADATA_KEY).
_SPARK = b"org.apache.spark.sql.parquet.row.metadata"
_TEMPORAL: dict[str, Any] = {
    "date": pa.date32(), "timestamp_ntz": pa.timestamp("us"), "timestamp": _TIME, "interval day to second": pa.int64(),
}  # fmt: skip
_SPARK_NAMES = {
    "string": "string", "int32": "integer", "int64": "long", "binary": "binary", "timestamp[us, tz=UTC]": "timestamp",
}  # fmt: skip


class TableParquet(ParquetFile):
    """Takes plain-form lines (spark_jobs.io.endpoints.LineSink); the side's view says which table, in which types.

    Rows of the table and errors are written, as the columns of spark_jobs.arrow.change_schema.CHANGES, but for what a
    line does not tell: the message's timestamp and the number of the row in it. What else there is is left out and
    counted.
    """

    def __init__(self, path: Path, side: CodecConfig) -> None:
        assert side.view is not None
        self._view, self._zone = side.view, zone_of(side)
        self._id = self._view.table.id.folded
        self._left: Counter[str] = Counter()
        visible_columns = [c for c in self._view.table.columns if not c.virtual]
        kinds = self._view.types.kinds
        row = pa.struct(
            [
                (c.name, _TEMPORAL[kinds[c.type.kind]] if c.type.kind in kinds else arrow_type(c))
                for c in visible_columns
            ]
        )
        self._intervals = {c.name for c in visible_columns if kinds.get(c.type.kind, "").startswith("interval")}
        columns: list[tuple[str, Any]] = [
            ("kind", pa.string()), ("op", pa.string()), ("commit_ts", pa.int64()), ("commit_time", _TIME),
            ("db", pa.string()), ("table", pa.string()), ("schema_id", pa.int32()), ("table_version", pa.int64()),
            ("key", pa.list_(pa.string())), ("before", row), ("after", row), ("flags", pa.list_(pa.string())),
            ("source", _SOURCE), ("error", _ERROR), ("headers", HEADERS),
        ]  # fmt: skip
        row_type = struct(self._view.table, self._view.types, certain=side.tables is not None)
        fields = [_field(name, row_type if name in ("before", "after") else _spark(kind)) for name, kind in columns]
        super().__init__(path, columns, {_SPARK: json.dumps({"type": "struct", "fields": fields}).encode()})

    @property
    def changes(self) -> Any:
        """The change events that `write_batch` takes; None where only lines are taken."""
        if self._intervals:
            return None
        own: dict[str, Any] = {field.name: field.type for field in self._schema}
        more: dict[str, Any] = {"ddl_type": pa.int32(), "query": pa.string(), "row": pa.int32(), "source": _PLACED}
        return pa.schema(own | more)

    def write_batch(self, changes: Any) -> None:
        """Rows of the table, and of others, which are left out and counted."""
        ours = pc.equal(changes.column("kind"), "row")
        if others := len(changes) - pc.sum(ours).as_py():
            self._left[OTHER_TABLE] += others
            changes = changes.filter(ours)
        source = changes.column("source")
        place = pa.StructArray.from_arrays([source.field(f.name) for f in _SOURCE], fields=list(_SOURCE))
        columns = [place if f.name == "source" else changes.column(f.name) for f in self._schema]
        self.add_batch(pa.Table.from_arrays(columns, schema=self._schema))

    def tell(self, summary: Summary) -> None:
        """Adds what was left out."""
        summary.skipped.update(self._left)
        summary.out -= self._left.total()

    def write(self, value: dict[str, Any]) -> None:
        source = {name: value.get(name) for name in ("topic", "partition", "offset")}
        place = {"source": source, "headers": header_structs(value)}
        if value["kind"] == "error":
            pair = {name: _bytes(value[f"{name}_b64"]) for name in ("key", "value")}
            error = {"code": value["code"], "detail": value["detail"], **pair}
            self.add({"kind": "error", **place, "error": error})
            return
        if value["kind"] != "row" or TableId(value["db"], value["table"]).folded != self._id:
            self._left[OTHER_TABLE if value["kind"] == "row" else value["kind"]] += 1
            return
        ts = value["commit_ts"]
        time = None if ts is None else _EPOCH + timedelta(milliseconds=tso_physical_ms(ts))
        sides = {side: self._row(value[side]) for side in ("before", "after")}
        self.add({**value, **sides, "commit_time": time, **place})

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


def _bytes(text: str | None) -> bytes | None:
    return None if text is None else base64.b64decode(text)


def _field(name: str, kind: Any) -> dict[str, Any]:
    return {"name": name, "type": kind, "nullable": True, "metadata": {}}


def _spark(kind: Any) -> Any:
    """An Arrow type as Spark's JSON has it."""
    if pa.types.is_list(kind):
        return {"type": "array", "elementType": _spark(kind.value_type), "containsNull": True}
    if pa.types.is_struct(kind):
        return {"type": "struct", "fields": [_field(f.name, _spark(f.type)) for f in kind]}
    return _SPARK_NAMES[str(kind)]
