"""Tables of docs/reference.md: the options of the jobs, from their commands, and the error codes of the service."""

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
    found: dict[str, dict[str, str]] = {}
    for command, letter in _LETTERS.items():
        for option in (param for param in load(command).params if param.param_type_name == "option"):
            for name in () if option.hidden else option.opts:
                found.setdefault(name, {})[letter] = _meaning(option)
    lines = ["| option | jobs | |", "|---|---|---|"]
    for name, texts in sorted(found.items()):
        jobs = "all" if len(texts) == len(_LETTERS) else "".join(texts)
        lines.append(f"| `{name}` | {jobs} | {_joined(texts)} |")
    return "\n".join(lines) + "\n"


def _joined(texts: dict[str, str]) -> str:
    """The first of the jobs' texts; where they differ in the default alone, with each of these."""
    split = {letter: text.partition(" Default: ") for letter, text in texts.items()}
    defaults: dict[str, str] = {}
    for letter, (_, _, default) in split.items():
        defaults[default] = defaults.get(default, "") + letter
    first = next(iter(split.values()))
    if len(defaults) == 1 or len({text for text, _, _ in split.values()}) > 1:
        return "".join(first)
    return f"{first[0]} Default: {', '.join(f'{default[:-1]} ({jobs})' for default, jobs in defaults.items())}."


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
