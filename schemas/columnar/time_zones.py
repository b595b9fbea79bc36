"""When a time zone's offset changes, as a table that kernels can look into."""

from datetime import datetime, timedelta, tzinfo
from functools import lru_cache

from ticdc_bridge.schemas.model.values import zone

FIRST, LAST = 3 * 86_400, 2_147_212_800
"""Seconds since 1970, within a TIMESTAMP's range: of any zone's local times between them the table says all."""

_STEP = 3 * 3600  # no zone has changed twice within hours since 1970
_MARGIN = 3 * 86_400


@lru_cache(maxsize=64)
def zone_changes(name: str) -> tuple[tuple[int, int], ...]:
    """(second since 1970 in UTC, offset in seconds from then on), in order; the first holds from before FIRST on.

    ValueError when there is no such zone.
    """
    of = zone(name)
    start = FIRST - _MARGIN
    changes = [(start, _offset(of, start))]
    for late in range(start + _STEP, LAST + _MARGIN, _STEP):
        offset = _offset(of, late)
        if offset != changes[-1][1]:
            early = late - _STEP
            while late - early > 1:
                middle = (early + late) // 2
                early, late = (middle, late) if _offset(of, middle) == changes[-1][1] else (early, middle)
            changes.append((late, offset))
    return tuple(changes)


def _offset(of: tzinfo, seconds: int) -> int:
    offset = datetime.fromtimestamp(seconds, of).utcoffset()
    assert offset is not None
    return offset // timedelta(seconds=1)
