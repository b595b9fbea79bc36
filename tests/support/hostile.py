"""Hostile messages of 1 MiB, for every decoder: what each is, and what must come of it.

`python -m tests.support.hostile FORMAT [BYTES [OF]]` reads them one by one in a process that may not take more memory
than the message's (inflated) size × 32 + 64 MiB, nor more than 10 s of CPU for one: it prints a line of JSON for each.
It takes one OF so many of them, chosen by its name, or all.
"""

import gc
import json
import resource
import signal
import sys
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any
from zlib import crc32

from tests.support import connector, fuzz
from tests.support.golden import WIDE, Golden, Registry
from tests.support.tidb_connector import tidb_messages
from ticdc_bridge.schemas.codec import compression
from ticdc_bridge.schemas.formats.base import BatchEncoder, Decoder
from ticdc_bridge.schemas.formats.open_protocol.frame import join_key, join_value
from ticdc_bridge.schemas.inputs.schema_files import FileSchemas
from ticdc_bridge.schemas.model.event import Message, RowChange
from ticdc_bridge.schemas.model.options import Options
from ticdc_bridge.spark_jobs.pipeline.codec_config import CodecConfig
from ticdc_bridge.spark_jobs.pipeline.message_codec import decode_message

MIB = 1 << 20
PER_BYTE, FLAT = 32, 64 * MIB  # what a message may take
MOST_CPU = 10  # seconds: a guard against hangs, no measure


@dataclass(frozen=True, slots=True)
class Hostile:
    """expected: the codes that it may be refused with, "event" among them where it may be read. size: inflated."""

    name: str
    message: Message
    expected: tuple[str, ...]
    size: int


@dataclass(frozen=True, slots=True)
class Outcome:
    """What came of one: the error's code or "event", the CPU seconds that it took, and its (inflated) size."""

    name: str
    outcome: str
    cpu: float
    expected: tuple[str, ...]
    size: int


# ---- JSON: what stands where a value should
_REFUSED, _EITHER = ("MALFORMED",), ("MALFORMED", "event")
# Name → (what is repeated up to the size, around it, what may come of it).
PIECES: dict[str, tuple[bytes, bytes, bytes, tuple[str, ...]]] = {
    "lists in a list": (b"[],", b"[", b"1]", _EITHER), "lists of lists": (b"[[[]]],", b"[", b"1]", _EITHER),
    "objects": (b'{"":{}},', b"[", b"1]", _EITHER), "numbers of a digit": (b"1,", b"[", b"1]", _EITHER),
    "numbers": (b"12345,", b"[", b"1]", _EITHER), "texts": (b'"ab",', b"[", b"1]", _EITHER),
    "numbers after a wide character": (b"12,", '["😀",'.encode(), b"1]", _EITHER),
    "deep lists": (b"[", b"", b"", _REFUSED), "deep objects": (b'{"a":', b"", b"", _REFUSED),
    "a long number": (b"9", b"", b"", _EITHER), "a long fraction": (b"9", b"0.", b"", _EITHER),
    "a long exponent": (b"9", b"1e", b"", _EITHER), "a number of zeros": (b"0", b"0", b"", _REFUSED),
    "minus": (b"-", b"", b"", _REFUSED), "a text of digits": (b"9", b'"', b'"', _EITHER),
    "a text of commas": (b",", b'"', b'"', _EITHER), "a text of brackets": (b"[", b'"', b'"', _EITHER),
    "a vector": (b"1,", b'"[', b'1]"', _EITHER), "a text of quotes": (b'\\"', b'"', b'"', _EITHER),
    "a text of escapes": (b"\\u0041", b'"', b'"', _EITHER), "a text of U+FFFD": (b"\\ufffd", b'"', b'"', _EITHER),
    "half surrogate pairs": (b"\\ud800", b'"', b'"', _REFUSED),
    "pairs of surrogates": (b"\\ud83d\\ude00", b'"', b'"', _EITHER), "no UTF-8": (b"\xff", b'"', b'"', _EITHER),
    "base64": (b"QUJD", b'"', b'"', _EITHER), "a date with digits": (b"1", b'"2024-01-01 00:00:00.', b'"', _EITHER),
    "NaN": (b"NaN,", b"[", b"1]", _REFUSED), "spaces": (b" ", b"", b"1", _EITHER),
    "a text that does not end": (b"a", b'"', b"", _REFUSED),
    "a text that ends in backslashes": (b"\\", b'"', b"", _REFUSED),
    "equal keys": (b'"a":1,', b"{", b'"b":1}', _REFUSED),
}  # fmt: skip


def _pieces(size: int) -> Iterator[tuple[str, bytes, tuple[str, ...]]]:
    for name, (piece, head, tail, expected) in PIECES.items():
        yield name, head + piece * (size // len(piece)) + tail, expected
    keys = b",".join(b'"k%d":1' % n for n in range(size // 12))
    yield "many keys", b"{" + keys + b"}", _EITHER


_MARK = "@@"


def _placed(document: Any, path: tuple[Any, ...], what: bytes) -> bytes:
    """The JSON document with the text `what` at a path, new or in a value's place."""
    whole = json.loads(json.dumps(document))
    inner = whole
    for step in path[:-1]:
        inner = inner[step]
    inner[path[-1]] = _MARK
    return json.dumps(whole, separators=(",", ":"), ensure_ascii=False).encode().replace(b'"@@"', what)


def _json(good: Message, paths: Iterable[tuple[Any, ...]], size: int) -> Iterator[Hostile]:
    document = json.loads(good.value or b"")
    for name, what, expected in _pieces(size):
        for path in paths:
            value = _placed(document, path, what)
            where = ".".join(map(str, path))
            # A member that is not known is not looked at: NaN and the like make the document none all the same.
            yield Hostile(f"{name} in {where}", replace(good, value=value), expected, len(value))
        yield Hostile(f"{name} alone", replace(good, value=what), ("MALFORMED", "TOO_LARGE"), len(what))


def _packed(good: Message, size: int) -> Iterator[Hostile]:
    """A document that fits into few bytes, compressed as TiCDC compresses whole messages."""
    inner = b'{"type":[' + b"1," * (size * 8 // 2) + b"1]}"
    for name, pack in (("Snappy", compression.snap), ("LZ4", compression.lz4)):
        yield Hostile(f"{name} of eight times as much", replace(good, value=pack(inner)), _REFUSED, len(inner))
        yield Hostile(f"{name} of more than may be", replace(good, value=pack(bytes(65 * MIB))), _REFUSED, 64 * MIB)
    for name, head in (("Snappy", b"\xff\xff\xff\x1f\xf0"), ("LZ4", compression.LZ4_MAGIC + b"\x64\x40\xa7")):
        yield Hostile(f"{name} of nothing", replace(good, value=head + bytes(size)), _REFUSED, size)


# ---- binary: a good message with much of one pattern inside
_PATTERNS = {
    "zeros": b"\x00", "ones": b"\x01", "twos": b"\x02", "0xff": b"\xff", "0x80": b"\x80", "0x7f": b"\x7f",
    "letters": b"a", "long varints": b"\x80\x80\x80\x80\x01", "2^62": b"\x80\x80\x80\x80\x80\x80\x80\x80\x40",
}  # fmt: skip
_ANY = ("MALFORMED", "TRUNCATED", "TRAILING_BYTES", "NOT_FRAMED", "TOO_LARGE", "UNKNOWN_SCHEMA_ID", "EMPTY_RECORD",
        "UNKNOWN_FORMAT", "CLAIM_CHECK", "event")  # fmt: skip


def _stretched(good: Message, size: int, positions: int = 12) -> Iterator[Hostile]:
    for field in ("value", "key"):
        data = getattr(good, field)
        if not data:
            continue
        for name, pattern in _PATTERNS.items():
            for step in range(positions + 1):
                at = len(data) * step // positions
                body = data[:at] + pattern * (size // len(pattern)) + data[at:]
                yield Hostile(f"{name} at byte {at} of the {field}", replace(good, **{field: body}), _ANY, size)


def _opened(size: int) -> Iterator[Hostile]:
    golden = Golden("open", "wide.default")
    good = next(m for m in golden.messages() if m.value and b'"p"' in m.value)
    key, row = (good.key or b"")[16:], json.loads((good.value or b"")[8:])
    names = list(row["u"])
    for name, what, expected in _pieces(size):
        for path in [("u", n, "v") for n in (names[0], names[-1])] + [("u", names[1], "f"), ("u", names[1])]:
            value = _placed(row, path, what)
            message = replace(good, value=join_value([value]))
            yield Hostile(f"{name} in {'.'.join(path)}", message, expected, len(value))
        yield Hostile(f"{name} alone", replace(good, value=join_value([what])), _REFUSED, len(what))
        for field in ("ts", "scm", "ccl"):
            bad = join_key([_placed(json.loads(key), (field,), what)])
            yield Hostile(f"{name} in the key's {field}", replace(good, key=bad), (*expected, "CLAIM_CHECK"), size)
    tiny = b'{"u":{"a":{"t":3,"f":0,"v":1}}}'
    count = size // len(tiny)
    batch = replace(good, key=join_key([key] * count), value=join_value([tiny] * count))
    yield Hostile("very many rows", batch, ("event",), len(batch.key or b"") + len(batch.value or b""))
    for name, value in (("lengths of 2^63", b"\x80" + bytes(7)), ("lengths of zero", bytes(8)), ("-1", b"\xff" * 8)):
        yield Hostile(name, replace(good, value=value * (size // 8)), _ANY, size)
        yield Hostile(f"{name} in the key", replace(good, key=bytes(7) + b"\x01" + value * (size // 8)), _ANY, size)
    yield from _stretched(good, size)
    for entry in _packed(good, size):
        yield replace(entry, message=replace(good, value=join_value([entry.message.value or b""])))


# ---- by format
def _first(messages: list[Message], holds: bytes) -> Message:
    return next(m for m in messages if m.value and holds in m.value)


def _cells(path: tuple[Any, ...], good: Message) -> list[tuple[Any, ...]]:
    inner = json.loads(good.value or b"")
    for step in path:
        inner = inner[step]
    return [(*path, name) for name in inner]


def hostile(format_: str, size: int = MIB) -> Iterator[Hostile]:
    """The hostile messages of a format."""
    match format_:
        case "debezium":
            messages = Golden("debezium", "pk_int.schema").messages()
            good = _first(messages, b'"op":"c"')
            yield from _json(good, [*_cells(("payload", "after"), good), ("payload", "x"), ("schema", "x")], size)
            yield from _json(_first(messages, b'"ddl"'), [("payload", "tableChanges"), ("payload", "ddl")], size)
            yield from _packed(good, size)
        case "debezium-mysql":
            good = next(m for m in connector.json_messages("default") if str(m.topic).endswith("nopk"))
            yield from _json(good, [("payload", "after", "b"), ("payload", "source", "x"), ("schema", "x")], size)
            avro = next(m for m in connector.avro_messages("default") if m.value and len(m.value) > 100)
            yield from _stretched(avro, size)
        case "debezium-tidb":
            good = next(iter(tidb_messages(Golden("debezium", WIDE["debezium"]))))
            yield from _json(
                good, [*_cells(("payload", "after"), good)[::4], ("payload", "source", "x"), ("schema", "x")], size
            )
        case "simple":
            messages = Golden("simple", "wide.json").messages()
            good = _first(messages, b'"type":"UPDATE"')
            yield from _json(good, [*_cells(("data",), good)[::4], ("x",)], size)
            for entry in _json(good, [("claimCheckLocation",)], size):
                yield replace(entry, expected=(*entry.expected, "CLAIM_CHECK"))
            yield from _json(_first(messages, b'"type":"BOOTSTRAP"'), [("tableSchema", "columns")], size)
            yield from _stretched(_first(Golden("simple", "wide.avro").messages(), b"\x16\x06\x06"), size)
            yield from _packed(good, size)
        case "canal-json":
            good = _first(Golden("canal-json", "wide.compat").messages(), b'"type":"UPDATE"')
            paths = [*_cells(("data", 0), good)[::4], *_cells(("mysqlType",), good)[::8], ("x",), ("pkNames",)]
            yield from _json(good, paths, size)
            yield from _packed(good, size)
        case "open" | "open-tiflow":
            yield from _opened(size)
        case "craft":
            for name in ("wide.default", "wide.batch1"):
                for good in [m for m in Golden("craft", name).messages() if m.value][-2:]:
                    yield from _stretched(good, size, 24)
            yield from _crafted(size)
        case "avro":
            golden = Golden("avro", "wide.ext1")
            yield from _stretched(_first(golden.messages(), b"\x00"), size, 24)
            ddl = Message(None, b'{"query":"x","type":1,"schema":"d","table":"t","commitTs":442000000000000000}')
            for entry in _json(ddl, [("query",), ("commitTs",), ("x",)], size):
                yield replace(entry, message=Message(None, b"\x01" + (entry.message.value or b"")), expected=_ANY)
        case "debezium-avro":
            yield from _stretched(_first(Golden("debezium-avro", "wide.str.ext").messages(), b"\x00"), size, 24)


def _crafted(size: int) -> Iterator[Hostile]:
    """Sound messages of as many tiny rows as fit, cut or changed at their size tables; and of one huge value."""
    golden = Golden("craft", "pk_int.default")
    rows = [e for e in golden.events(ddl=True) if isinstance(e, RowChange) and e.op == "c"]
    for kind, name, pattern in (("many rows", "", ""), ("a long text", "v", "a"), ("a wide text", "v", "é\x00")):
        row = rows[0] if not name else replace(rows[0], after={**(rows[0].after or {}), name: pattern * size})
        options = Options.of({"max_batch_size": 1 << 16, "max_message_bytes": 4 * size}, time_zone="UTC")
        encoder = CodecConfig("craft", Registry(), options).encoder()  # type: ignore[arg-type]
        assert isinstance(encoder, BatchEncoder)
        [value, *_] = (
            m.value or b"" for m in encoder.encode_rows([row] * (1 if name else 42_000), golden.messages()[0])
        )
        message = Message(None, value)
        yield Hostile(kind, message, ("event",), len(value))
        for at in (1, 8, len(value) // 2, len(value) - 70_000, len(value) - 40_000, len(value) - 9, len(value) - 2):
            for pattern_ in (b"\xff\xff\xff\xff\x0f", b"\x00", b"\x7f" * 8):
                bad = value[:at] + pattern_ + value[at + len(pattern_) :]
                yield Hostile(f"{kind}, {pattern_.hex()} at {at}", Message(None, bad), _ANY, len(bad))


def decoder_of(format_: str) -> Decoder:
    """A decoder that has read good messages, as often as makes it compile what it compiles."""
    cases = {
        "debezium": [Golden("debezium", "pk_int.schema")], "open": [Golden("open", "wide.default")],
        "open-tiflow": [Golden("open", "wide.default")], "craft": [Golden("craft", "wide.batch1")],
        "simple": [Golden("simple", "wide.json"), Golden("simple", "wide.avro")],
        "canal-json": [Golden("canal-json", "wide.compat")], "avro": [Golden("avro", "wide.ext1")],
        "debezium-avro": [Golden("debezium-avro", "wide.str.ext")],
    }  # fmt: skip
    if format_ == "debezium-mysql":
        decoder = connector.side(connector.avro_schemas("default")).decoder()
        messages = connector.json_messages("default")
    elif format_ == "debezium-tidb":
        decoder = CodecConfig(format_, FileSchemas([]), Options()).decoder()
        messages = list(tidb_messages(Golden("debezium", WIDE["debezium"])))
    else:
        decoder = replace(cases[format_][0].side(), format=format_).decoder()
        messages = [m for golden in cases[format_] for m in golden.messages()]
    for message in messages * 3:
        decode_message(decoder, message)
    return decoder


def outcomes(format_: str, size: int = MIB, limited: bool = False, of: int = 1) -> Iterator[Outcome]:
    """Each hostile message of a format, or one `of` so many, through one decoder. Any error but ours escapes."""
    decoder = decoder_of(format_)
    gc.freeze()
    for entry in hostile(format_, size):
        if crc32(entry.name.encode()) % of:
            continue
        gc.collect()
        if limited:
            _limit(entry.size * PER_BYTE + FLAT)
        started = time.process_time()
        try:
            result = decode_message(decoder, entry.message)
        except BaseException:
            print(f"{format_}: {entry.name}", file=sys.stderr)
            raise
        finally:
            taken = time.process_time() - started
            if limited:
                _limit(None)
        fuzz.checked(replace(result, error=None) if result.error else result, entry.message)
        yield Outcome(entry.name, result.error.code if result.error else "event", taken, entry.expected, entry.size)


def _limit(more: int | None) -> None:
    """Lets this process take so many bytes more, and 10 s of CPU; None: no limit."""
    soft = resource.RLIM_INFINITY
    if more is not None:
        pages = int(Path("/proc/self/statm").read_text().split()[0])
        soft = pages * resource.getpagesize() + more
    resource.setrlimit(resource.RLIMIT_AS, (soft, resource.RLIM_INFINITY))
    signal.setitimer(signal.ITIMER_PROF, 0 if more is None else MOST_CPU)


def main(arguments: list[str]) -> None:
    size = int(arguments[1]) if len(arguments) > 1 else MIB
    of = int(arguments[2]) if len(arguments) > 2 else 1
    for found in outcomes(arguments[0], size, limited=True, of=of):
        print(json.dumps([found.name, found.outcome, round(found.cpu, 3), found.expected]), flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
