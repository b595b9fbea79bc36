"""Several benchmarks: what hangs, dies or fails takes no other's figures along."""

import json
import sys
from pathlib import Path

import pytest

from benchmarks import apart
from benchmarks.__main__ import BENCHMARKS, main

# Stands for `python -m benchmarks NAME … --json FILE`.
STAND_IN = """
import json, os, signal, sys, time
name, target = sys.argv[1], sys.argv[sys.argv.index("--json") + 1]
if name == HANGS:
    time.sleep(600)
if name == DIES:
    os.kill(os.getpid(), signal.SIGKILL)
if name == FAILS:
    sys.exit(1)
json.dump({"figures": [{"name": name, "given": sys.argv[2:-2]}]}, open(target, "w"))
"""


def test_the_others_figures_are_kept(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    hangs, dies, fails, first, last = (benchmark.name for benchmark in BENCHMARKS[:5])
    head = f"HANGS, DIES, FAILS = {hangs!r}, {dies!r}, {fails!r}\n"
    monkeypatch.setattr(apart.run, "__defaults__", ((sys.executable, "-c", head + STAND_IN),))
    monkeypatch.setattr(apart, "_GRACE", 5.0)
    target = tmp_path / "all.json"
    asked = [first, hangs, dies, fails, last, "--quick", "--rows", "200", "--page", "--minutes", "0.02"]
    assert main([*asked, "--json", str(target)]) == 1
    given = ["--quick", "--page", "--rows", "200", "--one-of-several"]
    assert json.loads(target.read_text())["figures"] == [{"name": name, "given": given} for name in (first, last)]
    said = capfd.readouterr().err
    assert f"error: {hangs}: not done after 0.02 minutes" in said
    assert f"error: {dies}: ended by SIGKILL" in said
    assert f"error: {fails}: exit code 1" in said
    assert f"# failed: {hangs}, {dies}, {fails}\n" in said
