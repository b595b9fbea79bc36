"""Settings: explicit values win over `BRIDGE_…` in the environment, and those over names of other registries."""

import os
from collections.abc import Callable, Mapping
from typing import Any, Final, Literal
from urllib.parse import urlsplit

from pydantic import Field, SecretStr, field_validator
from pydantic_settings import BaseSettings, EnvSettingsSource, PydanticBaseSettingsSource, SettingsConfigDict

PREFIX: Final = "BRIDGE_"
STRICT: Final = "strict"
Values = dict[str, Any]


def _listeners(text: str) -> Values:
    """The first HTTP listener of a list such as `http://0.0.0.0:8081,https://…`, or else the first HTTPS one."""
    listeners = [urlsplit(listener.strip()) for listener in text.split(",")]
    for scheme in ("http", "https"):
        for url in listeners:
            if url.scheme == scheme and url.port is not None:
                more = {"expects_tls": True} if scheme == "https" else {}
                return {"host": url.hostname or "0.0.0.0", "port": url.port, **more}
    raise ValueError(f"no http://HOST:PORT in {text!r}")


def _single(name: str) -> Callable[[str], Values]:
    return lambda text: {name: text}


# Another registry's variable → the settings it stands for. A later row wins over an earlier one.
ALIASES: Final[dict[str, Callable[[str], Values]]] = {
    "KARAPACE_HOST": _single("host"),
    "KARAPACE_PORT": _single("port"),
    "KARAPACE_COMPATIBILITY": _single("compatibility"),
    "KARAPACE_SERVER_TLS_CERTFILE": _single("tls_cert"),
    "KARAPACE_SERVER_TLS_KEYFILE": _single("tls_key"),
    "KARAPACE_SERVER_TLS_CAFILE": _single("tls_client_ca"),
    # Its file can't be read here (other hashes, and regular expressions); nobody must take that for protection.
    "KARAPACE_REGISTRY_AUTHFILE": lambda _: {"expects_auth": True},
    "SCHEMA_REGISTRY_AUTHENTICATION_METHOD": lambda text: {} if text.upper() == "NONE" else {"expects_auth": True},
    "SCHEMA_REGISTRY_LISTENERS": _listeners,
    "SCHEMA_REGISTRY_SCHEMA_COMPATIBILITY_LEVEL": _single("compatibility"),
    "SCHEMA_REGISTRY_AVRO_COMPATIBILITY_LEVEL": _single("compatibility"),  # of old; Confluent reads it first
    "SCHEMA_REGISTRY_MODE_MUTABILITY": _single("mode_mutability"),
    "SCHEMA_REGISTRY_ACCESS_CONTROL_ALLOW_ORIGIN": _single("cors_origins"),
    "SCHEMA_REGISTRY_ACCESS_CONTROL_ALLOW_METHODS": _single("cors_methods"),
    "SCHEMA_REGISTRY_ACCESS_CONTROL_ALLOW_HEADERS": _single("cors_headers"),
}
_OTHERS: Final = ("SCHEMA_REGISTRY_", "KARAPACE_")


class Settings(BaseSettings):
    """Every setting of the service; docs/registry.md has the table."""

    model_config = SettingsConfigDict(env_prefix=PREFIX, extra="ignore")

    host: str = Field(default="127.0.0.1", description="address to listen on")
    port: int = Field(default=8081, ge=0, le=65535, description="port to listen on; 0 picks a free one")
    store: str = Field(
        default="sqlite:///registry.db", description="where schemas are kept: sqlite:///PATH or postgresql://…"
    )
    profile: Literal[7, 8] = Field(default=8, description="shape of the answers: Confluent 8.x or 7.x")
    compatibility: str = Field(default="BACKWARD", description="compatibility level when nothing is configured")
    logical_types: Literal["accept", "strict"] = Field(
        default="accept", description="what is done about changes of logical types that Avro's rules do not see"
    )
    max_body_bytes: int = Field(default=10 * 1024 * 1024, ge=1024, description="largest request body")
    store_wait_seconds: float = Field(
        default=25.0, gt=0, le=600, description="how long a request waits for a store that is busy or away"
    )
    store_connections: int = Field(
        default=8, ge=1, le=100, description="connections to PostgreSQL for reading at once; there are two more"
    )
    log_level: Literal["debug", "info", "warning", "error"] = Field(
        default="info", description="what is logged to stderr"
    )
    log_format: Literal["text", "json"] = Field(default="text", description="how log lines look")
    bootstrap_servers: str = Field(default="", description="Kafka of the changefeeds that are followed: HOST:PORT")
    kafka_config: str = Field(
        default="",
        description="properties file of the Kafka client (SASL, TLS, any setting), also for the page Explain",
    )
    track: str = Field(default="", description="changefeeds to follow: [NAME=]kafka:TOPIC, or a TOML file")
    access_log: bool = Field(default=False, description="whether every request is logged")
    auth_file: str = Field(default="", description="names with hashes of passwords and tokens; none: no credentials")
    acl_file: str = Field(default="", description="who may do what (TOML); none: whoever is known may do everything")
    open_metrics: bool = Field(default=False, description="whether /metrics needs no credentials")
    tls_cert: str = Field(default="", description="PEM file with the certificate chain; none: plain HTTP")
    tls_key: str = Field(default="", description="PEM file with the key; none: it is in the certificate's file")
    tls_key_password: SecretStr = Field(default=SecretStr(""), description="what the key is encrypted with")
    tls_client_ca: str = Field(default="", description="PEM file of those who may issue client certificates")
    tls_client_auth: Literal["required", "optional"] = Field(
        default="required", description="whether a client without a certificate is refused, with tls_client_ca"
    )
    max_schema_bytes: int = Field(default=4 * 1024 * 1024, ge=1024, description="longest schema text, in UTF-8 bytes")
    max_references: int = Field(default=500, ge=0, le=10_000, description="most references of one schema")
    max_connections: int = Field(default=4096, ge=0, description="more get 503; 0: no limit")
    keep_alive_seconds: int = Field(default=5, ge=1, le=3600, description="how long an idle connection is kept")
    read_seconds: float = Field(
        default=60.0, gt=0, le=3600, description="how long a client may take to send a request or to take an answer"
    )
    expects_tls: bool = Field(default=False, description="SCHEMA_REGISTRY_LISTENERS says https")
    expects_auth: bool = Field(default=False, description="another registry's variable asks for authentication")
    mode_mutability: bool = Field(default=True, description="whether modes may be changed")
    cors_origins: str = Field(
        default="", description="web pages that may ask (CORS): https://HOST, …; *: all; none: no"
    )
    cors_methods: str = Field(default="GET,POST,HEAD", description="what they may send, with cors_origins")
    cors_headers: str = Field(
        default="X-Requested-With,Content-Type,Accept,Origin", description="the header fields that they may set"
    )

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

    @field_validator("log_level", "log_format", "logical_types", "tls_client_auth", mode="before")
    @classmethod
    def _lower(cls, value: Any) -> Any:
        return value.lower() if isinstance(value, str) else value

    @property
    def controls_access(self) -> bool:
        """True if clients have to say who they are."""
        return bool(self.auth_file or self.tls_client_ca)

    def check_access(self) -> None:
        """Raises ValueError for settings that would protect less than they seem to."""
        if self.acl_file and not self.controls_access:
            raise ValueError("--acl-file needs --auth-file or --tls-client-ca: without them no user is known")
        if not self.tls_cert and (self.tls_key or self.tls_client_ca):
            raise ValueError("--tls-key and --tls-client-ca need --tls-cert")
        if self.tls_client_auth == "optional" and self.tls_client_ca and not self.auth_file:
            raise ValueError("BRIDGE_TLS_CLIENT_AUTH=optional needs --auth-file")
        if self.expects_tls and not self.tls_cert:
            raise ValueError(
                "SCHEMA_REGISTRY_LISTENERS says https: that needs --tls-cert (and --tls-key), as PEM files"
            )
        if self.expects_auth and not self.auth_file:
            raise ValueError(
                "KARAPACE_REGISTRY_AUTHFILE or SCHEMA_REGISTRY_AUTHENTICATION_METHOD asks for authentication: that "
                "needs --auth-file (see docs/registry.md, Access)"
            )

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


# Settings import no rules, so the names of schema_types.base.LEVELS stand here too; a test compares them.
_LEVELS: Final = "NONE BACKWARD BACKWARD_TRANSITIVE FORWARD FORWARD_TRANSITIVE FULL FULL_TRANSITIVE".split()


class _AliasSource(EnvSettingsSource):
    def __call__(self) -> Values:
        values: Values = {}
        for name, read in ALIASES.items():
            if text := os.environ.get(name):
                values |= read(text)
        return values


def aliases_used(environ: Mapping[str, str], explicit: Mapping[str, Any]) -> list[str]:
    """For the log: variables of other registries that decide something or nothing. explicit: of the command line."""
    decided: dict[str, str] = {}
    for name, read in ALIASES.items():
        if environ.get(name):
            decided |= dict.fromkeys(read(environ[name]), name)
    unknown = [name for name in environ if name.startswith(_OTHERS) and environ[name] and name not in ALIASES]
    return [f"{name} has no effect here" for name in sorted(unknown)] + [
        f"{name} sets {setting}"
        for setting, name in decided.items()
        if setting not in explicit and f"{PREFIX}{setting.upper()}" not in environ
    ]
