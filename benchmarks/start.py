"""CPU of a start: the help of each command, one message, a service that answers; of the whole process tree.

Compiled files of Python are kept in a folder of the benchmark's own; the first start of each, which writes them, does
not count.
"""

import os
import socket
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from urllib.request import urlopen

from benchmarks.cpu import Stopwatch, tree_seconds
from benchmarks.figures import Figure, Run

ROOT = Path(__file__).parents[1]
HELP, MESSAGE, READY = 0.6, 1.5, 1.5
"""CPU seconds that a help, a message decoded and a service's first answer may take."""
COMMANDS = {
    "service": ("", "serve", "import", "export", "track", "check-ddl", "doctor", "backup", "check-acl"),
    "spark_jobs": ("", "decode", "encode", "transcode", "explain", "verify", "replay", "merge", "package", "demo"),
}
_GOLDEN = ROOT / "tests/golden/craft/pk_int.batch1.jsonl"
_SECONDS = 60.0
_NOTE = "the rival's value is what is allowed"


def run(run: Run) -> Iterator[Figure]:
    rounds = 3 if run.quick else 7
    with tempfile.TemporaryDirectory() as folder:
        environment = {**os.environ, "PYTHONPYCACHEPREFIX": str(Path(folder) / "compiled"), "PYTHONPATH": str(ROOT)}
        environment.pop("PYTHONDONTWRITEBYTECODE", None)
        for package, commands in COMMANDS.items():
            for command in commands[:3] if run.quick else commands:
                words = ["-m", package, *filter(None, [command]), "--help"]
                cpu = _typical(rounds, partial(_cpu_of, words, folder, environment))
                name = ".".join(filter(None, ["start.help", package, command]))
                yield Figure(name, cpu, "s", "less", HELP, 1.0, _NOTE)
        entry = Path(folder) / "one.jsonl"
        entry.write_text(_GOLDEN.read_text("utf-8").splitlines(keepends=True)[1], "utf-8")
        words = ["-m", "spark_jobs", "decode", "--format", "craft", "--in", str(entry)]
        cpu = _typical(rounds, partial(_cpu_of, words, folder, environment))
        yield Figure("start.decode-one", cpu, "s", "less", MESSAGE, 1.0, _NOTE)
        cpu = _typical(rounds, partial(_cpu_until_served, folder, environment))
        yield Figure("start.serve", cpu, "s", "less", READY, 1.0, _NOTE)


def _typical(rounds: int, measure: Callable[[], float]) -> float:
    measure()  # writes the compiled files
    return statistics.median(measure() for _ in range(rounds))


def _cpu_of(words: Sequence[str], folder: str, environment: Mapping[str, str]) -> float:
    with Stopwatch() as watch:
        done = subprocess.run([sys.executable, *words], cwd=folder, env=environment, capture_output=True, check=False)
    if done.returncode:
        raise RuntimeError(f"python {' '.join(words)}: exit code {done.returncode}: {done.stderr[-500:]!r}")
    return watch.spent.cpu


def _cpu_until_served(folder: str, environment: Mapping[str, str]) -> float:
    """CPU of `serve` with an empty store until GET / is answered."""
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
    words = ["-m", "service", "serve", "--port", port, "--store", "sqlite:///start.db"]
    with subprocess.Popen([sys.executable, *words], cwd=folder, env=environment, stderr=subprocess.PIPE) as process:
        assert process.stderr is not None
        line = process.stderr.readline()
        if b"listening on" not in line:
            process.kill()
            raise RuntimeError(f"serve: {line!r}")
        with urlopen(f"http://127.0.0.1:{port}/", timeout=_SECONDS) as answer:
            if answer.read() != b"{}":
                raise RuntimeError("serve: GET / was answered otherwise")
        cpu = tree_seconds(process.pid)
        process.terminate()
    return cpu
