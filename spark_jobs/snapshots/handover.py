"""Whether a changefeed's topics go on where a snapshot ends: what they begin with says when the changefeed began.

It began at or before the first commit_ts that it sent. Watermarks are in every partition, changes in one of them: the
smallest of all that the partitions begin with counts. docs/decisions/0048 has the rules.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from itertools import islice
from typing import Final

from ticdc_bridge.clients.kafka import TopicChoice, extents, read_range
from ticdc_bridge.schemas.formats.base import Decoder
from ticdc_bridge.schemas.model.errors import SetupError
from ticdc_bridge.schemas.model.event import DdlEvent, Message, RowChange, Watermark
from ticdc_bridge.spark_jobs.pipeline.codec_config import CodecConfig
from ticdc_bridge.spark_jobs.pipeline.message_codec import decode_message

_MOST: Final = 1000
"""Messages of a partition that are looked at for the first commit_ts."""


def check_handover(choice: TopicChoice, settings: Mapping[str, str], config: CodecConfig, tso: int) -> list[str]:
    """Looks for changes that are neither in the snapshot nor in the topics.

    Args:
        settings: librdkafka's.
        config: the side read.
        tso: of the snapshot.
    Returns:
        Why it can't be known whether there are any: [] where there are none.
    Raises:
        SetupError: STOPPED for a gap; KAFKA_UNREACHABLE, UNKNOWN_TOPIC.
    """
    firsts, unknown, cut = list[int](), list[str](), False
    for topic in choice.find(settings):
        decoder = config.decoder()
        for partition, (low, high) in sorted(extents(topic, settings).items()):
            where = f"topic {topic!r} partition {partition}"
            first = _first_commit_ts(decoder, islice(read_range(topic, partition, low, high, settings), _MOST), tso)
            firsts += [] if first is None else [first]
            if low and first is None:
                cut = True
                unknown.append(f"{where} begins at offset {low}, and what is left of it has no commit_ts")
            elif low and first is not None and first > tso:
                details = (
                    f"what is left of it begins at offset {low} with commit_ts {first}, after the snapshot (TSO {tso}):"
                    f" changes between the two may be gone. {_newer(first)} Leave out --in where merge has read them"
                )
                raise SetupError("STOPPED", where=where, details=details)
    if firsts and min(firsts) > tso:
        details = (
            f"it begins with commit_ts {min(firsts)}, after the snapshot (TSO {tso}): its changefeed began later, and"
            f" what changed between the two is in neither. {_newer(min(firsts))} Or create the changefeed anew: cdc cli"
            f" changefeed create --start-ts={tso} …. Leave out --in if its --start-ts is {tso} or less: nothing may"
            " have changed so long"
        )
        raise SetupError("STOPPED", where=f"topic {str(choice)!r}", details=details)
    if not firsts and not cut:
        unknown.append(f"topic {str(choice)!r} has no message with a commit_ts")
    return unknown


def _newer(first: int) -> str:
    return f"Load a newer snapshot: --at {first} or later, or a new dump."


def _first_commit_ts(decoder: Decoder, messages: Iterable[Message], tso: int) -> int | None:
    """The smallest commit_ts up to the first watermark, or the first that is not after the TSO."""
    smallest: int | None = None
    for message in messages:
        for event in decode_message(decoder, message).events:
            if event.commit_ts is None or not isinstance(event, RowChange | DdlEvent | Watermark):
                continue
            smallest = event.commit_ts if smallest is None else min(smallest, event.commit_ts)
            if smallest <= tso or isinstance(event, Watermark):
                return smallest
    return smallest
