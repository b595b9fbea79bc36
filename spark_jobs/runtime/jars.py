"""The Java libraries that Spark's Kafka and Avro parts (and the tests' Kafka broker) need, pinned by sha256.

`jars.tsv` is the table. A jar is taken from `BRIDGE_JARS` when it is there, else from the cache, else it is fetched
with the Ivy that pyspark ships: a few JVMs at a time, each with a handful of jars. What arrives is checked and then
renamed into the cache, so a cached jar is always whole and an interrupted run goes on where it stopped; one process
fetches at a time.

    python -m ticdc_bridge.spark_jobs.jars [spark|kafka …]      fetch these sets (default: spark), print the paths
"""

from __future__ import annotations

import csv
import hashlib
import importlib.resources
import importlib.util
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from xml.sax.saxutils import quoteattr

from ticdc_bridge.schemas.model.errors import Hint, SetupError
from ticdc_bridge.schemas.model.reasons import reason_of
from ticdc_bridge.spark_jobs.runtime import java_certificates
from ticdc_bridge.spark_jobs.runtime.cache import cache_dir, lock_file
from ticdc_bridge.spark_jobs.runtime.java import find_java
from ticdc_bridge.spark_jobs.runtime.spark_version import PINNED, installed_version, major_minor

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
_UNTRUSTED = "PKIX path building failed"
_TRIED = re.compile(r"^\s+(\w[\w+.-]*:/\S+|/\S+)\s*$", re.MULTILINE)
_COMPLAINT = re.compile(r"[Ee]xception|timed out|[Rr]efused|Host .+ not found|error at url|\[FAILED")


def ivy_jar() -> Path:
    """The Ivy jar of the installed pyspark, or of SPARK_HOME. SetupError JAR_MISSING when there is no pyspark."""
    spec = importlib.util.find_spec("pyspark")
    homes = [os.environ.get("SPARK_HOME", ""), str(Path(spec.origin).parent) if spec and spec.origin else ""]
    for home in filter(None, homes):
        for jar in sorted(Path(home, "jars").glob("ivy-*.jar")):
            return jar
    raise SetupError("JAR_MISSING", details="Ivy comes with pyspark, which is not installed: run `make setup`")


def _retrieve(jar_set: Sequence[Jar], folder: Path) -> str:
    """Fetches jars, without dependencies, in one JVM; what Ivy said of it. SetupError JAVA_MISSING, JAR_MISSING."""
    lines = []
    for jar in jar_set:
        artifact = _CLASSIFIED.format(quoteattr(jar.artifact), quoteattr(jar.classifier)) if jar.classifier else ""
        lines.append(_DEPENDENCY.format(*map(quoteattr, (jar.group, jar.artifact, jar.version)), artifact))
    module_file, settings_file = folder / "ivy.xml", folder / "settings.xml"
    module_file.write_text(_MODULE.format(dependencies="\n".join(lines)), encoding="utf-8")
    settings_file.write_text(_SETTINGS, encoding="utf-8")
    if chosen := os.environ.get("BRIDGE_IVY_SETTINGS"):
        settings_file = Path(chosen).expanduser().absolute()
        if not settings_file.is_file():
            raise SetupError("JAR_MISSING", details=f"BRIDGE_IVY_SETTINGS names {chosen}, which is not a file")
    arguments = [
        *("-jar", str(ivy_jar()), "-settings", str(settings_file), "-cache", str(folder / "cache")),
        *("-types", "jar", "bundle", "-ivy", str(module_file)),
        *("-retrieve", str(folder / "[artifact]-[revision](-[classifier]).[ext]")),
    ]
    options: list[str] = []
    while True:
        command = [str(find_java().executable), *_SMALL, *_TIMEOUTS, *options, *arguments]
        done = subprocess.run(command, capture_output=True, text=True, errors="replace", check=False, cwd=folder)
        text = done.stdout + done.stderr
        if options or _UNTRUSTED not in text or not (options := java_certificates.java_options(folder)):
            return text


SETS = (
    "spark", "kafka", "delta", "iceberg", "s3", "spark-4.0", "delta-4.0", "iceberg-4.0", "s3-4.0", "spark-4.2",
    "delta-4.2", "sqlite", "merge-catalog", "aws",
)  # fmt: skip
"""`spark`, `delta`, `iceberg` and `s3` (Hadoop's driver, and of AWS's SDK what it needs) are those of the Spark that
`make setup` installs; others are named with their Spark.
`sqlite`, `aws` (Iceberg's, for Glue) and `merge-catalog` (a catalog of Spark 4.2's own tests, whose tables take
row-level MERGE): for tests."""
_BY_SPARK = ("spark", "delta", "iceberg", "s3")

_NOT_PINNED = {
    "delta": "no jars of Delta's are pinned for Spark {version}: start the session with Delta's own"
    " (spark.jars.packages), or write tables by deltalake ({engine} deltalake)",
    "iceberg": "no jars of Iceberg's are pinned for Spark {version} (its runtime is published for 4.0 and 4.1): use one"
    " of these, or start the session with a runtime of your own (spark.jars.packages)",
    "s3": "no jars of Hadoop's driver for S3 are pinned for Spark {version}: give --packages"
    " org.apache.hadoop:hadoop-aws:VERSION (the version of Spark's Hadoop)",
}
_RUNTIMES: Mapping[str, str | tuple[str, ...]] = {
    "s3": ("hadoop-aws", "iceberg-aws-bundle"), "delta": "delta-spark_", "iceberg": "iceberg-spark-runtime-",
}  # fmt: skip
"""How the artifact of a set is called in any version, for any Spark; Iceberg's has another version of AWS's SDK."""
_JARS_PER_RUN = 8
_RUNS_AT_ONCE = 4


@dataclass(frozen=True, slots=True)
class Jar:
    """One row of the table: Maven coordinates, the sets it belongs to, and what the file must be."""

    group: str
    artifact: str
    version: str
    sets: frozenset[str]
    size: int
    sha256: str
    classifier: str = ""

    @property
    def file_name(self) -> str:
        return "-".join(filter(None, (self.artifact, self.version, self.classifier))) + ".jar"

    @property
    def coordinates(self) -> str:
        return ":".join(filter(None, (self.group, self.artifact, self.version, self.classifier)))


@lru_cache(maxsize=1)
def table() -> tuple[Jar, ...]:
    """All pinned jars, sorted by coordinates. A version may be VERSION:CLASSIFIER, as in Gradle's coordinates."""
    text = importlib.resources.files("ticdc_bridge.spark_jobs.runtime").joinpath("jars.tsv").read_text(encoding="utf-8")
    made = []
    for row in csv.DictReader(text.splitlines(), delimiter="\t"):
        version, _, classifier = row["version"].partition(":")
        sets, size = frozenset(row["sets"].split(",")), int(row["bytes"])
        made.append(Jar(row["group"], row["artifact"], version, sets, size, row["sha256"], classifier))
    return tuple(made)


def jars(name: str = "spark", brought: frozenset[str] = frozenset()) -> list[Path]:
    """The files of one set, fetched if need be.

    In: `spark` (for `spark.jars`), `delta` or `iceberg` (beside them, for tables of the lake), for the Spark that is
    installed; `kafka` (a broker's class path); any other of SETS.
    brought: artifacts that the user brings, with what they need: such rows of `spark` are left out, and all of any
    other set that has one.
    Out: one path per row of the set; for `spark`, then whatever else is in `BRIDGE_JARS`. Where no connectors are
    pinned for this Spark, `spark` is that alone.
    Errors: SetupError JAR_MISSING (which jar, where it was looked for, what to do), JAVA_MISSING, USAGE.
    """
    if name not in SETS:
        raise SetupError("USAGE", details=f"no set of jars is named {name!r}: choose from {', '.join(SETS)}")
    kind, version = name, major_minor(installed_version() or "") or PINNED
    if name in _BY_SPARK and version != PINNED:
        name = f"{kind}-{version[0]}.{version[1]}"
    if kind in _NOT_PINNED and any(entry.startswith(_RUNTIMES[kind]) for entry in brought):
        return []
    if kind in _NOT_PINNED and name not in SETS:
        details = _NOT_PINNED[kind].format(version=installed_version(), engine=Hint.ENGINE)
        raise SetupError("JAR_MISSING", details=details)
    jar_set = [jar for jar in table() if name in jar.sets and jar.artifact not in brought]
    if kind != "spark" and len(jar_set) < sum(name in jar.sets for jar in table()):
        return []
    listed = listed_jars(os.environ.get("BRIDGE_JARS", ""))
    chosen = {jar: _listed_for(jar, listed) for jar in jar_set}
    fetched = _fetch([jar for jar, path in chosen.items() if path is None])
    paths = [path if path is not None else fetched[jar] for jar, path in chosen.items()]
    if kind == "spark":
        pinned = {jar.file_name for jar in table()}  # a copied cache also holds the broker's, which Spark must not get
        paths += [path for path in listed if path not in paths and path.name not in pinned]
    return paths


def listed_jars(setting: str) -> list[Path]:
    """BRIDGE_JARS: a comma list of jars and folders of them. SetupError JAR_MISSING for a name that is neither."""
    paths: list[Path] = []
    for name in filter(None, map(str.strip, setting.split(","))):
        path = Path(name).expanduser().absolute()
        if path.is_dir():
            paths.extend(sorted(path.glob("*.jar")))
        elif path.is_file():
            paths.append(path)
        else:
            raise SetupError("JAR_MISSING", details=f"BRIDGE_JARS names {name}, which is neither a file nor a folder")
    return list(dict.fromkeys(paths))


def is_complete(path: Path, jar: Jar) -> bool:
    """True if the file is there and is, to the byte, what the table says."""
    try:
        if path.stat().st_size != jar.size:
            return False
        with path.open("rb") as handle:
            return hashlib.file_digest(handle, "sha256").hexdigest() == jar.sha256
    except (FileNotFoundError, NotADirectoryError):
        return False


def _listed_for(jar: Jar, listed: Sequence[Path]) -> Path | None:
    """The user's file for this row: of the same name, or of the same artifact in another version (theirs to judge)."""
    shared = sum(row.artifact == jar.artifact and bool(row.sets & jar.sets) for row in table()) > 1
    version = re.compile(rf"{re.escape(jar.artifact)}-[0-9]")
    others = (path for path in listed if not shared and version.match(path.name))
    return next((path for path in listed if path.name == jar.file_name), None) or next(others, None)


def _fetch(jar_set: Sequence[Jar]) -> dict[Jar, Path]:
    paths = {jar: cache_dir() / "jars" / jar.file_name for jar in jar_set}
    if all(is_complete(path, jar) for jar, path in paths.items()):
        return paths
    folder = cache_dir() / "jars"
    try:
        with lock_file(folder / ".locks" / "fetch"):
            missing = [jar for jar, path in paths.items() if not is_complete(path, jar)]
            if missing:
                _say(f"fetching {len(missing)} jars ({sum(jar.size for jar in missing) / 1e6:.1f} MB) into {folder}")
            # biggest first, dealt out in turn: the runs take about equally long
            missing.sort(key=lambda jar: -jar.size)
            runs = max(min(_RUNS_AT_ONCE, len(missing)), -(-len(missing) // _JARS_PER_RUN))
            with ThreadPoolExecutor(_RUNS_AT_ONCE) as pool:
                done = [pool.submit(_fetch_together, missing[turn::runs], folder) for turn in range(runs)]
            for future in done:
                future.result()
    except OSError as error:
        details = f"{folder} can't be written: {reason_of(error)}. Set BRIDGE_CACHE to one that can."
        raise SetupError("JAR_MISSING", details=details) from error
    return paths


def _fetch_together(jar_set: Sequence[Jar], folder: Path) -> None:
    with tempfile.TemporaryDirectory(dir=folder, prefix=".fetch-") as temporary:
        text = _retrieve(jar_set, Path(temporary))
        for jar in jar_set:
            source = Path(temporary, jar.file_name)
            if is_complete(source, jar):
                os.replace(source, folder / jar.file_name)
                _say(f"  {jar.coordinates}  {jar.size / 1e6:.1f} MB")
            elif source.exists():
                details = (
                    f"{jar.coordinates} arrived, but its {source.stat().st_size} bytes are not the pinned ones (sha256 "
                    f"{jar.sha256}). The repository or a mirror serves another file. Set BRIDGE_IVY_SETTINGS to another"
                    " mirror, or put a file that you trust into BRIDGE_JARS."
                )
                raise SetupError("JAR_MISSING", details=details)
    absent = [jar for jar in jar_set if not (folder / jar.file_name).exists()]
    if not absent:
        return
    names = ", ".join(jar.coordinates for jar in absent)
    looked = "; ".join(dict.fromkeys(match[1] for match in _TRIED.finditer(text))) or "nothing"
    complaints = "; ".join(line.strip() for line in text.splitlines() if _COMPLAINT.search(line))
    why = f" ({complaints[:600]})" if complaints else ""
    details = (
        f"could not fetch {names} (not in BRIDGE_JARS, not in {cache_dir() / 'jars'}; asked: {looked}){why}. "
        "Is there a network? Behind a mirror, set BRIDGE_IVY_SETTINGS to an Ivy settings file that names it; behind a "
        "proxy, set JAVA_TOOL_OPTIONS=-Dhttps.proxyHost=… -Dhttps.proxyPort=…; without a network, copy the jars (or "
        "the cache folder of another machine) and set BRIDGE_JARS to their folder. What has arrived is kept."
    )
    raise SetupError("JAR_MISSING", details=details)


def _say(line: str) -> None:
    print(line, file=sys.stderr, flush=True)


def main(arguments: Sequence[str]) -> int:
    """Fetch the named sets and print the paths, one a line. Out: the exit code, 0 or 2."""
    try:
        for path in dict.fromkeys(path for name in (arguments or ["spark"]) for path in jars(name)):
            print(path)
    except SetupError as error:
        _say(f"error: {error.detail}")
        return 2
    return 0
