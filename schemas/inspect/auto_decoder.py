"""`--format auto`: each message is told apart and read by its own format's decoder."""

from __future__ import annotations

from schemas.formats.base import Context, Decoder, Format, refuse_encoder
from schemas.formats.format_table import FORMATS
from schemas.inspect.format_detection import sniff
from schemas.model.errors import WireError
from schemas.model.event import Event, Message
from schemas.model.ports import SchemaId


class AutoDecoder:
    """Decodes messages of any format, in any order. One whose format can't be told is an error, never a guess."""

    def __init__(self, context: Context) -> None:
        self._context = context
        self._decoders: dict[str, Decoder] = {}

    def decode(self, message: Message) -> list[Event]:
        """As the format's decoder. WireError UNKNOWN_FORMAT where the format can't be told."""
        detection = sniff(message.key, message.value, self._schema_of)
        name = detection.format
        if name is None:
            raise WireError("UNKNOWN_FORMAT", details=detection.reason)
        if name not in self._decoders:
            if name not in FORMATS:
                raise WireError(
                    "UNKNOWN_FORMAT", details=f"the message is {name} ({detection.reason}), which is not read"
                )
            self._decoders[name] = FORMATS[name].decoder(self._context)
        return self._decoders[name].decode(message)

    def _schema_of(self, schema_id: SchemaId) -> str:
        return self._context.schemas.by_id(schema_id, "the message")


def _auto(context: Context) -> Decoder:
    return AutoDecoder(context)


AUTO = Format("auto", _auto, refuse_encoder("auto"), uses_schemas=True, in_order=True, carries_ddl=True, writes=False)
"""Not a format: each message is read as the one it is in."""
