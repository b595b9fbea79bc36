"""Open Protocol messages → events (upstream ticdc and tiflow `codec/open`)."""

from __future__ import annotations

from typing import Any

from ticdc_bridge.schemas.codec import claim_check, compression, json_exact
from ticdc_bridge.schemas.codec.byte_signatures import with_body_name
from ticdc_bridge.schemas.formats.base import Context
from ticdc_bridge.schemas.formats.framing import MAX_MESSAGE
from ticdc_bridge.schemas.formats.open_protocol import frame
from ticdc_bridge.schemas.formats.open_protocol.document import others_of, parse
from ticdc_bridge.schemas.formats.open_protocol.row_reader import OpenRowReader, RowKey
from ticdc_bridge.schemas.formats.other_fields import EXTRA as OTHER_FIELDS
from ticdc_bridge.schemas.model.errors import WireError
from ticdc_bridge.schemas.model.event import MAX_TSO, DdlEvent, Event, Message, RowChange, Watermark
from ticdc_bridge.schemas.model.reasons import reason_of
from ticdc_bridge.schemas.model.table import TableId

ROW, DDL, RESOLVED = 1, 2, 3
_KEY_NAMES = frozenset(("ts", "scm", "tbl", "t", "rid", "ptn", "ohk", "ccl"))
_BROKEN = (KeyError, TypeError, AttributeError, ValueError, ArithmeticError)


class OpenDecoder:
    """Reads batches of rows, DDL and resolved events, of new and classic TiCDC alike.

    Types come from type codes and flags; ENUM and SET are numbers unless a table version tells their names. A value
    may be a Snappy block or an LZ4 frame: its first bytes tell. Only handle key columns (`ohk`): flag
    `handle_key_only`. A claim-check's row is fetched with `Context.claims`.
    """

    format = "open"

    def __init__(self, context: Context) -> None:
        self._claims = context.claims
        self._rows = OpenRowReader(self.format, context.tables, context.options)
        self._last_key: tuple[bytes, _Key] | None = None

    def decode(self, message: Message) -> list[Event]:
        """One message → its events in order. WireError NOT_FRAMED, TRUNCATED, TRAILING_BYTES, MALFORMED, TOO_LARGE,
        CLAIM_CHECK, EMPTY_RECORD; then none of its rows counts."""
        return self._decode(message.key, message.value, claimed=False)

    def _decode(self, key: bytes | None, value: bytes | None, claimed: bool) -> list[Event]:
        if key is None:
            reason = "a message without a key: the Open Protocol's key says what it is"
            named = with_body_name("", value, json_read=False) if value else ""
            raise WireError("EMPTY_RECORD", details=f"{reason}; {named}" if named else reason)
        if value is None and not frame.begins(key):
            raise WireError("EMPTY_RECORD", details="a message without a value: the Open Protocol has no tombstones")
        keys = [self._key(data) for data in frame.split_key(key)]
        if not value and all(k.kind == RESOLVED for k in keys):  # as old releases wrote them
            return [Watermark(self.format, k.commit_ts) for k in keys]
        values = frame.split_value(value or b"", len(keys))
        room = MAX_MESSAGE
        events: list[Event] = []
        for event_key, data in zip(keys, values, strict=True):
            if event_key.kind == RESOLVED:
                if data:
                    raise _malformed_error("value", "a resolved event has no value")
                events.append(Watermark(self.format, event_key.commit_ts))
                continue
            if event_key.claim is not None:
                events.append(self._read_claimed(event_key, claimed))
                continue
            plain = _inflate(data, room)
            if plain is not data:
                room -= len(plain)
            try:
                events.append(self._event(event_key, json_exact.document(plain)))
            except _BROKEN as error:
                what = "DDL" if event_key.kind == DDL else f"row of {event_key.db}.{event_key.table}"
                raise _malformed_error(
                    "value", f"not an Open Protocol {what}: {with_body_name(reason_of(error), plain)}"
                ) from error
        return events

    def _event(self, key: _Key, text: str) -> Event:
        if key.kind == DDL:
            body = _object(parse(text))
            query = json_exact.string(body["q"], "q")
            query.encode()
            return DdlEvent(
                self.format, key.db, key.table, key.commit_ts, _integer(body["t"], "t", 1 << 31), query, _others(key)
            )
        return self._rows.read(RowKey(TableId(key.db, key.table), key.commit_ts, key.extra, key.key_only), text)

    def _read_claimed(self, key: _Key, nested: bool) -> Event:
        """The row that a claim-check message points to: a file of a whole message with this one row."""
        uri = str(key.claim)
        if nested:
            raise _malformed_error("value", f"the claim-check's content points to another one, {uri}")
        inner_key, inner_value = claim_check.fetch_message(self._claims, uri)
        events = self._decode(inner_key, inner_value, claimed=True)
        if len(events) != 1 or not isinstance(events[0], RowChange):
            raise WireError("CLAIM_CHECK", uri=uri[:300], details="the file holds no single row")
        row = events[0]
        if (row.commit_ts, *row.table.id) != (key.commit_ts, key.db, key.table):
            raise WireError("CLAIM_CHECK", uri=uri[:300], details="the file holds another table's or transaction's row")
        return row

    def _key(self, data: bytes) -> _Key:
        if self._last_key is not None and data == self._last_key[0]:
            return self._last_key[1]
        try:
            key = _Key.parse(data)
        except _BROKEN as error:
            raise _malformed_error(
                "key", f"not an Open Protocol key: {with_body_name(reason_of(error), data)}"
            ) from error
        self._last_key = data, key
        return key


class OpenTiflowDecoder(OpenDecoder):
    """The same messages under the classic encoder's name."""

    format = "open-tiflow"


class _Key:
    """An event's key. `extra`: what is kept to write it again; `claim`: where the row is, for a claim-check."""

    __slots__ = ("claim", "commit_ts", "db", "extra", "key_only", "kind", "table")

    def __init__(
        self, commit_ts: int, kind: int, db: str, table: str, extra: dict[str, Any], key_only: bool, claim: str | None
    ) -> None:
        self.commit_ts, self.kind, self.db, self.table = commit_ts, kind, db, table
        self.extra, self.key_only, self.claim = extra, key_only, claim

    @classmethod
    def parse(cls, data: bytes) -> _Key:
        """ValueError, KeyError or TypeError for what is no key."""
        pairs = parse(json_exact.document(data))
        # A claim-check of new TiCDC has ohk twice, true and then false: the last one counts.
        fields = _object(pairs, twice="ohk")
        kind = _integer(fields["t"], "t", RESOLVED + 1)
        if kind not in (ROW, DDL, RESOLVED):
            raise ValueError(f"event type {kind}")
        names = [json_exact.string(fields.get(name, ""), name) for name in ("scm", "tbl")]
        "".join(names).encode()
        if kind == ROW and not all(names):
            raise ValueError("a row without the name of its table")
        extra = others_of("key", fields, _KEY_NAMES)
        for name in ("ptn", "rid"):
            if name in fields:
                extra[name] = json_exact.integer(fields[name], name)
        key_only = fields.get("ohk", False)
        if not isinstance(key_only, bool):
            raise ValueError("ohk is no boolean")
        if key_only:
            extra["ohk"] = True
        claim = fields.get("ccl")
        if claim is not None:
            json_exact.string(claim, "ccl").encode()
        return cls(_integer(fields["ts"], "ts", MAX_TSO + 1), kind, names[0], names[1], extra, key_only, claim or None)


def _others(key: _Key) -> dict[str, Any]:
    return {name: value for name, value in key.extra.items() if name == OTHER_FIELDS}


def _object(pairs: Any, twice: str = "") -> dict[str, Any]:
    if not isinstance(pairs, tuple):
        raise ValueError("a JSON object is needed")
    members = dict(pairs)
    if len(members) != len(pairs) - max(0, sum(name == twice for name, _ in pairs) - 1):
        raise ValueError("a key stands twice in one object")
    return members


def _integer(value: Any, what: str, limit: int) -> int:
    number = json_exact.integer(value, what)
    if not 0 <= number < limit:
        raise ValueError(f"{what} {number} is out of range")
    return number


def _inflate(data: bytes, room: int) -> bytes:
    try:
        return compression.decompress(data, room)
    except ValueError as error:
        raise _malformed_error("value", with_body_name(str(error), data)) from error


def _malformed_error(where: str, details: str) -> WireError:
    return WireError("MALFORMED", where=where, details=details[:300])


__all__ = ["DDL", "RESOLVED", "ROW", "OpenDecoder", "OpenTiflowDecoder"]
