"""The pinned table, the cache, and what happens where a jar can't be had.

A folder stands in for the repository: Ivy is given a settings file that names it.
"""

import dataclasses
import hashlib
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from ticdc_bridge.schemas.model.errors import SetupError
from ticdc_bridge.spark_jobs.runtime import jars, java_certificates

ROOT = Path(__file__).resolve().parents[3]

_IVY = """\
<ivysettings>
  <settings defaultResolver="folder"/>
  <resolvers>
    <filesystem name="folder" m2compatible="true">
      <artifact pattern="{folder}/[organisation]/[artifact]-[revision].[ext]"/>
    </filesystem>
  </resolvers>
</ivysettings>
"""
CONTENT = {"a": b"the jar a", "b": b"the jar b" * 1000, "c": b"c"}


def _row(artifact: str) -> jars.Jar:
    content = CONTENT[artifact]
    digest = hashlib.sha256(content).hexdigest()
    return jars.Jar("org.example", artifact, "1.0", frozenset({"spark"}), len(content), digest)


@pytest.fixture
def repository(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A repository folder with the jars of a table of three, an empty cache, and no jars of the user's."""
    folder = tmp_path / "repository" / "org" / "example"
    folder.mkdir(parents=True)
    for artifact, content in CONTENT.items():
        (folder / f"{artifact}-1.0.jar").write_bytes(content)
    settings = tmp_path / "settings.xml"
    settings.write_text(_IVY.format(folder=tmp_path / "repository"))
    monkeypatch.setenv("BRIDGE_IVY_SETTINGS", str(settings))
    monkeypatch.setenv("BRIDGE_CACHE", str(tmp_path / "cache"))
    monkeypatch.delenv("BRIDGE_JARS", raising=False)
    monkeypatch.setattr(jars, "table", lambda: tuple(map(_row, CONTENT)))
    return folder


def _cached(repository: Path) -> list[str]:
    folder = repository.parents[2] / "cache" / "jars"
    return sorted(path.name for path in folder.iterdir() if path.name != ".locks")


ALL = ["a-1.0.jar", "b-1.0.jar", "c-1.0.jar"]


def test_table_is_pinned_and_unambiguous() -> None:
    rows = jars.table()
    assert len({row.file_name for row in rows}) == len(rows)
    assert len([row for row in rows if "spark" in row.sets]) == 5
    assert len([row for row in rows if "kafka" in row.sets]) == 55
    for row in rows:
        assert re.fullmatch(r"[0-9a-f]{64}", row.sha256)
        assert row.size > 0
        assert row.sets <= set(jars.SETS)
        assert row.sets
    order = [(row.group, row.artifact, row.version) for row in rows]
    assert order == sorted(order)


@pytest.mark.parametrize(
    "name",
    [pytest.param(name, marks=[] if name in ("spark", "kafka", "delta") else [pytest.mark.slow]) for name in jars.SETS],
)
def test_the_pinned_jars_can_be_had(name: str) -> None:
    rows = [row for row in jars.table() if name in row.sets]
    assert all(jars.is_complete(path, row) for path, row in zip(jars.jars(name), rows, strict=False))


def test_fetches_once(repository: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> None:
    paths = jars.jars()
    assert [path.read_bytes() for path in paths] == list(CONTENT.values())
    out, err = capfd.readouterr()
    assert out == ""
    assert "fetching 3 jars" in err
    assert _cached(repository) == ALL
    monkeypatch.setenv("BRIDGE_IVY_SETTINGS", "no such file")
    assert jars.jars() == paths
    assert capfd.readouterr().err == ""


def test_mends_a_damaged_file(repository: Path, tmp_path: Path) -> None:
    folder = tmp_path / "cache" / "jars"
    folder.mkdir(parents=True)
    for artifact, content in {**CONTENT, "a": b"the jar X"}.items():
        (folder / f"{artifact}-1.0.jar").write_bytes(content)
    path = jars.jars()[0]
    assert path.parent == folder
    assert path.read_bytes() == CONTENT["a"]


def test_goes_on_where_it_stopped(repository: Path) -> None:
    (repository / "b-1.0.jar").rename(repository / "away")
    with pytest.raises(SetupError, match=r"org\.example:b:1\.0") as caught:
        jars.jars()
    assert caught.value.code == "JAR_MISSING"
    for piece in ("BRIDGE_JARS", "BRIDGE_IVY_SETTINGS", str(repository / "b-1.0.jar")):
        assert piece in caught.value.detail
    assert _cached(repository) == ["a-1.0.jar", "c-1.0.jar"]
    (repository / "away").rename(repository / "b-1.0.jar")
    for name in ("a-1.0.jar", "c-1.0.jar"):
        (repository / name).unlink()
    assert len(jars.jars()) == 3


def test_refuses_another_file(repository: Path) -> None:
    (repository / "a-1.0.jar").write_bytes(b"the jar Z")
    with pytest.raises(SetupError, match=r"org\.example:a:1\.0 arrived.*not the pinned ones"):
        jars.jars()
    assert "a-1.0.jar" not in _cached(repository)


def test_own_jars_come_first(repository: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    own = tmp_path / "own"
    own.mkdir()
    for name in ("a-1.0.jar", "b-2.5.jar", "extra.jar", "notes.txt"):
        (own / name).write_text(name)
    single = tmp_path / "single.jar"
    single.write_text("")
    monkeypatch.setenv("BRIDGE_JARS", f"{own}, {single}")
    paths = jars.jars()
    cached = tmp_path / "cache" / "jars" / "c-1.0.jar"
    assert paths == [own / "a-1.0.jar", own / "b-2.5.jar", cached, own / "extra.jar", single]


def test_own_folder_with_another_sets_jars(repository: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    brokers = dataclasses.replace(_row("c"), sets=frozenset({"kafka"}))
    monkeypatch.setattr(jars, "table", lambda: (_row("a"), brokers))
    for artifact in ("a", "c"):
        (tmp_path / f"{artifact}-1.0.jar").write_bytes(CONTENT[artifact])
    monkeypatch.setenv("BRIDGE_JARS", str(tmp_path))
    assert jars.jars("spark") == [tmp_path / "a-1.0.jar"]
    assert jars.jars("kafka") == [tmp_path / "c-1.0.jar"]


def test_settings_that_name_nothing(repository: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BRIDGE_IVY_SETTINGS", "nowhere.xml")
    with pytest.raises(SetupError, match=r"BRIDGE_IVY_SETTINGS names nowhere\.xml"):
        jars.jars()
    monkeypatch.setenv("BRIDGE_JARS", "nowhere")
    with pytest.raises(SetupError, match="BRIDGE_JARS names nowhere"):
        jars.jars()
    with pytest.raises(SetupError, match="no set of jars"):
        jars.jars("flink")


def test_cache_that_cannot_be_written(repository: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BRIDGE_CACHE", str(repository / "a-1.0.jar"))
    with pytest.raises(SetupError, match="BRIDGE_CACHE"):
        jars.jars()


@pytest.mark.parametrize("count", [2, pytest.param(3, marks=pytest.mark.slow)])
def test_processes_at_once(repository: Path, count: int) -> None:
    script = (
        "import sys; from tests.spark_jobs.runtime import test_jars as t; "
        "from ticdc_bridge.spark_jobs.runtime import jars;"
        "jars.table = lambda: tuple(map(t._row, t.CONTENT)); print(len(jars.jars()))"
    )
    running = [
        subprocess.Popen([sys.executable, "-c", script], cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        for _ in range(count)
    ]
    results = [process.communicate(timeout=120) for process in running]
    assert [out for out, _ in results] == [b"3\n"] * count, results
    assert _cached(repository) == ALL
    # whoever came second found the files there: each was taken once
    assert sum(err.count(b"org.example:") for _, err in results) == 3


def test_command_line(repository: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert jars.main([]) == 0
    assert _cached(repository) == ALL
    assert [os.path.basename(line) for line in capsys.readouterr().out.splitlines()] == ALL
    assert jars.main(["nonsense"]) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.startswith("error: no set of jars")


def test_trust_store_is_read_by_java(tmp_path: Path) -> None:
    from ticdc_bridge.spark_jobs.runtime.java import find_java

    certificates = java_certificates.system_certificates()
    assert certificates
    options = java_certificates.java_options(tmp_path)
    keytool = find_java().executable.with_name("keytool")
    store = options[0].partition("=")[2]
    listed = subprocess.run(
        [keytool, "-list", "-keystore", store, "-storepass", java_certificates.PASSWORD],
        capture_output=True,
        text=True,
        check=True,
    )
    assert listed.stdout.count("trustedCertEntry") == len(certificates)
