"""encode(decode(message)) is the message: bytes for Avro, values and key order for Debezium."""

from __future__ import annotations

import itertools
from dataclasses import replace
from typing import Any

import pytest

from schemas.errors import WireError
from schemas.event import DdlEvent, Message, RowChange, Watermark
from schemas.options import Options
from schemas.wire.base import Decoder
from spark_jobs.codec import Side, transcode_one
from tests.support.golden import Golden, Registry, cases, pairs

# Cases whose messages our encoder does not write, and why.
NOT_WRITTEN = {
    "checksum.checksum": "row checksums are read, not computed yet",
    "checksum_off.checksum_cfg_without_upstream": "row checksums are read, not computed yet",
    "large.toolarge": "max-message-bytes is the producer's own limit",
    "pk_int.watermark": "avro-enable-watermark is a test option of TiCDC's",
}


def _encoder(golden: Golden, **options: Any) -> Any:
    return Side(golden.format, golden.schemas, golden.options(on_lossy="flag", **options)).encoder()


def test_the_skipped_cases_exist() -> None:
    assert set(NOT_WRITTEN) <= {g.name for g in cases("avro")}


@pytest.mark.parametrize("ddl", [False, True], ids=["", "ddl"])
@pytest.mark.parametrize("golden", [g for g in cases("avro") if g.name not in NOT_WRITTEN], ids=str)
def test_avro_bytes(golden: Golden, ddl: bool) -> None:
    decoder, encoder = golden.side(ddl).decoder(), _encoder(golden)
    for message in golden.messages():
        result = transcode_one(decoder, encoder, message)
        if message.key is None and message.value is None:
            assert result.error is not None
            assert result.error.code == "EMPTY_RECORD"
            continue
        assert result.error is None, result.error
        assert result.out == [message]


@pytest.mark.parametrize(
    "golden", [g for g in cases("debezium") if g.meta["options"].get("debezium_disable_schema")], ids=str
)
def test_debezium_without_schema_and_definition_is_not_written(golden: Golden) -> None:
    """Types are not guessed: every row is refused by its column's name."""
    decoder, encoder = golden.side().decoder(), _encoder(golden)
    for message in golden.messages():
        result = transcode_one(decoder, encoder, message)
        if result.events and isinstance(result.events[0], DdlEvent):
            assert pairs(result.out[0].value) == pairs(message.value)
        else:
            assert result.error is not None
            assert result.error.code == "TYPE_UNKNOWN"


@pytest.mark.parametrize("golden", cases("debezium"), ids=str)
def test_debezium_json_with_definitions(golden: Golden) -> None:
    decoder, encoder = golden.side(ddl=True).decoder(), _encoder(golden)
    for message in golden.messages():
        result = transcode_one(decoder, encoder, message)
        assert result.error is None, result.error
        assert [(pairs(m.key), pairs(m.value)) for m in result.out] == [(pairs(message.key), pairs(message.value))]
        assert [replace(m, key=None, value=None) for m in result.out] == [replace(message, key=None, value=None)]


@pytest.mark.parametrize("golden", cases("debezium-avro"), ids=str)
def test_debezium_avro_bytes(golden: Golden) -> None:
    """Rows, DDL and watermarks, byte for byte: TiCDC's wall clock is carried along.

    With the TiDB extension the messages alone say enough; without it a definition has to tell the types.
    """
    extension = bool(golden.meta["options"].get("enable_tidb_extension"))
    for decoder in [golden.side(ddl=True).decoder()] + [golden.side().decoder()] * extension:
        _same_again(golden, decoder)


def _same_again(golden: Golden, decoder: Decoder) -> None:
    encoder = _encoder(golden)
    for message in golden.messages():
        result = transcode_one(decoder, encoder, message)
        assert result.error is None, result.error
        assert result.out == [message]


@pytest.mark.parametrize(
    "golden", [g for g in cases("debezium") if g.meta["options"].get("enable_tidb_extension")], ids=str
)
def test_debezium_watermarks_are_written(golden: Golden) -> None:
    decoder, encoder = golden.side().decoder(), _encoder(golden)
    seen = 0
    for message in golden.messages():
        events = decoder.decode(message)
        if isinstance(events[0], Watermark):
            seen += 1
            [written] = encoder.encode(events[0], message)
            assert (pairs(written.key), pairs(written.value)) == (pairs(message.key), pairs(message.value))
    assert seen > 0


MODES = [
    {"avro_decimal_handling_mode": d, "avro_bigint_unsigned_handling_mode": b, "enable_tidb_extension": e}
    for d, b, e in itertools.product(("precise", "string"), ("long", "string"), (False, True))
]
WIDE = [
    g
    for g in cases("avro")
    if g.name.startswith("wide.dec_") or g.name in ("pk_types.ext1", "defaults.ext1", "bulk.ext1", "wide.before.ext1")
]


@pytest.mark.parametrize("to", MODES, ids=lambda m: "-".join(str(v) for v in m.values()))
@pytest.mark.parametrize("golden", WIDE, ids=str)
def test_avro_from_any_mode_to_any_mode_and_back(golden: Golden, to: dict[str, Any]) -> None:
    """The same rows come back from every mode; what a mode can't say is missing, never another value."""
    registry, zone = Registry(), golden.zone
    first = golden.side(ddl=True).decoder()
    there = Side("avro", registry, Options.of({**to, "time_zone": zone, "on_lossy": "flag"})).encoder()  # type: ignore[arg-type]
    tables = golden.definitions
    back = Side("avro", registry, Options.of({"time_zone": zone}), tables).decoder()  # type: ignore[arg-type]
    for message in golden.messages():
        if message.key is None and message.value is None:
            continue
        [event] = first.decode(message)
        assert isinstance(event, RowChange)
        origin = replace(message, timestamp=None)
        if event.op != "d" and event.commit_ts is None and to["enable_tidb_extension"]:
            with pytest.raises(WireError, match="no commit_ts"):
                there.encode(event, origin)
            continue
        [written] = there.encode(event, origin)
        [again] = back.decode(written)
        assert isinstance(again, RowChange)
        if event.op == "d":
            primary = event.table.primary_key
            assert event.before is not None
            assert again.before == {name: event.before[name] for name in primary}
            assert again.after is None
            continue
        assert again.after == event.after
        assert again.key == event.key
        if to["enable_tidb_extension"]:
            assert (again.op, again.commit_ts) == (event.op, event.commit_ts)
        else:
            assert (again.op, again.commit_ts, again.flags) == ("c", None, ["op_unknown"])


def test_rewriting_is_idempotent_and_order_free() -> None:
    """Codecs hold nothing between messages: backwards and twice gives the same bytes."""
    golden = Golden("avro", "evolution.ext1")
    messages: list[Message] = [m for m in golden.messages() if m.key is not None]
    decoder, encoder = golden.side().decoder(), _encoder(golden)
    for message in [*reversed(messages), *messages]:
        assert transcode_one(decoder, encoder, message).out == [message]
