"""One bad message among good ones: the good ones come out as they do without it, and it comes out as an error.

In-process jobs, batch encoders, learned tables, and the functions of Spark's workers (without Spark).
"""

import random
from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import Any

import pyarrow
import pytest

from tests.spark_jobs.arrow.test_messages import PIECES
from tests.support import fuzz
from tests.support.golden import WIDE, Golden, Registry
from ticdc_bridge.schemas.formats.format_table import FORMATS
from ticdc_bridge.schemas.model.errors import WireError
from ticdc_bridge.schemas.model.event import Message, RowChange
from ticdc_bridge.schemas.model.options import Options
from ticdc_bridge.schemas.plain.writer import json_line
from ticdc_bridge.spark_jobs.arrow.worker_functions import DecodeBatches, TranscodeBatches, decode_refused
from ticdc_bridge.spark_jobs.io.message_files import message_line, parse_line
from ticdc_bridge.spark_jobs.jobs import in_process
from ticdc_bridge.spark_jobs.pipeline.codec_config import CodecConfig
from ticdc_bridge.spark_jobs.pipeline.job import Job
from ticdc_bridge.spark_jobs.pipeline.message_codec import decode_message, transcode_message
from ticdc_bridge.spark_jobs.streaming.ddl_events import DdlBatches
from ticdc_bridge.spark_jobs.streaming.pieces import PieceBatches

pa: Any = pyarrow
EACH = pytest.mark.parametrize("golden", [Golden(f, n) for f, n in WIDE.items()], ids=str)
# What only an invalid message brings into text: none of it may break an output.
_BAD = (
    b"", b"\xff\xfe", b"{", b'{"\xff\xed\xa0\x80":"\xff"}', b'{"payload":{"\xff":1}}', b"\x00\x00\x00\x00\x01\xff",
    b"\x01",
)  # fmt: skip


class _Lines:
    """A job's output, kept."""

    def __init__(self) -> None:
        self.found: list[Any] = []
        self.closed = self.abandoned = False

    def write(self, *line: Any) -> None:
        self.found.append(line[0] if len(line) == 1 else line)

    def close(self) -> None:
        self.closed = True

    def abandon(self) -> None:
        self.abandoned = True


def _mixed(golden: Golden, seed: str) -> tuple[list[Message], list[bool]]:
    """The case's messages with bad ones between them; which of them are the case's own."""
    rng = random.Random(f"{golden} {seed} {fuzz.SEED}")
    values = [m.value for m in golden.messages() if m.value]
    messages: list[Message] = []
    own: list[bool] = []
    decoder = golden.side().decoder()
    for message in golden.messages():
        decode_message(decoder, message)
        bad = [replace(message, value=rng.choice(_BAD))]
        bad += [replace(message, value=fuzz.mutate(rng, message.value or b"", values)) for _ in range(3)]
        for entry in [b for b in bad if decode_message(decoder, b).error is not None] + [message]:
            messages.append(entry)
            own.append(entry is message)
    assert own.count(False) > 5
    return messages, own


@EACH
def test_decode(golden: Golden) -> None:
    messages, own = _mixed(golden, "decode")
    out, dead, alone = _Lines(), _Lines(), _Lines()
    summary: Any = in_process.run_in_process(messages, Job(golden.side()), out, dead)  # type: ignore[arg-type]
    in_process.run_in_process(golden.messages(), Job(golden.side()), alone, None)
    assert [line for line in out.found if line["kind"] != "error"] == alone.found
    assert len(dead.found) == own.count(False) == sum(line["kind"] == "error" for line in out.found)
    assert summary.messages == len(messages)
    assert out.closed
    assert dead.closed
    for line in out.found:
        json_line(line).encode()


@EACH
@pytest.mark.parametrize("to", ["open", "craft", "avro"])
def test_transcode_and_batch_encoders(golden: Golden, to: str) -> None:
    """Rows of one message are written together or not at all; what is learned of DDL is not spoiled."""
    messages, own = _mixed(golden, "transcode")
    read = replace(golden.side(ddl=True), learn=True)

    def run(incoming: list[Message]) -> tuple[list[Any], list[Any]]:
        out, dead, registry = _Lines(), _Lines(), Registry()
        write = CodecConfig(to, registry, Options.of({"max_batch_size": 16}, time_zone=golden.zone))  # type: ignore[arg-type]
        timed = [replace(m, timestamp=1_800_000_000_000) for m in incoming]
        in_process.run_in_process(timed, Job(read, write), out, dead)  # type: ignore[arg-type]
        return out.found, dead.found

    written, refused = run(messages)
    alone, refused_alone = run(golden.messages())
    assert written == alone
    assert len(refused) == len(refused_alone) + own.count(False)


def test_a_row_that_cannot_be_written_takes_its_message_with_it_and_no_other() -> None:
    golden = Golden("open", "wide.default")
    decoder = golden.side(ddl=True).decoder()
    encoder = CodecConfig("craft", Registry(), Options.of({}, time_zone=golden.zone)).encoder()  # type: ignore[arg-type]
    good = next(m for m in golden.messages() if m.value and b'"u":' in m.value and b'"p":' not in m.value)

    class Spoiled:
        """A decoder that gives a second row, of which a value is missing."""

        def decode(self, message: Message) -> list[Any]:
            [event] = decoder.decode(message)
            assert isinstance(event, RowChange)
            name = next(iter(event.after or event.before or {}))
            row = {k: v for k, v in (event.after or {}).items() if k != name}
            return [event, replace(event, after=row, flags=[])]

    whole = transcode_message(decoder, encoder, good)
    spoiled = transcode_message(Spoiled(), encoder, good)
    assert whole.out
    assert isinstance(spoiled.error, WireError)
    assert not spoiled.out
    assert transcode_message(decoder, encoder, good).out == whole.out


# ---- Spark's workers
def _batches(messages: list[Message], size: int = 7, lines: bool = False) -> Iterator[Any]:
    for start in range(0, len(messages), size):
        rows = []
        for position, m in enumerate(messages[start : start + size], start):
            row: dict[str, Any] = {"position": position}
            if lines:
                row["line"] = json_line(message_line(m)).encode()
            else:
                row |= {"key": m.key, "value": m.value, "topic": m.topic or "t", "partition": 0, "offset": position}
                row |= {"timestamp": None, "headers": None}
            rows.append(row)
        yield pa.RecordBatch.from_pylist(rows)


def _pieces(golden: Golden, batches: Iterable[Any]) -> list[dict[str, Any]]:
    run = PieceBatches(Job(golden.side()), "text", PIECES)
    return [row for batch in run(batches) for row in batch.to_pylist() if row["kind"] != "counts"]


@EACH
def test_workers_of_the_command_line(golden: Golden) -> None:
    """Each message gives its lines or is dead, whatever is in it; lines that are no messages come back as they are."""
    messages, own = _mixed(golden, "workers")
    decoder = golden.side().decoder()
    want = [line for m, good in zip(messages, own, strict=True) if good for line in fuzz.lines(decoder, m)]
    for lines in (False, True):
        pieces = _pieces(golden, _batches(messages, lines=lines))
        assert {row["kind"] for row in pieces} <= {"out", "dead"}
        assert [row["position"] for row in pieces if row["kind"] == "dead"] == [
            n for n, good in enumerate(own) if not good
        ]
        if lines:
            assert [line for row in pieces if row["kind"] == "out" for line in row["line"].split("\n")] == want
    junk = pa.RecordBatch.from_pylist([{"position": 0, "line": b"\xff{"}, {"position": 1, "line": b"  "}])
    [piece] = _pieces(golden, [junk])
    assert parse_line(piece["line"].encode(), "") == Message(None, b"\xff{")


@EACH
def test_workers_of_the_api(golden: Golden) -> None:
    messages, own = _mixed(golden, "api")
    error = pa.struct([("code", pa.string()), ("detail", pa.string())])
    changes = pa.schema([("kind", pa.string()), ("db", pa.string()), ("table", pa.string()), ("error", error),
                         ("key", pa.list_(pa.string())), ("before", pa.map_(pa.string(), pa.string())),
                         ("after", pa.map_(pa.string(), pa.string())), ("flags", pa.list_(pa.string())),
                         ("query", pa.string())])  # fmt: skip
    rows = [r for b in DecodeBatches(golden.side(), changes)(_batches(messages)) for r in b.to_pylist()]
    assert sum(r["kind"] == "error" for r in rows) == own.count(False)
    if FORMATS[golden.format].carries_ddl:
        ddl = pa.schema([("position", pa.int64()), ("number", pa.int32()), ("query", pa.string())])
        statements = [r for b in DdlBatches(Job(golden.side()), ddl)(_batches(messages)) for r in b.to_pylist()]
        assert all(own[r["position"]] for r in statements)
    out = pa.schema([("topic", pa.string()), ("key", pa.binary()), ("value", pa.binary()), ("error", error)])
    write = CodecConfig("open", Registry(), Options.of({}, time_zone=golden.zone))  # type: ignore[arg-type]
    made = TranscodeBatches(golden.side(ddl=True), write, None, out)
    written = [r for b in made(_batches(messages)) for r in b.to_pylist()]
    assert sum(r["error"] is not None for r in written) >= own.count(False)
    decoder = golden.side().decoder()
    table = next(
        (e.table for m in golden.messages() for e in decode_message(decoder, m).events if isinstance(e, RowChange)),
        None,
    )
    if table is not None and not FORMATS[golden.format].in_order:
        kind = pa.struct([("kind", pa.string()), ("error", pa.struct([("code", pa.string())]))])
        keys, values = (pa.array([getattr(m, field) for m in messages], pa.binary()) for field in ("key", "value"))
        topics, headers = pa.array(["t"] * len(messages)), pa.nulls(len(messages))
        found = decode_refused(golden.side(), table, kind)(keys, values, topics, headers).to_pylist()
        assert [r["kind"] == "error" for r in found] == [not good for good in own]


def test_names_that_are_no_text_pass_the_workers() -> None:
    """What a hostile name does to a message it does in a worker too: an error whose text Arrow takes."""
    golden = Golden("debezium", "wide.ext.schema")
    message = next(m for m in golden.messages() if m.value and b'"op":"c"' in m.value)
    for old, new in (
        (b'"db":"test"', b'"db":"te\xff"'),
        (b'"c_int":', b'"c\xff_int":'),
        (b'"table":"', b'"table":"\xed\xa0\x80'),
    ):
        assert message.value is not None
        assert old in message.value
        bad = replace(message, value=message.value.replace(old, new))
        first, second = _pieces(golden, _batches([bad, message]))
        assert (first["kind"], first["error"]["code"], second["kind"]) == ("dead", "MALFORMED", "out")
