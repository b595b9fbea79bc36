"""Data files: rows as Parquet, with what add actions tell of them (protocol: "Add File", "Per-file Statistics")."""

import json
import sys
import time
from collections.abc import Sequence
from datetime import MAXYEAR, date, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any
from urllib.parse import unquote
from uuid import uuid4

import pyarrow.parquet

from ticdc_bridge.spark_jobs.arrow.arrow_types import arrow_type_of
from ticdc_bridge.spark_jobs.arrow.library import pa, pc
from ticdc_bridge.spark_jobs.lake.delta_protocol.transaction_log import Action, Field, UnsupportedTable

_MOST_LETTERS, _MOST_DIGITS = 32, 15
"""Of a text that is a bound, as Delta's own writer has them; of a DECIMAL that each reader of JSON has exactly."""
_BOUNDED = (pa.types.is_integer, pa.types.is_string, pa.types.is_decimal, pa.types.is_date, pa.types.is_timestamp)
_CALENDAR = {"org.apache.spark.version": "4.0.0"}
"""By what Spark knows that dates from before 1582 are those of today's calendar: Spark 3 refuses them without it."""


def arrow_type(field: Field) -> Any:
    """A column's type in data files. UnsupportedTable for one that files are not written with here."""
    if isinstance(field.kind, dict) and field.kind["type"] == "struct":
        return pa.struct([_arrow_field(Field.of(each)) for each in field.kind["fields"]])
    try:
        kind = arrow_type_of(field.kind)
    except (KeyError, TypeError):
        kind = None
    if kind is None or pa.types.is_nested(kind) or pa.types.is_duration(kind):
        raise UnsupportedTable(f"column {field.name} is {field.kind}")
    return kind


def _arrow_field(field: Field) -> Any:
    metadata = None if field.id is None else {"PARQUET:field_id": str(field.id)}
    return pa.field(field.physical, arrow_type(field), True, metadata)


def path_of_file(table: Path, path: str) -> Path:
    """Where a data file is. path: of its add action. UnsupportedTable for one that is not on this machine's disk."""
    if "://" in path:
        raise UnsupportedTable(f"a data file is at {path}")
    return table / unquote(path.removeprefix("file:"))


def write_rows(table: Path, rows: Any, fields: Sequence[Field]) -> Action:
    """A data file of rows (an Arrow table with the fields' names, and their `arrow_type`); its add action."""
    columns = [rows.column(field.name) for field in fields]
    physical = pa.Table.from_arrays(columns, schema=pa.schema(map(_arrow_field, fields), _CALENDAR))
    name = f"part-00000-{uuid4()}-c000.snappy.parquet"
    file = table / name
    pyarrow.parquet.write_table(physical, file, compression="snappy", store_decimal_as_integer=True)
    return {
        "path": name, "partitionValues": {}, "size": file.stat().st_size,
        "modificationTime": int(time.time() * 1000), "dataChange": True, "stats": json.dumps(_statistics(physical)),
    }  # fmt: skip


def _statistics(rows: Any) -> dict[str, Any]:
    """numRecords, and the bounds of columns that have some."""
    bounds: dict[str, dict[str, Any]] = {"min": {}, "max": {}}
    for name, column in zip(rows.column_names, rows.columns, strict=True):
        found = pc.min_max(column).as_py() if any(test(column.type) for test in _BOUNDED) else {}
        made = {end: _bound(value, end) for end, value in found.items()}
        if None not in made.values():
            for end, value in made.items():
                bounds[end][name] = value
    plain = [name for name in rows.column_names if not pa.types.is_nested(rows.column(name).type)]
    nulls = {name: rows.column(name).null_count for name in plain}
    ends = {"minValues": bounds["min"], "maxValues": bounds["max"]}
    return {"numRecords": len(rows), **ends, "nullCount": nulls, "tightBounds": True}


def _bound(value: Any, end: str) -> Any:
    """The smallest (`min`) or largest value as JSON has it, or a text or time beyond it; None: it is left out."""
    if isinstance(value, Decimal):
        if value.as_tuple().exponent == 0:
            return int(value)
        is_exact = len(value.as_tuple().digits) <= _MOST_DIGITS and "e" not in str(float(value))
        return float(value) if is_exact else None
    if isinstance(value, str) and len(value) > _MOST_LETTERS:
        most = "" if end == "min" else chr(sys.maxunicode)
        return value[:_MOST_LETTERS] + most if value[_MOST_LETTERS] < chr(sys.maxunicode) else None
    if isinstance(value, datetime):  # in milliseconds
        if value.year == MAXYEAR:
            return None
        after = timedelta(microseconds=999 if end == "max" else 0)
        return (value + after).isoformat(timespec="milliseconds").replace("+00:00", "Z")
    return str(value) if isinstance(value, date) else value
