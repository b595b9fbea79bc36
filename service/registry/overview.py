"""Subjects as lists show them: found by name, id or column, each with its versions and with the settings in force."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass

from ticdc_bridge.service.errors import RegistryError
from ticdc_bridge.service.registry import config, mode
from ticdc_bridge.service.registry.model import ListedVersion
from ticdc_bridge.service.registry.names import chain
from ticdc_bridge.service.registry.ports import StoreReader
from ticdc_bridge.service.registry.registry import Registry


@dataclass(frozen=True, slots=True)
class SubjectOverview:
    """versions: all, soft-deleted ones too, ascending; those of the subject that is meant, where this is an alias.

    level, mode: in force. own_level, own_mode: they come from the subject's own config, its own mode.
    """

    subject: str
    versions: list[ListedVersion]
    level: str
    own_level: bool
    mode: str
    own_mode: bool


def find_subjects(
    registry: Registry, *, name: str = "", schema_id: int | None = None, column: str = "", deleted: bool = False
) -> list[str]:
    """Subjects with `name` in their names, whatever its case, and a version with this id in any context, or a field
    `column` in their latest schema (parts of a name count too); `deleted` counts what is soft-deleted."""
    with registry.store.read() as tx:
        subjects = [one for one, live in tx.subjects() if (live or deleted) and name.casefold() in one.casefold()]
        if schema_id is not None:
            holders = {row.subject for row in tx.holders_of(None, [schema_id], deleted=deleted)}
        elif column:
            holders = _with_column(tx, column, deleted)
        else:
            return subjects
    return [one for one in subjects if one in holders]


def _with_column(tx: StoreReader, column: str, deleted: bool) -> set[str]:
    as_json = json.dumps(column, ensure_ascii=False)[1:-1]
    field = re.compile(r'"name"\s*:\s*"[^"]*' + re.escape(as_json), re.IGNORECASE)
    return {
        one.subject
        for one in tx.newest("", column if as_json == column else "", deleted=deleted)
        if (
            field.search(one.content.text)
            if one.content.kind == "AVRO"
            else column.casefold() in one.content.text.casefold()
        )
    }


def describe_subjects(registry: Registry, subjects: Sequence[str]) -> list[SubjectOverview]:
    """The rows that lists show of subjects that may be read."""
    scopes = list(dict.fromkeys(scope for subject in subjects for scope in chain(subject)))
    if not scopes:
        return []
    with registry.store.read() as tx:
        configs, modes = tx.configs(scopes), tx.modes(scopes)
        meant = {subject: _meant(subject, configs.get(subject, {})) for subject in subjects}
        versions: dict[str, list[ListedVersion]] = {}
        for row in tx.versions_of(list(meant.values())):
            versions.setdefault(row.subject, []).append(row)
    return [
        SubjectOverview(
            subject,
            versions.get(meant[subject], []),
            config.nearest_config(registry, subject, configs)[config.LEVEL],
            subject in configs,
            mode.nearest_mode(subject, modes),
            subject in modes,
        )
        for subject in subjects
    ]


def _meant(subject: str, own: config.Config) -> str:
    try:
        return config.resolve_alias(subject, own)
    except RegistryError:  # an alias that can be no subject has no versions
        return ""
