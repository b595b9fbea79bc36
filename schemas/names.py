"""Names as TiCDC changes them for Avro, Debezium and topics (upstream ticdc `pkg/sink/codec/common/helper.go`)."""

from __future__ import annotations

import re
from functools import lru_cache

_NOT_AVRO = re.compile(r"[^A-Za-z0-9_]")
_NOT_TOPIC = re.compile(r"[^A-Za-z0-9_.]")


@lru_cache(maxsize=65_536)
def sanitise_name(name: str) -> str:
    """SanitizeName: [A-Za-z0-9_] stays, any other character becomes one `_`; a leading digit gets a `_` before it."""
    if not name:
        return name
    first = name[0]
    if first.isascii() and first.isdigit():
        return "_" + first + _NOT_AVRO.sub("_", name[1:])
    return _NOT_AVRO.sub("_", name)


@lru_cache(maxsize=65_536)
def sanitise_topic_part(name: str) -> str:
    """SanitizeTopicName: as sanitise_name, but dots stay and a digit may come first (golden debezium/names)."""
    return _NOT_TOPIC.sub("_", name)


def avro_subject(topic: str, part: str) -> str:
    """The subject of a topic's `key` or `value`; TiCDC's Avro encoder writes `_` for each dot of the topic."""
    return f"{topic.replace('.', '_')}-{part}"
