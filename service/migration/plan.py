"""What an import changes in a target, what stands in its way, and how two registries differ.

`plan_merge`: what the target has besides stays; where both have something and differ, that is a conflict.
`compare`: the differences of two registries, by kind.
"""

import hashlib
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, TypeVar

from ticdc_bridge.service.migration.snapshot import Key, Snapshot, order_by_references, same_schema
from ticdc_bridge.service.registry.model import Content, StoredVersion
from ticdc_bridge.service.registry.names import SERVER, context_of
from ticdc_bridge.service.registry.ports import StoreWriter

T = TypeVar("T")

OTHER_SCHEMA: Final = "the version has another schema"
OTHER_ID: Final = "the version has another id"
ID_TAKEN: Final = "the id stands for another schema"
DELETED: Final = "the version was deleted in the target"
OTHER_CONFIG: Final = "the target has another config"
OTHER_MODE: Final = "the target has another mode"
NOT_BY_REST: Final = "cannot be written over REST"
_AT_ONCE: Final = 500  # a statement can't have any number of values


@dataclass(frozen=True, slots=True)
class Conflict:
    """`kind` is one of the texts above, `what` names the thing and both sides."""

    kind: str
    what: str


@dataclass(slots=True)
class MigrationPlan:
    """Changes to a target, in the order of the fields; nothing may be written while there are `conflicts`.

    `same` counts versions that are there already, `settings` configs and modes that are. `known` are the ids, by
    context, that have their schema in the target.
    """

    contexts: list[str] = field(default_factory=list)
    add: list[StoredVersion] = field(default_factory=list)
    delete: list[Key] = field(default_factory=list)
    marks: dict[str, int] = field(default_factory=dict)
    configs: dict[str, dict[str, Any]] = field(default_factory=dict)
    modes: dict[str, str] = field(default_factory=dict)
    conflicts: list[Conflict] = field(default_factory=list)
    known: set[tuple[str, int]] = field(default_factory=set)
    same: int = 0
    settings: int = 0

    @property
    def changes(self) -> dict[str, int]:
        """How many changes of each sort, the sorts without any left out."""
        added = [stored for stored in self.add if not stored.deleted]
        counted = {
            "versions": len(added), "soft-deleted versions": len(self.add) - len(added),
            "soft deletes": len(self.delete), "configs": len(self.configs), "modes": len(self.modes),
            "contexts": len(self.contexts), "id marks": len(self.marks),
        }  # fmt: skip
        return {what: number for what, number in counted.items() if number}


Alike = Callable[[StoredVersion, StoredVersion], bool]


def same_text(stored: StoredVersion, other: StoredVersion) -> bool:
    """Two versions have the same schema, to the byte."""
    return same_schema(stored.content, other.content)


def plan_merge(
    source: Snapshot, target: Snapshot, *, alike: Alike = same_text, overwrite_settings: bool = False
) -> MigrationPlan:
    """`alike`: whether two versions have the same schema. `overwrite_settings`: the source's configs and modes win."""
    ids: dict[tuple[str, int], StoredVersion] = {}
    for stored in target.versions.values():
        ids.setdefault((context_of(stored.subject), stored.id), stored)
    plan = MigrationPlan(known=set(ids))
    adding = []
    for key, stored in source.versions.items():
        present = target.versions.get(key)
        if present is not None:
            _compare(plan, stored, present, alike)
            continue
        holder = ids.get((context_of(stored.subject), stored.id))
        if holder is not None and not alike(stored, holder):
            holder_text = _key_text((holder.subject, holder.version))
            what = f"id {stored.id} of {_key_text(key)}: in the target it is the schema of {holder_text}"
            plan.conflicts.append(Conflict(ID_TAKEN, what))
            continue
        adding.append(stored)
    # In the order of registration, as far as it is known: answers by id name the first version that has it.
    plan.add = order_by_references(sorted(adding, key=lambda stored: stored.ts))
    plan.contexts = sorted(source.contexts - target.contexts)
    plan.marks = {c: n for c, n in source.marks.items() if n > target.marks.get(c, 0)}
    over = overwrite_settings
    plan.configs = _settings(plan, source.configs, target.configs, OTHER_CONFIG, over)
    plan.modes = _settings(plan, source.modes, target.modes, OTHER_MODE, over)
    return plan


def _compare(plan: MigrationPlan, stored: StoredVersion, target: StoredVersion, alike: Alike) -> None:
    name = _key_text((stored.subject, stored.version))
    if not alike(stored, target):
        here, source = _clip(target.content), _clip(stored.content)
        plan.conflicts.append(Conflict(OTHER_SCHEMA, f"{name}: source {source}, target {here}"))
    elif stored.id != target.id:
        plan.conflicts.append(Conflict(OTHER_ID, f"{name}: id {stored.id} in the source, {target.id} in the target"))
    elif stored.deleted and not target.deleted:
        plan.delete.append((stored.subject, stored.version))
    elif target.deleted and not stored.deleted:
        plan.conflicts.append(Conflict(DELETED, f"{name}: soft-deleted in the target, not in the source"))
    else:
        plan.same += 1


def _settings(
    plan: MigrationPlan, source: Mapping[str, T], target: Mapping[str, T], kind: str, overwrite: bool
) -> dict[str, T]:
    """The settings to write; one that is set otherwise in the target is a conflict."""
    settings = {}
    for scope, value in sorted(source.items()):
        if scope in target and value == target[scope]:
            plan.settings += 1
        elif scope not in target or overwrite:
            settings[scope] = value
        else:
            what = f"{_scope_text(scope)}: {_json(value)} in the source, {_json(target[scope])} here"
            plan.conflicts.append(Conflict(kind, what))
    return settings


@dataclass(frozen=True, slots=True)
class Comparison:
    """How many things of one kind are equal in two registries, and a line for each that is not."""

    kind: str
    equal: int
    differences: list[str]


def compare(source: Snapshot, target: Snapshot, alike: Alike = same_text) -> list[Comparison]:
    """All that two registries hold, by kind, without times. `alike`: whether two versions have the same schema."""

    def other_version(stored: StoredVersion, present: StoredVersion) -> str:
        if not alike(stored, present):
            return f"source {_clip(stored.content)}, target {_clip(present.content)}"
        if stored.id != present.id:
            return f"id {stored.id} in the source, {present.id} in the target"
        if stored.deleted != present.deleted:
            return f"soft-deleted in the {'source' if stored.deleted else 'target'} alone"
        return ""

    contexts = dict.fromkeys(source.contexts, ""), dict.fromkeys(target.contexts, "")
    return [
        _compare_kind("versions", source.versions, target.versions, _key_text, other_version),
        _compare_kind("configs", source.configs, target.configs, _scope_text),
        _compare_kind("modes", source.modes, target.modes, _scope_text),
        _compare_kind("contexts", *contexts, str),
        _compare_kind("highest ids", source.marks, target.marks, lambda context: f"context {context}"),
    ]


def _other_value(value: Any, target: Any) -> str:
    return "" if value == target else f"{_json(value)} in the source, {_json(target)} in the target"


def _compare_kind(
    kind: str,
    source: Mapping[Any, T],
    target: Mapping[Any, T],
    name: Callable[[Any], str],
    difference: Callable[[T, T], str] = _other_value,
) -> Comparison:
    keys = sorted({*source, *target})
    differences = []
    for key in keys:
        if key not in target:
            differences.append(f"{name(key)}: only in the source")
        elif key not in source:
            differences.append(f"{name(key)}: only in the target")
        elif reason := difference(source[key], target[key]):
            differences.append(f"{name(key)}: {reason}")
    return Comparison(kind, len(keys) - len(differences), differences)


def carry_out(tx: StoreWriter, plan: MigrationPlan) -> None:
    """Write a plan without conflicts; contents must have their identity (see `snapshot.parse_versions`)."""
    ids = set(plan.known)
    deleted: dict[str, list[int]] = {}
    for context in plan.contexts:
        tx.put_context(context)
    for stored in plan.add:
        context = context_of(stored.subject)
        if (context, stored.id) not in ids:
            ids.add((context, stored.id))
            tx.put_schema(context, stored.id, stored.content)
            tx.use_id(context, stored.id)
        tx.put_version(context, stored.subject, stored.version, stored.id, stored.content, stored.ts)
        if stored.deleted:
            deleted.setdefault(stored.subject, []).append(stored.version)
    for subject, version in plan.delete:
        deleted.setdefault(subject, []).append(version)
    for subject, versions in deleted.items():
        for start in range(0, len(versions), _AT_ONCE):
            tx.soft_delete(subject, versions[start : start + _AT_ONCE])
    for context, number in plan.marks.items():
        tx.use_id(context, number)
    for scope, config in plan.configs.items():
        tx.put_config(scope, config)
    for scope, mode in plan.modes.items():
        tx.put_mode(scope, mode)


def fingerprint(snapshot: Snapshot) -> str:
    """Another text whenever something in the snapshot differs (times aside)."""
    digest = hashlib.sha256()
    for key, stored in sorted(snapshot.versions.items()):
        content = stored.content
        references = [[reference.name, reference.subject, reference.version] for reference in content.references]
        row = [
            *key, stored.id, stored.deleted, content.kind, content.text, references, content.metadata or None,
            content.rule_set,
        ]  # fmt: skip
        digest.update(_json(row).encode("utf-8", "replace"))
    rest = [snapshot.configs, snapshot.modes, sorted(snapshot.contexts), snapshot.marks]
    digest.update(json.dumps(rest, sort_keys=True).encode())
    return digest.hexdigest()


def _key_text(key: Key) -> str:
    return f"{key[0]} version {key[1]}"


def _scope_text(scope: str) -> str:
    return "the server" if scope == SERVER else scope


def _clip(content: Content) -> str:
    text = content.text if len(content.text) <= 60 else content.text[:60] + "…"
    pieces = {"references": content.references, "metadata": content.metadata, "rules": content.rule_set}
    more = "".join(f" with {what}" for what, target in pieces.items() if target)
    return f"{content.kind} {text}{more}"


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, sort_keys=True)
