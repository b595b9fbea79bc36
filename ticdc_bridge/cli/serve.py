"""`serve`: the registry until Ctrl-C or SIGTERM."""

import gc
import os
import sys
from dataclasses import dataclass, fields
from typing import ClassVar, Final, Literal

from ticdc_bridge.cli.options import ACCESS, KafkaOptions, StoreOptions, option
from ticdc_bridge.cli.output import ServiceCommand, load_settings
from ticdc_bridge.service.server.logs import print_line

_SWITCH_SECONDS: Final = 0.0001


@dataclass(kw_only=True)
class Serve(StoreOptions, KafkaOptions, ServiceCommand):
    """Serve the registry until Ctrl-C or SIGTERM.

    Point TiCDC at it with  --schema-registry http://HOST:8081 , and any Confluent client with the same URL.

    Every option can come from the environment as BRIDGE_NAME. Variables of Confluent's registry and Karapace, such as
    SCHEMA_REGISTRY_LISTENERS and KARAPACE_PORT, are understood too (docs/registry.md, Settings). When it is ready, one
    line on stderr says where it listens.

    Examples:
      ticdc-bridge serve --host 0.0.0.0 --store sqlite:////data/registry.db --auth-file users
      ticdc-bridge serve --bootstrap-servers localhost:9092 --track shop=kafka:shop
    """

    prefix: ClassVar[str] = "can't start: "
    wrong: ClassVar = (ValueError,)
    host: str | None = option(None, "HOST", "Address to listen on. 0.0.0.0 for all. [BRIDGE_HOST, 127.0.0.1]")
    port: int | None = option(None, "PORT", "Port to listen on; 0 picks a free one. [BRIDGE_PORT, 8081]")
    profile: int | None = option(None, "8|7", "Answer as Confluent 8.x or 7.x does: 8 or 7. [BRIDGE_PROFILE, 8]")
    logical_types: Literal["accept", "strict"] | None = option(
        None, None,
        "strict: refuse a change of DECIMAL precision, scale or handling mode that readers would misread; "
        "accept: only warn. [BRIDGE_LOGICAL_TYPES, accept]",
    )  # fmt: skip
    track: str | None = option(
        None, "[NAME=]kafka:T|CONFIG", "Follow changefeeds into table histories: topics, or a TOML file. [none]"
    )
    log_format: Literal["text", "json"] | None = option(None, None, "Form of a log line. [BRIDGE_LOG_FORMAT, text]")
    access_log: bool | None = option(
        None, None, "Log every request. [BRIDGE_ACCESS_LOG, no]", "--access-log/--no-access-log"
    )
    auth_file: str | None = option(
        ACCESS, "FILE",
        "Users who may log in: one NAME:HASH per line, as htpasswd -B writes them. [BRIDGE_AUTH_FILE, none: anybody]",
    )  # fmt: skip
    acl_file: str | None = option(
        ACCESS, "FILE", "Who may do what to which subjects, as TOML. [BRIDGE_ACL_FILE, none: everything]"
    )
    tls_cert: str | None = option(ACCESS, "FILE", "PEM file of the certificate. [BRIDGE_TLS_CERT, none: HTTP]")
    tls_key: str | None = option(
        ACCESS, "FILE", "PEM file of its key; a password comes from BRIDGE_TLS_KEY_PASSWORD only. [BRIDGE_TLS_KEY]"
    )
    tls_client_ca: str | None = option(
        ACCESS, "FILE", "PEM file: clients need a certificate issued by one of these. [BRIDGE_TLS_CLIENT_CA]"
    )

    def run(self) -> None:
        gc.disable()  # a start makes what stays: looking through it for garbage takes a tenth of it
        from ticdc_bridge.service.server.app import create_served
        from ticdc_bridge.service.server.http_server import bind, serve_on
        from ticdc_bridge.service.server.settings import aliases_used

        values = {field.name: getattr(self, field.name) for field in fields(self) if field.init}
        values["kafka_config"] = self.kafka_config and str(self.kafka_config)
        explicit = {name: value for name, value in values.items() if value is not None}
        settings = load_settings(**explicit)
        for used in aliases_used(os.environ, explicit):
            print_line(used)
        listening = bind(settings.host, settings.port)
        with listening:
            service = create_served(settings)
            _settle()
            serve_on(listening, service, settings)
        print_line("stopped")


def _settle() -> None:
    """The interpreter's settings for a service that runs.

    What is there now stays, and what comes later is mostly kept in caches: look through it less often. And the thread
    that registers schemas gets its turn soon while many read, as each of its queries waits for one.
    """
    gc.enable()
    gc.freeze()
    gc.set_threshold(10_000, 20, 50)
    sys.setswitchinterval(_SWITCH_SECONDS)
