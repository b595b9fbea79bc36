"""A dry run's registry: the rules of service.registry asked without writing anything."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from schemas.errors import RegistryError
from service.history.dry_run.ports import Registered, Rehearsal
from service.registry import config, registering
from service.registry.compatibility import against, logical_changes, refusal
from service.registry.config import LEVEL
from service.registry.core import Registry
from service.registry.model import NewSchema, Stored
from service.registry.naming import check_subject
from service.registry.ports import Reader


class RegistrySubjects:
    """service.history.dry_run.ports.Subjects over a registry of this process."""

    def __init__(self, registry: Registry, url: str = "") -> None:
        self._registry = registry
        self._url = url

    @property
    def url(self) -> str:
        return self._url

    def rehearse(self, subject: str, schema: str, pending: Sequence[str] = ()) -> Rehearsal:
        """As registering does (`registering.register`), in one read. Raises STORE_FAILED, STORE_TIMEOUT only."""
        registry = self._registry
        with registry.store.read() as tx:
            found = Rehearsal(registry.default_level)
            try:
                check_subject(subject)
                name, rules = config.settle(registry, tx, subject)
                own = tx.configs([name]).get(name, {})
                newest = tx.latest(name)
                found = Rehearsal(rules.level.name, _registered(newest) if newest else None, own_level=LEVEL in own)
                return self._answer(tx, name, schema, pending, rules, found)
            except RegistryError as error:
                if error.row.http >= 500:
                    raise
                return replace(found, refusal=error.code, messages=(error.detail,))

    def _answer(
        self, tx: Reader, name: str, schema: str, pending: Sequence[str], rules: config.InForce, found: Rehearsal
    ) -> Rehearsal:
        registry, new, wish = self._registry, NewSchema(text=schema), registering.Wish()
        known = registering.already(registry, tx, name, new, rules, wish)
        if known is not None:
            return replace(found, same=_registered(known.stored))
        parsed, content = registering.understood(registry, tx, name, new, rules, wish)
        latest = tx.latest(name)
        olds = tx.live(name) if rules.compares_many else [latest] if latest else []
        for text in pending:
            _, waiting = registering.understood(registry, tx, name, NewSchema(text=text), rules, wish)
            if waiting.identity == content.identity:
                return found
            olds.append(Stored(name, (olds[-1].version if olds else 0) + 1, 0, waiting, 0))
        changes = logical_changes(registry, tx, olds, parsed)
        problems = against(registry, tx, olds, parsed, content, rules)
        if registry.strict_logical_types and not problems:
            problems = refusal(changes, olds, rules)
        if problems:
            return replace(found, refusal="INCOMPATIBLE_SCHEMA", messages=tuple(problems))
        return replace(found, warnings=tuple(change.message() for change in changes))

    def newest(self, subject: str) -> Registered | None:
        with self._registry.store.read() as tx:
            found = tx.latest(config.target(tx, subject))
        return _registered(found) if found else None

    def containing(self, part: str) -> list[str]:
        part = part.lower()
        with self._registry.store.read() as tx:
            return [name for name, live in tx.subjects() if live and part in name.lower()]


def _registered(stored: Stored) -> Registered:
    return Registered(stored.subject, stored.version, stored.id, stored.content.text)
