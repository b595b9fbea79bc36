"""How the service's commands start and end: settings, and exit code 2 for what can't start."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Final, NoReturn

import typer

from ticdc_bridge.cli.app import plain_words
from ticdc_bridge.cli.options import AS_JSON, BaseCommand
from ticdc_bridge.schemas.model.credentials import mask_credentials
from ticdc_bridge.schemas.model.errors import BridgeError
from ticdc_bridge.schemas.model.reasons import reason_of
from ticdc_bridge.service.server import logs

if TYPE_CHECKING:
    from ticdc_bridge.service.server.settings import Settings

CANNOT_START: Final = 2


def exit_with(reason: str) -> NoReturn:
    """Say why, and leave with exit code 2."""
    print(f"ticdc-bridge: {mask_credentials(reason)}", file=sys.stderr, flush=True)
    raise typer.Exit(CANNOT_START)


def choose_source(argument: str, word: str | None, value: str | None) -> str:
    """What is named by an argument or by --in, which means the same. Leaves with 2 unless it is one of them."""
    if (word is None) == (value is None):
        exit_with(f"give {argument} or --in {argument}, one of them")
    return str(value if word is None else word)


def read_settings(**explicit: Any) -> Settings:
    """The settings; what is None comes from the environment. Leaves with 2 if they can't be."""
    from pydantic import ValidationError

    from ticdc_bridge.service.server.settings import Settings

    try:
        return Settings(**{name: value for name, value in explicit.items() if value is not None})
    except ValidationError as error:
        exit_with("; ".join(f"{_setting_name(e['loc'], explicit)}: {plain_words(e['msg'])}" for e in error.errors()))


def _setting_name(path: tuple[int | str, ...], explicit: Mapping[str, Any]) -> str:
    """The option, or the variable of the environment, that a setting was given by."""
    name = str(path[0]) if path else "settings"
    return f"BRIDGE_{name.upper()}" if explicit.get(name) is None else f"--{name.replace('_', '-')}"


def load_settings(**explicit: Any) -> Settings:
    """As `read_settings`, and the logs are as they say."""
    settings = read_settings(**explicit)
    logs.configure(settings.log_format, settings.log_level)
    return settings


class ServiceCommand(BaseCommand):
    """A command of the service: what it can't do is said on stderr, with exit code 2."""

    prefix: ClassVar[str] = ""
    """What stands before the reason."""
    wrong: ClassVar[tuple[type[Exception], ...]] = ()
    """What says of its input that it is wrong, beside BridgeError."""

    def end(self) -> int | None:
        try:
            return self.run()
        except BrokenPipeError:  # the reader of the output went away (| head)
            raise
        except BridgeError as error:
            exit_with(self.prefix + error.detail)
        except self.wrong as error:
            exit_with(self.prefix + reason_of(error))


@dataclass(kw_only=True)
class CountingCommand(ServiceCommand):
    """A command that ends with counts."""

    json: bool = AS_JSON

    def report(self, counts: Mapping[str, Any], exit_code: int | None = 0) -> int:
        """With --json, the counts in one line on stderr. The exit code."""
        from ticdc_bridge.spark_jobs.pipeline.progress import print_counts

        if self.json:
            print_counts(type(self).__name__.lower(), counts, True, exit_code or 0)
        return exit_code or 0
