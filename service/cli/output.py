"""How commands speak: lines on stderr, and exit code 2 for what can't start."""

from __future__ import annotations

import logging
import sys
from typing import Final, NoReturn

import typer

from service.logs import mask_credentials

CANNOT_START: Final = 2
_LOG = logging.getLogger("service")


def print_line(text: str) -> None:
    """Say something on stderr, whatever the log level is."""
    _LOG.handle(_LOG.makeRecord(_LOG.name, logging.INFO, "", 0, text, (), None))


def exit_with(reason: str) -> NoReturn:
    """Say why, and leave with exit code 2."""
    print(f"ticdc-bridge: can't start: {mask_credentials(reason)}", file=sys.stderr, flush=True)
    raise typer.Exit(CANNOT_START)
