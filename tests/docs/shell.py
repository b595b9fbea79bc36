"""A block of commands in bash. `ticdc-bridge …` and `python -m service …` or `spark_jobs …` run in this process.

bash finds a `python` and a `ticdc-bridge` that ask for them here: the start of a real one takes seconds.
"""

import io
import json
import os
import re
import shlex
import signal
import socket
import subprocess
import sys
import time
from contextlib import chdir, redirect_stderr, redirect_stdout, suppress
from pathlib import Path

import pytest

from tests.support.service import environment
from ticdc_bridge.cli import main

SECONDS = 240
_ASK = Path(__file__).with_name("ask.py")


def run_here(text: str, folder: Path) -> tuple[int, str]:
    """The exit code of the commands and what they print; `-e`: the first that fails is the last."""
    tools = folder / ".tools"
    tools.mkdir(exist_ok=True)
    with socket.create_server(("127.0.0.1", 0)) as asked, (tools / "said").open("w+b") as said:
        port = str(asked.getsockname()[1])
        words = [sys.executable, "-IS", str(_ASK), port, sys.executable]
        (tools / "python").write_text(f'#!/bin/sh\nexec {shlex.join(words)} "$@"\n')
        (tools / "ticdc-bridge").write_text(f'#!/bin/sh\nexec {shlex.join(words)} -m ticdc_bridge "$@"\n')
        for tool in ("python", "ticdc-bridge"):
            (tools / tool).chmod(0o755)
        text = re.sub(r"\.venv/bin/(python|ticdc-bridge) ", r"\1 ", text)
        process = in_bash(text, folder, said.fileno(), tools)
        try:
            _serve(asked, process)
        finally:
            ended(process)
        said.seek(0)
        return process.returncode, said.read().decode()


def in_bash(text: str, folder: Path, out: int, *tools: Path) -> subprocess.Popen[str]:
    """Commands in a session of their own, with both streams to `out`."""
    path = os.pathsep.join([*map(str, tools), str(Path(sys.executable).parent), os.environ["PATH"]])
    return subprocess.Popen(
        ["bash", "-euo", "pipefail", "-c", text],
        cwd=folder,
        env=environment(PATH=path, BRIDGE_PORT="0"),  # 8081 may be somebody's
        stdin=subprocess.DEVNULL,
        stdout=out,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    )


def ended(process: subprocess.Popen[str]) -> None:
    """Kills what still runs."""
    if process.poll() is None:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def _serve(asked: socket.socket, process: subprocess.Popen[str]) -> None:
    """Runs what `process` asks for until it has ended."""
    end = time.monotonic() + SECONDS
    asked.settimeout(0.02)
    while process.poll() is None:
        assert time.monotonic() < end, f"still running after {SECONDS} s"
        with suppress(TimeoutError):
            connection, _ = asked.accept()
            connection.settimeout(SECONDS)
            with connection, connection.makefile("rwb") as both:
                both.write(json.dumps(_answer(*json.loads(both.readline()))).encode() + b"\n")


def _answer(folder: str, words: list[str], given: str) -> tuple[int, str, str]:
    """Exit code, stdout and stderr of a command."""
    prog = "ticdc-bridge" if words[0] == "ticdc_bridge" else f"python -m {words[0]}"
    with pytest.MonkeyPatch.context() as patch, chdir(folder):
        for name in os.environ.keys() - environment().keys():
            patch.delenv(name)
        patch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(given.encode()), "utf-8"))
        said = io.BytesIO(), io.BytesIO()
        out, err = (io.TextIOWrapper(entry, "utf-8", write_through=True) for entry in said)
        with redirect_stdout(out), redirect_stderr(err):
            code = main(words[1:], prog)
        return code, said[0].getvalue().decode(), said[1].getvalue().decode()
