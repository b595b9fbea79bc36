"""--conf and --packages: how they are read, and how they go together with our own settings."""

import os
from pathlib import Path

import pytest

from ticdc_bridge.schemas.model.errors import SetupError
from ticdc_bridge.spark_jobs.runtime import jars, user_name
from ticdc_bridge.spark_jobs.runtime.spark_settings import SparkSettings


def test_what_the_user_gives_wins_and_lists_are_joined() -> None:
    settings = SparkSettings.of(
        "local[2]", ["spark.a=1=2", "spark.jars=mine.jar", "spark.sql.extensions=x.Y, d.E"], ["g:a:1, g:b:2", "g:c:3"]
    )
    assert settings.packages == ("g:a:1", "g:b:2", "g:c:3")
    ours = {"spark.a": "0", "spark.b": "2", "spark.jars": "d.jar", "spark.sql.extensions": "d.E"}
    assert settings.over(ours).conf == {
        "spark.a": "1=2", "spark.b": "2", "spark.jars": "d.jar,mine.jar", "spark.sql.extensions": "d.E,x.Y"
    }  # fmt: skip
    for conf, packages, reported in (
        (["spark.a"], [], "--conf spark.a: KEY=VALUE"), (["=1"], [], "KEY=VALUE"),
        (["fs.s3a.endpoint=h"], [], r"--conf fs.s3a.endpoint: .* spark.hadoop.fs.s3a.endpoint"),
        ([], ["g:a:1,g:b"], "--packages g:b: GROUP:ARTIFACT:VERSION"), ([], ["a.jar"], "GROUP:ARTIFACT:VERSION"),
    ):  # fmt: skip
        with pytest.raises(SetupError, match=reported):
            SparkSettings.of(None, conf, packages)


def test_jars_that_the_user_brings_are_not_brought_twice(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(jars, "_fetch", lambda rows: {jar: f"/{jar.file_name}" for jar in rows})
    brought = SparkSettings.of(None, ["spark.jars.packages=io.delta:delta-spark_4.1_2.13:4.4.0"], []).artifacts
    assert brought == {"delta-spark_4.1_2.13"}
    assert (len(jars.jars("delta")), jars.jars("delta", brought)) == (2, [])
    names = [str(path) for path in jars.jars("spark", frozenset({"kafka-clients"}))]
    assert len(names) == len(jars.jars("spark")) - 1
    assert not any("kafka-clients" in name for name in names)


# ---- A user id without a name, as containers of OpenShift have: Spark's JVM is shown one.


def test_a_user_without_a_name_gets_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert user_name.variables_for_nameless_user(lambda: tmp_path) == {}
    monkeypatch.setattr(os, "getuid", lambda: 2_000_000_321)
    monkeypatch.setattr(user_name, "_FOLDERS", (str(tmp_path / "lib"),))
    with pytest.raises(SetupError, match=r"user id 2000000321 has no name.*libnss-wrapper"):
        user_name.variables_for_nameless_user(lambda: tmp_path)
    library = tmp_path / "lib" / "x86_64-linux-gnu" / "libnss_wrapper.so"
    library.parent.mkdir(parents=True)
    library.touch()
    monkeypatch.setenv("HOME", "/var/lib/x")
    monkeypatch.delenv("LD_PRELOAD", raising=False)
    made = user_name.variables_for_nameless_user(lambda: tmp_path)
    assert made["LD_PRELOAD"] == str(library)
    entry = Path(made["NSS_WRAPPER_PASSWD"]).read_text().split(":")
    assert entry[2:4] == ["2000000321", str(os.getgid())]
    assert entry[5] == "/var/lib/x"
