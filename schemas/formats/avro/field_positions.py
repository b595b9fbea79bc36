"""Where each field of an Avro record stands in its bytes, for `explain`."""

from __future__ import annotations

from schemas.codec import avro as binary
from schemas.formats.avro.record import RecordReader
from schemas.formats.avro.schema import BEFORE
from schemas.formats.base import FieldPosition
from schemas.model.errors import WireError


def trace_record(record: RecordReader, data: bytes, pos: int, part: str, side: str) -> list[FieldPosition]:
    """The fields of a record that begins at `pos`; those of the old row on side "before". WireError when it is cut."""
    positions = []
    for field in record.fields:
        start = pos
        try:
            value, pos = field.read(data, pos)
        except binary.TruncatedValue as cut:
            raise WireError("TRUNCATED", where=part, field=f"field {field.name!r}", details=str(cut)) from cut
        except ValueError as error:
            raise WireError("MALFORMED", where=part, details=f"field {field.name!r}: {error}") from error
        raw = data[start:pos]
        if field.name == BEFORE and record.before is not None and raw != b"\x00":
            positions += trace_record(record.before, data, start + 1, part, "before")
        else:
            beside = "" if field.name in record.extension or field.name == BEFORE else side
            text = "" if beside else value.decode("utf-8", "replace") if isinstance(value, bytes) else str(value)
            positions.append(FieldPosition(part, start, raw, field.wire, beside, field.name, value=text))
    return positions
