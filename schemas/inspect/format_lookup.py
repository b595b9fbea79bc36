"""Formats by their names, with those that are none of the wire: auto and plain."""

from ticdc_bridge.schemas.formats.base import Format
from ticdc_bridge.schemas.formats.format_table import FORMATS, format_name
from ticdc_bridge.schemas.inspect.auto_decoder import AUTO
from ticdc_bridge.schemas.model.errors import SetupError
from ticdc_bridge.schemas.plain.reader import PLAIN


def format_named(name: str) -> Format:
    """The format of this name, or AUTO. SetupError USAGE when there is none."""
    row = {AUTO.name: AUTO, PLAIN.name: PLAIN}.get(name) or FORMATS.get(format_name(name))
    if row is None:
        raise SetupError("USAGE", details=f"format {name!r} is not known; known: {', '.join(FORMATS)}")
    return row
