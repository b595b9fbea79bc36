"""What NULL may have been written as in the Debezium family: the images of a column's default.

TiCDC puts the default in NULL's place (upstream ticdc `codec/debezium/codec.go`, writeDebeziumFieldValue). Kafka
Connect's converters do so with a schema's (JsonConverter's replace.null.with.default, AvroData's
ignore.default.for.nullables). Whoever reads such a value can't know which it was, and flags it: it is compared with the
images before it is read.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace
from typing import Any

from ticdc_bridge.schemas.codec.json_exact import Number
from ticdc_bridge.schemas.formats.debezium import avro_schema as avro
from ticdc_bridge.schemas.formats.debezium import json_schema as publish
from ticdc_bridge.schemas.formats.debezium.connect.document import number
from ticdc_bridge.schemas.formats.debezium.connect.value_writers import ConnectForm, plain_writer
from ticdc_bridge.schemas.model import values
from ticdc_bridge.schemas.model.errors import WireError
from ticdc_bridge.schemas.model.options import Options
from ticdc_bridge.schemas.model.table import Column
from ticdc_bridge.schemas.model.types import Kind


def _number_text(column: Column, default: str) -> str:
    """A number's default as rows have it: a statement may have fewer digits than DECIMAL, or more than FLOAT.

    ValueError for one that the column can't hold.
    """
    try:
        if column.type.kind is Kind.FLOAT:
            return values.float_text(values.as_float32(values.real(default)))
        if column.type.kind is Kind.DECIMAL and column.scale is not None:
            return values.plain_decimal(default, column.scale)
    except OverflowError as error:
        raise ValueError(f"{default} is beyond a float32") from error
    return default


def null_images(column: Column, default: Any) -> tuple[Any, ...]:
    """JSON values that TiCDC writes for NULL in a column with this schema default."""
    images = [default]
    if isinstance(default, Number):
        with suppress(ValueError):  # no value can be equal to a default that is no number of the column's
            images.append(Number(publish.compact_json(values.json_double(default))))
            images.append(Number(publish.compact_json(values.json_double(_number_text(column, default)))))
        if column.type.bits == 64 and float(default) > 1 << 63:
            images.append(Number("0"))  # TiCDC reads the text of a BIGINT UNSIGNED default as 0
    elif isinstance(default, str):
        raw = default.encode("utf-8", "surrogateescape")
        images += [values.base64_text(raw), raw]
    return tuple(images)


def default_images(column: Column) -> tuple[Any, ...]:
    """As `null_images`, where the default is known from a table definition."""
    default = publish.field(replace(column, nullable=True), Options()).get("default")
    images = null_images(column, Number(default) if type(default) in (int, float) else default)
    if isinstance(column.default, bytes) and column.type.kind is Kind.BINARY:
        images += (values.base64_text(column.default), column.default)
    return images + ((Number("0"),) if column.is_unsigned64 else ())


_MODES = tuple(
    Options.of({"avro_decimal_handling_mode": decimal, "avro_bigint_unsigned_handling_mode": unsigned})
    for decimal, unsigned in (("precise", "long"), ("string", "string"))
)


def avro_images(column: Column) -> tuple[Any, ...]:
    """As `default_images`: also what a payload has for the default in each handling mode."""
    images, default = default_images(column), column.default
    for options in _MODES:
        try:
            connect, semantic, _ = avro.connect_type(column, options)
            value = _number_text(column, default) if isinstance(default, str) else default
            image = plain_writer(ConnectForm(column, connect, semantic, lossy=False))(value)
            if connect == "float":
                image = values.as_float32(image)  # what a reader gets of it
        except (WireError, ValueError, TypeError, OverflowError):
            continue  # an expression, or a default that no payload holds
        images += (number(image) if type(image) in (int, float) else image,)
    return images
