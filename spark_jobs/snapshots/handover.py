"""Whether a changefeed's topics go on where a snapshot ends: what they begin with says when the changefeed began.

It began at or before the first commit_ts that it sent. Watermarks are in every partition, changes in one of them: the
smallest of all that the partitions begin with counts. docs/decisions/0048 has the rules.
"""

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
    """Looks for changes that are neither in the snapshot of this TSO nor in the topics; why that can't be known, or [].

    SetupError STOPPED for a gap; KAFKA_UNREACHABLE, UNKNOWN_TOPIC.
    """
    firsts, unknown = list[int](), list[str]()
    for topic in choice.find(settings):
        decoder = config.decoder()
        for partition, (low, high) in sorted(extents(topic, settings).items()):
            first = _first_commit_ts(decoder, islice(read_range(topic, partition, low, high, settings), _MOST), tso)
            firsts += [] if first is None else [first]
            where, begins = f"topic {topic!r} partition {partition}", f"begins at offset {low}"
            if low and first is None:
                unknown.append(f"{where} {begins}, and what is left of it has no commit_ts")
            elif low and first is not None and first > tso:
                text = "changes between the two may be gone. Leave out --in where merge has read them"
                raise _gap(where, f"what is left of it {begins}", first, tso, text)
    if firsts and min(firsts) > tso:
        text = (
            "what changed between the two is in neither. Or create the changefeed anew: cdc cli changefeed create"
            f" --start-ts={tso} …. Leave out --in if its --start-ts is {tso} or less: nothing may have changed so long"
        )
        raise _gap(f"topic {str(choice)!r}", "it begins", min(firsts), tso, text)
    if not firsts and not unknown:
        unknown.append(f"topic {str(choice)!r} has no message with a commit_ts")
    return unknown


def _gap(where: str, begins: str, first: int, tso: int, text: str) -> SetupError:
    newer = f"Load a newer snapshot: --at {first} or later, or a new dump"
    details = f"{begins} with commit_ts {first}, after the snapshot (TSO {tso}). {newer}: {text}"
    return SetupError("STOPPED", where=where, details=details)


def _first_commit_ts(decoder: Decoder, messages: Iterable[Message], tso: int) -> int | None:
    """The smallest commit_ts up to the first watermark, or the first that is not after the TSO."""
    smallest: int | None = None
    for message in messages:
        for event in decode_message(decoder, message).events:
            if event.commit_ts is not None and isinstance(event, RowChange | DdlEvent | Watermark):
                smallest = min(smallest or event.commit_ts, event.commit_ts)
                if smallest <= tso or isinstance(event, Watermark):
                    return smallest
    return smallest
