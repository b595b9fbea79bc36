"""Points in a history as people write them, a TSO or a time; and texts as every database keeps them."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from typing import Final

from ticdc_bridge.schemas.model.event import MAX_TSO, ms_to_tso, tso_physical_ms
from ticdc_bridge.service.errors import RegistryError


def clean(text: str) -> str:
    """The text without lone surrogates and NUL characters, which are shown as escapes."""
    if text.isascii() and "\0" not in text:
        return text
    return text.encode("utf-8", "backslashreplace").decode().replace("\0", "\\x00")


_TIME: Final = re.compile(r"(\d{4}-\d\d-\d\d)[Tt ](\d\d:\d\d:\d\d)(?:\.(\d{1,9}))?([Zz]|[+-]\d\d:\d\d)", re.ASCII)
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


def tso_of(text: str) -> int:
    """A commit_ts, or an RFC 3339 time: then the last TSO of its millisecond. RegistryError INVALID_TIME."""
    if text.isascii() and text.isdigit() and len(text) <= 19 and int(text) <= MAX_TSO:
        return int(text)
    match = _TIME.fullmatch(text)
    if match is not None:
        day, clock, fraction, zone = match.groups()
        try:
            moment = datetime.fromisoformat(f"{day}T{clock}{'+00:00' if zone in 'Zz' else zone}")
            ms = (moment - _EPOCH) // timedelta(milliseconds=1) + int((fraction or "0")[:3].ljust(3, "0"))
        except (ValueError, OverflowError):
            ms = -1
        if 0 <= ms < tso_physical_ms(MAX_TSO):
            return ms_to_tso(ms + 1) - 1
    raise RegistryError("INVALID_TIME", text=text[:80])


def time_text(tso: int) -> str:
    """The time of a TSO, to the millisecond, in UTC."""
    moment = _EPOCH + timedelta(milliseconds=min(tso_physical_ms(tso), 253_402_300_799_999))
    return moment.strftime("%Y-%m-%dT%H:%M:%S.") + f"{moment.microsecond // 1000:03d}Z"
