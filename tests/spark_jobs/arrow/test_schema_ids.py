"""Batches with schema ids in headers, of eight bytes, and of several contexts: what the codec gives, kernels or not."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.spark_jobs.arrow.test_changes import _same, _same_lines
from tests.spark_jobs.arrow.test_messages import _batch
from tests.support import shop
from tests.support.schema_ids import WAYS, with_guids
from tests.support.table import check_rows
from ticdc_bridge.cli import main
from ticdc_bridge.schemas.columnar.kernels.jit import COMPILED
from ticdc_bridge.schemas.inputs.schema_files import FileSchemas, RegisteredSchema
from ticdc_bridge.schemas.model.event import Message, RowChange
from ticdc_bridge.schemas.model.options import Options
from ticdc_bridge.spark_jobs.arrow import batches
from ticdc_bridge.spark_jobs.arrow.input_batches import batch_of_messages
from ticdc_bridge.spark_jobs.io.message_files import message_line
from ticdc_bridge.spark_jobs.jobs import in_process_batches
from ticdc_bridge.spark_jobs.jobs.in_process_batches import KernelWarmUp
from ticdc_bridge.spark_jobs.pipeline.codec_config import CodecConfig
from ticdc_bridge.spark_jobs.pipeline.message_codec import decode_message

pytestmark = pytest.mark.skipif(not COMPILED, reason="numba is not installed")


@pytest.fixture(autouse=True)
def _every_batch(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(batches, "FEW", 1)


def _mixed(way: str) -> list[Message]:
    """Every third message with its ids elsewhere; of some the bare body begins as with a known id."""
    messages = [WAYS[way](m) if n % 3 == 0 else m for n, m in enumerate(shop.messages())]
    framed = next(m for m in shop.messages() if m.value)
    # A whole framed message as the bare body of a schema that can't be read so.
    messages.append(replace(framed, headers=(("__value_schema_id", b"\0\0\0\0\1"),)))
    return messages


def test_the_codec_reads_what_headers_name() -> None:
    image = replace(shop.avro_side(), schemas=with_guids(shop.schemas()))

    def check(way: str) -> None:
        messages = _mixed(way)
        assert len(messages) // 2 < _same(_batch(messages), image) < len(messages)
        _same_lines(messages, image)
        batch: Any = batch_of_messages(list(messages))  # in this process: without headers
        assert sum(v is None for v in batch.column("value").to_pylist()) >= (0 if way == "eight bytes" else 91)

    check_rows(WAYS, check)


def test_the_command_in_batches(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The same lines, whether kernels read the batches or not."""
    monkeypatch.setattr(KernelWarmUp, "check", lambda _self: True)
    source, wanted, out = tmp_path / "in.jsonl", tmp_path / "wanted.jsonl", tmp_path / "out.jsonl"
    source.write_text("".join(json.dumps(message_line(m)) + "\n" for m in _mixed("id")))
    for after, to in ((1 << 40, wanted), (0, out)):
        monkeypatch.setattr(in_process_batches, "AFTER", after)
        arguments = ("--format", "avro", "--schemas", str(shop.SCHEMAS_FILE), "--in", str(source), "--out", str(to))
        assert main(["decode", *arguments]) == 1
    assert out.read_text() == wanted.read_text()
    assert sum('"error"' in line for line in wanted.read_text().splitlines()) == 1


def _registered(subject: str, table: str, column: str) -> RegisteredSchema:
    fields = [{"name": n, "type": {"type": "int", "connect.parameters": {"tidb_type": "INT"}}} for n in ("id", column)]
    text = json.dumps({"type": "record", "name": table, "namespace": "default.shop", "fields": fields})
    return RegisteredSchema(subject, 1, 2, text)


def test_an_id_of_two_contexts_in_one_batch() -> None:
    schemas = FileSchemas([_registered("items-value", "items", "a"), _registered(":.dev:orders-value", "orders", "b")])
    config = CodecConfig("avro", schemas, Options.of({}))
    topics = ("items", "orders", None, "else", "orders", "items")
    messages = [Message(None, b"\0\0\0\0\2\2\4", topics[n % 6], 0, n, 1) for n in range(60)]
    assert _same(_batch(messages), config) == 40
    _same_lines(messages, config)
    decoder = config.decoder()
    tables = [
        [e.table.id.table for e in decode_message(decoder, m).events if isinstance(e, RowChange)] for m in messages[:6]
    ]
    assert tables == [["items"], ["orders"], [], [], ["orders"], ["items"]]
