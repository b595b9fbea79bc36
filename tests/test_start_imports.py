"""What a start does not import: a command that shows its help, or has one message, loads nothing heavy."""

import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from tests.support.each import each
from tests.support.golden import GOLDEN

_HELP = """
import contextlib, io
from ticdc_bridge.cli import main
from ticdc_bridge.cli.command_table import COMMANDS
for words in ([], *([row.name] for row in COMMANDS.values() if row.package in {packages}), *{more}):
    with contextlib.redirect_stdout(io.StringIO()):
        assert main([*words, "--help"]) == 0, words
"""
_ONE_MESSAGE = """
import sys
from ticdc_bridge.cli import main
assert main(["decode", "--format", "craft", "--in", sys.argv[1], "--out", sys.argv[2]]) == 0
"""
_APP = """
import sys
from ticdc_bridge.service.server.app import create_served
from ticdc_bridge.service.server.http_server import bind
from ticdc_bridge.service.server.settings import Settings
create_served(Settings(store="sqlite:///" + sys.argv[2] + ".db"))
"""
_BATCHES = {"numba", "llvmlite", "numpy", "pyarrow", "pandas", "pyspark", "deltalake"}
_SERVER = {
    "fastapi", "starlette", "uvicorn", "sqlalchemy", "pydantic_settings", "jinja2", "prometheus_client", "bcrypt",
}  # fmt: skip
_CLIENTS = {"confluent_kafka", "httpx2", "psycopg", "google.protobuf", "regex", "rich.progress"}
_OWN = {
    "ticdc_bridge.schemas.formats.format_table", "ticdc_bridge.service.registry", "ticdc_bridge.service.store",
    "ticdc_bridge.service.migration", "ticdc_bridge.service.tracker",
}  # fmt: skip


@dataclass(frozen=True)
class Start:
    """Python that starts something, and the modules that are not to be there afterwards."""

    name: str
    code: str
    heavy: set[str]


@each("start", [
    Start(
        "service --help",
        _HELP.format(packages=("service",), more=[["history", "replay"]]),
        _BATCHES | _SERVER | _CLIENTS | _OWN,
    ),
    Start(
        "spark_jobs --help",
        _HELP.format(packages=("spark_jobs", "ticdc_bridge"), more=[]),
        _BATCHES | _SERVER | _CLIENTS | {"pydantic", "ticdc_bridge.spark_jobs.jobs", "ticdc_bridge.clients.http"},
    ),
    Start("decode", _ONE_MESSAGE, _BATCHES | _SERVER | _CLIENTS | {"pydantic"}),
    Start(
        "serve",
        _APP,
        _BATCHES
        | {"confluent_kafka", "httpx2", "jinja2", "psycopg", "google.protobuf", "regex"}
        | {
            "ticdc_bridge.schemas.formats.format_table",
            "ticdc_bridge.service.changefeed",
            "ticdc_bridge.service.ddl_check",
            "ticdc_bridge.service.tracker.tracker",
        },
    ),
], ids=lambda start: start.name)  # fmt: skip
def test_nothing_heavy_is_imported(tmp_path: Path, start: Start) -> None:
    path, out = GOLDEN / "craft" / "pk_int.batch1.jsonl", tmp_path / "out"
    code = start.code + "\nimport sys\nprint(*sys.modules, sep='\\n')\n"
    words = [sys.executable, "-c", code, str(path), str(out)]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert set(done.stdout.split()) & start.heavy == set()
