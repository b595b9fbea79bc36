"""A mirror at work: its store, its sources and its service put together, once or until it is stopped."""

from __future__ import annotations

import asyncio
import json
import sys
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

from starlette.types import ASGIApp

from ticdc_bridge.clients.http import GATEWAY, V1, HttpClient, HttpLogin, HttpResponse
from ticdc_bridge.schemas.inputs.kafka_settings import TOPIC, client_settings
from ticdc_bridge.schemas.model.credentials import mask_url
from ticdc_bridge.schemas.model.errors import SetupError
from ticdc_bridge.service.app import create_app, wrap_served
from ticdc_bridge.service.http_server import bind, serve_on
from ticdc_bridge.service.logs import print_line
from ticdc_bridge.service.migration.mirror import Mirror, MirrorSource, RestMirrorSource, TopicMirrorSource
from ticdc_bridge.service.migration.mirror_app import ReadOnlyStore, SubjectOfRequest, WriteForwarder, install
from ticdc_bridge.service.migration.schemas_topic import SchemasTopic
from ticdc_bridge.service.migration.transfer import SAYS_NO, count_text
from ticdc_bridge.service.settings import Settings
from ticdc_bridge.service.store import open_store
from ticdc_bridge.service.ui.api_client import ask_app

_PATIENCE: Final = 5.0
"""Seconds until a mirror that can't reach its upstream says so; it tries again for ever."""


@dataclass(frozen=True, slots=True)
class MirrorOptions:
    """The options of a mirror."""

    source: str
    compared_with: str | None
    access: HttpLogin
    servers: str | None
    kafka_config: Path | None
    report: Path | None
    ignored: tuple[str, ...]
    overwrite: bool
    forward_writes: bool = False


class AppRegistry(HttpClient):
    """An ASGI app of this process, asked without a socket. Safe to use from many threads."""

    def __init__(self, app: ASGIApp, name: str = "this service") -> None:
        super().__init__("http://localhost")
        self.name = name
        self.app = app
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="asking", daemon=True)
        self._thread.start()

    def ask(self, method: str, target: str, body: Any = None) -> HttpResponse:
        headers = {"host": "localhost", "accept": f"{V1}, application/json", "content-type": V1}
        coroutine = ask_app(self.app, method, target, b"" if body is None else json.dumps(body).encode(), headers)
        return asyncio.run_coroutine_threadsafe(coroutine, self._loop).result()

    def close(self) -> None:
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()


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
            upstream = HttpClient(
                options.compared_with, login=replace(options.access, wait=_PATIENCE, retried=(408, 429, *GATEWAY))
            )
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
            forwarded = HttpClient(
                options.compared_with, login=replace(options.access, wait=settings.store_wait_seconds)
            )
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
        return TopicMirrorSource(topic)
    http = HttpClient(options.source, login=replace(options.access, wait=_PATIENCE))
    return RestMirrorSource(http)


def compare_once(options: MirrorOptions, settings: Settings) -> int:
    """One sync and every question; 0 if all answers are the same, else 1. Raises SetupError."""
    with open_mirror(options, settings) as (one, _):
        plan = one.sync(whole=True)
        print_line(
            f"mirror: {mask_url(options.source)}: "
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

        serve_on(listening, app, settings, f" mirror of {mask_url(options.source)}", thread.start)
        stop.set()
        if thread.ident is not None:
            thread.join()
    print_line("stopped")
    return 0
