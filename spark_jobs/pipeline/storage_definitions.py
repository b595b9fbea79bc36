"""Table definitions of a storage sink's folder: its statements say most, else its schema files."""

from collections.abc import Iterable

from ticdc_bridge.schemas.inputs.table_definitions import TableDefinitions
from ticdc_bridge.schemas.model.event import MAX_TSO
from ticdc_bridge.schemas.model.ports import TableSource
from ticdc_bridge.schemas.model.table import TableVersion
from ticdc_bridge.spark_jobs.io.storage_tables import TableFile
from ticdc_bridge.spark_jobs.pipeline.stream_definitions import StreamDefinitions


class StorageDefinitions(TableDefinitions):
    """From each schema file the table that the folder's statements make, where it has the same columns; else the file's
    own, which does not tell virtual columns, and of older releases no elements of ENUM and SET.

    statements: the tables that statements tell.
    """

    def __init__(self, files: Iterable[TableFile]) -> None:
        """SetupError USAGE for a damaged schema file."""
        self.statements = StreamDefinitions()
        files = sorted(files, key=lambda file: file.version)
        for file in files:
            if (statement := file.statement()) is not None:
                self.statements.learn(statement)
        super().__init__([version for file in files if (version := self._version(file)) is not None])

    def _version(self, file: TableFile) -> TableVersion | None:
        stated = self.statements.at(file.id, min(file.version + 1, MAX_TSO))
        if stated is not None and [c.name for c in stated.table.columns] == list(file.types):
            return TableVersion(file.version, stated.table)
        return file.table_version()


def stated_tables(tables: TableSource | None) -> TableSource | None:
    """Definitions that tell virtual columns: those of statements, where others are a storage sink's schema files."""
    return tables.statements if isinstance(tables, StorageDefinitions) else tables
