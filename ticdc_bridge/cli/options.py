"""Options that several commands take, and how a group of them becomes part of a command.

What is imported at the top of a file of `ticdc_bridge.cli` is there for `--help` too: typer, options, no more. A
command imports what does its work in the function that needs it.
"""

from __future__ import annotations

import functools
import inspect
import os
from collections.abc import Callable
from dataclasses import dataclass, fields, is_dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ticdc_bridge.cli.output import exit_with
from ticdc_bridge.schemas.model.errors import SetupError

if TYPE_CHECKING:
    from ticdc_bridge.clients.http import HttpLogin

StoreUrl = Annotated[
    str | None,
    typer.Option(
        metavar="URL",
        help="The store of schemas and histories: sqlite:///PATH or postgresql://USER@HOST/DATABASE. "
        "[BRIDGE_STORE, sqlite:///registry.db]",
    ),
]
RequiredStoreUrl = Annotated[
    str,
    typer.Option(
        metavar="URL",
        help="sqlite:///PATH or postgresql://USER@HOST/DATABASE.",
        envvar="BRIDGE_STORE",
        show_envvar=True,
    ),
]
Servers = Annotated[
    str | None,
    typer.Option(
        "--bootstrap-servers", metavar="HOST:PORT", help="Kafka brokers, HOST:PORT. [BRIDGE_BOOTSTRAP_SERVERS]"
    ),
]
KafkaConfig = Annotated[
    Path | None,
    typer.Option(
        "--kafka-config",
        metavar="FILE",
        help="Kafka client settings, name=value a line: SASL, TLS, anything.",
    ),
]
SinkUri = Annotated[str | None, typer.Option(metavar="URI", help="The changefeed's sink URI.")]
SchemaRegistry = Annotated[
    str | None,
    typer.Option(
        metavar="URL", help="The registry's URL, as `cdc cli changefeed create --schema-registry` is given it."
    ),
]
TicdcVersion = Annotated[
    str | None, typer.Option(metavar="VERSION", help="TiCDC's version; limits known faults to those of this version.")
]
Config = Annotated[
    str | None, typer.Option(metavar="FILE", help="The changefeed's configuration file (TOML, or JSON of cdc cli).")
]
DdlZone = Annotated[
    str | None,
    typer.Option(metavar="ZONE", help="Time zone of literal TIMESTAMP defaults in DDL (of the sessions that ran it)."),
]

Host = Annotated[
    str | None, typer.Option(metavar="HOST", help="Address to listen on. 0.0.0.0 for all. [BRIDGE_HOST, 127.0.0.1]")
]
Port = Annotated[
    int | None, typer.Option(metavar="PORT", help="Port to listen on; 0 picks a free one. [BRIDGE_PORT, 8081]")
]
Profile = Annotated[
    int | None, typer.Option(metavar="8|7", help="Answer as Confluent 8.x or 7.x does: 8 or 7. [BRIDGE_PROFILE, 8]")
]
LogFormat = Annotated[
    str | None, typer.Option(metavar="text|json", help="text or json: one object a line. [BRIDGE_LOG_FORMAT, text]")
]
AccessLog = Annotated[
    bool | None, typer.Option("--access-log/--no-access-log", help="Log every request. [BRIDGE_ACCESS_LOG, no]")
]

User = Annotated[
    str | None,
    typer.Option(metavar="NAME:PASSWORD", help="Basic auth for a registry over HTTP. [BRIDGE_REGISTRY_USER]"),
]
Token = Annotated[
    str | None, typer.Option(metavar="TOKEN", help="Bearer token for a registry over HTTP. [BRIDGE_REGISTRY_TOKEN]")
]
Ca = Annotated[Path | None, typer.Option(metavar="FILE", help="Certificates to trust (PEM) instead of the system's.")]


def login(
    user: str | None = None,
    token: str | None = None,
    ca: Path | None = None,
    wait: float = 30.0,
    *,
    target: bool = False,
) -> HttpLogin:
    """Credentials from options, else from the environment; those of a target only from its own."""
    from ticdc_bridge.clients.http import HttpLogin

    names = ("BRIDGE_TO_USER", "BRIDGE_TO_TOKEN") if target else ("BRIDGE_REGISTRY_USER", "BRIDGE_REGISTRY_TOKEN")
    return HttpLogin(user or os.environ.get(names[0]) or None, token or os.environ.get(names[1]) or None, ca, wait)


def one_place(argument: str, given: str | None, value: str | None) -> str:
    """What is named by an argument or by --in, which means the same. Leaves with 2 unless it is one of them."""
    if (given is None) == (value is None):
        exit_with(f"give {argument} or --in {argument}, one of them")
    return str(value if given is None else given)


def split_table(db: str, table: str) -> tuple[str, str]:
    """The database and the name of --db and --table, which may be DB.TABLE where no database is given."""
    before, dot, after = table.partition(".")
    return (before, after) if dot and not db else (db, table)


def check_zone(option: str, name: str | None) -> str | None:
    """The name itself, if it is a time zone's. SetupError USAGE."""
    from ticdc_bridge.schemas.model import values

    try:
        return name if name is None else (values.zone(name), name)[1]
    except ValueError as error:
        raise SetupError("USAGE", details=f"{option}: {error}") from None


def _seconds(text: str | float) -> float:
    """A time to wait: 30, 30s, 500ms or 10m, in seconds."""
    from ticdc_bridge.service.changefeed.setting_checks import seconds

    try:
        value = float(text)
    except ValueError:
        parsed = seconds(str(text))
        if parsed is None:
            raise typer.BadParameter(f"{text}: 5s, 500ms or 10m is needed") from None
        value = parsed
    if not 0 <= value < 1e9:
        raise typer.BadParameter(f"{text}: a time from 0 on is needed")
    return value


def spread_options(command: Callable[..., None]) -> Callable[..., None]:
    """A command for typer in which each field of a parameter that is a dataclass is an option, in its place."""
    parameters: list[inspect.Parameter] = []
    groups: dict[str, type[Any]] = {}
    for parameter in inspect.signature(command, eval_str=True).parameters.values():
        if isinstance(parameter.annotation, type) and is_dataclass(parameter.annotation):
            groups[parameter.name] = parameter.annotation
            parameters += inspect.signature(parameter.annotation, eval_str=True).parameters.values()
        else:
            parameters.append(parameter)

    @functools.wraps(command)
    def gather(**values: Any) -> None:
        for name, group in groups.items():
            values[name] = group(**{field.name: values.pop(field.name) for field in fields(group)})
        command(**values)

    order = [one.replace(kind=inspect.Parameter.KEYWORD_ONLY) for one in parameters]
    gather.__signature__ = inspect.Signature(order)  # type: ignore[attr-defined]
    return gather


@dataclass(frozen=True, slots=True)
class TransferArguments:
    """What import and export share: how the two places are reached, and what is moved."""

    servers: Servers = None
    kafka_config: KafkaConfig = None
    user: User = None
    token: Token = None
    to_user: Annotated[
        str | None,
        typer.Option(metavar="NAME:PASSWORD", help="The same for the target, if both are over HTTP. [BRIDGE_TO_USER]"),
    ] = None
    to_token: Annotated[
        str | None,
        typer.Option(metavar="TOKEN", help="The same for the target, if both are over HTTP. [BRIDGE_TO_TOKEN]"),
    ] = None
    ca: Ca = None
    wait: Annotated[
        float,
        typer.Option(
            "--registry-wait",
            "--wait",
            parser=_seconds,
            metavar="TIME",
            help="How long to try again where a registry can't be reached: 30s, 10m.",
        ),
    ] = 30.0
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Say what would be done; write nothing.")] = False
    skip_broken: Annotated[
        bool,
        typer.Option("--skip-broken", help="Leave out records that can't be read; they are counted, and exit is 1."),
    ] = False
    overwrite_settings: Annotated[
        bool, typer.Option("--overwrite-settings", help="Where configs or modes differ, the source's win.")
    ] = False
    no_modes: Annotated[bool, typer.Option("--no-modes", help="Leave the target's modes as they are.")] = False
    drop_rule_sets: Annotated[
        bool, typer.Option("--drop-rule-sets", help="Move schemas without their rule sets (encryption, migrations).")
    ] = False
