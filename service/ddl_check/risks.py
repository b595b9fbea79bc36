"""What a statement does to the data and its readers beyond the registry's verdict. One row a rule.

loss: values or rows change or vanish. break: TiCDC or a reader stops. change: readers see something else.
"""

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Final, Literal

from ticdc_bridge.schemas.ddl.executor.indexes import find
from ticdc_bridge.schemas.ddl.parser.cursor import Cursor
from ticdc_bridge.schemas.ddl.parser.expressions import expression
from ticdc_bridge.schemas.ddl.parser.lexer import TYPED
from ticdc_bridge.schemas.model.errors import DdlError
from ticdc_bridge.schemas.model.table import Column, Table
from ticdc_bridge.schemas.model.table_filter import TableFilter
from ticdc_bridge.schemas.model.type_text import type_text
from ticdc_bridge.schemas.model.types import FRACTIONAL, Kind
from ticdc_bridge.schemas.model.values import integer_limits
from ticdc_bridge.service.changefeed.known_faults import Deed, faults
from ticdc_bridge.service.changefeed.setting_checks import EXPRESSIONS
from ticdc_bridge.service.changefeed.settings import ChangefeedSettings, text_of, texts
from ticdc_bridge.service.ddl_check.refusals.definitions import generated_names, is_shorter
from ticdc_bridge.service.ddl_check.subjects import SubjectTarget
from ticdc_bridge.service.ddl_check.table_changes import TableChange

Severity = Literal["loss", "break", "change"]
"""What `risks` says of each."""
AVRO: Final = ("avro", "debezium-avro")


@dataclass(frozen=True, slots=True)
class TableRule:
    id: str
    severity: Severity
    when: Callable[[TableChange, SubjectTarget | None], bool]
    text: Callable[[TableChange, SubjectTarget | None], str] | str


def _unsent_note(target: SubjectTarget | None) -> str:
    return _UNSENT if target is not None and target.protocol in AVRO else ""


def _is_keyless(table: Table | None) -> bool:
    return table is not None and not table.handle_key


def _has_both(change: TableChange) -> bool:
    return change.before is not None and change.after is not None


def _is_moved(change: TableChange, _: SubjectTarget | None) -> bool:
    """True if columns that stay are in another order, or new ones stand between them."""
    if not _has_both(change) or change.before is None or change.after is None:
        return False
    order = {new.name: index for index, (_, new) in enumerate(change.pairs)}
    new_names = {id(old): new.name for old, new in change.pairs}
    olds = [new_names[id(old)] for old in change.before.columns if id(old) in new_names]
    names = [c.name for c in change.after.columns]
    return olds != sorted(olds, key=lambda n: order[n]) or names[: len(order)] != list(order)


_UNSENT = " Avro sends no DDL and no row event for it: what is downstream stays as it is"
TABLE_RULES: Final = (
    TableRule("no-handle-key", "loss",
              lambda c, t: _is_keyless(c.after) and not _is_keyless(c.before),
              "the table has neither a primary key nor a unique key over NOT NULL columns: TiCDC does not replicate it "
              "unless force-replicate is on (Avro refuses force-replicate), and then rows can't be distinguished"),
    TableRule("handle-key", "loss",
              lambda c, t: _has_both(c) and bool(c.handle_keys[1]) and c.handle_keys[0] != c.handle_keys[1],
              lambda c, t: f"the key that identifies rows ({', '.join(c.handle_keys[0]) or 'none'}) becomes "
              f"({', '.join(c.handle_keys[1]) or 'none'}): message keys, partitions by key and "
              "compaction change; old and new rows of one record have different keys"),
    TableRule("key-order", "change",
              lambda c, t: _has_both(c) and c.primary_keys[0] != c.primary_keys[1]
              and c.handle_keys[0] == c.handle_keys[1],
              "the primary key has its columns in another order: Debezium's connector orders key fields by the index, "
              "TiCDC by the table"),
    TableRule("renamed-table", "change", lambda c, t: c.is_renamed,
              lambda c, t: f"{c.before and c.before.id} becomes {c.after and c.after.id}: schema names, and topics "
                           "and subjects that are named after the table, change; consumers must follow, and table "
                           "filters must match the new name"),
    TableRule("dropped-table", "loss", lambda c, t: c.after is None,
              lambda c, t: "the table and its rows are gone; no delete events are sent for them."
              + _unsent_note(t)
              + " Its subjects stay: a new table of this name is checked against their versions"),
    TableRule("truncated", "loss", lambda c, t: c.rows == "truncated",
              lambda c, t: "all rows are gone without delete events." + _unsent_note(t)),
    TableRule("partitions-dropped", "loss", lambda c, t: c.rows == "partitions dropped",
              lambda c, t: "the rows of these partitions are gone without delete events." + _unsent_note(t)),
    TableRule("partitions-exchanged", "loss", lambda c, t: c.rows == "partitions exchanged",
              lambda c, t: "a partition and a table exchange rows without row events." + _unsent_note(t)),
    TableRule("partitions-moved", "change", lambda c, t: c.rows == "partitions moved",
              "the physical tables get other ids (`ptn` of Open and Craft); rows are not sent again"),
    TableRule("recovered", "loss", lambda c, t: c.rows == "recovered",
              "the rows come back without insert events: downstream lacks them"),
    TableRule("column-order", "change", _is_moved,
              "columns change their places: readers that go by position, not by name, read other columns"),
    TableRule("checksum-order", "break",
              lambda c, t: t is not None and t.options.enable_row_checksum and _is_moved(c, t),
              "row checksums are on and columns are not in the order of their ids any more: TiCDC's encoder mixes "
              "columns up or fails at the first row"),
)  # fmt: skip

BY_NUMBER: Final = ("open", "craft", "simple", "canal-json")
DEBEZIUM: Final = ("debezium", "debezium-avro")


@dataclass(frozen=True, slots=True)
class Risk:
    """One finding. column "" where it is about the table."""

    id: str
    severity: Severity
    table: str
    column: str
    text: str

    def form(self) -> dict[str, Any]:
        return {
            "id": self.id, "severity": self.severity, "table": self.table, "column": self.column or None,
            "text": self.text,
        }  # fmt: skip


# ---- of a column that is on both sides
@dataclass(frozen=True, slots=True)
class PairRule:
    """when: of (old, new). protocols: () for all. text: {old}, {new} are the types, {c} the column."""

    id: str
    severity: Severity
    when: Callable[[Column, Column], bool]
    text: str
    protocols: tuple[str, ...] = ()
    modes: tuple[tuple[str, Any], ...] = ()


_STRINGS = (Kind.TEXT, Kind.BINARY)


def _is_int_narrowed(old: Column, new: Column) -> bool:
    if old.type.kind is not Kind.INTEGER or new.type.kind is not Kind.INTEGER:
        return False
    (a, b), (c, d) = (integer_limits(column.type.bits, column.unsigned) for column in (old, new))
    return c > a or d < b


def _decimals(old: Column, new: Column) -> bool:
    return old.type.kind is Kind.DECIMAL is new.type.kind and None not in (old.length, old.scale, new.length, new.scale)


def _is_listed(old: Column, new: Column) -> bool:
    return old.type is new.type and old.type.kind in (Kind.ENUM, Kind.SET)


def _is_renumbered(old: Column, new: Column) -> bool:
    """Anything but more elements at the end."""
    return _is_listed(old, new) and new.elements[: len(old.elements)] != old.elements


def _lost_elements(old: Column, new: Column) -> bool:
    return _is_listed(old, new) and bool(set(old.elements) - set(new.elements))


def _kind(old: Column, new: Column) -> bool:
    return old.type.kind is not new.type.kind


PAIR_RULES: Final = (
    PairRule("not-null", "change", lambda o, n: o.nullable and not n.nullable,
             "`{c}` becomes NOT NULL: TiDB refuses it while there are NULLs, and rows already in the topic may hold "
             "one"),
    PairRule("nullable", "change", lambda o, n: not o.nullable and n.nullable,
             "`{c}` may be NULL from now on: consumers that count on a value meet NULL"),
    PairRule("narrowed", "loss", _is_int_narrowed,
             "`{c}` goes from {old} to {new}, which holds fewer numbers: in strict sql_mode TiDB refuses values that "
             "do not fit, otherwise it cuts them"),
    PairRule("signedness", "change", lambda o, n: o.unsigned != n.unsigned and o.type.kind is n.type.kind,
             "`{c}` goes from {old} to {new}: the same bits mean another number to a reader that does not know the "
             "new type"),
    PairRule("shortened", "loss",
             lambda o, n: o.type.kind in _STRINGS and n.type.kind in _STRINGS and is_shorter(o, n),
             "`{c}` goes from {old} to {new}: longer values are refused in strict sql_mode, cut otherwise"),
    PairRule("fewer-digits", "loss",
             lambda o, n: _decimals(o, n) and (n.length or 0) - (n.scale or 0) < (o.length or 0) - (o.scale or 0),
             "`{c}` goes from {old} to {new}: numbers with more digits before the point do not fit"),
    PairRule("rounded", "loss", lambda o, n: _decimals(o, n) and (n.scale or 0) < (o.scale or 0),
             "`{c}` goes from {old} to {new}: TiDB rounds every value that has more digits after the point, "
             "and sends no row event for it"),
    PairRule("scale", "change", lambda o, n: _decimals(o, n) and n.scale != o.scale,
             "`{c}` goes from {old} to {new}: Avro's rules call this compatible, but bytes written with the old "
             "scale and "
             "read with the new one are another number. Read with the writer's schema (by id), as ours and Confluent's "
             "deserializers do, never with a fixed one", AVRO, (("avro_decimal_handling_mode", "precise"),)),
    PairRule("renumbered", "loss", _is_renumbered,
             "the elements of `{c}` are not the old ones with more at the end: the numbers that Open, Craft, Simple "
             "and "
             "Canal-JSON send mean other names before and after; readers need the table version at the row's commit_ts",
             BY_NUMBER),
    PairRule("elements-lost", "loss", _lost_elements,
             "`{c}` loses elements: rows that hold them are refused in strict sql_mode and become '' otherwise; Avro "
             "can't write such a row and the changefeed stops at it"),
    PairRule("elements-order", "change", lambda o, n: _is_renumbered(o, n) and not _lost_elements(o, n),
             "`{c}` has its elements in another order: comparisons and sorting by number change"),
    PairRule("elements-added", "change",
             lambda o, n: _is_listed(o, n) and not _is_renumbered(o, n) and len(n.elements) > len(o.elements),
             "`{c}` has more elements: consumers that list the allowed names must learn them; numbers stay as they "
             "are"),
    PairRule("other-type", "change", _kind,
             "`{c}` goes from {old} to {new}: TiDB converts the rows that are there without sending them again, and "
             "readers see another type from the first new row on"),
    PairRule("fraction", "loss",
             lambda o, n: o.type.kind is n.type.kind and o.type.kind in FRACTIONAL and (n.scale or 0) < (o.scale or 0),
             "`{c}` goes from {old} to {new}: TiDB rounds the fractions of seconds away, without row events"),
    PairRule("zone", "loss", lambda o, n: {o.type.kind, n.type.kind} == {Kind.DATETIME, Kind.TIMESTAMP},
             "`{c}` goes from {old} to {new}: TIMESTAMP is an instant, DATETIME a wall clock; TiDB converts by the "
             "session's time_zone, and Avro and Open write TIMESTAMP in TiCDC's zone without saying which"),
    PairRule("charset", "change",
             lambda o, n: bool(o.charset and n.charset) and o.charset != n.charset and not _kind(o, n),
             "`{c}` has another character set: characters that the new one lacks are refused or replaced by ?"),
    PairRule("collation", "change",
             lambda o, n: o.charset == n.charset and bool(o.collate and n.collate) and o.collate != n.collate,
             "`{c}` has another collation: what counts as equal changes, so unique keys and joins downstream may "
             "differ"),
    PairRule("default-flip", "change",
             lambda o, n: o.nullable and n.nullable and o.has_default_value != n.has_default_value,
             "`{c}` is nullable and gains or loses a default: Avro's union turns from [null, type] to [type, null] or "
             "back. Readers by schema id don't mind; code that takes the branch's number does", ("avro",)),
    PairRule("default-text", "change",
             lambda o, n: o.has_default_value and n.has_default_value
             and (o.default, o.default_is_expr) != (n.default, n.default_is_expr),
             "`{c}` has another default: a reader with the new schema fills it into rows that lack the column",
             ("avro",)),
    PairRule("renamed", "change", lambda o, n: o.name != n.name,
             "`{o}` is renamed to `{c}`: in Avro that is a dropped and a new column, and consumers lose the old name"),
    PairRule("generated", "change",
             lambda o, n: (o.generated is None) != (n.generated is None) or o.virtual != n.virtual,
             "`{c}` changes between ordinary and generated: rows carry no value of a virtual column"),
)  # fmt: skip


# ---- of a column that comes, goes, or becomes what it was not
@dataclass(frozen=True, slots=True)
class ColumnRule:
    """modes: of Avro's options. setting: of the changefeed, its name and the value with which there is a risk."""

    id: str
    severity: Severity
    when: Callable[[Column], bool]
    text: str
    protocols: tuple[str, ...] = ()
    modes: tuple[tuple[str, Any], ...] = ()
    setting: tuple[str, str] | None = None


ADDED_RULES: Final = (
    ColumnRule("decimal-default", "change",
               lambda c: c.type.kind is Kind.DECIMAL and c.has_default_value,
               "`{c}` has a default that TiCDC leaves out of the Avro schema (DECIMAL in mode `precise` never has one)",
               ("avro",), (("avro_decimal_handling_mode", "precise"),)),
    ColumnRule("decimal-double", "loss", lambda c: c.type.kind is Kind.DECIMAL,
               "`{c}` {new} is a double in TiCDC's Debezium JSON: more than 15 digits are not kept", ("debezium",),
               setting=("debezium-decimal-handling-mode", "double")),
    ColumnRule("spark-precision", "change", lambda c: c.type.kind is Kind.DECIMAL and (c.length or 0) > 38,
               "`{c}` {new} has more digits than a Spark DECIMAL (38): our jobs give it as text"),
    ColumnRule("unsigned-long", "loss", lambda c: c.is_unsigned64,
               "`{c}` is BIGINT UNSIGNED, and mode `long` writes numbers above 2^63-1 as negative ones (debezium-avro "
               "stops at them)", AVRO, (("avro_bigint_unsigned_handling_mode", "long"),)),
    ColumnRule("unsigned-long", "loss", lambda c: c.is_unsigned64,
               "`{c}` is BIGINT UNSIGNED, and mode `long` writes numbers above 2^63-1 as negative ones", ("debezium",),
               setting=("debezium-bigint-unsigned-handling-mode", "long")),
    ColumnRule("null-as-default", "loss", lambda c: c.nullable and c.has_default_value,
               "`{c}` may be NULL and has a default: TiCDC's Debezium writes the default where the row has NULL",
               DEBEZIUM),
    ColumnRule("null-panic", "break",
               lambda c: c.nullable and c.has_default_value and c.type.kind in (Kind.DATE, Kind.TIME),
               "`{c}` is a {new} with a default: TiCDC's Debezium encoder fails at the first row where it is NULL",
               DEBEZIUM),
    ColumnRule("bytes-default", "change",
               lambda c: c.has_default_value and c.type.kind in (Kind.BIT, Kind.BINARY),
               "the default of `{c}` is base64 text in the Avro schema: a reader that fills it in gets other bytes",
               ("avro",)),
    ColumnRule("clock-default", "change",
               lambda c: c.has_default_value and not c.default_is_expr and str(c.default).startswith("CURRENT_"),
               "the default of `{c}` is the word CURRENT_TIMESTAMP (or CURRENT_DATE) in the Avro schema: a reader with "
               "the new schema fills that text into rows that lack the column", ("avro",)),
    ColumnRule("timestamp-zone", "change", lambda c: c.type.kind is Kind.TIMESTAMP,
               "`{c}` is a TIMESTAMP: it is written in TiCDC's time zone and no message says which; tell readers with "
               "--time-zone", ("avro", "open", "craft", "simple", "canal-json")),
    ColumnRule("virtual-twice", "break", lambda c: c.virtual,
               "`{c}` is a virtual column: TiCDC's Debezium lists it twice in the schema, which Kafka Connect refuses",
               ("debezium",)),
    ColumnRule("virtual-null", "change", lambda c: c.virtual,
               "`{c}` is a virtual column: the Avro schema has it, and its value is always null", ("avro",)),
)  # fmt: skip

DROPPED_RULES: Final = (
    ColumnRule("dropped", "loss", lambda c: True,
               "`{c}` is dropped: its values are gone, and consumers that need it get no value from the next row on"),
)  # fmt: skip


def risks(change: TableChange, target: SubjectTarget | None, feed: ChangefeedSettings) -> list[Risk]:
    """All that apply, in order. change: as it is sent. target None: the protocol is not known, all rules apply."""
    found, table = list[Risk](), str(change.id)
    for rule in TABLE_RULES:
        if rule.when(change, target):
            text = rule.text if isinstance(rule.text, str) else rule.text(change, target)
            found.append(Risk(rule.id, rule.severity, table, "", text))
    for old, new in change.pairs:
        for pair in PAIR_RULES if old != new else ():
            if _applies(pair, target) and pair.when(old, new):
                text = pair.text.format(c=new.name, o=old.name, old=type_text(old), new=type_text(new))
                found.append(Risk(pair.id, pair.severity, table, new.name, text))
    return [*found, *_of_columns(change, target, feed), *_of_faults(change, target, feed)]


def _of_faults(change: TableChange, target: SubjectTarget | None, feed: ChangefeedSettings) -> Iterator[Risk]:
    """Known faults of TiCDC that the statement, or a new or changed column, runs into."""
    if target is None:
        return
    became: list[tuple[Column | None, Column]] = [(None, c) for c in change.added_columns]
    became += [(old, new) for old, new in change.pairs if old != new]
    deeds = set(_deeds(change, feed))
    for fault in faults(target.protocol, feed):
        if fault.deed in deeds:
            yield Risk(fault.id, fault.severity, str(change.id), "", f"{fault.text} ({fault.versions})")
        when = fault.when
        for old, new in became:
            if when is None or (fault.added and (old is not None or change.before is None)):
                continue
            if when(old, new) and not (old is not None and when(None, old)):
                text = f"`{new.name}`: {fault.text} ({fault.versions})"
                yield Risk(fault.id, fault.severity, str(change.id), new.name, text)


def _deeds(change: TableChange, feed: ChangefeedSettings) -> Iterator[Deed]:
    """What it does to the table, as far as a known fault is about it."""
    details = change.before.details if change.before else None
    if change.rows == "truncated" and details is not None and details.partitioned:
        yield "truncates partitions"
    if change.before is not None and change.after is not None and change.handle_keys[1] and not change.handle_keys[0]:
        yield "gets its first key"
    if change.is_renamed and change.has_several_pairs:
        yield "renames several"
    if change.lacks_database and change.is_renamed and change.before and change.before.id.db != change.id.db:
        yield "renames across databases"
    if change.like is not None and not feed.replicates(change.like):
        yield "copies a filtered table"
    if change.like is not None and change.lacks_database and change.like.db != change.id.db:
        yield "copies across databases"


def _of_columns(change: TableChange, target: SubjectTarget | None, feed: ChangefeedSettings) -> Iterator[Risk]:
    """What a changed column was not before is as new to its readers as an added one."""
    became: list[tuple[Column | None, Column]] = [(None, c) for c in change.added_columns]
    became += [(old, new) for old, new in change.pairs if old != new]
    gone: list[tuple[Column | None, Column]] = [(None, c) for c in change.dropped_columns]
    for columns, rules in ((became, ADDED_RULES), (gone, DROPPED_RULES)):
        for old, column in columns:
            for rule in rules:
                if not _applies(rule, target) or not rule.when(column) or (old is not None and rule.when(old)):
                    continue
                if target is not None and rule.setting is not None and feed.get(rule.setting[0]) != rule.setting[1]:
                    continue
                text = rule.text.format(c=column.name, new=type_text(column))
                yield Risk(rule.id, rule.severity, str(change.id), column.name, text)


def _applies(rule: PairRule | ColumnRule, target: SubjectTarget | None) -> bool:
    if target is None:
        return True
    if rule.protocols and target.protocol not in rule.protocols:
        return False
    return target.protocol not in AVRO or all(getattr(target.options, name) == value for name, value in rule.modes)


# ---- expressions of event filters
_QUALIFIER: Final = re.compile(r"`(?:[^`]|``)+`\.")


def filter_failure(feed: ChangefeedSettings, table: Table) -> str:
    """Which expression asks for a column that the table lacks; "" where none does, or one is not read here."""
    for filter_ in feed.event_filters:
        matcher = texts(filter_.get("matcher"))
        if not TableFilter(matcher, bool(feed.get("case-sensitive"))).matches(table.id.db, table.id.table):
            continue
        for name in EXPRESSIONS:
            text = text_of(filter_, name)
            try:
                read = expression(Cursor(text, TYPED)) if text.strip() else ""
            except (DdlError, RecursionError):
                continue
            asked = generated_names(_QUALIFIER.sub("", read))
            if missing := [c for c in asked if find(table.columns, c) is None]:
                where = f"the event filter for {', '.join(matcher)} asks in {name}"
                return f"{where} for column `{missing[0]}`, which {table.id} does not have"
    return ""
