import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.service import Client, empty_store, environment
from ticdc_bridge.service.registry.registry import Registry
from ticdc_bridge.service.store import SqlStore, open_store
from ticdc_bridge.service.store.history_store import HistoryStore
from ticdc_bridge.service.testing import running_service


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Rules that are tried by way of a store are slow on PostgreSQL: its own part is tried by tests of the store."""
    for item in items:
        kind = getattr(item, "callspec", None)
        by_way_of = {"registry", "histories"} & set(getattr(item, "fixturenames", ()))
        if by_way_of and kind is not None and kind.params.get("store_url") == "postgresql":
            item.add_marker(pytest.mark.slow)


@pytest.fixture(scope="session", autouse=True)
def _no_settings_from_outside() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        for name in os.environ.keys() - environment().keys():
            patch.delenv(name)
        yield


@pytest.fixture
def client() -> Iterator[Client]:
    """A client of a fresh service."""
    with running_service() as url:
        yield Client(url)


@pytest.fixture(scope="module")
def shared_client() -> Iterator[Client]:
    """A client of one service for tests of a module that use subjects of their own."""
    with running_service() as url:
        yield Client(url)


@pytest.fixture(params=["sqlite", "postgresql"])
def store_url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """An empty store of each kind."""
    return empty_store(request.param, request, tmp_path / "registry.db")


@pytest.fixture
def store(store_url: str) -> Iterator[SqlStore]:
    opened = open_store(store_url)
    yield opened
    opened.close()


@pytest.fixture
def registry(store: SqlStore) -> Registry:
    return Registry(store)


@pytest.fixture
def histories(store_url: str) -> Iterator[HistoryStore]:
    """On each kind of store."""
    store = open_store(store_url)
    yield HistoryStore(store)
    store.close()
