"""Events → Open Protocol messages as TiCDC writes them (upstream ticdc `codec/open/encoder.go`)."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from ticdc_bridge.schemas.codec import compression
from ticdc_bridge.schemas.codec.bounded_cache import BoundedCache
from ticdc_bridge.schemas.codec.json_exact import is_utf8
from ticdc_bridge.schemas.ddl.parser.action_types import ddl_type_of
from ticdc_bridge.schemas.formats import base
from ticdc_bridge.schemas.formats.open_protocol import frame
from ticdc_bridge.schemas.formats.open_protocol.schema import ColumnHeader, cell_of, check_known, derived_keys
from ticdc_bridge.schemas.formats.open_protocol.values import Style, Write, writer
from ticdc_bridge.schemas.formats.other_fields import members_text
from ticdc_bridge.schemas.model.errors import LossyError, WireError
from ticdc_bridge.schemas.model.event import DdlEvent, Event, Message, Row, RowChange, Watermark
from ticdc_bridge.schemas.model.table import Column, Table, Value
from ticdc_bridge.schemas.model.types import Kind

_FORMATS = ("open", "open-tiflow")
_OVERHEAD, _PAIR, _VERSION = 36, 16, 8  # bytes by which TiCDC counts a record, an event's lengths and the version
_COMPRESS: dict[str, Callable[[bytes], bytes]] = {"none": bytes, "snappy": compression.snap, "lz4": compression.lz4}


@dataclass(frozen=True, slots=True)
class _Cell:
    """A compiled column: its text up to the value, and how its values are written."""

    head: str
    column: Column
    write: Write


class OpenEncoder:
    """Writes rows in batches, DDL and resolved events.

    An update's old row is left out with no_old_value, cut to what changed with only_output_updated_columns. A row
    over max_message_bytes is an error, or its handle key alone with large_message_handle_option handle-key-only;
    claim-checks are not written. Values are compressed with large_message_handle_compression.
    """

    classic = False
    key_only_rows = True  # a row of which only the key is known can be written as such

    def __init__(self, context: base.Context) -> None:
        self._options = context.options
        self._style = Style(self.classic, context.options.on_lossy == "flag")
        self._compress = _COMPRESS[context.options.large_message_handle_compression]
        self._plans: BoundedCache[tuple[Any, ...], tuple[Table, tuple[_Cell, ...]]] = BoundedCache()

    def encode(self, event: Event, origin: Message) -> list[Message]:
        """One event → one message. WireError, LossyError by column; TOO_LARGE."""
        if isinstance(event, RowChange):
            return self.encode_rows([event], origin)
        if isinstance(event, Watermark):
            return [_message(origin, [f'{{"ts":{base.checked_commit_ts(event.commit_ts)},"t":3}}'.encode()], [b""])]
        return self._ddl(event, origin)

    def encode_rows(self, rows: Sequence[RowChange], origin: Message) -> list[Message]:
        """Rows → messages of at most max_batch_size rows and max_message_bytes bytes, in order."""
        batches: list[tuple[list[bytes], list[bytes]]] = []
        size = 0
        for row in rows:
            key, value = self._row(row, origin)
            added = len(key) + len(value) + _PAIR
            full = not batches or len(batches[-1][0]) >= self._options.max_batch_size
            if full or size + added > self._options.max_message_bytes:
                batches.append(([], []))
                size = _OVERHEAD + _VERSION
            batches[-1][0].append(key)
            batches[-1][1].append(value)
            size += added
        return [_message(origin, keys, bodies) for keys, bodies in batches]

    # ---- rows
    def _row(self, event: RowChange, origin: Message) -> tuple[bytes, bytes]:
        base.refuse_changed(event, self._options)
        commit_ts = base.required_commit_ts(event, origin, self._options)
        if commit_ts is None:
            details = "the event has none and neither has the message; the Open Protocol can't do without"
            raise WireError("INVALID_VALUE", column="commit_ts", details=details)
        extra = event.extra if event.format in _FORMATS else {}
        if event.op == "u" and event.before is None and not self._options.no_old_value:
            event.flag("no_before")
        only_key = event.key_only and (event.op != "d" or bool(extra.get("ohk")))
        key, value = self._pair(event, commit_ts, extra, only_key)
        limit = self._options.max_message_bytes
        if _size(key, value) > limit and self._options.large_message_handle_option == "handle-key-only":
            key, value = self._pair(event, commit_ts, extra, True)
        if _size(key, value) > limit:
            details = f"the row takes {_size(key, value)} bytes, max_message_bytes is {limit}"
            if self._options.large_message_handle_option == "claim-check":
                details += "; claim-checks are not written, use handle-key-only or a higher limit"
            raise WireError("TOO_LARGE", where=str(event.table.id), details=details)
        return key, value

    def _pair(self, event: RowChange, commit_ts: int, extra: Mapping[str, Any], only_key: bool) -> tuple[bytes, bytes]:
        plan = self._plan(event, extra)
        if event.op == "d":
            handles = only_key or event.key_only or self._options.delete_only_output_handle_key_columns
            value = f'{{"d":{self._image(plan, event, "before", handles, not handles)}'
        else:
            value = f'{{"u":{self._image(plan, event, "after", only_key, not only_key)}'
            if event.op == "u" and event.before is not None and not self._options.no_old_value:
                partial = only_key or event.format in _FORMATS
                value += f',"p":{self._image(plan, event, "before", only_key, not partial)}'
        value += members_text(extra, "value") + "}"
        body = value.encode("utf-8", "surrogateescape")
        return self._row_key(event, commit_ts, extra, only_key).encode(), self._compress(body)

    def _row_key(self, event: RowChange, commit_ts: int, extra: Mapping[str, Any], only_key: bool) -> str:
        names = self._names(event.db, event.table_name)
        rid, ptn = (f',"{name}":{int(extra[name])}' if name in extra else "" for name in ("rid", "ptn"))
        ohk = ',"ohk":true' if only_key else ""
        rest = f'{rid}{ptn},"t":1{ohk}' if self.classic else f',"t":1{ohk}{ptn}'
        rest += members_text(extra, "key")
        return f'{{"ts":{commit_ts}{names}{rest}}}'

    def _names(self, db: str, table: str) -> str:
        what, names = "the table's name", (("scm", db), ("tbl", table))
        # Classic TiCDC leaves out empty ones.
        return "".join(f',"{key}":{self._json_name(what, n)}' for key, n in names if n or not self.classic)

    def _image(self, plan: tuple[_Cell, ...], event: RowChange, name: str, handles: bool, all_columns: bool) -> str:
        """One image of a row. handles: handle key columns only; all_columns: the event must have each column."""
        row: Row = (base.complete_before(event) if all_columns and name == "before" else getattr(event, name)) or {}
        changed = event.after if name == "before" and event.op == "u" else None
        only_updated = changed is not None and self._options.only_output_updated_columns and not handles
        zeros = event.extra.get("enum_zero", ()) if event.format in _FORMATS else ()
        out, count = [], 0
        for cell in plan:
            column = cell.column.name
            if column not in row:
                if all_columns:
                    raise WireError("INVALID_VALUE", column=column, details="the event does not carry it")
                continue
            count += 1
            if handles and not cell.column.handle_key:
                continue
            value = row[column]
            if only_updated and changed is not None and column in changed and changed[column] == value:
                continue
            text = "null" if value is None else self._value(cell, value, event)
            out.append(cell.head + ("0" if zeros and f"{name}.{column}" in zeros else text) + "}")
        if count != len(row):
            strange = [c for c in row if c not in {cell.column.name for cell in plan}]
            raise WireError("INVALID_VALUE", column=strange[0], details="the table has no such column")
        if handles and not out:
            details = "only handle key columns are to be written, and the row has none"
            raise WireError("KEY_ONLY_ROW", table=str(event.table.id), details=details)
        return "{" + ",".join(out) + "}"

    def _value(self, cell: _Cell, value: Value, event: RowChange) -> str:
        column = cell.column
        try:
            if column.type.kind is Kind.TIMESTAMP:
                value = event.in_zone(column.name, value, self._options.time_zone)
            text = cell.write(value, event.flag)
            if self.classic and f"replaced_utf8:{column.name}" in event.flags:
                return text.replace("\ufffd", "\\ufffd")
            return text
        except LossyError:
            raise
        except (ValueError, TypeError, ArithmeticError) as error:
            raise WireError("INVALID_VALUE", column=column.name, details=str(error)[:300]) from error

    def _plan(self, event: RowChange, extra: Mapping[str, Any]) -> tuple[_Cell, ...]:
        odd: Mapping[str, Sequence[Any]] = extra.get("columns", {})
        numbered = frozenset(flag[12:] for flag in event.flags if flag.startswith("enum_number:"))
        # Types of the Open Protocol's own events are the message's; Avro's have one name for several.
        same_format, folded = event.format in _FORMATS, event.format == "avro" and event.table_version is None
        key = (id(event.table), tuple((name, *traits) for name, traits in odd.items()), numbered, same_format, folded)
        if (entry := self._plans.get(key)) is not None:
            return entry[1]
        derived, plan = derived_keys(event.table), []
        style = replace(self._style, raw=same_format and not self.classic)
        for column in event.table.columns:
            if column.virtual:
                continue
            by_number = column.name in numbered and not column.elements
            if not same_format and not by_number:
                check_known(column, folded)
            cell = cell_of(column, derived.get(column.name, 0))
            if column.name in odd:
                cell = ColumnHeader(column.name, *odd[column.name])
            plan.append(_Cell(self._head(cell), column, writer(column, style, by_number)))
        if self.classic:
            plan.sort(key=lambda c: c.column.name)
        self._plans[key] = event.table, tuple(plan)
        return tuple(plan)

    def _head(self, cell: ColumnHeader) -> str:
        handle = '"h":true,' if cell.handle else ""
        flags = "" if cell.flags is None else f'"f":{cell.flags},'
        return f'{self._json_name(cell.name, cell.name)}:{{"t":{cell.code},{handle}{flags}"v":'

    def _json_name(self, what: str, text: str) -> str:
        """A JSON string of UTF-8. WireError where another format's name or statement is none."""
        if not is_utf8(text):
            raise WireError("INVALID_VALUE", column=ascii(what)[1:-1], details="not UTF-8")
        return self._style.string(text)

    # ---- DDL
    def _ddl(self, event: DdlEvent, origin: Message) -> list[Message]:
        """Nothing where neither the event nor its message has a time, or TiDB's type of it is not known."""
        ddl_type, commit_ts = ddl_type_of(event), base.required_commit_ts(event, origin, self._options)
        if commit_ts is None or ddl_type is None:
            return []
        others = members_text(event.extra if event.format in _FORMATS else {}, "key")
        key = f'{{"ts":{commit_ts}{self._names(event.db, event.table)},"t":2{others}}}'
        value = f'{{"q":{self._json_name("ddl", event.query)},"t":{ddl_type}}}'
        return [_message(origin, [key.encode()], [self._compress(value.encode())])]


class OpenTiflowEncoder(OpenEncoder):
    """Writes as classic TiCDC: columns in order of their names, Go's encoding/json, empty names left out."""

    classic = True


def _size(key: bytes, value: bytes) -> int:
    """A message of this one row, as TiCDC counts it against max-message-bytes."""
    return len(key) + len(value) + _OVERHEAD + _PAIR + _VERSION


def _message(origin: Message, keys: list[bytes], bodies: list[bytes]) -> Message:
    return replace(origin, key=frame.join_key(keys), value=frame.join_value(bodies))
