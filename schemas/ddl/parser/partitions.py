"""PARTITION BY and partition definitions: read in full, so that nothing unknown passes; rows don't feel them."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise, takewhile

from ticdc_bridge.schemas.ddl.parser.calls import calls
from ticdc_bridge.schemas.ddl.parser.column_definitions import charset_words, placement_policy
from ticdc_bridge.schemas.ddl.parser.cursor import Cursor
from ticdc_bridge.schemas.ddl.parser.expressions import arithmetic, expression
from ticdc_bridge.schemas.ddl.parser.lexer import BITS, END, NUMBER, OP, STRING
from ticdc_bridge.schemas.ddl.parser.literals import unit
from ticdc_bridge.schemas.ddl.parser.partition_definitions import Interval, PartitionBy, PartitionDef, PartitionValue

_SIGNS = ("(", ")", ",", ".", "+", "-", "*", "%")


def partition_by(c: Cursor) -> PartitionBy | None:
    """PARTITION BY … with its definitions, if it comes."""
    if not c.accept("PARTITION", "BY"):
        return None
    at = c.at
    method, names, interval_ = _method(c)
    read = [*takewhile(lambda one: one.upper != "INTERVAL", c.all[at : c.at])]
    called = [one.upper.lower() for one, after in pairwise(read) if after.upper == "(" and one.upper[:1].isalpha()]
    called += [one.upper.lower() for one in read if one.upper == "DIV" or (one.kind == OP and one.upper not in _SIGNS)]
    fractions = any(one.kind == NUMBER and not str(one.value).isdecimal() for one in read)
    functions = () if " " in method else tuple(filter(None, called[1:]))
    opened = next((number for number, one in enumerate(read) if one.upper == "("), 0)
    within = tuple(calls(read[opened:])) if functions else ()
    plain = len(names) == 1 and c.all[at + 1].upper == "(" and c.all[at + 3].upper == ")"
    count = c.integer() if c.accept("PARTITIONS") else None
    subpartitioned, each = c.accept("SUBPARTITION", "BY"), None
    if subpartitioned:
        if c.upper not in ("LINEAR", "HASH", "KEY"):
            c.fail("HASH", "KEY")
        _method(c)
        each = c.integer() if c.accept("SUBPARTITIONS") else None
    made = definitions(c) if c.upper == "(" else ()
    indexes = update_indexes(c)
    return PartitionBy(
        names, indexes, method, made, count, interval_, subpartitioned, plain, each, functions, fractions, within
    )


def _method(c: Cursor) -> tuple[str, tuple[str, ...], Interval | None]:
    """The method, the names in its columns or expression, and its INTERVAL."""
    c.accept("LINEAR")
    if c.accept("HASH"):
        return "HASH", _expression(c), None
    if c.accept("KEY"):
        if c.accept("ALGORITHM"):
            c.expect("=")
            if c.integer() not in (1, 2):
                c.step_back()
                c.refuse("1 or 2 is expected")
        return "KEY", _columns(c, empty=True), None
    method = c.accept_any("RANGE", "LIST")
    if method:
        columns = bool(c.accept_any("COLUMNS", "FIELDS"))
        names = _columns(c) if columns else _expression(c)
        made = interval(c) if c.accept("INTERVAL") else None
        return f"{method} COLUMNS" if columns else method, names, made
    if not c.accept("SYSTEM_TIME"):
        c.fail("HASH", "KEY", "RANGE", "LIST")
    if c.accept("INTERVAL"):
        expression(c)
        c.name("a unit of time")
    elif c.accept("LIMIT"):
        c.integer()
    return "SYSTEM_TIME", (), None


def _expression(c: Cursor) -> tuple[str, ...]:
    """(expression): the names in it."""
    c.expect("(")
    at = c.at
    arithmetic(c)
    names = c.names_between(at, c.at)
    c.expect(")")
    return names


def _columns(c: Cursor, empty: bool = False) -> tuple[str, ...]:
    c.expect("(")
    if empty and c.accept(")"):
        return ()
    names = c.listed(Cursor.column)
    c.expect(")")
    return tuple(names)


def interval(c: Cursor) -> Interval:
    """(n [unit]) FIRST PARTITION LESS THAN (…) LAST PARTITION LESS THAN (…) [NULL PARTITION] [MAXVALUE PARTITION]"""
    c.expect("(")
    at = c.at
    expression(c)
    amount, begins = _literal(c, at), c.all[at]
    positive = begins.kind == NUMBER and str(begins.value).lstrip("0")[:1].isdecimal()
    unit_ = "" if c.upper == ")" else unit(c).upper()
    c.expect(")")
    ends = dict[str, PartitionValue]()
    if c.upper == "FIRST":
        for word in ("FIRST", "LAST"):
            c.expect(word, "PARTITION")
            ends[word] = less_than(c)
    number = int(amount.text) if amount.kind == "int" else None
    null, most = c.accept("NULL", "PARTITION"), c.accept("MAXVALUE", "PARTITION")
    return Interval(positive, number, unit_, ends.get("FIRST"), ends.get("LAST"), null, most)


def less_than(c: Cursor) -> PartitionValue:
    """LESS THAN (value) | MAXVALUE: of several values the first."""
    c.expect("LESS", "THAN")
    return PartitionValue("maxvalue") if c.accept("MAXVALUE") else _values(c)[0][0]


def _values(c: Cursor, words: tuple[str, ...] = ("MAXVALUE", "DEFAULT")) -> tuple[tuple[PartitionValue, ...], ...]:
    """(value, …): each value is a tuple; one of a single value where it has no parentheses of its own."""
    values = list[tuple[PartitionValue, ...]]()
    c.expect("(")
    while True:
        if c.upper == "(" and _is_tuple(c):
            with c.read_in_full():  # DEFAULT stands alone
                values.append(tuple(one for inner in _values(c, ("MAXVALUE",)) for one in inner))
        else:
            word = c.accept_any(*words)
            if not word and c.upper in ("DEFAULT", ")"):
                c.refuse("a value is expected")
            at = c.at
            if not word:
                arithmetic(c)
            values.append((PartitionValue(word.lower()) if word else _literal(c, at),))
        if not c.accept(","):
            c.expect(")")
            return tuple(values)


def _is_tuple(c: Cursor) -> bool:
    """Whether the parenthesis that comes closes before a comma or another one: (1, 2), and not (1) + 2."""
    depth, number = 0, 0
    while c.peek(number).kind != END:
        upper = c.peek(number).upper
        depth += (upper == "(") - (upper == ")")
        number += 1
        if not depth:
            return c.peek(number).upper in (",", ")")
    return False


def _literal(c: Cursor, at: int) -> PartitionValue:
    """What has been read since `at`: a literal, or of kind "" for any other expression."""
    read = c.all[at : c.at]
    sign = "-" if read[0].upper == "-" else ""
    if len(read) == 2 and sign and read[1].kind == NUMBER:
        read = read[1:]
    if len(read) != 1:
        return PartitionValue("")
    token, text = read[0], str(read[0].value)
    if token.kind == NUMBER:
        return PartitionValue("int" if text.isdecimal() and len(text) <= 20 else "fraction", sign + text)
    if token.kind == STRING:
        return PartitionValue("text", text)
    return PartitionValue("bits" if token.kind == BITS else "null" if token.upper == "NULL" else "")


_MAXVALUE = ((PartitionValue("maxvalue"),),)
_DEFAULT = ((PartitionValue("default"),),)


def definitions(c: Cursor) -> tuple[PartitionDef, ...]:
    """(PARTITION name VALUES …, …)"""
    return tuple(c.list_in_parentheses(definition))


def definition(c: Cursor) -> PartitionDef:
    """One partition with its options and subpartitions."""
    c.expect("PARTITION")
    one = PartitionDef(c.name("a partition's name"))
    if c.accept("VALUES", "LESS"):
        c.expect("THAN")
        one = replace(
            one, values="LESS THAN", literals=_MAXVALUE if c.accept("MAXVALUE") else _values(c, ("MAXVALUE",))
        )
    elif c.accept("VALUES", "IN"):
        one = replace(one, values="IN", literals=_values(c))
    elif c.accept("DEFAULT"):
        one = replace(one, values="IN", literals=_DEFAULT)
    else:
        one = replace(one, values=c.accept_any("HISTORY", "CURRENT"))
    one = replace(one, policy=options(c))
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


def options(c: Cursor) -> str:
    """The options of one partition, or of a subpartition. Gives its placement policy, "" for the default one."""
    policy = ""
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
            policy = placement_policy(c)
        elif charset_words(c):
            c.skip_equals()
            c.word_or_text("a character set")
        else:
            return policy


_NAMED = ("ENGINE", "ENGINE_ATTRIBUTE", "SECONDARY_ENGINE_ATTRIBUTE", "INSERT_METHOD", "TABLESPACE", "AFFINITY",
          "STORAGE_CLASS")  # fmt: skip


def update_indexes(c: Cursor) -> tuple[tuple[str, bool], ...]:
    """UPDATE INDEXES (index GLOBAL|LOCAL, …), if it comes: each with whether it is global."""
    if not c.accept("UPDATE", "INDEXES"):
        return ()
    found = list[tuple[str, bool]]()
    c.expect("(")
    while True:
        name, where = c.name("an index's name"), c.accept_any("GLOBAL", "LOCAL")
        if not where:
            c.fail("GLOBAL", "LOCAL")
        found.append((name, where == "GLOBAL"))
        if not c.accept(","):
            c.expect(")")
            return tuple(found)


def names(c: Cursor) -> tuple[str, ...]:
    """name, … or ALL, which is ()"""
    if c.accept("ALL"):
        return ()
    return tuple(c.listed(lambda c: c.name("a partition's name")))


def split_rule(c: Cursor) -> None:
    """After SPLIT: [PRIMARY KEY | INDEX name] BETWEEN (values) AND (values) REGIONS n"""
    if not c.accept("PRIMARY", "KEY") and c.accept("INDEX"):
        c.name("an index's name")
    c.expect("BETWEEN")
    c.skip_parentheses()
    c.expect("AND")
    c.skip_parentheses()
    c.expect("REGIONS")
    c.integer()
