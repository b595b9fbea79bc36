"""`ticdc-bridge`: one command line over both programs, its help, and what shells complete."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.support.golden import ROOT
from tests.support.service import environment
from tests.support.table import check_rows
from ticdc_bridge import __version__, command_table
from ticdc_bridge.command_table import COMMANDS, GROUPS
from ticdc_bridge.completion import SCRIPTS, Grammar, Option, candidates, grammar_of
from ticdc_bridge.main import main, run
from ticdc_bridge.service.cli import app
from ticdc_bridge.spark_jobs.commands.main import COMMANDS as JOBS


@dataclass(frozen=True)
class Call:
    """Words, the exit code, and what is said on stdout and on stderr (the beginning)."""

    words: tuple[str, ...]
    code: int
    out: str = ""
    err: str = ""


CALLS = [
    Call((), 2, err="Usage: ticdc-bridge COMMAND"),
    Call(("--help",), 0, "Usage: ticdc-bridge COMMAND"),
    Call(("-h",), 0, "Usage: ticdc-bridge COMMAND"),
    Call(("help",), 0, "Usage: ticdc-bridge COMMAND"),
    Call(("help", "merge"), 0, "usage: ticdc-bridge merge "),
    Call(("help", "history"), 0, "Usage: ticdc-bridge history "),
    Call(("help", "serv"), 2, err="ticdc-bridge: there is no command serv: did you mean ticdc-bridge serve?"),
    Call(("version",), 0, f"ticdc-bridge {__version__}\n"),
    Call(("--version",), 0, f"ticdc-bridge {__version__}\n"),
    Call(("decoder", "--in", "x"), 2, err="ticdc-bridge: there is no command decoder: did you mean ticdc-bridge dec"),
    Call(("zzz",), 2, err="ticdc-bridge: there is no command zzz: ticdc-bridge --help lists all\n"),
    Call(("--verbose",), 2, err="ticdc-bridge: there is no option --verbose: ticdc-bridge --help lists all\n"),
    Call(("decode",), 2, err="ticdc-bridge decode: the following arguments are required: --format"),
    Call(("history",), 2, err="Usage: ticdc-bridge history "),
    Call(("history", "diff", "--help"), 0, "Usage: ticdc-bridge history diff "),
    Call(("serve", "--help"), 0, "Usage: ticdc-bridge serve "),
    Call(("completion",), 2, err="usage: ticdc-bridge completion bash|zsh|fish\n"),
    Call(("completion", "tcsh"), 2, err="usage: ticdc-bridge completion bash|zsh|fish\n"),
    Call(("completion", "--help"), 0, "usage: ticdc-bridge completion bash|zsh|fish\n"),
]


def _called(capsys: pytest.CaptureFixture[str], words: tuple[str, ...], package: str = "") -> tuple[int, str, str]:
    try:
        code = run(package, words, f"python -m {package}") if package else main(words)
    except SystemExit as stop:
        code = int(stop.code or 0)
    return code, *capsys.readouterr()


def test_words_and_exit_codes(capsys: pytest.CaptureFixture[str]) -> None:
    def check(call: Call) -> None:
        code, out, err = _called(capsys, call.words)
        assert (code, out[: len(call.out)], err[: len(call.err)]) == (call.code, call.out, call.err)
        assert bool(out) is bool(call.out)

    check_rows(CALLS, check, lambda call: " ".join(call.words))


def test_a_program_without_words_shows_its_help(capsys: pytest.CaptureFixture[str]) -> None:
    def check(package: str) -> None:
        code, out, err = _called(capsys, (), package)
        assert (code, out) == (2, "")
        assert f"python -m {package}" in err
        assert "COMMAND" in err

    check_rows(["service", "spark_jobs"], check)


def test_every_command_is_in_the_help_once() -> None:
    assert JOBS.keys() == {one.name for one in COMMANDS.values() if one.package == command_table.JOBS}
    names = {*(str(one.name) for one in app.registered_commands), *(str(one.name) for one in app.registered_groups)}
    assert names == {one.name for one in COMMANDS.values() if one.package == command_table.SERVICE}
    assert sum(map(len, GROUPS.values())) == len(COMMANDS)


def test_the_version_stands_twice() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert project["version"] == __version__


# ---- the same word for the same thing
def _options() -> Iterator[tuple[str, Option]]:
    def below(name: str, grammar: Grammar) -> Iterator[tuple[str, Option]]:
        yield from ((name, one) for one in grammar.options)
        for word, inner in grammar.commands.items():
            yield from below(f"{name} {word}", inner)

    for command in COMMANDS:
        yield from below(command, grammar_of(command))


# The word of all commands → older words that are understood beside it.
WORDS = {
    "--in": {"--file", "--from"}, "--out": {"--dir"}, "--registry": {"--service"}, "--to-registry": {"--to"},
    "--against": {"--compare-with"}, "--registry-wait": {"--wait"}, "--format-out": {"--format"},
    "--ddl": {"--tables"}, "--to-options": {"--options"}, "--to": {"--format"},
}  # fmt: skip
# Where a word of these stands alone it means something else: a format, the tables chosen, a file of options.
ALONE = {"--from", "--to", "--format", "--tables", "--file"}


def test_old_words_stand_beside_the_word_of_all_commands() -> None:
    old = {one for others in WORDS.values() for one in others}

    def check(row: tuple[str, Option]) -> None:
        _, option = row
        first, *others = [name for name in option.names if name.startswith("--")]
        if others and not first.startswith("--no-") and f"--no{first[1:]}" not in others:
            assert set(others) <= WORDS[first]
        assert first not in old - ALONE

    check_rows(_options(), check, lambda row: f"{row[0]} {row[1].names}")


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
    names = {(command, name) for command, option in _options() for name in option.names}

    def check(row: tuple[str, str]) -> None:
        assert [one for one in row[1].split() if (one, row[0]) not in names] == []

    check_rows(rows.items(), check, lambda row: row[0])


# ---- completion
@dataclass(frozen=True)
class Typed:
    """What is typed, the last word in part, and some of what it may become; `only`: nothing else."""

    words: tuple[str, ...]
    words_offered: frozenset[str]
    only: bool = True


def _typed(text: str, offered: str = "", *, only: bool = True) -> Typed:
    return Typed(tuple(text.split(" ")), frozenset(offered.split()), only)


TYPED = [
    _typed("", "serve decode merge --help --version", only=False),
    _typed("de", "decode demo") if "demo" in COMMANDS else _typed("de", "decode"),
    _typed("decode --format a", "avro auto"),
    _typed("decode --format ", "avro debezium simple auto", only=False),
    _typed("decode --reg", "--registry --registry-wait"),
    _typed("decode --in "),  # a file
    _typed("decode --in mess"),
    _typed("decode --spark --on-e", "--on-error"),
    _typed("decode --spark "),
    _typed("merge --engine d", "delta-spark deltalake"),
    _typed("history ", "diff export rebuild replay snapshot"),
    _typed("history di", "diff"),
    _typed("history diff --format-out ", "text json"),
    _typed("history diff --inc", "--inclusive"),
    _typed("history replay --mode ", "wire typed"),
    _typed("serve --acc", "--access-log"),
    _typed("serve --no-a", "--no-access-log"),
    _typed("doctor --fail-on ", "error warning info"),
    _typed("completion ", "bash zsh fish"),
    _typed("nothing --"),
]


def test_what_is_completed() -> None:
    def check(row: Typed) -> None:
        words = {word for word, _ in candidates(row.words)}
        assert row.words_offered <= words
        assert not row.only or words == row.words_offered

    check_rows(TYPED, check, lambda row: " ".join(row.words))


_BASH = """
eval "$(ticdc-bridge completion bash)"
COMP_WORDS=(ticdc-bridge history diff --inc) COMP_CWORD=3
_ticdc_bridge
printf '%s\\n' "${COMPREPLY[@]}"
COMP_WORDS=(ticdc-bridge merge --engine '') COMP_CWORD=3
_ticdc_bridge
printf '%s\\n' "${COMPREPLY[@]}"
complete -p ticdc-bridge
"""
_SHELLS = {
    "bash": (["bash", "-eu", "-c", _BASH], ["--inclusive", "auto", "delta-spark", "deltalake"]),
    "zsh": (["zsh", "-fc", 'compdef() { echo $*; }; eval "$(ticdc-bridge completion zsh)"'], ["_ticdc_bridge ticdc-"]),
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
    assert all(any(line.startswith(one) for line in lines) for one in expected), done.stdout
    assert SCRIPTS.keys() == _SHELLS.keys()


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
    words = ["check-ddl", "--in", str(tmp_path / "change.sql"), "--tables", str(tmp_path / "t.sql")]
    variables = environment(LC_ALL="C", PYTHONUTF8="0", PYTHONCOERCECLOCALE="0")
    command = [sys.executable, "-m", "ticdc_bridge", *words]
    done = subprocess.run(command, capture_output=True, cwd=ROOT, env=variables, timeout=60)
    assert (done.returncode, done.stderr) == (0, b"")
    assert "Ж" in done.stdout.decode()
