"""`import`: another registry's schemas into ours, with their ids, versions, deletes, configs and modes."""

from __future__ import annotations

from typing import Annotated

import typer

from service.commands import moving
from service.commands.moving import Wish, access, default_store, run
from service.moving.places import Ways

Source = Annotated[str, typer.Argument(metavar="SOURCE", help="kafka:TOPIC, http(s)://…, a dump FILE, or - for stdin.")]
StoreUrl = Annotated[
    str | None, typer.Option(help="The store to write to: sqlite:///PATH. [BRIDGE_STORE, sqlite:///registry.db]")
]
To = Annotated[str | None, typer.Option(metavar="URL", help="Write to this registry over REST instead of a store.")]


def import_(
    source: Source,
    store: StoreUrl = None,
    to: To = None,
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
) -> None:
    """Import a registry: from its _schemas topic, from a dump of it, or over REST.

    Ids, versions, soft deletes, references, metadata, configs, modes, contexts and aliases come as they are, from
    Confluent, Karapace or this service. From a topic, permanent deletes count too: no id is ever handed out again.

    Everything is checked before anything is written, and into a store it is one transaction. What is there already
    stays, so a second import only adds what is new. Conflicts are listed all at once, and then nothing is written.

    A dump FILE has a record a line: {"key":{…},"value":{…}|null} as `export` writes them, KEY<TAB>VALUE as
    kafka-console-consumer prints them with --property print.key=true, or {"key_b64","value_b64"}.

    Exit code 0: done, or nothing to do. 1: conflicts or broken records (see --skip-broken). 2: it can't be done.

    Try it:  python -m service import kafka:_schemas --bootstrap-servers localhost:9092 --dry-run

             python -m service import http://old-registry:8081 --store sqlite:///registry.db

             python -m service import dump.jsonl --to http://new-registry:8081
    """
    wish = Wish(
        Ways(access(user, token, ca, wait), servers, kafka_config),
        Ways(access(to_user, to_token, ca, wait, target=True), servers, kafka_config),
        dry_run=dry_run,
        skip_broken=skip_broken,
        overwrite_settings=overwrite_settings,
        no_modes=no_modes,
        drop_rule_sets=drop_rule_sets,
    )
    run("import", lambda: moving.move("import", source, to or default_store(store), wish))
