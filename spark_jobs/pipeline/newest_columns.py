"""A side's table view: whose newest columns, and in which zone its TIMESTAMP text is."""

from contextlib import suppress
from dataclasses import replace
from difflib import get_close_matches

from ticdc_bridge.clients.history import HistoryTables
from ticdc_bridge.schemas.inputs.schema_files import name_of
from ticdc_bridge.schemas.inputs.table_definitions import TableDefinitions
from ticdc_bridge.schemas.inspect.format_lookup import format_named
from ticdc_bridge.schemas.model.errors import Hint, SetupError, WireError
from ticdc_bridge.schemas.model.ports import TableLineage, TableSource
from ticdc_bridge.schemas.model.spark_types import EXACT
from ticdc_bridge.schemas.model.table import Table, TableId, TableVersion
from ticdc_bridge.spark_jobs.pipeline.codec_config import CodecConfig
from ticdc_bridge.spark_jobs.pipeline.same_columns import same_columns
from ticdc_bridge.spark_jobs.pipeline.table_view import Missing, with_default_of

_SHOWN = 5


def newest_table(config: CodecConfig, id_: TableId, missing: Missing = "null") -> Table:
    """The columns of the table as it is now: from its definitions, else from its newest registered value schema.

    missing: as TableView has it. With "default" the columns' defaults are those that they came with.
    """
    if config.tables is not None:
        version = config.tables.at(id_, None)
        if version is not None:
            return version.table if missing == "null" else _with_first_defaults(config.tables, version)
    from ticdc_bridge.spark_jobs.pipeline.avro_versions import newest_of, registered_versions

    versions = registered_versions(config.schemas, id_)
    if not versions.values:
        more = ", or a registry with its value schemas" if config.format == "avro" else ""
        details = f"table {id_}: its columns are not known; give its definitions ({Hint.DDL}, {Hint.HISTORY}){more}"
        details += "".join(f"; {e.subject} version {e.version}: {error.detail}" for e, error in versions.unreadable)
        details += _others(config, id_)
        raise SetupError("USAGE", details=details)
    return newest_of(versions.values, missing)


def _with_first_defaults(tables: TableSource, version: TableVersion) -> Table:
    newest = version.table
    first = {c.name: c for c in newest.columns}
    with suppress(WireError):  # nothing is known of the time before
        while (older := tables.at(newest.id, version.commit_ts)) is not None and older.commit_ts < version.commit_ts:
            version, pair = older, (older.table, newest)
            table, target = tables.in_same_history(*pair) if isinstance(tables, TableLineage) else pair
            if table.created_ts != target.created_ts:
                break
            first |= {column.name: then for then, column in same_columns(table, target).pairs}
    return replace(newest, columns=tuple(with_default_of(first[c.name], c, is_defined=True) for c in newest.columns))


def _others(config: CodecConfig, id_: TableId) -> str:
    """The tables whose columns are known, those first that are called much the same."""
    if isinstance(config.tables, TableDefinitions | HistoryTables):
        names = sorted({str(entry) for entry in config.tables.table_ids()})
    else:
        entries = (
            config.schemas.all() if config.format == "avro" else ()
        )  # Debezium's records are called Key and Envelope
        names = sorted({".".join(name) for entry in entries if (name := name_of(entry.schema)) is not None})
    if not names:
        return ""
    near = get_close_matches(str(id_), names, _SHOWN)
    shown = [*near, *(name for name in names if name not in near)][:_SHOWN]
    more = f" and {len(names) - len(shown)} more" if len(names) > len(shown) else ""
    return f". Known tables: {', '.join(shown)}{more}"


def with_newest(config: CodecConfig) -> CodecConfig:
    """The side, its view with the newest columns of its table. SetupError USAGE where they are not known."""
    view = config.view
    assert view is not None
    return replace(config, view=replace(view, table=newest_table(config, view.table.id, view.missing)))


def zone_of(config: CodecConfig) -> str:
    """The zone of the TIMESTAMP text that a side decodes to. SetupError USAGE where each message has another."""
    zone = config.options.time_zone
    types = config.view.types if config.view else EXACT
    if config.format == "auto" and types != EXACT and zone.upper() not in ("UTC", "Z"):
        chosen = f"{Hint.TYPES.of('typed')} with {Hint.FORMAT.of('auto')}"
        raise SetupError("USAGE", details=f"{chosen}: TIMESTAMP text has a zone for each format; name the format")
    return format_named(config.format).zone or zone
