"""CHECK constraints that TiDB refuses where it keeps them, which `tidb_enable_check_constraint` decides.

Source: upstream tidb `pkg/table/constraint.go` (IsSupportedExpr).
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Final

from ticdc_bridge.schemas.ddl.parser.calls import calls
from ticdc_bridge.schemas.ddl.parser.lexer import WORD, LexicalMode, Token, tokens
from ticdc_bridge.service.ddl_check.refusals.columns import Refusal
from ticdc_bridge.service.ddl_check.refusals.functions import of_calls
from ticdc_bridge.service.ddl_check.refusals.generated import DISALLOWED

_CHECK: Final = re.compile(r"\bcheck\b", re.IGNORECASE)
_WHERE: Final = "where tidb_enable_check_constraint is on, an expression of a check constraint"
# Functions that need no parentheses.
_BARE: Final = frozenset(name for name in DISALLOWED if name.startswith(("current_", "local", "utc_")))


def of_checks(sql: str, mode: LexicalMode) -> Iterator[Refusal]:
    """Of the text of a CREATE TABLE or ALTER TABLE. Nobody knows here whether the server keeps CHECKs."""
    if not _CHECK.search(sql):
        return
    read = tokens(sql, mode)
    for place, token in enumerate(read):
        if token.kind == WORD and token.upper == "CHECK" and read[place + 1].upper == "(":
            for refusal in dict.fromkeys(_of_check(_within(read, place + 1))):
                yield refusal._replace(certain=False)


def _within(read: Sequence[Token], opened: int) -> Sequence[Token]:
    """From a parenthesis to the one that closes it."""
    depth = 0
    for place in range(opened, len(read)):
        depth += (read[place].upper == "(") - (read[place].upper == ")")
        if not depth:
            return read[opened : place + 1]
    return ()


def _of_check(read: Sequence[Token]) -> Iterator[Refusal]:
    words = {token.upper for token in read}
    if "SELECT" in words:
        yield Refusal(3815, f"{_WHERE} contains disallowed function.")
    if "@" in words:
        yield Refusal(3816, f"{_WHERE} cannot refer to a user or system variable.")
    found = list(calls(read))
    bare = [token.upper.lower() for token in read if token.kind == WORD and token.upper.lower() in _BARE]
    for name in (*(call.name for call in found if call.name in DISALLOWED), *bare):
        yield _disallowed(name)
    yield from of_calls(found, lambda call: _disallowed(call.name))


def _disallowed(name: str) -> Refusal:
    return Refusal(3814, f"{_WHERE} contains disallowed function: {name}.")
