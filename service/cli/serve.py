"""`serve`: the registry until Ctrl-C or SIGTERM."""

from __future__ import annotations

import gc
import logging
import os
import signal
import socket
from collections.abc import Callable
from ipaddress import ip_address
from types import FrameType
from typing import Annotated, Any

import typer
from pydantic import ValidationError
from starlette.types import ASGIApp

from schemas.model.errors import SetupError
from service import logs
from service.app import create_served
from service.cli.output import exit_with, print_line
from service.http_server import base_url, bind, server, watched_context
from service.settings import Settings, aliases_used
from service.store import mask_store_url

_LOG = logging.getLogger("service")

Host = Annotated[str | None, typer.Option(help="Address to listen on. 0.0.0.0 for all. [BRIDGE_HOST, 127.0.0.1]")]
Port = Annotated[int | None, typer.Option(help="Port to listen on; 0 picks a free one. [BRIDGE_PORT, 8081]")]
StoreUrl = Annotated[
    str | None,
    typer.Option(
        help="Where schemas are kept: sqlite:///PATH or postgresql://USER@HOST/DATABASE. "
        "[BRIDGE_STORE, sqlite:///registry.db]"
    ),
]
Profile = Annotated[
    int | None, typer.Option(help="Answers in the shape of Confluent 8.x or 7.x: 8 or 7. [BRIDGE_PROFILE, 8]")
]
LogicalTypes = Annotated[
    str | None,
    typer.Option(
        help="strict: refuse a change of DECIMAL precision, scale or handling mode that readers would misread; "
        "accept: only warn. [BRIDGE_LOGICAL_TYPES, accept]"
    ),
]
LogFormat = Annotated[str | None, typer.Option(help="text or json: one object a line. [BRIDGE_LOG_FORMAT, text]")]
AccessLog = Annotated[
    bool | None, typer.Option("--access-log/--no-access-log", help="Log every request. [BRIDGE_ACCESS_LOG, no]")
]
AuthFile = Annotated[
    str | None,
    typer.Option(
        help="Who may come in: NAME:HASH a line, as htpasswd -B writes them. [BRIDGE_AUTH_FILE, none: anybody]"
    ),
]
AclFile = Annotated[
    str | None, typer.Option(help="Who may do what to which subjects, as TOML. [BRIDGE_ACL_FILE, none: everything]")
]
TlsCert = Annotated[str | None, typer.Option(help="PEM file of the certificate. [BRIDGE_TLS_CERT, none: HTTP]")]
TlsKey = Annotated[
    str | None,
    typer.Option(help="PEM file of its key; a password comes from BRIDGE_TLS_KEY_PASSWORD only. [BRIDGE_TLS_KEY]"),
]
TlsClientCa = Annotated[
    str | None, typer.Option(help="PEM file: clients need a certificate issued by one of these. [BRIDGE_TLS_CLIENT_CA]")
]

Track = Annotated[
    str | None,
    typer.Option(
        metavar="[NAME=]kafka:T|CONFIG", help="Follow changefeeds into table histories: topics, or a TOML file. [none]"
    ),
]
Servers = Annotated[
    str | None, typer.Option(help="Kafka of --track and the page Explain: HOST:PORT. [BRIDGE_BOOTSTRAP_SERVERS]")
]
KafkaConfig = Annotated[
    str | None, typer.Option(help="Properties file of its client: SASL, TLS, any setting. [BRIDGE_KAFKA_CONFIG]")
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

    Try it:  curl http://127.0.0.1:8081/subjects
    """
    options = {
        "host": host,
        "port": port,
        "store": store,
        "profile": profile,
        "logical_types": logical_types,
        "track": track,
        "bootstrap_servers": bootstrap_servers,
        "kafka_config": kafka_config,
        "log_format": log_format,
        "access_log": access_log,
        "auth_file": auth_file,
        "acl_file": acl_file,
        "tls_cert": tls_cert,
        "tls_key": tls_key,
        "tls_client_ca": tls_client_ca,
    }
    explicit = {name: value for name, value in options.items() if value is not None}
    try:
        run(explicit)
    except SetupError as error:
        exit_with(error.detail)
    except ValidationError as error:
        exit_with("; ".join(f"{'.'.join(map(str, one['loc']))}: {one['msg']}" for one in error.errors()))
    except ValueError as error:
        exit_with(str(error))


def run(explicit: dict[str, Any]) -> None:
    """Start and serve. Raises SetupError or ValueError if it can't start."""
    settings = Settings(**explicit)
    logs.configure(settings.log_format, settings.log_level)
    for used in aliases_used(os.environ, explicit):
        print_line(used)
    listening = bind(settings.host, settings.port)
    with listening:
        service = create_served(settings)
        # What is there now stays, and what comes later is mostly kept in caches: look through it less often.
        gc.freeze()
        gc.set_threshold(10_000, 20, 50)
        serve_on(listening, service, settings)
    print_line("stopped")


def serve_on(
    listening: socket.socket,
    service: ASGIApp,
    settings: Settings,
    more: str = "",
    on_ready: Callable[[], None] | None = None,
) -> None:
    """Serve until Ctrl-C or SIGTERM, with TLS where it is set; `more` ends the line that says where."""
    tls, tls_files = watched_context(settings)
    for warning in exposure_warnings(settings, listening.getsockname()[0]):
        _LOG.warning(warning)
    tls_files.start()
    url = base_url(listening, "https" if tls else "http")

    def ready() -> None:
        print_line(f"listening on {url} store={mask_store_url(settings.store)} profile={settings.profile}{more}")
        if on_ready is not None:
            on_ready()

    # uvicorn raises the signal again when it has stopped; stopping when asked to is no failure
    signal.signal(signal.SIGTERM, ignore_signal)
    signal.signal(signal.SIGINT, ignore_signal)
    server(service, settings, ready, tls).run(sockets=[listening])
    tls_files.close()


def exposure_warnings(settings: Settings, address: str) -> list[str]:
    """What an operator has to know about who can reach the service; nothing on loopback."""
    if ip_address(address.partition("%")[0]).is_loopback:
        return []
    if not settings.controls_access:
        return [
            f"ANYBODY who can reach {address} can read, change and delete every schema: set --auth-file "
            "(and --acl-file), or --tls-client-ca, or listen on 127.0.0.1 only"
        ]
    if settings.auth_file and not settings.tls_cert:
        return ["passwords and tokens are sent unencrypted: set --tls-cert and --tls-key, or put TLS in front"]
    return []


def ignore_signal(_number: int, _frame: FrameType | None) -> None:
    """The signal has done its work already."""
