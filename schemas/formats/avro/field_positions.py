"""Where each field of an Avro record stands in its bytes, for `explain`."""

from __future__ import annotations

from dataclasses import replace

from ticdc_bridge.schemas.codec.avro_reader import FieldError, read_fields
from ticdc_bridge.schemas.formats.avro.record import RecordReader, field_error
from ticdc_bridge.schemas.formats.avro.schema import BEFORE
from ticdc_bridge.schemas.formats.base import FieldPosition


def trace_record(record: RecordReader, data: bytes, pos: int, part: str, side: str) -> list[FieldPosition]:
    """The fields of a record that begins at `pos`; those of the old row on side "before". WireError when it is cut."""
    positions = []
    for field in record.fields:
        start = pos
        try:
            row, pos = read_fields((replace(field, convert=None),), data, pos)
        except FieldError as error:
            raise field_error(error, part) from error
        value = row[field.name]
        raw = data[start:pos]
        if field.name == BEFORE and record.before is not None and raw != b"\x00":
            positions += trace_record(record.before, data, start + 1, part, "before")
        else:
            beside = "" if field.name in record.extension or field.name == BEFORE else side
            text = "" if beside else value.decode("utf-8", "replace") if isinstance(value, bytes) else str(value)
            positions.append(
                FieldPosition(part, start, raw, " | ".join(field.branches), beside, field.name, value=text)
            )
    return positions
