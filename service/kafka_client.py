"""Clients of Kafka (librdkafka): how they are made, what their failures are called, and which topics there are.

confluent-kafka is imported when the first client is made.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Mapping
from types import TracebackType
from typing import Any, Final

from ticdc_bridge.schemas.model.credentials import mask_settings
from ticdc_bridge.schemas.model.errors import SetupError
from ticdc_bridge.service.errors import RegistryError

SLICE: Final = 0.25
"""Seconds of a call after which it is looked at again whether to go on."""
_REACH_SECONDS: Final = 3.0
"""A broker that is there says so in less."""
_NAME: Final = re.compile(r"[A-Za-z0-9._-]{1,249}")


def library() -> Any:
    import confluent_kafka
    import confluent_kafka.admin

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


class ClientErrors:
    """What librdkafka says beside its answers. fatal: no broker can be reached, or none lets us in."""

    def __init__(self, servers: str) -> None:
        self.servers, self.text, self.fatal = servers, "", False

    def __call__(self, error: Any) -> None:
        codes = library().KafkaError
        self.text = str(error.str() if hasattr(error, "str") else error)
        # One broker's connection ends for many reasons, and others may be there.
        self.fatal = self.fatal or error.code() in (codes._ALL_BROKERS_DOWN, codes._AUTHENTICATION)


class KafkaConnection:
    """A block with a client's settings; librdkafka's errors in it become SetupError KAFKA_UNREACHABLE."""

    def __init__(self, settings: Mapping[str, str]) -> None:
        self._settings, self._errors = settings, ClientErrors(settings["bootstrap.servers"])
        self._block = KafkaErrors(settings["bootstrap.servers"], lambda: self._errors.text)

    def __enter__(self) -> tuple[Mapping[str, str], ClientErrors]:
        self._block.__enter__()
        return self._settings, self._errors

    def __exit__(self, *raised: Any) -> None:
        self._block.__exit__(*raised)


def find_topics(client: Any, errors: ClientErrors, until: float, topic: str | None = None) -> dict[str, Any]:
    """Topics by name. SetupError KAFKA_UNREACHABLE, at once where no broker takes a connection, else when the
    time is over.
    """
    until = min(until, time.monotonic() + _REACH_SECONDS)
    while True:
        left = max(until - time.monotonic(), 0.05)
        try:
            answer = client.list_topics(topic, timeout=min(left, SLICE)) if topic else client.list_topics(
                timeout=min(left, SLICE)
            )  # fmt: skip
            return dict(answer.topics)
        except library().KafkaException:
            client.poll(0)  # calls back with what is known of why
            if errors.fatal or time.monotonic() >= until:
                reason = errors.text or f"no answer within {_REACH_SECONDS:g} s"
                details = f"it can't be reached: {reason}"
                raise SetupError("KAFKA_UNREACHABLE", servers=errors.servers, details=details) from None


def topic_error(topic: str, error: Any) -> RegistryError:
    """What the broker says against a topic."""
    unknown = error.code() == library().KafkaError.UNKNOWN_TOPIC_OR_PART
    details = "there is no such topic" if unknown else error.str().removeprefix("Broker: ")
    return RegistryError("TOPIC_NOT_FOUND", topic=topic, details=details)


def check_name(topic: str) -> None:
    """RegistryError TOPIC_NOT_FOUND for what no topic can be called."""
    if not _NAME.fullmatch(topic) or topic in (".", ".."):
        details = "a topic's name has 1 to 249 of the letters A-Z, a-z, digits, '.', '_' and '-'"
        raise RegistryError("TOPIC_NOT_FOUND", topic=repr(topic[:60]), details=details)
