"""encode(decode(message)) is the message: bytes for Avro and Open, values and key order for Debezium."""

from dataclasses import replace
from typing import Any

import pytest

from tests.support.each import each
from tests.support.golden import Golden, both, cases, pairs
from ticdc_bridge.schemas.formats.base import BatchEncoder, Decoder
from ticdc_bridge.schemas.inputs.schema_files import FileSchemas
from ticdc_bridge.schemas.model.errors import SetupError, WireError
from ticdc_bridge.schemas.model.event import DdlEvent, Message, RowChange, Watermark
from ticdc_bridge.schemas.model.options import Options
from ticdc_bridge.schemas.model.table import TableId
from ticdc_bridge.spark_jobs.pipeline.codec_config import CodecConfig
from ticdc_bridge.spark_jobs.pipeline.message_codec import transcode_message


def _encoder(golden: Golden, **options: Any) -> Any:
    return CodecConfig(golden.format, golden.schemas, golden.options(on_lossy="flag", **options)).encoder()


@each(("golden", "ddl"), **both(cases("avro")))
def test_avro_bytes(golden: Golden, ddl: bool) -> None:
    decoder, encoder = golden.side(ddl).decoder(), _encoder(golden)
    for message in golden.messages():
        result = transcode_message(decoder, encoder, message)
        if message.key is None and message.value is None:
            assert result.error is not None
            assert result.error.code == "EMPTY_RECORD"
            continue
        assert result.error is None, result.error
        assert result.out == [message]


def test_avro_refuses_what_is_over_max_message_bytes() -> None:
    """As TiCDC did for this case, with the length that it counted (meta: encode_errors)."""
    golden = Golden("avro", "large.toolarge")
    step, row = golden.meta["steps"][1], golden.meta["steps"][1]["rows"][0]
    refused = golden.meta["encode_errors"][0]["error"]
    version = golden.definitions.at(TableId(step["schema"], step["table"]), step["commit_ts"])
    assert version is not None
    event = RowChange("avro", version.table, "c", step["commit_ts"], None, row["after"], ("id",), golden.zone)
    with pytest.raises(WireError) as caught:
        _encoder(golden).encode(event, Message(None, None, golden.messages()[0].topic))
    assert caught.value.code == "TOO_LARGE"
    assert f"length:{caught.value.detail.split()[4]}," in refused


@each(
    "event",
    [
        DdlEvent("simple", "d", "t", 1, None, "ALTER TABLE t REMOVE TTL"),
        DdlEvent("debezium", "d", "t", None, 3, "CREATE TABLE t (a int)"),
        Watermark("made", -1),
        Watermark("made", 1 << 64),
    ],
)
def test_avro_watermark_mode_needs_times_and_types(event: DdlEvent | Watermark) -> None:
    """A DDL without is skipped, as one that the format can't carry; no commit_ts of a watermark is an error."""
    encoder = _encoder(Golden("avro", "pk_int.watermark"))
    if isinstance(event, DdlEvent):
        assert encoder.encode(event, Message(None, None, "t")) == []
    else:
        with pytest.raises(WireError) as caught:
            encoder.encode(event, Message(None, None, "t"))
        assert caught.value.code == "INVALID_VALUE"
    assert _encoder(Golden("avro", "pk_int.ext1")).encode(event, Message(None, None, "t")) == []


def test_avro_watermark_mode_takes_a_ddls_type_from_its_statement() -> None:
    event = DdlEvent("simple", "d", "t", 1, None, "CREATE TABLE t (a int)")
    [written] = _encoder(Golden("avro", "pk_int.watermark")).encode(event, Message(None, None, "t"))
    assert b'"type":3,' in (written.value or b"")


def test_avro_row_checksum_needs_ticdcs_other_options() -> None:
    with pytest.raises(SetupError, match="enable_row_checksum needs"):
        CodecConfig("avro", FileSchemas([]), Options(enable_row_checksum=True)).encoder()


@each("golden", [g for g in cases("debezium") if g.meta["options"].get("debezium_disable_schema")], ids=str)
def test_debezium_without_schema_and_definition_is_not_written(golden: Golden) -> None:
    """Types are not guessed: every row is refused by its column's name."""
    decoder, encoder = golden.side().decoder(), _encoder(golden)
    for message in golden.messages():
        result = transcode_message(decoder, encoder, message)
        if result.events and isinstance(result.events[0], DdlEvent):
            assert pairs(result.out[0].value) == pairs(message.value)
        else:
            assert result.error is not None
            assert result.error.code == "TYPE_UNKNOWN"


@each("golden", cases("debezium"), ids=str)
def test_debezium_json_with_definitions(golden: Golden) -> None:
    decoder, encoder = golden.side(ddl=True).decoder(), _encoder(golden)
    for message in golden.messages():
        result = transcode_message(decoder, encoder, message)
        assert result.error is None, result.error
        assert [(pairs(m.key), pairs(m.value)) for m in result.out] == [(pairs(message.key), pairs(message.value))]
        assert [replace(m, key=None, value=None) for m in result.out] == [replace(message, key=None, value=None)]


@each("golden", cases("debezium-avro"), ids=str)
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
        result = transcode_message(decoder, encoder, message)
        assert result.error is None, result.error
        assert result.out == [message]


def test_rewriting_is_idempotent_and_order_free() -> None:
    """Codecs hold nothing between messages: backwards and twice gives the same bytes."""
    golden = Golden("avro", "evolution.ext1")
    messages: list[Message] = [m for m in golden.messages() if m.key is not None]
    decoder, encoder = golden.side().decoder(), _encoder(golden)
    for message in [*reversed(messages), *messages]:
        assert transcode_message(decoder, encoder, message).out == [message]


# ---- Open Protocol
# Messages whose bytes are not written again, and why.
OPEN_EXCEPT = {
    "bulk.lz4": "compression: an LZ4 frame of another writer", "pk_int.lz4": "compression", "wide.lz4": "compression",
    "bulk.snappy": "compression: another Snappy writer's choice of copies", "pk_int.snappy": "compression",
    "wide.snappy": "compression", "large.claimcheck": "claim-checks are not written: the row is over max-message-bytes",
    "wide.onlyupdated": "TiCDC leaves out the name of a column that became NULL",
}  # fmt: skip
OPEN = [*cases("open"), *cases("open-tiflow")]


def test_the_open_exceptions_exist() -> None:
    assert set(OPEN_EXCEPT) <= {g.name for g in OPEN}


@each(("golden", "ddl"), **both(g for g in OPEN if g.name not in OPEN_EXCEPT))
def test_open_bytes(golden: Golden, ddl: bool) -> None:
    """Rows batched as they came, DDL and resolved events."""
    decoder, encoder = (
        golden.side(ddl).decoder(),
        CodecConfig(golden.format, golden.schemas, golden.options()).encoder(),
    )
    for message in golden.messages():
        result = transcode_message(decoder, encoder, message)
        assert result.error is None, result.error
        assert result.out == [message]


@each("golden", [g for g in OPEN if g.name in OPEN_EXCEPT], ids=str)
def test_open_exceptions_keep_their_events(golden: Golden) -> None:
    """What is not written byte for byte says the same, or is refused with the reason."""
    decoder, encoder = golden.side().decoder(), CodecConfig(golden.format, golden.schemas, golden.options()).encoder()
    other = 0
    for message in golden.messages():
        result = transcode_message(decoder, encoder, message)
        if result.error is not None:
            assert (golden.name, result.error.code) == ("large.claimcheck", "TOO_LARGE")
            assert "claim-checks are not written" in result.error.detail
            other += 1
            continue
        [written] = result.out
        assert decoder.decode(written) == decoder.decode(message)
        other += written != message
    assert other > 0


@each("case", ["large.handlekeyonly", "large.toolarge"])
def test_open_large_rows_are_cut_or_refused(case: str) -> None:
    """Whole rows, from the claim-check case, give what TiCDC makes of them with the other option."""
    whole, golden = Golden("open", "large.claimcheck"), Golden("open", case)
    decoder = whole.side().decoder()
    encoder = CodecConfig("open", golden.schemas, golden.options()).encoder()
    for message, wanted in zip(whole.messages(), _with_gaps(golden), strict=True):
        events = decoder.decode(message)
        if wanted is None:
            error = transcode_message(decoder, encoder, message).error
            assert error is not None
            assert error.code == "TOO_LARGE"
            assert "max_message_bytes is 4096" in error.detail
            continue
        rows = [e for e in events if isinstance(e, RowChange)]
        if case == "large.toolarge":
            rows = rows[-1:]  # the first row of this batch is too large
        assert isinstance(encoder, BatchEncoder)
        written = encoder.encode_rows(rows, message) if rows else encoder.encode(events[0], message)
        assert [(m.key, m.value) for m in written] == [(wanted.key, wanted.value)]


def _with_gaps(golden: Golden) -> list[Message | None]:
    """The case's messages, None where the encoder made none."""
    messages = golden.messages()
    return [*messages] if len(messages) == 5 else [*messages[:2], None, None, *messages[2:]]


def test_open_batches_are_cut_by_count_and_bytes() -> None:
    golden = Golden("open", "bulk.build_at_end")
    decoder, rows = golden.side().decoder(), []
    origin = golden.messages()[0]
    for message in golden.messages():
        rows += [e for e in decoder.decode(message) if isinstance(e, RowChange)]
    for options in ({"max_batch_size": 1}, {"max_batch_size": 5}, {"max_message_bytes": 2000}):
        encoder = CodecConfig("open", golden.schemas, golden.options(**options)).encoder()
        assert isinstance(encoder, BatchEncoder)
        written = encoder.encode_rows(rows, origin)
        back = [decoder.decode(m) for m in written]
        assert [e for events in back for e in events] == rows
        assert max(map(len, back)) <= options.get("max_batch_size", 16)
        assert all(
            len(m.key or b"") + len(m.value or b"") + 36 <= options.get("max_message_bytes", 1 << 20) for m in written
        )
    assert len(written) > len(rows) / 16
