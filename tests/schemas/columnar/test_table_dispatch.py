"""Debezium, Open and Craft → cells: the rows of the format's own decoder, or the message is left."""

import math
import os
import random
import struct
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from benchmarks.rows import changes, wide
from tests.support.columnar_events import events_of
from tests.support.fuzz import mutate
from tests.support.golden import Golden, Registry, cases
from tests.support.rows import COMMIT_TS, ID, column
from ticdc_bridge.schemas.columnar.kernels import jit
from ticdc_bridge.schemas.columnar.kernels.jit import COMPILED
from ticdc_bridge.schemas.columnar.kernels.numbers import read_double
from ticdc_bridge.schemas.columnar.rows import Binaries, Topics
from ticdc_bridge.schemas.columnar.table_dispatch import (
    CraftReader,
    DebeziumReader,
    OpenReader,
    OpenTiflowReader,
    TableDispatcher,
)
from ticdc_bridge.schemas.formats.base import Context
from ticdc_bridge.schemas.inspect.format_lookup import format_named
from ticdc_bridge.schemas.model.errors import WireError
from ticdc_bridge.schemas.model.event import Event, Message, Op, RowChange
from ticdc_bridge.schemas.model.options import Options
from ticdc_bridge.schemas.model.table import Table, TableId, TableVersion, Value

pytestmark = pytest.mark.skipif(not COMPILED, reason="without numba all messages are left")

READERS: tuple[partial[TableDispatcher], ...] = (
    DebeziumReader, OpenReader, OpenTiflowReader, CraftReader,
)  # fmt: skip
_TIMES = 12  # so often is each message of a golden case in a batch: few are not worth a kernel


def _binaries(texts: Sequence[bytes | None]) -> Binaries:
    offsets = np.zeros(len(texts) + 1, np.int64)
    offsets[1:] = np.cumsum([len(t or b"") for t in texts])
    valid = np.array([t is not None for t in texts], np.bool_)
    return Binaries(np.frombuffer(b"".join(t or b"" for t in texts), np.uint8), offsets, valid)


def _decoded(decoder: Any, message: Message) -> list[Event] | None:
    try:
        return list(decoder.decode(message))
    except WireError:
        return None


def check(reader: TableDispatcher, context: Context, messages: Sequence[Message]) -> set[int]:
    """Reads messages as one batch, compares what was taken with the decoder's rows; out: what was left."""
    names = list(dict.fromkeys(m.topic for m in messages))
    topics = Topics(names, np.array([names.index(m.topic) for m in messages], np.int64))
    rows, left = reader.read(_binaries([m.key for m in messages]), _binaries([m.value for m in messages]), topics)
    assert (np.diff(rows.message) >= 0).all()
    decoder = format_named(reader.format).decoder(context)
    found: dict[int, list[Event]] = {}
    for number, event in zip(rows.message.tolist(), events_of(rows, reader.format), strict=True):
        found.setdefault(number, []).append(event)
    assert sorted(found.keys() | set(left.tolist())) == list(range(len(messages)))
    assert not found.keys() & set(left.tolist())
    for number, events in found.items():
        expected = _decoded(decoder, messages[number])
        assert expected is not None
        plain = [replace(e, extra={}) if isinstance(e, RowChange) else e for e in expected]
        assert events == plain, messages[number]
    return set(left.tolist())


def test_many_tables_of_one_topic() -> None:
    """All golden cases of a format in one batch, twice: what was learned holds."""
    for class_ in READERS:
        found: list[Golden] = [g for g in cases(class_.args[0]) if g.name.count(".") == 1 and g.messages()][:30]
        for golden in found:
            context = golden.side(ddl=True).context()
            messages = [replace(m, topic="one") for g in found for m in g.messages()[:20] * _TIMES]
            reader = class_(context)
            check(reader, context, messages)
            check(reader, context, messages)
            break


# ---------------------------------------------------------------------------------- made and damaged messages
@pytest.mark.parametrize("class_", READERS, ids=lambda c: c.args[0])
def test_made_rows_and_damaged_messages(class_: partial[TableDispatcher]) -> None:
    """Rows of 20 columns of nearly all types, and messages that were cut, or of which bytes were changed."""
    source = wide()
    encoder = format_named(class_.args[0]).encoder(Context(Registry(), None, Options.of({"on_lossy": "flag"})))
    made: list[Message] = []
    for event in changes(source, range(200)):
        if event.op != "d":
            plain = replace(event, format="made", before=event.after if event.op == "u" else None)
            made += encoder.encode(plain, Message(None, None, "t"))
    # Messages of the older version too, which lack a column: they are left.
    context = Context(Registry(), _Tables(TableVersion(1, source.versions[1])))
    reader = class_(context)
    taken = len(made) - len(check(reader, context, made))
    assert taken > len(made) // 5
    rng = random.Random(11)
    bodies = [m.value or b"" for m in made]
    damaged = [replace(m, value=mutate(rng, m.value or b"", bodies)) for m in rng.choices(made, k=600)]
    check(reader, context, made[:20] + damaged)


def test_reals_are_read_as_python_reads_them() -> None:
    """Doubles of all sizes, halves between two of them, and more digits than a double has."""
    rng = random.Random(7)
    numbers = [struct.unpack("d", rng.randbytes(8))[0] for _ in range(3000)]
    texts = [repr(n) for n in numbers if math.isfinite(n)]
    texts += [f"{rng.getrandbits(rng.randrange(1, 70))}e{rng.randrange(-345, 300)}" for _ in range(3000)]
    texts += [str((2 * rng.getrandbits(53) + 1) << rng.randrange(10)) for _ in range(1000)]
    texts += ["0", "-0", "-0.0", "5e-324", "2.4e-324", "1.7976931348623157e308", "9" * 25, "0.1" + "0" * 30 + "1"]
    unknown = 0
    for text in texts:
        bits, is_known = read_double(np.frombuffer(text.encode(), np.uint8), 0, len(text))
        unknown += not is_known
        assert not is_known or struct.pack("q", bits) == struct.pack("d", float(text)), text
    assert unknown < len(texts) // 3  # far from 1, or in the middle between two


# ---------------------------------------------------------------------------------- versions, other tables
class _Tables:
    """A TableSource whose versions can grow."""

    def __init__(self, *versions: TableVersion) -> None:
        self.versions = list(versions)

    def at(self, table: TableId, commit_ts: int | None) -> TableVersion | None:
        fit = [v for v in self.versions if v.table.id == table and (commit_ts is None or v.commit_ts < commit_ts)]
        return fit[-1] if fit else None

    def sanitised(self, table: TableId, columns: tuple[str, ...], commit_ts: int | None) -> TableVersion | None:
        return None


def _table(name: str, *kinds: str) -> Table:
    more = (column(f"c{n}", kind, length=9, scale=2, elements=("a", "b")) for n, kind in enumerate(kinds))
    return Table(TableId("shop", name), (ID, *more))


_VALUES: dict[str, Value] = {
    "int": "-5", "double": "-1.7976931348623157e-100", "float": "0.1", "decimal": "-1234567.89", "varchar": "é\"\n",
    "enum": "b", "set": "a,b", "blob": b"\0\xff", "date": "2024-02-29", "timestamp": "2024-01-02 03:04:05", "year": "0",
}  # fmt: skip


def _messages(format_: str, table: Table, count: int, start: int = COMMIT_TS) -> list[Message]:
    encoder = format_named(format_).encoder(Context(Registry(), None, Options.of({"on_lossy": "flag"})))
    out = []
    for n in range(count):
        row: dict[str, Value] = {
            c.name: str(n) if c.name == "id" else None if n % 5 == 4 else _VALUES[c.type.name] for c in table.columns
        }
        op: Op = ("c", "u", "d")[n % 3]
        images = (row if op != "c" else None, row if op != "d" else None)
        event = RowChange("made", table, op, start + n, *images, ("id",), "UTC")
        out += encoder.encode(event, Message(None, None, "t"))
    return out


@pytest.mark.parametrize("class_", READERS, ids=lambda c: c.args[0])
def test_versions_and_tables_side_by_side(class_: partial[TableDispatcher]) -> None:
    kinds = [k for k in _VALUES if k != "decimal" or class_.args[0] != "debezium"]
    old, new, other = _table("t", *kinds[:3]), _table("t", *kinds), _table("o", "int", "varchar")
    tables = _Tables(TableVersion(1, old), TableVersion(1, other))
    context = Context(Registry(), tables)
    reader = class_(context)
    first = _messages(class_.args[0], old, 40) + _messages(class_.args[0], other, 40)
    # NULL in a number makes TiCDC's damage to a FLOAT of Craft possible: for the decoder to judge.
    doubtful = {n for n in range(40) if n % 5 == 4} if class_.args[0] == "craft" else set()
    assert check(reader, context, first) <= doubtful
    # A new version is told while the reader is at work: rows after it are read by it, those before are not.
    tables.versions.append(TableVersion(COMMIT_TS + 100, new))
    later = _messages(class_.args[0], new, 40, COMMIT_TS + 101)
    assert check(reader, context, first + later) <= doubtful
    unknown = _messages(class_.args[0], _table("x", "int"), 40)
    assert check(reader, context, later + unknown) == set(range(len(later), len(later) + len(unknown)))


@pytest.mark.parametrize("class_", READERS, ids=lambda c: c.args[0])
def test_what_is_no_message_is_left(class_: partial[TableDispatcher]) -> None:
    table = _table("t", "int", "varchar")
    context = Context(Registry(), _Tables(TableVersion(1, table)))
    good = _messages(class_.args[0], table, 30)
    odd: list[Message] = []
    for n, message in enumerate(good):
        value = message.value or b""
        odd += [
            replace(message, value=value[: n * len(value) // 30]), replace(message, value=None),
            replace(message, key=None),
            replace(message, value=value.replace(b"t", b"u")), Message(b"", b"", "t"), Message(None, None, None),
        ]  # fmt: skip
    left = check(class_(context), context, [*good, *odd, *good])
    assert not left & {*range(30), *range(30 + len(odd), 60 + len(odd))}


@pytest.mark.parametrize("class_", READERS, ids=lambda c: c.args[0])
def test_without_tables_or_with_few_messages_all_are_left(class_: partial[TableDispatcher]) -> None:
    table = _table("t", "int")
    messages = _messages(class_.args[0], table, 30)
    assert check(class_(Context(Registry())), Context(Registry()), messages) == set(range(30))
    context = Context(Registry(), _Tables(TableVersion(1, table)))
    assert check(class_(context), context, messages[:3]) == {0, 1, 2}
    assert check(class_(context), context, []) == set()


# ---- The kernels' cache: machine code of one set of sources is never taken for that of another.


def test_a_changed_byte_in_any_kernel_file_gives_another_digest() -> None:
    sources = jit.read_sources()
    folder = Path(jit.__file__).parent
    assert sources == {file.name: file.read_bytes() for file in folder.glob("*.py")}
    digests = {jit.digest_sources(sources)}
    for name, text in sources.items():
        digests.add(jit.digest_sources({**sources, name: bytes([text[0] ^ 1]) + text[1:]}))
    digests.add(jit.digest_sources({**sources, "another.py": b""}))
    assert len(digests) == len(sources) + 2


def test_a_cache_that_can_only_be_read_is_used_by_links(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As in an image: what is there is found, and what is compiled beside it goes to a folder of this user's."""
    monkeypatch.setenv("BRIDGE_CACHE", str(tmp_path / "cache"))
    monkeypatch.delenv("NUMBA_CACHE_DIR", raising=False)
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    folder = jit._cache_folder()
    assert folder is not None
    assert folder.is_relative_to(tmp_path / "cache")
    code = folder / "__pycache__"
    code.mkdir()
    (code / "a.nbi").write_bytes(b"index")
    can = os.access
    monkeypatch.setattr(os, "access", lambda path, mode: mode != os.W_OK or (can(path, mode) and Path(path) != folder))
    own = jit._cache_folder()
    assert own is not None
    assert own.parent == tmp_path / f"ticdc-bridge-kernels-{os.getuid()}"
    assert own.parent.stat().st_mode & 0o777 == 0o700
    assert (own / "__pycache__" / "a.nbi").read_bytes() == b"index"
    assert {file.name: file.read_bytes() for file in own.glob("*.py")} == jit.read_sources()
    # As numba writes: a new file in place of the link. It stays when the next process comes.
    new = own / "__pycache__" / "new"
    new.write_bytes(b"more")
    new.replace(own / "__pycache__" / "a.nbi")
    assert jit._cache_folder() == own
    assert (own / "__pycache__" / "a.nbi").read_bytes() == b"more"
    assert (code / "a.nbi").read_bytes() == b"index"
    # Machine code that others can write is not run.
    own.parent.chmod(0o777)
    assert jit._cache_folder() is None
