"""A reader over tokens: what the parser's functions have in common. Every refusal says where, what and what else."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import NoReturn, TypeVar

from ticdc_bridge.schemas.ddl.parser import lexer
from ticdc_bridge.schemas.ddl.parser.statements import TableName
from ticdc_bridge.schemas.model.errors import DdlError
from ticdc_bridge.schemas.model.table import require_text

T = TypeVar("T")

MAX_DEPTH = 60

# Character sets that may introduce a text, of TiDB and of MySQL.
CHARSETS = frozenset("""
    ARMSCII8 ASCII BIG5 BINARY CP1250 CP1251 CP1256 CP1257 CP850 CP852 CP866 CP932 DEC8 EUCJPMS EUCKR GB18030 GB2312 GBK
    GEOSTD8 GREEK HEBREW HP8 KEYBCS2 KOI8R KOI8U LATIN1 LATIN2 LATIN5 LATIN7 MACCE MACROMAN SJIS SWE7 TIS620 UCS2 UJIS
    UTF16 UTF16LE UTF32 UTF8 UTF8MB3 UTF8MB4
""".split())  # fmt: skip


class Cursor:
    """Tokens of one statement, read once from left to right. `upper` is the current word or operator, "" otherwise.

    qualified: names in the text of an expression keep their database and table, as TiDB has them in a DEFAULT.
    """

    __slots__ = ("_depth", "all", "at", "db", "mode", "qualified", "text", "token", "upper")

    def __init__(self, text: str, mode: lexer.LexicalMode, db: str = "") -> None:
        self.text = text
        self.mode = mode
        self.db = db
        self.qualified = False
        self.all = lexer.tokens(text, mode)
        self.at = 0
        self.token: lexer.Token = self.all[0]
        self.upper = self.token.upper
        self._depth = 0

    # ---- moving
    def advance(self) -> lexer.Token:
        """The current token, and on to the next."""
        token = self.token
        if token.kind != lexer.END:
            self.at += 1
            self.token = self.all[self.at]
            self.upper = self.token.upper
        return token

    def step_back(self) -> None:
        """To the token before."""
        self.at -= 1
        self.token = self.all[self.at]
        self.upper = self.token.upper

    def peek(self, count: int = 1) -> lexer.Token:
        return self.all[min(self.at + count, len(self.all) - 1)]

    def accept(self, *words: str) -> bool:
        """Reads these words if all of them come next."""
        if self.upper != words[0]:
            return False
        for number, word in enumerate(words[1:], 1):
            if self.peek(number).upper != word:
                return False
        for _ in words:
            self.advance()
        return True

    def accept_any(self, *words: str) -> str:
        """Reads one of these words and returns it, "" if none comes next."""
        return self.advance().upper if self.upper in words and self.upper else ""

    def expect(self, *words: str) -> None:
        for word in words:
            if self.upper != word:
                self.fail(word)
            self.advance()

    def fail(self, *expected: str) -> NoReturn:
        """DdlError at the current token."""
        choices = expected[0] if len(expected) == 1 else ", ".join(expected[:-1]) + " or " + expected[-1]
        actual = lexer.describe_token(self.token, self.text)
        raise lexer.syntax_error(self.text, self.token.start, f"{choices} is expected, not {actual}")

    def refuse(self, details: str) -> NoReturn:
        """DdlError DDL_REFUSED at the current token: this is read in full here, and TiDB does not take it."""
        raise DdlError("DDL_REFUSED", **lexer.syntax_error(self.text, self.token.start, details).fields)

    def end(self) -> None:
        """The statement must end here; one semicolon may stand before the end."""
        self.accept(";")
        if self.token.kind != lexer.END:
            self.fail("the end of the statement")

    @contextmanager
    def enter_level(self) -> Iterator[None]:
        """One level of nesting; DdlError beyond MAX_DEPTH."""
        self._depth += 1
        self.check_depth(self._depth)
        yield
        self._depth -= 1

    def check_depth(self, depth: int) -> None:
        """DdlError for what nests deeper than MAX_DEPTH by repetition."""
        if depth > MAX_DEPTH:
            raise lexer.syntax_error(self.text, self.token.start, f"nested deeper than {MAX_DEPTH} levels")

    # ---- leaves
    def is_name(self) -> bool:
        kind = self.token.kind
        return kind == lexer.QUOTED or (kind == lexer.WORD and self.upper not in lexer.RESERVED)

    def name(self, what: str = "a name") -> str:
        """A name, quoted or bare. After a dot reserved words are names too: `name_after_dot`."""
        if not self.is_name():
            self.fail(what)
        return require_text(self.advance().value)

    def name_after_dot(self, what: str) -> str:
        if self.token.kind not in (lexer.WORD, lexer.QUOTED):
            self.fail(what)
        return require_text(self.advance().value)

    def table(self) -> TableName:
        """db.table or table."""
        first = self.name("a table's name")
        return TableName(first, self.name_after_dot("a table's name")) if self.accept(".") else TableName("", first)

    def column(self) -> str:
        """A column; a table or database before it is read and left out."""
        name = self.name("a column's name")
        while self.accept("."):
            name = self.name_after_dot("a column's name")
        return name

    def string(self, what: str = "a text in quotes") -> str:
        """A text and nothing else: of an option, of an element."""
        if self.token.kind != lexer.STRING:
            self.fail(what)
        return str(self.advance().value)

    def is_introducer(self, count: int = 0) -> bool:
        """True if _utf8mb4 or the like stands there, before a text or bits."""
        token = self.peek(count)
        before = token.kind == lexer.WORD and token.upper[:1] == "_" and token.upper[1:] in CHARSETS
        return before and self.peek(count + 1).kind in (lexer.STRING, lexer.BITS)

    def literal(self, what: str = "a text in quotes") -> str:
        """A text that is an expression: of a DEFAULT, a generated column. Before it may stand an introducer; without
        one, texts side by side are one text."""
        at = self.at
        introduced = self.is_introducer()
        if introduced:
            self.advance()
        text = self.string(what)
        while self.token.kind == lexer.STRING and not introduced:
            text += self.string()
        return self._undoubled(text, at)

    def comment(self) -> str:
        """A column's comment: an expression of one text."""
        at = self.at
        return self._undoubled(self.string(), at)

    def _undoubled(self, text: str, start: int) -> str:
        return text.replace("\\\\", "\\") if any(token.doubled for token in self.all[start : self.at]) else text

    def integer(self, what: str = "a whole number") -> int:
        value = self.token.value
        if self.token.kind != lexer.NUMBER or not isinstance(value, str) or not value.isdecimal() or len(value) > 20:
            self.fail(what)
        self.advance()
        return int(value)

    def word_or_text(self, what: str) -> str:
        """A name or a text: character sets, policies."""
        if self.token.kind == lexer.STRING:
            return self.string()
        if self.token.kind not in (lexer.WORD, lexer.QUOTED):
            self.fail(what)
        return str(self.advance().value)

    def listed(self, reader: Callable[[Cursor], T]) -> list[T]:
        """One or more of what a reader reads, with commas between them."""
        found = [reader(self)]
        while self.accept(","):
            found.append(reader(self))
        return found

    def in_parentheses(self, reader: Callable[[Cursor], T]) -> T:
        self.expect("(")
        found = reader(self)
        self.expect(")")
        return found

    def list_in_parentheses(self, reader: Callable[[Cursor], T]) -> list[T]:
        return self.in_parentheses(lambda c: c.listed(reader))

    def attempt(self, reader: Callable[[Cursor], T]) -> T | None:
        """Returns what a reader reads; None where it fails, and then nothing is read."""
        at, depth = self.at, self._depth
        try:
            return reader(self)
        except DdlError:
            self.at, self._depth = at, depth
            self.token = self.all[at]
            self.upper = self.token.upper
            return None

    def skip_parentheses(self) -> None:
        """Reads a group in parentheses whatever is in it: only for what has no meaning here."""
        self.expect("(")
        depth = 1
        while depth:
            if self.token.kind == lexer.END:
                self.fail(")")
            upper = self.advance().upper
            depth += (upper == "(") - (upper == ")")

    def skip_expression(self, *ends: str) -> None:
        """Reads an expression whatever is in it: up to a comma or a closing parenthesis of its own level, or an end."""
        at = self.at
        while self.token.kind != lexer.END and self.upper not in (",", ")", ";", *ends):
            if self.upper == "(":
                self.skip_parentheses()
            else:
                self.advance()
        if self.at == at:
            self.fail("an expression")

    def rest(self) -> None:
        """Reads to the end of the statement: only for statements that change no table."""
        while self.token.kind != lexer.END and not (self.upper == ";" and self.peek().kind == lexer.END):
            self.advance()
        self.end()
