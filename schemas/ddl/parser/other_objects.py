"""Sequences, placement policies and resource groups: their options as tables, so that TiDB's refusals are told.

Source: upstream tidb `pkg/parser/parser.y` (SequenceOption, DirectPlacementOption, DirectResourceGroupOption).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from ticdc_bridge.schemas.ddl.parser.cursor import Cursor
from ticdc_bridge.schemas.ddl.parser.lexer import END, NUMBER
from ticdc_bridge.schemas.ddl.parser.statements import NamedObject, Numbers, TableName
from ticdc_bridge.schemas.ddl.parser.table_elements import table_options

Reader = Callable[[Cursor], int | None]
"""Reads what follows an option's words; gives its number, where TiDB checks that against others."""
ObjectReader = Callable[[Cursor], NamedObject | None]
Options = dict[tuple[str, ...], Reader]
_SIGNED_LIMITS: Final = (-(2**63), 2**63 - 1)


# ---- values: what stands behind an option's words
def _nothing(_: Cursor) -> int:
    return 0


def _number(c: Cursor) -> None:
    c.skip_equals()
    c.integer()


def _positive(c: Cursor) -> None:
    c.skip_equals()
    if c.integer() == 0:
        c.step_back()
        c.fail("a number above 0")


def _text(c: Cursor) -> None:
    c.skip_equals()
    c.string()


def _signed(*links: str) -> Reader:
    def read(c: Cursor) -> int:
        c.accept_any("=", *links)
        sign = -1 if c.accept_any("+", "-") == "-" else 1
        number = sign * c.integer()
        if not _SIGNED_LIMITS[0] <= number <= _SIGNED_LIMITS[1]:
            c.step_back()
            c.fail("a number of 64 bits")
        return number

    return read


def _restart(c: Cursor) -> None:
    if c.upper in ("=", "WITH", "+", "-") or c.token.kind == NUMBER:
        _signed("WITH")(c)


def _word(*words: str, otherwise: Reader | None = None) -> Reader:
    """One of these words, or what `otherwise` reads."""

    def read(c: Cursor) -> None:
        c.skip_equals()
        if not c.accept_any(*words):
            if otherwise is None:
                c.fail(*words)
            otherwise(c)

    return read


def _burstable(c: Cursor) -> None:
    if c.accept("=") or c.upper in ("MODERATED", "UNLIMITED", "OFF"):
        _word("MODERATED", "UNLIMITED", "OFF")(c)


def _group(options: Options) -> Reader:
    """(option, …) or NULL; the parentheses may be empty."""

    def read(c: Cursor) -> None:
        c.skip_equals()
        if c.accept("NULL"):
            return
        c.expect("(")
        if not c.accept(")"):
            _read(c, options, commas=True, once=True)
            c.expect(")")

    return read


def _action(c: Cursor) -> None:
    c.skip_equals()
    if c.accept("SWITCH_GROUP", "("):
        _name(c)
        c.expect(")")
    elif not c.accept_any("DRYRUN", "COOLDOWN", "KILL"):
        c.fail("DRYRUN", "COOLDOWN", "KILL", "SWITCH_GROUP")


def _watch(c: Cursor) -> None:
    _word("EXACT", "SIMILAR", "PLAN")(c)
    if c.accept("DURATION"):
        _word("UNLIMITED", otherwise=_text)(c)


# ---- options: their words → what follows them
_SEQUENCE: Final[Options] = {
    ("INCREMENT",): _signed("BY"), ("START",): _signed("WITH"), ("MINVALUE",): _signed(), ("MAXVALUE",): _signed(),
    ("CACHE",): _signed(), ("CYCLE",): _nothing,
    **{(f"NO{word}",): _nothing for word in ("MINVALUE", "MAXVALUE", "CACHE", "CYCLE")},
    **{("NO", word): _nothing for word in ("MINVALUE", "MAXVALUE", "CACHE", "CYCLE")},
}  # fmt: skip
_ALTERED_SEQUENCE: Final[Options] = {**_SEQUENCE, ("RESTART",): _restart}
_PLACEMENT: Final[Options] = {
    ("FOLLOWERS",): _positive, ("VOTERS",): _number, ("LEARNERS",): _number,
    **dict.fromkeys(
        ((word,) for word in ("PRIMARY_REGION", "REGIONS", "SCHEDULE", "CONSTRAINTS", "LEADER_CONSTRAINTS",
                              "FOLLOWER_CONSTRAINTS", "VOTER_CONSTRAINTS", "LEARNER_CONSTRAINTS",
                              "SURVIVAL_PREFERENCES")), _text),
}  # fmt: skip
_RUNAWAY: Final[Options] = {
    ("EXEC_ELAPSED",): _text, ("PROCESSED_KEYS",): _number, ("RU",): _number, ("ACTION",): _action, ("WATCH",): _watch,
}  # fmt: skip
_REPEATED: Final = (("EXEC_ELAPSED",), ("PROCESSED_KEYS",), ("RU",))
"""Several limits may stand side by side."""
_BACKGROUND: Final[Options] = {("TASK_TYPES",): _text, ("UTILIZATION_LIMIT",): _number}
_RESOURCE_GROUP: Final[Options] = {
    ("RU_PER_SEC",): _word("UNLIMITED", otherwise=_number), ("PRIORITY",): _word("LOW", "MEDIUM", "HIGH"),
    ("BURSTABLE",): _burstable, ("QUERY_LIMIT",): _group(_RUNAWAY), ("BACKGROUND",): _group(_BACKGROUND),
}  # fmt: skip


def _read(c: Cursor, options: Options, *, commas: bool, once: bool = False) -> Numbers:
    """One option or more; those with a number that TiDB checks. once: none may come twice."""
    done, numbers = set[tuple[str, ...]](), dict[str, int]()
    while True:
        words = next((w for w in options if c.upper == w[0] and all(c.peek(n).upper == t for n, t in enumerate(w))), ())
        if not words or (once and words in done):
            left = sorted(" ".join(w) for w in options if not once or w not in done)
            c.fail(*left or ("the end of the options",))
        if words not in _REPEATED:
            done.add(words)
        c.accept(*words)
        number = options[words](c)
        if number is not None:
            numbers["".join(words)] = number
        if not (commas and c.accept(",")) and (
            c.token.kind == END or c.upper in (")", ";") or not _follows(c, options)
        ):
            return tuple(numbers.items())


def _follows(c: Cursor, options: Options) -> bool:
    return any(c.upper == words[0] for words in options)


def sequence_options(c: Cursor) -> Numbers:
    """After CREATE SEQUENCE name: its options, then those of a table."""
    numbers = _read(c, _SEQUENCE, commas=False) if _follows(c, _SEQUENCE) else ()
    table_options(c)
    return numbers


def _dropped(c: Cursor) -> NamedObject:
    lenient = c.accept("IF", "EXISTS")
    return NamedObject(_name(c), lenient)


def _name(c: Cursor) -> TableName:
    """A name; a resource group may be called DEFAULT, and a sequence has a database."""
    return TableName("", "DEFAULT") if c.accept("DEFAULT") else c.table()


def _made(options: Options, *, commas: bool, once: bool = False) -> ObjectReader:
    def read(c: Cursor) -> NamedObject:
        lenient = c.accept("IF", "NOT", "EXISTS") or c.accept("IF", "EXISTS")
        return NamedObject(_name(c), lenient, _read(c, options, commas=commas, once=once))

    return read


def _one_name(c: Cursor) -> None:
    c.name()


def _statistics(c: Cursor) -> None:
    c.accept("IF", "NOT", "EXISTS")
    c.name("a name of statistics")
    c.expect("(")
    _word("CARDINALITY", "DEPENDENCY", "CORRELATION")(c)
    c.expect(")", "ON")
    c.table()
    c.list_in_parentheses(Cursor.column)


def _instance(c: Cursor) -> None:
    c.expect("RELOAD", "TLS")
    if c.accept("NO"):
        c.expect("ROLLBACK", "ON", "ERROR")


def _range(c: Cursor) -> None:
    c.name("a range")
    c.expect("PLACEMENT", "POLICY")
    if not c.accept("SET", "DEFAULT"):
        c.skip_equals()
        c.word_or_text("a policy")


OBJECTS: Final[dict[tuple[str, str], ObjectReader]] = {
    ("ALTER", "SEQUENCE"): _made(_ALTERED_SEQUENCE, commas=False),
    **{(verb, "PLACEMENT POLICY"): _made(_PLACEMENT, commas=True) for verb in ("CREATE", "ALTER")},
    **{(verb, "RESOURCE GROUP"): _made(_RESOURCE_GROUP, commas=True, once=True) for verb in ("CREATE", "ALTER")},
    **{("DROP", what): _dropped for what in ("PLACEMENT POLICY", "RESOURCE GROUP")},
    ("CREATE", "STATISTICS"): _statistics, ("DROP", "STATISTICS"): _one_name,
    ("ALTER", "INSTANCE"): _instance, ("ALTER", "RANGE"): _range,
}  # fmt: skip
"""Verb and object → what reads the rest of the statement."""
