"""How TiDB writes parts of a table in SHOW CREATE TABLE (upstream `pkg/parser/types/field_type.go`)."""

from ticdc_bridge.schemas.model.names import quote_text
from ticdc_bridge.schemas.model.table import Column, Value
from ticdc_bridge.schemas.model.types import FRACTIONAL, Kind
from ticdc_bridge.schemas.model.values import utf8_or_bytes

_WITH_LENGTH = ("char", "varchar", "binary", "varbinary", "bit", "year")


def type_text(column: Column) -> str:
    """The column's type: `int(10) unsigned zerofill`, `decimal(10,2)`, `enum('a','b')`, `datetime(6)`.

    Lengths that are not known, as of a column that a message described, are left out.
    """
    name, kind = column.type.name, column.type.kind
    text = name
    if kind is Kind.INTEGER:
        if column.zerofill or (name == "tinyint" and column.length == 1):
            text += f"({column.length})"
    elif kind is Kind.DECIMAL or (column.scale and kind in (Kind.FLOAT, Kind.DOUBLE)):
        text += f"({column.length},{column.scale})" if column.length is not None else ""
    elif kind in FRACTIONAL:
        text += f"({column.scale})" if column.scale else ""
    elif column.elements:
        text += "(" + ",".join(map(quote_text, column.elements)) + ")"
    elif (name in _WITH_LENGTH or kind is Kind.VECTOR) and column.length is not None:
        text += f"({column.length})"
    return text + (" unsigned" if column.unsigned else "") + (" zerofill" if column.zerofill else "")


def default_text(column: Column) -> Value:
    """The default as information_schema would name it; BIT as b'101', binary strings as text where they are UTF-8."""
    if not isinstance(column.default, bytes):
        return column.default
    if column.type.kind is Kind.BIT:
        return f"b'{int.from_bytes(column.default, 'big'):b}'" if column.default else "b''"
    return utf8_or_bytes(column.default)
