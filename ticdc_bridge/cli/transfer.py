"""`import` and `export`: schemas with their ids, versions, deletes, configs and modes, from one place to another.

A place is a store, a topic, a dump file or another registry.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from ticdc_bridge.cli.options import StoreUrl, TransferArguments, login, one_place, spread_options
from ticdc_bridge.cli.output import read_settings, run_job
from ticdc_bridge.schemas.model.errors import SetupError

if TYPE_CHECKING:
    from ticdc_bridge.service.migration.transfer import TransferOptions

Places = Annotated[
    list[str] | None,
    typer.Argument(metavar="[SOURCE] TARGET", help="Each kafka:TOPIC, http(s)://… or a FILE; - is stdin or stdout."),
]
Overwrite = Annotated[bool, typer.Option("--overwrite", help="Replace a dump file that holds something else.")]
ExportFrom = Annotated[str | None, typer.Option("--in", metavar="SOURCE", help="The same as SOURCE.")]
ExportTo = Annotated[str | None, typer.Option("--out", metavar="TARGET", help="The same as TARGET.")]
Source = Annotated[
    str | None, typer.Argument(metavar="SOURCE", help="kafka:TOPIC, http(s)://…, a dump FILE, or - for stdin.")
]
ImportFrom = Annotated[str | None, typer.Option("--in", metavar="SOURCE", help="The same.")]
To = Annotated[
    str | None,
    typer.Option("--to-registry", "--to", metavar="URL", help="Write to this registry over REST instead of a store."),
]
Verify = Annotated[
    bool, typer.Option("--verify", help="Write nothing; compare the target with SOURCE: are they equal?")
]


@spread_options
def export(
    places: Places = None,
    *,
    source: ExportFrom = None,
    target: ExportTo = None,
    store: StoreUrl = None,
    arguments: TransferArguments,
    overwrite: Overwrite = False,
) -> None:
    """Export a registry: to a _schemas topic, to a dump FILE, or to another registry over REST.

    The source is our own store, or a SOURCE that is named before the target. Records are written as Confluent writes
    them, with the same keys to the byte. A topic that is not there is made, with one partition and compacted. Into a
    topic or a registry only what is missing there is written.

    Exit code 0: done, or nothing to do. 1: conflicts or broken records. 2: it can't be done.

    Examples:
      ticdc-bridge export dump.jsonl --store sqlite:///registry.db
      ticdc-bridge export kafka:_schemas --bootstrap-servers localhost:9092
      ticdc-bridge export http://registry:8081 dump.jsonl
    """
    places = [*filter(None, [source]), *(places or ()), *filter(None, [target])]
    over_http = [one.startswith(("http://", "https://")) for one in places]
    # With one registry over HTTP the credentials are its own, whichever side it is on.
    options = _options(arguments, own_target=all(over_http) and len(places) > 1, overwrite=overwrite)

    def job() -> int:
        from ticdc_bridge.service.migration.transfer import move

        if not 0 < len(places) < 3 or (source and len(places) < 2):
            example = "ticdc-bridge export --out dump.jsonl --store sqlite:///registry.db"
            raise SetupError("USAGE", details=f"export takes a TARGET, or a SOURCE and a TARGET: {example}")
        return move("export", places[0] if len(places) == 2 else read_settings(store=store).store, places[-1], options)

    run_job("export", job)


@spread_options
def import_(
    given: Source = None,
    *,
    source: ImportFrom = None,
    store: StoreUrl = None,
    to: To = None,
    verify: Verify = False,
    arguments: TransferArguments,
) -> None:
    """Import a registry: from its _schemas topic, from a dump of it, or over REST.

    Ids, versions, soft deletes, references, metadata, configs, modes, contexts and aliases come as they are, from
    Confluent, Karapace or this service. From a topic, permanent deletes count too: no id is ever handed out again.

    Everything is checked before anything is written, and into a store it is one transaction. What is there already
    stays, so a second import only adds what is new. Conflicts are listed all at once, and then nothing is written.

    A dump FILE has a record a line: {"key":{…},"value":{…}|null} as `export` writes them, KEY<TAB>VALUE as
    kafka-console-consumer prints them with --property print.key=true, {"key_b64","value_b64"}, or, as in files of
    --schemas, {"subject","version","id","schema"}.

    Exit code 0: done, or nothing to do. 1: conflicts or broken records (see --skip-broken). 2: it can't be done.
    With --verify, 0: both are equal. 1: they differ; each difference is named. 2: can't tell.

    Examples:
      ticdc-bridge import kafka:_schemas --bootstrap-servers localhost:9092 --dry-run
      ticdc-bridge import http://old-registry:8081 --store sqlite:///registry.db
      ticdc-bridge import http://old-registry:8081 --store sqlite:///registry.db --verify
      ticdc-bridge import dump.jsonl --to http://new-registry:8081
    """
    options, place = _options(arguments), one_place("SOURCE", given, source)

    def job() -> int:
        from ticdc_bridge.service.migration.transfer import move
        from ticdc_bridge.service.migration.transfer import verify as verify_import

        target = to or read_settings(store=store).store
        return verify_import(place, target, options) if verify else move("import", place, target, options)

    run_job("import", job)


def _options(given: TransferArguments, *, own_target: bool = True, overwrite: bool = False) -> TransferOptions:
    """own_target: the target is reached with credentials of its own."""
    from ticdc_bridge.service.migration.endpoints import ConnectionOptions
    from ticdc_bridge.service.migration.transfer import TransferOptions

    source = login(given.user, given.token, given.ca, given.wait)
    target = login(given.to_user, given.to_token, given.ca, given.wait, target=True) if own_target else source
    return TransferOptions(
        ConnectionOptions(source, given.servers, given.kafka_config),
        ConnectionOptions(target, given.servers, given.kafka_config, overwrite=overwrite),
        given.dry_run,
        given.skip_broken,
        given.overwrite_settings,
        given.no_modes,
        given.drop_rule_sets,
    )
