"""Damaged messages through what stands around the decoders: auto, detection, explain, claim-checks, checksums, DDL."""

import base64
import random
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from tests.support import connector, fuzz
from tests.support.each import each
from tests.support.golden import READ, Golden, cases
from ticdc_bridge.schemas.formats.format_table import FORMATS
from ticdc_bridge.schemas.inspect.explain import ExplainRequest, explain, traces
from ticdc_bridge.schemas.inspect.format_detection import detect_format
from ticdc_bridge.schemas.model.errors import BridgeError, WireError
from ticdc_bridge.schemas.model.event import DdlEvent, Event, Message, RowChange
from ticdc_bridge.schemas.model.options import Options
from ticdc_bridge.schemas.model.ports import SchemaId
from ticdc_bridge.schemas.plain.writer import json_line
from ticdc_bridge.spark_jobs.jobs.explain import render
from ticdc_bridge.spark_jobs.pipeline.message_codec import decode_message
from ticdc_bridge.spark_jobs.pipeline.stream_definitions import LearningDecoder, StreamDefinitions

Found = list[tuple[Golden, list[Message]]]


def _each(format_: str, seed: str, count: int, found: Found | None = None) -> list[tuple[Golden, list[Message]]]:
    """Golden cases with damaged messages of theirs, so many in all; the messages before them undamaged."""
    rng = random.Random(f"{format_} {seed} {fuzz.SEED}")
    found = found or fuzz.material(format_)
    out = []
    for golden, messages in found:
        values, keys = [m.value for m in messages if m.value], [m.key for m in messages if m.key] or [b""]
        bad = [fuzz.damaged(rng, rng.choice(messages), values, keys) for _ in range(count // len(found) + 1)]
        out.append((golden, bad))
    return out


@fuzz.mutated
@pytest.mark.parametrize("format_", READ)
def test_auto_and_sniff(format_: str, mutations: int) -> None:
    """auto says what the format's own decoder says, or that it can't tell; detect_format raises nothing."""
    with fuzz.counted("mutations, auto and detect_format") as ran:
        for golden, messages in _each(format_, "auto", mutations // len(READ)):
            image = golden.side()
            schema_of: Callable[[SchemaId], str] = lambda i, row_image=image: row_image.schemas.by_id(i, "")  # type: ignore[misc] # noqa: E731
            auto, own = replace(image, format="auto").decoder(), image.decoder()
            for message in golden.messages() if FORMATS[format_].in_order else ():
                assert fuzz.lines(auto, message) == fuzz.lines(own, message)
            for message in messages:
                found = detect_format(message.key, message.value)
                assert found.reason
                printed = fuzz.lines(auto, message)
                ran["error" if fuzz.is_error(printed) else "event"] += 1
                try:
                    error_text = detect_format(message.key, message.value, schema_of).format
                except WireError:  # of schema_of
                    continue
                if error_text == format_ and not FORMATS[format_].in_order:
                    assert printed == fuzz.lines(own, message)
    assert min(ran["error"], ran["event"]) > ran.total() // 200


@fuzz.mutated
@pytest.mark.parametrize("format_", [*READ, "debezium-mysql"])
def test_trace_and_explain(format_: str, mutations: int) -> None:
    """The fields of a damaged message stand inside it; explain answers with what decode says, as JSON and as text."""
    material: Found | None = None
    if format_ == "debezium-mysql":
        material = [(Golden("debezium", "wide.ext.schema"), fuzz_small(connector.json_messages("default")))]
    with fuzz.counted("mutations, trace") as ran:
        for golden, messages in _each(format_, "trace", mutations // 10, material):
            image = connector.side() if material else golden.side()
            decoder = image.decoder()
            for number, message in enumerate(messages):
                result = decode_message(decoder, message)
                ran["error" if result.error else "event"] += 1
                for field in traces(format_, decoder, message, result.events) if result.error is None else ():
                    data = getattr(message, field.part)
                    assert field.wire
                    assert data[field.offset : field.offset + len(field.raw)] == field.raw
                if number % 40 == 0:
                    _explained(
                        ExplainRequest(message, format_, image.context(), Options(), image.schemas.versions_of_id)
                    )


def fuzz_small(messages: list[Message]) -> list[Message]:
    return [m for m in messages if m.value and len(m.value) <= 4 * fuzz.SMALL][:40]


def _explained(question: ExplainRequest) -> None:
    answer = explain(question)
    json_line(answer).encode()
    render(answer).encode("utf-8", "backslashreplace")
    fuzz.RAN["mutations, explain"] += 1


@fuzz.mutated
@pytest.mark.parametrize("format_", ["avro", "simple"])
def test_checksums(format_: str, mutations: int) -> None:
    """A damaged row with a checksum: matched, a mismatch or not to be verified; never a failure."""
    found = [(g, m) for g, m in fuzz.material(format_) if "checksum" in g.name]
    assert found
    with fuzz.counted("mutations, checksums") as ran:
        for golden, messages in _each(format_, "checksum", mutations // 10, found):
            decoder = golden.side(ddl=True).decoder()
            for message in golden.messages():
                decode_message(decoder, message)
            for message in messages:
                result = decode_message(decoder, message, verify_checksum=True)
                fuzz.checked(result, message)
                ran[result.checksums[0] if result.checksums else "none"] += 1
    assert ran["mismatch"] > 0


# ---- claim-checks
class _File:
    """A claim-check folder of one file (schemas.model.ports.ClaimChecks)."""

    def __init__(self) -> None:
        self.data = b""

    def fetch(self, name: str) -> bytes:
        return self.data


CLAIMED = [g for name in ("open", "simple", "canal-json") for g in cases(name) if g.claims]


@fuzz.mutated
@pytest.mark.parametrize("golden", CLAIMED, ids=str)
def test_claim_check_files(golden: Golden, mutations: int) -> None:
    """A damaged file, or a sound one with a damaged message in it: an error or that message's event."""
    rng = random.Random(f"{golden} claim {fuzz.SEED}")
    file: Any = _File()
    image = replace(golden.side(), claims=file)
    decoder, folder = image.decoder(), golden.claims
    assert folder is not None
    file.data = b"{}"
    pointers = []
    for message in golden.messages():
        error = decode_message(decoder, message).error
        if error is not None and error.code == "CLAIM_CHECK":
            pointers.append((message, folder.fetch(str(error.fields["uri"]).rpartition("/")[2])))
    assert pointers
    with fuzz.counted("mutations, claim-check files") as ran:
        for _ in range(mutations // 10 // len(CLAIMED) + 1):
            message, data = rng.choice(pointers)
            if len(data) > 16 * fuzz.SMALL:
                continue
            if rng.random() < 0.5:
                file.data = fuzz.mutate(rng, data, [data, message.value or b""])
            else:
                inner = base64.b64encode(fuzz.mutate(rng, message.value or b"", [data])).decode()
                file.data = f'{{"key":null,"value":"{inner}"}}'.encode()
            printed = fuzz.lines(decoder, message)
            ran["error" if fuzz.is_error(printed) else "event"] += 1
    for hostile in (b"", b"[]", b"null", b"[" * 100_000, b'{"value":1234}', b'{"value":"' + b"A" * 17 + b'"}', b"\xff"):
        file.data = hostile
        assert fuzz.refused(decoder, pointers[0][0]) == "CLAIM_CHECK"


# ---- DDL in events
DDL_CASES = [g for name in ("open", "debezium", "craft", "simple", "canal-json") for g in cases(name)
             if g.name.startswith(("evolution", "ddl_kinds"))]  # fmt: skip


@fuzz.mutated
@each("golden", DDL_CASES, ids=str)
def test_ddl_in_events(golden: Golden, mutations: int) -> None:
    """Damaged statements among the rows: the tables are learned or unknown, and rows after them read or refused."""
    rng = random.Random(f"{golden} ddl {fuzz.SEED}")
    messages = golden.messages()
    values = [m.value for m in messages if m.value]
    with fuzz.counted("mutations, DDL in events") as ran:
        for _ in range(max(1, mutations // 5 // len(DDL_CASES) // len(messages))):
            decoder = LearningDecoder(replace(golden.side(), learn=True)).decoder
            for message in messages:
                entry = message
                if rng.random() < 0.5 and message.value:
                    entry = replace(message, value=fuzz.mutate(rng, message.value, values))
                fuzz.lines(decoder, entry)
                ran["message"] += 1


def test_a_bad_statement_spoils_its_own_table_only() -> None:
    golden = Golden("open", "evolution.default")
    events: list[Event] = golden.events()
    ddl = [e for e in events if isinstance(e, DdlEvent)]
    row = next(e for e in reversed(events) if isinstance(e, RowChange))
    whole, broken = StreamDefinitions(), StreamDefinitions()
    for event in ddl:
        whole.learn(event)
        broken.learn(event)
        for query in ("ALTER TABLE `other` ADD", "\x00", "CREATE TABLE `other` (", "x" * 100_000):
            broken.learn(replace(event, table="other", query=query))
    found = whole.at(row.table.id, row.commit_ts)
    assert found is not None
    assert broken.at(row.table.id, row.commit_ts) == found
    broken.learn(replace(ddl[-1], query="ALTER TABLE `evolution` ADD COLUMN", commit_ts=(row.commit_ts or 0) - 1))
    assert broken.at(row.table.id, row.commit_ts) is None


def test_only_bridge_errors_say_what_is_wrong() -> None:
    """Errors of the codecs pickle, as they do from a Spark worker to its driver."""
    import pickle

    decoder, message = Golden("avro", "pk_int.ext1").side().decoder(), Golden("avro", "pk_int.ext1").messages()[0]
    with pytest.raises(BridgeError) as caught:
        decoder.decode(replace(message, value=b"\x00\x00\x00\x00\x01\xff\xff"))
    again = pickle.loads(pickle.dumps(caught.value))
    assert (type(again), again.code, again.detail) == (WireError, caught.value.code, caught.value.detail)
