"""Prints what an image consists of, as a CycloneDX 1.6 bill of materials in JSON (https://cyclonedx.org/docs/1.6/json).

    python scripts/sbom.py NAME > sbom.cdx.json      in the image, by the Python whose packages are meant

Listed are the packages of this Python, the jars of Spark and of our cache with their SHA-256, the Java of
BRIDGE_JAVA_HOME, and Debian's packages. The same image gives the same text: there is no time in it.
"""

import hashlib
import json
import os
import re
import subprocess
import sys
import zipfile
from collections.abc import Iterator
from contextlib import suppress
from importlib.metadata import PackageNotFoundError, distribution, distributions
from pathlib import Path
from shutil import which
from typing import Any
from urllib.parse import quote

Component = dict[str, Any]
_JAR = re.compile(r"(.+?)-(\d[\w.+-]*)\.jar")


def python_packages() -> Iterator[Component]:
    for entry in distributions():
        name = re.sub(r"[-_.]+", "-", entry.metadata["Name"]).lower()
        yield _component(name, entry.version, f"pkg:pypi/{name}@{quote(entry.version)}")


def jars(folder: Path) -> Iterator[Component]:
    """The jars of a folder; those whose group is not written in them have no purl."""
    for path in sorted(folder.glob("*.jar")):
        match = _JAR.fullmatch(path.name)
        name, version = match.groups() if match else (path.stem, "")
        group = _group_of(path, name)
        purl = f"pkg:maven/{group}/{name}@{quote(version)}" if group and version else None
        hashes = [{"alg": "SHA-256", "content": hashlib.sha256(path.read_bytes()).hexdigest()}]
        yield _component(name, version, purl, hashes=hashes, **({"group": group} if group else {}))


def _group_of(jar: Path, artifact: str) -> str | None:
    """The Maven group, of Maven's own file in the jar."""
    with zipfile.ZipFile(jar) as files:
        pattern = re.compile(rf"META-INF/maven/([^/]+)/{re.escape(artifact)}/pom\.properties")
        return next((match[1] for match in map(pattern.fullmatch, files.namelist()) if match), None)


def java(home: str) -> Iterator[Component]:
    release = Path(home, "release")
    if home and release.is_file():
        match = re.search(r'JAVA_VERSION="([^"]+)"', release.read_text(encoding="utf-8"))
        yield _component("openjdk", match[1] if match else "", None, kind="platform")


def debian_packages() -> Iterator[Component]:
    if which("dpkg-query") is None:
        return
    command = ["dpkg-query", "--show", "--showformat", "${Package} ${Version} ${Architecture}\n"]
    for line in subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines():
        name, version, architecture = line.split(" ")
        yield _component(name, version, f"pkg:deb/debian/{quote(name)}@{quote(version)}?arch={architecture}")


def bill_of_materials(name: str) -> dict[str, Any]:
    """In: the image's name. Out: the document."""
    folders = [Path(os.environ.get("BRIDGE_CACHE", "/nowhere"), "jars")]
    with suppress(PackageNotFoundError):
        folders.append(Path(str(distribution("pyspark").locate_file("pyspark/jars"))))
    components = [
        *python_packages(),
        *(jar for folder in folders for jar in jars(folder)),
        *java(os.environ.get("BRIDGE_JAVA_HOME", "")),
        *debian_packages(),
    ]
    components.sort(key=lambda entry: (entry["type"], entry.get("purl", ""), entry["name"], entry["version"]))
    return {
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "version": 1,
        "metadata": {"component": {"type": "container", "name": name}},
        "components": components,
    }


def _component(name: str, version: str, purl: str | None, kind: str = "library", **more: Any) -> Component:
    return {"type": kind, "name": name, "version": version, **({"purl": purl} if purl else {}), **more}


if __name__ == "__main__":
    json.dump(bill_of_materials(sys.argv[1]), sys.stdout, indent=1)
    print()
