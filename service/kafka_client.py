"""Clients of Kafka (librdkafka): how they are made, and what their failures are called.

confluent-kafka is imported when the first client is made.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import TracebackType
from typing import Any, Final

from schemas.model.credentials import mask_settings
from schemas.model.errors import SetupError
from schemas.model.event import Message

_NO_TIMESTAMP: Final = 0


def library() -> Any:
    """confluent_kafka. Raises SetupError where it is not installed."""
    try:
        import confluent_kafka
        import confluent_kafka.admin
    except ImportError:
        raise SetupError("USAGE", details="Kafka needs confluent-kafka: pip install 'ticdc-bridge[service]'") from None
    return confluent_kafka


def make_client(kind: Callable[[dict[str, Any]], Any], settings: Mapping[str, Any]) -> Any:
    """A client of a kind, such as `library().Consumer`. Raises SetupError for settings that librdkafka does not take.

    Connection trouble is told once, by the call that fails, unless the settings have an `error_cb`.
    """
    try:
        return kind({"error_cb": lambda _error: None, **settings, "log_level": 0})
    except (library().KafkaException, ValueError, TypeError) as error:
        reason = mask_settings(_reason(error), settings)
        raise SetupError("USAGE", details=f"Kafka settings: {reason}") from error


class KafkaErrors:
    """A block in which librdkafka's errors become SetupError KAFKA_UNREACHABLE. told: what else is known of why."""

    def __init__(self, servers: str, told: Callable[[], str] = str) -> None:
        self._servers, self._told = servers, told

    def __enter__(self) -> None:
        library()

    def __exit__(self, kind: Any, error: BaseException | None, at: TracebackType | None) -> None:
        if isinstance(error, library().KafkaException):
            raise self.error_of(error) from error

    def error_of(self, error: Any) -> SetupError:
        details = f"{_reason(error)} {self._told()}".strip()
        return SetupError("KAFKA_UNREACHABLE", servers=self._servers, details=details)


def _reason(error: Any) -> str:
    first = error.args[0] if getattr(error, "args", None) else error
    return str(first.str() if hasattr(first, "str") else first)


def message_of(record: Any) -> Message:
    kind, timestamp = record.timestamp()
    headers = tuple((name, value) for name, value in record.headers() or ())
    stamped = None if kind == _NO_TIMESTAMP else timestamp
    return Message(record.key(), record.value(), record.topic(), record.partition(), record.offset(), stamped, headers)
