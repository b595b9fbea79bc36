"""Tables of docs/reference.md: the options of the jobs, from their parsers, and the error codes of the service."""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from typing import Any

from tests.matrix.generated_part import GeneratedPart
from ticdc_bridge.schemas.model.errors import ERRORS
from ticdc_bridge.service.errors import REGISTRY_ERRORS, SHARED_ANSWERS
from ticdc_bridge.spark_jobs.commands.main import parser

OPTIONS = GeneratedPart("reference.md", "options")
CODES = GeneratedPart("reference.md", "codes")
_LETTERS = {"decode": "D", "encode": "E", "transcode": "T", "merge": "M", "verify": "V", "replay": "R", "explain": "X"}


def options() -> str:
    """The text of the part: a row for each option of the jobs."""
    found: dict[str, tuple[argparse.Action, list[str]]] = {}
    for command, letter in _LETTERS.items():
        for action in _job(command):
            for name in action.option_strings:
                found.setdefault(name, (action, []))[1].append(letter)
    lines = ["| option | jobs | |", "|---|---|---|"]
    for name, (action, letters) in sorted(found.items()):
        jobs = "all" if len(letters) == len(_LETTERS) else "".join(letters)
        lines.append(f"| `{name}` | {jobs} | {_meaning(action)} |")
    return "\n".join(lines) + "\n"


def _job(command: str) -> Iterator[argparse.Action]:
    commands: Any = next(one for one in parser()._actions if one.choices and not one.option_strings).choices
    return (one for one in commands[command]._actions if one.option_strings and one.dest != "help")


def _meaning(action: argparse.Action) -> str:
    text = (action.help or "").replace("|", "\\|")
    choices = [str(one) for one in action.choices or ()]
    # Formats have a table of their own; other choices are named unless the text does.
    return f"`{'`, `'.join(choices)}`: {text}" if 0 < len(choices) < 5 else text


def codes() -> str:
    """The text of the part: error codes of the REST API that say more than their HTTP status, with their messages.

    Codes of ours that share one are one row.
    """
    lines = ["| error_code | message |", "|---|---|"]
    answers = [(row.error_code, row.http, row.template) for row in REGISTRY_ERRORS.values()]
    answers += [(error_code, http, ERRORS[code]) for code, (http, error_code) in SHARED_ANSWERS.items()]
    for error_code, http, template in sorted(answers, key=lambda answer: answer[0]):
        if error_code > http:
            message = " ".join(template.split()).replace("{{", "{").replace("}}", "}")
            lines.append(f"| {error_code} | {message} |")
    return "\n".join(dict.fromkeys(lines)) + "\n"
