"""A user id without a name, as containers of OpenShift have: Spark's JVM is shown one."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from ticdc_bridge.schemas.model.errors import SetupError
from ticdc_bridge.spark_jobs.runtime import user_name


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
