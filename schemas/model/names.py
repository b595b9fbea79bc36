"""Names as TiCDC changes them for Avro, Debezium and topics (upstream ticdc `pkg/sink/codec/common/helper.go`)."""

import re
from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from typing import Any

_NOT_AVRO = re.compile(r"[^A-Za-z0-9_]")
_NOT_TOPIC = re.compile(r"[^A-Za-z0-9_.]")
_NOT_IN_TOPICS = re.compile(r"[^A-Za-z0-9._\-]")


@lru_cache(maxsize=65_536)
def sanitise_name(name: str) -> str:
    """SanitizeName: [A-Za-z0-9_] stays, any other character becomes one `_`; a leading digit gets a `_` before it."""
    if not name:
        return name
    first = name[0]
    if first.isascii() and first.isdigit():
        return "_" + first + _NOT_AVRO.sub("_", name[1:])
    return _NOT_AVRO.sub("_", name)


def topic_label(name: str) -> str:
    """A database's or table's name as it stands in a topic's: what a topic's name can't have becomes `_`."""
    return _NOT_IN_TOPICS.sub("_", name)


def names_of_columns(names: Iterable[str]) -> tuple[dict[str, str], frozenset[str]]:
    """Columns' names → (sanitised name → own name, the sanitised names that stand for several of them)."""
    found: dict[str, str] = {}
    twice = set[str]()
    for name in names:
        sanitised = sanitise_name(name)
        if found.setdefault(sanitised, name) != name:
            twice.add(sanitised)
    return {sanitised: name for sanitised, name in found.items() if sanitised not in twice}, frozenset(twice)


def repeated_name(names: Sequence[str]) -> str | None:
    """The first name that stands there twice."""
    return None if len(set(names)) == len(names) else next(name for name in names if names.count(name) > 1)


def in_letters_of(name: str, sanitised: str) -> str:
    """A name in the letters that its sanitised form has ("ID-no" and "id_NO": "id-NO")."""
    sent = sanitised[1:] if len(sanitised) == len(name) + 1 else sanitised  # a digit came first
    if len(sent) != len(name):
        return name
    return "".join(new if new.lower() == letter.lower() else letter for letter, new in zip(name, sent, strict=True))


@lru_cache(maxsize=65_536)
def sanitise_topic_label(name: str) -> str:
    """SanitizeTopicName: as sanitise_name, but dots stay and a digit may come first (golden debezium/names)."""
    return _NOT_TOPIC.sub("_", name)


def quote_name(name: str) -> str:
    """A name in backquotes, as SQL has it."""
    return "`" + name.replace("`", "``") + "`"


def quote_ansi(name: str) -> str:
    """A name in SQL whose names stand in double quotes (Trino, DataFusion)."""
    return '"' + name.replace('"', '""') + '"'


def quote_text(text: str) -> str:
    """A text in quotes, as SQL has it where a backslash is no escape."""
    return "'" + text.replace("'", "''") + "'"


def topic_subject(topic: str | None, field: str) -> str | None:
    """The subject of a topic's `key` or `value` as Confluent's clients name it; None without a topic."""
    return None if topic is None else f"{topic}-{field}"


def avro_subject(topic: str, field: str) -> str:
    """The subject of a topic's `key` or `value`; TiCDC's Avro encoder writes `_` for each dot of the topic."""
    return f"{topic.replace('.', '_')}-{field}"


def record_names(record: Mapping[str, Any]) -> tuple[str, str]:
    """(namespace, name) of an Avro record: a name with dots in it is whole (Avro 1.12, "Names")."""
    namespace, dot, name = record["name"].rpartition(".")
    return namespace if dot else str(record.get("namespace", "")), name
