"""The texts of a Protobuf schema: canonical, normalized, and without extensions (`format=ignore_extensions`).

Order, blank lines and spaces are Confluent's (Wire's printer), byte for byte, for the text is hashed. Normalizing also
resolves every type, sorts by field number or name, and drops `syntax = "proto2"`.

Lines of a text that is being written, indented by two spaces, with a bound on the whole.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from itertools import chain
from typing import Final

from ticdc_bridge.service.schema_types.protobuf import model
from ticdc_bridge.service.schema_types.protobuf.options import OptionPrinter
from ticdc_bridge.service.schema_types.protobuf.scopes import DeclaredType, Scope

MAX_TEXT: Final = 32 * 1024 * 1024
"""Characters; full names in a deeply nested schema could make a text far longer than what was sent."""


class IndentedText:
    def __init__(self) -> None:
        self._lines: list[str] = []
        self._indent = ""
        self._size = 0

    def add(self, text: str) -> None:
        """A line, or several. Blank lines are indented as well, as Confluent does. Raises ValueError when too long."""
        words = text.rstrip("\n").split("\n") if "\n" in text else (text,)
        for line in words:
            self._size += len(self._indent) + len(line) + 1
            self._lines.append(self._indent + line)
        if self._size > MAX_TEXT:
            raise ValueError(f"the schema would be written in more than {MAX_TEXT} characters")

    @contextmanager
    def indent(self) -> Iterator[None]:
        before = self._indent
        self._indent += "  "
        yield
        self._indent = before

    def text(self) -> str:
        return "".join(f"{line}\n" for line in self._lines)


_MAX_INT = 2**31 - 1
_DEFAULT_KINDS = {"bool": model.BOOLEAN, "string": model.STRING} | dict.fromkeys(
    model.SCALARS - {"bool", "string"}, model.NUMBER
)


def text_of(file: model.File, *, scope: Scope | None = None, ignore_extensions: bool = False) -> str:
    """The text of a file; normalized when `scope` (the file's own) is given.

    Raises ValueError for a type that can't be resolved (normalized only), a map with an impossible key, or a text that
    would be too long.
    """
    printer = _Printer(scope, ignore_extensions)
    printer.file(file)
    return printer.lines.text()


def resolve_type(scope: Scope, name: str) -> DeclaredType:
    """Raises ValueError."""
    declaration = scope.type(name)
    if declaration is None:
        raise ValueError(f"Could not resolve type: {name}")
    return declaration


class _Printer:
    def __init__(self, scope: Scope | None, ignore_extensions: bool) -> None:
        self.lines = IndentedText()
        self.scope = scope
        self.ignore_extensions = ignore_extensions

    @property
    def options(self) -> OptionPrinter:
        return OptionPrinter(self.scope, self.ignore_extensions)

    def file(self, file: model.File) -> None:
        lines, normalize = self.lines, self.scope is not None
        if file.syntax is not None and (file.syntax == model.PROTO3 or not normalize):
            lines.add(f'syntax = "{file.syntax}";')
        if file.package is not None:
            lines.add(f"package {file.package};")
        if file.imports or file.public_imports:
            lines.add("")
            for paths, word in ((file.imports, "import"), (file.public_imports, "import public")):
                for path in sorted(set(paths)) if normalize else paths:
                    lines.add(f'{word} "{path}";')
        options = self.options.written_options(file.options)
        if options:
            lines.add("")
            self.option_lines(options)
        types = self.printed_types(file.types)
        if types:
            lines.add("")
            self.type_lines(types)
        if file.extends and not self.ignore_extensions:
            lines.add("")
            self.extend_lines(self.merge_extends(file.extends))
        if file.services:
            lines.add("")
            for service in file.services:
                self.service(service)

    def block(self, header: str, sections: Sequence[Callable[[], None] | None]) -> None:
        """`header { … }` with a blank line between the sections that are there; `header {}` without any."""
        present = [section for section in sections if section is not None]
        if not present:
            self.lines.add(header + " {}")
            return
        self.lines.add(header + " {")
        for index, section in enumerate(present):
            if index:
                self.lines.add("")
            with self.lines.indent():
                section()
        self.lines.add("}")

    def option_lines(self, options: Sequence[model.Option]) -> None:
        for option in options:
            self.lines.add(f"option {self.options.text(option)};")

    def option_section(self, options: Sequence[model.Option]) -> Callable[[], None] | None:
        printed_options = self.options.written_options(options)
        return (lambda: self.option_lines(printed_options)) if printed_options else None

    def printed_types(self, types: Sequence[model.Message | model.Enum]) -> list[model.Message | model.Enum]:
        return [type_ for type_ in types if self.scope is None or not model.is_map_entry(type_)]

    def type_lines(self, types: Sequence[model.Message | model.Enum]) -> None:
        """Messages first, then enums. The order of messages has a meaning for clients."""
        for message in types:
            if isinstance(message, model.Message):
                outside = self.scope
                self.scope = outside.enter(message.name) if outside else None
                self.message(message)
                self.scope = outside
        for enum in types:
            if isinstance(enum, model.Enum):
                self.enum(enum)

    def message(self, message: model.Message) -> None:
        types = self.printed_types(message.types)
        extends = () if self.ignore_extensions else self.merge_extends(message.extends)
        extensions = [] if self.ignore_extensions else message.extensions
        oneofs = message.oneofs
        if self.scope is not None:
            oneofs = sorted(
                (oneof for oneof in oneofs if oneof.fields), key=lambda entry: min(field.tag for field in entry.fields)
            )
        self.block(
            f"message {message.name}",
            [
                (lambda: self.ranges("reserved", message.reserved)) if message.reserved else None,
                self.option_section(message.options),
                (lambda: self.fields(message.fields)) if message.fields else None,
                # Confluent starts the section even when normalizing leaves no oneof to show.
                (lambda: self.oneofs(oneofs)) if message.oneofs else None,
                (lambda: self.groups(message.groups)) if message.groups else None,
                (lambda: self.ranges("extensions", extensions)) if extensions else None,
                (lambda: self.extend_lines(extends)) if extends else None,
                (lambda: self.type_lines(types)) if types else None,
            ],
        )

    def enum(self, enum: model.Enum) -> None:
        constants = enum.constants
        if self.scope is not None:
            constants = sorted(constants, key=lambda entry: (entry.tag, entry.name))

        def body() -> None:
            self.ranges("reserved", enum.reserved)
            self.option_lines(self.options.written_options(enum.options))
            for constant in constants:
                self.lines.add(f"{constant.name} = {constant.tag}{self.brackets(constant.options)};")

        self.block(f"enum {enum.name}", [body] if enum.reserved or enum.options or constants else [])

    def brackets(self, options: Sequence[model.Option]) -> str:
        printed_options = self.options.written_options(options)
        return f" {self.options.bracket_values(printed_options)}" if printed_options else ""

    def fields(self, fields: Sequence[model.Field]) -> None:
        for field in fields if self.scope is None else sorted(fields, key=lambda entry: entry.tag):
            self.field(field)

    def field(self, field: model.Field) -> None:
        label, type_ = field.label, field.type
        pieces = model.map_types(type_)
        if self.scope is not None:
            if pieces is None and type_ not in model.SCALARS:
                declaration = resolve_type(self.scope, type_)
                type_ = declaration.map_type() or f".{declaration.full_name}"
                pieces = model.map_types(type_)
            if pieces is not None:
                value = self.scope.type(pieces[1])
                type_ = f"map<{pieces[0]}, .{value.full_name}>" if value else type_
                label = None
        options = list(field.options)
        if field.default is not None:
            kind = model.ENUM if pieces else _DEFAULT_KINDS.get(type_, model.ENUM)
            options.append(model.Option("default", kind, field.default))
        if field.json_name is not None:
            options.append(model.Option("json_name", model.STRING, field.json_name))
        start = f"{label} " if label else ""
        self.lines.add(f"{start}{type_} {field.name} = {field.tag}{self.brackets(options)};")

    def oneofs(self, oneofs: Sequence[model.OneOf]) -> None:
        for oneof in oneofs:
            fields, groups = oneof.fields, oneof.groups
            inner = partial(self.fields, fields) if fields else None, partial(self.groups, groups) if groups else None
            self.block(f"oneof {oneof.name}", [self.option_section(oneof.options), *inner])

    def groups(self, groups: Sequence[model.Group]) -> None:
        for group in groups if self.scope is None else sorted(groups, key=lambda entry: entry.tag):
            label = f"{group.label} " if group.label else ""
            sections = [partial(self.fields, group.fields)] if group.fields else []
            self.block(f"{label}group {group.name} = {group.tag}", sections)

    def ranges(
        self, keyword: str, statements: Sequence[Sequence[int | model.Span] | Sequence[int | str | model.Span]]
    ) -> None:
        if self.scope is not None:  # a statement for every value: numbers by their start, then names
            statements = [(value,) for value in sorted(chain.from_iterable(statements), key=_range_order)]
        for values in statements:
            self.lines.add(f"{keyword} {', '.join(map(self.range_text, values))};")

    def range_text(self, value: int | str | model.Span) -> str:
        if isinstance(value, str):
            return f'"{value}"'
        if isinstance(value, int) or (self.scope is not None and value.first == value.last):
            return str(value if isinstance(value, int) else value.first)
        return f"{value.first} to {value.last if value.last < model.MAX_TAG else 'max'}"

    def merge_extends(self, extends: Sequence[model.Extend]) -> Sequence[model.Extend]:
        """Normalized: one `extend` for each message, by its full name."""
        if self.scope is None:
            return extends
        by_name: dict[str, list[model.Field]] = {}
        for extend in extends:
            for field in extend.fields:
                by_name.setdefault(f".{resolve_type(self.scope, extend.name).full_name}", []).append(field)
        return [model.Extend(name, fields) for name, fields in by_name.items()]

    def extend_lines(self, extends: Sequence[model.Extend]) -> None:
        for extend in extends:
            self.block(f"extend {extend.name}", [partial(self.fields, extend.fields)] if extend.fields else [])

    def service(self, service: model.Service) -> None:
        sections = [self.option_section(service.options), partial(self.rpcs, service.rpcs) if service.rpcs else None]
        self.block(f"service {service.name}", sections)

    def rpcs(self, rpcs: Sequence[model.Rpc]) -> None:
        for rpc in rpcs:
            request, response = rpc.request, rpc.response
            if self.scope is not None:
                request, response = (f".{resolve_type(self.scope, name).full_name}" for name in (request, response))
            sent = f"stream {request}" if rpc.request_stream else request
            returned = f"stream {response}" if rpc.response_stream else response
            header = f"rpc {rpc.name} ({sent}) returns ({returned})"
            options = self.options.written_options(rpc.options)
            if not options:
                self.lines.add(header + ";")
                continue
            self.lines.add(header + " {")
            with self.lines.indent():
                self.option_lines(options)
            self.lines.add("};")


def _range_order(value: int | str | model.Span) -> tuple[int, str]:
    if isinstance(value, str):
        return _MAX_INT, value
    return (value.first, f"{value.first}..{value.last}") if isinstance(value, model.Span) else (value, str(value))
