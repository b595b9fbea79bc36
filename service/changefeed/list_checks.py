"""What TiCDC refuses of the file's lists of tables whose form is right, and what it passes over in silence.

Sources: pingcap/ticdc `pkg/config/sink.go` (validateAndAdjust, validateTableRoute), `pkg/filter/{sql_event_filter,
expr_filter}.go`, `downstreamadapter/sink/eventrouter/` (topic/expression.go, partition/generator.go).
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from ticdc_bridge.schemas.ddl.parser.cursor import Cursor
from ticdc_bridge.schemas.ddl.parser.expressions import expression
from ticdc_bridge.schemas.ddl.parser.lexer import TYPED
from ticdc_bridge.schemas.model.errors import DdlError
from ticdc_bridge.schemas.model.table_filter import PatternError, TableFilter
from ticdc_bridge.service.changefeed import topics
from ticdc_bridge.service.changefeed.lines import line_in_file
from ticdc_bridge.service.changefeed.settings import Problem, Severity, text_of, texts

Member = Mapping[str, Any]
Found = tuple[str, str]
"""The key of a member, and what is wrong with it."""
_ROUTE = re.compile(r"(?:[^{}]|\{schema\}|\{table\})*")

# Events that a filter may name (upstream ticdc `pkg/filter/utils.go`, SupportedEventTypes; names of tiflow as well).
_EVENTS: Final = frozenset((
    "all dml", "all ddl", "insert", "update", "delete", "alter table", "create schema", "drop schema",
    "create database", "drop database", "modify schema charset and collate", "create table", "drop table",
    "truncate table", "rename table", "recover table", "modify table comment", "modify table charset and collate",
    "create view", "drop view", "add table partition", "drop table partition", "truncate table partition",
    "exchange partition", "exchange table partition", "reorganize partition", "reorganize table partition",
    "alter table partition", "alter table partitioning", "remove partitioning", "remove table partition",
    "remove table partitioning", "add column", "drop column", "modify column", "set default value", "rebase auto id",
    "add primary key", "drop primary key", "create index", "add index", "drop index", "rename index",
    "alter index visibility", "alter ttl info", "alter ttl remove", "multi schema change", "add foreign key",
    "drop foreign key", "add full text index", "add fulltext index", "create fulltext index", "create hybrid index",
    "add columnar index", "create columnar index", "add vector index", "create vector index", "drop columnar index",
))  # fmt: skip
EXPRESSIONS: Final = (
    "ignore-insert-value-expr", "ignore-update-new-value-expr", "ignore-update-old-value-expr",
    "ignore-delete-value-expr",
)  # fmt: skip
# Keys of a dispatcher that only one partition rule looks at.
_OF_PARTITION: Final = {"index": "index-value", "columns": "columns"}


def problems(lists: Mapping[str, Sequence[Member]], protocol: str) -> Iterator[Problem]:
    """lists: by path."""
    for number, one in enumerate(lists.get("filter.event-filters", ()), 1):
        yield from _located("filter.event-filters", number, "error", _of_event_filter(one))
    for number, one in enumerate(lists.get("sink.dispatchers", ()), 1):
        yield from _located("sink.dispatchers", number, "error", _of_dispatcher(one, protocol))
        yield from _located("sink.dispatchers", number, "warning", _passed_over(one))
    for number, one in enumerate(lists.get("sink.column-selectors", ()), 1):
        yield from _located("sink.column-selectors", number, "error", _of_selector(one))
    for path, members in lists.items():
        for number, one in enumerate(members, 1):
            before = [] if path == "filter.event-filters" else members[: number - 1]
            yield from _located(path, number, "warning", _of_matcher(one, before))


def _located(path: str, number: int, severity: Severity, found: Iterator[Found]) -> Iterator[Problem]:
    for name, text in found:
        yield Problem(severity, text, f"Change {line_in_file(f'{path}.{number}.{name}')}")


def _of_matcher(one: Member, before: Sequence[Member]) -> Iterator[Found]:
    """Members that fit no table. before: those that are asked first, where one is enough."""
    patterns = texts(one.get("matcher"))
    if not keeps_something(patterns):
        yield "matcher", f"matcher {list(patterns)} fits no table: TiCDC passes over all of it"
    elif any(texts(other.get("matcher")) == ("*.*",) for other in before):
        yield "matcher", f"matcher {list(patterns)} stands behind one for *.*, which takes every table: move it up"


def keeps_something(patterns: Sequence[str]) -> bool:
    """Whether patterns of tables or columns can fit at all: those with `!` only take out."""
    return any(not p.lstrip().startswith(("!", "#")) for p in patterns if p.strip())


def _of_selector(one: Member) -> Iterator[Found]:
    if not keeps_something(texts(one.get("columns"))):
        yield "columns", "a column selector keeps no column, so no key either: TiCDC refuses its tables; begin with '*'"


# ---- event filters
def _of_event_filter(one: Member) -> Iterator[Found]:
    where = f"the event filter for {', '.join(texts(one.get('matcher'))) or 'no table'}"
    try:
        TableFilter(texts(one.get("matcher")))
    except PatternError as error:
        yield "matcher", f"filter.event-filters: {error}"
    for event in texts(one.get("ignore-event")):
        if event not in _EVENTS:
            yield "ignore-event", f"{where}: ignore-event {event[:60]!r} is no event that TiCDC knows"
    for pattern in texts(one.get("ignore-sql")):
        try:
            re.compile(pattern)
        except re.error:
            yield "ignore-sql", f"{where}: ignore-sql {pattern[:60]!r} is no regular expression"
    for name in EXPRESSIONS:
        text = text_of(one, name)
        if text.strip() and _is_cut(text):
            stops = "classic TiCDC refuses the changefeed, new TiCDC stops at the first such row"
            yield name, f"{where}: {name} {text[:60]!r} is no SQL expression: {stops}"


def _is_cut(text: str) -> bool:
    """Whether an expression ends too early, or is no SQL at all. What we do not read otherwise, TiDB may."""
    try:
        cursor = Cursor(text, TYPED)
    except DdlError:
        return True
    try:
        expression(cursor)
    except (DdlError, RecursionError):
        return cursor.at == len(cursor.all) - 1
    return cursor.upper == ")"


# ---- dispatchers
def _of_dispatcher(one: Member, protocol: str) -> Iterator[Found]:
    where = f"the dispatcher for {', '.join(texts(one.get('matcher'))) or 'no table'}"
    if text_of(one, "partition") and text_of(one, "dispatcher"):
        yield "dispatcher", f"{where} has both `dispatcher` and `partition`"
    topic = text_of(one, "topic")
    wrong = topics.expression_error(topic, protocol in ("avro", "debezium-avro"))
    if wrong:
        yield "topic", f"{where}: topic {topic[:80]!r}: {wrong}"
    for name in ("target-schema", "target-table"):
        text = text_of(one, name)
        if not _ROUTE.fullmatch(text):
            yield name, f"{where}: {name} {text[:60]!r} may hold {{schema}} and {{table}} only besides letters"


def _passed_over(one: Member) -> Iterator[Found]:
    where = f"the dispatcher for {', '.join(texts(one.get('matcher'))) or 'no table'}"
    name = "partition" if text_of(one, "partition") else "dispatcher"
    rule = text_of(one, name).lower()
    if rule not in topics.PARTITION_RULES:
        yield name, f"{where}: partition {rule!r} is not known, TiCDC uses `table`"
    if rule == "columns" and not one.get("columns"):
        yield "columns", f"{where}: partition `columns` names no columns, so all rows of a table go to one partition"
    for key, of in _OF_PARTITION.items():
        if one.get(key) and rule != of and not (key == "index" and rule == "rowid"):
            yield key, f"{where}: {key} is for partition `{of}` only, TiCDC passes over it"
