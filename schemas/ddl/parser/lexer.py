"""SQL text → tokens, in the three ways that TiDB's DDL is written (upstream tidb `pkg/parser/lexer.go`).

wire   as TiCDC restores statements: a quote is written twice. A backslash is an ordinary character, but in the literals
       of expressions it is written twice (upstream `pkg/types/parser_driver/value_expr.go`): DEFAULT, a column's
       COMMENT, generated columns, CHECK, partition values. Elements of ENUM and SET and other comments are no
       expressions.
typed  as a person typed it, under a sql_mode.
show   as SHOW CREATE TABLE prints it: backslashes escape in defaults and comments. Within a column's parentheses they
       are as on the wire: ordinary in elements of ENUM and SET, written twice in expressions.

Executable comments (`/*!40101 … */`, `/*T! … */`, `/*T![feature] … */`) are read as what is in them; all others are
skipped.
"""

from __future__ import annotations

import re
from contextlib import suppress
from dataclasses import dataclass
from typing import Final, NamedTuple

from ticdc_bridge.schemas.model.errors import DdlError

MAX_LENGTH = 4 << 20
MAX_TOKENS = 250_000  # tables at the limits of TiDB (4,096 columns, 8,192 partitions) stay below

WORD, QUOTED, STRING, NUMBER, BITS, OP, END = range(7)

# Words that can't be a bare name where a name is optional or a clause could begin (upstream `pkg/parser/parser.y`,
# ReservedKeyword). A quoted name can be anything.
RESERVED: Final = frozenset("""
    ADD ALL ALTER ANALYZE AND ARRAY AS ASC BETWEEN BIGINT BINARY BLOB BOTH BY CASCADE CASE CHANGE CHAR CHARACTER CHECK
    COLLATE COLUMN CONSTRAINT CONTINUE CONVERT CREATE CROSS CUME_DIST CURRENT_DATE CURRENT_ROLE CURRENT_TIME
    CURRENT_TIMESTAMP CURRENT_USER CURSOR DATABASE DATABASES DAY_HOUR DAY_MICROSECOND DAY_MINUTE DAY_SECOND DECIMAL
    DEFAULT DELAYED DELETE DENSE_RANK DESC DESCRIBE DISTINCT DISTINCTROW DIV DOUBLE DROP DUAL ELSE ELSEIF ENCLOSED
    ESCAPED EXCEPT EXISTS EXIT EXPLAIN FALSE FETCH FIRST_VALUE FLOAT FLOAT4 FLOAT8 FOR FORCE FOREIGN FROM FULLTEXT
    GENERATED GRANT GROUP GROUPS HAVING HIGH_PRIORITY HOUR_MICROSECOND HOUR_MINUTE HOUR_SECOND IF IGNORE ILIKE IN INDEX
    INFILE INNER INOUT INSERT INT INT1 INT2 INT3 INT4 INT8 INTEGER INTERSECT INTERVAL INTO IS ITERATE JOIN KEY KEYS
    KILL LAG LAST_VALUE LEAD LEADING LEAVE LEFT LIKE LIMIT LINEAR LINES LOAD LOCALTIME LOCALTIMESTAMP LOCK LONG
    LONGBLOB LONGTEXT LOW_PRIORITY MATCH MAXVALUE MEDIUMBLOB MEDIUMINT MEDIUMTEXT MIDDLEINT MINUTE_MICROSECOND
    MINUTE_SECOND MOD NATURAL NO_WRITE_TO_BINLOG NOT NTH_VALUE NTILE NULL NUMERIC OF ON OPTIMIZE OPTION OPTIONALLY OR
    ORDER OUT OUTER OUTFILE OVER PARTITION PERCENT_RANK PRECISION PRIMARY PROCEDURE RANGE RANK READ REAL RECURSIVE
    REFERENCES REGEXP RELEASE RENAME REPEAT REPLACE REQUIRE RESTRICT REVOKE RIGHT RLIKE ROW ROW_NUMBER ROWS
    SECOND_MICROSECOND SELECT SET SHOW SMALLINT SPATIAL SQL SQLEXCEPTION SQLSTATE SQLWARNING SQL_BIG_RESULT
    SQL_CALC_FOUND_ROWS SQL_SMALL_RESULT SSL STARTING STATS_EXTENDED STORED STRAIGHT_JOIN TABLE TABLESAMPLE TERMINATED
    THEN TIDB_CURRENT_TSO TINYBLOB TINYINT TINYTEXT TO TRAILING TRIGGER TRUE UNION UNIQUE UNLOCK UNSIGNED UNTIL UPDATE
    USAGE USE USING UTC_DATE UTC_TIME UTC_TIMESTAMP VALUES VARBINARY VARCHAR VARCHARACTER VARYING VIRTUAL WHEN WHERE
    WHILE WINDOW WITH WRITE XOR YEAR_MONTH ZEROFILL
""".split())  # fmt: skip

# The modes that TiDB knows (upstream `pkg/parser/mysql/const.go`, Str2SQLMode).
SQL_MODES: Final = frozenset(
    """
    REAL_AS_FLOAT PIPES_AS_CONCAT ANSI_QUOTES IGNORE_SPACE NOT_USED ONLY_FULL_GROUP_BY NO_UNSIGNED_SUBTRACTION
    NO_DIR_IN_CREATE POSTGRESQL ORACLE MSSQL DB2 MAXDB NO_KEY_OPTIONS NO_TABLE_OPTIONS NO_FIELD_OPTIONS MYSQL323 MYSQL40
    ANSI NO_AUTO_VALUE_ON_ZERO NO_BACKSLASH_ESCAPES STRICT_TRANS_TABLES STRICT_ALL_TABLES NO_ZERO_IN_DATE NO_ZERO_DATE
    INVALID_DATES ERROR_FOR_DIVISION_BY_ZERO TRADITIONAL NO_AUTO_CREATE_USER HIGH_NOT_PRECEDENCE NO_ENGINE_SUBSTITUTION
    PAD_CHAR_TO_FULL_LENGTH ALLOW_INVALID_DATES
""".split()
)
# Modes that stand for several (the same, CombinationSQLMode).
ANSI_MODES: Final = frozenset(("ANSI", "DB2", "MAXDB", "MSSQL", "ORACLE", "POSTGRESQL"))


@dataclass(frozen=True, slots=True)
class LexicalMode:
    """A lexical mode. Only `of_sql_mode` depends on the session's sql_mode.

    restored: TiDB wrote the text, so where a backslash is no escape, expressions have it twice. shown: it is a SHOW
    CREATE TABLE, in which backslashes within a column's parentheses are no escapes.
    """

    backslashes: bool
    restored: bool = False
    ansi_quotes: bool = False
    shown: bool = False
    real_as_float: bool = False
    pipes_as_concat: bool = False
    high_not: bool = False

    @classmethod
    def of_sql_mode(cls, sql_mode: str = "") -> LexicalMode:
        """The mode of a sql_mode such as "ANSI_QUOTES,NO_BACKSLASH_ESCAPES"."""
        words = {word.strip().upper() for word in sql_mode.split(",")}
        ansi = bool(words & ANSI_MODES)
        return cls(
            backslashes="NO_BACKSLASH_ESCAPES" not in words,
            ansi_quotes=ansi or "ANSI_QUOTES" in words,
            real_as_float=bool(words & {"ANSI", "REAL_AS_FLOAT"}),
            pipes_as_concat=ansi or "PIPES_AS_CONCAT" in words,
            high_not=bool(words & {"HIGH_NOT_PRECEDENCE", "MYSQL323", "MYSQL40"}),
        )


def unknown_mode(sql_mode: str) -> str:
    """The first word of a sql_mode that TiDB does not know; "" where it knows all."""
    words = (word.strip() for word in sql_mode.split(","))
    return next((word for word in words if word and word.upper() not in SQL_MODES), "")


WIRE = LexicalMode(backslashes=False, restored=True)
TYPED = LexicalMode.of_sql_mode()
SHOW = LexicalMode(backslashes=True, restored=True, shown=True)


def mode_of(format_name: str) -> LexicalMode:
    """The lexical mode in which a wire format (a name of FORMATS) carries DDL."""
    # A MySQL connector sends statements as they were typed; TiCDC's formats send them restored.
    return TYPED if format_name == "debezium-mysql" else WIRE


class Token(NamedTuple):
    """kind; upper: the word or operator in upper case, "" for others; value: text, digits or bytes; where it is.

    doubled: a text in which an expression has each backslash twice.
    """

    kind: int
    upper: str
    value: str | bytes
    start: int
    end: int
    doubled: bool = False


_SPACE = r"[ \t\n\r\f\v\x00]+"
_TOKEN = re.compile(
    rf"""
      (?P<space>{_SPACE})
    | (?P<exec>/\*(?:!\d*|T!(?:\[[a-z_,]*\])?))
    | (?P<close>\*/)
    | (?P<comment>/\*.*?\*/ | --(?=[\s\x00]|\Z)[^\n]* | \#[^\n]*)
    | (?P<open>/\*)
    | (?P<bits>[xX]'(?P<xhex>[0-9a-fA-F]*)' | 0x(?P<hex>[0-9a-fA-F]+)(?![\w$])
        | [bB]'(?P<xbin>[01]*)' | 0b(?P<bin>[01]+)(?![\w$]))
    | (?P<number>(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?(?![\w$]))
    | (?P<word>[\w$]+)
    | (?P<quoted>`(?:[^`]|``)*`)
    | (?P<quote>['"])
    | (?P<op><=>|->>|->|<=|>=|<>|!=|:=|\|\||&&|<<|>>|[-+*/%=<>!~^&|(),.;:@?{{}}])
    """,
    re.VERBOSE | re.DOTALL,
)
_NATIONAL = re.compile(r"[nN](?=')")
_PLAIN = {quote: re.compile(rf"(?:[^{quote}]|{quote}{quote})*+{quote}") for quote in "'\""}
_ESCAPED = {quote: re.compile(rf"(?:[^{quote}\\]|{quote}{quote}|\\.)*+{quote}", re.DOTALL) for quote in "'\""}
_ESCAPE = {quote: re.compile(rf"\\(.)|{quote}{quote}", re.DOTALL) for quote in "'\""}
_ESCAPES = {"0": "\0", "b": "\b", "n": "\n", "r": "\r", "t": "\t", "Z": "\x1a", "%": "\\%", "_": "\\_"}


def position(text: str, at: int) -> tuple[int, int]:
    """Line and column of an offset, both from 1."""
    return text.count("\n", 0, at) + 1, at - text.rfind("\n", 0, at)


def syntax_error(text: str, at: int, details: str) -> DdlError:
    line, column = position(text, at)
    return DdlError("DDL_SYNTAX", line=line, column=column, details=details)


def describe_token(token: Token, text: str) -> str:
    """How an error names a token."""
    if token.kind == END:
        return "the end of the statement"
    lexeme = text[token.start : token.end]
    return repr(lexeme if len(lexeme) <= 40 else lexeme[:40] + "…")


def tokens(text: str, mode: LexicalMode) -> list[Token]:
    """All tokens, with END as the last. DdlError DDL_SYNTAX for what is no SQL, DDL_TOO_LONG beyond MAX_LENGTH."""
    return _Lexer(text, mode).run()


def readable_tokens(text: str, mode: LexicalMode) -> list[Token]:
    """The tokens before what is no SQL; all, with END as the last, where there is none such. DdlError DDL_TOO_LONG."""
    lexer = _Lexer(text, mode)
    with suppress(DdlError):
        lexer.run()
    return lexer.out


class _Lexer:
    def __init__(self, text: str, mode: LexicalMode) -> None:
        if len(text) > MAX_LENGTH:
            raise DdlError("DDL_TOO_LONG", length=len(text), limit=MAX_LENGTH)
        self.text = text
        self.mode = mode
        self.out: list[Token] = []
        self.executable = 0
        self.depth = 0

    def run(self) -> list[Token]:
        text, out, match, at, end = self.text, self.out, _TOKEN.match, 0, len(self.text)
        while at < end:
            lexeme = match(text, at)
            if lexeme is None:
                raise syntax_error(text, at, f"{text[at]!r} can't be here")
            group = lexeme.lastgroup
            if group == "word":
                word = lexeme[0]
                if word in ("n", "N") and _NATIONAL.match(text, at):
                    out.append(Token(WORD, "_UTF8", "_utf8", at, at + 1))
                    at = self._string(at + 1)
                else:
                    out.append(Token(WORD, word.upper(), word, at, lexeme.end()))
                    at = lexeme.end()
            elif group == "space" or group == "comment":
                at = lexeme.end()
            elif group == "op":
                at = self._operator(lexeme[0], at)
            elif group == "quoted":
                out.append(Token(QUOTED, "", lexeme[0][1:-1].replace("``", "`"), at, lexeme.end()))
                at = lexeme.end()
            elif group == "number":
                at = self._number(lexeme, at)
            else:
                at = self._rare_token(lexeme, at)
            if len(out) > MAX_TOKENS:
                raise syntax_error(text, at, f"the statement has more than {MAX_TOKENS} words and signs")
        if self.executable:
            raise syntax_error(text, end, "an executable comment is not closed: */ is missing")
        out.append(Token(END, "", "", end, end))
        return out

    def _operator(self, op: str, at: int) -> int:
        self.depth += (op == "(") - (op == ")")
        self.out.append(Token(OP, op, op, at, at + len(op)))
        return at + len(op)

    def _number(self, lexeme: re.Match[str], at: int) -> int:
        if lexeme[0][0] == "." and self.out and self.out[-1].kind in (WORD, QUOTED) and self.out[-1].end == at:
            return self._operator(".", at)  # `db`.1st: a name, no number
        if self.out and self.out[-1].upper == "." and lexeme[0].isdigit() and self.out[-1].end == at:
            self.out.append(Token(WORD, lexeme[0], lexeme[0], at, lexeme.end()))
        else:
            self.out.append(Token(NUMBER, "", lexeme[0], at, lexeme.end()))
        return lexeme.end()

    def _rare_token(self, lexeme: re.Match[str], at: int) -> int:
        text = self.text
        match lexeme.lastgroup:
            case "exec":
                self.executable += 1
            case "close" if self.executable:
                self.executable -= 1
            case "close":
                raise syntax_error(text, at, "*/ closes no comment")
            case "open":
                raise syntax_error(text, at, "a comment is not closed: */ is missing")
            case "quote":
                return self._string(at)
            case _:
                if len(lexeme["xhex"] or "") % 2:
                    raise DdlError("DDL_REFUSED", **syntax_error(text, at, "x'…' has an even number of digits").fields)
                self.out.append(Token(BITS, "", _bits(lexeme), at, lexeme.end()))
        return lexeme.end()

    def _string(self, at: int) -> int:
        quote = self.text[at]
        escaped = self.mode.backslashes and not (self.mode.shown and self.depth > 1)
        match = (_ESCAPED if escaped else _PLAIN)[quote].match(self.text, at + 1)
        if match is None:
            raise syntax_error(self.text, at, f"a text is not closed: {quote} is missing")
        body = match[0][:-1]
        if escaped and "\\" in body:
            body = _ESCAPE[quote].sub(lambda m: _ESCAPES.get(m[1], m[1]) if m[1] else quote, body)
        else:
            body = body.replace(quote * 2, quote)
        if quote == '"' and self.mode.ansi_quotes:
            self.out.append(Token(QUOTED, "", body, at, match.end()))
        else:
            self.out.append(Token(STRING, "", body, at, match.end(), self.mode.restored and not escaped))
        return match.end()


def _bits(lexeme: re.Match[str]) -> bytes:
    """x'…', 0x…, b'…' or 0b… as bytes, in as many as the digits need."""
    digits = lexeme["xhex"] if lexeme["xhex"] is not None else lexeme["hex"]
    if digits is not None:
        return bytes.fromhex(digits.rjust(len(digits) + len(digits) % 2, "0"))
    digits = lexeme["xbin"] if lexeme["xbin"] is not None else lexeme["bin"]
    return int(digits or "0", 2).to_bytes((len(digits) + 7) // 8, "big")
