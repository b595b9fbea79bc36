"""What the images hold is enough: the code in them runs with the packages that are installed there, and no others."""

import re
import subprocess
import sys
import xml.etree.ElementTree as ET
from pathlib import Path

import pytest

from tests.support.dockerfile import read_dockerfile
from tests.support.each import each
from tests.support.service import ROOT

# Runs with only some folders of the repository, and with every other installed package hidden.
_SCRIPT = """
import importlib, importlib.abc, importlib.metadata, json, pkgutil, re, sys
allowed, parts = set(sys.argv[1].split(",")), sys.argv[2].split(",")

def named(text):
    return re.sub(r"[-_.]+", "-", text).lower()

homes = importlib.metadata.packages_distributions()
hidden = {module for module, of in homes.items() if not {named(one) for one in of} & allowed}
others = {"tests", "benchmarks", "scripts", f"ticdc_bridge.{({'service', 'spark_jobs'} - set(parts)).pop()}"}

class Hidden(importlib.abc.MetaPathFinder):
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in hidden | others or ".".join(name.split(".")[:2]) in others:
            raise ModuleNotFoundError(f"{name} is not in the image", name=name)

sys.meta_path.insert(0, Hidden())
for part in parts[1:2]:  # of schemas, what is heavy has a fallback
    package = importlib.import_module(f"ticdc_bridge.{part}")
    for module in pkgutil.walk_packages(package.__path__, f"ticdc_bridge.{part}."):
        if not module.name.endswith(("__main__", ".openlineage")):  # that needs an extra, and says so
            importlib.import_module(module.name)
from ticdc_bridge.cli.app import load
from ticdc_bridge.cli.command_table import COMMANDS
for row in COMMANDS.values():
    if row.package in parts:
        load(row.name)
if "service" in parts:
    from ticdc_bridge.service.server.app import create_app
    from ticdc_bridge.service.server.settings import Settings
    create_app(Settings(store="sqlite:///" + sys.argv[3]))
from base64 import b64decode
from ticdc_bridge.schemas.model.event import Message
from ticdc_bridge.schemas.inspect.explain import ExplainRequest, explain
from ticdc_bridge.schemas.model.options import Options
from ticdc_bridge.schemas.formats.base import Context
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


_SOURCES = """\
URIs: http://archive.example/debian
Suites: trixie trixie-updates

URIs: http://archive.example/debian-security
Suites: trixie-security
"""
_MIRRORS = ("https://mirror.example/debian", "https://mirror.example/debian/", "")
_PEM = "-----BEGIN CERTIFICATE-----\n{}\n-----END CERTIFICATE-----"


def _run_condition(stage: str, argument: str, value: str, folder: Path) -> None:
    """What a stage's RUN does `if` a build argument is given, by the shell, on files in a folder."""
    _, stages = read_dockerfile((ROOT / "Dockerfile").read_text(encoding="utf-8"))
    assert f'{argument}=""' in stages[stage].texts("ARG")
    text = " ".join(stages[stage].texts("RUN"))
    (condition,) = re.findall(rf'if \[ -n "\${argument}" \]; then .*?;\s+fi\b', text)
    for position in ("/etc/apt/sources.list.d", "/usr/local/share/ca-certificates"):
        condition = condition.replace(position, str(folder))
    condition = condition.replace("update-ca-certificates", "true")
    subprocess.run(["sh", "-euc", condition], cwd=folder, env={"PATH": "/usr/bin:/bin", argument: value}, check=True)


@each("mirror", _MIRRORS)
def test_a_mirror_of_debian(tmp_path: Path, mirror: str) -> None:
    """In place of Debian's archive and its security updates, with a slash at the end or without."""
    file = tmp_path / "debian.sources"
    file.write_text(_SOURCES)
    _run_condition("base", "APT_MIRROR", mirror, tmp_path)
    wanted = _SOURCES.replace("http://archive.example/debian", mirror.rstrip("/")) if mirror else _SOURCES
    assert file.read_text() == wanted


def test_authorities_of_a_company_are_a_file_each(tmp_path: Path) -> None:
    pem = "\n".join(map(_PEM.format, ("one", "two")))
    _run_condition("base", "CA_CERTIFICATES", pem, tmp_path)
    made = {path.name: path.read_text().strip() for path in tmp_path.iterdir()}
    assert made == {f"company-{n}.crt": _PEM.format(name) for n, name in enumerate(("one", "two"), 1)}


def test_a_mirror_of_maven_central(tmp_path: Path) -> None:
    """A settings file of Ivy's, under the name that the build gives to what fetches jars."""
    _run_condition("spark-packages", "MAVEN_MIRROR", "https://mirror.example/maven/", tmp_path)
    settings = ET.fromstring((tmp_path / "ivy.xml").read_text())
    resolvers = {entry.get("name"): entry.get("root") for entry in settings.iter("ibiblio")}
    default = settings.find("settings")
    assert default is not None
    assert resolvers == {default.get("defaultResolver"): "https://mirror.example/maven/"}


def test_pip_gets_its_arguments_where_it_runs() -> None:
    """An argument is an environment variable of its own stage alone."""
    _, stages = read_dockerfile((ROOT / "Dockerfile").read_text(encoding="utf-8"))
    with_pip = [stage for stage in stages.values() if any("pip install" in text for text in stage.texts("RUN"))]
    assert len(with_pip) == 2
    for stage in with_pip:
        names = [text.partition("=")[0] for text in stage.texts("ARG")]
        assert {"PIP_INDEX_URL", "PIP_TRUSTED_HOST", "PIP_CERT"} <= {*names}
        kinds = [kind for kind, text in stage.steps if kind == "ARG" or "pip install" in text]
        assert kinds.index("RUN") > kinds.index("ARG")
