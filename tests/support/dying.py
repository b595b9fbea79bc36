"""A command line that kills itself (SIGKILL) where a test says."""

import os
import subprocess
import sys
from pathlib import Path

_PROGRAM = """
import os, signal, sys
def die(*_): os.kill(os.getpid(), signal.SIGKILL)
{}
from ticdc_bridge.cli import main
sys.exit(main(sys.argv[1:]))
"""


def start_dying(patch: str, words: list[str]) -> subprocess.Popen[str]:
    """The command, started. patch: Python that puts `die` where it shall end."""
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])}
    program = [sys.executable, "-c", _PROGRAM.format(patch), *words]
    return subprocess.Popen(program, stderr=subprocess.PIPE, text=True, env=environment)
