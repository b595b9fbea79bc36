"""Tables of docs/reference.md: the options of the jobs, from their commands, and the error codes of the service."""

from __future__ import annotations

import re
from typing import Any

from tests.matrix.generated_part import GeneratedPart
from ticdc_bridge.cli.app import load
from ticdc_bridge.schemas.model.errors import ERRORS
from ticdc_bridge.service.errors import REGISTRY_ERRORS, SHARED_ANSWERS

OPTIONS = GeneratedPart("reference.md", "options")
CODES = GeneratedPart("reference.md", "codes")
_LETTERS = {"decode": "D", "encode": "E", "transcode": "T", "merge": "M", "verify": "V", "replay": "R", "explain": "X"}


def options() -> str:
    """The text of the part: a row for each option of the jobs."""
    found: dict[str, tuple[Any, list[str]]] = {}
    for command, letter in _LETTERS.items():
        for option in (parameter for parameter in load(command).params if parameter.param_type_name == "option"):
            for name in option.opts:
                found.setdefault(name, (option, []))[1].append(letter)
    lines = ["| option | jobs | |", "|---|---|---|"]
    for name, (option, letters) in sorted(found.items()):
        jobs = "all" if len(letters) == len(_LETTERS) else "".join(letters)
        lines.append(f"| `{name}` | {jobs} | {_meaning(option)} |")
    return "\n".join(lines) + "\n"


def _meaning(option: Any) -> str:
    # Formats have a table of their own.
    text = re.sub(r"[.:] avro, .*", ".", option.help or "").replace("|", "\\|")
    if option.envvar:
        text += f" [{option.envvar}]"
    if option.default and not option.is_flag:
        text += f" Default: {option.default}."
    choices = option.type_descriptor.choices
    return f"`{'`, `'.join(choices)}`: {text}" if choices else text


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
