"""`backup` and `restore`: a whole store as one file."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from ticdc_bridge.cli.options import DEFINITIONS, INPUT, OUTPUT, option
from ticdc_bridge.cli.output import CountingCommand, load_settings
from ticdc_bridge.schemas.model.credentials import mask_url
from ticdc_bridge.service.server.logs import print_line

_STORE: Final[Any] = option(
    DEFINITIONS, "URL", "sqlite:///PATH or postgresql://USER@HOST/DATABASE.",
    default=..., envvar="BRIDGE_STORE", show_envvar=True,
)  # fmt: skip


@dataclass(kw_only=True)
class Backup(CountingCommand):
    """Write all that a store holds to one file, while it is in use.

    The file fits every kind of store: what was in SQLite can be restored into PostgreSQL, and the other way round.

    Examples:
      ticdc-bridge backup --store sqlite:///registry.db --out registry.backup
    """

    store: str = _STORE
    out: Path = option(OUTPUT, "FILE", "The backup file. It appears when it is complete.", default=...)

    def run(self) -> int:
        from ticdc_bridge.service.registry.deadline import retry_until
        from ticdc_bridge.service.store import dialect_of
        from ticdc_bridge.service.store.backup import backup

        wait = load_settings().store_wait_seconds
        dialect = dialect_of(self.store, wait, 1)
        contents = retry_until(lambda: backup(dialect, self.out), wait)
        dialect.engine.dispose()
        what = f"{contents.summary()} from {mask_url(self.store)} in {self.out}"
        print_line(f"backup: {what} (sha256 of the rows {contents.sha256})")
        return self.report({**contents.rows, "sha256": contents.sha256})


@dataclass(kw_only=True)
class Restore(CountingCommand):
    """Fill an empty store from a backup: all of it or, when anything is wrong, nothing.

    The file is checked before, and what the store gives back is compared after. A store that holds the same already is
    left as it is; one that holds anything else is refused (exit code 2).

    Examples:
      ticdc-bridge restore --store postgresql://registry@db/registry --in registry.backup
    """

    store: str = _STORE
    source: Path = option(INPUT, "FILE", "What backup wrote.", "--in", default=...)

    def run(self) -> int:
        from ticdc_bridge.service.registry.deadline import retry_until
        from ticdc_bridge.service.store import SqlStore, dialect_of
        from ticdc_bridge.service.store.backup import restore

        wait = load_settings().store_wait_seconds
        dialect = dialect_of(self.store, wait, 1)
        target = SqlStore(dialect, wait)
        contents, same = retry_until(lambda: restore(target, dialect, self.source), wait)
        target.close()
        what = f"{'already' if same else 'now'} holds {contents.summary()} from {self.source}"
        print_line(f"restore: {mask_url(self.store)} {what} (compared)")
        return self.report({**contents.rows, "sha256": contents.sha256, "written": not same})
