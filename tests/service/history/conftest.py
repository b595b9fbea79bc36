from __future__ import annotations

from collections.abc import Iterator

import pytest

from service.store import open_store
from service.store.history import HistoryStore


@pytest.fixture
def histories(store_url: str) -> Iterator[HistoryStore]:
    """On each kind of store."""
    store = open_store(store_url)
    yield HistoryStore(store)
    store.close()
