"""How commands start and end: settings, exit codes, and exit code 2 for what can't start."""

from __future__ import annotations

import signal
import sys
from collections.abc import Callable, Mapping
from types import FrameType
from typing import TYPE_CHECKING, Any, Final, NoReturn

import typer

from ticdc_bridge.schemas.model.credentials import mask_credentials
from ticdc_bridge.schemas.model.errors import BridgeError, SetupError
from ticdc_bridge.service.server import logs
from ticdc_bridge.service.server.logs import print_line

if TYPE_CHECKING:
    from ticdc_bridge.service.server.settings import Settings

CANNOT_START: Final = 2
_INTERRUPTED: Final = 128  # and the signal's number, as shells say it


def exit_with(reason: str) -> NoReturn:
    """Say why, and leave with exit code 2."""
    print(f"ticdc-bridge: {mask_credentials(reason)}", file=sys.stderr, flush=True)
    raise typer.Exit(CANNOT_START)


def refuse_start(reason: str) -> NoReturn:
    """As `exit_with`, of what would go on running."""
    exit_with(f"can't start: {reason}")


def read_settings(**explicit: Any) -> Settings:
    """The settings; what is None comes from the environment. Leaves with 2 if they can't be."""
    from pydantic import ValidationError

    from ticdc_bridge.service.server.settings import Settings

    try:
        return Settings(**{name: value for name, value in explicit.items() if value is not None})
    except ValidationError as error:
        exit_with("; ".join(f"{_setting_name(one['loc'], explicit)}: {one['msg']}" for one in error.errors()))


def _setting_name(place: tuple[int | str, ...], explicit: Mapping[str, Any]) -> str:
    """The option, or the variable of the environment, that a setting was given by."""
    name = str(place[0]) if place else "settings"
    return f"BRIDGE_{name.upper()}" if explicit.get(name) is None else f"--{name.replace('_', '-')}"


def load_settings(**explicit: Any) -> Settings:
    """As `read_settings`, and the logs are as they say."""
    settings = read_settings(**explicit)
    logs.configure(settings.log_format, settings.log_level)
    return settings


def run_job(what: str, job: Callable[[], int]) -> NoReturn:
    """Do a job and leave with its exit code; 2 if it can't be done, 130 after Ctrl-C, 143 after SIGTERM."""
    logs.configure("text", "info")
    stopped_by = signal.SIGINT

    def interrupt(number: int, _frame: FrameType | None) -> NoReturn:
        """SIGTERM ends a job as Ctrl-C does: what has to be put back is put back."""
        nonlocal stopped_by
        stopped_by = signal.Signals(number)
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGTERM, interrupt)
    try:
        code = job()
    except SetupError as error:
        exit_with(error.detail)
    except BridgeError as error:
        exit_with(f"{what}: {error.detail}")
    except KeyboardInterrupt:
        print_line(f"{what} stopped; run it again to go on, what is there stays as it is")
        raise typer.Exit(_INTERRUPTED + stopped_by) from None
    finally:
        signal.signal(signal.SIGTERM, before)
    raise typer.Exit(code)
