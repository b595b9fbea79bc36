"""`serve`: the registry until Ctrl-C or SIGTERM."""

from __future__ import annotations

import gc
import os
import sys
from typing import Annotated, Any, Final

import typer

from ticdc_bridge.cli.options import AccessLog, Host, KafkaConfig, LogFormat, Port, Profile, Servers, StoreUrl
from ticdc_bridge.cli.output import load_settings, refuse_start
from ticdc_bridge.schemas.model.errors import SetupError
from ticdc_bridge.service.server.logs import print_line

_SWITCH_SECONDS: Final = 0.0001

LogicalTypes = Annotated[
    str | None,
    typer.Option(
        metavar="accept|strict",
        help="strict: refuse a change of DECIMAL precision, scale or handling mode that readers would misread; "
        "accept: only warn. [BRIDGE_LOGICAL_TYPES, accept]",
    ),
]
AuthFile = Annotated[
    str | None,
    typer.Option(
        metavar="FILE",
        help="Users who may log in: NAME:HASH a line, as htpasswd -B writes them. [BRIDGE_AUTH_FILE, none: anybody]",
    ),
]
AclFile = Annotated[
    str | None,
    typer.Option(
        metavar="FILE", help="Who may do what to which subjects, as TOML. [BRIDGE_ACL_FILE, none: everything]"
    ),
]
TlsCert = Annotated[
    str | None, typer.Option(metavar="FILE", help="PEM file of the certificate. [BRIDGE_TLS_CERT, none: HTTP]")
]
TlsKey = Annotated[
    str | None,
    typer.Option(
        metavar="FILE", help="PEM file of its key; a password comes from BRIDGE_TLS_KEY_PASSWORD only. [BRIDGE_TLS_KEY]"
    ),
]
TlsClientCa = Annotated[
    str | None,
    typer.Option(
        metavar="FILE", help="PEM file: clients need a certificate issued by one of these. [BRIDGE_TLS_CLIENT_CA]"
    ),
]

Track = Annotated[
    str | None,
    typer.Option(
        metavar="[NAME=]kafka:T|CONFIG", help="Follow changefeeds into table histories: topics, or a TOML file. [none]"
    ),
]


def serve(
    host: Host = None,
    port: Port = None,
    store: StoreUrl = None,
    profile: Profile = None,
    logical_types: LogicalTypes = None,
    track: Track = None,
    bootstrap_servers: Servers = None,
    kafka_config: KafkaConfig = None,
    log_format: LogFormat = None,
    access_log: AccessLog = None,
    auth_file: AuthFile = None,
    acl_file: AclFile = None,
    tls_cert: TlsCert = None,
    tls_key: TlsKey = None,
    tls_client_ca: TlsClientCa = None,
) -> None:
    """Serve the registry until Ctrl-C or SIGTERM.

    Point TiCDC at it with  --schema-registry http://HOST:8081 , and any Confluent client with the same URL.

    Every option can come from the environment as BRIDGE_NAME; the names SCHEMA_REGISTRY_LISTENERS,
    SCHEMA_REGISTRY_SCHEMA_COMPATIBILITY_LEVEL and KARAPACE_HOST, _PORT, _COMPATIBILITY are understood too.
    When it is ready, one line on stderr says where it listens.

    Examples:
      curl http://127.0.0.1:8081/subjects
    """
    explicit = {name: value for name, value in locals().items() if value is not None}
    if kafka_config is not None:
        explicit["kafka_config"] = str(kafka_config)
    try:
        _run(explicit)
    except SetupError as error:
        refuse_start(error.detail)
    except ValueError as error:
        refuse_start(str(error))


def _run(explicit: dict[str, Any]) -> None:
    """Start and serve. Raises SetupError or ValueError if it can't start."""
    gc.disable()  # a start makes what stays: looking through it for garbage takes a tenth of it
    from ticdc_bridge.service.server.app import create_served
    from ticdc_bridge.service.server.http_server import bind, serve_on
    from ticdc_bridge.service.server.settings import aliases_used

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
