"""Where a setting stands, in words: the line to change."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Final

from ticdc_bridge.service.changefeed.setting_keys import BY_PATH, BY_URI, KEYS, Key

# Names of one word are words of plain sentences, too.
_NAMES: Final = {key.path.rpartition(".")[2]: key for key in KEYS if "-" in key.path.rpartition(".")[2]} | {
    key.uri: key for key in KEYS if "-" in key.uri
}
_NAME = re.compile(r"[a-z][\w-]*")


def line_of(key: Key, given: Mapping[str, str]) -> str:
    """given: settings by path → "sink-uri", "config", or in words where else they stand. A setting that is not given:
    where the file would have it."""
    place = given.get(key.path, "config")
    return {"sink-uri": line_in_uri(key.uri), "config": line_in_file(key.path)}.get(place, place)


def line_in_uri(name: str) -> str:
    return f"{name}=… of the sink URI"


def line_in_file(path: str) -> str:
    """path: of the setting; its member of a list of tables is `sink.dispatchers.2.topic`."""
    table, _, name = path.rpartition(".")
    parts = table.rpartition(".")
    if parts[2].isdecimal():
        return f"{name} = … in [[{parts[0]}]] number {parts[2]} of the file"
    return f"{name} = … under [{table}] of the file" if table else f"{name} = … at the top of the file"


def fix_of(names: Iterable[str], given: Mapping[str, str]) -> str:
    """What to change of settings that do not go together. names: of the URI, or paths."""
    keys = [BY_URI.get(name) or BY_PATH[name] for name in names]
    there = [line_of(key, given) for key in keys if key.path in given]
    missing = [line_in_file(key.path) for key in keys if key.path not in given]
    parts = [f"change {' and '.join(there)}" if there else "", f"add {' and '.join(missing)}" if missing else ""]
    text = ", or ".join(part for part in parts if part)
    return text[:1].upper() + text[1:]


def lines_named(text: str, given: Mapping[str, str]) -> list[str]:
    """Where the settings that a text names stand now, as far as they are given."""
    keys = [_NAMES[name] for name in _NAME.findall(text) if name in _NAMES]
    return [line_of(key, given) for key in dict.fromkeys(keys) if key.path in given]
