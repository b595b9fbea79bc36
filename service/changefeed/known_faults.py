"""Known faults of TiCDC's releases that a setting or a statement runs into: one row each.

A row says since which release the fault is there and in which it is gone ("" where none is known).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Final, Literal

from schemas.model.errors import SetupError
from schemas.model.table import Column
from schemas.model.types import Kind

_VERSION = re.compile(r"v?(\d+)\.(\d+)(?:\.(\d+))?(?:-.*)?")
_TEMPORAL: Final = (Kind.DATE, Kind.DATETIME, Kind.TIMESTAMP, Kind.TIME, Kind.YEAR)


@dataclass(frozen=True, slots=True)
class KnownFault:
    """severity: as that of a risk. when: the column that runs into it. added: only one that ALTER TABLE adds."""

    id: str
    severity: Literal["loss", "break"]
    protocols: tuple[str, ...]
    since: str
    until: str
    when: Callable[[Column], bool]
    added: bool
    text: str
    fix: str
    source: str

    @property
    def versions(self) -> str:
        """The releases that have it, in words."""
        return f"TiCDC {self.since} {f'to before {self.until}' if self.until else 'and later'}"


def _has_value(c: Column) -> bool:
    return c.has_default and c.default is not None


FAULTS: Final = (
    KnownFault("temporal-null-added", "break", ("debezium",), "8.5.0", "8.5.8",
               lambda c: c.type.kind in _TEMPORAL and c.nullable and not _has_value(c), True,
               "TiCDC's Debezium encoder fails at the first NULL in a temporal column that was added with DEFAULT "
               "NULL, and the changefeed stops", "Use a release with the fix (July 2026), or add the column NOT NULL",
               "https://github.com/pingcap/ticdc/issues/5605"),
    KnownFault("enum-null-default", "break", ("debezium",), "8.0.0", "8.5.5",
               lambda c: c.type.kind in (Kind.ENUM, Kind.SET) and c.nullable and _has_value(c), False,
               "TiCDC's Debezium encoder fails at a NULL in an ENUM or SET column that has a default, and the "
               "changefeed stops", "Use a release with the fix (December 2025), or leave the default out",
               "https://github.com/pingcap/tiflow/issues/12474"),
    KnownFault("craft-float-damaged", "loss", ("craft",), "8.2.0", "", lambda c: c.type.kind is Kind.FLOAT, False,
               "TiCDC's Craft encoder damages FLOAT values, and no reader can repair them",
               "Use DOUBLE, or open-protocol or avro", "tiflow pkg/sink/codec/craft"),
)  # fmt: skip


def version_of(text: str) -> tuple[int, int, int]:
    """8.5.4, v8.5, v8.5.4-release.1 → numbers. SetupError USAGE for what is no version."""
    match = _VERSION.fullmatch(text.strip())
    if match is None:
        raise SetupError("USAGE", details=f"TiCDC's version {text[:40]!r}: give it as 8.5.4")
    return int(match[1]), int(match[2]), int(match[3] or 0)


def faults(protocol: str, version: str) -> Iterator[KnownFault]:
    """Those of a protocol in a release; version "" is any."""
    at = version_of(version) if version else None
    for fault in FAULTS:
        if protocol in fault.protocols and (at is None or _is_in(fault, at)):
            yield fault


def _is_in(fault: KnownFault, at: tuple[int, int, int]) -> bool:
    return at >= version_of(fault.since) and not (fault.until and at >= version_of(fault.until))
