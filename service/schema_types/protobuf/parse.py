"""From a `.proto` text to a File, accepting what Confluent's registry accepts.

Grammar and order of the checks: Wire's ProtoParser, as seen in the captures. Editions are refused there, and so here.
What Confluent loses we lose too: comments, and weak imports.
"""

from collections.abc import Callable, Iterator
from typing import Final, TypeVar

from ticdc_bridge.service.schema_types.protobuf import model
from ticdc_bridge.service.schema_types.protobuf.tokens import MAX_DEPTH, TokenReader

T = TypeVar("T")
MAX_PACKAGE_NAMES: Final = 100


def parse(text: str) -> model.File:
    """The declarations of a text. Raises ValueError with the place and the reason."""
    return _Parser(text).file()


class _Parser(TokenReader):
    def __init__(self, text: str) -> None:
        super().__init__(text)
        self.result = model.File()
        self.starts: dict[tuple[str, str], int] = {}
        self.depth = 0

    def file(self) -> model.File:
        first = True
        while not self.is_exhausted():
            if not self.accept(";"):
                self.declaration(first)
            first = False
        return self.result

    def declaration(self, first: bool) -> None:
        start = self.pos
        word = self.word()
        result = self.result
        match word:
            case "package":
                result.package = self.name()
                if result.package.count(".") >= MAX_PACKAGE_NAMES:
                    self.fail(f"more than {MAX_PACKAGE_NAMES} parts in the package", start)
                self.require(";")
            case "import":
                self.import_(start)
            case "syntax":
                self.syntax(start, first)
            case "option":
                result.options.append(self.option_declaration())
            case "reserved":
                self.reserved(start)
            case "message" | "enum":
                type_ = self.message() if word == "message" else self.enum()
                self.define_once("type", type_.name, start)
                result.types.append(type_)
            case "service":
                service = self.service()
                self.define_once("service", service.name, start)
                result.services.append(service)
            case "extend":
                result.extends.append(self.extend())
            case "edition":
                self.fail("edition is not currently supported")
            case _:
                self.fail(f"unexpected label: {word}", start)

    def define_once(self, kind: str, name: str, start: int) -> None:
        before = self.starts.setdefault((kind, name), start)
        if before != start:
            raise ValueError(f"{name} ({self.position(start)}) is already defined at {self.position(before)}")

    def import_(self, start: int) -> None:
        target: list[str] | None = self.result.imports
        if self.peek() not in "\"'":
            word = self.word()
            if word not in ("public", "weak"):
                self.fail("expected quoted string", start)
            target = self.result.public_imports if word == "public" else None
        path = unix_path(self.quoted_string())
        if target is not None:
            target.append(path)
        self.require(";")

    def syntax(self, start: int, first: bool) -> None:
        if self.result.syntax is not None:
            self.fail("too many syntax definitions", start)
        self.require("=")
        if not first:
            self.fail("'syntax' element must be the first declaration in a file", start)
        syntax = self.quoted_string()
        if syntax not in (model.PROTO2, model.PROTO3):
            self.fail(f"unexpected syntax: {syntax}", start)
        self.result.syntax = syntax
        self.require(";")

    def option_declaration(self) -> model.Option:
        option = self.option("=")
        self.require(";")
        return option

    def open(self) -> str:
        name = self.name()
        self.require("{")
        return name

    def statements(
        self, options: list[model.Option], reserved: list[model.Reserved], *, digit_first: bool = True
    ) -> Iterator[tuple[int, str]]:
        """Each statement up to the closing `}`: where it starts, and its first word, which is read.

        options, reserved: get those that are an option or reserve something, and are not given out.
        """
        while not self.accept("}"):
            if self.accept(";"):
                continue
            start, word = self.pos, self.word(digit_first=digit_first)
            if word == "option":
                options.append(self.option_declaration())
            elif word == "reserved":
                reserved.append(self.reserved(start))
            else:
                yield start, word

    def message(self) -> model.Message:
        self.depth += 1
        if self.depth > MAX_DEPTH:
            self.fail(f"more than {MAX_DEPTH} levels of messages")
        result = model.Message(self.open())
        into: dict[str, Callable[[], None]] = {
            "message": lambda: result.types.append(self.message()),
            "enum": lambda: result.types.append(self.enum()),
            "extend": lambda: result.extends.append(self.extend()),
            "oneof": lambda: result.oneofs.append(self.oneof()),
            "extensions": lambda: result.extensions.append(self.extensions()),
        }
        for start, word in self.statements(result.options, result.reserved):
            if word in into:
                into[word]()
            else:
                field = self.field(start, word)
                (result.groups if isinstance(field, model.Group) else result.fields).append(field)  # type: ignore[arg-type]
        self.depth -= 1
        return result

    def extend(self) -> model.Extend:
        result = model.Extend(self.open())
        for start, word in self.statements([], []):
            field = self.field(start, word)
            if isinstance(field, model.Field):
                result.fields.append(field)
        return result

    def enum(self) -> model.Enum:
        result = model.Enum(self.open())
        for _, word in self.statements(result.options, result.reserved, digit_first=False):
            self.require("=")
            tag = self.integer()
            options = tuple(self.options())
            self.require(";")
            self.end_declaration()
            result.constants.append(model.Constant(word, tag, options))
        return result

    def field(self, start: int, word: str) -> model.Field | model.Group:
        if word in ("optional", "required", "repeated"):
            if word == "required" and self.result.syntax == model.PROTO3:
                self.fail("'required' label forbidden in proto3 field declarations", start)
            label: str | None = word
            type_ = self.data_type()
        else:
            if self.result.syntax != model.PROTO3 and not (word == "map" and self.peek() == "<"):
                self.fail(f"unexpected label: {word}", start)
            label, type_ = None, self.data_type(word)
        if type_.startswith("map<") and label is not None:
            self.fail("'map' type cannot have label", start)
        return self.group(label) if type_ == "group" else self.rest_of_field(label, type_)

    def rest_of_field(self, label: str | None, type_: str) -> model.Field:
        name = self.name(digit_first=False)
        self.require("=")
        tag = self.integer()
        options = self.options()
        special: dict[str, str | None] = {"default": None, "json_name": None}
        for option in options:
            if option.name in special:
                special[option.name] = self.plain_value(option)
        other_options = tuple(option for option in options if option.name not in special)
        self.require(";")
        self.end_declaration()
        return model.Field(label, type_, name, tag, special["default"], special["json_name"], other_options)

    def plain_value(self, option: model.Option) -> str:
        value = option.value.text if isinstance(option.value, model.Word) else option.value
        if not isinstance(value, str):
            self.fail(f"{option.name} must be a single value")
        return value

    def group(self, label: str | None) -> model.Group:
        name = self.word()
        self.require("=")
        result = model.Group(label, name, self.integer())
        self.require("{")
        while not self.accept("}"):
            start = self.pos
            self.depth += 1
            if self.depth > MAX_DEPTH:
                self.fail(f"more than {MAX_DEPTH} levels of groups")
            field = self.field(start, self.word())
            self.depth -= 1
            if isinstance(field, model.Group):
                self.fail(f"expected field declaration, was group {field.name}")
            result.fields.append(field)
        return result

    def oneof(self) -> model.OneOf:
        result = model.OneOf(self.open())
        while not self.accept("}"):
            word = self.word()
            if word == "group":
                result.groups.append(self.group(None))
            elif word == "option":
                result.options.append(self.option_declaration())
            else:
                result.fields.append(self.rest_of_field(None, self.data_type(word)))
        return result

    def listed(self, read: Callable[[], T]) -> tuple[T, ...]:
        values = [read()]
        while self.accept(","):
            values.append(read())
        return tuple(values)

    def number_or_span(self, start: int, separators: str) -> int | model.Span:
        first = self.integer()
        if self.peek() in separators:
            return first
        if self.word() != "to":
            self.fail("expected ',', ';', or 'to'", start)
        if self.peek() == "m":
            if self.word() != "max":
                self.fail("expected an integer or 'max'")
            return model.Span(first, model.MAX_TAG)
        return model.Span(first, self.integer())

    def reserved(self, start: int) -> model.Reserved:
        values = self.listed(lambda: self.quoted_string() if self.peek() in "\"'" else self.number_or_span(start, ",;"))
        self.require(";")
        self.end_declaration()
        return values

    def extensions(self) -> model.Extensions:
        values = self.listed(lambda: self.number_or_span(self.pos, ",;["))
        self.options()
        self.require(";")
        return values

    def service(self) -> model.Service:
        result = model.Service(self.open())
        for start, word in self.statements(result.options, []):
            if word != "rpc":
                self.fail(f"unexpected label: {word}", start)
            result.rpcs.append(self.rpc(start))
        return result

    def rpc(self, start: int) -> model.Rpc:
        name = self.name()
        request, request_stream = self.rpc_type()
        if self.word() != "returns":
            self.fail("expected 'returns'", start)
        response, response_stream = self.rpc_type()
        result = model.Rpc(name, request, response, request_stream, response_stream)
        if not self.accept("{"):
            self.require(";")
            return result
        for start, word in self.statements(result.options, []):
            self.fail(f"unexpected label: {word}", start)
        return result

    def rpc_type(self) -> tuple[str, bool]:
        self.require("(")
        word = self.word()
        stream = word == "stream"
        type_ = self.data_type(None if stream else word)
        self.require(")")
        return type_, stream


def unix_path(path: str) -> str:
    """An import path with `/` only, without empty and `.` parts."""
    path = path.replace("\\", "/")
    segments = [word for word in path.split("/") if word not in ("", ".")]
    return ("/" if path.startswith("/") else "") + "/".join(segments) or "."
