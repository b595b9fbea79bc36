"""Message sizes of all formats, raw and zlib: the Craft documents' two cases, and a table of 20 columns."""

import zlib
from collections.abc import Iterator, Sequence
from dataclasses import replace

from benchmarks.craft import changes
from benchmarks.figures import Figure, Run
from ticdc_bridge.schemas.formats.base import BatchEncoder, Context, SingleTable
from ticdc_bridge.schemas.formats.format_table import FORMATS
from ticdc_bridge.schemas.model.errors import WireError
from ticdc_bridge.schemas.model.event import Message, RowChange
from ticdc_bridge.schemas.model.options import Options
from ticdc_bridge.schemas.model.ports import SchemaId
from ticdc_bridge.schemas.model.table import Column, Table, TableId, TableVersion
from ticdc_bridge.schemas.model.types import BY_NAME

# Measured with the classic encoder (pingcap/tiflow `pkg/sink/codec/craft`), FLOAT in its eight bytes.
_CLASSIC = {"documents-1-row": 301, "documents-4-rows": 997}
_KINDS = ("varchar", "char", "date", "timestamp", "datetime", "float", "int", "text")
_NAMES = ("varchar", "string", "date", "timestamp", "datetime", "float", "long", "null")


class Ids:
    """A registry in memory: schemas get ids as they come."""

    def __init__(self) -> None:
        self._texts: list[str] = []

    def by_id(self, schema_id: SchemaId, where: str, subject: str | None = None) -> str:
        return self._texts[int(schema_id) - 1]

    def newest(self, subject: str) -> str | None:
        return None

    def id_of(self, subject: str, schema: str) -> SchemaId:
        if schema not in self._texts:
            self._texts.append(schema)
        return self._texts.index(schema) + 1


def _documents(tables: Sequence[tuple[str, int, int]]) -> list[RowChange]:
    """The documents' row, in (table, commit_ts, partition); its last column has no type but NULL."""
    row = ("varchar{}", "string{}", "2021-01-0{day}", "2021-01-0{day} 00:00:00", "2021-01-0{day} 00:00:00")
    found = []
    for table, commit_ts, partition in tables:
        kinds = zip(_NAMES, _KINDS, strict=True)
        columns = tuple(Column(name, BY_NAME[kind], handle_key=not at) for at, (name, kind) in enumerate(kinds))
        images = []
        for n in (0, 1):
            values = [text.format(n, day=n + 1) for text in row] + [str(n + 1), str(1000 * (n + 1)), None]
            images.append(dict(zip(_NAMES, values, strict=True)))
        extra = {"types": {"null": [6, 0]}, "partition": partition}
        shown = Table(TableId("a", table), columns)
        change = RowChange("craft", shown, "u", commit_ts, images[0], images[1], (_NAMES[0],), "UTC", extra=extra)
        found.append(change)
    return found


def cases() -> dict[str, list[RowChange]]:
    """Row changes by the name of the case."""
    stamps = (424316553934667777, 424316554327097345, 424316554746789889, 424316555073945601)
    four = list(zip("cdef", stamps, (-1, -1, -1, 6), strict=True))
    return {
        "documents-1-row": _documents([("b", 424316552636792833, -1)]),
        "documents-4-rows": _documents(four),
        "wide-1-row": changes(1)[1],
        "wide-16-rows": changes(16)[1],
    }


def sizes(format_: str, rows: Sequence[RowChange]) -> tuple[int, int]:
    """(bytes of keys and values, the same by zlib) of the rows as one batch, or a message each."""
    options = Options.of({"enable_tidb_extension": True, "avro_include_before_value": True, "on_lossy": "flag"})
    encoder = FORMATS[format_].encoder(Context(Ids(), SingleTable(TableVersion(0, rows[0].table)), options))
    copies = [replace(row, flags=[], extra=dict(row.extra), table_version=1) for row in rows]
    origin = Message(None, None, "topic", 0, 0, 1_600_000_000_000)
    if isinstance(encoder, BatchEncoder):
        messages = encoder.encode_rows(copies, origin)
    else:
        messages = [m for row in copies for m in encoder.encode(row, origin)]
    pieces = [field for m in messages for field in (m.key, m.value) if field]
    return sum(map(len, pieces)), sum(len(zlib.compress(piece)) for piece in pieces)


def run(run: Run) -> Iterator[Figure]:
    """A figure a case and written format; Craft's are held to the classic encoder's, where those are known."""
    for case, rows in cases().items():
        for name in (format_.name for format_ in FORMATS.values() if format_.writes):
            try:
                raw, packed = sizes(name, rows)
            except WireError as error:
                run.say(f"{case} in {name}: {error}")
                continue
            classic = _CLASSIC.get(case) if name == "craft" else None
            if classic is not None and raw != classic:
                raise RuntimeError(f"{case} has {raw} bytes in Craft, the classic encoder's has {classic}")
            yield Figure(f"size.{case}.{name}", raw, "bytes", "less", classic, 1.0 if classic else None)
            yield Figure(f"size.{case}.{name}.zlib", packed, "bytes", "less")
