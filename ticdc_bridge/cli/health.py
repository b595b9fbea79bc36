"""`health`: check whether the service on this machine is ready"""

from dataclasses import dataclass

from ticdc_bridge.cli.options import BaseCommand, option


@dataclass(kw_only=True)
class Health(BaseCommand):
    """Check whether the service on this machine is ready, as a container's health check does.

    Exit code 0: it is, and its store can be used. 1: it is not, or nothing answers within 4 s; stderr says why.
    2: wrong usage.

    Examples:
      ticdc-bridge health
    """

    url: str | None = option(
        None, "URL",
        "Where it listens, http(s)://HOST:PORT. [BRIDGE_HOST, BRIDGE_PORT, BRIDGE_TLS_CERT as `serve` reads them]",
    )  # fmt: skip

    def run(self) -> int:
        from ticdc_bridge.service.server.health import run

        return run(self.url)
