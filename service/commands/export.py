"""`export`: all that a registry holds, to a topic, a dump file or another registry."""

from __future__ import annotations

from typing import Annotated

import typer

from schemas.errors import SetupError
from service.commands import moving
from service.commands.moving import Wish, access, default_store, run
from service.moving.places import Ways

Places = Annotated[
    list[str],
    typer.Argument(metavar="[SOURCE] TARGET", help="Each kafka:TOPIC, http(s)://… or a FILE; - is stdin or stdout."),
]
StoreUrl = Annotated[
    str | None,
    typer.Option(
        help="The store to read, if no SOURCE is named: sqlite:///PATH. [BRIDGE_STORE, sqlite:///registry.db]"
    ),
]


def export(
    places: Places,
    store: StoreUrl = None,
    servers: moving.Servers = None,
    kafka_config: moving.KafkaConfig = None,
    user: moving.User = None,
    token: moving.Token = None,
    to_user: moving.ToUser = None,
    to_token: moving.ToToken = None,
    ca: moving.Ca = None,
    wait: moving.Wait = 30.0,
    dry_run: moving.DryRun = False,
    skip_broken: moving.SkipBroken = False,
    overwrite_settings: moving.OverwriteSettings = False,
    no_modes: moving.NoModes = False,
    drop_rule_sets: moving.DropRuleSets = False,
    overwrite: moving.Overwrite = False,
) -> None:
    """Export a registry: to a _schemas topic, to a dump FILE, or to another registry over REST.

    The source is our own store, or a SOURCE that is named before the target. Records are written as Confluent writes
    them, with the same keys to the byte. A topic that is not there is made, with one partition and compacted. Into a
    topic or a registry only what is missing there is written.

    Exit code 0: done, or nothing to do. 1: conflicts or broken records. 2: it can't be done.

    Try it:  python -m service export dump.jsonl --store sqlite:///registry.db

             python -m service export kafka:_schemas --bootstrap-servers localhost:9092

             python -m service export http://registry:8081 dump.jsonl
    """
    over_http = [one.startswith(("http://", "https://")) for one in places]
    own = access(user, token, ca, wait)
    # With one registry over HTTP the credentials are its own, whichever side it is on.
    target_access = own if not all(over_http) or len(places) == 1 else access(to_user, to_token, ca, wait, target=True)
    wish = Wish(
        Ways(own, servers, kafka_config),
        Ways(target_access, servers, kafka_config, overwrite=overwrite),
        dry_run=dry_run,
        skip_broken=skip_broken,
        overwrite_settings=overwrite_settings,
        no_modes=no_modes,
        drop_rule_sets=drop_rule_sets,
    )

    def job() -> int:
        if len(places) > 2:
            raise SetupError("USAGE", details="export takes a TARGET, or a SOURCE and a TARGET")
        source = places[0] if len(places) == 2 else default_store(store)
        return moving.move("export", source, places[-1], wish)

    run("export", job)
