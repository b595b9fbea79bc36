"""Run the Ivy that pyspark ships, to fetch files by their Maven coordinates and nothing else."""

from __future__ import annotations

import importlib.util
import os
import re
import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from xml.sax.saxutils import quoteattr

from ticdc_bridge.schemas.model.errors import SetupError
from ticdc_bridge.spark_jobs.runtime import java_certificates
from ticdc_bridge.spark_jobs.runtime.java import find_java

# Ivy's own default repository, asked for the jar alone: every jar is pinned, so no POM has to be read, which makes
# a run three times as quick and independent of parent POMs that a repository may lack.
_SETTINGS = """\
<ivysettings>
  <settings defaultResolver="default"/>
  <resolvers>
    <ibiblio name="default" m2compatible="true" usepoms="false" useMavenMetadata="false"/>
  </resolvers>
</ivysettings>
"""
_MODULE = """\
<ivy-module version="2.0" xmlns:m="http://ant.apache.org/ivy/maven">
  <info organisation="ticdc-bridge" module="jars"/>
  <configurations><conf name="default"/></configurations>
  <dependencies>
{dependencies}
  </dependencies>
</ivy-module>
"""
_DEPENDENCY = '    <dependency org={0} name={1} rev={2} transitive="false" conf="default->default">{3}</dependency>'
_CLASSIFIED = '<artifact name={0} type="jar" ext="jar" m:classifier={1}/>'

# a network that swallows packets must not hang a job for ever
_TIMEOUTS = ("-Dsun.net.client.defaultConnectTimeout=20000", "-Dsun.net.client.defaultReadTimeout=60000")
_SMALL = ("-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-Xmx256m")
_PREFIX, _DAY = ".fetch-", 86400
_UNTRUSTED = "PKIX path building failed"
_TRIED = re.compile(r"^\s+(\w[\w+.-]*:/\S+|/\S+)\s*$", re.MULTILINE)
_COMPLAINT = re.compile(r"[Ee]xception|timed out|[Rr]efused|Host .+ not found|error at url|\[FAILED")


@dataclass(frozen=True, slots=True)
class Run:
    """What one Ivy run left: the folder with the files, the addresses it tried in vain, and why."""

    folder: Path
    tried: tuple[str, ...]
    says: str


def ivy_jar() -> Path:
    """The Ivy jar of the installed pyspark (or of SPARK_HOME).

    Errors: SetupError JAR_MISSING when there is no pyspark.
    """
    spec = importlib.util.find_spec("pyspark")
    homes = [os.environ.get("SPARK_HOME", ""), str(Path(spec.origin).parent) if spec and spec.origin else ""]
    for home in filter(None, homes):
        for jar in sorted(Path(home, "jars").glob("ivy-*.jar")):
            return jar
    raise SetupError("JAR_MISSING", details="Ivy comes with pyspark, which is not installed: run `make setup`")


@contextmanager
def retrieve_jars(modules: Sequence[tuple[str, str, str, str]], near: Path) -> Iterator[Run]:
    """Fetch the jars of these (group, artifact, version, classifier or ""), without their dependencies, in one JVM.

    In: coordinates; a folder in whose file system the temporary folder is made, so that files can be renamed from it.
    Out: a Run whose folder holds `artifact-version[-classifier].jar` of what was found; it is removed at the end.
    Errors: SetupError JAVA_MISSING, JAR_MISSING (no Ivy; bad BRIDGE_IVY_SETTINGS); a jar not found is no error here.
    """
    _sweep(near)
    folder = Path(tempfile.mkdtemp(dir=near, prefix=_PREFIX))
    try:
        text = _run(modules, folder)
        tried = tuple(dict.fromkeys(match[1] for match in _TRIED.finditer(text)))
        says = "; ".join(line.strip() for line in text.splitlines() if _COMPLAINT.search(line))
        yield Run(folder, tried, says[:600])
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _sweep(near: Path) -> None:
    """Remove what runs that were killed have left, a day later so that no running one is meant."""
    for folder in near.glob(f"{_PREFIX}*"):
        try:
            if time.time() - folder.stat().st_mtime > _DAY:
                shutil.rmtree(folder, ignore_errors=True)
        except FileNotFoundError:
            continue


def _run(modules: Sequence[tuple[str, str, str, str]], folder: Path) -> str:
    lines = list[str]()
    for *module, classifier in modules:
        artifact = _CLASSIFIED.format(quoteattr(module[1]), quoteattr(classifier)) if classifier else ""
        lines.append(_DEPENDENCY.format(*map(quoteattr, module), artifact))
    module_file = folder / "ivy.xml"
    module_file.write_text(_MODULE.format(dependencies="\n".join(lines)), encoding="utf-8")
    arguments = [
        *("-jar", str(ivy_jar()), "-settings", str(_settings(folder)), "-cache", str(folder / "cache")),
        *("-types", "jar", "bundle", "-ivy", str(module_file)),
        *("-retrieve", str(folder / "[artifact]-[revision](-[classifier]).[ext]")),
    ]
    text = _java(arguments, folder)
    if _UNTRUSTED in text and (options := java_certificates.java_options(folder)):
        text = _java([*options, *arguments], folder)
    return text


def _java(arguments: Sequence[str], folder: Path) -> str:
    command = [str(find_java().executable), *_SMALL, *_TIMEOUTS, *arguments]
    done = subprocess.run(command, capture_output=True, text=True, errors="replace", check=False, cwd=folder)
    return done.stdout + done.stderr


def _settings(folder: Path) -> Path:
    if own := os.environ.get("BRIDGE_IVY_SETTINGS"):
        path = Path(own).expanduser().absolute()
        if not path.is_file():
            raise SetupError("JAR_MISSING", details=f"BRIDGE_IVY_SETTINGS names {own}, which is not a file")
        return path
    path = folder / "settings.xml"
    path.write_text(_SETTINGS, encoding="utf-8")
    return path
