"""Expressions of event filters over columns that a table has no more: TiCDC stops at the next row that it asks them of.

Source: upstream ticdc `pkg/filter/expr_filter.go` (getSimpleExprOfTable, ErrExpressionColumnNotFound).
"""

from __future__ import annotations

import re
from typing import Final

from ticdc_bridge.schemas.ddl.executor.indexes import find
from ticdc_bridge.schemas.ddl.parser.cursor import Cursor
from ticdc_bridge.schemas.ddl.parser.expressions import expression
from ticdc_bridge.schemas.ddl.parser.lexer import TYPED
from ticdc_bridge.schemas.model.errors import DdlError
from ticdc_bridge.schemas.model.table import Table
from ticdc_bridge.schemas.model.table_filter import TableFilter
from ticdc_bridge.service.changefeed.list_checks import EXPRESSIONS
from ticdc_bridge.service.changefeed.settings import ChangefeedSettings, text_of, texts
from ticdc_bridge.service.ddl_check.advice import Advice
from ticdc_bridge.service.ddl_check.refusals.definitions import generated_names

_QUALIFIER: Final = re.compile(r"`(?:[^`]|``)+`\.")
OTHER_FILTER: Final = Advice(
    "other-filter",
    "Before the statement take the column out of the event filter's expression: pause the changefeed, update its "
    "configuration, resume it",
)


def filter_failure(feed: ChangefeedSettings, table: Table) -> str:
    """Which expression asks for a column that the table lacks; "" where none does, or one is not read here."""
    for one in feed.event_filters:
        matcher = texts(one.get("matcher"))
        if not TableFilter(matcher, bool(feed.get("case-sensitive"))).matches(table.id.db, table.id.table):
            continue
        for name in EXPRESSIONS:
            missing = [c for c in _columns(text_of(one, name)) if find(table.columns, c) is None]
            if missing:
                where = f"the event filter for {', '.join(matcher)} asks in {name}"
                return f"{where} for column `{missing[0]}`, which {table.id} does not have"
    return ""


def _columns(text: str) -> list[str]:
    if not text.strip():
        return []
    try:
        cursor = Cursor(text, TYPED)
        read = expression(cursor)
    except (DdlError, RecursionError):
        return []
    return generated_names(_QUALIFIER.sub("", read))
