"""The matrix of docs/reference.md: how each SQL type is carried by each format, and what is lost, from the tables.

Made from `schemas/model/types.py`, the formats' own schemas and `schemas/inspect/losses.py`; the tests hold the formats
to it.
"""

import json
from collections.abc import Callable, Collection, Mapping
from dataclasses import replace

from tests.matrix.generated_part import GeneratedPart
from tests.matrix.round_trip import FORMS, MORE_FORMS
from tests.support.golden import Registry
from tests.support.rows import ORIGIN
from ticdc_bridge.schemas.formats.avro import schema as avro_publish
from ticdc_bridge.schemas.formats.base import Context
from ticdc_bridge.schemas.formats.debezium import avro_schema
from ticdc_bridge.schemas.formats.debezium import json_schema as json_publish
from ticdc_bridge.schemas.formats.debezium.connector import TIDB
from ticdc_bridge.schemas.formats.debezium.mysql_connector import schema
from ticdc_bridge.schemas.formats.format_table import FORMATS, WRITTEN
from ticdc_bridge.schemas.inspect.losses import LOSSES, OF_TARGET, Loss
from ticdc_bridge.schemas.model.event import RowChange
from ticdc_bridge.schemas.model.options import Options
from ticdc_bridge.schemas.model.table import Column, Table, TableId, Value
from ticdc_bridge.schemas.model.types import TYPES, Kind, TidbType

PART = GeneratedPart("reference.md", "matrix")
_GROUPS: Mapping[str, Collection[str]] = {
    "all": WRITTEN,
    "Debezium": [name for name in WRITTEN if name.startswith("debezium")],
    "Open": [name for name in WRITTEN if name.startswith("open")],
}
_SIZES: dict[Kind, tuple[int | None, int | None]] = {
    Kind.DECIMAL: (30, 10), Kind.BIT: (10, None), Kind.DATETIME: (None, 6), Kind.TIMESTAMP: (None, 6),
    Kind.TIME: (None, 6),
}  # fmt: skip
_VALUES: dict[Kind, Value] = {
    Kind.INTEGER: "1", Kind.YEAR: "2024", Kind.FLOAT: "1.5", Kind.DOUBLE: "1.5", Kind.DECIMAL: "1.5000000000",
    Kind.BIT: b"\2\1", Kind.BINARY: b"\0", Kind.ENUM: "a", Kind.SET: "a", Kind.DATE: "2024-02-29",
    Kind.DATETIME: "2024-02-29 12:00:00.000000", Kind.TIMESTAMP: "2024-02-29 12:00:00.000000",
    Kind.TIME: "12:00:00.000000", Kind.JSON: "{}", Kind.TEXT: "a", Kind.VECTOR: "[1]",
}  # fmt: skip
# Craft has no schema: how its content is made is in schemas/formats/craft/values.py, by kind.
_CRAFT = {
    **dict.fromkeys((Kind.INTEGER, Kind.YEAR), "varint"),
    **dict.fromkeys((Kind.ENUM, Kind.SET, Kind.BIT), "uvarint (number)"),
    **dict.fromkeys((Kind.FLOAT, Kind.DOUBLE), "float64"),
    **dict.fromkeys((Kind.BINARY,), "bytes"),
}


def section() -> str:
    """The text of the part."""
    types, names = _rows()
    lines = [_line("SQL type", *names), "|---" * (len(names) + 1) + "|"]
    lines += [_line(*row) for row in types]
    notes = ["| | what | formats | code | flag |", "|---|---|---|---|---|"]
    notes += [_note(number, loss) for number, loss in enumerate(LOSSES, 1)]
    return "\n".join((
        "How a value is written. The codes in brackets point to the list below: values that change on the way. _E_: "
        "refused. _F_: written with a flag. _N_: visible in the message. A number with a star concerns only readers "
        "without a table definition. Without brackets every value is exact.",
        "", *lines, "",
        "A value with a code is refused; under `--on-lossy flag`, where it has a flag too, it is written and "
        "flagged. A value without a code is always written.",
        "", *notes, "", "Forms of formats named there: " + "; ".join(_forms()) + ".", "",
    ))  # fmt: skip


# ---------------------------------------------------------------------------------- a row per type
def _rows() -> tuple[list[list[str]], list[str]]:
    """A row for all types with the same cells, and the names of the columns: formats with the same cells share one."""
    columns = _columns()
    shared: dict[tuple[str, ...], list[str]] = {}
    for form in WRITTEN:
        shared.setdefault(tuple(_cell(form, column) for _, column in columns), []).append(f"`{form}`")
    found: dict[tuple[str, ...], list[str]] = {}
    for (name, _), cells in zip(columns, zip(*shared, strict=True), strict=True):
        found.setdefault(cells, []).append(name)
    return [[", ".join(names), *cells] for cells, names in found.items()], [
        ", ".join(value) for value in shared.values()
    ]


def _columns() -> list[tuple[str, Column]]:
    out = []
    for type_ in TYPES:
        name = type_.name.upper()
        out.append((name, _column(type_)))
        if type_.kind is Kind.INTEGER:
            out.append((f"{name} UNSIGNED", _column(type_, unsigned=True)))
        if type_.kind is Kind.FLOAT:
            out.append((f"{name}(M,D)", _column(type_, length=10, scale=3)))
        if type_.kind is Kind.DATETIME:
            out[-1] = (f"{name}(4..6)", out[-1][1])
            out.append((f"{name}(0..3)", replace(out[-1][1], scale=3)))
        if type_.kind is Kind.BIT:
            out[-1] = (f"{name}(n)", out[-1][1])
            out.append((f"{name}(1)", _column(type_, length=1)))
    return out


def _column(type_: TidbType, unsigned: bool = False, length: int | None = None, scale: int | None = None) -> Column:
    sizes = (length, scale) if length else _SIZES.get(type_.kind, (None, None))
    elements = ("a",) if type_.kind in (Kind.ENUM, Kind.SET) else ()
    return Column("v", type_, unsigned, *sizes, elements, nullable=False)


def _cell(form: str, column: Column) -> str:
    marks = _marks(form, column)
    return f"{_CARRIERS[form](column)} ({', '.join(marks)})" if marks else _CARRIERS[form](column)


def _marks(form: str, column: Column) -> list[str]:
    """Numbers of the losses that a type can have in a format; those of one of its forms only are in the notes."""
    return [
        f"{'E' if loss.error else 'F' if loss.flag else 'N'}{number}{'*' if loss.undefined else ''}"
        for number, loss in enumerate(LOSSES, 1)
        if form in loss.to and column.type.kind in loss.kinds and loss.of(column) and loss in OF_TARGET
    ]


def _note(number: int, loss: Loss) -> str:
    code, flag = (f"`{text}`" if text else "" for text in (loss.error, loss.flag))
    return _line(f"{number}{'*' if loss.undefined else ''}", loss.what, _formats(loss.to), code, flag)


def _formats(names: Collection[str]) -> str:
    """All formats of a kind by the name of the kind; a form of a format that is there too is left out."""
    left, said = dict.fromkeys(name for name in names if name.partition("/")[0] not in {*names} - {name}), []
    for title, group in _GROUPS.items():
        if left.keys() >= set(group):
            said.append(title)
            left = {name: None for name in left if name not in group}
    return ", ".join((*said, *(f"`{name}`" for name in left)))


def _line(*cells: str) -> str:
    return f"| {' | '.join(cells)} |"


def _forms() -> list[str]:
    """The forms that losses name, by the options that make them."""
    named = sorted({to for loss in LOSSES for to in loss.to if "/" in to})
    plain = {form: FORMS.get(form.partition("/")[0], {}) for form in named}
    made = {form: {k: v for k, v in {**FORMS, **MORE_FORMS}[form].items() if plain[form].get(k) != v} for form in named}
    return [f"`{form}` has " + ", ".join(f"`{k}` {str(v).lower()}" for k, v in made[form].items()) for form in named]


# ---------------------------------------------------------------------------------- what a type is on the wire
def _avro(column: Column) -> str:
    found = avro_publish.avro_type(column, Options())
    logical = f" `{found['logicalType']}`" if "logicalType" in found else ""
    return f"{found['type']}{logical}"


def _connect(of: Callable[[Column], tuple[str, str, dict[str, str]]]) -> Callable[[Column], str]:
    def carrier(column: Column) -> str:
        connect, semantic = of(column)[:2]
        return f"{connect} `{semantic.rpartition('.')[2]}`" if semantic else connect

    return carrier


def _open(form: str) -> Callable[[Column], str]:
    """What the encoder writes for a value: a number, text, or one of the two forms of bytes."""

    def carrier(column: Column) -> str:
        value = _VALUES[column.type.kind] if column.length != 1 else b"\1"
        table = Table(TableId("d", "t"), (column,))
        event = RowChange("", table, "c", 1 << 18, None, {"v": value}, (), "UTC", table_version=1)
        [message] = FORMATS[form].encoder(Context(Registry())).encode(event, ORIGIN)
        written = json.loads((message.value or b"")[8:])["u"]["v"]["v"]
        if not isinstance(written, str):
            return "number"
        binary = column.type.kind in (Kind.TEXT, Kind.BINARY) and written != value
        return "text" if not binary else "text (Go's quoting)" if written == "\\x00" else "base64"

    return carrier


_CARRIERS: dict[str, Callable[[Column], str]] = {
    "avro": _avro,
    "craft": lambda column: "uvarint" if column.unsigned else _CRAFT.get(column.type.kind, "text"),
    "debezium": _connect(json_publish.connect_type),
    "debezium-avro": _connect(lambda column: avro_schema.connect_type(column, Options())),
    "debezium-mysql": _connect(lambda column: schema.connect_type(column, Options())),
    "debezium-tidb": _connect(lambda column: schema.connect_type(column, TIDB.chosen(Options()))),
    "open": _open("open"),
    "open-tiflow": _open("open-tiflow"),
}
