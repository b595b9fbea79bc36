"""A format and an engine that another distribution brings by entry points."""

import json
import os
import subprocess
import sys
from pathlib import Path

from tests.support.golden import ROOT

_TOY = """
from ticdc_bridge.schemas.formats.base import Format, refuse_encoder
from ticdc_bridge.schemas.model.event import Watermark

class TickDecoder:
    def __init__(self, context):
        pass

    def decode(self, message):
        return [Watermark("tick", int(message.value))]

TICK = Format("tick", TickDecoder, refuse_encoder("tick"), writes=False)
"""
_ENGINE = """
from ticdc_bridge.spark_jobs.lake.engines.base import EngineEntry

ENGINE = EngineEntry("delta", "toy:Table")
"""


def _installed(folder: Path, points: str) -> dict[str, str]:
    """An environment with the distribution as an installer lays it down."""
    (folder / "toy-1.dist-info").mkdir(parents=True)
    (folder / "toy.py").write_text(_TOY)
    (folder / "toy_engine.py").write_text(_ENGINE)
    (folder / "toy-1.dist-info" / "METADATA").write_text("Metadata-Version: 2.1\nName: toy\nVersion: 1\n")
    (folder / "toy-1.dist-info" / "entry_points.txt").write_text(points)
    return {**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT), str(folder)])}


def _run(env: dict[str, str], *words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, *words], env=env, capture_output=True, text=True, check=False)


def test_a_format_and_an_engine_of_others(tmp_path: Path) -> None:
    env = _installed(
        tmp_path, "[ticdc_bridge.formats]\ntick = toy:TICK\n[ticdc_bridge.engines]\ntoy = toy_engine:ENGINE\n"
    )
    (tmp_path / "in.jsonl").write_text('{"key_b64": null, "value_b64": "NDI="}\n')
    done = _run(env, "-m", "ticdc_bridge", "decode", "--format", "tick", "--in", str(tmp_path / "in.jsonl"))
    assert (done.returncode, json.loads(done.stdout)["commit_ts"]) == (0, 42), done.stderr
    code = "from ticdc_bridge.spark_jobs.lake.engines.base import ENGINES; print(ENGINES['toy'].table_class)"
    assert _run(env, "-c", code).stdout == "toy:Table\n"


def test_a_name_that_is_taken(tmp_path: Path) -> None:
    env = _installed(tmp_path, "[ticdc_bridge.formats]\navro = toy:TICK\n")
    done = _run(env, "-c", "from ticdc_bridge.schemas.formats import format_table")
    assert "the plugin toy:TICK has a name that is taken, avro" in done.stderr
