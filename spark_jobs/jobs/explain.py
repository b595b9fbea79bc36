"""`explain`: one message of a file or a topic, field by field, as text for people or as JSON."""

import json
import re
import textwrap
from collections.abc import Iterator
from dataclasses import replace
from itertools import islice
from typing import Any

from ticdc_bridge.schemas.inputs.kafka_settings import TOPIC
from ticdc_bridge.schemas.inspect.explain import ExplainRequest, explain
from ticdc_bridge.schemas.inspect.format_lookup import format_named
from ticdc_bridge.schemas.model.errors import SetupError, WireError
from ticdc_bridge.schemas.model.event import Message
from ticdc_bridge.schemas.model.options import Options
from ticdc_bridge.schemas.model.reasons import counted
from ticdc_bridge.spark_jobs.io.locations import KafkaClient, check_is_path, refuse_table_source
from ticdc_bridge.spark_jobs.io.message_files import read_messages
from ticdc_bridge.spark_jobs.io.object_paths import path_of
from ticdc_bridge.spark_jobs.pipeline.codec_config import CodecConfig
from ticdc_bridge.spark_jobs.pipeline.message_codec import decode_message
from ticdc_bridge.spark_jobs.pipeline.result import OP_NAMES
from ticdc_bridge.spark_jobs.pipeline.stream_definitions import LearningDecoder

_WIDTH, _LABEL = 100, 15
_AT = re.compile(r"(?:kafka:)?([^#@]+)@(\d{1,9}):(\d{1,18})\Z", re.ASCII)
_LINE = re.compile(r"(.+)#(\d{1,12})\Z", re.ASCII)


def find(position: str, kafka: KafkaClient) -> tuple[Message, list[Message]]:
    """FILE[#LINE], [kafka:]TOPIC@PARTITION:OFFSET → (message, those before it in the file). SetupError USAGE."""
    refuse_table_source(position)
    check_is_path(position)
    at = _AT.match(position)
    if at and not path_of(position).exists():
        from ticdc_bridge.clients.kafka import read_message

        return read_message(at[1], int(at[2]), int(at[3]), kafka.settings()), []
    line = None if path_of(position).exists() else _LINE.match(position)
    path, number = (path_of(line[1]), int(line[2])) if line else (path_of(position), 1)
    if position.startswith(TOPIC):
        raise SetupError("USAGE", details=f"{position}: kafka:TOPIC@PARTITION:OFFSET is needed")
    if not number:
        raise SetupError("USAGE", details=f"{position}: messages are counted from 1")
    items = [i if isinstance(i, Message) else i[0] for i in islice(read_messages(path), number)]
    if len(items) < number:
        details = f"{path} has {counted(len(items), 'message')}, message {number} is not there"
        raise SetupError("USAGE", details=details)
    last = items[-1]
    if isinstance(last, WireError):
        raise SetupError("USAGE", details=last.detail)
    return last, [m for m in items[:-1] if isinstance(m, Message)]


def run(position: str, config: CodecConfig, options: Options, kafka: KafkaClient, as_json: bool) -> tuple[str, int]:
    """(what is printed, exit code)."""
    message, earlier = find(position, kafka)
    learn = config.learn and format_named(config.format).carries_ddl
    learning = LearningDecoder(replace(config, learn=learn))
    for before in earlier if learn else ():  # DDL before the message may define its table
        decode_message(learning.decoder, before)
    context = replace(config, tables=learning.tables).context()
    answer = explain(ExplainRequest(message, config.format, context, options, config.schemas.versions_of_id, earlier))
    text = json.dumps(answer, ensure_ascii=False, indent=1) if as_json else render(answer)
    return text, 1 if "error" in answer else 0


# ---- text
def render(answer: dict[str, Any]) -> str:
    """The answer for people, at most 100 columns wide."""
    return "\n".join(_lines(answer))


def _lines(answer: dict[str, Any]) -> Iterator[str]:
    at = answer["message"]
    sizes = [f"{field} {'null' if at[f'{field}_bytes'] is None else str(at[f'{field}_bytes']) + ' bytes'}"
             for field in ("key", "value")]  # fmt: skip
    where = [f"{name} {at[name]}" for name in ("topic", "partition", "offset") if at[name] is not None]
    yield from _item("message", ", ".join([*where, *sizes, *([at["time"]] if at["time"] else [])]))
    detected_by = f" ({answer['detected_by']})" if answer["detected_by"] else ""
    yield from _item("format", f"{answer['format'] or 'not known'}{detected_by}")
    for framing in answer.get("framing", ()):
        yield from _item("framing", f"{framing['part']:<6}{_space_hex(framing['hex'])} {framing['says']}".rstrip())
    for schema in answer.get("schemas", ()):
        if schema.get("error"):
            text = f"its subject can't be found: {schema['error']['detail']}"
        elif schema["registered"] is None:
            text = "give --registry or --schemas to see where it is registered"
        else:
            versions = (f"{w['subject']} version {w['version']}" for w in schema["registered"])
            text = ", ".join(versions) or "registered nowhere"
        yield from _item("schema", f"{schema['part']:<6}id {schema['id']}: {text}")
    for event in answer.get("events", ()):
        yield ""
        yield from _event(event)
    if "error" in answer:
        yield from _item("error", f"{answer['error']['code']}: {answer['error']['detail']}")
        for field, data in answer["raw"].items():
            yield from _item(field, "null" if data is None else _space_hex(data))


def _item(name: str, text: str, indent: int = 0) -> Iterator[str]:
    """`name  text`, wrapped."""
    head = " " * indent + f"{name:<{max(_LABEL - indent, len(name) + 1)}}"
    clean = "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)
    yield from textwrap.wrap(
        clean, _WIDTH, initial_indent=head, subsequent_indent=" " * _LABEL, break_on_hyphens=False
    ) or [head.rstrip()]


def _space_hex(data: str) -> str:
    """Hex in groups of four bytes."""
    return " ".join(data[i : i + 8] for i in range(0, len(data), 8))


def _event(event: dict[str, Any]) -> Iterator[str]:
    table = f"{event.get('db', '')}.{event.get('table', '')}".strip(".")
    what = OP_NAMES.get(event.get("op", ""), event["kind"])
    commit = "" if event.get("commit_ts") is None else f" at commit_ts {event['commit_ts']} = {event['commit_time']}"
    yield from _item("event", f"{what} {table}".rstrip() + (commit or ", no commit_ts"))
    if "query" in event:
        yield from _item("statement", event["query"])
    if "types_from" in event:
        yield from _item("types", f"from {event['types_from']}")
    if event.get("flags"):
        yield from _item("flags", ", ".join(event["flags"]))
    for name, other in event["elsewhere"].items():
        yield from _item("as " + name, _other_format_text(other))
    for field in event.get("beside", ()):
        yield ""
        yield from _item(field["name"], "no column")
        yield from _item("bytes", _position_text(field), 2)
        yield from _item("wire", field["wire"], 2)
        yield from _item("value", field["value"] or "''", 2)
    for field in event.get("fields", ()):
        yield ""
        yield from _field(field)


def _other_format_text(other: dict[str, Any]) -> str:
    if "skipped" in other:
        return str(other["skipped"])
    if "error" in other:
        text = f"{other['error']['code']}: {other['error']['detail']}"
        loosely = other.get("with_on_lossy_flag")
        return text if loosely is None else f"{text}; with --on-lossy flag: {_other_format_text(loosely)}"
    flags = f", flagged {', '.join(other['flags'])}" if other.get("flags") else ""
    return f"key {other['key_bytes']} bytes, value {other['value_bytes']} bytes{flags}"


def _position_text(field: dict[str, Any]) -> str:
    return f"{field['part']} @{field['offset']} +{field['bytes']}: {_space_hex(field['hex'])}"


def _field(field: dict[str, Any]) -> Iterator[str]:
    key = ", key" if field["key"] else ""
    yield from _item(f"{field['side']}.{field['column']}", f"{field['type']}{key}")
    if field["hex"] is not None:
        yield from _item("bytes", _position_text(field), 2)
        text = ""  # the fragment of a JSON message, short enough to read
        if field["wire"].startswith("JSON") and not field["hex"].endswith("…"):
            text = " " + bytes.fromhex(field["hex"]).decode("utf-8", "replace")
        yield from _item("wire", field["wire"] + text, 2)
    value = field["value"]
    value_text = "NULL" if value is None else value if isinstance(value, str) else "0x" + value["hex"]
    yield from _item("value", value_text or "''", 2)
    for name, other in field["elsewhere"].items():
        yield from _item(name, other, 2)
