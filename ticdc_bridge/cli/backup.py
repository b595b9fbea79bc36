"""`backup` and `restore`: a whole store as one file."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from ticdc_bridge.cli.options import RequiredStoreUrl
from ticdc_bridge.cli.output import exit_with, load_settings
from ticdc_bridge.schemas.model.credentials import mask_url
from ticdc_bridge.schemas.model.errors import BridgeError
from ticdc_bridge.service.server.logs import print_line


def backup(
    store: RequiredStoreUrl,
    out: Annotated[Path, typer.Option(metavar="FILE", help="The backup file. It appears when it is complete.")],
) -> None:
    """Write all that a store holds to one file, while it is in use.

    The file fits every kind of store: what was in SQLite can be restored into PostgreSQL, and the other way round.

    Examples:
      ticdc-bridge backup --store sqlite:///registry.db --out registry.backup
    """
    from ticdc_bridge.service.registry.deadline import retry_until
    from ticdc_bridge.service.store import dialect_of
    from ticdc_bridge.service.store.backup import backup as write_backup

    settings = load_settings()
    try:
        dialect = dialect_of(store, settings.store_wait_seconds, 1)
        contents = retry_until(lambda: write_backup(dialect, out), settings.store_wait_seconds)
        dialect.engine.dispose()
    except BridgeError as error:
        exit_with(error.detail)
    print_line(f"backup: {contents.summary()} from {mask_url(store)} in {out} (sha256 of the rows {contents.sha256})")


def restore(
    store: RequiredStoreUrl, source: Annotated[Path, typer.Option("--in", metavar="FILE", help="What backup wrote.")]
) -> None:
    """Fill an empty store from a backup: all of it or, when anything is wrong, nothing.

    The file is checked before, and what the store gives back is compared after. A store that holds the same already is
    left as it is; one that holds anything else is refused (exit code 2).

    Examples:
      ticdc-bridge restore --store postgresql://registry@db/registry --in registry.backup
    """
    from ticdc_bridge.service.registry.deadline import retry_until
    from ticdc_bridge.service.store import SqlStore, dialect_of
    from ticdc_bridge.service.store.backup import restore as read_backup

    settings = load_settings()
    try:
        dialect = dialect_of(store, settings.store_wait_seconds, 1)
        target = SqlStore(dialect, settings.store_wait_seconds)
        contents, same = retry_until(lambda: read_backup(target, dialect, source), settings.store_wait_seconds)
        target.close()
    except BridgeError as error:
        exit_with(error.detail)
    what = f"{contents.summary()} from {source}"
    print_line(f"restore: {mask_url(store)} {'already holds' if same else 'now holds'} {what} (compared)")
