"""Open Protocol: compression, claim-checks, rows that are cut or hold only what changed."""

import base64
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import cramjam
import pytest

from tests.schemas.formats.open_protocol.messages import KEY, decode, json_bytes, message_of, refusal, row_of
from tests.support.each import each
from tests.support.golden import Golden, Registry
from tests.support.rows import ORIGIN
from ticdc_bridge.schemas.codec import compression
from ticdc_bridge.schemas.formats.base import Context, complete_before
from ticdc_bridge.schemas.inputs.claim_check_folder import ClaimFolder
from ticdc_bridge.schemas.inspect.format_lookup import format_named
from ticdc_bridge.schemas.model.errors import WireError
from ticdc_bridge.schemas.model.event import Message, RowChange
from ticdc_bridge.schemas.model.options import Options
from ticdc_bridge.spark_jobs.pipeline.codec_config import CodecConfig
from ticdc_bridge.spark_jobs.pipeline.message_codec import decode_message, transcode_message


# ---- compression
@each("pack", [cramjam.lz4.compress, cramjam.snappy.compress_raw])
def test_compression_is_seen_and_bounded(pack: Callable[[bytes], Any], monkeypatch: pytest.MonkeyPatch) -> None:
    row = b'{"u":{"c":{"t":252,"f":64,"v":"' + base64.b64encode(b"a" * 30_000) + b'"}}}'
    packed = bytes(pack(row))
    assert row_of(message_of(packed)).after == {"c": "a" * 30_000}
    monkeypatch.setattr("ticdc_bridge.schemas.formats.open_protocol.decoder.MAX_MESSAGE", 100_000)
    assert len(decode(message_of(packed, count=2))) == 2
    assert refusal(message_of(packed, count=3)).code == "MALFORMED"  # together more than a message may be


def test_snappy_that_lies_about_its_size() -> None:
    for head in (b"\xff\xff\xff\xff\x0f", b"\xff\xff\xff\xff\xff", b"\x80\x80\x80\x20"):
        assert refusal(message_of(head + b"\0a")).code == "MALFORMED"
    with pytest.raises(ValueError, match="Snappy"):
        compression.unsnap(b"\x64" + b"\0a", 1000)
    assert compression.unsnap(compression.snap(b"abc" * 100), 300) == b"abc" * 100
    assert compression.unlz4(compression.lz4(b"abc" * 100), 300) == b"abc" * 100
    with pytest.raises(ValueError, match="more than 299"):
        compression.unlz4(compression.lz4(b"abc" * 100), 299)


def test_a_long_row_with_brackets_in_its_text_is_read() -> None:
    text = '[1,2]"[' * 200_000
    event = row_of(message_of({"u": {"c": {"t": 15, "f": 64, "v": text}}}))
    assert event.after == {"c": text}


# ---- claim-checks
CLAIMED = Golden("open", "large.claimcheck")


def test_claim_check_without_folder_or_file_is_an_error(tmp_path: Path) -> None:
    message = CLAIMED.messages()[1]
    error = refusal(message)
    assert error.code == "CLAIM_CHECK"
    assert "--claim-check-dir" in error.detail
    assert refusal(message, claims=ClaimFolder.of(tmp_path)).code == "CLAIM_CHECK"
    assert len(decode(message, claims=CLAIMED.claims)) == 2
    # A folder is local, its path is not the URI's; the whole message fails where one row can't be had.
    assert decode_message(CodecConfig("open", CLAIMED.schemas, Options()).decoder(), message).events == []


@pytest.mark.parametrize("name", ["", ".", "..", "a\\b", "x\0y", "nope.json"])
def test_claim_check_names_stay_in_the_folder(tmp_path: Path, name: str) -> None:
    with pytest.raises(WireError) as caught:
        ClaimFolder.of(tmp_path).fetch(name)
    assert caught.value.code == "CLAIM_CHECK"
    key = {**KEY, "ccl": f"s3://bucket/../{name}"}
    assert refusal(message_of({"u": {}}, key), claims=ClaimFolder.of(tmp_path)).code == "CLAIM_CHECK"


def _claim(message: Message) -> bytes:
    return json.dumps({k: base64.b64encode(getattr(message, k)).decode() for k in ("key", "value")}).encode()


def test_claim_check_contents_that_are_none(tmp_path: Path) -> None:
    row = {"u": {"c": {"t": 3, "f": 65, "v": 1}}}
    pointing = message_of(row, {**KEY, "ccl": "file:///x/y.json"})
    good = _claim(message_of(row))
    for content, code in [
        (b"", "CLAIM_CHECK"),
        (b"[]", "CLAIM_CHECK"),
        (b"{}", "CLAIM_CHECK"),
        (b"[" * 100_000, "CLAIM_CHECK"),
        (b'{"key":"=","value":""}', "CLAIM_CHECK"),
        (b'{"key":1,"value":""}', "CLAIM_CHECK"),
        (_claim(pointing), "MALFORMED"),  # points to another claim-check
        (_claim(message_of(row, count=2)), "CLAIM_CHECK"),
        (_claim(message_of(row, {**KEY, "tbl": "other"})), "CLAIM_CHECK"),
        (_claim(message_of(row, {**KEY, "ts": 5})), "CLAIM_CHECK"),
        (_claim(message_of({"q": "x", "t": 1}, {**KEY, "t": 2})), "CLAIM_CHECK"),
        (good[:-5], "CLAIM_CHECK"),
    ]:
        (tmp_path / "y.json").write_bytes(content)
        assert refusal(pointing, claims=ClaimFolder.of(tmp_path)).code == code, content[:80]
    (tmp_path / "y.json").write_bytes(good)
    [event] = decode(pointing, claims=ClaimFolder.of(tmp_path))
    assert event.after == {"c": "1"}  # type: ignore[union-attr]


# ---- only handle key columns
def test_a_cut_row_is_flagged_and_no_other_format_takes_it_for_whole() -> None:
    golden = Golden("open", "large.handlekeyonly")
    insert = golden.messages()[1]
    decoder = golden.side().decoder()
    cut, document = decoder.decode(insert)
    assert isinstance(cut, RowChange)
    assert isinstance(document, RowChange)
    assert (cut.after, cut.key_only, cut.flags) == ({"id": "1"}, True, ["handle_key_only"])
    assert (document.key_only, document.flags) == (False, [])
    for name in ("avro", "debezium"):
        encoder = CodecConfig(name, Registry(), Options.of({"time_zone": golden.zone})).encoder()  # type: ignore[arg-type]
        result = transcode_message(decoder, encoder, insert)
        assert result.error is not None
        assert result.error.code == "KEY_ONLY_ROW"


# ---- only-output-updated-columns, and the name that TiCDC forgets
def _updated(new: dict[str, int | None], old: bytes) -> RowChange:
    cells = {name: {"t": 3, "f": 65, "v": value} for name, value in new.items()}
    return row_of(message_of(json_bytes({"u": cells})[:-1] + b',"p":{' + old + b"}}"))


BARE = b'"t":3,"f":65,"v":%d'


def test_old_values_without_their_name_get_it_back() -> None:
    event = _updated({"a": 1, "b": None, "c": 2}, BARE % 7 + b',"c":{"t":3,"f":65,"v":5}')
    assert (event.before, event.flags) == ({"b": "7", "c": "5"}, [])
    event = _updated({"a": None, "b": None}, BARE % 7 + b"," + BARE % 8)
    assert event.before == {"a": "7", "b": "8"}
    # Its neighbours tell which of two it is.
    event = _updated({"a": None, "b": 1, "c": None}, b'"b":{"t":3,"f":65,"v":5},' + BARE % 9)
    assert (event.before, event.flags) == ({"b": "5", "c": "9"}, [])


def test_old_value_that_could_be_of_two_columns_is_left_out_and_reported() -> None:
    event = _updated({"a": None, "b": None, "c": 2}, BARE % 7 + b',"c":{"t":3,"f":65,"v":5}')
    assert event.before == {"c": "5"}
    assert event.flags == ["old_value_unnamed:a", "old_value_unnamed:b"]
    assert complete_before(event) == {"c": "5"}  # a and b may have changed: nothing stands for their old values
    event.flags = ["value_not_sent:a"]
    assert complete_before(event) == {"b": None, "c": "5"}


def test_old_value_without_any_column_it_could_be_of_is_an_error() -> None:
    cases_: list[tuple[dict[str, int | None], bytes]] = [
        ({"a": 1}, BARE % 7), ({"a": None}, b'"t":8,"f":65,"v":1'), ({"a": None}, b'"t":3'), ({"a": None}, b'"x":3'),
        ({"a": None}, BARE % 7 + b"," + BARE % 8),
    ]  # fmt: skip
    for new, old in cases_:
        with pytest.raises(WireError, match="not an Open Protocol row"):
            _updated(new, old)


def test_an_update_that_changed_nothing() -> None:
    event = _updated({"a": 1}, b"")
    assert (event.op, event.before) == ("u", {})
    encoder = format_named("open").encoder(Context(Registry(), None, Options.of({"only_output_updated_columns": True})))
    assert decode(encoder.encode(event, ORIGIN)[0]) == [event]
