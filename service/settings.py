"""Settings: `BRIDGE_…` in the environment, the command line, and the names that other registries use.

Made by `create_app` and the command line, never at import. An explicit value wins over BRIDGE_…, and that wins over
another registry's name.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from typing import Any, Final, Literal
from urllib.parse import urlsplit

from pydantic import Field, field_validator
from pydantic_settings import BaseSettings, EnvSettingsSource, PydanticBaseSettingsSource, SettingsConfigDict

PREFIX: Final = "BRIDGE_"
STRICT: Final = "strict"
Values = dict[str, Any]


def _listeners(text: str) -> Values:
    """The first HTTP listener of a list such as `http://0.0.0.0:8081,https://…`."""
    for listener in text.split(","):
        url = urlsplit(listener.strip())
        if url.scheme == "http" and url.port is not None:
            return {"host": url.hostname or "0.0.0.0", "port": url.port}
    raise ValueError(f"no http://HOST:PORT in {text!r}")


def _one(name: str) -> Callable[[str], Values]:
    return lambda text: {name: text}


# Another registry's variable → the settings it stands for. A later row wins over an earlier one.
ALIASES: Final[dict[str, Callable[[str], Values]]] = {
    "KARAPACE_HOST": _one("host"),
    "KARAPACE_PORT": _one("port"),
    "KARAPACE_COMPATIBILITY": _one("compatibility"),
    # The name a Confluent server advertises to others of its cluster; there is no cluster here.
    "SCHEMA_REGISTRY_HOST_NAME": _one("advertised_host"),
    "SCHEMA_REGISTRY_LISTENERS": _listeners,
    "SCHEMA_REGISTRY_SCHEMA_COMPATIBILITY_LEVEL": _one("compatibility"),
}


class Settings(BaseSettings):
    """Every setting of the service; docs/registry.md has the table."""

    model_config = SettingsConfigDict(env_prefix=PREFIX, extra="ignore")

    host: str = Field(default="127.0.0.1", description="address to listen on")
    port: int = Field(default=8081, ge=0, le=65535, description="port to listen on; 0 picks a free one")
    store: str = Field(default="sqlite:///registry.db", description="where schemas are kept: sqlite:///PATH")
    profile: Literal[7, 8] = Field(default=8, description="shape of the answers: Confluent 8.x or 7.x")
    compatibility: str = Field(default="BACKWARD", description="compatibility level when nothing is configured")
    logical_types: Literal["accept", "strict"] = Field(
        default="accept", description="what is done about changes of logical types that Avro's rules do not see"
    )
    max_body_bytes: int = Field(default=10 * 1024 * 1024, ge=1024, description="largest request body")
    store_wait_seconds: float = Field(
        default=25.0, gt=0, le=600, description="how long a request waits for a busy store"
    )
    log_level: Literal["debug", "info", "warning", "error"] = Field(
        default="info", description="what is logged to stderr"
    )
    log_format: Literal["text", "json"] = Field(default="text", description="how log lines look")
    bootstrap_servers: str = Field(default="", description="Kafka of the changefeeds that are followed: HOST:PORT")
    track: str = Field(default="", description="changefeeds to follow: [NAME=]kafka:TOPIC, or a TOML file")
    access_log: bool = Field(default=False, description="whether every request is logged")
    advertised_host: str = Field(default="", description="accepted from SCHEMA_REGISTRY_HOST_NAME, not used")

    @field_validator("profile", mode="before")
    @classmethod
    def _number(cls, value: Any) -> Any:
        return int(value) if isinstance(value, str) and value.isdecimal() else value

    @field_validator("compatibility")
    @classmethod
    def _known_level(cls, value: str) -> str:
        level = value.upper()
        if level not in _LEVELS:
            raise ValueError(f"must be one of {', '.join(_LEVELS)}")
        return level

    @field_validator("log_level", "log_format", "logical_types", mode="before")
    @classmethod
    def _lower(cls, value: Any) -> Any:
        return value.lower() if isinstance(value, str) else value

    @classmethod
    def settings_customise_sources(
        cls,
        settings_cls: type[BaseSettings],
        init_settings: PydanticBaseSettingsSource,
        env_settings: PydanticBaseSettingsSource,
        dotenv_settings: PydanticBaseSettingsSource,
        file_secret_settings: PydanticBaseSettingsSource,
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        return init_settings, env_settings, _AliasSource(settings_cls)


# The layers below the registry know no rules, so the names stand here too; a test compares them with compat.LEVELS.
_LEVELS: Final = (
    "NONE",
    "BACKWARD",
    "BACKWARD_TRANSITIVE",
    "FORWARD",
    "FORWARD_TRANSITIVE",
    "FULL",
    "FULL_TRANSITIVE",
)


class _AliasSource(EnvSettingsSource):
    def __call__(self) -> Values:
        return _from_aliases(os.environ)


def _from_aliases(environ: Mapping[str, str]) -> Values:
    values: Values = {}
    for name, read in ALIASES.items():
        if environ.get(name):
            values |= read(environ[name])
    return values


def aliases_used(environ: Mapping[str, str], explicit: Mapping[str, Any]) -> list[str]:
    """Which variables of other registries decided something, as text for the log.

    `explicit` are the settings given on the command line; those and BRIDGE_… ones are not decided by an alias.
    """
    decided: dict[str, str] = {}
    for name, read in ALIASES.items():
        if environ.get(name):
            decided |= dict.fromkeys(read(environ[name]), name)
    return [
        f"{name} sets {setting}"
        for setting, name in decided.items()
        if setting not in explicit and f"{PREFIX}{setting.upper()}" not in environ
    ]
