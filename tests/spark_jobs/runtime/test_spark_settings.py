"""--conf and --packages: how they are read, and how they go together with our own settings."""

from __future__ import annotations

import pytest

from ticdc_bridge.schemas.model.errors import SetupError
from ticdc_bridge.spark_jobs.runtime import jars
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
    for conf, packages, told in (
        (["spark.a"], [], "--conf spark.a: KEY=VALUE"), (["=1"], [], "KEY=VALUE"),
        (["fs.s3a.endpoint=h"], [], r"--conf fs.s3a.endpoint: .* spark.hadoop.fs.s3a.endpoint"),
        ([], ["g:a:1,g:b"], "--packages g:b: GROUP:ARTIFACT:VERSION"), ([], ["a.jar"], "GROUP:ARTIFACT:VERSION"),
    ):  # fmt: skip
        with pytest.raises(SetupError, match=told):
            SparkSettings.of(None, conf, packages)


def test_jars_that_the_user_brings_are_not_brought_twice(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(jars, "_fetch", lambda rows: {jar: f"/{jar.file_name}" for jar in rows})
    brought = SparkSettings.of(None, ["spark.jars.packages=io.delta:delta-spark_4.1_2.13:4.4.0"], []).artifacts
    assert brought == {"delta-spark_4.1_2.13"}
    assert (len(jars.jars("delta")), jars.jars("delta", brought)) == (2, [])
    names = [str(path) for path in jars.jars("spark", frozenset({"kafka-clients"}))]
    assert len(names) == len(jars.jars("spark")) - 1
    assert not any("kafka-clients" in name for name in names)
