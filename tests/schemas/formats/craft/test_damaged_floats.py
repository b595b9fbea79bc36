"""FLOATs that TiCDC's Craft encoder wrote the next number over: which are flagged, and from which message on."""

from __future__ import annotations

import struct
from typing import Any

from tests.support.each import each
from tests.support.golden import Registry, cases
from tests.support.rows import COMMIT_TS
from ticdc_bridge.schemas.formats.base import Context
from ticdc_bridge.schemas.formats.craft.layout import RowCells, RowOut, write_rows
from ticdc_bridge.schemas.inspect.format_lookup import format_named
from ticdc_bridge.schemas.model.event import Message, RowChange
from ticdc_bridge.schemas.model.options import Options

INT, BIGINT, FLOAT, DOUBLE = 3, 8, 4, 5
TYPES = {"f": FLOAT, "g": FLOAT, "n": INT, "m": BIGINT, "d": DOUBLE}


def _number(value: int) -> bytes:
    value = value << 1 ^ value >> 63
    out = bytearray()
    while value > 127:
        out.append(value & 127 | 128)
        value >>= 7
    return bytes((*out, value))


def _real(value: float) -> bytes:
    return struct.pack("<d", struct.unpack("<f", struct.pack("<f", value))[0])


def _row(damaged: bool, **cells: float) -> RowOut:
    """A row as a sound encoder writes it, or one that lets each FLOAT's high bytes be overwritten."""
    contents = [_number(int(v)) if TYPES[n[0]] in (INT, BIGINT) else _real(v) for n, v in cells.items()]
    if damaged:
        for place, name in enumerate(cells):
            if TYPES[name[0]] == FLOAT and place + 1 < len(contents):
                head = contents[place + 1][:4]
                contents[place] = contents[place][:4] + head + contents[place][4 + len(head) :]
    kinds = [TYPES[name[0]] for name in cells]
    return RowOut("shop", "t", COMMIT_TS, -1, RowCells(list(cells), kinds, [1] * len(cells), contents), None)


def _message(*rows: RowOut, topic: str = "a") -> Message:
    return Message(None, write_rows(list(rows)), topic, 0, 0)


def _decoder(topics: set[str | None] | None = None, **options: Any) -> Any:
    context = Context(Registry(), None, Options.of(options), damaged_topics=set() if topics is None else topics)
    return format_named("craft").decoder(context)


def _flagged(decoder: Any, message: Message) -> list[set[str]]:
    events = decoder.decode(message)
    assert all(isinstance(event, RowChange) for event in events)
    return [{f.partition(":")[2] for f in e.flags if f.startswith("float_damaged")} for e in events]


ZERO = _message(_row(True, f=0.757, n=0))  # the next number is a zero byte: 0.757 comes as 0.75695807
PROOF = _message(_row(True, f=0.757, m=-(1 << 40)))
SOUND = _message(_row(False, f=0.757, n=5))

# name → (messages, options, the flagged FLOATs of each row)
RUNS: dict[str, tuple[list[Message], dict[str, str], list[set[str]]]] = {
    "nothing shows": ([ZERO, ZERO, SOUND], {}, [set(), set(), set()]),
    "from the proof on": ([ZERO, PROOF, ZERO, SOUND], {}, [set(), {"f"}, {"f"}, {"f"}]),
    "in the proof's message": ([_message(_row(True, f=0.757, n=0, g=1.5, m=1 << 40))], {}, [{"f", "g"}]),
    "in its other rows": (
        [_message(_row(True, f=0.757, n=0), _row(True, f=1.5, m=1 << 40), _row(True, f=0.1, n=0))], {},
        [{"f"}, {"f"}, {"f"}],
    ),
    "other topics are others": ([PROOF, _message(_row(True, f=0.757, n=0), topic="b")], {}, [{"f"}, set()]),
    "two bytes twice": (
        [_message(_row(True, f=0.757, n=5000)), _message(_row(True, f=0.1, n=5001)), ZERO], {}, [{"f"}, {"f"}, {"f"}],
    ),
    "one byte proves nothing": ([_message(_row(True, f=0.757, n=5)), ZERO], {}, [{"f"}, set()]),
    "chance among sound ones": (
        [_message(*[_row(False, f=0.1 * k, n=k) for k in range(1, 200)]), SOUND], {}, [set()] * 200,
    ),
    "2.0 before a FLOAT whose fourth byte is 0x40": ([_message(_row(False, f=2.0, g=1.0000076, n=7))], {}, [set()]),
    "by hand: damaged": ([ZERO, SOUND], {"craft_float": "damaged"}, [{"f"}, {"f"}]),
    "by hand: sound": ([PROOF, ZERO], {"craft_float": "sound"}, [{"f"}, set()]),
    "a FLOAT alone": ([_message(_row(False, f=0.5))], {}, [set()]),
    "a FLOAT at the end": ([PROOF, _message(_row(False, n=1, f=0.5))], {}, [{"f"}, {"f"}]),
}  # fmt: skip


@each(("messages", "options", "flagged"), RUNS.values(), ids=RUNS)
def test_which_floats_are_flagged(messages: list[Message], options: dict[str, str], flagged: list[set[str]]) -> None:
    decoder = _decoder(None, **options)
    assert [one for message in messages for one in _flagged(decoder, message)] == flagged


def test_decoders_of_one_side_share_what_is_proven() -> None:
    topics: set[str | None] = set()
    assert _flagged(_decoder(topics), PROOF) == [{"f"}]
    assert topics == {"a"}
    assert _flagged(_decoder(topics), ZERO) == [{"f"}]


def test_a_flagged_float_is_written_again_as_it_came() -> None:
    decoder = _decoder()
    encoder = format_named("craft").encoder(Context(Registry(), None, Options.of({})))
    for message in (PROOF, ZERO, SOUND):
        events = decoder.decode(message)
        [again] = encoder.encode_rows(events, message)  # type: ignore[attr-defined]
        assert again.value == message.value


def test_real_messages_have_no_wrong_float_without_a_flag_after_the_proof() -> None:
    """TiCDC's own: 0.757 and the like are flagged from the first message that proves the encoder."""
    unflagged = 0
    for golden in cases("craft")[::3]:
        topics: set[str | None] = set()
        decoder, proven = _decoder(topics), False
        for message in golden.messages():
            events = [e for e in decoder.decode(message) if isinstance(e, RowChange)]
            for event in events if proven else ():
                floats = {c.name for c in event.table.columns if c.type.name == "float"}
                sent = {n for row in (event.before, event.after) for n in row or () if n in floats and (row or {})[n]}
                unflagged += len(sent - {f.partition(":")[2] for f in event.flags})
            proven = bool(topics)
    assert unflagged == 0
