"""No error has a word of Python: messages of every format with one part of another kind, cut, or with other bytes."""

import json
import random
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import pytest

from tests.support import connector
from tests.support.golden import CONNECTOR, Golden
from tests.support.python_words import assert_no_python_words
from tests.support.table import check_rows
from ticdc_bridge.schemas.formats.open_protocol.frame import join_key, join_value, split_key, split_value
from ticdc_bridge.schemas.inputs.schema_files import FileSchemas
from ticdc_bridge.schemas.model.errors import BridgeError
from ticdc_bridge.schemas.model.event import Message
from ticdc_bridge.schemas.model.options import Options
from ticdc_bridge.spark_jobs.pipeline.codec_config import CodecConfig
from ticdc_bridge.spark_jobs.pipeline.message_codec import decode_message

_CASES = (
    "canal-json/evolution.ext", "simple/evolution.json", "simple/evolution.avro", "debezium/evolution.ext.schema",
    "debezium/evolution.noschema", "debezium-avro/charset.str.ext", "avro/evolution.ext1", "open/evolution.default",
    "craft/evolution.default", "debezium-mysql/bigint_precise", "debezium-mysql/bigint_precise.noschema",
)  # fmt: skip
_OTHERS: tuple[Any, ...] = (None, True, 7, 1.5e300, "x", "", [], [1], {}, {"a": 1}, [{"a": None}])
_MOST = 400  # damaged messages a case


def _changed(document: Any) -> Iterator[Any]:
    """The document with one member at a time replaced by each other kind, or left out."""
    pieces = (
        document.items() if isinstance(document, dict) else enumerate(document) if isinstance(document, list) else ()
    )
    for name, value in list(pieces):
        for other in _OTHERS:
            yield _with(document, name, other)
        if isinstance(document, dict):
            yield {k: v for k, v in document.items() if k != name}
        for inner in _changed(value):
            yield _with(document, name, inner)


def _with(document: Any, name: Any, value: Any) -> Any:
    copy = document.copy()
    copy[name] = value
    return copy


def _json_changes(data: bytes | None) -> Iterator[bytes]:
    try:
        document = json.loads(data or b"")
    except ValueError:
        return
    yield from (json.dumps(entry).encode() for entry in _changed(document))
    yield from (json.dumps(other).encode() for other in _OTHERS)


def _damaged(message: Message, format_: str, chance: random.Random) -> Iterator[Message]:
    if format_ == "open" and message.key and message.value:
        [key, *_] = split_key(message.key)
        [value, *_] = split_value(message.value, len(split_key(message.key)))
        yield from (Message(join_key([change]), join_value([value])) for change in _json_changes(key))
        yield from (Message(join_key([key]), join_value([change])) for change in _json_changes(value))
    else:
        yield from (replace(message, value=change) for change in _json_changes(message.value))
        yield from (replace(message, key=change) for change in _json_changes(message.key))
    for field in ("key", "value"):
        data = getattr(message, field)
        for _ in range(60 if data else 0):
            at = chance.randrange(len(data))
            piece = bytes(chance.randrange(256) for _ in range(chance.randrange(3)))
            yield replace(message, **{field: data[:at] + piece + data[at + chance.randrange(3) :]})
            yield replace(message, **{field: data[:at]})


@pytest.mark.parametrize("case", _CASES)
def test_errors_are_in_plain_words(case: str) -> None:
    format_, name = case.split("/")
    chance = random.Random(5)
    if format_ == CONNECTOR:
        decoders = [connector.side().decoder()]
        messages: Sequence[Message] = connector.json_messages(name)
    else:
        golden = Golden(format_, name)
        decoders, messages = [golden.side().decoder(), golden.side(ddl=True).decoder()], golden.messages()
    kinds: dict[tuple[str, int], Message] = {}
    for message in messages:
        kinds.setdefault(((message.value or b"")[:60].decode("latin-1"), len(message.key or b"")), message)

    def check(message: Message) -> None:
        for decoder in decoders:
            try:
                error = decode_message(decoder, message).error
            except BridgeError as refused:
                error = refused  # type: ignore[assignment]
            if error is not None:
                assert_no_python_words(error.detail)

    some = [entry for message in list(kinds.values())[:4] for entry in _damaged(message, format_, chance)]
    chance.shuffle(some)
    check_rows(some[:_MOST], check)


# What is read, as which format; what the error must say, and what it must not.
_SIMPLE = {
    "version": 1, "type": "INSERT", "database": "d", "table": "t", "commitTs": 1, "buildTs": 2, "data": {"id": "1"},
}  # fmt: skip
_CANAL = {"database": "d", "table": "t", "isDdl": False, "type": "INSERT", "mysqlType": {}, "data": [{}]}
_ENVELOPE = {"op": "c", "source": {"connector": "TiCDC", "db": "d", "table": "t"}, "ts_ms": 1, "after": {"id": 1}}
_MAXWELL = {"database": "d", "table": "t", "type": "insert", "ts": 1, "data": {"id": 1}}
_CRAFT = next(m.value for m in Golden("craft", "pk_int.default").messages() if m.value)
_OPEN = join_value([b'{"u":{}}'])
_NAMED: tuple[tuple[str, Any, str], ...] = (
    *((format_, _SIMPLE, "--format simple") for format_ in ("canal-json", "debezium", "debezium-mysql")),
    *((format_, _CANAL, "--format canal-json") for format_ in ("simple", "debezium", "debezium-mysql")),
    *((format_, {"payload": _ENVELOPE}, "--format debezium, debezium-mysql") for format_ in ("simple", "canal-json")),
    *((format_, _ENVELOPE, "--format debezium, debezium-mysql") for format_ in ("simple", "canal-json")),
    *((format_, _MAXWELL, "Maxwell") for format_ in ("simple", "canal-json", "debezium", "debezium-mysql", "auto")),
    ("auto", {"type": "table-create", "database": "d", "sql": "", "ts": 1, "def": {}}, "Maxwell"),
    ("canal-json", {"data": {"id": 1}, "metadata": {"record-type": "data"}}, "AWS DMS"),
    ("auto", {"data": {"id": 1}, "metadata": {"record-type": "data"}}, "AWS DMS"),
    ("canal-json", {"table": "D.T", "op_type": "I", "op_ts": "", "after": {}}, "GoldenGate"),
    ("open", _CANAL, "a JSON object"),
    *((format_, _OPEN, "--format open") for format_ in ("canal-json", "simple", "debezium", "craft")),
    *((format_, join_value([b'{"u":{}}'] * 2), "--format open") for format_ in ("avro", "debezium-avro")),
    *((format_, _CRAFT, "--format craft") for format_ in ("canal-json", "simple", "debezium", "avro")),
)  # fmt: skip


def test_messages_of_another_format_are_called_what_they_are() -> None:
    def check(row: tuple[str, Any, str]) -> None:
        format_, body, said = row
        value = body if isinstance(body, bytes) else json.dumps(body).encode()
        decoder = CodecConfig(format_, FileSchemas([]), Options()).decoder()
        error = decode_message(decoder, Message(None, value, "t")).error
        assert error is not None
        assert said in error.detail

    check_rows(_NAMED, check, lambda row: f"{row[0]}: {row[1]!r:.60}")
