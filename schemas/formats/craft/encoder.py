"""Change events → Craft messages, as TiCDC's classic encoder writes them (upstream tiflow `craft/craft_encoder.go`)."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from ticdc_bridge.schemas.codec.bounded_cache import BoundedCache
from ticdc_bridge.schemas.ddl.parser.action_types import ddl_type_of
from ticdc_bridge.schemas.formats.base import Context, complete_before, refuse_changed, required_commit_ts
from ticdc_bridge.schemas.formats.craft import layout as wire
from ticdc_bridge.schemas.formats.craft import values as cell_values
from ticdc_bridge.schemas.formats.definitions import unknown_type_error
from ticdc_bridge.schemas.model.errors import Hint, WireError
from ticdc_bridge.schemas.model.event import DdlEvent, Event, Message, Row, RowChange
from ticdc_bridge.schemas.model.options import Options
from ticdc_bridge.schemas.model.table import Column, Table, Value, require_text
from ticdc_bridge.schemas.model.types import ELEMENTS, Kind
from ticdc_bridge.schemas.model.values import integer


@dataclass(frozen=True, slots=True)
class _Cell:
    """A column compiled: what the message says of it, and how its values are written."""

    column: Column
    code: int
    flags: int
    write: cell_values.Write


class CraftEncoder:
    """Rows of one source message go into as few messages as the options allow; DDL and resolved events go alone.

    Options: max_batch_size, max_message_bytes (by TiCDC's estimate, which is on the large side), no_old_value,
    delete_only_output_handle_key_columns, time_zone.
    """

    def __init__(self, context: Context) -> None:
        self._options: Options = context.options
        self._plans: BoundedCache[tuple[Any, ...], tuple[Table, dict[str, _Cell]]] = BoundedCache(256)

    def encode(self, event: Event, origin: Message) -> list[Message]:
        """An event → its message. A DDL without any time, or of unknown TiDB type, is left out."""
        if isinstance(event, RowChange):
            return self.encode_rows([event], origin)
        if isinstance(event, DdlEvent):
            ddl_type, commit_ts = ddl_type_of(event), required_commit_ts(event, origin, self._options)
            if ddl_type is None or commit_ts is None:
                return []
            for what, text in (("database", event.db), ("table", event.table), ("query", event.query)):
                wire.check_utf8(what, text)
            value = wire.write_ddl(event.db, event.table, commit_ts, ddl_type, event.query)
        else:
            value = wire.write_resolved(event.commit_ts)
        return [replace(origin, key=None, value=value)]

    def encode_rows(self, rows: Sequence[RowChange], origin: Message) -> list[Message]:
        """Rows → messages, cut where TiCDC cuts: after the row that reaches a limit. WireError by column."""
        messages: list[Message] = []
        batch: list[wire.RowOut] = []
        size = 0
        for event in rows:
            batch.append(self._row(event, origin))
            size += batch[-1].estimate()
            if size > self._options.max_message_bytes or len(batch) >= self._options.max_batch_size:
                messages.append(replace(origin, key=None, value=wire.write_rows(batch)))
                batch, size = [], 0
        if batch:
            messages.append(replace(origin, key=None, value=wire.write_rows(batch)))
        return messages

    def _row(self, event: RowChange, origin: Message) -> wire.RowOut:
        refuse_changed(event, self._options, keeps=cell_values.FLOAT_DAMAGED if event.format == "craft" else "")
        before, after = event.before if event.format == "craft" else complete_before(event), event.after
        if (before if event.op == "d" else after) is None:
            raise WireError("INVALID_VALUE", column="op", details=f"op {event.op!r} without its row")
        if event.op == "u" and before is None and not self._options.no_old_value:
            event.flag("no_before")
        if event.op == "d":
            after = None
        elif event.op != "u" or self._options.no_old_value:
            before = None
        commit_ts = required_commit_ts(event, origin, self._options)
        if commit_ts is None:
            event.flag("commit_ts_unknown")
        if not event.db or not event.table_name:
            raise WireError("INVALID_VALUE", column="table", details="Craft has no rows without schema and table names")
        extra = event.extra if event.format == "craft" else {}
        plan = self._plan(event, extra)
        partition = extra.get("partition", wire.NO_PARTITION)
        if type(partition) is not int or not -(1 << 63) <= partition < 1 << 63:
            raise WireError("INVALID_VALUE", column="partition", details=f"{partition!r} is no physical table id")
        images = (self._image(event, plan, row, name, extra) for row, name in ((after, "after"), (before, "before")))
        return wire.RowOut(event.db, event.table_name, commit_ts or 0, partition, *images)

    def _plan(self, event: RowChange, extra: Mapping[str, Any]) -> dict[str, _Cell]:
        """Cells of all columns that a row can have, in table order."""
        same_format, table = event.format == "craft", event.table
        types = _types(extra)
        key = (id(table), same_format, *types.items())
        if key in self._plans:
            return self._plans[key][1]
        plan = {}
        names = (("database", event.db), ("table", event.table_name), *((c.name, c.name) for c in table.columns))
        for what, text in names:
            wire.check_utf8(what, text)
        for column in table.columns:
            if not column.virtual:
                if not same_format and column.vague and column.type.kind not in (Kind.ENUM, Kind.SET, Kind.BIT):
                    raise unknown_type_error(column)
                kind = types.get(column.name) or cell_values.type_of(column)
                plan[column.name] = _Cell(column, *kind, cell_values.writer(column, *kind, same_format=same_format))
        self._plans[key] = table, plan
        return plan

    def _image(
        self, event: RowChange, plan: dict[str, _Cell], row: Row | None, image: str, extra: Mapping[str, Any]
    ) -> wire.RowCells | None:
        if row is None:
            return None
        cells = self._cells(event, plan, row, image)
        raw = extra.get("raw", {}).get(image, {})
        contents: list[bytes | None] = []
        for cell in cells:
            name = cell.column.name
            value = row[name]
            if value is None:
                contents.append(None)
            elif name in raw:
                try:
                    contents.append(bytes.fromhex(raw[name]))
                except (ValueError, TypeError) as error:
                    details = f"{raw[name]!r} is no content in hex"
                    raise WireError("INVALID_VALUE", column=name, details=details) from error
            else:
                contents.append(self._content(event, cell, value))
        names, codes, flags = [c.column.name for c in cells], [c.code for c in cells], [c.flags for c in cells]
        return wire.RowCells(names, codes, flags, contents)

    def _cells(self, event: RowChange, plan: dict[str, _Cell], row: Row, image: str) -> list[_Cell]:
        """The columns to write: in the order they were read in, or the table's."""
        for name in row:
            if name not in plan and not (name in event.table.by_name and event.table.by_name[name].virtual):
                raise WireError("INVALID_VALUE", column=name, details=f"table {event.table.id} has no such column")
        if event.format == "craft":
            cells = [plan[name] for name in row if name in plan]
        else:
            cells = [cell for name, cell in plan.items() if name in row]
            if image == "after" and len(cells) < len(plan):
                missing = next(name for name in plan if name not in row)
                raise WireError("INVALID_VALUE", column=missing, details="the event does not carry it")
        if event.op == "d":
            if event.key_only:
                event.flag("key_only_delete")
            if self._options.delete_only_output_handle_key_columns:
                cells = [cell for cell in cells if cell.column.handle_key]
        if not cells:
            details = "a row without columns to write: the table has no handle key"
            raise WireError("INVALID_VALUE", column="key", details=details)
        return cells

    def _content(self, event: RowChange, cell: _Cell, value: Value) -> bytes:
        column, kind = cell.column, cell.column.type.kind
        try:
            if kind in ELEMENTS and not column.elements:
                if f"{cell_values.ENUM_NUMBER}:{column.name}" not in event.flags:
                    details = f"the elements of this {kind.name} are not known; give a table definition ({Hint.DDL})"
                    raise WireError("TYPE_UNKNOWN", column=column.name, details=details)
                return wire.uvarint(integer(require_text(value), 64, unsigned=True))
            if kind is Kind.FLOAT and f"{cell_values.FLOAT_DAMAGED}:{column.name}" in event.flags:
                return cell_values.damaged_float(str(value))
            if kind is Kind.TIMESTAMP:
                value = event.in_zone(column.name, value, self._options.time_zone)
            return cell.write(value)
        except (ValueError, TypeError, OverflowError) as error:
            raise WireError("INVALID_VALUE", column=column.name, details=str(error)) from error


def _types(extra: Mapping[str, Any]) -> dict[str, tuple[int, int]]:
    """(type code, flags) of the columns whose own differ from what the table says."""
    types: dict[str, tuple[int, int]] = {}
    for name, kind in extra.get("types", {}).items():
        if not (len(kind) == 2 and all(type(n) is int and 0 <= n < 1 << 63 for n in kind)):
            raise WireError("INVALID_VALUE", column=name, details=f"{kind!r} is no type code and flags")
        try:
            cell_values.column_of(name, *kind)
        except ValueError as error:
            raise WireError("INVALID_VALUE", column=name, details=str(error)) from error
        types[name] = (kind[0], kind[1])
    return types
