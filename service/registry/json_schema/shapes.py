"""Which values of a document are the same, whatever the order of their keys: equal values have equal numbers."""

from __future__ import annotations

from typing import Any

from service.registry.json_schema.text import Json, dump


class Shapes:
    """Numbers for the values of one document. Each list and object is looked at once."""

    def __init__(self) -> None:
        self._numbers: dict[Any, int] = {}
        self._known: dict[int, int] = {}
        self._kept: list[Json] = []  # so that no id() is given to another value

    def of(self, value: Json) -> int:
        """The number of a value."""
        waiting = [(value, False)]
        while waiting:
            item, ready = waiting.pop()
            if not isinstance(item, dict | list) or id(item) in self._known:
                continue
            if ready:
                self._known[id(item)] = self._number(item)
                self._kept.append(item)
            else:
                waiting.append((item, True))
                waiting += [(inner, False) for inner in (item.values() if isinstance(item, dict) else item)]
        return self._shape(value)

    def _shape(self, value: Json) -> int:
        if isinstance(value, dict | list):
            return self._known[id(value)]
        return self._numbered(dump(value))

    def _number(self, value: dict[str, Json] | list[Json]) -> int:
        if isinstance(value, dict):
            return self._numbered(frozenset((key, self._shape(item)) for key, item in value.items()))
        return self._numbered(tuple(self._shape(item) for item in value))

    def _numbered(self, key: Any) -> int:
        return self._numbers.setdefault(key, len(self._numbers))
