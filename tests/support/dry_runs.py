"""A shop's tables, and questions about statements on them for tests of dry runs."""

from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from ticdc_bridge.schemas.ddl.executor.catalog import Catalog, new_catalog
from ticdc_bridge.schemas.model.table import TableId
from ticdc_bridge.service.changefeed.reader import read
from ticdc_bridge.service.changefeed.settings import ChangefeedSettings
from ticdc_bridge.service.ddl_check.check import CheckInput, check, with_snapshots
from ticdc_bridge.service.ddl_check.report import CheckReport
from ticdc_bridge.service.ddl_check.subjects import publish, targets
from ticdc_bridge.service.registry import register
from ticdc_bridge.service.registry.model import NewSchema
from ticdc_bridge.service.registry.registry import Registry
from ticdc_bridge.service.registry.view import RegistryView
from ticdc_bridge.service.store import open_store

ORDERS = (
    "CREATE TABLE `orders` (`id` bigint NOT NULL, `total` decimal(10,2) DEFAULT NULL, `st` enum('a','b') NOT NULL,"
    " `note` varchar(20) DEFAULT 'x', `at` datetime(3) DEFAULT NULL, `n` int NOT NULL, PRIMARY KEY (`id`))"
)
ITEMS = "CREATE TABLE `items` (`id` int NOT NULL, `v` int DEFAULT NULL, UNIQUE KEY `u` (`id`))"
PER_TABLE = "[[sink.dispatchers]]\nmatcher=['*.*']\ntopic='tidb_{schema}_{table}'\n"
ORDERS_ID = TableId("shop", "orders")


_FOLDER = TemporaryDirectory()


@cache
def nothing_registered() -> RegistryView:
    """The view of an empty registry."""
    return RegistryView(Registry(open_store(f"sqlite:///{Path(_FOLDER.name) / 'registry.db'}")))


def feed(query: str = "avro", config_text: str = PER_TABLE) -> ChangefeedSettings:
    return read(f"kafka://k/t?protocol={query}&schema-registry=http://r", config_text)


def shop() -> Catalog:
    return with_snapshots(new_catalog(), (ORDERS, ITEMS), "shop")


def register_all(registry: Registry, catalog: Catalog, settings_: ChangefeedSettings) -> None:
    """What TiCDC registers at the first row of each table."""
    database = catalog.databases.get("shop")
    assert database is not None
    for table in database.tables:
        (target,) = targets(settings_, None, table, nothing_registered())
        made = publish(table, target, "UTC")
        for subject, schema in zip(target.subjects or (), (made.key, made.value), strict=False):
            if schema is not None:
                register.register(registry, subject, NewSchema(text=schema))


def ask(
    sql: str, registry: Registry | None = None, settings_: ChangefeedSettings | None = None, **more: Any
) -> CheckReport:
    view = RegistryView(registry, "http://r") if registry else nothing_registered()
    return check(CheckInput(sql, "shop", shop(), settings_ or feed(), zone="UTC", **more), view)


def one(
    sql: str, registry: Registry | None = None, settings_: ChangefeedSettings | None = None, **more: Any
) -> dict[str, Any]:
    return ask(sql, registry, settings_, **more).form()
