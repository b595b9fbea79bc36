"""`health`: check whether the service on this machine is ready"""

from __future__ import annotations

from typing import Annotated

import typer

Url = Annotated[
    str | None,
    typer.Option(
        metavar="URL",
        help="Where it listens, http(s)://HOST:PORT. [BRIDGE_HOST, BRIDGE_PORT, BRIDGE_TLS_CERT as `serve` reads them]",
    ),
]


def health(url: Url = None) -> None:
    """Check whether the service on this machine is ready, as a container's health check does.

    Exit code 0: it is, and its store can be used. 1: it is not, or nothing answers within 4 s; stderr says why.
    2: wrong usage.

    Examples:
      ticdc-bridge health
    """
    from ticdc_bridge.service.server.health import run

    raise typer.Exit(run(url))
