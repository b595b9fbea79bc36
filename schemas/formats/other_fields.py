"""Fields of JSON messages that a format does not know yet: carried in `extra`, and written again by the same format.

TiCDC's formats grow (a transaction's start ts in Debezium and Simple): a message of a newer release stays readable.
"""

from collections.abc import Mapping
from typing import Any

from ticdc_bridge.schemas.codec import json_exact

EXTRA = "other_fields"


def other_fields(**pieces: tuple[Mapping[str, Any], frozenset[str]]) -> dict[str, Any]:
    """An entry of `extra`: by part of a message, the fields beside the names that are known; {} without any.

    ValueError for what no ordinary JSON can say again, such as a name that is not UTF-8.
    """
    found = {
        part: json_exact.python({name: value for name, value in body.items() if name not in names})
        for part, (body, names) in pieces.items()
        if not body.keys() <= names
    }
    return {EXTRA: found} if found else {}


def members_of(extra: Mapping[str, Any], field: str) -> dict[str, Any]:
    """The fields that `other_fields` found in a part."""
    return dict(extra.get(EXTRA, {}).get(field, {}))


def members_text(extra: Mapping[str, Any], field: str) -> str:
    """The fields that `other_fields` found in a part, as members of its JSON object, each after a comma."""
    pairs = members_of(extra, field).items()
    return "".join(f",{json_exact.compact_json(name)}:{json_exact.compact_json(value)}" for name, value in pairs)
