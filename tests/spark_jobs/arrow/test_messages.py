"""Batches of messages through compiled readers and writers: what `message_codec.transcode_one` makes of each
message.
"""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.support.golden import Golden, Registry, cases
from ticdc_bridge.cli import main
from ticdc_bridge.schemas.formats.framing import carried_headers
from ticdc_bridge.schemas.inputs.dead_letters import DETAIL, REASON
from ticdc_bridge.schemas.inputs.schema_files import FileSchemas
from ticdc_bridge.schemas.model.event import DdlEvent, Message
from ticdc_bridge.schemas.model.options import Options
from ticdc_bridge.schemas.plain.writer import json_line
from ticdc_bridge.spark_jobs.arrow import batches
from ticdc_bridge.spark_jobs.arrow import messages as arrow_messages
from ticdc_bridge.spark_jobs.arrow.event_rows import message_rows
from ticdc_bridge.spark_jobs.arrow.input_batches import messages_of_lines
from ticdc_bridge.spark_jobs.arrow.messages import RowFinder
from ticdc_bridge.spark_jobs.arrow.worker_functions import TranscodeBatches
from ticdc_bridge.spark_jobs.io.message_files import message_line, message_of_row
from ticdc_bridge.spark_jobs.pipeline.arguments import hints_in_python
from ticdc_bridge.spark_jobs.pipeline.codec_config import CodecConfig
from ticdc_bridge.spark_jobs.pipeline.job import Job
from ticdc_bridge.spark_jobs.pipeline.message_codec import decode_message, transcode_message
from ticdc_bridge.spark_jobs.pipeline.result import Summary
from ticdc_bridge.spark_jobs.streaming.kafka_sender import KafkaSender, dead_letters
from ticdc_bridge.spark_jobs.streaming.pieces import BatchCounts, PieceBatches, TaskCodecs

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_HEADERS = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))
_STAMP = pa.timestamp("us", "UTC")
_KAFKA = pa.schema(
    [
        ("key", pa.binary()), ("value", pa.binary()), ("topic", pa.string()), ("partition", pa.int32()),
        ("offset", pa.int64()), ("timestamp", _STAMP), ("headers", _HEADERS),
    ]  # type: ignore[arg-type]
)  # fmt: skip
_MESSAGES = pa.schema(
    [
        ("topic", pa.string()), ("partition", pa.int32()), ("key", pa.binary()), ("value", pa.binary()),
        ("timestamp", _STAMP), ("headers", _HEADERS),
        ("error", pa.struct([("code", pa.string()), ("detail", pa.string())])),
    ]  # type: ignore[arg-type]
)  # fmt: skip
_PAIRS = [
    ("avro", "debezium"), ("debezium", "avro"), ("avro", "avro"), ("open", "avro"), ("open-tiflow", "debezium"),
    ("craft", "avro"), ("avro", "craft"), ("open", "craft"),
]  # fmt: skip
_MORE_PAIRS = [("craft", "debezium"), ("open", "debezium"), ("debezium", "craft"), ("open-tiflow", "craft")]
STEPS = [12, pytest.param(1, marks=pytest.mark.slow, id="all")]
"""Every twelfth golden case, from the first on; all."""
_OPTIONS = {"enable_tidb_extension": True, "debezium_include_start_ts": False, "on_lossy": "flag"}


@pytest.fixture(autouse=True)
def _every_batch(monkeypatch: pytest.MonkeyPatch) -> None:
    """Small batches too."""
    monkeypatch.setattr(batches, "FEW", 1)


def _batch(messages: list[Message]) -> Any:
    rows = [
        {
            "key": m.key, "value": m.value, "topic": m.topic, "partition": m.partition, "offset": m.offset,
            "timestamp": None if m.timestamp is None else m.timestamp * 1000,
            "headers": [{"key": k, "value": v} for k, v in m.headers] or None,
        }
        for m in messages
    ]  # fmt: skip
    return pa.RecordBatch.from_pylist(rows, schema=_KAFKA)


def _mixed(golden: Golden) -> list[Message]:
    """A case's messages, some with headers, of which some don't go on, and between them what no decoder takes."""
    found = []
    for n, message in enumerate(golden.messages()):
        bad = Message(b"k", b"\x07nope", message.topic, 1, None, 5, (("why", None), ("x", b"\x00\xff")))
        headers: Any = (("trace", b"%d" % n), ("trace", b"")) if n % 3 == 0 else ()
        headers += (("Content-Type", b"a/b"), ("tenant", None)) if n % 4 == 0 else ()
        found += [bad] * (n % 5 == 2) + [replace(message, offset=n, headers=headers)]
        if golden.format == "debezium" and n % 7 == 3:
            found += [replace(message, key=_unwrapped(message.key), value=_unwrapped(message.value))]
    return found


def _unwrapped(data: bytes | None) -> bytes | None:
    """TiCDC's payload alone, as Kafka Connect's JSON converter passes it on without schemas."""
    try:
        return None if data is None else json.dumps(json.loads(data)["payload"], separators=(",", ":")).encode()
    except (ValueError, LookupError, TypeError):
        return data


def _same(batch: Any, read: CodecConfig, write: CodecConfig, topic: str | None) -> int:
    """One batch both ways; how many of the messages the kernels took."""
    decoder, encoder = read.decoder(), write.encoder()
    summary = Summary()
    want: list[dict[str, Any]] = []
    for found in batch.to_pylist():
        message = message_of_row(found)
        with hints_in_python("transcode"):
            result = transcode_message(decoder, encoder, message, topic)
        summary.count(result, message.topic)
        want += message_rows(result, message)
    made = TranscodeBatches(read, write, topic, _MESSAGES)([batch])
    got = [row for some in made for row in some.to_pylist()]
    assert len(got) == len(want)
    wanted = pa.RecordBatch.from_pylist(want, schema=_MESSAGES).to_pylist()
    for number, (mine, theirs) in enumerate(zip(got, wanted, strict=True)):
        assert mine == theirs, f"{number}"
    worker, reported, rest = TaskCodecs(Job(read, write, topic)), BatchCounts(), 0
    for piece, _, others in worker.process_batch(batch, reported):
        for row in piece.take(pa.array(others)).to_pylist():
            done = worker.process_row(row)
            assert done is not None
            reported.count(*done, row)
            rest += 1
    for name in ("messages", "rows", "other", "errors", "flags", "skipped", "used"):
        assert getattr(reported.summary, name) == getattr(summary, name), name
    return int(batch.num_rows - rest)


def _sides(golden: Golden, to: str) -> tuple[CodecConfig, CodecConfig]:
    registry: Any = Registry()
    return golden.side(ddl=True), CodecConfig(to, registry, Options.of({**_OPTIONS, "time_zone": golden.zone}))


@pytest.mark.parametrize("step", STEPS)
@pytest.mark.parametrize(
    ("read", "write"),
    [pytest.param(*p, id="-".join(p), marks=[pytest.mark.slow] * (p in _MORE_PAIRS)) for p in _PAIRS + _MORE_PAIRS],
)
def test_golden_cases(read: str, write: str, step: int) -> None:
    """The kernels themselves. Those that learn from what they read need more than a few messages of a table."""
    assert arrow_messages.can_transcode(read, write)
    taken = 0
    for n, golden in enumerate(cases(read)[::step]):
        messages = _mixed(golden)
        if read != "avro":
            messages = messages * (12 if len(messages) < 20 else 2 if len(messages) < 100 else 1)
        taken += _same(_batch(messages), *_sides(golden, write), "to_{schema}.{table}" if n % 2 else None)
    assert taken > 100 // step, "the kernels took next to nothing"


def test_lines_of_a_message_file() -> None:
    """What --spark makes of a file's lines, those that are none among them, is what it makes of them one by one."""
    golden = next(g for g in cases("avro") if str(g) == "avro/wide_novec.dec_precise.big_long.ext1")
    read, write = _sides(golden, "debezium")
    lines = [json_line(message_line(m)).encode() for m in _mixed(golden)]
    odd = [b"", b" \r", b"nope", b'{"key_b64":"=","value_b64":null}', b"[" * 5000, b"\xff"]
    entry = json.loads(lines[0])
    odd += [json.dumps({**entry, "topic": "\ud800"}).encode(), json.dumps({**entry, "timestamp": 1 << 60}).encode()]
    odd.append(b'{"value_b64":"AAAA"}')
    for number, line in enumerate(odd):
        lines.insert(number * 3, line)
    batch = pa.RecordBatch.from_pydict({"line": pa.array(lines, pa.binary()), "position": pa.array(range(len(lines)))})
    got, want = _pieces(Job(read, write), batch), _pieces(Job(read, write), batch, kernels=False)
    assert got == want
    first = next(iter(messages_of_lines(batch).to_pylist()))
    assert first["line"] == b""
    bad = [row for row in got[0] if "error" in row and json.loads(row["error"]["fields"]).get("where") == ""]
    # Each is told by its number among the lines of the batch.
    assert [lines[row["number"]] for row in bad] == [odd[n] for n in (2, 3, 4, 5)]


PIECES = pa.schema(
    [
        ("kind", pa.string()), ("part", pa.int32()), ("position", pa.int64()), ("number", pa.int32()),
        ("line", pa.string()), ("error", pa.struct([("code", pa.string()), ("fields", pa.string())])),
        ("tally", pa.map_(pa.string(), pa.int64())), ("messages", pa.int64()),
    ]  # type: ignore[arg-type]
)  # fmt: skip
"""What a batch job is given of a worker's pieces."""


def _pieces(job: Job, batch: Any, kernels: bool = True) -> tuple[list[dict[str, Any]], Summary]:
    """What Spark's worker gives for a batch job, each line by itself, and its counts; with kernels, or without."""
    rows: list[dict[str, Any]] = []
    with pytest.MonkeyPatch.context() as patch:
        if not kernels:
            patch.setattr(batches, "FEW", 1 << 30)
        for made in PieceBatches(job, "text", PIECES)([batch]):
            rows += made.to_pylist()
    reported = rows.pop()
    assert (reported["kind"], reported["number"]) == ("counts", batch.num_rows)
    summary = Summary(messages=reported["messages"])
    summary.add(dict(reported["tally"]))
    keep = ("kind", "position", "number", "error")
    return [
        {"line": line} if row["kind"] == "out" else {"line": line, **{name: row[name] for name in keep}}
        for row in rows
        for line in row["line"].split("\n")
    ], summary


def test_what_is_too_much_for_one_array_is_written_in_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(arrow_messages, "_MOST_BYTES", 20_000)
    golden = Golden("avro", "bulk.ext1")
    assert _same(_batch(_mixed(golden)), *_sides(golden, "debezium"), None) > 10


def test_batches_of_a_few_messages_and_of_none() -> None:
    golden = Golden("avro", "pk_int.watermark")
    messages = golden.messages()
    for some in (messages[:1], messages[-1:], [replace(m, topic=None) for m in messages[:3]]):
        _same(_batch(some), *_sides(golden, "debezium"), None)
    images = _sides(golden, "debezium")
    assert [b.num_rows for b in TranscodeBatches(*images, None, _MESSAGES)([_batch([])])] == [0]


def test_what_is_compiled_stays_for_the_next_task(monkeypatch: pytest.MonkeyPatch) -> None:
    """With definitions or without: the next micro-batch's codecs are new, of the same schema texts and tables."""
    from ticdc_bridge.schemas.columnar import avro_reader
    from ticdc_bridge.schemas.columnar.kernels.jit import COMPILED
    from ticdc_bridge.schemas.formats.debezium import ticdc

    if not COMPILED:
        pytest.skip("numba is not there: nothing is compiled")
    golden = Golden("avro", "bulk.ext1")
    for ddl in (False, True):
        options = Options.of({**_OPTIONS, "cluster_id": f"kept-{ddl}"})
        read, write = golden.side(ddl=ddl), CodecConfig("debezium", FileSchemas([]), options)
        first = [b.to_pylist() for b in TranscodeBatches(read, write, None, _MESSAGES)([_batch(golden.messages())])]
        with monkeypatch.context() as context:
            for module, name in ((avro_reader, "compile_record"), (ticdc, "compile_plan")):
                context.delattr(module, name)
            read, write = golden.side(ddl=ddl), CodecConfig("debezium", FileSchemas([]), options)
            again = [b.to_pylist() for b in TranscodeBatches(read, write, None, _MESSAGES)([_batch(golden.messages())])]
        assert again == first
        assert sum(row["error"] is None for rows in first for row in rows) > 100


@pytest.mark.parametrize("step", STEPS)
@pytest.mark.parametrize("read", ["craft", "debezium", "open"])
def test_messages_that_may_be_ddl(read: str, step: int) -> None:
    """Of every message that is not told apart as a row's, the DDL in it is found; none is lost."""
    left = all_ = 0
    for golden in cases(read)[::step]:
        messages = _mixed(golden) * (4 if len(golden.messages()) < 100 else 1)
        image = golden.side(ddl=True)
        decoder = image.decoder()
        others = [message_of_row(row) for row in RowFinder(image).find_others(_batch(messages)).to_pylist()]
        assert _ddl(decoder, others) == _ddl(decoder, messages)
        left, all_ = left + len(others), all_ + len(messages)
    assert left < 0.9 * all_, "hardly a message was taken for a row's"


def _ddl(decoder: Any, messages: list[Message]) -> list[tuple[str, int | None]]:
    events = [event for message in messages for event in decode_message(decoder, message).events]
    return [(event.query, event.commit_ts) for event in events if isinstance(event, DdlEvent)]


def test_the_command_by_kernels(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Same messages, dead letters and counts with --spark as without."""
    monkeypatch.chdir(tmp_path)
    golden = Golden("avro", "bulk.ext1")
    pq.write_table(pa.Table.from_batches([_batch(_mixed(golden))]), "in.parquet")
    words = [
        "transcode", "--from", "avro", "--to", "debezium", "--in", "in.parquet", "--schemas", str(golden.meta_file),
    ]  # fmt: skip
    words += ["--topic", "to_{schema}.{table}", "--on-lossy", "flag"]
    reported = []
    for name, more in (("plain", []), ("spark", ["--spark"])):
        assert main([*words, "--out", f"{name}.jsonl", "--dead-letter", f"{name}.dead", *more]) == 1
        reported.append([line for line in capsys.readouterr().err.splitlines() if line.startswith("transcode:")])
    assert reported[0] == reported[1]
    assert reported[0]
    for end in ("jsonl", "dead"):
        assert Path(f"plain.{end}").read_bytes() == Path(f"spark.{end}").read_bytes()
    assert spark.version


def test_dead_letters_of_messages_sent_in_one_pass(spark: SparkSession) -> None:
    """What failed is read again: with its error, or with the reason that it failed for when it does not fail now."""
    golden = Golden("avro", "bulk.ext1")
    messages = [m for m in _mixed(golden) if m.key is not None]
    rows = [
        (m.key, m.value, m.topic, n % 5, n, [(k, bytes(v or b"")) for k, v in m.headers])
        for n, m in enumerate(messages)
    ]
    kind = "key binary, value binary, topic string, partition int, offset bigint"
    kind += ", headers array<struct<key:string,value:binary>>"
    frame = spark.createDataFrame(rows, kind).selectExpr(
        "*", "(cast(partition as bigint) << 48) | offset as position", "cast(null as timestamp) timestamp"
    )
    read, write = _sides(golden, "debezium")
    job, sent = Job(read, write), list[Any]()
    sender = KafkaSender(spark.sparkContext, "there", True, lambda: {"there": 2})
    account = sender.send(frame, job, lambda out: sent.extend(out.collect()))
    bad = [n for n, m in enumerate(messages) if m.value == b"\x07nope"]
    where = [(n % 5 << 48) | n for n in range(len(messages))]
    assert {code: positions.tolist() for code, positions in account.failures().items()} == {
        "NOT_FRAMED": sorted(where[n] for n in bad)
    }
    assert account.summary.out == len(sent) == len(messages) - len(bad)
    assert "topic" not in sent[0]  # the sink says it once for all
    assert sorted((r["position"], r["part"]) for r in sent) == sorted(
        (index, 0) for n, index in enumerate(where) if n not in bad
    )
    for row in sent:  # by kernels and by the codec: each in the partition it came from, modulo the topic's
        number = row["position"] & ((1 << 48) - 1)
        own = [(h["key"], bytes(h["value"])) for h in row["headers"]]
        assert own == [(k, v or b"") for k, v in carried_headers(messages[number].headers)]
        assert row["partition"] == number % 5 % 2
    failures = account.failures() | {"MALFORMED": np.array([0])}
    letters = {r["position"] & ((1 << 48) - 1): r for r in dead_letters(frame, job, failures).collect()}
    assert sorted(letters) == sorted([0, *bad])
    reasons = {n: {h["key"]: bytes(h["value"]) for h in r["headers"]} for n, r in letters.items()}
    assert reasons[0][REASON] == b"MALFORMED"
    assert b"replay" in reasons[0][DETAIL]
    assert all(reasons[n][REASON] == b"NOT_FRAMED" and reasons[n]["x"] == b"\x00\xff" for n in bad)
    # What another try told is not counted here.
    assert sender.send(frame.limit(3), job, lambda out: sent.extend(out.collect())).summary.messages == 3
