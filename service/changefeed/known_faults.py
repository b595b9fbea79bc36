"""Known faults of TiCDC's releases that a setting or a statement runs into: one row each.

A row says since which release the fault is there and in which it is gone ("" where none is known). The releases are
those whose source has it: TiCDC's tags, and from 8.5.4 on those of its new architecture, which is a source of its own.
Line 26.3 branched off on 2026-01-12, after what is in 8.5.5.
"""

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Final, Literal

from ticdc_bridge.schemas.model.errors import SetupError
from ticdc_bridge.schemas.model.table import Column
from ticdc_bridge.schemas.model.types import Kind
from ticdc_bridge.service.changefeed.settings import ChangefeedSettings, texts

_VERSION = re.compile(r"v?(\d+)\.(\d+)(?:\.(\d+))?(?:-.*)?")
_NEWEST_LINE: Final = (26, 3)
_TEMPORAL: Final = (Kind.DATE, Kind.DATETIME, Kind.TIMESTAMP, Kind.TIME, Kind.YEAR)
_STRINGS: Final = (Kind.TEXT, Kind.ENUM, Kind.SET, Kind.JSON)

Deed = Literal[
    "truncates partitions", "renames several", "renames across databases", "copies a filtered table",
    "copies across databases", "gets its first key",
]  # fmt: skip


@dataclass(frozen=True, slots=True)
class KnownFault:
    """severity: as that of a risk. protocols: () for all. until: the first release with the fix, of each line that has
    one, in order. when: of (the column before, None where it is new; the column), None where no column runs into it.
    added: only a column that ALTER TABLE adds. stops: whatever the rows hold. settings: only with such settings. deed:
    what a statement does to a table that runs into it (`ddl_check.risks`), "" where it is no deed.
    """

    id: str
    severity: Literal["loss", "break"]
    protocols: tuple[str, ...]
    since: str
    until: tuple[str, ...]
    text: str
    fix: str
    source: str
    when: Callable[[Column | None, Column], bool] | None = None
    added: bool = False
    stops: bool = False
    settings: Callable[[ChangefeedSettings], bool] = lambda _: True
    deed: Deed | Literal[""] = ""

    @property
    def versions(self) -> str:
        """The releases that have it, in words."""
        return f"TiCDC {self.since} and later" + (f"; fixed in {', '.join(self.until)}" if self.until else "")


def _gets_null_default(old: Column | None, new: Column) -> bool:
    return old is not None and not old.nullable and new.nullable and not new.has_default_value


def _zero_default(_: Column | None, c: Column) -> bool:
    """A TIMESTAMP whose default is no literal time, or none that Go can read."""
    text = str(c.default).upper()
    return (
        c.type.kind is Kind.TIMESTAMP
        and c.has_default_value
        and (text.startswith("CURRENT_TIMESTAMP") or (text.startswith("0000") and not c.nullable))
    )


def _filters_renames(feed: ChangefeedSettings) -> bool:
    """True if an event filter of some tables keeps RENAME TABLE back."""
    return any(
        texts(filter_.get("matcher", ())) != ("*.*",)
        and (
            filter_.get("ignore-sql") or _RENAMES & {event.lower() for event in texts(filter_.get("ignore-event", ()))}
        )
        for filter_ in feed.event_filters
    )


_TAKE_A_FIX: Final = "Use a release with the fix"
_WRONG_DEFAULT: Final = (
    "If ALTER TABLE had added the column NOT NULL, TiCDC still puts the old default into the schema. A reader that "
    "fills missing fields then shows this default where TiDB has NULL"
)
_RENAMES: Final = frozenset({"rename table", "all ddl"})
_NEW_ARCHITECTURE: Final = "TiCDC's new architecture"
_WITH_DDL: Final = ("open", "craft", "canal-json", "simple", "debezium")

FAULTS: Final = (
    KnownFault("temporal-null-added", "break", ("debezium",), "8.5.0", ("8.5.8", "26.3.3"),
               "TiCDC's Debezium encoder fails at the first NULL in a temporal column that was added with DEFAULT "
               "NULL, and the changefeed stops", "Use a release with the fix (July 2026), or add the column NOT NULL",
               "https://github.com/pingcap/ticdc/issues/5605",
               lambda _, c: c.type.kind in _TEMPORAL and c.nullable and not c.has_default_value, added=True),
    KnownFault("enum-null-default", "break", ("debezium",), "8.0.0", ("8.5.5", "26.3.1"),
               "TiCDC's Debezium encoder fails at a NULL in an ENUM or SET column that has a default, and the "
               "changefeed stops", "Use a release with the fix (December 2025), or leave the default out",
               "https://github.com/pingcap/tiflow/issues/12474",
               lambda _, c: c.type.kind in (Kind.ENUM, Kind.SET) and c.nullable and c.has_default_value),
    KnownFault("craft-float-damaged", "loss", ("craft",), "8.2.0", (),
               "TiCDC's Craft encoder damages FLOAT values, and no reader can repair them",
               "Use DOUBLE, or open-protocol or avro", "tiflow pkg/sink/codec/craft",
               lambda _, c: c.type.kind is Kind.FLOAT),
    KnownFault("null-text-default", "break", ("avro",), "6.1.0", ("6.5.12", "7.5.6", "8.5.2", "26.3.1"),
               "TiCDC's Avro encoder can't use the schema of a column that may be NULL and whose default is the text "
               "'null', and the changefeed stops", f"{_TAKE_A_FIX}, or make the column NOT NULL",
               "https://github.com/pingcap/tiflow/issues/11994",
               lambda _, c: c.type.kind in _STRINGS and c.nullable and c.default == "null", stops=True),
    KnownFault("default-of-not-null", "loss", ("avro", "simple"), "6.1.0", ("6.5.12", "7.5.6", "8.5.2", "26.3.1"),
               _WRONG_DEFAULT, _TAKE_A_FIX, "https://github.com/pingcap/tiflow/issues/12037", _gets_null_default),
    KnownFault("default-of-not-null", "loss", ("debezium",), "8.5.0", ("8.5.2", "26.3.1"),
               _WRONG_DEFAULT, _TAKE_A_FIX, "https://github.com/pingcap/tiflow/issues/12037", _gets_null_default),
    KnownFault("timestamp-default-zero", "break", ("debezium",), "8.5.0", ("8.5.1", "26.3.1"),
               "TiCDC's Debezium schema has the number 0 as the default of a TIMESTAMP with CURRENT_TIMESTAMP, where a "
               "text has to be: readers who go by the schema refuse every message of the table",
               f"{_TAKE_A_FIX}, or set debezium-disable-schema", "https://github.com/pingcap/tiflow/issues/11966",
               _zero_default, settings=lambda feed: not feed.get("debezium-disable-schema")),
    KnownFault("selector-panic", "break", ("debezium",), "8.0.0", ("8.5.3", "26.3.1"),
               "TiCDC's Debezium encoder fails at the first row of a table with a column selector, and TiCDC restarts "
               "for ever", f"{_TAKE_A_FIX}, or take out the [[sink.column-selectors]]",
               "https://github.com/pingcap/tiflow/issues/12208", settings=lambda feed: bool(feed.selectors)),
    KnownFault("null-text-nulled", "loss", ("canal-json",), "8.5.4", ("8.5.5", "26.3.1"),
               f"{_NEW_ARCHITECTURE} writes the text `null` of a column as NULL", _TAKE_A_FIX,
               "https://github.com/pingcap/ticdc/issues/3958",
               lambda _, c: c.type.kind in (Kind.TEXT, Kind.BINARY, Kind.JSON)),
    KnownFault("time-fraction-lost", "loss", ("open",), "8.5.4", ("8.5.6", "26.3.1"),
               f"{_NEW_ARCHITECTURE} leaves out the fraction of a TIME, and no reader can repair it", _TAKE_A_FIX,
               "https://github.com/pingcap/ticdc/pull/4249",
               lambda _, c: c.type.kind is Kind.TIME and bool(c.scale)),
    KnownFault("open-old-values", "loss", ("open",), "8.5.4", ("8.5.6", "26.3.1"),
               f"{_NEW_ARCHITECTURE} writes old values that are empty, zero or a zero date as null, and leaves out "
               "changes of BIT columns, while only-output-updated-columns is on",
               f"{_TAKE_A_FIX}, or set only-output-updated-columns to false",
               "https://github.com/pingcap/ticdc/pull/3973",
               settings=lambda feed: bool(feed.get("only-output-updated-columns"))),
    KnownFault("truncated-partitions", "break", (), "6.5.0", ("8.5.5", "26.3.1"),
               "TRUNCATE of a partitioned table may stop the changefeed, when rows from before it are still on their "
               "way", f"{_TAKE_A_FIX}, or let the changefeed catch up before the statement",
               "https://github.com/pingcap/tiflow/issues/12430", deed="truncates partitions"),
    KnownFault("truncated-partitions-stall", "break", (), "8.5.4", ("8.5.8", "26.3.1"),
               f"{_NEW_ARCHITECTURE} may stand still after TRUNCATE of a partitioned table",
               f"{_TAKE_A_FIX}, or let the changefeed catch up before the statement",
               "https://github.com/pingcap/ticdc/issues/4365", deed="truncates partitions"),
    KnownFault("like-filtered", "break", (), "8.5.4", ("8.5.8",),
               f"{_NEW_ARCHITECTURE} stands still at CREATE TABLE … LIKE a table that the filter excludes",
               f"{_TAKE_A_FIX}, or write the CREATE TABLE out", "https://github.com/pingcap/ticdc/issues/5150",
               deed="copies a filtered table", settings=lambda feed: texts(feed.get("filter.rules")) != ("*.*",)),
    KnownFault("rename-order", "loss", _WITH_DDL, "7.0.0", ("8.5.5", "26.3.1"),
               "TiCDC may send the parts of a RENAME of several tables in another order: readers then get a swap of "
               "names wrong", f"{_TAKE_A_FIX}, or rename one table per statement",
               "https://github.com/pingcap/tiflow/issues/12449", deed="renames several"),
    KnownFault("rename-bare", "loss", _WITH_DDL, "8.5.4", ("8.5.7", "26.3.1"),
               f"{_NEW_ARCHITECTURE} may send the wrong old database of a RENAME into another database, if the "
               "statement does not name it", f"{_TAKE_A_FIX}, or write the old name with its database",
               "https://github.com/pingcap/ticdc/issues/4424", deed="renames across databases"),
    KnownFault("like-bare", "loss", _WITH_DDL, "8.5.4", ("8.5.7",),
               f"{_NEW_ARCHITECTURE} looks for the table that CREATE TABLE … LIKE copies in the new table's "
               "database, if the statement does not name its own",
               f"{_TAKE_A_FIX}, or write the copied table with its database",
               "https://github.com/pingcap/ticdc/issues/5025", deed="copies across databases"),
    KnownFault("registry-errors-hidden", "break", ("avro", "debezium-avro"), "8.5.4", ("8.5.8",),
               f"{_NEW_ARCHITECTURE} may report a changefeed that stands still as healthy, if the registry answers 500",
               f"{_TAKE_A_FIX}, or watch the checkpoint's lag and the registry's errors",
               "https://github.com/pingcap/ticdc/issues/5653"),
    KnownFault("first-key-late", "break", (), "8.5.4", (),
               f"{_NEW_ARCHITECTURE} still leaves out a table that got its first primary or NOT NULL unique key after "
               "its CREATE TABLE, and stands still at a CREATE TABLE … LIKE it",
               "Create the table again with its key, or set force-replicate before it is created",
               "https://github.com/pingcap/ticdc/issues/6243", deed="gets its first key",
               settings=lambda feed: not feed.get("force-replicate")),
    KnownFault("ddl-after-create", "loss", (), "8.5.4", ("8.5.8",),
               f"{_NEW_ARCHITECTURE} may leave out a DDL right after the CREATE TABLE of its table",
               f"{_TAKE_A_FIX}, or let the changefeed catch up between the two",
               "https://github.com/pingcap/ticdc/issues/5401"),
    KnownFault("rename-filtered", "loss", _WITH_DDL, "6.2.0", ("6.5.12", "7.5.6", "8.5.1", "26.3.1"),
               "TiCDC's event filters look at the new name of a renamed table, not at the old one: the rule of another "
               "table decides about RENAME", f"{_TAKE_A_FIX}, or let the rule fit both names",
               "https://github.com/pingcap/tiflow/issues/11946", settings=_filters_renames),
    KnownFault("dispatcher-case", "break", (), "7.5.0", ("7.5.7", "8.5.3", "26.3.1"),
               "Unlike TiDB, TiCDC distinguishes upper and lower case in the columns and the index of a dispatcher, "
               "and the changefeed stops if the table has other letters",
               f"{_TAKE_A_FIX}, or write the names as SHOW CREATE TABLE does",
               "https://github.com/pingcap/tiflow/pull/12132",
               settings=lambda feed: any(d.columns or d.index for d in feed.dispatchers)),
)  # fmt: skip
STOPS: Final = frozenset(fault.id for fault in FAULTS if fault.stops)
"""Faults at which TiCDC stops whatever the rows hold."""


def version_of(text: str) -> tuple[int, int, int]:
    """8.5.4, v8.5, v8.5.4-release.1 → numbers. SetupError USAGE for what is no version."""
    match = _VERSION.fullmatch(text.strip())
    if match is None:
        raise SetupError("USAGE", details=f"TiCDC's version {text[:40]!r}: give it as 8.5.4")
    return int(match[1]), int(match[2]), int(match[3] or 0)


def faults(protocol: str, feed: ChangefeedSettings) -> Iterator[KnownFault]:
    """Those of a protocol with these settings, in the release of TiCDC that they name or in any."""
    at = version_of(feed.ticdc_version) if feed.ticdc_version else None
    for fault in FAULTS:
        fixes = [version_of(entry) for entry in fault.until]
        # A fix counts for its own line, as lines with higher numbers branch off earlier; a line after all has them all.
        fixed = at and any(at[:2] > _NEWEST_LINE or (at[:2] == fix[:2] and at >= fix) for fix in fixes)
        if (fault.protocols and protocol not in fault.protocols) or fixed or (at and at < version_of(fault.since)):
            continue
        if fault.settings(feed):
            yield fault
