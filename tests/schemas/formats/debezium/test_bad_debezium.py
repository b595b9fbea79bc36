"""TiCDC's Debezium JSON: documents, payloads, numbers and names that it does not write."""

from __future__ import annotations

import gzip
import json
from dataclasses import replace
from typing import Any

from tests.support.each import each
from tests.support.fuzz import peak, refused
from tests.support.golden import Golden
from ticdc_bridge.schemas.formats.base import Decoder
from ticdc_bridge.schemas.model.event import Event, Message
from ticdc_bridge.schemas.plain.writer import json_line, plain_event


def _debezium() -> tuple[Decoder, Message, dict[str, Any]]:
    golden = Golden("debezium", "pk_int.schema")
    good = next(m for m in golden.messages() if m.value and b'"op":"c"' in m.value)
    assert good.value is not None
    return golden.side().decoder(), good, json.loads(good.value)


def _compact(value: Any) -> bytes:
    return json.dumps(value, separators=(",", ":")).encode()


@each(
    "value",
    [
        b"",
        b" ",
        b"null",
        b"1",
        b"[]",
        b"{}",
        b'{"payload":',
        b'{"payload":null}',
        b'{"payload":[]}',
        b'{"payload":{}}',
        b'{"payload":{"source":1,"op":"c"}}',
        b'{"payload":{"source":{},"op":"c"}}',
        b'{"payload":{"source":{},"op":"m"}}',
        b'{"payload":{"source":{"commit_ts":-1},"op":"m"}}',
        b'{"payload":{"source":{"commit_ts":"1"},"op":"m"}}',
        b'{"payload":{"source":{"commit_ts":1.5},"op":"m"}}',
        b'{"payload":' + b"[" * 100_000,
        b'{"payload":' + b'{"a":' * 100_000,
        gzip.compress(b'{"payload":{}}', mtime=0),
        b"\xff\xfe{}",
        b"\xef\xbb\xbf{}",
        b'{"payload":{"source":{},"op":["c"]}}',
        b'{"payload":{"op":"c","op":"c"}}',
        b'{"payload":{"x":NaN}}',
        b'{"payload":{"x":Infinity}}',
        b'{"payload":{"ddl":"x","source":{}}}',
        b'{"payload":{"ddl":1,"databaseName":"d","source":{"table":"t"}}}',
    ],
)
def test_debezium_values_that_are_none(value: bytes) -> None:
    decoder, good, _ = _debezium()
    assert refused(decoder, replace(good, value=value)) == "MALFORMED"
    assert decoder.decode(good)


def _changed(change: Any) -> bytes:
    _, _, whole = _debezium()
    change(whole["payload"])
    return _compact(whole)


@each(
    "change",
    [
        lambda p: p.update(op="x"),
        lambda p: p.update(op=None),
        lambda p: p.update(after=None),
        lambda p: p.update(after=[]),
        lambda p: p.update(after="x"),
        lambda p: p.update(before=[]),
        lambda p: p.pop("source"),
        lambda p: p["source"].pop("db"),
        lambda p: p["source"].update(table=1),
        lambda p: p["after"].update(nope=1),
        lambda p: p["after"].update(id="1"),
        lambda p: p["after"].update(id=1.5),
        lambda p: p["after"].update(id=[1]),
        lambda p: p["after"].update(v=1),
        lambda p: p["after"].update(v={}),
        lambda p: p.update(op="d", before=None),
        lambda p: p["source"].update(cluster_id=1),
        lambda p: p.update(ts_ms="x"),
    ],
)
def test_debezium_payloads_that_ticdc_does_not_write(change: Any) -> None:
    decoder, good, _ = _debezium()
    assert refused(decoder, replace(good, value=_changed(change))) == "MALFORMED"


@each("text", [b"NaN", b"Infinity", b"-Infinity", b"1e999", b"--1", b"0x10", b"01", b"1_0", b'"\xff'])
def test_debezium_numbers_that_are_none(text: bytes) -> None:
    decoder, good, whole = _debezium()
    whole["payload"]["after"]["id"] = "@@"
    assert refused(decoder, replace(good, value=_compact(whole).replace(b'"@@"', text))) == "MALFORMED"


def test_debezium_text_that_is_not_utf8_keeps_its_bytes() -> None:
    decoder, good, whole = _debezium()
    whole["payload"]["after"]["v"] = "@@"
    [event] = decoder.decode(replace(good, value=_compact(whole).replace(b"@@", b"\xe9\xff")))
    assert event.after["v"] == b"\xe9\xff"  # type: ignore[union-attr, index]


def test_debezium_has_no_tombstones() -> None:
    decoder, good, _ = _debezium()
    assert refused(decoder, replace(good, value=None)) == "EMPTY_RECORD"


def test_debezium_keys_that_are_none() -> None:
    decoder, good, _ = _debezium()
    for key in (
        b"",
        b"null",
        b"[]",
        b'{"payload":1}',
        b"\x00\x00\x00\x00\x01",
        b'{"payload":{"id":1}',
        b'{"payload":{"id":1,"id":1}}',
    ):
        assert refused(decoder, replace(good, key=key)) == "MALFORMED"
    [event] = decoder.decode(replace(good, key=None))
    assert event.key == ()  # type: ignore[union-attr]


@each("piece", [b"[],", b'{"a":1},'], slow=[b"{},", b'"",', b"1,", b'["\xff"],'])
def test_debezium_memory_is_bounded(piece: bytes) -> None:
    decoder, good, whole = _debezium()
    whole["payload"]["after"]["v"] = "@@"
    many = b"[" + piece * ((1 << 20) // len(piece)) + b"1]"
    value = _compact(whole).replace(b'"@@"', many)
    assert refused(decoder, replace(good, value=value)) == "MALFORMED"
    assert peak(decoder, replace(good, value=value)) < (64 << 20) + 32 * len(value)


def test_events_of_one_message_are_not_changed_by_the_next() -> None:
    golden = Golden("debezium", "wide.schema")
    decoder = golden.side().decoder()
    kept: list[tuple[list[Event], list[str]]] = []
    for message in golden.messages():
        events = decoder.decode(message)
        kept.append((events, [json_line(plain_event(e, message)) for e in events]))
    for (events, before), message in zip(kept, golden.messages(), strict=True):
        assert [json_line(plain_event(e, message)) for e in events] == before
