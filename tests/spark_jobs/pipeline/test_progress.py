"""What people see of work that takes long."""

from __future__ import annotations

import io

import pytest

from tests.support.processes import until
from ticdc_bridge.spark_jobs.pipeline.progress import tell_slow_work


def test_slow_work_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    told = io.StringIO()
    monkeypatch.setattr("sys.stderr", told)
    with tell_slow_work("merging", after=0.01, state=lambda: "stage 3: 1 of 2 tasks"):
        until(told.getvalue, "a line", 30)
    assert told.getvalue() == "merging (stage 3: 1 of 2 tasks, 0 s so far)\n"


def test_quick_work_is_not_told(capsys: pytest.CaptureFixture[str]) -> None:
    with tell_slow_work("merging"):
        pass
    with pytest.raises(ValueError, match="of the work"), tell_slow_work("merging"):
        raise ValueError("of the work")
    assert capsys.readouterr().err == ""
