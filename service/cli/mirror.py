"""`mirror`: follow another registry, serve its schemas, and report every answer that differs."""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Any, Final

import typer
from pydantic import ValidationError
from starlette.types import ASGIApp

from schemas.inputs.kafka_settings import client_settings
from schemas.model.errors import SetupError
from service import logs
from service.app import create_app, wrap_served
from service.cli import transfer
from service.cli.output import exit_with, print_line
from service.cli.serve import AccessLog, Host, LogFormat, Port, Profile, serve_on
from service.cli.transfer import SAYS_NO, access, count_text, run
from service.http_server import bind
from service.migration.endpoints import TOPIC
from service.migration.http_client import GATEWAY, AppRegistry, HttpRegistry, RegistryLogin, mask_login
from service.migration.mirror import Mirror, MirrorSource, RestMirrorSource, TopicMirrorSource
from service.migration.mirror_app import ReadOnlyStore, SubjectOfRequest, WriteForwarder, install
from service.migration.schemas_topic import SchemasTopic
from service.settings import Settings
from service.store import open_store

From = Annotated[str, typer.Option("--from", metavar="URL", help="The registry to follow: http(s)://… or kafka:TOPIC.")]
ComparedWith = Annotated[
    str | None,
    typer.Option("--compare-with", metavar="URL", help="Whose answers to compare with, if --from is a topic."),
]
StoreUrl = Annotated[
    str | None,
    typer.Option(help="Where the mirror keeps its schemas: an empty store, or its own of before. [BRIDGE_STORE]"),
]
Once = Annotated[bool, typer.Option("--once", help="Sync once, compare everything, and leave: 0 all the same, 1 not.")]
Interval = Annotated[float, typer.Option(min=0.1, help="Seconds between two syncs.")]
Sample = Annotated[int, typer.Option(min=0, help="Requests to compare after each sync; they go round in turn.")]
Report = Annotated[
    Path | None, typer.Option(metavar="FILE", help="Where differences go, a JSON line each; without it to the log.")
]
Ignore = Annotated[
    str, typer.Option(metavar="FIELDS", help="Fields of answers that need not be the same, e.g. ts,guid,deleted.")
]
ForwardWrites = Annotated[
    bool, typer.Option("--forward-writes", help="Send writes on to the upstream instead of refusing them.")
]
Overwrite = Annotated[
    bool, typer.Option("--overwrite", help="Follow into a store that holds other schemas; they are deleted.")
]

_SETTINGS: Final = ("host", "port", "store", "profile", "log_format", "access_log")
_PATIENCE: Final = 5.0
"""Seconds until a mirror that can't reach its upstream says so; it tries again for ever."""


@dataclass(frozen=True, slots=True)
class MirrorOptions:
    """The options of a mirror."""

    source: str
    compared_with: str | None
    access: RegistryLogin
    servers: str | None
    kafka_config: Path | None
    report: Path | None
    ignored: tuple[str, ...]
    overwrite: bool
    forward_writes: bool = False


def mirror(
    source: From,
    store: StoreUrl = None,
    compared_with: ComparedWith = None,
    once: Once = False,
    interval: Interval = 10.0,
    sample: Sample = 500,
    report: Report = None,
    ignore: Ignore = "",
    forward_writes: ForwardWrites = False,
    overwrite: Overwrite = False,
    servers: transfer.Servers = None,
    kafka_config: transfer.KafkaConfig = None,
    user: transfer.User = None,
    token: transfer.Token = None,
    ca: transfer.Ca = None,
    host: Host = None,
    port: Port = None,
    profile: Profile = None,
    log_format: LogFormat = None,
    access_log: AccessLog = None,
) -> None:
    """Follow another registry, serve its schemas, and report every answer that differs.

    Reads are answered from the mirror's own store, with the upstream's ids and versions; so is a registration of what
    is known. What would write is refused as in mode READONLY (42205), or sent on with --forward-writes. Deletes,
    configs and modes are followed too. Between two syncs the upstream and the mirror are asked the same questions, and
    what differs goes to the report when it begins and when it is over. GET /mirror says how it is doing; /metrics
    counts.

    While the upstream is down the mirror goes on serving, and tries again with growing pauses.

    To switch over: stop writers, run it once more with --once (exit code 0: every answer is the same), stop the
    mirror, start `serve` on the same --store, and point the clients there.

    Try it:  python -m service mirror --from http://old-registry:8081 --store sqlite:///mirror.db --once
    """
    options = MirrorOptions(
        source,
        compared_with or (None if source.startswith(TOPIC) else source),
        access(user, token, ca),
        servers,
        kafka_config,
        report,
        tuple(filter(None, map(str.strip, ignore.split(",")))),
        overwrite,
        forward_writes,
    )
    values = (host, port, store, profile, log_format, access_log)
    explicit = {name: value for name, value in zip(_SETTINGS, values, strict=True) if value is not None}

    def job() -> int:
        settings = load_settings(explicit)
        return compare_once(options, settings) if once else follow(options, settings, interval, sample)

    run("mirror", job)


def load_settings(explicit: dict[str, Any]) -> Settings:
    """The settings, in force for logs already. Leaves with 2 if they can't be."""
    try:
        settings = Settings(**explicit)
    except ValidationError as error:
        exit_with("; ".join(f"{'.'.join(map(str, one['loc']))}: {one['msg']}" for one in error.errors()))
    logs.configure(settings.log_format, settings.log_level)
    return settings


@contextmanager
def open_mirror(options: MirrorOptions, settings: Settings) -> Iterator[tuple[Mirror, ASGIApp]]:
    """The mirror, and its service as an ASGI app. Raises SetupError."""
    with ExitStack() as stack:
        store: Any = open_store(
            settings.store, wait_seconds=settings.store_wait_seconds, connections=settings.store_connections
        )
        stack.callback(store.close)
        app = create_app(settings, store, ReadOnlyStore)
        own = AppRegistry(SubjectOfRequest(create_app(without_access_control(settings), store, ReadOnlyStore)))
        stack.callback(own.close)
        upstream = None
        if options.compared_with is not None:
            upstream = HttpRegistry(
                options.compared_with, replace(options.access, wait=_PATIENCE, passing=(408, 429, *GATEWAY))
            )
            stack.callback(upstream.close)
        one = Mirror(
            store,
            _open_source(options, stack),
            own,
            upstream,
            report=options.report,
            ignored=options.ignored,
            overwrite=options.overwrite,
        )
        one.check_store()
        install(app, one)
        served: ASGIApp = SubjectOfRequest(wrap_served(app, settings))
        if options.forward_writes:
            if options.compared_with is None:
                raise SetupError(
                    "USAGE", details="--forward-writes needs a registry over HTTP: name it with --compare-with"
                )
            forwarded = HttpRegistry(options.compared_with, replace(options.access, wait=settings.store_wait_seconds))
            stack.callback(forwarded.close)
            served = WriteForwarder(served, forwarded, one)
        yield one, served


def without_access_control(settings: Settings) -> Settings:
    """The settings without what would keep the mirror from asking its own service."""
    return settings.model_copy(update={"auth_file": "", "acl_file": "", "tls_client_ca": ""})


def _open_source(options: MirrorOptions, stack: ExitStack) -> MirrorSource:
    if options.source.startswith(TOPIC):
        topic = SchemasTopic(
            options.source[len(TOPIC) :], client_settings(options.servers, options.kafka_config, "a topic")
        )
        stack.callback(topic.close)
        return TopicMirrorSource(topic)
    http = HttpRegistry(options.source, replace(options.access, wait=_PATIENCE))
    stack.callback(http.close)
    return RestMirrorSource(http)


def compare_once(options: MirrorOptions, settings: Settings) -> int:
    """One sync and every question; 0 if all answers are the same, else 1. Raises SetupError."""
    with open_mirror(options, settings) as (one, _):
        plan = one.sync(whole=True)
        print_line(
            f"mirror: {mask_login(options.source)}: "
            + (count_text(plan.changes) or "nothing new")
            + f"; {plan.same} versions the same"
        )
        differ = one.compare()
        status = one.status()
        for problem in status["not_carried_over"]:
            print_line(f"not carried over: {problem}")
        print_line(f"mirror: {status['compared']} answers compared, {differ} differ")
        for line in status["differing"]:
            print(f"  {line}", file=sys.stderr)
        return SAYS_NO if differ else 0


def follow(options: MirrorOptions, settings: Settings, interval: float, sample: int) -> int:
    """Serve and follow until Ctrl-C or SIGTERM. Raises SetupError if it can't start."""
    with bind(settings.host, settings.port) as listening, open_mirror(options, settings) as (one, app):
        stop = threading.Event()
        thread = threading.Thread(target=one.run, args=(stop, interval, sample), name="mirror", daemon=True)

        serve_on(listening, app, settings, f" mirror of {mask_login(options.source)}", thread.start)
        stop.set()
        if thread.ident is not None:
            thread.join()
    print_line("stopped")
    return 0
