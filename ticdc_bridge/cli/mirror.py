"""`mirror`: follow another registry, serve its schemas, and report every answer that differs."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from ticdc_bridge.cli.options import (
    AccessLog,
    Ca,
    Host,
    KafkaConfig,
    LogFormat,
    Port,
    Profile,
    Servers,
    StoreUrl,
    Token,
    User,
    login,
)
from ticdc_bridge.cli.output import load_settings, run_job

From = Annotated[
    str, typer.Option("--in", "--from", metavar="URL", help="The registry to follow: http(s)://… or kafka:TOPIC.")
]
ComparedWith = Annotated[
    str | None,
    typer.Option(
        "--against", "--compare-with", metavar="URL", help="The registry to compare with, if --in is a topic."
    ),
]
Once = Annotated[
    bool, typer.Option("--once", help="Sync once, compare everything, and exit: 0 if all answers are the same, else 1.")
]
Interval = Annotated[float, typer.Option(min=0.1, metavar="N", help="Seconds between two syncs.")]
Sample = Annotated[int, typer.Option(min=0, metavar="N", help="Requests to compare after each sync, in turn.")]
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
    servers: Servers = None,
    kafka_config: KafkaConfig = None,
    user: User = None,
    token: Token = None,
    ca: Ca = None,
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

    Examples:
      ticdc-bridge mirror --from http://old-registry:8081 --store sqlite:///mirror.db --once
    """
    from ticdc_bridge.schemas.inputs.kafka_settings import TOPIC
    from ticdc_bridge.service.migration.mirror_service import MirrorOptions, compare_once, follow

    options = MirrorOptions(
        source,
        compared_with or (None if source.startswith(TOPIC) else source),
        login(user, token, ca),
        servers,
        kafka_config,
        report,
        tuple(filter(None, map(str.strip, ignore.split(",")))),
        overwrite,
        forward_writes,
    )

    def job() -> int:
        settings = load_settings(
            host=host, port=port, store=store, profile=profile, log_format=log_format, access_log=access_log
        )
        return compare_once(options, settings) if once else follow(options, settings, interval, sample)

    run_job("mirror", job)
