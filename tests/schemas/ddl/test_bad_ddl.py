"""Damaged DDL: only DdlError, with line and column, in bounded time; and Names against a dict."""

import random
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.ddl_histories import texts
from tests.support.each import each
from tests.support.fuzz import amounts
from ticdc_bridge.schemas.ddl.executor.apply import apply
from ticdc_bridge.schemas.ddl.executor.catalog import Names, new_catalog
from ticdc_bridge.schemas.ddl.parser.lexer import MAX_LENGTH, SHOW, TYPED, WIRE, LexicalMode
from ticdc_bridge.schemas.ddl.parser.statement_parser import parse
from ticdc_bridge.schemas.ddl.parser.statements import Statement
from ticdc_bridge.schemas.model.errors import DdlError

MODES = (WIRE, TYPED, SHOW, LexicalMode.of_sql_mode("ANSI"))
_PLACE = re.compile(r"line [1-9]\d*, column [1-9]\d*: ")
_PIECES = (
    "'", '"', "`", "\\", "(", ")", ",", ";", "/*", "*/", "/*!", "/*T![ttl] ", "--", " -- ", "#", "\0", "\n", "é", "𝛑",
    "0x", "b'", "x'0", "_utf8mb4", "DEFAULT", "NOT", "INT", "9" * 400, "1e999", "-", "AS (", "AFTER", "\ud800", ".",
)  # fmt: skip


def attempt(text: str, mode: LexicalMode) -> Statement | None:
    """The statement, or None where it is refused as it should be."""
    try:
        return parse(text, mode, "test")
    except DdlError as error:
        if error.code != "DDL_TOO_LONG" and not _PLACE.match(error.detail):
            raise AssertionError(f"no place in {error.detail!r}") from error
        return None


@pytest.mark.parametrize("step", [5, pytest.param(1, marks=pytest.mark.slow)])
def test_prefixes_are_read_or_refused(step: int) -> None:
    """Of each statement of the histories up to 300 characters every third prefix, of longer ones each twentieth.

    By default a fifth of those.
    """
    tried = 0
    for text in texts():
        for end in range(0, len(text), step * (3 if len(text) <= 300 else 20)):
            attempt(text[:end], MODES[end % 4])
            tried += 1
    assert tried > 50_000 // step


@pytest.mark.parametrize("mutations", amounts(2_000, 20_000))
def test_mutations_are_read_or_refused(mutations: int) -> None:
    chance = random.Random(20)
    corpus = texts()
    read = 0
    for _ in range(mutations):
        text = mutated(chance.choice(corpus), corpus, chance)
        statement = attempt(text, chance.choice(MODES))
        if statement is None:
            continue
        read += 1
        try:
            apply(new_catalog(), statement, "test")
        except DdlError as error:
            if error.code not in ("DDL_NOT_APPLICABLE", "DDL_UNKNOWN_TABLE"):
                raise
    assert 0 < read < mutations


def mutated(text: str, corpus: list[str], chance: random.Random) -> str:
    for _ in range(chance.randint(1, 4)):
        at, to = sorted(chance.randint(0, len(text)) for _ in range(2))
        match chance.randint(0, 4):
            case 0:
                text = text[:at] + text[min(to, at + 12) :]
            case 1:
                text = text[:at] + chance.choice(_PIECES) + text[at:]
            case 2:
                text = text[:at] + text[at : at + 30] * 2 + text[at + 30 :]
            case 3:
                other = chance.choice(corpus)
                text = text[:at] + other[chance.randint(0, len(other)) :][:60] + text[at:]
            case _:
                text = text[:at] + chr(chance.randint(1, 0x2FFF)) + text[at + 1 :]
    return text


SIZES = [(TYPED, 20_000), *(pytest.param(mode, 100_000, marks=pytest.mark.slow) for mode in MODES)]


@pytest.mark.timeout(200)  # a guard against a hang, nothing is measured
@pytest.mark.parametrize(("mode", "size"), SIZES, ids=["short", "wire", "typed", "show", "ansi"])
@each("piece", ["'", "\\'", "''", "`", "/*", "/*!", "*/", "(", "a.", "NOT ", "-", "0x", "1", "a,", "--", "_u'a'"])
def test_very_many_of_the_same(piece: str, mode: LexicalMode, size: int) -> None:
    text = piece * (size // len(piece))
    for wrapped in (
        text,
        f"CREATE TABLE t (a ENUM({text}",
        f"CREATE TABLE t (a INT AS ({text}",
        f"ALTER TABLE t {text}",
    ):
        assert attempt(wrapped, mode) is None


def test_a_large_statement_is_read() -> None:
    pieces = ",".join(f"PARTITION p{n} VALUES LESS THAN ({n})" for n in range(8192))
    columns = ",".join(f"c{n} VARCHAR(10) DEFAULT 'x' COMMENT 'y'" for n in range(1017))
    assert attempt(f"CREATE TABLE t ({columns}) PARTITION BY RANGE (c1) ({pieces})", TYPED)
    assert attempt(" " * MAX_LENGTH + "x", TYPED) is None


@given(st.text(max_size=60), st.sampled_from(MODES))
def test_any_text(text: str, mode: LexicalMode) -> None:
    for prefix in ("", "CREATE TABLE t (", "ALTER TABLE t ADD c ", "CREATE TABLE t (a INT DEFAULT "):
        statement = attempt(prefix + text, mode)
        # A comment, or nothing at all, after what is read changes nothing.
        assert statement is None or attempt(f"{prefix}{text}\n ", mode) == statement


@given(st.lists(st.tuples(st.sampled_from("aAbBcÄä"), st.one_of(st.none(), st.integers()))))
def test_names_are_a_dict_that_is_never_changed(steps: list[tuple[str, int | None]]) -> None:
    names, model = Names[int](), dict[str, int]()
    for name, value in steps:
        before, copy = names, dict(model)
        if value is None:
            names = names.without(name)
            model.pop(name.lower(), None)
        else:
            names = names.with_(name, value)
            model[name.lower()] = value
        assert {n: before.get(n) for n in "abcä"} == {n: copy.get(n) for n in "abcä"}
        assert len(names) == len(model)
        assert sorted(names) == sorted(model.values())
        assert all(names.get(n) == model.get(n.lower()) for n in "aAbBcÄä")
