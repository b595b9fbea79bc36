from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from service.store import open_store
from service.store.history import HistoryStore


@pytest.fixture
def histories(tmp_path: Path) -> Iterator[HistoryStore]:
    store = open_store(f"sqlite:///{tmp_path / 'registry.db'}")
    yield HistoryStore(store)
    store.close()
