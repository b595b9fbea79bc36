"""How commands start and end: settings, exit codes, and exit code 2 for what can't start."""

from __future__ import annotations

import signal
import sys
from collections.abc import Callable
from types import FrameType
from typing import TYPE_CHECKING, Any, Final, NoReturn

import typer

from schemas.model.credentials import mask_credentials
from schemas.model.errors import BridgeError, SetupError
from service import logs
from service.logs import print_line

if TYPE_CHECKING:
    from service.settings import Settings

CANNOT_START: Final = 2
STOPPED: Final = 1


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

    from service.settings import Settings

    try:
        return Settings(**{name: value for name, value in explicit.items() if value is not None})
    except ValidationError as error:
        exit_with("; ".join(f"{'.'.join(map(str, one['loc']))}: {one['msg']}" for one in error.errors()))


def load_settings(**explicit: Any) -> Settings:
    """As `read_settings`, and the logs are as they say."""
    settings = read_settings(**explicit)
    logs.configure(settings.log_format, settings.log_level)
    return settings


def run_job(what: str, job: Callable[[], int]) -> NoReturn:
    """Do a job and leave with its exit code; 2 if it can't be done, 1 after Ctrl-C or SIGTERM."""
    logs.configure("text", "info")
    before = signal.signal(signal.SIGTERM, _raise_interrupt)
    try:
        code = job()
    except SetupError as error:
        exit_with(error.detail)
    except BridgeError as error:
        exit_with(f"{what}: {error.detail}")
    except KeyboardInterrupt:
        print_line(f"{what} stopped; run it again to go on, what is there stays as it is")
        raise typer.Exit(STOPPED) from None
    finally:
        signal.signal(signal.SIGTERM, before)
    raise typer.Exit(code)


def _raise_interrupt(_number: int, _frame: FrameType | None) -> NoReturn:
    """SIGTERM ends a job as Ctrl-C does: what has to be put back is put back."""
    raise KeyboardInterrupt
