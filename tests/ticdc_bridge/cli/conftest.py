"""What commands are tried with: a folder of their own, and no settings from outside."""

from pathlib import Path

import pytest

from tests.service.conftest import _no_settings_from_outside, client

__all__ = ["_no_settings_from_outside", "client"]


@pytest.fixture(autouse=True)
def _elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
