"""Open Protocol: what the goldens do not hold. Documents' logs, frames, claim-checks, compression, Go's texts."""

from __future__ import annotations

import base64
import json
import random
import re
import tracemalloc
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import cramjam
import pytest
from hypothesis import given
from hypothesis import strategies as st

from schemas import values
from schemas.codec import go_text, inflate
from schemas.errors import LossyError, WireError
from schemas.event import DdlEvent, Event, Message, RowChange, Watermark
from schemas.options import Options
from schemas.table import Column, Index, Table, TableId
from schemas.types import BY_NAME
from schemas.wire import format_named
from schemas.wire.base import Context
from schemas.wire.framing import MAX_MESSAGE
from schemas.wire.open_protocol import cells as cell_values
from schemas.wire.open_protocol import rows as open_rows
from schemas.wire.open_protocol.columns import cell_of, derived_keys
from schemas.wire.open_protocol.frame import join_key, join_value
from spark_jobs.claim_check import ClaimFolder
from spark_jobs.codec import Side, decode_one, plain_lines, transcode_one
from tests.schemas.rows import COMMIT_TS, ORIGIN, Pair, Tables, change, column, table
from tests.support.golden import Golden, Registry, cases

KEY = {"ts": COMMIT_TS, "scm": "test", "tbl": "t1", "t": 1}


def _message(value: Any, key: Any = KEY, count: int = 1) -> Message:
    keys, values = ([_bytes(part)] * count for part in (key, value))
    return replace(ORIGIN, key=join_key(keys), value=join_value(values))


def _bytes(part: Any) -> bytes:
    return part if isinstance(part, bytes) else json.dumps(part, separators=(",", ":"), ensure_ascii=False).encode()


def _decode(message: Message, tables: Tables | None = None, claims: Any = None, **options: Any) -> list[Event]:
    context = Context(Registry(), tables, Options.of(options), claims)
    return format_named("open").decoder(context).decode(message)


def _row(message: Message, **options: Any) -> RowChange:
    [event] = _decode(message, **options)
    assert isinstance(event, RowChange)
    return event


def _refused(message: Message, **more: Any) -> WireError:
    with pytest.raises(WireError) as caught:
        _decode(message, **more)
    return caught.value


# ---- the documents' example logs: releases of 2020, without flags, VARCHAR as base64
_LOGS = r"""
1. [key="{\"ts\":415508856908021766,\"scm\":\"test\",\"tbl\":\"t1\",\"t\":2}"] [value="{\"q\":\"CREATE TABLE test.t1(id int primary key, val varchar(16))\",\"t\":3}"]
2. [key="{\"ts\":415508856908021766,\"t\":3}"] [value=]
5. [key="{\"ts\":415508878783938562,\"scm\":\"test\",\"tbl\":\"t1\",\"t\":1}"] [value="{\"u\":{\"id\":{\"t\":3,\"h\":true,\"v\":1},\"val\":{\"t\":15,\"v\":\"YWE=\"}}}"]
9. [key="{\"ts\":415508881418485761,\"scm\":\"test\",\"tbl\":\"t1\",\"t\":1}"] [value="{\"d\":{\"id\":{\"t\":3,\"h\":true,\"v\":1}}}"]
"""  # noqa: E501


def _log_messages() -> list[Message]:
    found = []
    for line in _LOGS.strip().splitlines():
        matched = re.search(r'\[key="(.*?)"\] \[value="?(.*?)"?\]$', line)
        assert matched is not None
        key, value = (text.replace('\\"', '"').encode() for text in matched.groups())
        found.append(replace(ORIGIN, key=join_key([key]), value=join_value([value]) if value else None))
    return found


def test_the_documents_logs() -> None:
    ddl, resolved, insert, delete = (_decode(m, open_varchar_base64=True)[0] for m in _log_messages())
    assert ddl == DdlEvent(
        "open", "test", "t1", 415508856908021766, 3, "CREATE TABLE test.t1(id int primary key, val varchar(16))"
    )
    assert resolved == Watermark("open", 415508856908021766)
    assert isinstance(insert, RowChange)
    assert isinstance(delete, RowChange)
    assert (insert.op, insert.after, insert.before) == ("c", {"id": "1", "val": "aa"}, None)
    assert (insert.key, insert.commit_ts) == (("id",), 415508878783938562)
    assert insert.flags == ["binary_or_text:val"]  # no flags: VARBINARY looks the same
    assert (delete.op, delete.before, delete.after, delete.key_only) == ("d", {"id": "1"}, None, True)


def test_the_documents_logs_without_the_option_or_with_a_definition() -> None:
    insert = _log_messages()[2]
    assert _row(insert).after == {"id": "1", "val": "YWE="}
    known = Table(TableId("test", "t1"), (Column("id", BY_NAME["int"], False), Column("val", BY_NAME["varchar"])))
    event = _row(insert, tables=Tables(known), open_varchar_base64=True)
    assert (event.after, event.flags) == ({"id": "1", "val": "aa"}, [])
    binary = Table(TableId("test", "t1"), (Column("id", BY_NAME["int"]), Column("val", BY_NAME["varbinary"])))
    assert _row(insert, tables=Tables(binary), open_varchar_base64=True).after == {"id": "1", "val": b"aa"}


@pytest.mark.parametrize("number", [0, 1, 2, 3])
def test_the_documents_logs_are_written_again(number: int) -> None:
    """Cells without flags stay without; only the frame of a resolved event is today's."""
    message = _log_messages()[number]
    [event] = _decode(message)
    [written] = format_named("open").encoder(Context(Registry())).encode(event, message)
    assert (written.key, written.value) == (message.key, message.value or bytes(8))


# ---- values
@pytest.mark.parametrize(
    ("cell", "value"),
    [
        ('{"t":14,"f":65,"v":"2000-00-00"}', "2000-00-00"),
        ('{"t":253,"f":64,"v":"测试"}', "测试"),
        ('{"t":15,"f":65,"v":"\\\\x89PNG\\\\r\\\\n\\\\x1a\\\\n"}', b"\x89PNG\r\n\x1a\n"),
        ('{"t":254,"f":65,"v":"\\\\u0085\\\\U000e0001\\\\101"}', "\x85\U000e0001A".encode()),
        ('{"t":246,"f":65,"v":"129012.1230000"}', "129012.1230000"),
        ('{"t":16,"f":193,"v":18446744073709551615}', b"\xff" * 8),
        ('{"t":16,"f":193,"v":0}', b"\0"),
        ('{"t":247,"f":64,"v":3}', "3"),
        ('{"t":4,"f":65,"v":-3.4028235e+38}', "-3.4028235e+38"),
        ('{"t":4,"f":65,"v":1e-7}', "1e-07"),
        ('{"t":4,"f":65,"v":0.1}', "0.1"),
        ('{"t":5,"f":65,"v":123456789012345680000}', "1.2345678901234568e+20"),
        ('{"t":5,"f":65,"v":-0}', "-0"),
        ('{"t":5,"f":65,"v":1.50}', "1.5"),
        ('{"t":8,"f":65,"v":-9223372036854775808}', "-9223372036854775808"),
        ('{"t":13,"f":193,"v":0}', "0"),
        ('{"t":252,"f":64,"v":"//4="}', b"\xff\xfe"),
        ('{"t":252,"f":65,"v":""}', b""),
        ('{"t":3,"f":65,"v":null}', None),
    ],
)
def test_values(cell: str, value: Any) -> None:
    event = _row(_message(f'{{"u":{{"c":{cell}}}}}'.encode()))
    assert event.after == {"c": value}
    assert event.flags == (["enum_number:c"] if '"t":247' in cell else [])


@pytest.mark.parametrize(
    "cell",
    [
        '{"t":1,"f":65,"v":128}',
        '{"t":1,"f":193,"v":-1}',
        '{"t":3,"f":65,"v":1.5}',
        '{"t":3,"f":65,"v":1e3}',
        '{"t":3,"f":65,"v":"1"}',
        '{"t":3,"f":65,"v":true}',
        '{"t":3,"f":65,"v":[1]}',
        '{"t":3,"f":65,"v":{}}',
        '{"t":3,"f":65,"v":NaN}',
        '{"t":8,"f":193,"v":18446744073709551616}',
        '{"t":4,"f":65,"v":1e39}',
        '{"t":5,"f":65,"v":1e400}',
        '{"t":5,"f":65,"v":Infinity}',
        '{"t":13,"f":193,"v":1900}',
        '{"t":16,"f":193,"v":-1}',
        '{"t":247,"f":64,"v":-1}',
        '{"t":246,"f":65,"v":"1e5"}',
        '{"t":246,"f":65,"v":1}',
        '{"t":10,"f":65,"v":"2000-1-1"}',
        '{"t":12,"f":65,"v":"2000-01-01"}',
        '{"t":11,"f":65,"v":"1:00"}',
        '{"t":252,"f":64,"v":"YWE"}',
        '{"t":252,"f":64,"v":"YWF="}',
        '{"t":15,"f":65,"v":"\\\\x8"}',
        '{"t":15,"f":65,"v":"\\\\ud800"}',
        '{"t":15,"f":65,"v":"\\\\400"}',
        '{"t":15,"f":65,"v":"\\""}',
        '{"t":15,"f":64,"v":"\\ud800"}',
        '{"t":255,"f":65,"v":""}',
        '{"t":99999,"f":65,"v":""}',
        '{"t":"3","f":65,"v":1}',
        '{"t":3,"f":-1,"v":1}',
        '{"t":3,"h":1,"f":1,"v":1}',
        '{"f":65,"v":1}',
        '{"t":3,"f":65}',
        '{"t":3,"t":3,"f":65,"v":1}',
        '{"t":3,"f":65,"v":1,"x":1}',
        "3",
        "null",
        "[]",
    ],
)
def test_cells_that_are_none(cell: str) -> None:
    error = _refused(_message(f'{{"u":{{"c":{cell}}}}}'.encode()))
    assert error.code == "MALFORMED"
    # As one of many rows, when the shape is read the fast way, too.
    good = b'{"u":{"c":{"t":3,"f":65,"v":1}}}'
    many = replace(
        ORIGIN, key=join_key([_bytes(KEY)] * 20), value=join_value([good] * 19 + [f'{{"u":{{"c":{cell}}}}}'.encode()])
    )
    assert _refused(many).code == "MALFORMED"


@pytest.mark.parametrize(
    "value",
    [
        b"", b"null", b"1", b"[]", b"{}", b'{"u":{}}', b'{"u":{},"p":{}}', b'{"d":{}}', b'{"u":1}', b'{"x":{}}',
        b'{"p":{"c":{"t":3,"f":65,"v":1}}}', b'{"u":{"c":{"t":3,"f":65,"v":1}},"d":{"c":{"t":3,"f":65,"v":1}}}',
        b'{"u":{"c":{"t":3,"f":65,"v":1},"c":{"t":3,"f":65,"v":1}}}', b'{"u":{"t":3}}', b'{"d":{"v":3}}',
        b'{"u":{"c":{"t":3,"f":65,"v":1}}} ', b'{"u":{"c":{"t":3,"f":65,"v":1}}', b"[" * 100_000,
        b'{"u":' * 100_000, b'{"u":{"\xff":{"t":3,"f":65,"v":1}}}', b'\xef\xbb\xbf{"u":{}}',
        b'{"u":{"c":{"t":3,"f":65,"v":1}},"p":{"c":{"t":8,"f":65,"v":1}}}',
    ],
)  # fmt: skip
def test_rows_that_are_none(value: bytes) -> None:
    assert _refused(_message(value)).code == "MALFORMED"


@pytest.mark.parametrize(
    "key",
    [
        b"", b"1", b"[]", b"{}", {"t": 1}, {**KEY, "t": 4}, {**KEY, "t": "1"}, {**KEY, "ts": -1}, {**KEY, "ts": 1.5},
        {**KEY, "ts": 1 << 63}, {**KEY, "scm": 1}, {**KEY, "scm": ""}, {"ts": 1, "t": 1}, {**KEY, "ohk": 1},
        {**KEY, "ptn": "x"}, {**KEY, "new": 1}, {**KEY, "ccl": 1}, b'{"ts":1,"ts":1,"t":3}', b'{"ts":1,"t":3}x',
        b'{"ts":1,"t":2,"scm":"\xff","tbl":"t"}',
    ],
)  # fmt: skip
def test_keys_that_are_none(key: Any) -> None:
    assert _refused(_message({"u": {"c": {"t": 3, "f": 65, "v": 1}}}, key)).code == "MALFORMED"


# ---- frames
def test_frames_that_are_none() -> None:
    good = _message({"u": {"c": {"t": 3, "f": 65, "v": 1}}})
    assert good.key is not None
    assert good.value is not None
    for key, code in [
        (None, "EMPTY_RECORD"),
        (b"", "TRUNCATED"),
        (bytes(8), "NOT_FRAMED"),
        (b"\0" * 7 + b"\2" + good.key[8:], "NOT_FRAMED"),
        (good.key[:8], "MALFORMED"),
        (good.key + b"\0" * 7, "TRUNCATED"),
        (b"\0" * 7 + b"\1" + b"\x7f" + b"\xff" * 7, "TRUNCATED"),
        (b"\0" * 7 + b"\1" + b"\xff" * 8, "TRUNCATED"),
        (b"\0" * 7 + b"\1" + (1 << 62).to_bytes(8, "big") + b"x", "TRUNCATED"),
        (good.key + good.key[8:], "TRUNCATED"),  # two keys, one value
        (bytes(MAX_MESSAGE + 1), "TOO_LARGE"),
        (b'{"ts":1,"t":3}', "NOT_FRAMED"),
    ]:
        assert _refused(replace(good, key=key)).code == code, key
    for value, code in [
        (None, "TRUNCATED"),
        (b"", "TRUNCATED"),
        (good.value + good.value, "TRAILING_BYTES"),
        (b"\xff" * 8 + good.value[8:], "TRUNCATED"),
        (bytes(MAX_MESSAGE + 1), "TOO_LARGE"),
        (bytes(8), "MALFORMED"),
    ]:
        assert _refused(replace(good, value=value)).code == code, value
    assert _refused(_message(b"{}", {"ts": 1, "t": 3})).code == "MALFORMED"  # a resolved event with a value


def test_many_events_in_one_message_are_bounded() -> None:
    """A frame of a million empty events is refused at once, and one of resolved events is what it is."""
    message = replace(ORIGIN, key=join_key([b""] * 100_000), value=bytes(8 * 100_000))
    assert _refused(message).code == "MALFORMED"
    resolved = replace(ORIGIN, key=join_key([b'{"ts":1,"t":3}'] * 1000), value=bytes(8000))
    assert _decode(resolved) == [Watermark("open", 1)] * 1000


# ---- compression
@pytest.mark.parametrize("pack", [cramjam.lz4.compress, cramjam.snappy.compress_raw])
def test_compression_is_seen_and_bounded(pack: Callable[[bytes], Any], monkeypatch: pytest.MonkeyPatch) -> None:
    row = b'{"u":{"c":{"t":252,"f":64,"v":"' + base64.b64encode(b"a" * 30_000) + b'"}}}'
    packed = bytes(pack(row))
    assert _row(_message(packed)).after == {"c": "a" * 30_000}
    monkeypatch.setattr("schemas.wire.open_protocol.decoder.MAX_MESSAGE", 100_000)
    assert len(_decode(_message(packed, count=2))) == 2
    assert _refused(_message(packed, count=3)).code == "MALFORMED"  # together more than a message may be


@pytest.mark.parametrize("pack", [cramjam.lz4.compress, cramjam.snappy.compress_raw])
def test_bombs_are_refused(pack: Callable[[bytes], Any]) -> None:
    bomb = _message(bytes(pack(bytes(MAX_MESSAGE + 1))))
    tracemalloc.start()
    try:
        assert _refused(bomb).code == "MALFORMED"
        assert tracemalloc.get_traced_memory()[1] < (64 << 20) + 32 * len(bomb.value or b"")
    finally:
        tracemalloc.stop()


def test_snappy_that_lies_about_its_size() -> None:
    for head in (b"\xff\xff\xff\xff\x0f", b"\xff\xff\xff\xff\xff", b"\x80\x80\x80\x20"):
        assert _refused(_message(head + b"\0a")).code == "MALFORMED"
    with pytest.raises(ValueError, match="Snappy"):
        inflate.unsnap(b"\x64" + b"\0a", 1000)
    assert inflate.unsnap(inflate.snap(b"abc" * 100), 300) == b"abc" * 100
    assert inflate.unlz4(inflate.lz4(b"abc" * 100), 300) == b"abc" * 100
    with pytest.raises(ValueError, match="at most 299"):
        inflate.unlz4(inflate.lz4(b"abc" * 100), 299)


@pytest.mark.parametrize("piece", [b"[],", b"1,", b'"",', b'{"a":1},', b"[[[1]]],", b'"\\ud83d\\ude00",'])
def test_memory_is_bounded(piece: bytes) -> None:
    for value in (
        b'{"u":{"c":{"t":3,"v":[' + piece * ((2 << 20) // len(piece)) + b"1]}}}",
        b'{"u":{' + b",".join(b'"c%d":{"t":3,"v":1}' % i for i in range(20_000)) + b"}}",
    ):
        tracemalloc.start()
        try:
            assert _refused(_message(value)).code == "MALFORMED"
            assert tracemalloc.get_traced_memory()[1] < (64 << 20) + 32 * len(value)
        finally:
            tracemalloc.stop()


def test_a_long_row_with_brackets_in_its_text_is_read() -> None:
    text = '[1,2]"[' * 200_000
    event = _row(_message({"u": {"c": {"t": 15, "f": 64, "v": text}}}))
    assert event.after == {"c": text}


# ---- claim-checks
CLAIMED = Golden("open", "large.claimcheck")


def test_claim_check_without_folder_or_file_is_an_error(tmp_path: Path) -> None:
    message = CLAIMED.messages()[1]
    error = _refused(message)
    assert error.code == "CLAIM_CHECK"
    assert "--claim-check-dir" in error.detail
    assert _refused(message, claims=ClaimFolder.of(tmp_path)).code == "CLAIM_CHECK"
    assert len(_decode(message, claims=CLAIMED.claims)) == 2
    # A folder is local, its path is not the URI's; the whole message fails where one row can't be had.
    assert decode_one(Side("open", CLAIMED.schemas, Options()).decoder(), message).events == []


@pytest.mark.parametrize("name", ["", ".", "..", "a\\b", "x\0y", "nope.json"])
def test_claim_check_names_stay_in_the_folder(tmp_path: Path, name: str) -> None:
    with pytest.raises(WireError) as caught:
        ClaimFolder.of(tmp_path).fetch(name)
    assert caught.value.code == "CLAIM_CHECK"
    key = {**KEY, "ccl": f"s3://bucket/../{name}"}
    assert _refused(_message({"u": {}}, key), claims=ClaimFolder.of(tmp_path)).code == "CLAIM_CHECK"


def _claim(message: Message) -> bytes:
    return json.dumps({k: base64.b64encode(getattr(message, k)).decode() for k in ("key", "value")}).encode()


def test_claim_check_contents_that_are_none(tmp_path: Path) -> None:
    row = {"u": {"c": {"t": 3, "f": 65, "v": 1}}}
    pointing = _message(row, {**KEY, "ccl": "file:///x/y.json"})
    good = _claim(_message(row))
    for content, code in [
        (b"", "CLAIM_CHECK"),
        (b"[]", "CLAIM_CHECK"),
        (b"{}", "CLAIM_CHECK"),
        (b"[" * 100_000, "CLAIM_CHECK"),
        (b'{"key":"=","value":""}', "CLAIM_CHECK"),
        (b'{"key":1,"value":""}', "CLAIM_CHECK"),
        (_claim(pointing), "MALFORMED"),  # points to another claim-check
        (_claim(_message(row, count=2)), "CLAIM_CHECK"),
        (_claim(_message(row, {**KEY, "tbl": "other"})), "CLAIM_CHECK"),
        (_claim(_message(row, {**KEY, "ts": 5})), "CLAIM_CHECK"),
        (_claim(_message({"q": "x", "t": 1}, {**KEY, "t": 2})), "CLAIM_CHECK"),
        (good[:-5], "CLAIM_CHECK"),
    ]:
        (tmp_path / "y.json").write_bytes(content)
        assert _refused(pointing, claims=ClaimFolder.of(tmp_path)).code == code, content[:80]
    (tmp_path / "y.json").write_bytes(good)
    [event] = _decode(pointing, claims=ClaimFolder.of(tmp_path))
    assert event.after == {"c": "1"}  # type: ignore[union-attr]


# ---- only handle key columns
def test_a_cut_row_is_flagged_and_no_other_format_takes_it_for_whole() -> None:
    golden = Golden("open", "large.handlekeyonly")
    insert = golden.messages()[1]
    decoder = golden.side().decoder()
    cut, whole = decoder.decode(insert)
    assert isinstance(cut, RowChange)
    assert isinstance(whole, RowChange)
    assert (cut.after, cut.key_only, cut.flags) == ({"id": "1"}, True, ["handle_key_only"])
    assert (whole.key_only, whole.flags) == (False, [])
    for name in ("avro", "debezium"):
        encoder = Side(name, Registry(), Options.of({"time_zone": golden.zone})).encoder()  # type: ignore[arg-type]
        result = transcode_one(decoder, encoder, insert)
        assert result.error is not None
        assert result.error.code == "KEY_ONLY_ROW"


# ---- only-output-updated-columns, and the name that TiCDC forgets
def _updated(new: dict[str, int | None], old: bytes) -> RowChange:
    cells = {name: {"t": 3, "f": 65, "v": value} for name, value in new.items()}
    return _row(_message(_bytes({"u": cells})[:-1] + b',"p":{' + old + b"}}"))


BARE = b'"t":3,"f":65,"v":%d'


def test_old_values_without_their_name_get_it_back() -> None:
    event = _updated({"a": 1, "b": None, "c": 2}, BARE % 7 + b',"c":{"t":3,"f":65,"v":5}')
    assert (event.before, event.flags) == ({"b": "7", "c": "5"}, [])
    event = _updated({"a": None, "b": None}, BARE % 7 + b"," + BARE % 8)
    assert event.before == {"a": "7", "b": "8"}
    # Its neighbours tell which of two it is.
    event = _updated({"a": None, "b": 1, "c": None}, b'"b":{"t":3,"f":65,"v":5},' + BARE % 9)
    assert (event.before, event.flags) == ({"b": "5", "c": "9"}, [])


def test_old_value_that_could_be_of_two_columns_is_left_out_and_told() -> None:
    event = _updated({"a": None, "b": None, "c": 2}, BARE % 7 + b',"c":{"t":3,"f":65,"v":5}')
    assert event.before == {"c": "5"}
    assert event.flags == ["old_value_unnamed:a", "old_value_unnamed:b"]


def test_old_value_without_any_column_it_could_be_of_is_an_error() -> None:
    cases_: list[tuple[dict[str, int | None], bytes]] = [
        ({"a": 1}, BARE % 7),
        ({"a": None}, b'"t":8,"f":65,"v":1'),
        ({"a": None}, b'"t":3'),
        ({"a": None}, b'"x":3'),
        ({"a": None}, BARE % 7 + b"," + BARE % 8),
    ]
    for new, old in cases_:
        with pytest.raises(WireError, match="not an Open Protocol row"):
            _updated(new, old)


def test_an_update_that_changed_nothing() -> None:
    event = _updated({"a": 1}, b"")
    assert (event.op, event.before) == ("u", {})
    encoder = format_named("open").encoder(Context(Registry(), None, Options.of({"only_output_updated_columns": True})))
    assert _decode(encoder.encode(event, ORIGIN)[0]) == [event]


# ---- shapes read by a regular expression give what JSON gives
@pytest.mark.parametrize("golden", [g for f in ("open", "open-tiflow") for g in cases(f)], ids=str)
def test_both_ways_of_reading_agree(golden: Golden, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(open_rows, "_FAST_AT", ())
    slow = [_all(golden)] * 2
    monkeypatch.setattr(open_rows, "_FAST_AT", (1, 2, 3, 4))
    decoder = golden.side().decoder()
    assert [_all(golden, decoder), _all(golden, decoder)] == slow


@pytest.mark.parametrize("name", ["wide.default", "bulk.default", "pk_types.default", "bulk.onlyupdated"])
def test_both_ways_agree_on_damaged_rows(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    golden, rng = Golden("open", name), random.Random(20261121)
    messages = golden.messages()
    monkeypatch.setattr(open_rows, "_FAST_AT", (1, 2, 3, 4))
    fast, slow = golden.side(ddl=True).decoder(), golden.side(ddl=True).decoder()
    for message in messages * 2:
        decode_one(fast, message)
    monkeypatch.setattr(open_rows, "_FAST_AT", ())
    for _ in range(500):
        message = rng.choice(messages)
        value = bytearray(message.value or b"")
        if value:
            at = rng.randrange(len(value))
            value[at : at + rng.randrange(3)] = rng.choice(
                (b"", b"0", b"-", b".", b"e9", b'"', b"\\", b"\xff", b"\x01", b"n")
            )
        bad = replace(message, value=(len(value) - 8).to_bytes(8, "big") + bytes(value[8:]) if len(value) > 8 else b"")
        assert plain_lines(decode_one(fast, bad), bad) == plain_lines(decode_one(slow, bad), bad)


def _all(golden: Golden, decoder: Any = None) -> list[Any]:
    decoder = decoder or golden.side().decoder()
    return [plain_lines(decode_one(decoder, m), m) for m in golden.messages()]


@given(st.lists(st.tuples(st.text(), st.binary(max_size=20), st.floats(allow_nan=False, allow_infinity=False))))
def test_values_of_a_shape_survive(rows: list[tuple[str, bytes, float]]) -> None:
    columns = table(column("v", "varchar"), column("b", "varbinary"), column("d", "double"), column("x", "blob"))
    encoder = format_named("open").encoder(Context(Registry()))
    events = [
        change(columns, {"v": v, "b": b, "d": go_text.json_float(repr(d), 64, False), "x": b}, commit_ts=n)
        for n, (v, b, d) in enumerate(rows * 9)
    ]
    events = [e for e in events if all(not "\ud800" <= c <= "\udfff" for c in str((e.after or {})["v"]))]
    decoder = format_named("open").decoder(Context(Registry()))
    for event in events:
        [again] = decoder.decode(encoder.encode(event, ORIGIN)[0])
        after = dict(again.after)  # type: ignore[union-attr, arg-type]
        assert float(after.pop("d")) == float(str((event.after or {})["d"]))
        assert after == {k: v for k, v in (event.after or {}).items() if k != "d"}


def test_a_shape_that_changes_is_read_on() -> None:
    """A column more (a DDL without a definition) or a swapped order: no stale reader."""
    decoder = format_named("open").decoder(Context(Registry()))
    for number in range(30):
        cells = {f"c{i}": {"t": 3, "f": 65, "v": number + i} for i in range(1 + number // 10)}
        if number % 2:
            cells = dict(reversed(cells.items()))
        [event] = decoder.decode(_message({"u": cells}))
        assert event.after == {name: str(cell["v"]) for name, cell in cells.items()}  # type: ignore[union-attr]


# ---- columns and flags
def test_flags_of_the_documents() -> None:
    """85: nullable, unique, generated, binary; 46: multiple, primary, generated, handle."""
    a = _row(_message({"u": {"c": {"t": 252, "f": 85, "v": ""}}})).table.columns[0]
    assert (a.nullable, a.unique_key, a.generated, a.charset, a.type.name) == (True, True, "", "binary", "blob")
    b = _row(_message({"u": {"c": {"t": 15, "h": True, "f": 46, "v": ""}}})).table.columns[0]
    assert (b.multiple_key, b.primary_key, b.generated, b.handle_key, b.nullable) == (True, True, "", True, False)


@given(st.sampled_from([1, 3, 5, 13, 15, 16, 247, 252, 253, 254]), st.integers(0, 255), st.booleans())
def test_any_type_and_flags_are_written_again(code: int, flags: int, handle: bool) -> None:
    cell = {"t": code, **({"h": True} if handle else {}), "f": flags, "v": None}
    message = _message({"u": {"c": cell}})
    [written] = format_named("open").encoder(Context(Registry())).encode_rows([_row(message)], message)  # type: ignore[attr-defined]
    assert (written.key, written.value) == (message.key, message.value)


@pytest.mark.parametrize("golden", [Golden("open", n) for n in ("uk_notnull.default", "pk_composite.default")], ids=str)
def test_flags_follow_from_a_tables_indexes(golden: Golden) -> None:
    """What a table definition with indexes says gives the flags that TiCDC sent."""
    indexes = {
        "uk_notnull.default": None,
        "pk_composite.default": (
            Index("PRIMARY", ("b", "a"), True),
            Index("uk", ("x",), True),
            Index("k2", ("a", "x")),
        ),
    }[golden.name]
    for event in golden.events():
        if isinstance(event, RowChange):
            bare = tuple(replace(c, unique_key=False, multiple_key=False) for c in event.table.columns)
            told = event.table if indexes is None else replace(event.table, columns=bare, indexes=indexes)
            derived = derived_keys(told)
            for c, wanted in zip(told.columns, event.table.columns, strict=True):
                assert cell_of(c, derived.get(c.name, 0)).flags == cell_of(wanted, 0).flags, c.name


def test_a_definition_that_contradicts_the_message_is_an_error() -> None:
    message = _message({"u": {"id": {"t": 3, "h": True, "f": 11, "v": 1}, "v": {"t": 15, "f": 64, "v": "a"}}})
    id_ = column("id", "int", nullable=False)
    for wrong in (
        (column("id", "bigint"), column("v", "varchar")),
        (column("id", "int", unsigned=True), column("v", "varchar")),
        (id_, column("v", "varbinary")),
        (id_, column("v", "text")),
        (id_,),
    ):
        error = _refused(message, tables=Tables(Table(TableId("test", "t1"), wrong)))
        assert error.code == "MALFORMED"
        assert "definition" in error.detail


# ---- ENUM and SET by number
ENUM = table(column("e", "enum", elements=("a", "", "b,c")), column("s", "set", elements=("x", "y", "z")))


@pytest.mark.parametrize(
    ("e", "s", "wire"), [("a", "", (1, 0)), ("", "x,z", (2, 5)), ("b,c", "x,y,z", (3, 7)), (None, "y", (None, 2))]
)
def test_enum_and_set_by_number(e: str | None, s: str, wire: tuple[int | None, int]) -> None:
    pair = Pair("open", Tables(ENUM))
    event = change(ENUM, {"e": e, "s": s})
    found = json.loads((pair.write(event).value or b"")[8:])["u"]
    assert (found["e"]["v"], found["s"]["v"]) == wire
    assert pair.through(event).after == event.after
    bare = Pair("open").through(event)
    assert bare.after == {"id": "1", "e": None if wire[0] is None else str(wire[0]), "s": str(wire[1])}
    assert bare.flags == [f"enum_number:{n}" for n, v in (("e", e), ("s", s)) if v is not None]
    assert Pair("open").write(bare).value == pair.write(event).value
    for name in ("avro", "debezium"):  # the number is never taken for the name
        assert Pair(name).refusal(bare).code == "TYPE_UNKNOWN"


def test_enum_index_zero_beside_an_empty_element_comes_back_as_zero() -> None:
    known = Table(TableId("test", "t1"), (column("e", "enum", elements=("a", "")),))
    message = _message({"u": {"e": {"t": 247, "f": 64, "v": 0}}, "p": {"e": {"t": 247, "f": 64, "v": 2}}})
    for _ in range(2):
        event = _row(message, tables=Tables(known))
        assert (event.after, event.before, event.extra) == ({"e": ""}, {"e": ""}, {"enum_zero": ["after.e"]})
        assert format_named("open").encoder(Context(Registry())).encode(event, message) == [message]


@pytest.mark.parametrize(("name", "value"), [("e", "z"), ("s", "x,q"), ("s", "x,,y")])
def test_elements_that_are_none_are_refused_by_column(name: str, value: str) -> None:
    error = Pair("open").refusal(change(ENUM, {"e": "a", "s": "x", name: value}))
    assert (error.code, error.fields["column"]) == ("INVALID_VALUE", name)


def test_numbers_beyond_the_definition_are_refused() -> None:
    for cell, kind in (({"t": 247, "f": 64, "v": 3}, "enum"), ({"t": 248, "f": 64, "v": 4}, "set")):
        known = Table(TableId("test", "t1"), (column("c", kind, elements=("a", "b")),))
        assert "element" in _refused(_message({"u": {"c": cell}}), tables=Tables(known)).detail


# ---- writing other formats' events
def test_what_can_not_be_written_is_refused_by_name() -> None:
    vague = table(replace(column("n", "int"), vague="INT or BIGINT"))
    assert Pair("open").refusal(change(vague, {"n": "1"})).fields["column"] == "n"
    folded = change(table(column("n", "int")), {"n": "1"}, format_="avro")  # Avro's INT could be a TINYINT
    assert Pair("open").refusal(folded).code == "TYPE_UNKNOWN"
    assert Pair("open").through(replace(folded, table_version=1)).after == {"id": "1", "n": "1"}
    plain = table(column("n", "int"))
    assert Pair("open").refusal(change(plain, {})).detail == "column n: the event does not carry it"
    assert Pair("open").refusal(change(plain, {"n": "1", "x": "2"})).fields["column"] == "x"
    no_ts = change(plain, {"n": "1"}, commit_ts=None)
    with pytest.raises(WireError, match="commit_ts"):
        Pair("open").encoder.encode(no_ts, replace(ORIGIN, timestamp=None))
    assert Pair("open").through(no_ts).commit_ts == (ORIGIN.timestamp or 0) << 18
    assert no_ts.flags == ["synthetic_commit_ts"]
    ddl = DdlEvent("debezium", "a", "b", 1, None, "DROP TABLE b")
    with pytest.raises(WireError, match="ddl_type"):
        Pair("open").encoder.encode(ddl, ORIGIN)


def test_deletes_with_only_their_handle_key() -> None:
    columns = table(column("n", "int"))
    event = change(columns, None, {"n": "2"})
    pair = Pair("open", delete_only_output_handle_key_columns=True)
    assert pair.through(event).before == {"id": "1"}
    keyless = replace(columns, columns=(replace(columns.columns[0], handle_key=False), columns.columns[1]))
    assert pair.refusal(change(keyless, None, {"n": "2"})).code == "KEY_ONLY_ROW"


def test_updates_without_old_row() -> None:
    columns = table(column("n", "int"))
    event = change(columns, {"n": "2"}, {"n": "1"})
    assert Pair("open", no_old_value=True).through(event).before is None
    assert event.flags == []
    bare = change(columns, {"n": "2"}, op="u")
    Pair("open").write(bare)
    assert bare.flags == ["no_before"]
    written = Pair("open", only_output_updated_columns=True).through(change(columns, {"n": "2"}, {"n": "1"}))
    assert written.before == {"n": "1"}
    [told] = _decode(Pair("open").write(bare), no_old_value=True)
    assert told.flags == ["op_unknown"]  # type: ignore[union-attr]


def test_timestamps_change_their_zone() -> None:
    columns = table(column("t", "timestamp", scale=0))
    event = change(columns, {"t": "2024-07-01 12:00:00"}, zone="UTC")
    assert Pair("open", time_zone="Asia/Shanghai").through(event).after == {"id": "1", "t": "2024-07-01 20:00:00"}
    twice = change(columns, {"t": "2024-11-03 01:30:00"}, zone="America/New_York")
    Pair("open").write(twice)
    assert twice.flags == ["timestamp_fold:t"]


def test_text_that_is_not_utf8() -> None:
    columns = table(column("v", "varchar"), column("x", "text"))
    event = change(columns, {"v": b"\xe9", "x": b"\xff"})
    assert Pair("open").through(event).after == {"id": "1", "v": b"\xe9", "x": b"\xff"}
    with pytest.raises(LossyError):
        Pair("open-tiflow").write(event)
    pair = Pair("open-tiflow", on_lossy="flag")
    seen = pair.through(event)
    assert event.flags == ["invalid_utf8:v"]
    assert (seen.after, seen.flags) == ({"id": "1", "v": "\ufffd", "x": b"\xff"}, ["replaced_utf8:v"])
    honest = change(columns, {"v": "\ufffd\\ufffd", "x": ""})
    assert (pair.through(honest).after, pair.through(honest).flags) == (honest.after, [])


@given(st.floats(width=32, allow_nan=False, allow_infinity=False), st.floats(allow_nan=False, allow_infinity=False))
def test_floats_read_as_the_shared_conversions_say(single: float, double: float) -> None:
    for text in (repr(single), f"{single:.4f}", f"{single:.3g}", repr(double), f"{double:.7f}"):
        read = cell_values.reader(column("c", "double"), False)
        assert read(text) == values.double_text(float(text))
        if abs(float(text)) < 3.4e38:
            read = cell_values.reader(column("c", "float"), False)
            assert read(text) == values.float_text(values.as_float32(float(text)))


# ---- Go's texts
@given(st.binary())
def test_quote_and_back(data: bytes) -> None:
    quoted = go_text.quote(data)
    assert go_text.unquote(quoted) == data
    assert quoted.isprintable()


@pytest.mark.parametrize(
    ("data", "quoted"),
    [
        (b"\0\x01\x04\xff\xfe", "\\x00\\x01\\x04\\xff\\xfe"),
        (b"\a\b\t\n\v\f\r\x1b", "\\a\\b\\t\\n\\v\\f\\r\\x1b"),
        (b"\x7f\\\"'", "\\x7f\\\\\\\"'"),
        ("é中😀".encode(), "é中😀"),
        ("\x80\xad\u2028\ufeff\U000e0001".encode(), "\\u0080\\u00ad\\u2028\\ufeff\\U000e0001"),
        ("\ufffd\u00a0\u3000".encode(), "\ufffd\\u00a0\\u3000"),
        (b"\xed\xa0\x80", "\\xed\\xa0\\x80"),
    ],
)
def test_quote_as_go_does(data: bytes, quoted: str) -> None:
    assert go_text.quote(data) == quoted
    assert go_text.unquote(quoted) == data


@pytest.mark.parametrize(
    ("text", "bits", "written", "classic"),
    [
        ("1e-07", 64, "1e-07", "1e-7"),
        ("1e-10", 64, "1e-10", "1e-10"),
        ("0.000001", 64, "0.000001", "0.000001"),
        ("0.00000123", 64, "0.00000123", "0.00000123"),
        ("9.99e-7", 64, "9.99e-07", "9.99e-7"),
        ("1e20", 64, "100000000000000000000", "100000000000000000000"),
        ("1e+21", 64, "1e+21", "1e+21"),
        ("-1.7976931348623157e+308", 64, "-1.7976931348623157e+308", "-1.7976931348623157e+308"),
        ("-1e+07", 32, "-10000000", "-10000000"),
        ("3.4028235e+38", 32, "3.4028235e+38", "3.4028235e+38"),
        ("1e-45", 32, "1e-45", "1e-45"),
        ("153.123", 32, "153.123", "153.123"),
        ("-0", 64, "-0", "-0"),
        ("0", 32, "0", "0"),
    ],
)
def test_floats_as_go_writes_them(text: str, bits: int, written: str, classic: str) -> None:
    assert go_text.json_float(text, bits, False) == written
    assert go_text.json_float(text, bits, True) == classic


@given(st.text(st.characters(exclude_categories=["Cs"])))
def test_json_strings_come_back(text: str) -> None:
    for string in (go_text.jsoniter_string(text), go_text.std_string(text)):
        assert json.loads(string) == text
        assert go_text.json_unescape(string[1:-1]) == text


def test_json_strings_as_go_writes_them() -> None:
    text = '<&>\u2028\b\f\n\r\t\x01\x7f"\\/é'
    assert go_text.jsoniter_string(text) == '"<&>\u2028\\u0008\\u000c\\n\\r\\t\\u0001\x7f\\"\\\\/é"'
    assert go_text.std_string(text) == '"\\u003c\\u0026\\u003e\\u2028\\b\\f\\n\\r\\t\\u0001\x7f\\"\\\\/é"'
