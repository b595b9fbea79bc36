"""Reading a `.proto` text word by word, with the places of errors as Confluent names them.

What is accepted follows the parser Confluent uses (Square's Wire, SyntaxReader and OptionReader): integers are decimal
or `0x` (a leading zero means nothing), words may hold dots and dashes, and nothing but the end of the line may follow a
`/* comment */` behind a declaration.
"""

import re
from typing import Final, NoReturn

from ticdc_bridge.service.schema_types.protobuf import model

MAX_DEPTH: Final = 50
"""Levels of nested messages, or of values inside an option."""

_SPACE = re.compile(r"(?:[ \t\r\n]++|//[^\n]*+\n?|/\*(?s:.*?)\*/)*+")
_WORD = re.compile(r"[A-Za-z0-9_.\-]+")
_SIMPLE_WORD = re.compile(r"[A-Za-z0-9_\-]+")
_PLAIN = {quote: re.compile(rf"[^{quote}\\]*+") for quote in "\"'"}
_ESCAPE = re.compile(r"[xX]([0-9a-fA-F]{1,2})|([0-7]{1,3})")
_TRAILING = re.compile(r"[ \t]*")
_REST_OF_LINE = re.compile(r"[ \t\r]*(?:\n|\Z)")
_INTEGER = re.compile(r"[+-]?[0-9]{1,10}")
_HEXADECIMAL = re.compile(r"0[xX]([+-]?[0-9a-fA-F]{1,8})")
_ESCAPES: Final = {"a": "\a", "b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v"}
_WORD_KINDS: Final = {"true": model.BOOLEAN, "false": model.BOOLEAN}
_INT = 2**31


class TokenReader:
    """A cursor in a text. Every method raises ValueError with the place and what was expected."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.pos = 0

    def position(self, pos: int | None = None) -> str:
        at = self.pos if pos is None else pos
        return f":{self.text.count(chr(10), 0, at) + 1}:{at - self.text.rfind(chr(10), 0, at)}"

    def fail(self, message: str, pos: int | None = None) -> NoReturn:
        raise ValueError(f"Syntax error in {self.position(pos)}: {message}")

    def skip(self) -> None:
        """Past white space and comments."""
        if self.text[self.pos : self.pos + 1] > "/":  # nearly always: neither of them begins so
            return
        match = _SPACE.match(self.text, self.pos)
        self.pos = match.end() if match else self.pos
        if self.text.startswith("/", self.pos):
            self.fail("unterminated comment" if self.text.startswith("/*", self.pos) else "unexpected '/'")

    def is_exhausted(self) -> bool:
        self.skip()
        return self.pos >= len(self.text)

    def peek(self) -> str:
        """The next character that counts, not consumed."""
        if self.is_exhausted():
            self.fail("unexpected end of file")
        return self.text[self.pos]

    def accept(self, char: str) -> bool:
        if self.peek() != char:
            return False
        self.pos += 1
        return True

    def take(self) -> str:
        char = self.peek()
        self.pos += 1
        return char

    def require(self, char: str) -> None:
        token = self.take()
        if token != char:
            self.fail(f"expected '{char}' but was '{token}'")

    def word(self, *, digit_first: bool = True, dots: bool = True) -> str:
        self.skip()
        match = (_WORD if dots else _SIMPLE_WORD).match(self.text, self.pos)
        if match is None:
            self.fail("expected a word")
        if not digit_first and match[0][0].isdigit():
            self.fail("field and constant names cannot start with a digit")
        self.pos = match.end()
        return match[0]

    def name(self, *, digit_first: bool = True, dots: bool = True) -> str:
        """A word, which may stand in parentheses or square brackets."""
        closing = {"(": ")", "[": "]"}.get(self.peek())
        if closing is None:
            return self.word(digit_first=digit_first, dots=dots)
        self.pos += 1
        word = self.word(digit_first=digit_first)
        if self.take() != closing:
            self.fail(f"expected '{closing}'")
        return word

    def integer(self) -> int:
        word = self.word()
        hexadecimal = _HEXADECIMAL.fullmatch(word)
        if hexadecimal:
            value = int(hexadecimal[1], 16)
        elif _INTEGER.fullmatch(word):
            value = int(word)
        else:
            value = _INT
        if not -_INT <= value < _INT:
            self.fail(f"expected an integer but was {word}")
        return value

    def data_type(self, word: str | None = None, depth: int = 0) -> str:
        """A type, or `map<key, value>`; space and comments may stand at dots. `word`: its first, if read already."""
        name = self.word() if word is None else word
        if name != "map":
            while name.endswith(".") or self.peek() == ".":
                name += self.word()
            return name
        if depth > MAX_DEPTH:
            self.fail(f"more than {MAX_DEPTH} nested maps")
        self.require("<")
        key = self.data_type(depth=depth + 1)
        self.require(",")
        value = self.data_type(depth=depth + 1)
        self.require(">")
        return f"map<{key}, {value}>"

    def quoted_string(self) -> str:
        """A quoted string; strings that follow one another are one."""
        quote = self.take()
        if quote not in "\"'":
            self.fail("expected a quoted string")
        pieces = []
        while True:
            plain = _PLAIN[quote].match(self.text, self.pos)
            assert plain is not None
            pieces.append(plain[0])
            self.pos = plain.end()
            if self.pos >= len(self.text):
                self.fail("unterminated string")
            self.pos += 1
            if self.text[self.pos - 1] == "\\":
                pieces.append(self.escape())
                continue
            if self.peek() not in "\"'":
                return "".join(pieces)
            quote = self.take()

    def escape(self) -> str:
        if self.pos >= len(self.text):
            self.fail("unexpected end of file")
        number = _ESCAPE.match(self.text, self.pos)
        if number:
            self.pos = number.end()
            return chr(int(number[1], 16) if number[1] else int(number[2], 8))
        char = self.text[self.pos]
        if char in "xX":
            self.fail("expected a digit after \\x or \\X")
        self.pos += 1
        return _ESCAPES.get(char, char)

    def end_declaration(self) -> None:
        """After the `;` of a field, constant or reserved: a comment here belongs to it and ends the line."""
        spaces = _TRAILING.match(self.text, self.pos)
        start = spaces.end() if spaces else self.pos
        if self.text.startswith("/*", start):
            end = self.text.find("*/", start + 2)
            if end < 0:
                self.fail("trailing comment must be closed", len(self.text))
            rest = _REST_OF_LINE.match(self.text, end + 2)
            if rest is None:
                after = _TRAILING.match(self.text, end + 2)
                self.fail("no syntax may follow trailing comment", after.end() + 1 if after else end + 3)
            self.pos = rest.end()
        elif self.text.startswith("/", start) and not self.text.startswith("//", start):
            self.fail("expected '//' or '/*'", start)

    def options(self) -> list[model.Option]:
        result: list[model.Option] = []
        if not self.accept("["):
            return result
        while True:
            result.append(self.option("="))
            if self.accept("]"):
                return result
            if not self.accept(","):
                self.fail("Expected ',' or ']'")

    def option(self, separator: str, depth: int = 0) -> model.Option:
        opening = self.peek()
        name = self.name()
        if opening == "[":
            name = f"[{name}]"
        names = []
        char = self.take()
        while char == ".":
            opened = self.peek() == "("
            names.append((self.name(dots=False), opened))
            char = self.take()
        if len(names) > MAX_DEPTH:
            self.fail(f"more than {MAX_DEPTH} parts in the name of an option")
        if separator == ":" and char == "{":
            self.pos -= 1  # in the text format the separator may be missing before a message
        elif char != separator:
            self.fail(f"expected '{separator}' in option")
        kind, value = self.value(depth)
        for piece, opened in reversed(names):
            kind, value = model.OPTION, model.Option(piece, kind, value, opened)
        return model.Option(name, kind, value, opening == "(")

    def value(self, depth: int) -> tuple[str, model.Value]:
        if depth > MAX_DEPTH:
            self.fail(f"more than {MAX_DEPTH} levels of values in an option")
        char = self.peek()
        if char == "{":
            return model.MAP, self.map_value(depth + 1)
        if char == "[":
            return model.LIST, self.list_value(depth + 1)
        if char in "\"'":
            return model.STRING, self.quoted_string()
        word = self.word()
        return (model.NUMBER if char.isdigit() or char == "-" else _WORD_KINDS.get(word, model.ENUM)), word

    def map_value(self, depth: int) -> dict[str, model.Value]:
        """`{name: value, …}`; values of one name are gathered in a list."""
        self.require("{")
        result: dict[str, model.Value] = {}
        while not self.accept("}"):
            option = self.option(":", depth)
            value = inner_value(option.kind, option.value)
            previous = result.get(option.name)
            if isinstance(value, model.Option):
                nested = result.setdefault(option.name, {})
                if not isinstance(nested, dict):
                    self.fail(f"{option.name} has a value and parts of its own")
                nested[value.name] = value.value
            elif previous is None:
                result[option.name] = value
            else:
                if not isinstance(previous, list):
                    previous = result[option.name] = [previous]
                previous.extend(value if isinstance(value, list) else [value])
            if not self.accept(","):
                self.accept(";")
        return result

    def list_value(self, depth: int) -> list[model.Value]:
        self.require("[")
        result: list[model.Value] = []
        while not self.accept("]"):
            result.append(inner_value(*self.value(depth)))
            if not self.accept(",") and self.peek() != "]":
                self.fail("expected ',' or ']'")
        return result


def inner_value(kind: str, value: model.Value) -> model.Value:
    """A value as it is kept inside a map or list, where its kind would be lost."""
    if kind in (model.NUMBER, model.BOOLEAN, model.ENUM) and isinstance(value, str):
        return model.Word(kind, value)
    return value
