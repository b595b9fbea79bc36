"""Data files: rows as Parquet, with what add actions tell of them (protocol: "Add File", "Per-file Statistics")."""

from __future__ import annotations

import json
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any
from urllib.parse import unquote
from uuid import uuid4

import pyarrow
import pyarrow.compute
import pyarrow.parquet

from ticdc_bridge.spark_jobs.arrow.arrow_types import arrow_type_of
from ticdc_bridge.spark_jobs.lake.delta_protocol.transaction_log import Action, Field, UnsupportedTable

pa: Any = pyarrow  # the stubs know less than the library
pc: Any = pyarrow.compute

_TEXT = 32
"""Characters of a text's bounds, as Delta's own writer has them."""
_MOST_DIGITS = 15
"""Digits of a DECIMAL that each reader of JSON has exactly."""
_LAST = "\U0010ffff"


def arrow_type(field: Field) -> Any:
    """UnsupportedTable for a type that files are not written with here."""
    try:
        kind = arrow_type_of(field.kind)
    except (KeyError, TypeError):
        kind = None
    if kind is None or pa.types.is_nested(kind) or pa.types.is_duration(kind):
        raise UnsupportedTable(f"column {field.name} is {field.kind}")
    return kind


def path_of_file(table: Path, path: str) -> Path:
    """Where a data file is. path: of its add action. UnsupportedTable for one that is not on this machine's disk."""
    if "://" in path:
        raise UnsupportedTable(f"a data file is at {path}")
    return table / unquote(path.removeprefix("file:"))


def write_rows(table: Path, rows: Any, fields: Sequence[Field]) -> Action:
    """A data file of rows (an Arrow table with the fields' names and types); its add action."""
    described = []
    for field in fields:
        metadata = None if field.id is None else {"PARQUET:field_id": str(field.id)}
        described.append(pa.field(field.physical, arrow_type(field), True, metadata))
    columns = [rows.column(field.name) for field in fields]
    physical = pa.Table.from_arrays(columns, schema=pa.schema(described))
    name = f"part-00000-{uuid4()}-c000.snappy.parquet"
    file = table / name
    pyarrow.parquet.write_table(physical, file, compression="snappy", store_decimal_as_integer=True)
    return {
        "path": name, "partitionValues": {}, "size": file.stat().st_size,
        "modificationTime": int(time.time() * 1000), "dataChange": True, "stats": json.dumps(_statistics(physical)),
    }  # fmt: skip


def _statistics(rows: Any) -> dict[str, Any]:
    """numRecords, and the bounds of columns that have some."""
    least, most, nulls = dict[str, Any](), dict[str, Any](), dict[str, int]()
    for name, column in zip(rows.column_names, rows.columns, strict=True):
        nulls[name] = column.null_count
        if not pa.types.is_binary(column.type) and column.null_count < len(column):
            bounds = pc.min_max(column)
            for bound, found, is_most in ((least, bounds["min"], False), (most, bounds["max"], True)):
                if (value := _bound(column.type, found.as_py(), is_most)) is not None:
                    bound[name] = value
    return {"numRecords": len(rows), "minValues": least, "maxValues": most, "nullCount": nulls, "tightBounds": True}


def _bound(kind: Any, value: Any, is_most: bool) -> Any:
    """A bound as statistics have it, None for none. It need not be a value of the column, but no value is beyond it."""
    if isinstance(value, str):
        if len(value) <= _TEXT:
            return value
        is_last = value[_TEXT] == _LAST
        return value[:_TEXT] + (_LAST if is_most else "") if not (is_most and is_last) else None
    if pa.types.is_decimal(kind):
        return float(value) if kind.precision <= _MOST_DIGITS else None
    if pa.types.is_timestamp(kind):
        return None
    if pa.types.is_date(kind):
        return value.isoformat()
    return value
