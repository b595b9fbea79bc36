"""`encode`: plain-form lines back into messages; byte for byte those that decode read."""

import json
from dataclasses import replace
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from tests.support.golden import Golden, Registry
from tests.support.table import check_rows
from ticdc_bridge.cli import main
from ticdc_bridge.schemas.inputs.schema_files import FileSchemas
from ticdc_bridge.schemas.inputs.table_definitions import TableDefinitions
from ticdc_bridge.schemas.model.event import Message
from ticdc_bridge.schemas.model.options import Options
from ticdc_bridge.spark_jobs.arrow.event_encoder import EncodeBatches
from ticdc_bridge.spark_jobs.io.message_files import message_line, read_messages
from ticdc_bridge.spark_jobs.pipeline.codec_config import CodecConfig
from ticdc_bridge.spark_jobs.pipeline.message_codec import transcode_message

# Formats with DDL in the stream learn the tables from it; Avro's schemas are in the meta.
CASES = (
    Golden("avro", "evolution.ext1"), Golden("avro", "wide.before.ext1"), Golden("debezium", "evolution.ext.schema"),
    Golden("open", "wide.default"), Golden("craft", "wide.nofloat"), Golden("debezium-avro", "evolution.str.ext"),
)  # fmt: skip


def numbered(golden: Golden) -> list[Message]:
    """The messages with an offset each, as Kafka would give them."""
    return [replace(m, partition=0, offset=n, timestamp=None) for n, m in enumerate(golden.messages())]


def written(messages: list[Message], name: str = "in.jsonl") -> str:
    Path(name).write_text("".join(json.dumps(message_line(m)) + "\n" for m in messages))
    return name


def found(name: str) -> list[Message]:
    return [m for m in read_messages(Path(name)) if isinstance(m, Message)]


@pytest.mark.parametrize("golden", CASES, ids=str)
def test_decode_then_encode_is_byte_equal(golden: Golden) -> None:
    messages, meta, format_ = numbered(golden), str(golden.meta_file), golden.format
    common = ["--schemas", meta, "--from-options", meta]
    # Of Debezium's families the table's columns come from the definitions of the meta, of the others from the stream.
    ddl = ["--ddl", meta] if format_.startswith("debezium") else [] if format_ == "avro" else ["--ddl", "stream"]
    back = ["--ddl", meta] if format_.startswith("debezium") else []
    assert main(["decode", "--format", format_, "--in", written(messages), "--out", "l.jsonl", *common, *ddl]) == 0
    zone = ["--time-zone", golden.meta.get("changefeed_tz") or golden.meta["tz"]]
    target = ["--schemas", meta, "--to-options", meta, *zone, *back]
    assert main(["encode", "--to", format_, "--in", "l.jsonl", "--out", "m.jsonl", *target]) == 0
    assert [(m.key, m.value, m.offset) for m in found("m.jsonl")] == [(m.key, m.value, m.offset) for m in messages]


def test_events_without_a_message_are_skipped_and_counted(capsys: pytest.CaptureFixture[str]) -> None:
    golden = Golden("open", "wide.default")
    assert main(["decode", "--format", "open", "--in", str(golden.messages_file), "--out", "l", "--ddl", "stream"]) == 0
    lines = [json.loads(line)["kind"] for line in Path("l").read_text().splitlines()]
    assert {"ddl", "watermark"} < set(lines)
    assert main(["encode", "--format", "debezium", "--in", "l", "--out", "m.jsonl", "--time-zone", "UTC"]) in (0, 1)
    output = capsys.readouterr().err.splitlines()
    assert f"encode: skipped watermark {lines.count('watermark')}" in output


def row(**more: Any) -> dict[str, Any]:
    return {
        "kind": "row", "format": "open", "topic": "t", "partition": 0, "offset": 1, "db": "d", "table": "t", "op": "c",
        "commit_ts": 463293132748357634, "schema_id": None, "table_version": None, "key": ["id"], "before": None,
        "after": {"id": "1", "v": "x"}, "flags": [], **more,
    }  # fmt: skip


_NO_CHANGES: list[tuple[bytes, str]] = [
    (b"no json", "BAD_LINE"), (b'{"kind":"row"}', "BAD_LINE"), (b'{"kind":7}', "BAD_LINE"), (b"[]", "BAD_LINE"),
    (json.dumps(row(op="x")).encode(), "BAD_LINE"), (json.dumps(row(commit_ts=-1)).encode(), "BAD_LINE"),
    (json.dumps(row(commit_ts=True)).encode(), "BAD_LINE"), (json.dumps(row(key=None)).encode(), "BAD_LINE"),
    (json.dumps(row(after=None)).encode(), "BAD_LINE"), (json.dumps(row(format="oracle")).encode(), "BAD_LINE"),
    (json.dumps(row(topic=7)).encode(), "BAD_LINE"), (json.dumps(row(table="other")).encode(), "TYPE_UNKNOWN"),
    (json.dumps(row(after={"id": 1})).encode(), "INVALID_VALUE"),
    (json.dumps(row(after={"id": None, "v": "x"})).encode(), "INVALID_VALUE"),
    (json.dumps(row(op="d", after=None, before={"id": None})).encode(), "INVALID_VALUE"),
    (json.dumps(row(after={"id": "1", "v": {"hex": "0"}})).encode(), "INVALID_VALUE"),
    (json.dumps(row(after={"id": "1", "v": {"hex": "61 62"}})).encode(), "INVALID_VALUE"),
    (json.dumps(row(after={"id": "1", "w": "x"})).encode(), "INVALID_VALUE"),
    (json.dumps(row()).encode().replace(b'"v": "x"', b'"v": "x", "v": "y"'), "BAD_LINE"),
    (json.dumps(row()).encode().replace(b'"op": "c"', b'"op": "c", "op": "c"'), "BAD_LINE"),
    (json.dumps({"kind": "error", "code": "TRUNCATED", "detail": "cut", "key_b64": "aw==", "value_b64": "dg=="})
     .encode(), "NOT_DECODED"),
    (b'{"kind":' + b"[" * 100_000, "BAD_LINE"),
    (json.dumps(row(partition=-1)).encode(), "BAD_LINE"), (json.dumps(row(offset=1 << 63)).encode(), "BAD_LINE"),
    (json.dumps(row(extra={"rid": "x"})).encode(), "BAD_LINE"),
    (json.dumps(row(extra={"ptn": 1 << 63})).encode(), "BAD_LINE"),
    (json.dumps(row(extra={"columns": {"id": [3, True]}})).encode(), "BAD_LINE"),
    (json.dumps(row(extra={"enum_zero": "v"})).encode(), "BAD_LINE"),
    (json.dumps(row(extra={"x": [{"y": "\ud800"}]})).encode(), "BAD_LINE"),
    (json.dumps(row(format="craft", extra={"types": {"id": [3]}})).encode(), "BAD_LINE"),
    (json.dumps(row(format="craft", extra={"raw": {"after": {"id": 1}}})).encode(), "BAD_LINE"),
    (json.dumps(row(format="debezium", extra={"ts_ms": 1.5})).encode(), "BAD_LINE"),
    (json.dumps(row(format="debezium-mysql", extra={"source": []})).encode(), "BAD_LINE"),
]  # fmt: skip


def test_what_is_no_change_goes_to_the_dead_letters() -> None:
    Path("ddl.jsonl").write_text(
        json.dumps({"commit_ts": 1, "db": "d", "query": "CREATE TABLE t (id int primary key, v varchar(9))"})
    )
    good = json.dumps(row(offset=0)).encode()

    def check(bad: tuple[bytes, str]) -> None:
        line, code = bad
        Path("l").write_bytes(good + b"\n" + line + b"\n" + json.dumps(row(offset=2)).encode() + b"\n")
        assert main(["encode", "--to", "open", "--in", "l", "--out", "m.jsonl", "--ddl", "ddl.jsonl"]) == 1
        assert len(found("m.jsonl")) == 2
        (dead,) = found("m.jsonl.dead.jsonl")
        assert dict(dead.headers)["bridge.reason"] == code.encode()
        assert dead.value == (b"v" if code == "NOT_DECODED" else line)

    check_rows(_NO_CHANGES, check, lambda bad: repr(bad[0][:200]))


def test_a_row_takes_the_version_of_its_time_and_elements_their_names() -> None:
    ddl = [(10, "CREATE TABLE t (id int primary key, e enum('a','b'))"), (20, "ALTER TABLE t CHANGE e f enum('x','y')")]
    Path("ddl.jsonl").write_text("".join(json.dumps({"commit_ts": t, "db": "d", "query": q}) + "\n" for t, q in ddl))
    early = row(commit_ts=15, after={"id": "1", "e": "2"}, flags=["enum_number:e"])
    late = row(commit_ts=25, after={"id": "2", "f": "y"})
    Path("l").write_text(json.dumps(early) + "\n" + json.dumps(late) + "\n")
    assert main(["encode", "--to", "debezium", "--in", "l", "--out", "m.jsonl", "--ddl", "ddl.jsonl"]) == 0
    payloads = [json.loads(m.value or b"")["payload"]["after"] for m in found("m.jsonl")]
    assert payloads == [{"id": 1, "e": "b"}, {"id": 2, "f": "y"}]


COLUMNS = (
    "id int primary key, v varchar(9), d decimal(5,2), b bit(3), t time, day date, at timestamp null, e enum('a','b'),"
    " s set('a','b'), h varbinary(2)"
)
GOOD = {
    "id": "1", "v": "x", "d": "1.50", "b": {"hex": "07"}, "t": "-838:59:59", "day": "0000-00-00", "e": "", "s": "a,b",
    "at": "0000-00-00 00:00:00", "h": {"hex": "00ff"},
}  # fmt: skip
BAD: dict[str, tuple[Any, ...]] = {
    "v": ("ten letters",), "d": ("1000.00", "1.234"), "b": ({"hex": "08"}, {"hex": "0001"}), "t": ("839:00:00",),
    "day": ("2024-1-1", "10000-01-01"), "at": ("2024-02-30 00:00:00",), "e": ("c",), "s": ("a,c",),
    "h": ({"hex": "000000"}, "00"),
}  # fmt: skip
FORMS: dict[str, dict[str, Any]] = {
    "avro": {"avro_decimal_handling_mode": "string"}, "open": {}, "open-tiflow": {}, "craft": {}, "debezium": {},
    "debezium-avro": {"avro_decimal_handling_mode": "string"},
    "debezium-mysql": {"decimal_handling_mode": "string"},
}  # fmt: skip


@pytest.mark.parametrize("on_lossy", ["error", "flag"])
@pytest.mark.parametrize("to", FORMS)
def test_values_are_held_to_their_columns_in_every_target(to: str, on_lossy: str) -> None:
    ddl = {"commit_ts": 1, "db": "d", "query": f"CREATE TABLE t ({COLUMNS})"}
    Path("ddl.jsonl").write_text(json.dumps(ddl))
    tables, lines = TableDefinitions.read(Path("ddl.jsonl")), Registry()
    options = Options.of({**FORMS[to], "on_lossy": on_lossy, "time_zone": "UTC"})
    read = CodecConfig("plain", lines, options, tables)  # type: ignore[arg-type]
    write = CodecConfig(to, lines, options, tables)  # type: ignore[arg-type]
    decoder, encoder = read.decoder(), write.encoder()

    def outcome(**values: Any) -> tuple[str, str] | None:
        line = Message(None, json.dumps(row(after=GOOD | values)).encode(), "t", 0, 1)
        error = transcode_message(decoder, encoder, line).error
        return None if error is None else (error.code, error.fields["column"])

    # Debezium has no number for the zero date.
    zero = ("LOSSY_VALUE", "day") if to.startswith("debezium") and on_lossy == "error" else None
    assert outcome() == zero
    assert outcome(day="2024-02-29") is None
    for name, others in BAD.items():
        for value in others:
            assert outcome(**{name: value}) == ("INVALID_VALUE", name), value


def test_values_of_a_frame_are_held_to_their_columns() -> None:
    """A map's text; BIT may have the fewest bytes, as a frame does not say whether its length was known."""
    ddl = {"commit_ts": 1, "db": "d", "query": "CREATE TABLE t (id int primary key, d decimal(5,2), b bit(10))"}
    Path("ddl.jsonl").write_text(json.dumps(ddl))
    tables = TableDefinitions.read(Path("ddl.jsonl"))
    read, write = (CodecConfig("avro", Registry(), Options(), t) for t in (tables, None))  # type: ignore[arg-type]
    head = {"kind": "row", "op": "c", "commit_ts": 9, "db": "d", "table": "t", "key": ["id"], "before": None}
    rows = [
        {**head, "after": [("id", "1"), ("d", d), ("b", b)], "flags": [], "source": {"topic": "t"}}
        for d, b in (("1.50", '{"hex":"01"}'), ("1000.00", '{"hex":"0001"}'), ("1.50", '{"hex":"0400"}'))
    ]
    error = pa.struct([("code", pa.string()), ("detail", pa.string())])
    schema: Any = pa.schema([("value", pa.binary()), ("error", error)])
    kinds: Any = [
        ("kind", pa.string()), ("op", pa.string()), ("commit_ts", pa.int64()), ("db", pa.string()),
        ("table", pa.string()), ("key", pa.list_(pa.string())), ("before", pa.map_(pa.string(), pa.string())),
        ("after", pa.map_(pa.string(), pa.string())), ("flags", pa.list_(pa.string())),
        ("source", pa.struct([("topic", pa.string())])),
    ]  # fmt: skip
    batch = pa.RecordBatch.from_pylist(rows, schema=pa.schema(kinds))
    got = [row for made in EncodeBatches(read, write, None, schema)([batch]) for row in made.to_pylist()]
    assert [row["error"] and row["error"]["code"] for row in got] == [None, "INVALID_VALUE", "INVALID_VALUE"]
    assert got[0]["value"].endswith(b"\x04\x00\x01")  # Avro's bytes


def test_typed_values_of_a_frame_are_written_as_their_text() -> None:
    """What decode(types="typed", time="interval") gives; a NULL that stands for another value is refused."""
    columns = "id int primary key, at timestamp(3) null, local datetime, day date, span time(1), ok tinyint(1)"
    ddl = {"commit_ts": 1, "db": "d", "query": f"CREATE TABLE t ({columns})"}
    Path("ddl.jsonl").write_text(json.dumps(ddl))
    source = TableDefinitions.read(Path("ddl.jsonl"))
    read, write = (
        CodecConfig("open", FileSchemas([]), Options.of({}, time_zone="Asia/Shanghai"), t) for t in (source, None)
    )
    moment = datetime(2024, 1, 2, 3, 4, 5, 120_000, UTC)
    after = {
        "id": 1, "at": moment, "local": datetime(2024, 1, 2), "day": date(2024, 2, 29),
        "span": timedelta(hours=-838, milliseconds=-500), "ok": True,
    }  # fmt: skip
    head = {"kind": "row", "op": "c", "commit_ts": 9, "db": "d", "table": "t", "key": ["id"], "before": None}
    rows: list[dict[str, Any]] = [
        {**head, "after": after, "flags": []},
        {**head, "after": {**after, "local": datetime(2024, 1, 2, 0, 0, 0, 1)}, "flags": []},
        {**head, "after": {**after, "day": None}, "flags": ["not_typed:day"]},
    ]
    schema: Any = [
        ("key", pa.binary()),
        ("value", pa.binary()),
        ("error", pa.struct([("code", pa.string()), ("detail", pa.string())])),
    ]
    made = EncodeBatches(read, write, None, pa.schema(schema))([pa.RecordBatch.from_pylist(rows)])
    got = [row for batch in made for row in batch.to_pylist()]
    (event,) = read.decoder().decode(Message(got[0]["key"], got[0]["value"]))
    assert event.after == {  # type: ignore[union-attr]
        "id": "1", "at": "2024-01-02 11:04:05.120", "local": "2024-01-02 00:00:00", "day": "2024-02-29",
        "span": "-838:00:00.5", "ok": "1",
    }  # fmt: skip
    assert [row["error"] and row["error"]["code"] for row in got] == [None, "INVALID_VALUE", "INVALID_VALUE"]
