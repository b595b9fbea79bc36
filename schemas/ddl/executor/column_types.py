"""A column as written → a column as TiDB keeps it: type, lengths, character set, nullability, default."""

from dataclasses import replace

from ticdc_bridge.schemas.ddl.executor import charsets
from ticdc_bridge.schemas.ddl.executor.default_values import with_default
from ticdc_bridge.schemas.ddl.parser.statements import ColumnDef, DataType
from ticdc_bridge.schemas.model.errors import DdlError
from ticdc_bridge.schemas.model.table import Column
from ticdc_bridge.schemas.model.types import BY_NAME, CHARACTER, FRACTIONAL, TYPES, Kind

_TEXT_TO_BINARY = {
    text.name: binary.name
    for text in TYPES
    for binary in TYPES
    if (text.kind, binary.kind, binary.code) == (Kind.TEXT, Kind.BINARY, text.code)
}
# The smallest type that holds TEXT(n) and BLOB(n), by n in bytes.
_TEXTS = ((255, "tinytext"), (65535, "text"), (16777215, "mediumtext"), (4294967295, "longtext"))
_BLOBS = ((255, "tinyblob"), (65535, "blob"), (16777215, "mediumblob"), (4294967295, "longblob"))
_TOO_LONG = {"varchar": "text", "varbinary": "blob"}
_SIZED = {"text": _TEXTS, "blob": _BLOBS}
# SHOW CREATE TABLE tells a width with ZEROFILL and of this type only; others have no meaning left.
_BOOL = ("tinyint", 1)
_DEFAULT_LENGTHS = {"char": 1, "binary": 1, "bit": 1, "year": 4}
_LIMITS = {
    "decimal": (65, "a DECIMAL has at most 65 digits"),
    "bit": (64, "a BIT has at most 64 bits"),
    "vector": (16383, "a VECTOR has at most 16383 dimensions"),
}


def column(defined: ColumnDef, table_charset: charsets.Charset) -> Column:
    """A column of a table with this character set. Keys are not looked at. DDL_NOT_APPLICABLE for an impossible one."""
    charset = charsets.resolve(defined.type.charset, defined.collate, table_charset)
    # Upstream `OverwriteCollationWithBinaryFlag`: of ENUM and SET, or beside both of them, BINARY says nothing.
    if defined.type.binary and not ((defined.type.charset and defined.collate) or defined.type.elements):
        charset = charsets.resolve(charset.name, "", charset)
    result = _make_column(defined.name, defined.type, charset)
    nullable = defined.nullable is not False and not defined.primary_key
    result = replace(
        result,
        nullable=nullable,
        auto_increment=defined.auto_increment,
        comment=defined.comment,
        generated=defined.generated,
        virtual=defined.generated is not None and not defined.stored,
        on_update="CURRENT_TIMESTAMP" if defined.on_update else "",
        default_dropped=defined.default_dropped and nullable and defined.generated is None,
    )
    if defined.default:
        return with_default(result, defined.default)
    if result.type.kind is Kind.YEAR and not nullable:
        return replace(result, has_default=True, default="0000", default_dropped=True)  # upstream `setYearDefaultValue`
    return result


def _make_column(name: str, data_type: DataType, charset: charsets.Charset) -> Column:
    type_name, length, scale = data_type.name, data_type.length, data_type.scale
    limit = _LIMITS.get(type_name)
    if limit and length is not None and length > limit[0]:
        raise DdlError("DDL_NOT_APPLICABLE", details=f"column {name}: {limit[1]}")
    if type_name == "bool":
        type_name, length = "tinyint", 1
    if type_name == "float" and scale is None and length is not None:
        # FLOAT(p) is a number of bits: which of the two types it is.
        type_name, length = ("float" if length <= 24 else "double"), None
    if type_name in _TOO_LONG and (length or 0) > 65535 // _bytes(type_name, charset):
        # Only without strict mode (upstream `checkTooBigFieldLengthAndTryAutoConvert`); TiDB refuses it otherwise.
        type_name = _TOO_LONG[type_name]
    if type_name in _SIZED and length is not None:
        size = length * _bytes(type_name, charset)
        type_name, length = next((n for limit_, n in _SIZED[type_name] if size <= limit_), type_name), None
    if type_name in _TEXT_TO_BINARY and charset.name == "binary":
        type_name = _TEXT_TO_BINARY[type_name]
    type_ = BY_NAME[type_name]
    if type_.kind is Kind.DECIMAL:
        # DECIMAL(0) is DECIMAL (upstream `pkg/planner/core/preprocess.go`, checkColumn).
        length, scale = length or (0 if scale else 10), scale or 0
        if scale > length:
            raise DdlError("DDL_NOT_APPLICABLE", details=f"column {name}: more digits after the point than in all")
    elif type_.kind in FRACTIONAL:
        length, scale = None, length or 0
        if scale > 6:
            raise DdlError("DDL_NOT_APPLICABLE", details=f"column {name}: at most 6 fraction digits")
    elif type_.kind is Kind.INTEGER and not (
        length is not None and (data_type.zerofill or (type_name, length) == _BOOL)
    ):
        length = type_.digits[data_type.unsigned]
    elif length is None:
        length = _DEFAULT_LENGTHS.get(type_name)
    chosen = charset if type_.kind in CHARACTER else charsets.BINARY
    return Column(
        name, type_, data_type.unsigned, length, scale, _elements(name, data_type, charset), charset=chosen.name,
        collate=chosen.collate, zerofill=data_type.zerofill,
    )  # fmt: skip


def _elements(name: str, data_type: DataType, charset: charsets.Charset) -> tuple[str, ...]:
    """Elements as texts; of bytes that are no character TiDB keeps a question mark."""
    try:
        return tuple(
            element if isinstance(element, str) else charsets.decode(element, charset.name, "ddl-?").rstrip(" ")
            for element in data_type.elements
        )
    except ValueError:
        details = f"column {name}: an element is no text in {charset.name or 'its character set'}"
        raise DdlError("DDL_NOT_APPLICABLE", details=details) from None


def _bytes(type_name: str, charset: charsets.Charset) -> int:
    """Bytes of the longest character that a type may hold."""
    return charsets.longest_character(charset.name) if type_name in ("varchar", "text") else 1


def convert_charset(column: Column, charset: charsets.Charset) -> Column:
    """The column after CONVERT TO CHARACTER SET; only character columns change."""
    if column.type.kind not in CHARACTER:
        return column
    type_ = column.type
    if charset.name == "binary" and type_.name in _TEXT_TO_BINARY:
        type_ = BY_NAME[_TEXT_TO_BINARY[type_.name]]
    return replace(column, type=type_, charset=charset.name, collate=charset.collate)
