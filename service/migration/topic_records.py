"""Records of a `_schemas` topic, as Confluent 8.5 and Karapace write them (measured): read and written.

The bytes of a key decide what a later record replaces when the topic is compacted, so keys are written in exactly
Confluent's order: `keytype`, its own fields, `magic`.
"""

import json
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from typing import Any, Final

from ticdc_bridge.schemas.codec.json_exact import compact_json
from ticdc_bridge.service.migration.snapshot import Key, Snapshot, is_number, order_by_references, reference
from ticdc_bridge.service.registry.config import FIELDS, LEVEL, MODES, properties
from ticdc_bridge.service.registry.model import Content, StoredVersion, read_rule_set
from ticdc_bridge.service.registry.names import MAX_VERSION, SERVER, normalize_subject
from ticdc_bridge.service.schema_types.base import LEVELS

MARKS: Final = "highIds"
"""In the value of a NOOP record of ours: the highest id ever used, by context. Confluent reads no NOOP's value."""

_ENCODED: Final = "__enc__"
_CONFIG_ORDER: Final = [stored for stored, _ in FIELDS.values()]


@dataclass(frozen=True, slots=True)
class TopicRecord:
    """A record of the topic. `where`: for people; `ts`: in ms, or None; `fault`: why it could not even be read."""

    key: bytes | None
    value: bytes | None
    where: str = ""
    ts: int | None = None
    fault: str = ""


class BrokenRecord(ValueError):
    """A record that can't be what its key says."""


def decode_json(data: bytes, what: str) -> Any:
    """JSON. Raises BrokenRecord."""
    try:
        return json.loads(data.decode("utf-8"))
    except (ValueError, RecursionError) as error:
        excerpt = data[:80].decode("utf-8", "replace")
        raise BrokenRecord(f"the {what} is no JSON ({error}): {excerpt}") from None


def read_key(record: TopicRecord) -> dict[str, Any]:
    """The key with its `keytype`. Raises BrokenRecord."""
    if record.fault:
        raise BrokenRecord(record.fault)
    key = decode_json(record.key, "key") if record.key else None
    if not isinstance(key, dict) or not isinstance(key.get("keytype"), str):
        raise BrokenRecord("the key has no keytype" if record.key else "there is no key")
    return key


def read_value(record: TopicRecord) -> dict[str, Any] | None:
    """The value; None for a tombstone, for which Karapace writes an empty value. Raises BrokenRecord."""
    value = decode_json(record.value, "value") if record.value else None
    if value is not None and not isinstance(value, dict):
        raise BrokenRecord("the value is no JSON object")
    return value


def read_version(key: Mapping[str, Any]) -> Key:
    """Subject and version of a SCHEMA key. Raises BrokenRecord."""
    if key.get("magic", 1) not in (0, 1):
        raise BrokenRecord(f"a SCHEMA key with magic {key['magic']}: 0 and 1 are known")
    return read_subject(key), number_from(1, key, "version")


def read_subject(key: Mapping[str, Any]) -> str:
    if not isinstance(key.get("subject"), str):
        raise BrokenRecord("the key names no subject")
    return normalize_subject(key["subject"])


def read_scope(key: Mapping[str, Any]) -> str:
    """The scope of a CONFIG or MODE key; the server where it names no subject. Raises BrokenRecord."""
    subject = key.get("subject")
    if subject is not None and not isinstance(subject, str):
        raise BrokenRecord("the subject is no text")
    return normalize_subject(subject) or SERVER if subject else SERVER


def number_from(least: int, value: Mapping[str, Any], name: str) -> int:
    number: Any = value.get(name)
    if not is_number(number) or not least <= number <= MAX_VERSION:
        raise BrokenRecord(f"{name} is {json.dumps(number)}, not a number from {least} to {MAX_VERSION}")
    return int(number)


def read_schema(key: Key, value: Mapping[str, Any], ts: int) -> StoredVersion:
    """A registered version. Raises BrokenRecord."""
    subject, version = key
    number, text = number_from(0, value, "id"), value.get("schema")
    if not isinstance(text, str):
        raise BrokenRecord("there is no schema text")
    if value.get("version", version) != version or normalize_subject(str(value.get("subject", subject))) != subject:
        raise BrokenRecord("key and value name different versions")
    kind = value.get("schemaType") or "AVRO"
    if not isinstance(kind, str):
        raise BrokenRecord("schemaType is no text")
    try:
        references = tuple(map(reference, value.get("references") or ()))
    except (ValueError, AttributeError, TypeError) as error:
        raise BrokenRecord(str(error)) from None
    metadata = read_metadata(value.get("metadata"))
    if _ENCODED in properties(metadata):
        raise BrokenRecord("its metadata is encrypted (metadata.encoder.secret); import it over REST, which shows it")
    try:
        rule_set = read_rule_set(value.get("ruleSet"))
    except ValueError as error:
        raise BrokenRecord(str(error)) from None
    content = Content(b"", text, kind, references, metadata, rule_set)
    written_at: Any = value.get("ts")
    return StoredVersion(
        subject, version, number, content, written_at if is_number(written_at) else ts, value.get("deleted") is True
    )


def read_metadata(value: Any) -> dict[str, Any] | None:
    """Metadata with its parts in order, the empty ones left out; None if there is none. Raises BrokenRecord."""
    if value is None:
        return None
    if not isinstance(value, dict):
        raise BrokenRecord("metadata is no object")
    try:
        read = {
            "tags": {path: sorted(set(tags)) for path, tags in sorted((value.get("tags") or {}).items())},
            "properties": dict(sorted((value.get("properties") or {}).items())),
            "sensitive": sorted(set(value.get("sensitive") or ())),
        }
    except (AttributeError, TypeError) as error:
        raise BrokenRecord(f"metadata: {error}") from None
    return {name: member for name, member in read.items() if member}


def read_config(value: Mapping[str, Any]) -> tuple[dict[str, Any], list[str]]:
    """A config as it is stored, and the names of fields that nobody knows. Raises BrokenRecord."""
    config = {name: value[name] for name in _CONFIG_ORDER if value.get(name) is not None}
    if LEVEL in config:
        level = str(config[LEVEL]).upper()
        if level not in LEVELS:
            raise BrokenRecord(f"{LEVEL} is {config[LEVEL]!r}")
        config[LEVEL] = level
    for name in ("defaultMetadata", "overrideMetadata"):
        if name in config:
            config[name] = read_metadata(config[name])
    return config, [name for name in value if name not in _CONFIG_ORDER and name not in ("subject", "ts", "offset")]


def read_mode(value: Mapping[str, Any]) -> str:
    """Raises BrokenRecord."""
    mode = str(value.get("mode")).upper()
    if mode not in MODES:
        raise BrokenRecord(f"mode is {value.get('mode')!r}")
    return mode


# ---- writing


def records_of(snapshot: Snapshot) -> Iterator[TopicRecord]:
    """The whole snapshot as Confluent would have it in its topic, each version after those it refers to."""
    if snapshot.marks:
        # Ours: ids that were used and may have no schema any more must not be handed out again.
        yield _record({"keytype": "NOOP", "magic": 0}, {MARKS: dict(sorted(snapshot.marks.items()))})
    for context in sorted(snapshot.contexts):
        where = {"tenant": "default", "context": context}
        yield _record({"keytype": "CONTEXT", **where, "magic": 0}, where)
    for scope, config in sorted(snapshot.configs.items()):
        yield _scope_record("CONFIG", scope, config)
    for stored in order_by_references(snapshot.versions.values()):
        yield schema_record(stored)
    for scope, mode in sorted(snapshot.modes.items()):
        yield _scope_record("MODE", scope, {"mode": mode})


def schema_record(stored: StoredVersion) -> TopicRecord:
    """A version, soft-deleted or not."""
    content = stored.content
    value = {
        "subject": stored.subject, "version": stored.version, "id": stored.id, "schemaType": content.kind,
        "references": list(map(asdict, content.references)),
        "metadata": content.metadata, "ruleSet": content.rule_set, "schema": content.text, "deleted": stored.deleted,
    }  # fmt: skip
    # Metadata without anything in it is not the same as none: it counts in the schema's identity.
    full = {name: member for name, member in value.items() if member is not None and member != []}
    key = {"keytype": "SCHEMA", "subject": stored.subject, "version": stored.version, "magic": 1}
    return _record(key, full, stored.ts)


def _scope_record(keytype: str, scope: str, value: Mapping[str, Any]) -> TopicRecord:
    subject = {} if scope == SERVER else {"subject": scope}
    return _record({"keytype": keytype, **subject, "magic": 0}, {**subject, **value})


def _record(key: Mapping[str, Any], value: Mapping[str, Any], ts: int | None = None) -> TopicRecord:
    key_data, data = (compact_json(part).encode("utf-8", "replace") for part in (key, value))
    return TopicRecord(key_data, data, ts=ts)
