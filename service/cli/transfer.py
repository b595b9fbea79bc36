"""`import` and `export`: schemas with their ids, versions, deletes, configs and modes, from one place to another.

A place is a store, a topic, a dump file or another registry.
"""

from __future__ import annotations

import os
import signal
import sys
from collections import Counter
from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import FrameType
from typing import Annotated, Final, NoReturn

import typer
from pydantic import ValidationError

from schemas.model.errors import BridgeError, SetupError
from service import logs
from service.cli.output import exit_with, print_line
from service.migration.endpoints import (
    ConnectionOptions,
    EmptyEndpoint,
    Endpoint,
    Planner,
    ReadResult,
    WriteResult,
    endpoint_of,
    is_there,
    planner_of,
)
from service.migration.http_client import RegistryLogin
from service.migration.plan import Conflict
from service.migration.progress import progress
from service.migration.snapshot import Snapshot
from service.registry.model import context_of
from service.settings import Settings

SAYS_NO: Final = 1
_SHOWN: Final = 1000


Servers = Annotated[
    str | None, typer.Option("--bootstrap-servers", help="Kafka brokers, HOST:PORT. [BRIDGE_BOOTSTRAP_SERVERS]")
]
KafkaConfig = Annotated[
    Path | None,
    typer.Option("--kafka-config", metavar="FILE", help="Client settings, name=value a line: SASL, TLS, anything."),
]
User = Annotated[
    str | None,
    typer.Option(metavar="NAME:PASSWORD", help="Basic auth for a registry over HTTP. [BRIDGE_REGISTRY_USER]"),
]
Token = Annotated[str | None, typer.Option(help="Bearer token for a registry over HTTP. [BRIDGE_REGISTRY_TOKEN]")]
ToUser = Annotated[
    str | None,
    typer.Option(metavar="NAME:PASSWORD", help="The same for the target, if both are over HTTP. [BRIDGE_TO_USER]"),
]
ToToken = Annotated[str | None, typer.Option(help="The same for the target, if both are over HTTP. [BRIDGE_TO_TOKEN]")]
Ca = Annotated[Path | None, typer.Option(metavar="FILE", help="Certificates to trust (PEM) instead of the system's.")]
Wait = Annotated[float, typer.Option(min=0, help="Seconds to try again where a registry can't be reached.")]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Say what would be done; write nothing.")]
SkipBroken = Annotated[
    bool, typer.Option("--skip-broken", help="Leave out records that can't be read; they are counted, and exit is 1.")
]
OverwriteSettings = Annotated[
    bool, typer.Option("--overwrite-settings", help="Where configs or modes differ, the source's win.")
]
NoModes = Annotated[bool, typer.Option("--no-modes", help="Leave the target's modes as they are.")]
DropRuleSets = Annotated[
    bool, typer.Option("--drop-rule-sets", help="Move schemas without their rule sets (encryption, migrations).")
]
Overwrite = Annotated[bool, typer.Option("--overwrite", help="Replace a dump file that holds something else.")]


@dataclass(frozen=True, slots=True)
class TransferOptions:
    """The options of a move. `reading` and `writing` say how the two places are reached."""

    reading: ConnectionOptions = field(default_factory=ConnectionOptions)
    writing: ConnectionOptions = field(default_factory=ConnectionOptions)
    dry_run: bool = False
    skip_broken: bool = False
    overwrite_settings: bool = False
    no_modes: bool = False
    drop_rule_sets: bool = False


def access(
    user: str | None, token: str | None, ca: Path | None, wait: float = 30.0, *, target: bool = False
) -> RegistryLogin:
    """Credentials from options, else from the environment; those of a target only from its own."""
    names = ("BRIDGE_TO_USER", "BRIDGE_TO_TOKEN") if target else ("BRIDGE_REGISTRY_USER", "BRIDGE_REGISTRY_TOKEN")
    return RegistryLogin(user or os.environ.get(names[0]) or None, token or os.environ.get(names[1]) or None, ca, wait)


def default_store(store: str | None) -> str:
    """The store meant when none is named: that of `serve`. Raises SetupError."""
    try:
        return store or Settings().store
    except ValidationError as error:
        raise SetupError("USAGE", details=str(error)) from None


def run(what: str, job: Callable[[], int]) -> None:
    """Do a job and leave with its exit code; 2 if it can't be done, 1 after Ctrl-C or SIGTERM."""
    logs.configure("text", "info")
    before = signal.signal(signal.SIGTERM, raise_interrupt)
    try:
        code = job()
    except SetupError as error:
        exit_with(error.detail)
    except BridgeError as error:
        exit_with(f"{what}: {error.detail}")
    except KeyboardInterrupt:
        print_line(f"{what} stopped; run it again to go on, what is there stays as it is")
        raise typer.Exit(SAYS_NO) from None
    finally:
        signal.signal(signal.SIGTERM, before)
    raise typer.Exit(code)


def raise_interrupt(_number: int, _frame: FrameType | None) -> NoReturn:
    """SIGTERM ends a move as Ctrl-C does: what has to be put back is put back."""
    raise KeyboardInterrupt


def move(what: str, source: str, target: str, options: TransferOptions) -> int:
    """Read the source, plan, write the target; what `run` wants as a job. Raises SetupError."""
    with (
        progress(print_line) as report,
        endpoint_of(source, with_progress(options.reading, report), create=False) as one,
        open_target(target, with_progress(options.writing, report), options) as other,
    ):
        print_line(f"{what}: {one.name} to {other.name}" + (" (dry run)" if options.dry_run else ""))
        result = one.read()
        tell_found(result)
        if result.broken and not options.skip_broken:
            print_list(
                f"{result.broken_count} broken records, nothing was written (--skip-broken leaves them out):",
                result.broken,
            )
            return SAYS_NO
        if result.broken:
            print_list(f"{result.broken_count} broken records left out:", result.broken)
        return write_and_report(what, other, result, options)


def open_target(target: str, ways: ConnectionOptions, options: TransferOptions) -> AbstractContextManager[Endpoint]:
    """The target; a dry run makes no store."""
    if options.dry_run and not is_there(target):
        return nullcontext(EmptyEndpoint(target))
    return endpoint_of(target, ways)


def with_progress(ways: ConnectionOptions, report: Callable[[str, int, int | None], None]) -> ConnectionOptions:
    return ConnectionOptions(ways.access, ways.servers, ways.kafka_config, ways.wait_seconds, ways.overwrite, report)


def write_and_report(what: str, target: Endpoint, source: ReadResult, options: TransferOptions) -> int:
    """Write, and say what came of it. The exit code."""
    result = target.write(source.snapshot, planner(source.snapshot, options), dry_run=options.dry_run)
    plan = result.plan
    if plan.conflicts:
        tell_conflicts(plan.conflicts)
        print_line(f"{what}: {len(plan.conflicts)} conflicts; nothing was written")
        return SAYS_NO
    tell_result(what, result, options)
    return SAYS_NO if source.broken else 0


def planner(source: Snapshot, options: TransferOptions) -> Planner:
    """The plan of an import with what the options say about it."""
    if options.no_modes:
        source.modes = {}
    if options.drop_rule_sets:
        for key, stored in source.versions.items():
            source.versions[key] = replace(stored, content=replace(stored.content, rule_set=None))
    return planner_of(source, overwrite_settings=options.overwrite_settings)


# ---- what is said


def tell_found(result: ReadResult) -> None:
    snapshot = result.snapshot
    deleted = sum(stored.deleted for stored in snapshot.versions.values())
    ids = len({(context_of(stored.subject), stored.id) for stored in snapshot.versions.values()})
    print_line(
        f"read: {len(snapshot.versions)} versions ({deleted} soft-deleted) of {len(snapshot.subjects)} subjects, "
        f"{ids} ids, {len(snapshot.configs)} configs, {len(snapshot.modes)} modes, {len(snapshot.contexts)} contexts"
    )
    if result.counted:
        print_line("read: " + count_text(result.counted))
    if snapshot.marks:
        marks = sorted(snapshot.marks.items())
        print_line("highest id ever used: " + ", ".join(f"{number} in context {context}" for context, number in marks))
    if result.unknown:
        print_line("left out, for they mean nothing here: " + count_text(result.unknown))
    for reason, number in sorted(result.left_out.items()):
        print_line(f"left out: {number} × {reason}")


def tell_conflicts(conflicts: list[Conflict]) -> None:
    by_kind: dict[str, list[str]] = {}
    for one in conflicts:
        by_kind.setdefault(one.kind, []).append(one.what)
    for kind, some in by_kind.items():
        print_list(f"{len(some)} × {kind}:", some)


def tell_result(what: str, result: WriteResult, options: TransferOptions) -> None:
    plan = result.plan
    if result.unread:
        print_list(
            f"{len(result.unread)} versions have a schema that this registry can't read; they are kept and answered "
            "byte for byte, but nothing can be checked against them:",
            result.unread,
        )
    for note in result.notes:
        print_line(f"not carried over: {note}")
    there = f"{plan.same} versions and {plan.settings} configs and modes were there already"
    if not plan.changes:
        print_line(f"{what}: nothing to do; {there}")
    else:
        word = "would be written" if options.dry_run else "written"
        print_line(f"{what}: {word}: {count_text(plan.changes)}; {there}")


def count_text(numbers: dict[str, int] | Counter[str]) -> str:
    return ", ".join(f"{number} {what}" for what, number in numbers.items())


def print_list(title: str, lines: Iterable[str]) -> None:
    """A title and its lines, not too many of them."""
    lines = list(lines)
    print_line(title)
    for line in lines[:_SHOWN]:
        print(f"  {line}", file=sys.stderr)
    if len(lines) > _SHOWN:
        print(f"  … and {len(lines) - _SHOWN} more", file=sys.stderr)


Places = Annotated[
    list[str],
    typer.Argument(metavar="[SOURCE] TARGET", help="Each kafka:TOPIC, http(s)://… or a FILE; - is stdin or stdout."),
]
SourceStoreUrl = Annotated[
    str | None,
    typer.Option(
        help="The store to read, if no SOURCE is named: sqlite:///PATH. [BRIDGE_STORE, sqlite:///registry.db]"
    ),
]


def export(
    places: Places,
    store: SourceStoreUrl = None,
    servers: Servers = None,
    kafka_config: KafkaConfig = None,
    user: User = None,
    token: Token = None,
    to_user: ToUser = None,
    to_token: ToToken = None,
    ca: Ca = None,
    wait: Wait = 30.0,
    dry_run: DryRun = False,
    skip_broken: SkipBroken = False,
    overwrite_settings: OverwriteSettings = False,
    no_modes: NoModes = False,
    drop_rule_sets: DropRuleSets = False,
    overwrite: Overwrite = False,
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
    options = TransferOptions(
        ConnectionOptions(own, servers, kafka_config),
        ConnectionOptions(target_access, servers, kafka_config, overwrite=overwrite),
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
        return move("export", source, places[-1], options)

    run("export", job)


Source = Annotated[str, typer.Argument(metavar="SOURCE", help="kafka:TOPIC, http(s)://…, a dump FILE, or - for stdin.")]
TargetStoreUrl = Annotated[
    str | None, typer.Option(help="The store to write to: sqlite:///PATH. [BRIDGE_STORE, sqlite:///registry.db]")
]
To = Annotated[str | None, typer.Option(metavar="URL", help="Write to this registry over REST instead of a store.")]


def import_(
    source: Source,
    store: TargetStoreUrl = None,
    to: To = None,
    servers: Servers = None,
    kafka_config: KafkaConfig = None,
    user: User = None,
    token: Token = None,
    to_user: ToUser = None,
    to_token: ToToken = None,
    ca: Ca = None,
    wait: Wait = 30.0,
    dry_run: DryRun = False,
    skip_broken: SkipBroken = False,
    overwrite_settings: OverwriteSettings = False,
    no_modes: NoModes = False,
    drop_rule_sets: DropRuleSets = False,
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
    options = TransferOptions(
        ConnectionOptions(access(user, token, ca, wait), servers, kafka_config),
        ConnectionOptions(access(to_user, to_token, ca, wait, target=True), servers, kafka_config),
        dry_run=dry_run,
        skip_broken=skip_broken,
        overwrite_settings=overwrite_settings,
        no_modes=no_modes,
        drop_rule_sets=drop_rule_sets,
    )
    run("import", lambda: move("import", source, to or default_store(store), options))
