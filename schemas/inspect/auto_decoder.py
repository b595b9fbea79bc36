"""`--format auto`: the format of each message is detected, and its decoder reads it."""

from ticdc_bridge.schemas.codec.bounded_cache import BoundedCache
from ticdc_bridge.schemas.formats.base import Context, Decoder, Format, refuse_encoder
from ticdc_bridge.schemas.formats.format_table import FORMATS
from ticdc_bridge.schemas.inspect.format_detection import detect_message
from ticdc_bridge.schemas.model.errors import WireError
from ticdc_bridge.schemas.model.event import Event, Message
from ticdc_bridge.schemas.model.options import Options

_OF_FLATTENED = ("table", "table_from_topic", "add_fields_prefix", "add_headers_prefix")


class AutoDecoder:
    """Decodes messages of any format, in any order. One whose format is not certain is an error, never a guess."""

    def __init__(self, context: Context) -> None:
        self._context = context
        self._decoders: dict[str, Decoder] = {}
        self._by_topic: BoundedCache[str | None, str] = BoundedCache(4096)
        options, defaults = context.options, Options()
        self._flattened_headers = frozenset(options.add_headers_prefix + name for name in ("op", "db", "table"))
        # Whoever sets one of these says that the topic has flattened rows.
        self._has_flattened = any(getattr(options, name) != getattr(defaults, name) for name in _OF_FLATTENED)

    def decode(self, message: Message) -> list[Event]:
        """As the format's decoder. WireError UNKNOWN_FORMAT where the format is not certain."""
        name = self._name(message)
        if name not in self._decoders:
            if name not in FORMATS:
                raise WireError("UNKNOWN_FORMAT", details=f"the message is {name}, which is not read")
            self._decoders[name] = FORMATS[name].decoder(self._context)
        return self._decoders[name].decode(message)

    def _name(self, message: Message) -> str:
        """A message's format. One with a null value has that of the messages before it on its topic."""
        topic_format = self._by_topic.get(message.topic)
        if message.value is None and topic_format is not None and message.topic is not None:
            return topic_format
        detection = detect_message(message, self._context.schemas)
        name = detection.format or (topic_format if message.value is None else None)
        if name is None and self._is_flattened(message):
            name = "debezium-mysql"
        if name is None:
            raise WireError("UNKNOWN_FORMAT", details=detection.reason)
        if message.value is not None and topic_format != name:
            self._by_topic[message.topic] = name
        return name

    def _is_flattened(self, message: Message) -> bool:
        """True if headers or options say that a row which itself says nothing is one that a transform flattened."""
        if any(header in self._flattened_headers for header, _ in message.headers):
            return True
        return self._has_flattened and (message.value or b"").lstrip()[:1] == b"{"


AUTO = Format(
    "auto", AutoDecoder, refuse_encoder("auto"), uses_schemas=True, in_order=True, carries_ddl=True, writes=False
)
"""Not a format: each message is read as the one it is in."""
