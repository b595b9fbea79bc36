"""Message files: JSON lines and Parquet hold every message byte for byte; a bad line is an error of its own."""

from __future__ import annotations

import io
import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from schemas.model.errors import SetupError, WireError
from schemas.model.event import Message
from spark_jobs.io.message_files import LineWriter, message_line, parse_line, read_messages
from spark_jobs.io.parquet import ParquetWriter
from tests.support.golden import FORMATS, Golden, cases
from tests.support.table import check_rows

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
    (b"x", "a value is missing"),
    (b"[]", "object"),
    (b"{}", "key_b64"),
    (b"null", "object"),
    (b'"key_b64"', "object"),
    (b'{"value_b64":"A"}', "base64"),
    (b'{"value_b64":"\\u00e9"}', "ASCII"),
    (b'{"value_b64":1}', ""),
    (b'{"value_b64":"AA==","topic":1}', "topic"),
    (b'{"value_b64":null,"partition":"1"}', "partition"),
    (b'{"value_b64":null,"partition":true}', "partition"),
    (b'{"value_b64":null,"timestamp":1.5}', "timestamp"),
    (b'{"value_b64":null,"offset":[]}', "offset"),
    (b'{"value_b64":null,"headers":5}', ""),
    (b'{"value_b64":null,"headers":[["a"]]}', ""),
    (b'{"value_b64":null,"headers":[["a","?"]]}', ""),
    (b'{"value_b64":null', ""),
    (b"\xff\xfe", ""),
    (b"[" * 100_000, ""),
    (b'{"value_b64":"AA=="}{"value_b64":"AA=="}', "Extra"),
    (b'{"value_b64":"-_8="}', ""),
    (b'{"value_b64":"A\\nA=="}', ""),
]


def test_bad_lines() -> None:
    def check(bad: tuple[bytes, str]) -> None:
        line, reason = bad
        with pytest.raises(WireError) as caught:
            parse_line(line, "m.jsonl:3")
        assert caught.value.code == "BAD_LINE"
        assert caught.value.detail.startswith("m.jsonl:3: ")
        assert reason in caught.value.detail
        assert len(caught.value.detail) < 400

    check_rows(BAD, check, lambda bad: repr(bad[0][:30]))


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


def test_golden_files_are_message_files() -> None:
    def check(golden: Golden) -> None:
        lines = [json.loads(line) for line in golden.messages_file.read_text().splitlines()]
        assert [(m.topic, message_line(m)["value_b64"]) for m in golden.messages()] == [
            (x["topic"], x["value_b64"]) for x in lines
        ]

    check_rows([g for format_ in FORMATS for g in cases(format_)], check)
