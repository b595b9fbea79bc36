"""A command as a dataclass: its fields are its options, its docstring is the help, its `run` does it.

Groups of options that several commands take are classes too, which a command inherits. What is imported at the top of a
file of `ticdc_bridge.cli` is there for `--help` too: typer, options, no more. A command imports what does its work in
`run`.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from dataclasses import MISSING, dataclass, field, fields
from datetime import UTC, datetime
from inspect import Parameter, Signature
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Final, get_type_hints

import typer

from ticdc_bridge.schemas.model.errors import SetupError

if TYPE_CHECKING:
    from ticdc_bridge.clients.http import HttpLogin

INPUT, DEFINITIONS, OUTPUT, ERRORS, SPARK, STREAM, REPORTS = (
    "Input", "Schemas and definitions", "Output", "Errors", "Spark", "Stream", "Reports",
)  # fmt: skip
CHANGEFEED, ACCESS, REGISTRIES = "Changefeed", "Access and TLS", "Other registry"


def option(panel: str | None, metavar: str | None, text: str, *names: str, default: Any = None, **more: Any) -> Any:
    """A field that is an option.

    Args:
        panel: The section of the help.
        metavar: None for a choice.
        names: By default as the field is named.
        default: `...` where the option has to be given.
    """
    return typer.Option(default, *names, metavar=metavar, help=text, rich_help_panel=panel, **more)


def flag(panel: str | None, name: str, text: str) -> Any:
    return option(panel, None, text, name, default=False)


def choice(panel: str, known: tuple[str, ...], metavar: str, text: str, *names: str, **more: Any) -> Any:
    """An option that takes one of the names in a table of ours. read: the name that a value means."""
    read: Callable[[str], str] = more.pop("read", str)

    def parse(value: str) -> str:
        if read(value) not in known:
            raise ValueError(f"{value!r} is not one of {', '.join(map(repr, known))}")
        return read(value)

    return option(panel, metavar, text, *names, parser=parse, autocompletion=lambda: [*known], **more)


def format_out(text: str, default: str = "text") -> Any:
    """The option of a command that reads no messages, whose --format is that of its output."""
    return option(OUTPUT, None, text, "--format-out", "--format", default=default)


def argument(metavar: str, text: str, default: Any = None) -> Any:
    """A field that is a word without a name, in the order of the fields."""
    return typer.Argument(default, metavar=metavar, help=text)


@dataclass(kw_only=True)
class BaseCommand:
    """Fields with `init=False` are no options."""

    notes: ClassVar[str] = ""
    """What stands at the end of the help, after the examples."""

    def run(self) -> int | None:
        """Does it. The exit code, None for 0. Raises BridgeError or typer.Exit."""
        raise NotImplementedError

    def end(self) -> int | None:
        """Runs it, and says what ended it. The exit code."""
        return self.run()

    @classmethod
    def as_function(cls) -> Callable[..., int | None]:
        """The command as Typer takes it: a function whose parameters are the fields."""
        hints = get_type_hints(cls, include_extras=True)

        def call(**values: Any) -> int | None:
            return cls(**values).end()

        parameters = []
        for entry in fields(cls):
            default = entry.default if entry.default_factory is MISSING else entry.default_factory()
            default = Parameter.empty if default is MISSING else default
            if entry.init:
                name = entry.name
                parameters.append(Parameter(name, Parameter.KEYWORD_ONLY, default=default, annotation=hints[name]))
        call.__signature__ = Signature(parameters)  # type: ignore[attr-defined]
        call.__doc__ = cls.__doc__
        return call


# ---- options of several commands
FORMAT_OUT: Final[Any] = option(OUTPUT, None, "For people (text) or programs.", default="text")
DDL_ZONE: Final[Any] = option(DEFINITIONS, "ZONE", "Time zone of TIMESTAMP defaults and UNIX_TIMESTAMP('…') in DDL.")
AS_JSON: Final[Any] = flag(REPORTS, "--json", "The summary as one JSON object, the last line on stderr.")
CLAIM_CHECKS: Final[Any] = option(INPUT, "DIR", "Folder of the files that claim-check messages point to.")


@dataclass(kw_only=True)
class KafkaOptions(BaseCommand):
    """How Kafka is reached."""

    bootstrap_servers: str | None = option(INPUT, "HOST:PORT", "Kafka brokers. [BRIDGE_BOOTSTRAP_SERVERS]")
    kafka_config: Path | None = option(
        INPUT, "FILE", "File with one name=value per line; names of librdkafka or of the Java client."
    )
    from_offset: str = field(default="earliest", init=False)


@dataclass(kw_only=True)
class StoreOptions(BaseCommand):
    """Where the service keeps schemas and histories."""

    store: str | None = option(
        DEFINITIONS, "URL",
        "The store of schemas and histories: sqlite:///PATH or postgresql://USER@HOST/DATABASE. "
        "[BRIDGE_STORE, sqlite:///registry.db]",
    )  # fmt: skip


@dataclass(kw_only=True)
class ChangefeedOptions(BaseCommand):
    """A changefeed's own settings."""

    sink_uri: str | None = option(CHANGEFEED, "URI", "The changefeed's sink URI.")
    config: str | None = option(
        CHANGEFEED, "FILE", "The changefeed's configuration file (TOML, or JSON of cdc cli).", "--config"
    )
    schema_registry: str | None = option(
        CHANGEFEED, "URL", "The registry's URL, as in `cdc cli changefeed create --schema-registry`."
    )
    ticdc_version: str | None = option(
        CHANGEFEED, "VERSION", "TiCDC's version; limits known faults to those of this version."
    )


# ---- their values
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


def check_zone(option: str, name: str | None) -> str | None:
    """The name itself, if it is a time zone's. SetupError USAGE."""
    from ticdc_bridge.schemas.model import values

    try:
        return name if name is None else (values.zone(name), name)[1]
    except ValueError as error:
        raise SetupError("USAGE", details=f"{option}: {error}") from None


def seconds(text: str | float) -> float:
    """5s, 500ms, 10m, 36h, 7d → seconds; without a unit they are seconds. ValueError."""
    match = re.fullmatch(r"(\d{1,6}(?:\.\d+)?)(ms|s|m|h|d)?", str(text))
    if not match:
        raise ValueError(f"{text}: 5s, 500ms, 10m, 36h or 7d is needed")
    return float(match[1]) * {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0, None: 1.0}[match[2]]


def milliseconds(text: str) -> int:
    """A time, or ms since 1970, as these. ValueError."""
    if re.fullmatch(r"\d{1,15}", text):
        return int(text)
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        raise ValueError(f"{text}: 2026-11-20T08:00:00Z (UTC without a zone) or ms since 1970 is needed") from None
    return round((moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp() * 1000)


def tso(text: str) -> int:
    """A TSO; of a time the last one of its millisecond. ValueError."""
    if re.fullmatch(r"\d{1,19}", text):
        return int(text)
    try:
        return ((milliseconds(text) + 1) << 18) - 1
    except ValueError:
        needed = "a TSO (in TiDB: BEGIN; SELECT @@tidb_current_ts) or a time such as 2026-11-20T08:00:00Z is needed"
        raise ValueError(f"{text}: {needed}") from None
