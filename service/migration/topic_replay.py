"""A `_schemas` topic read from its beginning: what each record does, and what could not be taken from it."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from typing import Any, Final

from ticdc_bridge.service.migration import topic_records
from ticdc_bridge.service.migration.snapshot import Key, ReadResult, is_number, same_schema
from ticdc_bridge.service.registry.model import Content
from ticdc_bridge.service.registry.names import context_of, covers, is_valid_scope, qualify

_KEPT_PROBLEMS: Final = 1000

Value = dict[str, Any] | None


@dataclass(slots=True)
class Replay(ReadResult):
    """Apply records in the topic's order; `snapshot` is what they come to. `counted`: the records by keytype."""

    now: int = 0
    _holders: dict[tuple[str, int], dict[Key, Content]] = field(default_factory=dict)
    _numbers: dict[str, set[int]] = field(default_factory=dict)

    def apply(self, record: topic_records.TopicRecord) -> None:
        """Take one record in; what is wrong with it is noted, never raised."""
        try:
            key = topic_records.read_key(record)
            keytype = key["keytype"]
            self.counted[keytype] += 1
            handler = _HANDLERS.get(keytype)
            if handler is None:
                self.unknown[keytype] += 1
                return
            handler(self, key, topic_records.read_value(record), record)
        except topic_records.BrokenRecord as error:
            self.broken_count += 1
            if len(self.broken) < _KEPT_PROBLEMS:
                self.broken.append(f"{record.where}: {error}" if record.where else str(error))

    def apply_all(self, records: Iterable[topic_records.TopicRecord]) -> Replay:
        for record in records:
            self.apply(record)
        return self

    # ---- schemas

    def _schema(self, key: dict[str, Any], value: Value, record: topic_records.TopicRecord) -> None:
        stored_key = topic_records.read_version(key)
        if value is None:
            self._forget(stored_key)
            return
        stored = topic_records.read_schema(stored_key, value, self.now if record.ts is None else record.ts)
        stored = replace(stored, content=self._number_references(stored.subject, stored.content))
        context = context_of(stored.subject)
        for other, content in self._holders.setdefault((context, stored.id), {}).items():
            if other != stored_key and not same_schema(content, stored.content):
                # Confluent's server ignores such a record and goes on with the first schema.
                raise topic_records.BrokenRecord(
                    f"id {stored.id} stands for another schema already, that of {other[0]} version {other[1]}; "
                    f"{stored_key[0]} version {stored_key[1]} brings a different one"
                )
        self._forget(stored_key)
        self._holders.setdefault((context, stored.id), {})[stored_key] = stored.content
        self._numbers.setdefault(stored.subject, set()).add(stored.version)
        self.snapshot.add(stored)

    def _number_references(self, subject: str, content: Content) -> Content:
        """References to "the latest" (-1) get the number they have now."""
        if all(reference.version != -1 for reference in content.references):
            return content
        done = []
        for reference in content.references:
            target = qualify(reference.subject or "", context_of(subject))
            numbers = [n for n in self._numbers.get(target, ()) if not self.snapshot.versions[target, n].deleted]
            is_latest = reference.version == -1 and numbers
            done.append(replace(reference, version=max(numbers)) if is_latest else reference)
        return replace(content, references=tuple(done))

    def _forget(self, stored_key: Key) -> None:
        stored = self.snapshot.versions.pop(stored_key, None)
        if stored is not None:
            self._numbers[stored.subject].discard(stored.version)
            holders = self._holders[context_of(stored.subject), stored.id]
            holders.pop(stored_key, None)
            if not holders:
                del self._holders[context_of(stored.subject), stored.id]

    def _delete_subject(self, key: dict[str, Any], value: Value, record: topic_records.TopicRecord) -> None:
        if value is None:
            return
        subject, last = topic_records.read_subject(key), topic_records.number_from(1, value, "version")
        for version in self._numbers.get(subject, ()):
            if version <= last:
                stored = self.snapshot.versions[subject, version]
                self.snapshot.versions[subject, version] = replace(stored, deleted=True)

    def _clear_subject(self, key: dict[str, Any], value: Value, record: topic_records.TopicRecord) -> None:
        if value is None:
            return
        scope = topic_records.read_scope(key)
        for stored_key, stored in list(self.snapshot.versions.items()):
            if stored.deleted and covers(scope, stored_key[0]):
                self._forget(stored_key)

    # ---- what belongs to a scope

    def _config(self, key: dict[str, Any], value: Value, record: topic_records.TopicRecord) -> None:
        scope = topic_records.read_scope(key)
        if value is None:
            self.snapshot.configs.pop(scope, None)
            return
        config, unknown = topic_records.read_config(value)
        if self._check_scope(scope, "CONFIG"):
            self.snapshot.configs[scope] = config
        for name in unknown:
            self.left_out[f"config field {name}"] += 1

    def _mode(self, key: dict[str, Any], value: Value, record: topic_records.TopicRecord) -> None:
        scope = topic_records.read_scope(key)
        if value is None:
            self.snapshot.modes.pop(scope, None)
            return
        mode = topic_records.read_mode(value)
        if self._check_scope(scope, "MODE"):
            self.snapshot.modes[scope] = mode

    def _check_scope(self, scope: str, keytype: str) -> bool:
        """True if a scope can have a config or mode here; one that can't is counted."""
        if not is_valid_scope(scope):
            self.left_out[f"{keytype} of {scope!r}, which is no valid name"] += 1
            return False
        return True

    def _context(self, key: dict[str, Any], value: Value, record: topic_records.TopicRecord) -> None:
        context = key.get("context")
        if not isinstance(context, str) or not context.startswith("."):
            raise topic_records.BrokenRecord("a CONTEXT key without a context")
        if context == ".":
            return
        if value is None:
            self.snapshot.contexts.discard(context)
        else:
            self.snapshot.contexts.add(context)

    def _noop(self, key: dict[str, Any], value: Value, record: topic_records.TopicRecord) -> None:
        marks = (value or {}).get(topic_records.MARKS) or {}
        if not isinstance(marks, dict) or not all(map(is_number, marks.values())):
            raise topic_records.BrokenRecord(f"{topic_records.MARKS} is no object of numbers")
        for context, number in marks.items():
            self.snapshot.mark(context, number)


_HANDLERS: Final[dict[str, Callable[[Replay, dict[str, Any], Value, topic_records.TopicRecord], None]]] = {
    "SCHEMA": Replay._schema, "DELETE_SUBJECT": Replay._delete_subject, "CLEAR_SUBJECT": Replay._clear_subject,
    "CONFIG": Replay._config, "MODE": Replay._mode, "CONTEXT": Replay._context, "NOOP": Replay._noop,
}  # fmt: skip
