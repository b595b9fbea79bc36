"""A bare ASGI app on the service's own uvicorn settings: what is left when a registry does nothing.

`python -m benchmarks.bare FILE` answers every request with the bytes of FILE, after reading the request's body, and
says on stderr where it listens.
"""

import sys
from pathlib import Path

from starlette.types import ASGIApp, Receive, Scope, Send

from ticdc_bridge.service.server.http_server import base_url, bind, server
from ticdc_bridge.service.server.settings import Settings


def bare(body: bytes) -> ASGIApp:
    headers = [(b"content-length", str(len(body)).encode()), (b"content-type", b"application/json")]

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            while True:
                message = await receive()
                await send({"type": message["type"] + ".complete"})
                if message["type"] == "lifespan.shutdown":
                    return
        if scope["method"] == "POST":
            while (await receive()).get("more_body"):
                pass
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        await send({"type": "http.response.body", "body": body})

    return app


def main(path: str) -> None:
    listening = bind("127.0.0.1", 0)

    def ready() -> None:
        print(f"listening on {base_url(listening)}", file=sys.stderr, flush=True)

    with listening:
        server(bare(Path(path).read_bytes()), Settings(log_level="warning"), ready).run(sockets=[listening])


if __name__ == "__main__":
    main(sys.argv[1])
