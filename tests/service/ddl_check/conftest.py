"""What the tests of dry runs share."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from ticdc_bridge.service.registry.registry import Registry
from ticdc_bridge.service.store import open_store


@pytest.fixture
def fresh(tmp_path: Path) -> Iterator[Registry]:
    store = open_store(f"sqlite:///{tmp_path / 'dry.db'}")
    yield Registry(store)
    store.close()
