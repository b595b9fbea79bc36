"""A real service on a free loopback port, for tests and benchmarks."""

import http.client
import tempfile
import threading
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from ticdc_bridge.service.server.app import create_served
from ticdc_bridge.service.server.http_server import base_url, bind, server, watched_context
from ticdc_bridge.service.server.settings import Settings

_START_SECONDS = 30


@contextmanager
def running_service(store: str | None = None, **settings: Any) -> Iterator[str]:
    """Run the service in a thread, yield its base URL. `store`: a URL, None for a new folder; settings: as Settings."""
    with tempfile.TemporaryDirectory() as folder:
        url = store or f"sqlite:///{Path(folder) / 'registry.db'}"
        listening = bind("127.0.0.1", 0)
        ready = threading.Event()
        used = Settings(store=url, **{"log_level": "warning", **settings})
        tls, files = watched_context(used)
        running = server(create_served(used), used, ready.set, tls)
        files.start()
        address = base_url(listening, "https" if tls else "http")
        thread = threading.Thread(target=running.run, kwargs={"sockets": [listening]}, daemon=True)
        thread.start()
        try:
            if not ready.wait(_START_SECONDS):
                raise RuntimeError("the service did not start")
            if not used.controls_access and tls is None:
                netloc = urlsplit(address).netloc
                with closing(http.client.HTTPConnection(netloc, timeout=_START_SECONDS)) as connection:
                    connection.request("GET", "/")
                    body = connection.getresponse().read()
                if body != b"{}":
                    raise RuntimeError(f"GET / answered {body!r}")
            yield address
        finally:
            files.close()
            running.should_exit = True
            thread.join(_START_SECONDS)
            listening.close()
