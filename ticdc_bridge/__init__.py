"""The public API of ticdc-bridge (docs/api.md; its types are in `__init__.pyi`). All other names may change.

Importing the package loads nothing but the standard library: a name is loaded when it is asked for. The names of Spark
raise SetupError USAGE with Spark 3. In a checkout `ticdc_bridge/schemas`, `service` and `spark_jobs` are links to the
folders beside it (docs/decisions/0047-one-name.md).
"""

from importlib import import_module
from typing import Any, Final

__version__ = "0.1.0"  # pyproject.toml has the same; a test compares them
_MODULES: Final = {
    "schemas.model.errors": ("SetupError", "WireError"),
    "schemas.model.event": ("DdlEvent", "Message", "RowChange", "Watermark"),
    "schemas.model.ports": ("SchemaSource", "TableSource"),
    "schemas.plain.writer": ("plain_event",),
    "spark_jobs.pipeline.single_messages": ("Decoder", "Encoder"),
    "clients.history": ("HistoryTables",),
    "spark_jobs.spark.api": ("count_changes", "decode", "encode", "transcode"),
    "spark_jobs.spark.data_source": ("datasource",),
    "spark_jobs.spark.session": ("spark_session",),
    "spark_jobs.snapshots.python_load": ("load",),
    "spark_jobs.snapshots.reconcile_job": ("reconcile",),
    "spark_jobs.streaming.python_merge": ("changelog", "merge"),
}
_HOMES: Final = {name: module for module, names in _MODULES.items() for name in names}
__all__ = sorted(_HOMES)


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    if _HOMES[name].startswith(("spark_jobs.spark", "spark_jobs.snapshots", "spark_jobs.streaming")):
        import_module(f"{__name__}.spark_jobs.runtime.spark_version").check_spark_version()
    module = import_module(f"{__name__}.{_HOMES[name]}")
    return module if name == "datasource" else getattr(module, name)
