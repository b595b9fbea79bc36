"""Rule sets: what serializers do to data by a schema (checks, field encryption, migrations). Kept, not looked into.

A client's registration can't bring one: Confluent's community server drops it, and so does this one. An import can.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping
from typing import Any, Final

RuleSet = Mapping[str, Any]
"""`{"migrationRules": [..], "domainRules": [..], "encodingRules": [..], "enableAt": ..}`, empty parts left out."""

_GROUPS: Final = ("migrationRules", "domainRules", "encodingRules")
_TEXTS: Final = ("name", "doc", "kind", "mode", "type")
_ACTIONS: Final = ("expr", "onSuccess", "onFailure")
_DEFAULTS: Final = {"kind": "TRANSFORM", "mode": "WRITEREAD"}
_TRUE: Final = b"\x01"


def _keep_value(value: Any) -> Any:
    return value


# The order of a rule's keys in records and answers → how each is read
_FIELDS: Final[dict[str, Callable[[Any], Any]]] = {
    **dict.fromkeys(_TEXTS, _keep_value),
    "tags": lambda value: sorted(set(value)),
    "params": lambda value: dict(sorted(value.items())),
    **dict.fromkeys(_ACTIONS, _keep_value),
}


def read_rule_set(value: Any) -> RuleSet | None:
    """A rule set as Confluent would write it; None for none. Raises ValueError."""
    if value is None:
        return None
    try:
        groups = {name: [_rule(one) for one in value.get(name) or ()] for name in _GROUPS}
        rule_set: dict[str, Any] = {name: rules for name, rules in groups.items() if rules}
        return rule_set | ({"enableAt": value["enableAt"]} if value.get("enableAt") else {})
    except (AttributeError, TypeError) as error:
        raise ValueError(f"ruleSet: {error}") from None


def _rule(value: Mapping[str, Any]) -> dict[str, Any]:
    full = {**_DEFAULTS, **{name: part for name, part in value.items() if part is not None}}
    read = {name: reader(full[name]) for name, reader in _FIELDS.items() if full.get(name)}
    return read | {"disabled": full.get("disabled") is True}


def update_hash(digest: hashlib._Hash, rule_set: RuleSet) -> None:
    """A rule set's part in the identity of a schema (upstream `RuleSet.updateHash`, `Rule.updateHash`)."""
    for group in _GROUPS:
        for rule in rule_set.get(group, ()):
            parts = [rule.get(name, "") for name in _TEXTS]
            parts += rule.get("tags", ())
            parts += [text for pair in rule.get("params", {}).items() for text in pair]
            parts += [rule.get(name, "") for name in _ACTIONS]
            digest.update("".join(map(str, parts)).encode("utf-8", "replace"))
            if rule["disabled"]:
                digest.update(_TRUE)
