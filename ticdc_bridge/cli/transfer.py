"""`import` and `export`: schemas with their ids, versions, deletes, configs and modes, from one place to another.

A place is a store, a topic, a dump file or another registry.
"""

from __future__ import annotations

import signal
from dataclasses import dataclass, field
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Any, NoReturn

from ticdc_bridge.cli.options import (
    INPUT,
    OUTPUT,
    REGISTRIES,
    KafkaOptions,
    StoreOptions,
    argument,
    flag,
    login,
    option,
    seconds,
)
from ticdc_bridge.cli.output import CountingCommand, choose_source, exit_with, read_settings
from ticdc_bridge.schemas.model.errors import BridgeError, SetupError
from ticdc_bridge.service.server import logs
from ticdc_bridge.service.server.logs import print_line

if TYPE_CHECKING:
    from ticdc_bridge.service.migration.transfer import TransferOptions


@dataclass(kw_only=True)
class Transfer(StoreOptions, KafkaOptions, CountingCommand):
    """What import and export share: how both ends are reached, and what is moved."""

    user: str | None = option(
        REGISTRIES, "NAME:PASSWORD", "Basic auth for a registry over HTTP. [BRIDGE_REGISTRY_USER]"
    )
    token: str | None = option(REGISTRIES, "TOKEN", "Bearer token for a registry over HTTP. [BRIDGE_REGISTRY_TOKEN]")
    to_user: str | None = option(
        REGISTRIES, "NAME:PASSWORD", "The same for the target, if both are over HTTP. [BRIDGE_TO_USER]"
    )
    to_token: str | None = option(
        REGISTRIES, "TOKEN", "The same for the target, if both are over HTTP. [BRIDGE_TO_TOKEN]"
    )
    ca: Path | None = option(REGISTRIES, "FILE", "Certificates to trust (PEM) instead of the system's.")
    wait: float = option(
        REGISTRIES, "TIME", "How long to retry a registry that can't be reached: 30s, 10m.",
        "--registry-wait", "--wait", parser=seconds, default="30s",
    )  # fmt: skip
    dry_run: bool = flag(OUTPUT, "--dry-run", "Say what would be done; write nothing.")
    skip_broken: bool = flag(
        None, "--skip-broken", "Leave out records that can't be read; they are counted, exit code 1."
    )
    overwrite_settings: bool = flag(None, "--overwrite-settings", "Where configs or modes differ, the source's win.")
    no_modes: bool = flag(None, "--no-modes", "Leave the target's modes as they are.")
    drop_rule_sets: bool = flag(
        None, "--drop-rule-sets", "Move schemas without their rule sets (encryption, migrations)."
    )

    counts: dict[str, Any] = field(default_factory=dict, init=False)

    def end(self) -> int | None:
        """SIGTERM ends it as Ctrl-C does: what has to be put back is put back. 130 after Ctrl-C, 143 after SIGTERM."""
        logs.configure("text", "info")
        name, stopped_by = type(self).__name__.lower(), signal.SIGINT

        def interrupt(number: int, _frame: FrameType | None) -> NoReturn:
            nonlocal stopped_by
            stopped_by = signal.Signals(number)
            raise KeyboardInterrupt

        before = signal.signal(signal.SIGTERM, interrupt)
        try:
            return self.report(self.counts, self.run())
        except BridgeError as error:
            exit_with(error.detail if isinstance(error, SetupError) else f"{name}: {error.detail}")
        except KeyboardInterrupt:
            print_line(f"{name} stopped; run it again to go on, what is there stays as it is")
            return 128 + stopped_by  # as shells say it
        finally:
            signal.signal(signal.SIGTERM, before)

    def options(self, *, has_target_login: bool = True, overwrite: bool = False) -> TransferOptions:
        """has_target_login: the target is reached with credentials of its own."""
        from ticdc_bridge.service.migration.endpoints import ConnectionOptions
        from ticdc_bridge.service.migration.transfer import TransferOptions

        source = login(self.user, self.token, self.ca, self.wait)
        target = login(self.to_user, self.to_token, self.ca, self.wait, target=True) if has_target_login else source
        return TransferOptions(
            ConnectionOptions(source, self.bootstrap_servers, self.kafka_config),
            ConnectionOptions(target, self.bootstrap_servers, self.kafka_config, overwrite=overwrite),
            self.dry_run, self.skip_broken, self.overwrite_settings, self.no_modes, self.drop_rule_sets, self.counts,
        )  # fmt: skip


@dataclass(kw_only=True)
class Export(Transfer):
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

    locations: list[str] | None = argument(
        "[SOURCE] TARGET", "Each kafka:TOPIC, http(s)://… or a FILE; - is stdin or stdout."
    )
    source: str | None = option(INPUT, "SOURCE", "The same as SOURCE.", "--in")
    target: str | None = option(OUTPUT, "TARGET", "The same as TARGET.", "--out")
    overwrite: bool = flag(OUTPUT, "--overwrite", "Replace a dump file that holds something else.")

    def run(self) -> int:
        from ticdc_bridge.service.migration.transfer import move

        locations = [*filter(None, [self.source]), *(self.locations or ()), *filter(None, [self.target])]
        if not 0 < len(locations) < 3 or (self.source and len(locations) < 2):
            example = "ticdc-bridge export --out dump.jsonl --store sqlite:///registry.db"
            raise SetupError("USAGE", details=f"export takes a TARGET, or a SOURCE and a TARGET: {example}")
        over_http = [location.startswith(("http://", "https://")) for location in locations]
        # With one registry over HTTP the credentials are its own, whichever end it is.
        options = self.options(has_target_login=all(over_http) and len(locations) > 1, overwrite=self.overwrite)
        source = locations[0] if len(locations) == 2 else read_settings(store=self.store).store
        return move("export", source, locations[-1], options)


@dataclass(kw_only=True)
class Import(Transfer):
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

    location: str | None = argument("SOURCE", "kafka:TOPIC, http(s)://…, a dump FILE, or - for stdin.")
    source: str | None = option(INPUT, "SOURCE", "The same.", "--in")
    to: str | None = option(
        REGISTRIES, "URL", "Write to this registry over REST instead of a store.", "--to-registry", "--to"
    )
    verify: bool = flag(None, "--verify", "Write nothing; compare the target with SOURCE: are they equal?")

    def run(self) -> int:
        from ticdc_bridge.service.migration.transfer import move, verify

        options, source = self.options(), choose_source("SOURCE", self.location, self.source)
        if self.to and self.store:
            raise SetupError("USAGE", details="--to URL and --store URL are two targets: give one of them")
        target = self.to or read_settings(store=self.store).store
        return verify(source, target, options) if self.verify else move("import", source, target, options)
