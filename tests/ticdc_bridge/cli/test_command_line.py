"""`ticdc-bridge`: one command line over both programs, its help, and what shells complete."""

import os
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.support.command_line import commands
from tests.support.golden import ROOT
from tests.support.service import environment
from tests.support.table import check_rows
from ticdc_bridge import __version__
from ticdc_bridge.cli import main


@dataclass(frozen=True)
class Call:
    """Words, the exit code, and what is said on stdout and on stderr (the beginning)."""

    words: tuple[str, ...]
    code: int
    out: str = ""
    err: str = ""


CALLS = [
    Call((), 2, err="Usage: ticdc-bridge [OPTIONS] COMMAND"),
    Call(("--help",), 0, "Usage: ticdc-bridge [OPTIONS] COMMAND"),
    Call(("-h",), 0, "Usage: ticdc-bridge [OPTIONS] COMMAND"),
    Call(("help",), 0, "Usage: ticdc-bridge [OPTIONS] COMMAND"),
    Call(("help", "merge"), 0, "Usage: ticdc-bridge merge "),
    Call(("help", "history"), 0, "Usage: ticdc-bridge history "),
    Call(("help", "serv"), 2, err="ticdc-bridge: there is no command serv: did you mean serve?\nTry: "),
    Call(("--version",), 0, f"ticdc-bridge {__version__}"),
    Call(("version",), 0, f"ticdc-bridge {__version__}"),
    Call(("decoder", "--in", "x"), 2, err="ticdc-bridge: there is no command decoder: did you mean decode?\n"),
    Call(("zzz",), 2, err="ticdc-bridge: there is no command zzz\nTry: ticdc-bridge --help\n"),
    Call(("--verbose",), 2, err="ticdc-bridge: there is no option --verbose: did you mean --version?\n"),
    Call(("decode",), 2, err="ticdc-bridge decode: --format FORMAT is needed\nTry: ticdc-bridge decode --help\n"),
    Call(("hash-password",), 2, err="ticdc-bridge hash-password: NAME is needed\n"),
    Call(("serve", "--port", "x"), 2, err="ticdc-bridge serve: --port: a valid integer is needed\n"),
    Call(("history",), 2, err="Usage: ticdc-bridge history "),
    Call(("history", "diff", "--help"), 0, "Usage: ticdc-bridge history diff "),
    Call(("serve", "--help"), 0, "Usage: ticdc-bridge serve "),
    Call(("completion", "tcsh"), 2, err="ticdc-bridge completion: bash|zsh|fish: 'tcsh' is not one of 'bash', 'zsh'"),
    Call(("completion", "bash"), 0, "_ticdc_bridge_completion() {"),
]


def test_words_and_exit_codes(capsys: pytest.CaptureFixture[str]) -> None:
    def check(call: Call) -> None:
        code = main(call.words)
        out, err = capsys.readouterr()
        assert (code, out.lstrip()[: len(call.out.strip())], err[: len(call.err)]) == (
            call.code,
            call.out.strip(),
            call.err,
        )
        assert bool(out) is bool(call.out)

    check_rows(CALLS, check, lambda call: " ".join(call.words))


def test_help_ends_with_examples_and_names_each_option(capsys: pytest.CaptureFixture[str]) -> None:
    def check(row: tuple[str, Any]) -> None:
        name, command = row
        assert main([*name.split(), "--help"]) == 0
        help_ = capsys.readouterr().out
        options = (param for param in command.params if param.param_type_name == "option" and not param.hidden)
        for option in options:
            assert f"\n  {option.opts[0]}" in help_
        assert "\nExamples:\n  " in help_ or name in _WITHOUT_EXAMPLES
        assert "Try it" not in help_

    check_rows(commands(), check, lambda row: row[0])


_WITHOUT_EXAMPLES = {"history", "history rebuild"}


def test_the_version_stands_twice() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert project["version"] == __version__


# ---- the same word for the same thing
def _options() -> Iterator[tuple[str, list[str]]]:
    for name, command in commands():
        yield from ((name, parameter.opts) for parameter in command.params if parameter.param_type_name == "option")


# The word of all commands → older words that are understood beside it.
WORDS = {
    "--in": {"--file", "--from"}, "--out": {"--dir"}, "--registry": {"--service"}, "--to-registry": {"--to"},
    "--against": {"--compare-with"}, "--registry-wait": {"--wait"}, "--format-out": {"--format"},
    "--to-options": {"--options"}, "--to": {"--format"},
}  # fmt: skip
# Where a word of these stands alone it means something else: a format, the tables chosen, a file of options, a time.
ALONE = {"--from", "--to", "--format", "--tables", "--file", "--wait"}


def test_old_words_stand_beside_the_word_of_all_commands() -> None:
    old = {other for others in WORDS.values() for other in others}

    def check(row: tuple[str, list[str]]) -> None:
        first, *others = row[1]
        assert not others or set(others) <= WORDS[first]
        assert first not in old - ALONE

    check_rows(_options(), check, str)


def test_who_reads_or_writes_takes_the_same_words() -> None:
    rows = {
        "--in": "import export restore check-ddl track decode encode transcode explain verify replay merge",
        "--out": "export backup decode encode transcode replay merge package demo",
        "--registry": "check-ddl doctor decode encode transcode explain verify merge",
        "--table": "decode merge",
        "--ddl": "check-ddl decode encode transcode explain verify merge",
        "--format-out": "check-ddl doctor explain verify",
        "--bootstrap-servers": "serve import export track decode encode transcode explain verify replay merge",
    }
    names = {(command, name) for command, spellings in _options() for name in spellings}

    def check(row: tuple[str, str]) -> None:
        assert [word for word in row[1].split() if (word, row[0]) not in names] == []

    check_rows(rows.items(), check, lambda row: row[0])


# ---- completion
# What is typed → some of what the last word may become; `...` at the end: and more.
TYPED = {
    "": "serve decode merge ...",
    "de": "decode demo",
    "decode --format a": "avro auto",
    "decode --format ": "avro debezium simple auto ...",
    "decode --reg": "--registry --registry-wait",
    "decode --in ": "",  # a file
    "decode --spark --on-e": "--on-error",
    "merge --engine d": "delta-spark deltalake",
    "history ": "diff export rebuild replay snapshot",
    "history diff --format-out ": "text json",
    "history diff --inc": "--inclusive",
    "history replay --mode ": "wire typed",
    "serve --acc": "--access-log",
    "doctor --fail-on ": "error warning info",
    "completion ": "bash zsh fish",
    "nothing --": "...",
}


def test_what_is_completed(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    def check(row: tuple[str, str]) -> None:
        words = ["ticdc-bridge", *row[0].split(" ")]
        monkeypatch.setenv("_TICDC_BRIDGE_COMPLETE", "complete_bash")
        monkeypatch.setenv("COMP_WORDS", " ".join(words))
        monkeypatch.setenv("COMP_CWORD", str(len(words) - 1))
        assert main([]) == 0
        offered, expected = set(capsys.readouterr().out.split()), set(row[1].split())
        assert expected - {"..."} <= offered
        assert "..." in expected or offered == expected

    check_rows(TYPED.items(), check, lambda row: row[0])


_BASH = """
eval "$(ticdc-bridge completion bash)"
COMP_WORDS=(ticdc-bridge history diff --inc) COMP_CWORD=3
_ticdc_bridge_completion ticdc-bridge
printf '%s\\n' "${COMPREPLY[@]}"
COMP_WORDS=(ticdc-bridge merge --engine '') COMP_CWORD=3
_ticdc_bridge_completion ticdc-bridge
printf '%s\\n' "${COMPREPLY[@]}"
complete -p ticdc-bridge
"""
_SHELLS = {
    "bash": (["bash", "-eu", "-c", _BASH], ["--inclusive", "auto", "delta-spark", "deltalake"]),
    "zsh": (
        ["zsh", "-fc", 'compdef() { echo $*; }; eval "$(ticdc-bridge completion zsh)"'],
        ["_ticdc_bridge_completion ticdc-"],
    ),
    "fish": (
        ["fish", "--no-config", "-c", "ticdc-bridge completion fish | source; complete -C 'ticdc-bridge history di'"],
        ["diff"],
    ),
}


@pytest.mark.parametrize("shell", list(_SHELLS))
def test_a_shell_takes_its_script(shell: str, tmp_path: Path) -> None:
    if shutil.which(shell) is None:
        pytest.skip(f"no {shell} on this machine")
    command = tmp_path / "ticdc-bridge"
    command.write_text(f'#!/bin/sh\nexec {sys.executable} -m ticdc_bridge "$@"\n')
    command.chmod(0o755)
    words, expected = _SHELLS[shell]
    path = f"{tmp_path}{os.pathsep}{os.environ['PATH']}"
    done = subprocess.run(
        words, env=environment(PATH=path, HOME=str(tmp_path)), capture_output=True, text=True, check=False, timeout=60
    )
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert all(any(line.startswith(entry) for line in lines) for entry in expected), done.stdout


@pytest.mark.parametrize(
    "words",
    ["ticdc_bridge completion bash", "ticdc_bridge serve --help", "ticdc_bridge hash-password me", "service --help"],
)
def test_a_reader_that_goes_away(words: str) -> None:
    """As `| head` does: the exit code is the shell's for it, and nothing is said, whatever package has the command."""
    reading, writing = os.pipe()
    os.close(reading)
    command = [sys.executable, "-m", *words.split()]
    with open(writing, "wb") as closed:
        done = subprocess.run(
            command, input=b"secret\n", stdout=closed, stderr=subprocess.PIPE, cwd=ROOT, env=environment(), timeout=60
        )
    assert (done.returncode, done.stderr) == (141, b"")


def test_output_is_utf_8_in_any_locale(tmp_path: Path) -> None:
    (tmp_path / "t.sql").write_text("CREATE TABLE d.t (id INT PRIMARY KEY);")
    (tmp_path / "change.sql").write_text("ALTER TABLE d.t ADD Ж INT;")
    words = ["check-ddl", "--in", str(tmp_path / "change.sql"), "--ddl", str(tmp_path / "t.sql")]
    variables = environment(LC_ALL="C", PYTHONUTF8="0", PYTHONCOERCECLOCALE="0")
    command = [sys.executable, "-m", "ticdc_bridge", *words]
    done = subprocess.run(command, capture_output=True, cwd=ROOT, env=variables, timeout=60)
    assert (done.returncode, done.stderr) == (0, b"")
    assert "Ж" in done.stdout.decode()
