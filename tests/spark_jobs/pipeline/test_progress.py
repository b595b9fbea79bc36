"""What people see of work that takes long."""

import io

import pytest

from tests.support.processes import until
from ticdc_bridge.spark_jobs.pipeline.progress import report_slow_steps


def test_slow_work_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    reported = io.StringIO()
    monkeypatch.setattr("sys.stderr", reported)
    with report_slow_steps("merging", after=0.01, state=lambda: "stage 3: 1 of 2 tasks"):
        until(reported.getvalue, "a line", 30)
    assert reported.getvalue() == "merging (stage 3: 1 of 2 tasks, 0 s so far)\n"


def test_quick_work_is_not_reported(capsys: pytest.CaptureFixture[str]) -> None:
    with report_slow_steps("merging"):
        pass
    with pytest.raises(ValueError, match="of the work"), report_slow_steps("merging"):
        raise ValueError("of the work")
    assert capsys.readouterr().err == ""
