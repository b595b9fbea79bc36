"""`from ticdc_bridge import Decoder, Encoder`: one message at a time in a Python program, without Spark or files.

The same codec as the commands have. Neither class is for several threads at once: make one for each.
"""

import json
from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal, cast

from ticdc_bridge.clients.registry import Schemas
from ticdc_bridge.schemas.inputs.schema_files import FileSchemas, RegisteredSchema
from ticdc_bridge.schemas.inputs.subject_names import STRATEGIES, Strategy
from ticdc_bridge.schemas.inspect.format_lookup import format_named
from ticdc_bridge.schemas.model.errors import SetupError, WireError
from ticdc_bridge.schemas.model.event import DdlEvent, Event, Message, RowChange, Watermark
from ticdc_bridge.schemas.model.options import Options
from ticdc_bridge.schemas.model.ports import SchemaId, SchemaSource, TableSource
from ticdc_bridge.schemas.plain.reader import PLAIN as PLAIN_FORMAT
from ticdc_bridge.schemas.plain.reader import plain_message
from ticdc_bridge.schemas.plain.writer import json_line
from ticdc_bridge.spark_jobs.pipeline.arguments import File, claims_of, schemas_of, tables_of, with_parameter_names
from ticdc_bridge.spark_jobs.pipeline.codec_config import CodecConfig
from ticdc_bridge.spark_jobs.pipeline.message_codec import decode_message, encode_event
from ticdc_bridge.spark_jobs.pipeline.stream_definitions import LearningDecoder
from ticdc_bridge.spark_jobs.pipeline.topic_rules import check_topic_rule

Registry = str | File | Mapping[SchemaId, str | Mapping[str, Any]] | SchemaSource
"""A registry's URL, a file of schemas as --schemas takes it, schemas by id (text or parsed), or a SchemaSource."""
Headers = Iterable[tuple[str, bytes | None]] | Mapping[str, bytes | None] | None
"""Record headers; None, as Kafka's clients have it, for none."""
_NO_OPTIONS: Mapping[str, Any] = {}


class Decoder:
    """Reads messages of one format (or "auto") into change events.

    Args:
        registry: see Registry; a URL is asked when the decoder is made, and for each id once.
        ddl: a file of definitions as --ddl takes it, or a TableSource; "stream": DDL messages define the tables of the
            rows after them.
        history: URL of a service that tracks the tables.
        time_zone: of TIMESTAMP text without a zone.
        options: of the format, by TiCDC's or Debezium's names.
        claim_checks: a folder of claim-check files.
        on_lossy: "error" makes an error of a value that the format can't keep exactly, which is flagged else.

    Raises:
        SetupError: wrong arguments, or a registry that is away.
    """

    @with_parameter_names
    def __init__(
        self,
        format: str,
        *,
        registry: Registry | None = None,
        ddl: File | TableSource | None = None,
        history: str | None = None,
        time_zone: str = "UTC",
        options: Mapping[str, Any] = _NO_OPTIONS,
        claim_checks: File | None = None,
        on_lossy: Literal["flag", "error"] = "flag",
    ) -> None:
        learn = ddl == "stream"
        config = CodecConfig(
            format_named(format).name,
            _schemas(format, registry),
            Options.of({"time_zone": time_zone, "on_lossy": on_lossy, **options}),
            tables_of(None if learn else ddl, history),
            claims_of(claim_checks),
            learn=learn,
        )
        self._decoder = LearningDecoder(config).decoder

    @with_parameter_names
    def decode(
        self,
        key: bytes | None,
        value: bytes | None,
        *,
        topic: str | None = None,
        partition: int | None = None,
        offset: int | None = None,
        timestamp: int | None = None,
        headers: Headers = (),
    ) -> list[Event]:
        """A Kafka record → its events in order, none for a message without one (a tombstone after a delete).

        Args:
            timestamp: ms since 1970.

        Raises:
            WireError: what is wrong with the message (`code`, `detail`).
            SetupError: the registry is away.
        """
        _check_bytes({"key": key, "value": value})
        message = Message(key, value, topic, partition, offset, timestamp, _pairs(headers))
        result = decode_message(self._decoder, message)
        if result.error is not None:
            raise result.error
        return result.events


class Encoder:
    """Writes change events as messages of one format.

    Args:
        registry: as Decoder has it; an Avro format registers its schemas at a URL, and finds them among those given
            else.
        ddl, history: the tables of events given as objects.
        time_zone, options: as Decoder has them, of the format written.
        on_lossy: "flag" writes a value that the format can't hold exactly, and flags the event.
        topic: a rule for the topics written, such as "{schema}_{table}".
        subject_strategy: topic, record or topic-record.

    Raises:
        SetupError: wrong arguments, or a registry that is away.
    """

    @with_parameter_names
    def __init__(
        self,
        format: str,
        *,
        registry: Registry | None = None,
        ddl: File | TableSource | None = None,
        history: str | None = None,
        time_zone: str = "UTC",
        options: Mapping[str, Any] = _NO_OPTIONS,
        on_lossy: Literal["flag", "error"] = "error",
        topic: str | None = None,
        subject_strategy: Strategy = "topic",
    ) -> None:
        if topic is not None:
            check_topic_rule(topic)
        if subject_strategy not in STRATEGIES:
            raise SetupError("USAGE", details=f"subject_strategy={subject_strategy!r}: choose {', '.join(STRATEGIES)}")
        schemas, tables = _schemas(format, registry), tables_of(ddl, history)
        settings = Options.of({"time_zone": time_zone, "on_lossy": on_lossy, **options})
        config = CodecConfig(format_named(format).name, schemas, settings, tables, strategy=subject_strategy)
        self._encoder, self._topic = config.encoder(), topic
        self._objects = CodecConfig(PLAIN_FORMAT.name, schemas, settings, tables).decoder()

    @with_parameter_names
    def encode(
        self,
        event: Event | Mapping[str, Any],
        *,
        topic: str | None = None,
        partition: int | None = None,
        offset: int | None = None,
        timestamp: int | None = None,
        headers: Headers = (),
    ) -> list[Message]:
        """An event, or its object (`plain_event`, a line of `decode`) → its messages; none where the format has none
        for it (DDL, watermark).

        Args:
            topic, partition, offset, timestamp, headers: of the message that the event was read from; topic is also
                the one written, unless a rule names it; headers are carried on, but those that say how that message
                was written. An object's own position and headers go first.

        Raises:
            WireError: a value that can't be written (`code`, `detail`).
        """
        origin = Message(None, None, topic, partition, offset, timestamp, _pairs(headers))
        if not isinstance(event, RowChange | DdlEvent | Watermark | Mapping):
            raise SetupError("USAGE", details=f"event is of type {type(event).__name__}: a change event is needed")
        events: list[Event]
        if isinstance(event, Mapping):
            _check_values(event)
            line = plain_message(json_line(dict(event)).encode(), origin)
            origin = replace(line, value=None, timestamp=timestamp, headers=line.headers or origin.headers)
            events = self._objects.decode(line)
        else:
            _check_event(event)
            events = [event]
        return [message for entry in events for message in encode_event(self._encoder, entry, origin, self._topic).out]


def _pairs(headers: Headers) -> tuple[tuple[str, bytes | None], ...]:
    """Headers as a message has them. SetupError USAGE for what are none."""
    if not headers:
        return ()
    try:
        listed: Any = headers.items() if isinstance(headers, Mapping) else headers
        pairs = tuple((name, value) for name, value in listed)
    except (TypeError, ValueError) as error:
        raise SetupError("USAGE", details="headers: pairs of a name and bytes (or null) are needed") from error
    for name, value in pairs:
        if not isinstance(name, str):
            raise SetupError("USAGE", details=f"a header's name is of type {type(name).__name__}: a text is needed")
        _check_bytes({f"header {name}": value})
    return pairs


def _check_event(event: Event) -> None:
    """WireError INVALID_VALUE for an event that no decoder gives, such as one that its user changed."""
    if not isinstance(event.commit_ts, int | None) or isinstance(event.commit_ts, bool):
        details = f"it is of type {type(event.commit_ts).__name__}: a whole number is needed"
        raise WireError("INVALID_VALUE", column="commit_ts", details=details)
    if not isinstance(event, RowChange):
        return
    if event.op not in ("c", "u", "d", "r"):
        raise WireError("INVALID_VALUE", column="op", details=f"{event.op!r}: choose c, u, d or r")
    _check_values({"before": event.before, "after": event.after}, bytes, "a text, bytes or None")
    strange = {*(event.before or ()), *(event.after or ())} - event.table.by_name.keys()
    if strange:
        raise WireError("INVALID_VALUE", column=min(strange), details=f"table {event.table.id} has no such column")


def _check_values(event: Mapping[str, Any], binary: type = Mapping, needed: str = 'a text, null or {"hex": …}') -> None:
    """WireError INVALID_VALUE for a value of a row that is not in the form of JSON rows, or of change events."""
    for image in ("before", "after"):
        row = event.get(image)
        for name, value in row.items() if isinstance(row, Mapping) else ():
            if not isinstance(value, str | binary | None):
                details = f"it is of type {type(value).__name__}: {needed} is needed"
                raise WireError("INVALID_VALUE", column=str(name), details=details)


def _check_bytes(pieces: Mapping[str, Any]) -> None:
    for name, piece in pieces.items():
        if not isinstance(piece, bytes | None):
            raise SetupError("USAGE", details=f"{name} is of type {type(piece).__name__}: bytes are needed")


def _schemas(format: str, registry: Registry | None) -> Schemas:
    """SetupError USAGE for what is no registry."""
    if isinstance(registry, Mapping):
        texts = {id_: value if isinstance(value, str) else json.dumps(value) for id_, value in registry.items()}
        return FileSchemas([RegisteredSchema(f"id {id_}", 1, id_, text) for id_, text in texts.items()])
    if isinstance(registry, str) and "://" in registry:
        return schemas_of(format, registry, None)
    if isinstance(registry, str) and not Path(registry).exists():
        details = f"registry={registry!r}: there is no such file; a URL begins with http:// or https://"
        raise SetupError("USAGE", details=details)
    return schemas_of(format, None, cast(Any, registry))
