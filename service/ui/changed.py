"""What a DDL changed of a table: columns, their order, keys, and the table's own options."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

_LINE: Final = re.compile(r"  (?!`)(.+?),?")
_KEY: Final = re.compile(r"(PRIMARY KEY|(?:UNIQUE |FULLTEXT |SPATIAL )?KEY `(?:[^`]|``)+`)(.*)")
_END: Final = ") "


@dataclass(frozen=True, slots=True)
class Look:
    """A table version for comparison: columns and keys by name, each as a line of text; options after the brackets."""

    columns: Mapping[str, str]
    keys: Mapping[str, str]
    options: str


def look(answer: Mapping[str, Any]) -> Look | None:
    """Of an answer of /history/{db}/{table}/at/…; None where the columns are not known."""
    table, text = answer.get("table"), answer.get("show_create")
    if not table:
        return None
    lines = text.split("\n") if isinstance(text, str) else []
    found = (_KEY.fullmatch(match[1]) for line in lines if (match := _LINE.fullmatch(line)))
    options = lines[-1].removeprefix(_END) if lines and lines[-1].startswith(_END) else ""
    return Look(
        {one["name"]: _column(one) for one in table["columns"]},
        {match[1]: match[2].strip() for match in found if match},
        options,
    )


def _column(one: Mapping[str, Any]) -> str:
    words = [str(one["type"])]
    if one.get("generated"):
        words.append(f"AS ({one['generated']}) {'STORED' if one.get('stored') else 'VIRTUAL'}")
    words.append("NULL" if one["nullable"] else "NOT NULL")
    if one["default"] is not None:
        words.append(f"DEFAULT {one['default']}")
    if one.get("auto_increment"):
        words.append("AUTO_INCREMENT")
    if one.get("collate") not in (None, "", "binary"):
        words.append(f"COLLATE {one['collate']}")
    if one.get("comment"):
        words.append(f"COMMENT {one['comment']}")
    return " ".join(words)


def changes(before: Look | None, now: Look | None) -> list[tuple[str, str]]:
    """(kind, text) of each difference, kind one of gone, new, changed; nothing for the first version that is known."""
    if before is None or now is None:
        return []
    renamed = _renamed(list(before.columns.items()), list(now.columns.items()))
    old = {renamed.get(name, name): text for name, text in before.columns.items()}
    found = [("changed", f"{name} is now called {other}") for name, other in renamed.items()]
    found += _compared(old, now.columns)
    stayed = [name for name in old if name in now.columns]
    if stayed != [name for name in now.columns if name in old]:
        found.append(("changed", f"the order of the columns: {', '.join(now.columns)}"))
    found += _compared(before.keys, now.keys)
    if before.options != now.options:
        found.append(("changed", f"{before.options} → {now.options}"))
    return found


def _renamed(before: list[tuple[str, str]], now: list[tuple[str, str]]) -> dict[str, str]:
    """Columns that have another name and are the same otherwise, in the same place of as many columns."""
    if len(before) != len(now):
        return {}
    names, others = {name for name, _ in before}, {name for name, _ in now}
    return {
        name: other
        for (name, text), (other, as_now) in zip(before, now, strict=True)
        if text == as_now and name not in others and other not in names
    }


def _compared(before: Mapping[str, str], now: Mapping[str, str]) -> list[tuple[str, str]]:
    gone = [("gone", f"{name} {text}") for name, text in before.items() if name not in now]
    new = [("new", f"{name} {text}") for name, text in now.items() if name not in before]
    changed = [
        ("changed", f"{name}: {before[name]} → {text}") for name, text in now.items() if before.get(name, text) != text
    ]
    return [*gone, *new, *changed]
