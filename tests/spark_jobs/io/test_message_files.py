"""Message files: JSON lines and Parquet hold every message byte for byte; a bad line is an error of its own."""

import bz2
import gzip
import io
import json
import lzma
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import cramjam
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.golden import FORMATS, cases
from tests.support.python_words import assert_no_python_words
from tests.support.table import check_rows
from ticdc_bridge.schemas.inputs.dead_letters import ATTEMPT, DETAIL, ORIGIN, REASON, dead_letter
from ticdc_bridge.schemas.inputs.replay import original_message
from ticdc_bridge.schemas.model.errors import SetupError, WireError
from ticdc_bridge.schemas.model.event import Message
from ticdc_bridge.schemas.model.options import Options
from ticdc_bridge.schemas.plain.writer import json_line
from ticdc_bridge.spark_jobs.io.endpoints import DeadLetters, lines_file
from ticdc_bridge.spark_jobs.io.locations import KafkaClient
from ticdc_bridge.spark_jobs.io.message_files import LineWriter, is_plain_lines, message_line, parse_line, read_messages
from ticdc_bridge.spark_jobs.io.parquet import ParquetWriter

HEADERS = (("a", b"\x00\xff"), ("a", None), ("", b""))
SAMPLES = [
    Message(b"k", b"v", "t", 3, 42, 1_767_348_246_678, HEADERS),
    Message(None, None),
    Message(b"", b"", "订单", 0, 0, 0),
    Message(bytes(range(256)), b"\x80" * 3000, "t", None, 1 << 62, None),
]
bytes_or_none = st.none() | st.binary(max_size=50)
messages = st.builds(
    Message,
    bytes_or_none,
    bytes_or_none,
    st.none() | st.text(st.characters(exclude_categories=["Cs"]), max_size=10),
    st.none() | st.integers(0, (1 << 31) - 1),
    st.none() | st.integers(0, (1 << 63) - 1),
    st.none() | st.integers(0, 253_402_300_799_999),
    st.lists(st.tuples(st.text(st.characters(exclude_categories=["Cs"]), max_size=5), bytes_or_none), max_size=3).map(
        tuple
    ),
)


@given(messages)
def test_a_line_is_the_message(message: Message) -> None:
    out = io.StringIO()
    LineWriter(out).write(message_line(message))
    line = out.getvalue()
    assert line.endswith("\n")
    assert line.count("\n") == 1
    assert parse_line(line.encode(), "x") == message


def test_parquet_is_the_messages(tmp_path: Path) -> None:
    golden = [m for name in FORMATS for g in cases(name)[:12] for m in g.messages()]
    wanted = SAMPLES + golden * (1 + 5000 // len(golden))  # more than one row group
    path = tmp_path / "m.parquet"
    writer = ParquetWriter(path)
    for message in wanted:
        writer.write(message)
    assert not path.exists()
    writer.close()
    assert list(read_messages(path)) == wanted
    assert [p.name for p in tmp_path.iterdir()] == ["m.parquet"]


def test_parquet_timestamps_in_utc(tmp_path: Path) -> None:
    """Spark writes Kafka's timestamp as a timestamp in UTC."""
    moment = datetime(2026, 1, 2, 10, 4, 6, 678_000, UTC)
    table = pa.table(
        {
            "key": pa.array([b"k"], pa.binary()),
            "value": pa.array([None], pa.binary()),
            "timestamp": pa.array([moment], pa.timestamp("us", tz="UTC")),
        }
    )
    pq.write_table(table, tmp_path / "m.parquet")
    assert list(read_messages(tmp_path / "m.parquet")) == [Message(b"k", None, timestamp=1_767_348_246_678)]


def test_parquet_needs_key_and_value(tmp_path: Path) -> None:
    def check(column: str) -> None:
        pq.write_table(pa.table({column: pa.array([b"x"], pa.binary())}), tmp_path / "m.parquet")
        with pytest.raises(SetupError, match="no column"):
            list(read_messages(tmp_path / "m.parquet"))

    check_rows(["key", "value", "topic"], check)


def test_what_is_no_parquet(tmp_path: Path) -> None:
    path = tmp_path / "m.parquet"

    def check(content: bytes) -> None:
        path.write_bytes(content)
        with pytest.raises(SetupError, match=r"m\.parquet"):
            list(read_messages(path))

    check_rows([b"", b"PAR1", b"PAR1" + bytes(100) + b"PAR1", b"{}\n"], check, repr)


def test_files_that_are_not_there(tmp_path: Path) -> None:
    for path in (tmp_path / "no.jsonl", tmp_path / "no.parquet", tmp_path):
        with pytest.raises(SetupError) as caught:
            list(read_messages(path))
        assert caught.value.code == "USAGE"


BAD: list[tuple[bytes, str]] = [
    (b"x", "plain text"), (b"[]", "object"), (b"{}", "key_b64"), (b"null", "the text null"),
    (b'"key_b64"', "a JSON string, not a JSON object"), (b'{"value_b64":"A"}', "base64"),
    (b'{"value_b64":"\\u00e9"}', "base64"), (b'{"value_b64":1}', ""), (b'{"value_b64":"AA==","topic":1}', "topic"),
    (b'{"value_b64":null,"partition":"1"}', "partition"), (b'{"value_b64":null,"partition":true}', "partition"),
    (b'{"value_b64":null,"timestamp":1.5}', "timestamp"), (b'{"value_b64":null,"offset":[]}', "offset"),
    (b'{"value_b64":null,"headers":5}', "headers"), (b'{"value_b64":null,"headers":"a"}', "headers"),
    (b'{"value_b64":null,"headers":[["a"]]}', "headers"), (b'{"value_b64":null,"headers":[["a","?"]]}', "headers"),
    (b'{"value_b64":null,"headers":[[1,"YQ=="]]}', "headers"), (b'{"value_b64":null,"headers":{"a":1}}', "headers"),
    (b'{"value_b64":null,"headers":[{"a":"YQ=="}]}', "headers"), (b"\x1f\x8b\x08", "gzip"), (b"<a/>", "XML"),
    (b'{"id":1}\t{"a":1}', "more text follows"), (b'{"id":1}\t{"__op":"c"}\tx', "more text follows"),
    (b'"I","orders","shop",1', "CSV"),
    (b'{"topic":"t","partition":0,"offset":1,"payload":{"a":1},"key":null}', "kcat decoded the payload"),
    (b'Offset:7\ta:x\t{"isDdl":false,"type":"INSERT"}', "is a key or a header"),
    (b'Offset:7\ta:x,y\tk\t{"isDdl":false,"type":"INSERT"}', "a header's value has a comma"),
    (b'k|{"isDdl":false,"type":"INSERT"}', "key.separator"),
    (b'{"id":1};{"isDdl":false,"type":"INSERT"}', "key.separator"), (b'Offset:7\t{"x":1}', "not JSON"),
    (b'{"topic":"t","partition":0,"offset":1,"payload":null,"payload_error":"x"}', "kcat decoded the payload"),
    (b'{"topic":"t","partition":0,"offset":1,"payload":"a\xef\xbf\xbd"}', "kafka:TOPIC"),
    (b'{"topic":"t","partition":0,"offset":1,"payload":"a","headers":["a"]}', "headers"),
    (b'{"topic":"t","partition":0,"offset":1,"timestamp":1,"value":"a\\ufffd"}', "kafka:TOPIC"),
    (b'{"topic":"t","partition":0,"offset":1,"timestamp":1,"value_size":4}', "--meta-only"),
    (b'{"topic":"t","partition":0,"offset":1,"timestamp":1,"value":{"a":1}}', "kafka:TOPIC"),
    (b'{"topic":"t","partition":0,"offset":1,"timestamp":1,"value":"a","headers":["a"]}', "headers"),
    (b'{"isDdl":false,"type":"INSERT"};', "terminator"),
    (b'{"a":1}', "key_b64"), (b'{"value_b64":null', ""), (b"\xff\xfe", ""), (b"[" * 100_000, ""),
    (b'{"value_b64":"AA=="}{"value_b64":"AA=="}', "several objects are in one line"),
    (b'{"before":null,"after":{},"op":"c","source":{}} {"op":"c","source":{}}', "write each on a line of its own"),
    (b'{"value_b64":"-_8="}', ""),
    (b'{"value_b64":"A\\nA=="}', ""),
    # Of two faults the one is said that comes first in a message: position, timestamp, headers.
    (b'{"value_b64":null,"offset":[],"timestamp":1.5}', "offset is"),
    (b'{"value_b64":null,"timestamp":1.5,"headers":5}', "timestamp is"),
    (b'{"topic":"t","partition":-1,"offset":1,"timestamp":1.5,"value":"a"}', "partition -1"),
    (b'{"topic":"t","partition":0,"offset":-1,"timestamp":1,"headers":[{"key":"k","value":{}}]}', "offset -1"),
]  # fmt: skip


def test_bad_lines() -> None:
    def check(bad: tuple[bytes, str]) -> None:
        line, reason = bad
        with pytest.raises(WireError) as caught:
            parse_line(line, "m.jsonl:3")
        assert caught.value.code == "BAD_LINE"
        assert caught.value.detail.startswith("m.jsonl:3: ")
        assert reason in caught.value.detail
        assert_no_python_words(caught.value.detail)
        assert len(caught.value.detail) < 400

    check_rows(BAD, check, lambda bad: repr(bad[0][:30]))


def test_objects_one_after_another(tmp_path: Path) -> None:
    """As Firehose writes them: messages of any form, and values alone."""
    value, line = b'{"op":"c","source":{"db":"}{"}}', b'{"value_b64":"AA=="}'

    def check(row: tuple[bytes, list[bytes]]) -> None:
        path = tmp_path / "m.json"
        path.write_bytes(row[0])
        assert [m.value for m in read_messages(path) if isinstance(m, Message)] == row[1]

    rows = [
        (value * 3, [value] * 3), (value + b" " + value + b"\n" + value, [value] * 3), (line * 2, [b"\0"] * 2),
        (b"\xef\xbb\xbf" + value * 2 + b"\r\n" + value, [value] * 3), (value, [value]),
    ]  # fmt: skip
    check_rows(rows, check)


def test_a_file_of_good_and_bad_lines(tmp_path: Path) -> None:
    path = tmp_path / "m.jsonl"
    good = [{"key_b64": None, "value_b64": "AQ=="}, {"value_b64": None, "key_b64": "Ag=="}]
    path.write_bytes(
        b"\r\n".join([json.dumps(good[0]).encode(), b"", b"  \t", b"bad \xff", json.dumps(good[1]).encode(), b"{}"])
    )
    found = list(read_messages(path))
    assert found[0] == Message(None, b"\x01")
    assert found[2] == Message(b"\x02", None)
    errors = [item for item in found if isinstance(item, tuple)]
    assert [(e.code, m) for e, m in errors] == [
        ("BAD_LINE", Message(None, b"bad \xff")),
        ("BAD_LINE", Message(None, b"{}")),
    ]
    assert [e.detail.partition(": ")[0] for e, _ in errors] == ["m.jsonl:4", "m.jsonl:6"]
    assert len(found) == 4


@pytest.mark.parametrize("name", ["out.jsonl", "out.parquet"])
def test_an_output_appears_when_it_is_complete(tmp_path: Path, name: str) -> None:
    path = tmp_path / name
    path.write_text("old")

    def writer() -> Any:
        return ParquetWriter(path) if name.endswith("parquet") else LineWriter(path)

    def write(to: Any) -> None:
        to.write(SAMPLES[0] if name.endswith("parquet") else message_line(SAMPLES[0]))

    abandoned = writer()
    write(abandoned)
    abandoned.abandon()
    assert path.read_text() == "old"
    complete = writer()
    write(complete)
    assert path.read_text() == "old"
    complete.close()
    assert list(read_messages(path)) == [SAMPLES[0]]


@pytest.mark.parametrize("name", ["a.jsonl", "a.parquet"])
def test_an_output_that_cannot_be_made(tmp_path: Path, name: str) -> None:
    with pytest.raises(SetupError) as caught:
        (ParquetWriter if name.endswith("parquet") else LineWriter)(tmp_path / "no" / name)
    assert caught.value.code == "USAGE"


_VALUE = b'{"isDdl":false,"type":"INSERT","x":"\xc3\xa9"}'
_TEXT = json.dumps(_VALUE.decode())
_HEADERS = (("a", b"x"), ("a", b"y"))
_FLAT = '["a","x","a","y"]'
_PAIRS = '[{"key":"a","value":"x"},{"key":"a","value":"y"}]'
_AT = '"topic":"t","partition":1,"offset":2'
FORMS: list[tuple[str, bytes, Message]] = [
    ("headers as an object", b'{"value_b64":"AQ==","headers":{"a":"YQ==","b":null}}',
     Message(None, b"\x01", headers=(("a", b"a"), ("b", None)))),
    ("headers as an object of lists", b'{"value_b64":"AQ==","headers":{"a":["eA==","eQ=="]}}',
     Message(None, b"\x01", headers=_HEADERS)),
    ("kcat", f'{{{_AT},"tstype":"create","ts":3,"broker":0,"headers":{_FLAT},"key":"k","payload":{_TEXT}}}'.encode(),
     Message(b"k", _VALUE, "t", 1, 2, 3, _HEADERS)),
    ("kcat, headers as an object",
     f'{{{_AT},"tstype":"unknown","ts":0,"headers":{{"a":["x","y"]}},"key":null,"payload":null}}'.encode(),
     Message(None, None, "t", 1, 2, None, _HEADERS)),
    ("kcat, bytes that are no text", b'{"topic":"t","partition":1,"offset":2,"key":"","payload":"\\u0000\xff\\n"}',
     Message(b"", b"\x00\xff\n", "t", 1, 2)),
    ("rpk", f'{{{_AT},"key":"k","value":{_TEXT},"headers":{_PAIRS},"timestamp":3}}'.encode(),
     Message(b"k", _VALUE, "t", 1, 2, 3, _HEADERS)),
    ("rpk, a tombstone", f'{{"key":"k","timestamp":3,{_AT}}}'.encode(), Message(b"k", None, "t", 1, 2, 3)),
    ("rpk, an escape of the value's own", f'{{"value":"a\\\\ufffd","timestamp":3,{_AT}}}'.encode(),
     Message(None, b"a\\ufffd", "t", 1, 2, 3)),
    ("key and value with a tab", b'{"id":1}\t' + _VALUE, Message(b'{"id":1}', _VALUE)),
    ("a tombstone with its key", b'{"id":1}\tnull', Message(b'{"id":1}', None)),
    ("no key", b"null\t" + _VALUE, Message(None, _VALUE)),
    ("with its time", b"CreateTime:17\t" + _VALUE, Message(None, _VALUE, timestamp=17)),
    ("without a time", b"NO_TIMESTAMP\tk\t" + _VALUE, Message(b"k", _VALUE)),
    ("partition and offset", b"Partition:3\tOffset:7\tnull\t" + _VALUE, Message(None, _VALUE, None, 3, 7)),
    ("everything", b'LogAppendTime:17\tPartition:3\tOffset:7\ta:x,b:null\t{"id":1}\t' + _VALUE,
     Message(b'{"id":1}', _VALUE, None, 3, 7, 17, (("a", b"x"), ("b", None)))),
    ("another separator", b"CreateTime:17|Offset:7|NO_HEADERS|k|" + _VALUE, Message(b"k", _VALUE, None, None, 7, 17)),
    ("a separator that JSON has too", b"Partition:3,Offset:7,k," + _VALUE, Message(b"k", _VALUE, None, 3, 7)),
    ("two characters as separator", b"Partition:3, k, null", Message(b"k", None, None, 3)),
    ("headers and key", b"a:x\tk\t" + _VALUE, Message(b"k", _VALUE, headers=(("a", b"x"),))),
    ("no headers", b"NO_HEADERS\t" + _VALUE, Message(None, _VALUE)),
    ("share groups", b"Offset:7\tDelivery:1\tEpoch:0\tk\t" + _VALUE, Message(b"k", _VALUE, None, None, 7)),
    ("a value alone", _VALUE, Message(None, _VALUE)),
    *((f"known by its members: {text!r}", text, Message(None, text))
      for text in (b'{"data":{"id":1},"type":"INSERT"}', b'{"before":null,"after":{"id":1}}')),
    ("Debezium alone", b' {"payload":{"op":"c"}} ', Message(None, b'{"payload":{"op":"c"}}')),
]  # fmt: skip


def test_forms_of_lines() -> None:
    def check(row: tuple[str, bytes, Message]) -> None:
        assert parse_line(row[1], "m") == row[2]

    check_rows(FORMS, check, lambda row: row[0])


_ONE = {"topic": "t", "partition": 0, "offset": 0, "key_b64": None, "value_b64": "AQ=="}
_LINES = b"".join(json.dumps({**_ONE, "offset": n}).encode() + b"\n" for n in range(5000))


def test_compressed_files(tmp_path: Path) -> None:
    """By their first bytes, whatever they are called; several members after one another are one file."""
    path = tmp_path / "m.jsonl"
    plain = tmp_path / "plain"
    plain.write_bytes(_LINES)
    expected = list(read_messages(plain))
    assert is_plain_lines(plain)

    def check(pack: Callable[[bytes], bytes]) -> None:
        path.write_bytes(pack(_LINES))
        assert list(read_messages(path)) == expected
        assert not is_plain_lines(path)
        path.write_bytes(pack(_LINES[: len(_LINES) // 2]) + pack(_LINES[len(_LINES) // 2 :]))
        assert len(list(read_messages(path))) == len(expected)
        path.write_bytes(pack(_LINES)[:-40])
        with pytest.raises(SetupError) as caught:
            list(read_messages(path))
        assert_no_python_words(caught.value.detail)

    packers: tuple[Callable[[bytes], bytes], ...] = (
        gzip.compress,
        bz2.compress,
        lzma.compress,
        lambda data: bytes(cramjam.zstd.compress(data)),
    )
    check_rows(packers, check, repr)
    path.write_bytes(bytes(cramjam.lz4.compress(_LINES)))
    assert list(read_messages(path)) == expected


def test_text_in_utf_16(tmp_path: Path) -> None:
    """As Windows' PowerShell writes what a program prints."""
    path, plain = tmp_path / "m.jsonl", tmp_path / "plain"
    lines = _LINES.replace(b'"t"', '"täble 😀"'.encode())
    plain.write_bytes(lines)
    for encoding in ("utf-16-le", "utf-16-be"):
        path.write_bytes(("\ufeff" + lines.decode().replace("\n", "\r\n")).encode(encoding))
        assert list(read_messages(path)) == list(read_messages(plain))
        path.write_bytes(path.read_bytes()[:-1])
        with pytest.raises(SetupError, match="its UTF-16 text is damaged, or cut"):
            list(read_messages(path))


DOCUMENTS: list[tuple[str, str, int]] = [
    ("a list", json.dumps([_ONE] * 3), 3),
    ("a list over lines", json.dumps([_ONE] * 3, indent=1), 3),
    ("with a byte order mark", "\ufeff" + json.dumps([_ONE] * 2, indent=1), 2),
    ("objects over lines", "\n".join(json.dumps(_ONE, indent=2) for _ in range(3)), 3),
    ("a list of values", json.dumps([{"isDdl": False, "type": "INSERT"}] * 2), 2),
    ("an empty list", "[]", 0),
]


def test_json_documents(tmp_path: Path) -> None:
    path = tmp_path / "m.json"

    def check(row: tuple[str, str, int]) -> None:
        path.write_text(row[1], encoding="utf-8")
        items = list(read_messages(path))
        assert len(items) == row[2]
        assert all(isinstance(item, Message) for item in items)

    check_rows(DOCUMENTS, check, lambda row: row[0])
    path.write_text(json.dumps([_ONE] * 3, indent=1)[:-2])
    with pytest.raises(SetupError, match="does not end"):
        list(read_messages(path))
    path.write_text('[\n{"a":1},\n{"value_b64":"AQ=="},\n{"value_b64":}]')
    errors = [item[0].detail for item in read_messages(path) if isinstance(item, tuple)]
    assert [detail.split(" ")[0] for detail in errors] == ["m.json:2:", "m.json:4:"]


def test_files_that_spark_takes_as_lines(tmp_path: Path) -> None:
    """A file of lines stays; what is none becomes one, with the same messages; a line that is none fails again."""
    plain, packed, document = tmp_path / "m.jsonl", tmp_path / "m.jsonl.gz", tmp_path / "m.json"
    plain.write_bytes(_LINES)
    packed.write_bytes(gzip.compress(_LINES))
    document.write_text(json.dumps([_ONE, {"a": 1}], indent=1))
    assert lines_file(str(plain), Options(), plain=False) == plain
    assert list(read_messages(lines_file(str(packed), Options(), plain=False))) == list(read_messages(plain))
    first, second = read_messages(lines_file(str(document), Options(), plain=False))
    assert isinstance(first, Message)
    assert isinstance(second, tuple)
    rows = tmp_path / "rows.jsonl.gz"
    rows.write_bytes(gzip.compress(b'{"kind":"row"}\n\n{"kind":"ddl"}\n'))
    assert lines_file(str(rows), Options(), plain=True).read_bytes() == b'{"kind":"row"}\n{"kind":"ddl"}\n'
    with pytest.raises(SetupError, match="No such file"):
        lines_file(str(tmp_path / "no"), Options(), plain=False)


# ---- Dead letters keep the message, say why it is here, and can be read again.

ERROR = WireError("MALFORMED", where="value", details="nope 订单")


@given(messages, st.text(max_size=2000))
def test_bytes_headers_and_place_are_kept(message: Message, text: str) -> None:
    error = WireError("MALFORMED", where="value", details=text)
    made = dead_letter(error, message)
    assert (made.key, made.value, made.topic, made.partition, made.offset, made.timestamp) == (
        message.key, message.value, message.topic, message.partition, message.offset, message.timestamp,
    )  # fmt: skip
    assert made.headers[: len(message.headers)] == message.headers
    assert parse_line(json_line(message_line(made)).encode(), "x") == made
    assert len(dict(made.headers)[DETAIL] or b"") <= 4000


def test_a_line_of_a_file_says_why(tmp_path: Path) -> None:
    message = Message(b"k", "é".encode(), "t", 1, 7)
    letters = DeadLetters(str(tmp_path / "dead.jsonl"), KafkaClient())
    letters.write(ERROR, message)
    letters.close()
    line = (tmp_path / "dead.jsonl").read_bytes()
    assert (json.loads(line)["code"], json.loads(line)["detail"]) == ("MALFORMED", ERROR.detail)
    assert parse_line(line, "x") == dead_letter(ERROR, message)


def test_headers_say_why_and_where() -> None:
    made = dead_letter(ERROR, Message(b"k", None, "t", 1, 7, None, (("x", b"1"),)))
    assert made.headers == (
        ("x", b"1"), (REASON, b"MALFORMED"), (DETAIL, "value: nope 订单".encode()), (ORIGIN, b"t/1/7"), (ATTEMPT, b"1"),
    )  # fmt: skip
    assert dict(dead_letter(ERROR, Message(None, b"")).headers)[ORIGIN] == b"-/-/-"


def test_attempts_are_counted_and_reported_once() -> None:
    message = Message(b"k", b"v", "t", 0, 0, None, (("x", b"1"),))
    for attempt in range(1, 12):
        message = dead_letter(ERROR, message)
        assert dict(message.headers)[ATTEMPT] == str(attempt).encode()
        assert len(message.headers) == 5


def test_headers_of_others_that_are_called_alike_stay() -> None:
    """A stream's own messages have the header bridge.id: a job that reads them keeps it in dead letters and replays."""
    message = Message(b"k", b"v", "t", 0, 4, None, (("bridge.id", b"0/1/0/0"), ("bridge", None)))
    letter = dead_letter(ERROR, message)
    assert letter.headers[:2] == message.headers
    assert original_message(letter).headers == (*message.headers, (ORIGIN, b"t/0/4"), (ATTEMPT, b"1"))


def test_the_origin_of_a_replayed_message_is_its_first() -> None:
    first = dead_letter(ERROR, Message(b"k", b"v", "t", 0, 3))
    reported = tuple(h for h in first.headers if h[0] in (ATTEMPT, ORIGIN))
    assert dict(dead_letter(ERROR, Message(b"k", b"v", "t", 1, 99, headers=reported)).headers)[ORIGIN] == b"t/0/3"
    foreign = Message(b"k", b"v", "t", 1, 99, headers=((ORIGIN, b"somebody's own"),))
    assert dict(dead_letter(ERROR, foreign).headers)[ORIGIN] == b"t/1/99"


@pytest.mark.parametrize("attempt", [b"", b"x", b"-1", b"9" * 50, b"\xff", None])
def test_an_attempt_of_somebody_else(attempt: bytes | None) -> None:
    made = dead_letter(ERROR, Message(None, b"", headers=((ATTEMPT, attempt),)))
    assert dict(made.headers)[ATTEMPT] == b"1"
