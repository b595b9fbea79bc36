"""What the images hold is enough: the code in them runs with the packages that are installed there, and no others."""

from __future__ import annotations

import re
import subprocess
import sys

import pytest

from tests.support.dockerfile import read_dockerfile
from tests.support.service import ROOT

# Runs with only some folders of the repository, and with every other installed package hidden.
_SCRIPT = """
import importlib, importlib.abc, importlib.metadata, json, pkgutil, re, sys
allowed, parts = set(sys.argv[1].split(",")), sys.argv[2].split(",")

def named(text):
    return re.sub(r"[-_.]+", "-", text).lower()

homes = importlib.metadata.packages_distributions()
hidden = {module for module, of in homes.items() if not {named(one) for one in of} & allowed}
others = {"schemas", "service", "spark_jobs", "ticdc_bridge", "tests", "benchmarks", "scripts"} - set(parts)

class Hidden(importlib.abc.MetaPathFinder):
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in hidden | others:
            raise ModuleNotFoundError(f"{name} is not in the image", name=name)

sys.meta_path.insert(0, Hidden())
for part in parts[1:]:  # of schemas, what is heavy has a fallback
    for module in pkgutil.walk_packages(importlib.import_module(part).__path__, part + "."):
        if not module.name.endswith("__main__"):
            importlib.import_module(module.name)
if "service" in parts:
    from service.cli import app
    from service.app import create_app
    from service.settings import Settings
    create_app(Settings(store="sqlite:///" + sys.argv[3]))
from base64 import b64decode
from schemas.model.event import Message
from schemas.inspect.explain import ExplainRequest, explain
from schemas.model.options import Options
from schemas.formats.base import Context
options = Options.of({}, time_zone="UTC")
for line in open("tests/golden/{}/wide.default.jsonl".format(sys.argv[4])):
    one = json.loads(line)
    message = Message(*(one[name] and b64decode(one[name]) for name in ("key_b64", "value_b64")))
    assert explain(ExplainRequest(message, sys.argv[4], Context(None, None, options), options, None))["events"]
print("all there")
"""
_STAGES = {"service": ("schemas", "service", "ticdc_bridge"), "spark": ("schemas", "spark_jobs", "ticdc_bridge")}


@pytest.mark.parametrize("target", list(_STAGES))
def test_the_code_needs_nothing_else(target: str, tmp_path: object) -> None:
    lock = (ROOT / "requirements" / f"{target}.txt").read_text(encoding="utf-8")
    pins = {re.sub(r"[-_.]+", "-", name).lower() for name in re.findall(r"^([A-Za-z0-9][\w.-]*)==", lock, re.MULTILINE)}
    _, stages = read_dockerfile((ROOT / "Dockerfile").read_text(encoding="utf-8"))
    copied = {text.split()[0] for text in stages[f"{target}-packages"].texts("COPY") if "/opt/ticdc-bridge/" in text}
    assert copied == set(_STAGES[target])
    # Sorted: pyspark's daemon imports the first argument if it begins with pyspark, and so did one test in twenty.
    arguments = [",".join(sorted(pins)), ",".join(_STAGES[target]), f"{tmp_path}/r.db", "craft"]
    answer = subprocess.run(
        [sys.executable, "-c", _SCRIPT, *arguments], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert answer.stdout == "all there\n", answer.stderr[-2000:]
