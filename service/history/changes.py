"""What a DDL changed of a table, from one version to the next: columns, their order, keys and options, in words."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from schemas.ddl.executor.show_create import key_texts, option_text
from schemas.model.table import Table
from service.history.table_json import table_form

Change = tuple[Literal["gone", "new", "changed"], str]


@dataclass(frozen=True, slots=True)
class _Lines:
    """Columns and keys by name, each as a line of text; options after the brackets."""

    columns: Mapping[str, str]
    keys: Mapping[str, str]
    options: str


def changes(before: Table | None, now: Table | None) -> list[Change]:
    """Each difference; nothing for the first version that is known, and where there is no table."""
    if before is None or now is None:
        return []
    was, is_ = _lines(before), _lines(now)
    renamed = _find_renames(list(was.columns.items()), list(is_.columns.items()))
    old = {renamed.get(name, name): text for name, text in was.columns.items()}
    differences: list[Change] = [("changed", f"{name} is now called {other}") for name, other in renamed.items()]
    differences += _compare(old, is_.columns)
    if [name for name in old if name in is_.columns] != [name for name in is_.columns if name in old]:
        differences.append(("changed", f"the order of the columns: {', '.join(is_.columns)}"))
    differences += _compare(was.keys, is_.keys)
    if was.options != is_.options:
        differences.append(("changed", f"{was.options} → {is_.options}"))
    return differences


def _lines(table: Table) -> _Lines:
    columns = {one["name"]: _column(one) for one in table_form(table)["columns"]}
    return _Lines(columns, key_texts(table), option_text(table))


def _column(one: Mapping[str, Any]) -> str:
    words = [str(one["type"])]
    if one["generated"]:
        words.append(f"AS ({one['generated']}) {'STORED' if one['stored'] else 'VIRTUAL'}")
    words.append("NULL" if one["nullable"] else "NOT NULL")
    if one["default"] is not None:
        words.append(f"DEFAULT {one['default']}")
    if one["auto_increment"]:
        words.append("AUTO_INCREMENT")
    if one["collate"] not in (None, "", "binary"):
        words.append(f"COLLATE {one['collate']}")
    if one["comment"]:
        words.append(f"COMMENT {one['comment']}")
    return " ".join(words)


def _find_renames(before: list[tuple[str, str]], now: list[tuple[str, str]]) -> dict[str, str]:
    """Columns that have another name and are the same otherwise, in the same place of as many columns."""
    if len(before) != len(now):
        return {}
    names, others = {name for name, _ in before}, {name for name, _ in now}
    return {
        name: other
        for (name, text), (other, as_now) in zip(before, now, strict=True)
        if text == as_now and name not in others and other not in names
    }


def _compare(before: Mapping[str, str], now: Mapping[str, str]) -> list[Change]:
    gone: list[Change] = [("gone", f"{name} {text}") for name, text in before.items() if name not in now]
    new: list[Change] = [("new", f"{name} {text}") for name, text in now.items() if name not in before]
    changed: list[Change] = [
        ("changed", f"{name}: {before[name]} → {text}") for name, text in now.items() if before.get(name, text) != text
    ]
    return [*gone, *new, *changed]
