"""Dump files: a topic's records as lines.

{"key":{…},"value":{…}|null,"timestamp":ms}    ours; what `export FILE` writes
KEY<TAB>VALUE                                  kafka-console-consumer --property print.key=true; null is no value.
                                               CreateTime:N, Partition:N, Offset:N or an offset may stand before
{"key_b64":…,"value_b64":…|null,"offset":…}    a message file, as the Spark jobs write it
{"subject":…,"version":…,"id":…,"schema":…}    a file of --schemas (schemas.inputs.schema_files)
"""

import base64
import binascii
import contextlib
import json
import os
import re
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, Final

from ticdc_bridge.schemas.model.errors import SetupError
from ticdc_bridge.schemas.model.reasons import reason_of, usage_errors
from ticdc_bridge.service.migration.snapshot import is_number
from ticdc_bridge.service.migration.topic_records import TopicRecord

_PREFIX: Final = re.compile(
    r"(?:(?P<time>(?:CreateTime|LogAppendTime):(?P<ts>\d+)|NO_TIMESTAMP)|Partition:(?P<partition>\d+)"
    r"|Offset:(?P<offset>\d+)|NO_HEADERS|(?P<bare>\d+))\t"
)
_SUBJECT_VERSION: Final = {"subject", "version", "id", "schema"}
_OPTIONAL: Final = ("schemaType", "references", "guid")


def read_records(path: str) -> Iterator[TopicRecord]:
    """The records of a dump; `-` is standard input. A line that is none is a record with a fault. Raises SetupError."""
    with usage_errors(path), contextlib.nullcontext(sys.stdin.buffer) if path == "-" else open(path, "rb") as lines:
        partitions: set[int] = set()
        for number, raw in enumerate(lines, 1):
            line = raw.rstrip(b"\r\n")
            if line.strip():
                where = f"{path} line {number}"
                try:
                    record = _line(line, where, partitions)
                except ValueError as error:
                    record = TopicRecord(None, None, where, fault=str(error))
                yield record


def _line(raw: bytes, where: str, partitions: set[int]) -> TopicRecord:
    try:
        line = raw.decode("utf-8")
    except UnicodeDecodeError:
        raise ValueError("no UTF-8 text") from None
    if line.startswith("{"):
        try:
            value, end = json.JSONDecoder().raw_decode(line)
        except (ValueError, RecursionError) as error:
            raise ValueError(f"no line of a dump: {reason_of(error)}") from error
        if line[end:].strip(" ") == "":
            return _object(value, where, partitions)
    return _columns(line, where, partitions)


def _columns(line: str, where: str, partitions: set[int]) -> TopicRecord:
    ts: int | None = None
    while match := _PREFIX.match(line):
        ts = int(match["ts"]) if match["ts"] else ts
        if match["partition"]:
            _check_partition(int(match["partition"]), partitions, where)
        offset = match["offset"] or match["bare"]
        where = f"{where} offset {offset}" if offset else where
        line = line[match.end() :]
    key, tab, value = line.partition("\t")
    if not tab:
        raise ValueError("no line of a dump; lines are JSON with key and value, or KEY<TAB>VALUE")
    return TopicRecord(key.encode(), None if value.strip() in ("null", "<null>", "") else value.encode(), where, ts)


def _object(value: dict[str, Any], where: str, partitions: set[int]) -> TopicRecord:
    if is_number(value.get("offset")):
        where = f"{where} offset {value['offset']}"
    if is_number(value.get("partition")):
        _check_partition(value["partition"], partitions, where)
    ts = value["timestamp"] if is_number(value.get("timestamp")) else None
    if "key_b64" in value:
        try:
            key, data = _bytes(value["key_b64"]), _bytes(value.get("value_b64"))
        except (binascii.Error, TypeError, ValueError) as error:
            raise ValueError("key_b64 or value_b64 is no base64 text") from error
        return TopicRecord(key, data, where, ts)
    if "key" not in value and value.keys() >= _SUBJECT_VERSION:
        names = {"keytype": "SCHEMA", "subject": value["subject"], "version": value["version"], "magic": 1}
        fields = {name: value[name] for name in (*_SUBJECT_VERSION, *_OPTIONAL) if value.get(name) is not None}
        return TopicRecord(_text(names), _text({**fields, "deleted": False}), where, ts)
    if "key" not in value:
        raise ValueError("no line of a dump: neither key nor key_b64, nor subject, version, id and schema")
    return TopicRecord(_text(value["key"]), _text(value.get("value")), where, ts)


def _bytes(text: str | None) -> bytes | None:
    return None if text is None else base64.b64decode(text, validate=True)


def _text(value: Any) -> bytes | None:
    """A key or value, given as JSON or as the text of JSON."""
    if value is None:
        return None
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    return text.encode("utf-8", "replace")


def _check_partition(number: int, partitions: set[int], where: str) -> None:
    partitions.add(number)
    if len(partitions) > 1:
        details = f"{where}: records of several partitions; a registry's topic has one, and their order counts"
        raise SetupError("USAGE", details=details)


def line_of(record: TopicRecord) -> str:
    """A record in our own form."""
    key = (record.key or b"null").decode()
    value = (record.value or b"null").decode()
    stamp = "" if record.ts is None else f',"timestamp":{record.ts}'
    return f'{{"key":{key},"value":{value}{stamp}}}\n'


def write_records(path: str, records: Iterable[TopicRecord]) -> None:
    """Write a dump: the whole file or none of it; `-` is standard output. Raises SetupError."""
    if path == "-":
        for record in records:
            sys.stdout.write(line_of(record))
        sys.stdout.flush()
        return
    target = Path(path)
    partial = target.with_name(f"{target.name}.part")
    try:
        with open(partial, "w", encoding="utf-8") as out:
            for record in records:
                out.write(line_of(record))
            out.flush()
            os.fsync(out.fileno())
        partial.replace(target)
    except OSError as error:
        raise SetupError("USAGE", details=f"{path}: {error.strerror or error}") from None
    finally:
        partial.unlink(missing_ok=True)
