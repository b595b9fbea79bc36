"""The Typer app: a group that imports the file of a command when the command is asked for, help, and wrong usage."""

import importlib
import inspect
import os
import re
import sys
from collections.abc import Sequence
from contextlib import suppress
from difflib import get_close_matches
from functools import cache
from pathlib import Path
from typing import Any, Final, get_args

import typer
from typer.core import TyperArgument, TyperCommand, TyperGroup, TyperOption
from typer.exceptions import TyperException
from typer.main import get_command

from ticdc_bridge import __version__
from ticdc_bridge.cli import PROGRAM
from ticdc_bridge.cli.command_table import COMMANDS, EXTRA, GROUPS
from ticdc_bridge.extras import missing_package

PANELS: Final = ("Arguments", "Input", "Schemas and definitions", "Output", "Errors", "Spark", "Stream", "Reports")
"""The order of a help's sections; all others follow."""
_WRONG_USAGE: Final = 2
COMPLETE_VARIABLE: Final = "_TICDC_BRIDGE_COMPLETE"
_EXAMPLES: Final = "\nExamples:\n"

# A metavar says what an argument is: `FILE`, not `FILE <str>`.
TyperArgument.display_type_rich = lambda self, ctx: None  # type: ignore[method-assign]


class Conversion:
    """From words to values as Typer does it, but mostly without pydantic, which took a quarter of a job's start."""

    def coerce(self, value: Any, param: Any, ctx: Any) -> Any:
        kind = param.type_descriptor
        annotation, parser = kind.annotation, kind.parameter_info.parser
        many = param.multiple or param.nargs == -1
        if many:
            annotation = get_args(annotation)[0]
        values = (value or ()) if many else (value,)
        known = kind.choices
        if not (parser or known or annotation in (str, Path) or value is None or value is param.default):
            return _CONVERT_BY_TYPER(param).coerce(value, param=param, ctx=ctx)
        if known and (unknown := [word for word in values if word is not None and word not in known]):
            raise typer.BadParameter(f"{unknown[0]!r} is not one of {', '.join(map(repr, known))}", ctx, param)
        try:
            read = parser or (Path if annotation is Path else None)
            found = [read(word) if read and isinstance(word, str) else word for word in values]
        except ValueError as error:
            raise typer.BadParameter(str(error), ctx, param) from error
        return found if many else found[0]


_CONVERT_BY_TYPER: Final[Any] = getattr(TyperOption, "get_runtime_param", None)
_CONVERSION: Final[Any] = Conversion()
for _kind in (TyperArgument, TyperOption):
    _kind.get_runtime_param = lambda self: _CONVERSION  # type: ignore[method-assign]


class Command(TyperCommand):
    """A command. Its help has the options by panel and, last, the examples as they are written."""

    def format_options(self, ctx: Any, formatter: Any) -> None:
        panels: dict[str, list[tuple[str, str]]] = {}
        for param in sorted(self.get_params(ctx), key=lambda entry: not getattr(entry, "required", False)):
            is_argument = isinstance(param, TyperArgument)
            panel = "Arguments" if is_argument else getattr(param, "rich_help_panel", None) or "Options"
            if (record := param.get_help_record(ctx)) is not None:
                text = re.sub(r"(; )?\d*<?=?x[<>]=\d+(?=\])", "", record[1])  # bounds: an error names them
                panels.setdefault(panel, []).append((record[0], text))
        for panel in sorted(panels, key=lambda name: PANELS.index(name) if name in PANELS else len(PANELS)):
            with formatter.section(panel):
                formatter.write_dl(panels[panel], col_max=34)

    def format_epilog(self, ctx: Any, formatter: Any) -> None:
        formatter.write(f"\n{self.epilog}\n" if self.epilog else "")


class Commands(TyperGroup):
    """All commands, by what they are for; their files are imported one by one."""

    def list_commands(self, ctx: Any) -> list[str]:
        return [*COMMANDS]

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        """The command; None while a shell completes a word that is none, or is not installed."""
        if cmd_name not in COMMANDS:
            if ctx.resilient_parsing:
                return None
            ctx.fail(f"there is no command {cmd_name}{_did_you_mean(cmd_name, [*COMMANDS])}")
        try:
            return load(cmd_name)
        except ImportError as error:
            if ctx.resilient_parsing:
                return None
            print(f"{PROGRAM}: {_missing(error, cmd_name)}", file=sys.stderr)
            raise typer.Exit(_WRONG_USAGE) from None

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        for title, rows in GROUPS.items():
            with formatter.section(title):
                formatter.write_dl([(row.name, row.text) for row in rows], col_max=34)
        formatter.write(f"\n{PROGRAM} COMMAND --help shows the options of a command, with examples.\n")

    def main(
        self,
        args: Sequence[str] | None = None,
        prog_name: str | None = None,
        complete_var: str | None = None,
        standalone_mode: bool = True,
        windows_expand_args: bool = True,
        **extra: Any,
    ) -> Any:
        """Ends with SystemExit."""
        words, prog = [*(sys.argv[1:] if args is None else args)], prog_name or PROGRAM
        self._main_shell_completion({}, prog, COMPLETE_VARIABLE)
        sys.exit(self._run(words, prog))

    def _run(self, words: list[str], prog: str) -> int:
        """The exit code of a command."""
        if words[:1] == ["help"]:
            words = [*words[1:2], "--help"]
        words = ["--version"] if words == ["version"] else words
        name = next((word for word in words if not word.startswith("-")), "")
        try:
            with self.make_context(prog, words) as ctx:
                code = self.invoke(ctx)
            return code if isinstance(code, int) else 0
        except typer.Exit as stop:
            return stop.exit_code
        except (typer.Abort, EOFError):
            return _WRONG_USAGE
        except TyperException as error:
            print(_usage_text(error, f"{prog} {name}".strip()), file=sys.stderr)
            return _WRONG_USAGE
        except ModuleNotFoundError as error:
            print(f"{PROGRAM}: {_missing(error, name)}", file=sys.stderr)
            return _WRONG_USAGE


@cache
def load(name: str) -> Any:
    """A command of the table, for Typer. ImportError where its program is not installed."""
    row = COMMANDS[name]
    module = importlib.import_module(row.module)
    target = getattr(module, row.attribute)
    commands = target
    if not isinstance(target, typer.Typer):
        commands = typer.Typer(add_completion=False, rich_markup_mode=None)
        commands.command(name)(target.as_function() if hasattr(target, "as_function") else target)
    for info in commands.registered_commands:
        info.cls = getattr(module, "COMMAND_CLASS", Command)
        info.help, _, examples = (inspect.getdoc(info.callback) or "").partition(_EXAMPLES)
        info.short_help = re.split(r"[.:](?:\s|$)", info.help, maxsplit=1)[0].replace("\n", " ")
        texts = (examples and _EXAMPLES.lstrip() + examples, getattr(target, "notes", "").rstrip())
        info.epilog = "\n\n".join(filter(None, texts))
    command = get_command(commands)
    command.short_help = row.text
    return command


def _missing(error: ImportError, name: str) -> str:
    """Why a command can't be had. Raises the error where a module of ours is missing."""
    reason = missing_package(error, EXTRA.get(COMMANDS[name].package, "") if name in COMMANDS else "all")
    if reason is None:
        raise error
    return f"{name}: {reason}"


# ---- wrong usage
_PLAIN: Final = {
    r"Input should be greater than or equal to (.*)": r"\1 or more is needed",
    r"Input should be less than or equal to (.*)": r"\1 or less is needed",
    r"Input should be (.*?)(, unable .*)?$": r"\1 is needed",
    r"Got unexpected extra argument\(s\) \((.*)\)": r"\1: this is one word too many",
}


def plain_words(text: str) -> str:
    """What Typer and pydantic say is wrong, in the words of the other errors."""
    return next((re.sub(form, plain, text) for form, plain in _PLAIN.items() if re.match(form, text)), text)


def _usage_text(error: TyperException, command: str) -> str:
    """What is wrong, and where the help is."""
    if error.message.startswith("Usage: "):  # the help of a group without a command
        return error.message
    ctx: Any = getattr(error, "ctx", None)
    param = getattr(error, "param", None)
    path = ctx.command_path if ctx is not None else command
    name = param and (param.opts[0] if param.opts[0].startswith("-") else param.metavar or param.name)
    text = plain_words(error.message.removeprefix("Value error, ").rstrip("."))
    if hasattr(error, "possibilities"):  # an option that there is not
        params = ctx.command.get_params(ctx)
        known = [option for parameter in params for option in (*parameter.opts, *parameter.secondary_opts)]
        unknown = str(error.option_name)  # type: ignore[attr-defined]
        text = f"there is no option {unknown}{_did_you_mean(unknown, known)}"
        if unknown == "--tables" and "--ddl" in known:
            text = f"there is no option {unknown}: table definitions are given by --ddl"
    elif hasattr(error, "param_type"):  # one that is missing
        text = f"{name} is needed" if param is None or name == param.metavar else f"{name} {param.metavar} is needed"
    elif name:
        value, *known = re.findall(r"'([^']*)'", text) if " is not one of " in text else [""]
        text = f"{name}: {text}{_did_you_mean(value, known)}"
    return f"{path}: {text}\nTry: {path} --help"


def _did_you_mean(word: str, known: list[str]) -> str:
    near = get_close_matches(word, known, 1)
    return f": did you mean {near[0]}?" if near else ""


# ---- the app
def _print_version(wanted: bool) -> None:
    if wanted:
        print(f"{PROGRAM} {__version__}{_revision()}")
        raise typer.Exit


def _revision() -> str:
    """The commit of a clone, or the one that an image was made of; "" where nothing says it."""
    import subprocess

    root, found = Path(__file__).resolve().parents[2], os.environ.get("BRIDGE_REVISION", "")
    if (root / ".git").exists():
        with suppress(OSError):
            command = ["git", "-C", str(root), "describe", "--always", "--dirty", "--exclude=*"]
            found = subprocess.run(command, capture_output=True, text=True, check=False).stdout.strip() or found
    return f" ({found})" if found else ""


app = typer.Typer(
    cls=Commands,
    no_args_is_help=True,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["--help", "-h"], "max_content_width": 100},
)


@app.callback()
def commands(
    version: bool = typer.Option(
        False, "--version", "-V", is_eager=True, callback=_print_version, help="Print the version and the commit."
    ),
) -> None:
    """Tools for TiCDC: schema registry, table history, decoding, format conversion, lake tables."""


def run(words: Sequence[str], prog: str) -> int:
    """The exit code of a command. In: the words after the program's name, and that name."""
    try:
        group().main(words, prog)
    except SystemExit as stop:
        return stop.code if isinstance(stop.code, int) else 0
    return 0


@cache
def group() -> Any:
    """All commands, for Typer."""
    return get_command(app)
