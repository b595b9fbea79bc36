"""Options as text, and which of them are written: Confluent's rules (its FormatContext).

Normalizing gives custom options their full names, turns `(a).b = 1` into `(a) = {b: 1}`, merges what belongs to one
option, sorts by name and writes numbers the way Java's DecimalFormat does, to three decimals.
"""

from collections.abc import Hashable, Sequence
from typing import Final

from ticdc_bridge.service.schema_types.java_text import java_number
from ticdc_bridge.service.schema_types.protobuf import model
from ticdc_bridge.service.schema_types.protobuf.scopes import Scope

_ESCAPES: Final = str.maketrans(
    {
        "\a": "\\a", "\b": "\\b", "\f": "\\f", "\n": "\\n", "\r": "\\r", "\t": "\\t", "\v": "\\v", "\\": "\\\\",
        "'": "\\'", '"': '\\"',
    }
)  # fmt: skip


class OptionPrinter:
    """How options are written in a scope; normalized when there is one."""

    __slots__ = ("_ignore_extensions", "_scope")

    def __init__(self, scope: Scope | None, ignore_extensions: bool) -> None:
        self._scope = scope
        self._ignore_extensions = ignore_extensions

    def written_options(self, options: Sequence[model.Option]) -> list[model.Option]:
        printable = list(options)
        if self._ignore_extensions:
            printable = [entry for entry in printable if not entry.parenthesized or entry.name.startswith("confluent.")]
        if self._scope is None or not printable:
            return printable
        by_name: dict[str, list[model.Option]] = {}
        for option in sorted(map(self._with_full_name, printable), key=lambda entry: entry.name):
            by_name.setdefault(option.name, []).append(option)
        result = []
        for name, same in by_name.items():
            extension = self._scope.extension(f".{name}")
            if extension is not None and extension[1].label != "repeated":
                same = [merge_options(same)]
            result += same
        return result

    def _with_full_name(self, option: model.Option) -> model.Option:
        extension = self._scope.extension(option.name) if self._scope and option.parenthesized else None
        return as_map(model.Option(extension[0], option.kind, option.value, True)) if extension else option

    def text(self, option: model.Option) -> str:
        name = f"({option.name})" if option.parenthesized else option.name
        value = option.value
        match option.kind, value:
            case ("string", str()) | ("map", dict()):
                return f"{name} = {self._value(value)}"
            case "number", str():
                return f"{name} = {self._number(value)}"
            case "option", model.Option():
                return f"{name}.{self.text(value)}"
            case "list", list():
                return f"{name} = {self.bracket_values(value)}"
        return f"{name} = {value}"

    def bracket_values(self, values: Sequence[model.Value]) -> str:
        """One value in brackets; several on lines of their own."""
        if len(values) == 1:
            return f"[{self._value(values[0])}]"
        return "[\n" + self._indent_values(list(map(self._value, values))) + "]"

    def _value(self, value: model.Value) -> str:
        match value:
            case str():
                return f'"{value.translate(_ESCAPES)}"'
            case model.Word():
                return self._number(value.text) if value.kind == model.NUMBER else value.text
            case model.Option():
                return self.text(value)
            case dict():
                entries = self._entries(value) if self._scope else value
                texts = [f"{key}: {self._value(entry)}" for key, entry in entries.items()]
                return "{\n" + self._indent_values(texts) + "}"
        if self._scope and len(value) == 1:
            return self._value(value[0])
        return "[\n" + self._indent_values(list(map(self._value, value))) + "]"

    def _entries(self, value: dict[str, model.Value]) -> dict[str, model.Value]:
        """Sorted by name, extensions by their full names, without empty lists."""
        entries: dict[str, model.Value] = {}
        for key, entry in value.items():
            if isinstance(entry, list) and not entry:
                continue
            extension = self._scope.extension(key[1:-1]) if self._scope and key.startswith("[") else None
            entries.setdefault(f"[{extension[0]}]" if extension else key, entry)
        return dict(sorted(entries.items()))

    def _indent_values(self, values: list[str]) -> str:
        """Each value on lines of its own, all but the last followed by a comma."""
        texts = [f"{value}," for value in values[:-1]] + values[-1:]
        return "".join(f"  {line}\n" for text in texts for line in text.split("\n"))

    def _number(self, text: str) -> str:
        return text if self._scope is None else java_number(text)


def as_map(option: model.Option) -> model.Option:
    """`(a).b.c = 1` as `(a) = {b: {c: 1}}`."""
    if option.kind != model.OPTION or not isinstance(option.value, model.Option):
        return option
    return model.Option(option.name, model.MAP, fields_as_map(option.value), option.parenthesized)


def fields_as_map(option: model.Option) -> dict[str, model.Value]:
    value = option.value
    if option.kind in (model.BOOLEAN, model.ENUM, model.NUMBER) and isinstance(value, str):
        value = model.Word(option.kind, value)
    elif option.kind == model.OPTION and isinstance(value, model.Option):
        value = fields_as_map(value)
    return {option.name: value}


def merge_options(options: Sequence[model.Option]) -> model.Option:
    """Several settings of one option as one: maps are joined, of anything else the last counts."""
    result, gathered = options[0], dict[str, list[model.Value]]()
    for option in map(as_map, options):
        if option.kind != model.MAP or not isinstance(option.value, dict):
            gathered = {}
        else:
            for key, value in option.value.items():
                gathered.setdefault(key, []).append(value)
        result = option
    if not gathered:
        return result
    joined = {key: values[0] if len(values) == 1 else unique_values(values) for key, values in gathered.items()}
    return model.Option(result.name, model.MAP, joined, result.parenthesized)


def unique_values(values: Sequence[model.Value]) -> list[model.Value]:
    """All values, lists written out, each once."""
    flat = [item for value in values for item in (value if isinstance(value, list) else [value])]
    first: dict[Hashable, model.Value] = {}
    for entry in flat:
        first.setdefault(to_hashable(entry), entry)
    return list(first.values())


def to_hashable(value: model.Value) -> Hashable:
    match value:
        case dict():
            return model.MAP, frozenset((key, to_hashable(entry)) for key, entry in value.items())
        case list():
            return model.LIST, tuple(map(to_hashable, value))
        case model.Option():
            return model.OPTION, value.name, value.kind, value.parenthesized, to_hashable(value.value)
        case model.Word():
            return value
    return model.STRING, value
