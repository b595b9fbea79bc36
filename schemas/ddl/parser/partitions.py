"""PARTITION BY and partition definitions: read in full, so that nothing unknown passes; rows don't feel them."""

from __future__ import annotations

from dataclasses import replace

from schemas.ddl.parser.column_definitions import charset_words
from schemas.ddl.parser.cursor import Cursor
from schemas.ddl.parser.expressions import expression
from schemas.ddl.parser.lexer import NUMBER
from schemas.ddl.parser.statements import PartitionBy, PartitionDef


def partition_by(c: Cursor) -> PartitionBy | None:
    """PARTITION BY … with its definitions, if it comes."""
    if not c.accept("PARTITION", "BY"):
        return None
    method, names, interval_ = _method(c)
    count = c.integer() if c.accept("PARTITIONS") else None
    subpartitioned = c.accept("SUBPARTITION", "BY")
    if subpartitioned:
        _method(c)
        if c.accept("SUBPARTITIONS"):
            c.integer()
    made = definitions(c) if c.upper == "(" else ()
    return PartitionBy(names, update_indexes(c), method, made, count, interval_, subpartitioned)


def _method(c: Cursor) -> tuple[str, tuple[str, ...], bool]:
    """The method, the names in its columns or expression, and whether INTERVAL follows."""
    c.accept("LINEAR")
    if c.accept("HASH"):
        return "HASH", _expression(c), False
    if c.accept("KEY"):
        if c.accept("ALGORITHM"):
            c.expect("=")
            if c.integer() not in (1, 2):
                c.step_back()
                c.fail("1", "2")
        return "KEY", _columns(c, empty=True), False
    method = c.accept_any("RANGE", "LIST")
    if method:
        columns = bool(c.accept_any("COLUMNS", "FIELDS"))
        names = _columns(c) if columns else _expression(c)
        made = c.accept("INTERVAL")
        if made:
            interval(c)
        return f"{method} COLUMNS" if columns else method, names, made
    if not c.accept("SYSTEM_TIME"):
        c.fail("HASH", "KEY", "RANGE", "LIST")
    if c.accept("INTERVAL"):
        expression(c)
        c.name("a unit of time")
    elif c.accept("LIMIT"):
        c.integer()
    return "SYSTEM_TIME", (), False


def _expression(c: Cursor) -> tuple[str, ...]:
    """(expression): the names in it."""
    c.expect("(")
    at = c.at
    expression(c)
    names = c.names_between(at, c.at)
    c.expect(")")
    return names


def _columns(c: Cursor, empty: bool = False) -> tuple[str, ...]:
    c.expect("(")
    if empty and c.accept(")"):
        return ()
    names = [c.column()]
    while c.accept(","):
        names.append(c.column())
    c.expect(")")
    return tuple(names)


def interval(c: Cursor) -> None:
    """(n [unit]) FIRST PARTITION LESS THAN (…) LAST PARTITION LESS THAN (…) [NULL PARTITION] [MAXVALUE PARTITION]"""
    c.expect("(")
    expression(c)
    if c.upper != ")":
        c.name("a unit of time")
    c.expect(")")
    for word in ("FIRST", "LAST"):
        if c.accept(word, "PARTITION"):
            less_than(c)
    c.accept("NULL", "PARTITION")
    c.accept("MAXVALUE", "PARTITION")


def less_than(c: Cursor) -> None:
    """LESS THAN (values) | MAXVALUE"""
    c.expect("LESS", "THAN")
    if not c.accept("MAXVALUE"):
        _values(c)


def _values(c: Cursor) -> tuple[tuple[int, ...], bool, tuple[int, ...]]:
    """(value, …): the widths of tuples in it (see PartitionDef), whether MAXVALUE is among them, and whole numbers."""
    widths, has_maxvalue, numbers = list[int](), False, list[int]()
    c.expect("(")
    while True:
        if c.upper == "(":
            inner, more, _ = _values(c)
            widths.append(len(inner))
            has_maxvalue = has_maxvalue or more
        else:
            word = c.accept_any("MAXVALUE", "DEFAULT")
            has_maxvalue = has_maxvalue or word == "MAXVALUE"
            if not word:
                at = c.at
                expression(c)
                numbers += _whole_number(c, at)
            widths.append(0)
        if not c.accept(","):
            c.expect(")")
            return tuple(widths), has_maxvalue, tuple(numbers)


def _whole_number(c: Cursor, at: int) -> list[int]:
    """What has been read since `at`, if it is a whole number and nothing else."""
    texts = [str(token.upper or token.value) for token in c.all[at : c.at]]
    digits = texts[-1]
    if c.all[c.at - 1].kind != NUMBER or not digits.isdecimal() or len(digits) > 20 or texts[:-1] not in ([], ["-"]):
        return []
    return [int("".join(texts))]


def definitions(c: Cursor) -> tuple[PartitionDef, ...]:
    """(PARTITION name VALUES …, …)"""
    c.expect("(")
    made = [definition(c)]
    while c.accept(","):
        made.append(definition(c))
    c.expect(")")
    return tuple(made)


def definition(c: Cursor) -> PartitionDef:
    """One partition with its options and subpartitions."""
    c.expect("PARTITION")
    one = PartitionDef(c.name("a partition's name"))
    if c.accept("VALUES", "LESS"):
        c.expect("THAN")
        widths, has_maxvalue, numbers = ((0,), True, ()) if c.accept("MAXVALUE") else _values(c)
        one = replace(one, values="LESS THAN", widths=widths, has_maxvalue=has_maxvalue, numbers=numbers)
    elif c.accept("VALUES", "IN"):
        widths, has_maxvalue, numbers = _values(c)
        one = replace(one, values="IN", widths=widths, has_maxvalue=has_maxvalue, numbers=numbers)
    elif c.accept("DEFAULT"):
        one = replace(one, values="IN")
    else:
        one = replace(one, values=c.accept_any("HISTORY", "CURRENT"))
    options(c)
    count = 0
    if c.accept("("):
        while True:
            count += 1
            c.expect("SUBPARTITION")
            c.name("a subpartition's name")
            options(c)
            if not c.accept(","):
                c.expect(")")
                break
    return replace(one, subpartitions=count)


def options(c: Cursor) -> None:
    """The options of one partition, or of a subpartition."""
    while True:
        if c.accept("COMMENT") or c.accept("DATA", "DIRECTORY") or c.accept("INDEX", "DIRECTORY"):
            c.skip_equals()
            c.string()
        elif c.accept("STORAGE", "ENGINE") or c.accept_any(*_NAMED):
            c.skip_equals()
            c.word_or_text("a name")
        elif c.accept_any("MAX_ROWS", "MIN_ROWS", "NODEGROUP"):
            c.skip_equals()
            c.integer()
        elif c.accept("PLACEMENT", "POLICY") or c.accept("DEFAULT", "PLACEMENT", "POLICY"):
            if not c.accept("SET", "DEFAULT"):
                c.skip_equals()
                c.word_or_text("a policy")
        elif charset_words(c):
            c.skip_equals()
            c.word_or_text("a character set")
        else:
            return


_NAMED = ("ENGINE", "ENGINE_ATTRIBUTE", "SECONDARY_ENGINE_ATTRIBUTE", "INSERT_METHOD", "TABLESPACE", "AFFINITY",
          "STORAGE_CLASS")  # fmt: skip


def update_indexes(c: Cursor) -> bool:
    """UPDATE INDEXES (index GLOBAL|LOCAL, …), if it comes."""
    if not c.accept("UPDATE", "INDEXES"):
        return False
    c.skip_parentheses()
    return True


def names(c: Cursor) -> tuple[str, ...]:
    """name, … or ALL, which is ()"""
    if c.accept("ALL"):
        return ()
    names_ = [c.name("a partition's name")]
    while c.accept(","):
        names_.append(c.name("a partition's name"))
    return tuple(names_)


def split_rule(c: Cursor) -> None:
    """After SPLIT: [PRIMARY KEY | INDEX name] BETWEEN (values) AND (values) REGIONS n"""
    if not c.accept("PRIMARY", "KEY") and c.accept("INDEX"):
        c.name("an index's name")
    c.expect("BETWEEN")
    _values(c)
    c.expect("AND")
    _values(c)
    c.expect("REGIONS")
    c.integer()
