"""One table's changes as records of one Avro schema of TiCDC's, whatever version each row is of: no key, no header."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from ticdc_bridge.schemas.codec import avro as binary
from ticdc_bridge.schemas.formats.avro.decoder import checksum_fields
from ticdc_bridge.schemas.formats.avro.record import RecordReader, field_writer
from ticdc_bridge.schemas.formats.avro.schema import BEFORE, CHECKSUM, EXTENSION
from ticdc_bridge.schemas.formats.base import refuse_changed, required_commit_ts, whole_before
from ticdc_bridge.schemas.model.errors import LossyError, SetupError, WireError
from ticdc_bridge.schemas.model.event import Event, Message, Row, RowChange, tso_physical_ms
from ticdc_bridge.schemas.model.names import sanitise_name
from ticdc_bridge.schemas.model.options import Options
from ticdc_bridge.schemas.model.table import Table, Value

_OP, _COMMIT_TS, _TIME = (str(f["name"]) for f in EXTENSION)
_KINDS = {f["name"]: f["type"] for f in EXTENSION + CHECKSUM}

FieldWriter = Callable[[RowChange, Row, Message], bytes]


class RecordEncoder:
    """Writes rows of a table; other events and other tables' rows give nothing.

    record: the schema, compiled; newest: the table; options: time_zone and on_lossy count. SetupError USAGE for a
    schema that TiCDC does not write.
    """

    def __init__(self, record: RecordReader, newest: Table, options: Options) -> None:
        self._record, self._table, self._options = record, newest.id, options
        names = {c.name for c in record.columns}
        self._lacking = {c.name for c in newest.columns if not c.virtual and sanitise_name(c.name) not in names}
        self._texts = [f.name for f in record.fields if "string" in f.branches]
        self._fields = self._writers(record)
        self._before = None if record.before is None else self._writers(record.before)

    def encode(self, event: Event, origin: Message) -> list[Message]:
        """A row → one message without key, whose value is its record.

        WireError INVALID_VALUE for a row that the record has no place for; LossyError where it would become another.
        """
        if not isinstance(event, RowChange) or event.table.id != self._table:
            return []
        refuse_changed(event, self._options)
        if event.op == "d" and _OP not in self._record.extension:
            details = f"the schema has no {_OP}: a delete would be taken for an insert"
            raise LossyError("LOSSY_VALUE", column=_OP, details=details)
        row = event.before if event.op == "d" else event.after
        if row is None:
            raise WireError("INVALID_VALUE", column="*", details=f"a change of op {event.op!r} without its row")
        record = self._of_record(row, event)
        return [replace(origin, key=None, value=b"".join(write(event, record, origin) for write in self._fields))]

    def _of_record(self, row: Row, event: RowChange) -> dict[str, Value]:
        """The row under the record's names, NULL for a column that its version of the table does not have."""
        if lost := next((name for name in row if name in self._lacking), None):
            raise WireError(
                "INVALID_VALUE", column=lost, details="the schema, the newest registered, has no such column"
            )
        stored = {sanitise_name(c.name) for c in event.table.columns if not c.virtual}
        cells: dict[str, Value] = {c.name: None for c in self._record.columns if c.name not in stored}
        cells |= {sanitise_name(name): value for name, value in row.items()}
        if broken := next((name for name in self._texts if isinstance(cells.get(name), bytes)), None):
            raise WireError("INVALID_VALUE", column=broken, details="bytes that are no UTF-8 are no string of Avro")
        return cells

    def _writers(self, record: RecordReader) -> list[FieldWriter]:
        columns = {c.name: c for c in record.columns}
        writers: list[FieldWriter] = []
        for field in record.fields:
            if field.name in columns:
                writers.append(
                    _column_writer(field_writer(columns[field.name], field.branches, self._options.time_zone))
                )
            elif field.name == BEFORE:
                writers.append(self._write_before)
            elif field.branches == (_KINDS[field.name],):
                writers.append(self._extension_writer(field.name))
            else:
                details = f"the schema's field {field.name} is {' | '.join(field.branches)}, which TiCDC does not write"
                raise SetupError("USAGE", details=details)
        return writers

    def _extension_writer(self, name: str) -> FieldWriter:
        return lambda event, _record, origin: _EXTENSION_WRITERS[name](event, origin, self._options)

    def _write_before(self, event: RowChange, _record: Row, origin: Message) -> bytes:
        before = whole_before(event)
        if before is None or self._before is None:
            return b"\x00"
        cells = self._of_record(before, event)
        return b"\x02" + b"".join(write(event, cells, origin) for write in self._before)


def _column_writer(write: Callable[[Row, RowChange], bytes]) -> FieldWriter:
    return lambda event, record, _origin: write(record, event)


def _write_op(event: RowChange, _origin: Message, _options: Options) -> bytes:
    return binary.write_bytes(b"c" if event.op == "r" else event.op.encode())


def _commit_ts(event: RowChange, origin: Message, options: Options) -> int:
    commit_ts = required_commit_ts(event, origin, options)
    if commit_ts is None:
        details = "the event has no commit_ts and the message no timestamp to make one from"
        raise LossyError("LOSSY_VALUE", column=_COMMIT_TS, details=details)
    return commit_ts


def _nothing(_event: RowChange, _origin: Message, _options: Options) -> bytes:
    return b""


_EXTENSION_WRITERS: dict[str, Callable[[RowChange, Message, Options], bytes]] = {
    _OP: _write_op,
    _COMMIT_TS: lambda *of: binary.write_long(_commit_ts(*of)),
    _TIME: lambda *of: binary.write_long(tso_physical_ms(_commit_ts(*of))),
    # TiCDC has the three fields of a checksum together.
    **dict.fromkeys((str(f["name"]) for f in CHECKSUM), _nothing),
    str(CHECKSUM[0]["name"]): lambda event, _origin, _options: checksum_fields(event.extra.get("checksum")),
}
